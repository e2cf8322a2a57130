package rewrite

// Portable leaves a graph of standard ONNX operators, for writing the model back.
var Portable = List{
	{Name: "prepare", Passes: []*Pass{SinkConstants}},
	{Name: "simplify", Repeat: true, Passes: []*Pass{ShapeFold, Fold, Identity, CSE, Dead}},
	{Name: "finish", Passes: []*Pass{HoistConstants}},
}

// Runtime goes further for the executor: it may copy constants freely.
var Runtime = List{
	{Name: "prepare", Passes: []*Pass{SinkConstants}},
	{Name: "simplify", Repeat: true, Passes: []*Pass{ShapeFold, Fold, Identity, CSE, Dead}},
}

// orderRules are the pairs whose order matters, each with its reason.
var orderRules = []orderRule{
	{SinkConstants, Fold, "folding inside bodies sees only the body's own constants"},
	{ShapeFold, Fold, "a chain that ends in known integers folds from its end, without computing its middle"},
	{Dead, HoistConstants, "a capture for a reader that is dead would stay"},
}

func init() {
	for _, l := range []List{Portable, Runtime} {
		if err := l.validate(orderRules); err != nil {
			panic(err)
		}
	}
}

// Find returns the pass with a name in any list, nil if there is none.
func Find(name string) *Pass {
	for _, l := range []List{Portable, Runtime} {
		for _, p := range l.Passes() {
			if p.Name == name {
				return p
			}
		}
	}
	return nil
}
