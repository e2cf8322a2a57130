package nchwc

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// The standard operators that those of the domain become.

// graph converts the nodes of a graph in order; the types of what comes before a
// node are known when it is met.
func (b *unblocker) graph(g *ssa.Graph) error {
	for _, n := range slices.Clone(g.Nodes) {
		if err := b.ctx.Err(); err != nil {
			return err
		}
		if len(n.Bodies) > 0 {
			if err := ops.InferContext(b.ctx, n); err != nil { // gives the bodies' parameters their types
				return err
			}
			for _, body := range n.Bodies {
				if err := b.graph(body); err != nil {
					return err
				}
			}
		}
		if n.Domain == domain {
			if err := b.node(g, n); err != nil {
				return fmt.Errorf("node %s: %w", n, err)
			}
		}
		if err := ops.InferContext(b.ctx, n); err != nil {
			return err
		}
	}
	return nil
}

func (b *unblocker) node(g *ssa.Graph, n *ssa.Node) error {
	switch n.Op {
	case "ReorderInput":
		return b.reorderInput(g, n)
	case "ReorderOutput":
		return b.reorderOutput(g, n)
	case "Conv":
		return b.conv(g, n)
	case "Upsample":
		return b.upsample(g, n)
	case "MaxPool", "AveragePool", "GlobalAveragePool", "GlobalMaxPool":
		become(n, n.Op)
		return nil
	}
	return fmt.Errorf("operator %s is not known", n.Op)
}

// become makes an opaque node one of the default domain.
func become(n *ssa.Node, op string) {
	n.Domain, n.Op, n.Opaque, n.Version, n.Origin = "", op, false, 0, nil
}

// insert adds a node before another one and infers its type.
func insert(g *ssa.Graph, before *ssa.Node, op string, in []*ssa.Value, attrs ...ssa.Attr) (*ssa.Value, error) {
	m := g.InsertBefore(before, op, in, 1, attrs...)
	m.Out[0].Name = fmt.Sprintf("%s_%s_%d", before.Out[0].Name, op, m.ID)
	return m.Out[0], ops.Infer(m)
}

func constant(g *ssa.Graph, name string, c *ssa.Constant) *ssa.Value {
	return g.AddConst(fmt.Sprintf("%s_%d", name, g.NumValues()), c)
}

func (b *unblocker) reorderInput(g *ssa.Graph, n *ssa.Node) (err error) {
	x := n.In[0]
	if ops.Int(n, "channels_last") != 0 {
		if x, err = insert(g, n, "Transpose", []*ssa.Value{x}, ssa.IntsAttr("perm", 0, 3, 1, 2)); err != nil {
			return err
		}
	}
	if x.Type.Rank() != 4 {
		return fmt.Errorf("operand %s is no tensor of rank 4", x.Type)
	}
	c, ok := x.Type.Shape[1].Const()
	if !ok {
		return fmt.Errorf("the number of channels of %s is not known", x.Type)
	}
	n.Attrs = nil
	more := (int64(b.block) - c%int64(b.block)) % int64(b.block)
	if more == 0 {
		become(n, "Identity")
		n.SetInputs([]*ssa.Value{x})
		return nil
	}
	become(n, "Pad")
	n.SetInputs([]*ssa.Value{x, constant(g, "pads", ssa.Int64s(0, 0, 0, 0, 0, more, 0, 0))})
	return nil
}

