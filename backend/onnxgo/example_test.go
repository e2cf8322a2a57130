package onnxgo_test

import (
	"fmt"
	"image"
	"image/color"
	"log"
	"os"
	"path/filepath"

	"github.com/owulveryck/onnx-go"
	"github.com/owulveryck/onnx-go/backend"
	"github.com/owulveryck/onnx-go/backend/x/gorgonnx"
	"gorgonia.org/tensor"

	"github.com/berth-onnx/berth"
	"github.com/berth-onnx/berth/backend/onnxgo"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// A classifier of images, written for onnx-go. The backend is one line of it: here it is run with the one that comes with
// onnx-go, and with this one.
func Example() {
	data := classifier()                              // os.ReadFile("classifier.onnx")
	photo := image.NewNRGBA(image.Rect(0, 0, 32, 32)) // image.Decode(file)
	for i := range 32 * 32 {
		photo.Set(i%32, i/32, color.NRGBA{R: 40, G: 200, B: 90, A: 255})
	}

	classify := func(backend backend.ComputationBackend) {
		model := onnx.NewModel(backend)
		if err := model.UnmarshalBinary(data); err != nil {
			log.Fatal(err)
		}
		if err := model.SetInput(0, pixels(photo)); err != nil {
			log.Fatal(err)
		}
		if err := backend.Run(); err != nil {
			log.Fatal(err)
		}
		out, err := model.GetOutputTensors()
		if err != nil {
			log.Fatal(err)
		}
		p := out[0].Data().([]float32)
		fmt.Printf("red %.2f green %.2f blue %.2f\n", p[0], p[1], p[2])
	}
	classify(gorgonnx.NewGraph())
	classify(onnxgo.NewGraph())
	// Output:
	// red 0.23 green 0.48 blue 0.29
	// red 0.23 green 0.48 blue 0.29
}

// pixels makes a tensor [1, 3, height, width] of an image, its values from 0 to 1.
func pixels(img image.Image) *tensor.Dense {
	size := img.Bounds().Size()
	x := make([]float32, 3*size.X*size.Y)
	for i := range size.X * size.Y {
		r, g, b, _ := img.At(i%size.X, i/size.X).RGBA()
		for c, v := range []uint32{r, g, b} {
			x[c*size.X*size.Y+i] = float32(v) / 0xffff
		}
	}
	return tensor.New(tensor.WithShape(1, 3, size.Y, size.X), tensor.WithBacking(x))
}

// classifier is a model that tells which of red, green and blue there is most of.
func classifier() []byte {
	g, err := ssa.ParseGraph(`graph "colours" {
		in %image: float32[1,3,32,32]
		const %filters: float32[3,3,1,1] = [1, 0, 0, 0, 1, 0, 0, 0, 1]
		const %shape: int64[2] = [1, 3]
		const %weights: float32[3,3] = [1.2, 0, 0, 0, 1.2, 0, 0, 0, 1.2]
		%a = Conv(%image, %filters) [kernel_shape=[1, 1], strides=[1, 1], pads=[0, 0, 0, 0], dilations=[1, 1]]
		%b = Relu(%a)
		%c = GlobalAveragePool(%b)
		%d = Reshape(%c, %shape)
		%e = MatMul(%d, %weights)
		%p = Softmax(%e) [axis=1]
		out %p
	}`)
	if err != nil {
		log.Fatal(err)
	}
	if err := ops.InferGraph(g); err != nil {
		log.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "classifier")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "model.onnx")
	m := berth.FromModule(&ssa.Module{Graph: g, Opsets: []ssa.Opset{{Version: 13}}})
	if err := m.Save(path, berth.SaveOptions{}); err != nil {
		log.Fatal(err)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		log.Fatal(err)
	}
	return data
}
