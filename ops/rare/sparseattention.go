package rare

import (
	"github.com/berth-onnx/berth/internal/ops/contrib"
	"github.com/berth-onnx/berth/internal/ops/kit"
	"github.com/berth-onnx/berth/internal/ops/nn"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// SparseAttention is causal attention with caches in which a query sees only some
// blocks of keys, of the com.microsoft domain. Which ones is the same for all
// sequences and may differ from head to head:
//
//	head h has layout h mod layouts; of queries in block i of positions it sees the key
//	blocks block_col_indices[block_row_indices[i] … block_row_indices[i+1])
//
// Caches are as long as past_key and past_value are. Source: https://arxiv.org/abs/2404.14219
var SparseAttention = ops.Op{
	Domain: contrib.Microsoft, Name: "SparseAttention", Since: 1, Doc: "output = causal attention to the key blocks of a layout, with caches",
	MinIn: 1, MaxIn: 11, MinOut: 1, MaxOut: 3,
	Attrs: []*ops.AttrSpec{ops.IntAttr("do_rotary"), ops.IntAttr("kv_num_heads").Mandatory().AtLeast(1), ops.IntAttr("num_heads").Mandatory().AtLeast(1),
		ops.IntAttr("rotary_interleaved"), ops.FloatAttr("scale"), ops.IntAttr("sparse_block_size").Mandatory().Between(1, 1<<20)},
	Infer: kit.Rule(func(n *ssa.Node) []ops.Inferred {
		q := ops.InType(n, 0)
		hq, hk := nn.HeadCounts(n, "num_heads")
		hidden := kit.DimOf(q, 2)
		if n.Input(1) == nil {
			hidden = hidden.FloorDiv(ssa.D(hq + 2*hk)).MulN(hq)
		}
		return []ops.Inferred{{Type: ssa.TensorOf(q.DType, kit.DimOf(q, 0), kit.DimOf(q, 1), hidden)}, {Type: ops.InType(n, 3)}, {Type: ops.InType(n, 4)}}
	}),
	Facts: ops.Facts{Traits: ops.GeneralTraits, Cost: kit.CachedCost(1)}, Eval: kit.FloatKernel(contrib.EvalSparseAttention, nil),
}
