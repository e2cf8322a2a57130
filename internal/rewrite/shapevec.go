package rewrite

import (
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ssa"
)

// ShapeVectors recomputes integer vectors whose elements are known symbolically
// in the shortest way: from the shapes of the parameters.
//
//	Shape, Gather, Unsqueeze, Concat, Equal, Where … = {N, 1, 1}
//	  -> Concat(Gather(Shape(x), [0]), [1, 1])            x: float32[N,3,8,8]
//
// This is done where it removes more nodes than it adds. Exporters compute such vectors as
// targets of Expand and Reshape, with code for cases that can not occur.
var ShapeVectors = &Pass{
	Name: "shape-vectors", Doc: "a computed vector of dimensions -> Shape of a parameter, Gather, Concat", backward: true,
	rules: []rule{{"a vector of dimensions -> Shape, Gather, Concat", anyOp, shortenVector}},
}

// piece is a part of a vector: numbers, or dimensions of one parameter.
type piece struct {
	numbers []int64
	of      *ssa.Value
	axes    []int64
}

func shortenVector(c *Context, n *ssa.Node) bool {
	v := n.Out[0]
	if len(n.Out) != 1 || v.Type.DType != ndarray.Int64 || v.Type.Rank() != 1 || len(v.Content) == 0 || !pure(n) {
		return false
	}
	pieces, ok := c.pieces(v.Content)
	if !ok {
		return false
	}
	made := 0
	for _, p := range pieces {
		if p.of == nil {
			continue
		}
		if made++; !p.whole() {
			made++
		}
	}
	if len(pieces) > 1 {
		made++
	}
	if going, _ := c.freed(nil, n); made >= going {
		return false
	}
	c.replace(v, c.assemble(n, pieces))
	return true
}

// whole reports that the piece is the complete shape of its parameter.
func (p piece) whole() bool {
	return len(p.axes) == p.of.Type.Rank() && isIdentityPerm(p.axes)
}

// pieces splits a vector where numbers and parameters change.
func (c *Context) pieces(content []ssa.Dim) ([]piece, bool) {
	var out []piece
	symbolic := false
	for _, d := range content {
		var x *ssa.Value
		var axis int64
		k, known := d.Const()
		if !known {
			if x, axis = c.dimOfParam(d, out); x == nil {
				return nil, false
			}
			symbolic = true
		}
		if len(out) == 0 || out[len(out)-1].of != x {
			out = append(out, piece{of: x})
		}
		last := &out[len(out)-1]
		if known {
			last.numbers = append(last.numbers, k)
		} else {
			last.axes = append(last.axes, axis)
		}
	}
	return out, symbolic
}

// dimOfParam finds a parameter with that dimension, the one of the last piece
// first.
func (c *Context) dimOfParam(d ssa.Dim, before []piece) (*ssa.Value, int64) {
	params := c.graph.Params
	if k := len(before); k > 0 && before[k-1].of != nil {
		params = append([]*ssa.Value{before[k-1].of}, params...)
	}
	for _, p := range params {
		if p.Type.Kind != ssa.KindTensor || !p.Type.Ranked {
			continue
		}
		for i, e := range p.Type.Shape {
			if e.Equal(d) {
				return p, int64(i)
			}
		}
	}
	return nil, 0
}

// assemble builds the vector before mark.
func (c *Context) assemble(mark *ssa.Node, pieces []piece) *ssa.Value {
	hint := mark.Out[0].Name
	var parts []*ssa.Value
	for _, p := range pieces {
		if p.of == nil {
			parts = append(parts, c.constant(hint+"_dims", ssa.Int64s(p.numbers...)))
			continue
		}
		v := c.op(mark, p.of.Name+"_shape", "Shape", []*ssa.Value{p.of})
		if !p.whole() {
			v = c.op(mark, hint, "Gather", []*ssa.Value{v, c.constant(hint+"_axes", ssa.Int64s(p.axes...))}, ssa.IntAttr("axis", 0))
		}
		parts = append(parts, v)
	}
	if len(parts) == 1 {
		return parts[0]
	}
	return c.op(mark, hint, "Concat", parts, ssa.IntAttr("axis", 0))
}
