// Package program compiles a typed graph into a flat list of instructions over
// one planned arena, and runs it.
//
//	Compile ── prepare kernels, lay out the timeline, fold, plan offsets, verify the plan
//	Program ── immutable: slots (where each value lies), blocks of instructions
//	Session ── one arena and the headers that point into it; one run at a time
//
// A loop's body exists once: before each iteration the headers of its values are
// pointed at the offsets this iteration uses. Nothing is moved.
package program
