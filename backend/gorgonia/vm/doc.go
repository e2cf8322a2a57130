// Package vm runs any *gorgonia.ExprGraph over one planned arena, with the kernels of this
// module. It is a gorgonia.VM, to be used in the place of a tapeMachine:
//
//	machine, err := vm.New(g)
//	defer machine.Close()
//	gorgonia.Let(x, batch)
//	err = machine.RunAll()
//	solver.Step(gorgonia.NodesToValueGrads(weights))
//
// New writes the graph, gradients that gorgonia.Grad added to it included, as a graph of
// ONNX operators, orders it for least memory, folds results over operands, and plans all
// values in one arena; passes then allocate nothing.
//
//	inputs, weights ──read in place──▶ ┌── arena ─────────────────────────┐
//	                                   │ intermediate values, by lifetime │
//	values of output nodes ◀─windows── │ outputs and gradients            │
//	                                   └──────────────────────────────────┘
//
// # What can be read after a pass
//
// The values of output nodes, which are those that no other node reads; the gradients of
// inputs, by Node.Grad; what gorgonia.Read names; and the nodes given to [Keep]. They are
// windows over the arena: the next pass overwrites them. Other nodes have no value, since
// their memory is in use for something else by then.
//
// # Differences from tapeMachine
//
// Gradients are those of one pass. They do not add up over passes, whether a solver has
// cleared them or not. Ops compute what they are documented to compute where the code of
// Gorgonia v0.9.18 does not: average pooling and its gradient, the gradient of dropout.
// Reset does nothing; a pass never continues an earlier one.
package vm
