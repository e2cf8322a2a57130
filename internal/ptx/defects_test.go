package ptx

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// small wraps statements into a kernel with two pointers, x to read and y to write, one float32 for each of n threads.
func small(body string) string {
	return `.version 8.1
.target sm_80
.address_size 64
.visible .entry k(.param .u64 px, .param .u64 py)
{
	.reg .pred %p<9>;
	.reg .f32 %f<9>;
	.reg .b32 %r<19>;
	.reg .b64 %x<19>;
	.shared .align 16 .b8 s[512];
	.shared .align 16 .b8 other[512];
	mov.u32 %r1, %tid.x;
	mul.wide.u32 %x1, %r1, 4;
	ld.param.u64 %x2, [px];
	ld.param.u64 %x3, [py];
	add.s64 %x2, %x2, %x1;
	add.s64 %x3, %x3, %x1;
	cvt.u32.u64 %r2, %x1;
	mov.u32 %r3, s;
	add.u32 %r3, %r3, %r2;
	ld.global.f32 %f1, [%x2];
` + body + `
	st.global.f32 [%x3], %f1;
	ret;
}
`
}

// exchange is a correct body: each thread gives its value to the one opposite.
const exchange = `
	st.shared.f32 [%r3], %f1;
	bar.sync 0;
	xor.b32 %r4, %r2, 508;
	mov.u32 %r5, s;
	add.u32 %r4, %r4, %r5;
	ld.shared.f32 %f1, [%r4];`

// reportOf finds the first report of a kind. A defect may have several: what a barrier should have kept apart is a race and, if the
// reader comes first, also memory that nobody has written yet.
func reportOf(r *Result, kind Kind) *Report {
	for _, found := range r.Reports {
		if found.Kind == kind {
			return found
		}
	}
	return nil
}

