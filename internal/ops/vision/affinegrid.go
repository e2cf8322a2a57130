package vision

import (
	"slices"

	"github.com/berth-onnx/berth/internal/ops/kit"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// AffineGrid makes the grid of [GridSample] from affine matrices:
// https://onnx.ai/onnx/operators/onnx__AffineGrid.html
//
//	grid[n, y, x] = theta[n] · (px, py, 1)
//
// where px and py are evenly spaced in [-1, 1]; 3-D grids have pz too.
func AffineGrid() ops.Op {
	return ops.Op{
		Name: "AffineGrid", Since: 20, Doc: "grid = theta applied to evenly spaced positions",
		MinIn: 2, MaxIn: 2, MinOut: 1, MaxOut: 1, Attrs: []*ops.AttrSpec{ops.IntAttr("align_corners", 0)},
		Facts: ops.Facts{Traits: ops.GeneralTraits}, Infer: kit.Rule(inferAffineGrid), Eval: kit.Kernel(evalAffineGrid),
	}
}

func inferAffineGrid(n *ssa.Node) []ops.Inferred {
	t, size := ops.InType(n, 0), kit.ShapeOperand(n, 1)
	if size == nil {
		return ops.One(ssa.UnrankedTensor(t.DType))
	}
	k := len(size)
	if k != 4 && k != 5 {
		kit.Failf("size has %d elements, it must have 4 or 5", k)
	}
	kit.CheckDims(size)
	return ops.One(ssa.TensorOf(t.DType, slices.Concat(size[:1], size[2:], []ssa.Dim{ssa.D(int64(k - 2))})...))
}

// gridPosition is step i of d evenly spaced ones in [-1, 1].
func gridPosition(i, d int, corners bool) float64 {
	switch {
	case !corners:
		return (2*float64(i)+1)/float64(d) - 1
	case d == 1:
		return 0
	}
	return 2*float64(i)/float64(d-1) - 1
}

func evalAffineGrid(c *ops.Call) {
	theta, dims := kit.Tensor(c, 0), kit.ShapeOfInts(kit.Ints(c, 1))
	r := len(dims) - 2
	if r != 2 && r != 3 || !slices.Equal(theta.Shape, []int{dims[0], r, r + 1}) || !theta.DType.IsFloat() {
		kit.Failf("theta %s does not fit size %v", theta, dims)
	}
	space := dims[2:]
	y := kit.NewResult[float64](c, 0, theta.DType, slices.Concat(dims[:1], space, []int{r})...)
	corners := ops.Int(c.Node, "align_corners") != 0
	m, at := kit.Elements[float64](c, theta), 0
	for b := range dims[0] {
		kit.EachIndex(c, space, func(idx []int) {
			for row := range r {
				w := m[(b*r+row)*(r+1):][:r+1]
				sum := w[r]
				for k := range r { // column k goes with the dimension k-th from the back
					sum += w[k] * gridPosition(idx[r-1-k], space[r-1-k], corners)
				}
				y.V[at] = sum
				at++
			}
		})
	}
	y.Store()
}
