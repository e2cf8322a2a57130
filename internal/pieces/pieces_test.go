package pieces_test

import (
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth/backend"
	"github.com/berth-onnx/berth/internal/cpu"
	_ "github.com/berth-onnx/berth/internal/ops/backward"
	"github.com/berth-onnx/berth/internal/pieces"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	_ "github.com/berth-onnx/berth/ops/standard"
	"github.com/berth-onnx/berth/ssa"
)

func init() { cpu.LinkTraining() }

// cases are nodes large enough for pieces, the last one of each text.
var cases = map[string]string{
	"elementwise":           `in %x: T[16,8,1024] in %y: T[16,8,1024] %z = Mul(%x, %y) out %z`,
	"broadcast":             `in %x: T[16,8,1024] in %y: T[8,1] %z = Sub(%x, %y) out %z`,
	"a constant":            `in %x: T[16,8,1024] const %y: T[] = 0.5 %z = Mul(%x, %y) out %z`,
	"one operand":           `in %x: T[16,8,1024] %z = Tanh(%x) out %z`,
	"comparisons":           `in %x: T[16,8,1024] in %y: T[16,8,1024] %z = Greater(%x, %y) out %z`,
	"sums of the batch":     `in %x: T[16,8,1024] const %a: int64[2] = [0,2] %z = ReduceSum(%x, %a) out %z`,
	"means of the batch":    `in %x: T[16,8,1024] const %a: int64[2] = [0,2] %z = ReduceMean(%x, %a) out %z`,
	"sums of rows":          `in %x: T[16,8,1024] const %a: int64[1] = [2] %z = ReduceSum(%x, %a) out %z`,
	"softmax":               `in %x: T[16,8,1024] %z = Softmax(%x) out %z`,
	"normalization":         `in %x: T[16,8,1024] in %s: T[1024] in %b: T[1024] %z = LayerNormalization(%x, %s, %b) out %z`,
	"products of rows":      `in %x: T[16,64,256] in %w: T[256,128] %z = MatMul(%x, %w) out %z`,
	"products of columns":   `in %x: T[256,512] in %w: T[256,128] %z = Gemm(%x, %w) [transA=1] out %z`,
	"products over a sum":   `in %x: T[256,512] in %w: T[256,128] in %c: T[512,128] %z = berth.internal::Accumulate(%x, %w, %c) [transA=1, beta=0.5] out %z`,
	"convolution":           `in %x: T[8,8,32,32] in %w: T[16,8,3,3] in %b: T[16] %z = Conv(%x, %w, %b) [pads=[1,1,1,1]] out %z`,
	"its derivative":        `in %x: T[8,8,32,32] in %d: T[8,16,32,32] %z = berth.internal::ConvWeights(%x, %d) [kernel_shape=[3,3], strides=[1,1], dilations=[1,1], pads=[1,1,1,1]] out %z`,
	"a pool's derivative":   `in %x: T[8,16,32,32] in %d: T[8,16,16,16] %z = berth.internal::MaxPoolGradient(%x, %d) [kernel_shape=[2,2], strides=[2,2], dilations=[1,1], pads=[0,0,0,0]] out %z`,
	"statistics of a batch": `in %x: T[8,16,32,32] in %s: T[16] in %b: T[16] in %m: T[16] in %v: T[16] %z, %n, %u = BatchNormalization(%x, %s, %b, %m, %v) [training_mode=1] out %z, %n, %u`,
}

// TestPieces: a node in pieces has the results of the whole node, but for roundings, with any number of threads, over operands as well, in less workspace.
func TestPieces(t *testing.T) {
	for name, text := range cases {
		for _, dt := range []ndarray.DType{ndarray.Float16, ndarray.BFloat16} {
			for _, threads := range []int{1, 2} {
				t.Run(name+" "+dt.String(), func(t *testing.T) {
					g, err := ssa.ParseGraph(`graph "g" { ` + strings.ReplaceAll(text, "T[", dt.String()+"[") + ` }`)
					require.NoError(t, err)
					require.NoError(t, ops.InferGraph(g))
					n := g.Nodes[0]
					whole, err := cpu.New().Prepare(t.Context(), n, threads)
					require.NoError(t, err)
					cut, err := pieces.Prepare(t.Context(), cpu.New(), n, threads)
					require.NoError(t, err)
					assert.Less(t, cut.Scratch, whole.Scratch)
					assert.Contains(t, backend.ChoiceOf(cut.Kernel).Algorithm, "in float32")
					want := run(t, n, whole, threads, false)
					near(t, want, run(t, n, cut, threads, false))
					if len(ops.InPlacePairs(n)) > 0 {
						near(t, want, run(t, n, cut, threads, true))
					}
				})
			}
		}
	}
}

// TestWhole: nodes of float32 and small ones are the backend's.
func TestWhole(t *testing.T) {
	for _, text := range []string{`in %x: float32[16,8,1024] %z = Tanh(%x) out %z`, `in %x: float16[16,8] %z = Tanh(%x) out %z`, `in %x: float16[99991] %z = Tanh(%x) out %z`} {
		g, err := ssa.ParseGraph(`graph "g" { ` + text + ` }`)
		require.NoError(t, err)
		require.NoError(t, ops.InferGraph(g))
		p, err := pieces.Prepare(t.Context(), cpu.New(), g.Nodes[0], 1)
		require.NoError(t, err)
		assert.NotContains(t, backend.ChoiceOf(p.Kernel).Algorithm, "pieces")
	}
}

// run computes a node over a poisoned workspace, with the first result over its operand or not.
func run(t *testing.T, n *ssa.Node, p backend.Prepared, threads int, over bool) []*ndarray.Array {
	c := &ops.Call{Ctx: t.Context(), Node: n, Threads: threads, Scratch: ndarray.AlignedBytes(int(p.Scratch))}
	for i := range c.Scratch {
		c.Scratch[i] = 0xff
	}
	var out []*ndarray.Array
	for k, v := range n.In {
		if v.Const != nil {
			a, err := v.Const.Array()
			require.NoError(t, err)
			c.In = append(c.In, a)
			continue
		}
		shape, _ := v.Type.Static()
		a := ndarray.Must(v.Type.DType, shape...)
		for i := range a.Len() {
			a.SetFloat(i, math.Sin(float64(i*(k+3)+k)))
		}
		c.In = append(c.In, a)
	}
	for i, v := range n.Out {
		shape, _ := v.Type.Static()
		a := ndarray.Must(v.Type.DType, shape...)
		if pairs := ops.InPlacePairs(n); over && i == 0 {
			a = c.In[pairs[0].In].(*ndarray.Array)
		}
		c.Out, out = append(c.Out, a), append(out, a)
	}
	require.NoError(t, p.Kernel.Run(c))
	return out
}

// near allows a last bit of the largest element, which sums in another order may round otherwise.
func near(t *testing.T, want, got []*ndarray.Array) {
	for k := range want {
		bit := 1.0 / 1024
		if want[k].DType == ndarray.BFloat16 {
			bit = 1.0 / 128
		}
		largest := 1e-6
		for i := range want[k].Len() {
			largest = max(largest, math.Abs(want[k].Float(i)))
		}
		for i := range want[k].Len() {
			if d := math.Abs(want[k].Float(i) - got[k].Float(i)); !(d <= bit*largest) { // asserts cost more than what they compare
				t.Fatalf("result %d, element %d: %g, not %g", k, i, got[k].Float(i), want[k].Float(i))
			}
		}
	}
}
