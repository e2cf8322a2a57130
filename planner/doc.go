// Package planner gives every buffer of a program an offset in one arena, so that no two buffers that are alive together
// share a byte, and says how far from the optimum the plan can be. It knows nothing of ONNX.
//
//	bytes
//	   |  cccccc          A Problem: buffers with a size and a live range.
//	   |  cccccc  dd      A Solution: an offset each, the height of the arena,
//	   |aaaabbbbbbdd      a lower bound and what proves it.
//	   +-------------> time
//
// # Use
//
//	p := &planner.Problem{Buffers: []planner.Buffer{
//		{Name: "a", Size: 1000, Lo: 0, Hi: 3},
//		{Name: "b", Size: 400, Lo: 3, Hi: 7},
//	}}
//	auto, _ := planner.Get("auto")
//	s, err := auto.Plan(ctx, p)   // err is a *ProblemError: the problem itself is wrong
//	err = planner.Validate(p, s)  // err is a *Fault: the plan is wrong
//	s.Offsets, s.ArenaBytes, s.LowerBound, s.Proven()
//
// # Lives
//
// With Problem.Order nil, buffer i lives in the half-open interval [Lo, Hi) less its Holes: one fixed schedule. A
// Partial order instead covers every schedule of a graph, concurrent branches included. Buffers of size zero get an offset
// and interfere with nothing. Offsets are multiples of Buffer.Align and of Problem.Align.
//
// # Planners
//
// Get and Names give access to all of them; every one honours alignment and both kinds of order.
// One file each: naive, pool, dsatur, greedy-size, greedy-breadth, best-fit, the nnc family, hill-climb, exact, and auto, which is
// the one to use.
//
// Results do not depend on the machine or its load: searches count their own steps, and the context is only an outer
// limit. A planner whose context ends answers with the best plan it has.
//
// # Panics
//
// A function that returns an error returns one whatever its arguments are. The others take what
// is not nil, and indices of buffers that are there; they panic otherwise.
package planner
