package fuse

import (
	"slices"

	"github.com/berth-onnx/berth/internal/ops/fused"
	"github.com/berth-onnx/berth/internal/tile"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// member is a node as instructions of a program.
type member struct {
	node   *ssa.Node
	op     tile.Op
	params []float64
	in     []*ssa.Value // arguments
	inner  int          // of a reduction or normalization: the innermost dimensions that are its row
	shape  []ssa.Dim    // of the result, or of what is reduced
	repeat bool         // the operator folds all arguments from the first on
	mean   bool         // and divides by their number
	row    bool         // in a group: computed once for each row
}

// MaxRow is how many elements a row may have: rows are held in workspace as a whole.
const MaxRow = 1 << 13

// memberOf reads a node; nil if no program computes it.
func memberOf(n *ssa.Node) *member {
	if len(n.In) > maxMembers+maxOperands { // more than a group may make and read
		return nil
	}
	op, params, known := fused.OpOf(n)
	if !known && !folds(n) {
		return nil
	}
	m := &member{node: n, op: op, params: params, in: n.In}
	if !known {
		m.op, m.repeat, m.mean = "Add", true, n.Op == "Mean"
	}
	out := n.Output(0)
	if out == nil || !tensor(out) || out.Content != nil || slices.ContainsFunc(n.Out[1:], func(v *ssa.Value) bool { return v != nil }) {
		return nil
	}
	if m.op == "Cast" || m.op.Reduces() {
		m.in = n.In[:1]
	}
	for _, v := range m.in {
		if v != nil && !tensor(v) {
			return nil
		}
	}
	m.shape = out.Type.Shape
	if !m.fits() {
		return nil
	}
	return m
}

// folds reports a Sum or Mean of two operands and more.
func folds(n *ssa.Node) bool {
	return n.Domain == "" && !n.Opaque && len(n.In) >= 2 && (n.Op == "Sum" || n.Op == "Mean")
}

// tensor reports a plain tensor of known rank, of an element type that programs have.
func tensor(v *ssa.Value) bool {
	return v.Type.Kind == ssa.KindTensor && v.Type.Ranked && !v.Type.IsBlocked() && tile.Supports(v.Type.DType)
}

// fits checks element types and what an operator asks of its operands beyond them.
func (m *member) fits() bool {
	if m.op == "Pow" {
		m.in = slices.Clone(m.in)
		if !exponent(m) {
			return false
		}
	}
	least, most := m.op.Args()
	if m.repeat = m.repeat || (m.op == "Max" || m.op == "Min") && len(m.in) > 2; m.repeat {
		most = len(m.in)
	}
	if len(m.in) < least || len(m.in) > most || slices.Contains(m.in[:least], nil) {
		return false
	}
	var types []ndarray.DType
	for _, v := range m.in {
		if v != nil {
			types = append(types, v.Type.DType)
		}
	}
	out := m.node.Out[0].Type.DType
	if !m.op.Accepts(types, out) || m.repeat && !out.IsFloat() || m.op.ReadsAlone() && numberOf(m.in[0]) != nil {
		return false
	}
	switch {
	case m.op.Reduces() || m.op.Normalizes():
		return m.fitsRow()
	case m.op == "Cast":
		return types[0] != out && !(types[0].IsFloat() && out == ndarray.Uint64)
	case m.op == "Clip":
		return isNumber(m.node.Input(1)) && isNumber(m.node.Input(2))
	case m.op == "Div" || m.op == "Mod" || m.op == tile.Fmod:
		return out.IsFloat() || dividesBy(m.in[1])
	case m.op == "PRelu":
		return sameDims(m.in[0].Type.Shape, m.shape)
	}
	return true
}

// isNumber reports an absent operand, or one of one element.
func isNumber(v *ssa.Value) bool {
	if v == nil {
		return true
	}
	n, ok := v.Type.NumElems().Const()
	return ok && n == 1
}

// dividesBy reports a constant of one element that is not 0.
func dividesBy(v *ssa.Value) bool {
	a := numberOf(v)
	return a != nil && a.Int(0) != 0
}

// exponent makes a constant exponent one of the base's type.
func exponent(m *member) bool {
	if len(m.in) != 2 || m.in[1] == nil || m.in[0] == nil {
		return false
	}
	if m.in[1].Type.DType == m.in[0].Type.DType {
		return true
	}
	a := numberOf(m.in[1])
	if a == nil || !m.in[0].Type.DType.IsFloat() {
		return false
	}
	x := ndarray.Must(m.in[0].Type.DType)
	x.SetFloat(0, a.Float(0))
	m.in[1] = &ssa.Value{Type: ssa.StaticTensor(x.DType), Const: ssa.NewConstant(x)}
	return x.Float(0) == a.Float(0)
}

// numberOf is the number that a constant of one element is, nil if it is none, or NaN.
func numberOf(v *ssa.Value) *ndarray.Array {
	if v == nil || v.Const == nil || v.Const.Len() != 1 {
		return nil
	}
	a, err := v.Const.Array()
	if err != nil || a.DType.IsFloat() && a.Float(0) != a.Float(0) {
		return nil
	}
	return a
}

// fitsRow reads the row of a reduction or normalization: the last dimensions, of known size.
func (m *member) fitsRow() bool {
	n, in := m.node, m.in[0].Type.Shape
	m.shape = in
	switch {
	case m.op.Reduces():
		axes, ok := ops.ConstInts(n, 1)
		if n.Input(1) != nil && !ok || len(axes) == 0 && ops.Int(n, "noop_with_empty_axes") != 0 {
			return false
		}
		if m.inner = trailing(axes, len(in)); len(axes) == 0 {
			m.inner = len(in)
		}
	default:
		axis, err := ops.NormAxis(ops.Int(n, "axis"), len(in))
		if err != nil {
			return false
		}
		m.inner = len(in) - axis
		if m.op == "Softmax" || m.op == "LogSoftmax" {
			if m.inner != 1 {
				return false
			}
		} else if ops.Int(n, "stash_type") != 1 {
			return false
		}
	}
	if m.inner <= 0 {
		return false
	}
	size := int64(1)
	for _, d := range in[len(in)-m.inner:] {
		k, ok := d.Const()
		if !ok {
			return false
		}
		size *= k
	}
	for _, v := range m.in[1:] { // scale and bias
		if v != nil && !coversRow(v.Type.Shape, in[len(in)-m.inner:]) {
			return false
		}
	}
	return size > 1 && size <= MaxRow
}

// trailing is how many axes there are if they are the last ones, else 0.
func trailing(axes []int64, rank int) int {
	seen := map[int]bool{}
	for _, a := range axes {
		k, err := ops.NormAxis(a, rank)
		if err != nil {
			return 0
		}
		seen[k] = true
	}
	for k := rank - len(seen); k < rank; k++ {
		if !seen[k] {
			return 0
		}
	}
	return len(seen)
}

// coversRow reports a scale with an element for each of a row.
func coversRow(scale, row []ssa.Dim) bool {
	for len(scale) > len(row) && scale[0].Is(1) {
		scale = scale[1:]
	}
	return sameDims(scale, row)
}

func sameDims(a, b []ssa.Dim) bool {
	return slices.EqualFunc(a, b, func(x, y ssa.Dim) bool { return x.Equal(y) })
}

// rowArguments are scale and bias of a normalization.
func (m *member) rowArguments() []*ssa.Value {
	if m.inner == 0 {
		return nil
	}
	return m.in[1:]
}

// dropsRow reports a reduction whose result has no dimensions in the place of the row.
func (m *member) dropsRow() bool { return m.op.Reduces() && ops.Int(m.node, "keepdims") == 0 }
