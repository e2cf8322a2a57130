package expr

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth/internal/ops/fused"
	"github.com/berth-onnx/berth/internal/ops/window"
	"github.com/berth-onnx/berth/internal/tile"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// reference evaluates expressions node by node with reference kernels, over copies of all memory: it knows
// neither windows nor groups nor plans.
type reference map[*node]*ndarray.Array

func (r reference) eval(t *testing.T, n *node) *ndarray.Array {
	if a := r[n]; a != nil {
		return a
	}
	var out *ndarray.Array
	switch n.kind {
	case leaf:
		out = readMemory(n)
	case number:
		out = n.value
	case looked:
		out = readView(r.eval(t, n.in[0]), n.view)
	default:
		out = r.operator(t, n)
	}
	r[n] = out
	return out
}

// readMemory copies a tensor, element by element.
func readMemory(n *node) *ndarray.Array {
	v := identity(n.shape)
	strides, first := n.place.strides(n.shape)
	return readStrided(&n.place.array, n.shape, func(idx []int) int {
		at := first
		for d, i := range idx {
			at += v.step[d] * i * strides[d]
		}
		return at
	})
}

// readView copies what a view shows of an array.
func readView(a *ndarray.Array, v *view) *ndarray.Array {
	strides := ops.Strides(a.Shape)
	return readStrided(a, v.shape, func(idx []int) int {
		at := 0
		for d, i := range v.start {
			at += i * strides[d]
		}
		for j, d := range v.of {
			if d >= 0 {
				at += v.step[j] * idx[j] * strides[d]
			}
		}
		return at
	})
}

func readStrided(a *ndarray.Array, shape []int, at func(idx []int) int) *ndarray.Array {
	out := ndarray.Must(a.DType, shape...)
	size := a.DType.Size()
	eachIndex(shape, func(i int, idx []int) { copy(out.Data[i*size:(i+1)*size], a.Data[at(idx)*size:]) })
	return out
}

// eachIndex calls f for the indices of a shape in row-major order.
func eachIndex(shape []int, f func(i int, idx []int)) {
	idx := make([]int, len(shape))
	for i := range ndarray.Product(shape) {
		rest := i
		for d := len(shape) - 1; d >= 0; d-- {
			idx[d] = rest % shape[d]
			rest /= shape[d]
		}
		f(i, idx)
	}
}

func (r reference) operator(t *testing.T, n *node) *ndarray.Array {
	g := ssa.NewGraph("")
	var in []*ssa.Value
	var args []ndarray.Value
	for i, x := range n.in {
		if x == nil {
			in = append(in, nil)
			continue
		}
		a := r.eval(t, x)
		in, args = append(in, g.AddParam(fmt.Sprint(i), ssa.StaticTensor(a.DType, a.Shape...))), append(args, a)
	}
	m := g.NewNode(n.op.name, in, 1, n.op.attrs...)
	if n.op.fn != nil {
		m.Op, m.Domain, m.Attrs = fused.CallName, fused.Domain, []ssa.Attr{fused.FuncAttr(n.op.fn)}
	}
	g.Results = m.Out
	out, err := ops.Interpret(context.Background(), g, args, nil)
	require.NoError(t, err, n.op.name)
	return out[0].(*ndarray.Array)
}

// assign does what an assignment must.
func (r reference) assign(t *testing.T, j job) {
	a := r.eval(t, j.src)
	v, err := broadcast(a.Shape, j.dst.shape)
	require.NoError(t, err)
	a = readView(a, v)
	strides, first := j.dst.place.strides(j.dst.shape)
	size := a.DType.Size()
	eachIndex(j.dst.shape, func(i int, idx []int) {
		at := first
		for d, k := range idx {
			at += k * strides[d]
		}
		copy(j.dst.place.array.Data[at*size:(at+1)*size], a.Data[i*size:])
	})
}

// drawer draws expressions over a few pieces of memory, so that tensors meet. Exact ones are of
// operators whose results every kernel rounds alike; others of functions that magnify no errors.
type drawer struct {
	*rand.Rand
	exact  bool
	memory map[ndarray.DType]*ndarray.Array
}

const memoryElems = 3000

func newDrawer(seed uint64) *drawer {
	d := &drawer{Rand: rand.New(rand.NewPCG(seed, 5)), memory: map[ndarray.DType]*ndarray.Array{}}
	d.exact = d.IntN(2) == 0
	return d
}

var drawnTypes = []ndarray.DType{ndarray.Float32, ndarray.Float32, ndarray.Float32, ndarray.Float64, ndarray.Float16, ndarray.BFloat16,
	ndarray.Int32, ndarray.Int64, ndarray.Uint8, ndarray.Int8, ndarray.Bool}

