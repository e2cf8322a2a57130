package ptx

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestGlobalRaces runs two blocks of 64 threads, of which each has its own element of y, given by %x3; %x4 is y, %x5 the element opposite in the
// block, and %r6 the number of the thread among all.
func TestGlobalRaces(t *testing.T) {
	const none = Kind(255)
	tests := []struct {
		name, body string
		want       Kind
		at         string
	}{
		{"each thread its own element", "st.global.u32 [%x3], %r6; ld.global.u32 %r7, [%x3]; st.global.u32 [%x3], %r7;", none, ""},
		{"elements exchanged behind a barrier", "st.global.u32 [%x3], %r6; bar.sync 0; ld.global.u32 %r7, [%x5]; bar.sync 0; st.global.u32 [%x3], %r7;", none, ""},
		{"elements exchanged without a barrier", "st.global.u32 [%x3], %r6; ld.global.u32 %r7, [%x5]; bar.sync 0; st.global.u32 [%x3], %r7;", Race, ""},
		{"elements exchanged behind a fence", "st.global.u32 [%x3], %r6; membar.gl; ld.global.u32 %r7, [%x5]; bar.sync 0; st.global.u32 [%x3], %r7;", Race, ""},
		{"elements written before others have read them", "st.global.u32 [%x3], %r6; bar.sync 0; ld.global.u32 %r7, [%x5]; st.global.u32 [%x3], %r7;", Race, ""},
		{"two threads of a warp write an element", "st.global.u32 [%x3], %r6; and.b64 %x6, %x3, -8; st.global.u32 [%x6], 1;", Race, "st.global.u32"},
		{"two threads of a warp write the same", "and.b64 %x6, %x3, -8; st.global.u32 [%x6], 1; st.global.u32 [%x6+4], 1;", Race, "st.global.u32"},
		{"an element of another block is written", "st.global.u32 [%x4], %r6; st.global.u32 [%x3], %r6;", Race, "st.global.u32"},
		{"an element of another block is written by one thread of each", "st.global.u32 [%x3], %r6; setp.eq.u32 %p1, %r1, 0; @%p1 st.global.u32 [%x4+508], 9;", Race, "st.global.u32"},
		{"an element of another block is read", "st.global.u32 [%x3], %r6; bar.sync 0; ld.global.u32 %r7, [%x4];", Race, "ld.global.u32"},
		{"a byte of a neighbour's element is written", "st.global.u32 [%x3], %r6; st.global.u8 [%x3+3], %r6; add.s64 %x6, %x3, 4; setp.eq.u32 %p1, %r6, 5; @%p1 st.global.u8 [%x6], %r6;", Race, "st.global.u8"},
		{"bytes, each by its own thread", "shl.b32 %r7, %r6, 8; st.global.u32 [%x3], %r7; st.global.u8 [%x3+3], %r6;", none, ""},
		{"pairs of elements", "and.b32 %r7, %r1, 1; setp.eq.u32 %p1, %r7, 0; @%p1 st.global.v2.u32 [%x3], {%r6, %r6};", none, ""},
		{"pairs that overlap with others", "setp.lt.u32 %p1, %r1, 62; and.b64 %x6, %x3, -8; @%p1 st.global.v2.u32 [%x6], {%r6, %r6}; @!%p1 st.global.u32 [%x3], %r6;", Race, "st.global.v2.u32"},
		{"sums of all threads", "st.global.u32 [%x3], 0; red.global.add.u32 [%x3], %r6;", none, ""},
		{"atomic operations on one element", "red.global.add.u32 [%x4+512], %r6; st.global.u32 [%x3], %r6;", none, ""},
		{"an atomic operation and a store", "red.global.add.u32 [%x4+512], %r6; setp.eq.u32 %p1, %r6, 100; @%p1 st.global.u32 [%x4+512], 4;", Race, ""},
		{"an atomic operation and a load", "red.global.add.u32 [%x4+512], %r6; setp.eq.u32 %p1, %r6, 100; @%p1 ld.global.u32 %r7, [%x4+512];", Race, "ld.global.u32"},
		{"constant memory that the launch writes", "st.global.u32 [%x3], %r6; bar.sync 0; ld.global.nc.u32 %r7, [%x3];", ReadOnly, "ld.global.nc.u32"},
		{"constant memory that the launch writes later", "ld.global.nc.u32 %r7, [%x3]; st.global.u32 [%x3], %r7;", ReadOnly, "st.global.u32"},
		{"constant memory beside what the launch writes", "ld.global.nc.u32 %r7, [%x4+512]; st.global.u32 [%x3], %r7;", none, ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			head := "mov.u32 %r5, %ctaid.x; mad.lo.u32 %r6, %r5, 64, %r1; sub.s64 %x4, %x3, %x1; mul.wide.u32 %x6, %r6, 4; add.s64 %x3, %x4, %x6; xor.b64 %x5, %x3, 252;\n"
			b := loadText(t, strings.Replace(small(head+test.body), "st.global.f32 [%x3], %f1;", "", 1))
			y := in(b, make([]uint32, 132))
			y.access = ReadWrite
			r := b.run("k", line(2), line(64), in(b, make([]float32, 64)), y)
			if test.want == none {
				require.NoError(t, r.Err())
				return
			}
			found := reportOf(r, test.want)
			require.NotNil(t, found, "the defect is not found; the reports are %v", r.Reports)
			assert.Contains(t, found.Op, test.at, "%v", found)
		})
	}
}

// TestOverlappingWindows: what is written by one window is known where it is accessed by another.
func TestOverlappingWindows(t *testing.T) {
	const own, other = "", "xor.b64 %x2, %x2, 4; ld.global.f32 %f1, [%x2];"
	for name, test := range map[string]struct {
		body   string
		offset int // of y in x, in bytes
		want   bool
	}{
		"each thread its own element":                   {own, 0, false},
		"the neighbour's":                               {other, 0, true},
		"the neighbour's, as the windows lie":           {own, 4, true},
		"one of another warp, as the windows lie":       {own, 256, true},
		"what nobody reads, behind the elements of all": {own, 512, false},
	} {
		b := loadText(t, small(test.body))
		x := in(b, make([]float32, 256))
		l := Launch{Kernel: "k", Grid: line(1), Block: line(128), Args: make([]byte, 16), Windows: []Window{
			{Name: "x", Base: x.Base, Size: 512, Access: Read}, {Name: "y", Base: x.Base + uint64(test.offset), Size: 512, Access: Write}}}
		storeBytes(l.Args, 8, x.Base)
		storeBytes(l.Args[8:], 8, x.Base+uint64(test.offset))
		r, err := b.Launch(t.Context(), b.mem, l)
		require.NoError(t, err)
		assert.Equal(t, test.want, reportOf(r, Race) != nil, "%s: %v", name, r.Reports)
	}
}
