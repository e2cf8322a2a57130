package nn

import (
	"fmt"
	"math"

	"github.com/berth-onnx/berth/internal/ops/kit"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// LpPool is the p-norm over sliding windows: https://onnx.ai/onnx/operators/onnx__LpPool.html
//
//	Y[n,c,o] = (sum over k of |X[n,c, o*stride + k*dilation - pad]|^p)^(1/p)
var LpPool = ops.Op{
	Name: "LpPool", Since: 22, Form: bf16Since22(2), Doc: "Y = p-norm over sliding windows",
	MinIn: 1, MaxIn: 1, MinOut: 1, MaxOut: 1,
	Attrs: append([]*ops.AttrSpec{ops.IntAttr("ceil_mode", 0).From(18), ops.IntsAttr("dilations").AtLeast(1).From(18), ops.IntsAttr("kernel_shape").AtLeast(1).Before(2),
		ops.IntsAttr("kernel_shape").AtLeast(1).Mandatory().From(2), ops.FloatAttr("p", 2).AtLeast(1).Before(2), ops.IntAttr("p", 2).AtLeast(1).From(2)}, PoolAttrs...),
	Infer:    kit.Rule(InferPool),
	Eval:     kit.FloatKernel(evalLpPool[float32], evalLpPool[float64]),
	Facts:    ops.Facts{Traits: ops.PassingTraits, Smaller: pooledPlanes, Cost: PoolCost, Disputed: disputedPool},
	Upgrades: floatNormOrder("LpPool"), Downgrades: floatNormOrderAgain,
}

// GlobalLpPool is the p-norm of every plane: https://onnx.ai/onnx/operators/onnx__GlobalLpPool.html
var GlobalLpPool = ops.Op{
	Name: "GlobalLpPool", Since: 22, Form: bf16Since22(2), Doc: "Y[n,c] = p-norm of X[n,c,...]",
	MinIn: 1, MaxIn: 1, MinOut: 1, MaxOut: 1,
	Attrs: []*ops.AttrSpec{ops.FloatAttr("p", 2).AtLeast(1).Before(2), ops.IntAttr("p", 2).AtLeast(1).From(2)},
	Facts: ops.Facts{Traits: ops.GeneralTraits, Cost: kit.ReadCost}, Infer: kit.Rule(InferGlobalPool),
	Eval:     kit.FloatKernel(evalGlobalLpPool[float32], evalGlobalLpPool[float64]),
	Upgrades: floatNormOrder("GlobalLpPool"), Downgrades: floatNormOrderAgain,
}

// floatNormOrderAgain is the downgrade to version 1.
var floatNormOrderAgain = []ops.Downgrade{{Below: 2, Form: kit.FloatForm(1, 22), Apply: func(_ *ops.Upgrader, n *ssa.Node) error {
	p := int64(2)
	if a := n.Attr("p"); a != nil {
		p = a.I
	}
	n.SetAttr(ssa.FloatAttr("p", float32(p)))
	return nil
}}}

// floatNormOrder is the upgrade from version 1, where p was a float.
func floatNormOrder(op string) []ops.Upgrade {
	return []ops.Upgrade{{Below: 2, Source: kit.Changelog(op, 2), Apply: func(_ *ops.Upgrader, n *ssa.Node) error {
		p := ops.Float(n, "p")
		if p != float32(math.Trunc(float64(p))) {
			return fmt.Errorf("p=%g is no whole number; newer operator sets only have whole ones", p)
		}
		n.SetAttr(ssa.IntAttr("p", int64(p)))
		return nil
	}}}
}

// powerOf returns |x|^p and its inverse x^(1/p) for a node's p.
func powerOf[T kit.RealNum](n *ssa.Node) (power, root func(T) T) {
	p := ops.Int(n, "p")
	switch p {
	case 1:
		return func(x T) T { return T(math.Abs(float64(x))) }, func(x T) T { return x }
	case 2:
		return func(x T) T { return x * x }, func(x T) T { return T(math.Sqrt(float64(x))) }
	}
	return func(x T) T { return T(math.Pow(math.Abs(float64(x)), float64(p))) },
		func(x T) T { return T(math.Pow(float64(x), 1/float64(p))) }
}

func evalLpPool[T float32 | float64](c *ops.Call) {
	w, shape := poolWindow(c)
	x := c.Array(0)
	y := kit.NewResult[T](c, 0, x.DType, shape...)
	power, root := powerOf[T](c.Node)
	PoolSum(c, &w, shape[0]*shape[1], kit.Elements[T](c, x), y.V, power)
	kit.Convert(c, y.V, y.V, root)
	y.Store()
}

func evalGlobalLpPool[T float32 | float64](c *ops.Call) {
	power, root := powerOf[T](c.Node)
	globalPool(c, func(w *kit.Watch, plane []T) T {
		var sum T
		for _, v := range plane {
			w.Did(1)
			sum += power(v)
		}
		return root(sum)
	})
}
