package contrib

import (
	"math"

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
func SparseAttention() ops.Op {
	return ops.Op{
		Domain: Microsoft, Name: "SparseAttention", Since: 1, Doc: "output = causal attention to the key blocks of a layout, with caches",
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
		Facts: ops.Facts{Traits: ops.GeneralTraits, Cost: kit.CachedCost(1), Whole: true}, Eval: kit.FloatKernel(evalSparseAttention, nil),
	}
}

// keyBlocks says which blocks of keys each block of queries sees, by layout.
type keyBlocks struct {
	size int
	seen [][][]bool // [layout][query block][key block]
}

func evalSparseAttention(c *ops.Call) {
	g := groupQuery[float32]{c: c, keep: true}
	g.readOperands()
	total := kit.OptionalInt(c, 7, -1)
	lens, past := c.Array(8), c.Array(3)
	if lens == nil || lens.Len() != g.q.Batch || past == nil || past.Rank() != 4 || c.Array(4) == nil {
		kit.Failf("the caches and key_total_sequence_lengths for %d sequences must be given", g.q.Batch)
	}
	if total < int64(g.q.Seq) || total > int64(past.Shape[2]) {
		kit.Failf("total_sequence_length=%d with %d new positions and caches of %d", total, g.q.Seq, past.Shape[2])
	}
	g.total = int(total)
	g.lens, g.past = kit.Make[int](c, g.q.Batch)[:0], kit.Make[int](c, g.q.Batch)[:0]
	for b := range g.q.Batch {
		n := lens.Int(b)
		before := n - int64(g.q.Seq)
		if g.total == g.q.Seq { // the first step: nothing precedes it, and its end may be padding
			before = 0
		}
		if n < 0 || n > total || before < 0 {
			kit.Failf("sequence %d has %d of %d positions, %d of them new", b, n, total, g.q.Seq)
		}
		g.lens, g.past = append(g.lens, int(n)), append(g.past, int(before))
	}
	blocks := readKeyBlocks(c, g.total, g.q.N)
	rotateSparse(&g)
	g.fillCaches()
	attendBlocks(&g, blocks)
}

// readKeyBlocks expands the rows of compressed indices.
func readKeyBlocks(c *ops.Call, total, queryHeads int) *keyBlocks {
	rows, cols := c.Array(5), c.Array(6)
	kit.WantRank("block_row_indices", rows, 2)
	kit.WantRank("block_col_indices", cols, 2)
	k := &keyBlocks{size: int(ops.Int(c.Node, "sparse_block_size"))}
	layouts, count := rows.Shape[0], rows.Shape[1]-1
	if layouts < 1 || layouts != cols.Shape[0] || queryHeads%layouts != 0 || count < 1 || count*k.size < total {
		kit.Failf("block_row_indices %v and block_col_indices %v with blocks of %d do not cover %d positions of %d heads", rows.Shape, cols.Shape, k.size, total, queryHeads)
	}
	w := kit.Watching(c)
	for l := range layouts {
		seen := kit.Make[[]bool](c, count)
		for i := range seen {
			w.Did(1 + count/64)
			seen[i] = kit.Make[bool](c, count)
			from, to := rows.Int(l*(count+1)+i), rows.Int(l*(count+1)+i+1)
			if from < 0 || to < from || to > int64(cols.Shape[1]) {
				kit.Failf("row %d of layout %d has columns %d to %d of %d", i, l, from, to, cols.Shape[1])
			}
			for j := from; j < to; j++ {
				w.Did(1)
				col := cols.Int(l*cols.Shape[1] + int(j))
				if col < 0 || col >= int64(count) {
					kit.Failf("row %d of layout %d names block %d of %d", i, l, col, count)
				}
				seen[i][col] = true
			}
		}
		k.seen = append(k.seen, seen)
	}
	return k
}

func rotateSparse(g *groupQuery[float32]) {
	if ops.Int(g.c.Node, "do_rotary") == 0 {
		return
	}
	cos, sin := g.c.Array(9), g.c.Array(10)
	if cos == nil || sin == nil || cos.Rank() != 2 || cos.Shape[0] < g.total {
		kit.Failf("do_rotary=1 needs cos_cache and sin_cache of %d positions", g.total)
	}
	g.rotateBy(cos, sin, nil)
}

func attendBlocks(g *groupQuery[float32], blocks *keyBlocks) {
	watch := kit.Watching(g.c)
	probs := nn.AttentionScores(g.c, g.q, g.k, scaleOf(g.c.Node, g.q.Size))
	for r := range g.q.Batch * g.q.N * g.q.Seq {
		b, h, s := g.q.Row(r)
		row, at := probs[r*g.total:][:g.total], g.past[b]+s
		seen := blocks.seen[h%len(blocks.seen)][min(at/blocks.size, len(blocks.seen[0])-1)]
		for t := range row {
			watch.Did(1)
			if t > at || t >= g.lens[b] || !seen[t/blocks.size] {
				row[t] = float32(math.Inf(-1))
			}
		}
		kit.SoftmaxRows(g.c, row, len(row))
	}
	nn.StoreAttended(g.c, g.c.Array(0).DType, probs, g.q, g.v, true)
}
