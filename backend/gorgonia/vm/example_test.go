package vm_test

import (
	"fmt"
	"log"
	"math"

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

// given is an input with values.
func given(g *G.ExprGraph, name string, v []float64, shape ...int) *G.Node {
	return G.NewTensor(g, tensor.Float64, len(shape), G.WithShape(shape...), G.WithName(name), G.WithValue(tensor.New(tensor.WithShape(shape...), tensor.WithBacking(v))))
}

// printBoth runs one pass in Gorgonia's machine and one in the planned machine.
func printBoth(g *G.ExprGraph, y *G.Node) {
	planned, err := vm.New(g)
	if err != nil {
		log.Fatal(err)
	}
	for _, machine := range []G.VM{G.NewTapeMachine(g), planned} {
		if err := machine.RunAll(); err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%.4f\n", y.Value().Data())
		machine.Close()
	}
}

// A perceptron with a hidden layer learns exclusive or.
func ExampleNew_perceptron() {
	g := G.NewGraph()
	x := given(g, "x", []float64{0, 0, 0, 1, 1, 0, 1, 1}, 4, 2)
	want := given(g, "want", []float64{0, 1, 1, 0}, 4, 1)
	w1 := given(g, "w1", []float64{0.9, -0.7, 0.4, 0.8, -0.6, 0.5}, 2, 3)
	b1 := given(g, "b1", []float64{0.1, 0.2, -0.3}, 1, 3)
	w2 := given(g, "w2", []float64{0.7, -0.9, 0.6}, 3, 1)
	learned := G.Nodes{w1, b1, w2}
	hidden := G.Must(G.Tanh(G.Must(G.BroadcastAdd(G.Must(G.Mul(x, w1)), b1, nil, []byte{0}))))
	guess := G.Must(G.Mul(hidden, w2))
	cost := G.Must(G.Mean(G.Must(G.Square(G.Must(G.Sub(guess, want))))))
	if _, err := G.Grad(cost, learned...); err != nil {
		log.Fatal(err)
	}

	machine, err := vm.New(g, vm.Keep(guess))
	if err != nil {
		log.Fatal(err)
	}
	defer machine.Close()
	solver := G.NewAdamSolver(G.WithLearnRate(0.05))
	for range 1000 {
		if err := machine.RunAll(); err != nil {
			log.Fatal(err)
		}
		if err := solver.Step(G.NodesToValueGrads(learned)); err != nil {
			log.Fatal(err)
		}
	}
	for i, v := range guess.Value().Data().([]float64) {
		fmt.Printf("%d xor %d = %.0f\n", i/2, i%2, math.Abs(v))
	}
	// Output:
	// 0 xor 0 = 0
	// 0 xor 1 = 1
	// 1 xor 0 = 1
	// 1 xor 1 = 0
}

// A convolution finds the upright edge of a picture, pooling keeps the larger values.
func ExampleNew_convolution() {
	g := G.NewGraph()
	picture := given(g, "picture", []float64{
		0, 0, 1, 1,
		0, 0, 1, 1,
		0, 0, 1, 1,
		0, 0, 1, 1,
	}, 1, 1, 4, 4)
	edge := given(g, "edge", []float64{-1, 0, 1, -2, 0, 2, -1, 0, 1}, 1, 1, 3, 3)
	y := G.Must(G.Conv2d(picture, edge, tensor.Shape{3, 3}, []int{1, 1}, []int{1, 1}, []int{1, 1}))
	y = G.Must(G.MaxPool2D(G.Must(G.Rectify(y)), tensor.Shape{2, 2}, []int{0, 0}, []int{2, 2}))
	printBoth(g, y)
	// Output:
	// [4.0000 4.0000 4.0000 4.0000]
	// [4.0000 4.0000 4.0000 4.0000]
}

// A step of an LSTM cell of one unit: gates from the input x and the last output h, a new state from the last state c.
func ExampleNew_lstm() {
	g := G.NewGraph()
	x, h, c := given(g, "x", []float64{1}, 1, 1), given(g, "h", []float64{0.5}, 1, 1), given(g, "c", []float64{-0.25}, 1, 1)
	sum := func(name string, wx, wh float64) *G.Node {
		fromX := G.Must(G.Mul(x, given(g, name+" of x", []float64{wx}, 1, 1)))
		fromH := G.Must(G.Mul(h, given(g, name+" of h", []float64{wh}, 1, 1)))
		return G.Must(G.Add(fromX, fromH))
	}
	input := G.Must(G.Sigmoid(sum("input", 0.5, 1)))
	forget := G.Must(G.Sigmoid(sum("forget", -0.5, 1)))
	output := G.Must(G.Sigmoid(sum("output", 2, -1)))
	cell := G.Must(G.Tanh(sum("cell", 1, 1)))
	next := G.Must(G.Add(G.Must(G.HadamardProd(forget, c)), G.Must(G.HadamardProd(input, cell))))
	printBoth(g, G.Must(G.HadamardProd(output, G.Must(G.Tanh(next)))))
	// Output:
	// [0.4010]
	// [0.4010]
}
