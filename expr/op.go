package expr

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"unicode"
	"unsafe"

	_ "github.com/berth-onnx/berth/internal/ops/call" // what functions of Go are in graphs
	"github.com/berth-onnx/berth/internal/rescue"
	"github.com/berth-onnx/berth/internal/tile"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// Operators that maps.go does not have: those of several element types, with absent operands, or that
// read more than one element for one. Axes count from the back where they are negative.

// variadic is an operator of any number of operands, one at least.
func variadic[T Elem](name string, x []Value[T]) Expr[T] {
	if len(x) == 0 {
		return Expr[T]{failed(&TypeError{name, "there is no operand", nil})}
	}
	in := make([]*node, len(x))
	for i, v := range x {
		in[i] = nodeOf(v)
	}
	return Expr[T]{each(name, dtypeOf[T](), nil, in...)}
}

// Cast is Cast of ONNX: elements of one type as those of another. Floats are cut off on their way to an integer.
func Cast[U, T Elem](x Value[T]) Expr[U] {
	return Expr[U]{each("Cast", dtypeOf[U](), []ssa.Attr{ssa.IntAttr("to", int64(dtypeOf[U]()))}, nodeOf(x))}
}

// BitCast is BitCast of ONNX: the bits of elements as those of another type of the same width.
func BitCast[U, T Elem](x Value[T]) Expr[U] {
	return Expr[U]{each("BitCast", dtypeOf[U](), []ssa.Attr{ssa.IntAttr("to", int64(dtypeOf[U]()))}, nodeOf(x))}
}

// Clip is Clip of ONNX: min(high, max(low, x)). Bounds are scalars; nil is none.
func Clip[T Elem](x, low, high Value[T]) Expr[T] {
	n := []*node{nodeOf(x), optional(low), optional(high)}
	for _, bound := range n[1:] {
		if bound != nil && bound.err == nil && len(bound.shape) > 0 {
			return Expr[T]{failed(&ShapeError{"Clip", shapesOf(n), "bounds are scalars"})}
		}
	}
	return Expr[T]{each("Clip", dtypeOf[T](), nil, n...)}
}

// Where is Where of ONNX: x where the condition holds, else y. Operands broadcast.
func Where[T Elem](condition Value[bool], x, y Value[T]) Expr[T] {
	return Expr[T]{each("Where", dtypeOf[T](), nil, nodeOf(condition), nodeOf(x), nodeOf(y))}
}

// Reshape is the elements in row-major order with another shape, of which one dimension may be -1.
func Reshape[T Elem](x Value[T], shape ...int) Expr[T] {
	return Expr[T]{general("Reshape", dtypeOf[T](), nil, nodeOf(x), ints(shape...))}
}

// Concat is Concat of ONNX: values one behind the other along an axis.
func Concat[T Elem](axis int, x ...Value[T]) Expr[T] {
	in := make([]*node, len(x))
	for i, v := range x {
		in[i] = nodeOf(v)
	}
	return Expr[T]{general("Concat", dtypeOf[T](), []ssa.Attr{ssa.IntAttr("axis", int64(axis))}, in...)}
}

// Gather is Gather of ONNX: the slices of x along an axis that the indices say; negative indices count from the back.
// An index outside of the axis is an error of the assignment.
func Gather[T Elem, I int32 | int64](x Value[T], indices Value[I], axis int) Expr[T] {
	return Expr[T]{general("Gather", dtypeOf[T](), []ssa.Attr{ssa.IntAttr("axis", int64(axis))}, nodeOf(x), nodeOf(indices))}
}

// GatherElements is GatherElements of ONNX: an element of x for each index, which replaces that along the axis.
func GatherElements[T Elem, I int32 | int64](x Value[T], indices Value[I], axis int) Expr[T] {
	return Expr[T]{general("GatherElements", dtypeOf[T](), []ssa.Attr{ssa.IntAttr("axis", int64(axis))}, nodeOf(x), nodeOf(indices))}
}

// reduced is a reduction over axes, all if there are none; dimensions stay as 1 if keep.
func reduced[T Elem](name string, x Value[T], keep bool, axes []int) Expr[T] {
	in := []*node{nodeOf(x)}
	if len(axes) > 0 {
		in = append(in, ints(axes...))
	}
	return Expr[T]{general(name, dtypeOf[T](), []ssa.Attr{ssa.IntAttr("keepdims", flag(keep))}, in...)}
}

func flag(v bool) int64 {
	if v {
		return 1
	}
	return 0
}

// ReduceSum is the sum over axes, or all of them if none are given; reduced dimensions stay, as 1, if keep is set.
func ReduceSum[T Elem](x Value[T], keep bool, axes ...int) Expr[T] {
	return reduced("ReduceSum", x, keep, axes)
}

// ReduceMean is the mean, with axes as of [ReduceSum].
func ReduceMean[T Elem](x Value[T], keep bool, axes ...int) Expr[T] {
	return reduced("ReduceMean", x, keep, axes)
}

// ReduceMax is the largest element, with axes as of [ReduceSum].
func ReduceMax[T Elem](x Value[T], keep bool, axes ...int) Expr[T] {
	return reduced("ReduceMax", x, keep, axes)
}

