// Package gorgonia lets programs that work with gorgonia.org/tensor use berth.
//
// One line gives a model the API in *tensor.Dense:
//
//	m, err := berth.Open("model.onnx")
//	g := gorgonia.Wrap(m)
//	out, err := g.Run(ctx, map[string]*tensor.Dense{"x": x})
//
// [ArrayOf] and [DenseOf] convert between tensors and arrays, without a copy wherever the elements lie in row-major order.
// Element types that Go lacks are those of package berth (berth.Float16, …), registered as tensor.Dtypes.
//
// Importing this package also registers the backend "gorgonia" ([New]): the nodes of a program run as gorgonia.Ops over tensors
// in the planned arena. Package engine, below, computes tensors of the caller's own.
//
// The packages of gorgonia.org are linked by programs that import this one, and by no other.
package gorgonia
