package export_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"

	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"github.com/berth-onnx/berth"
	"github.com/berth-onnx/berth/backend/gorgonia/export"
	"github.com/berth-onnx/berth/ndarray"
)

// A layer built with Gorgonia becomes a file that every runtime for ONNX reads: its weight is stored, its input is the model's.
// TestONNXRuntime runs such files in ONNX Runtime.
func Example() {
	g := G.NewGraph()
	x := G.NewMatrix(g, tensor.Float32, G.WithShape(1, 2), G.WithName("x"))
	w := G.NewMatrix(g, tensor.Float32, G.WithShape(2, 2), G.WithName("w"), G.WithValue(tensor.New(tensor.WithShape(2, 2), tensor.WithBacking([]float32{1, -1, 2, 1}))))
	y := G.Must(G.Rectify(G.Must(G.Mul(x, w))))
	G.WithName("y")(y)

	m, err := export.Model(g, export.Options{Outputs: G.Nodes{y}, Weights: G.Nodes{w}})
	if err != nil {
		log.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "export")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "layer.onnx")
	if err := m.Save(path, berth.SaveOptions{}); err != nil {
		log.Fatal(err)
	}

	read, err := berth.Open(path)
	if err != nil {
		log.Fatal(err)
	}
	defer read.Close()
	out, err := read.RunValues(context.Background(), map[string]ndarray.Value{"x": ndarray.Of([]float32{3, 1}, 1, 2)})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(read.Inputs()[0].Name, read.Inputs()[0].Type, out["y"].(*ndarray.Array).Floats32())
	// Output: x float32[1,2] [5 0]
}
