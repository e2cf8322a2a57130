package train_test

import (
	"context"
	"fmt"

	"github.com/berth-onnx/berth"
	"github.com/berth-onnx/berth/expr"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
	"github.com/berth-onnx/berth/train"
)

// The mean over rows of -Σ y·log softmax(z), and p = softmax(z). The derivative by z is (p - y)/rows, without a way back through
// logarithm, sum and exponential.
var errEntropy = expr.Define(expr.Operator{Domain: "example.operators", Name: "SoftmaxCrossEntropy", Inputs: 2, Outputs: 2,
	Forward: func(x *expr.Executor) {
		z, y := expr.Operand[float32](x, 0), expr.Operand[float32](x, 1)
		centered := z.Sub(expr.ReduceMax(z, true, 1))
		logs := centered.Sub(expr.Log(expr.ReduceSum(expr.Exp(centered), true, 1)))
		expr.Yield(x, 0, expr.ReduceMean(expr.ReduceSum(y.Mul(logs), false, 1), false).Neg())
		expr.Yield(x, 1, expr.Exp(logs))
	},
	Backward: func(x *expr.Executor) {
		p, y := expr.Yielded[float32](x, 1), expr.Operand[float32](x, 1)
		rows := expr.Num[float32](float64(p.Shape()[0]))
		expr.YieldSlope(x, 0, p.Sub(y).Mul(expr.Slope[float32](x, 0)).Div(rows))
	}})

// A differentiable operator of the program's own, as a loss: it is a node of the step, differentiated by its own rule, and fused
// with the others.
func Example_operator() {
	if errEntropy != nil {
		fmt.Println(errEntropy)
		return
	}
	loss := func(b *train.Builder, y *ssa.Value) *ssa.Value {
		n := b.Graph.NewNode("SoftmaxCrossEntropy", []*ssa.Value{y, b.Input(train.Target, y.Type)}, 2)
		n.Domain = "example.operators"
		if err := ops.Infer(n); err != nil {
			panic(err)
		}
		return n.Out[0]
	}
	g, err := ssa.ParseGraph(`graph "classifier" { in %x: float32[4,3] const %w: float32[3,2] = [0,0,0,0,0,0] %y = MatMul(%x, %w) out %y }`)
	if err == nil {
		err = ops.InferGraph(g)
	}
	if err != nil {
		fmt.Println(err)
		return
	}
	t, err := train.New(context.Background(), berth.FromModule(&ssa.Module{Graph: g}), train.Options{Loss: loss, Rate: train.Constant(1)})
	if err != nil {
		fmt.Println(err)
		return
	}
	x := ndarray.Of([]float32{1, 0, 0, 0, 1, 0, 0, 0, 1, 1, 1, 0}, 4, 3)
	y := ndarray.Of([]float32{1, 0, 0, 1, 1, 0, 0, 1}, 4, 2)
	for step := range 201 {
		loss, err := t.Step(context.Background(), x, y)
		if err != nil {
			fmt.Println(err)
			return
		}
		if step%100 == 0 {
			fmt.Printf("step %d: %.3f\n", step, loss)
		}
	}
	fmt.Println("nodes without a fast kernel:", t.Plan().ReferenceOps)
	// Output:
	// step 0: 0.693
	// step 100: 0.029
	// step 200: 0.015
	// nodes without a fast kernel: 0
}
