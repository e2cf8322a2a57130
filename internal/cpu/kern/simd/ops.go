package simd

import (
	"math"

	"github.com/berth-onnx/berth/internal/cpu/kern/machine"
)

// UnaryOp names a function of one number.
//
// Largest errors of the vector kernels, measured in units of the last place of
// the result, over the inputs for which the result is a normal number:
//
//	Exp 1.0   Log 0.8   Tanh 2.1   Sigmoid 2.3   Erf 1.1   Softplus 1.9
//	Elu 0.9   Silu 3.2   Mish 3.7   Softsign 1.4
//	Gelu 7.1 for x ≥ −5 (below, 10⁻¹¹ in absolute terms)
//	GeluTanh 16 for x > −4 (below, about 1.2·x²; the result is tiny there)
//	HardSigmoid and HardSwish cancel near their kink: 1 ulp of max(1, |x|)
//
// The others round once. Subnormal inputs and results, infinities and NaN are
// treated as in IEEE arithmetic: Exp and Log overflow, underflow and accept
// subnormal numbers as the exact functions do.
type UnaryOp uint8

// The unary functions. p0 and p1 are the parameters of Unary and Epilogue.
const (
	Identity    UnaryOp = iota // x
	Neg                        // −x
	Abs                        // |x|
	Sqrt                       // √x
	Recip                      // 1/x
	Square                     // x²
	Floor                      // largest integer ≤ x
	Ceil                       // smallest integer ≥ x
	Round                      // nearest integer, halves to even
	Relu                       // max(x, 0)
	Clip                       // min(max(x, p0), p1)
	LeakyRelu                  // x < 0 ? p0·x : x
	HardSigmoid                // min(max(p0·x + p1, 0), 1)
	HardSwish                  // x·min(max(x/6 + 1/2, 0), 1)
	Exp                        // eˣ
	Log                        // ln x
	Tanh                       // tanh x
	Sigmoid                    // 1/(1+e⁻ˣ)
	Erf                        // error function
	Gelu                       // x·(1 + erf(x/√2))/2
	GeluTanh                   // x·(1 + tanh(√(2/π)·(x + 0.044715·x³)))/2
	Silu                       // x·sigmoid(p0·x); p0 = 1 for SiLU proper
	Softplus                   // ln(1 + eˣ)
	Softsign                   // x/(1+|x|)
	Elu                        // x < 0 ? p0·(eˣ−1) : x
	Mish                       // x·tanh(ln(1 + eˣ))
	NumUnary
)

var unaryNames = [NumUnary]string{
	"Identity", "Neg", "Abs", "Sqrt", "Recip", "Square", "Floor", "Ceil", "Round",
	"Relu", "Clip", "LeakyRelu", "HardSigmoid", "HardSwish", "Exp", "Log", "Tanh",
	"Sigmoid", "Erf", "Gelu", "GeluTanh", "Silu", "Softplus", "Softsign", "Elu", "Mish",
}

// String returns the operation's name.
func (o UnaryOp) String() string { return nameOf(unaryNames[:], int(o)) }

// nameOf is the name of operation i.
func nameOf(names []string, i int) string {
	if i < len(names) {
		return names[i]
	}
	return "invalid"
}

// BinaryOp names a function of two numbers.
type BinaryOp uint8

// The binary functions. Max and Min return NaN when either operand is NaN.
const (
	Add   BinaryOp = iota // a + b
	Sub                   // a − b
	Mul                   // a·b
	Div                   // a / b
	Max                   // max(a, b)
	Min                   // min(a, b)
	PRelu                 // a < 0 ? a·b : a
	NumBinary
)

var binaryNames = [NumBinary]string{"Add", "Sub", "Mul", "Div", "Max", "Min", "PRelu"}

// String returns the operation's name.
func (o BinaryOp) String() string { return nameOf(binaryNames[:], int(o)) }

// BiasKind says along which side of a result its bias lies.
type BiasKind uint8

// The kinds of bias. In a convolution a row is an output channel.
const (
	NoBias     BiasKind = iota
	BiasPerRow          // one value for each row
	BiasPerCol          // one value for each column
)

// Epilogue is what happens to a product before it is stored:
// act(product + bias + residual).
type Epilogue struct {
	Bias     BiasKind
	Residual bool    // add the residual operand, shaped like the result
	Act      UnaryOp // Identity for none
	P0, P1   float32 // parameters of Act
}

// Clamp reports whether the activation is a clamp, and its bounds. Micro-kernels
// clamp; other activations are applied to finished tiles.
func (e *Epilogue) Clamp() (lo, hi float32, ok bool) {
	switch e.Act {
	case Relu:
		return 0, float32(math.Inf(1)), true
	case Clip:
		return e.P0, e.P1, true
	}
	return 0, 0, false
}

// After returns the activation to apply to finished tiles, or Identity.
func (e *Epilogue) After() UnaryOp {
	if _, _, ok := e.Clamp(); ok {
		return Identity
	}
	return e.Act
}

// BiasLen is the length of the bias of a result of rows × cols.
func (e *Epilogue) BiasLen(rows, cols int) int {
	return [...]int{NoBias: 0, BiasPerRow: rows, BiasPerCol: cols}[e.Bias]
}

// ResidualLen is n where there is a residual, else 0.
func (e *Epilogue) ResidualLen(n int) int {
	if e.Residual {
		return n
	}
	return 0
}

// Check returns a SpecError of the named kernel for an activation or a bias that does
// not exist.
func (e *Epilogue) Check(kernel string) error {
	if e.Act >= NumUnary {
		return &machine.SpecError{Kernel: kernel, Field: "Epilogue.Act", Why: "unknown activation"}
	}
	if e.Bias > BiasPerCol {
		return &machine.SpecError{Kernel: kernel, Field: "Epilogue.Bias", Why: "unknown kind of bias"}
	}
	return nil
}
