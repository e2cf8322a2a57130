package gradient_test

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth/gradient"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// controlCases are graphs whose first result is differentiated by all parameters that are floats; others are given.
var controlCases = []struct {
	name, text string
	given      map[string]*ndarray.Array
}{
	{"branches that capture", `in %x: float64[3] in %w: float64[3] in %c: bool[]
		%y: float64[3] = If(%c | %x, %w) { then_branch: graph "t" { in %x: float64[3] in %w: float64[3] %y: float64[3] = Mul(%x, %w) out %y }
			else_branch: graph "e" { in %x: float64[3] in %w: float64[3] %y: float64[3] = Sin(%x) out %y } } out %y`, map[string]*ndarray.Array{"c": flag(true)}},
	{"the other branch", `in %x: float64[3] in %w: float64[3] in %c: bool[]
		%y: float64[3] = If(%c | %x, %w) { then_branch: graph "t" { in %x: float64[3] in %w: float64[3] %y: float64[3] = Mul(%x, %w) out %y }
			else_branch: graph "e" { in %x: float64[3] in %w: float64[3] %y: float64[3] = Sin(%x) out %y } } out %y`, map[string]*ndarray.Array{"c": flag(false)}},
	{"a branch that passes a captured value", `in %x: float64[3] in %c: bool[]
		%y: float64[3] = If(%c | %x) { then_branch: graph "t" { in %x: float64[3] out %x }
			else_branch: graph "e" { in %x: float64[3] %y: float64[3] = Sin(%x) out %y } } out %y`, map[string]*ndarray.Array{"c": flag(true)}},
	{"a Loop with weights", `in %x: float64[2] in %w: float64[2,2] const %n: int64[] = 4
		%y: float64[2] = Loop(%n, _, %x | %w) { body: graph "b" { in %i: int64[] in %c: bool[] in %h: float64[2] in %w: float64[2,2]
			%p: float64[2] = MatMul(%w, %h) %q: float64[2] = Tanh(%p) out %c, %q } } out %y`, nil},
	{"a Loop with stacked outputs and the number of the iteration", `in %x: float64[2] const %n: int64[] = 3
		%y: float64[2], %s: float64[3,2] = Loop(%n, _, %x) { body: graph "b" { in %i: int64[] in %c: bool[] in %h: float64[2]
			%f: float64[] = Cast(%i) [to=11] %g: float64[2] = Add(%h, %f) %p: float64[2] = Sin(%g) %q: float64[2] = Mul(%p, %h) out %c, %q, %p } }
		%m: float64[3,2] = Exp(%s) %a: float64[3,2] = Mul(%m, %y) out %a`, nil},
	{"a Loop that a condition ends", `in %x: float64[] const %n: int64[] = 9 const %limit: float64[] = 4 const %t: bool[] = true
		%y: float64[] = Loop(%n, %t, %x) { body: graph "b" { in %i: int64[] in %c: bool[] in %h: float64[]
			%q: float64[] = Mul(%h, %h) const %limit: float64[] = 40 %k: bool[] = Less(%q, %limit) out %k, %q } } out %y`, map[string]*ndarray.Array{"x": ndarray.Of([]float64{1.7})}},
	{"no iteration", `in %x: float64[2] in %w: float64[2] const %n: int64[] = 0
		%y: float64[2] = Loop(%n, _, %x | %w) { body: graph "b" { in %i: int64[] in %c: bool[] in %h: float64[2] in %w: float64[2]
			%q: float64[2] = Mul(%h, %w) out %c, %q } } %z: float64[2] = Mul(%y, %y) %k: float64[2] = Add(%z, %w) out %k`, nil},
	{"carried values that exchange", `in %x: float64[2] in %y: float64[2] const %n: int64[] = 3
		%a: float64[2], %b: float64[2] = Loop(%n, _, %x, %y) { body: graph "b" { in %i: int64[] in %c: bool[] in %h: float64[2] in %k: float64[2]
			%q: float64[2] = Sin(%h) out %c, %k, %q } } %z: float64[2] = Mul(%a, %b) out %z`, nil},
	{"integers among the carried values", `in %x: float64[2] const %n: int64[] = 3 const %k: int64[] = 1
		%a: float64[2], %b: int64[] = Loop(%n, _, %x, %k) { body: graph "b" { in %i: int64[] in %c: bool[] in %h: float64[2] in %k: int64[]
			%f: float64[] = Cast(%k) [to=11] %q: float64[2] = Mul(%h, %f) const %one: int64[] = 1 %l: int64[] = Add(%k, %one) out %c, %q, %l } } out %a`, nil},
	{"no carried value", `in %w: float64[2] const %n: int64[] = 3
		%s: float64[3,2] = Loop(%n, _ | %w) { body: graph "b" { in %i: int64[] in %c: bool[] in %w: float64[2] %q: float64[2] = Sin(%w) out %c, %q } } out %s`, nil},
	{"a Scan over rows", `in %x: float64[4,2] in %h0: float64[3] in %w: float64[2,3]
		%h: float64[3], %s: float64[4,3] = Scan(%h0, %x | %w) [num_scan_inputs=1] { body: graph "b" { in %h: float64[3] in %x: float64[2] in %w: float64[2,3]
			%p: float64[3] = MatMul(%x, %w) %a: float64[3] = Add(%p, %h) %q: float64[3] = Tanh(%a) out %q, %q } } %z: float64[4,3] = Mul(%s, %h) out %z`, nil},
	{"a Scan backwards along other axes", `in %x: float64[2,4] in %y: float64[4,3] in %h0: float64[2]
		%h: float64[2], %s: float64[2,4] = Scan(%h0, %x, %y) [num_scan_inputs=2, scan_input_axes=[1,0], scan_input_directions=[1,0], scan_output_axes=[1], scan_output_directions=[1]] {
			body: graph "b" { in %h: float64[2] in %x: float64[2] in %y: float64[3] %n: float64[] = ReduceSum(%y) [keepdims=0] %a: float64[2] = Mul(%h, %x) %b: float64[2] = Add(%a, %n) %q: float64[2] = Sin(%b) out %q, %a } }
		%e: float64[2,4] = Exp(%s) %t: float64[4,2] = Transpose(%e) %z: float64[4,2] = Mul(%t, %h) out %z`, nil},
	{"a Loop in a Loop", `in %x: float64[2] in %w: float64[2] const %n: int64[] = 2
		%y: float64[2] = Loop(%n, _, %x | %w) { body: graph "o" { in %i: int64[] in %c: bool[] in %h: float64[2] in %w: float64[2] const %m: int64[] = 3
			%z: float64[2] = Loop(%m, _, %h | %w) { body: graph "b" { in %i: int64[] in %c: bool[] in %h: float64[2] in %w: float64[2] %p: float64[2] = Mul(%w, %h) %q: float64[2] = Sin(%p) out %c, %q } }
			%r: float64[2] = Add(%z, %w) out %c, %r } } out %y`, nil},
	{"an If in a Loop", `in %x: float64[2] in %w: float64[2] const %n: int64[] = 3
		%y: float64[2] = Loop(%n, _, %x | %w) { body: graph "o" { in %i: int64[] in %c: bool[] in %h: float64[2] in %w: float64[2] const %one: int64[] = 1 %k: bool[] = Equal(%i, %one)
			%z: float64[2] = If(%k | %h, %w) { then_branch: graph "t" { in %h: float64[2] in %w: float64[2] %p: float64[2] = Mul(%w, %h) out %p } else_branch: graph "e" { in %h: float64[2] in %w: float64[2] %p: float64[2] = Sin(%h) out %p } }
			out %c, %z } } out %y`, nil},
}

