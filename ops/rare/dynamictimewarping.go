package rare

import (
	"math"
	"slices"

	"github.com/berth-onnx/berth/internal/ops/contrib"
	"github.com/berth-onnx/berth/internal/ops/kit"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// DynamicTimeWarping finds the cheapest path through a matrix of costs from the
// first element to the last, one step down, right or both at a time, of the
// com.microsoft domain. Result: rows and columns of the path's elements [2, length].
//
// The cost up to an element is its own plus the least of those before it; of equal
// ones the step right is taken. The path is read back from the end.
//
//	total[r,k] = cost[r,k] + min(total[r-1,k-1], total[r-1,k], total[r,k-1])
var DynamicTimeWarping = ops.Op{
	Domain: contrib.Microsoft, Name: "DynamicTimeWarping", Since: 1, Doc: "output = the cheapest path through a matrix of costs",
	MinIn: 1, MaxIn: 1, MinOut: 1, MaxOut: 1,
	Infer: kit.Rule(func(n *ssa.Node) []ops.Inferred {
		if x := ops.InType(n, 0); x.Ranked && x.Rank() != 2 && x.Rank() != 3 {
			kit.Failf("costs %s, expected [M,N] or [1,M,N]", x)
		}
		return ops.One(ssa.TensorOf(ndarray.Int32, ssa.D(2), ssa.Dim{}))
	}),
	Facts: ops.Facts{Traits: ops.GeneralTraits, Cost: kit.ReadCost}, Eval: kit.Kernel(evalTimeWarping),
}

func evalTimeWarping(c *ops.Call) {
	x := c.Array(0)
	shape := x.Shape
	if len(shape) == 3 && shape[0] == 1 {
		shape = shape[1:]
	}
	if len(shape) != 2 || shape[0] < 1 || shape[1] < 1 || x.DType != ndarray.Float32 {
		kit.Failf("costs %s, expected float32[M,N] or float32[1,M,N]", x)
	}
	rows, cols, cost := shape[0], shape[1], kit.Elements[float32](c, x)
	total, from := kit.Make[float32](c, (rows+1)*(cols+1)), kit.Make[byte](c, (rows+1)*(cols+1))
	w := kit.Watching(c)
	for i := range total {
		w.Did(1)
		total[i] = float32(math.Inf(1))
	}
	total[0] = 0
	at := func(r, k int) int { return r*(cols+1) + k }
	for k := 1; k <= cols; k++ {
		for r := 1; r <= rows; r++ {
			w.Did(1)
			diagonal, down, right := total[at(r-1, k-1)], total[at(r-1, k)], total[at(r, k-1)]
			best, step := right, stepRight
			if diagonal < down && diagonal < right {
				best, step = diagonal, stepBoth
			} else if down < diagonal && down < right {
				best, step = down, stepDown
			}
			total[at(r, k)], from[at(r, k)] = cost[(r-1)*cols+k-1]+best, step
		}
	}
	var path [2][]int32
	for r, k := rows, cols; r > 0 || k > 0; {
		w.Did(1)
		path[0], path[1] = append(path[0], int32(r-1)), append(path[1], int32(k-1))
		switch step := from[at(r, k)]; {
		case r > 0 && k > 0 && step == stepBoth:
			r, k = r-1, k-1
		case k == 0 || r > 0 && step == stepDown:
			r--
		default:
			k--
		}
	}
	slices.Reverse(path[0])
	slices.Reverse(path[1])
	kit.Check(c.SetOutput(0, ndarray.Of(append(path[0], path[1]...), 2, len(path[0]))))
}

// The steps of a path.
const (
	stepBoth byte = iota
	stepDown
	stepRight
)
