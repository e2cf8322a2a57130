package rewrite

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth/internal/graphgen"
	"github.com/berth-onnx/berth/internal/looktest"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

const manyPatches = `in %x: float32[N,4] const %one: float32[] = 1 const %k: float32[4] = [1, 2, 3, 4] const %l: float32[4] = [1, 2, 3, 4]
	%a = Identity(%x) %b = Mul(%a, %one) %c = Add(%b, %k) %d = Add(%b, %l) %e = Mul(%c, %d) %f = Exp(%a) %g = Neg(%e) %y = Neg(%g) out %y`

func run(t *testing.T, text string, opts Options) (*ssa.Graph, *Report) {
	t.Helper()
	m := &ssa.Module{Graph: parseCase(t, text)}
	r, err := Run(t.Context(), m, opts)
	require.NoError(t, err)
	return m.Graph, r
}

func TestPassesCanBeSwitched(t *testing.T) {
	opsOf := func(g *ssa.Graph) string {
		var names []string
		for _, n := range g.Nodes {
			names = append(names, n.Op)
		}
		return strings.Join(names, " ")
	}
	for _, c := range []struct {
		name string
		opts Options
		want string
	}{
		{"all", Options{}, "Add Mul"},
		{"no dead code", Options{Off: []string{"dead"}}, "Add Mul Exp"},
		{"only identity", Options{Only: []string{"identity"}}, "Add Add Mul Exp"},
		{"nothing to do", Options{Only: []string{"transposes"}}, "Identity Mul Add Add Mul Exp Neg Neg"},
	} {
		g, _ := run(t, manyPatches, c.opts)
		require.NoError(t, g.Sort())
		assert.Equal(t, c.want, opsOf(g), c.name)
	}
	_, err := Run(t.Context(), &ssa.Module{Graph: parseCase(t, manyPatches)}, Options{Off: []string{"no-such-pass"}})
	assert.ErrorContains(t, err, `no pass "no-such-pass"`)
}

// TestSettledPasses: a pass that found nothing runs again only when another one has changed the model since.
func TestSettledPasses(t *testing.T) {
	for _, c := range []struct{ name, graph string }{
		{"nothing to change", `in %x: float32[4] %a = Relu(%x) %y = Tanh(%a) out %y`},
		{"changes", manyPatches},
	} {
		_, r := run(t, c.graph, Options{List: &Runtime})
		patches, settled := 0, map[string]int{}
		for _, p := range r.Passes {
			at, again := settled[p.Pass]
			assert.False(t, again && at == patches, "%s: %s ran again in stage %s, round %d", c.name, p.Pass, p.Stage, p.Round)
			if patches += p.Patches; p.Patches == 0 {
				settled[p.Pass] = patches
			}
		}
		assert.Len(t, settled, len(Runtime.Passes()), c.name)
	}
}

func TestReport(t *testing.T) {
	_, r := run(t, manyPatches, Options{})
	assert.Equal(t, 8, r.Before.Nodes)
	assert.Equal(t, 2, r.After.Nodes)
	assert.Equal(t, 3, r.Before.Constants)
	assert.EqualValues(t, 36, r.Before.ConstBytes)
	assert.EqualValues(t, 16, r.After.ConstBytes)
	patches := 0
	for i, p := range r.Passes {
		patches += p.Patches
		if i > 0 {
			assert.Equal(t, r.Passes[i-1].After, p.Before)
		}
	}
	assert.Len(t, r.Patches, patches)
	assert.True(t, slices.ContainsFunc(r.Passes, func(p PassStat) bool { return p.Stage == "simplify" && p.Round == 2 }))
	for _, p := range r.Patches {
		assert.NotEmpty(t, p.Node)
		assert.NotEmpty(t, p.What)
	}
}

func TestRunningAgainChangesNothing(t *testing.T) {
	for seed := range uint64(60) {
		g, err := graphgen.New(seed, graphgen.Config{})
		require.NoError(t, err)
		m := &ssa.Module{Graph: g}
		_, err = Run(t.Context(), m, Options{})
		require.NoError(t, err)
		text := g.String()
		r, err := Run(t.Context(), m, Options{})
		require.NoError(t, err)
		assert.Empty(t, withoutHoisting(r.Patches), "seed %d", seed)
		assert.Equal(t, text, g.String())
	}
}

// withoutHoisting leaves out the two passes that undo each other by design
func withoutHoisting(ps []Patch) (out []Patch) {
	for _, p := range ps {
		if p.Pass != SinkConstants.Name && p.Pass != HoistConstants.Name {
			out = append(out, p)
		}
	}
	return out
}

func TestSameInputSameOutput(t *testing.T) {
	for seed := range uint64(20) {
		var texts [2]string
		for i := range texts {
			g, err := graphgen.New(seed, graphgen.Config{Nodes: 30})
			require.NoError(t, err)
			_, err = Run(t.Context(), &ssa.Module{Graph: g}, Options{List: &Runtime})
			require.NoError(t, err)
			texts[i] = g.String()
		}
		assert.Equal(t, texts[0], texts[1])
	}
}

