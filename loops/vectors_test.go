package loops_test

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth/internal/graphgen"
	"github.com/berth-onnx/berth/internal/program"
	"github.com/berth-onnx/berth/loops"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// branches is an If that makes %y of the two values given; each branch has them as
// %a and %b, and defines %r.
func branches(a, b, then, otherwise string) []string {
	body := func(name, line string) string {
		return fmt.Sprintf("%s_branch: graph %q { in %%a: float32[4,4] in %%b: float32[4,4] %s }", name, name, line)
	}
	return []string{fmt.Sprintf("%%y = If(%%d | %%%s, %%%s) {", a, b), body("then", then), body("else", otherwise), "}"}
}

// nested is a Loop of the given number of iterations inside the body, that carries
// %x0 on as %z and gives %y; what it makes of it is %r.
func nested(iterations int, line string) []string {
	return []string{fmt.Sprintf("const %%m: int64[] = %d", iterations), "const %yes: bool[] = true", "%y = Loop(%m, %yes, %x0 | %v) {",
		"body: graph \"inner\" { in %j: int64[] in %q: bool[] in %z: float32[4,4] in %u: float32[4,4] " + line + " out %q, %r }", "}"}
}

// The worked examples of the NNC specification, and the corners beside them. Where an
// operator may write over its operand, one place less is enough than the
// specification's rule asks for; such rows stand beside one in which nothing can be
// written in place.
//
//	params   <= results after each iteration
//	period   places that the last carried result takes in turn
//	ring     iterations until all of them begin anew
//	prefix   iterations that see initial values
//	slots    different places in the arena that carried values made in the body take;
//	         in a loop in a loop as many as the one period times the other
type vector struct {
	name                        string
	params, lines, results      []string
	period, ring, prefix, slots int
}

