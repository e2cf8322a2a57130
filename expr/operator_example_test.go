package expr_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/berth-onnx/berth"
	"github.com/berth-onnx/berth/expr"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
	"github.com/berth-onnx/berth/train"
)

// snake is x + sin²(a·x)/a, of which every element of a channel has the same a. Forward is differentiated, since there is no Backward.
// Operators are defined before a file that holds them is opened.
var errSnake = expr.Define(expr.Operator{Domain: "my.operators", Name: "Snake", Inputs: 2, Outputs: 1,
	Forward: func(x *expr.Executor) {
		v, a := expr.Operand[float32](x, 0), expr.Operand[float32](x, 1)
		sin := expr.Sin(v.Mul(a))
		expr.Yield(x, 0, v.Add(sin.Mul(sin).Div(a)))
	}})

// An operator of the program's own, in a file as other tools write it: the file is opened, trained and saved, and the node is in it.
func ExampleDefine() {
	if errSnake != nil {
		log.Fatal(errSnake)
	}
	folder, err := os.MkdirTemp("", "")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(folder)
	m, err := berth.Open(snakeFile(folder)) // %y = my.operators::Snake(%x · %w, %a)
	if err != nil {
		log.Fatal(err)
	}
	defer m.Close()
	t, err := train.New(context.Background(), m, train.Options{Loss: train.MeanSquaredError, Rate: train.Constant(0.1), Compile: []berth.Option{berth.WithShape("x", 4, 2)}})
	if err != nil {
		log.Fatal(err)
	}
	x, target := ndarray.Of([]float32{0, 1, 1, 0, 1, 1, 2, 1}, 4, 2), ndarray.Of([]float32{1, 0.5, 1.5, 2.5}, 4, 1)
	first, last := 0.0, 0.0
	for step := range 300 {
		if last, err = t.Step(context.Background(), x, target); err != nil {
			log.Fatal(err)
		}
		if step == 0 {
			first = last
		}
	}
	fmt.Println(t.Learned(), last < first/100)
	learned, err := t.Model()
	if err == nil {
		err = learned.Save(filepath.Join(folder, "learned.onnx"), berth.SaveOptions{})
	}
	if err != nil {
		log.Fatal(err)
	}
	again, err := berth.Open(filepath.Join(folder, "learned.onnx"))
	if err != nil {
		log.Fatal(err)
	}
	defer again.Close()
	for _, n := range again.Graph().Nodes {
		fmt.Println(n.Domain, n.Op)
	}
	// Output:
	// [w a] true
	//  MatMul
	// my.operators Snake
}

// snakeFile writes a model with a node of the operator.
func snakeFile(folder string) string {
	g, err := ssa.ParseGraph(`graph "m" { in %x: float32[N,2] const %w: float32[2,1] = [0.3,-0.2] const %a: float32[1] = [1]
		%p = MatMul(%x, %w) %y = my.operators::Snake(%p, %a) out %y }`)
	if err == nil {
		err = ops.InferGraph(g)
	}
	path := filepath.Join(folder, "snake.onnx")
	if err == nil {
		err = berth.FromModule(&ssa.Module{Graph: g, IR: 10, Opsets: []ssa.Opset{{Version: 21}, {Domain: "my.operators", Version: 1}}}).Save(path, berth.SaveOptions{})
	}
	if err != nil {
		log.Fatal(err)
	}
	return path
}

// A composition is known by a name: Apply builds it, wherever an operator of ONNX could stand.
func ExampleRegister() {
	err := expr.Register("SquaredRelu", func(x ...expr.Expr[float32]) expr.Expr[float32] {
		r := expr.Relu[float32](x[0])
		return r.Mul(r)
	})
	if err != nil {
		log.Fatal(err)
	}
	x := tensorOf([]float32{-1, 2, 3}, 3)
	fmt.Println(expr.Assign(context.Background(), x, expr.Apply[float32]("SquaredRelu", x)), x.Data())
	// Output: <nil> [0 4 9]
}
