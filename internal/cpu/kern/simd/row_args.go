package simd

import "unsafe"

// RowArgs is the argument block of the functions of rows; the generated code knows the
// fields by their offsets: do not reorder.
type RowArgs struct {
	Dst, Src    unsafe.Pointer // rows of Cols elements, one after the other; may be the same
	Gamma, Beta unsafe.Pointer // Cols elements, of normalizations
	Rows, Cols  int            // at least one; Rows counts down to what is still to do
	Size, Eps   float64        // Size is Cols
}

// RowKernel names a function of rows.
type RowKernel uint8

// The functions of rows.
const (
	SoftmaxRows   RowKernel = iota
	LayerNormRows           // ends at a row whose variance is not finite
	RMSNormRows             // ends at a row whose mean of squares is not finite
)

// shortRowVectors is the number of vectors that a short row has at most.
const shortRowVectors = 4

// rowShape is the kernel for rows of so many elements: the number of vectors of a short
// row, 0 for any.
func (t *Table) rowShape(cols int) int {
	if n := (cols + t.lanes - 1) / t.lanes; n <= shortRowVectors {
		return n
	}
	return 0
}
