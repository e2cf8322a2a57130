package main

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"

	"gorgonia.org/tensor"

	"github.com/berth-onnx/berth"
	"github.com/berth-onnx/berth/internal/onnxwire"
	"github.com/berth-onnx/berth/ndarray"
)

// model is a model to compare.
type model struct {
	name   string
	data   []byte
	shapes [][]int // of its inputs
}

// modelsOf opens the models at paths, or makes the kinds.
func modelsOf(paths []string) (out []*model, err error) {
	for _, k := range kinds {
		if len(paths) > 0 {
			break
		}
		data, err := onnxwire.Marshal(k.message())
		if err != nil {
			return nil, err
		}
		m, err := read(k.name, data)
		if err != nil {
			return nil, err
		}
		out = append(out, m)
	}
	for _, p := range paths {
		m, err := open(p)
		if err != nil {
			return nil, err
		}
		out = append(out, m)
	}
	return out, nil
}

func open(path string) (*model, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	return read(filepath.Base(path), data)
}

// read finds out the shapes of inputs.
func read(name string, data []byte) (*model, error) {
	m, err := berth.Parse(data)
	if err != nil {
		return nil, err
	}
	defer m.Close()
	out := &model{name: name, data: data}
	for _, in := range m.Inputs() {
		if in.Type.DType != ndarray.Float32 || !in.Type.Ranked {
			return nil, fmt.Errorf("input %q is %s; only float32 tensors of known rank are drawn", in.Name, in.Type)
		}
		shape := []int{}
		for _, d := range in.Type.Shape {
			n, ok := d.Const()
			if !ok {
				n = 1
			}
			shape = append(shape, int(n))
		}
		out.shapes = append(out.shapes, shape)
	}
	return out, nil
}

// inputs draws values for the inputs, the same each time.
func (m *model) inputs() (out []tensor.Tensor) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, shape := range m.shapes {
		out = append(out, tensor.New(tensor.WithShape(shape...), tensor.WithBacking(draw(r, tensor.Shape(shape).TotalSize(), 1))))
	}
	return out
}

// draw draws n numbers between -scale and scale.
func draw(r *rand.Rand, n int, scale float32) []float32 {
	out := make([]float32, n)
	for i := range out {
		out[i] = scale * (2*r.Float32() - 1)
	}
	return out
}
