package ptx

import (
	"context"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func readBasic(t testing.TB) string {
	t.Helper()
	text, err := os.ReadFile("testdata/basic.ptx")
	require.NoError(t, err)
	return string(text)
}

func TestParse(t *testing.T) {
	m, err := Parse(readBasic(t))
	require.NoError(t, err)
	assert.Equal(t, "8.1", m.Version)
	assert.Equal(t, []string{"sm_70"}, m.Target)
	require.Len(t, m.Functions, 14)
	p, err := Compile(m)
	require.NoError(t, err)
	assert.Len(t, p.Kernels(), 13)
	info, err := p.Info("matmul")
	require.NoError(t, err)
	assert.Equal(t, KernelInfo{Params: []int64{8, 8, 8, 4, 4, 4}, Offsets: []int64{0, 8, 16, 24, 28, 32}, ArgBytes: 36, SharedBytes: 2112,
		Instructions: info.Instructions}, info)
}

// TestSyntaxErrors: what is wrong, and where.
func TestSyntaxErrors(t *testing.T) {
	tests := []struct{ body, want string }{
		{"add.s32 %r1, %r1", "line 13: an operand of add.s32 is followed by"},
		{"add.s32 %r1, %r1;", "line 12: add.s32: 3 operands are expected, 2 are given"},
		{"add.s32 %r1, %r1, %x1;", "line 12: add.s32: %x1 has 8 bytes, .s32 has 4"},
		{"add.s32 %r1, %r1, %nothing;", `line 12: add.s32: nothing is named "%nothing"`},
		{"add.s32 %p1, %r1, %r1;", "line 12: add.s32: %p1 is a register of type .pred, .s32 is expected"},
		{"add.funny.s32 %r1, %r1, %r1;", "line 12: the modifier .funny of add.funny.s32 is not executed here"},
		{"add.b32 %r1, %r1, %r1;", "line 12: add.b32: the type .b32 is not executed here"},
		{"frobnicate %r1;", "line 12: the operation frobnicate is not executed here"},
		{"bra NOWHERE;", `line 12: no label is named "NOWHERE"`},
		{"L: L: ret;", "line 12: the label L stands here for the second time"},
		{"@%r1 ret;", "line 12: %r1 is no predicate"},
		{"ld.shared.f32 %f1, [px];", "line 12: ld.shared.f32: px lies in param memory"},
		{"add.f32 %f1, %f1, 1;", "line 12: add.f32: an integer is given where .f32 is expected"},
		{"call (r), nothing, ();", `line 12: the function "nothing" has no body in this module`},
		{"cvt.f32.f64 %f1, %x1;", "a direction of rounding is missing"},
		{".shared .b8 big[999999999];", "line 12: big needs more than 49152 bytes of shared memory"},
		{".local .b8 big[999999999];", "line 12: big needs more than 524288 bytes of local memory"},
		{"wmma.load.a.sync %r1;", "line 12: the operation wmma.load.a.sync is not executed here"},
		{"mov.u32 %r1, 0f3F;", `line 12: "0f3F" is no float of 32 bits`},
		{"mov.u32 %r1, 0x;", `line 12: "0x" is no number`},
		{"mov.u32 %r1, #;", "line 12: '#' has no meaning in PTX"},
		{"{", "line 26: a body has no closing brace"},
		{"mma.sync.aligned.m16n8k4.row.col.f32.f64.f64.f32 {%f1}, {%f1}, {%f1}, {%f1};", "the type .f64 is not executed here"},
		{"mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%f1}, {%f1}, {%f1}, {%f1};", "operand 1 has 1 registers, 4 are expected"},
		{"barrier.red.popc.u32;", "operand 1 is missing"},
		{"vote.sync.ballot.pred %p1, %p1, -1;", ".ballot with .b32"},
		{"vote.sync.b32 %r1, %p1, -1;", "one of .all, .any and .uni"},
		{"match.sync.b32 %r1, %r1, -1;", "one of .any and .all is missing"},
		{"shf.l.b32 %r1, %r1, %r1, %r1;", "one of .wrap and .clamp"},
		{"cvt.pred.u32 %p1, %r1;", "predicates are no operands of it"},
		{"ld.global.pred %p1, [%x1];", "predicates are no operands of it"},
		{"testp.f32 %p1, %f1;", "the kind of numbers is missing"},
		{"setp.lt.f16x2 %p1, %r1, %r1;", "the type .f16x2 is not executed here"},
		{"setp.lo.f32 %p1, %f1, %f1;", "floats have no relation .lo"},
		{"ld.global.v4.f64 {%x1, %x2, %x3, %x4}, [%x1];", "an access of 32 bytes, the most is 16"},
		{"T: .branchtargets NOWHERE; brx.idx %r1, T;", `no label is named "NOWHERE"`},
	}
	for _, test := range tests {
		text := strings.Replace(small(""), "mov.u32 %r1, %tid.x;", test.body, 1)
		m, err := Parse(text)
		if err == nil {
			_, err = Compile(m)
		}
		require.Error(t, err, test.body)
		assert.Contains(t, err.Error(), test.want, test.body)
		var typed *SyntaxError
		require.ErrorAs(t, err, &typed)
	}
}

// seeds are texts that parse, compile and run.
func seeds(t testing.TB) []string {
	out := []string{small(exchange), small("setp.lt.u32 %p1, %r1, 11; bar.red.popc.u32 %r9, 0, %p1; vote.sync.ballot.b32 %r9, %p1, -1; match.any.sync.b32 %r9, %r4, -1;"),
		small("cp.async.ca.shared.global [%r3], [%x2], 4; cp.async.commit_group; cp.async.wait_group 0; redux.sync.add.u32 %r9, %r1, -1;"),
		small("T: .branchtargets A, B; and.b32 %r4, %r1, 1; brx.idx %r4, T; A: mov.u32 %r9, 10; B: atom.shared.cas.b32 %r9, [%r3], %r1, 9; red.shared.add.u32 [%r3], %r1;"),
		small("st.shared.v4.b32 [%r3], {%r4, %r5, %r6, %r9}; ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%r10, %r11}, [%r3]; shfl.sync.up.b32 %r9|%p1, %r1, 3, 0, -1;"),
		kernelOf("prmt.b32 %d, %a, %b, %c;", B32, B32), matrixKernel("m16n8k16.row.col.f32.f16.f16.f32", 4, 2, 4)}
	for _, kernel := range strings.SplitAfter(readBasic(t), "\n}\n") {
		out = append(out, ".version 8.1\n.target sm_70\n.address_size 64\n"+kernel)
	}
	return out
}

// survive feeds a text to the parser, the compiler and, for a few instructions, the interpreter: none of them panics.
func survive(t *testing.T, text string) (hasRun bool) {
	m, err := Parse(text)
	if err != nil {
		return false
	}
	p, err := Compile(m)
	if err != nil {
		return false
	}
	for _, name := range p.Kernels() {
		info, err := p.Info(name)
		if err != nil {
			continue
		}
		mem := NewMemory()
		mem.Alloc(1024, nil)
		l := Launch{Kernel: name, Grid: line(1), Block: line(32), Args: make([]byte, info.ArgBytes), MaxSteps: 300, Threads: 1}
		if _, err := p.Launch(context.Background(), mem, l); err != nil {
			require.NotContains(t, err.Error(), "the interpreter failed", text)
		}
		hasRun = true
	}
	return hasRun
}

func FuzzParse(f *testing.F) {
	for _, text := range seeds(f) {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) { survive(t, text) })
}

// TestMutated replaces, repeats and drops tokens of texts, by others of the same text.
func TestMutated(t *testing.T) {
	rng := rand.New(rand.NewPCG(13, 14))
	ran, list := 0, seeds(t)
	for i := range 4000 {
		tokens, err := lex(list[i%len(list)])
		require.NoError(t, err)
		for range 1 + i%3 {
			from, to := tokens[rng.IntN(len(tokens))], rng.IntN(len(tokens))
			switch rng.IntN(4) {
			case 0:
				tokens[to].kind = endOfText
			case 1:
				tokens[to].text += " " + from.text
			case 2:
				tokens[to].text = []string{"-1", "0", "0xffffffffffffffff", "%p1", "{", "[", "_", "65536", "v4", "0f7FC00000"}[rng.IntN(10)]
			default:
				tokens[to] = from
			}
		}
		var s strings.Builder
		for _, token := range tokens {
			if token.kind != endOfText {
				s.WriteString(token.text + " ")
			}
		}
		if survive(t, s.String()) {
			ran++
		}
	}
	assert.Greater(t, ran, 40, "mutated texts that still run")
}
