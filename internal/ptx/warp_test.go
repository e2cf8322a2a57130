package ptx

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestLanes runs operations among lanes, and control flow, against formulas over the lane.
func TestLanes(t *testing.T) {
	tests := []struct {
		name, body string // gives %r9, from %r1, the lane
		want       func(l int) uint32
	}{
		{"shuffle up", "shfl.sync.up.b32 %r9, %r1, 3, 0, -1;", func(l int) uint32 { return uint32(l - 3*min(l/3, 1)) }},
		{"shuffle down in segments of 8", "shfl.sync.down.b32 %r9|%p1, %r1, 2, 0x181f, -1; @!%p1 mov.u32 %r9, 77;", func(l int) uint32 {
			if l%8 > 5 {
				return 77
			}
			return uint32(l + 2)
		}},
		{"shuffle by index", "shfl.sync.idx.b32 %r9, %r1, %r1, 0x1c1f, -1;", func(l int) uint32 { return uint32(l) }},
		{"ballot", "setp.lt.u32 %p1, %r1, 5; vote.sync.ballot.b32 %r9, %p1, -1;", func(int) uint32 { return 31 }},
		{"any and all", "setp.lt.u32 %p1, %r1, 5; vote.sync.any.pred %p2, %p1, -1; vote.sync.all.pred %p3, %p1, -1; selp.u32 %r9, 1, 0, %p2; @%p3 mov.u32 %r9, 2;", func(int) uint32 { return 1 }},
		{"match any", "and.b32 %r4, %r1, 3; match.any.sync.b32 %r9, %r4, -1;", func(l int) uint32 { return 0x11111111 << (l % 4) }},
		{"match all", "match.all.sync.b32 %r9|%p1, %r1, -1; @!%p1 mov.u32 %r9, 5;", func(int) uint32 { return 5 }},
		{"redux", "redux.sync.add.u32 %r9, %r1, -1;", func(int) uint32 { return 496 }},
		{"a table of branches", "T: .branchtargets A, B, C; and.b32 %r4, %r1, 3; min.u32 %r4, %r4, 2; brx.idx %r4, T; A: mov.u32 %r9, 10; bra D; B: mov.u32 %r9, 11; bra D; C: mov.u32 %r9, 12; D: add.u32 %r9, %r9, %r1;",
			func(l int) uint32 { return uint32(10 + min(l%4, 2) + l) }},
		{"nested loops", "mov.u32 %r9, 0; mov.u32 %r4, 0; O: mov.u32 %r5, %r4; I: add.u32 %r9, %r9, 1; add.u32 %r5, %r5, 1; setp.lt.u32 %p1, %r5, %r1; @%p1 bra I; add.u32 %r4, %r4, 1; setp.lt.u32 %p2, %r4, %r1; @%p2 bra O;",
			func(l int) uint32 { return uint32(max(l*(l+1)/2, 1)) }},
		{"a barrier that counts", "setp.lt.u32 %p1, %r1, 11; bar.red.popc.u32 %r9, 0, %p1;", func(int) uint32 { return 11 }},
		{"shared atomics", "mov.u32 %r9, s; setp.eq.u32 %p1, %r1, 0; @%p1 st.shared.u32 [%r9], 4; bar.sync 0; red.shared.add.u32 [%r9], %r1; bar.sync 0; ld.shared.u32 %r9, [%r9];", func(int) uint32 { return 500 }},
		{"compare and swap", "mov.u32 %r8, s; setp.eq.u32 %p1, %r1, 0; @%p1 st.shared.u32 [%r8], 0; bar.sync 0; atom.shared.cas.b32 %r9, [%r8], %r1, 9; min.u32 %r9, %r9, 9;", func(l int) uint32 { return uint32(9 * yes(l > 0)) }},
		{"generic addresses", "mov.u64 %x9, s; cvta.shared.u64 %x9, %x9; mul.wide.u32 %x8, %r1, 4; add.u64 %x9, %x9, %x8; st.u32 [%x9], %r1; isspacep.shared %p1, %x9; ld.u32 %r9, [%x9]; @%p1 add.u32 %r9, %r9, 1;", func(l int) uint32 { return uint32(l + 1) }},
		{"an asynchronous copy", "mul.lo.u32 %r8, %r1, 4; mov.u32 %r7, s; add.u32 %r8, %r8, %r7; cp.async.ca.shared.global [%r8], [%x2], 4; cp.async.commit_group; cp.async.wait_group 0; ld.shared.u32 %r9, [%r8]; add.u32 %r9, %r9, %r1;",
			func(l int) uint32 { return uint32(l) }},
		{"an asynchronous copy cut off", "mul.lo.u32 %r8, %r1, 4; mov.u32 %r7, s; add.u32 %r8, %r8, %r7; cp.async.ca.shared.global [%r8], [%x3], 4, 0; cp.async.wait_all; ld.shared.u32 %r9, [%r8];", func(int) uint32 { return 0 }},
		{"a table in constant memory", "mul.wide.u32 %x9, %r1, 4; and.b64 %x9, %x9, 12; mov.u64 %x8, table; add.u64 %x9, %x9, %x8; ld.const.u32 %r9, [%x9];", func(l int) uint32 { return []uint32{7, 5, 3, 1}[l%4] }},
		{"a variable in global memory", "mov.u64 %x9, counter; atom.global.add.u32 %r9, [%x9], 1; bar.warp.sync -1; ld.global.u32 %r9, [%x9];", func(int) uint32 { return 42 + 32 }},
		{"registers of an inner scope", "{ .reg .b32 %r9; mov.u32 %r9, 8; } mov.u32 %r9, 4;", func(int) uint32 { return 4 }},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			text := small(test.body + "\nmov.b32 %f1, %r9;")
			text = strings.Replace(text, ".visible", ".const .align 4 .u32 table[4] = {7, 5, 3, 1};\n.global .u32 counter = 42;\n.visible", 1)
			b := loadText(t, text)
			y := out[uint32](b, 32)
			b.must("k", line(1), line(32), in(b, make([]float32, 32)), y)
			for l, got := range values[uint32](b, y) {
				require.Equal(t, test.want(l), got, "lane %d", l)
			}
		})
	}
}

