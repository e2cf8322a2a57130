package ops

// Add is elementwise addition: https://onnx.ai/onnx/operators/onnx__Add.html
var Add = binaryOp("Add", 14, "C = A + B", addition.eval, arithmeticForm()).commutative().broadcasting()
