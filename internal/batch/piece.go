package batch

import (
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// Piece is a node over an equal part of some operands. The sums over parts that it gives are to be added.
type Piece struct {
	Node *ssa.Node // in a graph of its own
	In   []int     // by operand: before one index of the dimension that is cut, how many there are of the ones before it; 0: it is not cut
	Out  []int     // by result; 0: a sum
	Mean bool      // sums are to be divided by the number of parts
}

// Types are the element types of a piece in the place of others, of values, constants and attributes.
type Types struct {
	Of    func(ndarray.DType) ndarray.DType
	Const func(*ssa.Constant) *ssa.Constant
	Attr  func(ssa.Attr) ssa.Attr
}

// PieceOf makes the piece of a node for a number of parts; nil where there is none.
func PieceOf(n *ssa.Node, parts int, as Types) *Piece {
	if len(n.Bodies) > 0 || n.Captures > 0 || len(n.In) == 0 || n.In[0] == nil || n.In[0].Const != nil {
		return nil
	}
	first := dims(n, 0)
	at := firstAxis(first)
	if at < 0 {
		return nil
	}
	together := make([]form, len(n.In))
	for i, v := range n.In {
		if v == nil || v.Const != nil {
			continue
		}
		if axis := firstAxis(dims(n, i)); axis >= 0 && dims(n, i)[axis] == first[at] {
			together[i] = form{split, axis, 1}
		}
	}
	seeds := [][]form{together}
	for axis := at; axis < len(first); axis++ {
		alone := make([]form, len(n.In))
		alone[0] = form{split, axis, 1}
		seeds = append(seeds, alone)
	}
	for _, in := range seeds {
		a := &analysis{parts: parts}
		if !a.fits(n.In[0], in[0]) {
			continue
		}
		if r := a.recipe(n, in); r != nil {
			if p := a.piece(n, in, r, as); p != nil {
				return p
			}
		}
	}
	return nil
}

// firstAxis is the first dimension of more than one element, whose parts lie one behind the other; -1 if there is none.
func firstAxis(shape []int) int {
	for i, d := range shape {
		if d != 1 {
			return i
		}
	}
	return -1
}

// piece writes the node.
func (a *analysis) piece(n *ssa.Node, in []form, r *recipe, as Types) *Piece {
	if r.onto != nil || r.body != nil || r.ints != nil || r.first != nil {
		return nil
	}
	p, g := &Piece{Mean: r.mean}, ssa.NewGraph("piece")
	operands := make([]*ssa.Value, len(n.In))
	for i, v := range n.In {
		f := in[i]
		if cut, ok := r.cut[i]; ok {
			f = cut
		}
		p.In = append(p.In, ahead(v, f))
		switch {
		case v == nil:
		case !canCut(n, v, f):
			return nil
		case v.Const != nil && f.isSplit():
			return nil
		case v.Const != nil:
			operands[i] = g.AddConst(v.Name, as.Const(v.Const))
		default:
			operands[i] = g.AddParam(v.Name, ssa.StaticTensor(as.Of(v.Type.DType), a.part(v, f)...))
		}
	}
	m := g.NewNode(n.Op, operands, 0)
	for _, attr := range n.Attrs {
		m.SetAttr(as.Attr(attr))
	}
	m.Domain, m.Version = n.Domain, n.Version
	for i, v := range n.Out {
		if v == nil {
			g.AddOutput(m, "")
			p.Out = append(p.Out, 0)
			continue
		}
		if f := r.out[i]; f.kind != sum && (!f.isSplit() || !canCut(n, v, f)) {
			return nil
		}
		g.AddOutput(m, v.Name)
		p.Out = append(p.Out, ahead(v, r.out[i]))
	}
	if ops.Infer(m) != nil {
		return nil
	}
	for i, v := range n.Out {
		if v != nil && !m.Out[i].Type.Equal(ssa.StaticTensor(as.Of(v.Type.DType), a.part(v, r.out[i])...)) {
			return nil
		}
	}
	p.Node = m
	return p
}

// ahead is how many indices there are ahead of the dimension that is cut; 0 for none.
func ahead(v *ssa.Value, f form) int {
	if v == nil || !f.isSplit() {
		return 0
	}
	shape, _ := v.Type.Static()
	return ndarray.Product(shape[:f.axis])
}

// canCut reports values that pieces may be of. Parts that do not lie one behind the other must be of half types, which are copied, and no result may
// be written over an operand that is larger, since other parts of that are read later.
func canCut(n *ssa.Node, v *ssa.Value, f form) bool {
	if !f.isSplit() || f.outer == 1 && ahead(v, f) == 1 {
		return true
	}
	return f.outer == 1 && v.Type.DType.IsHalf() && len(ops.SmallerPairs(n)) == 0
}
