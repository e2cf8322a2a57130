package onnxgo_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/owulveryck/onnx-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"gorgonia.org/tensor"

	"github.com/berth-onnx/berth/backend/gorgonia"
	"github.com/berth-onnx/berth/backend/onnxgo"
	"github.com/berth-onnx/berth/internal/conformance"
	"github.com/berth-onnx/berth/internal/shareddata"
	"github.com/berth-onnx/berth/ndarray"
)

// errCarried marks what onnx-go can not carry, whatever its backend: what its decoder refuses, values that are no tensors.
var errCarried = errors.New("not carried by onnx-go")

// tolerance is that of the other tests of recorded models.
var tolerance = conformance.Tolerance{Rtol: 1e-3, Atol: 1e-4}

// through runs a case by onnx-go's API over a graph.
func through(decode func(g *onnxgo.Graph, m *onnx.Model, c *conformance.Case) error) conformance.Prepare {
	return func(_ context.Context, c *conformance.Case) (conformance.Runner, func() error, error) {
		g := onnxgo.NewGraph()
		m := onnx.NewModel(g)
		if err := decode(g, m, c); err != nil {
			return nil, nil, err
		}
		return func(ctx context.Context, in []conformance.Named) ([]conformance.Named, error) {
			if err := setAll(m, in); err != nil {
				return nil, err
			}
			if err := g.RunContext(ctx); err != nil {
				return nil, err
			}
			return results(m)
		}, g.Close, nil
	}
}

func setAll(m *onnx.Model, in []conformance.Named) error {
	for _, v := range in {
		n, ok := m.GetNodeByName(v.Name)
		a, isTensor := v.Value.(*ndarray.Array)
		if !ok || !isTensor {
			return fmt.Errorf("input %q: %w", v.Name, errCarried)
		}
		d, err := gorgonia.DenseOf(a)
		if err != nil {
			return err
		}
		if err := n.(onnx.DataCarrier).SetTensor(d); err != nil {
			return err
		}
	}
	return nil
}

func results(m *onnx.Model) (out []conformance.Named, err error) {
	list, err := m.GetOutputTensors()
	if err != nil {
		return nil, err
	}
	for i, y := range list {
		if y == nil {
			return nil, fmt.Errorf("output %d is nil", i)
		}
		a, err := gorgonia.ArrayOf(y.(*tensor.Dense))
		if err != nil {
			return nil, err
		}
		out = append(out, conformance.Named{Value: a})
	}
	return out, nil
}

// unchanged decodes as an existing program does. onnx-go's decoder panics on some files.
func unchanged(_ *onnxgo.Graph, m *onnx.Model, c *conformance.Case) (err error) {
	data, err := c.ModelBytes()
	if err != nil {
		return err
	}
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%w: panic: %v", errCarried, r)
		}
	}()
	if err := m.UnmarshalBinary(data); err != nil {
		return fmt.Errorf("%w: %w", errCarried, err)
	}
	return nil
}

// itself has the graph read the model, from its file if it has one.
func itself(g *onnxgo.Graph, m *onnx.Model, c *conformance.Case) error {
	if path := c.ModelPath(); path != "" {
		return g.Open(m, path)
	}
	data, err := c.ModelBytes()
	if err != nil {
		return err
	}
	return g.Parse(m, data)
}

// carried lists the recorded models that run without the file, decoded by onnx-go.
var carried = map[string]bool{
	"basic_pitch": true, "bilstm_gru_ctc": true, "gpt2_mini_kv": true, "mobilenetv3_small": true, "nudenet_320n": true,
	"ppocr_rec": true, "unet_groupnorm": true, "vit_mini": true, "wakeword": true,
}

// uncarried lists the others, and what onnx-go's decoder says to them.
var uncarried = map[string]string{
	"bert_mini": "No data found", "ppocr_det": "No data found", // empty tensors
	"conv_loop": "Unable to decode data", "delay_line_loop": "Unable to decode data", "gru_greedy_decoder": "Unable to decode data", // scalars that are raw bytes of booleans
	"mamba_scan_loop": "Unable to decode data", "torchscript_loop_if": "Unable to decode data",
	"ddddocr_quantized": "Unknown type uint8",
	"ppocr_cls":         "panic: negative dimension size", // of an input
	"silero_vad":        "else_branch", "silero_vad_ifless": "then_branch",
}

// TestRecordedModels runs recorded models of every kind through onnx-go: all of them where the graph reads the file, and
// those that onnx-go can carry as an existing program decodes them.
func TestRecordedModels(t *testing.T) {
	cases, err := conformance.Open(shareddata.Path(t, "models"))
	require.NoError(t, err)
	for _, c := range cases {
		t.Run(c.Name, func(t *testing.T) {
			assert.NoError(t, conformance.Verify(t.Context(), c, through(itself), tolerance))
			err := conformance.Verify(t.Context(), c, through(unchanged), tolerance)
			if carried[c.Name] {
				assert.NoError(t, err)
				return
			}
			assert.ErrorIs(t, err, errCarried, "it runs, and is not listed, or fails by other means")
			require.NotEmpty(t, uncarried[c.Name])
			assert.ErrorContains(t, err, uncarried[c.Name])
		})
	}
}

// TestRecordedOperators runs the archives of ONNX. What an existing program decodes gives the recorded results, or is refused
// by a LossError; it is never another result. Where the graph reads the file, only values that are no tensors are refused.
func TestRecordedOperators(t *testing.T) {
	archives, err := filepath.Glob(filepath.Join(shareddata.Path(t, "onnx-conformance"), "*.tar.gz"))
	require.NoError(t, err)
	require.NotEmpty(t, archives)
	for _, path := range archives {
		name := strings.TrimSuffix(filepath.Base(path), ".tar.gz")
		t.Run(name, func(t *testing.T) {
			if name == "node" && testing.Short() {
				t.Skip("1,802 cases")
			}
			cases, err := conformance.Open(path)
			require.NoError(t, err)
			passed, refused := 0, 0
			for _, c := range cases {
				switch err := conformance.Verify(t.Context(), c, through(unchanged), tolerance); {
				case err == nil:
					passed++
				case name != "node" || !isRefusal(err):
					assert.NoError(t, err, "decoded by onnx-go")
				default:
					refused++
				}
				if err := conformance.Verify(t.Context(), c, through(itself), tolerance); !errors.Is(err, errCarried) && !isNoTensor(err) {
					assert.NoError(t, err, "read by the graph")
				}
			}
			t.Logf("%d of %d pass as onnx-go decodes them, %d are refused", passed, len(cases), refused)
			assert.Greater(t, 6*passed, 5*len(cases))
		})
	}
}

// isRefusal reports that a case was not run, for a reason that the error gives.
func isRefusal(err error) bool {
	var loss *onnxgo.LossError
	return errors.Is(err, errCarried) || errors.As(err, &loss)
}

// isNoTensor reports that a result is a sequence, optional or map.
func isNoTensor(err error) bool {
	var graph *onnxgo.GraphError
	return errors.As(err, &graph) && strings.Contains(graph.Reason, "carries tensors only")
}
