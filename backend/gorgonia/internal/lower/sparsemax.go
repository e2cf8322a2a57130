package lower

import (
	"fmt"
	"slices"

	"gorgonia.org/gorgonia"

	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// Sparsemax is the point of the simplex that is nearest to x, with zeros where x is far below its maximum. Of the elements z in
// descending order along the axis, the first k with 1 + j·z[j] > z[1] + … + z[j] are its support:
//
//	z  [0.9 0.7 -0.3]      1 + j·z [1.9 2.4 0.1]   sums [0.9 1.6 1.3]   support [1 1 0]
//	y = max(x - τ, 0),     τ = (Σ support - 1) / k
//
// Source: Martins and Astudillo, From Softmax to Sparsemax (2016). Gorgonia's own code takes another axis than the last for the
// last one of a transposed tensor, and gives the result without transposing it back.
func sparsemax(b *builder, n *gorgonia.Node, in []*ssa.Value) *ssa.Value {
	axis := b.sparseAxis(n, in[0])
	if b.err != nil {
		return in[0]
	}
	if b.checkFloats(Sparsemax.Name, in); b.err != nil {
		return in[0]
	}
	if last := b.rank(in[0]) - 1; axis == last && !b.options.Portable {
		m := b.out.SSA.NewNode(Sparsemax.Name, in, 1)
		m.Domain = stockDomain
		b.infer(m)
		return m.Out[0]
	}
	axes := b.ints(axis)
	x := b.op("Sub", in[0], b.with("ReduceMax", []*ssa.Value{in[0], axes}, ssa.IntAttr("keepdims", 1)))
	size := b.shape(x)[axis]
	z := b.node("TopK", []*ssa.Value{x, b.ints(size)}, 2, ssa.IntAttr("axis", int64(axis))).Out[0]
	one := b.number(x, 1)
	place := b.op("CumSum", b.op("Expand", one, b.ints(b.along(x, axis, size)...)), axes)
	inside := b.cast(b.op("Greater", b.op("Add", one, b.op("Mul", place, z)), b.op("CumSum", z, axes)), x.Type.DType)
	excess := b.op("Sub", b.sum(b.op("Mul", z, inside), axis), one)
	return b.op("Relu", b.op("Sub", x, b.op("Div", excess, b.sum(inside, axis))))
}

// Sparsemax is that along the last axis, in one node where standard ONNX has ten. It finds the support without sorting: of
// all elements at first, then again and again of those above the τ of the last support, until none goes.
//
// Source: Michelot, A Finite Algorithm for Finding the Projection of a Point onto the Canonical Simplex of Rⁿ (1986).
var Sparsemax = ops.Op{
	Domain: stockDomain, Name: "Sparsemax", Since: 1, Doc: "the point of the simplex nearest to each row",
	MinIn: 1, MaxIn: 1, MinOut: 1, MaxOut: 1,
	Infer: ops.SameAs,
	Eval:  evalSparsemax,
	Facts: ops.Facts{Traits: ops.GeneralTraits, InPlace: func(*ssa.Node) []ops.Pair { return []ops.Pair{{In: 0, Out: 0}} }},
}

func init() { ops.Register(&Sparsemax) }

func evalSparsemax(c *ops.Call) error {
	x := c.Array(0)
	y, err := c.Output(0, x.DType, x.Shape...)
	if err != nil {
		return err
	}
	switch width := x.Shape[len(x.Shape)-1]; x.DType {
	case ndarray.Float32:
		return nearest(c, ndarray.Slice[float32](x), ndarray.Slice[float32](y), width)
	case ndarray.Float64:
		return nearest(c, ndarray.Slice[float64](x), ndarray.Slice[float64](y), width)
	}
	return fmt.Errorf("elements of type %s: %w", x.DType, ops.ErrUnsupported)
}

// elemsPerLook is how many elements are computed between two looks at the context.
const elemsPerLook = 1 << 14

// nearest computes rows of a width; y may be x.
func nearest[T float32 | float64](c *ops.Call, x, y []T, width int) error {
	looked := 0
	for at := 0; at < len(x); at += width {
		if at-looked >= elemsPerLook {
			if looked = at; c.Ended() {
				return c.Ctx.Err()
			}
		}
		row, out := x[at:at+width], y[at:at+width]
		top := slices.Max(row)
		for i, v := range row {
			out[i] = v - top
		}
		tau := T(-1) // below which no support reaches
		for size := width + 1; ; {
			sum, count := T(0), 0
			for _, v := range out {
				if v > tau {
					sum += v
					count++
				}
			}
			if count == size || count == 0 { // none are left of NaN alone
				break
			}
			tau, size = (sum-1)/T(count), count
		}
		for i, v := range out {
			out[i] = max(v-tau, 0)
		}
	}
	return nil
}

// sparsemaxDiff takes y = sparsemax(x) and its adjoint d: d less its mean over the support, and 0 outside.
func sparsemaxDiff(b *builder, n *gorgonia.Node, in []*ssa.Value) *ssa.Value {
	y, d := in[0], in[1]
	axis := b.sparseAxis(b.children(n)[0], y)
	if b.err != nil {
		return d
	}
	inside := b.cast(b.op("Greater", y, b.number(y, 0)), y.Type.DType)
	mean := b.op("Div", b.sum(b.op("Mul", d, inside), axis), b.sum(inside, axis))
	return b.op("Mul", inside, b.op("Sub", d, mean))
}

// sparseAxis is the axis of a sparsemax, which its derivative does not know itself.
func (b *builder) sparseAxis(n *gorgonia.Node, x *ssa.Value) int {
	axis := -1
	if kindOf(n) == "sparsemaxOp" {
		axis = get[int](b, n, "axis")
	}
	if axis == -1 {
		axis = b.rank(x) - 1
	}
	if axis < 0 || axis >= b.rank(x) {
		b.failAxis(axis, x)
		return 0
	}
	return axis
}

// along is a shape of the rank of x, with one size at an axis and 1 elsewhere.
func (b *builder) along(x *ssa.Value, axis, size int) []int {
	shape := make([]int, b.rank(x))
	for i := range shape {
		shape[i] = 1
	}
	shape[axis] = size
	return shape
}
