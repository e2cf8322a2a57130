package rewrite

import (
	"slices"

	"github.com/berth-onnx/berth/ndarray"
)

// simplify are the passes that make a graph smaller; they run until nothing changes.
// Folding makes captures constant, so these are sunk again in every round.
var simplify = []*Pass{SinkConstants, ShapeFold, Targets, ShapeVectors, Fold, Identity, Views, Iteration, Transposes, FoldAffine, Algebra, Gemm, Fuse, CSE, Unroll, Inline, LoopInvariant, Dead}

// prologue folds arithmetic ahead of weights into them. It runs when patterns have been
// recognized, because their factors would vanish into the weights.
var prologue = append([]*Pass{FoldBefore}, simplify...)

// Portable leaves a graph of standard ONNX operators, for writing the model back.
var Portable = List{
	Name:          "portable",
	KeepUnfit:     true,
	CommonKernels: true,
	Stages: []Stage{
		{Name: "simplify", Repeat: true, Passes: append(slices.Clone(simplify), Older)},
		{Name: "prologue", Repeat: true, Passes: prologue},
		{Name: "finish", Passes: []*Pass{HoistConstants}},
	},
}

// Runtime goes further for the executor: it may use the newest operators and copy
// constants freely.
var Runtime = List{
	Name:     "runtime",
	AnyOpset: true,
	Growth:   Growth{PerNode: 64 << 20, Total: 1 << 30},
	Stages: []Stage{
		{Name: "lower", Passes: []*Pass{Lower}},
		{Name: "simplify", Repeat: true, Passes: simplify},
		{Name: "quantized", Repeat: true, Passes: []*Pass{Quantized, CSE, Dead}},
		{Name: "unpack", Passes: []*Pass{Unpack}},
		{Name: "prologue", Repeat: true, Passes: prologue},
		{Name: "tables", Passes: []*Pass{Tables}},
	},
}

// orderRules are the pairs whose order matters, each with its reason.
var orderRules = []orderRule{
	{SinkConstants, Fold, "folding inside bodies sees only the body's own constants"},
	{SinkConstants, Inline, "constants of a body are copied with its nodes, captured ones would not be"},
	{SinkConstants, Unroll, "constants of a body are copied with its nodes, captured ones would not be"},
	{ShapeFold, Fold, "a chain that ends in known integers folds from its end, without computing its middle"},
	{Targets, Fold, "a chain whose end is not needed is not worth computing"},
	{Fold, FoldAffine, "parameters computed from constants must be constants first"},
	{FoldAffine, Algebra, "it reads x - c and x / c; their canonical forms would store the constants again"},
	{Targets, ShapeVectors, "a target that can be a constant need not be recomputed"},
	{Fuse, FoldBefore, "the factor of a pattern must not vanish into weights"},
	{FoldAffine, FoldBefore, "an epilogue of one product folds into its own weights; those of the next product may be shared"},
	{Algebra, Fuse, "patterns are written in canonical arithmetic"},
	{Fuse, Inline, "a pattern inside a body is found once, however often the body is copied"},
	{Lower, SinkConstants, "the captures of the loops it makes may be constants"},
	{Lower, Fuse, "the nodes it makes contain patterns"},
	{Quantized, Unpack, "weights of integer products must stay integers"},
	{Unpack, FoldBefore, "scales and shifts fold into float weights only"},
	{Inline, HoistConstants, "bodies must hold their constants themselves"},
	{Unroll, HoistConstants, "bodies must hold their constants themselves"},
	{Dead, HoistConstants, "a capture for a dead reader would stay"},
}

func init() {
	for _, l := range []*List{&Portable, &Runtime} {
		if err := l.validate(orderRules); err != nil {
			panic(err)
		}
	}
}

// Find returns the pass with a name in any list, nil if there is none.
func Find(name string) *Pass {
	for _, l := range []*List{&Portable, &Runtime} {
		for _, p := range l.Passes() {
			if p.Name == name {
				return p
			}
		}
	}
	return nil
}

// The standard allows operators for element types for which runtimes have no kernel: they
// refuse a file in which GlobalAveragePool of float64 replaces ReduceMean, which they run.
//
// withoutKernel holds these types for the operators that the portable passes make of
// others: what the CPU provider of ONNX Runtime 1.32 refuses to load, in any operator set
// (internal/tools/ortfuzz/kernels.py tries them; float16 is computed as float32 there).
// All other operators that the passes make run for every type for which the operators that
// they replace run. bfloat16 is left out, because not even Add runs for it.
var withoutKernel = map[string][]ndarray.DType{
	"Clip":              {ndarray.Int16, ndarray.Uint16},
	"Gelu":              {ndarray.Float64},
	"Gemm":              {ndarray.Int32, ndarray.Int64, ndarray.Uint32, ndarray.Uint64},
	"GlobalAveragePool": {ndarray.Float64},
	"HardSigmoid":       {ndarray.Float64},
	"HardSwish":         {ndarray.Float64},
	"Mish":              {ndarray.Float64},
	"Relu":              {ndarray.Int16, ndarray.Int64},
}

// withoutKernelFrom holds operators that the same runtime refuses, for any element type, in models that import this operator
// set or a newer one: it has no kernel, and takes the function that defines Swish for operator set 24 only.
var withoutKernelFrom = map[string]int{"Swish": 25}

// runs reports that the readers of the list's result have a kernel of an operator for an element type.
func (c *Context) runs(op string, dt ndarray.DType) bool {
	if !c.opts.List.CommonKernels {
		return true
	}
	from, isLimited := withoutKernelFrom[op]
	return !slices.Contains(withoutKernel[op], dt) && !(isLimited && c.module.OpsetVersion("") >= from)
}
