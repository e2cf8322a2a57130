package expr_test

import (
	"context"
	"fmt"
	"log"

	"github.com/berth-onnx/berth"
	"github.com/berth-onnx/berth/expr"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ssa"
	"github.com/berth-onnx/berth/testmodels"
)

// tensorOf is a tensor over a slice.
func tensorOf[T expr.Elem](data []T, shape ...int) *expr.Tensor[T] {
	t, err := expr.Of(data, shape...)
	if err != nil {
		log.Fatal(err)
	}
	return t
}

// An image of bytes [height width channels] becomes one of normalised floats [channels height width], in one kernel.
func ExamplePrepare() {
	pixels := tensorOf([]uint8{0, 51, 255, 102, 153, 204}, 1, 2, 3)
	mean := tensorOf([]float32{0.5, 0.4, 0.6}, 3, 1, 1)
	image := tensorOf(make([]float32, 6), 3, 1, 2)
	unit := expr.Cast[float32](expr.Transpose(pixels, 2, 0, 1)).Div(expr.Num[float32](255))
	p, err := expr.Prepare(context.Background(), expr.Into(image, unit.Sub(mean).Div(expr.Num[float32](0.5))))
	if err != nil {
		log.Fatal(err)
	}
	if err := p.Execute(context.Background()); err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%.1f %q\n", image.Data(), p.Kernels())
	// Output: [-1.0 -0.2 -0.4 0.4 0.8 0.4] ["Cast Div Sub Mul"]
}

// Boxes as detectors give them, by center and size, become corners: halves of the columns are windows. Both assignments are one program.
func ExampleBatch() {
	boxes := tensorOf([]float32{10, 20, 4, 6, 50, 50, 20, 10}, 2, 4)
	corners := tensorOf(make([]float32, 8), 2, 4)
	center, half := boxes.Slice(expr.All, expr.Span(0, 2)), boxes.Slice(expr.All, expr.Span(2, 4)).Mul(expr.Num[float32](0.5))
	err := expr.Batch(context.Background(),
		expr.Into(corners.Slice(expr.All, expr.Span(0, 2)), center.Sub(half)),
		expr.Into(corners.Slice(expr.All, expr.Span(2, 4)), center.Add(half)))
	fmt.Println(corners.Data(), err)
	// Output: [8 17 12 23 40 45 60 55] <nil>
}

// Scores of two models are mixed by a weight that is memory, so that another weight compiles nothing.
func Example_scores() {
	a, b := tensorOf([]float32{1, 3, 2, 0, 0, 5}, 2, 3), tensorOf([]float32{4, 0, 0, 1, 0, 0}, 2, 3)
	weight, class := tensorOf([]float32{0}), tensorOf(make([]int64, 2), 2)
	mixed := expr.Softmax(a, -1).Mul(weight).Add(expr.Softmax(b, -1).Mul(expr.Sub[float32](expr.Num[float32](1), weight)))
	best := expr.ArgMax(mixed, -1, false)
	for _, w := range []float32{1, 0.2} {
		weight.Data()[0] = w
		if err := expr.Assign(context.Background(), class, best); err != nil {
			log.Fatal(err)
		}
		fmt.Println(class.Data())
	}
	// Output:
	// [1 2]
	// [0 0]
}

// The value of a loss: the mean cross entropy of scores [n classes] and the classes that are right.
func Example_loss() {
	scores, right := tensorOf([]float32{2, 0, 0, 0, 1, 0}, 2, 3), tensorOf([]int64{0, 2}, 2, 1)
	loss := tensorOf([]float32{0})
	entropy := expr.ReduceMean(expr.GatherElements(expr.LogSoftmax(scores, -1), right, 1), false).Neg()
	err := expr.Assign(context.Background(), loss, entropy)
	fmt.Printf("%.4f %v\n", loss.Data()[0], err)
	// Output: 0.8955 <nil>
}