func flag(v bool) *ndarray.Array { return ndarray.Of([]bool{v}) }

// TestControl: derivatives through branches and loops are central differences, and the plain nodes of the
// result can be differentiated again.
func TestControl(t *testing.T) {
	for _, c := range controlCases {
		t.Run(c.name, func(t *testing.T) {
			g, err := ssa.ParseGraph(`graph "g" {` + c.text + `}`)
			require.NoError(t, err)
			require.NoError(t, ops.InferGraph(g))
			rng := rand.New(rand.NewPCG(3, 3))
			var in []ndarray.Value
			var wrt []*ssa.Value
			for _, p := range g.Params {
				a := c.given[p.Name]
				if a == nil {
					shape, _ := p.Type.Static()
					a = draw(rng, around(shape...))
				}
				in = append(in, a)
				if p.Type.DType.IsFloat() {
					wrt = append(wrt, p)
				}
			}
			loss := call(t, g, "ReduceSumSquare", g.Results[:1], ssa.IntAttr("keepdims", 0))
			g.Results = []*ssa.Value{loss}
			for i := range 2 {
				back := derivatives(t, g, loss, wrt)
				checkDifferences(t, g, back, in, 1e-5, 1e-6)
				if i > 0 {
					return
				}
				var sum *ssa.Value
				for _, d := range back.Results[:len(wrt)] {
					sum = plus(t, back, sum, weighted(t, back, rng, d))
				}
				back.Results = []*ssa.Value{sum}
				g, loss, wrt = back, sum, nil
				for _, p := range back.Params {
					if p.Type.DType.IsFloat() {
						wrt = append(wrt, p)
					}
				}
			}
		})
	}
}

