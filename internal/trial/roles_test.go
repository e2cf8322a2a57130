package trial_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/berth-onnx/berth/internal/trial"
)

// TestRoles follows inputs to the operands that give their elements a meaning, and draws such elements.
func TestRoles(t *testing.T) {
	const loop = `%y = Loop(%m, _, %x | %k) { body: graph "b" { in %i: int64[] in %c: bool[] in %p: float32[4] in %j: int64[] %a = Cast(%j) [to=1] %q = Add(%p, %a) out %c, %q } }`
	for _, c := range []struct {
		name, graph string
		kind        trial.Kind // of k
		n           int
		want        []float64 // nil: below the first limit
		below       int64
		others      []int64
	}{
		{"iterations", `in %k: int64[] in %x: float32[4] %y = Loop(%k, _, %x) { body: graph "b" { in %i: int64[] in %c: bool[] in %p: float32[4] %q = Neg(%p) out %c, %q } } out %y`, trial.Count, 1, []float64{3}, 0, []int64{7, 0}},
		{"converted and calculated", `in %k: int32[] const %o: int64[] = 1 %c = Cast(%k) [to=7] %m = Sub(%c, %o) in %x: float32[4] ` + loop + ` out %y`, trial.Count, 1, []float64{3}, 0, []int64{7, 0}},
		{"captured by a body", `in %k: int64[] in %m: int64[] in %x: float32[4] %y = Loop(%m, _, %x | %k) { body: graph "b" { in %i: int64[] in %c: bool[] in %p: float32[4] in %j: int64[] const %w: float32[9,4] = splat 1 %a = Gather(%w, %j) out %c, %a } } out %y`, trial.Index, 1, nil, 9, []int64{8, 0}},
		{"carried by a loop", `in %k: int64[] in %m: int64[] %y = Loop(%m, _, %k) { body: graph "b" { in %i: int64[] in %c: bool[] in %p: int64[] const %w: int64[9] = splat 1 %a = Gather(%w, %p) out %c, %a } } out %y`, trial.Index, 1, nil, 9, []int64{8, 0}},
		{"a loop's condition", `in %k: bool[] in %m: int64[] in %x: float32[4] %y = Loop(%m, %k, %x) { body: graph "b" { in %i: int64[] in %c: bool[] in %p: float32[4] %q = Neg(%p) out %c, %q } } out %y`, trial.Truth, 1, []float64{1}, 0, []int64{0}},
		{"the end of a range", `in %k: int64[] const %z: int64[] = 0 const %o: int64[] = 1 %y = Range(%z, %k, %o) out %y`, trial.Count, 1, []float64{3}, 0, []int64{7, 0}},
		{"a step", `in %k: int64[] const %z: int64[] = 0 const %o: int64[] = 1 %y = Range(%z, %o, %k) out %y`, trial.Step, 1, []float64{1}, 0, nil},
		{"rows of a table", `in %k: int64[N,5] const %w: float32[50,8] = splat 1 %y = Gather(%w, %k) out %y`, trial.Index, 5, nil, 50, []int64{49, 0}},
		{"columns of an input of open size", `in %k: int64[5] in %x: float32[2,N] %y = Gather(%x, %k) [axis=-1] out %y`, trial.Index, 5, nil, 6, []int64{5, 0}},
		{"the smaller of two tables", `in %k: int64[5] const %v: float32[50] = splat 1 const %w: float32[40] = splat 1 %a = Gather(%v, %k) %b = Gather(%w, %k) out %a, %b`, trial.Index, 5, nil, 40, []int64{39, 0}},
		{"positions in a tensor", `in %k: int64[3,2] in %x: float32[7,6] %y = GatherND(%x, %k) out %y`, trial.Index, 6, nil, 6, []int64{5, 0}},
		{"a shape to broadcast to", `in %k: int64[3] in %x: float32[4,1] %y = Expand(%x, %k) out %y`, trial.Size, 3, []float64{3, 4, 3}, 0, nil},
		{"many sizes of it", `in %k: int64[16] in %x: float32[9,7] %y = Expand(%x, %k) out %y`, trial.Size, 16, append(slices.Repeat([]float64{2}, 14), 9, 7), 0, nil},
		{"a shape of many axes", `in %k: int64[13] %y = ConstantOfShape(%k) out %y`, trial.Count, 13, slices.Repeat([]float64{3}, 13), 0, []int64{3, 0}},
		{"repeats of many axes", `in %k: int64[16] in %x: float32[9,1,1,1,1,1,1,1,1,1,1,1,1,1,1,N] %y = Tile(%x, %k) out %y`, trial.Repeat, 16, slices.Repeat([]float64{2}, 16), 0, nil},
		{"one size of it", `in %k: int64[1] const %f: int64[1] = 4 in %x: float32[4] %s = Concat(%k, %f) [axis=0] %y = Expand(%x, %s) out %y`, trial.Size, 1, []float64{3}, 0, nil},
		{"a shape of as many elements", `in %k: int64[3] in %x: float32[2,3,4] %y = Reshape(%x, %k) out %y`, trial.Size, 3, []float64{4, 3, 2}, 0, nil},
		{"another number of axes", `in %k: int64[2] in %x: float32[2,3,4] %y = Reshape(%x, %k) out %y`, trial.Size, 2, []float64{-1, 1}, 0, nil},
		{"an image of blocks", `in %k: int64[2] in %b: int64[2] in %x: float32[1,9,4] %y = Col2Im(%x, %k, %b) out %y`, trial.Size, 2, []float64{4, 1}, 0, nil},
		{"sizes of an image", `in %k: int64[4] in %x: float32[1,3,N,N] %y = Resize(%x, _, _, %k) out %y`, trial.Size, 4, []float64{1, 3, 12, 12}, 0, nil},
		{"scales of an image", `in %k: float32[4] in %x: float32[1,3,N,N] %y = Resize(%x, _, %k) out %y`, trial.Scale, 4, []float64{1, 1, 2, 2}, 0, nil},
		{"parts", `in %k: int64[3] in %x: float32[2,7] %a, %b, %c = Split(%x, %k) [axis=1] out %a, %b, %c`, trial.Part, 3, []float64{2, 2, 3}, 0, nil},
		{"the largest", `in %k: int64[1] in %x: float32[2,7] %a, %b = TopK(%x, %k) out %a, %b`, trial.Count, 1, []float64{3}, 0, []int64{7, 0}},
		{"a threshold", `in %k: float32[] in %n: int64[] in %b: float32[1,9,4] in %s: float32[1,1,9] %y = NonMaxSuppression(%b, %s, %n, %k) out %y`, trial.Fraction, 1, []float64{0.5}, 0, nil},
		{"lengths of sequences", `in %k: int32[1] in %x: float32[N,1,3] const %w: float32[1,16,3] = splat 0.1 const %r: float32[1,16,4] = splat 0.1 %y = LSTM(%x, %w, %r, _, %k) [hidden_size=4] out %y`, trial.Length, 1, []float64{6}, 0, []int64{1, 6}},
		{"axes", `in %k: int64[2] in %x: float32[2,7] %y = ReduceSum(%x, %k) out %y`, trial.Axis, 2, []float64{0, 1}, 0, nil},
		{"an integer divisor", `in %k: int64[] in %x: int64[7] %y = Div(%x, %k) out %y`, trial.Step, 1, []float64{1}, 0, nil},
		{"what a loop's counter is compared with", `in %k: int64[] in %m: int64[] in %g: bool[] in %x: float32[4] %y = Loop(%m, %g, %x | %k) { body: graph "b" { in %i: int64[] in %c: bool[] in %p: float32[4] in %j: int64[] %l = Less(%i, %j) out %l, %p } } out %y`, trial.Count, 1, []float64{3}, 0, []int64{7, 0}},
		{"compared, then an index", `in %k: int64[2] in %x: int64[2] %l = Less(%k, %x) const %w: float32[50,8] = splat 1 %y = Gather(%w, %k) out %l, %y`, trial.Index, 2, nil, 50, []int64{49, 0}},
		{"compared with a constant", `in %k: int64[] const %o: int64[] = 1 %y = Less(%k, %o) out %y`, trial.Plain, 1, nil, 0, nil},
		{"a divisor of floats", `in %k: float32[] in %x: float32[7] %y = Div(%x, %k) out %y`, trial.Plain, 1, nil, 0, nil},
		{"an index that is calculated", `in %k: int64[] const %o: int64[] = 1 %i = Add(%k, %o) const %w: float32[50,8] = splat 1 %y = Gather(%w, %i) out %y`, trial.Plain, 1, nil, 0, nil},
		{"an operator of another domain", `in %k: int64[] const %w: float32[50,8] = splat 1 %y = "com.example"::Gather(%w, %k) out %y`, trial.Plain, 1, nil, 0, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := parse(t, c.graph)
			role := trial.RolesOf(g)["k"]
			assert.Equal(t, c.kind, role.Kind)
			sizes := map[string]int64{"N": 6}
			d := trial.Drawing{Role: role, Len: c.n, Sizes: sizes, Rand: rand.New(rand.NewPCG(1, 1))}
			var got []float64
			for i := range c.n {
				x, ok := d.Element(i)
				assert.Equal(t, c.kind != trial.Plain, ok)
				got = append(got, x)
			}
			if c.want != nil {
				assert.Equal(t, c.want, got)
			}
			for _, x := range got {
				assert.True(t, c.below == 0 || x >= 0 && x < float64(c.below), "%v", got)
			}
			assert.Equal(t, c.others, d.Others())
		})
	}
}
