package ptx

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestNeighbours: operands that lie next to each other in memory may each be touched by addresses that are computed from their own parameter alone.
func TestNeighbours(t *testing.T) {
	const counted = "st.global.f32 [%x3], %f1;"
	tests := []struct {
		name, old, new string
		want           Kind
		at             string
	}{
		{"the last element's next", "ld.global.f32 %f1, [%x2];", "ld.global.f32 %f1, [%x2+4];", OutOfBounds, "ld.global.f32"},
		{"the element before the first", counted, "st.global.f32 [%x3+-4], %f1;", OutOfBounds, "st.global.f32"},
		{"the first operand by a distance from the second", counted, "ld.global.f32 %f1, [%x3+-512]; " + counted, OutOfBounds, "ld.global.f32"},
		{"an index one too far, computed", counted, "add.s64 %x4, %x2, 4; mov.b64 %x5, %x4; ld.global.f32 %f1, [%x5]; " + counted, OutOfBounds, "ld.global.f32"},
		{"a generic address", counted, "cvta.global.u64 %x4, %x2; ld.f32 %f1, [%x4+4]; " + counted, OutOfBounds, "ld.f32"},
		{"an asynchronous copy", counted, "cp.async.ca.shared.global [%r3], [%x2+4], 4; " + counted, OutOfBounds, "cp.async.ca.shared.global"},
		{"an atomic operation", counted, "red.global.add.f32 [%x2+4], %f1; " + counted, OutOfBounds, "red.global.add.f32"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			correct := small(exchange)
			require.Equal(t, 1, strings.Count(correct, test.old))
			run := func(text string) *Result {
				b := loadText(t, text)
				all := in(b, make([]float32, 256))
				l := Launch{Kernel: "k", Grid: line(1), Block: line(128), Args: make([]byte, 16), Windows: []Window{
					{Name: "x", Base: all.Base, Size: 512, Access: ReadWrite, Arg: 1}, {Name: "y", Base: all.Base + 512, Size: 512, Access: ReadWrite, Arg: 9}}}
				storeBytes(l.Args, 8, all.Base)
				storeBytes(l.Args[8:], 8, all.Base+512)
				r, err := b.Launch(t.Context(), b.mem, l)
				require.NoError(t, err)
				return r
			}
			require.NoError(t, run(correct).Err())
			found := reportOf(run(strings.Replace(correct, test.old, test.new, 1)), test.want)
			require.NotNil(t, found)
			assert.Equal(t, test.at, found.Op)
			assert.Contains(t, found.Detail, "which its address is not computed from")
		})
	}
}

// TestOrigins: addresses of which none, or one of several, is known.
func TestOrigins(t *testing.T) {
	for name, test := range map[string]struct {
		body     string
		untraced int
	}{
		"of parameters":          {"ld.global.f32 %f1, [%x2];", 0},
		"one of two":             {"setp.eq.u32 %p1, %r1, 3; selp.b64 %x4, %x2, %x3, %p1; ld.global.f32 %f2, [%x4];", 0},
		"in a loop":              {"mov.u64 %x4, %x2; L: ld.global.f32 %f2, [%x4]; add.s64 %x4, %x4, 4; setp.eq.u32 %p1, %r1, 200; @%p1 bra L;", 0},
		"of halves":              {"mov.b64 {%r5, %r6}, %x2; mov.b64 %x4, {%r5, %r6}; ld.global.f32 %f2, [%x4];", 0},
		"of a variable":          {"mov.u64 %x4, v; ld.global.f32 %f2, [%x4]; ld.global.f32 %f2, [v];", 0},
		"by way of memory":       {"st.shared.u64 [%r3], %x2; ld.shared.u64 %x4, [%r3]; ld.global.f32 %f2, [%x4];", 1},
		"a number":               {"ld.global.f32 %f2, [%x1];", 1},
		"the value that is read": {"ld.global.f32 %f2, [%x2]; mov.b32 %r5, %f2; cvt.u64.u32 %x4, %r5; ld.global.f32 %f2, [%x4];", 1},
	} {
		b := loadText(t, strings.Replace(small(test.body), ".visible", ".global .f32 v = 0f00000000;\n.visible", 1))
		info, err := b.Info("k")
		require.NoError(t, err)
		assert.Len(t, info.Untraced, test.untraced, name)
	}
}