// TestMatrixProducts runs mma.sync of each shape against the product of the matrices.
func TestMatrixProducts(t *testing.T) {
	rng := rand.New(rand.NewPCG(9, 1))
	tests := []struct {
		shape string
		k     int
		in    Type
		sum   Type
	}{
		{"m16n8k4.row.col.f32.tf32.tf32.f32", 4, TF32, F32}, {"m16n8k8.row.col.f32.tf32.tf32.f32", 8, TF32, F32},
		{"m16n8k8.row.col.f32.f16.f16.f32", 8, F16, F32}, {"m16n8k16.row.col.f32.f16.f16.f32", 16, F16, F32},
		{"m16n8k16.row.col.f16.f16.f16.f16", 16, F16, F16}, {"m16n8k16.row.col.f32.bf16.bf16.f32", 16, BF16, F32},
		{"m16n8k16.row.col.s32.s8.s8.s32", 16, S8, S32}, {"m16n8k32.row.col.satfinite.s32.u8.s8.s32", 32, S8, S32},
	}
	for _, test := range tests {
		t.Run(test.shape, func(t *testing.T) {
			isMixed := strings.Contains(test.shape, "u8")
			p := 4 / test.in.Size()
			a, b := make([][]float64, 16), make([][]float64, test.k)
			draw := func(isUnsigned bool) float64 {
				if test.in == S8 {
					return float64(rng.IntN(256) - 128*int(yes(!isUnsigned)))
				}
				return float64(rng.IntN(33)-16) / 8 // exact in every format, as are the sums
			}
			for i := range a {
				for range test.k {
					a[i] = append(a[i], draw(isMixed))
				}
			}
			for i := range b {
				for range 8 {
					b[i] = append(b[i], draw(false))
				}
			}
			regs := func(n int, at func(l, r, i int) float64) (out []uint32) {
				for l := range 32 {
					for r := range n {
						u := uint64(0)
						for i := range p {
							v := at(l, r, i)
							e := uint64(uint8(int(v)))
							if test.in == TF32 {
								e = single.encode(v)
							} else if test.in != S8 {
								e = formats[test.in].encode(v)
							}
							u |= e << (i * 32 / p)
						}
						out = append(out, uint32(u))
					}
				}
				return out
			}
			na, nb := test.k/p/2, test.k/p/4
			ra := regs(na, func(l, r, i int) float64 { return a[l/4+8*(r&1)][l%4*p+i+r/2*4*p] })
			rb := regs(nb, func(l, r, i int) float64 { return b[l%4*p+i+r*4*p][l/4] })
			sums := 4
			if test.sum == F16 {
				sums = 2
			}
			m := loadText(t, matrixKernel(test.shape, na, nb, sums))
			y := out[uint32](m, 32*sums)
			m.must("k", line(1), line(32), in(m, ra), in(m, rb), y)
			got := values[uint32](m, y)
			for l := range 32 {
				for e := range 4 {
					row, col, want := l/4+e/2*8, l%4*2+e%2, 0.0
					for k := range test.k {
						want += a[row][k] * b[k][col]
					}
					var v float64
					switch test.sum {
					case F32:
						v = float64(math.Float32frombits(got[l*4+e]))
					case F16:
						v = half.decode(uint64(got[l*2+e/2] >> (16 * (e % 2)) & 0xffff))
					default:
						v = float64(int32(got[l*4+e]))
					}
					require.Equal(t, want+1, v, "row %d, column %d", row, col)
				}
			}
		})
	}
}