func (b *unblocker) reorderOutput(g *ssa.Graph, n *ssa.Node) (err error) {
	x, last := n.In[0], ops.Int(n, "channels_last") != 0
	if x.Type.Rank() != 4 {
		return fmt.Errorf("operand %s is no tensor of rank 4", x.Type)
	}
	channels := ops.Int(n, "channels")
	n.Attrs = nil
	cut := []*ssa.Value{x, constant(g, "from", ssa.Int64s(0)), constant(g, "to", ssa.Int64s(channels)), constant(g, "axis", ssa.Int64s(1))}
	whole := x.Type.Shape[1].Is(channels)
	switch {
	case last:
		if !whole {
			if x, err = insert(g, n, "Slice", cut); err != nil {
				return err
			}
		}
		become(n, "Transpose")
		n.Attrs = []ssa.Attr{ssa.IntsAttr("perm", 0, 2, 3, 1)}
		n.SetInputs([]*ssa.Value{x})
	case whole:
		become(n, "Identity")
	default:
		become(n, "Slice")
		n.SetInputs(cut)
	}
	return nil
}

// conv is a Conv, with a sum and an activation behind it where they go with it:
//
//	Y = activation(Conv(X, W, B) + Z)
func (b *unblocker) conv(g *ssa.Graph, n *ssa.Node) (err error) {
	w, _, _ := filterOf(n)
	if w == nil {
		return fmt.Errorf("its filters are no constant of 4 dimensions")
	}
	n.SetInput(1, constant(g, n.In[1].Name, plainFilter(w, b.block)))
	act, params, sum := ops.Str(n, "activation"), ops.Floats(n, "activation_params"), n.Input(3)
	n.DropAttr("activation")
	n.DropAttr("activation_params")
	if len(n.In) > 3 {
		n.TruncateInputs(3)
	}
	if act == "" && sum == nil {
		become(n, "Conv")
		return nil
	}
	y, err := insert(g, n, "Conv", slices.Clone(n.In), n.Attrs...)
	if err != nil {
		return err
	}
	n.Attrs = nil
	if act == "" {
		become(n, "Add")
		n.SetInputs([]*ssa.Value{y, sum})
		return nil
	}
	if sum != nil {
		if y, err = insert(g, n, "Add", []*ssa.Value{y, sum}); err != nil {
			return err
		}
	}
	return activate(g, n, y, act, params)
}

// activate makes a node the activation of a value.
func activate(g *ssa.Graph, n *ssa.Node, y *ssa.Value, act string, params []float32) error {
	param := func(i int) ssa.Attr {
		return ssa.FloatAttr([]string{"alpha", "beta"}[i], params[i])
	}
	wants := map[string]int{"Relu": 0, "Tanh": 0, "Sigmoid": 0, "HardSwish": 0, "LeakyRelu": 1, "Clip": 2, "HardSigmoid": 2}
	if k, known := wants[act]; !known || len(params) < k {
		return fmt.Errorf("activation %q with %d parameters is not known", act, len(params))
	}
	become(n, act)
	n.SetInputs([]*ssa.Value{y})
	switch act {
	case "LeakyRelu":
		n.Attrs = []ssa.Attr{param(0)}
	case "HardSigmoid":
		n.Attrs = []ssa.Attr{param(0), param(1)}
	case "Clip":
		n.SetInputs([]*ssa.Value{y, constant(g, "least", ssa.ScalarConst(params[0])), constant(g, "most", ssa.ScalarConst(params[1]))})
	}
	return nil
}

func (b *unblocker) upsample(g *ssa.Graph, n *ssa.Node) error {
	scales := ndarray.Must(ndarray.Float32, len(ops.Ints(n, "scales")))
	for i, s := range ops.Ints(n, "scales") {
		scales.SetInt(i, s)
	}
	mode, coord := cmp.Or(ops.Str(n, "mode"), "nearest"), cmp.Or(ops.Str(n, "coordinate_transformation_mode"), "asymmetric")
	attrs := []ssa.Attr{ssa.StringAttr("mode", mode), ssa.StringAttr("coordinate_transformation_mode", coord)}
	if mode == "nearest" {
		attrs = append(attrs, ssa.StringAttr("nearest_mode", "floor"))
	}
	become(n, "Resize")
	n.Attrs = attrs
	n.SetInputs([]*ssa.Value{n.In[0], nil, constant(g, "scales", ssa.NewConstant(scales))})
	return nil
}
