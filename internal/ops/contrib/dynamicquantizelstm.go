package contrib

import (
	"github.com/berth-onnx/berth/internal/ops/kit"
	"github.com/berth-onnx/berth/internal/ops/nn"
	"github.com/berth-onnx/berth/internal/ops/quant"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
)

// DynamicQuantizeLSTM is LSTM with quantized weights, of the com.microsoft
// domain. X (once) and H (every step) are quantized to uint8 by their own range
// and multiplied in integers:
//
//	X·W = (quantize(X) - zx) · (W - zw) * sx*sw
//
// W is [directions, input, 4*hidden], R is [directions, hidden, 4*hidden];
// their scales and zero points are per direction or per column.
var DynamicQuantizeLSTM = ops.Op{
	Domain: Microsoft, Name: "DynamicQuantizeLSTM", Since: 1, Doc: "LSTM over int8 weights, activations quantized on the fly",
	MinIn: 3, MaxIn: 12, MinOut: 0, MaxOut: 3,
	Attrs: []*ops.AttrSpec{ops.FloatsAttr("activation_alpha"), ops.FloatsAttr("activation_beta"), ops.StringsAttr("activations"), ops.FloatAttr("clip"),
		ops.StrAttr("direction", "forward", "reverse", "bidirectional"), ops.IntAttr("hidden_size"), ops.IntAttr("input_forget", 0)},
	Infer: kit.Rule(nn.InferRecurrent(2)),
	Eval:  kit.Kernel(evalDynamicQuantizeLSTM),
	Facts: ops.Facts{Traits: ops.GeneralTraits, Cost: nn.RecurrentCost},
}

func evalDynamicQuantizeLSTM(c *ops.Call) {
	x, rec := kit.Tensor(c, 0), kit.Tensor(c, 2)
	if x.DType != ndarray.Float32 {
		kit.Check(kit.UnsupportedType(x.DType))
	}
	kit.WantRank("R", rec, 3)
	r := nn.RecurrenceOf(c, 4, rec.Shape[1])
	width := 4 * r.Hidden
	kit.WantShape("W", kit.Tensor(c, 1), r.Dirs, r.Input, width)
	kit.WantShape("R", rec, r.Dirs, r.Hidden, width)
	kit.WantShape("B", c.Array(3), r.Dirs, 2*width)
	w := newQuantWeights(c, "W", c.Array(1), c.Array(8), c.Array(9))
	u := newQuantWeights(c, "R", rec, c.Array(10), c.Array(11))
	data := ndarray.Slice[float32](x)
	nn.RunLSTM(c, r, &nn.RecurrentParts[float32]{
		Input:  func(d int, out []float32) { w.addProduct(c, d, data, out) },
		Hidden: func(d, _, _ int, h, out []float32) { u.addProduct(c, d, h, out) },
	})
}

// quantWeights is a stack of quantized matrices [stack, rows, cols].
type quantWeights struct {
	rows, cols int
	data       []int32 // less the zero points
	scale      []float32
	perColumn  bool
}

func newQuantWeights(c *ops.Call, what string, w, scale, zero *ndarray.Array) *quantWeights {
	if scale == nil || zero == nil || !kit.ByteInts.Has(w.DType) || scale.DType != ndarray.Float32 {
		kit.Failf("%s is %s with scale %v and zero point %v; expected 8-bit integers and both", what, w, scale, zero)
	}
	q := &quantWeights{rows: w.Shape[1], cols: w.Shape[2], scale: ndarray.Slice[float32](scale)}
	if zero.Len() != scale.Len() {
		kit.Failf("%s has %d scales and %d zero points", what, scale.Len(), zero.Len())
	}
	switch scale.Len() {
	case w.Shape[0]:
		zero = zero.Reshaped(w.Shape[0], 1, 1)
	case w.Shape[0] * q.cols:
		q.perColumn = true
		zero = zero.Reshaped(w.Shape[0], 1, q.cols)
	default:
		kit.Failf("%s of shape %v has %d scales", what, w.Shape, scale.Len())
	}
	q.data = quant.Centered32(c, what, w, zero)
	return q
}

// addProduct quantizes x [n, rows] by its range and adds its product with matrix
// d to out [n, cols].
func (q *quantWeights) addProduct(c *ops.Call, d int, x, out []float32) {
	watch := kit.Watching(c)
	if q.rows == 0 || len(x) == 0 {
		return
	}
	n := len(x) / q.rows
	scale, zero := quant.DynamicRange(c, x)
	bytes := kit.Make[byte](c, len(x))
	quant.QuantizeBytes(c, bytes, x, scale, zero)
	a, acc := kit.Make[int32](c, len(x)), kit.Make[int32](c, n*q.cols)
	for i, b := range bytes {
		watch.Did(1)
		a[i] = int32(b) - int32(zero)
	}
	kit.MatMulAdd(c, n, q.cols, q.rows, a, q.rows, q.data[d*q.rows*q.cols:], q.cols, acc, q.cols)
	for i, v := range acc {
		watch.Did(1)
		s := q.scale[min(d, len(q.scale)-1)]
		if q.perColumn {
			s = q.scale[d*q.cols+i%q.cols]
		}
		out[i] += float32(v) * (scale * s)
	}
}
