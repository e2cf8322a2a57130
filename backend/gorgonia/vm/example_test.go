package vm_test

import (
	"fmt"
	"log"

	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"github.com/berth-onnx/berth/backend/gorgonia/vm"
)

// Fitting y = 2x + 1: the machine takes the place of gorgonia.NewTapeMachine.
func Example() {
	g := G.NewGraph()
	x := G.NewVector(g, tensor.Float64, G.WithShape(4), G.WithName("x"), G.WithValue(tensor.New(tensor.WithBacking([]float64{0, 1, 2, 3}))))
	y := G.NewVector(g, tensor.Float64, G.WithShape(4), G.WithName("y"), G.WithValue(tensor.New(tensor.WithBacking([]float64{1, 3, 5, 7}))))
	w := G.NewScalar(g, tensor.Float64, G.WithName("w"), G.WithValue(0.0))
	b := G.NewScalar(g, tensor.Float64, G.WithName("b"), G.WithValue(0.0))

	guess := G.Must(G.Add(G.Must(G.Mul(x, w)), b))
	cost := G.Must(G.Mean(G.Must(G.Square(G.Must(G.Sub(guess, y))))))
	learned := G.Nodes{w, b}
	if _, err := G.Grad(cost, learned...); err != nil {
		log.Fatal(err)
	}

	machine, err := vm.New(g)
	if err != nil {
		log.Fatal(err)
	}
	defer machine.Close()
	solver := G.NewVanillaSolver(G.WithLearnRate(0.1))
	for range 200 {
		if err := machine.RunAll(); err != nil {
			log.Fatal(err)
		}
		if err := solver.Step(G.NodesToValueGrads(learned)); err != nil {
			log.Fatal(err)
		}
	}
	fmt.Printf("w = %.2f, b = %.2f\n", w.Value().Data(), b.Value().Data())
	// Output: w = 2.00, b = 1.00
}
