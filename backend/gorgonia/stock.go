package gorgonia

import (
	"fmt"
	"slices"

	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"github.com/berth-onnx/berth/backend/gorgonia/internal/dense"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ssa"
)

// Which kernels of gorgonia.org/tensor compute nodes. A test holds the table against the reference kernels, on numbers of
// every kind, infinities and NaN among them: types that are not listed must differ, those that are must not.

// Kernel says what computes an operator in this backend.
type Kernel struct {
	Operator string          // of the default domain
	Stock    string          // the function of gorgonia.org/tensor
	Types    []ndarray.DType // for which its results are right, and it is used
	Reason   string          // why it is not used for the others that the operator has, "" if there are none
	arity    int
	run      stockFunc
}

type stockFunc func(to *tensor.Dense, in []*tensor.Dense) error

type (
	unaryFunc  = func(a tensor.Tensor, opts ...tensor.FuncOpt) (tensor.Tensor, error)
	binaryFunc = func(a, b any, opts ...tensor.FuncOpt) (tensor.Tensor, error)
)

func unary(f unaryFunc) stockFunc {
	return func(to *tensor.Dense, in []*tensor.Dense) error {
		got, err := f(in[0], tensor.WithReuse(to))
		return placed(to, got, err)
	}
}

func binary(f binaryFunc) stockFunc {
	return func(to *tensor.Dense, in []*tensor.Dense) error {
		got, err := f(in[0], in[1], tensor.WithReuse(to))
		return placed(to, got, err)
	}
}

// placed checks that a function has used the memory it was given.
func placed(to *tensor.Dense, got tensor.Tensor, err error) error {
	if err == nil && got.Uintptr() != to.Uintptr() {
		return fmt.Errorf("the result is not in the memory for it")
	}
	return err
}

var (
	floats   = []ndarray.DType{ndarray.Float32, ndarray.Float64}
	integers = []ndarray.DType{ndarray.Int8, ndarray.Int16, ndarray.Int32, ndarray.Int64}
	integral = slices.Concat([]ndarray.DType{ndarray.Uint8, ndarray.Uint16, ndarray.Uint32, ndarray.Uint64}, integers)
	signed   = slices.Concat(integers, floats)
	numbers  = slices.Concat(integral, floats)
	double   = []ndarray.DType{ndarray.Float64}
)

const (
	rounding = "float32: not rounded as a float64 result is"
	assembly = "float64: wrong near overflow and underflow on amd64"
)

// stockKernels is the table; what is not in it has no stock kernel of the same meaning.
var stockKernels = []Kernel{
	{Operator: "Add", Stock: "tensor.Add", Types: numbers, arity: 2, run: binary(tensor.Add)},
	{Operator: "Sub", Stock: "tensor.Sub", Types: numbers, arity: 2, run: binary(tensor.Sub)},
	{Operator: "Mul", Stock: "tensor.Mul", Types: numbers, arity: 2, run: binary(tensor.Mul)},
	{Operator: "Div", Stock: "tensor.Div", Types: floats, arity: 2, run: binary(tensor.Div)},
	{Operator: "Neg", Stock: "tensor.Neg", Types: signed, arity: 1, run: unary(tensor.Neg)},
	{Operator: "Abs", Stock: "tensor.Abs", Types: signed, arity: 1, run: unary(tensor.Abs)},
	{Operator: "Sqrt", Stock: "tensor.Sqrt", Types: floats, arity: 1, run: unary(tensor.Sqrt)},
	{Operator: "Exp", Stock: "tensor.Exp", Reason: rounding + "; " + assembly, arity: 1, run: unary(tensor.Exp)},
	{Operator: "Log", Stock: "tensor.Log", Reason: rounding + "; " + assembly, arity: 1, run: unary(tensor.Log)},
	{Operator: "Tanh", Stock: "tensor.Tanh", Types: floats, arity: 1, run: unary(tensor.Tanh)},
	{Operator: "Sign", Stock: "tensor.Sign", Types: integers, Reason: "floats: NaN is 0", arity: 1, run: unary(tensor.Sign)},
	{Operator: "Reciprocal", Stock: "tensor.Inv", Types: floats, arity: 1, run: unary(tensor.Inv)},
	{Operator: "Pow", Stock: "tensor.Pow", Types: double, Reason: rounding + "; no integers", arity: 2, run: binary(tensor.Pow)},
	{Operator: "Max", Stock: "tensor.MaxBetween", Types: integral, Reason: "floats: NaN is lost", arity: 2, run: binary(tensor.MaxBetween)},
	{Operator: "Min", Stock: "tensor.MinBetween", Types: integral, Reason: "floats: NaN is lost", arity: 2, run: binary(tensor.MinBetween)},
	{Operator: "Greater", Stock: "tensor.Gt", Types: numbers, arity: 2, run: binary(tensor.Gt)},
	{Operator: "GreaterOrEqual", Stock: "tensor.Gte", Types: numbers, arity: 2, run: binary(tensor.Gte)},
	{Operator: "Less", Stock: "tensor.Lt", Types: numbers, arity: 2, run: binary(tensor.Lt)},
	{Operator: "LessOrEqual", Stock: "tensor.Lte", Types: numbers, arity: 2, run: binary(tensor.Lte)},
	{Operator: "Equal", Stock: "tensor.ElEq", Types: numbers, arity: 2, run: binary(tensor.ElEq)},
	{Operator: "MatMul", Stock: "tensor.MatMul", Reason: "infinities and NaN are lost beside zeros; slices are read wrong", arity: 2, run: binary(product)},
	{Operator: "Softmax", Stock: "tensor.SoftMax", Reason: "the memory for the result is not used", arity: 1, run: unary(lastAxis(tensor.SoftMax))},
	{Operator: "LogSoftmax", Stock: "tensor.LogSoftMax", Reason: "the memory for the result is not used", arity: 1, run: unary(lastAxis(tensor.LogSoftMax))},
}

