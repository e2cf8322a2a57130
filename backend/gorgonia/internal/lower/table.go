package lower

import (
	"fmt"
	"maps"
	"slices"

	"gorgonia.org/gorgonia"

	"github.com/berth-onnx/berth/ssa"
)

// rule writes an op of Gorgonia, applied to in, as nodes of ONNX; nil where that can not be written, so that the op is called.
type rule func(b *builder, n *gorgonia.Node, in []*ssa.Value) *ssa.Value

// rules are by the names of Gorgonia's types. Types that differ in what they
// differentiate stand together.
var rules = map[string]rule{
	"elemBinOp": elementwiseBinary, "elemUnaryOp": elementwiseUnary,
	"minBetween": named("Min"), "maxBetween": named("Max"), "dtConvOp": convert, "Iop": named("Identity"),
	"linAlgBinOp": product2, "tensordotOp": tensordot,
	"sumOp": reduction("ReduceSum"), "maxOp": reduction("ReduceMax"), "sizeOp": sizeOf,
	"softmaxOp": softmax, "softmaxDiffOp": softmaxDiff,
	"reshapeOp": reshapeRule, "transposeOp": transposeRule, "concatOp": concat, "repeatOp": repeat,
	"sliceOp": slice, "sliceIncrOp": sliceIncr, "atOp": at, "byIndicesOp": byIndices, "byIndicesOpDiffOp": byIndicesDiff,
	"im2colOp": im2col, "col2imOp": col2im,
	"maxPoolOp": maxPool, "maxPoolDiffOp": maxPoolDiff, "avgPoolOp": averagePool, "avgPoolDiffOp": averagePoolDiff,
	"globalAveragePoolOp": named("GlobalAveragePool"), "upsampleOp": upsample, "upsampleDiffOp": upsampleDiff,
	"BatchNormOp": batchNorm, "batchnormDiffOp": batchNormDiff, "GroupNormOp": groupNorm, "groupNormDiffOp": groupNormDiff,
	"dropoutOp": dropout, "dropoutDiffOp": dropoutDiff, "randomOp": random,
	"sparsemaxOp": sparsemax, "sparsemaxDiffOp": sparsemaxDiff, "diagFlatOp": diagonal,
}

// named is the rule of an op that ONNX has under a name.
func named(op string) rule {
	return func(b *builder, _ *gorgonia.Node, in []*ssa.Value) *ssa.Value { return b.op(op, in...) }
}

// Template is an op that stands for a result of an ONNX node: those of package exprgraph.
type Template interface {
	gorgonia.Op
	// ONNX returns a node that is not changed, whose operator and attributes count, and
	// which of its results the op is.
	ONNX() (n *ssa.Node, result int)
}

// apply writes one node.
func (b *builder) apply(n *gorgonia.Node, in []*ssa.Value) (*ssa.Value, error) {
	if t, ok := n.Op().(Template); ok {
		return b.instance(t, in)
	}
	for i, v := range in {
		if v == nil {
			return nil, fmt.Errorf("operand %d is a statement, which has no value; use the node that gorgonia.Read reads", i)
		}
	}
	if kindOf(n) == "readOp" {
		return nil, nil
	}
	if r := rules[kindOf(n)]; r != nil {
		if v := r(b, n, in); v != nil || b.err != nil {
			return v, b.err
		}
	}
	return b.stock(n, in)
}

// instanceKey identifies a node of several results among the ops that stand for one each.
type instanceKey struct {
	template *ssa.Node
	operands string
}

// Kinds lists the types of Gorgonia's ops that have a rule.
func Kinds() []string { return slices.Sorted(maps.Keys(rules)) }