// testPass is a pass for tests of the driver.
func testPass(name string, f func(c *Context, g *ssa.Graph)) *Pass {
	return &Pass{Name: name, Doc: "for tests", after: f}
}

func TestBadPassesAreCaught(t *testing.T) {
	for _, c := range []struct {
		name string
		run  func(c *Context, g *ssa.Graph)
		want string
	}{
		{"panics", func(*Context, *ssa.Graph) { panic("oh no") }, "oh no"},
		{"fails", func(c *Context, _ *ssa.Graph) { c.fail(fmt.Errorf("some cause")) }, "some cause"},
		{"fails, then panics", func(c *Context, _ *ssa.Graph) { c.fail(fmt.Errorf("some cause")); panic("oh no") }, "some cause"},
		{"never ends", func(c *Context, g *ssa.Graph) { c.patch(g.Nodes[0], "again") }, "no fixed point"},
		{"breaks uses", func(c *Context, g *ssa.Graph) {
			c.patch(g.Nodes[0], "break")
			g.Nodes = g.Nodes[1:]
		}, "broken graph"},
		{"breaks types", func(c *Context, g *ssa.Graph) {
			if g.Nodes[0].Op == "Identity" {
				c.patch(g.Nodes[0], "break")
				g.Nodes[0].Op = "Shape"
			}
		}, "pass bad"},
	} {
		t.Run(c.name, func(t *testing.T) {
			list := &List{Stages: []Stage{{Name: "s", Repeat: true, Passes: []*Pass{testPass("bad", c.run)}}}}
			_, err := Run(t.Context(), &ssa.Module{Graph: parseCase(t, manyPatches)}, Options{List: list, Check: true})
			var re *Error
			require.ErrorAs(t, err, &re)
			assert.ErrorContains(t, err, c.want)
		})
	}
}

func TestCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := Run(ctx, &ssa.Module{Graph: parseCase(t, manyPatches)}, Options{})
	assert.ErrorIs(t, err, context.Canceled)
}

func TestListsAreValidated(t *testing.T) {
	nop := func(*Context, *ssa.Graph) {}
	a, b := testPass("a", nop), testPass("b", nop)
	list := func(ps ...*Pass) *List { return &List{Stages: []Stage{{Name: "s", Passes: ps}}} }
	rules := []orderRule{{a, b, "because"}}
	assert.NoError(t, list(a, b).validate(rules))
	assert.NoError(t, list(b).validate(rules))
	assert.ErrorContains(t, list(b, a).validate(rules), "a must come before b: because")
	assert.ErrorContains(t, list(Inline, SinkConstants).validate(orderRules), "sink-constants must come before inline")
	assert.ErrorContains(t, list(SinkConstants, HoistConstants, Unroll).validate(orderRules), "unroll must come before hoist-constants")
	assert.ErrorContains(t, list(a, testPass("a", nop)).validate(nil), "two definitions")
	assert.ErrorContains(t, list(&Pass{Name: "x"}).validate(nil), "lacks a field")
}

func TestDumpPage(t *testing.T) {
	d := &Dump{}
	run(t, manyPatches, Options{Dump: d})
	assert.NotEmpty(t, d.Stages[0].Text)
	same := 0
	for _, s := range d.Stages {
		if s.Text == "" {
			same++
		}
	}
	assert.Positive(t, same)
	var page bytes.Buffer
	require.NoError(t, d.WriteHTML(&page))
	html := page.String()
	assert.Equal(t, len(d.Stages), strings.Count(html, "<section"))
	assert.Equal(t, same, strings.Count(html, `class="same"`))
	assert.Contains(t, html, "%a")
	assert.Contains(t, html, `class="new"`)
	for _, outside := range []string{"http://", "https://", "src="} {
		assert.NotContains(t, html, outside, "the page is self-contained")
	}
}

// TestOpaqueAndRandomStay: what berth does not understand, or what draws numbers,
// is left alone.
func TestOpaqueAndRandomStay(t *testing.T) {
	text := `in %x: float32[2] const %k: float32[2] = [1, 2]
		%a: float32[2] = opaque com.acme::Foo(%k) %b: float32[2] = opaque com.acme::Foo(%k)
		%dead: float32[2] = opaque com.acme::Log(%x)
		%r = RandomNormal() [shape=[2]] %s = RandomNormal() [shape=[2]] %l = RandomNormalLike(%k)
		%c = Add(%a, %b) %d = Add(%r, %s) %e = Add(%c, %d) %f = Add(%l, %e) %y = Add(%x, %f) out %y`
	for _, list := range []*List{&Portable, &Runtime} {
		g, _ := run(t, text, Options{List: list, Check: true, Shuffle: true})
		count := map[string]int{}
		for _, n := range g.Nodes {
			count[n.Op]++
		}
		assert.Equal(t, map[string]int{"Foo": 2, "Log": 1, "RandomNormal": 2, "RandomNormalLike": 1, "Add": 5}, count)
	}
}

