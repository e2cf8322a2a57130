package ops_test

import (
	"context"
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

const trainingDomain = "ai.onnx.preview.training"

// differentiable is a function of float64 tensors built as a graph.
type differentiable struct {
	name string
	in   []*ndarray.Array
	f    func(g *ssa.Graph, x []*ssa.Value) *ssa.Value
}

// wave is numbers without pattern in about [-1, 1], none near 0 or each other.
func wave(shape ...int) *ndarray.Array {
	a := ndarray.Must(ndarray.Float64, shape...)
	for i := range a.Len() {
		v := math.Sin(float64(i+1)*2.1) * (1 + float64(i)/50)
		a.SetFloat(i, v+math.Copysign(0.15, v))
	}
	return a
}

// call adds a node of the default domain and infers it.
func call(g *ssa.Graph, op string, in []*ssa.Value, at ...ssa.Attr) *ssa.Value {
	n := g.NewNode(op, in, 1, at...)
	if err := ops.Infer(n); err != nil {
		panic(err)
	}
	return n.Out[0]
}

func constant(g *ssa.Graph, a *ndarray.Array) *ssa.Value { return g.AddConst("c", ssa.NewConstant(a)) }

// of makes a differentiable function of one operator.
func of(op string, at attrs, in ...*ndarray.Array) differentiable {
	return differentiable{op, in, func(g *ssa.Graph, x []*ssa.Value) *ssa.Value { return call(g, op, x, at...) }}
}

// and makes one of an operator with constant operands after the first.
func and(op string, at attrs, x *ndarray.Array, rest ...*ndarray.Array) differentiable {
	return differentiable{op, []*ndarray.Array{x}, func(g *ssa.Graph, v []*ssa.Value) *ssa.Value {
		for _, r := range rest {
			if r == nil {
				v = append(v, nil)
			} else {
				v = append(v, constant(g, r))
			}
		}
		return call(g, op, v, at...)
	}}
}

// params adds one parameter for every tensor; symbolic hides their sizes.
func params(g *ssa.Graph, in []*ndarray.Array, symbolic bool) []*ssa.Value {
	var xs []*ssa.Value
	for i, a := range in {
		typ := ssa.StaticTensor(a.DType, a.Shape...)
		if symbolic {
			for k := range typ.Shape {
				typ.Shape[k] = ssa.Sym("d" + string(rune('a'+i)) + string(rune('0'+k)))
			}
		}
		xs = append(xs, g.AddParam("x"+string(rune('0'+i)), typ))
	}
	return xs
}

// addGradient adds a Gradient node of y by all of xs and expands it.
func addGradient(t *testing.T, g *ssa.Graph, xs []*ssa.Value, y *ssa.Value) *ssa.Node {
	t.Helper()
	var names []string
	for _, x := range xs {
		names = append(names, x.Name)
	}
	n := g.NewNode("Gradient", xs, len(xs), stringsAttr("xs", names...), stringAttr("y", y.Name))
	n.Domain = trainingDomain
	return n
}

func expand(t *testing.T, g *ssa.Graph, n *ssa.Node) {
	t.Helper()
	require.NoError(t, ops.Of(n).Upgrades[0].Apply(&ops.Upgrader{Graph: g}, n))
	require.NoError(t, ops.InferGraph(g))
}

func values(in []*ndarray.Array) (out []ndarray.Value) {
	for _, a := range in {
		out = append(out, a)
	}
	return out
}

// slopes differentiates a graph's result 0 numerically by every element.
func slopes(t *testing.T, g *ssa.Graph, in []*ndarray.Array) (out [][]float64) {
	t.Helper()
	const h = 1e-5
	value := func() float64 {
		v, err := ops.Interpret(context.Background(), g, values(in), nil)
		require.NoError(t, err)
		return v[0].(*ndarray.Array).Float(0)
	}
	for _, a := range in {
		var d []float64
		for i := range a.Len() {
			old := a.Float(i)
			a.SetFloat(i, old+h)
			up := value()
			a.SetFloat(i, old-h)
			down := value()
			a.SetFloat(i, old)
			d = append(d, (up-down)/(2*h))
		}
		out = append(out, d)
	}
	return out
}

// TestGradientSymbolic differentiates where sizes show only when running.
func TestGradientSymbolic(t *testing.T) {
	for _, d := range []differentiable{
		of("Add", nil, wave(2, 3), wave(1, 3)), of("Mul", nil, wave(2, 3), wave(3)), of("MatMul", nil, wave(2, 3), wave(3, 4)), of("Softmax", nil, wave(2, 3)),
		of("ReduceMean", nil, wave(2, 3)), of("Concat", attrs{intAttr("axis", 0)}, wave(2, 3), wave(1, 3)), and("Gather", nil, wave(4, 2), i64(3, 1, 1)),
		and("Slice", nil, wave(4, 2), i64(1), i64(3)), of("Relu", nil, wave(2, 2)),
	} {
		t.Run(d.name, func(t *testing.T) {
			g := ssa.NewGraph(d.name)
			xs := params(g, d.in, true)
			y := call(g, "ReduceSumSquare", []*ssa.Value{d.f(g, xs)}, intAttr("keepdims", 0))
			g.Results = []*ssa.Value{y}
			want := slopes(t, g, d.in)
			n := addGradient(t, g, xs, y)
			g.Results = append([]*ssa.Value(nil), n.Out...)
			expand(t, g, n)
			got, err := ops.Interpret(context.Background(), g, values(d.in), nil)
			require.NoError(t, err)
			for i, v := range got {
				sameNumbers(t, want[i], numbers(v.(*ndarray.Array)), 1e-5, "operand")
			}
		})
	}
}

// TestGradientTwice differentiates x³ twice, by expansion and by running the node.
func TestGradientTwice(t *testing.T) {
	g := ssa.NewGraph("cube")
	x := g.AddParam("x", ssa.StaticTensor(ndarray.Float64, 3))
	y := call(g, "Mul", []*ssa.Value{x, call(g, "Mul", []*ssa.Value{x, x})})
	first := addGradient(t, g, []*ssa.Value{x}, y)
	first.Out[0].Name = "dy/dx"
	d1 := first.Out[0]
	expand(t, g, first)
	second := addGradient(t, g, []*ssa.Value{x}, d1)
	d2 := second.Out[0]
	expand(t, g, second)
	g.Results = []*ssa.Value{d1, d2}
	out, err := ops.Interpret(context.Background(), g, []ndarray.Value{typed(ndarray.Float64, 1, 2, -3)}, nil)
	require.NoError(t, err)
	sameNumbers(t, []float64{3, 12, 27}, numbers(out[0].(*ndarray.Array)), 1e-12, "first")
	sameNumbers(t, []float64{6, 12, -18}, numbers(out[1].(*ndarray.Array)), 1e-12, "second")
}

// TestGradientAtOtherValues feeds values other than the tensors named, which
// copies the function.
func TestGradientAtOtherValues(t *testing.T) {
	g := ssa.NewGraph("square")
	f := ssa.StaticTensor(ndarray.Float64, 2)
	x, z, at := g.AddParam("x", f), g.AddParam("z", f), g.AddParam("at", f)
	y := call(g, "Mul", []*ssa.Value{call(g, "Mul", []*ssa.Value{x, x}), z})
	n := g.NewNode("Gradient", []*ssa.Value{at, z}, 1, stringsAttr("xs", "x"), stringsAttr("zs", "z"), stringAttr("y", y.Name))
	n.Domain = trainingDomain
	g.Results = []*ssa.Value{y, n.Out[0]}
	expand(t, g, n)
	out, err := ops.Interpret(context.Background(), g, []ndarray.Value{typed(ndarray.Float64, 1, 1), typed(ndarray.Float64, 3, 5), typed(ndarray.Float64, 10, -2)}, nil)
	require.NoError(t, err)
	assert.Equal(t, []float64{3, 5}, numbers(out[0].(*ndarray.Array)))
	assert.Equal(t, []float64{60, -20}, numbers(out[1].(*ndarray.Array)))
}

// TestGradientRuns evaluates a node that was not expanded.
func TestGradientRuns(t *testing.T) {
	g := ssa.NewGraph("run")
	x := g.AddParam("x", ssa.StaticTensor(ndarray.Float64, 2))
	y := call(g, "Mul", []*ssa.Value{x, constant(g, typed(ndarray.Float64, 4, 5))})
	n := addGradient(t, g, []*ssa.Value{x}, y)
	require.NoError(t, ops.Infer(n))
	c := &ops.Call{Node: n, In: []ndarray.Value{typed(ndarray.Float64, 1, 1)}, Threads: 1}
	require.NoError(t, ops.Eval(c))
	assert.Equal(t, []float64{4, 5}, numbers(c.Out[0].(*ndarray.Array)))
}

// TestGradientRejects names the operator that has no derivative, and tensors
// that are not there.
func TestGradientRejects(t *testing.T) {
	g := ssa.NewGraph("bad")
	x := g.AddParam("x", ssa.StaticTensor(ndarray.Float32, 2, 2))
	y := call(g, "Det", []*ssa.Value{x})
	n := addGradient(t, g, []*ssa.Value{x}, y)
	err := ops.Of(n).Upgrades[0].Apply(&ops.Upgrader{Graph: g}, n)
	assert.ErrorIs(t, err, ops.ErrUnsupported)
	assert.ErrorContains(t, err, "Det")
	n.SetAttr(stringAttr("y", "nothing"))
	assert.ErrorContains(t, ops.Of(n).Upgrades[0].Apply(&ops.Upgrader{Graph: g}, n), "nothing")
	n.SetAttr(stringsAttr("xs"))
	assert.Error(t, ops.Of(n).Upgrades[0].Apply(&ops.Upgrader{Graph: g}, n))
}