// What a YOLO network gives becomes boxes within the program, and within the file that is saved: for each of 3 anchors and each cell, an offset, a size, whether there
// is something, and 4 classes. Grid and anchors become weights of the model.
func Example_boxes() {
	const anchors, classes, side, stride = 3, 4, 4, 16
	g, err := ssa.ParseGraph(`graph "head" { in %image: float32[N,3,64,64] const %w: float32[27,3,16,16] = splat 0.001 %raw = Conv(%image, %w) [strides=[16,16]] out %raw }`)
	if err != nil {
		log.Fatal(err)
	}
	var cells []float32
	for i := range side * side {
		cells = append(cells, float32(i%side), float32(i/side))
	}
	grid, num, all := tensorOf(cells, 1, side, side, 2), expr.Num[float32], expr.All
	sizes := tensorOf([]float32{10, 13, 16, 30, 33, 23}, anchors, 1, 1, 2)
	model, err := expr.Extend(context.Background(), berth.FromModule(&ssa.Module{Graph: g}), func(p *expr.Ports) {
		raw := expr.Reshape(expr.Output[float32](p, "raw"), anchors, 5+classes, side, side)
		y := expr.Sigmoid(expr.Transpose(raw, 0, 2, 3, 1)) // the numbers of a box in a row
		center := y.Slice(all, all, all, expr.Span(0, 2)).Mul(num(2)).Sub(num(0.5)).Add(grid).Mul(num(stride))
		twice := y.Slice(all, all, all, expr.Span(2, 4)).Mul(num(2))
		half := twice.Mul(twice).Mul(sizes).Mul(num(0.5))
		score := y.Slice(all, all, all, expr.Span(5, expr.ToEnd)).Mul(y.Slice(all, all, all, expr.Span(4, 5)))
		expr.Result(p, "boxes", expr.Reshape(expr.Concat(-1, center.Sub(half), center.Add(half)), -1, 4))
		expr.Result(p, "classes", expr.Reshape(expr.ArgMax(score, -1, false), -1))
		expr.Result(p, "scores", expr.Reshape(expr.ReduceMax(score, false, -1), -1))
		p.Drop("raw")
	}, berth.WithDim("N", 1))
	if err != nil {
		log.Fatal(err)
	}
	out, err := model.RunValues(context.Background(), map[string]ndarray.Value{"image": ndarray.Must(ndarray.Float32, 1, 3, 64, 64)})
	if err != nil {
		log.Fatal(err)
	}
	boxes, scores := out["boxes"].(*ndarray.Array), out["scores"].(*ndarray.Array)
	fmt.Println(boxes.Shape, ndarray.Slice[float32](boxes)[:4], scores.Float(0))
	// Output: [48 4] [3 1.5 13 14.5] 0.25
}

// A model of floats takes bytes, and gives the best class and its score.
func ExampleExtend() {
	module, err := testmodels.Build("mlp") // x [4 64] -> probabilities [4 10]
	if err != nil {
		log.Fatal(err)
	}
	model, err := expr.Extend(context.Background(), berth.FromModule(module), func(p *expr.Ports) {
		pixels := expr.Input[uint8](p, "pixels", 4, 64)
		expr.Feed(p, "x", expr.Cast[float32](pixels).Div(expr.Num[float32](255)))
		scores := expr.Output[float32](p, "probabilities")
		expr.Result(p, "class", expr.ArgMax(scores, -1, false))
		expr.Result(p, "score", expr.ReduceMax(scores, false, -1))
		p.Drop("probabilities")
	})
	if err != nil {
		log.Fatal(err)
	}
	out, err := model.RunValues(context.Background(), map[string]ndarray.Value{"pixels": ndarray.Must(ndarray.Uint8, 4, 64)})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(model.Inputs()[0].Name, model.Outputs()[0].Name, out["class"].(*ndarray.Array).Shape)
	// Output: pixels class [4]
}
