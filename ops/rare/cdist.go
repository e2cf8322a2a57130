package rare

import (
	"math"

	"github.com/berth-onnx/berth/internal/ops/contrib"
	"github.com/berth-onnx/berth/internal/ops/kit"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// CDist is the distance between every row of A and every row of B, of the
// com.microsoft domain:
//
//	C[m,k] = Σ (A[m] - B[k])²       metric sqeuclidean; its root for euclidean
var CDist = ops.Op{
	Domain: contrib.Microsoft, Name: "CDist", Since: 1, Doc: "C[m,k] = distance of A[m] and B[k]",
	MinIn: 2, MaxIn: 2, MinOut: 1, MaxOut: 1,
	Attrs: []*ops.AttrSpec{ops.StrAttr("metric", "sqeuclidean")},
	Facts: ops.Facts{Traits: ops.GeneralTraits}, Infer: kit.Rule(func(n *ssa.Node) []ops.Inferred {
		a, b := ops.InType(n, 0), ops.InType(n, 1)
		return ops.One(ssa.TensorOf(a.DType, kit.DimOf(a, 0), kit.DimOf(b, 0)))
	}),
	Eval: kit.FloatKernel(evalCDist[float32], evalCDist[float64]),
}

func evalCDist[T float32 | float64](c *ops.Call) {
	watch := kit.Watching(c)
	a, b := c.Array(0), c.Array(1)
	kit.WantRank("A", a, 2)
	kit.WantRank("B", b, 2)
	if a.Shape[1] != b.Shape[1] || a.DType != b.DType {
		kit.Failf("operands %s and %s have rows of different kind", a, b)
	}
	metric := ops.Str(c.Node, "metric")
	if metric != "sqeuclidean" && metric != "euclidean" {
		kit.Failf("metric %q: %w", metric, ops.ErrUnsupported)
	}
	y := kit.NewResult[T](c, 0, a.DType, a.Shape[0], b.Shape[0])
	n, u, v := a.Shape[1], kit.Elements[T](c, a), kit.Elements[T](c, b)
	for i := range a.Shape[0] {
		for j := range b.Shape[0] {
			var sum float64
			for k, x := range u[i*n : (i+1)*n] {
				watch.Did(1)
				d := float64(x) - float64(v[j*n+k])
				sum += d * d
			}
			if metric == "euclidean" {
				sum = math.Sqrt(sum)
			}
			y.V[i*b.Shape[0]+j] = T(sum)
		}
	}
	y.Store()
}
