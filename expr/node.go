package expr

import (
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/berth-onnx/berth/internal/ops/window"
	"github.com/berth-onnx/berth/internal/tile"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// Expressions are graphs of nodes without element types, which is what everything behind the generic
// face of the package works on. A node never changes; what is wrong with one is noted in it, and in
// those that read it, until an assignment reports it.

// kind says what a node is.
type kind uint8

const (
	leaf    kind = iota // memory
	number              // a constant
	applied             // an operator
	looked              // a view of another node
	end                 // a value of a model that is extended
)

// node is one value of an expression.
type node struct {
	kind  kind
	dt    ndarray.DType
	shape []int
	in    []*node // of an operator: nil for an absent operand
	err   error
	depth int // how many nodes are on the longest way to an operand

	op    *operator      // of an operator
	view  *view          // of a view
	place *place         // of memory
	value *ndarray.Array // of a constant

	bound atomic.Pointer[bound] // what the last assignment of the node was compiled to
}

// operator is an ONNX operator with its attributes, or a function of the user's.
type operator struct {
	name  string
	attrs []ssa.Attr
	fn    *tile.Func
	text  string // of the attributes: with the name, all that tells operators apart
	each  bool   // computes one element from the elements at its place
}

// place is memory of a tensor: the bytes from its lowest element to its highest.
type place struct {
	array  ndarray.Array  // as a program reads it: of the tensor's shape, or of one dimension if there is a window
	window *window.Window // where the elements lie in the array; nil if they fill it in row-major order
}

// strides are the distances between elements.
func (p *place) strides(shape []int) (strides []int, first int) {
	if p.window != nil {
		return p.window.Strides, p.window.First
	}
	return ops.Strides(shape), 0
}

// failed is a node that reports an error.
func failed(err error) *node { return &node{err: err} }

// maxDepth is how deep expressions are: walks over them call themselves.
const maxDepth = 100_000

// above is the depth of a node over others, and their first error.
func above(in ...*node) (depth int, err error) {
	for _, n := range in {
		switch {
		case n == nil:
		case n.err != nil:
			return 0, n.err
		default:
			depth = max(depth, n.depth+1)
		}
	}
	if depth > maxDepth {
		err = errTooDeep
	}
	return depth, err
}

// each makes a node of an elementwise operator, whose operands broadcast.
func each(name string, dt ndarray.DType, attrs []ssa.Attr, in ...*node) *node {
	depth, err := above(in...)
	if err != nil {
		return failed(err)
	}
	n := &node{kind: applied, dt: dt, in: in, depth: depth, op: &operator{name: name, attrs: attrs, text: attrText(attrs), each: true}}
	n.shape = in[0].shape
	for _, x := range in[1:] {
		if x == nil || len(x.shape) == 0 || slices.Equal(x.shape, n.shape) {
			continue
		}
		shape, err := ops.BroadcastShapes(n.shape, x.shape)
		if err != nil {
			return failed(&ShapeError{name, shapesOf(in), "they do not broadcast"})
		}
		n.shape = shape
	}
	return n
}

// attrText writes attributes so that different ones differ.
func attrText(attrs []ssa.Attr) string {
	if len(attrs) == 0 {
		return ""
	}
	var b []byte
	for _, a := range attrs {
		b = fmt.Appendf(b, "%q%d:%d %b %q %v %b;", a.Name, a.Kind, a.I, a.F, a.S, a.Ints, a.Floats)
	}
	return string(b)
}

func shapesOf(in []*node) [][]int {
	var out [][]int
	for _, x := range in {
		if x != nil {
			out = append(out, x.shape)
		}
	}
	return out
}

// general makes a node of any operator, whose result has the type that the operator's rule says.
func general(name string, dt ndarray.DType, attrs []ssa.Attr, in ...*node) *node {
	depth, err := above(in...)
	if err != nil {
		return failed(err)
	}
	n := &node{kind: applied, dt: dt, in: in, depth: depth, op: &operator{name: name, attrs: attrs, text: attrText(attrs)}}
	t, err := n.inferred()
	if err != nil {
		return failed(&TypeError{name, "", err})
	}
	shape, ok := t.Static()
	if !ok {
		return failed(&ShapeError{name, shapesOf(in), "the shape of the result depends on elements"})
	}
	if t.DType != dt {
		return failed(&TypeError{name, fmt.Sprintf("the result is of %s, not of %s", t.DType, dt), nil})
	}
	n.shape = shape
	return n
}

// inferred is the type of an operator's first result.
func (n *node) inferred() (ssa.Type, error) {
	o := ops.Lookup("", n.op.name)
	if o == nil {
		return ssa.Type{}, fmt.Errorf("there is no operator %q; user's operators are made known by Register", n.op.name)
	}
	g := ssa.NewGraph("")
	var in []*ssa.Value
	for i, x := range n.in {
		switch {
		case x == nil:
			in = append(in, nil)
		case x.kind == number:
			in = append(in, g.AddConst(fmt.Sprint("c", i), ssa.NewConstant(x.value)))
		default:
			in = append(in, g.AddParam(fmt.Sprint("a", i), ssa.StaticTensor(x.dt, x.shape...)))
		}
	}
	m := g.NewNode(n.op.name, in, max(o.MinOut, 1), n.op.attrs...)
	if err := ops.Infer(m); err != nil {
		return ssa.Type{}, err
	}
	return m.Out[0].Type, nil
}

// constant is a node of a constant array.
func constant(a *ndarray.Array) *node {
	return &node{kind: number, dt: a.DType, shape: a.Shape, value: a}
}

// ints is a constant list of integers.
func ints(v ...int) *node {
	a := ndarray.Must(ndarray.Int64, len(v))
	for i, x := range v {
		a.SetInt(i, int64(x))
	}
	return constant(a)
}
