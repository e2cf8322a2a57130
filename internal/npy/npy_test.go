package npy

import (
	"archive/zip"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth/internal/sysmem"
	"github.com/berth-onnx/berth/ndarray"
)

func written(t testing.TB, a *ndarray.Array) []byte {
	t.Helper()
	var buf bytes.Buffer
	require.NoError(t, Write(&buf, a))
	return buf.Bytes()
}

func readAll(data []byte) (*ndarray.Array, error) {
	return Read(context.Background(), bytes.NewReader(data), int64(len(data)), nil)
}

// TestTypes writes and reads every element type that NumPy has.
func TestTypes(t *testing.T) {
	for _, dt := range []ndarray.DType{ndarray.Float32, ndarray.Float64, ndarray.Float16, ndarray.Int8, ndarray.Int16, ndarray.Int32, ndarray.Int64,
		ndarray.Uint8, ndarray.Uint16, ndarray.Uint32, ndarray.Uint64, ndarray.Bool, ndarray.Complex64, ndarray.Complex128} {
		for _, shape := range [][]int{{}, {3}, {2, 5}, {0, 4}, {1, 2, 3}} {
			a := ndarray.Must(dt, shape...)
			for i := range a.Data {
				a.Data[i] = byte(i * 37)
				if dt == ndarray.Bool {
					a.Data[i] &= 1
				}
			}
			b, err := readAll(written(t, a))
			require.NoError(t, err, "%s%v", dt, shape)
			assert.Equal(t, a.DType, b.DType)
			assert.Equal(t, a.Len(), b.Len())
			assert.Equal(t, a.Data, b.Data, "%s%v", dt, shape)
		}
	}
}

// TestColumnMajor reads what numpy.asfortranarray writes, also where elements of a column are in several pieces.
func TestColumnMajor(t *testing.T) {
	for _, dims := range [][3]int{{2, 3, 2}, {1, 5, 1}, {700, 3, 199}, {3, 1, 0}} {
		n, m, l := dims[0], dims[1], dims[2]
		want, columns := ndarray.Must(ndarray.Float32, n, m, l), ndarray.Must(ndarray.Float32, n, m, l)
		for i := range n {
			for j := range m {
				for k := range l {
					v := float64(i*m*l + j*l + k)
					want.SetFloat((i*m+j)*l+k, v)
					columns.SetFloat((k*m+j)*n+i, v)
				}
			}
		}
		got, err := readAll(columnMajorOf(t, columns))
		require.NoError(t, err, dims)
		assert.Equal(t, want.Shape, got.Shape)
		assert.True(t, bytes.Equal(want.Data, got.Data), dims)
	}
}

// columnMajorOf is the file of an array whose header says that its first index changes fastest.
func columnMajorOf(t testing.TB, a *ndarray.Array) []byte {
	t.Helper()
	data := written(t, a)
	end := bytes.IndexByte(data, '}')
	head := bytes.Replace(data[:end+1], []byte("False"), []byte("True"), 1)
	return append(append(append([]byte{}, head...), ' '), data[end+1:]...)
}

// TestHeaderFirst: an array is refused by its header before memory is asked for, and no elements are read.
func TestHeaderFirst(t *testing.T) {
	refused := errors.New("refused")
	var seen Header
	head := written(t, ndarray.Must(ndarray.Float64, 0))
	head = bytes.Replace(head, []byte("(0,), }        "), []byte("(100000000,), }"), 1)
	_, err := Read(context.Background(), bytes.NewReader(head), 1<<40, func(h Header) error { seen = h; return refused })
	require.ErrorIs(t, err, refused)
	assert.Equal(t, Header{DType: ndarray.Float64, Shape: []int{100000000}}, seen)

	_, err = Read(sysmem.Budget(1<<20).In(context.Background()), bytes.NewReader(head), int64(len(head))+800000000, nil)
	var memory *sysmem.Error
	require.ErrorAs(t, err, &memory)
	assert.Equal(t, int64(800000000), memory.Bytes)
	_, err = Read(context.Background(), bytes.NewReader(head), int64(len(head)), nil)
	require.ErrorContains(t, err, "ends before its 800000000 bytes")
	_, err = Read(context.Background(), bytes.NewReader(head), int64(len(head))+800000000, nil) // the reader ends before the size that was told
	require.ErrorContains(t, err, "ends before its 800000000 bytes")
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	small := written(t, ndarray.Must(ndarray.Float32, 4))
	_, err = Read(ctx, bytes.NewReader(small), int64(len(small)), nil)
	require.ErrorIs(t, err, context.Canceled)
}

