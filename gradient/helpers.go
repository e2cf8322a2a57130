package gradient

import (
	"slices"

	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ssa"
)

// What formulas are written with.

func (g *builder) add2(a, b *ssa.Value) *ssa.Value { return g.op("Add", a, b) }
func (g *builder) mul(a, b *ssa.Value) *ssa.Value  { return g.op("Mul", a, b) }

// plus adds what is there.
func (g *builder) plus(a *ssa.Value, rest ...*ssa.Value) *ssa.Value {
	for _, b := range rest {
		if b != nil {
			a = g.op("Add", a, b)
		}
	}
	return a
}

func (g *builder) reshape(v *ssa.Value, shape ...int64) *ssa.Value {
	return g.op("Reshape", v, g.ints(shape...))
}

func (g *builder) transpose(v *ssa.Value, perm ...int64) *ssa.Value {
	return g.with("Transpose", []*ssa.Value{v}, ssa.IntsAttr("perm", perm...))
}

// reduce keeps the axes as dimensions of 1.
func (g *builder) reduce(op string, v *ssa.Value, axes ...int64) *ssa.Value {
	return g.with(op, []*ssa.Value{v, g.ints(axes...)}, ssa.IntAttr("keepdims", 1))
}

// part is the elements from up to to along an axis.
func (g *builder) part(v *ssa.Value, axis, from, to int64) *ssa.Value {
	return g.op("Slice", v, g.ints(from), g.ints(to), g.ints(axis))
}

// parts cuts v into pieces of equal size along an axis.
func (g *builder) parts(v *ssa.Value, axis int64, count int) []*ssa.Value {
	return g.node("Split", []*ssa.Value{v}, count, ssa.IntAttr("axis", axis), ssa.IntAttr("num_outputs", int64(count))).Out
}

func (g *builder) joined(axis int64, parts ...*ssa.Value) *ssa.Value {
	return g.with("Concat", parts, ssa.IntAttr("axis", axis))
}

func (g *builder) cast(v *ssa.Value, to ndarray.DType) *ssa.Value {
	if v.Type.DType == to {
		return v
	}
	return g.with("Cast", []*ssa.Value{v}, ssa.IntAttr("to", int64(to)))
}

// static is the shape of v, which must be known.
func (g *builder) static(n *ssa.Node, v *ssa.Value) ([]int64, bool) {
	shape, ok := v.Type.Static()
	if !ok {
		g.refuse(n, "the shape of "+v.Name+" is not known", "bind the shapes of the inputs")
		return nil, false
	}
	out := make([]int64, len(shape))
	for i, d := range shape {
		out[i] = int64(d)
	}
	return out, true
}

// attrsBut are a node's attributes without some.
func attrsBut(n *ssa.Node, names ...string) []ssa.Attr {
	return slices.DeleteFunc(slices.Clone(n.Attrs), func(a ssa.Attr) bool { return slices.Contains(names, a.Name) })
}
