package program_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth/backend"
	"github.com/berth-onnx/berth/internal/cpu"
	"github.com/berth-onnx/berth/internal/graphgen"
	"github.com/berth-onnx/berth/internal/program"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// TestMovingWindows: slices that an index picks while running are windows of their
// operand, wherever they go then.
func TestMovingWindows(t *testing.T) {
	const head = `in %i: int64[] in %x: float32[5,4] %w = Exp(%x) `
	for _, c := range []struct {
		name, text string
		moving     int   // windows at places that an index says
		index      int64 // for input i
	}{
		{"a row", head + `%r = Gather(%w, %i) [axis=0] %y = Neg(%r) out %y`, 1, 3},
		{"from the back", head + `%r = Gather(%w, %i) [axis=0] %y = Neg(%r) out %y`, 1, -5},
		{"of an input", `in %i: int64[] in %x: float32[5,4] %r = Gather(%x, %i) [axis=0] %y = Neg(%r) out %y`, 1, 4},
		{"of a constant", `in %i: int64[] in %x: float32[5,4] const %t: float32[3,2] = [1, 2, 3, 4, 5, 6] %y = Gather(%t, %i) [axis=0] out %y, %x`, 1, 2},
		{"below ones", head + `const %s: int64[3] = [1, 5, 4] %v = Reshape(%w, %s) %r = Gather(%v, %i) [axis=1] %y = Neg(%r) out %y`, 1, 2},
		{"the only row", `in %i: int64[] in %x: float32[5,4] %w = Exp(%x) const %s: int64[3] = [1, 5, 4] const %five: int64[] = 5 %v = Reshape(%w, %s)
			%k = Div(%i, %five) %r = Gather(%v, %k) [axis=0] %y = Neg(%r) out %y`, 1, 2},
		{"columns are copied", head + `%r = Gather(%w, %i) [axis=1] %y = Neg(%r) out %y`, 0, 3},
		{"a window of a window", head + `%r = Gather(%w, %i) [axis=0] %e = Gather(%r, %i) [axis=0] %y = Neg(%e) out %y`, 2, 1},
		{"a slice of a window", head + `const %a: int64[1] = [1] const %b: int64[1] = [3] %r = Gather(%w, %i) [axis=0] %s = Slice(%r, %a, %b) %y = Neg(%s) out %y`, 1, 1},
		{"a tuple", head + `const %two: int64[1] = [2] %k = Min(%i, %top) %t = Expand(%k, %two) %r = GatherND(%w, %t) %y = Neg(%r) out %y`, 1, 3},
		{"the operand is read later", head + `%r = Gather(%w, %i) [axis=0] %y = Neg(%r) %z = Add(%w, %y) out %z`, 1, 2},
		{"a copy needs less", head + `%r = Gather(%w, %i) [axis=0] %y = Neg(%r) %s = Softmax(%r) %z = Add(%y, %s) out %z`, 0, 4},
		{"joined", head + `%r = Gather(%w, %i) [axis=0] %n = Neg(%r) %y = Concat(%r, %n, %r) [axis=0] out %y`, 1, 1},
		{"a result", head + `%y = Gather(%w, %i) [axis=0] out %y`, 1, 1},
		{"a branch's result", head + `const %z: int64[] = 2 %b = Less(%i, %z) %y = If(%b | %w, %i) {
			then_branch: graph "t" { in %u: float32[5,4] in %k: int64[] %v = Gather(%u, %k) [axis=0] out %v }
			else_branch: graph "e" { in %u2: float32[5,4] in %k2: int64[] %v2 = Gather(%u2, %k2) [axis=0] out %v2 } } %n = Neg(%y) out %n`, 2, 1},
		{"each iteration's", `in %i: int64[] in %x: float32[5,4] %w = Exp(%x) const %m: int64[] = 5 const %true: bool[] = true %h = Gather(%x, %i) [axis=0] %h0 = Neg(%h)
			%last, %all = Loop(%m, %true, %h0 | %w) { body: graph "b" { in %t: int64[] in %go: bool[] in %c: float32[4] in %u: float32[5,4]
			%a = Gather(%u, %t) [axis=0] %n = Mul(%a, %c) out %go, %n, %a } } out %last, %all`, 2, 1},
		{"carried", head + `const %m: int64[] = 5 const %true: bool[] = true %h = Gather(%w, %i) [axis=0] %s = Neg(%w)
			%last, %all = Loop(%m, %true, %h | %s) { body: graph "b" { in %t: int64[] in %go: bool[] in %c: float32[4] in %u: float32[5,4]
			%e = Abs(%u) %a = Gather(%e, %t) [axis=0] %n = Mul(%a, %c) out %go, %a, %n } } out %last, %all`, 2, 1},
		{"carried, of what is carried", head + `const %m: int64[] = 4 const %true: bool[] = true %h = Gather(%w, %i) [axis=0]
			%lw, %last = Loop(%m, %true, %w, %h) { body: graph "b" { in %t: int64[] in %go: bool[] in %u: float32[5,4] in %c: float32[4]
			%e = Add(%u, %c) %a = Gather(%e, %t) [axis=0] out %go, %e, %a } } out %lw, %last`, 2, 1},
		{"scanned", head + `const %sh: int64[3] = [5, 2, 2] %v = Reshape(%w, %sh) %r = Gather(%v, %i) [axis=0] %s = Scan(%r) [num_scan_inputs=1] {
			body: graph "b" { in %c: float32[2] %n = Neg(%c) out %n } } out %s`, 1, 3},
	} {
		for _, be := range []backend.Backend{backend.Reference{}, cpu.New()} {
			t.Run(c.name+" "+be.Name(), func(t *testing.T) {
				g, err := ssa.ParseGraph(`graph "g" { const %top: int64[] = 3 ` + c.text + ` }`)
				require.NoError(t, err, c.text)
				require.NoError(t, ops.InferGraph(g))
				p, err := program.Compile(t.Context(), g, program.Options{Backend: be})
				require.NoError(t, err)
				assert.Equal(t, c.moving, movingIn(p.Main))
				s, err := p.NewSession()
				require.NoError(t, err)
				s.Poison = true
				x := ndarray.Must(ndarray.Float32, 5, 4)
				for k := range x.Len() {
					x.SetFloat(k, float64(k)/8-1)
				}
				in := []ndarray.Value{ndarray.Scalar(c.index), x}
				want, err := ops.Interpret(t.Context(), g, in, nil)
				require.NoError(t, err)
				for range 2 {
					got, err := s.Run(t.Context(), in)
					require.NoError(t, err)
					require.Empty(t, graphgen.Noise.Diff(cloneAll(got), want))
				}
				if c.name != "a tuple" {
					in[0] = ndarray.Scalar(int64(5))
				} else {
					in[0] = ndarray.Scalar(int64(-6))
				}
				_, err = s.Run(t.Context(), in)
				var at *ops.NodeError
				require.ErrorAs(t, err, &at, "no such row")
			})
		}
	}
}

// movingIn counts the views that an index moves.
func movingIn(b *program.Block) int {
	n := 0
	for _, in := range b.Instrs {
		if in.Moving != nil {
			n++
		}
		for _, body := range in.Bodies {
			n += movingIn(body)
		}
	}
	return n
}
