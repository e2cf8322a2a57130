package oracle

import (
	"fmt"
	"hash/fnv"
	"math/rand"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/berth-onnx/berth/internal/cpu"
	"github.com/berth-onnx/berth/internal/ops/fused"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	_ "github.com/berth-onnx/berth/ops/all"
	"github.com/berth-onnx/berth/ssa"
)

// Drawn cases: for every operator that has a fast kernel, a fixed set of seeds makes
// calls of it, the way a stranger's model would: shapes with dimensions of 0 and 1,
// rank 0, broadcasts of every form, negative axes, NaN and infinities, attributes
// away from their defaults. The harness compares the fast kernels of every level with
// the reference kernel.

// drawer makes cases of the operators it lists.
type drawer struct {
	ops  string // separated by spaces; those of com.microsoft have its prefix "ms:"
	draw func(d *dice, op string) opCase
}

// drawers lists every operator of the backend's table once.
var drawers = slices.Concat(elementwiseDrawers, moveDrawers, sumDrawers, layerDrawers)

// drawsPerOperator is how often each operator is drawn.
const drawsPerOperator = 25

func TestDrawn(t *testing.T) {
	served, seen := map[ops.Key]bool{}, map[ops.Key]bool{}
	for _, key := range cpu.Operators() {
		served[key] = true
	}
	for _, d := range drawers {
		for _, name := range strings.Fields(d.ops) {
			domain, op := "", name
			if rest, ok := strings.CutPrefix(name, "ms:"); ok {
				domain, op = microsoft, rest
			}
			key := ops.Key{Domain: domain, Name: op}
			assert.False(t, seen[key], "%s is drawn twice", name)
			assert.True(t, served[key], "%s has no fast kernel", name)
			seen[key] = true
			t.Run(name, func(t *testing.T) { drawOperator(t, d, domain, op) })
		}
	}
	for key := range served {
		// TestFusedRandom draws tile programs.
		assert.True(t, seen[key] || key.Domain == fused.Domain, "no drawer makes cases of %v", key)
	}
}

// drawOperator runs the cases of one operator; the fast kernel must claim some.
func drawOperator(t *testing.T, d drawer, domain, op string) {
	h := fnv.New64a()
	fmt.Fprint(h, domain, op)
	r := rand.New(rand.NewSource(int64(h.Sum64())))
	claimed := 0
	for i := range drawsPerOperator {
		k := d.draw(&dice{r}, op)
		k.domain, k.op, k.either = domain, op, true
		t.Run(k.String(), func(t *testing.T) {
			if k.run(t, int64(i)) {
				claimed++
			}
		})
	}
	t.Logf("%d of %d cases are served", claimed, drawsPerOperator)
	assert.NotZero(t, claimed, "the backend claims none of %d cases", drawsPerOperator)
}

// dice draws what cases are made of.
type dice struct{ *rand.Rand }

func (d *dice) chance(p float64) bool { return d.Float64() < p }

// to returns a number from lo to hi, both included.
func (d *dice) to(lo, hi int) int { return lo + d.Intn(hi-lo+1) }

// shape draws lo to hi dimensions, now and then none of a kind.
func (d *dice) shape(lo, hi int) []int {
	s := d.full(lo, hi)
	if len(s) > 0 && d.chance(0.08) {
		s[d.Intn(len(s))] = 0
	}
	return s
}

// full draws lo to hi dimensions, none of which is 0.
func (d *dice) full(lo, hi int) []int {
	s := make([]int, d.to(lo, hi))
	for i := range s {
		s[i] = pick(d.Rand, 1, 1, 2, 3, 4, 5, 7, 17)
	}
	return s
}

// partner is a shape that broadcasts with s.
func (d *dice) partner(s []int) []int {
	out := append([]int{}, s[d.Intn(len(s)+1):]...)
	for i := range out {
		if d.chance(0.3) {
			out[i] = 1
		}
	}
	return out
}

// pair draws two shapes that broadcast, in either order, or both stretched.
func (d *dice) pair() (a, b []int) {
	s := d.shape(0, 4)
	a, b = append([]int{}, s...), d.partner(s)
	for i := range a {
		if d.chance(0.1) {
			a[i] = 1
		}
	}
	if d.chance(0.4) {
		a, b = b, a
	}
	return a, b
}

// axis is an axis of that rank, often from the end.
func (d *dice) axis(rank int) int64 { return int64(d.Intn(2*rank) - rank) }

// some drops attributes.
func (d *dice) some(attrs ...ssa.Attr) []ssa.Attr {
	return slices.DeleteFunc(attrs, func(ssa.Attr) bool { return d.chance(0.3) })
}

func (d *dice) flag(name string) ssa.Attr { return ssa.IntAttr(name, int64(d.Intn(2))) }

// fixed makes an operand constant half the time.
func (d *dice) fixed(a arg) arg {
	if d.chance(0.5) {
		return a.c()
	}
	return a
}

// wild is a tensor of floats, often with NaN and infinities, seldom float64.
func (d *dice) wild(shape []int) arg {
	a := tensor(d.float(), shape...)
	if d.chance(0.4) {
		return a.odd()
	}
	return a
}

func (d *dice) float() ndarray.DType {
	return pick(d.Rand, ndarray.Float32, ndarray.Float32, ndarray.Float32, ndarray.Float64)
}

// number is a type that arithmetic is defined for.
func (d *dice) number() ndarray.DType {
	return pick(d.Rand, ndarray.Float32, ndarray.Float32, ndarray.Float64, ndarray.Int64, ndarray.Int32, ndarray.Int16, ndarray.Int8,
		ndarray.Uint64, ndarray.Uint32, ndarray.Uint16, ndarray.Uint8, ndarray.Float16, ndarray.BFloat16)
}

// anything is a type that can be moved.
func (d *dice) anything() ndarray.DType {
	return pick(d.Rand, d.number(), ndarray.Bool, ndarray.Complex64, ndarray.Int4, ndarray.Float8E4M3FN)
}
