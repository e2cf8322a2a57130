// Package fused holds the operator of a fused group: a node that computes a tile program. It
// exists in lowered graphs alone; no file holds it.
package fused

import (
	"fmt"

	"github.com/berth-onnx/berth/internal/ops/kit"
	"github.com/berth-onnx/berth/internal/tile"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// Domain and Name are those of the operator.
const (
	Domain = ops.Private
	Name   = "Fused"
)

// Fused computes a tile program over its operands, in the order of the program's. The
// attribute program holds the program, and its text form, by which equal nodes are known. A node
// without the program itself, as only a file could have it, is refused.
var Fused = ops.Op{
	Domain: Domain, Name: Name, Since: 1, Doc: "results of a tile program",
	MinIn: 0, MaxIn: -1, MinOut: 1, MaxOut: -1,
	Attrs: []*ops.AttrSpec{ops.StrAttr("program").Mandatory(), ops.StrAttr("windows")},
	Infer: infer,
	Eval:  kit.Kernel(eval),
	Facts: ops.Facts{Traits: ops.GeneralTraits, InPlace: Overwrites, Smaller: func(*ssa.Node) []ops.Pair { return nil }, Cost: cost},
}

func init() { ops.Register(&Fused) }

// Attr is the attribute that holds a program.
func Attr(p *tile.Program) ssa.Attr {
	a := ssa.StringAttr("program", p.String())
	a.Other = p
	return a
}

// Of returns the program of a node.
func Of(n *ssa.Node) (*tile.Program, error) {
	if a := n.Attr("program"); a != nil {
		if p, ok := a.Other.(*tile.Program); ok {
			return p, nil
		}
	}
	return nil, fmt.Errorf("the node has no tile program: the operator is none of files")
}

// Places say where operands and results lie in memory that they do not fill: see package window, which
// programs without such nodes do not link. They are what the attribute windows holds.
type Places interface {
	// Infer and Eval are those of the operator for the node; MayCover is [MayCover].
	Infer(n *ssa.Node) ([]ops.Inferred, error)
	Eval(c *ops.Call) error
	MayCover(n *ssa.Node, o, k int) bool
	// Loops plans the loops of the program. Strides are those of the operands, and behind them those of
	// results that have places; bases are the first elements of all these, and placed says for each result
	// which of the strides it has, 0 for none.
	Loops(n *ssa.Node, p *tile.Program) (l *tile.Loops, bases, placed []int, err error)
}

// PlacesOf returns the places of a node, nil if all its tensors fill their memory.
//
//go:noinline
func PlacesOf(n *ssa.Node) Places {
	if a := n.Attr("windows"); a != nil {
		x, _ := a.Other.(Places)
		return x
	}
	return nil
}

// Is reports a fused node.
func Is(n *ssa.Node) bool { return n.Op == Name && n.Domain == Domain && !n.Opaque }

func infer(n *ssa.Node) ([]ops.Inferred, error) {
	p, err := Of(n)
	if err != nil {
		return nil, err
	}
	if len(n.In) != len(p.Operands) || len(n.Out) > len(p.Results) {
		return nil, fmt.Errorf("a program of %d operands and %d results on a node of %d and %d", len(p.Operands), len(p.Results), len(n.In), len(n.Out))
	}
	if x := PlacesOf(n); x != nil {
		return x.Infer(n)
	}
	types := make([]ssa.Type, len(n.In))
	for i := range n.In {
		if types[i] = ops.InType(n, i); types[i].DType != p.Operands[i] {
			return nil, fmt.Errorf("operand %d is of type %s, the program reads %s", i, types[i].DType, p.Operands[i])
		}
	}
	full, err := ops.BroadcastTypes(ndarray.Float32, types...)
	if err != nil {
		return nil, err
	}
	out := make([]ops.Inferred, len(p.Results))
	for k, r := range p.Results {
		out[k].Type = ssa.UnrankedTensor(p.DType(r.Value))
		if full.Ranked && len(full.Shape) >= p.Inner {
			out[k].Type = ssa.TensorOf(p.DType(r.Value), resultDims(p, k, full.Shape)...)
		}
	}
	return out, nil
}

// resultDims is [tile.Program.ResultShape] for dimensions that need not be known.
func resultDims(p *tile.Program, k int, full []ssa.Dim) []ssa.Dim {
	r := p.Results[k]
	if !p.IsRow(r.Value) {
		return full
	}
	out := append([]ssa.Dim(nil), full[:len(full)-p.Inner]...)
	for range p.Inner {
		if !r.Dropped {
			out = append(out, ssa.D(1))
		}
	}
	return out
}

func eval(c *ops.Call) {
	p := kit.Try(Of(c.Node))
	if x := PlacesOf(c.Node); x != nil {
		kit.Check(x.Eval(c))
		return
	}
	in := make([]*ndarray.Array, len(c.In))
	for i := range c.In {
		in[i] = kit.Tensor(c, i)
	}
	for k, a := range kit.Try(p.Interpret(c.Memory.In(c.Ctx), in)) {
		if k < len(c.Node.Out) && c.Wants(k) {
			kit.Check(c.SetOutput(k, a))
		}
	}
}

// Overwrites lists the operands that the program has read for the last time when it first
// writes the result, which may lie over them.
func Overwrites(n *ssa.Node) (out []ops.Pair) {
	p, err := Of(n)
	if err != nil {
		return nil
	}
	mayCover := func(o, k int) bool { return MayCover(n, o, k) }
	r, last := p.Allocate(mayCover), p.LastReads()
	for k := range n.Out {
		for o := range n.In {
			if mayCover(o, k) && last[o] <= r.FirstWrite[k] {
				out = append(out, ops.Pair{In: o, Out: k})
			}
		}
	}
	return out
}

// MayCover reports that result k may lie over operand o as far as their types and places say. A result without the dimensions of
// its rows lies over none: what has its shape is an operand that is read along the last dimensions.
func MayCover(n *ssa.Node, o, k int) bool {
	if n.In[o] == nil || n.In[o].Const != nil || n.Output(k) == nil {
		return false
	}
	if p, err := Of(n); err == nil && p.Results[k].Dropped { // nodes that no program is stored with are elementwise
		return false
	}
	if x := PlacesOf(n); x != nil {
		return x.MayCover(n, o, k)
	}
	return ops.SameLayout(n.In[o].Type, n.Out[k].Type)
}

func cost(n *ssa.Node) ops.Cost {
	c := ops.TrafficOf(n)
	p, err := Of(n)
	if err != nil {
		return c
	}
	var most int64
	for _, v := range n.Out {
		if v != nil {
			k, _ := v.Type.NumElems().Const()
			most = max(most, k)
		}
	}
	c.FLOPs = most * int64(len(p.Instrs))
	return c
}
