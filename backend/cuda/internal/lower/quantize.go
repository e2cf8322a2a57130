package lower

import (
	"github.com/berth-onnx/berth/internal/tile"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
)

// Linear quantization to integers of 8 and 16 bits, with one scale or one for each element along an axis.

func init() {
	add("", quantize, "QuantizeLinear")
	add("", dequantize, "DequantizeLinear")
	add(microsoft, quantize, "QuantizeLinear")
	add(microsoft, dequantize, "DequantizeLinear")
	add(microsoft, quantizedArithmetic, "QLinearAdd", "QLinearMul")
}

// quantized are the element types and their limits.
var quantized = map[ndarray.DType][2]float64{
	ndarray.Int8: {-128, 127}, ndarray.Uint8: {0, 255}, ndarray.Int16: {-32768, 32767}, ndarray.Uint16: {0, 65535},
}

// scaleShapes are the shapes of the operand, its scale and zero point; false for scales by blocks.
func (p *prep) scaleShapes() ([][]int, bool) {
	x, scale := p.in[0], p.in[1]
	if ops.Int(p.node, "block_size") != 0 || p.has(2) && p.in[2].n != scale.n || !p.node.Has("axis") && p.node.Domain == microsoft && scale.n > 1 {
		return nil, false
	}
	along := make([]int, len(x.shape))
	for i := range along {
		along[i] = 1
	}
	if len(scale.shape) > 0 && scale.n > 1 {
		axis, ok := p.axis(len(x.shape))
		if !ok || len(scale.shape) != 1 || scale.n != x.shape[axis] {
			return nil, false
		}
		along[axis] = scale.n
	}
	return [][]int{x.shape, along, along}[:len(p.present())], true
}

// quantize is saturate(round(x / scale) + zero point).
func quantize(p *prep) (bool, error) {
	const f = ndarray.Float32
	limits, ok := quantized[p.out[0].dt]
	shapes, fits := p.scaleShapes()
	if !ok || !fits || p.in[0].dt != f || p.in[1].dt != f || ops.IntOr(p.node, "precision", 0) != 0 {
		return false, nil
	}
	var b builder
	var args []tile.Ref
	for _, i := range p.present() {
		args = append(args, b.operand(p.in[i].dt))
	}
	v := b.do(f, "Round", b.do(f, "Div", args[0], args[1]))
	if p.has(2) {
		v = b.do(f, "Add", v, b.do(f, "Cast", args[2]))
	}
	b.Store(b.saturated(v, p.out[0].dt, limits))
	return p.program(&b.Program, shapes, p.present()...)
}

// dequantize is (x - zero point)·scale.
func dequantize(p *prep) (bool, error) {
	const f = ndarray.Float32
	_, ok := quantized[p.in[0].dt]
	shapes, fits := p.scaleShapes()
	if !ok || !fits || p.in[1].dt != f || p.out[0].dt != f {
		return false, nil
	}
	var b builder
	var args []tile.Ref
	for _, i := range p.present() {
		args = append(args, b.operand(p.in[i].dt))
	}
	v := b.do(f, "Cast", args[0])
	if p.has(2) {
		v = b.do(f, "Sub", v, b.do(f, "Cast", args[2]))
	}
	b.Store(b.do(f, "Mul", v, args[1]))
	return p.program(&b.Program, shapes, p.present()...)
}

// saturated is an integer between limits, the lower one for NaN.
func (b *builder) saturated(v tile.Ref, dt ndarray.DType, limits [2]float64) tile.Ref {
	const f = ndarray.Float32
	v = b.do(f, "Where", b.do(ndarray.Bool, "IsNaN", v), b.Number(f, limits[0]), v)
	v = b.do(f, "Min", b.do(f, "Max", v, b.Number(f, limits[0])), b.Number(f, limits[1]))
	return b.do(dt, "Cast", v)
}

// quantizedArithmetic dequantizes both operands and quantizes what comes out: each tensor has one scale and one zero point behind it, and
// that of the result is added before rounding.
func quantizedArithmetic(p *prep) (bool, error) {
	const f = ndarray.Float32
	dt := p.out[0].dt
	for i := range 8 {
		switch {
		case i == 1 || i == 4 || i == 6: // scales
			if !p.has(i) || p.in[i].dt != f || p.in[i].n != 1 {
				return false, nil
			}
		case p.has(i) && (p.in[i].dt != dt || i != 0 && i != 3 && p.in[i].n != 1):
			return false, nil
		}
	}
	limits, ok := quantized[dt]
	if !ok || dt.Size() != 1 {
		return false, nil
	}
	var b builder
	var args [8]tile.Ref
	var shapes [][]int
	for _, i := range p.present() {
		args[i] = b.operand(p.in[i].dt)
		shape := []int{}
		if i == 0 || i == 3 {
			shape = p.in[i].shape
		}
		shapes = append(shapes, shape)
	}
	zero := func(i int, v tile.Ref, op tile.Op) tile.Ref {
		if !p.has(i) {
			return v
		}
		return b.do(f, op, v, b.do(f, "Cast", args[i]))
	}
	realOf := func(i int) tile.Ref { return b.do(f, "Mul", zero(i+2, b.do(f, "Cast", args[i]), "Sub"), args[i+1]) }
	x, y := realOf(0), realOf(3)
	op := map[string]tile.Op{"QLinearAdd": "Add", "QLinearMul": "Mul"}[p.node.Op]
	v := zero(7, b.do(f, "Div", b.do(f, op, x, y), args[6]), "Add")
	b.Store(b.saturated(b.do(f, "Round", v), dt, limits))
	return p.program(&b.Program, shapes, p.present()...)
}
