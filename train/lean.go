package train

import (
	"context"
	"slices"

	"github.com/berth-onnx/berth/internal/fuse"
	"github.com/berth-onnx/berth/internal/ops/backward"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// grouped makes groups of the elementwise nodes behind the forward pass before an order is searched: the formula of a derivative then holds
// its operands and its result, and none of the values between them, whatever the order.
func grouped(ctx context.Context, g *ssa.Graph) error {
	f := forwardOf(g)
	return fuse.Early(ctx, g, func(n *ssa.Node) bool {
		_, forward := f.at[n]
		return !forward
	})
}

// poolFirst takes maxima before an activation that keeps their order, which it then computes for fewer elements. The derivative comes to be
// at the same elements, and needs no mask of all of them:
//
//	MaxPool(Relu(x))  ─▶  Relu(MaxPool(x))
//
// A window of nothing but padding has the maximum -Inf, which Relu would change.
func poolFirst(g *ssa.Graph) {
	for _, n := range slices.Clone(g.Nodes) {
		if n.Op != "MaxPool" || n.Domain != "" || len(n.Out) > 1 || n.In[0].Def == nil || !windowsMeetImage(n) {
			continue
		}
		relu := n.In[0].Def
		if relu.Op != "Relu" || relu.Domain != "" || len(relu.Out[0].Uses()) > 1 || g.IsResult(relu.Out[0]) || relu.In[0].Type.IsBlocked() {
			continue
		}
		old := n.Out[0]
		n.SetInput(0, relu.In[0])
		m := g.InsertBefore(n, "Relu", []*ssa.Value{old}, 1)
		m.Name, m.Out[0].Name, m.Out[0].Type = relu.Name, old.Name+" activated", old.Type
		for _, u := range slices.Clone(old.Uses()) {
			if u.Node != m {
				u.Node.SetInput(u.Index, m.Out[0])
			}
		}
		g.ReplaceResult(old, m.Out[0])
		g.RemoveNodes(func(x *ssa.Node) bool { return x == relu })
		at := slices.Index(g.Nodes, m)
		g.Nodes[at], g.Nodes[at+1] = g.Nodes[at+1], g.Nodes[at] // behind the pool
	}
}

// windowsMeetImage reports a pooling each of whose windows has an element of the image: pads are less than what the kernel reaches over, its
// elements are no further from each other than the image is long, and no window is added at the end.
func windowsMeetImage(n *ssa.Node) bool {
	shape, ok := n.In[0].Type.Static()
	kernel, pads, dilations := ops.Ints(n, "kernel_shape"), ops.Ints(n, "pads"), ops.Ints(n, "dilations")
	r := len(kernel)
	if !ok || len(shape) != r+2 || ops.Int(n, "ceil_mode") != 0 {
		return false
	}
	for i, k := range kernel {
		step := int64(1)
		if len(dilations) == r {
			step = dilations[i]
		}
		reach := step*(k-1) + 1
		if int64(shape[2+i]) < step || len(pads) == 2*r && max(pads[i], pads[r+i]) >= reach {
			return false
		}
	}
	return true
}

// accumulated lets products that are added to a tensor, or to a multiple of one, be written over that, as a moment is, the sum over parts of a batch, or
// the sum that a loop carries:
//
//	Gemm(A, B, Mul(m, k))  ─▶  Accumulate(A, B, m) [beta = k]
//
// Nodes of the model's own stay, and so do types without a kernel for it.
func accumulated(g *ssa.Graph) {
	f, scaled := forwardOf(g), map[*ssa.Node]bool{}
	for _, n := range g.Nodes {
		if _, forward := f.at[n]; forward {
			continue
		}
		for _, b := range n.Bodies {
			accumulatedInBody(b)
		}
		if !isProductPlus(n) || n.In[2].Def == nil || len(n.In[2].Uses()) > 1 || g.IsResult(n.In[2]) {
			continue
		}
		m := n.In[2].Def
		if m.Op == "Gemm" && m.Domain == "" || m.Op == backward.Accumulate.Name && m.Domain == backward.Accumulate.Domain {
			accumulate(n, n.In[2], 1)
			continue
		}
		if ops.Float(n, "beta") != 1 || m.Op != "Mul" || m.Domain != "" || !ops.SameLayout(m.In[0].Type, n.Out[0].Type) || m.In[1].Const == nil || m.In[1].Const.Len() != 1 {
			continue
		}
		k, err := m.In[1].Const.Array()
		if err != nil || float64(float32(k.Float(0))) != k.Float(0) { // an attribute is a float32
			continue
		}
		accumulate(n, m.In[0], float32(k.Float(0)))
		scaled[m] = true
	}
	g.RemoveNodes(func(n *ssa.Node) bool { return scaled[n] })
}

// isProductPlus reports products whose C has the size of the result, and for whose type there is a kernel.
func isProductPlus(n *ssa.Node) bool {
	return n.Op == "Gemm" && n.Domain == "" && n.Input(2) != nil && ops.SameLayout(n.In[2].Type, n.Out[0].Type) && n.Out[0].Type.DType.InFloat32()
}

// accumulate makes a product one that is written over a tensor, times a number.
func accumulate(n *ssa.Node, c *ssa.Value, beta float32) {
	n.Domain, n.Op = backward.Accumulate.Domain, backward.Accumulate.Name
	n.SetInput(2, c)
	n.SetAttr(ssa.FloatAttr("beta", beta*ops.Float(n, "beta")))
}

// accumulatedInBody writes products over the sums that the body of a loop in the backward pass carries: a parameter that they alone read.
func accumulatedInBody(b *ssa.Graph) {
	for _, n := range b.Nodes {
		if isProductPlus(n) && n.In[2].IsParam() && len(n.In[2].Uses()) == 1 && b.IsResult(n.Out[0]) && !b.IsResult(n.In[2]) {
			accumulate(n, n.In[2], 1)
		}
		for _, inner := range n.Bodies {
			accumulatedInBody(inner)
		}
	}
}
