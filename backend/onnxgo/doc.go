// Package onnxgo runs the models of programs written for github.com/owulveryck/onnx-go with berth: its planned memory, its
// operators and its kernels. A program changes one line:
//
//	backend := onnxgo.NewGraph() // before: gorgonnx.NewGraph()
//	model := onnx.NewModel(backend)
//	err := model.UnmarshalBinary(data)
//	model.SetInput(0, x)
//	err = backend.Run()
//	out, err := model.GetOutputTensors()
//
// GetOutputTensors has no error of a run: it gives placeholders of zeros before the first one, and nil tensors after a run that
// failed, as each does once the graph is closed. The error is that of Run.
//
// # What onnx-go does not hand over
//
// onnx-go decodes the file and tells a backend of nodes, edges, weights and attributes. On the way it loses the versions
// and domains of operators, functions, sparse initializers and which values are results; models with sub-graphs, half
// types, external data and many kinds of initializers it refuses itself. Of what is lost, a [Graph] recovers what follows
// from the rest: the operator set is any of those in which the nodes are valid, and where two of them mean different things
// for the inputs at hand, [Graph.Run] fails with a [*LossError] that names the operator.
//
// Nothing is lost where the graph reads the file itself:
//
//	err := backend.Parse(model, data)         // instead of model.UnmarshalBinary(data)
//	err = backend.Open(model, "model.onnx")   // or this: the same, weights stay in the mapped file
//
// # Memory
//
// Weights are used where onnx-go put them. Intermediate values have a planned arena; results are fresh tensors, which later
// runs leave alone. A graph compiles at its first run and for each new set of input shapes, the last few of which it keeps.
//
// # Concurrency
//
// The methods of a Graph and its nodes may be called from several goroutines, one after another is served. Setting inputs,
// running and fetching results are three calls, though: goroutines that share a graph must agree on whose turn it is.
// Servers use a Graph for each goroutine or a [berth.Program], which any number of them may run.
package onnxgo
