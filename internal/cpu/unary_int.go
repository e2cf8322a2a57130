package cpu

import (
	"math"

	"github.com/berth-onnx/berth/internal/cpu/kern/simd"
	"github.com/berth-onnx/berth/internal/cpu/kern/vec"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
)

// Functions of one integer or boolean, predicates, and Clip over all types.

// intOp names a function of the typed loops.
type intOp uint8

const (
	intNeg intOp = iota
	intAbs
	intSign
	intRelu
)

// signed adds the signed integer types to a float function.
func signed(float func(*prep) (ops.Kernel, error), op intOp) func(*prep) (ops.Kernel, error) {
	return func(p *prep) (ops.Kernel, error) {
		switch p.in[0].dt {
		case ndarray.Int64:
			return unaryInt[int64](p, op), nil
		case ndarray.Int32:
			return unaryInt[int32](p, op), nil
		case ndarray.Int16:
			return unaryInt[int16](p, op), nil
		case ndarray.Int8:
			return unaryInt[int8](p, op), nil
		}
		return float(p)
	}
}

// unaryInt computes a function over a signed Go type.
func unaryInt[T int8 | int16 | int32 | int64](p *prep, op intOp) ops.Kernel {
	return elementwise(p.in[0].n, TileElems, func(c *ops.Call, lo, hi int) {
		intRow(op, elems[T](c.Out[0])[lo:hi], elems[T](c.In[0])[lo:hi])
	})
}

func intRow[T int8 | int16 | int32 | int64](op intOp, dst, src []T) {
	switch op {
	case intNeg:
		for i, x := range src {
			dst[i] = -x
		}
	case intAbs:
		for i, x := range src {
			dst[i] = max(x, -x)
		}
	case intSign:
		for i, x := range src {
			dst[i] = min(max(x, -1), 1)
		}
	case intRelu:
		for i, x := range src {
			dst[i] = max(x, 0)
		}
	}
}

// flip inverts bytes: all bits, or the lowest bit of booleans.
func flip(bytes int, mask byte) ops.Kernel {
	return elementwise(bytes, TileBytes, func(c *ops.Call, lo, hi int) {
		dst := arrayOf(c.Out[0]).Data[lo:hi]
		for i, x := range arrayOf(c.In[0]).Data[lo:hi] {
			dst[i] = x ^ mask
		}
	})
}

func prepareNot(p *prep) (ops.Kernel, error) {
	if !p.all(ndarray.Bool) {
		return nil, nil
	}
	return flip(p.in[0].n, 1), nil
}

func prepareBitwiseNot(p *prep) (ops.Kernel, error) {
	dt := p.in[0].dt
	if !dt.IsInteger() || dt.FileBits() < 8 {
		return nil, nil
	}
	return flip(p.in[0].n*dt.Size(), 0xff), nil
}

func prepareIsNaN(p *prep) (ops.Kernel, error) { return newPredicate(p, true, false, false), nil }

func prepareIsInf(p *prep) (ops.Kernel, error) {
	return newPredicate(p, false, ops.Int(p.node, "detect_positive") != 0, ops.Int(p.node, "detect_negative") != 0), nil
}

// newPredicate chooses the element type; nil if it is no float of 32 or 64 bits.
func newPredicate(p *prep, nan, pos, neg bool) ops.Kernel {
	switch p.in[0].dt {
	case ndarray.Float32:
		return predicate[float32](p, nan, pos, neg)
	case ndarray.Float64:
		return predicate[float64](p, nan, pos, neg)
	}
	return nil
}

// predicate marks NaN, or infinities of the chosen signs.
func predicate[T float32 | float64](p *prep, nan, pos, neg bool) ops.Kernel {
	return elementwise(p.in[0].n, TileElems, func(c *ops.Call, lo, hi int) {
		dst := elems[bool](c.Out[0])[lo:hi]
		up, down := T(math.Inf(1)), T(math.Inf(-1))
		for i, x := range elems[T](c.In[0])[lo:hi] {
			dst[i] = nan && x != x || pos && x == up || neg && x == down
		}
	})
}

func prepareClip(p *prep) (ops.Kernel, error) {
	x := p.in[0]
	for i := 1; i <= 2; i++ {
		if p.has(i) && (p.in[i].n != 1 || p.in[i].dt != x.dt) {
			return nil, nil
		}
	}
	switch x.dt {
	case ndarray.Float32:
		most := float32(math.MaxFloat32)
		if p.halves != nil {
			most = float32(p.halves.out[0].dt.MaxFinite())
		}
		return newClip(p, -most, most), nil
	case ndarray.Float64:
		return newClip(p, -math.MaxFloat64, math.MaxFloat64), nil
	case ndarray.Int64:
		return newClip(p, int64(math.MinInt64), int64(math.MaxInt64)), nil
	case ndarray.Int32:
		return newClip(p, int32(math.MinInt32), int32(math.MaxInt32)), nil
	case ndarray.Int8:
		return newClip(p, int8(math.MinInt8), int8(math.MaxInt8)), nil
	case ndarray.Uint8:
		return newClip(p, uint8(0), uint8(math.MaxUint8)), nil
	}
	return nil, nil
}

// newClip limits elements to an interval whose bounds are operands of one element,
// read in every run; lowest and highest stand for absent ones.
func newClip[T number](p *prep, lowest, highest T) ops.Kernel {
	hasMin, hasMax, isF32 := p.has(1), p.has(2), p.in[0].dt == ndarray.Float32
	return elementwise(p.in[0].n, TileElems, func(c *ops.Call, from, to int) {
		lo, hi := lowest, highest
		if hasMin {
			lo = elems[T](c.In[1])[0]
		}
		if hasMax {
			hi = elems[T](c.In[2])[0]
		}
		if isF32 {
			vec.Unary(simd.Clip, f32(c.Out[0])[from:to], f32(c.In[0])[from:to], float32(lo), float32(hi))
			return
		}
		dst := elems[T](c.Out[0])[from:to]
		for i, x := range elems[T](c.In[0])[from:to] {
			if x < lo {
				x = lo
			}
			if x > hi {
				x = hi
			}
			dst[i] = x
		}
	})
}
