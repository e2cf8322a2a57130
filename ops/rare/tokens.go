package rare

import (
	"encoding/binary"
	"math"
	"math/bits"
	"slices"

	"github.com/berth-onnx/berth/internal/ops/contrib"
	"github.com/berth-onnx/berth/internal/ops/kit"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// Operators of the com.microsoft domain on token ids.

// NGramRepeatBlock forbids tokens that would repeat an n-gram of a row: their
// scores become -∞.
var NGramRepeatBlock = ops.Op{
	Domain: contrib.Microsoft, Name: "NGramRepeatBlock", Since: 1, Doc: "scores_out = scores, -∞ for tokens that complete an n-gram of input_ids again",
	MinIn: 2, MaxIn: 2, MinOut: 1, MaxOut: 1, Attrs: []*ops.AttrSpec{ops.IntAttr("ngram_size").Mandatory().AtLeast(1)},
	Infer: kit.Rule(func(n *ssa.Node) []ops.Inferred { return ops.One(ops.InType(n, 1)) }),
	Facts: ops.Facts{Traits: ops.GeneralTraits, InPlace: func(n *ssa.Node) []ops.Pair {
		if ops.SameLayout(ops.InType(n, 1), n.Out[0].Type) {
			return []ops.Pair{{In: 1, Out: 0}}
		}
		return nil
	}}, Eval: kit.Kernel(evalNGramRepeat),
}

func evalNGramRepeat(c *ops.Call) {
	ids, scores := c.Array(0), c.Array(1)
	kit.WantRank("input_ids", ids, 2)
	kit.WantRank("scores", scores, 2)
	size := int(ops.Int(c.Node, "ngram_size"))
	if scores.Shape[0] != ids.Shape[0] || scores.DType != ndarray.Float32 || !ids.DType.IsInteger() {
		kit.Failf("ngram_size=%d, input_ids %s and scores %s do not go together", size, ids, scores)
	}
	out := kit.Result(c, 0, scores.DType, scores.Shape...)
	kit.CopyWhole(c, out, scores)
	length, vocabulary, v := ids.Shape[1], scores.Shape[1], ndarray.Slice[float32](out)
	all, w := kit.Ints(c, 0), kit.Watching(c)
	for b := range ids.Shape[0] {
		row := all[b*length:][:length]
		for i := 0; i+size <= length; i++ {
			w.Did(1)
			if !slices.Equal(row[i:i+size-1], row[length-size+1:]) {
				continue
			}
			t := row[i+size-1]
			if t < 0 || t >= int64(vocabulary) {
				kit.Failf("token %d is outside a vocabulary of %d", t, vocabulary)
			}
			v[b*vocabulary+int(t)] = float32(math.Inf(-1))
		}
	}
}

// BifurcationDetector is a step of decoding that copies from its source: predicted
// tokens are accepted up to the first that the source does not have, and the end of
// the result is searched for in the source, by n-grams of growing size as long as
// several places match.
var BifurcationDetector = ops.Op{
	Domain: contrib.Microsoft, Name: "BifurcationDetector", Since: 1, Doc: "tokens = cur_tokens and the predicted ones up to the first that differs; where their end lies in src_tokens",
	MinIn: 3, MaxIn: 4, MinOut: 1, MaxOut: 2,
	Attrs: []*ops.AttrSpec{ops.IntAttr("max_ngram_size", 3), ops.IntAttr("min_ngram_size", 1).AtLeast(1)},
	Infer: kit.Rule(func(n *ssa.Node) []ops.Inferred {
		tokens := ops.InType(n, 1)
		if n.Input(3) != nil {
			tokens = ssa.TensorOf(ndarray.Int64, ssa.Dim{})
		}
		return []ops.Inferred{{Type: tokens}, {Type: ops.InType(n, 2)}}
	}),
	Facts: ops.Facts{Whole: true, Traits: ops.GeneralTraits, Cost: kit.ReadCost}, Eval: kit.Kernel(evalBifurcation),
}

func evalBifurcation(c *ops.Call) {
	for i, what := range []string{"src_tokens", "cur_tokens", "", "pred_tokens"} {
		if what != "" && c.Has(i) && (c.Array(i).Rank() != 1 || c.Array(i).DType != ndarray.Int64) {
			kit.Failf("%s is %s, expected int64[n]", what, c.Array(i))
		}
	}
	src, out, match := kit.Elements[int64](c, c.Array(0)), kit.Ints(c, 1), c.Array(2)
	if match.Len() != 1 {
		kit.Failf("prev_suffix_match_idx has shape %v", match.Shape)
	}
	if p := c.Array(3); p != nil {
		from, pred := match.Int(0), kit.Elements[int64](c, p)
		if from < 0 || from > int64(len(src)) || len(pred) != len(src)+1-int(from) {
			kit.Failf("%d predicted tokens for a source of %d read from %d", len(pred), len(src), from)
		}
		same, w := 0, kit.Watching(c)
		for same < len(pred)-1 && pred[same] == src[int(from)+same] {
			w.Did(1)
			same++
		}
		out = append(out, pred[:same+1]...)
	}
	least, most := int(ops.Int(c.Node, "min_ngram_size")), int(ops.Int(c.Node, "max_ngram_size"))
	if most < least {
		kit.Failf("n-grams of %d to %d tokens", least, most)
	}
	kit.Check(c.SetOutput(0, ndarray.Of(out, len(out))))
	if !c.Wants(1) {
		return
	}
	idx := kit.Result(c, 1, ndarray.Int64, match.Shape...)
	idx.SetInt(0, int64(suffixMatch(c, src, out, least, most)))
}

// suffixMatch is where in src the one place ends that matches the last tokens, -1
// if there is none or still more than one.
func suffixMatch(c *ops.Call, src, tokens []int64, least, most int) int {
	found := -1
	for size := least; size <= most && size <= len(tokens); size++ {
		end := tokens[len(tokens)-size:]
		first := indexOf(c, src, end)
		if first < 0 {
			break
		}
		if found = first + size; found >= len(src) {
			break
		}
		if indexOf(c, src[first+1:], end) >= 0 {
			found = -1
		}
	}
	return found
}

func indexOf(c *ops.Call, list, part []int64) int {
	w := kit.Watching(c)
	for i := 0; i+len(part) <= len(list); i++ {
		w.Did(1)
		if slices.Equal(list[i:i+len(part)], part) {
			return i
		}
	}
	return -1
}

// MurmurHash3 hashes every element's bytes, a string's as they stand.
//
// Source: https://github.com/aappleby/smhasher, MurmurHash3_x86_32
var MurmurHash3 = ops.Op{
	Domain: contrib.Microsoft, Name: "MurmurHash3", Since: 1, Doc: "Y = MurmurHash3_x86_32(X, seed) for every element",
	MinIn: 1, MaxIn: 1, MinOut: 1, MaxOut: 1, Attrs: []*ops.AttrSpec{ops.IntAttr("positive", 1), ops.IntAttr("seed", 0)},
	Infer: kit.Rule(func(n *ssa.Node) []ops.Inferred {
		return ops.One(kit.Retyped(ops.InType(n, 0), hashType(n)))
	}),
	Facts: ops.Facts{Traits: ops.GeneralTraits},
	Eval: kit.Kernel(func(c *ops.Call) {
		x := c.Array(0)
		out := kit.Result(c, 0, hashType(c.Node), x.Shape...)
		seed, width := uint32(ops.Int(c.Node, "seed")), x.DType.Size()
		w := kit.Watching(c)
		for i := range x.Len() {
			var key []byte
			if x.DType == ndarray.String {
				key = []byte(x.Str[i])
			} else {
				key = x.Data[i*width:][:width]
			}
			w.Did(1 + len(key)/4)
			out.SetInt(i, int64(murmur3(key, seed)))
		}
	}),
}

func hashType(n *ssa.Node) ndarray.DType {
	if ops.Int(n, "positive") != 0 {
		return ndarray.Uint32
	}
	return ndarray.Int32
}

// murmur3 is the 32-bit hash for 32-bit machines: blocks of 4 bytes, the rest, and
// a final mix.
func murmur3(key []byte, seed uint32) uint32 {
	scramble := func(k uint32) uint32 { return bits.RotateLeft32(k*0xcc9e2d51, 15) * 0x1b873593 }
	h, rest := seed, key
	for ; len(rest) >= 4; rest = rest[4:] {
		h ^= scramble(binary.LittleEndian.Uint32(rest))
		h = bits.RotateLeft32(h, 13)*5 + 0xe6546b64
	}
	k := uint32(0)
	for i, b := range rest {
		k |= uint32(b) << (8 * i)
	}
	h ^= scramble(k)
	h ^= uint32(len(key))
	h = (h ^ h>>16) * 0x85ebca6b
	h = (h ^ h>>13) * 0xc2b2ae35
	return h ^ h>>16
}