// ReduceMin is the smallest element, with axes as of [ReduceSum].
func ReduceMin[T Elem](x Value[T], keep bool, axes ...int) Expr[T] {
	return reduced("ReduceMin", x, keep, axes)
}

// ReduceProd is the product, with axes as of [ReduceSum].
func ReduceProd[T Elem](x Value[T], keep bool, axes ...int) Expr[T] {
	return reduced("ReduceProd", x, keep, axes)
}

// ReduceL1 is the sum of magnitudes, with axes as of [ReduceSum].
func ReduceL1[T Elem](x Value[T], keep bool, axes ...int) Expr[T] {
	return reduced("ReduceL1", x, keep, axes)
}

// ReduceL2 is the root of the sum of squares, with axes as of [ReduceSum].
func ReduceL2[T Elem](x Value[T], keep bool, axes ...int) Expr[T] {
	return reduced("ReduceL2", x, keep, axes)
}

// ReduceSumSquare is the sum of squares, with axes as of [ReduceSum].
func ReduceSumSquare[T Elem](x Value[T], keep bool, axes ...int) Expr[T] {
	return reduced("ReduceSumSquare", x, keep, axes)
}

// ReduceLogSum is the logarithm of the sum, with axes as of [ReduceSum].
func ReduceLogSum[T Elem](x Value[T], keep bool, axes ...int) Expr[T] {
	return reduced("ReduceLogSum", x, keep, axes)
}

// ReduceLogSumExp is the logarithm of the sum of exponentials, with axes as of [ReduceSum].
func ReduceLogSumExp[T Elem](x Value[T], keep bool, axes ...int) Expr[T] {
	return reduced("ReduceLogSumExp", x, keep, axes)
}

// ArgMax is the index of the first largest element along an axis, which stays as 1 if keep is set.
func ArgMax[T Elem](x Value[T], axis int, keep bool) Expr[int64] {
	return Expr[int64]{general("ArgMax", ndarray.Int64, []ssa.Attr{ssa.IntAttr("axis", int64(axis)), ssa.IntAttr("keepdims", flag(keep))}, nodeOf(x))}
}

// ArgMin is the index of the first smallest element along an axis, which stays as 1 if keep is set.
func ArgMin[T Elem](x Value[T], axis int, keep bool) Expr[int64] {
	return Expr[int64]{general("ArgMin", ndarray.Int64, []ssa.Attr{ssa.IntAttr("axis", int64(axis)), ssa.IntAttr("keepdims", flag(keep))}, nodeOf(x))}
}

// Softmax is Softmax of ONNX along an axis.
func Softmax[T Elem](x Value[T], axis int) Expr[T] {
	return Expr[T]{general("Softmax", dtypeOf[T](), []ssa.Attr{ssa.IntAttr("axis", int64(axis))}, nodeOf(x))}
}

// LogSoftmax is LogSoftmax of ONNX along an axis.
func LogSoftmax[T Elem](x Value[T], axis int) Expr[T] {
	return Expr[T]{general("LogSoftmax", dtypeOf[T](), []ssa.Attr{ssa.IntAttr("axis", int64(axis))}, nodeOf(x))}
}

// LayerNormalization is LayerNormalization of ONNX over the dimensions from axis on; bias may be nil.
func LayerNormalization[T Elem](x, scale, bias Value[T], axis int, epsilon float32) Expr[T] {
	attrs := []ssa.Attr{ssa.IntAttr("axis", int64(axis)), ssa.FloatAttr("epsilon", epsilon)}
	return Expr[T]{general("LayerNormalization", dtypeOf[T](), attrs, nodeOf(x), nodeOf(scale), optional(bias))}
}

// CumSum is CumSum of ONNX: running sums along an axis.
func CumSum[T Elem](x Value[T], axis int) Expr[T] {
	return Expr[T]{general("CumSum", dtypeOf[T](), nil, nodeOf(x), constant(ndarray.Scalar(int64(axis))))}
}

// MatMul is the product of matrices, or of stacks of them, which broadcast. Operands that are RValues, or
// windows that do not lie in row-major order, are written out first.
func MatMul[T Elem](x, y Value[T]) Expr[T] {
	return Expr[T]{general("MatMul", dtypeOf[T](), nil, nodeOf(x), nodeOf(y))}
}

// Dot is [MatMul].
func Dot[T Elem](x, y Value[T]) Expr[T] { return MatMul(x, y) }

// ConvOptions are attributes of a convolution, as of ONNX; nil are ones, and zeros for Pads.
type ConvOptions struct {
	Strides, Pads, Dilations []int
	Group                    int // 0 is 1
}

