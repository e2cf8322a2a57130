package gradient_test

import (
	"context"
	"fmt"
	"log"

	"github.com/berth-onnx/berth"
	"github.com/berth-onnx/berth/gradient"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// The derivatives of a function become results of its graph; they are differentiated again.
func ExampleOf() {
	ctx := context.Background()
	g, err := ssa.ParseGraph(`graph "cubes" { in %x: float32[3] const %three: float32[] = 3 %y = Pow(%x, %three) out %y }`)
	if err != nil {
		log.Fatal(err)
	}
	if err := ops.InferGraph(g); err != nil {
		log.Fatal(err)
	}
	x := g.Params[0]
	for range 2 {
		slope, err := gradient.Of(ctx, g, g.Results[len(g.Results)-1], x)
		if err != nil {
			log.Fatal(err)
		}
		g.Results = append(g.Results, slope...)
	}
	program, err := berth.FromModule(&ssa.Module{Graph: g}).Compile(ctx)
	if err != nil {
		log.Fatal(err)
	}
	out, err := program.RunValues(ctx, map[string]ndarray.Value{"x": ndarray.Of([]float32{1, 2, 3}, 3)})
	if err != nil {
		log.Fatal(err)
	}
	for i, name := range []string{"x³", "3x²", "6x"} {
		a := out[g.Results[i].Name].(*ndarray.Array)
		fmt.Println(name, a.Float(0), a.Float(1), a.Float(2))
	}
	// Output:
	// x³ 1 8 27
	// 3x² 3 12 27
	// 6x 6 12 18
}
