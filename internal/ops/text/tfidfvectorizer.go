package text

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/berth-onnx/berth/internal/ops/kit"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// TfIdfVectorizer counts n-grams of a sequence of tokens:
// https://onnx.ai/onnx/operators/onnx__TfIdfVectorizer.html
//
// An n-gram may leave out up to max_skip_count tokens between its tokens, the
// same number everywhere:
//
//	tokens a b c d e    2-grams with skip 0: ab bc cd de    with skip 1: ac bd ce
//
// The result holds at ngram_indexes[i] how often pool n-gram i occurs (TF),
// whether it does (IDF), the latter and TFIDF times the weight of the column.
var TfIdfVectorizer = ops.Op{
	Name: "TfIdfVectorizer", Since: 9, Doc: "Y[ngram_indexes[i]] = weight * occurrences of n-gram i",
	MinIn: 1, MaxIn: 1, MinOut: 1, MaxOut: 1,
	Attrs: []*ops.AttrSpec{ops.IntAttr("max_gram_length").Mandatory(), ops.IntAttr("max_skip_count").Mandatory(),
		ops.IntAttr("min_gram_length").Mandatory(), ops.StrAttr("mode").Mandatory().Among("TF", "IDF", "TFIDF"),
		ops.IntsAttr("ngram_counts").Mandatory(), ops.IntsAttr("ngram_indexes").Mandatory().Between(0, kit.MaxColumns-1),
		ops.IntsAttr("pool_int64s"), ops.StringsAttr("pool_strings"), ops.FloatsAttr("weights")},
	Facts: ops.Facts{Traits: ops.GeneralTraits}, Infer: kit.Rule(inferTfIdf), Eval: kit.Kernel(evalTfIdf),
}

// tfidfColumns is the length of a row of results.
func tfidfColumns(n *ssa.Node) int {
	return int(slices.Max(append([]int64{-1}, ops.Ints(n, "ngram_indexes")...))) + 1
}

func inferTfIdf(n *ssa.Node) []ops.Inferred {
	cols := tfidfColumns(n)
	t := ops.InType(n, 0)
	switch t.Rank() {
	case -1:
		return ops.One(ssa.UnrankedTensor(ndarray.Float32))
	case 0, 1:
		return ops.One(ssa.StaticTensor(ndarray.Float32, cols))
	case 2:
		return ops.One(ssa.TensorOf(ndarray.Float32, t.Shape[0], ssa.D(int64(cols))))
	}
	panic(kit.Failure{Err: fmt.Errorf("the operand is %s, it must be [C] or [N, C]", t)})
}

// gramTrie holds the pool: a walk from node 0 along the tokens of an n-gram ends
// at a node with the n-gram's number.
type gramTrie struct {
	next map[gramEdge]int
	gram []int // per node: index into ngram_indexes, -1 where no n-gram ends
}

type gramEdge struct {
	node  int
	token string
}

// gramTrieOf builds the trie of the n-grams whose length is wanted.
func gramTrieOf(n *ssa.Node) *gramTrie {
	pool := ops.Strings(n, "pool_strings")
	for _, v := range ops.Ints(n, "pool_int64s") {
		pool = append(pool, strconv.FormatInt(v, 10))
	}
	counts, indexes := ops.Ints(n, "ngram_counts"), ops.Ints(n, "ngram_indexes")
	lo, hi := ops.Int(n, "min_gram_length"), ops.Int(n, "max_gram_length")
	t := &gramTrie{next: map[gramEdge]int{}, gram: []int{-1}}
	number := 0
	for i, start := range counts {
		end, size := int64(len(pool)), int64(i+1)
		if i+1 < len(counts) {
			end = counts[i+1]
		}
		if start < 0 || end < start || end > int64(len(pool)) || (end-start)%size != 0 {
			kit.Check(kit.BadAttr("ngram_counts", counts, fmt.Sprintf("ascending starts in a pool of %d", len(pool))))
		}
		for at := start; at < end; at += size {
			if size >= lo && size <= hi {
				t.add(pool[at:at+size], number)
			}
			number++
		}
	}
	if number > len(indexes) {
		kit.Failf("the pool has %d n-grams, ngram_indexes only %d elements", number, len(indexes))
	}
	return t
}

