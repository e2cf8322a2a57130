package gradient_test

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth/gradient"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	_ "github.com/berth-onnx/berth/ops/all"
	"github.com/berth-onnx/berth/ssa"
)

// operand is numbers to be drawn and differentiated by, a constant, or nothing.
type operand struct {
	shape     []int
	low, high float64
	constant  *ndarray.Array
	exact     []float64 // in place of drawn numbers
}

func within(low, high float64, shape ...int) operand {
	return operand{shape: shape, low: low, high: high}
}
func exactly(v ...float64) operand  { return operand{shape: []int{len(v)}, exact: v} }
func around(shape ...int) operand   { return within(-1.5, 1.5, shape...) }
func positive(shape ...int) operand { return within(0.3, 2, shape...) }
func given[T ndarray.Elem](v []T, shape ...int) operand {
	return operand{constant: ndarray.Of(v, shape...)}
}
func list(v ...int64) operand  { return given(v, len(v)) }
func number(v float64) operand { return given([]float64{v}) }

// drawnConstant are numbers that are not differentiated by.
func drawnConstant(low, high float64, shape ...int) operand {
	return operand{constant: draw(rand.New(rand.NewPCG(7, 7)), within(low, high, shape...))}
}

var absent = operand{}

func draw(rng *rand.Rand, o operand) *ndarray.Array { return drawAs(ndarray.Float64, rng, o) }

func drawAs(dt ndarray.DType, rng *rand.Rand, o operand) *ndarray.Array {
	a := ndarray.Must(dt, o.shape...)
	for i := range a.Len() {
		if o.exact != nil {
			a.SetFloat(i, o.exact[i])
			continue
		}
		a.SetFloat(i, o.low+(o.high-o.low)*rng.Float64())
	}
	return a
}

// ruleCase is one node whose derivative is compared.
type ruleCase struct {
	op      string // "domain.Name" outside the default domain
	attrs   []ssa.Attr
	in      []operand
	results int   // that the node has; 0 is 1
	by      []int // results that are differentiated; nil is the first
	single  bool  // the operator has no float64, or its reference kernel computes in float32
}

// graph builds the node, and the sum of its results' elements with different weights, so that no two
// derivatives can stand in for each other.
func (c ruleCase) graph(t *testing.T) (g *ssa.Graph, loss *ssa.Value, in []ndarray.Value) {
	rng := rand.New(rand.NewPCG(1, uint64(len(c.op))))
	g = ssa.NewGraph(c.op)
	operands := make([]*ssa.Value, len(c.in))
	for i, o := range c.in {
		switch {
		case o.constant != nil:
			operands[i] = g.AddConst("c", ssa.NewConstant(o.constant))
		case o.shape != nil:
			a := drawAs(c.dtype(), rng, o)
			operands[i] = g.AddParam("x", ssa.StaticTensor(a.DType, a.Shape...))
			in = append(in, a)
		}
	}
	domain, name := "", c.op
	if i := strings.LastIndexByte(c.op, '.'); i >= 0 {
		domain, name = c.op[:i], c.op[i+1:]
	}
	n := g.NewNode(name, operands, max(c.results, 1), c.attrs...)
	n.Domain = domain
	require.NoError(t, ops.Infer(n))
	for _, k := range append([]int{}, c.differentiated()...) {
		loss = plus(t, g, loss, weighted(t, g, rng, n.Out[k]))
	}
	return g, loss, in
}

func (c ruleCase) dtype() ndarray.DType {
	if c.single {
		return ndarray.Float32
	}
	return ndarray.Float64
}

func (c ruleCase) differentiated() []int {
	if c.by == nil {
		return []int{0}
	}
	return c.by
}

func call(t *testing.T, g *ssa.Graph, op string, in []*ssa.Value, attrs ...ssa.Attr) *ssa.Value {
	n := g.NewNode(op, in, 1, attrs...)
	require.NoError(t, ops.Infer(n))
	return n.Out[0]
}

func plus(t *testing.T, g *ssa.Graph, a, b *ssa.Value) *ssa.Value {
	if a == nil {
		return b
	}
	return call(t, g, "Add", []*ssa.Value{a, b})
}

// weighted is the sum of elements, each with a weight of its own; of squares where the shape is not known.
func weighted(t *testing.T, g *ssa.Graph, rng *rand.Rand, v *ssa.Value) *ssa.Value {
	shape, ok := v.Type.Static()
	if !ok {
		return call(t, g, "ReduceSumSquare", []*ssa.Value{v}, ssa.IntAttr("keepdims", 0))
	}
	w := g.AddConst("w", ssa.NewConstant(drawAs(v.Type.DType, rng, within(0.5, 1.5, shape...))))
	return call(t, g, "ReduceSum", []*ssa.Value{call(t, g, "Mul", []*ssa.Value{v, w})}, ssa.IntAttr("keepdims", 0))
}

// interpreted are the results of a graph.
func interpreted(t *testing.T, g *ssa.Graph, in []ndarray.Value) (out [][]float64) {
	values, err := ops.Interpret(t.Context(), g, in, nil)
	require.NoError(t, err)
	for _, v := range values {
		a := v.(*ndarray.Array)
		f := make([]float64, a.Len())
		for i := range f {
			f[i] = a.Float(i)
		}
		out = append(out, f)
	}
	return out
}

