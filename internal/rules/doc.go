// Package rules plans a graph by the rules that other tools publish for themselves.
//
// The figures are these rules carried out here, on the graph and in the order that
// berth's own planners get; they are no measurements of the tools, which rewrite graphs
// first and choose orders of their own. Nothing is shared with packages liveness, loops
// and inplace: a rule has its own idea of what lives when, and what may share.
//
// What is common to all of them: graphs are planned one by one, a body of control flow
// by itself, in memory of its own that its owner holds while it runs. A body's
// parameters are copies, except for captured values. Inputs of the model, weights, and
// values whose size only a run tells are not counted, and results of the model are: as
// in the other rows of a comparison.
//
// Plans are verified by a replay (replay.go). A rule that is not sound for a graph gets its
// figure with the reason.
package rules