// matrixKernel writes a kernel that loads the fragments of A and B, sets C to ones and stores D.
func matrixKernel(shape string, na, nb, sums int) string {
	var s strings.Builder
	s.WriteString(".version 8.1\n.target sm_80\n.address_size 64\n.visible .entry k(.param .u64 pa, .param .u64 pb, .param .u64 pd)\n{\n")
	s.WriteString(".reg .b32 %a<4>, %b<4>, %c<4>, %d<4>, %l; .reg .b64 %x<9>;\nmov.u32 %l, %tid.x; ld.param.u64 %x1, [pa]; ld.param.u64 %x2, [pb]; ld.param.u64 %x3, [pd];\n")
	fmt.Fprintf(&s, "mad.wide.u32 %%x1, %%l, %d, %%x1; mad.wide.u32 %%x2, %%l, %d, %%x2; mad.wide.u32 %%x3, %%l, %d, %%x3;\n", 4*na, 4*nb, 4*sums)
	list := func(name string, n int, each string) string {
		var names []string
		for i := range n {
			if each != "" {
				fmt.Fprintf(&s, each+"\n", i, 4*i)
			}
			names = append(names, fmt.Sprintf("%%%s%d", name, i))
		}
		return "{" + strings.Join(names, ", ") + "}"
	}
	one := "0x3f800000"
	if strings.Contains(shape, "s32") {
		one = "1"
	} else if sums == 2 {
		one = "0x3c003c00"
	}
	a := list("a", na, "ld.global.b32 %%a%d, [%%x1+%d];")
	b := list("b", nb, "ld.global.b32 %%b%d, [%%x2+%d];")
	c := list("c", sums, "mov.b32 %%c%d, "+one+"; // %d")
	d := list("d", sums, "")
	fmt.Fprintf(&s, "mma.sync.aligned.%s %s, %s, %s, %s;\n", shape, d, a, b, c)
	list("d", sums, "st.global.b32 [%%x3+%[2]d], %%d%[1]d;")
	s.WriteString("ret;\n}\n")
	return s.String()
}

