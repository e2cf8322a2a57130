package batch

import (
	"slices"

	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// normsInParts writes batch normalizations in training form as their statistics, which are means over the batch, and what each image makes of them:
//
//	m = mean(x)   v = mean((x - m)²)   y = (x - m)/√(v + ε)·scale + bias   running' = running·momentum + (m, v)·(1 - momentum)
//
// Those of float16 stay, since a square may be beyond it.
func normsInParts(g *ssa.Graph) error {
	for _, n := range slices.Clone(g.Nodes) {
		if n.Op != "BatchNormalization" || n.Domain != "" || ops.Int(n, "training_mode") == 0 || slices.ContainsFunc(n.In, isUnknown) {
			continue
		}
		dt, other := n.In[0].Type.DType, func(v *ssa.Value) bool { return v.Type.DType != n.In[0].Type.DType }
		if dt == ndarray.Float16 || slices.ContainsFunc(n.In, other) {
			continue
		}
		b := &before{graph: g, mark: n, like: n.Out[0]}
		b.norm(n)
		if b.err != nil {
			return b.err
		}
	}
	return nil
}

// before writes nodes ahead of another one.
type before struct {
	graph *ssa.Graph
	mark  *ssa.Node
	like  *ssa.Value
	count int
	err   error
}

func (b *before) op(op string, in []*ssa.Value, attrs ...ssa.Attr) *ssa.Value {
	n := b.graph.InsertBefore(b.mark, op, in, 1, attrs...)
	n.Out[0].Name = b.name(op)
	if err := ops.Infer(n); b.err == nil {
		b.err = err
	}
	return n.Out[0]
}

func (b *before) name(of string) string {
	b.count++
	return b.like.Name + " " + of + " " + string(rune('a'+b.count))
}

func (b *before) constant(c *ssa.Constant) *ssa.Value { return b.graph.AddConst(b.name("const"), c) }

// norm writes one normalization.
func (b *before) norm(n *ssa.Node) {
	x, shape := n.In[0], dims(n, 0)
	axes := []int64{0}
	for i := 2; i < len(shape); i++ {
		axes = append(axes, int64(i))
	}
	over, channels := b.constant(ints(axes...)), b.constant(ints(int64(shape[1])))
	mean := b.op("ReduceMean", []*ssa.Value{x, over}, ssa.IntAttr("keepdims", 1))
	centered := b.op("Sub", []*ssa.Value{x, mean})
	variance := b.op("ReduceMean", []*ssa.Value{b.op("Mul", []*ssa.Value{centered, centered}), over}, ssa.IntAttr("keepdims", 1))
	momentum := float64(ops.Float(n, "momentum"))
	for i, v := range []*ssa.Value{mean, variance} {
		now := b.op("Reshape", []*ssa.Value{v, channels})
		if old := n.Output(1 + i); old != nil {
			kept := b.op("Mul", []*ssa.Value{n.In[3+i], b.number(now, momentum)})
			next := b.op("Add", []*ssa.Value{kept, b.op("Mul", []*ssa.Value{now, b.number(now, 1-momentum)})})
			b.graph.ReplaceUses(old, next)
			b.graph.ReplaceResult(old, next)
		}
		n.SetInput(3+i, now)
	}
	n.Out = n.Out[:1]
	n.DropAttr("training_mode")
}

// number is a scalar of a value's type.
func (b *before) number(like *ssa.Value, v float64) *ssa.Value {
	a := ndarray.Must(like.Type.DType)
	a.SetFloat(0, v)
	return b.constant(ssa.NewConstant(a))
}
