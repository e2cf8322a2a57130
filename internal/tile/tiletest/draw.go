// Package tiletest draws tile programs and their operands for tests, and compares results.
package tiletest

import (
	"math"
	"math/rand"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth/internal/tile"
	"github.com/berth-onnx/berth/ndarray"
)

// Drawn is a program with the shapes of its operands.
type Drawn struct {
	Program *tile.Program
	Shapes  [][]int
	// Exact says, by value, that kernels compute it to the last bit: sums of floats are rounded
	// as the standard says, logarithms are not.
	Exact []bool
}

// types are drawn with these frequencies: float32 is by far the most frequent in models.
var types = []ndarray.DType{ndarray.Float32, ndarray.Float32, ndarray.Float32, ndarray.Float32, ndarray.Int32, ndarray.Int64, ndarray.Uint8,
	ndarray.Int8, ndarray.Bool, ndarray.Float64, ndarray.Float16, ndarray.BFloat16, ndarray.Int16, ndarray.Uint32}

// exact are the operators whose results kernels round as the formula does.
var exact = []tile.Op{"Add", "Sub", "Mul", "Div", "Max", "Min", "PRelu", "Neg", "Abs", "Relu", "Where", "Clip", "Floor", "Ceil", "Round", "Sign",
	"Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual", "Not", "And", "Or", "Xor", "BitwiseAnd", "BitwiseOr", "BitwiseXor", "BitwiseNot",
	tile.ShiftLeft, tile.ShiftRight, "Cast", "IsNaN", "IsInf", "LeakyRelu", "ThresholdedRelu", "Sqrt", "Reciprocal"}

// smooth are inexact functions that magnify an error of their argument little.
var smooth = []tile.Op{"Tanh", "Sigmoid", "Erf", "HardSigmoid", "HardSwish", "Softplus", "Softsign", "Gelu", tile.GeluTanh, "Swish", "Elu", "Mish",
	"Sin", "Cos", "Atan", "Asinh", "Celu", "Selu", "LeakyRelu", "Abs", "Neg", "Relu", "Add", "Sub", "Mul", "Max", "Min"}

// rowOps are inexact reductions and normalizations.
var rowOps = []tile.Op{"ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceL1", "ReduceL2", "ReduceSumSquare", "ReduceLogSumExp", "Softmax", "LogSoftmax",
	"LayerNormalization", "RMSNormalization"}

// drawer makes one program.
type drawer struct {
	r *rand.Rand
	d *Drawn
	p *tile.Program
}

// Draw makes a program over a shape, of which Inner dimensions are rows if there are any.
func Draw(r *rand.Rand, shape []int, instrs int) *Drawn {
	x := &drawer{r: r, p: &tile.Program{}}
	x.d = &Drawn{Program: x.p}
	if len(shape) > 0 && r.Intn(2) == 0 {
		x.p.Inner = 1 + r.Intn(min(2, len(shape)))
	}
	x.operand(shape, ndarray.Float32)
	for range r.Intn(5) {
		x.operand(shape, types[r.Intn(len(types))])
	}
	if x.p.Inner > 0 { // scale or bias of a normalization
		x.add(ndarray.Float32, slices.Clone(shape[len(shape)-x.p.Inner:]))
	}
	for range instrs {
		x.instr()
	}
	x.results()
	return x.d
}

func (x *drawer) add(dt ndarray.DType, shape []int) {
	x.p.Operands = append(x.p.Operands, dt)
	x.d.Shapes = append(x.d.Shapes, shape)
	x.d.Exact = append(x.d.Exact, true)
}

// operand adds an operand: the first has the whole shape, others may broadcast.
func (x *drawer) operand(shape []int, dt ndarray.DType) {
	s := slices.Clone(shape)
	if len(x.p.Operands) > 0 && x.r.Intn(2) == 0 {
		outer := len(shape) - x.p.Inner
		for i := range s {
			if x.r.Intn(3) == 0 && i < outer {
				s[i] = 1
			}
		}
		if x.r.Intn(2) == 0 { // the same in a whole row
			for i := outer; i < len(s); i++ {
				s[i] = 1
			}
		}
		for len(s) > 0 && s[0] == 1 && x.r.Intn(2) == 0 {
			s = s[1:]
		}
	}
	x.add(dt, s)
}

// pick returns a value of a type, full or an operand, none if there is no such value.
func (x *drawer) pick(dt ndarray.DType, wantExact bool) tile.Ref {
	var list []tile.Ref
	for v := range x.p.NumValues() {
		if x.p.DType(tile.Ref(v)) == dt && (!wantExact || x.d.Exact[v]) {
			list = append(list, tile.Ref(v))
		}
	}
	if len(list) == 0 {
		return tile.None
	}
	if x.r.Intn(2) == 0 {
		return list[len(list)-1]
	}
	return list[x.r.Intn(len(list))]
}

func (x *drawer) instr() {
	switch {
	case x.p.Inner > 0 && x.r.Intn(4) == 0:
		x.rowInstr()
	case x.r.Intn(2) == 0:
		x.pointwise(smooth[x.r.Intn(len(smooth))], false)
	default:
		x.pointwise(exact[x.r.Intn(len(exact))], true)
	}
}

