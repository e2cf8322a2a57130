package engine

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"sync"
	"unsafe"

	"github.com/berth-onnx/berth/backend"
	"github.com/berth-onnx/berth/backend/gorgonia/internal/dense"
	"github.com/berth-onnx/berth/internal/cpu"
	"github.com/berth-onnx/berth/internal/rescue"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	_ "github.com/berth-onnx/berth/ops/standard" // the operators
	"github.com/berth-onnx/berth/ssa"
)

// An operation is a node of an ONNX graph on arrays. What the backend prepares for an operator, its attributes and the types
// of its operands is kept: an engine sees the same few again and again.

// errUnmade is the error of engines that are nil or zero values.
var errUnmade = errors.New("the engine is nil or a zero value; New and NewArena make engines")

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
	mayFail  bool         // on what operands hold, after results are written
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
	if kn.mayFail {
		return elsewhere(out, func(to *ndarray.Array) error { return kn.run(to, in) })
	}
	for i, a := range in {
		if !isApart(out, a, kn.inPlace[i]) {
			return elsewhere(out, func(to *ndarray.Array) error { return kn.run(to, in) })
		}
	}
	return kn.run(out, in)
}

// isApart reports whether a result can be written while an operand is read: they have no bytes in common, or the very same
// ones where that is allowed.
func isApart(out, in *ndarray.Array, inPlace bool) bool {
	x, y := bytesOf(in), bytesOf(out)
	return !dense.Overlap(x, y) || inPlace && unsafe.SliceData(x) == unsafe.SliceData(y) && len(x) == len(y)
}

// elsewhere computes a result in memory of its own, and copies it if there is no error.
func elsewhere(out *ndarray.Array, f computing) error {
	to, err := newArray(out.DType, out.Shape)
	if err != nil {
		return err
	}
	if err := f(to); err != nil {
		return err
	}
	copyElements(out, to)
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

func (kn *kernel) run(out *ndarray.Array, in []*ndarray.Array) error {
	shape, _ := kn.node.Out[0].Type.Static()
	if err := ndarray.Budget(0).Ask("a workspace", kn.prepared.Scratch); err != nil {
		return err
	}
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
	key, err := keyOf(op, attrs, in)
	if err != nil {
		return nil, err
	}
	k.mu.Lock()
	kn := k.made[string(key)]
	k.mu.Unlock()
	if kn != nil {
		return kn, nil
	}
	kn, err = k.prepare(op, attrs, in)
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

// keyOf is what a kernel depends on: the operator; the attributes, of which it knows integers, floats, strings and lists of
// integers, and refuses others; and of each operand, behind a 0, the element type, the number of dimensions and their sizes, and
// the elements where they decide the result's shape. Names of operators and attributes have neither spaces nor zeros, texts are
// quoted, and numbers of 64 bits have as many bytes as they say, so that no two calls have the same key.
func keyOf(op string, attrs []ssa.Attr, in []*ndarray.Array) ([]byte, error) {
	key := append(make([]byte, 0, 128), op...)
	for i := range attrs {
		switch a := &attrs[i]; a.Kind {
		case ssa.AttrInt, ssa.AttrFloat, ssa.AttrString, ssa.AttrInts:
			key = fmt.Appendf(key, " %s=%d,%d,%b,%q,%v", a.Name, a.Kind, a.I, a.F, a.S, a.Ints)
		default:
			return nil, fmt.Errorf("attribute %s of %s is of a kind by which kernels are not told apart: %w", a.Name, op, ops.ErrUnsupported)
		}
	}
	for i, a := range in {
		key = binary.AppendUvarint(append(key, 0, byte(a.DType)), uint64(len(a.Shape)))
		for _, n := range a.Shape {
			key = binary.AppendUvarint(key, uint64(n))
		}
		if isAxes(op, i) {
			key = append(key, a.Data...)
		}
	}
	return key, nil
}

// isAxes reports whether the contents of an operand decide the result's shape.
func isAxes(op string, operand int) bool { return operand == 1 && strings.HasPrefix(op, "Reduce") }

func (k *kernels) prepare(op string, attrs []ssa.Attr, in []*ndarray.Array) (*kernel, error) {
	g := ssa.NewGraph(op)
	var args []*ssa.Value
	for i, a := range in {
		p := g.AddParam("", ssa.StaticTensor(a.DType, a.Shape...))
		if isAxes(op, i) {
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
	kn := &kernel{node: n, inPlace: map[int]bool{}, mayFail: failsOnElements(n)}
	var err error
	if kn.prepared, err = k.fast.Prepare(context.Background(), n, 1); err != nil {
		return nil, err
	}
	for _, p := range ops.InPlacePairs(n) {
		kn.inPlace[p.In] = true
	}
	return kn, nil
}

// failsOnElements reports operators that end with an error in the midst of a result: an index beyond an axis, an integer divided
// by 0.
func failsOnElements(n *ssa.Node) bool {
	switch n.Op {
	case "Gather", "ScatterElements":
		return true
	case "Div", "Mod", "Pow":
		return !n.Out[0].Type.DType.IsFloat()
	}
	return false
}
