// Package pieces computes nodes of half types in float32 piece by piece. The kernels of a backend convert operands and results as a whole; here those of a
// part of the batch, or of the rows, are, and the workspace is that of a part:
//
//	operand f16 ─┬▶ part f32 ──▶ kernel of float32 ──▶ part f32 ─┬▶ result f16
//	             └▶ part f32 ──▶ kernel of float32 ──▶ part f32 ─┘
//
// Sums over the batch are added up in float32 and rounded once. Which nodes can be cut is known to package batch.
package pieces

import (
	"context"
	"math"
	"slices"
	"strings"

	"github.com/berth-onnx/berth/backend"
	"github.com/berth-onnx/berth/internal/batch"
	"github.com/berth-onnx/berth/internal/cpu/kern/machine"
	"github.com/berth-onnx/berth/internal/cpu/kern/vec"
	"github.com/berth-onnx/berth/internal/ops/fused"
	"github.com/berth-onnx/berth/internal/tile"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// small is a workspace of so many bytes that it stays as it is, and what the operands and results of a piece take together if there are as many pieces.
const small, mostParts = 256 << 10, 64

// Prepare prepares a node by a backend: as a whole, or in pieces where the backend computes it in float32 and that takes less workspace.
func Prepare(ctx context.Context, be backend.Backend, n *ssa.Node, threads int) (backend.Prepared, error) {
	whole, err := be.Prepare(ctx, n, threads)
	if err != nil || whole.Kernel == nil || whole.Scratch <= small || !strings.HasSuffix(backend.ChoiceOf(whole.Kernel).Algorithm, ", in float32") {
		return whole, err
	}
	if k := prepareNorm(n); k != nil && k.scratch(threads) < whole.Scratch {
		return backend.Prepared{Kernel: k, Scratch: k.scratch(threads)}, nil
	}
	p, parts := pieceOf(n)
	if p == nil {
		return whole, nil
	}
	made, err := be.Prepare(ctx, p.Node, threads)
	if err != nil || made.Kernel == nil {
		return whole, err
	}
	k := newKernel(n, p, parts, made)
	if k == nil || k.scratch >= whole.Scratch {
		return whole, nil
	}
	made.Kernel, made.Scratch = k, k.scratch
	return made, nil
}

// inFloat32 are the types of pieces.
var inFloat32 = batch.Types{
	Of: func(dt ndarray.DType) ndarray.DType {
		if dt.IsHalf() {
			return ndarray.Float32
		}
		return dt
	},
	Const: func(c *ssa.Constant) *ssa.Constant {
		if !c.DType().IsHalf() {
			return c
		}
		convert := func(a *ndarray.Array) *ndarray.Array {
			out := ndarray.Must(ndarray.Float32, a.Shape...)
			widen(a.DType)(ndarray.Slice[float32](out), ndarray.Slice[uint16](a))
			return out
		}
		if v, ok := c.Splat(); ok {
			return ssa.NewSplat(convert(v), c.Shape()...)
		}
		return ssa.NewLazyContext(ndarray.Float32, c.Shape(), func(ctx context.Context, memory ndarray.Budget) (*ndarray.Array, error) {
			a, err := c.ArrayContext(ctx, memory)
			if err != nil {
				return nil, err
			}
			return convert(a), nil
		})
	},
	Attr: func(a ssa.Attr) ssa.Attr {
		if _, ok := a.Other.(*tile.Program); !ok {
			return a
		}
		p, err := tile.Parse(halfTypes.Replace(a.S))
		if err != nil {
			return a // which does not fit, so the node stays whole
		}
		return fused.Attr(p)
	},
}

// halfTypes writes a program over the result of a product in float32.
var halfTypes = strings.NewReplacer(ndarray.BFloat16.String(), ndarray.Float32.String(), ndarray.Float16.String(), ndarray.Float32.String())

// pieceOf is the piece of the fewest parts that is small, or of the most parts that there are. Pieces of short runs of memory, which take longer, are
// none where there are others.
func pieceOf(n *ssa.Node) (best *batch.Piece, parts int) {
	for k := 2; k <= mostParts; k++ {
		p := batch.PieceOf(n, k, inFloat32)
		if p == nil || best != nil && shortest(p) < shortRun && shortest(best) >= shortRun {
			continue
		}
		best, parts = p, k
		if bytesOf(p) <= small {
			break
		}
	}
	return best, parts
}

// shortRun is below how many elements behind each other a piece takes longer than a whole node: a softmax over the rows of a matrix that is cut into
// pieces of 8 columns took 16 times as long.
const shortRun = 16

// shortest is the least number of elements of a piece that lie behind each other, over what is cut.
func shortest(p *batch.Piece) int {
	least := math.MaxInt
	look := func(values []*ssa.Value, before []int) {
		for i, v := range values {
			if v != nil && before[i] > 0 {
				shape, _ := v.Type.Static()
				least = min(least, ndarray.Product(shape)/before[i])
			}
		}
	}
	look(p.Node.In, p.In)
	look(p.Node.Out, p.Out)
	return least
}

// bytesOf are those of what a piece has of its own.
func bytesOf(p *batch.Piece) (sum int) {
	for i, v := range p.Node.In {
		if v != nil && p.In[i] > 0 {
			size, _ := v.Type.ByteSize()
			sum += size
		}
	}
	for i, v := range p.Node.Out {
		if v != nil && p.Out[i] > 0 {
			size, _ := v.Type.ByteSize()
			sum += size
		}
	}
	return sum
}

// widen and narrow are the conversions of a half type.
func widen(dt ndarray.DType) func([]float32, []uint16) {
	if dt == ndarray.BFloat16 {
		return vec.BfloatToFloat
	}
	return vec.HalfToFloat
}

func narrow(dt ndarray.DType) func([]uint16, []float32) {
	if dt == ndarray.BFloat16 {
		return vec.FloatToBfloat
	}
	return vec.FloatToHalf
}

// kernel computes a node piece by piece.
type kernel struct {
	kernel  ops.Kernel
	node    *ssa.Node
	parts   int
	share   float32 // of sums that are divided; 1: of others
	in, out []operand
	inner   int64 // bytes of the piece's own workspace, which comes first
	scratch int64
	calls   machine.FreeList[call]
}

// operand is an operand or a result of a piece.
type operand struct {
	is, cut, sum, half bool
	constant           ndarray.Value // in float32; nil: none
	dt                 ndarray.DType // in the piece
	shape              []int         // of a part
	count              int
	parts, before      int   // how many there are, and how many pieces of memory each is
	size               int   // of an element as it lies in memory
	at                 int64 // in the workspace, of a half type's elements, or of a sum
	behind             int64 // in the workspace, of the sum of a part
	widen              func([]float32, []uint16)
	narrow             func([]uint16, []float32)
}

func newKernel(n *ssa.Node, p *batch.Piece, parts int, made backend.Prepared) *kernel {
	k := &kernel{kernel: made.Kernel, node: p.Node, parts: parts, share: 1, inner: made.Scratch, scratch: align(made.Scratch)}
	if p.Mean {
		k.share = 1 / float32(parts)
	}
	for i, v := range p.Node.In {
		o := operand{}
		switch {
		case v == nil || slices.Contains(made.Absorbed, i):
		case v.Const != nil:
			a, err := v.Const.Array()
			if err != nil {
				return nil
			}
			o.constant = a
		default:
			o = k.operand(n.In[i], v, p.In[i], false)
		}
		k.in = append(k.in, o)
	}
	for i, v := range p.Node.Out {
		o := operand{}
		if v != nil {
			o = k.operand(n.Out[i], v, p.Out[i], p.Out[i] == 0)
		}
		k.out = append(k.out, o)
	}
	return k
}

func align(bytes int64) int64 { return (bytes + 63) &^ 63 }

func (k *kernel) operand(v, in *ssa.Value, before int, sum bool) operand {
	shape, _ := in.Type.Static()
	dt := v.Type.DType
	o := operand{is: true, before: max(before, 1), cut: before > 0, sum: sum, parts: 1, half: dt.IsHalf(), dt: in.Type.DType, shape: shape, count: ndarray.Product(shape), size: dt.Size(), widen: widen(dt), narrow: narrow(dt)}
	if o.cut {
		o.parts = k.parts
	}
	if o.half {
		o.at = k.scratch
		k.scratch += align(4 * int64(o.count))
	}
	if o.half && sum {
		o.behind = k.scratch
		k.scratch += align(4 * int64(o.count))
	}
	return o
}

// Choice is that of the kernel for a piece.
func (k *kernel) Choice() backend.Choice {
	c := backend.ChoiceOf(k.kernel)
	c.Algorithm += ", in float32, in pieces"
	return c
}

// call is a call of the kernel for a piece, with headers of its own.
type call struct {
	call    ops.Call
	in, out []ndarray.Value
	arrays  []ndarray.Array
	convert conversion
}

// Run computes all parts.
func (k *kernel) Run(c *ops.Call) error {
	r := k.calls.Get()
	defer k.release(r)
	r.call, r.arrays = *c, slices.Grow(r.arrays[:0], len(k.in)+len(k.out))
	r.in, r.out = append(r.in[:0], c.In...), append(r.out[:0], c.Out...)
	r.call.Node, r.call.Scratch = k.node, c.Scratch[:k.inner]
	for i := range k.in {
		switch o := &k.in[i]; {
		case o.constant != nil:
			r.in[i] = o.constant
		case o.is && o.half && !o.cut:
			r.in[i] = r.header(o, c.Scratch[o.at:])
			r.widen(c, o, c.In[i], 0)
		}
	}
	kept := len(r.arrays)
	for part := range k.parts {
		r.arrays = r.arrays[:kept]
		if err := k.part(c, r, part); err != nil {
			return err
		}
	}
	for i := range k.out {
		if o := &k.out[i]; o.is && o.sum && o.half {
			wide := floats(c.Scratch[o.at:], o.count)
			for j := range wide {
				wide[j] *= k.share
			}
			r.narrow(c, o, c.Out[i], 0)
		}
	}
	return nil
}

// part computes one.
func (k *kernel) part(c *ops.Call, r *call, part int) error {
	for i := range k.in {
		o := &k.in[i]
		if !o.is || !o.cut {
			continue
		}
		if !o.half {
			r.in[i] = r.header(o, c.In[i].(*ndarray.Array).Data[part*o.count*o.size:])
			continue
		}
		r.in[i] = r.header(o, c.Scratch[o.at:])
		r.widen(c, o, c.In[i], part)
	}
	for i := range k.out {
		o := &k.out[i]
		switch {
		case !o.is:
		case o.sum && part > 0:
			r.out[i] = r.header(o, c.Scratch[o.behind:])
		case o.half:
			r.out[i] = r.header(o, c.Scratch[o.at:])
		default:
			r.out[i] = r.header(o, c.Out[i].(*ndarray.Array).Data[part*o.count*o.size:])
		}
	}
	r.call.In, r.call.Out = r.in, r.out
	if err := k.kernel.Run(&r.call); err != nil {
		return err
	}
	for i := range k.out {
		o := &k.out[i]
		switch {
		case !o.is || !o.half:
		case !o.sum:
			r.narrow(c, o, c.Out[i], part)
		case part > 0:
			sum := floats(c.Scratch[o.at:], o.count)
			for j, v := range floats(c.Scratch[o.behind:], o.count) {
				sum[j] += v
			}
		}
	}
	return nil
}

func (k *kernel) release(r *call) {
	r.call = ops.Call{}
	clear(r.in)
	clear(r.out)
	clear(r.arrays[:cap(r.arrays)])
	r.convert = conversion{}
	k.calls.Put(r)
}

// header is an array of a part's elements in a place.
func (r *call) header(o *operand, data []byte) *ndarray.Array {
	r.arrays = append(r.arrays, ndarray.Array{DType: o.dt, Shape: o.shape, Data: data[:o.count*o.dt.Size()]})
	return &r.arrays[len(r.arrays)-1]
}

// floats are elements in the workspace.
func floats(data []byte, count int) []float32 {
	return ndarray.Slice[float32](&ndarray.Array{DType: ndarray.Float32, Data: data[:4*count]})
}

// conversion is one of the elements of a part: of each of its pieces of memory, some thousand at a time.
type conversion struct {
	half          []uint16
	wide          []float32
	length, steps int // of a piece of memory; how many tasks it is, if it is long
	rows          int // pieces of a task, if they are short
	before        int // pieces of memory
	parts, part   int
	widen         func([]float32, []uint16)
	narrow        func([]uint16, []float32)
}

// step is how many elements a task converts.
const step = 16 << 10

// Run converts some elements.
func (x *conversion) Run(i, _ int) {
	first, lo := i/x.steps*x.rows, i%x.steps*step
	hi := min(lo+step, x.length)
	for piece := first; piece < min(first+x.rows, x.before); piece++ {
		half, wide := x.half[(piece*x.parts+x.part)*x.length:][lo:hi], x.wide[piece*x.length:][lo:hi]
		if x.widen != nil {
			x.widen(wide, half)
		} else {
			x.narrow(half, wide)
		}
	}
}

func (r *call) widen(c *ops.Call, o *operand, from ndarray.Value, part int) {
	r.converts(c, o, from, part, conversion{widen: o.widen})
}

func (r *call) narrow(c *ops.Call, o *operand, to ndarray.Value, part int) {
	r.converts(c, o, to, part, conversion{narrow: o.narrow})
}

func (r *call) converts(c *ops.Call, o *operand, half ndarray.Value, part int, x conversion) {
	x.half, x.wide = ndarray.Slice[uint16](half.(*ndarray.Array)), floats(c.Scratch[o.at:], o.count)
	x.length, x.parts, x.part = o.count/o.before, o.parts, part
	x.before, x.steps, x.rows = o.before, (x.length+step-1)/step, max(1, step/max(x.length, 1))
	r.convert = x
	machine.Parallel((x.before+x.rows-1)/x.rows*x.steps, c.Threads, &r.convert)
}
