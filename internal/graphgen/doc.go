// Package graphgen draws random graphs that are valid by construction, random
// operands for them, and compares results: the other half of every test that
// says "this rewrite (plan, kernel) changes nothing".
package graphgen
