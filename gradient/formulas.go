package gradient

import (
	"slices"
	"strings"

	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// Operators that are differentiated as the formulas they stand for.

func init() {
	const ms = "com.microsoft."
	for name, f := range map[string]formula{
		"RMSNormalization": rmsFormula, "SimplifiedLayerNormalization": rmsFormula, ms + "SimplifiedLayerNormalization": rmsFormula,
		ms + "SkipLayerNormalization": skipNormFormula, ms + "SkipSimplifiedLayerNormalization": skipRMSFormula,
		ms + "EmbedLayerNormalization": embedNormFormula, "MeanVarianceNormalization": meanVarianceFormula,
		"LpNormalization": lpNormFormula, "LRN": lrnFormula, "LpPool": lpPoolFormula, "GlobalLpPool": globalLpFormula, "GlobalMaxPool": globalMaxFormula,
		"SwiGLU": swiGLUFormula, ms + "Gelu": geluFormula, ms + "BiasGelu": geluFormula, ms + "FastGelu": fastGeluFormula,
		ms + "QuickGelu": quickGeluFormula, ms + "BiasSplitGelu": splitGeluFormula, ms + "BiasAdd": biasAddFormula, ms + "BiasSoftmax": biasSoftmaxFormula,
		ms + "FusedMatMul": fusedMatMulFormula, ms + "TransposeMatMul": fusedMatMulFormula, ms + "FusedMatMulActivation": fusedMatMulFormula,
		ms + "FusedGemm": fusedGemmFormula, ms + "GemmFastGelu": gemmGeluFormula, ms + "FusedConv": fusedConvFormula,
		ms + "GroupNorm":            groupNormFormula,
		"NegativeLogLikelihoodLoss": likelihoodFormula, "SoftmaxCrossEntropyLoss": crossEntropyFormula,
	} {
		rules[name] = byFormula(f)
	}
	rules["RotaryEmbedding"] = rotaryGradient(1, 2)
	rules[ms+"RotaryEmbedding"] = rotaryGradient(2, 3)
}

// stashed is the type that normalizations compute in.
func stashed(x *ssa.Value) int64 {
	if x.Type.DType == ndarray.Float64 {
		return int64(ndarray.Float64)
	}
	return int64(ndarray.Float32)
}

func one(v *ssa.Value) []*ssa.Value { return []*ssa.Value{v} }

// rms is x/√(mean(x²) + ε) over axes.
func (g *builder) rms(x *ssa.Value, axes []int64, epsilon float64) *ssa.Value {
	return g.mul(x, g.inverseRoot(g.plusNumber(g.reduce("ReduceMean", g.square(x), axes...), epsilon)))
}

func rmsFormula(g *builder, n *ssa.Node) []*ssa.Value {
	x, scale := n.In[0], n.In[1]
	axis, err := ops.NormAxis(ops.Int(n, "axis"), g.rank(x))
	if err != nil {
		g.fail(n, err)
		return nil
	}
	return one(g.mul(g.like(g.rms(x, axesFrom(axis, g.rank(x)), float64(ops.Float(n, "epsilon"))), scale), scale))
}

func skipNormFormula(g *builder, n *ssa.Node) []*ssa.Value {
	sum := g.plus(n.In[0], n.In[1], n.Input(4))
	in := []*ssa.Value{sum, n.In[2]}
	if beta := n.Input(3); beta != nil {
		in = append(in, beta)
	}
	y := g.with("LayerNormalization", in, ssa.FloatAttr("epsilon", ops.Float(n, "epsilon")))
	return []*ssa.Value{y, nil, nil, sum}
}

func skipRMSFormula(g *builder, n *ssa.Node) []*ssa.Value {
	sum := g.plus(n.In[0], n.In[1], n.Input(3))
	y := g.mul(g.rms(sum, []int64{-1}, float64(ops.Float(n, "epsilon"))), n.In[2])
	return []*ssa.Value{y, nil, nil, sum}
}

// embedNormFormula sums rows of three tables and normalizes.
func embedNormFormula(g *builder, n *ssa.Node) []*ssa.Value {
	ids, ok := g.static(n, n.In[0])
	if !ok {
		return nil
	}
	sum := g.op("Gather", n.In[2], n.In[0])
	if at := n.Input(8); at != nil {
		sum = g.add2(sum, g.op("Gather", n.In[3], at))
	} else {
		sum = g.add2(sum, g.part(n.In[3], 0, 0, ids[1]))
	}
	if n.Input(1) != nil && n.Input(4) != nil {
		sum = g.add2(sum, g.op("Gather", n.In[4], n.In[1]))
	}
	y := g.with("LayerNormalization", []*ssa.Value{sum, n.In[5], n.In[6]}, ssa.FloatAttr("epsilon", ops.Float(n, "epsilon")))
	return []*ssa.Value{y, nil, sum}
}

func meanVarianceFormula(g *builder, n *ssa.Node) []*ssa.Value {
	axes := ops.Ints(n, "axes")
	centered := g.op("Sub", n.In[0], g.meanOver(n.In[0], axes))
	deviation := g.op("Sqrt", g.meanOver(g.square(centered), axes))
	return one(g.op("Div", centered, g.plusNumber(deviation, 1e-9)))
}

func lpNormFormula(g *builder, n *ssa.Node) []*ssa.Value {
	norm := "ReduceL2"
	if ops.Int(n, "p") == 1 {
		norm = "ReduceL1"
	}
	return one(g.op("Div", n.In[0], g.reduce(norm, n.In[0], ops.Int(n, "axis"))))
}

// lrnFormula sums squares over neighbouring channels by a pooling of [N, 1, C, rest].
func lrnFormula(g *builder, n *ssa.Node) []*ssa.Value {
	x := n.In[0]
	shape, ok := g.static(n, x)
	if !ok {
		return nil
	}
	size := ops.Int(n, "size")
	squares := g.reshape(g.square(x), shape[0], 1, shape[1], -1)
	means := g.with("AveragePool", one(squares), ssa.IntsAttr("kernel_shape", size, 1), ssa.IntsAttr("strides", 1, 1),
		ssa.IntsAttr("pads", (size-1)/2, 0, size/2, 0), ssa.IntAttr("count_include_pad", 1))
	spread := g.plusNumber(g.scaled(g.reshape(means, shape...), float64(ops.Float(n, "alpha"))), float64(ops.Float(n, "bias")))
	return one(g.mul(x, g.op("Pow", spread, g.number(x, -float64(ops.Float(n, "beta"))))))
}

// power is |x|^p.
func (g *builder) power(x *ssa.Value, p int64) *ssa.Value {
	if p == 2 {
		return g.square(x)
	}
	return g.op("Pow", g.op("Abs", x), g.number(x, float64(p)))
}

func (g *builder) root(x *ssa.Value, p int64) *ssa.Value {
	return g.op("Pow", x, g.number(x, 1/float64(p)))
}

func lpPoolFormula(g *builder, n *ssa.Node) []*ssa.Value {
	p, count := ops.Int(n, "p"), 1.0
	var size []int
	for _, k := range ops.Ints(n, "kernel_shape") {
		count *= float64(k)
		size = append(size, int(k))
	}
	x, attrs := g.power(n.In[0], p), attrsBut(n, "p")
	if ops.Int(n, "ceil_mode") != 0 { // means leave out what lies beyond the padding
		w, ok := g.window(n, size)
		if !ok {
			return nil
		}
		r := len(size)
		x = g.op("Pad", x, g.ints(slices.Concat([]int64{0, 0}, w.pads[:r], []int64{0, 0}, w.pads[r:])...))
		attrs = attrsBut(n, "p", "ceil_mode", "pads", "auto_pad")
	}
	means := g.with("AveragePool", one(x), append(attrs, ssa.IntAttr("count_include_pad", 1))...)
	return one(g.root(g.scaled(means, count), p))
}

func globalLpFormula(g *builder, n *ssa.Node) []*ssa.Value {
	p := ops.Int(n, "p")
	return one(g.root(g.reduce("ReduceSum", g.power(n.In[0], p), axesFrom(2, g.rank(n.In[0]))...), p))
}

func globalMaxFormula(g *builder, n *ssa.Node) []*ssa.Value {
	return one(g.reduce("ReduceMax", n.In[0], axesFrom(2, g.rank(n.In[0]))...))
}

func swiGLUFormula(g *builder, n *ssa.Node) []*ssa.Value {
	a := n.In[0]
	return one(g.mul(g.mul(a, g.op("Sigmoid", g.scaled(a, float64(ops.Float(n, "alpha"))))), n.In[1]))
}

func geluFormula(g *builder, n *ssa.Node) []*ssa.Value {
	return one(g.op("Gelu", g.plus(n.In[0], n.Input(1))))
}

// fastGelu is Gelu by its tanh approximation.
func (g *builder) fastGelu(x *ssa.Value) *ssa.Value {
	return g.with("Gelu", one(x), ssa.StringAttr("approximate", "tanh"))
}

func fastGeluFormula(g *builder, n *ssa.Node) []*ssa.Value {
	return one(g.fastGelu(g.plus(n.In[0], n.Input(1))))
}

func quickGeluFormula(g *builder, n *ssa.Node) []*ssa.Value {
	return one(g.with("Swish", one(n.In[0]), ssa.FloatAttr("alpha", ops.Float(n, "alpha"))))
}

func splitGeluFormula(g *builder, n *ssa.Node) []*ssa.Value {
	halves := g.parts(g.plus(n.In[0], n.In[1]), -1, 2)
	return one(g.mul(halves[0], g.op("Gelu", halves[1])))
}

func biasAddFormula(g *builder, n *ssa.Node) []*ssa.Value {
	return one(g.plus(n.In[0], n.In[1], n.In[2]))
}

// biasSoftmaxFormula flattens the dimensions from axis on.
func biasSoftmaxFormula(g *builder, n *ssa.Node) []*ssa.Value {
	sum := g.plus(n.In[0], n.In[1])
	rank := g.rank(sum)
	axis, err := ops.NormAxis(ops.Int(n, "axis"), rank)
	if err != nil {
		g.fail(n, err)
		return nil
	}
	if axis == rank-1 {
		return one(g.with("Softmax", one(sum), ssa.IntAttr("axis", -1)))
	}
	flat := g.with("Flatten", one(sum), ssa.IntAttr("axis", int64(axis)))
	return one(g.op("Reshape", g.with("Softmax", one(flat), ssa.IntAttr("axis", -1)), g.shape(sum)))
}

// oriented moves the first dimension behind the batch dimensions and swaps the last two, as the attributes say.
func (g *builder) oriented(n *ssa.Node, side string, v *ssa.Value) *ssa.Value {
	rank := g.rank(v)
	if rank > 2 && ops.IntOr(n, "transBatch"+side, 0) != 0 {
		perm := append(append(axesFrom(1, rank-1), 0), int64(rank-1))
		v = g.transpose(v, perm...)
	}
	if rank > 1 && ops.Int(n, "trans"+side) != 0 {
		v = g.swapped(v)
	}
	return v
}

func fusedMatMulFormula(g *builder, n *ssa.Node) []*ssa.Value {
	y := g.op("MatMul", g.oriented(n, "A", n.In[0]), g.oriented(n, "B", n.In[1]))
	y = g.scaled(y, float64(ops.Float(n, "alpha")))
	if n.Op == "FusedMatMulActivation" {
		y = g.activated(n, y, givenFloats(n, "activation_alpha", "activation_beta"))
	}
	return one(y)
}

// givenFloats lists attributes up to the first that is absent.
func givenFloats(n *ssa.Node, names ...string) (out []float32) {
	for _, name := range names {
		if !n.Has(name) {
			break
		}
		out = append(out, ops.Float(n, name))
	}
	return out
}

// activated applies attribute activation with parameters.
func (g *builder) activated(n *ssa.Node, v *ssa.Value, params []float32) *ssa.Value {
	name := ops.Str(n, "activation")
	var attrs []ssa.Attr
	switch strings.ToLower(name) {
	case "":
		return v
	case "relu", "tanh", "sigmoid", "softplus", "softsign", "gelu", "hardswish":
	case "leakyrelu", "elu":
		if len(params) > 0 {
			attrs = append(attrs, ssa.FloatAttr("alpha", params[0]))
		}
	case "clip":
		if len(params) == 2 {
			return g.op("Clip", v, g.number(v, float64(params[0])), g.number(v, float64(params[1])))
		}
		g.refuse(n, "Clip without limits", "")
	case "hardsigmoid":
		for i, p := range params {
			attrs = append(attrs, ssa.FloatAttr([]string{"alpha", "beta"}[i], p))
		}
	default:
		g.refuse(n, "activation "+name+" has no derivative here", "write it as a node of its own")
		return v
	}
	canonical := map[string]string{"relu": "Relu", "tanh": "Tanh", "sigmoid": "Sigmoid", "softplus": "Softplus", "softsign": "Softsign",
		"gelu": "Gelu", "hardswish": "HardSwish", "leakyrelu": "LeakyRelu", "elu": "Elu", "hardsigmoid": "HardSigmoid", "clip": "Identity"}
	return g.with(canonical[strings.ToLower(name)], one(v), attrs...)
}

var activationAttrs = []string{"activation", "activation_params", "activation_alpha", "activation_beta", "activation_gamma"}

func fusedGemmFormula(g *builder, n *ssa.Node) []*ssa.Value {
	y := g.with("Gemm", n.In, attrsBut(n, activationAttrs...)...)
	return one(g.activated(n, y, givenFloats(n, "activation_alpha", "activation_beta")))
}

func gemmGeluFormula(g *builder, n *ssa.Node) []*ssa.Value {
	return one(g.fastGelu(g.plus(g.op("MatMul", n.In[0], n.In[1]), n.Input(2))))
}

func fusedConvFormula(g *builder, n *ssa.Node) []*ssa.Value {
	y := g.with("Conv", n.In[:min(3, len(n.In))], attrsBut(n, activationAttrs...)...)
	return one(g.activated(n, g.plus(y, n.Input(3)), ops.Floats(n, "activation_params")))
}

// groupNormFormula brings channels to the front and back.
func groupNormFormula(g *builder, n *ssa.Node) []*ssa.Value {
	x := n.In[0]
	rank, last := g.rank(x), ops.Int(n, "channels_last") != 0
	if last {
		x = g.transpose(x, append([]int64{0, int64(rank - 1)}, axesFrom(1, rank-1)...)...)
	}
	y := g.with("GroupNormalization", []*ssa.Value{x, n.In[1], n.In[2]}, ssa.IntAttr("num_groups", ops.Int(n, "groups")),
		ssa.FloatAttr("epsilon", ops.Float(n, "epsilon")), ssa.IntAttr("stash_type", stashed(x)))
	if ops.Int(n, "activation") != 0 {
		y = g.mul(y, g.op("Sigmoid", y))
	}
	if last {
		y = g.transpose(y, append(append([]int64{0}, axesFrom(2, rank)...), 1)...)
	}
	return one(y)
}

// rotaryGradient rotates the adjoint back: by the same angles with the sine negated. cos and sin are positions
// of operands.
func rotaryGradient(cos, sin int) rule {
	return func(g *builder, n *ssa.Node, dy []*ssa.Value) []*ssa.Value {
		if g.wants(n, cos) || g.wants(n, sin) {
			g.refuse(n, "the derivative by its angles is not known", "rotate by operators")
			return nil
		}
		in := append([]*ssa.Value{dy[0]}, n.In[1:]...)
		in[sin] = g.op("Neg", in[sin])
		m := g.add(n.Op, in, 1, n.Attrs...)
		m.Domain = n.Domain
		g.infer(m)
		return one(m.Out[0])
	}
}

// likelihoodFormula picks the log probability of each label.
func likelihoodFormula(g *builder, n *ssa.Node) []*ssa.Value {
	return one(g.likelihood(n, n.In[0]))
}

func crossEntropyFormula(g *builder, n *ssa.Node) []*ssa.Value {
	logs := g.with("LogSoftmax", one(n.In[0]), ssa.IntAttr("axis", 1))
	return []*ssa.Value{g.likelihood(n, logs), logs}
}

// likelihood is -logs[label]·weight[label], reduced as the attribute says; ignored labels weigh 0.
func (g *builder) likelihood(n *ssa.Node, logs *ssa.Value) *ssa.Value {
	labels := n.In[1]
	var ignored *ssa.Value
	if n.Has("ignore_index") {
		mark := g.like(g.constant(ssa.ScalarConst(ops.Int(n, "ignore_index"))), labels)
		ignored = g.op("Equal", labels, mark)
		labels = g.op("Where", ignored, g.like(g.constant(ssa.ScalarConst(int64(0))), labels), labels)
	}
	picked := g.with("GatherElements", []*ssa.Value{logs, g.op("Unsqueeze", labels, g.ints(1))}, ssa.IntAttr("axis", 1))
	loss := g.op("Neg", g.op("Squeeze", picked, g.ints(1)))
	weights := g.op("Expand", g.number(logs, 1), g.shape(labels))
	if w := n.Input(2); w != nil {
		weights = g.op("Gather", w, labels)
	}
	if ignored != nil {
		weights = g.op("Where", ignored, g.number(weights, 0), weights)
	}
	loss = g.mul(loss, weights)
	total := func(v *ssa.Value) *ssa.Value {
		return g.with("ReduceSum", one(v), ssa.IntAttr("keepdims", 0))
	}
	switch ops.Str(n, "reduction") {
	case "sum":
		return total(loss)
	case "mean":
		return g.op("Div", total(loss), total(weights))
	}
	return loss
}
