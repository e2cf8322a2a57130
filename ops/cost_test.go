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

// TestCostOfRecurrences: every weight is multiplied once a step for every sequence, however the operator lays weights out.
func TestCostOfRecurrences(t *testing.T) {
	const steps, batch, input, hidden = 5, 2, 3, 4
	for _, c := range []struct {
		op, domain string
		w, r       []int
		gates      int64
	}{
		{"RNN", "", []int{1, hidden, input}, []int{1, hidden, hidden}, 1},
		{"GRU", "", []int{1, 3 * hidden, input}, []int{1, 3 * hidden, hidden}, 3},
		{"LSTM", "", []int{1, 4 * hidden, input}, []int{1, 4 * hidden, hidden}, 4},
		{"DynamicQuantizeLSTM", "com.microsoft", []int{1, input, 4 * hidden}, []int{1, hidden, 4 * hidden}, 4},
	} {
		g := ssa.NewGraph("g")
		var in []*ssa.Value
		for _, shape := range [][]int{{steps, batch, input}, c.w, c.r} {
			in = append(in, g.AddParam("", ssa.StaticTensor(ndarray.Float32, shape...)))
		}
		n := g.NewNode(c.op, in, 1)
		n.Domain = c.domain
		assert.EqualValues(t, 2*steps*batch*c.gates*hidden*(input+hidden), ops.CostOf(n).FLOPs, c.op)
	}
}
