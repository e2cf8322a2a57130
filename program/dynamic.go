package program

import (
	"encoding/binary"
	"slices"
	"sync"

	"github.com/berth-onnx/berth/backend"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// Nodes whose shapes are known only while running. Most see the same few shapes again
// and again, so what the backend prepares for one is kept:
//
//	operand shapes, small integer operands ──▶ key ──┬─ kept: run it
//	                                                 └─ new: prepare, keep, run
//
// Kernels prepared so are those of static nodes; results and workspace are taken while
// running. What the backend does not claim runs the reference kernel.

// dynamicKernel serves a node whose shapes are known only while running: for
// each new set of operand shapes it asks the backend once and keeps the answer.
type dynamicKernel struct {
	node    *ssa.Node
	backend backend.Backend
	threads int
	// maxMemory is the limit of a run, as ops.Room takes it.
	maxMemory int64

	mu    sync.Mutex
	cache map[string]*specialized
}

// specialized is a node with the shapes of one run made static.
type specialized struct {
	prep backend.Prepared // a zero Kernel: the reference kernel serves
	outs []ssa.Type
}

const (
	maxSpecialized = 64 // shape sets kept per node
	maxKeyContent  = 64 // elements of small integer operands that are part of the key
)

// newDynamicKernel makes the kernel of a node of unknown shapes. Where all there is
// to prepare are attributes, one answer serves all shapes.
func newDynamicKernel(n *ssa.Node, b backend.Backend, threads int, maxMemory int64) ops.Kernel {
	if o := ops.Of(n); o != nil && o.Prepare != nil {
		if p, err := b.Prepare(n, threads); err == nil && p.Kernel != nil {
			return p.Kernel
		}
	}
	return &dynamicKernel{node: n, backend: b, threads: threads, maxMemory: maxMemory, cache: map[string]*specialized{}}
}

// Run picks the kernel for the operands' shapes and runs it.
func (k *dynamicKernel) Run(c *ops.Call) error {
	sp := k.lookup(c)
	if sp == nil || sp.prep.Kernel == nil {
		return ops.Eval(c)
	}
	for i, t := range sp.outs {
		if i < len(c.Out) && c.Out[i] == nil && k.node.Out[i] != nil {
			shape, _ := t.Static()
			if _, err := c.Output(i, t.DType, shape...); err != nil {
				return err
			}
		}
	}
	if n := int(sp.prep.Scratch); len(c.Scratch) < n {
		if err := ops.Room("workspace", sp.prep.Scratch, c.MaxMemory); err != nil {
			return err
		}
		c.Scratch = ndarray.AlignedBytes(n)
	}
	return sp.prep.Kernel.Run(c)
}

// lookup returns the specialization for the operands, nil if there can be none.
func (k *dynamicKernel) lookup(c *ops.Call) *specialized {
	key, ok := shapeKey(c.In)
	if !ok {
		return nil
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if sp, ok := k.cache[key]; ok {
		return sp
	}
	if len(k.cache) >= maxSpecialized {
		clear(k.cache)
	}
	sp := k.specialize(c.In)
	k.cache[key] = sp
	return sp
}

// shapeKey encodes operand types, shapes and the contents of small integers.
func shapeKey(in []ndarray.Value) (string, bool) {
	var b []byte
	for _, v := range in {
		if v == nil {
			b = append(b, 0xff)
			continue
		}
		a, ok := v.(*ndarray.Array)
		if !ok || a.DType == ndarray.String {
			return "", false
		}
		b = append(b, byte(a.DType), byte(len(a.Shape)))
		for _, d := range a.Shape {
			b = binary.AppendUvarint(b, uint64(d))
		}
		if isSmallInt(a) {
			b = append(b, a.Data...)
		}
	}
	return string(b), true
}

func isSmallInt(a *ndarray.Array) bool {
	return (a.DType == ndarray.Int64 || a.DType == ndarray.Int32) && a.Rank() <= 1 && a.Len() <= maxKeyContent
}

// fits reports that the results of a node with static types are not beyond the
// limit by themselves. What a backend prepares for a node can be as large as they
// are, so it is not asked for nodes that can not run anyway.
func fits(n *ssa.Node, limit int64) bool {
	if limit <= 0 {
		limit = ops.DefaultMaxMemory()
	}
	for _, v := range n.Out {
		if v == nil {
			continue
		}
		if b, ok := v.Type.ByteSize(); ok && int64(b) > limit {
			return false
		}
	}
	return true
}

// specialize makes a node with the run's shapes and asks the backend for it.
func (k *dynamicKernel) specialize(in []ndarray.Value) *specialized {
	g := ssa.NewGraph("specialized")
	var args []*ssa.Value
	for i, v := range in {
		a, _ := v.(*ndarray.Array)
		switch orig := k.node.Input(i); {
		case v == nil:
			args = append(args, nil)
		case orig != nil && orig.Const != nil:
			args = append(args, g.AddConst(orig.Name, orig.Const))
		case isSmallInt(a):
			p := g.AddParam(orig.Name, ssa.StaticTensor(a.DType, a.Shape...))
			for _, x := range a.Ints() {
				p.Content = append(p.Content, ssa.D(x))
			}
			args = append(args, p)
		default:
			args = append(args, g.AddParam(orig.Name, ssa.StaticTensor(a.DType, a.Shape...)))
		}
	}
	n := g.NewNode(k.node.Op, args, len(k.node.Out), slices.Clone(k.node.Attrs)...)
	n.Domain, n.Overload, n.Name = k.node.Domain, k.node.Overload, k.node.Name
	sp := &specialized{}
	if err := ops.Infer(n); err != nil || !n.IsStatic() {
		return sp
	}
	for _, o := range n.Out {
		sp.outs = append(sp.outs, o.Type)
	}
	for i, o := range k.node.Out {
		if o == nil {
			n.Out[i] = nil
		}
	}
	if !fits(n, k.maxMemory) {
		return sp // the reference kernel says so
	}
	if prep, err := k.backend.Prepare(n, k.threads); err == nil {
		sp.prep = prep
	}
	return sp
}
