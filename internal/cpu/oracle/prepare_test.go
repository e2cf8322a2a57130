package oracle

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"math/rand"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth/backend"
	"github.com/berth-onnx/berth/internal/cpu"
	"github.com/berth-onnx/berth/internal/cpu/kern/machine"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// The harness: a case is one node with random operands. It is prepared at every
// level this machine has, run on one and on two threads, in place where the facts
// allow it, and compared with the reference kernel. Adding an operator is a line
// in its family's table.

// microsoft is the domain of the operators that ONNX Runtime adds.
const microsoft = "com.microsoft"

// opCase is one node under test.
type opCase struct {
	name       string // told apart by this; the operator and operands are added
	domain, op string
	in         []arg
	attrs      []ssa.Attr
	outs       int     // results, 0 is one
	unused     []int   // results nobody uses
	tol        float64 // what float results may differ by, relative or absolute; 0: not at all
	tols       []float64
	left       bool // the backend is expected to leave the node to the reference
	either     bool // the backend may leave the node or serve it
	fails      bool // both kernels are expected to fail
	mayFail    bool // the reference kernel may refuse the operands
}

// arg is one operand.
type arg struct {
	absent bool
	konst  bool
	splat  bool
	dt     ndarray.DType
	shape  []int
	fill   func(r *rand.Rand, a *ndarray.Array)
}

func (a arg) c() arg       { a.konst = true; return a }
func (a arg) asSplat() arg { a.konst, a.splat = true, true; return a }

// from returns the operand with its elements made by f.
func (a arg) from(f func(r *rand.Rand) float64) arg {
	a.fill = func(r *rand.Rand, x *ndarray.Array) {
		for i := range x.Len() {
			x.SetFloat(i, f(r))
		}
	}
	return a
}

var nan = math.NaN()

// odd returns the operand with NaN, infinities and zeros of both signs among its
// elements.
func (a arg) odd() arg {
	values := []float64{nan, math.Inf(1), math.Inf(-1), math.Copysign(0, -1), 0}
	return a.from(func(r *rand.Rand) float64 {
		if r.Intn(3) == 0 {
			return values[r.Intn(len(values))]
		}
		return r.NormFloat64()
	})
}

// between returns the operand with elements in [lo, hi).
func (a arg) between(lo, hi float64) arg {
	return a.from(func(r *rand.Rand) float64 { return lo + (hi-lo)*r.Float64() })
}

var absent = arg{absent: true}

// tensor is an operand with elements that suit its type.
func tensor(dt ndarray.DType, shape ...int) arg {
	a := arg{dt: dt, shape: shape}
	switch {
	case dt == ndarray.Bool:
		return a.from(func(r *rand.Rand) float64 { return float64(r.Intn(2)) })
	case dt.IsUnsigned():
		return a.from(func(r *rand.Rand) float64 { return float64(r.Intn(200)) })
	case dt.IsInteger():
		return a.from(func(r *rand.Rand) float64 { return float64(r.Intn(200) - 100) })
	}
	return a.from(func(r *rand.Rand) float64 { return r.NormFloat64() })
}

func f32s(shape ...int) arg    { return tensor(ndarray.Float32, shape...) }
func boolean(shape ...int) arg { return tensor(ndarray.Bool, shape...) }

// ints is a constant int64 vector.
func ints(v ...int64) arg {
	return arg{dt: ndarray.Int64, shape: []int{len(v)}, konst: true,
		fill: func(_ *rand.Rand, a *ndarray.Array) { copy(ndarray.Slice[int64](a), v) }}
}

// scalar is a constant of rank 0.
func scalarOf(dt ndarray.DType, v float64) arg {
	return arg{dt: dt, shape: []int{}, konst: true}.from(func(*rand.Rand) float64 { return v })
}

// indices is an operand of random indices in [-dim, dim).
func indices(dt ndarray.DType, dim int, shape ...int) arg {
	return arg{dt: dt, shape: shape}.from(func(r *rand.Rand) float64 { return float64(r.Intn(2*dim) - dim) })
}

