// Package graphgen draws random graphs that are valid by construction and random
// operands for them, and compares results, for tests that a rewrite, a plan or a
// kernel changes none.
package graphgen
