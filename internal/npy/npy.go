// Package npy reads and writes arrays as NumPy keeps them: .npy files and .npz archives.
//
// Files are untrusted. What a header says is told to the caller before memory is taken for the elements, which are then read into
// the array's own memory, within the budget of the context ([ndarray.BudgetOf]); column-major ones are put in order on the way. So
// reading takes the bytes of the array and a buffer:
//
//	header ──▶ check: type and shape ──▶ budget ──▶ elements
//
// The package knows nothing of models.
package npy

import (
	"fmt"
	"io"
	"strings"

	"github.com/berth-onnx/berth/ndarray"
)

// types pairs element types with NumPy's names for them.
var types = []struct {
	dt    ndarray.DType
	descr string
}{
	{ndarray.Float32, "<f4"}, {ndarray.Float64, "<f8"}, {ndarray.Float16, "<f2"}, {ndarray.Int8, "|i1"}, {ndarray.Int16, "<i2"},
	{ndarray.Int32, "<i4"}, {ndarray.Int64, "<i8"}, {ndarray.Uint8, "|u1"}, {ndarray.Uint16, "<u2"}, {ndarray.Uint32, "<u4"},
	{ndarray.Uint64, "<u8"}, {ndarray.Bool, "|b1"}, {ndarray.Complex64, "<c8"}, {ndarray.Complex128, "<c16"},
	{ndarray.Int4, "|i1"}, {ndarray.Uint4, "|u1"}, {ndarray.Int2, "|i1"}, {ndarray.Uint2, "|u1"}, // written as bytes
}

// widened is how many of types, the last ones, are written as others.
const widened = 4

// Write writes a .npy file. Types that NumPy lacks are widened to float32, or to bytes for integers narrower than one.
func Write(w io.Writer, a *ndarray.Array) error {
	descr, data := described(a)
	shape := make([]string, len(a.Shape))
	for i, d := range a.Shape {
		shape[i] = fmt.Sprint(d)
	}
	tuple := strings.Join(shape, ", ")
	if len(shape) == 1 {
		tuple += ","
	}
	head := fmt.Sprintf("{'descr': '%s', 'fortran_order': False, 'shape': (%s), }", descr, tuple)
	pad := 64 - (10+len(head)+1)%64
	head += strings.Repeat(" ", pad%64) + "\n"
	if _, err := fmt.Fprintf(w, "%s\x01\x00%c%c%s", magic, byte(len(head)), byte(len(head)>>8), head); err != nil {
		return err
	}
	_, err := w.Write(data)
	return err
}

// described returns NumPy's name and the bytes of an array.
func described(a *ndarray.Array) (string, []byte) {
	for _, t := range types {
		if t.dt == a.DType {
			return t.descr, a.Data
		}
	}
	return "<f4", ndarray.Bytes(a.Floats32())
}

// Holds reports a type that NumPy has, so that nothing is widened.
func Holds(dt ndarray.DType) bool {
	for _, t := range types[:len(types)-widened] {
		if t.dt == dt {
			return true
		}
	}
	return false
}
