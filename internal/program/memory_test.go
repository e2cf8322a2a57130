package program_test

import (
	"context"
	"errors"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth/internal/cpu"
	"github.com/berth-onnx/berth/internal/program"
	"github.com/berth-onnx/berth/internal/rewrite"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// hostile are graphs that ask for far more memory than there is: at once, or bit
// by bit in a loop that never ends by itself.
var hostile = []struct {
	name, graph string
	in          []ndarray.Value
}{
	{"a constant shape", `const %s: int64[2] = [1099511627776, 4] %y = ConstantOfShape(%s) out %y`, nil},
	{"a shape from data", `in %s: int64[1] %y = ConstantOfShape(%s) out %y`, values(ints(1 << 40))},
	{"a shape whose size overflows", `in %s: int64[2] %y = ConstantOfShape(%s) out %y`, values(ints(1<<40, 1<<40))},
	{"Range", `in %n: int64[] const %a: int64[] = 0 const %d: int64[] = 1 %y = Range(%a, %n, %d) out %y`, values(ndarray.Scalar(int64(1e18)))},
	{"Range of floats", `in %n: float32[] const %a: float32[] = 0 const %d: float32[] = 1 %y = Range(%a, %n, %d) out %y`, values(ndarray.Scalar(float32(1e18)))},
	{"Tile", `in %x: float32[4] in %r: int64[1] %y = Tile(%x, %r) out %y`, values(floats(4), ints(1<<50))},
	{"Expand", `in %x: float32[1] in %r: int64[3] %y = Expand(%x, %r) out %y`, values(floats(1), ints(1<<20, 1<<20, 4))},
	{"Pad", `in %x: float32[4] in %r: int64[2] %y = Pad(%x, %r) out %y`, values(floats(4), ints(1<<40, 0))},
	{"Resize", `in %x: float32[1,1,2,2] in %r: float32[4] %y = Resize(%x, _, %r) [mode="nearest"] out %y`, values(floats(1, 1, 2, 2), ndarray.Of([]float32{1, 1, 1 << 20, 1 << 20}, 4))},
	{"OneHot", `in %x: int64[8] in %d: int64[] const %v: float32[2] = [0, 1] %y = OneHot(%x, %d, %v) out %y`, values(ints(0, 1, 2, 3, 4, 5, 6, 7), ndarray.Scalar(int64(1)<<40))},
	{"EyeLike of a large matrix", `in %s: int64[2] %x = ConstantOfShape(%s) %y = EyeLike(%x) out %y`, values(ints(1<<30, 1<<30))},
	{"a loop that doubles", `in %x: float32[1024] in %n: int64[] %y = Loop(%n, _, %x) { body: graph "b" { in %i: int64[] in %c: bool[] in %p: float32[N] %q = Concat(%p, %p) [axis=0] out %c, %q } } out %y`, values(floats(1024), huge)},
	{"a loop that appends", `in %x: float32[65536] in %n: int64[] %s = SequenceEmpty() [dtype=1] %y = Loop(%n, _, %s | %x) { body: graph "b" { in %i: int64[] in %c: bool[] in %p: seq(float32[65536]) in %x: float32[65536] %q = SequenceInsert(%p, %x) out %c, %q } } out %y`, values(floats(65536), huge)},
	{"a loop that stacks", `in %x: float32[1024] in %n: int64[] %y = Loop(%n, _ | %x) { body: graph "b" { in %i: int64[] in %c: bool[] in %x: float32[1024] %q = Neg(%x) out %c, %q } } out %y`, values(floats(1024), huge)},
	{"a loop of a constant count that stacks", `in %x: float32[1024] const %n: int64[] = 1099511627776 %y = Loop(%n, _ | %x) { body: graph "b" { in %i: int64[] in %c: bool[] in %x: float32[1024] %q = Neg(%x) out %c, %q } } out %y`, values(floats(1024))},
	{"a loop that stacks slices of any shape", `in %x: float32[1024] in %n: int64[] %y = Loop(%n, _ | %x) { body: graph "b" { in %i: int64[] in %c: bool[] in %x: float32[1024] %z = NonZero(%x) out %c, %z } } out %y`, values(floats(1024), huge)},
}

var huge = ndarray.Scalar(int64(1) << 62)

func values(vs ...ndarray.Value) []ndarray.Value { return vs }

func ints(v ...int64) *ndarray.Array { return ndarray.Of(v, len(v)) }

func floats(shape ...int) *ndarray.Array {
	a := ndarray.Must(ndarray.Float32, shape...)
	for i := range a.Len() {
		a.SetFloat(i, float64(i+1))
	}
	return a
}

// TestMemoryLimit: what would take the machine's memory is an error that names the
// node and the limit, long before.
func TestMemoryLimit(t *testing.T) {
	const limit = 256 << 20
	for _, c := range hostile {
		t.Run(c.name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			err := runHostile(ctx, c.graph, c.in, limit)
			require.Error(t, err)
			require.NoError(t, ctx.Err(), "ended by the clock, not by the limit")
			var full *ops.MemoryError
			if !errors.Is(err, ndarray.ErrSize) && assert.ErrorAs(t, err, &full) {
				assert.EqualValues(t, limit, full.Limit)
			}
		})
	}
}

// TestTimeLimit: a loop without an end stops when its context does, with nothing
// growing and with constants only, which folding must not run.
func TestTimeLimit(t *testing.T) {
	for name, graph := range map[string]string{
		"operands":  `in %x: float32[4] const %n: int64[] = 4611686018427387904 %y = Loop(%n, _, %x) { body: graph "b" { in %i: int64[] in %c: bool[] in %p: float32[4] %q = Neg(%p) out %c, %q } } out %y`,
		"constants": `in %x: float32[4] const %k: float32[4] = [1, 2, 3, 4] const %n: int64[] = 4611686018427387904 %z = Loop(%n, _, %k) { body: graph "b" { in %i: int64[] in %c: bool[] in %p: float32[4] %q = Sin(%p) out %c, %q } } %y = Add(%x, %z) out %y`,
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
			defer cancel()
			start := time.Now()
			err := runHostile(ctx, graph, values(floats(4)), math.MaxInt64)
			assert.ErrorIs(t, err, context.DeadlineExceeded)
			assert.Less(t, time.Since(start), 20*time.Second)
		})
	}
}

// runHostile rewrites, compiles and runs a graph.
func runHostile(ctx context.Context, text string, in []ndarray.Value, limit int64) error {
	g, err := ssa.ParseGraph(`graph "g" {` + text + `}`)
	if err != nil {
		return err
	}
	if err := ops.InferGraph(g); err != nil {
		return err
	}
	if _, err := rewrite.Run(ctx, &ssa.Module{Graph: g}, rewrite.Options{List: &rewrite.Runtime}); err != nil {
		return err
	}
	p, err := program.Compile(ctx, g, program.Options{Backend: cpu.New(), Memory: ndarray.Budget(limit)})
	if err != nil {
		return err
	}
	s, err := p.NewSession()
	if err != nil {
		return err
	}
	_, err = s.Run(ctx, in)
	return err
}
