// Package reduction holds the operators of the default domain that work along
// axes: reductions, arg-max, cumulative sums, softmax, top k.
package reduction
