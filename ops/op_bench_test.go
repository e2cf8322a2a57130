package ops_test

import (
	"testing"

	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// BenchmarkOf finds the operators of nodes, by what the nodes remember and by name.
func BenchmarkOf(b *testing.B) {
	var nodes []*ssa.Node
	for _, k := range []ops.Key{{Name: "Conv"}, {Name: "Relu"}, {Name: "MatMul"}, {Name: "LayerNormalization"}, {Name: "Add"}, {Domain: "com.microsoft", Name: "SkipLayerNormalization"}} {
		o := ops.Lookup(k.Domain, k.Name)
		nodes = append(nodes, &ssa.Node{Domain: o.Domain, Op: o.Name})
	}
	for name, find := range map[string]func(*ssa.Node) *ops.Op{
		"node": ops.Of,
		"name": func(n *ssa.Node) *ops.Op { return ops.Lookup(n.Domain, n.Op) },
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				for _, n := range nodes {
					if find(n) == nil {
						b.Fatal(n.Op)
					}
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(nodes)), "ns/lookup")
		})
	}
}
