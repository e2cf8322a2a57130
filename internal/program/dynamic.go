package program

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/berth-onnx/berth/backend"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// Nodes whose shapes are known only while running. Most see the same few shapes again
// and again, so what the backend prepares for one is kept (kernels.go):
//
//	operand shapes, small integer operands ──▶ key ──┬─ kept: run it
//	                                                 └─ new: prepare, keep, run
//
// Such kernels are those of static nodes; results and workspace are allocated while
// running. Nodes that the backend does not claim run the reference kernel.
//
// A session remembers for every instruction the last key and what was prepared for it: in a
// loop or a stream the next key is mostly the same, and nothing is looked up.

// dynamicKernel serves a node whose shapes are known only while running: for
// each new set of operand shapes the backend is asked once for all nodes of its kind.
type dynamicKernel struct {
	node    *ssa.Node
	kernels *kernels
	kind    uint32
}

// lastKernel is what an instruction of a session ran last.
type lastKernel struct {
	key  []byte
	kind uint32
	p    *prepared
}

// maxKeyContent is the elements of small integer operands that are part of the key.
const maxKeyContent = 64

// newDynamicKernel makes the kernel of a node of unknown shapes. Where all there is
// to prepare are attributes, one answer serves all shapes.
func newDynamicKernel(ctx context.Context, n *ssa.Node, k *kernels) ops.Kernel {
	if o := ops.Of(n); o != nil && o.Prepare != nil {
		if p, err := k.backend.Prepare(ctx, n, k.threads); err == nil && p.Kernel != nil {
			return p.Kernel
		}
	}
	return &dynamicKernel{n, k, k.kind(ctx, n)}
}

// Choice says when the kernel is chosen.
func (k *dynamicKernel) Choice() backend.Choice {
	return backend.Choice{Algorithm: "chosen in the run", Reason: "sizes are known only then"}
}

// Run picks the kernel for the operands' shapes and runs it.
func (k *dynamicKernel) Run(c *ops.Call) error {
	return k.run(c, nil, &lastKernel{}, ops.Kernel.Run)
}

// run is Run with memory for results from a free list, the kernel that the instruction ran last, and what runs kernels.
func (k *dynamicKernel) run(c *ops.Call, free *recycler, last *lastKernel, on func(ops.Kernel, *ops.Call) error) error {
	p, err := k.lookup(c, last)
	if err != nil {
		return err
	}
	if p == nil || p.Kernel == nil {
		if err := k.constants(c, nil); err != nil {
			return err
		}
		return on(ops.KernelFunc(ops.Eval), c)
	}
	if err := k.constants(c, p.Absorbed); err != nil {
		return err
	}
	if err := k.results(c, p, free); err != nil {
		return err
	}
	if n := int(p.Scratch); len(c.Scratch) < n {
		if c.Scratch, err = newBytes("workspace", n, c.Memory); err != nil {
			return err
		}
	}
	c.Threads = p.threadsOf(k.kernels.threads)
	return on(p.Kernel, c)
}

// results makes room for the results that have none, and checks that the others are what was planned: kernels write
// as many elements as they were prepared for.
func (k *dynamicKernel) results(c *ops.Call, p *prepared, free *recycler) error {
	for i, t := range p.outs {
		if i >= len(c.Out) || k.node.Out[i] == nil {
			continue
		}
		if a, ok := c.Out[i].(*ndarray.Array); ok && a != nil {
			if a.DType != t.dt || !slices.Equal(a.Shape, t.shape) {
				return fmt.Errorf("result %d is %s%v, planned as %s", i, t.dt, t.shape, a)
			}
			continue
		}
		data, err := free.take(t.bytes, c.Memory)
		if err != nil {
			return fmt.Errorf("result %d of type %s%v: %w", i, t.dt, t.shape, err)
		}
		c.Out[i] = newHeader(t.dt, t.shape, data)
	}
	return nil
}

// header is an array header with room for its shape.
type header struct {
	ndarray.Array
	dims [6]int
}

// newHeader is the header of an array with a copy of a shape.
func newHeader(dt ndarray.DType, shape []int, data []byte) *ndarray.Array {
	h := &header{}
	h.DType, h.Data, h.Shape = dt, data, append(h.dims[:0:len(h.dims)], shape...)
	return &h.Array
}

