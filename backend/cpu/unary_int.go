package cpu

import (
	"math"

	"github.com/berth-onnx/berth/backend/cpu/kern"
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
		k := newCut(1, p.in[0].n, tileElems)
		switch p.in[0].dt {
		case ndarray.Int64:
			return &unaryInt[int64]{op, k}, nil
		case ndarray.Int32:
			return &unaryInt[int32]{op, k}, nil
		case ndarray.Int16:
			return &unaryInt[int16]{op, k}, nil
		case ndarray.Int8:
			return &unaryInt[int8]{op, k}, nil
		}
		return float(p)
	}
}

// unaryInt runs a function over a signed Go type.
type unaryInt[T int8 | int16 | int32 | int64] struct {
	op intOp
	cut
}

// Run computes all tiles.
func (k *unaryInt[T]) Run(c *ops.Call) error {
	runTiles(c, k.tiles, k)
	return nil
}

func (k *unaryInt[T]) tile(c *ops.Call, i, _ int) {
	_, _, lo, hi := k.cut.tile(i)
	dst, src := elems[T](c.Out[0])[lo:hi], elems[T](c.In[0])[lo:hi]
	switch k.op {
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
type flip struct {
	mask byte
	cut
}

func prepareNot(p *prep) (ops.Kernel, error) {
	if !p.all(ndarray.Bool) {
		return nil, nil
	}
	return &flip{1, newCut(1, p.in[0].n, tileBytes)}, nil
}

func prepareBitwiseNot(p *prep) (ops.Kernel, error) {
	dt := p.in[0].dt
	if !dt.IsInteger() || dt.FileBits() < 8 || p.out[0].dt != dt {
		return nil, nil
	}
	return &flip{0xff, newCut(1, p.in[0].n*dt.Size(), tileBytes)}, nil
}

// Run inverts all tiles.
func (k *flip) Run(c *ops.Call) error {
	runTiles(c, k.tiles, k)
	return nil
}

func (k *flip) tile(c *ops.Call, i, _ int) {
	_, _, lo, hi := k.cut.tile(i)
	dst := arrayOf(c.Out[0]).Data[lo:hi]
	for i, x := range arrayOf(c.In[0]).Data[lo:hi] {
		dst[i] = x ^ k.mask
	}
}

// predicate marks NaN, or infinities of the chosen signs.
type predicate[T float32 | float64] struct {
	nan, pos, neg bool
	cut
}

func prepareIsNaN(p *prep) (ops.Kernel, error) { return newPredicate(p, true, false, false), nil }

func prepareIsInf(p *prep) (ops.Kernel, error) {
	return newPredicate(p, false, ops.Int(p.node, "detect_positive") != 0, ops.Int(p.node, "detect_negative") != 0), nil
}

func newPredicate(p *prep, nan, pos, neg bool) ops.Kernel {
	k := newCut(1, p.in[0].n, tileElems)
	switch p.in[0].dt {
	case ndarray.Float32:
		return &predicate[float32]{nan, pos, neg, k}
	case ndarray.Float64:
		return &predicate[float64]{nan, pos, neg, k}
	}
	return nil
}

// Run computes all tiles.
func (k *predicate[T]) Run(c *ops.Call) error {
	runTiles(c, k.tiles, k)
	return nil
}

func (k *predicate[T]) tile(c *ops.Call, i, _ int) {
	_, _, lo, hi := k.cut.tile(i)
	dst := elems[bool](c.Out[0])[lo:hi]
	up, down := T(math.Inf(1)), T(math.Inf(-1))
	for i, x := range elems[T](c.In[0])[lo:hi] {
		dst[i] = k.nan && x != x || k.pos && x == up || k.neg && x == down
	}
}

// clip limits elements to an interval whose bounds are operands of one element,
// read in every run; an absent one is no bound.
type clip[T number] struct {
	lo, hi         T
	hasMin, hasMax bool
	cut
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
		return newClip(p, float32(-math.MaxFloat32), float32(math.MaxFloat32)), nil
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

func newClip[T number](p *prep, lo, hi T) *clip[T] {
	return &clip[T]{lo, hi, p.has(1), p.has(2), newCut(1, p.in[0].n, tileElems)}
}

// Run computes all tiles.
func (k *clip[T]) Run(c *ops.Call) error {
	runTiles(c, k.tiles, k)
	return nil
}

func (k *clip[T]) tile(c *ops.Call, i, _ int) {
	lo, hi := k.lo, k.hi
	if k.hasMin {
		lo = elems[T](c.In[1])[0]
	}
	if k.hasMax {
		hi = elems[T](c.In[2])[0]
	}
	_, _, from, to := k.cut.tile(i)
	if isFloat[T]() && arrayOf(c.In[0]).DType == ndarray.Float32 {
		kern.Unary(kern.Clip, f32(c.Out[0])[from:to], f32(c.In[0])[from:to], float32(lo), float32(hi))
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
}
