package conformance

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/berth-onnx/berth/internal/onnxwire"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/onnximport"
	"github.com/berth-onnx/berth/ssa"
)

// ReadTensor reads a file with one serialized tensor.
func ReadTensor(file string) (ndarray.Value, error) {
	data, err := ReadRegular(file)
	if err != nil {
		return nil, err
	}
	return onnximport.ReadValue(data, ssa.KindTensor)
}

// ReadSet reads one folder of input_N.pb and output_N.pb files for a model file;
// the folder need not lie beside the model.
func ReadSet(model, dir string) (*Set, error) {
	info, err := os.Stat(dir)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return nil, fmt.Errorf("%s is no folder", dir)
	}
	f, err := onnxwire.Open(model)
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
	return c.LoadSet(sig, filepath.Base(dir))
}
