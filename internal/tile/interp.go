package tile

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/berth-onnx/berth/internal/ops/kit"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
)

// The interpreter computes one instruction after the other over whole tensors, one element
// after the other, by the formulas of the standard in float64 or int64. It shares nothing with
// the kernels of package cpu. A result is rounded to its element type; half types are rounded
// to float32 before, but by a Cast.

// Interpret computes the results of a program; operands broadcast. Its memory is asked of the context's budget.
func (p *Program) Interpret(ctx context.Context, in []*ndarray.Array) ([]*ndarray.Array, error) {
	shapes := make([][]int, len(in))
	for i, a := range in {
		if i >= len(p.Operands) || a.DType != p.Operands[i] {
			return nil, fmt.Errorf("operand %d is %s", i, a)
		}
		shapes[i] = a.Shape
	}
	l, err := p.Bind(shapes)
	if err != nil {
		return nil, err
	}
	m := &machine{ctx: ctx, p: p, shape: l.Shape, rowShape: rowShapeOf(l.Shape, p.Inner), values: make([]*ndarray.Array, p.NumValues())}
	copy(m.values, in)
	for i := range p.Instrs {
		v, err := m.instr(&p.Instrs[i])
		if err = cmp.Or(ctx.Err(), err); err != nil {
			return nil, err
		}
		m.values[len(p.Operands)+i] = v
	}
	out := make([]*ndarray.Array, len(p.Results))
	for k, r := range p.Results {
		out[k] = m.values[r.Value].Reshaped(p.ResultShape(k, l.Shape)...)
	}
	return out, nil
}

// machine is the state of the interpreter.
type machine struct {
	ctx      context.Context
	p        *Program
	shape    []int // of full values
	rowShape []int // of row values, dimensions of the row kept as one
	values   []*ndarray.Array
	over     bool // the context has been seen to have ended
}

func rowShapeOf(shape []int, inner int) []int {
	out := append([]int(nil), shape...)
	for i := len(out) - inner; i < len(out); i++ {
		out[i] = 1
	}
	return out
}

// ended reports that the context has ended, for which it looks at some of the elements of a tensor: what is computed is
// dropped then.
func (m *machine) ended(element int) bool {
	m.over = m.over || element%4096 == 0 && m.ctx.Err() != nil
	return m.over
}

// array makes a value.
func (m *machine) array(dt ndarray.DType, shape []int) (*ndarray.Array, error) {
	return ndarray.NewContext(m.ctx, ndarray.BudgetOf(m.ctx), dt, shape...)
}

