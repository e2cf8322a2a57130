package lower

import (
	"fmt"
	"slices"

	"gorgonia.org/gorgonia"

	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ssa"
)

// The products in the order of Gorgonia's constants.
const (
	matMul = iota
	matVecMul
	vecDot
	outerProd
	batchedMatMul
)

func product2(b *builder, n *gorgonia.Node, in []*ssa.Value) *ssa.Value {
	which, err := selector(n.Op(), "āBinaryOperator")
	if err != nil {
		b.fail(err)
		return in[0]
	}
	x, y := in[0], in[1]
	ta, tb := get[bool](b, n, "transA"), get[bool](b, n, "transB")
	switch which {
	case matMul:
		if v := b.convolution(x, y, ta, tb); v != nil {
			return v
		}
		return b.matMul(x, y, ta, tb)
	case matVecMul:
		y = b.reshape(y, ndarray.Product(b.shape(y)))
		if ta {
			return b.op("MatMul", y, x)
		}
		return b.op("MatMul", x, y)
	case vecDot:
		return b.op("MatMul", b.reshape(x, ndarray.Product(b.shape(x))), b.reshape(y, ndarray.Product(b.shape(y))))
	case outerProd:
		return b.op("Mul", b.reshape(x, ndarray.Product(b.shape(x)), 1), b.reshape(y, 1, ndarray.Product(b.shape(y))))
	case batchedMatMul:
		return b.matMul(x, y, ta, tb)
	}
	b.fail(fmt.Errorf("unknown product %d", which))
	return x
}

// matMul multiplies matrices, or stacks of them, transposed where told.
func (b *builder) matMul(x, y *ssa.Value, ta, tb bool) *ssa.Value {
	if !ta && !tb {
		return b.op("MatMul", x, y)
	}
	if b.rank(x) == 2 && b.rank(y) == 2 {
		return b.with("Gemm", []*ssa.Value{x, y}, ssa.IntAttr("transA", truth(ta)), ssa.IntAttr("transB", truth(tb)))
	}
	if ta {
		x = b.swapped(x)
	}
	if tb {
		y = b.swapped(y)
	}
	return b.op("MatMul", x, y)
}

// swapped exchanges the last two dimensions.
func (b *builder) swapped(v *ssa.Value) *ssa.Value {
	perm := upTo(0, b.rank(v))
	k := len(perm)
	perm[k-1], perm[k-2] = perm[k-2], perm[k-1]
	return b.transpose(v, perm...)
}

func truth(v bool) int64 {
	if v {
		return 1
	}
	return 0
}

// tensordot contracts axes: those of a moved last and those of b moved first, it is a
// product of matrices.
func tensordot(b *builder, n *gorgonia.Node, in []*ssa.Value) *ssa.Value {
	aAxes, bAxes := get[[]int](b, n, "aAxes"), get[[]int](b, n, "bAxes")
	if b.err != nil {
		return in[0]
	}
	aFree, bFree := without(b.rank(in[0]), aAxes), without(b.rank(in[1]), bAxes)
	k := 1
	for _, a := range aAxes {
		k *= b.shape(in[0])[a]
	}
	x := b.reshape(b.transpose(in[0], append(aFree, aAxes...)...), ndarray.Product(b.shape(in[0]))/k, k)
	y := b.reshape(b.transpose(in[1], append(slices.Clone(bAxes), bFree...)...), k, ndarray.Product(b.shape(in[1]))/k)
	return b.op("MatMul", x, y)
}

// without is 0 … rank-1 without some axes.
func without(rank int, axes []int) []int {
	return slices.DeleteFunc(upTo(0, rank), func(i int) bool { return slices.Contains(axes, i) })
}
