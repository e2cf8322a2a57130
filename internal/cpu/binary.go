package cpu

import (
	"errors"
	"math"
	"slices"

	"github.com/berth-onnx/berth/backend"
	"github.com/berth-onnx/berth/internal/cpu/kern/simd"
	"github.com/berth-onnx/berth/internal/cpu/kern/vec"
	"github.com/berth-onnx/berth/internal/tile"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
)

// Elementwise operators of two operands: float32 through the row kernels of
// package vec, other types through typed loops.

var binaryOps = []entry{
	{op: "Add", prepare: arithmetic(simd.Add, opAdd)},
	{op: "Sub", prepare: arithmetic(simd.Sub, opSub)},
	{op: "Mul", prepare: arithmetic(simd.Mul, opMul)},
	{op: "Div", prepare: arithmetic(simd.Div, opDiv)},
	{op: "PRelu", prepare: arithmetic(simd.PRelu, opPRelu)},
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
	opRightSigned // the sign stays
	opEqual
	opLess
	opAtMost
)

// noOp says that there is no float32 row kernel.
const noOp = simd.BinaryOp(255)

// arithmetic prepares an operation on two operands of one type.
func arithmetic(f simd.BinaryOp, op binaryOp) func(*prep) (ops.Kernel, error) {
	return func(p *prep) (ops.Kernel, error) {
		n, dt := p.nestOfPair(), p.in[0].dt
		if n == nil || p.out[0].dt != dt {
			return nil, nil
		}
		if dt == ndarray.Float32 && f != noOp {
			return allTiles(n.tiles, &binaryF32{f, n, n.spread(0), n.spread(1)}), nil
		}
		return newBinary(dt, op, n), nil
	}
}

// nestOfPair is the loop nest over result 0 and operands 0 and 1; nil if the operands
// differ in type, or too many loops are left.
func (p *prep) nestOfPair() *nest {
	n, ok := newNest(p.out[0].shape, p.in[0].shape, p.in[1].shape)
	if !ok || p.in[0].dt != p.in[1].dt {
		return nil
	}
	return n
}

// binaryF32 runs a float32 operation in rows.
type binaryF32 struct {
	op     simd.BinaryOp
	n      *nest
	ka, kb vec.Spread
}

func (k *binaryF32) tile(c *ops.Call, i, _ int) {
	dst, a, b := f32(c.Out[0]), f32(c.In[0]), f32(c.In[1])
	n := k.n
	if n.whole && k.ka != uneven && k.kb != uneven {
		vec.BinaryRows(k.op, dst, a, k.ka, b, k.kb, n.rows, n.cols)
		return
	}
	for w := n.walk(i); w.next(); {
		if k.ka != uneven && k.kb != uneven {
			vec.BinaryRows(k.op, dst[w.out:], a[w.at[0]:], k.ka, b[w.at[1]:], k.kb, w.rows, w.cols)
			continue
		}
		for r := range w.rows {
			vec.BinaryRows(k.op, dst[w.out+r*w.cols:], a[w.at[0]+r*n.row[0]:], rowSpread(n.step[0]),
				b[w.at[1]+r*n.row[1]:], rowSpread(n.step[1]), 1, w.cols)
		}
	}
}

// Choice says how it is computed.
func (k *binaryF32) Choice() backend.Choice {
	if k.n.whole && k.ka != uneven && k.kb != uneven {
		return backend.Choice{Algorithm: "vectors over rows", Reason: "broadcasts are by row or by column"}
	}
	return backend.Choice{Algorithm: "vectors in a loop nest", Reason: "broadcasts over several dimensions"}
}

// rowSpread is how an operand with a step covers a single row.
func rowSpread(step int) vec.Spread {
	if step == 0 {
		return vec.One
	}
	return vec.Full
}

// rowsKernel computes rows of an operation of two operands: ra and rb are the distances
// between their rows, sa and sb between the elements of a row.
type rowsKernel[T, D ndarray.Elem] func(op binaryOp, d []D, a []T, ra, sa int, b []T, rb, sb, rows, cols int)

// pairwise is an operation of two operands of a Go type.
type pairwise[T, D ndarray.Elem] struct {
	op   binaryOp
	n    *nest
	a, b int // operand positions: left, right
	rows rowsKernel[T, D]
}

// newPairwise is the kernel of an operation of operands 0 and 1.
func newPairwise[T, D ndarray.Elem](op binaryOp, n *nest, rows rowsKernel[T, D]) ops.Kernel {
	return allTiles(n.tiles, &pairwise[T, D]{op, n, 0, 1, rows})
}

func (k *pairwise[T, D]) tile(c *ops.Call, i, _ int) {
	dst, a, b := elems[D](c.Out[0]), elems[T](c.In[k.a]), elems[T](c.In[k.b])
	n := k.n
	if n.whole {
		k.rows(k.op, dst, a, n.row[k.a], n.step[k.a], b, n.row[k.b], n.step[k.b], n.rows, n.cols)
		return
	}
	for w := n.walk(i); w.next(); {
		k.rows(k.op, dst[w.out:], a[w.at[k.a]:], n.row[k.a], n.step[k.a],
			b[w.at[k.b]:], n.row[k.b], n.step[k.b], w.rows, w.cols)
	}
}

// Choice says how it is computed.
func (k *pairwise[T, D]) Choice() backend.Choice {
	return backend.Choice{Algorithm: "rows", Reason: "the element type has a loop of its own"}
}

