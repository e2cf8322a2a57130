package ops

// Sub is elementwise subtraction: https://onnx.ai/onnx/operators/onnx__Sub.html
var Sub = Op{
	Name: "Sub", Since: 14, Form: arithmeticForm(), Doc: "C = A - B",
	MinIn: 2, MaxIn: 2, MinOut: 1, MaxOut: 1,
	Infer: rule(inferArithmetic),
	Eval: kernel(arithmetic{
		float: func(a, b float64) float64 { return a - b },
		f32:   func(a, b float32) float32 { return a - b },
		int:   func(a, b int64) int64 { return a - b },
		uint:  func(a, b uint64) uint64 { return a - b },
		cplx:  func(a, b complex128) complex128 { return a - b },
	}.eval),
	Facts:    Facts{Elementwise: true},
	Upgrades: legacyBroadcast("Sub"),
}