// TestDamagedHeaders: the length that a header claims to have is no reason to take memory.
func TestDamagedHeaders(t *testing.T) {
	good := written(t, ndarray.Must(ndarray.Float32, 2, 3))
	long := append([]byte(magic+"\x02\x00\xff\xff\xff\xff"), good...)
	for name, data := range map[string][]byte{
		"empty": nil, "short": good[:9], "long": long, "no end": bytes.ReplaceAll(good, []byte("\n"), []byte(" ")), "type": bytes.Replace(good, []byte("<f4"), []byte("<M8"), 1),
		"behind":   append(bytes.Clone(good), 0),
		"negative": bytes.Replace(good, []byte("(2, 3)"), []byte("(-2,3)"), 1), "huge": bytes.Replace(good, []byte("(2, 3), }      "), []byte("(9223372036854775807, 9), }"), 1),
		"version": bytes.Replace(good, []byte("NUMPY\x01"), []byte("NUMPY\x07"), 1), "cut": good[:len(good)-1],
	} {
		_, err := readAll(data)
		require.Error(t, err, name)
	}
	for n := range good {
		_, err := readAll(good[:n])
		require.Error(t, err, n)
	}
}

// fileOf is a file of a version with a header and elements.
func fileOf(version byte, header string, data ...byte) []byte {
	n := len(header)
	out := append([]byte(magic), version, 0, byte(n), byte(n>>8))
	if version > 1 {
		out = append(out, 0, 0)
	}
	return append(append(out, header...), data...)
}

// TestHeaders: what NumPy reads is read, in whatever form of the dictionary, version and order of bytes; what it does not is named.
func TestHeaders(t *testing.T) {
	plain := ndarray.Of([]float32{1, 2}, 2)
	little, big := bytes.Clone(plain.Data), []byte{0x3f, 0x80, 0, 0, 0x40, 0, 0, 0}
	for _, c := range []struct {
		version byte
		header  string
		data    []byte
		want    string // of the error; "" reads the array
	}{
		{1, "{'shape': (2,), 'descr': '<f4', 'fortran_order': False}\n", little, ""},
		{2, "{\"fortran_order\":True,\"shape\":(2,),\"descr\":\"<f4\",}\n", little, ""},
		{3, "{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }  \n", little, ""},
		{1, "{'descr': '=f4', 'fortran_order': False, 'shape': (2,), }\n", little, ""},
		{1, "{'descr': 'f4', 'fortran_order': False, 'shape': (2,), }\n", little, ""},
		{1, "{'descr': '>f4', 'fortran_order': False, 'shape': (2,), }\n", big, ""},
		{1, "{'descr': '<f4', 'fortran_order': False, 'shape': (2L,), }\n", little, ""},
		{1, "{'descr': '<f4', 'fortran_order': False, 'shape': (-2,), }\n", little, "negative dimension -2"},
		{1, "{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999999,), }\n", little, `"99999999999999999999999" in the NumPy header is too large`},
		{1, "{'descr': '<f4', 'fortran_order': False, 'shape': (9223372036854775807, 9), }\n", little, "shape [9223372036854775807,9] is too large"},
		{1, "{'descr': '<f4', 'fortran_order': False, 'shape': 2, }\n", little, `"2, }" where it should have a shape in parentheses`},
		{1, "{'descr': '<f4', 'fortran_order': False, 'shape': (2 3), }\n", little, "a comma or the end of the shape"},
		{1, "{'descr': '<f4', 'fortran_order': False, 'shape': " + strings.Repeat("(", 5000) + "}\n", little, strings.Repeat("(", 40) + `"… where it should have a dimension`},
		{1, "{'descr': '<f4', 'fortran_order': False, 'shape': (" + strings.Repeat("1,", 65) + ")}\n", little, "more than 64 dimensions"},
		{1, "{'descr': '<f4', 'fortran_order': 0, 'shape': (2,), }\n", little, "True or False"},
		{1, "{'descr': '<f4', 'fortran_order': False, }\n", little, `lacks the key "shape"`},
		{1, "{'descr': '<f4', 'descr': '<f8', 'fortran_order': False, 'shape': (2,), }\n", little, `the key "descr" twice`},
		{1, "{'descr': '<f4', 'fortran_order': False, 'shape': (2,), 'x': 1}\n", little, `unknown key "x"`},
		{1, "{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (2,), }\n", little, "records of several fields"},
		{1, "{'descr': '<U4', 'fortran_order': False, 'shape': (2,), }\n", little, `NumPy type "<U4" is not supported`},
		{1, "{'descr': '<>f4', 'fortran_order': False, 'shape': (2,), }\n", little, `NumPy type "<>f4" is not supported`},
		{1, "{'descr': '<f4', 'fortran_order': False, 'shape': (2,), } x\n", little, `"x" where it should have its end`},
		{1, "{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }", little, "does not end with a new line"},
		{1, "{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }\n", append(bytes.Clone(little), 1, 2, 3), "3 bytes behind the array"},
		{4, "{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }\n", little, "version 4.0"},
	} {
		a, err := readAll(fileOf(c.version, c.header, c.data...))
		if c.want != "" {
			require.ErrorContains(t, err, c.want)
			assert.Less(t, len(err.Error()), 200)
			continue
		}
		require.NoError(t, err, c.header)
		assert.Equal(t, plain.Data, a.Data, c.header)
	}
	swapped, err := readAll(fileOf(1, "{'descr': '>c8', 'fortran_order': False, 'shape': (1,), }\n", big...))
	require.NoError(t, err)
	assert.Equal(t, []complex64{1 + 2i}, ndarray.Slice[complex64](swapped))
	truths, err := readAll(fileOf(1, "{'descr': '|b1', 'fortran_order': False, 'shape': (3,), }\n", 0, 2, 255))
	require.NoError(t, err)
	assert.Equal(t, []byte{0, 1, 1}, truths.Data)
}

