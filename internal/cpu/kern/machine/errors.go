package machine

import (
	"fmt"
	"math"
)

// SpecError says which field of a kernel's specification is invalid or not supported.
type SpecError struct {
	Kernel string // "Gemm", "Conv", ...
	Field  string // the field at fault
	Why    string // what is wrong with it
}

// Error gives kernel, field and reason.
func (e *SpecError) Error() string {
	return fmt.Sprintf("%s: %s: %s", e.Kernel, e.Field, e.Why)
}

// SizeError says that an operand or the workspace of a run is too short.
type SizeError struct {
	Kernel  string
	Operand string // "A", "B", "C", "bias", "workspace", ...
	Have    int    // its length: bytes of the workspace, elements of other operands
	Need    int    // the length that the run needs
}

// Error gives kernel, operand and both lengths.
func (e *SizeError) Error() string {
	unit := "elements"
	if e.Operand == "workspace" {
		unit = "bytes"
	}
	return fmt.Sprintf("%s: %s has %d %s, needs %d", e.Kernel, e.Operand, e.Have, unit, e.Need)
}

// Needs returns a SizeError when a slice is shorter than it must be.
func Needs[T any](kernel, operand string, s []T, n int) error {
	if len(s) < n {
		return &SizeError{kernel, operand, len(s), n}
	}
	return nil
}

// MaxExtent bounds sizes, so that a few of them can be added without overflow.
const MaxExtent = math.MaxInt >> 4

// MulAll multiplies extents, reporting false on overflow or a negative factor.
func MulAll(xs ...int) (int, bool) {
	p := 1
	for _, x := range xs {
		if x < 0 || (x > 0 && p > MaxExtent/x) {
			return 0, false
		}
		p *= x
	}
	return p, true
}
