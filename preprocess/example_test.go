package preprocess_test

import (
	"context"
	"fmt"
	"image"
	"image/color"
	"log"

	"github.com/berth-onnx/berth"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/preprocess"
	"github.com/berth-onnx/berth/ssa"
)

// A classifier: image, tensor, run, the most probable classes. This one tells which of red, green
// and blue there is most of.
func Example() {
	g, err := ssa.ParseGraph(`graph "colours" { in %image: float32[1,3,8,8] const %axes: int64[2] = [2, 3]
		%scores = ReduceMean(%image, %axes) [keepdims=0] out %scores }`)
	if err != nil {
		log.Fatal(err)
	}
	if err := ops.InferGraph(g); err != nil {
		log.Fatal(err)
	}
	m := berth.FromModule(&ssa.Module{Graph: g}) // berth.Open("classifier.onnx")

	photo := image.NewNRGBA(image.Rect(0, 0, 640, 480)) // image.Decode(file)
	for i := range 640 * 480 {
		photo.Set(i%640, i/640, color.NRGBA{R: 40, G: 200, B: 90, A: 255})
	}
	from, err := preprocess.ForInput(m.Inputs()[0].Type)
	if err != nil {
		log.Fatal(err)
	}
	from.Mean, from.Std = []float32{0.485, 0.456, 0.406}, []float32{0.229, 0.224, 0.225}
	x, err := from.Tensor(photo)
	if err != nil {
		log.Fatal(err)
	}
	out, err := m.RunValues(context.Background(), map[string]ndarray.Value{"image": x})
	if err != nil {
		log.Fatal(err)
	}
	scores, err := berth.As[float32](out["scores"])
	if err != nil {
		log.Fatal(err)
	}
	for _, best := range preprocess.TopK(preprocess.Softmax(scores), 2) {
		fmt.Printf("%s %.2f\n", []string{"red", "green", "blue"}[best.Index], best.Value)
	}
	// Output:
	// green 0.81
	// blue 0.15
}

// A detector: the image keeps its proportions, and boxes are mapped back.
func ExampleImage_Place() {
	p := preprocess.Image{Width: 640, Height: 640, Fit: preprocess.Letterbox}
	photo := image.NewGray(image.Rect(0, 0, 1280, 720))
	x, err := p.Tensor(photo)
	if err != nil {
		log.Fatal(err)
	}
	at, err := p.Place(photo.Bounds())
	if err != nil {
		log.Fatal(err)
	}
	left, top := at.Source(320, 140) // the corner of a box in the tensor
	fmt.Println(x, left, top)
	// Output: float32[1,3,640,640] 640 0
}
