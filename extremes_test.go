package berth_test

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth"
	"github.com/berth-onnx/berth/internal/onnxwire"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// extremes are the integers where arithmetic on sizes, axes and counts overflows or leaves its range.
var extremes = []int64{math.MinInt64, -1, math.MaxInt32 + 1, math.MaxInt64}

// extremeTime ends loops that run for ever. All other models are done within half of it.
const extremeTime = 500 * time.Millisecond

// TestExtremes gives every integer of the seed models an extreme value, one at a time, and runs the pipeline: integers of
// attributes, dimensions of inputs, and elements of integer operands, which become constants where they were inputs. One
// model is tried for each operator, place and value.
func TestExtremes(t *testing.T) {
	seeds, tried := seedModels(t), map[string]bool{}
	try := func(model, place string, w *onnxwire.Model) {
		if tried[place] {
			return
		}
		tried[place] = true
		data, err := onnxwire.Marshal(w)
		require.NoError(t, err)
		t.Run(place, func(t *testing.T) {
			_ = watchedOpen(t, model, extremeTime, func() (*berth.Model, error) { return berth.Parse(data) })
		})
	}
	for _, name := range slices.Sorted(maps.Keys(seeds)) {
		w, err := onnxwire.Parse(seeds[name])
		require.NoError(t, err)
		if len(w.Graph.Nodes) == 0 {
			continue
		}
		for _, x := range extremes {
			for _, n := range w.Graph.Nodes {
				extremeAttributes(n, x, func(place string) { try(name, place, w) })
			}
			op := w.Graph.Nodes[0].OpType
			for i, in := range w.Graph.Inputs {
				if in.Type == nil || in.Type.Tensor == nil || in.Type.Tensor.Shape == nil {
					continue
				}
				extremeDimensions(in, x, func(axis int) { try(name, fmt.Sprintf("%s: dimension %d of input %d is %d", op, axis, i, x), w) })
				extremeOperand(w.Graph, i, x, func() { try(name, fmt.Sprintf("%s: elements of input %d are %d", op, i, x), w) })
			}
		}
	}
	t.Logf("%d models", len(tried))
	require.NotEmpty(t, tried)
}

// extremeAttributes sets the integers of the attributes of a node to x, one at a time, while f is called.
func extremeAttributes(n *onnxwire.Node, x int64, f func(place string)) {
	for _, a := range n.Attributes {
		switch a.Kind() {
		case onnxwire.AttrInt:
			old := a.I
			a.I = x
			f(fmt.Sprintf("%s: %s is %d", n.OpType, a.Name, x))
			a.I = old
		case onnxwire.AttrInts:
			for i, old := range a.Ints {
				a.Ints[i] = x
				f(fmt.Sprintf("%s: %s[%d] is %d", n.OpType, a.Name, i, x))
				a.Ints[i] = old
			}
		}
	}
}

// extremeDimensions sets the dimensions of an input to x, one at a time, while f is called.
func extremeDimensions(in *onnxwire.ValueInfo, x int64, f func(axis int)) {
	for i, d := range in.Type.Tensor.Shape.Dims {
		old := *d
		*d = onnxwire.Dim{Kind: onnxwire.DimValue, Value: x}
		f(i)
		*d = old
	}
}

// extremeOperand makes integer input i a constant of elements x while f is called.
func extremeOperand(g *onnxwire.Graph, i int, x int64, f func()) {
	in := g.Inputs[i]
	elem := in.Type.Tensor.ElemType
	if elem != onnxwire.TypeInt64 && elem != onnxwire.TypeInt32 {
		return
	}
	c := &onnxwire.Tensor{Name: in.Name, DataType: elem}
	elements := int64(1)
	for _, d := range in.Type.Tensor.Shape.Dims {
		c.Dims = append(c.Dims, d.Value)
		elements *= d.Value
	}
	if elements < 1 || elements > 64 {
		return
	}
	if elem == onnxwire.TypeInt64 {
		c.Int64Data = slices.Repeat([]int64{x}, int(elements))
	} else {
		c.Int32Data = slices.Repeat([]int32{int32(min(max(x, math.MinInt32), math.MaxInt32))}, int(elements))
	}
	inputs, initializers := g.Inputs, g.Initializers
	g.Inputs = slices.Delete(slices.Clone(inputs), i, i+1)
	g.Initializers = append(slices.Clone(initializers), c)
	f()
	g.Inputs, g.Initializers = inputs, initializers
}

