package ops

import (
	"math"

	"github.com/berth-onnx/berth/ndarray"
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
var SparseAttention = Op{
	Domain: microsoft, Name: "SparseAttention", Since: 1, Doc: "output = causal attention to the key blocks of a layout, with caches",
	MinIn: 1, MaxIn: 11, MinOut: 1, MaxOut: 3,
	Attrs: []AttrSpec{intAttr("do_rotary"), intAttr("kv_num_heads").required(), intAttr("num_heads").required(),
		intAttr("rotary_interleaved"), floatAttr("scale"), intAttr("sparse_block_size").required()},
	Infer: rule(func(n *ssa.Node) []Inferred {
		q := InType(n, 0)
		hq, hk := Int(n, "num_heads"), Int(n, "kv_num_heads")
		if hq < 1 || hk < 1 || hq%hk != 0 {
			failf("%d query heads can not share %d key heads", hq, hk)
		}
		hidden := dimOf(q, 2)
		if n.Input(1) == nil {
			hidden = hidden.FloorDiv(ssa.D(hq + 2*hk)).MulN(hq)
		}
		return []Inferred{{Type: ssa.TensorOf(q.DType, dimOf(q, 0), dimOf(q, 1), hidden)}, {Type: InType(n, 3)}, {Type: InType(n, 4)}}
	}),
	Facts: Facts{Traits: general, Cost: cachedCost(1)}, Eval: floatKernel(evalSparseAttention, nil),
}

// keyBlocks says which blocks of keys each block of queries sees, by layout.
type keyBlocks struct {
	size int
	seen [][][]bool // [layout][query block][key block]
}

func evalSparseAttention(c *Call) {
	g := groupQuery[float32]{c: c, keep: true}
	g.readOperands()
	total := optionalInt(c, 7, -1)
	lens, past := c.Array(8), c.Array(3)
	if lens == nil || lens.Len() != g.q.batch || past == nil || past.Rank() != 4 || c.Array(4) == nil {
		failf("the caches and key_total_sequence_lengths for %d sequences must be given", g.q.batch)
	}
	if total < int64(g.q.seq) || total > int64(past.Shape[2]) {
		failf("total_sequence_length=%d with %d new positions and caches of %d", total, g.q.seq, past.Shape[2])
	}
	g.total = int(total)
	for b := range g.q.batch {
		n := lens.Int(b)
		before := n - int64(g.q.seq)
		if g.total == g.q.seq { // the first step: nothing precedes it, and its end may be padding
			before = 0
		}
		if n < 0 || n > total || before < 0 {
			failf("sequence %d has %d of %d positions, %d of them new", b, n, total, g.q.seq)
		}
		g.lens, g.past = append(g.lens, int(n)), append(g.past, int(before))
	}
	blocks := readKeyBlocks(c, g.total, g.q.n)
	rotateSparse(&g)
	g.fillCaches()
	attendBlocks(&g, blocks)
}

// readKeyBlocks expands the rows of compressed indices.
func readKeyBlocks(c *Call, total, queryHeads int) *keyBlocks {
	rows, cols := c.Array(5), c.Array(6)
	wantRank("block_row_indices", rows, 2)
	wantRank("block_col_indices", cols, 2)
	k := &keyBlocks{size: int(Int(c.Node, "sparse_block_size"))}
	layouts, count := rows.Shape[0], rows.Shape[1]-1
	if k.size < 1 || k.size > 1<<20 || layouts < 1 || layouts != cols.Shape[0] || queryHeads%layouts != 0 || count < 1 || count*k.size < total {
		failf("block_row_indices %v and block_col_indices %v with blocks of %d do not cover %d positions of %d heads", rows.Shape, cols.Shape, k.size, total, queryHeads)
	}
	for l := range layouts {
		seen := make([][]bool, count)
		for i := range seen {
			seen[i] = make([]bool, count)
			from, to := rows.Int(l*(count+1)+i), rows.Int(l*(count+1)+i+1)
			if from < 0 || to < from || to > int64(cols.Shape[1]) {
				failf("row %d of layout %d has columns %d to %d of %d", i, l, from, to, cols.Shape[1])
			}
			for j := from; j < to; j++ {
				col := cols.Int(l*cols.Shape[1] + int(j))
				if col < 0 || col >= int64(count) {
					failf("row %d of layout %d names block %d of %d", i, l, col, count)
				}
				seen[i][col] = true
			}
		}
		k.seen = append(k.seen, seen)
	}
	return k
}

func rotateSparse(g *groupQuery[float32]) {
	if Int(g.c.Node, "do_rotary") == 0 {
		return
	}
	cos, sin := g.c.Array(9), g.c.Array(10)
	if cos == nil || sin == nil || cos.Rank() != 2 || cos.Shape[0] < g.total {
		failf("do_rotary=1 needs cos_cache and sin_cache of %d positions", g.total)
	}
	ids := ndarray.Must(ndarray.Int64, g.q.batch, g.q.seq)
	for i := range ids.Len() {
		ids.SetInt(i, int64(min(g.past[i/g.q.seq]+i%g.q.seq, cos.Shape[0]-1)))
	}
	g.rotateBy(cos, sin, ids)
}

func attendBlocks(g *groupQuery[float32], blocks *keyBlocks) {
	scale := float64(Float(g.c.Node, "scale"))
	if scale == 0 {
		scale = 1 / math.Sqrt(float64(g.q.size))
	}
	probs := attentionScores(g.q, g.k, scale)
	for r := range g.q.batch * g.q.n * g.q.seq {
		b, h, s := r/g.q.seq/g.q.n, r/g.q.seq%g.q.n, r%g.q.seq
		row, at := probs[r*g.total:][:g.total], g.past[b]+s
		seen := blocks.seen[h%len(blocks.seen)][min(at/blocks.size, len(blocks.seen[0])-1)]
		for t := range row {
			if t > at || t >= g.lens[b] || !seen[t/blocks.size] {
				row[t] = float32(math.Inf(-1))
			}
		}
		softmaxRows(row, len(row))
	}
	y := newResult[float32](g.c, 0, g.c.Array(0).DType, g.q.batch, g.q.seq, g.q.n*g.v.size)
	attentionApply(probs, g.v, bsnh(y.V, g.q.batch, g.q.seq, g.q.n, g.v.size))
	y.store()
}
