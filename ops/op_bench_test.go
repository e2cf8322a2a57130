package ops_test

import (
	"strings"
	"testing"

	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// BenchmarkOf finds the operators of nodes whose names come from a file.
func BenchmarkOf(b *testing.B) {
	var nodes []*ssa.Node
	for _, name := range []string{"Conv", "Relu", "MatMul", "LayerNormalization", "Add"} {
		nodes = append(nodes, &ssa.Node{Op: strings.Clone(name)})
	}
	nodes = append(nodes, &ssa.Node{Domain: strings.Clone("com.microsoft"), Op: strings.Clone("SkipLayerNormalization")})
	for b.Loop() {
		for _, n := range nodes {
			if ops.Of(n) == nil {
				b.Fatal(n.Op)
			}
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(nodes)), "ns/node")
}