// TestDefects plants a defect in a correct kernel and expects its report, at its line.
func TestDefects(t *testing.T) {
	tests := []struct {
		name     string
		old, new string // in the kernel of exchange
		want     Kind
		at       string // the instruction that is reported
	}{
		{"a barrier left out", "bar.sync 0;", "", Race, "st.shared.f32"},
		{"a barrier of the warp alone", "bar.sync 0;", "bar.warp.sync -1;", Race, "st.shared.f32"},
		{"an index one too far", "[%x2];", "[%x2+4];", OutOfBounds, "ld.global.f32"},
		{"an index one too far in shared memory", "[%r4];", "[%r4+4];", OutOfBounds, "ld.shared.f32"},
		{"an index before the first", "[%x3], %f1", "[%x3+-4], %f1", OutOfBounds, "st.global.f32"},
		{"the windows swapped", "ld.param.u64 %x3, [py];", "ld.param.u64 %x3, [px];", ReadOnly, "st.global.f32"},
		{"the operands swapped", "ld.param.u64 %x2, [px];", "ld.param.u64 %x2, [py];", ReadOnly, "ld.global.f32"},
		{"two threads write one word", "st.shared.f32 [%r3], %f1;", "and.b32 %r3, %r3, -8; st.shared.f32 [%r3], %f1;", Race, "st.shared.f32"},
		{"shared memory nobody wrote", "mov.u32 %r5, s;", "mov.u32 %r5, other;", Uninitialized, "ld.shared.f32"},
		{"a store left out", "st.shared.f32 [%r3], %f1;", "", Uninitialized, "ld.shared.f32"},
		{"half of the lanes store", "st.shared.f32 [%r3], %f1;", "setp.lt.u32 %p1, %r1, 64; @%p1 st.shared.f32 [%r3], %f1;", Uninitialized, "ld.shared.f32"},
		{"a register nobody wrote", "bar.sync 0;", "bar.sync 0; add.f32 %f1, %f1, %f2;", Uninitialized, "add.f32"},
		{"a move of a register nobody wrote", "ld.shared.f32 %f1, [%r4];", "mov.f32 %f1, %f2;", Uninitialized, "st.global.f32"},
		{"a predicate nobody wrote", "bar.sync 0;", "bar.sync 0; @%p3 mov.f32 %f1, 0f00000000;", Uninitialized, "mov.f32"},
		{"a barrier that half of a warp meets", "bar.sync 0;", "setp.lt.u32 %p1, %r1, 16; @%p1 bar.sync 0; bar.sync 0;", Divergence, "bar.sync"},
		{"a barrier that half of the warps meet", "bar.sync 0;", "setp.lt.u32 %p1, %r1, 64; @%p1 bar.sync 0;", Deadlock, "bar.sync"},
		{"lanes that end before the barrier", "bar.sync 0;", "setp.gt.u32 %p1, %r1, 99; @%p1 ret; bar.sync 0;", Divergence, "bar.sync"},
		{"warps at different barriers", "bar.sync 0;", "shr.u32 %r6, %r1, 6; bar.sync %r6;", Deadlock, "bar.sync"},
		{"a barrier for one warp too few", "bar.sync 0;", "bar.sync 0, 96;", Deadlock, "bar.sync"},
		{"a barrier for a warp too many", "bar.sync 0;", "bar.sync 0, 160;", OutOfBounds, "bar.sync"},
		{"a barrier for a part of a warp", "bar.sync 0;", "bar.sync 0, 100;", OutOfBounds, "bar.sync"},
		{"a barrier for pairs of warps that do not exchange", "bar.sync 0;", "shr.u32 %r6, %r1, 6; bar.sync %r6, 64;", Race, ""},
		{"a barrier for two numbers of threads", "bar.sync 0;", "and.b32 %r6, %r1, 32; shl.b32 %r6, %r6, 1; add.u32 %r6, %r6, 64; bar.sync 0, %r6;", Divergence, "bar.sync"},
		{"lanes of a warp at two barriers", "bar.sync 0;", "and.b32 %r6, %r1, 1; bar.sync %r6;", Divergence, "bar.sync"},
		{"a warp that comes again", "bar.sync 0;", "bar.arrive 1, 128; bar.sync 1, 128; bar.sync 0;", Divergence, "bar.sync"},
		{"a read before all have arrived", "bar.sync 0;", "bar.arrive 1, 128;", Race, ""},
		{"a store to the target of a copy", "st.shared.f32 [%r3], %f1;", "cp.async.ca.shared.global [%r3], [%x2], 4; st.shared.f32 [%r3], %f1; cp.async.wait_all;", Race, "st.shared.f32"},
		{"a misaligned vector", "ld.shared.f32 %f1, [%r4];", "ld.shared.v2.f32 {%f1, %f3}, [%r3];", Misaligned, "ld.shared.v2.f32"},
		{"a shuffle without half of the lanes", "bar.sync 0;", "bar.sync 0; setp.lt.u32 %p1, %r1, 16; @%p1 shfl.sync.idx.b32 %r6, %r1, 0, 31, -1;", Divergence, "shfl.sync.idx.b32"},
		{"a copy nobody waits for", "st.shared.f32 [%r3], %f1;", "cp.async.ca.shared.global [%r3], [%x2], 4; cp.async.commit_group;", Uninitialized, "ld.shared.f32"},
		{"a copy waited for by one group too few", "st.shared.f32 [%r3], %f1;", "cp.async.ca.shared.global [%r3], [%x2], 4; cp.async.commit_group; cp.async.wait_group 1;", Uninitialized, "ld.shared.f32"},
		{"a loop without an end", "bar.sync 0;", "AGAIN: setp.eq.u32 %p1, %r1, %r1; @%p1 bra AGAIN; bar.sync 0;", Runaway, "bra"},
		{"an address that is no pointer", "[%x2];", "[%x1];", OutOfBounds, "ld.global.f32"},
		{"a trap", "bar.sync 0;", "trap; bar.sync 0;", Trapped, "trap"},
	}
	correct := small(exchange)
	rng := rand.New(rand.NewPCG(5, 6))
	values32 := uniform(rng, 128, 1)
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			require.Equal(t, 1, strings.Count(correct, test.old))
			text := strings.Replace(correct, test.old, test.new, 1)
			b := loadText(t, text)
			r := b.run("k", line(1), line(128), in(b, values32), out[float32](b, 128))
			found := reportOf(r, test.want)
			require.NotNil(t, found, "the defect is not found; the reports are %v", r.Reports)
			if test.at != "" {
				assert.Equal(t, test.at, found.Op, "%v", found)
			}
			assert.Contains(t, strings.Split(text, "\n")[found.Line-1], test.at, "the line")
		})
	}
	t.Run("none", func(t *testing.T) {
		b := loadText(t, correct)
		y := out[float32](b, 128)
		b.must("k", line(1), line(128), in(b, values32), y)
		for i, v := range values[float32](b, y) {
			require.Equal(t, values32[127-i], v)
		}
	})
}

