package ops

import (
	"fmt"
	"math"

	"github.com/berth-onnx/berth/ssa"
)

// LpPool is the p-norm over sliding windows: https://onnx.ai/onnx/operators/onnx__LpPool.html
//
//	Y[n,c,o] = (sum over k of |X[n,c, o*stride + k*dilation - pad]|^p)^(1/p)
var LpPool = Op{
	Name: "LpPool", Since: 22, Form: bf16Since22(2), Doc: "Y = p-norm over sliding windows",
	MinIn: 1, MaxIn: 1, MinOut: 1, MaxOut: 1,
	Attrs: append([]AttrSpec{intAttr("ceil_mode", 0).since(18), intsAttr("dilations").atLeast(1).since(18), intsAttr("kernel_shape").atLeast(1).until(2),
		intsAttr("kernel_shape").atLeast(1).required().since(2), floatAttr("p", 2).until(2), intAttr("p", 2).since(2)}, poolAttrs...),
	Infer:    rule(inferPool),
	Eval:     floatKernel(evalLpPool[float32], evalLpPool[float64]),
	Facts:    Facts{Traits: passing, Smaller: pooledPlanes, Cost: poolCost},
	Upgrades: floatNormOrder("LpPool"),
}

// GlobalLpPool is the p-norm of every plane: https://onnx.ai/onnx/operators/onnx__GlobalLpPool.html
var GlobalLpPool = Op{
	Name: "GlobalLpPool", Since: 22, Form: bf16Since22(2), Doc: "Y[n,c] = p-norm of X[n,c,...]",
	MinIn: 1, MaxIn: 1, MinOut: 1, MaxOut: 1,
	Attrs: []AttrSpec{floatAttr("p", 2).until(2), intAttr("p", 2).since(2)},
	Facts: Facts{Traits: general, Cost: readCost}, Infer: rule(inferGlobalPool),
	Eval:     floatKernel(evalGlobalLpPool[float32], evalGlobalLpPool[float64]),
	Upgrades: floatNormOrder("GlobalLpPool"),
}

// floatNormOrder is the upgrade from version 1, where p was a float.
func floatNormOrder(op string) []Upgrade {
	return []Upgrade{{Below: 2, Source: changelog(op, 2), Apply: func(_ *Upgrader, n *ssa.Node) error {
		p := Float(n, "p")
		if p != float32(math.Trunc(float64(p))) || p < 1 {
			return fmt.Errorf("p=%g is no whole number; newer operator sets only have whole ones", p)
		}
		n.SetAttr(ssa.IntAttr("p", int64(p)))
		return nil
	}}}
}

// normOrder reads and checks attribute p.
func normOrder(n *ssa.Node) int64 {
	p := Int(n, "p")
	if p < 1 {
		failf("p=%d is not positive", p)
	}
	return p
}

// powerOf returns |x|^p and its inverse x^(1/p).
func powerOf[T realNum](p int64) (power, root func(T) T) {
	switch p {
	case 1:
		return func(x T) T { return T(math.Abs(float64(x))) }, func(x T) T { return x }
	case 2:
		return func(x T) T { return x * x }, func(x T) T { return T(math.Sqrt(float64(x))) }
	}
	return func(x T) T { return T(math.Pow(math.Abs(float64(x)), float64(p))) },
		func(x T) T { return T(math.Pow(float64(x), 1/float64(p))) }
}

func evalLpPool[T float32 | float64](c *Call) {
	p := normOrder(c.Node)
	w, shape := poolWindow(c)
	x := c.Array(0)
	y := newResult[T](c, 0, x.DType, shape...)
	power, root := powerOf[T](p)
	poolSum(&w, shape[0]*shape[1], elements[T](x), y.V, power)
	for i, v := range y.V {
		y.V[i] = root(v)
	}
	y.store()
}

func evalGlobalLpPool[T float32 | float64](c *Call) {
	p := normOrder(c.Node)
	power, root := powerOf[T](p)
	globalPool(c, func(plane []T) T {
		var sum T
		for _, v := range plane {
			sum += power(v)
		}
		return root(sum)
	})
}
