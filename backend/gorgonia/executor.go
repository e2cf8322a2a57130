package gorgonia

import (
	"context"
	"fmt"
	"slices"
	"sync"

	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"github.com/berth-onnx/berth/backend"
	"github.com/berth-onnx/berth/backend/gorgonia/internal/dense"
	"github.com/berth-onnx/berth/internal/rescue"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// The executor. A program's instruction calls the kernel of its node with operands and results at their planned offsets.
// Here the kernel makes each of them a *tensor.Dense over those bytes, and hands them to a gorgonia.Op:
//
//	arena   ░░░░▓▓▓▓▓▓▒▒▒▒▒▒░░░░
//	            x     y             tensor.New(WithBacking(arena[x:…]))
//	            └──┬──┘
//	  op.UsePreallocDo(y, x)        stock kernel where it is right, berth's elsewhere
//
// A frame keeps the tensors from run to run, and points them at the memory of the call: their types and shapes are the node's.
// Between runs they show none, so that a kernel keeps neither a session's arena nor a caller's inputs and buffers.

// Name is the name of the backend, for berth.WithBackend and --backend.
const Name = "gorgonia"

func init() { backend.Register(Name, New) }

// New makes the backend that runs every node as a gorgonia.Op over tensors in the planned arena: kernels of
// gorgonia.org/tensor where [Kernels] says that they are right, the given backend's kernels elsewhere, and the reference
// kernels where it has none. Nodes with operands that are no tensors are left to the given backend. Importing this package
// registers it under the name "gorgonia".
func New(fast backend.Backend) backend.Backend {
	if fast == nil {
		fast = backend.Reference{}
	}
	return &executor{fast}
}

type executor struct{ fast backend.Backend }

// Name returns "gorgonia".
func (e *executor) Name() string { return Name }

// Prepare wraps the kernel of a node of known types.
func (e *executor) Prepare(ctx context.Context, n *ssa.Node, threads int) (_ backend.Prepared, err error) {
	defer rescue.Into(&err)
	if n == nil {
		return backend.Prepared{}, fmt.Errorf("no node is given: %w", ops.ErrUnsupported)
	}
	p, err := e.fast.Prepare(ctx, n, threads)
	if err != nil || !n.IsStatic() || len(n.Bodies) > 0 || n.Opaque || !onTensors(n) {
		return p, err
	}
	if p.Kernel == nil {
		p.Kernel = ops.KernelFunc(ops.Eval)
	}
	p.Kernel = &opKernel{op: nodeOp{node: n, kernel: p.Kernel, scratch: p.Scratch}, stock: stockFor(n)}
	return p, nil
}

// onTensors reports whether all operands and results are tensors with a place in the arena, which strings have not.
func onTensors(n *ssa.Node) bool {
	return !slices.ContainsFunc(slices.Concat(n.In, n.Out), func(v *ssa.Value) bool {
		return v != nil && (v.Type.Kind != ssa.KindTensor || v.Type.DType == ndarray.String || dense.GoType(v.Type.DType) == nil)
	})
}

// opKernel runs an op as a kernel. It is shared by sessions, which run at the same time.
type opKernel struct {
	op     nodeOp
	stock  *Kernel
	frames sync.Pool // *frame
}

// frame holds what one call needs, so that the next one allocates nothing.
type frame struct {
	op      nodeOp
	do      G.UsePreallocDoer // the op, or its stock kernel
	windows []window          // of operands, then of results
	in      []G.Value         // operands, and results but the first
	arrays  []ndarray.Value   // what the kernel is given: those of the windows
}

// window is a tensor over an array's bytes.
type window struct {
	of    ndarray.Array
	d     *tensor.Dense
	shown bool // in this call
}

// Run makes the tensors and calls the op; the kernel itself, if a result has no memory before it.
func (k *opKernel) Run(c *ops.Call) (err error) {
	defer rescue.Into(&err)
	for i := range k.op.node.Out {
		if c.Wants(i) && (i >= len(c.Out) || c.Out[i] == nil) {
			return k.op.kernel.Run(c)
		}
	}
	f := k.frame()
	defer k.frames.Put(f)
	defer f.release()
	f.op.call = *c
	return f.run(c)
}

// Choice names the stock kernel, or what berth's kernel chose.
func (k *opKernel) Choice() backend.Choice {
	if k.stock != nil {
		return backend.Choice{Algorithm: k.stock.Stock}
	}
	return backend.Choice{Algorithm: "berth", Reason: backend.ChoiceOf(k.op.kernel).String()}
}

// frame takes a frame that no call uses.
func (k *opKernel) frame() *frame {
	if f, ok := k.frames.Get().(*frame); ok {
		return f
	}
	operands, results := len(k.op.node.In), len(k.op.node.Out)
	f := &frame{op: k.op, windows: make([]window, operands+results), in: make([]G.Value, operands+results-1), arrays: make([]ndarray.Value, operands+results)}
	f.op.frame, f.do = f, &f.op
	if k.stock != nil {
		f.do = &stockOp{nodeOp: &f.op, stock: k.stock}
	}
	return f
}

// run points the windows at the call's values.
func (f *frame) run(c *ops.Call) error {
	operands := len(f.op.node.In)
	var to G.Value
	for i := range f.windows {
		v, err := f.set(i, valueAt(c, i, operands))
		switch {
		case err != nil:
			return err
		case i < operands:
			f.in[i] = v
		case i == operands:
			to = v
		default:
			f.in[i-1] = v
		}
	}
	_, err := f.do.UsePreallocDo(to, f.in...)
	return err
}

// valueAt is operand i, or a result behind the operands.
func valueAt(c *ops.Call, i, operands int) *ndarray.Array {
	from := c.In
	if i >= operands {
		from, i = c.Out, i-operands
	}
	if i >= len(from) {
		return nil
	}
	a, _ := from[i].(*ndarray.Array)
	return a
}

// release lets go of the memory of a call.
func (f *frame) release() {
	f.op.call = ops.Call{}
	for i := range f.windows {
		w := &f.windows[i]
		w.shown, w.of.Data = false, nil
		if w.d != nil {
			w.d.Raw = nil
		}
	}
}

// set makes window i show an array.
func (f *frame) set(i int, a *ndarray.Array) (G.Value, error) {
	if a == nil {
		return nil, nil
	}
	w := &f.windows[i]
	w.shown = true
	if n := a.Len() * a.DType.Size(); w.fits(a) && n <= len(a.Data) {
		w.of.Data, w.d.Raw = a.Data, a.Data[:n:n]
		return w.d, nil
	}
	d, err := DenseOf(a)
	if err != nil {
		return nil, err
	}
	w.of, w.d = *a, d
	w.of.Shape = slices.Clone(a.Shape)
	return d, nil
}

// fits reports whether the tensor, once pointed at an array's bytes, shows it. Bytes that are not aligned it can not show.
func (w *window) fits(a *ndarray.Array) bool {
	return w.d != nil && w.of.DType == a.DType && slices.Equal(w.of.Shape, a.Shape) && a.Aligned()
}

// array is the array that a tensor is the window of; nil if it is none of the frame's. A nil frame has none.
func (f *frame) array(i int, d *tensor.Dense) *ndarray.Array {
	if f == nil || !f.windows[i].shown || f.windows[i].d != d {
		return nil
	}
	return &f.windows[i].of
}
