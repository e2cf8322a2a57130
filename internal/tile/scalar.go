package tile

import (
	"cmp"
	"math"

	"github.com/berth-onnx/berth/internal/ops/kit"
	"github.com/berth-onnx/berth/ndarray"
)

// The scalar meaning of the operators: the formulas of https://onnx.ai/onnx/operators/.

// unaryFloat is a function of one float.
func unaryFloat(i *Instr, x float64) float64 {
	if f := functions[i.Op]; f != nil {
		return f(x)
	}
	return parametric(i.Op, x, i.Params)
}

var functions = map[Op]func(float64) float64{
	"Neg":        func(x float64) float64 { return -x },
	"Abs":        math.Abs,
	"Sign":       sign,
	"Relu":       func(x float64) float64 { return choose(x < 0, 0, x) },
	"Sqrt":       math.Sqrt,
	"Reciprocal": func(x float64) float64 { return 1 / x },
	"Floor":      math.Floor,
	"Ceil":       math.Ceil,
	"Round":      math.RoundToEven,
	"Exp":        kit.Exp,
	"Log":        kit.Log,
	"Tanh":       math.Tanh,
	"Sigmoid":    kit.Sigmoid,
	"Erf":        math.Erf,
	"HardSwish":  func(x float64) float64 { return x * clamp(x/6+0.5, 0, 1) },
	"Softplus":   kit.Softplus,
	"Softsign":   func(x float64) float64 { return x / (1 + math.Abs(x)) },
	"Mish":       func(x float64) float64 { return x * math.Tanh(kit.Softplus(x)) },
	"Sin":        math.Sin, "Cos": math.Cos, "Tan": math.Tan,
	"Asin": math.Asin, "Acos": math.Acos, "Atan": math.Atan,
	"Sinh": kit.Sinh, "Cosh": kit.Cosh,
	"Asinh": math.Asinh, "Acosh": math.Acosh, "Atanh": math.Atanh,
	"Gelu":   func(x float64) float64 { return 0.5 * x * math.Erfc(-x/math.Sqrt2) },
	GeluTanh: func(x float64) float64 { return 0.5 * x * (1 + math.Tanh(math.Sqrt(2/math.Pi)*(x+0.044715*x*x*x))) },
}

// parametric is a function with parameters.
func parametric(o Op, x float64, p []float64) float64 {
	switch o {
	case "LeakyRelu":
		return choose(x < 0, p[0]*x, x)
	case "HardSigmoid":
		return clamp(p[0]*x+p[1], 0, 1)
	case "Elu":
		return choose(x < 0, p[0]*math.Expm1(x), x)
	case "Swish":
		return x * kit.Sigmoid(p[0]*x)
	case "Celu":
		return max(0, x) + min(0, p[0]*math.Expm1(x/p[0]))
	case "Selu":
		return choose(x > 0, p[1]*x, p[1]*p[0]*math.Expm1(x))
	case "ThresholdedRelu":
		return choose(x > p[0], x, 0)
	case "Shrink":
		return choose(x < -p[0], x+p[1], choose(x > p[0], x-p[1], 0))
	}
	panic("tile: " + string(o) + " is no function of one float")
}

func choose(first bool, a, b float64) float64 {
	if first {
		return a
	}
	return b
}

func sign(x float64) float64 {
	if x == 0 || x != x {
		return x
	}
	return math.Copysign(1, x)
}

func clamp(x, lo, hi float64) float64 { return choose(x < lo, lo, choose(x > hi, hi, x)) }

// arithmetic are the operations that mean the same for floats and for integers of either sign.
func arithmetic[T int64 | float64](o Op, a, b T) (result T, known bool) {
	switch o {
	case "Add":
		return a + b, true
	case "Sub":
		return a - b, true
	case "Mul":
		return a * b, true
	}
	return 0, false
}

// binaryFloat is an operation on two floats. Max and Min give NaN where one operand is.
func binaryFloat(o Op, a, b float64) float64 {
	if v, ok := arithmetic(o, a, b); ok {
		return v
	}
	switch o {
	case "Div":
		return a / b
	case "Max":
		return max(a, b)
	case "Min":
		return min(a, b)
	case "PRelu":
		return choose(a < 0, a*b, a)
	case "Pow":
		return math.Pow(a, b)
	case Fmod:
		return math.Mod(a, b)
	case "Mod":
		return floorMod(a, b)
	}
	panic("tile: " + string(o) + " is no operation on two floats")
}

// floorMod is the remainder with the sign of the divisor.
func floorMod(a, b float64) float64 {
	r := math.Mod(a, b)
	switch {
	case r == 0:
		return math.Copysign(0, b)
	case (r < 0) != (b < 0):
		return r + b
	}
	return r
}

func predicate(i *Instr, x float64) bool {
	if i.Op == "IsNaN" {
		return x != x
	}
	return i.Params[0] != 0 && math.IsInf(x, 1) || i.Params[1] != 0 && math.IsInf(x, -1)
}

func holds[T cmp.Ordered](o Op, a, b T) bool {
	switch o {
	case "Equal":
		return a == b
	case "Less":
		return a < b
	case "LessOrEqual":
		return a <= b
	case "Greater":
		return a > b
	}
	return a >= b
}

// unaryInt is a function of one integer or boolean.
func unaryInt(o Op, x int64) int64 {
	switch o {
	case "Neg":
		return -x
	case "Abs":
		return max(x, -x)
	case "Sign":
		return min(max(x, -1), 1)
	case "Relu":
		return max(x, 0)
	case "Not":
		return x ^ 1
	case "BitwiseNot":
		return ^x
	}
	panic("tile: " + string(o) + " is no function of one integer")
}

// binaryInt is an operation on two integers or booleans of a type, the divisor not 0.
func binaryInt(o Op, t ndarray.DType, a, b int64) int64 {
	if v, ok := arithmetic(o, a, b); ok {
		return v
	}
	switch o {
	case "BitwiseAnd", "And":
		return a & b
	case "BitwiseOr", "Or":
		return a | b
	case "BitwiseXor", "Xor":
		return a ^ b
	case "PRelu":
		if t.IsSigned() && a < 0 {
			return a * b
		}
		return a
	case ShiftLeft, ShiftRight:
		return shifted(o, t, a, b)
	}
	if t == ndarray.Uint64 {
		return int64(dividedOrChosen(o, uint64(a), uint64(b)))
	}
	return dividedOrChosen(o, a, b)
}

// dividedOrChosen is an operation whose result depends on the sign of its operands.
func dividedOrChosen[T int64 | uint64](o Op, a, b T) T {
	switch o {
	case "Max":
		return max(a, b)
	case "Min":
		return min(a, b)
	case "Div":
		return a / b
	case Fmod:
		return a % b
	case "Mod":
		if r := a % b; r == 0 || (r < 0) == (b < 0) {
			return r
		}
		return a%b + b
	}
	panic("tile: " + string(o) + " is no operation on two integers")
}

// shifted moves the bits of an integer; counts outside of its width move everything out.
func shifted(o Op, t ndarray.DType, a, b int64) int64 {
	n := uint64(b)
	if n >= uint64(8*t.Size()) {
		n = 64
	}
	switch {
	case o == ShiftLeft:
		return a << n
	case t.IsSigned():
		return a >> n
	}
	return int64(uint64(a) >> n)
}
