package rewrite

// simplify are the passes that only ever shrink; they run until nothing changes.
// Folding makes captures constant, so these are sunk again in every round.
var simplify = []*Pass{SinkConstants, ShapeFold, Targets, ShapeVectors, Fold, Identity, Views, Transposes, FoldAffine, Algebra, Gemm, Fuse, CSE, Unroll, Inline, LoopInvariant, Dead}

// absorb takes in what stands before weights. It comes when patterns have been
// recognized, because their factors would vanish into the weights.
var absorb = append([]*Pass{FoldBefore}, simplify...)

// Portable leaves a graph of standard ONNX operators, for writing the model back.
var Portable = List{
	Name: "portable",
	Stages: []Stage{
		{Name: "simplify", Repeat: true, Passes: simplify},
		{Name: "absorb", Repeat: true, Passes: absorb},
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
		{Name: "absorb", Repeat: true, Passes: absorb},
	},
}

// orderRules are the pairs whose order matters, each with its reason.
var orderRules = []orderRule{
	{SinkConstants, Fold, "folding inside bodies sees only the body's own constants"},
	{ShapeFold, Fold, "a chain that ends in known integers folds from its end, without computing its middle"},
	{Targets, Fold, "a chain whose end is not needed is not worth computing"},
	{Fold, FoldAffine, "parameters computed from constants must be constants first"},
	{FoldAffine, Algebra, "x - c and x / c are read as they are; the canonical forms would store their constants again"},
	{Targets, ShapeVectors, "a target that can be a constant need not be recomputed"},
	{Fuse, FoldBefore, "the factor of a pattern must not vanish into weights"},
	{FoldAffine, FoldBefore, "what can go into the weights before need not go into those after, which may be shared"},
	{Algebra, Fuse, "patterns are written in canonical arithmetic"},
	{Fuse, Inline, "a pattern inside a body is found there, however often the body is spliced"},
	{Lower, SinkConstants, "what becomes a capture of a loop may be a constant"},
	{Lower, Fuse, "the operators it writes are patterns"},
	{Quantized, Unpack, "weights that integers can be multiplied with must not become real numbers"},
	{Unpack, FoldBefore, "weights can take something in when they are real numbers"},
	{Dead, HoistConstants, "a capture for a reader that is dead would stay"},
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
