package npy

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/berth-onnx/berth/ndarray"
)

const (
	magic = "\x93NUMPY"

	// mostHeader is how long a header may be, in bytes. NumPy refuses 10,000.
	mostHeader = 1 << 16

	// piece is how much is read before the context is looked at again, in bytes: a multiple of every element's size.
	piece = 1 << 20
)

// Header is what stands before the elements.
type Header struct {
	DType       ndarray.DType
	Shape       []int
	ColumnMajor bool // the first index changes fastest (Fortran's order)
	bigEndian   bool // the highest byte of a number comes first
}

// Read reads a .npy file of size bytes. check, which may be nil, refuses an array by its header, before memory is taken. Bytes
// behind the elements are an error, since NumPy would read several arrays of such a file one by one. An array beyond the budget of the context is an [ndarray.Budget]'s error.
func Read(ctx context.Context, r io.Reader, size int64, check func(Header) error) (*ndarray.Array, error) {
	return read(ctx, bufio.NewReaderSize(r, mostHeader), size, check)
}

func read(ctx context.Context, r *bufio.Reader, size int64, check func(Header) error) (*ndarray.Array, error) {
	h, length, err := readHeader(r)
	if err != nil {
		return nil, err
	}
	n, err := ndarray.ByteSize(h.DType, h.Shape)
	if err != nil {
		return nil, fmt.Errorf("shape %s is too large", strings.ReplaceAll(fmt.Sprint(h.Shape), " ", ","))
	}
	if check != nil {
		if err := check(h); err != nil {
			return nil, err
		}
	}
	short := fmt.Errorf("the file ends before its %d bytes of elements", n)
	switch rest := size - length; {
	case int64(n) > rest:
		return nil, short
	case int64(n) < rest:
		return nil, fmt.Errorf("there are %d bytes behind the array, which has %d; save one array in a file", rest-int64(n), n)
	}
	a, err := ndarray.NewContext(ctx, ndarray.BudgetOf(ctx), h.DType, h.Shape...)
	if err != nil {
		return nil, err
	}
	if h.ColumnMajor && len(h.Shape) > 1 {
		err = readColumns(ctx, r, a)
	} else {
		err = readPieces(ctx, r, a.Data)
	}
	if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
		err = short
	}
	if err != nil {
		return nil, err
	}
	if h.bigEndian {
		swap(a)
	}
	if a.DType == ndarray.Bool {
		for i, b := range a.Data {
			a.Data[i] = min(b, 1)
		}
	}
	return a, nil
}

// readPieces fills data.
func readPieces(ctx context.Context, r io.Reader, data []byte) error {
	for len(data) > 0 {
		if err := ctx.Err(); err != nil {
			return err
		}
		n := min(len(data), piece)
		if _, err := io.ReadFull(r, data[:n]); err != nil {
			return err
		}
		data = data[n:]
	}
	return nil
}

// readColumns fills an array with elements whose first index changes fastest.
func readColumns(ctx context.Context, r io.Reader, a *ndarray.Array) error {
	size := a.DType.Size()
	strides, step := make([]int, len(a.Shape)), size
	for i := len(a.Shape) - 1; i >= 0; i-- {
		strides[i] = step
		step *= a.Shape[i]
	}
	at, to := make([]int, len(a.Shape)), 0 // index of the next element, and where it belongs
	buf := make([]byte, min(piece, len(a.Data)))
	for left := len(a.Data); left > 0; {
		b := buf[:min(len(buf), left)]
		if err := readPieces(ctx, r, b); err != nil {
			return err
		}
		left -= len(b)
		for ; len(b) > 0; b = b[size:] {
			copy(a.Data[to:to+size], b)
			for i := range at {
				at[i]++
				to += strides[i]
				if at[i] < a.Shape[i] {
					break
				}
				to -= at[i] * strides[i]
				at[i] = 0
			}
		}
	}
	return nil
}

// readHeader reads what stands before the elements, and how many bytes that is.
func readHeader(r *bufio.Reader) (h Header, length int64, err error) {
	start, err := r.Peek(12)
	if err != nil || !strings.HasPrefix(string(start), magic) {
		return h, 0, errors.New("no NumPy file: it does not begin with NUMPY and a header")
	}
	if start[6] < 1 || start[6] > 3 || start[7] != 0 {
		return h, 0, fmt.Errorf("version %d.%d of NumPy's format is not known; 1.0, 2.0 and 3.0 are", start[6], start[7])
	}
	from := int64(10)
	if length = from + int64(binary.LittleEndian.Uint16(start[8:])); start[6] > 1 {
		from = 12
		length = from + int64(binary.LittleEndian.Uint32(start[8:]))
	}
	if length > mostHeader {
		return h, 0, fmt.Errorf("the NumPy header is said to have %d bytes", length)
	}
	text := make([]byte, length)
	if _, err := io.ReadFull(r, text); err != nil {
		return h, 0, errors.New("the file ends within the NumPy header")
	}
	h, err = parseHeader(string(text[from:]))
	return h, length, err
}
