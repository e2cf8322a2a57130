package fused

import (
	"fmt"
	"slices"
	"strings"

	"github.com/berth-onnx/berth/internal/ops/kit"
	"github.com/berth-onnx/berth/internal/ops/linalg"
	"github.com/berth-onnx/berth/internal/ops/nn"
	"github.com/berth-onnx/berth/internal/tile"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// Products with an epilogue: an operator, then a tile program over its result. The program's
// operand 0 is that result, the others stand behind the operator's own operands; its result has
// the type of the operator's.
//
//	y = Conv(x, w, b)
//	z = Add(y, r)         ->   u = berth.internal.Conv(x, w, b, r) with (%0, %1): Relu(Add(%0, %1))
//	u = Relu(z)
//
// The reference kernel is that of the operator and the program's interpreter. A node without the
// attribute is the operator itself. A Conv with the attribute shuffle leaves its channels as a channel
// shuffle of its groups would: channel i of group g is channel i·groups + g of the result.
var (
	Conv          = withEpilogue(&nn.Conv)
	ConvTranspose = withEpilogue(&nn.ConvTranspose)
	MatMul        = withEpilogue(&linalg.MatMul)
	Gemm          = withEpilogue(&linalg.Gemm)
	// BatchNormalization is no product, but a pass over memory like one.
	BatchNormalization = withEpilogue(&nn.BatchNormalization)
)

// products are the operators behind which a program may stand, by their name.
var products = map[string]*ops.Op{"Conv": &nn.Conv, "ConvTranspose": &nn.ConvTranspose, "MatMul": &linalg.MatMul, "Gemm": &linalg.Gemm, "BatchNormalization": &nn.BatchNormalization}

func init() { ops.Register(&Conv, &ConvTranspose, &MatMul, &Gemm, &BatchNormalization) }

// TakesEpilogue reports an operator behind which a program may stand, in a graph without layouts.
func TakesEpilogue(n *ssa.Node) bool { return n.Domain == "" && products[n.Op] != nil }

// withEpilogue is an operator and a program over its result.
func withEpilogue(base *ops.Op) ops.Op {
	attrs := append(ops.Newest(base.Attrs), ops.StrAttr("program"))
	if base == &nn.Conv {
		attrs = append(attrs, ops.IntAttr(shuffle, 0))
	}
	return ops.Op{
		Domain: Domain, Name: base.Name, Since: 1, Doc: base.Doc + ", then a tile program over it",
		MinIn: base.MinIn, MaxIn: -1, OptionalIn: base.MaxIn, MinOut: 1, MaxOut: 1, Attrs: attrs,
		Infer: func(n *ssa.Node) ([]ops.Inferred, error) { return inferEpilogue(base, n) },
		Eval:  kit.Kernel(func(c *ops.Call) { evalEpilogue(base, c) }),
		Facts: ops.Facts{Traits: ops.GeneralTraits, InPlace: over(base), Smaller: func(*ssa.Node) []ops.Pair { return nil },
			Cost: func(n *ssa.Node) ops.Cost { return base.Facts.Cost(product(base, n)) }},
	}
}

// shuffle is the attribute of a Conv that shuffles its channels.
const shuffle = "shuffle"

// Shuffles reports a Conv that does.
func Shuffles(n *ssa.Node) bool { return n.Has(shuffle) }

// Shuffled is a Conv, with or without an epilogue, that shuffles its channels: a node in no graph.
func Shuffled(n *ssa.Node, out *ssa.Value) *ssa.Node {
	attrs := append(slices.Clip(n.Attrs), ssa.IntAttr(shuffle, 1))
	return &ssa.Node{Domain: Domain, Op: n.Op, Name: n.Name, Doc: n.Doc, Attrs: attrs, In: slices.Clone(n.In), Out: []*ssa.Value{out}}
}

// HasEpilogue reports a node with a program.
func HasEpilogue(n *ssa.Node) bool { return n.Has("program") }

// over says that the result may lie where that of the operator may, or over a residual.
func over(base *ops.Op) func(n *ssa.Node) []ops.Pair {
	if base.Facts.InPlace == nil {
		return OverResidual
	}
	return func(n *ssa.Node) []ops.Pair { return append(base.Facts.InPlace(product(base, n)), OverResidual(n)...) }
}

// Epilogue returns the program of a product, plain or over blocked images, and its operands from
// number 1 on; nil if it has none.
func Epilogue(n *ssa.Node) (p *tile.Program, operands []*ssa.Value) {
	p, err := Of(n)
	base := products[strings.TrimPrefix(n.Op, "Blocked")]
	if err != nil || base == nil || len(n.In) <= base.MaxIn {
		return p, nil
	}
	return p, n.In[base.MaxIn:]
}

// WithEpilogue is a node, in no graph, of a product n and a program over its result.
func WithEpilogue(n *ssa.Node, p *tile.Program, operands []*ssa.Value, out *ssa.Value) *ssa.Node {
	in := slices.Clip(n.In)
	for len(operands) > 0 && len(in) < products[n.Op].MaxIn {
		in = append(in, nil)
	}
	attrs := append(slices.Clip(n.Attrs), Attr(p))
	return &ssa.Node{Domain: Domain, Op: n.Op, Name: n.Name, Doc: n.Doc, Attrs: attrs, In: append(in, operands...), Out: []*ssa.Value{out}}
}

// OverResidual says that the result may lie over an operand that the program adds first: kernels
// read it before they write the result there.
func OverResidual(n *ssa.Node) []ops.Pair {
	p, operands := Epilogue(n)
	if len(operands) == 0 {
		return nil
	}
	last := p.LastReads()
	var out []ops.Pair
	for k, v := range operands {
		if last[k+1] == 0 && v != nil && ops.SameLayout(v.Type, n.Out[0].Type) {
			out = append(out, ops.Pair{In: len(n.In) - len(operands) + k, Out: 0})
		}
	}
	return out
}

// Product is the operator without its epilogue, a node in no graph.
func Product(n *ssa.Node) *ssa.Node { return product(products[n.Op], n) }

func product(base *ops.Op, n *ssa.Node) *ssa.Node {
	m := &ssa.Node{Domain: base.Domain, Op: base.Name, Name: n.Name, In: n.In[:min(len(n.In), base.MaxIn)], Out: n.Out}
	m.Attrs = slices.DeleteFunc(slices.Clone(n.Attrs), func(a ssa.Attr) bool { return a.Name == "program" || a.Name == shuffle })
	return m
}

func inferEpilogue(base *ops.Op, n *ssa.Node) ([]ops.Inferred, error) {
	out, err := base.Infer(product(base, n))
	if err != nil || !HasEpilogue(n) {
		return out, err
	}
	p, err := Of(n)
	if err != nil {
		return nil, err
	}
	_, operands := Epilogue(n)
	types := []ssa.Type{out[0].Type}
	for _, v := range operands {
		types = append(types, v.Type)
	}
	fits := len(types) == len(p.Operands) && len(p.Results) == 1
	for k := 0; fits && k < len(types); k++ {
		fits = types[k].DType == p.Operands[k] && (!out[0].Type.Ranked || len(types[k].Shape) <= len(out[0].Type.Shape))
	}
	if !fits || p.DType(p.Results[0].Value) != p.Operands[0] {
		return nil, fmt.Errorf("the program behind the product does not fit its operands: %v", types)
	}
	return out, nil
}

func evalEpilogue(base *ops.Op, c *ops.Call) {
	m := *c
	m.Node, m.Out = product(base, c.Node), nil
	m.In = c.In[:len(m.Node.In)]
	kit.Check(base.Eval(&m))
	in := []*ndarray.Array{m.Out[0].(*ndarray.Array)}
	for i := len(m.In); i < len(c.In); i++ {
		in = append(in, kit.Tensor(c, i))
	}
	y := in[0]
	if HasEpilogue(c.Node) {
		p, _ := Epilogue(c.Node)
		y = kit.Try(p.Interpret(c.Memory.In(c.Ctx), in))[0]
	}
	if Shuffles(c.Node) {
		y = shuffled(c, y, int(ops.Int(c.Node, "group")))
	}
	kit.Check(c.SetOutput(0, y))
}

// shuffled is an image with the channels of its groups in turns.
func shuffled(c *ops.Call, x *ndarray.Array, groups int) *ndarray.Array {
	y := kit.Try(ndarray.NewContext(c.Ctx, c.Memory, x.DType, x.Shape...))
	channels := x.Shape[1]
	each, size := channels/groups, len(x.Data)/max(1, x.Shape[0]*channels)
	for i := range x.Shape[0] * channels {
		n, ch := i/channels, i%channels
		to := n*channels + ch%each*groups + ch/each
		copy(y.Data[to*size:][:size], x.Data[i*size:])
	}
	return y
}