// Conv is Conv of ONNX: images x [N C H W …], filters w [M C/Group kH kW …], and one number for each of M, or nil.
func Conv[T Elem](x, w, bias Value[T], o ConvOptions) Expr[T] {
	var attrs []ssa.Attr
	for _, a := range []struct {
		name string
		v    []int
	}{{"strides", o.Strides}, {"pads", o.Pads}, {"dilations", o.Dilations}} {
		if a.v != nil {
			list := make([]int64, len(a.v))
			for i, n := range a.v {
				list[i] = int64(n)
			}
			attrs = append(attrs, ssa.IntsAttr(a.name, list...))
		}
	}
	attrs = append(attrs, ssa.IntAttr("group", int64(max(o.Group, 1))))
	return Expr[T]{general("Conv", dtypeOf[T](), attrs, nodeOf(x), nodeOf(w), optional(bias))}
}

// Func is a function of one element, made by [NewFunc].
type Func[T, U Elem] struct{ f *tile.Func }

var funcs struct {
	sync.Mutex
	names map[string]bool
}

// NewFunc makes a Go function one that expressions map over elements, in blocks, and inside of kernels. It must give the
// same result for the same element whenever and on whatever thread it is called. The name tells
// functions apart, and stands in errors; a name that is taken is an error.
func NewFunc[T, U Elem](name string, f func(T) U) (Func[T, U], error) {
	in, out := dtypeOf[T](), dtypeOf[U]()
	if strings.ContainsFunc(name, unicode.IsControl) || f == nil || !tile.Supports(in) || !tile.Supports(out) {
		return Func[T, U]{}, &TypeError{"NewFunc", fmt.Sprintf("%q is nil, has a name of control characters, or types that are not computed with", name), nil}
	}
	funcs.Lock()
	defer funcs.Unlock()
	if funcs.names[name] {
		return Func[T, U]{}, &TypeError{"NewFunc", fmt.Sprintf("there is a function %q already", name), nil}
	}
	if funcs.names == nil {
		funcs.names = map[string]bool{}
	}
	funcs.names[name] = true
	of := fmt.Sprintf("the function %q", name)
	return Func[T, U]{&tile.Func{Name: name, In: in, Out: out, Run: func(dst, src []byte) {
		y, x := elements[U](dst), elements[T](src)
		rescue.Call(of, func() {
			for i, v := range x {
				y[i] = f(v)
			}
		})
	}}}, nil
}

func elements[T Elem](b []byte) []T {
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(b))), len(b)/int(unsafe.Sizeof(*new(T))))
}

// Map computes a function for each element.
func Map[T, U Elem](f Func[T, U], x Value[T]) Expr[U] {
	if f.f == nil {
		return Expr[U]{failed(&TypeError{"Map", "the function is not made by NewFunc", nil})}
	}
	n := each(f.f.Name, dtypeOf[U](), nil, nodeOf(x))
	if n.err == nil {
		n.op.fn, n.op.text = f.f, "function"
	}
	return Expr[U]{n}
}

// built is how a registered operator is built, by name and element type.
var built struct {
	sync.RWMutex
	by map[string]any
}

// Register makes a composition an operator of an element type: [Apply] builds it by its name. A name is registered
// once for each type, and no name of ONNX's.
func Register[T Elem](name string, build func(x ...Expr[T]) Expr[T]) error {
	key := name + "|" + dtypeOf[T]().String()
	built.Lock()
	defer built.Unlock()
	if build == nil || ops.Lookup("", name) != nil || built.by[key] != nil {
		return &TypeError{"Register", fmt.Sprintf("%q is an operator already, or has no function that builds it", name), nil}
	}
	if built.by == nil {
		built.by = map[string]any{}
	}
	built.by[key] = build
	return nil
}

// Apply is an operator by its name: one made known by [Register], or one of ONNX that takes and gives tensors of one type, with
// default attributes.
func Apply[T Elem](name string, x ...Value[T]) Expr[T] {
	built.RLock()
	build, _ := built.by[name+"|"+dtypeOf[T]().String()].(func(x ...Expr[T]) Expr[T])
	built.RUnlock()
	in := make([]*node, len(x))
	for i, v := range x {
		in[i] = nodeOf(v)
	}
	if build == nil {
		if err := otherTypes(name, dtypeOf[T]()); err != nil {
			return Expr[T]{failed(err)}
		}
		if o := ops.Lookup("", name); o != nil && o.Facts.Access == ops.Elementwise && len(in) > 0 && !slices.Contains(in, nil) {
			return Expr[T]{each(name, dtypeOf[T](), nil, in...)}
		}
		return Expr[T]{general(name, dtypeOf[T](), nil, in...)}
	}
	if _, err := above(in...); err != nil {
		return Expr[T]{failed(err)}
	}
	args := make([]Expr[T], len(x))
	for i, n := range in {
		args[i] = Expr[T]{n}
	}
	return called(name, build, args)
}

// otherTypes is the error of an operator that was registered for other element types alone.
func otherTypes(name string, dt ndarray.DType) error {
	built.RLock()
	defer built.RUnlock()
	var others []string
	for key := range built.by {
		if other, is := strings.CutPrefix(key, name+"|"); is && !strings.Contains(other, "|") {
			others = append(others, other)
		}
	}
	if len(others) == 0 {
		return nil
	}
	slices.Sort(others)
	return &TypeError{name, fmt.Sprintf("it is registered for %s, not for %s", strings.Join(others, ", "), dt), nil}
}
