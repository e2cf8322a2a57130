package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/sbinet/npyio"

	"github.com/berth-onnx/berth/ndarray"
)

// npyTypes pairs element types with NumPy's names for them.
var npyTypes = []struct {
	dt    ndarray.DType
	descr string
}{
	{ndarray.Float32, "<f4"}, {ndarray.Float64, "<f8"}, {ndarray.Float16, "<f2"}, {ndarray.Int8, "|i1"}, {ndarray.Int16, "<i2"},
	{ndarray.Int32, "<i4"}, {ndarray.Int64, "<i8"}, {ndarray.Uint8, "|u1"}, {ndarray.Uint16, "<u2"}, {ndarray.Uint32, "<u4"},
	{ndarray.Uint64, "<u8"}, {ndarray.Bool, "|b1"}, {ndarray.Complex64, "<c8"}, {ndarray.Complex128, "<c16"},
	{ndarray.Int4, "|i1"}, {ndarray.Uint4, "|u1"}, {ndarray.Int2, "|i1"}, {ndarray.Uint2, "|u1"}, // written as bytes
}

// widened is how many of npyTypes, the last ones, are written as others.
const widened = 4

// writeNPY writes a NumPy file. Types NumPy lacks are widened to float32, or to
// bytes for integers narrower than one.
func writeNPY(w io.Writer, a *ndarray.Array) error {
	descr, data := npyType(a)
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
	if _, err := fmt.Fprintf(w, "\x93NUMPY\x01\x00%c%c%s", byte(len(head)), byte(len(head)>>8), head); err != nil {
		return err
	}
	_, err := w.Write(data)
	return err
}

// npyType returns NumPy's name and the bytes of an array.
func npyType(a *ndarray.Array) (string, []byte) {
	for _, t := range npyTypes {
		if t.dt == a.DType {
			return t.descr, a.Data
		}
	}
	return "<f4", ndarray.Bytes(a.Floats32())
}

// npyHolds reports a type that NumPy has, so that nothing is widened.
func npyHolds(dt ndarray.DType) bool {
	for _, t := range npyTypes[:len(npyTypes)-widened] {
		if t.dt == dt {
			return true
		}
	}
	return false
}

// maxNPY bounds the elements read from a file, in bytes.
const maxNPY = 1 << 34

// readNPY reads a NumPy file into an array.
func readNPY(r io.Reader, memory ndarray.Budget) (*ndarray.Array, error) {
	h, err := npyHeader(r)
	if err != nil {
		return nil, err
	}
	for _, t := range npyTypes {
		if t.descr != h.Descr.Type {
			continue
		}
		n, err := ndarray.ByteSize(t.dt, h.Descr.Shape)
		if err != nil || int64(n) > maxNPY {
			return nil, fmt.Errorf("shape %v is too large", h.Descr.Shape)
		}
		data, err := readElements(r, n, memory)
		if err != nil {
			return nil, err
		}
		if h.Descr.Fortran {
			data = rowMajor(data, h.Descr.Shape, t.dt.Size())
		}
		return (&ndarray.Array{DType: t.dt, Shape: h.Descr.Shape, Data: data}).Clone(), nil // aligned
	}
	return nil, fmt.Errorf("NumPy type %q is not supported", h.Descr.Type)
}

// rowMajor reorders elements of some size whose first index changes fastest (Fortran's order) so that the last one does.
func rowMajor(data []byte, shape []int, size int) []byte {
	out := make([]byte, len(data))
	at := make([]int, len(shape)) // index of the next element of out
	strides := make([]int, len(shape))
	step := size
	for i, n := range shape {
		strides[i] = step
		step *= n
	}
	from := 0
	for to := 0; to < len(out); to += size {
		copy(out[to:to+size], data[from:])
		for i := len(shape) - 1; i >= 0; i-- {
			at[i]++
			from += strides[i]
			if at[i] < shape[i] {
				break
			}
			from -= at[i] * strides[i]
			at[i] = 0
		}
	}
	return out
}

// npyHeader reads what stands before the elements. The reader panics on some
// damaged headers.
func npyHeader(r io.Reader) (h npyio.Header, err error) {
	defer func() {
		if recover() != nil {
			err = fmt.Errorf("the NumPy header is damaged")
		}
	}()
	nr, err := npyio.NewReader(r)
	if err != nil {
		return h, err
	}
	return nr.Header, nil
}

// chunk is how much is read before more memory is taken, so that a short file can
// not ask for much.
const chunk = 1 << 24

// npyCopies is how many copies of an array may be alive while it is read: as it grows, in order of rows, aligned.
const npyCopies = 3

func readElements(r io.Reader, n int, memory ndarray.Budget) ([]byte, error) {
	data := make([]byte, 0, min(n, chunk))
	for len(data) < n {
		old, more := len(data), min(n-len(data), chunk)
		if err := memory.Ask("the array", int64(npyCopies*more)); err != nil {
			return nil, err
		}
		data = append(data, make([]byte, more)...)
		if _, err := io.ReadFull(r, data[old:]); err != nil {
			return nil, fmt.Errorf("the file ends before its %d bytes of elements", n)
		}
	}
	return data, nil
}
