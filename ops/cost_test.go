package ops_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	_ "github.com/berth-onnx/berth/ops/all"
	"github.com/berth-onnx/berth/ssa"
)

// TestCostOfIncompleteNodes: a lenient import keeps nodes without what their operator requires; whoever counts them meets
// operands and results that are absent.
func TestCostOfIncompleteNodes(t *testing.T) {
	for _, o := range ops.All() {
		for operands := range o.MinIn + 2 {
			for _, results := range []int{0, 1, o.MinOut} {
				for _, absent := range []bool{false, true} {
					g := ssa.NewGraph("g")
					in := make([]*ssa.Value, operands)
					for i := range in {
						if !absent {
							in[i] = g.AddParam("", ssa.StaticTensor(ndarray.Float32, 2, 3))
						}
					}
					n := g.NewNode(o.Name, in, results)
					n.Domain = o.Domain
					for i, v := range n.Out {
						v.Type = ssa.StaticTensor(ndarray.Float32, 2, 3)
						if absent {
							n.Out[i] = nil
						}
					}
					assert.NotPanics(t, func() { ops.CostOf(n) }, "%s of %d operands and %d results, absent: %v", o.Name, operands, results, absent)
				}
			}
		}
	}
}