// TestNonFiniteThroughPrograms: one NaN, infinity or huge number in the input of a model reaches the results that its nodes say, one by one by the reference
// kernels, through all that compiling makes of them: folded normalizations, epilogues, channel-blocked images, groups, attention. Values
// whose names begin with w are constants.
func TestNonFiniteThroughPrograms(t *testing.T) {
	for name, text := range map[string]string{
		"convolutions": `in %x: float32[1,32,24,25] in %w: float32[32,32,3,3] in %w1: float32[32,32,1,1] in %wb: float32[32] in %wv: float32[32]
			%a = Conv(%x, %w, %wb) [pads=[1,1,1,1]] %n = BatchNormalization(%a, %wb, %wb, %wb, %wv) %r = Relu(%n) %b = Conv(%r, %w1, %wb) %s = Add(%b, %x) %y = Relu(%s) out %y`,
		"depthwise and pools": `in %x: float32[2,32,24,25] in %w: float32[32,1,3,3] in %w1: float32[48,32,1,1]
			%a = Conv(%x, %w) [group=32, pads=[1,1,1,1]] %c = HardSwish(%a) %b = Conv(%c, %w1) %m = MaxPool(%b) [kernel_shape=[3,3], strides=[2,2]]
			%p = AveragePool(%m) [kernel_shape=[2,2]] %y = Sigmoid(%p) out %y`,
		"gates": `in %x: float32[1,32,20,20] in %w: float32[16,32,1,1] in %w1: float32[32,16,1,1]
			%g = GlobalAveragePool(%x) %a = Conv(%g, %w) %r = Relu(%a) %b = Conv(%r, %w1) %s = HardSigmoid(%b) %y = Mul(%x, %s) out %y`,
		"clipped": `in %x: float32[1,16,20,20] in %w: float32[32,16,3,3] const %lo: float32[] = 0 const %hi: float32[] = 6
			%a = Conv(%x, %w) [strides=[2,2]] %y = Clip(%a, %lo, %hi) out %y`,
		"products": `in %x: float32[30,64] in %w: float32[64,96] in %wb: float32[96] in %w1: float32[96,64]
			%a = MatMul(%x, %w) %b = Add(%a, %wb) %g = Gelu(%b) %c = MatMul(%g, %w1) %y = Add(%c, %x) out %y`,
		"swish and softplus": `in %x: float32[30,64] in %w: float32[64,96] in %wb: float32[96]
			%a = Gemm(%x, %w, %wb) %s = Sigmoid(%a) %m = Mul(%a, %s) %p = Softplus(%m) %t = Tanh(%p) %y = Max(%t, %s) out %y`,
		"normalization written out": `in %x: float32[20,96] in %wb: float32[96] const %e: float32[] = 0.00001 const %two: float32[] = 2 const %axis: int64[1] = [-1]
			%m = ReduceMean(%x, %axis) %d = Sub(%x, %m) %q = Pow(%d, %two) %v = ReduceMean(%q, %axis) %f = Add(%v, %e) %r = Sqrt(%f) %n = Div(%d, %r) %s = Mul(%n, %wb) %y = Add(%s, %wb) out %y`,
		"softmax of sums": `in %x: float32[4,20,30] in %wb: float32[30] %a = Add(%x, %wb) %b = Softmax(%a) [axis=-1] %c = ReduceMax(%a) [keepdims=1] %y = Sub(%b, %c) out %y`,
		"chains":          `in %x: float32[40,50] in %wb: float32[50] %a = Mul(%x, %wb) %b = Exp(%a) %c = Relu(%b) %d = Min(%c, %wb) %e = Abs(%d) %f = Sqrt(%e) %y = Erf(%f) out %y`,
		"attention":       `in %x: float32[1,4,24,16] const %c: float32[] = 0.25 %k = Transpose(%x) [perm=[0,1,3,2]] %p = MatMul(%x, %k) %s = Mul(%p, %c) %w = Softmax(%s) [axis=-1] %y = MatMul(%w, %x) out %y`,
		"conversions":     `in %x: float32[40,50] %i = Cast(%x) [to=6] %j = Cast(%x) [to=7] %b = Cast(%x) [to=2] %f = Cast(%i) [to=1] %g = Cast(%j) [to=1] %h = Cast(%b) [to=1] %s = Add(%f, %g) %y = Add(%s, %h) out %y`,
		"resized":         `in %x: float32[1,16,12,13] in %w: float32[16,16,3,3] const %f: float32[4] = [1, 1, 2, 2] %a = Conv(%x, %w) [pads=[1,1,1,1]] %b = Relu(%a) %y = Resize(%b, _, %f) [mode="linear"] out %y`,
	} {
		for i, v := range []float32{float32(math.NaN()), float32(math.Inf(1)), float32(math.Inf(-1)), 3e38} {
			for seed := range uint64(2) {
				t.Run(fmt.Sprint(name, " ", v, " ", seed), func(t *testing.T) {
					rng := rand.New(rand.NewPCG(seed, uint64(i)))
					g, err := ssa.ParseGraph("graph \"g\" {\n" + text + "\n}\n")
					require.NoError(t, err)
					x := constantsIn(t, g, rng)
					require.NoError(t, ops.InferGraph(g))
					plain, err := ops.Interpret(t.Context(), g, []ndarray.Value{x.Clone()}, nil)
					require.NoError(t, err)
					ndarray.Slice[float32](x)[rng.IntN(x.Len())] = v
					want, err := ops.Interpret(t.Context(), g, []ndarray.Value{x.Clone()}, nil)
					require.NoError(t, err)
					m := berth.FromModule(&ssa.Module{Graph: g, IR: 10, Opsets: []ssa.Opset{{Version: 22}}})
					got, err := m.RunValues(t.Context(), map[string]ndarray.Value{"x": x})
					require.NoError(t, err)
					compareReached(t, plain[0].(*ndarray.Array), want[0].(*ndarray.Array), got["y"].(*ndarray.Array), v > 1e38 && v < 3.4e38)
				})
			}
		}
	}
}

