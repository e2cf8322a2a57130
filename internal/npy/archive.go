package npy

import (
	"archive/zip"
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/berth-onnx/berth/ndarray"
)

const (
	// mostExpansion is how many bytes a byte of a deflated file can become, at most.
	mostExpansion = 1032

	// entryFactor is how much memory an archive's directory takes, in parts of its bytes: an entry of 46 bytes and its name becomes
	// a struct of some 300.
	entryFactor = 8
)

// ReadArchive reads arrays of a .npz archive of size bytes. wanted gives the check of an array by its name, without ".npy", as
// [Read] takes it; nil for one that is not to be read, whose name is then in left. The context's budget holds for all of them together.
func ReadArchive(ctx context.Context, r io.ReaderAt, size int64, wanted func(name string) func(Header) error) (arrays map[string]*ndarray.Array, left []string, err error) {
	d := &directory{r: r, memory: ndarray.BudgetOf(ctx)}
	z, err := zip.NewReader(d, size)
	if d.full != nil {
		err = d.full
	}
	if err != nil {
		return nil, nil, err
	}
	d.complete = true
	arrays = map[string]*ndarray.Array{}
	for _, e := range z.File {
		name := strings.TrimSuffix(e.Name, ".npy")
		check := wanted(name)
		if check == nil {
			left = append(left, name)
			continue
		}
		if arrays[name] != nil {
			return nil, nil, fmt.Errorf("the array %q is there twice", name)
		}
		if arrays[name], err = readEntry(ctx, e, check); err != nil {
			return nil, nil, fmt.Errorf("%s: %w", e.Name, err)
		}
	}
	return arrays, left, nil
}

// readEntry reads one array of an archive to its end, where its checksum is compared.
func readEntry(ctx context.Context, e *zip.File, check func(Header) error) (*ndarray.Array, error) {
	if e.UncompressedSize64/mostExpansion > e.CompressedSize64 {
		return nil, fmt.Errorf("%d compressed bytes can not become the %d that the archive tells of", e.CompressedSize64, e.UncompressedSize64)
	}
	f, err := e.Open()
	if err != nil {
		return nil, err
	}
	defer f.Close()
	r := bufio.NewReaderSize(f, mostHeader)
	a, err := read(ctx, r, int64(e.UncompressedSize64), check)
	if err != nil {
		return nil, err
	}
	switch _, err := r.ReadByte(); err {
	case io.EOF:
		return a, nil
	case nil:
		return nil, errors.New("there are bytes behind the array")
	default:
		return nil, err
	}
}

// directory asks for the memory that the directory of an archive takes while that is read.
type directory struct {
	r        io.ReaderAt
	memory   ndarray.Budget
	complete bool
	full     error
}

// ReadAt implements [io.ReaderAt].
func (d *directory) ReadAt(b []byte, off int64) (int, error) {
	if !d.complete && d.full == nil {
		d.full = d.memory.Ask("the archive's directory", entryFactor*int64(len(b)))
	}
	if d.full != nil {
		return 0, d.full
	}
	return d.r.ReadAt(b, off)
}