var vectors = []vector{
	{"y = avg(conv(x)): x dies before y is born", []string{"x0"},
		[]string{"%a = MatMul(%x0, %v)", "%y = MatMul(%a, %v)"}, []string{"y"}, 1, 1, 1, 1},
	{"y = conv(x): both live at the convolution", []string{"x0"},
		[]string{"%y = MatMul(%x0, %v)"}, []string{"y"}, 2, 2, 1, 2},
	{"h = relu(h): in place", []string{"x0"},
		[]string{"%y = Relu(%x0)"}, []string{"y"}, 1, 1, 1, 1},
	{"x2 = x0 + conv(x1), the sum written over x0", []string{"x0", "x1"},
		[]string{"%a = MatMul(%x1, %v)", "%y = Add(%x0, %a)"}, []string{"x1", "y"}, 2, 2, 2, 2},
	{"x2 = conv(x0) conv(x1), nothing in place", []string{"x0", "x1"},
		[]string{"%a = MatMul(%x1, %v)", "%y = MatMul(%x0, %a)"}, []string{"x1", "y"}, 3, 3, 2, 3},
	{"x3 = x0 + f(x1) over a chain of two, the sum written over x0", []string{"x0", "x1", "x2"},
		[]string{"%a = MatMul(%x1, %v)", "%y = Add(%x0, %a)"}, []string{"x1", "x2", "y"}, 3, 3, 3, 3},
	{"x3 = x0 f(x1) over a chain of two, nothing in place", []string{"x0", "x1", "x2"},
		[]string{"%a = MatMul(%x1, %v)", "%y = MatMul(%x0, %a)"}, []string{"x1", "x2", "y"}, 4, 4, 3, 4},
	{"x[t] = f(x[t-4]), a delay line of four", []string{"x0", "x1", "x2", "x3"},
		[]string{"%y = MatMul(%x0, %v)"}, []string{"x1", "x2", "x3", "y"}, 5, 5, 4, 5},
	{"a delay line of four, in place", []string{"x0", "x1", "x2", "x3"},
		[]string{"%y = Tanh(%x0)"}, []string{"x1", "x2", "x3", "y"}, 4, 4, 4, 4},
	{"a delay line through identities", []string{"x0", "x1"},
		[]string{"%p = Identity(%x1)", "%y = MatMul(%x0, %v)"}, []string{"p", "y"}, 3, 3, 2, 3},
	{"(a, b) <= (b, a), a swap: nothing is written", []string{"a", "b"}, nil, []string{"b", "a"}, 1, 1, 1, 0},
	{"passed through unchanged", []string{"x0"}, nil, []string{"x0"}, 1, 1, 1, 0},
	{"two chains cross: one value is born after its reader, one before", []string{"a", "b"},
		[]string{"%y = MatMul(%a, %v)", "%z = MatMul(%b, %b)"}, []string{"z", "y"}, 2, 2, 1, 3},
	{"a captured value becomes the parameter", []string{"x0"}, nil, []string{"v"}, 1, 1, 1, 0},
	{"two chains with periods two and three", []string{"a", "p", "q"},
		[]string{"%b = MatMul(%a, %v)", "%r = MatMul(%p, %v)"}, []string{"b", "q", "r"}, 3, 6, 2, 5},
	{"If: both branches make the carried value", []string{"x0"},
		branches("x0", "v", "%r = MatMul(%a, %b) out %r", "%s = MatMul(%b, %a) %r = MatMul(%s, %b) out %r"), []string{"y"}, 2, 2, 1, 2},
	{"If: one branch keeps the old value: one place to spare", []string{"x0"},
		branches("x0", "v", "%r = MatMul(%a, %b) out %r", "out %a"), []string{"y"}, 2, 2, 1, 2},
	{"If: one branch passes on what the body made before", []string{"x0"},
		append([]string{"%new = MatMul(%x0, %v)"}, branches("new", "v", "%r = MatMul(%a, %b) out %r", "out %a")...), []string{"y"}, 2, 2, 1, 3},
	{"If: one branch takes the value of another chain", []string{"x0", "x1"},
		append(branches("x1", "x0", "%r = MatMul(%a, %b) out %r", "out %a"), "%z = MatMul(%x1, %v)"), []string{"y", "z"}, 3, 6, 2, 5},
	{"Loop in a loop, the same value carried by both", []string{"x0"},
		nested(1, "%r = MatMul(%z, %u)"), []string{"y"}, 2, 2, 1, 4},
	{"Loop in a loop, turning twice as fast", []string{"x0"},
		nested(2, "%r = MatMul(%z, %u)"), []string{"y"}, 2, 2, 1, 4},
	{"Loop in a loop, turning three times as fast", []string{"x0"},
		nested(3, "%r = MatMul(%z, %u)"), []string{"y"}, 2, 2, 1, 4},
	{"Loop in a loop, in place: the outer loop sees operands and results only", []string{"x0"},
		nested(2, "%r = Tanh(%z)"), []string{"y"}, 2, 2, 1, 2},
	{"LSTM cell: two states, one of them stacked", []string{"h", "c"},
		[]string{"%g = MatMul(%h, %v)", "%f = Sigmoid(%g)", "%s = Tanh(%g)", "%p = Mul(%f, %c)", "%q = Mul(%f, %s)",
			"%c2 = Add(%p, %q)", "%o = Tanh(%c2)", "%h2 = Mul(%f, %o)"}, []string{"h2", "c2", "h2"}, 1, 1, 1, 1},
}

func TestPeriods(t *testing.T) {
	for _, c := range vectors {
		t.Run(c.name, func(t *testing.T) {
			r, err := loops.Of(loopOf(t, c.params, c.lines, c.results))
			require.NoError(t, err)
			assert.Equal(t, c.ring, r.Ring, "ring")
			assert.Equal(t, c.prefix, r.Prefix, "prefix")
			last := r.Carries[len(r.Carries)-1].Result
			assert.Equal(t, c.period, r.Period(last), "period")
			assert.Zero(t, r.CopyBytes(), "bytes copied per iteration")
		})
	}
}

// TestSlots compiles every vector and looks at where the carried values lie.
func TestSlots(t *testing.T) {
	for _, c := range vectors {
		t.Run(c.name, func(t *testing.T) {
			g := loopGraph(t, c.params, c.lines, c.results, true)
			p, err := program.Compile(t.Context(), g, program.Options{})
			require.NoError(t, err)
			assert.Len(t, slotsOf(p, g.Nodes[len(c.params)]), c.slots, "places of what is carried")
			assert.Zero(t, p.Report.CopiesPerTrip, "bytes copied per iteration")
		})
	}
}