// checkDifferences compares derivatives of the graph's result 0 by all parameters, which are results 1 and on, with
// central differences of step h, whose error is of the order h² and, of rounding, eps/h.
func checkDifferences(t *testing.T, forward, backward *ssa.Graph, in []ndarray.Value, h, tolerance float64) {
	t.Helper()
	got := interpreted(t, backward, in)
	require.Len(t, got, len(in))
	for k, v := range in {
		a := v.(*ndarray.Array)
		require.Len(t, got[k], a.Len())
		if !a.DType.IsFloat() {
			continue
		}
		for i := range a.Len() {
			old := a.Float(i)
			a.SetFloat(i, old+h)
			up := interpreted(t, forward, in)[0][0]
			a.SetFloat(i, old-h)
			down := interpreted(t, forward, in)[0][0]
			a.SetFloat(i, old)
			want := (up - down) / (2 * h)
			if !assert.InDelta(t, want, got[k][i], tolerance*max(1, math.Abs(want)), "parameter %d, element %d", k, i) {
				return
			}
		}
	}
}

// differentiate appends the derivatives to a copy of the graph and makes them its results.
func differentiate(t *testing.T, g *ssa.Graph, loss *ssa.Value, wrt []*ssa.Value) (*ssa.Graph, []*ssa.Value, error) {
	c, m := g.Clone()
	var by []*ssa.Value
	for _, v := range wrt {
		by = append(by, m[v.ID])
	}
	d, err := gradient.Of(t.Context(), c, m[loss.ID], by...)
	if err != nil {
		return nil, nil, err
	}
	c.Results = d
	unique(c)
	require.NoError(t, ssa.Check(c))
	require.NoError(t, ops.InferGraph(c))
	for i, v := range d {
		assert.Equal(t, wrt[i].Type.String(), v.Type.String())
	}
	return c, d, nil
}

// unique gives values outside of bodies names of their own, as who writes or compiles a graph does. Bodies have them.
func unique(g *ssa.Graph) {
	for i, v := range g.Values() {
		v.Name += "_" + string(rune('a'+i%26)) + strings.Repeat("'", i/26)
	}
}

// TestRules: the derivative of every operator that has one is that of central differences, in float64; and so is its
// derivative, where the nodes of a rule have rules.
func TestRules(t *testing.T) {
	seen, rules := map[string]bool{}, 0
	for _, c := range ruleCases() {
		seen[c.op] = true
		t.Run(c.op, func(t *testing.T) {
			h, tolerance := 1e-5, 1e-6
			if c.single {
				h, tolerance = 1e-2, 5e-3
			}
			g, loss, in := c.graph(t)
			g.Results = []*ssa.Value{loss}
			back, _, err := differentiate(t, g, loss, g.Params)
			if steps[c.op] {
				assert.ErrorIs(t, err, ops.ErrUnsupported)
				return
			}
			require.NoError(t, err)
			checkDifferences(t, g, back, in, h, tolerance)
			if !c.single {
				c.checkTwice(t, back, in)
			}
		})
	}
	for _, name := range append(gradient.Differentiable(ops.All()), "If", "Loop", "Scan") {
		if !slices.Contains(control, name) {
			assert.True(t, seen[name], "operator %s has a rule and no case", name)
		}
		if !steps[name] {
			rules++
		}
	}
	assert.GreaterOrEqual(t, rules, 120)
}

// control are tested by graphs, in control_test.go.
var control = []string{"If", "Loop", "Scan"}

// steps have derivative zero, which is refused by name.
var steps = map[string]bool{"Floor": true, "Ceil": true, "Round": true, "Sign": true, "Hardmax": true, "EyeLike": true,
	"RandomNormalLike": true, "RandomUniformLike": true, "Bernoulli": true}

// checkTwice differentiates the derivative.
func (c ruleCase) checkTwice(t *testing.T, first *ssa.Graph, in []ndarray.Value) {
	var sum *ssa.Value
	rng := rand.New(rand.NewPCG(5, 5))
	for _, d := range first.Results {
		sum = plus(t, first, sum, weighted(t, first, rng, d))
	}
	var wrt []*ssa.Value
	for _, p := range first.Params {
		clone, m := first.Clone()
		r := gradient.Reversal{Graph: clone, Y: m[sum.ID], By: []*ssa.Value{m[p.ID]}}
		if d, err := r.Append(t.Context()); err == nil && d[0] != nil {
			wrt = append(wrt, p)
		} else if err != nil {
			var refused *gradient.Error
			require.True(t, errors.As(err, &refused) && onlyOnce[c.op], "second derivative: %v", err)
			return
		}
	}
	first.Results = []*ssa.Value{sum}
	if len(wrt) < len(first.Params) {
		return // linear in some operand
	}
	second, _, err := differentiate(t, first, sum, wrt)
	require.NoError(t, err)
	checkDifferences(t, first, second, in, 1e-5, 1e-5)
}

// onlyOnce have derivatives that use an operator without one.
var onlyOnce = map[string]bool{}

// TestMaxPoolOfPadding: a window of nothing but padding has no maximum, and sends its adjoint nowhere.
func TestMaxPoolOfPadding(t *testing.T) {
	g, err := ssa.ParseGraph(`graph "g" { in %x: float64[1,1,3] %y = MaxPool(%x) [kernel_shape=[1], pads=[1,1]] %s = ReduceSum(%y) [keepdims=0] out %s }`)
	require.NoError(t, err)
	require.NoError(t, ops.InferGraph(g))
	d, err := gradient.Of(t.Context(), g, g.Results[0], g.Params[0])
	require.NoError(t, err)
	g.Results = d
	out, err := ops.Interpret(t.Context(), g, []ndarray.Value{ndarray.Of([]float64{1, 2, 3}, 1, 1, 3)}, nil)
	require.NoError(t, err)
	assert.Equal(t, []float64{1, 1, 1}, ndarray.Slice[float64](out[0].(*ndarray.Array)))
}