func (k opCase) String() string {
	s := k.op
	if k.name != "" {
		s += " " + k.name
	}
	for _, a := range k.in {
		switch {
		case a.absent:
			s += " -"
		case a.konst:
			s += fmt.Sprintf(" %s%vc", a.dt, a.shape)
		default:
			s += fmt.Sprintf(" %s%v", a.dt, a.shape)
		}
	}
	for _, a := range k.attrs {
		s += " " + a.Name
		switch a.Kind {
		case ssa.AttrInt:
			s += fmt.Sprint("=", a.I)
		case ssa.AttrFloat:
			s += fmt.Sprint("=", a.F)
		case ssa.AttrString:
			s += "=" + a.S
		case ssa.AttrInts:
			s += fmt.Sprint("=", a.Ints)
		}
	}
	return s
}

// runCases tests every case as a sub-test.
func runCases(t *testing.T, cases []opCase) {
	t.Helper()
	for i, k := range cases {
		t.Run(k.String(), func(t *testing.T) { k.run(t, int64(i)) })
	}
}

// runRandom tests n cases drawn by gen.
func runRandom(t *testing.T, n int, gen func(r *rand.Rand) opCase) {
	t.Helper()
	r := rand.New(rand.NewSource(1))
	for i := range n {
		k := gen(r)
		t.Run(k.String(), func(t *testing.T) { k.run(t, int64(i)) })
	}
}

// bench is a case made ready: the node, its operands and what the reference
// kernel gives for them.
type bench struct {
	opCase
	node *ssa.Node
	in   []*ndarray.Array
	want []*ndarray.Array
}

// run tests the case; it reports that the backend serves the node.
func (k opCase) run(t *testing.T, seed int64) bool {
	require.NotNil(t, ops.Lookup(k.domain, k.op), "no reference kernel for %s", k.op)
	b := k.build(t, seed)
	level, elems, moved, share := machine.Active(), cpu.TileElems, cpu.TileBytes, cpu.ShareNanos
	cpu.ShareNanos = 0
	defer func() {
		cpu.TileElems, cpu.TileBytes, cpu.ShareNanos = elems, moved, share
		require.NoError(t, machine.Use(level))
	}()
	for i, l := range machine.Levels() {
		require.NoError(t, machine.Use(l))
		if cpu.TileElems, cpu.TileBytes = elems, moved; i == 0 {
			cpu.TileElems, cpu.TileBytes = 48, 200 // many tiles
		}
		p, err := cpu.New().Prepare(t.Context(), b.node, 2)
		require.NoError(t, err)
		if k.left {
			assert.Nil(t, p.Kernel, "the node should be left to the reference kernel")
			return false
		}
		if k.either && p.Kernel == nil {
			return false
		}
		require.NotNil(t, p.Kernel, "the backend does not claim the node")
		assert.NotEmpty(t, backend.ChoiceOf(p.Kernel).Algorithm, "a kernel says how it computes: %T", p.Kernel)
		if k.fails {
			assert.Error(t, p.Kernel.Run(b.call(p, b.cloned(), b.results(), 1)))
			continue
		}
		b.check(t, l.String(), p)
	}
	return true
}

// build makes graph and operands and runs the reference kernel.
func (k opCase) build(t *testing.T, seed int64) *bench {
	r := rand.New(rand.NewSource(seed))
	g := ssa.NewGraph("case")
	b := &bench{opCase: k}
	var in []*ssa.Value
	for i, a := range k.in {
		if a.absent {
			in, b.in = append(in, nil), append(b.in, nil)
			continue
		}
		x := ndarray.Must(a.dt, a.shape...)
		a.fill(r, x)
		name := fmt.Sprintf("in%d", i)
		switch {
		case a.splat:
			one := ndarray.Must(a.dt)
			copy(one.Data, x.Data[:a.dt.Size()])
			k := ssa.NewSplat(one, a.shape...)
			full, err := k.Array()
			require.NoError(t, err)
			x = full
			in = append(in, g.AddConst(name, k))
		case a.konst:
			in = append(in, g.AddConst(name, ssa.NewConstant(x)))
		default:
			in = append(in, g.AddParam(name, x2type(x)))
		}
		b.in = append(b.in, x)
	}
	b.node = g.NewNode(k.op, in, max(k.outs, 1), k.attrs...)
	b.node.Domain = k.domain
	for _, i := range k.unused {
		b.node.Out[i] = nil
	}
	err := ops.Infer(b.node)
	if k.mayFail && err != nil {
		return b
	}
	require.NoError(t, err)
	c := &ops.Call{Ctx: context.Background(), Node: b.node, Threads: 1}
	for _, x := range b.cloned() {
		c.In = append(c.In, valueOf(x))
	}
	err = ops.Eval(c)
	if k.mayFail && err != nil {
		return b
	}
	if k.fails {
		require.Error(t, err)
	} else {
		require.NoError(t, err)
	}
	for i, v := range b.node.Out {
		if v == nil || k.fails {
			b.want = append(b.want, nil)
			continue
		}
		b.want = append(b.want, c.Out[i].(*ndarray.Array))
		if !v.Type.IsStatic() {
			v.Type = x2type(b.want[i]) // a size that depends on data, bound by the plan
		}
	}
	return b
}

