// Package kit holds what the families of operators share: forms, type rules and
// known contents for their shape rules, and access to elements, broadcasting,
// moving and multiplying for their reference kernels.
package kit
