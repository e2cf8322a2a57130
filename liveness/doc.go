// Package liveness says when every tensor of a program is live.
//
// [Build] lays a graph and all its bodies out in time: one step per node, loop
// bodies repeated as often as the planner must see them (package loops says how
// often), branches of an If one after the other. Each value becomes a variable:
//
//	Block    owns bytes the planner must place
//	Pointer  owns none: its bytes are those of its sources (views, parameters,
//	         results of control flow); it keeps them alive as long as it is
//	Outside  constants, inputs, values whose size is known only while running
//
// [Flow.Solve] then solves the dataflow equations to a fixed point, and
// [Timeline.Live] gives every block the points at which anything needs its bytes.
//
// # Panics
//
// A function that returns an error returns one whatever its arguments are. The others take what
// is not nil and was made by functions of this package; they panic otherwise.
package liveness
