package ops

// Add is elementwise addition: https://onnx.ai/onnx/operators/onnx__Add.html
var Add = Op{
	Name: "Add", Since: 14, Form: since(7), Doc: "C = A + B",
	MinIn: 2, MaxIn: 2, MinOut: 1, MaxOut: 1,
	Infer: inferArithmetic, Eval: evalAdd,
	Facts:    Facts{Elementwise: true, Commutative: true},
	Upgrades: legacyBroadcast("Add"),
}

func evalAdd(c *Call) error {
	return evalArithmetic(c, arithmetic{
		float: func(a, b float64) float64 { return a + b },
		f32:   func(a, b float32) float32 { return a + b },
		int:   func(a, b int64) int64 { return a + b },
		uint:  func(a, b uint64) uint64 { return a + b },
		cplx:  func(a, b complex128) complex128 { return a + b },
	})
}
