package cpu

import (
	"errors"
	"math"
	"slices"

	"github.com/berth-onnx/berth/backend/cpu/kern"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
)

// Elementwise operators of two operands: float32 through the row kernels of
// package kern, other types through typed loops.

var binaryOps = []entry{
	{op: "Add", prepare: arithmetic(kern.Add, opAdd)},
	{op: "Sub", prepare: arithmetic(kern.Sub, opSub)},
	{op: "Mul", prepare: arithmetic(kern.Mul, opMul)},
	{op: "Div", prepare: arithmetic(kern.Div, opDiv)},
	{op: "PRelu", prepare: arithmetic(kern.PRelu, opPRelu)},
	{op: "Pow", prepare: preparePow},
	{op: "Mod", prepare: prepareMod},
	{op: "BitwiseAnd", prepare: bitwise(opAnd)},
	{op: "BitwiseOr", prepare: bitwise(opOr)},
	{op: "BitwiseXor", prepare: bitwise(opXor)},
	{op: "BitShift", prepare: prepareShift},
	{op: "And", prepare: logic(opAnd)},
	{op: "Or", prepare: logic(opOr)},
	{op: "Xor", prepare: logic(opXor)},
}

// binaryOp names an operation of the typed loops.
type binaryOp uint8

const (
	opAdd binaryOp = iota
	opSub
	opMul
	opDiv
	opMax
	opMin
	opPRelu
	opPow
	opMod  // sign of the divisor
	opFmod // sign of the dividend
	opAnd
	opOr
	opXor
	opLeft
	opRight
)

// noOp says that there is no float32 row kernel.
const noOp = kern.BinaryOp(255)

// arithmetic prepares an operation on two operands of one type.
func arithmetic(f kern.BinaryOp, op binaryOp) func(*prep) (ops.Kernel, error) {
	return func(p *prep) (ops.Kernel, error) {
		a, b, out := p.in[0], p.in[1], p.out[0]
		if a.dt != b.dt || a.dt != out.dt {
			return nil, nil
		}
		n, ok := newNest(out.shape, a.shape, b.shape)
		if !ok {
			return nil, nil
		}
		if a.dt == ndarray.Float32 && f != noOp {
			return newBinaryF32(f, n), nil
		}
		return newBinary(p, op, n)
	}
}

// binaryF32 runs a float32 operation in rows.
type binaryF32 struct {
	op     kern.BinaryOp
	n      *nest
	ka, kb kern.Spread
}

func newBinaryF32(op kern.BinaryOp, n *nest) *binaryF32 {
	return &binaryF32{op, n, n.spread(0), n.spread(1)}
}

// Run computes all tiles.
func (k *binaryF32) Run(c *ops.Call) error {
	runTiles(c, k.n.tiles, k)
	return nil
}

func (k *binaryF32) tile(c *ops.Call, i, _ int) {
	dst, a, b := f32(c.Out[0]), f32(c.In[0]), f32(c.In[1])
	n := k.n
	for w := n.walk(i); w.next(); {
		if k.ka != uneven && k.kb != uneven {
			kern.BinaryRows(k.op, dst[w.out:], a[w.at[0]:], k.ka, b[w.at[1]:], k.kb, w.rows, w.cols)
			continue
		}
		for r := range w.rows {
			kern.BinaryRows(k.op, dst[w.out+r*w.cols:], a[w.at[0]+r*n.row[0]:], rowSpread(n.step[0]),
				b[w.at[1]+r*n.row[1]:], rowSpread(n.step[1]), 1, w.cols)
		}
	}
}

// rowSpread is how an operand with a step covers a single row.
func rowSpread(step int) kern.Spread {
	if step == 0 {
		return kern.One
	}
	return kern.Full
}

// binary runs an operation over a Go type in loops.
type binary[T number] struct {
	op      binaryOp
	n       *nest
	divides bool // an integer division: a zero divisor is an error
}

// newBinary chooses the Go type; nil if the operation is not defined on it.
func newBinary(p *prep, op binaryOp, n *nest) (ops.Kernel, error) {
	dt := p.in[0].dt
	divides := dt.IsInteger() && (op == opDiv || op == opMod || op == opFmod)
	switch dt {
	case ndarray.Float32:
		return &binary[float32]{op, n, false}, nil
	case ndarray.Float64:
		return &binary[float64]{op, n, false}, nil
	case ndarray.Int64:
		return &binary[int64]{op, n, divides}, nil
	case ndarray.Int32:
		return &binary[int32]{op, n, divides}, nil
	case ndarray.Int16:
		return &binary[int16]{op, n, divides}, nil
	case ndarray.Int8:
		return &binary[int8]{op, n, divides}, nil
	case ndarray.Uint64:
		return &binary[uint64]{op, n, divides}, nil
	case ndarray.Uint32:
		return &binary[uint32]{op, n, divides}, nil
	case ndarray.Uint16:
		return &binary[uint16]{op, n, divides}, nil
	case ndarray.Uint8:
		return &binary[uint8]{op, n, divides}, nil
	}
	return nil, nil
}

var errZeroDivisor = errors.New("integer division by zero")

// Run computes all tiles.
func (k *binary[T]) Run(c *ops.Call) error {
	if k.divides && slices.Contains(elems[T](c.In[1]), 0) {
		return errZeroDivisor
	}
	runTiles(c, k.n.tiles, k)
	return nil
}

