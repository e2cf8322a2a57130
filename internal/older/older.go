// Package older writes what operators compute with operators of older operator sets: for models that are to import an
// operator set older than the operator is. It is linked by import, as it takes effect in [rewrite.Older] alone.
//
//	20: Gelu(x)              0.5 · x · (1 + Erf(x/√2))
//	17: LayerNormalization   ReduceMean, Sub, Mul, ReduceMean, Add, Sqrt, Div, Mul, Add
//	15: Shape(x; start=1)    Slice(Shape(x), [1], …)
//
// The formulas are those of the operators' pages at https://onnx.ai/onnx/operators/.
package older

import (
	"slices"

	"github.com/berth-onnx/berth/internal/rewrite"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// formula writes the results of a node; nil where it can not.
type formula func(b *builder) []*ssa.Value

var formulas map[string]formula

func init() {
	formulas = map[string]formula{
		"Attention": attention, "CastLike": castLike, "Celu": celu, "CenterCropPad": centerCropPad, "GRU": batchFirst, "Gelu": gelu,
		"GreaterOrEqual": orEqual("Greater"), "GroupNormalization": groupNorm, "HardSwish": hardSwish, "LSTM": batchFirst, "LayerNormalization": layerNorm,
		"LessOrEqual": orEqual("Less"), "Mish": mish, "Pad": pad, "RMSNormalization": rmsNorm, "RNN": batchFirst, "Reshape": reshape, "Resize": resize,
		"Shape": shapeRange, "SwiGLU": swiGLU, "Swish": swish, "Trilu": trilu,
	}
	rewrite.WriteOlder(func(o *ops.Op) bool { return o.Domain == "" && formulas[o.Name] != nil }, Expand)
}

// Expand returns what a node computes as a graph over the operands that are there, in operators of an operator set. It is
// nil where there is no such graph.
func Expand(n *ssa.Node, version int) *ssa.Graph {
	f := formulas[n.Op]
	if f == nil || n.Domain != "" {
		return nil
	}
	b := &builder{n: n, g: ssa.NewGraph("")}
	if at := slices.IndexFunc(n.Out, func(v *ssa.Value) bool { return v != nil }); at >= 0 {
		b.hint = n.Out[at].Name
	}
	for _, v := range n.In {
		if v != nil {
			v = b.g.AddParam(v.Name, v.Type)
		}
		b.in = append(b.in, v)
	}
	b.g.Results = f(b)
	if b.g.Results == nil || b.failed {
		return nil
	}
	for _, m := range b.g.Nodes {
		if !ops.FitsIn(m, version) && (m.Op == n.Op || Expand(m, version) == nil) {
			return nil
		}
	}
	return b.g
}

// builder writes nodes.
type builder struct {
	n      *ssa.Node // that is written out
	g      *ssa.Graph
	hint   string       // begins the names of values
	in     []*ssa.Value // its operands in g, nil where absent
	failed bool         // a node that was written is not valid
}

// input is operand i, nil if it is absent.
func (b *builder) input(i int) *ssa.Value {
	if i < len(b.in) {
		return b.in[i]
	}
	return nil
}

// node adds a node.
func (b *builder) node(op string, in []*ssa.Value, results int, attrs ...ssa.Attr) *ssa.Node {
	m := b.g.NewNode(op, in, results, attrs...)
	for _, v := range m.Out {
		v.Name = b.hint + "_" + op
	}
	b.failed = b.failed || ops.Infer(m) != nil
	return m
}

// op adds a node of one result.
func (b *builder) op(op string, in ...*ssa.Value) *ssa.Value { return b.node(op, in, 1).Out[0] }

// with adds a node of one operand and one result.
func (b *builder) with(op string, x *ssa.Value, attrs ...ssa.Attr) *ssa.Value {
	return b.node(op, []*ssa.Value{x}, 1, attrs...).Out[0]
}

// same adds a node with the operator of the one that is written out, and its attributes but for some.
func (b *builder) same(in []*ssa.Value, dropped ...string) *ssa.Node {
	attrs := slices.DeleteFunc(slices.Clone(b.n.Attrs), func(a ssa.Attr) bool { return slices.Contains(dropped, a.Name) })
	m := b.node(b.n.Op, in, len(b.n.Out), attrs...)
	for i, v := range b.n.Out {
		if v == nil {
			m.Out[i] = nil
		}
	}
	return m
}

func (b *builder) constant(c *ssa.Constant) *ssa.Value {
	return b.g.AddConst(b.hint+"_const", c)
}

// ints is a list of integers.
func (b *builder) ints(v ...int64) *ssa.Value { return b.constant(ssa.Int64s(v...)) }

// number is a scalar of the element type of another value.
func (b *builder) number(like *ssa.Value, v float64) *ssa.Value {
	dt := like.Type.DType
	if dt == ndarray.Undefined {
		b.failed = true
		return like
	}
	a := ndarray.Must(dt)
	if dt != ndarray.String {
		a.SetFloat(0, v)
	}
	return b.constant(ssa.NewConstant(a))
}

func (b *builder) times(x *ssa.Value, by float64) *ssa.Value { return b.op("Mul", x, b.number(x, by)) }

func (b *builder) plus(x *ssa.Value, more float64) *ssa.Value {
	return b.op("Add", x, b.number(x, more))
}

// cast is x in another element type.
func (b *builder) cast(x *ssa.Value, to ndarray.DType) *ssa.Value {
	if x.Type.DType == to {
		return x
	}
	return b.with("Cast", x, ssa.IntAttr("to", int64(to)))
}

// joined joins lists of integers or floats.
func (b *builder) joined(lists ...*ssa.Value) *ssa.Value {
	return b.node("Concat", lists, 1, ssa.IntAttr("axis", 0)).Out[0]
}

// pick is the elements of a list at places.
func (b *builder) pick(list *ssa.Value, at ...int64) *ssa.Value {
	return b.op("Gather", list, b.ints(at...))
}

func one(v *ssa.Value) []*ssa.Value { return []*ssa.Value{v} }
