package train_test

import (
	"bytes"
	"context"
	"encoding/gob"
	"fmt"
	"iter"
	"log"
	"math"

	"github.com/berth-onnx/berth"
	"github.com/berth-onnx/berth/expr"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
	"github.com/berth-onnx/berth/testmodels"
	"github.com/berth-onnx/berth/train"
)

// picture is an image of one of two kinds: fine stripes or coarse ones.
func picture(kind int) *ndarray.Array {
	x := ndarray.Must(ndarray.Float32, 1, 3, 224, 224)
	for i := range x.Len() {
		x.SetFloat(i, math.Sin(float64(i%224)/float64(1+9*kind)))
	}
	return x
}

// lessons gives images of both kinds in turn.
func lessons(steps int) iter.Seq2[[]ndarray.Value, error] {
	return func(yield func([]ndarray.Value, error) bool) {
		for i := range steps {
			if !yield([]ndarray.Value{picture(i % 2), ndarray.Of([]int64{int64(i % 2)}, 1)}, nil) {
				return
			}
		}
	}
}

// Fine-tuning: first the classifier of MobileNetV2 learns, over what the other layers give as they are; then all of it learns, at a lower
// rate. A change of the weights follows an image of either kind. Batch normalizations are in training form in the second part alone.
func Example_fineTune() {
	module, err := testmodels.Build("mobilenetv2")
	if err != nil {
		fmt.Println(err)
		return
	}
	model, last := berth.FromModule(module), [2]float64{} // the losses of the last images of either kind
	note := func(step int, loss float64) error {
		last[step%2] = loss
		return nil
	}
	for _, part := range []struct {
		name  string
		learn []string
		rate  float64
		steps int
		below float64
	}{{"classifier", []string{"classifier/weight", "classifier/bias"}, 0.002, 24, 1}, {"all", nil, 0.001, 32, 0.5}} {
		t, err := train.New(context.Background(), model, train.Options{Loss: train.CrossEntropy, Learn: part.learn, Optimizer: train.Adam(0.9, 0.999, 1e-8, 0), Rate: train.Constant(part.rate), Accumulate: 2})
		if err == nil {
			err = t.Fit(context.Background(), lessons(part.steps), note)
		}
		if err == nil {
			model, err = t.Model()
		}
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Printf("%s: %d weights learned, losses below %v: %v\n", part.name, len(t.Learned()), part.below, max(last[0], last[1]) < part.below)
	}
	// Output:
	// classifier: 2 weights learned, losses below 1: true
	// all: 158 weights learned, losses below 0.5: true
}

// A recurrent net whose body is the body of a Loop: its derivative runs the iterations backwards. It learns to give the sum of a sequence.
func Example_loop() {
	g, err := ssa.ParseGraph(`graph "sums" { in %x: float32[6,16,1] const %wx: float32[1,2] = [0.5,-0.5] const %wh: float32[2,2] = [0.5,0.1,-0.1,0.5] const %out: float32[2,1] = [0.1,0.2]
		const %n: int64[] = 6 const %zero: float32[] = 0 const %s: int64[2] = [16,2] %h0 = Expand(%zero, %s)
		%h = Loop(%n, _, %h0 | %x, %wx, %wh) { body: graph "step" { in %i: int64[] in %go: bool[] in %h: float32[16,2] in %x: float32[6,16,1] in %wx: float32[1,2] in %wh: float32[2,2]
			%xt = Gather(%x, %i) %p = MatMul(%xt, %wx) %q = MatMul(%h, %wh) %a = Add(%p, %q) %hn = Tanh(%a) out %go, %hn } }
		%y = MatMul(%h, %out) out %y }`)
	if err == nil {
		err = ops.InferGraph(g)
	}
	if err != nil {
		fmt.Println(err)
		return
	}
	t, err := train.New(context.Background(), berth.FromModule(&ssa.Module{Graph: g}), train.Options{Loss: train.MeanSquaredError, Optimizer: train.Adam(0.9, 0.999, 1e-8, 0), Rate: train.Cosine(0.05, 0, 400)})
	if err != nil {
		fmt.Println(err)
		return
	}
	x, sums := ndarray.Must(ndarray.Float32, 6, 16, 1), ndarray.Must(ndarray.Float32, 16, 1)
	for i := range x.Len() {
		x.SetFloat(i, 0.2*math.Sin(float64(i)*1.7))
		sums.SetFloat(i%16, sums.Float(i%16)+x.Float(i))
	}
	var first, last float64
	for i := range 400 {
		if last, err = t.Step(context.Background(), x, sums); err != nil {
			fmt.Println(err)
			return
		}
		if i == 0 {
			first = last
		}
	}
	fmt.Println("weights:", t.Learned())
	fmt.Println("the loss fell to a hundredth:", last < first/100)
	// Output:
	// weights: [wx wh out]
	// the loss fell to a hundredth: true
}