func (d *drawer) dtype() ndarray.DType {
	if !d.exact {
		return []ndarray.DType{ndarray.Float32, ndarray.Float32, ndarray.Float64}[d.IntN(3)]
	}
	return drawnTypes[d.IntN(len(drawnTypes))]
}

func (d *drawer) base(dt ndarray.DType) *ndarray.Array {
	if d.memory[dt] == nil {
		a := ndarray.Must(dt, memoryElems)
		for i := range memoryElems {
			a.SetFloat(i, float64(d.IntN(17)-8)/4)
		}
		d.memory[dt] = a
	}
	return d.memory[dt]
}

func (d *drawer) shape() []int {
	s := make([]int, d.IntN(4))
	for i := range s {
		s[i] = 1 + d.IntN(9)
	}
	if d.IntN(40) == 0 && len(s) > 0 {
		s[d.IntN(len(s))] = 0
	}
	return s
}

// tensor is a window of the memory of a type. Writable ones have no two indices for one element.
func (d *drawer) tensor(dt ndarray.DType, shape []int, writable bool) *node {
	for {
		w := &window.Window{Shape: shape, Strides: make([]int, len(shape))}
		at := 1
		order := d.Perm(len(shape))
		if d.IntN(2) == 0 {
			slices.Sort(order)
			slices.Reverse(order)
		}
		for _, k := range order {
			if w.Strides[k] = at * (1 + d.IntN(2)*d.IntN(2)); d.IntN(5) == 0 {
				w.Strides[k] = -w.Strides[k]
			}
			if at = max(w.Strides[k], -w.Strides[k]) * shape[k]; !writable && d.IntN(8) == 0 {
				w.Strides[k] = 0
			}
			at = max(at, 1)
		}
		elems, low := w.Span()
		if elems > memoryElems {
			continue
		}
		first := d.IntN(min(memoryElems-elems, 40) + 1)
		base, size := d.base(dt), dt.Size()
		p := &place{array: ndarray.Array{DType: dt, Shape: []int{elems}, Data: base.Data[first*size : (first+elems)*size]}, window: w}
		if w.First = low; slices.Equal(w.Strides, ops.Strides(shape)) {
			p.window, p.array.Shape = nil, shape
		}
		return &node{kind: leaf, dt: dt, shape: shape, place: p}
	}
}

// operand is an operand that broadcasts to a shape.
func (d *drawer) operand(dt ndarray.DType, shape []int, depth int) *node {
	s := slices.Clone(shape)
	for i := range s {
		if d.IntN(6) == 0 {
			s[i] = 1
		}
	}
	for len(s) > 0 && s[0] == 1 && d.IntN(2) == 0 {
		s = s[1:]
	}
	return d.expr(dt, s, depth)
}

var (
	exactUnary   = []string{"Neg", "Abs", "Sign", "Relu"}
	exactFloat   = []string{"Floor", "Ceil", "Round"}
	exactBinary  = []string{"Add", "Sub", "Mul", "Max", "Min"}
	smoothUnary  = []string{"Tanh", "Sigmoid", "Sin", "Cos", "Softsign", "Neg", "Abs", "Atan", "Erf"}
	smoothBinary = []string{"Add", "Sub", "Max", "Min"}
)

func (d *drawer) pick(names []string) string { return names[d.IntN(len(names))] }

// expr is an expression of a type and shape.
func (d *drawer) expr(dt ndarray.DType, shape []int, depth int) *node {
	if depth == 0 || d.IntN(8) == 0 {
		if d.IntN(6) == 0 && len(shape) == 0 {
			a := ndarray.Must(dt)
			a.SetFloat(0, float64(d.IntN(9)-4)/2)
			return constant(a)
		}
		return d.tensor(dt, shape, false)
	}
	depth--
	switch d.IntN(9) {
	case 0:
		return d.look(dt, shape, depth)
	case 1:
		return d.reduction(dt, shape, depth)
	case 2:
		from := d.dtype()
		if !d.exact || from == dt || from.IsFloat() && dt == ndarray.Uint8 || from.IsFloat() && dt.IsInteger() && dt.Size() < 4 {
			return d.expr(dt, shape, depth)
		}
		return each("Cast", dt, []ssa.Attr{ssa.IntAttr("to", int64(dt))}, d.expr(from, shape, depth))
	case 3:
		if dt == ndarray.Bool {
			of := d.dtype()
			if !d.exact || of == ndarray.Bool {
				return d.tensor(dt, shape, false)
			}
			return d.full(shape, each(d.pick([]string{"Less", "Equal", "GreaterOrEqual"}), dt, nil, d.expr(of, shape, depth), d.operand(of, shape, depth)))
		}
		condition := d.tensor(ndarray.Bool, shape, false)
		return each("Where", dt, nil, condition, d.operand(dt, shape, depth), d.operand(dt, shape, depth))
	case 4:
		if dt.IsFloat() && len(shape) == 2 && !d.exact {
			k := 1 + d.IntN(6)
			return general("MatMul", dt, nil, d.expr(dt, []int{shape[0], k}, depth), d.expr(dt, []int{k, shape[1]}, depth))
		}
	case 5:
		return d.gather(dt, shape, depth)
	case 6:
		return d.unary(dt, shape, depth)
	case 7:
		return d.whole(dt, shape, depth)
	}
	return d.binary(dt, shape, depth)
}

