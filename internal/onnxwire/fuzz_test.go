package onnxwire

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"
)

// seeds are messages of all kinds, in the order of fuzzReaders.
func seeds() []Message {
	return []Message{
		filled[Model](2), filled[Tensor](2), filled[SparseTensor](2), filled[Sequence](1), filled[Map](2), filled[Optional](2),
	}
}

// fuzzReaders are the ways into the package, one for each kind of file.
var fuzzReaders = []func([]byte) (Message, error){
	func(b []byte) (Message, error) { return orNil(Parse(b)) },
	func(b []byte) (Message, error) { return orNil(ParseTensor(b)) },
	func(b []byte) (Message, error) { return orNil(parse[SparseTensor](b, "sparse_tensor")) },
	func(b []byte) (Message, error) { return orNil(parse[Sequence](b, "sequence")) },
	func(b []byte) (Message, error) { return orNil(parse[Map](b, "map")) },
	func(b []byte) (Message, error) { return orNil(parse[Optional](b, "optional")) },
}

// FuzzParse: whatever the bytes, reading answers with a typed error or with a message that is written and read back equal.
func FuzzParse(f *testing.F) {
	for _, m := range seeds() {
		b, err := Marshal(m)
		require.NoError(f, err)
		for kind := range fuzzReaders {
			f.Add(uint8(kind), b)
		}
		f.Add(uint8(0), b[:len(b)/2])
	}
	f.Add(uint8(0), []byte{0x3a, 0xff, 0xff, 0xff, 0xff, 7})
	f.Add(uint8(1), []byte{0x0a, 3, 1, 2, 0x80})
	f.Fuzz(func(t *testing.T, kind uint8, data []byte) {
		read := fuzzReaders[int(kind)%len(fuzzReaders)]
		first, err := read(data)
		if err != nil {
			switch err.(type) {
			case *SyntaxError, *ModelError:
				return
			}
			t.Fatalf("%T is no error of this package: %v", err, err)
		}
		written, err := Marshal(first)
		require.NoError(t, err)
		second, err := read(written)
		require.NoError(t, err)
		require.True(t, equal(first, second), "reading back gives another message")
		var streamed bytes.Buffer
		_, err = WriteTo(t.Context(), &streamed, second)
		require.NoError(t, err)
		require.True(t, bytes.Equal(written, streamed.Bytes()), "the second writing differs")
	})
}