// derivatives are a copy of the graph with one result for each parameter, 0 for those that are no floats
// or that the loss does not depend on.
func derivatives(t *testing.T, g *ssa.Graph, loss *ssa.Value, wrt []*ssa.Value) *ssa.Graph {
	c, m := g.Clone()
	var by []*ssa.Value
	for _, v := range wrt {
		by = append(by, m[v.ID])
	}
	r := gradient.Reversal{Graph: c, Y: m[loss.ID], By: by}
	d, err := r.Append(t.Context())
	require.NoError(t, err)
	c.Results = nil
	k := 0
	for _, p := range c.Params {
		var v *ssa.Value
		if p.Type.DType.IsFloat() {
			v, k = d[k], k+1
		}
		if v == nil {
			v = c.AddConst("zeros", ssa.NewSplat(ndarray.Must(ndarray.Float64), staticShape(p)...))
		}
		c.Results = append(c.Results, v)
	}
	unique(c)
	require.NoError(t, ssa.Check(c))
	require.NoError(t, ops.InferGraph(c))
	return c
}

// TestRefused: what has no derivative is refused by name.
func TestRefused(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"an operator without a rule", `in %x: float32[2,2] %y = Det(%x) out %y`, "Det"},
		{"a step", `in %x: float32[4] %y = Floor(%x) out %y`, "Floor"},
		{"integers on the way", `in %x: float32[4] %i = Cast(%x) [to=7] %y = Cast(%i) [to=1] out %y`, "Cast"},
		{"quantized", `in %x: float32[4] const %s: float32[] = 0.5 const %z: uint8[] = 3 %q = QuantizeLinear(%x, %s, %z) %y = DequantizeLinear(%q, %s, %z) out %y`, "QuantizeLinear"},
		{"the largest of them", `in %x: float32[4] %i = ArgMax(%x) %y = Cast(%i) [to=1] out %y`, "ArgMax"},
		{"a loss of integers", `in %x: int32[4] %y = Neg(%x) out %y`, "no tensor of floats"},
		{"a loss that does not depend on it", `in %x: float32[4] in %z: float32[4] %y = Neg(%z) out %y`, "does not depend"},
		{"inside a body", `in %x: float32[2,2] const %n: int64[] = 2 %y: float32[2,2] = Loop(%n, _, %x) { body: graph "b" { in %i: int64[] in %c: bool[] in %h: float32[2,2]
			%d: float32[] = Det(%h) %q: float32[2,2] = Mul(%h, %d) out %c, %q } } out %y`, "Det"},
	} {
		t.Run(c.name, func(t *testing.T) {
			g, err := ssa.ParseGraph(`graph "g" {` + c.text + `}`)
			require.NoError(t, err)
			require.NoError(t, ops.InferGraph(g))
			_, err = gradient.Of(t.Context(), g, g.Results[0], g.Params[0])
			var refused *gradient.Error
			require.ErrorAs(t, err, &refused)
			assert.ErrorIs(t, err, ops.ErrUnsupported)
			assert.ErrorContains(t, err, c.want)
		})
	}
}

func staticShape(v *ssa.Value) []int {
	shape, _ := v.Type.Static()
	return shape
}
