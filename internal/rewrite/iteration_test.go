package rewrite

import (
	"strings"
	"testing"
)

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
