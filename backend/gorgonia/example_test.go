package gorgonia_test

import (
	"context"
	"fmt"
	"log"

	"gorgonia.org/tensor"

	"github.com/berth-onnx/berth"
	"github.com/berth-onnx/berth/backend/gorgonia"
	"github.com/berth-onnx/berth/testmodels"
)

// A model takes and gives tensors of gorgonia.org/tensor. Programs usually open theirs with berth.Open.
func ExampleWrap() {
	module, err := testmodels.Build("mlp")
	if err != nil {
		log.Fatal(err)
	}
	m := gorgonia.Wrap(berth.FromModule(module))
	out, err := m.Run(context.Background(), gorgonia.Tensors{"x": tensor.Ones(tensor.Float32, 4, 64)})
	if err != nil {
		log.Fatal(err)
	}
	p := out["probabilities"]
	sum, err := p.Sum(1)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("probabilities %v, rows add up to %.3f\n", p.Shape(), sum.Data())
	// Output:
	// probabilities (4, 10), rows add up to [1.000 1.000 1.000 1.000]
}
