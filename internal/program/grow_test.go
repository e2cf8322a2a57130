package program_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth/internal/graphgen"
	"github.com/berth-onnx/berth/internal/program"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// growing is a loop over %m trips that carries %x as %c; the text is its body.
func growing(carried, body, out string) string {
	return `graph "g" { in %m: int64[] in %x: float32[1,4] in %stop: int64[] const %true: bool[] = true
	  ` + carried + ` {
	    body: graph "b" {
	      in %i: int64[] in %go: bool[] ` + body + `
	    }
	  }
	  out ` + out + ` }`
}

// TestGrowingValues: what a loop appends to is written behind what is there.
// moved is how many bytes of it were copied: the initial value, once, where the
// number of trips is bounded.
func TestGrowingValues(t *testing.T) {
	const one = `%c2, %last = Loop(%m, %true, %x, %x)`
	for _, c := range []struct {
		name, text string
		trips      int64
		moved      func(trips int64) int64
	}{
		{"a row per trip", growing(one, `in %c: float32[?,4] in %r: float32[1,4]
			%row = Neg(%r) %n = Concat(%c, %row) [axis=0] out %go, %n, %row`, `%c2, %last`), 9, func(int64) int64 { return 16 }},
		{"through views", growing(one, `in %c: float32[?,4] in %r: float32[1,4]
			%d = Identity(%c) %row = Neg(%r) %n = Concat(%d, %row, %r) [axis=-2] %k = Identity(%n) out %go, %k, %row`, `%c2, %last`), 9, func(int64) int64 { return 16 }},
		{"the old value is read afterwards, and once more after the loop", growing(`%c2, %old, %last = Loop(%m, %true, %x, %x, %x)`,
			`in %c: float32[?,4] in %o: float32[?,4] in %r: float32[1,4] const %zero: int64[1] = [0]
			%row = Neg(%r) %n = Concat(%c, %row) [axis=0] %s = ReduceSum(%c, %zero) %t = Add(%s, %row) out %go, %n, %c, %t`, `%c2, %old, %last`), 7, func(int64) int64 { return 16 }},
		{"no trip", growing(one, `in %c: float32[?,4] in %r: float32[1,4] %n = Concat(%c, %r) [axis=0] out %go, %n, %r`, `%c2, %last`), 0, func(int64) int64 { return 0 }},
		{"nobody knows how many trips", growing(`%c2, %last = Loop(_, %true, %x, %x)`, `in %c: float32[?,4] in %r: float32[1,4]
			%n = Concat(%c, %r) [axis=0] const %nine: int64[] = 9 %k = Less(%i, %nine) out %k, %n, %r`, `%c2, %last`), 9,
			func(int64) int64 { return 16 + 32 + 64 + 128 }}, // doubled: each row is moved at most twice
		{"two values grow from one", growing(`%c2, %d2 = Loop(%m, %true, %x, %x)`, `in %c: float32[?,4] in %d: float32[?,4]
			%n = Concat(%c, %c) [axis=0] %k = Concat(%c, %d) [axis=0] out %go, %n, %k`, `%c2, %d2`), 4, nil},
		{"a branch gives the new rows up, the next trip appends others", growing(one, `in %c: float32[?,4] in %r: float32[1,4]
			%row = Sub(%r, %r) %s = Exp(%r) const %two: int64[] = 2 %h = Mod(%i, %two) %b = Cast(%h) [to=9]
			%n = Concat(%c, %s) [axis=0]
			%k = If(%b | %n, %c) {
			  then_branch: graph "t" { in %n1: float32[?,4] in %c1: float32[?,4] %n3 = Identity(%n1) out %n3 }
			  else_branch: graph "e" { in %n2: float32[?,4] in %c3: float32[?,4] %c4 = Identity(%c3) out %c4 }
			}
			%u = Add(%row, %s) out %go, %k, %u`, `%c2, %last`), 6, nil},
		{"in a loop in a loop: the buffer of one outer trip is not that of the next", growing(`%c2, %last = Loop(%m, %true, %x, %x | %m)`, `in %c: float32[?,4] in %r: float32[1,4] in %m2: int64[]
			const %yes: bool[] = true
			%n, %q = Loop(%m2, %yes, %c, %r) { body: graph "i" { in %j: int64[] in %g2: bool[] in %e: float32[?,4] in %f: float32[1,4]
			  %h = Neg(%f) %w = Concat(%e, %h) [axis=0] out %g2, %w, %h } }
			out %go, %n, %q`, `%c2, %last`), 3, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			g, err := ssa.ParseGraph(c.text)
			require.NoError(t, err, c.text)
			require.NoError(t, ops.InferGraph(g))
			p, err := program.Compile(context.Background(), g, program.Options{})
			require.NoError(t, err)
			s, err := p.NewSession()
			require.NoError(t, err)
			s.Poison = true
			for _, trips := range []int64{c.trips, 1, c.trips + 2} {
				in := []ndarray.Value{ndarray.Scalar(trips), ndarray.Of([]float32{1, 2, -3, 0.5}, 1, 4), ndarray.Scalar(int64(0))}
				want, err := ops.Interpret(context.Background(), g, in, nil)
				require.NoError(t, err)
				got, err := s.Run(context.Background(), in)
				require.NoError(t, err)
				require.Empty(t, graphgen.Noise.Diff(cloneAll(got), want))
				if c.moved != nil && trips == c.trips {
					assert.Equal(t, c.moved(trips), s.Moved(), "bytes copied")
				}
			}
		})
	}
}