// TestPartialBarriers: barriers of some warps order these.
func TestPartialBarriers(t *testing.T) {
	const pairs, opposite = "shr.u32 %r6, %r1, 6; bar.sync %r6, 64;", "xor.b32 %r4, %r2, 508;"
	for name, test := range map[string]struct {
		barrier, opposite string
		from              func(i int) int // the element that thread i reads
	}{
		"pairs of warps":                 {pairs, "xor.b32 %r4, %r2, 252;", func(i int) int { return i ^ 63 }},
		"all, by their number":           {"bar.sync 3, 128;", opposite, func(i int) int { return 127 - i }},
		"those that write go on at once": {"setp.lt.u32 %p1, %r1, 64; @%p1 bar.arrive 1, 128; @!%p1 bar.sync 1, 128; @%p1 bar.sync 2, 128; @!%p1 bar.arrive 2, 128;", opposite, func(i int) int { return 127 - i }},
	} {
		text := strings.Replace(strings.Replace(small(exchange), "bar.sync 0;", test.barrier, 1), opposite, test.opposite, 1)
		b := loadText(t, text)
		x := uniform(rand.New(rand.NewPCG(5, 6)), 128, 1)
		y := out[float32](b, 128)
		b.must("k", line(1), line(128), in(b, x), y)
		for i, v := range values[float32](b, y) {
			require.Equal(t, x[test.from(i)], v, name)
		}
	}
}

// TestUnorderedByPart: accesses that a barrier of some warps leaves unordered, or an atomic operation behind another one, are races.
func TestUnorderedByPart(t *testing.T) {
	// Threads 0 and 32 add to a word of shared memory, and threads 0 of two blocks to one of global memory.
	const adds = `mov.u32 %r7, s; mov.u32 %r8, 1; setp.eq.u32 %p1, %r1, 0; @%p1 st.shared.u32 [%r7], 0; bar.sync 0;
		setp.eq.u32 %p2, %r1, 32; @%p1 red.shared.add.u32 [%r7], %r8; @%p2 red.shared.add.u32 [%r7], %r8; `
	const addsInBlocks = `mov.u32 %r9, %ctaid.x; mul.wide.u32 %x5, %r9, 512; add.s64 %x3, %x3, %x5; ld.param.u64 %x4, [py]; add.s64 %x4, %x4, 2048;
		mov.u32 %r8, 1; setp.eq.u32 %p1, %r1, 0; @%p1 red.global.add.u32 [%x4], %r8; setp.eq.and.u32 %p2, %r9, 1, %p1; `
	// All warps but the last read a word; all but the third meet.
	const reads = `st.shared.f32 [%r3], %f1; bar.sync 0; shr.u32 %r6, %r1, 5; mov.u32 %r7, s; setp.ne.u32 %p1, %r6, 3; @%p1 ld.shared.f32 %f1, [%r7];
		setp.ne.u32 %p2, %r6, 2; setp.eq.u32 %p3, %r1, 96; `
	for _, c := range []struct {
		name, body string
		blocks     int
		isRace     bool
	}{
		{"adds alone", adds, 1, false},
		{"adds, a barrier, a load", adds + "bar.sync 0; @%p2 ld.shared.f32 %f1, [%r7];", 1, false},
		{"adds and a load of the last", adds + "@%p2 ld.shared.f32 %f1, [%r7];", 1, true},
		{"adds and a store of the last", adds + "@%p2 st.shared.u32 [%r7], %r8;", 1, true},
		{"adds in turn and a load", adds + "@%p1 red.shared.add.u32 [%r7], %r8; @%p1 ld.shared.f32 %f1, [%r7];", 1, true},
		{"adds of two blocks", addsInBlocks, 2, false},
		{"adds of two blocks and a load of the last", addsInBlocks + "@%p2 ld.global.f32 %f1, [%x4];", 2, true},
		{"adds of two blocks and a store of the last", addsInBlocks + "@%p2 st.global.f32 [%x4], %f1;", 2, true},
		{"three readers, a barrier without the third", reads + "@%p2 bar.sync 1, 96; @%p3 st.shared.f32 [%r7], %f1;", 1, true},
		{"three readers, a barrier of all", reads + "bar.sync 1, 128; @%p3 st.shared.f32 [%r7], %f1;", 1, false},
	} {
		b := loadText(t, small(c.body))
		y := out[float32](b, 1024)
		y.access = ReadWrite
		require.NoError(t, b.mem.SetWritten(y.Base, 4*1024, true))
		r := b.run("k", line(c.blocks), line(128), in(b, make([]float32, 1024)), y)
		assert.Equal(t, c.isRace, reportOf(r, Race) != nil, "%s: %v", c.name, r.Reports)
		assert.Equal(t, c.isRace, len(r.Reports) > 0, "%s: %v", c.name, r.Reports)
	}
}