func (t *gramTrie) add(tokens []string, number int) {
	node := 0
	for _, w := range tokens {
		e := gramEdge{node, w}
		to, ok := t.next[e]
		if !ok {
			to = len(t.gram)
			t.next[e] = to
			t.gram = append(t.gram, -1)
		}
		node = to
	}
	t.gram[node] = number
}

// count calls hit with every n-gram of the row of length lo to hi, with 0 to
// skips tokens left out; single tokens are counted once.
func (t *gramTrie) count(w *kit.Watch, row []string, lo, hi, skips int64, hit func(number int)) {
	for step := int64(1); step <= skips+1; step++ {
		for start := range row {
			w.Did(4)
			node, size := 0, int64(1)
			for at := int64(start); at < int64(len(row)) && size <= hi; at, size = at+step, size+1 {
				w.Did(4)
				to, ok := t.next[gramEdge{node, row[at]}]
				if !ok {
					break
				}
				if node = to; size >= lo && t.gram[node] >= 0 {
					hit(t.gram[node])
				}
			}
		}
		if lo = max(lo, 2); lo > hi || step > int64(len(row)) {
			return
		}
	}
}

// tokensOf returns the elements of a token tensor as text.
func tokensOf(c *ops.Call, a *ndarray.Array) []string {
	switch a.DType {
	case ndarray.String:
		return a.Str
	case ndarray.Int32, ndarray.Int64:
		out, w := kit.Make[string](c, a.Len()), kit.Watching(c)
		for i := range out {
			w.Did(1)
			out[i] = kit.Text(c, strconv.FormatInt(a.Int(i), 10))
		}
		return out
	}
	panic(kit.Failure{Err: kit.UnsupportedType(a.DType)})
}

func evalTfIdf(c *ops.Call) {
	a := kit.Tensor(c, 0)
	if a.Rank() > 2 {
		kit.Failf("the operand is %s, it must be [C] or [N, C]", a)
	}
	n := c.Node
	if (a.DType == ndarray.String) != n.Has("pool_strings") {
		kit.Failf("the operand is %s, the pool holds the other kind of tokens", a)
	}
	tokens, trie, cols := tokensOf(c, a), gramTrieOf(n), tfidfColumns(n)
	shape, rows := []int{cols}, 1
	if a.Rank() == 2 {
		rows = a.Shape[0]
		shape = []int{rows, cols}
	}
	out := kit.Result(c, 0, ndarray.Float32, shape...)
	y, indexes := ndarray.Slice[float32](out), ops.Ints(n, "ngram_indexes")
	kit.ClearSlice(c, y)
	w := kit.Watching(c)
	for r := range rows {
		w.Did(1)
		row := tokens[r*len(tokens)/rows : (r+1)*len(tokens)/rows]
		trie.count(&w, row, ops.Int(n, "min_gram_length"), ops.Int(n, "max_gram_length"), ops.Int(n, "max_skip_count"), func(number int) {
			y[r*cols+int(indexes[number])]++
		})
	}
	weighGrams(c, y, cols)
}

// weighGrams turns counts into what attribute mode asks for.
func weighGrams(c *ops.Call, y []float32, cols int) {
	mode, weights, w := ops.Str(c.Node, "mode"), ops.Floats(c.Node, "weights"), kit.Watching(c)
	if mode != "TF" && len(weights) > 0 && len(weights) < cols {
		kit.Failf("%d weights for %d columns", len(weights), cols)
	}
	for i, f := range y {
		w.Did(1)
		if mode == "IDF" {
			y[i] = min(f, 1)
		}
		if mode != "TF" && len(weights) > 0 {
			y[i] *= weights[i%cols]
		}
	}
}
