package rewrite_test

import (
	"context"
	"fmt"
	"log"

	"github.com/berth-onnx/berth/internal/rewrite"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// Graphs have a text form, so that a rewrite can be tried on a few lines.
func Example() {
	g, err := ssa.ParseGraph(`graph "g" {
  in %x: float32[N,4]
  const %one: float32[] = 1
  %a = Transpose(%x) [perm=[1,0]]
  %b = Mul(%a, %one)
  %c = Transpose(%b) [perm=[1,0]]
  %d = Relu(%c)
  %e = Relu(%d)
  out %e
}`)
	if err != nil {
		log.Fatal(err)
	}
	if err := ops.InferGraph(g); err != nil {
		log.Fatal(err)
	}
	report, err := rewrite.Run(context.Background(), &ssa.Module{Graph: g, Opsets: []ssa.Opset{{Version: 18}}}, rewrite.Options{})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Print(g)
	fmt.Println(report.Before.Nodes, "nodes before,", report.After.Nodes, "after")
	// Output:
	// graph "g" {
	//   in %x: float32[N,4]
	//   %e: float32[N,4] = Relu(%x)
	//   out %e
	// }
	// 5 nodes before, 1 after
}
