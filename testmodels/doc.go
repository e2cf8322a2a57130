// Package testmodels builds ONNX models in Go: small ones that each show one
// thing (branches, loops, residuals, concatenation, shared weights, dynamic
// shapes) and real architectures with seeded weights. They need no file and are
// what `berth` works on when no model is given.
package testmodels