// TestCompiledDefects plants defects in what NVRTC compiled.
func TestCompiledDefects(t *testing.T) {
	text := readBasic(t)
	cut := func(kernel, old, new string) string {
		at := strings.Index(text, ".entry "+kernel)
		before, after, found := strings.Cut(text[at:], old)
		require.True(t, found)
		return text[:at] + before + new + after
	}
	rng := rand.New(rand.NewPCG(7, 8))
	x := uniform(rng, 1024, 1)
	sum := func(text string) *Result {
		b := loadText(t, text)
		return b.run("blocksum", line(4), line(256), in(b, x), out[float32](b, 4), int32(1024))
	}
	product := func(text string) *Result {
		b := loadText(t, text)
		return b.run("matmul", [3]int{2, 2, 1}, [3]int{16, 16, 1}, in(b, x), in(b, x), out[float32](b, 32*32), int32(32), int32(32), int32(32))
	}
	require.NoError(t, sum(text).Err())
	require.NoError(t, product(text).Err())
	for i := 1; i <= 4; i++ { // each of the first barriers; the last ones are within a warp
		barriers := strings.SplitAfterN(text[strings.Index(text, ".entry blocksum"):], "bar.sync", i+1)
		kept := strings.Join(barriers[:i], "")
		r := sum(text[:strings.Index(text, ".entry blocksum")] + strings.TrimSuffix(kept, "bar.sync") + "membar.gl; // " + barriers[i])
		require.NotNil(t, reportOf(r, Race), "barrier %d left out: %v", i, r.Reports)
	}
	for name, test := range map[string]struct {
		r    *Result
		want Kind
	}{
		"a bound of shared memory": {product(cut("matmul", "[%rd4+68]", "[%rd4+1088]")), OutOfBounds},
		"the last row's next":      {product(cut("matmul", "[%rd3+4]", "[%rd3+64]")), OutOfBounds},
		"the wrong matrix":         {product(cut("matmul", "ld.param.u64 	%rd10, [matmul_param_2]", "ld.param.u64 	%rd10, [matmul_param_1]")), ReadOnly},
		"the first barrier":        {product(cut("matmul", "bar.sync 	0;", "")), Race},
	} {
		assert.NotNil(t, reportOf(test.r, test.want), "%s: %v", name, test.r.Reports)
	}
}

// TestReportsAreTheSame runs a faulty kernel on one thread and on several.
func TestReportsAreTheSame(t *testing.T) {
	b := loadText(t, small(strings.Replace(exchange, "bar.sync 0;", "", 1)))
	x, y := in(b, make([]float32, 128)), out[float32](b, 128)
	info, err := b.Info("k")
	require.NoError(t, err)
	var texts []string
	for _, threads := range []int{1, 2, 5} {
		l := Launch{Kernel: "k", Grid: line(64), Block: line(128), Args: make([]byte, info.ArgBytes), Threads: threads}
		storeBytes(l.Args, 8, x.Base)
		storeBytes(l.Args[8:], 8, y.Base)
		r, err := b.Launch(context.Background(), b.mem, l)
		require.NoError(t, err)
		texts = append(texts, fmt.Sprint(r.Err(), r.Reports[0].Count, r.Counts))
	}
	assert.Equal(t, texts[0], texts[1])
	assert.Equal(t, texts[0], texts[2])
}
