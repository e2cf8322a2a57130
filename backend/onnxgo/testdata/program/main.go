// Program runs one model by the backend that comes with onnx-go and by berth's.
package main

import (
	"fmt"
	"log"

	"github.com/owulveryck/onnx-go"
	"github.com/owulveryck/onnx-go/backend"
	"github.com/owulveryck/onnx-go/backend/x/gorgonnx"
	"gorgonia.org/tensor"

	"github.com/berth-onnx/berth"
	"github.com/berth-onnx/berth/backend/onnxgo"
	"github.com/berth-onnx/berth/ssa"
)

func main() {
	graph, err := ssa.ParseGraph(`graph "g" { in %x: float32[2] in %w: float32[2] %y: float32[2] = Add(%x, %w) out %y }`)
	if err != nil {
		log.Fatal(err)
	}
	data, err := model(berth.FromModule(&ssa.Module{Graph: graph, Opsets: []ssa.Opset{{Version: 13}}}))
	if err != nil {
		log.Fatal(err)
	}
	for _, b := range []struct {
		name string
		backend.ComputationBackend
	}{{"gorgonnx", gorgonnx.NewGraph()}, {"berth", onnxgo.NewGraph()}} {
		y, err := run(b.ComputationBackend, data)
		if err != nil {
			log.Fatal(b.name, ": ", err)
		}
		fmt.Println(b.name, y)
	}
}

func run(b backend.ComputationBackend, data []byte) (any, error) {
	m := onnx.NewModel(b)
	if err := m.UnmarshalBinary(data); err != nil {
		return nil, err
	}
	for i, v := range [][]float32{{1, 1}, {-2, 1}} {
		if err := m.SetInput(i, tensor.New(tensor.WithShape(2), tensor.WithBacking(v))); err != nil {
			return nil, err
		}
	}
	if err := b.Run(); err != nil {
		return nil, err
	}
	out, err := m.GetOutputTensors()
	if err != nil {
		return nil, err
	}
	return out[0].Data(), nil
}