func x2type(x *ndarray.Array) ssa.Type { return ssa.StaticTensor(x.DType, x.Shape...) }

// valueOf keeps an absent operand a nil interface.
func valueOf(x *ndarray.Array) ndarray.Value {
	if x == nil {
		return nil
	}
	return x
}

func (b *bench) cloned() []*ndarray.Array {
	out := make([]*ndarray.Array, len(b.in))
	for i, x := range b.in {
		if x != nil {
			out[i] = x.Clone()
		}
	}
	return out
}

// results makes poisoned memory for every used result.
func (b *bench) results() []*ndarray.Array {
	out := make([]*ndarray.Array, len(b.node.Out))
	for i, v := range b.node.Out {
		if v == nil {
			continue
		}
		shape, _ := v.Type.Static()
		out[i] = ndarray.Must(v.Type.DType, shape...)
		poison(out[i].Data)
	}
	return out
}

// poison fills memory with a pattern that is NaN for floats.
func poison(b []byte) {
	for i := range b {
		b[i] = 0xff
	}
}

func (b *bench) call(p backend.Prepared, in, out []*ndarray.Array, threads int) *ops.Call {
	c := &ops.Call{Ctx: context.Background(), Node: b.node, Threads: threads, Scratch: ndarray.AlignedBytes(int(p.Scratch))}
	poison(c.Scratch)
	for _, x := range in {
		c.In = append(c.In, valueOf(x))
	}
	for _, i := range p.Absorbed {
		c.In[i] = nil
	}
	for _, x := range out {
		c.Out = append(c.Out, valueOf(x))
	}
	return c
}

// check runs the kernel in every way and compares.
func (b *bench) check(t *testing.T, level string, p backend.Prepared) {
	in, out := b.cloned(), b.results()
	require.NoError(t, p.Kernel.Run(b.call(p, in, out, 1)), level)
	for i, x := range in {
		if x != nil && !bytes.Equal(x.Data, b.in[i].Data) {
			assert.Fail(t, "operand changed", "%s: operand %d", level, i)
		}
	}
	for i, x := range out {
		if x == nil {
			continue
		}
		tol := b.tol
		if i < len(b.tols) {
			tol = b.tols[i]
		}
		if !alike(t, fmt.Sprintf("%s result %d", level, i), b.want[i], x, tol) {
			return
		}
	}
	two := b.results()
	c := b.call(p, b.cloned(), two, 2)
	require.NoError(t, p.Kernel.Run(c), level)
	b.same(t, level+" two threads", out, two)
	for _, threads := range []int{1, 2} {
		c := b.call(p, b.cloned(), b.results(), threads)
		n := math.Inf(1)
		for tries := 0; n > 0 && tries < 3; tries++ { // the runtime allocates now and then, too
			n = min(n, testing.AllocsPerRun(2, func() { _ = p.Kernel.Run(c) }))
		}
		assert.Zero(t, n, "%s: allocations on %d threads", level, threads)
	}
	b.otherThreads(t, level, out)
	b.together(t, level, p, out)
	b.inPlace(t, level, p, out)
	b.smaller(t, level, p, out)
	b.aliased(t, level, p, out)
}

func (b *bench) same(t *testing.T, what string, want, got []*ndarray.Array) {
	for i := range want {
		if want[i] != nil && !bytes.Equal(want[i].Data, got[i].Data) {
			assert.Fail(t, "bytes differ", "%s, result %d", what, i)
		}
	}
}

// otherThreads prepares the node for other numbers of threads.
func (b *bench) otherThreads(t *testing.T, level string, want []*ndarray.Array) {
	for _, threads := range []int{1, 5} {
		p, err := cpu.New().Prepare(t.Context(), b.node, threads)
		require.NoError(t, err)
		require.NotNil(t, p.Kernel)
		got := b.results()
		require.NoError(t, p.Kernel.Run(b.call(p, b.cloned(), got, threads)), level)
		b.same(t, fmt.Sprintf("%s prepared for %d threads", level, threads), want, got)
	}
}