// constants fills in the constant operands that the session left out, but for those
// that the kernel does not read.
func (k *dynamicKernel) constants(c *ops.Call, absorbed []int) error {
	for i, v := range k.node.In {
		if v == nil || v.Const == nil || c.In[i] != nil || slices.Contains(absorbed, i) {
			continue
		}
		a, err := v.Const.ArrayContext(c.Ctx, c.Memory)
		if err != nil {
			return err
		}
		c.In[i] = a
	}
	return nil
}

// lookup returns what is prepared for the operands, nil if there can be nothing.
func (k *dynamicKernel) lookup(c *ops.Call, last *lastKernel) (*prepared, error) {
	var room [256]byte
	key, ok := appendShapes(room[:0], c.In)
	if !ok {
		return nil, nil
	}
	if last.p != nil && last.kind == k.kind && bytes.Equal(last.key, key) {
		k.kernels.use(last.p)
		return last.p, nil
	}
	p, err := k.kernels.get(c.Ctx, string(binary.LittleEndian.AppendUint32(key, k.kind)), func(p *prepared) error { return k.specialize(c, p) })
	if err != nil {
		return nil, err
	}
	last.p, last.kind, last.key = p, k.kind, append(last.key[:0], key...)
	return p, nil
}

// appendShapes encodes operand types, shapes and the contents of small integers.
func appendShapes(key []byte, in []ndarray.Value) ([]byte, bool) {
	for _, v := range in {
		if v == nil {
			key = append(key, 0xff)
			continue
		}
		a, ok := v.(*ndarray.Array)
		if !ok || a.DType == ndarray.String {
			return nil, false
		}
		key = appendType(key, a.DType, a.Shape)
		if isSmallInt(a) {
			key = append(key, a.Data...)
		}
	}
	return key, true
}

func isSmallInt(a *ndarray.Array) bool {
	return (a.DType == ndarray.Int64 || a.DType == ndarray.Int32) && a.Rank() <= 1 && a.Len() <= maxKeyContent
}

// fits reports that the results of a node with static types are not beyond the
// limit by themselves. What a backend prepares for a node can be as large as they
// are, so it is not asked for nodes that can not run anyway.
func fits(n *ssa.Node, memory ndarray.Budget) bool {
	return !slices.ContainsFunc(n.Out, func(v *ssa.Value) bool {
		if v == nil {
			return false
		}
		b, ok := v.Type.ByteSize()
		return ok && int64(b) > memory.Bytes()
	})
}

// specialize makes a node with the run's shapes and asks the backend for it.
func (k *dynamicKernel) specialize(c *ops.Call, p *prepared) error {
	g := ssa.NewGraph("specialized")
	n := g.NewNode(k.node.Op, k.operands(g, c.In), len(k.node.Out), slices.Clone(k.node.Attrs)...)
	n.Domain, n.Overload, n.Name = k.node.Domain, k.node.Overload, k.node.Name
	if err := ops.InferContext(c.Ctx, n); err != nil || !n.IsStatic() {
		return nil
	}
	for i, o := range n.Out {
		shape, _ := o.Type.Static()
		size, err := ndarray.ByteSize(o.Type.DType, shape)
		if err != nil {
			return nil // the reference kernel says so
		}
		p.outs = append(p.outs, arrayType{o.Type.DType, shape, size})
		if k.node.Out[i] == nil {
			n.Out[i] = nil
		}
	}
	if !fits(n, k.kernels.memory) {
		return nil // the reference kernel says so
	}
	made, err := k.kernels.backend.Prepare(c.Memory.In(c.Ctx), n, k.kernels.threads)
	if err == nil {
		p.Prepared = made
	}
	return ended(c.Ctx, err)
}

// operands are values of the shapes of a run.
func (k *dynamicKernel) operands(g *ssa.Graph, in []ndarray.Value) []*ssa.Value {
	var args []*ssa.Value
	for i, v := range in {
		a, _ := v.(*ndarray.Array)
		switch orig := k.node.Input(i); {
		case orig != nil && orig.Const != nil:
			args = append(args, g.AddConst(orig.Name, orig.Const))
		case v == nil:
			args = append(args, nil)
		case isSmallInt(a):
			p := g.AddParam(orig.Name, ssa.StaticTensor(a.DType, a.Shape...))
			for _, x := range a.Ints() {
				p.Content = append(p.Content, ssa.D(x))
			}
			args = append(args, p)
		default:
			t := ssa.StaticTensor(a.DType, a.Shape...)
			t.Channels = orig.Type.Channels
			args = append(args, g.AddParam(orig.Name, t))
		}
	}
	return args
}
