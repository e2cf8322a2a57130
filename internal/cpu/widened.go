package cpu

import (
	"context"
	"slices"

	"github.com/berth-onnx/berth/backend"
	"github.com/berth-onnx/berth/internal/cpu/kern/convolve"
	"github.com/berth-onnx/berth/internal/cpu/kern/machine"
	"github.com/berth-onnx/berth/internal/cpu/kern/vec"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// Arithmetic on float16 and bfloat16 is arithmetic on float32 whose results are rounded once,
// which is how the reference kernels define it. A node of half types is prepared as the node of
// float32 that it would be, and run between conversions:
//
//	operand f16 ──▶ workspace f32 ──┐
//	constant f16 ──▶ packed as f32 ─┴▶ kernel of float32 ──▶ workspace f32 ──▶ result f16
//
// Conversions run at the speed of memory; the workspace is that of the operands and results
// in float32. Small constants are converted once. Kernels that widen and narrow what they have in the cache
// take operands and results as they are ([prep.keepHalves]).

// widens are the families whose arithmetic is done so. Others move elements of any type, or
// convert them.
var widens = func() map[ops.Key]bool {
	m := map[ops.Key]bool{}
	for _, f := range [][]entry{unaryOps, binaryOps, variadicOps, compareOps, productOps, convOps, poolOps, normOps, skipOps, nbitsOps,
		attentionOps, multiHeadOps, groupQueryOps, rotaryOps, softmaxOps, reduceOps, resizeOps, einsumOps, recurrentOps, gridOps, blockedOps} {
		for _, e := range f {
			m[ops.Key{Domain: e.domain, Name: e.op}] = true
		}
	}
	return m
}()

// widened is a node of half types.
type widened struct {
	kernel  ops.Kernel
	in, out []halfOperand
	held    []heldOperand
	calls   innerCalls
}

// heldOperand is a small constant in float32.
type heldOperand struct {
	at    int
	value *ndarray.Array
}

// mostHeld is the elements up to which a constant is held in float32.
const mostHeld = 1 << 13

// halfOperand is an operand or result that is converted.
type halfOperand struct {
	at    int   // position in the node
	again []int // further positions of the same operand
	shape []int
	space int // offset of its float32 elements in the workspace
	cut
	result bool
	widen  func(dst []float32, src []uint16)
	narrow func(dst []uint16, src []float32)
}

// prepareEntry prepares a node by its entry of the table, one of half types by the kernel
// for float32.
func prepareEntry(p *prep, e entry) (ops.Kernel, error) {
	q := p
	if widens[ops.Key{Domain: e.domain, Name: e.op}] || combines[ops.Str(p.node, "reduction")] != replace {
		q = p.inFloat32()
	}
	if q == p {
		return e.prepare(p)
	}
	k, err := e.prepare(q)
	if k == nil || err != nil {
		return nil, err
	}
	w := &widened{kernel: k}
	for i, x := range p.in {
		if !x.dt.IsHalf() || slices.Contains(q.absorbed, i) || slices.Contains(q.kept, i) {
			continue
		}
		if !q.isConst(i) || x.n > mostHeld {
			same := func(h halfOperand) bool { return p.in[h.at].value == x.value }
			if j := slices.IndexFunc(w.in, same); j >= 0 {
				w.in[j].again = append(w.in[j].again, i)
			} else {
				w.in = append(w.in, q.converted(i, x, false))
			}
			continue
		}
		a, err := q.constant(i)
		if err != nil {
			return nil, err
		}
		w.held = append(w.held, heldOperand{i, a})
		q.absorb(i, 4*x.n)
	}
	for i, x := range p.out {
		if x.dt.IsHalf() && q.kept == nil {
			w.out = append(w.out, q.converted(i, x, true))
		}
	}
	*p = *q
	return w, nil
}

// inFloat32 is the preparation of the same node with float32 in place of half types; p itself where there are none.
func (p *prep) inFloat32() *prep {
	half := func(x operand) bool { return x.dt.IsHalf() }
	if !slices.ContainsFunc(p.in, half) && !slices.ContainsFunc(p.out, half) {
		return p
	}
	c := *p
	c.halves = p
	c.in, c.out = slices.Clone(p.in), slices.Clone(p.out)
	for _, list := range [][]operand{c.in, c.out} {
		for i := range list {
			x := &list[i]
			if !x.dt.IsHalf() {
				continue
			}
			x.dt = ndarray.Float32
			if x.value.Const != nil {
				x.value = &ssa.Value{Type: ssa.StaticTensor(ndarray.Float32, x.shape...), Const: constInFloat32(x.value.Const)}
			}
		}
	}
	return &c
}

// keepHalves reports that the operands of such positions and the first result are of one half type. The kernel then
// takes them as they are.
func (p *prep) keepHalves(at ...int) (convolve.Half, bool) {
	if p.halves == nil {
		return convolve.NoHalf, false
	}
	dt := p.halves.out[0].dt
	if !dt.IsHalf() || slices.ContainsFunc(at, func(i int) bool { return p.has(i) && p.halves.in[i].dt != dt }) {
		return convolve.NoHalf, false
	}
	p.kept = at
	if dt == ndarray.BFloat16 {
		return convolve.Bfloat16, true
	}
	return convolve.Binary16, true
}

// constInFloat32 is a constant of a half type as one of float32.
func constInFloat32(c *ssa.Constant) *ssa.Constant {
	if v, ok := c.Splat(); ok {
		one := make([]float32, 1)
		widenTo(v.DType)(one, ndarray.Slice[uint16](v))
		return ssa.NewSplat(ndarray.Of(one), c.Shape()...)
	}
	return ssa.NewLazyContext(ndarray.Float32, c.Shape(), func(ctx context.Context, memory ndarray.Budget) (*ndarray.Array, error) { // memory was asked for
		a, err := c.ArrayContext(ctx, memory)
		if err != nil {
			return nil, err
		}
		defer c.Release()
		out, from, widen := make([]float32, a.Len()), ndarray.Slice[uint16](a), widenTo(a.DType)
		for at := 0; at < len(out); at += widenedPiece {
			if ctx.Err() != nil {
				return nil, ctx.Err()
			}
			end := min(at+widenedPiece, len(out))
			widen(out[at:end], from[at:end])
		}
		return ndarray.Of(out, a.Shape...), nil
	})
}

// widenedPiece is how many elements of a constant are converted between two looks at the context.
const widenedPiece = 1 << 20

// widenTo is the conversion of a half type to float32.
func widenTo(dt ndarray.DType) func(dst []float32, src []uint16) {
	if dt == ndarray.BFloat16 {
		return vec.BfloatToFloat
	}
	return vec.HalfToFloat
}

// converted reserves workspace for an operand or result.
func (p *prep) converted(at int, x operand, result bool) halfOperand {
	if x.blocked {
		x.shape, _ = x.value.Type.Static()
		x.n = sizeOf(x.shape)
	}
	h := halfOperand{at: at, shape: x.shape, space: p.workspace(4 * x.n), cut: newCut(1, x.n, TileElems), result: result, widen: widenTo(x.dt), narrow: vec.FloatToHalf}
	if x.dt == ndarray.BFloat16 {
		h.narrow = vec.FloatToBfloat
	}
	return h
}

// tile converts a piece.
func (h *halfOperand) tile(c *ops.Call, i, _ int) {
	_, _, lo, hi := h.cut.tile(i)
	wide := scratchOf[float32](c, h.space, h.run)[lo:hi]
	if h.result {
		h.narrow(ndarray.Slice[uint16](arrayOf(c.Out[h.at]))[lo:hi], wide)
		return
	}
	h.widen(wide, ndarray.Slice[uint16](arrayOf(c.In[h.at]))[lo:hi])
}

// Run converts, computes and rounds.
func (w *widened) Run(c *ops.Call) error {
	r := w.calls.take(c, len(w.in)+len(w.out))
	defer w.calls.release(r)
	r.in, r.out = append(r.in, c.In...), append(r.out, c.Out...)
	for i := range w.in {
		h := &w.in[i]
		r.in[h.at] = r.array(c, h.space, h.run, h.shape)
		for _, at := range h.again {
			r.in[at] = r.in[h.at]
		}
		runTiles(c, h.tiles, h)
	}
	for _, h := range w.held {
		r.in[h.at] = h.value
	}
	for i := range w.out {
		h := &w.out[i]
		r.out[h.at] = r.array(c, h.space, h.run, h.shape)
	}
	if err := r.run(w.kernel); err != nil {
		return err
	}
	for i := range w.out {
		runTiles(c, w.out[i].tiles, &w.out[i])
	}
	return nil
}

// Choice is that of the kernel for float32.
func (w *widened) Choice() backend.Choice {
	c := backend.ChoiceOf(w.kernel)
	c.Algorithm += ", in float32"
	return c
}

// innerCall is the call of a kernel that another one is made of: operands and results of its
// own, some of them in the workspace.
type innerCall struct {
	call    ops.Call
	in, out []ndarray.Value
	arrays  []ndarray.Array
}

// innerCalls are calls to be used again, so that a run allocates nothing.
type innerCalls struct{ free machine.FreeList[innerCall] }

// take returns a call like c without operands and results, with room for so many arrays.
func (f *innerCalls) take(c *ops.Call, arrays int) *innerCall {
	r := f.free.Get()
	r.call, r.in, r.out = *c, r.in[:0], r.out[:0]
	r.arrays = slices.Grow(r.arrays[:0], arrays)
	return r
}

// release gives a call back, which then holds on to nothing but its own slices.
func (f *innerCalls) release(r *innerCall) {
	r.call = ops.Call{}
	clear(r.in)
	clear(r.out)
	clear(r.arrays)
	f.free.Put(r)
}

// array is a float32 array of n elements in the workspace.
func (r *innerCall) array(c *ops.Call, at, n int, shape []int) *ndarray.Array {
	r.arrays = append(r.arrays, ndarray.Array{DType: ndarray.Float32, Shape: shape, Data: c.Scratch[at : at+4*n]})
	return &r.arrays[len(r.arrays)-1]
}

// run calls the kernel with the operands and results as they are now.
func (r *innerCall) run(k ops.Kernel) error {
	r.call.In, r.call.Out = r.in, r.out
	return k.Run(&r.call)
}
