// Package trim gives back the code that the initialization of packages has run, while others are still to be initialized: what is
// resident before the command does anything is the most that either half takes, not the sum.
//
// Packages are initialized in the order of their import paths, as far as their imports allow (https://go.dev/ref/spec#Package_initialization).
// This one needs internal/sysmem alone and comes before the packages of this module that sort behind cmd/berth: before it are
// the libraries below Gorgonia, behind it are operators, kernels and backends.
package trim

import "github.com/berth-onnx/berth/internal/sysmem"

func init() { sysmem.DropCode() }
