package onnxgo

import (
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/berth-onnx/berth/internal/onnxwire"
	"github.com/berth-onnx/berth/ops"
)

// introduced lists the operators of the default domain by the operator set that brought them; all others were in the first.
var introduced = versionsOf(map[int]string{
	7: "Acos Asin Atan Cos Multinomial Sin Tan",
	8: "Expand Scan",
	9: "Acosh Asinh Atanh Compress ConstantOfShape Cosh Erf EyeLike IsNaN MaxUnpool MeanVarianceNormalization NonZero OneHot " +
		"Scatter Shrink Sign Sinh TfIdfVectorizer Where",
	10: "ConvInteger DequantizeLinear IsInf MatMulInteger Mod NonMaxSuppression QLinearConv QLinearMatMul QuantizeLinear Resize " +
		"ReverseSequence RoiAlign StringNormalizer ThresholdedRelu",
	11: "BitShift ConcatFromSequence CumSum Det DynamicQuantizeLinear GatherElements GatherND Range Round ScatterElements " +
		"ScatterND SequenceAt SequenceConstruct SequenceEmpty SequenceErase SequenceInsert SequenceLength SplitToSequence Unique",
	12: "Celu Einsum GreaterOrEqual LessOrEqual NegativeLogLikelihoodLoss SoftmaxCrossEntropyLoss",
	14: "HardSwish Trilu",
	15: "Bernoulli CastLike Optional OptionalGetElement OptionalHasElement",
	16: "GridSample",
	17: "BlackmanWindow DFT HammingWindow HannWindow LayerNormalization MelWeightMatrix STFT SequenceMap",
	18: "BitwiseAnd BitwiseNot BitwiseOr BitwiseXor CenterCropPad Col2Im GroupNormalization Mish",
	19: "DeformConv",
	20: "AffineGrid Gelu ImageDecoder RegexFullMatch StringConcat StringSplit",
	23: "Attention RMSNormalization RotaryEmbedding",
	24: "Swish TensorScatter",
	26: "BitCast CumProd",
	27: "CausalConvWithState LinearAttention",
	28: "SwiGLU",
})

// removed lists the operators that an operator set dropped.
var removed = versionsOf(map[int]string{10: "Upsample", 11: "Scatter"})

// newestOpset is above the operator sets that files import, newestMl the newest one of the domain ai.onnx.ml.
const newestOpset, newestMl = 1000, 5

func versionsOf(lists map[int]string) map[string]int {
	out := map[string]int{}
	for v, list := range lists {
		for _, name := range strings.Fields(list) {
			out[name] = v
		}
	}
	return out
}

// A candidate is a choice of what onnx-go does not tell a backend: the operator sets that the file imports, and whether
// operators that several domains have are those of the default one.
type candidate struct {
	opset, ml int
	foreign   bool
}

// domainOf finds the domain of an operator; ok is false where the candidate has none of the name. Unknown operators are in the
// default one: the importer keeps them, and they are reported.
func (c candidate) domainOf(name string) (domain string, ok bool) {
	standard := ops.Lookup("", name) != nil
	if other := elsewhere(name); other != "" && (c.foreign || !standard) {
		return other, true
	}
	gone := removed[name] != 0 && c.opset >= removed[name]
	return "", !standard || introduced[name] <= c.opset && !gone
}

// takes reports that a node has what its operator needs in the candidate's operator set and what the import does not ask for.
// Resize takes a tensor and scales in version 10, and a tensor, a region, and scales or sizes since. Split counts its results
// up to version 17, and is told their sizes or their number since.
func (c candidate) takes(n *onnxwire.Node) bool {
	switch {
	case n.OpType == "Resize" && c.opset > 10:
		return len(n.Inputs) >= 3
	case n.OpType == "Split" && c.opset >= 18:
		return len(n.Inputs) >= 2 || slices.ContainsFunc(n.Attributes, func(a *onnxwire.Attribute) bool { return a.Name == "num_outputs" })
	}
	return true
}

// elsewhere is a domain other than the default one that has an operator; "" if none has.
func elsewhere(name string) string { return domains()[name] }

// domains has the operators of other domains; the table of operators is complete when a program has started.
var domains = sync.OnceValue(func() map[string]string {
	out := map[string]string{}
	for _, o := range ops.All() {
		if o.Domain != "" && o.Domain != ops.Private {
			out[o.Name] = o.Domain
		}
	}
	return out
})

// candidatesFor lists the choices that operators may tell apart, the likeliest last: between two versions in which nothing about
// any of the operators changes, all mean the same.
func candidatesFor(names []string) (out []candidate) {
	changes, ml, both := map[int]bool{1: true, widespread: true}, []int{newestMl}, false
	for _, name := range names {
		domain := elsewhere(name)
		if o := ops.Lookup("", name); o != nil {
			noteChanges(changes, o)
			both = both || domain != ""
		}
		if domain == "ai.onnx.ml" {
			ml = []int{1, 2, 3, 4, newestMl}
		}
	}
	for _, v := range slices.Sorted(maps.Keys(changes)) {
		for _, m := range ml {
			out = append(out, candidate{opset: v, ml: m})
		}
	}
	if both {
		for _, c := range slices.Clone(out) {
			out = append(out, candidate{c.opset, c.ml, true})
		}
		out = append(out[len(out)/2:], out[:len(out)/2]...)
	}
	return out
}

// noteChanges adds the versions from which on a node of an operator is taken differently.
func noteChanges(at map[int]bool, o *ops.Op) {
	for _, v := range []int{introduced[o.Name], removed[o.Name]} {
		if v > 0 {
			at[v] = true
		}
	}
	for _, u := range o.Upgrades {
		if u.Below <= newestOpset { // above: an operator that was replaced
			at[u.Below] = true
		}
	}
	for i := range o.Attrs {
		for _, v := range []int{o.Attrs[i].Since, o.Attrs[i].Until} {
			if v > 1 {
				at[v] = true
			}
		}
	}
}
