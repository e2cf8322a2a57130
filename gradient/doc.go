// Package gradient differentiates graphs: [Of] appends to a graph the nodes that compute the
// derivative of one of its values by others. They are ordinary nodes of ONNX operators, so whatever
// holds for those holds for derivatives: they are optimized, fused and planned in one arena together
// with the nodes that they come from, exported, and differentiated again.
//
//	x ──▶ f ──▶ h ──▶ g ──▶ y          values, in order
//	dx ◀─ f' ◀─ dh ◀─ g' ◀─ dy = 1     their adjoints, in reverse order
//
// A value read by several nodes gets the sum of what each sends back. Each operator has a rule, a
// function that writes the adjoints of a node's operands with operators; [HasAdjoints] tells which
// have one. Operators that stand for a formula, those of com.microsoft above all, are written out and
// the formula is differentiated. If, Loop and Scan are differentiated through their bodies: the nodes of
// a body are computed a second time in the backward pass, from the carried values of each iteration, which
// the forward loop keeps as stacked outputs.
//
// The operator Gradient of package ops/training, package train and backend/gorgonia share these rules.
//
// Source: Griewank and Walther, "Evaluating Derivatives" (SIAM 2008), section 3.2.
package gradient