// together runs several calls at once.
func (b *bench) together(t *testing.T, level string, p backend.Prepared, want []*ndarray.Array) {
	var wg sync.WaitGroup
	got := make([][]*ndarray.Array, 3)
	for i := range got {
		got[i] = b.results()
		c := b.call(p, b.cloned(), got[i], 2)
		wg.Go(func() { _ = p.Kernel.Run(c) })
	}
	wg.Wait()
	for _, g := range got {
		b.same(t, level+" several at once", want, g)
	}
}

// inPlace runs with every pair that may share bytes.
func (b *bench) inPlace(t *testing.T, level string, p backend.Prepared, want []*ndarray.Array) {
	for _, pair := range ops.InPlacePairs(b.node) {
		if b.node.In[pair.In].Const != nil || b.node.Out[pair.Out] == nil {
			continue
		}
		in, out := b.cloned(), b.results()
		out[pair.Out].Data = in[pair.In].Data
		require.NoError(t, p.Kernel.Run(b.call(p, in, out, 2)), level)
		b.same(t, fmt.Sprintf("%s in place %v", level, pair), want, out)
	}
}

// smaller runs with every result that may begin where a larger operand does: on one
// thread, on several, and as several that come in the worst order.
func (b *bench) smaller(t *testing.T, level string, p backend.Prepared, want []*ndarray.Array) {
	for _, pair := range ops.SmallerPairs(b.node) {
		if b.node.In[pair.In].Const != nil || b.node.Out[pair.Out] == nil {
			continue
		}
		for _, threads := range []int{1, 2, -2} {
			in, out := b.cloned(), b.results()
			out[pair.Out].Data = in[pair.In].Data[:len(out[pair.Out].Data)]
			machine.Backwards.Store(threads < 0)
			err := p.Kernel.Run(b.call(p, in, out, max(threads, -threads)))
			machine.Backwards.Store(false)
			require.NoError(t, err, level)
			b.same(t, fmt.Sprintf("%s over a larger operand %v, %d threads", level, pair, threads), want, out)
		}
	}
}

// aliased runs with every view on its operand's memory.
func (b *bench) aliased(t *testing.T, level string, p backend.Prepared, want []*ndarray.Array) {
	aliases := ops.Aliases(b.node)
	if len(aliases) == 0 {
		return
	}
	in, out := b.cloned(), b.results()
	for _, a := range aliases {
		if a.Moving != nil {
			off, err := a.Moving.Offset(in[a.Moving.Operand])
			require.NoError(t, err)
			a.Offset += off
		}
		if a.Concat {
			window := out[a.Out].Data[a.Offset:][:len(in[a.In].Data)]
			copy(window, in[a.In].Data)
			in[a.In].Data = window
		} else {
			out[a.Out].Data = in[a.In].Data[a.Offset:][:len(out[a.Out].Data)]
		}
	}
	require.NoError(t, p.Kernel.Run(b.call(p, in, out, 2)), level)
	b.same(t, level+" as views", want, out)
}

// alike compares element by element; NaN equals NaN.
func alike(t *testing.T, what string, want, got *ndarray.Array, tol float64) bool {
	require.Equal(t, want.DType, got.DType, what)
	require.Equal(t, want.Shape, got.Shape, what)
	for i := range want.Len() {
		if !want.DType.IsFloat() {
			if want.Int(i) != got.Int(i) && math.Abs(float64(want.Int(i)-got.Int(i))) > tol {
				return assert.Fail(t, "elements differ", "%s, element %d: want %d, got %d", what, i, want.Int(i), got.Int(i))
			}
			continue
		}
		w, g := want.Float(i), got.Float(i)
		if w == g || w != w && g != g || !math.IsInf(w, 0) && math.Abs(w-g) <= tol*(1+math.Abs(w)) {
			continue
		}
		return assert.Fail(t, "elements differ", "%s, element %d of %v: want %v, got %v", what, i, want.Shape, w, g)
	}
	return true
}

// pick returns one of its arguments.
func pick[T any](r *rand.Rand, of ...T) T { return of[r.Intn(len(of))] }

// randomShape draws dimensions up to most.
func randomShape(r *rand.Rand, rank, most int) []int {
	s := make([]int, rank)
	for i := range s {
		s[i] = 1 + r.Intn(most)
	}
	return s
}
