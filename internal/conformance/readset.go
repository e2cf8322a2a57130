package conformance

import (
	"context"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"

	"github.com/berth-onnx/berth/internal/onnxwire"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/onnximport"
	"github.com/berth-onnx/berth/ssa"
)

// Reading a value takes the bytes of its elements where they are packed, which is what tools write: they are read from the file to
// where they belong. Other forms of tensors, and other values, are read whole and converted. Either way memory is asked for
// before it is taken, of the budget of the context ([ndarray.BudgetOf]).

// ReadTensor reads one serialized tensor of size bytes. check, which may be nil, refuses it by its type and shape, where possible
// before its elements are read.
func ReadTensor(ctx context.Context, r io.ReaderAt, size int64, check func(dt ndarray.DType, shape []int) error) (ndarray.Value, error) {
	if t, ok := onnxwire.ScanTensor(r, size); ok {
		if a, err := scanned(ctx, r, t, check); a != nil || err != nil {
			return arrayOrNil(a, err)
		}
	}
	v, err := readValue(ctx, r, size, ssa.KindTensor)
	if a, ok := v.(*ndarray.Array); ok && check != nil {
		err = check(a.DType, a.Shape)
	}
	if err != nil {
		return nil, err
	}
	return v, nil
}

// arrayOrNil keeps a nil array from becoming a value that is not nil.
func arrayOrNil(a *ndarray.Array, err error) (ndarray.Value, error) {
	if err != nil {
		return nil, err
	}
	return a, nil
}

// scanned checks a tensor, and reads it where it has packed elements of whole bytes; nil for one that is to be read otherwise, or
// that has a fault to tell of.
func scanned(ctx context.Context, r io.ReaderAt, t onnxwire.ScannedTensor, check func(dt ndarray.DType, shape []int) error) (*ndarray.Array, error) {
	dt := ndarray.DType(t.DataType)
	shape := make([]int, len(t.Dims))
	for i, d := range t.Dims {
		if d < 0 || d > math.MaxInt {
			return nil, nil
		}
		shape[i] = int(d)
	}
	if t.DataType < 0 || t.DataType >= ndarray.NumDTypes || !dt.Valid() {
		return nil, nil
	}
	if check != nil {
		if err := check(dt, shape); err != nil {
			return nil, err
		}
	}
	n, err := ndarray.ByteSize(dt, shape)
	if err != nil || t.Len == 0 || int64(n) != t.Len || dt == ndarray.String || dt == ndarray.Bool || dt.FileBits() < 8 {
		return nil, nil
	}
	a, err := ndarray.NewContext(ctx, ndarray.BudgetOf(ctx), dt, shape...)
	if err != nil {
		return nil, err
	}
	const piece = 16 << 20
	for from := 0; from < len(a.Data); from += piece {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		b := a.Data[from:min(from+piece, len(a.Data))]
		if n, err := r.ReadAt(b, t.At+int64(from)); n < len(b) {
			return nil, err
		}
	}
	return a, nil
}

// readValue reads a serialized value of any kind.
func readValue(ctx context.Context, r io.ReaderAt, size int64, kind ssa.Kind) (ndarray.Value, error) {
	memory := ndarray.BudgetOf(ctx)
	data, err := onnxwire.ReadAll(ctx, memory, io.NewSectionReader(r, 0, size), "the file", size, math.MaxInt64)
	if err != nil {
		return nil, err
	}
	return alignedValue(ctx, data, kind)
}

// alignedValue reads a serialized value in memory, which it may share.
func alignedValue(ctx context.Context, data []byte, kind ssa.Kind) (ndarray.Value, error) {
	v, err := onnximport.ReadValueContext(ctx, data, kind)
	if a, ok := v.(*ndarray.Array); ok && err == nil && !a.Aligned() {
		return ndarray.CloneIn(ctx, ndarray.BudgetOf(ctx), a)
	}
	return v, err
}

// ReadInputs reads one folder of input_N.pb files for a model file; the folder need not lie beside the model.
func ReadInputs(ctx context.Context, model, dir string) ([]Named, error) {
	info, err := os.Stat(dir)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return nil, fmt.Errorf("%s is no folder", dir)
	}
	f, err := onnxwire.OpenWith(ctx, model, onnxwire.MapFile)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	sig := signatureOf(f.Model)
	dir, err = filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	c := &Case{Name: filepath.Base(model), Source: model, dir: filepath.Dir(dir), files: os.DirFS(filepath.Dir(dir))}
	files, err := c.setFiles(filepath.Base(dir))
	if err != nil {
		return nil, err
	}
	if len(files["input"])+len(files["output"]) == 0 {
		return nil, fmt.Errorf("there is no input_0.pb and the like in the folder")
	}
	return c.inputs(ctx, sig, files["input"])
}