// TestMatrixLoad checks ldmatrix against what its lanes hold.
func TestMatrixLoad(t *testing.T) {
	for _, trans := range []string{"", ".trans"} {
		body := `mul.lo.u32 %r8, %r1, 16; mov.u32 %r7, s; add.u32 %r8, %r8, %r7;
	mul.lo.u32 %r4, %r1, 8; mad.lo.u32 %r4, %r4, 0x10001, 0x10000;
	add.u32 %r5, %r4, 0x20002; add.u32 %r6, %r5, 0x20002; add.u32 %r9, %r6, 0x20002;
	st.shared.v4.b32 [%r8], {%r4, %r5, %r6, %r9}; bar.warp.sync -1;
	ldmatrix.sync.aligned.m8n8.x4` + trans + `.shared.b16 {%r10, %r11, %r12, %r13}, [%r8];
	mov.b32 %f1, %r12;`
		b := loadText(t, small(body))
		y := out[uint32](b, 32)
		b.must("k", line(1), line(32), in(b, make([]float32, 32)), y)
		for l, got := range values[uint32](b, y) { // element (r, c) of matrix 2 is 8·(16+r)+c
			r, c := l/4, l%4*2
			want := uint32(8*(16+r)+c) | uint32(8*(16+r)+c+1)<<16
			if trans != "" {
				want = uint32(8*(16+c)+r) | uint32(8*(16+c+1)+r)<<16
			}
			require.Equal(t, want, got, "lane %d%s", l, trans)
		}
	}
}

// TestLaunchErrors: launches that cannot run.
func TestLaunchErrors(t *testing.T) {
	b := load(t, "testdata/basic.ptx")
	tests := []struct {
		l    Launch
		want string
	}{
		{Launch{Kernel: "nothing"}, "no kernel"},
		{Launch{Kernel: "saxpy", Grid: line(0), Block: line(1)}, "grid"},
		{Launch{Kernel: "saxpy", Grid: line(1), Block: [3]int{1024, 2, 1}}, "2048 threads"},
		{Launch{Kernel: "saxpy", Grid: line(1), Block: line(1), Args: make([]byte, 3)}, "bytes of arguments"},
		{Launch{Kernel: "saxpy", Grid: line(1), Block: line(1), Args: make([]byte, 32), DynamicShared: 1 << 20}, "shared memory"},
		{Launch{Kernel: "saxpy", Grid: line(1), Block: line(1), Args: make([]byte, 32), Windows: []Window{{Name: "x", Base: 5, Size: 1}}}, "window x"},
	}
	for _, test := range tests {
		_, err := b.Launch(context.Background(), b.mem, test.l)
		require.ErrorContains(t, err, test.want)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	endless := loadText(t, small("AGAIN: bra AGAIN;"))
	x := in(endless, make([]float32, 64))
	l := Launch{Kernel: "k", Grid: line(1), Block: line(32), Args: make([]byte, 16)}
	storeBytes(l.Args, 8, x.Base)
	_, err := endless.Launch(ctx, endless.mem, l)
	require.ErrorIs(t, err, context.DeadlineExceeded)

	ended, end := context.WithCancel(context.Background())
	end()
	_, err = b.Launch(ended, b.mem, Launch{Kernel: "saxpy", Grid: line(1 << 20), Block: line(1), Args: make([]byte, 32)})
	require.ErrorIs(t, err, context.Canceled, "blocks too short to look for themselves")
}

// TestCounts: the numbers that a roofline is made of.
func TestCounts(t *testing.T) {
	b := load(t, "testdata/basic.ptx")
	x, y, z := in(b, make([]float32, 256)), in(b, make([]float32, 256)), out[float32](b, 256)
	c := b.must("saxpy", line(2), line(128), x, y, z, float32(2), int32(256)).Counts
	assert.EqualValues(t, 2*256, c.Flops)
	assert.EqualValues(t, 2*256*4, c.GlobalLoaded)
	assert.EqualValues(t, 256*4, c.GlobalStored)
	assert.EqualValues(t, 3*256*4/32, c.GlobalSectors)
	assert.EqualValues(t, 256, c.Classes[Float32Class].Lanes)
	assert.EqualValues(t, 8, c.Classes[Float32Class].Warps)
	assert.Equal(t, 32*c.Instructions().Warps, c.Instructions().Lanes)
}
