package signal

import (
	"math"

	"github.com/berth-onnx/berth/internal/ops/kit"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// Window functions weigh a signal before it is transformed. With N = size for a
// periodic window and size-1 for a symmetric one:
//
//	HannWindow      0.5 - 0.5·cos(2πi/N)
//	HammingWindow   25/46 - 21/46·cos(2πi/N)
//	BlackmanWindow  0.42 - 0.5·cos(2πi/N) + 0.08·cos(4πi/N)
//
// A symmetric window of one element is 1, the peak.

// HannWindow: https://onnx.ai/onnx/operators/onnx__HannWindow.html
var HannWindow = windowOp("HannWindow", "Y[i] = 0.5 - 0.5·cos(2πi/N)", 0.5, 0.5, 0)

// HammingWindow: https://onnx.ai/onnx/operators/onnx__HammingWindow.html
var HammingWindow = windowOp("HammingWindow", "Y[i] = 25/46 - 21/46·cos(2πi/N)", 25.0/46, 21.0/46, 0)

// BlackmanWindow: https://onnx.ai/onnx/operators/onnx__BlackmanWindow.html
var BlackmanWindow = windowOp("BlackmanWindow", "Y[i] = 0.42 - 0.5·cos(2πi/N) + 0.08·cos(4πi/N)", 0.42, 0.5, 0.08)

func windowOp(name, doc string, a0, a1, a2 float64) ops.Op {
	return ops.Op{
		Name: name, Since: 17, Doc: doc,
		MinIn: 1, MaxIn: 1, MinOut: 1, MaxOut: 1,
		Attrs: []*ops.AttrSpec{ops.IntAttr("output_datatype", 1), ops.IntAttr("periodic", 1)},
		Facts: ops.Facts{Traits: ops.GeneralTraits}, Infer: kit.Rule(inferWindow), Eval: kit.Kernel(func(c *ops.Call) { evalWindow(c, a0, a1, a2) }),
	}
}

func inferWindow(n *ssa.Node) []ops.Inferred {
	dt := kit.Try(kit.DtypeAttr(n, "output_datatype", ndarray.Float32))
	return ops.One(ssa.TensorOf(dt, kit.SoleKnown(n, 0)))
}

func evalWindow(c *ops.Call, a0, a1, a2 float64) {
	dt := kit.Try(kit.DtypeAttr(c.Node, "output_datatype", ndarray.Float32))
	if !dt.IsFloat() && !dt.IsInteger() {
		kit.Check(kit.UnsupportedType(dt))
	}
	size := kit.ScalarInt(c, 0)
	if size < 0 || size > math.MaxInt32 {
		kit.Failf("a window of %d elements", size)
	}
	out := kit.Result(c, 0, dt, int(size))
	n := float64(size)
	if ops.Int(c.Node, "periodic") == 0 {
		n--
	}
	v := kit.Make[float64](c, int(size))
	w := kit.Watching(c)
	for i := range v {
		w.Did(1)
		x := 2 * math.Pi * float64(i) / n
		v[i] = a0 - a1*math.Cos(x) + a2*math.Cos(2*x)
		if n == 0 {
			v[i] = 1
		}
	}
	if dt.IsInteger() { // the operator's function cuts a float32 off: the middle is 1, not just below
		kit.RoundTo(c, v, ndarray.Float32)
		kit.StoreTruncated(c, out, v)
	} else {
		kit.WriteFloats(c, out, v)
	}
}
