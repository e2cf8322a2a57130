package fused

import (
	"errors"
	"fmt"

	"github.com/berth-onnx/berth/internal/ops/kit"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// Attention is softmax(steps(scale · Q·Kᵀ)) · V in float32, of float32 or of a half type, over operands where they lie in memory: products of
// stacks of matrices, with the transpositions, slices and sums around them. Unlike ONNX's Attention it computes
// what its formula says for every number: a row of scores that are all -Inf gives NaN, and 0 · Inf is NaN.
//
// The attribute form holds an [AttentionForm], and its text, by which equal nodes are known. Operands from number 3
// on are masks, each of one step.
var Attention = ops.Op{
	Domain: Domain, Name: "Attention", Since: 1, Doc: "softmax(steps(scale · Q·Kᵀ)) · V, operands where they lie",
	MinIn: 3, MaxIn: -1, MinOut: 1, MaxOut: 1,
	Attrs: []*ops.AttrSpec{ops.StrAttr("form").Mandatory()},
	Infer: inferAttention,
	Eval:  kit.Kernel(evalAttention),
	Facts: ops.Facts{Traits: ops.GeneralTraits, Cost: attentionCost, InPlace: noPairs, Smaller: noPairs},
}

func init() { ops.Register(&Attention) }

func noPairs(*ssa.Node) []ops.Pair { return nil }

// The kinds of steps of an attention.
const (
	AddMask  = iota // score + mask
	KeepMask        // score where the mask is true, else a number
	DropMask        // a number where the mask is true, else score
)

// AttentionForm says what an attention computes, and where its operands and its result lie.
type AttentionForm struct {
	Batch      []int // dimensions
	S, T, D, E int   // queries, keys, sizes of keys and of values
	Result     []int // shape of the result
	Q, K, V, Y Strided
	Scale      float32
	NaNToZero  bool // weights that are NaN become 0
	Masks      []AttentionMask
}

// Strided is where a stack of matrices lies: first element, strides of the batch, of rows and of columns. Rows
// are queries or keys.
type Strided struct {
	At       int
	Batch    []int
	Row, Col int
}

// AttentionMask is a step, with where its mask lies over queries and keys.
type AttentionMask struct {
	Kind   int
	Number float32
	Lies   Strided
}

// FormAttr is the attribute that holds a form.
func FormAttr(f *AttentionForm) ssa.Attr {
	return ssa.Attr{Name: "form", Kind: ssa.AttrString, S: fmt.Sprint(*f), Other: f}
}

// FormOf returns the form of a node, nil if it has none, as in a file.
func FormOf(n *ssa.Node) *AttentionForm {
	if a := n.Attr("form"); a != nil {
		f, _ := a.Other.(*AttentionForm)
		return f
	}
	return nil
}

func inferAttention(n *ssa.Node) ([]ops.Inferred, error) {
	f := FormOf(n)
	if f == nil || len(n.In) != 3+len(f.Masks) {
		return nil, errAttention
	}
	y := ssa.StaticTensor(ops.InType(n, 0).DType, f.Result...)
	fits := f.Y.fits(f, y, f.S, f.E) && f.Q.fits(f, ops.InType(n, 0), f.S, f.D) && f.K.fits(f, ops.InType(n, 1), f.T, f.D) && f.V.fits(f, ops.InType(n, 2), f.T, f.E)
	for i := range f.Masks {
		fits = fits && f.Masks[i].Lies.fits(f, ops.InType(n, 3+i), f.S, f.T)
	}
	if !fits {
		return nil, errAttention
	}
	return ops.One(y), nil
}

var errAttention = errors.New("the form of an attention is missing, or does not fit the operands: the operator is none of files")

// fits reports that a tensor has all elements of the matrices.
func (s *Strided) fits(f *AttentionForm, t ssa.Type, rows, cols int) bool {
	n, known := t.NumElems().Const()
	if !known || len(s.Batch) != len(f.Batch) {
		return false
	}
	last := s.At + (rows-1)*s.Row + (cols-1)*s.Col
	for i, size := range f.Batch {
		last += (size - 1) * s.Batch[i]
	}
	return last < int(n)
}

func attentionCost(n *ssa.Node) ops.Cost {
	c, f := ops.TrafficOf(n), FormOf(n)
	c.FLOPs = 2 * int64(ndarray.Product(f.Batch)) * int64(f.S) * int64(f.T) * int64(f.D+f.E)
	return c
}

func evalAttention(c *ops.Call) {
	f := FormOf(c.Node)
	y := kit.NewResult[float32](c, 0, kit.Tensor(c, 0).DType, f.Result...)
	a := &attending{AttentionForm: f, c: c, y: y.V, w: kit.Watching(c), scores: make([]float64, f.T)}
	for i := range a.in {
		a.in[i] = kit.Elements[float32](c, kit.Tensor(c, i))
	}
	for i := range ndarray.Product(f.Batch) * f.S {
		a.row(i/f.S, i%f.S)
	}
	y.Store()
}

// attending is one evaluation of Attention.
type attending struct {
	*AttentionForm
	c      *ops.Call
	in     [3][]float32
	y      []float32
	scores []float64 // of a row
	w      kit.Watch
}

// at is an element of a matrix of a batch.
func (a *attending) at(s *Strided, batch, row, col int) int {
	at := s.At + row*s.Row + col*s.Col
	for i := len(a.Batch) - 1; i >= 0; i-- {
		at += batch % a.Batch[i] * s.Batch[i]
		batch /= a.Batch[i]
	}
	return at
}

// row computes a row of the result.
func (a *attending) row(b, s int) {
	for t := range a.scores {
		sum := 0.0
		for d := range a.D {
			sum += float64(a.in[0][a.at(&a.Q, b, s, d)]) * float64(a.in[1][a.at(&a.K, b, t, d)])
		}
		a.w.Did(a.D)
		a.scores[t] = a.masked(float32(sum*float64(a.Scale)), b, s, t)
	}
	kit.SoftmaxLine(&a.w, a.scores)
	for e := range a.E {
		sum := 0.0
		for t, p := range a.scores {
			if p != p && a.NaNToZero {
				p = 0
			}
			sum += p * float64(a.in[2][a.at(&a.V, b, t, e)])
		}
		a.w.Did(a.T)
		a.y[a.at(&a.Y, b, s, e)] = float32(sum)
	}
}

// masked does the steps to a score.
func (a *attending) masked(score float32, b, s, t int) float64 {
	for i := range a.Masks {
		m := &a.Masks[i]
		mask, at := kit.Tensor(a.c, 3+i), a.at(&m.Lies, b, s, t)
		switch {
		case m.Kind == AddMask:
			score += float32(mask.Float(at))
		case (mask.Data[at] != 0) == (m.Kind == DropMask):
			score = m.Number
		}
	}
	return float64(score)
}