// whole is an operator that reads more than the elements at a place: by rows, or all of them in another form.
func (d *drawer) whole(dt ndarray.DType, shape []int, depth int) *node {
	if len(shape) == 0 || slices.Contains(shape, 0) {
		return d.tensor(dt, shape, false)
	}
	axis := d.IntN(len(shape))
	along := []ssa.Attr{ssa.IntAttr("axis", int64(axis-len(shape)*d.IntN(2)))}
	switch {
	case dt == ndarray.Int64 && d.IntN(2) == 0:
		source := slices.Insert(slices.Clone(shape), axis, 1+d.IntN(7))
		return general(d.pick([]string{"ArgMax", "ArgMin"}), dt, []ssa.Attr{ssa.IntAttr("axis", int64(axis)), ssa.IntAttr("keepdims", 0)}, d.expr(ndarray.Float32, source, depth))
	case !d.exact && dt.IsFloat() && d.IntN(2) == 0:
		return general(d.pick([]string{"Softmax", "LogSoftmax"}), dt, along, d.expr(dt, shape, depth))
	case !d.exact && dt == ndarray.Float32 && d.IntN(2) == 0:
		return general("CumSum", dt, nil, d.expr(dt, shape, depth), constant(ndarray.Scalar(int64(axis))))
	case d.IntN(2) == 0:
		from := []int{ndarray.Product(shape)}
		if n := shape[axis]; n%2 == 0 && d.IntN(2) == 0 {
			from = slices.Insert(slices.Clone(shape), axis, 2)
			from[axis+1] = n / 2
		}
		return general("Reshape", dt, nil, d.expr(dt, from, depth), ints(shape...))
	}
	var parts []*node
	for rest := shape[axis]; rest > 0; {
		part := slices.Clone(shape)
		part[axis] = 1 + d.IntN(rest)
		rest -= part[axis]
		parts = append(parts, d.expr(dt, part, depth))
	}
	return general("Concat", dt, along, parts...)
}

// full makes sure of a shape.
func (d *drawer) full(shape []int, n *node) *node {
	v, err := broadcast(n.shape, shape)
	return look(n, v, err)
}

func (d *drawer) unary(dt ndarray.DType, shape []int, depth int) *node {
	name := d.pick(smoothUnary)
	switch {
	case dt == ndarray.Bool:
		name = "Not"
	case d.exact && dt.IsFloat() && d.IntN(2) == 0:
		name = d.pick(exactFloat)
	case d.exact && dt == ndarray.Uint8:
		return each("Add", dt, nil, d.expr(dt, shape, depth), d.operand(dt, shape, depth))
	case d.exact:
		name = d.pick(exactUnary)
	}
	return each(name, dt, nil, d.expr(dt, shape, depth))
}

func (d *drawer) binary(dt ndarray.DType, shape []int, depth int) *node {
	name := d.pick(smoothBinary)
	switch {
	case dt == ndarray.Bool:
		name = d.pick([]string{"And", "Or", "Xor"})
	case d.exact:
		name = d.pick(exactBinary)
	}
	a, b := d.expr(dt, shape, depth), d.operand(dt, shape, depth)
	if d.IntN(2) == 0 {
		a, b = b, a
	}
	return each(name, dt, nil, a, b)
}

// look is a view of an expression.
func (d *drawer) look(dt ndarray.DType, shape []int, depth int) *node {
	switch d.IntN(4) {
	case 0: // a slice
		source, ranges := slices.Clone(shape), []Range{}
		for i, n := range shape {
			step, start := 1+d.IntN(2), d.IntN(3)
			source[i] = start + n*step + d.IntN(2)
			r := Range{start, start + n*step, step}
			if d.IntN(3) == 0 && n > 0 {
				r = Range{start + (n-1)*step, start - step, -step}
				if r.End < 0 {
					r.End = ToStart
				}
			}
			ranges = append(ranges, r)
		}
		x := d.expr(dt, source, depth)
		v, err := sliced(source, ranges)
		return look(x, v, err)
	case 1: // a transposition
		axes, source := d.Perm(len(shape)), make([]int, len(shape))
		for j, a := range axes {
			source[a] = shape[j]
		}
		x := d.expr(dt, source, depth)
		if len(axes) == 0 {
			return x
		}
		v, err := transposed(source, axes)
		return look(x, v, err)
	case 2:
		return d.full(shape, d.operand(dt, shape, depth))
	}
	axis := d.IntN(len(shape) + 1)
	source := slices.Insert(slices.Clone(shape), axis, 1+d.IntN(4))
	x := d.expr(dt, source, depth)
	v, err := picked(source, axis, d.IntN(source[axis]))
	return look(x, v, err)
}