func (k *binary[T]) tile(c *ops.Call, i, _ int) {
	dst, a, b := elems[T](c.Out[0]), elems[T](c.In[0]), elems[T](c.In[1])
	n := k.n
	for w := n.walk(i); w.next(); {
		for r := range w.rows {
			o := w.out + r*w.cols
			binaryRow(k.op, dst[o:o+w.cols], a[w.at[0]+r*n.row[0]:], n.step[0], b[w.at[1]+r*n.row[1]:], n.step[1])
		}
	}
}

// binaryRow computes one row; a and b move by their steps.
func binaryRow[T number](op binaryOp, d, a []T, sa int, b []T, sb int) {
	if op <= opMul && sa == 1 && sb <= 1 {
		commonRow(op, d, a[:len(d)], b, sb)
		return
	}
	i, j := 0, 0
	switch op {
	case opAdd:
		for k := range d {
			d[k] = a[i] + b[j]
			i, j = i+sa, j+sb
		}
	case opSub:
		for k := range d {
			d[k] = a[i] - b[j]
			i, j = i+sa, j+sb
		}
	case opMul:
		for k := range d {
			d[k] = a[i] * b[j]
			i, j = i+sa, j+sb
		}
	case opDiv:
		for k := range d {
			d[k] = a[i] / b[j]
			i, j = i+sa, j+sb
		}
	case opMax:
		for k := range d {
			d[k] = max(a[i], b[j])
			i, j = i+sa, j+sb
		}
	case opMin:
		for k := range d {
			d[k] = min(a[i], b[j])
			i, j = i+sa, j+sb
		}
	default:
		for k := range d {
			d[k] = rare(op, a[i], b[j])
			i, j = i+sa, j+sb
		}
	}
}

// commonRow is the most frequent rows: a sum, difference or product of a row with a
// row or with one number.
func commonRow[T number](op binaryOp, d, a, b []T, sb int) {
	if sb == 1 {
		b = b[:len(d)]
		switch op {
		case opAdd:
			for k, x := range a {
				d[k] = x + b[k]
			}
		case opSub:
			for k, x := range a {
				d[k] = x - b[k]
			}
		case opMul:
			for k, x := range a {
				d[k] = x * b[k]
			}
		}
		return
	}
	y := b[0]
	switch op {
	case opAdd:
		for k, x := range a {
			d[k] = x + y
		}
	case opSub:
		for k, x := range a {
			d[k] = x - y
		}
	case opMul:
		for k, x := range a {
			d[k] = x * y
		}
	}
}

// rare is one of the operations without a loop of their own.
func rare[T number](op binaryOp, a, b T) T {
	switch op {
	case opPRelu:
		if a < 0 {
			return a * b
		}
		return a
	case opPow:
		return T(power(float64(a), float64(b)))
	}
	if isFloat[T]() {
		return T(floatMod(op, float64(a), float64(b)))
	}
	return intMod(op, a, b)
}

func isFloat[T number]() bool {
	half := 0.5
	return T(half) != 0
}

// power takes the short way for squares.
func power(x, y float64) float64 {
	if y == 2 {
		return x * x
	}
	return math.Pow(x, y)
}

// floatMod is the float remainder with the sign of the dividend, or of the
// divisor, zeros included.
func floatMod(op binaryOp, a, b float64) float64 {
	r := math.Mod(a, b)
	switch {
	case op == opFmod:
		return r
	case r == 0:
		return math.Copysign(0, b)
	case (r < 0) != (b < 0):
		return r + b
	}
	return r
}

// intMod is the integer remainder of either sign.
func intMod[T number](op binaryOp, a, b T) T {
	r := a - a/b*b
	if op == opMod && r != 0 && (r < 0) != (b < 0) {
		r += b
	}
	return r
}

// prepareMod chooses by fmod whose sign the remainder has.
func prepareMod(p *prep) (ops.Kernel, error) {
	if ops.Int(p.node, "fmod") != 0 {
		return arithmetic(noOp, opFmod)(p)
	}
	return arithmetic(noOp, opMod)(p)
}

// preparePow serves powers of floats. A constant exponent, of any type, becomes a
// unary function: squares are by far the most frequent.
func preparePow(p *prep) (ops.Kernel, error) {
	x := p.in[0]
	if x.dt != ndarray.Float32 && x.dt != ndarray.Float64 {
		return nil, nil
	}
	e, err := p.constant(1)
	if err != nil {
		return nil, err
	}
	if e != nil && e.Len() == 1 && p.out[0].n == x.n {
		return newPower(p, e.Float(0)), nil
	}
	return arithmetic(noOp, opPow)(p)
}

// newPower is x to a constant power.
func newPower(p *prep, e float64) ops.Kernel {
	if e == 2 {
		return newUnary(p, unary{f32: kern.Square, f64: func(x, _, _ float64) float64 { return x * x }})
	}
	if e == 3 && p.in[0].dt == ndarray.Float32 {
		return &cube{newCut(1, p.in[0].n, tileElems)}
	}
	return newUnary(p, unary{f32: noUnary, f64: func(x, e, _ float64) float64 {
		switch e {
		case 0.5:
			if math.IsInf(x, -1) {
				return math.Inf(1)
			}
			return math.Sqrt(x + 0) // -0 gives 0
		}
		return math.Pow(x, e)
	}, p0: e})
}

// cube is x³ of float32.
type cube struct{ cut }

// Run computes all tiles.
func (k *cube) Run(c *ops.Call) error {
	runTiles(c, k.tiles, k)
	return nil
}

func (k *cube) tile(c *ops.Call, i, _ int) {
	_, _, lo, hi := k.cut.tile(i)
	dst := f32(c.Out[0])[lo:hi]
	for i, x := range f32(c.In[0])[lo:hi] {
		dst[i] = x * x * x
	}
}