// pointwise appends an instruction of an elementwise operator if there are operands for it.
func (x *drawer) pointwise(op tile.Op, isExact bool) {
	dt := types[x.r.Intn(len(types))]
	least, _ := op.Args()
	i := tile.Instr{Op: op, DType: dt}
	in := []ndarray.DType{dt, dt, dt}[:least]
	switch op {
	case "Where":
		in[0] = ndarray.Bool
	case "Cast":
		if i.DType = types[x.r.Intn(len(types))]; i.DType == dt {
			return
		}
	case "Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual", "IsNaN", "IsInf":
		i.DType = ndarray.Bool
	case "Div":
		if !dt.IsFloat() {
			return
		}
	}
	if !op.Accepts(in, i.DType) || !isExact && dt != ndarray.Float32 && dt != ndarray.Float64 {
		return
	}
	all := isExact
	for _, t := range in {
		a := x.pick(t, isExact)
		if a == tile.None || x.p.IsRow(a) || op.ReadsAlone() && x.p.IsConstant(a) {
			return
		}
		i.Args = append(i.Args, a)
		all = all && x.d.Exact[a]
	}
	x.finish(i, all)
}

// finish gives an instruction parameters and bounds, and appends it.
func (x *drawer) finish(i tile.Instr, isExact bool) {
	for _, name := range i.Op.Params() {
		i.Params = append(i.Params, map[string]float64{"epsilon": 0.25, "gamma": 1.25, "detect_positive": 1, "detect_negative": 0}[name])
		if k := len(i.Params) - 1; i.Params[k] == 0 && name != "detect_negative" {
			i.Params[k] = 0.5
		}
	}
	if i.Op == "Clip" {
		x.d.Exact = append(x.d.Exact, true)
		lo := x.p.Number(i.DType, 1)
		i.Args = append(i.Args, []tile.Ref{lo, tile.None}[x.r.Intn(2)])
		x.d.Exact = append(x.d.Exact, true)
		i.Args = append(i.Args, x.p.Number(i.DType, 3))
	}
	x.p.Add(i)
	x.d.Exact = append(x.d.Exact, isExact)
}

// rowInstr appends a reduction or normalization, and after a reduction something that reads it.
func (x *drawer) rowInstr() {
	op := rowOps[x.r.Intn(len(rowOps))]
	a := x.pick(ndarray.Float32, false)
	if a == tile.None || x.p.IsRow(a) || x.p.IsConstant(a) {
		return
	}
	i := tile.Instr{Op: op, DType: ndarray.Float32, Args: []tile.Ref{a}, Row: op.Reduces()}
	for k, least := 1, least(op); k < least; k++ {
		i.Args = append(i.Args, tile.Ref(x.scale()))
	}
	x.finish(i, false)
	row := tile.Ref(x.p.NumValues() - 1)
	if !op.Reduces() {
		return
	}
	x.finish(tile.Instr{Op: "Tanh", DType: ndarray.Float32, Args: []tile.Ref{row}, Row: true}, false)
	x.finish(tile.Instr{Op: "Add", DType: ndarray.Float32, Args: []tile.Ref{a, row + 1}}, false)
}

func least(op tile.Op) int {
	n, _ := op.Args()
	return n
}

// scale is the operand that covers a row.
func (x *drawer) scale() int { return len(x.p.Operands) - 1 }

// results stores the last value, and some others.
func (x *drawer) results() {
	if x.p.NumValues() == len(x.p.Operands) {
		x.finish(tile.Instr{Op: "Neg", DType: ndarray.Float32, Args: []tile.Ref{0}}, true)
	}
	for v := tile.Ref(x.p.NumValues() - 1); v >= tile.Ref(len(x.p.Operands)); v-- {
		if !x.p.IsConstant(v) && (len(x.p.Results) == 0 || x.r.Intn(5) == 0) {
			x.p.Results = append(x.p.Results, tile.Result{Value: v, Dropped: x.p.IsRow(v) && x.r.Intn(2) == 0})
		}
	}
}

// Operands draws elements of moderate size.
func (d *Drawn) Operands(r *rand.Rand) []*ndarray.Array {
	out := make([]*ndarray.Array, len(d.Shapes))
	for i, s := range d.Shapes {
		a := ndarray.Must(d.Program.Operands[i], s...)
		for k := range a.Len() {
			switch {
			case a.DType == ndarray.Bool:
				a.SetInt(k, int64(r.Intn(2)))
			case a.DType.IsFloat():
				a.SetFloat(k, math.Round(r.NormFloat64()*16)/8)
			default:
				a.SetInt(k, int64(r.Intn(9))-int64(4)*int64(r.Intn(2)))
			}
		}
		out[i] = a
	}
	return out
}

// RequireSame compares result k with what the interpreter says: exact values bit by bit, others
// within what the kernels' errors can add up to. NaN equals NaN.
func (d *Drawn) RequireSame(t testing.TB, k int, want, got *ndarray.Array) {
	t.Helper()
	require.Equal(t, want.DType, got.DType)
	require.Equal(t, want.Shape, got.Shape)
	v := d.Program.Results[k].Value
	for i := range want.Len() {
		if !want.DType.IsFloat() {
			require.Equal(t, want.Int(i), got.Int(i), "element %d of result %d of\n%s%v", i, k, d.Program, d.Shapes)
			continue
		}
		w, g := want.Float(i), got.Float(i)
		if w == g || w != w && g != g {
			continue
		}
		require.Falsef(t, d.Exact[v], "element %d of result %d is %v, not %v:\n%s%v", i, k, g, w, d.Program, d.Shapes)
		require.InDeltaf(t, w, g, 1e-4*(1+math.Abs(w)), "element %d of result %d of\n%s%v", i, k, d.Program, d.Shapes)
	}
}