// slotsOf lists the places that values made in the body of a loop may have when they
// are carried on.
func slotsOf(p *program.Program, loop *ssa.Node) []int64 {
	offsets := map[*ssa.Value][]int64{}
	for _, s := range p.Slots {
		if s.Kind == program.SlotArena {
			offsets[s.Value] = s.Offsets
		}
	}
	made := map[*ssa.Value]bool{}
	var visit func(g *ssa.Graph)
	visit = func(g *ssa.Graph) {
		for _, n := range g.Nodes {
			for _, v := range n.Out {
				made[v] = true
			}
			for _, b := range n.Bodies {
				visit(b)
			}
		}
	}
	visit(loop.Bodies[0])
	var out []int64
	for _, c := range p.Timeline.Rotation(loop).Carries[1:] {
		places := p.Timeline.PlacesOf(c.Result)
		if places == nil {
			continue
		}
		for _, v := range places.Vars {
			for _, root := range p.Timeline.Roots(v) {
				if v := p.Timeline.Vars[root].Value; made[v] {
					out = append(out, offsets[v]...)
				}
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// TestInitialValues counts the places of what is carried together with those of the
// initial values. One that nothing reads after the loop gives its place to the values
// that follow it (the ring, K0N); one that is still read keeps it, and the loop goes on
// in places of its own (one header for the first iteration, then the ring: K1N). Chains
// are not here: their initial values may be results, so they keep their places.
func TestInitialValues(t *testing.T) {
	for _, c := range []struct {
		vector        string
		ring, keeping int // places if nothing reads the initial values afterwards, and if something does
	}{
		{"y = avg(conv(x)): x dies before y is born", 1, 2},
		{"y = conv(x): both live at the convolution", 2, 3},
		{"h = relu(h): in place", 1, 2},
		{"(a, b) <= (b, a), a swap: nothing is written", 2, 2},
		{"If: both branches make the carried value", 2, 3},
	} {
		t.Run(c.vector, func(t *testing.T) {
			i := slices.IndexFunc(vectors, func(v vector) bool { return v.name == c.vector })
			require.GreaterOrEqual(t, i, 0)
			for _, preserve := range []bool{false, true} {
				g := loopGraph(t, vectors[i].params, vectors[i].lines, vectors[i].results, preserve)
				p, err := program.Compile(t.Context(), g, program.Options{})
				require.NoError(t, err)
				loop := g.Nodes[len(vectors[i].params)]
				places := slotsOf(p, loop)
				for _, s := range p.Slots {
					if slices.Contains(loop.In[2:2+len(vectors[i].params)], s.Value) {
						places = append(places, s.Offsets...)
					}
				}
				slices.Sort(places)
				want := c.ring
				if preserve {
					want = c.keeping
				}
				assert.Len(t, slices.Compact(places), want, "initial values read after the loop: %v", preserve)
			}
		})
	}
}

// TestValues runs every vector 0, 1, 2, … 2·ring+1 times, ended by the number of
// iterations and by the condition, with its initial values read after the loop and
// not, in a poisoned arena: the results are those of the interpreter.
func TestValues(t *testing.T) {
	for _, c := range vectors {
		for _, preserve := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/preserve=%v", c.name, preserve), func(t *testing.T) {
				g := loopGraph(t, c.params, c.lines, c.results, preserve)
				p, err := program.Compile(t.Context(), g, program.Options{})
				require.NoError(t, err)
				s, err := p.NewSession()
				require.NoError(t, err)
				s.Poison = true
				for trips := range int64(2*c.ring + 2) {
					for _, choice := range []bool{false, true} {
						for _, end := range [][2]int64{{trips, math.MaxInt64}, {math.MaxInt64, trips - 1}} {
							in := []ndarray.Value{ndarray.Scalar(end[0]), ndarray.Scalar(end[1]), square(1), square(2), ndarray.Scalar(choice)}
							want, err := ops.Interpret(t.Context(), g, in, nil)
							require.NoError(t, err)
							got, err := s.Run(t.Context(), in)
							require.NoError(t, err)
							require.Empty(t, graphgen.Noise.Diff(got, want), "%d iterations at the most, up to number %d", end[0], end[1])
						}
					}
				}
			})
		}
	}
}

// square is a 4×4 matrix of small numbers that depend on k.
func square(k int) *ndarray.Array {
	v := make([]float32, 16)
	for i := range v {
		v[i] = float32((i*7+k*5)%9-4) / 8
	}
	return ndarray.Of(v, 4, 4)
}
