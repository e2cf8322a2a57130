// Package ssa is berth's intermediate representation: a typed, single-assignment
// graph of ONNX operators.
//
//	Module ── Graph ── Params   values that come from outside
//	               ├── Nodes    in a legal execution order
//	               ├── Results  values that leave
//	               └── values   dense ids: side tables are slices
//
// Every value is defined once: by a node, as a parameter, or as a constant.
// Control flow is structured: If, Loop and Scan own bodies ([Node.Bodies]), and
// every outer value a body reads is an explicit operand of the node and a
// parameter of the body, so that no graph refers outside itself and every
// analysis sees every use.
//
// Operands of control flow, with c the captured values, always last:
//
//	If    in: cond, c...                     body params: c... (the same list for both branches)
//	Loop  in: M, cond, carried..., c...      body params: iter, cond, carried..., c...
//	Scan  in: states..., scanned..., c...    body params: states..., slices..., c...
//
// [Node.Captures] is len(c). Other nodes with bodies (SequenceMap, unknown ones)
// follow the same rule: formal operands first, captures last.
//
// # Panics
//
// A function that returns an error returns one whatever its arguments are. The others take what
// is not nil and belongs to a graph that [Check] accepts; indices and counts are within it; they panic otherwise.
package ssa
