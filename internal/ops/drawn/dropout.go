// Package drawn holds the dropout of training steps, whose mask follows from numbers that the node is given.
package drawn

import (
	"math/bits"

	"github.com/berth-onnx/berth/internal/ops/kit"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// Dropout zeroes elements that are drawn anew for each step, and scales the others:
//
//	y[i] = 0 if u(seed, step, iteration, i) < ratio else x[i] / (1 - ratio)
//
// Operands are x, the ratio in [0, 1), the number of the step and, in the body of a loop, that of the iteration. The numbers
// u in [0, 1) are a function of the seed, of these two and of the position, so no mask is kept: the derivative by x is the same
// node over the derivative by y. The attribute first is the position of x's first element, in a part of a batch. Two elements share one output of the generator, 32 bits each.
//
// Source: Steele, Lea and Flood, "Fast Splittable Pseudorandom Number Generators" (SplitMix64, its finalizer as a hash of a
// counter), OOPSLA 2014.
var Dropout = ops.Op{
	Domain: ops.Private, Name: "StepDropout", Since: 1, Doc: "Y = X * mask / (1 - ratio), mask drawn for the step",
	MinIn: 3, MaxIn: 4, MinOut: 1, MaxOut: 1,
	Attrs: []*ops.AttrSpec{ops.IntAttr("seed", 0), ops.IntAttr("first", 0)},
	Infer: kit.Rule(func(n *ssa.Node) []ops.Inferred { return ops.One(ops.InType(n, 0)) }),
	Eval:  kit.FloatKernel(evalDropout[float32], evalDropout[float64]),
	Facts: ops.Facts{Traits: ops.PassingTraits, InPlace: kit.InPlaceFirst},
}

func init() { ops.Register(&Dropout) }

// golden is the increment of the counter: 2⁶⁴ divided by the golden ratio.
const golden = 0x9e3779b97f4a7c15

// mix is SplitMix64's finalizer.
func mix(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

func evalDropout[T float32 | float64](c *ops.Call) {
	a := kit.Tensor(c, 0)
	ratio := kit.OptionalFloat(c, 1, 0)
	if !(ratio >= 0 && ratio < 1) {
		kit.Failf("ratio %g is not in [0,1)", ratio)
	}
	key := mix(uint64(ops.Int(c.Node, "seed")) + golden)
	key = mix(key + uint64(kit.OptionalInt(c, 2, 0))*golden)
	key = mix(key + uint64(kit.OptionalInt(c, 3, 0))*golden)
	y := kit.NewResult[T](c, 0, a.DType, a.Shape...)
	x, first := kit.Elements[T](c, a), int(ops.Int(c.Node, "first"))
	for from, to := range kit.Pieces(c, len(x)) {
		drop(y.V[from:to], x[from:to], key, from+first, uint64(ratio*(1<<32)), T(1/(1-ratio)))
	}
	y.Store()
}

// drop computes elements from a position on; limit is the ratio in units of 2⁻³².
func drop[T float32 | float64](y, x []T, key uint64, at int, limit uint64, scale T) {
	for i, v := range x {
		h := mix(key + uint64((at+i)/2)*golden)
		if (at+i)%2 == 1 {
			h = bits.RotateLeft64(h, 32)
		}
		y[i] = 0
		if h&(1<<32-1) >= limit {
			y[i] = v * scale
		}
	}
}