// newBinary chooses the Go type; nil if the operation is not defined on it.
func newBinary(dt ndarray.DType, op binaryOp, n *nest) ops.Kernel {
	if dt == ndarray.Int32 && op <= opMul {
		return newPairwise(op, n, intRows)
	}
	if kernel := binaryTypes[dt]; kernel != nil {
		return kernel(op, n)
	}
	return nil
}

// binaryTypes are the kernels by the type of the operands.
var binaryTypes = [ndarray.NumDTypes]func(binaryOp, *nest) ops.Kernel{
	ndarray.Float32: floats[float32], ndarray.Float64: floats[float64],
	ndarray.Int64: integers[int64], ndarray.Int32: integers[int32], ndarray.Int16: integers[int16], ndarray.Int8: integers[int8],
	ndarray.Uint64: integers[uint64], ndarray.Uint32: integers[uint32], ndarray.Uint16: integers[uint16], ndarray.Uint8: integers[uint8],
}

func floats[T float32 | float64](op binaryOp, n *nest) ops.Kernel {
	return newPairwise(op, n, binaryRows[T])
}

// integer are the integers of either sign.
type integer interface {
	int8 | int16 | int32 | int64 | uint8 | uint16 | uint32 | uint64
}

// integers are kernels of integers, of which divisors must not be zero.
func integers[T integer](op binaryOp, n *nest) ops.Kernel {
	k := newPairwise(op, n, binaryRows[T])
	if op == opDiv || op == opMod || op == opFmod {
		return &division[T]{k}
	}
	return k
}

// division is an integer division or its remainder.
type division[T integer] struct{ ops.Kernel }

var errZeroDivisor = errors.New("integer division by zero")

// Run computes all tiles unless a divisor is zero.
func (k *division[T]) Run(c *ops.Call) error {
	if slices.Contains(elems[T](c.In[1]), 0) {
		return errZeroDivisor
	}
	return k.Kernel.Run(c)
}

// Choice says how it is computed.
func (k *division[T]) Choice() backend.Choice {
	return backend.Choice{Algorithm: "rows", Reason: "divisors are looked at first"}
}

// binaryRows is a [rowsKernel].
func binaryRows[T number](op binaryOp, d, a []T, ra, sa int, b []T, rb, sb, rows, cols int) {
	for r := range rows {
		binaryRow(op, d[r*cols:(r+1)*cols], a[r*ra:], sa, b[r*rb:], sb)
	}
}

// intRows is a [rowsKernel] of sums, differences and products: whole vectors by package vec.
func intRows(op binaryOp, d, a []int32, ra, sa int, b []int32, rb, sb, rows, cols int) {
	for r := range rows {
		d, a, b := d[r*cols:(r+1)*cols], a[r*ra:], b[r*rb:]
		i := vec.IntRow([...]simd.IntOp{opAdd: simd.IntAdd, opSub: simd.IntSub, opMul: simd.IntMul}[op], d, a, sa, b, sb)
		binaryRow(op, d[i:], a[min(i*sa, len(a)):], sa, b[min(i*sb, len(b)):], sb)
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
			d[k] = scalarOp(op, a[i], b[j])
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

// scalarOp is one of the operations without a loop of their own.
func scalarOp[T number](op binaryOp, a, b T) T {
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
		return newUnary(p, unary{f32: simd.Square, f64: func(x, _, _ float64) float64 { return x * x }})
	}
	if e == 3 && p.in[0].dt == ndarray.Float32 {
		return elementwise(p.in[0].n, TileElems, cubeRow)
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

// cubeRow is x³ of float32.
func cubeRow(c *ops.Call, lo, hi int) {
	dst := f32(c.Out[0])[lo:hi]
	for i, x := range f32(c.In[0])[lo:hi] {
		dst[i] = x * x * x
	}
}

// Operators that fold any number of operands: two of them are an operation of two
// operands, more float32 ones a tile program, so that the result may overwrite any
// operand.

var variadicOps = []entry{
	{op: "Sum", prepare: variadic("Add", simd.Add, opAdd, false)},
	{op: "Mean", prepare: variadic("Add", simd.Add, opAdd, true)},
	{op: "Max", prepare: variadic("Max", simd.Max, opMax, false)},
	{op: "Min", prepare: variadic("Min", simd.Min, opMin, false)},
}

func variadic(name tile.Op, f simd.BinaryOp, op binaryOp, mean bool) func(*prep) (ops.Kernel, error) {
	return func(p *prep) (ops.Kernel, error) {
		switch {
		case len(p.in) == 1:
			return newCopy(p.in[0])
		case len(p.in) == 2 && !mean:
			return arithmetic(f, op)(p)
		case !p.allF32():
			return nil, nil
		}
		return p.group(folded(p, name, mean))
	}
}

// folded is the program of an operation on all operands from the first on.
func folded(p *prep, op tile.Op, mean bool) *tile.Program {
	t := p.program()
	acc := tile.Ref(0)
	for i := 1; i < len(p.in); i++ {
		acc = t.Add(tile.Instr{Op: op, DType: ndarray.Float32, Args: []tile.Ref{acc, tile.Ref(i)}})
	}
	if mean {
		n := t.Number(ndarray.Float32, float64(len(p.in)))
		acc = t.Add(tile.Instr{Op: "Div", DType: ndarray.Float32, Args: []tile.Ref{acc, n}})
	}
	t.Store(acc)
	return t
}

// program is a tile program over all operands, still without instructions.
func (p *prep) program() *tile.Program {
	t := &tile.Program{}
	for _, x := range p.in {
		t.Operands = append(t.Operands, x.dt)
	}
	return t
}
