package onnxwire

import (
	"bufio"
	"encoding/binary"
	"io"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"
)

// ScannedTensor is what stands beside the elements of a serialized tensor, and where they are.
type ScannedTensor struct {
	*Tensor       // without elements
	At, Len int64 // of RawData in the file, in bytes; Len is 0 where there is none, or elements are elsewhere, too
}

const (
	rawData = 9 // number of the field

	// mostBeside is how many bytes may stand beside the elements, about.
	mostBeside = 1 << 16
)

// typedData are the fields with lists of elements.
var typedData = []protowire.Number{4, 5, 6, 7, 10, 11}

// ScanTensor reads a TensorProto of size bytes without its elements, so that its type can be looked at before, and RawData be read
// to where it belongs. ok is false for other forms than tools write, and for a file that [ParseTensor] is to tell the fault of.
func ScanTensor(r io.ReaderAt, size int64) (t ScannedTensor, ok bool) {
	var beside []byte // the message without elements
	places := 0       // where elements are
	for at := int64(0); at < size; {
		f, ok := scanField(r, at, size)
		if !ok || len(beside) > mostBeside {
			return t, false
		}
		isRaw := f.num == rawData
		if isRaw || slices.Contains(typedData, f.num) {
			if places++; isRaw {
				t.At, t.Len = at+f.head, f.size
			}
			at += f.head + f.size
			continue
		}
		field := make([]byte, f.head+f.size)
		if _, err := r.ReadAt(field, at); err != nil {
			return t, false
		}
		beside, at = append(beside, field...), at+int64(len(field))
	}
	if places != 1 {
		t.Len = 0
	}
	var err error
	t.Tensor, err = ParseTensor(beside)
	return t, err == nil && t.Segment == nil && t.DataLocation == DataDefault
}

// scannedField is a field of a message in a file: its tag and length, and what follows them.
type scannedField struct {
	num        protowire.Number
	head, size int64 // bytes
}

// scanField reads what stands before a field's content, which has elements or is small.
func scanField(r io.ReaderAt, at, end int64) (f scannedField, ok bool) {
	s := bufio.NewReaderSize(io.NewSectionReader(r, at, end-at), 2*binary.MaxVarintLen64)
	tag, err := binary.ReadUvarint(s)
	if err != nil {
		return f, false
	}
	num, typ := protowire.DecodeTag(tag)
	value, err := binary.ReadUvarint(s)
	f.num, f.head = num, int64(protowire.SizeVarint(tag))
	if err != nil || num < 1 {
		return f, false
	}
	length := int64(protowire.SizeVarint(value))
	switch typ {
	case protowire.VarintType: // elements of a list that is not packed are too many to look at one by one
		f.size = length
		return f, !slices.Contains(typedData, num)
	case protowire.BytesType:
		f.head += length
		f.size = int64(value)
		hasElements := num == rawData || slices.Contains(typedData, num)
		return f, value <= uint64(end-at-f.head) && (hasElements || value <= mostBeside)
	}
	return f, false
}