// instr computes one value.
func (m *machine) instr(x *Instr) (*ndarray.Array, error) {
	switch {
	case x.Op == Constant:
		return x.Value, nil
	case x.Op.Reduces():
		return m.reduce(x)
	case x.Op.Normalizes():
		return m.normalize(x)
	}
	shape := m.shape
	if x.Row {
		shape = m.rowShape
	}
	out, err := m.array(x.DType, shape)
	if err != nil {
		return nil, err
	}
	args := make([]*ndarray.Array, len(x.Args))
	at := make([][]int, len(x.Args))
	for k, a := range x.Args {
		if a != None {
			args[k] = m.values[a]
			if at[k], err = m.positions(args[k].Shape, shape); err != nil {
				return nil, err
			}
		}
	}
	c := cell{x: x, out: out, args: args, at: at}
	for c.i = range out.Len() {
		if m.ended(c.i) {
			return nil, m.ctx.Err()
		}
		if err := c.compute(); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// positions lists, for every element of a shape, the element of an operand that broadcasts
// to it.
func (m *machine) positions(operand, shape []int) ([]int, error) {
	bytes, err := ndarray.ByteSize(ndarray.Int64, shape)
	if err == nil {
		err = ndarray.BudgetOf(m.ctx).AskContext(m.ctx, "positions of a broadcast operand", int64(bytes))
	}
	if err != nil {
		return nil, err
	}
	strides := ops.BroadcastStrides(operand, shape)
	out := []int{0}
	for d, n := range shape {
		next := make([]int, 0, len(out)*n)
		for _, base := range out {
			for i := range n {
				if m.ended(len(next)) {
					return nil, m.ctx.Err()
				}
				next = append(next, base+i*strides[d])
			}
		}
		out = next
	}
	return out, nil
}

var errZeroDivisor = errors.New("integer division by zero")

// cell is what one element is computed from.
type cell struct {
	x    *Instr
	out  *ndarray.Array
	i    int
	args []*ndarray.Array
	at   [][]int
}

func (c *cell) float(k int) float64 { return c.args[k].Float(c.at[k][c.i]) }

func (c *cell) int(k int) int64 { return c.args[k].Int(c.at[k][c.i]) }

func (c *cell) has(k int) bool { return k < len(c.args) && c.args[k] != nil }

func (c *cell) setBool(v bool) {
	c.out.Data[c.i] = 0
	if v {
		c.out.Data[c.i] = 1
	}
}

// setFloat stores a float, rounded to float32 on its way to a half type.
func (c *cell) setFloat(v float64) {
	if c.out.DType.Size() == 2 {
		v = float64(float32(v))
	}
	c.out.SetFloat(c.i, v)
}

// compute computes one element.
func (c *cell) compute() error {
	t := c.args[0].DType
	switch k := specs[c.x.Op].class; {
	case k == choice:
		c.choose()
	case c.x.Op == Call:
		c.call()
	case k == casts:
		c.cast()
	case c.x.Op == "Clip":
		c.clip()
	case k == equality || k == ordering:
		c.setBool(c.compare())
	case k == predicates:
		c.setBool(predicate(c.x, c.float(0)))
	case t.IsFloat() && len(c.args) == 1:
		c.setFloat(unaryFloat(c.x, c.float(0)))
	case t.IsFloat():
		c.setFloat(binaryFloat(c.x.Op, c.float(0), c.float(1)))
	case len(c.args) == 1:
		c.out.SetInt(c.i, unaryInt(c.x.Op, c.int(0)))
	default:
		a, b := c.int(0), c.int(1)
		if b == 0 && (c.x.Op == "Div" || c.x.Op == "Mod" || c.x.Op == Fmod) {
			return errZeroDivisor
		}
		c.out.SetInt(c.i, binaryInt(c.x.Op, t, a, b))
	}
	return nil
}

// choose copies an element of argument 1 or 2.
func (c *cell) choose() {
	k := 2
	if c.int(0) != 0 {
		k = 1
	}
	size := c.out.DType.Size()
	copy(c.out.Data[c.i*size:(c.i+1)*size], c.args[k].Data[c.at[k][c.i]*size:])
}

// call calls the function for one element.
func (c *cell) call() {
	in, out := c.args[0].DType.Size(), c.out.DType.Size()
	at := c.at[0][c.i] * in
	c.x.Func.Run(c.out.Data[c.i*out:(c.i+1)*out], c.args[0].Data[at:at+in])
}

// cast converts: floats are cut off on their way to an integer, as ndarray.Truncated says.
func (c *cell) cast() {
	from, to := c.args[0].DType, c.out.DType
	switch {
	case to == ndarray.Bool && from.IsFloat():
		c.setBool(c.float(0) != 0)
	case to == ndarray.Bool:
		c.setBool(c.int(0) != 0)
	case to == ndarray.Float16 || to == ndarray.BFloat16: // rounded once
		c.out.SetFloat(c.i, float64(kit.OddFloat32(c.float(0))))
	case from.IsFloat() && to.IsFloat():
		c.out.SetFloat(c.i, c.float(0))
	case from.IsFloat():
		c.out.SetFloat(c.i, c.float(0))
	case from == ndarray.Uint64 && to.IsFloat():
		c.out.SetFloat(c.i, float64(uint64(c.int(0))))
	case to == ndarray.Float32:
		ndarray.Slice[float32](c.out)[c.i] = float32(c.int(0)) // rounded once
	default:
		c.out.SetInt(c.i, c.int(0))
	}
}

// clip limits a number; an absent limit is the least or largest number of the type, which infinities are clipped to.
func (c *cell) clip() {
	if most := c.out.DType.MaxFinite(); c.out.DType.IsFloat() {
		limits := [...]float64{-most, most}
		for k := range limits {
			if c.has(1 + k) {
				limits[k] = c.float(1 + k)
			}
		}
		v := c.float(0)
		v = choose(v < limits[0], limits[0], v)
		c.setFloat(choose(v > limits[1], limits[1], v))
		return
	}
	less := func(a, b int64) bool {
		if c.out.DType == ndarray.Uint64 {
			return uint64(a) < uint64(b)
		}
		return a < b
	}
	v := c.int(0)
	if c.has(1) && less(v, c.int(1)) {
		v = c.int(1)
	}
	if c.has(2) && less(c.int(2), v) {
		v = c.int(2)
	}
	c.out.SetInt(c.i, v)
}

func (c *cell) compare() bool {
	switch t := c.args[0].DType; {
	case t.IsFloat():
		return holds(c.x.Op, c.float(0), c.float(1))
	case t == ndarray.Uint64:
		return holds(c.x.Op, uint64(c.int(0)), uint64(c.int(1)))
	}
	return holds(c.x.Op, c.int(0), c.int(1))
}
