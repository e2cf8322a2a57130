package rewrite

import "testing"

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
