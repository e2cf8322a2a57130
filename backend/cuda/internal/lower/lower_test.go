package lower

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth/backend/cuda/internal/device"
	"github.com/berth-onnx/berth/backend/cuda/internal/kernels"
	"github.com/berth-onnx/berth/backend/cuda/internal/sim"
	"github.com/berth-onnx/berth/ndarray"
	_ "github.com/berth-onnx/berth/ops/all"
	"github.com/berth-onnx/berth/ssa"
)

// host has kernels and holds no constants: launches are made and not run.
type host struct {
	set *kernels.Set
	d   *sim.Device
}

func newHost(t *testing.T) *host {
	d := sim.New(sim.Options{})
	set, err := kernels.Load(d)
	require.NoError(t, err)
	return &host{set, d}
}

func (h *host) Kernels() *kernels.Set { return h.set }

func (h *host) Emitted(_ context.Context, text, name string) (device.Kernel, error) {
	m, err := h.d.Load(text)
	if err != nil {
		return nil, err
	}
	return m.Kernel(name)
}

func (h *host) Weight(context.Context, *ssa.Constant) (Operand, error) {
	return Operand{Base: 256, Bytes: 1}, nil
}

// node is a node of operands whose elements no one knows.
func node(op string, dt ndarray.DType, operands [][]int, result []int, attrs ...ssa.Attr) *ssa.Node {
	g := ssa.NewGraph("one")
	var in []*ssa.Value
	for _, shape := range operands {
		in = append(in, g.AddParam("", ssa.StaticTensor(dt, shape...)))
	}
	n := g.NewNode(op, in, 1, attrs...)
	n.Out[0].Type = ssa.StaticTensor(dt, result...)
	return n
}

// TestGrids: what a GPU has no grid for becomes several launches or stays on the host, so that no run fails.
func TestGrids(t *testing.T) {
	const f, many, planes = ndarray.Float32, 5_000_000, 70_000
	groups := ssa.IntAttr("group", planes)
	tests := []struct {
		name     string
		node     *ssa.Node
		launches int   // 0: on the host
		second   int64 // where the second launch writes, in bytes
	}{
		{"rows of a product", node("MatMul", f, [][]int{{many, 3}, {3, 2}}, []int{many, 2}), 1, 0},
		{"columns of a product", node("MatMul", f, [][]int{{2, 3}, {3, many}}, []int{2, many}), 1, 0},
		{"rows of all matrices", node("MatMul", f, [][]int{{many, 7, 1}, {1, 8}}, []int{many, 7, 8}), 1, 0},
		{"a batch of matrices", node("MatMul", f, [][]int{{planes, 3, 2}, {planes, 2, 3}}, []int{planes, 3, 3}), 2, 65535 * 9 * 4},
		{"too large a batch", node("MatMul", f, [][]int{{many, 3, 2}, {many, 2, 3}}, []int{many, 3, 3}), 0, 0},
		{"rows of Gemm", node("Gemm", f, [][]int{{many, 3}, {3, 2}}, []int{many, 2}), 1, 0},
		{"images", node("Conv", f, [][]int{{planes, 2, 3, 3}, {4, 2, 3, 3}}, []int{planes, 4, 1, 1}), 2, 65535 * 4 * 4},
		{"planes", node("Conv", f, [][]int{{2, planes, 3, 3}, {planes, 1, 3, 3}}, []int{2, planes, 1, 1}, groups), 1, 0},
		{"groups of channels", node("Conv", f, [][]int{{1, 2 * planes, 3, 3}, {planes, 2, 3, 3}}, []int{1, planes, 1, 1}, groups), 0, 0},
		{"channels", node("Conv", f, [][]int{{1, 1, 3, 3}, {many, 1, 3, 3}}, []int{1, many, 1, 1}), 0, 0},
		{"images, transposed", node("ConvTranspose", f, [][]int{{planes, 2, 1, 1}, {2, 4, 2, 2}}, []int{planes, 4, 2, 2}), 2, 65535 * 16 * 4},
		{"channels, transposed", node("ConvTranspose", f, [][]int{{1, 2, 1, 1}, {2, planes, 2, 2}}, []int{1, planes, 2, 2}), 0, 0},
		{"planes of a pool", node("MaxPool", f, [][]int{{many, 3, 2, 2}}, []int{many, 3, 1, 1}, ssa.IntsAttr("kernel_shape", 2, 2)), 1, 0},
		{"matrices that are transposed", node("Transpose", f, [][]int{{planes, 2, 3}}, []int{planes, 3, 2}, ssa.IntsAttr("perm", 0, 2, 1)), 1, 0},
		{"rows that are transposed", node("Transpose", f, [][]int{{many, 3}}, []int{3, many}, ssa.IntsAttr("perm", 1, 0)), 1, 0},
		{"rows of Softmax", node("Softmax", f, [][]int{{many, 3}}, []int{many, 3}), 1, 0},
		{"heads", node("Attention", f, [][]int{{1, planes, 1, 1}, {1, planes, 1, 1}, {1, planes, 1, 1}}, []int{1, planes, 1, 1}), 0, 0},
		{"elements", node("Relu", f, [][]int{{1<<31 - 1}}, []int{1<<31 - 1}), 1, 0},
		{"too many elements", node("Relu", f, [][]int{{1 << 16, 1 << 15}}, []int{1 << 16, 1 << 15}), 0, 0},
	}
	h := newHost(t)
	for _, c := range tests {
		t.Run(c.name, func(t *testing.T) {
			plan, err := Node(t.Context(), c.node, h)
			require.NoError(t, err)
			if c.launches == 0 {
				assert.Nil(t, plan)
				return
			}
			require.NotNil(t, plan)
			require.Len(t, plan.Steps, c.launches)
			const start = 1 << 40
			call := &Call{In: make([]Operand, len(c.node.In)), Out: []Operand{{Base: start, Bytes: 1 << 40}}}
			var written []int64
			for _, s := range plan.Steps {
				l, err := s(call)
				require.NoError(t, err)
				written = append(written, int64(l.Windows[len(l.Windows)-1].Base)-start)
			}
			assert.Equal(t, []int64{0, c.second}[:c.launches], written)
		})
	}
}