// reduction reduces one more dimension.
func (d *drawer) reduction(dt ndarray.DType, shape []int, depth int) *node {
	name := d.pick([]string{"ReduceMax", "ReduceMin"})
	switch {
	case dt == ndarray.Bool || slices.Contains(shape, 0) || dt == ndarray.Uint8 || dt == ndarray.Int8:
		return d.tensor(dt, shape, false)
	case !d.exact:
		name = d.pick([]string{"ReduceMean", "ReduceMax", "ReduceSum"})
	}
	axis := len(shape)
	if d.IntN(3) == 0 {
		axis = d.IntN(len(shape) + 1)
	}
	source := slices.Insert(slices.Clone(shape), axis, 1+d.IntN(7))
	return general(name, dt, []ssa.Attr{ssa.IntAttr("keepdims", 0)}, d.expr(dt, source, depth), ints(axis))
}

// gather picks slices along a dimension.
func (d *drawer) gather(dt ndarray.DType, shape []int, depth int) *node {
	if len(shape) == 0 {
		return d.tensor(dt, shape, false)
	}
	axis := d.IntN(len(shape))
	source := slices.Clone(shape)
	source[axis] = 1 + d.IntN(5)
	idx := ndarray.Must(ndarray.Int64, shape[axis])
	for i := range shape[axis] {
		idx.SetInt(i, int64(d.IntN(2*source[axis])-source[axis]))
	}
	at := &node{kind: leaf, dt: idx.DType, shape: idx.Shape, place: &place{array: *idx}}
	return general("Gather", dt, []ssa.Attr{ssa.IntAttr("axis", int64(axis))}, d.expr(dt, source, depth), at)
}

// snapshot copies all memory.
func (d *drawer) snapshot() map[ndarray.DType][]byte {
	out := map[ndarray.DType][]byte{}
	for dt, a := range d.memory {
		out[dt] = slices.Clone(a.Data)
	}
	return out
}

func (d *drawer) restore(s map[ndarray.DType][]byte) {
	for dt, b := range s {
		copy(d.memory[dt].Data, b)
	}
}

// requireSame compares all memory: what assignments write, and what they must not.
func (d *drawer) requireSame(t *testing.T, want map[ndarray.DType][]byte, name string) {
	for dt, b := range want {
		x, y := &ndarray.Array{DType: dt, Data: b}, d.memory[dt]
		for i := range memoryElems {
			a, b := x.Float(i), y.Float(i)
			if a == b || a != a && b != b {
				continue
			}
			if d.exact || math.Abs(a-b) > 2e-5*(1+math.Abs(a)) {
				require.Failf(t, "results differ", "%s: element %d of %s is %v, must be %v", name, i, dt, b, a)
			}
		}
	}
}

// randomLists is how many lists TestRandom draws.
func randomLists() int {
	if n, err := strconv.Atoi(os.Getenv("BERTH_RANDOM")); err == nil {
		return n
	}
	return 300
}

// TestRandom draws lists of assignments, over windows that overlap, and compares them with the
// reference kernels, the first time and from the cache.
func TestRandom(t *testing.T) {
	poisonSessions = true
	defer func() { poisonSessions = false }()
	engines := []*Engine{NewEngine(Options{Threads: 1}), NewEngine(Options{Threads: 2, Plans: 5})}
	done, copied := 0, 0
	for seed := range uint64(randomLists()) {
		d := newDrawer(seed)
		var list []Assignment
		for range 1 + d.IntN(3)*d.IntN(2) {
			dt, shape := d.dtype(), d.shape()
			src := d.operand(dt, shape, 1+d.IntN(4))
			list = append(list, Assignment{job{d.tensor(dt, shape, true), src}})
		}
		before := d.snapshot()
		for _, a := range list {
			reference{}.assign(t, a.job)
		}
		want := d.snapshot()
		for i, e := range engines {
			for range 2 {
				d.restore(before)
				require.NoError(t, e.Assign(t.Context(), list...), "seed %d", seed)
				d.requireSame(t, want, fmt.Sprintf("seed %d, engine %d", seed, i))
			}
		}
		p, err := engines[0].Prepare(t.Context(), list...)
		require.NoError(t, err)
		done++
		for _, k := range p.Kernels() {
			if k == string(tile.Copy) {
				copied++
			}
		}
	}
	t.Log(done, "lists,", copied, "copies")
	assert.LessOrEqual(t, engines[1].Plans(), 5)
}