// compareReached compares where results are finite, or, for a huge number, those that it does not change.
func compareReached(t *testing.T, plain, want, got *ndarray.Array, huge bool) {
	for i := range want.Len() {
		p, w, g := plain.Float(i), want.Float(i), got.Float(i)
		if !huge && (w-w == 0) != (g-g == 0) {
			require.Fail(t, "another class", "element %d is %g instead of %g", i, g, w)
		}
		if w == p && w-w == 0 && !(math.Abs(g-w) <= 1e-3*(1+math.Abs(w))) {
			require.Fail(t, "an element that is not reached", "element %d is %g instead of %g", i, g, w)
		}
	}
}

// constantsIn makes constants of the parameters whose names begin with w, and returns operand x.
func constantsIn(t *testing.T, g *ssa.Graph, rng *rand.Rand) (x *ndarray.Array) {
	var left []*ssa.Value
	for _, p := range g.Params {
		shape, ok := p.Type.Static()
		require.True(t, ok)
		a := ndarray.Must(p.Type.DType, shape...)
		for i := range a.Len() {
			v := rng.NormFloat64() / 4
			if p.Name == "wv" {
				v = 0.5 + v*v
			}
			a.SetFloat(i, v)
		}
		if !strings.HasPrefix(p.Name, "w") {
			x, left = a, append(left, p)
			continue
		}
		g.ReplaceUses(p, g.AddConst(p.Name+"_", ssa.NewConstant(a)))
	}
	g.Params = left
	return x
}