func product(a, b any, opts ...tensor.FuncOpt) (tensor.Tensor, error) {
	return tensor.MatMul(a.(*tensor.Dense), b.(*tensor.Dense), opts...)
}

func lastAxis(f func(tensor.Tensor, int, ...tensor.FuncOpt) (tensor.Tensor, error)) unaryFunc {
	return func(a tensor.Tensor, opts ...tensor.FuncOpt) (tensor.Tensor, error) { return f(a, a.Dims()-1, opts...) }
}

// Kernels lists the operators that gorgonia.org/tensor has a kernel for, and whether it is used. All others are computed
// by berth's.
func Kernels() []Kernel {
	out := slices.Clone(stockKernels)
	for i := range out {
		out[i].Types = slices.Clone(out[i].Types)
	}
	return out
}

// stockFor is the stock kernel of a node; nil if it has none, or that is wrong for its types and shapes. They do not
// broadcast, and take tensors of one element for scalars.
func stockFor(n *ssa.Node) *Kernel {
	i := slices.IndexFunc(stockKernels, func(k Kernel) bool { return k.Operator == n.Op })
	if i < 0 || n.Domain != "" || len(n.Out) != 1 || n.Out[0] == nil {
		return nil
	}
	k := &stockKernels[i]
	shape, _ := n.Out[0].Type.Static()
	if size, err := ndarray.NumElems(shape); err != nil || size < 2 || len(n.In) != k.arity {
		return nil
	}
	for _, v := range n.In {
		if v == nil || !slices.Contains(k.Types, v.Type.DType) || v.Type.DType != n.In[0].Type.DType || !sameShape(v, shape) {
			return nil
		}
	}
	return k
}

func sameShape(v *ssa.Value, shape []int) bool {
	s, ok := v.Type.Static()
	return ok && slices.Equal(s, shape)
}

// stockOp is a node computed by a stock kernel, in one frame. It is a gorgonia.Op with the node's type and shape.
type stockOp struct {
	*nodeOp
	stock    *Kernel
	operands [2]*tensor.Dense // of a call
}

// UsePreallocDo calls the stock kernel, or berth's where the result lies over an operand other than the first: stock
// kernels begin by copying the first operand to the result.
func (o *stockOp) UsePreallocDo(prealloc G.Value, inputs ...G.Value) (G.Value, error) {
	to, ok := prealloc.(*tensor.Dense)
	in := o.operands[:min(len(inputs), 2)]
	for i, v := range inputs {
		d, isDense := v.(*tensor.Dense)
		ok = ok && isDense && (i == 0 && d.Uintptr() == to.Uintptr() || !dense.Overlap(d.Raw, to.Raw))
		in[i] = d
	}
	if !ok {
		return o.nodeOp.UsePreallocDo(prealloc, inputs...)
	}
	return prealloc, o.stock.run(to, in)
}
