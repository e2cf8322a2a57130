// Package epilogue reads the tile program behind a product as what the kernels of products do
// with sums before they store them, or with a tile that they have just stored:
//
//	y = act(sum + bias + residual)
//
// bias is a row of the result, residual has its shape. Programs that compute anything else have
// no kernel; the pass that makes them (package fuse) asks before.
package epilogue

import (
	"slices"

	"github.com/berth-onnx/berth/internal/cpu/kern/simd"
	"github.com/berth-onnx/berth/internal/ops/fused"
	"github.com/berth-onnx/berth/internal/tile"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// Epilogue is act(sum + bias + residual).
type Epilogue struct {
	Bias, Residual int // positions of operands, -1 for none
	Act            simd.UnaryOp
	P0, P1         float32 // parameters of Act
}

// activations are the functions that kernels apply to tiles.
var activations = map[tile.Op]simd.UnaryOp{
	"Relu": simd.Relu, "LeakyRelu": simd.LeakyRelu, "Elu": simd.Elu, "HardSigmoid": simd.HardSigmoid, "HardSwish": simd.HardSwish,
	"Sigmoid": simd.Sigmoid, "Swish": simd.Silu, "Tanh": simd.Tanh, "Gelu": simd.Gelu, tile.GeluTanh: simd.GeluTanh,
	"Mish": simd.Mish, "Softplus": simd.Softplus, "Softsign": simd.Softsign, "Clip": simd.Clip,
}

// Of reads the program behind a product, which has none if the attribute is absent; ok is false
// where it computes something else. Types of operands need not be static.
func Of(n *ssa.Node) (e Epilogue, ok bool) {
	e = Epilogue{Bias: -1, Residual: -1}
	p, operands := fused.Epilogue(n)
	if p == nil || len(operands) != len(p.Operands)-1 {
		return e, !fused.HasEpilogue(n)
	}
	at := tile.Ref(0)
	for i := range p.Instrs {
		x := &p.Instrs[i]
		if x.Op == tile.Constant {
			continue
		}
		if e.Act != simd.Identity || !slices.Contains(x.Args, at) {
			return e, false
		}
		if x.Op == "Add" {
			ok = e.add(n, len(n.In)-len(p.Operands)+int(x.Args[0]+x.Args[1]-at))
		} else {
			ok = e.activate(p, x)
		}
		if !ok {
			return e, false
		}
		at = tile.Ref(len(p.Operands) + i)
	}
	return e, p.Results[0].Value == at
}

// Activation reads an epilogue that adds nothing.
func Activation(n *ssa.Node) (e Epilogue, ok bool) {
	e, ok = Of(n)
	return e, ok && e.Bias < 0 && e.Residual < 0
}

// add reads the sum of what is there and the operand at a position.
func (e *Epilogue) add(n *ssa.Node, i int) bool {
	if i < own(n) || i >= len(n.In) || e.Residual >= 0 {
		return false
	}
	v, y := n.In[i].Type, n.Out[0].Type
	if ops.SameLayout(v, y) {
		e.Residual = i
		return true
	}
	if e.Bias >= 0 || IsConv(n) || !isRow(v, y) {
		return false
	}
	e.Bias = i
	return true
}

// activate reads an activation.
func (e *Epilogue) activate(p *tile.Program, x *tile.Instr) (ok bool) {
	e.Act, ok = activations[x.Op]
	at := []*float32{&e.P0, &e.P1}
	for k, v := range x.Params {
		*at[k] = float32(v)
	}
	if x.Op != "Clip" {
		return ok
	}
	e.P1 = float32(x.DType.MaxFinite())
	e.P0 = -e.P1
	for k, v := range x.Args[1:] {
		switch {
		case v == tile.None:
		case !p.IsConstant(v):
			return false
		default:
			*at[k] = float32(p.Instr(v).Value.Float(0))
		}
	}
	return e.P0 <= e.P1
}

// own is how many operands of a product are not those of its epilogue.
func own(n *ssa.Node) int {
	_, operands := fused.Epilogue(n)
	return len(n.In) - len(operands)
}

// IsConv reports a convolution, of plain or blocked images.
func IsConv(n *ssa.Node) bool { return n.Op == fused.Conv.Name || n.Op == "Blocked"+fused.Conv.Name }

// isRow reports an operand with an element for each column of a result.
func isRow(v, y ssa.Type) bool {
	last := len(v.Shape) - 1
	if last < 0 || last >= len(y.Shape) {
		return false
	}
	for _, d := range v.Shape[:last] {
		if !d.Is(1) {
			return false
		}
	}
	return v.Shape[last].Equal(y.Shape[len(y.Shape)-1])
}

// Fits reports whether the kernel of a product in float32, of types that need not be static, has
// a place for its epilogue. Products of two activations must be of one matrix and many rows: those of few may be computed by
// kernels of their own.
func Fits(n *ssa.Node) bool {
	if _, ok := Of(n); !ok || n.In[1].Const == nil && !hasManyRows(n) || !n.Out[0].Type.DType.InFloat32() {
		return false
	}
	x, w, y := n.In[0].Type.Shape, n.In[1].Type.Shape, n.Out[0].Type.Shape
	if n.Op == fused.BatchNormalization.Name {
		_, ok := Activation(n)
		return ok && n.In[4].Const != nil
	}
	if n.Op == fused.ConvTranspose.Name {
		_, ok := Activation(n)
		return ok
	}
	return IsConv(n) || len(x) >= 2 && len(w) >= 2 && !y[len(y)-1].Is(1) && LeavesC(n)
}

// manyRows is from how many rows on products of activations are computed as those with weights are.
const manyRows = 16

// hasManyRows reports a MatMul or Gemm of static types by one matrix.
func hasManyRows(n *ssa.Node) bool {
	y, ok := n.Out[0].Type.Static()
	if !ok || IsConv(n) || n.Op == fused.BatchNormalization.Name || n.In[1].Type.Rank() != 2 || len(y) < 2 || ops.Int(n, "transA") != 0 {
		return false
	}
	rows := 1
	for _, d := range y[:len(y)-1] {
		rows *= d
	}
	return rows >= manyRows && y[len(y)-1] >= manyRows
}

// LeavesC reports that operand C of a Gemm leaves the epilogue its place: it is a row that is
// added as it is, or the epilogue adds nothing.
func LeavesC(n *ssa.Node) bool {
	e, _ := Of(n)
	if n.Op != fused.Gemm.Name || n.Input(2) == nil || e.Bias < 0 && e.Residual < 0 {
		return true
	}
	return e.Bias < 0 && ops.Float(n, "beta") == 1 && isRow(n.In[2].Type, n.Out[0].Type)
}
