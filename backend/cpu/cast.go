package cpu

import (
	"math"

	"github.com/berth-onnx/berth/backend/cpu/kern"
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

// cast converts S to D.
type cast[S, D ndarray.Elem] struct {
	f func(dst []D, src []S)
	cut
}

func prepareCast(p *prep) (ops.Kernel, error) {
	x, out := p.in[0], p.out[0]
	k := newCut(1, x.n, tileElems)
	if x.dt == out.dt {
		return newCopy(x)
	}
	switch {
	case x.dt == ndarray.Float32 && out.dt == ndarray.Float16:
		return &cast[float32, uint16]{kern.FloatToHalf, k}, nil
	case x.dt == ndarray.Float32 && out.dt == ndarray.BFloat16:
		return &cast[float32, uint16]{kern.FloatToBfloat, k}, nil
	case x.dt == ndarray.Float16 && out.dt == ndarray.Float32:
		return &cast[uint16, float32]{kern.HalfToFloat, k}, nil
	case x.dt == ndarray.BFloat16 && out.dt == ndarray.Float32:
		return &cast[uint16, float32]{kern.BfloatToFloat, k}, nil
	}
	switch x.dt {
	case ndarray.Float32:
		return castFloat[float32](out.dt, k), nil
	case ndarray.Float64:
		return castFloat[float64](out.dt, k), nil
	case ndarray.Int64:
		return castInt[int64](out.dt, k), nil
	case ndarray.Int32:
		return castInt[int32](out.dt, k), nil
	case ndarray.Int16:
		return castInt[int16](out.dt, k), nil
	case ndarray.Int8:
		return castInt[int8](out.dt, k), nil
	case ndarray.Uint64:
		return castInt[uint64](out.dt, k), nil
	case ndarray.Uint32:
		return castInt[uint32](out.dt, k), nil
	case ndarray.Uint16:
		return castInt[uint16](out.dt, k), nil
	case ndarray.Uint8, ndarray.Bool:
		return castInt[uint8](out.dt, k), nil
	}
	return nil, nil
}

func castInt[S integer](to ndarray.DType, k cut) ops.Kernel {
	switch to {
	case ndarray.Bool:
		return &cast[S, uint8]{truth[S], k}
	case ndarray.Float32:
		return &cast[S, float32]{convert[S, float32], k}
	case ndarray.Float64:
		return &cast[S, float64]{convert[S, float64], k}
	case ndarray.Int8, ndarray.Uint8:
		return &cast[S, uint8]{convert[S, uint8], k}
	case ndarray.Int16, ndarray.Uint16:
		return &cast[S, uint16]{convert[S, uint16], k}
	case ndarray.Int32, ndarray.Uint32:
		return &cast[S, uint32]{convert[S, uint32], k}
	case ndarray.Int64, ndarray.Uint64:
		return &cast[S, uint64]{convert[S, uint64], k}
	}
	return nil
}

func castFloat[S float32 | float64](to ndarray.DType, k cut) ops.Kernel {
	switch to {
	case ndarray.Bool:
		return &cast[S, uint8]{truth[S], k}
	case ndarray.Float32:
		return &cast[S, float32]{convert[S, float32], k}
	case ndarray.Float64:
		return &cast[S, float64]{convert[S, float64], k}
	case ndarray.Int8, ndarray.Uint8:
		return &cast[S, uint8]{truncate[S, uint8], k}
	case ndarray.Int16, ndarray.Uint16:
		return &cast[S, uint16]{truncate[S, uint16], k}
	case ndarray.Int32, ndarray.Uint32:
		return &cast[S, uint32]{truncate[S, uint32], k}
	case ndarray.Int64:
		return &cast[S, uint64]{truncate[S, uint64], k}
	}
	return nil
}

// Run converts all tiles.
func (k *cast[S, D]) Run(c *ops.Call) error {
	runTiles(c, k.tiles, k)
	return nil
}

func (k *cast[S, D]) tile(c *ops.Call, i, _ int) {
	_, _, lo, hi := k.cut.tile(i)
	k.f(elems[D](c.Out[0])[lo:hi], elems[S](c.In[0])[lo:hi])
}

// convert is Go's conversion.
func convert[S, D number](dst []D, src []S) {
	for i, v := range src {
		dst[i] = D(v)
	}
}

// truth is 1 for everything but 0, NaN too.
func truth[S number](dst []uint8, src []S) {
	for i, v := range src {
		dst[i] = 0
		if v != 0 {
			dst[i] = 1
		}
	}
}

// truncate cuts floats off to int64 and keeps the low bits; beyond int64 they
// saturate, and NaN gives 0.
func truncate[S float32 | float64, D integer](dst []D, src []S) {
	for i, v := range src {
		dst[i] = D(toInt64(float64(v)))
	}
}

func toInt64(v float64) int64 {
	switch {
	case v >= math.MaxInt64:
		return math.MaxInt64
	case v <= math.MinInt64:
		return math.MinInt64
	case v != v:
		return 0
	}
	return int64(v)
}