// TestDissolvedOnce: where control flow is dissolved, nodes nobody may drop move; they
// do not stay behind as well.
func TestDissolvedOnce(t *testing.T) {
	for _, c := range []struct {
		name, text string
		want       map[string]int
	}{
		{"if", `in %x: float32[2] const %t: bool[] = true %y = If(%t | %x) {
			then_branch: graph "t" { in %p: float32[2] %a: float32[2] = opaque com.acme::Foo(%p) out %a }
			else_branch: graph "e" { in %p: float32[2] %a: float32[2] = opaque com.acme::Bar(%p) out %a } } out %y`, map[string]int{"Foo": 1}},
		{"loop that runs once", `in %x: float32[2] const %n: int64[] = 1 %y = Loop(%n, _, %x) {
			body: graph "b" { in %i: int64[] in %c: bool[] in %p: float32[2] %a: float32[2] = opaque com.acme::Foo(%p) out %c, %a } } out %y`, map[string]int{"Foo": 1}},
		{"loop that never runs", `in %x: float32[2] const %n: int64[] = 0 %y = Loop(%n, _, %x) {
			body: graph "b" { in %i: int64[] in %c: bool[] in %p: float32[2] %a: float32[2] = opaque com.acme::Foo(%p) out %c, %a } } %z = Neg(%y) out %z`, map[string]int{"Neg": 1}},
		{"scan over one", `in %x: float32[1,2] in %s: float32[2] %y, %o = Scan(%s, %x) [num_scan_inputs=1] {
			body: graph "b" { in %p: float32[2] in %q: float32[2] %a: float32[2] = opaque com.acme::Foo(%p) %b = Add(%a, %q) out %b, %b } } out %y, %o`, map[string]int{"Foo": 1, "Squeeze": 1, "Add": 1, "Unsqueeze": 1}},
	} {
		t.Run(c.name, func(t *testing.T) {
			g, _ := run(t, c.text, Options{List: &Portable, Check: true})
			count := map[string]int{}
			for _, n := range g.Nodes {
				count[n.Op]++
			}
			assert.Equal(t, c.want, count)
		})
	}
}

// TestDeclaredTypesSurvive: what only the file says of a value is not forgotten.
func TestDeclaredTypesSurvive(t *testing.T) {
	g := parseCase(t, `in %x: float32[4] %a = NonZero(%x) %b = Identity(%a) %y = Cast(%b) [to=1] out %y`)
	g.Results[0].Type = ssa.StaticTensor(g.Results[0].Type.DType, 1, 3)
	_, err := Run(t.Context(), &ssa.Module{Graph: g}, Options{Check: true})
	require.NoError(t, err)
	assert.Equal(t, "float32[1,3]", g.Results[0].Type.String())
}

func TestInvalidGraphIsRefused(t *testing.T) {
	g, err := ssa.ParseGraph(`graph "g" { in %x: float32[2] in %z: int64[2] %y = Add(%x, %z) out %y }`)
	require.NoError(t, err)
	_, err = Run(t.Context(), &ssa.Module{Graph: g}, Options{})
	var ne *ops.NodeError
	assert.ErrorAs(t, err, &ne)
}

// TestReinferEnds: a context that has ended before a node leaves its results as they are.
func TestReinferEnds(t *testing.T) {
	g := parseCase(t, `in %x: float32[2] %y = Neg(%x) %z = Exp(%y) out %z`)
	g.Nodes[0].Out[0].Type = ssa.Type{}
	require.Equal(t, context.Canceled, reinfer(&looktest.Context{Left: 0}, g))
	require.False(t, g.Nodes[0].Out[0].Type.IsStatic())
}

// TestUnusableNodesLook: passes look at their context among nodes that they leave alone because nothing reads them.
func TestUnusableNodesLook(t *testing.T) {
	g := parseCase(t, `in %x: float32[2] %y = Neg(%x) out %y`)
	for range 2 * lookEvery {
		g.NewNode("Neg", g.Params, 1)
	}
	ctx := &looktest.Context{Context: t.Context(), Left: 1 << 30}
	c := newContext(ctx, &ssa.Module{Graph: g}, Options{})
	c.graph, c.current = g, &Pass{}
	for n := range c.live(g, func(*ops.Op) bool { return true }) {
		require.Same(t, g.Nodes[0], n)
	}
	require.Equal(t, 2, 1<<30-ctx.Left)
}

// TestFactsOfManyResultsLook: what is remembered of a node with many results is not remembered to the end once the context has ended.
func TestFactsOfManyResultsLook(t *testing.T) {
	n := ssa.NewGraph("g").NewNode("Split", nil, 2*factsPerLook)
	require.Len(t, rememberFacts(&looktest.Context{}, nil, n), factsPerLook-1)
}

// TestRulesLook: once the context has ended no further rule sees a node.
func TestRulesLook(t *testing.T) {
	g := parseCase(t, `in %x: float32[2] %y = Neg(%x) out %y`)
	seen := 0
	count := rule{apply: func(*Context, *ssa.Node) bool { seen++; return false }}
	c := newContext(&looktest.Context{Context: t.Context(), Left: 2}, &ssa.Module{Graph: g}, Options{})
	c.rules[ops.Of(g.Nodes[0])] = []rule{count, count, count, count}
	c.visit(g.Nodes[0])
	require.Equal(t, 2, seen)
}
