package engine_test

import (
	"fmt"
	"testing"

	"gorgonia.org/tensor"

	"github.com/berth-onnx/berth/backend/gorgonia/engine"
)

// Benchmark runs operations on the default engine and this one.
func Benchmark(b *testing.B) {
	for _, n := range []int{64, 512} {
		for _, c := range []struct {
			name string
			f    func(x *tensor.Dense) (tensor.Tensor, error)
		}{
			{"MatMul", func(x *tensor.Dense) (tensor.Tensor, error) { return tensor.MatMul(x, x) }},
			{"Add", func(x *tensor.Dense) (tensor.Tensor, error) { return tensor.Add(x, x) }},
			{"Exp", func(x *tensor.Dense) (tensor.Tensor, error) { return tensor.Exp(x) }},
			{"SoftMax", func(x *tensor.Dense) (tensor.Tensor, error) { return tensor.SoftMax(x, 1) }},
			{"Sum", func(x *tensor.Dense) (tensor.Tensor, error) { return tensor.Sum(x, 1) }},
		} {
			for which, e := range map[string]tensor.Engine{"default": tensor.StdEng{}, "berth": engine.New()} {
				b.Run(fmt.Sprintf("%s-%d/%s", c.name, n, which), func(b *testing.B) {
					x := tensor.New(tensor.WithShape(n, n), tensor.WithBacking(tensor.Random(tensor.Float32, n*n)), tensor.WithEngine(e))
					for b.Loop() {
						if _, err := c.f(x); err != nil {
							b.Fatal(err)
						}
					}
				})
			}
		}
	}
}
