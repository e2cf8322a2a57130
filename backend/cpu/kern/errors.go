package kern

import (
	"fmt"
	"math"
)

// SpecError says which field of a kernel's specification cannot be served.
type SpecError struct {
	Kernel string // "Gemm", "Conv", ...
	Field  string // the field at fault
	Why    string // what is wrong with it
}

// Error gives kernel, field and reason.
func (e *SpecError) Error() string {
	return fmt.Sprintf("kern: %s: %s: %s", e.Kernel, e.Field, e.Why)
}

// SizeError says that an operand or the workspace of a run is too short.
type SizeError struct {
	Kernel  string
	Operand string // "A", "B", "C", "bias", "workspace", ...
	Have    int    // its length; bytes for the workspace, elements otherwise
	Need    int
}

// Error gives kernel, operand and both lengths.
func (e *SizeError) Error() string {
	return fmt.Sprintf("kern: %s: %s holds %d, needs %d", e.Kernel, e.Operand, e.Have, e.Need)
}

// needs returns a SizeError when a slice is shorter than it must be.
func needs[T any](kernel, operand string, s []T, n int) error {
	if len(s) < n {
		return &SizeError{kernel, operand, len(s), n}
	}
	return nil
}

// maxExtent bounds sizes, so that a few of them can be added without overflow.
const maxExtent = math.MaxInt >> 4

// mulAll multiplies extents, reporting false on overflow or a negative factor.
func mulAll(xs ...int) (int, bool) {
	p := 1
	for _, x := range xs {
		if x < 0 || (x > 0 && p > maxExtent/x) {
			return 0, false
		}
		p *= x
	}
	return p, true
}