// A loss of the program's own: the pinball loss, whose minimum is a quantile. The model is a single number.
func Example_loss() {
	pinball := func(b *train.Builder, y *ssa.Value) *ssa.Value {
		d := b.Op("Sub", []*ssa.Value{b.Input(train.Target, y.Type), y})
		above := b.Op("Mul", []*ssa.Value{d, b.Number(d, 0.9)})
		below := b.Op("Mul", []*ssa.Value{d, b.Number(d, -0.1)})
		return b.Op("ReduceMean", []*ssa.Value{b.Op("Max", []*ssa.Value{above, below})}, ssa.IntAttr("keepdims", 0))
	}
	g, err := ssa.ParseGraph(`graph "constant" { in %x: float32[10] const %q: float32[1] = [0] %y = Add(%x, %q) out %y }`)
	if err == nil {
		err = ops.InferGraph(g)
	}
	if err != nil {
		fmt.Println(err)
		return
	}
	t, err := train.New(context.Background(), berth.FromModule(&ssa.Module{Graph: g}), train.Options{Loss: pinball, Rate: train.Constant(0.5)})
	if err != nil {
		fmt.Println(err)
		return
	}
	x, numbers := ndarray.Must(ndarray.Float32, 10), ndarray.Of([]float32{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}, 10)
	for range 100 {
		if _, err := t.Step(context.Background(), x, numbers); err != nil {
			fmt.Println(err)
			return
		}
	}
	q, err := t.Weight("q")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("nine of ten numbers are at most about", math.Round(q.Float(0)))
	// Output: nine of ten numbers are at most about 9
}

// The mean over rows of -Σ y·log softmax(z), and p = softmax(z). The derivative by z is (p - y)/rows, without a backward pass through
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
		return b.Op("example.operators.SoftmaxCrossEntropy", []*ssa.Value{y, b.Input(train.Target, y.Type)})
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

// Training is interrupted: a checkpoint is written, and another trainer of the same model and options goes on where the first was.
func ExampleTrainer_Checkpoint() {
	module, err := testmodels.Build("mlp")
	if err != nil {
		fmt.Println(err)
		return
	}
	options := train.Options{Loss: train.MeanSquaredError, Optimizer: train.Adam(0.9, 0.999, 1e-8, 0), Rate: train.Cosine(0.01, 0, 10)}
	trainer := func() *train.Trainer {
		t, err := train.New(context.Background(), berth.FromModule(module), options)
		if err != nil {
			log.Fatal(err)
		}
		return t
	}
	x, target := ndarray.Must(ndarray.Float32, 4, 64), ndarray.Must(ndarray.Float32, 4, 10)
	steps := func(t *train.Trainer, count int) (loss float64) {
		for range count {
			if loss, err = t.Step(context.Background(), x, target); err != nil {
				log.Fatal(err)
			}
		}
		return loss
	}
	first := trainer()
	steps(first, 4)
	var file bytes.Buffer // or an os.File
	c, err := first.Checkpoint()
	if err == nil {
		err = gob.NewEncoder(&file).Encode(c)
	}
	if err != nil {
		log.Fatal(err)
	}

	second, kept := trainer(), new(train.Checkpoint)
	if err := gob.NewDecoder(&file).Decode(kept); err != nil {
		log.Fatal(err)
	}
	if err := second.Restore(kept); err != nil {
		log.Fatal(err)
	}
	fmt.Println("steps taken before:", second.Steps())
	fmt.Println("the same loss after 6 more:", steps(first, 6) == steps(second, 6))
	// Output:
	// steps taken before: 4
	// the same loss after 6 more: true
}
