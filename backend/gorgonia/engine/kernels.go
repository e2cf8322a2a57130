package engine

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"unsafe"

	"github.com/berth-onnx/berth/backend"
	"github.com/berth-onnx/berth/internal/cpu"
	"github.com/berth-onnx/berth/internal/rescue"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	_ "github.com/berth-onnx/berth/ops/standard" // the operators
	"github.com/berth-onnx/berth/ssa"
)

// An operation is a node of an ONNX graph on arrays. What the backend prepares for an operator, its attributes and the types
// of its operands is kept: an engine sees the same few again and again.

// errUnmade is the error of engines that are zero values.
var errUnmade = errors.New("the engine is a zero value: New and NewArena make engines")

// keptKernels is how many kernels an engine keeps; beyond that it begins anew.
const keptKernels = 4096

// kernels prepares and runs nodes.
type kernels struct {
	fast backend.Backend
	mu   sync.Mutex
	made map[string]*kernel
}

// kernel is a node ready to run.
type kernel struct {
	node     *ssa.Node
	prepared backend.Prepared
	inPlace  map[int]bool // operands whose bytes the result may have
}

func newKernels() *kernels { return &kernels{fast: cpu.New(), made: map[string]*kernel{}} }

// run computes an operator into an array, whose memory may overlap that of operands.
func (k *kernels) run(out *ndarray.Array, op string, attrs []ssa.Attr, in ...*ndarray.Array) (err error) {
	defer rescue.Into(&err)
	if k == nil {
		return errUnmade
	}
	kn, err := k.get(op, attrs, in)
	if err != nil {
		return err
	}
	want := kn.node.Out[0].Type
	if shape, _ := want.Static(); want.DType != out.DType || sizeOf(shape) != out.Len() {
		return fmt.Errorf("%s gives %s, the tensor for it is %s", op, want, out)
	}
	to := out
	for i, a := range in {
		x, y := bytesOf(a), bytesOf(out)
		if overlap(x, y) && !(kn.inPlace[i] && unsafe.SliceData(x) == unsafe.SliceData(y) && len(x) == len(y)) {
			to = out.Clone()
		}
	}
	if err := kn.run(to, in); err != nil {
		return err
	}
	if to != out {
		copy(out.Data, to.Data)
		copy(out.Str, to.Str)
	}
	return nil
}

// sizeOf is how many elements a shape has, which a node of known types says.
func sizeOf(shape []int) int {
	n, _ := ndarray.NumElems(shape)
	return n
}

// bytesOf is the memory of an array; of strings, that of their headers.
func bytesOf(a *ndarray.Array) []byte {
	if a.DType != ndarray.String {
		return a.Data
	}
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(a.Str))), len(a.Str)*int(unsafe.Sizeof("")))
}

func overlap(a, b []byte) bool {
	if len(a) == 0 || len(b) == 0 {
		return false
	}
	x, y := uintptr(unsafe.Pointer(&a[0])), uintptr(unsafe.Pointer(&b[0]))
	return x < y+uintptr(len(b)) && y < x+uintptr(len(a))
}

func (kn *kernel) run(out *ndarray.Array, in []*ndarray.Array) error {
	shape, _ := kn.node.Out[0].Type.Static()
	c := &ops.Call{Ctx: context.Background(), Node: kn.node, Threads: 1, Scratch: ndarray.AlignedBytes(int(kn.prepared.Scratch)),
		Out: []ndarray.Value{out.Reshaped(shape...)}}
	for _, a := range in {
		c.In = append(c.In, a)
	}
	if kn.prepared.Kernel == nil {
		return ops.Eval(c)
	}
	return kn.prepared.Kernel.Run(c)
}

// get returns the kernel for an operator on arrays of these types.
func (k *kernels) get(op string, attrs []ssa.Attr, in []*ndarray.Array) (*kernel, error) {
	key := append(make([]byte, 0, 128), op...)
	for i := range attrs {
		key = fmt.Appendf(key, " %s=%d,%b,%v", attrs[i].Name, attrs[i].I, attrs[i].F, attrs[i].Ints)
	}
	for _, a := range in {
		key = append(append(key, '|'), byte(a.DType))
		for _, n := range a.Shape {
			key = append(strconv.AppendInt(key, int64(n), 10), ',')
		}
		if isAxes(a) {
			key = append(key, a.Data...)
		}
	}
	k.mu.Lock()
	kn := k.made[string(key)]
	k.mu.Unlock()
	if kn != nil {
		return kn, nil
	}
	kn, err := k.prepare(op, attrs, in)
	if err != nil {
		return nil, err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.made) >= keptKernels {
		clear(k.made)
	}
	k.made[string(key)] = kn
	return kn, nil
}

// isAxes reports whether an operand is one whose contents decide the result's shape.
func isAxes(a *ndarray.Array) bool { return a.DType == ndarray.Int64 && a.Rank() == 1 && a.Len() <= 16 }

func (k *kernels) prepare(op string, attrs []ssa.Attr, in []*ndarray.Array) (*kernel, error) {
	g := ssa.NewGraph(op)
	var args []*ssa.Value
	for _, a := range in {
		p := g.AddParam("", ssa.StaticTensor(a.DType, a.Shape...))
		if isAxes(a) {
			for _, x := range a.Ints() {
				p.Content = append(p.Content, ssa.D(x))
			}
		}
		args = append(args, p)
	}
	n := g.NewNode(op, args, 1, attrs...)
	if err := ops.Infer(n); err != nil {
		return nil, err
	}
	if _, known := n.Out[0].Type.Static(); !known {
		return nil, fmt.Errorf("the shape of the result is not known: %w", ops.ErrUnsupported)
	}
	kn := &kernel{node: n, inPlace: map[int]bool{}}
	var err error
	if kn.prepared, err = k.fast.Prepare(context.Background(), n, 1); err != nil {
		return nil, err
	}
	for _, p := range ops.InPlacePairs(n) {
		kn.inPlace[p.In] = true
	}
	return kn, nil
}
