package tile

import (
	"slices"

	"github.com/berth-onnx/berth/ndarray"
)

// Op is an operator of a tile program: an elementwise, reducing or normalizing operator of
// ONNX by its name, or a form of one that an attribute chooses.
type Op string

// Operators that are no operator of ONNX of the same name.
const (
	Constant   Op = "Constant"   // a number
	Copy       Op = "Copy"       // Identity, with memory of its own
	Call       Op = "Call"       // a function of the program's user
	GeluTanh   Op = "GeluTanh"   // Gelu with approximate = tanh
	Fmod       Op = "Fmod"       // Mod with fmod = 1
	ShiftLeft  Op = "ShiftLeft"  // BitShift with direction = LEFT
	ShiftRight Op = "ShiftRight" // BitShift with direction = RIGHT
)

// scope says what an instruction reads and writes of its first argument.
type scope uint8

const (
	perElement scope = iota // one element for one element
	wholeRow                // a row for a row
	perRow                  // one element for a row
)

// class says which element types an operator takes.
type class uint8

const (
	constants  class = iota
	floats           // T -> T, T a float
	signed           // T -> T, T a float or a signed integer
	numbers          // T, T -> T, T a float or an integer
	integers         // T, T -> T
	logic            // bool, bool -> bool
	equality         // T, T -> bool
	ordering         // T, T -> bool, T not bool
	predicates       // T -> bool, T a float
	choice           // bool, T, T -> T
	casts            // T -> U
)

// accepts reports whether operands of some types give a result of a type.
func (c class) accepts(in []ndarray.DType, out ndarray.DType) bool {
	switch c {
	case constants:
		return len(in) == 0
	case casts:
		return len(in) == 1
	case choice:
		return len(in) == 3 && in[0] == ndarray.Bool && in[1] == out && in[2] == out
	}
	for _, dt := range in {
		if dt != in[0] {
			return false
		}
	}
	t := in[0]
	switch c {
	case equality:
		return out == ndarray.Bool
	case ordering:
		return out == ndarray.Bool && t != ndarray.Bool
	case predicates:
		return out == ndarray.Bool && t.IsFloat()
	case floats:
		return out == t && t.IsFloat()
	case signed:
		return out == t && (t.IsFloat() || t.IsSigned())
	case integers:
		return out == t && t.IsInteger()
	case logic:
		return out == t && t == ndarray.Bool
	}
	return out == t && (t.IsFloat() || t.IsInteger())
}

// spec describes an operator.
type spec struct {
	class    class
	scope    scope
	args     int
	optional int      // further arguments, which may be absent
	params   []string // the attributes of the ONNX operator
}

// alone reports an operator that reads the elements of argument 0 by their number: the argument is
// no single number.
func (s *spec) alone() bool { return s.args == 1 || s.scope != perElement }

// family gives operators one spec.
//
//go:noinline
func family(s spec, names ...Op) {
	for _, n := range names {
		specs[n] = &s
	}
}

var specs = map[Op]*spec{}

func init() {
	family(spec{class: constants}, Constant)
	family(spec{class: floats, args: 1}, "Sqrt", "Reciprocal", "Floor", "Ceil", "Round", "Exp", "Log", "Tanh", "Sigmoid", "Erf", "HardSwish",
		"Softplus", "Softsign", "Mish", "Sin", "Cos", "Tan", "Asin", "Acos", "Atan", "Sinh", "Cosh", "Asinh", "Acosh", "Atanh", "Gelu", GeluTanh)
	family(spec{class: floats, args: 1, params: []string{"alpha"}}, "LeakyRelu", "Elu", "Swish", "Celu", "ThresholdedRelu")
	family(spec{class: floats, args: 1, params: []string{"alpha", "beta"}}, "HardSigmoid")
	family(spec{class: floats, args: 1, params: []string{"alpha", "gamma"}}, "Selu")
	family(spec{class: floats, args: 1, params: []string{"lambd", "bias"}}, "Shrink")
	family(spec{class: signed, args: 1}, "Neg", "Abs", "Sign", "Relu")
	family(spec{class: logic, args: 1}, "Not")
	family(spec{class: integers, args: 1}, "BitwiseNot")
	family(spec{class: predicates, args: 1}, "IsNaN")
	family(spec{class: predicates, args: 1, params: []string{"detect_positive", "detect_negative"}}, "IsInf")
	family(spec{class: numbers, args: 2}, "Add", "Sub", "Mul", "Div", "Max", "Min", "PRelu", "Mod", Fmod)
	family(spec{class: floats, args: 2}, "Pow")
	family(spec{class: integers, args: 2}, "BitwiseAnd", "BitwiseOr", "BitwiseXor", ShiftLeft, ShiftRight)
	family(spec{class: logic, args: 2}, "And", "Or", "Xor")
	family(spec{class: equality, args: 2}, "Equal")
	family(spec{class: ordering, args: 2}, "Less", "LessOrEqual", "Greater", "GreaterOrEqual")
	family(spec{class: choice, args: 3}, "Where")
	family(spec{class: numbers, args: 1, optional: 2}, "Clip")
	family(spec{class: casts, args: 1}, "Cast", Copy, Call)
	family(spec{class: numbers, scope: perRow, args: 1}, "ReduceSum", "ReduceMax", "ReduceMin", "ReduceProd")
	family(spec{class: floats, scope: perRow, args: 1}, "ReduceMean", "ReduceL1", "ReduceL2", "ReduceSumSquare", "ReduceLogSum", "ReduceLogSumExp")
	family(spec{class: floats, scope: wholeRow, args: 1}, "Softmax", "LogSoftmax")
	family(spec{class: floats, scope: wholeRow, args: 2, optional: 1, params: []string{"epsilon"}}, "LayerNormalization")
	family(spec{class: floats, scope: wholeRow, args: 2, params: []string{"epsilon"}}, "RMSNormalization")
}

// Ops lists the operators, by name.
func Ops() []Op {
	var out []Op
	for o := range specs {
		out = append(out, o)
	}
	slices.Sort(out)
	return out
}

// Known reports whether there is an operator of that name.
func (o Op) Known() bool { return specs[o] != nil }

// Params names the attributes that the parameters of an operator are.
func (o Op) Params() []string { return specs[o].params }

// Reduces reports an operator that makes one element of a row.
func (o Op) Reduces() bool { return specs[o].scope == perRow }

// Normalizes reports an operator that makes a row of a row.
func (o Op) Normalizes() bool { return specs[o].scope == wholeRow }

// ReadsAlone reports an operator that reads the elements of argument 0 one by one, whatever the
// other arguments are: it must have as many as the result, or as a row.
func (o Op) ReadsAlone() bool { return specs[o].alone() }

// Args is how many arguments an operator has at least and at most.
func (o Op) Args() (least, most int) { return specs[o].args, specs[o].args + specs[o].optional }

// Accepts reports whether the operator takes operands of some element types and gives a
// result of another.
func (o Op) Accepts(in []ndarray.DType, out ndarray.DType) bool {
	return specs[o].class.accepts(in, out)
}
