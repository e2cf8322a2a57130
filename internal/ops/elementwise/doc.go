// Package elementwise holds the operators of the default domain that work on
// elements one by one: arithmetic, activations, comparisons, logic, casts.
package elementwise
