package cpu

import (
	"math"

	"github.com/berth-onnx/berth/internal/cpu/kern/vec"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
)

// Conversions of element types: between the types Go can convert, and between
// float32 and the half types. Floats are cut off towards 0 on their way to an
// integer; integers keep their low bits; everything but 0 is true.

var castOps = []entry{
	{op: "Cast", prepare: prepareCast},
	{op: "CastLike", prepare: prepareCast},
}

func prepareCast(p *prep) (ops.Kernel, error) {
	x, out := p.in[0], p.out[0]
	switch {
	case x.dt == out.dt:
		return newCopy(x)
	case x.dt == ndarray.Float32 && out.dt == ndarray.Float16:
		return cast(p, vec.FloatToHalf), nil
	case x.dt == ndarray.Float32 && out.dt == ndarray.BFloat16:
		return cast(p, vec.FloatToBfloat), nil
	case x.dt == ndarray.Float16 && out.dt == ndarray.Float32:
		return cast(p, vec.HalfToFloat), nil
	case x.dt == ndarray.BFloat16 && out.dt == ndarray.Float32:
		return cast(p, vec.BfloatToFloat), nil
	case x.dt == ndarray.Int32 && out.dt == ndarray.Float32:
		return cast(p, func(dst []float32, src []int32) { vec.IntToFloat(dst, src, 1) }), nil
	case (x.dt == ndarray.Uint8 || x.dt == ndarray.Bool) && out.dt == ndarray.Float32:
		return cast(p, func(dst []float32, src []uint8) { vec.Dequantize(dst, src, false, 1, 0) }), nil
	}
	if from := casts[x.dt]; from != nil {
		return from(p), nil
	}
	return nil, nil
}

// casts are conversions by the type of the operand.
var casts = [ndarray.NumDTypes]func(*prep) ops.Kernel{
	ndarray.Float32: castFrom[float32], ndarray.Float64: castFrom[float64], ndarray.Bool: castFrom[uint8],
	ndarray.Int64: castSigned[int64, uint64], ndarray.Int32: castSigned[int32, uint32], ndarray.Int16: castSigned[int16, uint16], ndarray.Int8: castByte,
	ndarray.Uint64: castFrom[uint64], ndarray.Uint32: castFrom[uint32], ndarray.Uint16: castFrom[uint16], ndarray.Uint8: castFrom[uint8],
}

// cast converts S to D by a function.
func cast[S, D ndarray.Elem](p *prep, f func(dst []D, src []S)) ops.Kernel {
	return castRange(p, func(c *ops.Call, lo, hi int) { f(elems[D](c.Out[0])[lo:hi], elems[S](c.In[0])[lo:hi]) })
}

// castRange converts by a function that knows the types. There are a hundred of these: each is small.
//
//go:noinline
func castRange(p *prep, f func(c *ops.Call, lo, hi int)) ops.Kernel {
	return elementwise(p.in[0].n, TileElems, f)
}

// castSigned converts S as the unsigned U of its size where only low bits are kept.
func castSigned[S, U number](p *prep) ops.Kernel {
	switch to := p.out[0].dt; {
	case to == ndarray.Float32:
		return castRange(p, convert[S, float32])
	case to == ndarray.Float64:
		return castRange(p, convert[S, float64])
	case to.Size() <= p.in[0].dt.Size():
		return castFrom[U](p)
	case to == ndarray.Int32 || to == ndarray.Uint32:
		return castRange(p, convert[S, uint32])
	case to == ndarray.Int64 || to == ndarray.Uint64:
		return castRange(p, convert[S, uint64])
	}
	return nil
}

func castByte(p *prep) ops.Kernel {
	if to := p.out[0].dt; to == ndarray.Int16 || to == ndarray.Uint16 {
		return castRange(p, convert[int8, uint16])
	}
	return castSigned[int8, uint8](p)
}

// castFrom converts S to the type of the result; nil if there is no code for that.
func castFrom[S number](p *prep) ops.Kernel {
	switch to := p.out[0].dt; to {
	case ndarray.Bool:
		return castRange(p, truth[S])
	case ndarray.Float32:
		return castRange(p, convert[S, float32])
	case ndarray.Float64:
		return castRange(p, convert[S, float64])
	case ndarray.Int8, ndarray.Uint8:
		return castRange(p, convert[S, uint8])
	case ndarray.Int16, ndarray.Uint16:
		return castRange(p, convert[S, uint16])
	case ndarray.Int32, ndarray.Uint32:
		return castRange(p, convert[S, uint32])
	case ndarray.Int64, ndarray.Uint64:
		if to == ndarray.Int64 || !isFloat[S]() {
			return castRange(p, convert[S, uint64])
		}
	}
	return nil
}

// convert is Go's conversion, but that of floats to integers is ndarray.Truncated's.
func convert[S, D number](c *ops.Call, lo, hi int) {
	dst, src := elems[D](c.Out[0])[lo:hi], elems[S](c.In[0])[lo:hi]
	if isFloat[S]() && !isFloat[D]() {
		limit := truncationLimit(c)
		for i, v := range src {
			x := float64(v)
			if !(math.Abs(x) < limit) {
				x = -limit
			}
			dst[i] = D(int64(x))
		}
		return
	}
	for i, v := range src {
		dst[i] = D(v)
	}
}

// truncationLimit is above what floats become integers of the result's type.
//
//go:noinline
func truncationLimit(c *ops.Call) float64 {
	if dt := arrayOf(c.Out[0]).DType; dt == ndarray.Int32 || dt.Size() < 4 {
		return 1 << 31
	}
	return 1 << 63
}

// truth is 1 for everything but 0, NaN too.
func truth[S number](c *ops.Call, lo, hi int) {
	dst, src := elems[uint8](c.Out[0])[lo:hi], elems[S](c.In[0])[lo:hi]
	for i, v := range src {
		dst[i] = 0
		if v != 0 {
			dst[i] = 1
		}
	}
}