// entry is a file of an archive, with what its header says of sizes.
type entry struct {
	name   string
	data   []byte
	method uint16
	says   uint64 // uncompressed bytes; 0 is the truth
}

func archive(t testing.TB, entries ...entry) []byte {
	t.Helper()
	var buf bytes.Buffer
	z := zip.NewWriter(&buf)
	for _, e := range entries {
		if e.says == 0 {
			w, err := z.CreateHeader(&zip.FileHeader{Name: e.name, Method: e.method})
			require.NoError(t, err)
			_, err = w.Write(e.data)
			require.NoError(t, err)
			continue
		}
		h := &zip.FileHeader{Name: e.name, Method: e.method, UncompressedSize64: e.says, CompressedSize64: uint64(len(e.data)), CRC32: crc32.ChecksumIEEE(e.data)}
		w, err := z.CreateRaw(h)
		require.NoError(t, err)
		_, err = w.Write(e.data)
		require.NoError(t, err)
	}
	require.NoError(t, z.Close())
	return buf.Bytes()
}

func anything(string) func(Header) error { return func(Header) error { return nil } }

// TestArchive reads the arrays that are wanted.
func TestArchive(t *testing.T) {
	x, y := ndarray.Of([]float32{1, 2}, 2), ndarray.Of([]int64{3}, 1)
	data := archive(t, entry{name: "x.npy", data: written(t, x), method: zip.Deflate}, entry{name: "y.npy", data: written(t, y)}, entry{name: "notes.txt", data: []byte("text")})
	got, left, err := ReadArchive(context.Background(), bytes.NewReader(data), int64(len(data)), func(name string) func(Header) error {
		if name == "notes.txt" {
			return nil
		}
		return func(Header) error { return nil }
	})
	require.NoError(t, err)
	assert.Equal(t, []string{"notes.txt"}, left)
	assert.Equal(t, x.Data, got["x"].Data)
	assert.Equal(t, y.Data, got["y"].Data)
}

// TestHostileArchives: no archive is a reason to take memory for what is not there.
func TestHostileArchives(t *testing.T) {
	x := written(t, ndarray.Must(ndarray.Float32, 1000))
	damaged := archive(t, entry{name: "x.npy", data: x})
	damaged[300] ^= 1
	for _, c := range []struct {
		name, says string
		data       []byte
	}{
		{"no archive", "not a valid zip file", x},
		{"twice", `"x" is there twice`, archive(t, entry{name: "x.npy", data: x}, entry{name: "x.npy", data: x})},
		{"tells of too much", "can not become", archive(t, entry{name: "x.npy", data: x, says: 1 << 40, method: zip.Deflate})},
		{"holds more than it tells of", "", archive(t, entry{name: "x.npy", data: x, says: 200})},
		{"bytes behind the array", "behind the array", archive(t, entry{name: "x.npy", data: append(x[:len(x):len(x)], 1)})},
		{"another checksum", "checksum", damaged},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, _, err := ReadArchive(context.Background(), bytes.NewReader(c.data), int64(len(c.data)), anything)
			require.ErrorContains(t, err, c.says)
		})
	}
}

// TestDirectoryOfArchive: a directory of many entries is asked of the budget.
func TestDirectoryOfArchive(t *testing.T) {
	var many []entry
	for i := range 60000 {
		many = append(many, entry{name: fmt.Sprintf("%d.npy", i)})
	}
	data := archive(t, many...)
	_, _, err := ReadArchive(sysmem.Budget(4<<20).In(context.Background()), bytes.NewReader(data), int64(len(data)), func(string) func(Header) error { return nil })
	var memory *sysmem.Error
	require.ErrorAs(t, err, &memory)
}

// FuzzRead: whatever a file holds, it is read within its size or refused.
func FuzzRead(f *testing.F) {
	f.Add(written(f, ndarray.Of([]float32{1, 2, 3}, 3)))
	f.Add(columnMajorOf(f, ndarray.Must(ndarray.Int16, 3, 2, 2)))
	f.Add(archive(f, entry{name: "x.npy", data: written(f, ndarray.Must(ndarray.Bool, 3)), method: zip.Deflate}))
	f.Add(binary.LittleEndian.AppendUint32([]byte(magic+"\x02\x00"), 1<<31))
	ctx := sysmem.Budget(1 << 30).In(context.Background())
	f.Fuzz(func(t *testing.T, data []byte) {
		if a, err := Read(ctx, bytes.NewReader(data), int64(len(data)), nil); err == nil {
			require.LessOrEqual(t, len(a.Data), len(data))
			require.NoError(t, a.Check())
		}
		arrays, _, err := ReadArchive(ctx, bytes.NewReader(data), int64(len(data)), anything)
		for _, a := range arrays {
			require.NoError(t, err)
			require.NoError(t, a.Check())
		}
	})
}
