package rare

import (
	"github.com/berth-onnx/berth/internal/ops/contrib"
	"github.com/berth-onnx/berth/internal/ops/kit"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// MSUnique lists the distinct elements of a vector in order of appearance, the
// position of every element in that list, and how often each appears.
var MSUnique = ops.Op{
	Domain: contrib.Microsoft, Name: "Unique", Since: 1, Doc: "distinct elements in order of appearance, positions, counts",
	MinIn: 1, MaxIn: 1, MinOut: 1, MaxOut: 3,
	Facts: ops.Facts{Whole: true, Traits: ops.GeneralTraits}, Infer: kit.Rule(func(n *ssa.Node) []ops.Inferred {
		x := ops.InType(n, 0)
		return []ops.Inferred{{Type: ssa.TensorOf(x.DType, ssa.Dim{})}, {Type: ssa.TensorOf(ndarray.Int64, kit.DimOf(x, 0))},
			{Type: ssa.TensorOf(ndarray.Int64, ssa.Dim{})}}
	}),
	Eval: kit.Kernel(evalMSUnique),
}

func evalMSUnique(c *ops.Call) {
	x := c.Array(0)
	kit.WantRank("x", x, 1)
	key := func(i int) string {
		if x.DType == ndarray.String {
			return x.Str[i]
		}
		w := x.DType.Size()
		return string(x.Data[i*w : (i+1)*w])
	}
	seen := map[string]int{}
	var firsts []int
	var counts []int64
	positions := kit.Make[int64](c, x.Len())
	w := kit.Watching(c)
	for i := range positions {
		w.Did(1)
		k, ok := seen[key(i)]
		if !ok {
			k = len(firsts)
			seen[key(i)] = k
			firsts, counts = append(firsts, i), append(counts, 0)
		}
		counts[k]++
		positions[i] = int64(k)
	}
	y := kit.Result(c, 0, x.DType, len(firsts))
	for i, at := range firsts {
		kit.CopyElems(&w, y, i, x, at, 1)
	}
	for i, v := range [][]int64{positions, counts} {
		kit.SetResult(c, 1+i, ndarray.Int64, []int{len(v)}, v)
	}
}
