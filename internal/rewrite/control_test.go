package rewrite

import (
	"context"
	"strings"
	"testing"

	"github.com/berth-onnx/berth/internal/graphgen"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestInline(t *testing.T) {
	testRewrite(t, []*Pass{SinkConstants, Inline, Dead}, []rewriteCase{
		{name: "if with a constant condition", exact: true, before: `in %x: float32[N] const %t: bool[] = false const %k: float32[] = 2 %y, %z = If(%t | %x, %k) {
			then_branch: graph "t" { in %p: float32[N] in %q: float32[] %a = Neg(%p) out %a, %a }
			else_branch: graph "e" { in %p: float32[N] in %q: float32[] %a = Mul(%p, %q) %b = Exp(%a) out %b, %p } } out %y, %z`,
			after: `in %x: float32[N] const %q: float32[] = 2 %a = Mul(%x, %q) %y = Exp(%a) %z = Identity(%x) out %y, %z`},
		{name: "nested", exact: true, before: `in %x: float32[N] in %c: bool[] const %t: bool[] = true %y = If(%t | %x, %c) {
			then_branch: graph "t" { in %p: float32[N] in %c: bool[] %a = If(%c | %p) { then_branch: graph "tt" { in %p: float32[N] %a = Neg(%p) out %a } else_branch: graph "te" { in %p: float32[N] out %p } } out %a }
			else_branch: graph "e" { in %p: float32[N] in %c: bool[] out %p } } out %y`,
			after: `in %x: float32[N] in %c: bool[] %y = If(%c | %x) { then_branch: graph "tt" { in %p: float32[N] %a = Neg(%p) out %a } else_branch: graph "te" { in %p: float32[N] out %p } } out %y`},
		{name: "loop that runs once", exact: true, before: `in %x: float32[2] const %n: int64[] = 1 %y, %s = Loop(%n, _, %x | %x) { body: graph "b" { in %i: int64[] in %c: bool[] in %p: float32[2] in %q: float32[2] %a = Add(%p, %q) %f = Cast(%i) [to=1] %b = Add(%a, %f) out %c, %b, %a } } out %y, %s`,
			after: `in %x: float32[2] const %i: int64[] = 0 const %ax: int64[1] = [0] %a = Add(%x, %x) %f = Cast(%i) [to=1] %y = Add(%a, %f) %s = Unsqueeze(%a, %ax) out %y, %s`},
		{name: "loop that never runs", exact: true, before: `in %x: float32[2] const %n: int64[] = 0 %y, %s = Loop(%n, _, %x) { body: graph "b" { in %i: int64[] in %c: bool[] in %p: float32[2] %a = Add(%p, %p) out %c, %a, %a } } %z = Neg(%y) out %z, %s`,
			after: `in %x: float32[2] const %s: float32[0,2] = [] %z = Neg(%x) out %z, %s`},
		{name: "scan over one", exact: true, before: `in %x: float32[3,1] in %s: float32[3] %y, %o = Scan(%s, %x) [num_scan_inputs=1, scan_input_axes=[-1], scan_output_axes=[1]] { body: graph "b" { in %p: float32[3] in %q: float32[3] %a = Add(%p, %q) out %a, %a } } out %y, %o`,
			after: `in %x: float32[3,1] in %s: float32[3] const %ax: int64[1] = [1] %q = Squeeze(%x, %ax) %y = Add(%s, %q) %o = Unsqueeze(%y, %ax) out %y, %o`},
		{name: "loop whose body decides stays", exact: true, before: `in %x: float32[] const %n: int64[] = 1 const %k: float32[] = 0 const %t: bool[] = true %y = Loop(%n, %t, %x) { body: graph "b" { in %i: int64[] in %c: bool[] in %p: float32[] %a = Add(%p, %p) const %k: float32[] = 0 %d = Less(%a, %k) out %d, %a } } out %y`},
		{name: "what is drawn keeps its name", exact: true, before: `const %t: bool[] = true %y = If(%t) { then_branch: graph "t" { %a = RandomNormal() [shape=[2]] %b = Neg(%a) out %b } else_branch: graph "e" { %d = RandomNormal() [shape=[2]] out %d } } out %y`,
			after: `%a = RandomNormal() [shape=[2]] %y = Neg(%a) out %y`},
		{name: "what is drawn is the result", exact: true, before: `const %n: int64[] = 1 %y = Loop(%n, _) { body: graph "b" { in %i: int64[] in %c: bool[] %a = RandomNormal() [shape=[2]] out %c, %a } } out %y`,
			after: `const %x: int64[1] = [0] %a = RandomNormal() [shape=[2]] %y = Unsqueeze(%a, %x) out %y`},
		{name: "names by which two nodes draw stay in their bodies", exact: true, before: `const %t: bool[] = true %y = If(%t) { then_branch: graph "t" { %a = RandomNormal() [shape=[2]] out %a } else_branch: graph "e" { %d = RandomNormal() [shape=[2]] out %d } }
			%z = If(%t) { then_branch: graph "t" { %a = RandomNormal() [shape=[2]] out %a } else_branch: graph "e" { %d = RandomNormal() [shape=[2]] out %d } } %s = Sub(%y, %z) out %s`},
	})
}

func TestLoopInvariant(t *testing.T) {
	const loop = `%y = Loop(%n, _, %x | %w, %v) { body: graph "b" { in %i: int64[] in %c: bool[] in %p: float32[2,2] in %q: float32[2,2] in %r: float32[2,2] %a = MatMul(%q, %r) %b = Relu(%a) %d = Add(%p, %b) out %c, %d } } out %y`
	const moved = `%a = MatMul(%w, %v) %b = Relu(%a) %y = Loop(%n, _, %x | %b) { body: graph "b" { in %i: int64[] in %c: bool[] in %p: float32[2,2] in %b: float32[2,2] %d = Add(%p, %b) out %c, %d } } out %y`
	const ins = `in %n: int64[] in %x: float32[2,2] in %w: float32[2,2] in %v: float32[2,2] `
	testRewrite(t, []*Pass{LoopInvariant, Dead}, []rewriteCase{
		{name: "a chain that can not fail", exact: true, before: ins + loop, after: ins + moved},
		{name: "what could fail stays where the loop may not run", exact: true, before: `in %n: int64[] in %x: float32[2] in %k: int64[2] %y = Loop(%n, _, %x | %k) { body: graph "b" { in %i: int64[] in %c: bool[] in %p: float32[2] in %q: int64[2] const %seven: int64[] = 7 %a = Div(%seven, %q) %f = Cast(%a) [to=1] %d = Add(%p, %f) out %c, %d } } out %y`},
		{name: "what could fail moves where the loop runs", exact: true, before: `in %x: float32[2] in %k: float32[M] const %n: int64[] = 2 const %j: int64[2] = [0, 0] %y = Loop(%n, _, %x | %k, %j) { body: graph "b" { in %i: int64[] in %c: bool[] in %p: float32[2] in %q: float32[M] in %j: int64[2] %a = Gather(%q, %j) %d = Add(%p, %a) out %c, %d } } out %y`,
			after: `in %x: float32[2] in %k: float32[M] const %n: int64[] = 2 const %j: int64[2] = [0, 0] %a = Gather(%k, %j) %y = Loop(%n, _, %x | %a) { body: graph "b" { in %i: int64[] in %c: bool[] in %p: float32[2] in %a: float32[2] %d = Add(%p, %a) out %c, %d } } out %y`},
		{name: "out of a scan in a loop", exact: true, before: `in %n: int64[] in %x: float32[3,2] in %w: float32[2] %y = Loop(%n, _, %x | %w) { body: graph "b" { in %i: int64[] in %c: bool[] in %p: float32[3,2] in %w: float32[2]
			%o = Scan(%p | %w) [num_scan_inputs=1] { body: graph "s" { in %q: float32[2] in %w: float32[2] %e = Exp(%w) %a = Mul(%q, %e) out %a } } out %c, %o } } out %y`,
			after: `in %n: int64[] in %x: float32[3,2] in %w: float32[2] %e = Exp(%w) %y = Loop(%n, _, %x | %e) { body: graph "b" { in %i: int64[] in %c: bool[] in %p: float32[3,2] in %e: float32[2]
			%o = Scan(%p | %e) [num_scan_inputs=1] { body: graph "s" { in %q: float32[2] in %e: float32[2] %a = Mul(%q, %e) out %a } } out %c, %o } } out %y`},
	})
}

func TestSinkConstants(t *testing.T) {
	testRewrite(t, []*Pass{SinkConstants}, []rewriteCase{
		{name: "into both branches", before: `in %c: bool[] in %x: float32[2] const %k: float32[2] = [1, 2] %y = If(%c | %k, %x) {
			then_branch: graph "t" { in %q: float32[2] in %p: float32[2] %b = Sub(%p, %q) out %b }
			else_branch: graph "e" { in %q: float32[2] in %p: float32[2] out %q } } out %y`,
			after: `in %c: bool[] in %x: float32[2] %y = If(%c | %x) {
			then_branch: graph "t" { in %p: float32[2] const %q: float32[2] = [1, 2] %b = Sub(%p, %q) out %b }
			else_branch: graph "e" { in %p: float32[2] const %q: float32[2] = [1, 2] out %q } } out %y`},
	})
}

// TestHoistConstants sinks and hoists: large shared constants end up outside,
// small ones stay where they are read.
func TestHoistConstants(t *testing.T) {
	before := `in %c: bool[] in %x: float32[65] const %k: float32[65] = base64 "` + base64Floats(65) + `" const %s: float32[] = 2
		%z = Add(%x, %k)
		%y = If(%c | %k, %x, %s) {
		then_branch: graph "t" { in %q: float32[65] in %p: float32[65] in %s: float32[] %b = Sub(%p, %q) %d = Mul(%b, %s) out %d }
		else_branch: graph "e" { in %q: float32[65] in %p: float32[65] in %s: float32[]
			%r = If(%in | %p, %q) {
				then_branch: graph "t" { in %p: float32[65] in %q: float32[65] %b = Add(%p, %q) out %b }
				else_branch: graph "e" { in %p: float32[65] in %q: float32[65] out %p } }
			out %r } } out %y, %z`
	before = replaceOnce(before, "If(%in | ", "If(%t | ")
	before = replaceOnce(before, "%r = If", "const %t: bool[] = true %r = If")
	after := `in %c: bool[] in %x: float32[65] const %k: float32[65] = base64 "` + base64Floats(65) + `"
		%z = Add(%x, %k)
		%y = If(%c | %x, %k) {
		then_branch: graph "t" { in %p: float32[65] in %q: float32[65] %b = Sub(%p, %q) const %s: float32[] = 2 %d = Mul(%b, %s) out %d }
		else_branch: graph "e" { in %p: float32[65] in %q: float32[65]
			const %t: bool[] = true
			%r = If(%t | %p, %q) {
				then_branch: graph "t" { in %p: float32[65] in %q: float32[65] %b = Add(%p, %q) out %b }
				else_branch: graph "e" { in %p: float32[65] in %q: float32[65] out %p } }
			out %r } } out %y, %z`
	sunkThenHoisted(t, before, after)
}

func TestIteration(t *testing.T) {
	loop := func(trips, slice string) string {
		if trips == "%t" {
			trips = `const %z: int64[] = 0 %d = Shape(%x) %t = Gather(%d, %z) [axis=0] %r = Loop(%t`
		} else {
			trips = `const %u: int64[] = 3 %r = Loop(%u`
		}
		return `in %x: float32[T,3] in %h: float32[1,3] ` + trips + `, _, %h | %x) { body: graph "b" {
			in %i: int64[] in %c: bool[] in %p: float32[1,3] in %y: float32[T,3] const %o: int64[] = 1 const %a: int64[1] = [0] const %b: int64[1] = [1] const %w: int64[1] = [2]
			%s = Unsqueeze(%i, %a) ` + slice + ` %m = ReduceMax(%v, %a) [keepdims=1] %q = Add(%p, %m) out %c, %q } } out %r`
	}
	const exported = `%j = Add(%i, %o) %e = Unsqueeze(%j, %a) %v = Slice(%y, %s, %e, %a)`
	const picked = `%v = Gather(%y, %s) [axis=0]`
	of4 := func(s string) string { return strings.ReplaceAll(s, "float32[T,3]", "float32[4,3]") }
	testRewrite(t, []*Pass{Iteration, Dead}, []rewriteCase{
		{name: "as many iterations as elements", exact: true, before: loop("%t", exported), after: loop("%t", picked)},
		{name: "the sum behind the view", exact: true, before: loop("%t", `%e = Add(%b, %s) %v = Slice(%y, %s, %e, %a, %b)`), after: loop("%t", picked)},
		{name: "fewer iterations", exact: true, before: of4(loop("%u", exported)), after: of4(loop("%u", picked))},
		{name: "maybe more iterations: stays", exact: true, before: loop("%u", exported)},
		{name: "two elements: stays", exact: true, before: loop("%t", `%e = Add(%w, %s) %v = Slice(%y, %s, %e, %a)`)},
		{name: "from the next on: stays", exact: true, before: loop("%t", `%e = Add(%b, %s) %f = Sub(%e, %b) %v = Slice(%y, %f, %e, %a)`)},
	})
}

func TestUnroll(t *testing.T) {
	const loop = `graph "g" {
  in %x: float32[2]
  in %w: float32[2]
  const %n: int64[] = COUNT
  %y, %s = Loop(%n, _, %x | %w) {
    body: graph "b" {
      in %i: int64[]
      in %c: bool[]
      in %p: float32[2]
      in %q: float32[2]
      %a = Mul(%p, %q)
      %f = Cast(%i) [to=1]
      %d = Add(%a, %f)
      out %c, %d, %a
    }
  }
  out %y, %s
}`
	for _, c := range []struct {
		name   string
		text   string
		unroll bool
		loops  int
	}{
		{"three iterations", strings.ReplaceAll(loop, "COUNT", "3"), true, 0},
		{"not asked for", strings.ReplaceAll(loop, "COUNT", "3"), false, 1},
		{"too many", strings.ReplaceAll(loop, "COUNT", "65"), true, 1},
		{"random", strings.NewReplacer("COUNT", "3", "Mul(%p, %q)", "RandomUniformLike(%p) [seed=3.0]").Replace(loop), true, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			before, err := ssa.ParseGraph(c.text)
			require.NoError(t, err)
			require.NoError(t, ops.InferGraph(before))
			after, _ := before.Clone()
			_, err = Run(context.Background(), &ssa.Module{Graph: after, Opsets: []ssa.Opset{{Version: 18}}}, Options{Unroll: c.unroll, Check: true})
			require.NoError(t, err)
			loops := 0
			for _, n := range after.Nodes {
				if n.Op == "Loop" {
					loops++
				}
			}
			assert.Equal(t, c.loops, loops)
			assert.NoError(t, graphgen.Agree(context.Background(), before, after, 1, 3))
		})
	}
}
