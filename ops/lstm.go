package ops

// LSTM is a long short-term memory layer: https://onnx.ai/onnx/operators/onnx__LSTM.html
//
//	i = f(X·Wiᵀ + H·Riᵀ + Pi∘C + Wbi + Rbi)
//	f = f(X·Wfᵀ + H·Rfᵀ + Pf∘C + Wbf + Rbf)        input_forget: f = 1 - i
//	c = g(X·Wcᵀ + H·Rcᵀ + Wbc + Rbc)
//	C = f∘C + i∘c
//	o = f(X·Woᵀ + H·Roᵀ + Po∘C + Wbo + Rbo)
//	H = o∘h(C)
//
// The weights hold the gates in the order i, o, f, c.
var LSTM = Op{
	Name: "LSTM", Since: 22, Form: bf16Since22(7), Doc: "C = f∘C + i∘c, H = o∘h(C) over a sequence",
	MinIn: 3, MaxIn: 8, MinOut: 0, MaxOut: 3,
	Attrs: append([]AttrSpec{intAttr("input_forget", 0)}, recurrentAttrs...), Infer: rule(inferRecurrent(2)),
	Eval:  floatKernel(evalLSTM[float32], evalLSTM[float64]),
	Facts: Facts{Traits: general, Cost: recurrentCost(4)},
}

func evalLSTM[T float32 | float64](c *Call) {
	hidden := hiddenOf(c)
	r := recurrenceOf(c, 4, hidden)
	r.checkWeights(tensor(c, 1), tensor(c, 2), c.Array(3))
	p := recurrentParts[T]{}
	p.input, p.hidden = floatProducts(&r, elements[T](c.Array(0)), elements[T](c.Array(1)), elements[T](c.Array(2)))
	runLSTM(c, &r, p)
}
