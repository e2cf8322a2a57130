package train

import (
	"context"
	"fmt"

	"github.com/berth-onnx/berth/gradient"
	"github.com/berth-onnx/berth/internal/ops/drawn"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// Dropout in training. A step needs a mask of its own, which the backward pass meets again; so a Dropout becomes a node whose mask is
// a function of a seed and of the number of the step, an input of every step:
//
//	y  = StepDropout(x, ratio, step)      dx = StepDropout(dy, ratio, step)
//
// No mask is kept, the numbers depend on no thread, and a trainer that goes back to a checkpoint draws the same masks again. In
// the body of a Loop the iteration counts as well; iterations of a Scan, which have no number, share the mask of the step.

// stepNumber is the name of the input that holds the number of the step.
const stepNumber = "number of the step, for dropout"

func init() {
	d := gradient.Definition{Forward: func(n *ssa.Node) (*ssa.Graph, error) { return dropoutGraph(n, 0) }}
	d.Backward = func(n *ssa.Node, _, _ []bool) (*ssa.Graph, error) { return dropoutGraph(n, 2) }
	if err := gradient.Define(drawn.Dropout.Domain, drawn.Dropout.Name, d); err != nil {
		panic(err)
	}
}

// dropoutGraph applies a node's mask to its operand, or, behind the operands, to what comes after its result.
func dropoutGraph(n *ssa.Node, after int) (*ssa.Graph, error) {
	g := ssa.NewGraph("dropout")
	var in []*ssa.Value
	for i, v := range n.In {
		in = append(in, g.AddParam(fmt.Sprintf("operand %d", i), v.Type))
	}
	for i := range after { // the result and its adjoint
		in[0] = g.AddParam(fmt.Sprintf("behind %d", i), n.Out[0].Type)
	}
	d := g.NewNode(n.Op, in, 1, n.Attrs...)
	d.Domain = n.Domain
	g.Results = d.Out
	return g, ops.Infer(d)
}

// drawDropouts brings Dropout nodes into training form, those of bodies too, and returns the number of the step, which they read;
// nil if there are none. A node whose mode is no constant does what its mode says.
func drawDropouts(ctx context.Context, g *ssa.Graph, seed int64) *gradient.Weight {
	count, zero := int64(0), &gradient.Weight{Name: stepNumber, Const: ssa.NewConstant(ndarray.Of([]int64{0}))}
	eachBody(g, nil, func(g *ssa.Graph, iteration *ssa.Value) {
		var step *ssa.Value
		nodes := g.Nodes
		g.Nodes = make([]*ssa.Node, 0, len(nodes))
		for _, n := range nodes {
			if n.Op != "Dropout" || n.Domain != "" || ctx.Err() != nil {
				g.Nodes = append(g.Nodes, n)
				continue
			}
			if step == nil {
				step = g.AddConst(stepNumber, zero.Const)
				zero.Values = append(zero.Values, step)
			}
			count++
			drawDropout(g, n, step, iteration, ops.IntOr(n, "seed", 0)+seed+count<<32)
		}
	})
	if count == 0 {
		return nil
	}
	return zero
}

// eachBody calls a function for a graph and its bodies, with the number of the iteration of the innermost Loop around it.
func eachBody(g *ssa.Graph, iteration *ssa.Value, f func(g *ssa.Graph, iteration *ssa.Value)) {
	f(g, iteration)
	for _, n := range g.Nodes {
		for _, body := range n.Bodies {
			if n.Op == "Loop" && n.Domain == "" {
				eachBody(body, body.Params[0], f)
			} else {
				eachBody(body, nil, f)
			}
		}
	}
}

// drawDropout appends what replaces a node that the graph's list has left out.
func drawDropout(g *ssa.Graph, n *ssa.Node, step, iteration *ssa.Value, seed int64) {
	x, ratio, mode := n.In[0], n.Input(1), n.Input(2)
	if ratio == nil {
		a := ndarray.Must(ndarray.Float32)
		a.SetFloat(0, 0.5)
		ratio = g.AddConst("ratio of "+n.Out[0].Name, ssa.NewConstant(a))
	}
	insert := func(domain, op string, in []*ssa.Value, attrs ...ssa.Attr) *ssa.Value {
		m := g.NewNode(op, in, 1, attrs...)
		m.Domain, m.Name = domain, n.Name
		_ = ops.Infer(m) // again with the graph, which names what does not fit
		return m.Out[0]
	}
	masked := func(x *ssa.Value) *ssa.Value {
		in := []*ssa.Value{x, ratio, step}
		if iteration != nil {
			in = append(in, iteration)
		}
		y := insert(drawn.Dropout.Domain, drawn.Dropout.Name, in, ssa.IntAttr("seed", seed))
		if mode != nil && mode.Const == nil {
			y = insert("", "Where", []*ssa.Value{mode, y, x})
		}
		return y
	}
	replace := func(old, v *ssa.Value) {
		g.ReplaceUses(old, v)
		g.ReplaceResult(old, v)
	}
	if mask := n.Output(1); mask != nil && (len(mask.Uses()) > 0 || g.IsResult(mask)) {
		one := g.AddConst("one of "+mask.Name, ssa.ScalarConst(float32(1)))
		ones := insert("", "Expand", []*ssa.Value{one, insert("", "Shape", []*ssa.Value{x})})
		replace(mask, insert("", "Cast", []*ssa.Value{masked(ones)}, ssa.IntAttr("to", int64(ndarray.Bool))))
	}
	replace(n.Out[0], masked(x))
	n.TruncateInputs(0)
}

// passDropouts brings Dropout nodes whose mode is constant into the form of inference.
func passDropouts(g *ssa.Graph) {
	g.Walk(func(g *ssa.Graph) {
		for _, n := range g.Nodes {
			if n.Op == "Dropout" && n.Domain == "" && n.Input(2) != nil && n.In[2].Const != nil {
				n.TruncateInputs(2)
			}
		}
	})
}

// freezeNorm brings a BatchNormalization that was exported while it trained into the form of inference, unless something reads what
// only training gives.
func freezeNorm(g *ssa.Graph, n *ssa.Node) {
	if n.Op == "BatchNormalization" && n.Domain == "" && ops.Int(n, "training_mode") != 0 && !isRead(g, n.Out[1:]) {
		n.DropAttr("training_mode")
		n.Out = n.Out[:1]
	}
}

// inferenceForm brings what trains into the form of inference.
func inferenceForm(g *ssa.Graph) {
	passDropouts(g)
	g.Walk(func(g *ssa.Graph) {
		for _, n := range g.Nodes {
			freezeNorm(g, n)
		}
	})
}

// isRead reports whether a node or a caller reads some of the values.
func isRead(g *ssa.Graph, values []*ssa.Value) bool {
	for _, v := range values {
		if v != nil && (len(v.Uses()) > 0 || g.IsResult(v)) {
			return true
		}
	}
	return false
}
