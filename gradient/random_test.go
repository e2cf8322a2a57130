package gradient_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ssa"
)

// graphDrawer draws graphs of smooth functions over values of any of which several nodes may read.
type graphDrawer struct {
	*rand.Rand
	t      *testing.T
	g      *ssa.Graph
	values []*ssa.Value
}

func (d *graphDrawer) pick(from ...string) string { return from[d.IntN(len(from))] }

// ints is a constant list.
func (d *graphDrawer) ints(v ...int64) *ssa.Value {
	return d.g.AddConst(fmt.Sprintf("c%d", d.g.NumValues()), ssa.Int64s(v...))
}

// param adds a parameter.
func (d *graphDrawer) param(shape ...int) *ssa.Value {
	v := d.g.AddParam(fmt.Sprintf("p%d", len(d.g.Params)), ssa.StaticTensor(ndarray.Float64, shape...))
	d.values = append(d.values, v)
	return v
}

// like is a value that broadcasts with one of a shape: one that there is, or a parameter.
func (d *graphDrawer) like(shape []int) *ssa.Value {
	for range 4 {
		if v := d.values[d.IntN(len(d.values))]; slices.Equal(staticShape(v), shape) {
			return v
		}
	}
	part := slices.Clone(shape)
	for i := range part {
		if d.IntN(3) == 0 {
			part[i] = 1
		}
	}
	return d.param(part[d.IntN(len(part)):]...)
}

// step adds a node that reads a value.
func (d *graphDrawer) step(x *ssa.Value) *ssa.Value {
	shape := staticShape(x)
	axis := d.IntN(len(shape))
	along := ssa.IntAttr("axis", int64(axis-len(shape)*d.IntN(2)))
	add := func(op string, in []*ssa.Value, attrs ...ssa.Attr) *ssa.Value {
		return call(d.t, d.g, op, in, attrs...)
	}
	switch d.IntN(10) {
	case 0, 1:
		return add(d.pick("Tanh", "Sigmoid", "Sin", "Cos", "Softplus", "Erf", "Neg"), []*ssa.Value{x})
	case 2, 3:
		return add(d.pick("Add", "Sub", "Mul"), []*ssa.Value{x, d.like(shape)})
	case 4:
		return add(d.pick("Softmax", "LogSoftmax"), []*ssa.Value{x}, along)
	case 5:
		from := d.IntN(shape[axis])
		return add("Slice", []*ssa.Value{x, d.ints(int64(from)), d.ints(int64(from + 1 + d.IntN(shape[axis]-from))), d.ints(int64(axis)), d.ints(1)})
	case 6:
		return add("Concat", []*ssa.Value{x, x, d.param(shape...)}, along)
	case 7:
		if len(shape) < 2 {
			return add("Gather", []*ssa.Value{x, d.ints(0, int64(shape[0]-1), 0)})
		}
		return add("MatMul", []*ssa.Value{x, d.param(shape[len(shape)-1], 1+d.IntN(3))})
	case 8:
		return add(d.pick("ReduceMean", "ReduceSum", "ReduceLogSumExp"), []*ssa.Value{x, d.ints(int64(axis))}, ssa.IntAttr("keepdims", 1))
	}
	perm := make([]int64, len(shape))
	for i, p := range d.Perm(len(shape)) {
		perm[i] = int64(p)
	}
	return add("Transpose", []*ssa.Value{x}, ssa.IntsAttr("perm", perm...))
}

// TestRandomGraphs: derivatives of drawn graphs are central differences. BERTH_RANDOM says of how many.
func TestRandomGraphs(t *testing.T) {
	count := 60
	if n, err := strconv.Atoi(os.Getenv("BERTH_RANDOM")); err == nil {
		count = n
	}
	for seed := range uint64(count) {
		d := &graphDrawer{Rand: rand.New(rand.NewPCG(seed, 7)), t: t, g: ssa.NewGraph("g")}
		d.param([]int{1 + d.IntN(3), 1 + d.IntN(3), 1 + d.IntN(3)}[d.IntN(3):]...)
		for range 3 + d.IntN(6) {
			y := d.step(d.values[len(d.values)-1-d.IntN(min(2, len(d.values)))])
			if ndarray.Product(staticShape(y)) <= 64 {
				d.values = append(d.values, y)
			}
		}
		var loss *ssa.Value
		for _, v := range d.values {
			if len(v.Uses()) == 0 || v == d.values[len(d.values)-1] {
				loss = plus(t, d.g, loss, weighted(t, d.g, d.Rand, v))
			}
		}
		d.g.Results = []*ssa.Value{loss}
		unique(d.g)
		var in []ndarray.Value
		for _, p := range d.g.Params {
			in = append(in, draw(d.Rand, around(staticShape(p)...)))
		}
		back := derivatives(t, d.g, loss, d.g.Params)
		checkDifferences(t, d.g, back, in, 1e-5, 1e-5)
		require.False(t, t.Failed(), "seed %d: %s", seed, d.g)
	}
}
