package cuda

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
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
	"github.com/berth-onnx/berth/ssa"
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

func (b countingBackend) Open(ctx context.Context, arena []byte, shared any, budget ndarray.Budget) (backend.Memory, error) {
	m, err := newMemory(ctx, b.machine, arena, shared, budget, b.limit)
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

// small are the models that run always, beside those that are reduced. BERTH_CUDA_MODELS=reduced runs all, the largest reduced, in minutes;
// =all runs all at their full size; a list of names runs those.
const small = `bert_mini bilstm_gru_ctc conv_loop ddddocr_quantized delay_line_loop gpt2_mini_kv gru_greedy_decoder mamba_scan_loop
	silero_vad silero_vad_ifless torchscript_loop_if wakeword`

// TestModels runs whole models on the interpreter: no check of it finds anything, and the results are those that were recorded.
func TestModels(t *testing.T) {
	cases, err := conformance.Open(shareddata.Path(t, "models"))
	require.NoError(t, err)
	light, err := conformance.Open(shareddata.Path(t, "onnx-conformance", "light.tar.gz"))
	require.NoError(t, err)
	sum, m := new(*tally), &machine{open: func() (device.Device, error) { return sim.New(sim.Options{Errors: 2}), nil }}
	backend.Register("cuda-test-models", func(fast backend.Backend) backend.Backend {
		return countingBackend{newOn("cuda-test-models", m, fast), sum}
	})
	wanted, ran := strings.Fields(cmp.Or(os.Getenv("BERTH_CUDA_MODELS"), small)), 0
	for _, c := range append(cases, light...) {
		isReduced := largest[c.Name] > 0 && slices.Contains(wanted, "reduced")
		if !slices.Contains(wanted, c.Name) && !slices.Contains(wanted, "all") && !slices.Contains(wanted, "reduced") || isReduced {
			continue
		}
		ran++
		*sum = &tally{host: map[string]int{}}
		start := time.Now()
		assert.NoError(t, conformance.Verify(t.Context(), c, whole("cuda-test-models", sum), conformance.Tolerance{Rtol: 1e-3, Atol: 1e-4}))
		assert.Positive(t, (*sum).stats.Launches, c.Name)
		if c.Name != "mamba_scan_loop" { // whose recorded inputs are of no steps once: there is nothing to compute
			assert.Empty(t, (*sum).host, c.Name)
		}
		t.Logf("%s: %s; %.1f s", c.Name, *sum, time.Since(start).Seconds())
	}
	if !slices.Contains(wanted, "all") && !slices.Contains(wanted, "reduced") {
		assert.Len(t, wanted, ran, "models by these names")
	}
}

// largest are the models of which a small variant runs always, with the height and width of its input.
var largest = map[string]int{"light_vgg19": 32, "light_zfnet512": 64, "light_resnet50": 32, "light_densenet121": 32, "light_inception_v1": 64, "light_inception_v2": 32}

// TestReducedModels runs the largest models with a quarter of their channels on small images, every layer of them, with weights that are drawn,
// and compares with the host's kernels.
func TestReducedModels(t *testing.T) {
	light, err := conformance.Open(shareddata.Path(t, "onnx-conformance", "light.tar.gz"))
	require.NoError(t, err)
	ran := 0
	for _, c := range light {
		size := largest[c.Name]
		if size == 0 {
			continue
		}
		ran++
		t.Run(c.Name, func(t *testing.T) {
			whole, err := openCase(c)
			require.NoError(t, err)
			defer whole.Close()
			g, err := whole.Folded(t.Context())
			require.NoError(t, err)
			require.NoError(t, reduce(g, size))
			m := berth.FromModule(&ssa.Module{Graph: g, IR: 10, Opsets: []ssa.Opset{{Version: 22}}})
			defer m.Close()
			in := map[string]ndarray.Value{g.Params[0].Name: wave(3, 1, 3, size, size)}
			want, err := m.RunValues(t.Context(), in)
			require.NoError(t, err)
			before, start := simulated.launches.Load(), time.Now()
			got, err := m.RunValues(t.Context(), in, berth.WithBackend(SimName))
			require.NoError(t, err)
			assert.Positive(t, simulated.launches.Load()-before)
			differs := false
			for name, v := range want {
				w, g := v.(*ndarray.Array), got[name].(*ndarray.Array)
				require.Equal(t, w.Shape, g.Shape)
				for i := range w.Len() {
					require.InDelta(t, w.Float(i), g.Float(i), 1e-4+1e-3*math.Abs(w.Float(i)), "%s[%d]", name, i)
					differs = differs || math.Abs(w.Float(i)-w.Float(0)) > 1e-2*math.Abs(w.Float(0))
				}
			}
			assert.True(t, differs, "all results are the same: the model says nothing")
			t.Logf("%d nodes, %.1f s", len(g.Nodes), time.Since(start).Seconds())
		})
	}
	assert.Equal(t, len(largest), ran)
}

// reduce makes a classifier of images small: its input, its channels, and what follows from them.
func reduce(g *ssa.Graph, size int) error {
	r := rand.New(rand.NewPCG(uint64(size), uint64(len(g.Nodes))))
	g.Params[0].Type = ssa.StaticTensor(ndarray.Float32, 1, 3, size, size)
	for _, v := range slices.Clone(g.Values()) {
		if v == nil || v.Const == nil || v.Const.DType() != ndarray.Float32 || len(v.Const.Shape()) == 0 {
			continue
		}
		shape := slices.Clone(v.Const.Shape())
		for i, d := range shape {
			if d >= 16 {
				shape[i] = d / 4
			}
		}
		setWeight(v, r, 1, shape...)
	}
	for _, n := range g.Nodes {
		for _, o := range n.Out {
			o.Type = ssa.Type{}
		}
		in, _ := n.In[0].Type.Static()
		switch n.Op {
		case "AveragePool":
			if n.Attr("kernel_shape").Ints[0] == 7 { // the one over all that is left
				n.Op, n.Attrs = "GlobalAveragePool", nil
			}
		case "Reshape":
			n.SetInput(1, g.AddConst(n.Out[0].Name+"_rows", ssa.NewConstant(ndarray.Of([]int64{1, -1}, 2))))
		case "Gemm":
			rows := n.In[1].Const.Shape()[0]
			setWeight(n.In[1], r, 10, rows, in[1])
		}
		if err := ops.Infer(n); err != nil {
			return err
		}
	}
	return ops.InferGraph(g)
}

// setWeight draws a weight: filters and matrices around zero, by what they sum over; others, of which some are variances, above it.
func setWeight(v *ssa.Value, r *rand.Rand, gain float64, shape ...int) {
	a := ndarray.Must(ndarray.Float32, shape...)
	span, low := 1.0, 0.5
	if over := ndarray.Product(shape[1:]); len(shape) > 1 && over > 1 && shape[0] > 1 {
		span = 2 * gain * math.Sqrt(6/float64(over))
		low = -span / 2
	}
	for i := range a.Len() {
		a.SetFloat(i, low+span*r.Float64())
	}
	v.Const, v.Type = ssa.NewConstant(a), ssa.StaticTensor(ndarray.Float32, shape...)
}
