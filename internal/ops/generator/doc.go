// Package generator holds the operators of the default domain that make tensors
// from attributes and shapes: constants, ranges, random numbers.
package generator
