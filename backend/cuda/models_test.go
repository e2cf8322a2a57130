package cuda

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth"
	"github.com/berth-onnx/berth/backend"
	"github.com/berth-onnx/berth/backend/cuda/internal/device"
	"github.com/berth-onnx/berth/backend/cuda/internal/sim"
	"github.com/berth-onnx/berth/internal/conformance"
	"github.com/berth-onnx/berth/internal/shareddata"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
)

// tally is what runs of a model did.
type tally struct {
	device, joins int            // nodes executed on the device: by kernels, by copies
	host          map[string]int // those on the host, by operator
	stats         stats          // of all runs
	memory        *memory        // of the last session
}

// String is a line.
func (c *tally) String() string {
	var ops []string
	for _, op := range slices.Sorted(maps.Keys(c.host)) {
		ops = append(ops, fmt.Sprintf("%s %d", op, c.host[op]))
	}
	return fmt.Sprintf("%d kernels' nodes, %d joins, on the host %s; %s", c.device, c.joins, strings.Join(append(ops, "none")[:max(1, len(ops))], ", "), c.stats.String())
}

// countingBackend counts where the nodes of its sessions run.
type countingBackend struct {
	*executor
	sum **tally
}

func (b countingBackend) Open(arena []byte, budget ndarray.Budget) (backend.Memory, error) {
	m, err := newMemory(b.machine, arena, budget)
	(*b.sum).memory = m
	return countingMemory{m, *b.sum}, err
}

type countingMemory struct {
	*memory
	sum *tally
}

func (m countingMemory) Run(k ops.Kernel, c *ops.Call) error {
	before := m.stats.HostNodes
	err := m.memory.Run(k, c)
	if _, isJoin := k.(backend.Join); isJoin {
		m.sum.joins++
	} else if m.stats.HostNodes == before {
		m.sum.device++
	} else {
		m.sum.host[c.Node.Op]++
	}
	return err
}

// whole prepares a case for a backend, compiled for the very sizes of its inputs.
func whole(name string, sum **tally) conformance.Prepare {
	return func(_ context.Context, c *conformance.Case) (conformance.Runner, func() error, error) {
		m, err := openCase(c)
		if err != nil {
			return nil, nil, err
		}
		run := func(ctx context.Context, in []conformance.Named) (out []conformance.Named, err error) {
			opts, given := []berth.Option{berth.WithBackend(name)}, map[string]ndarray.Value{}
			for _, v := range in {
				given[v.Name] = v.Value
				if a, ok := v.Value.(*ndarray.Array); ok {
					opts = append(opts, berth.WithShape(v.Name, a.Shape...))
				}
			}
			p, err := m.Compile(ctx, opts...)
			if err != nil {
				return nil, err
			}
			got, err := p.RunValues(ctx, given)
			if err != nil {
				return nil, err
			}
			(*sum).add()
			for _, o := range m.Outputs() {
				out = append(out, conformance.Named{Name: o.Name, Value: got[o.Name]})
			}
			return out, nil
		}
		return run, m.Close, nil
	}
}

// add adds what the last run did.
func (c *tally) add() {
	s := &c.memory.stats
	c.stats.Launches += s.Launches
	c.stats.HostNodes += s.HostNodes
	c.stats.BytesIn += s.BytesIn
	c.stats.BytesOut += s.BytesOut
	c.stats.BytesMoved += s.BytesMoved
}

// small are the models that run always. BERTH_CUDA_MODELS=all runs all of them, at their full size, which takes minutes; a list of
// names runs those.
const small = `bert_mini bilstm_gru_ctc conv_loop ddddocr_quantized delay_line_loop gpt2_mini_kv gru_greedy_decoder mamba_scan_loop
	silero_vad silero_vad_ifless torchscript_loop_if wakeword`

// TestModels runs whole models on the interpreter: no check of it finds anything, and the results are those that were recorded.
func TestModels(t *testing.T) {
	cases, err := conformance.Open(shareddata.Path(t, "models"))
	require.NoError(t, err)
	light, err := conformance.Open(shareddata.Path(t, "onnx-conformance", "light.tar.gz"))
	require.NoError(t, err)
	sum, m := new(*tally), &machine{open: func() (device.Device, error) { return sim.New(sim.Options{}), nil }}
	backend.Register("cuda-test-models", func(fast backend.Backend) backend.Backend {
		return countingBackend{newOn("cuda-test-models", m, fast), sum}
	})
	wanted, ran := strings.Fields(cmp.Or(os.Getenv("BERTH_CUDA_MODELS"), small)), 0
	for _, c := range append(cases, light...) {
		if !slices.Contains(wanted, c.Name) && !slices.Contains(wanted, "all") {
			continue
		}
		ran++
		*sum = &tally{host: map[string]int{}}
		start := time.Now()
		assert.NoError(t, conformance.Verify(t.Context(), c, whole("cuda-test-models", sum), conformance.Tolerance{Rtol: 1e-3, Atol: 1e-4}))
		assert.Positive(t, (*sum).stats.Launches, c.Name)
		t.Logf("%s: %s; %.1f s", c.Name, *sum, time.Since(start).Seconds())
	}
	if !slices.Contains(wanted, "all") {
		assert.Len(t, wanted, ran, "models by these names")
	}
}
