package cpu

import (
	"math"

	"github.com/berth-onnx/berth/backend/cpu/kern"
)

// spread says how an operand of a row kernel covers rows × cols elements.
type spread uint8

const (
	full   spread = iota // rows × cols elements
	perCol               // cols elements, the same for every row
	perRow               // one element for each row
	single               // one element
	uneven               // rows that lie apart: called row by row
)

// spreads classifies operand k of a nest for pieces of whole rows.
func (n *nest) spreads(k int) spread {
	switch row, step := n.row[k], n.step[k]; {
	case n.rows == 1 && step == 1, row == n.cols && step == 1:
		return full
	case n.rows == 1 && step == 0, row == 0 && step == 0:
		return single
	case row == 0 && step == 1:
		return perCol
	case row == 1 && step == 0:
		return perRow
	}
	return uneven
}

func unaryF32(op kern.UnaryOp, dst, src []float32, p0, p1 float32) {
	dst = dst[:len(src)]
	for i, x := range src {
		dst[i] = float32(unary64(op, float64(x), float64(p0), float64(p1)))
	}
}

func unary64(op kern.UnaryOp, x, p0, p1 float64) float64 {
	sig := func(x float64) float64 { return 1 / (1 + math.Exp(-x)) }
	clamp := func(x, lo, hi float64) float64 {
		if x < lo {
			x = lo
		}
		if x > hi {
			x = hi
		}
		return x
	}
	softplus := func(x float64) float64 { return math.Max(x, 0) + math.Log1p(math.Exp(-math.Abs(x))) }
	switch op {
	case kern.Neg:
		return -x
	case kern.Abs:
		return math.Abs(x)
	case kern.Sqrt:
		return math.Sqrt(x)
	case kern.Recip:
		return 1 / x
	case kern.Square:
		return x * x
	case kern.Floor:
		return math.Floor(x)
	case kern.Ceil:
		return math.Ceil(x)
	case kern.Round:
		return math.RoundToEven(x)
	case kern.Relu:
		return clamp(x, 0, math.Inf(1))
	case kern.Clip:
		return clamp(x, p0, p1)
	case kern.LeakyRelu:
		if x < 0 {
			return p0 * x
		}
	case kern.HardSigmoid:
		return clamp(p0*x+p1, 0, 1)
	case kern.HardSwish:
		return x * clamp(x/6+0.5, 0, 1)
	case kern.Exp:
		return math.Exp(x)
	case kern.Log:
		return math.Log(x)
	case kern.Tanh:
		return math.Tanh(x)
	case kern.Sigmoid:
		return sig(x)
	case kern.Erf:
		return math.Erf(x)
	case kern.Gelu:
		return 0.5 * x * math.Erfc(-x/math.Sqrt2)
	case kern.GeluTanh:
		return 0.5 * x * (1 + math.Tanh(math.Sqrt(2/math.Pi)*(x+0.044715*x*x*x)))
	case kern.Silu:
		return x * sig(p0*x)
	case kern.Softplus:
		return softplus(x)
	case kern.Softsign:
		return x / (1 + math.Abs(x))
	case kern.Elu:
		if x < 0 {
			return p0 * math.Expm1(x)
		}
	case kern.Mish:
		return x * math.Tanh(softplus(x))
	}
	return x
}

// binaryRowsF32 is dst = a op b over rows × cols elements; in place allowed where
// the operand is full.
func binaryRowsF32(op kern.BinaryOp, dst, a []float32, ka spread, b []float32, kb spread, rows, cols int) {
	ra, sa := stepsOf(ka, cols)
	rb, sb := stepsOf(kb, cols)
	for r := range rows {
		i, j := r*ra, r*rb
		for d := r * cols; d < (r+1)*cols; d++ {
			dst[d] = binary1(op, a[i], b[j])
			i += sa
			j += sb
		}
	}
}

func stepsOf(k spread, cols int) (row, step int) {
	switch k {
	case full:
		return cols, 1
	case perCol:
		return 0, 1
	case perRow:
		return 1, 0
	}
	return 0, 0
}

func binary1(op kern.BinaryOp, a, b float32) float32 {
	switch op {
	case kern.Add:
		return a + b
	case kern.Sub:
		return a - b
	case kern.Mul:
		return a * b
	case kern.Div:
		return a / b
	case kern.Max:
		return max(a, b)
	case kern.Min:
		return min(a, b)
	case kern.PRelu:
		if a < 0 {
			return a * b
		}
	}
	return a
}
