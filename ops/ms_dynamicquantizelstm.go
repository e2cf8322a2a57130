package ops

import (
	"github.com/berth-onnx/berth/ndarray"
)

// DynamicQuantizeLSTM is LSTM with quantized weights, of the com.microsoft
// domain. X (once) and H (every step) are quantized to uint8 by their own range
// and multiplied in integers:
//
//	X·W = (quantize(X) - zx) · (W - zw) * sx*sw
//
// W is [directions, input, 4*hidden], R is [directions, hidden, 4*hidden];
// their scales and zero points are per direction or per column.
var DynamicQuantizeLSTM = Op{
	Domain: microsoft, Name: "DynamicQuantizeLSTM", Since: 1, Doc: "LSTM over int8 weights, activations quantized on the fly",
	MinIn: 3, MaxIn: 12, MinOut: 0, MaxOut: 3,
	Attrs: []AttrSpec{floatsAttr("activation_alpha"), floatsAttr("activation_beta"), stringsAttr("activations"), floatAttr("clip"),
		strAttr("direction", "forward", "reverse", "bidirectional"), intAttr("hidden_size"), intAttr("input_forget", 0)},
	Infer: rule(inferRecurrent(2)),
	Eval:  kernel(evalDynamicQuantizeLSTM),
	Facts: Facts{Traits: general, Cost: recurrentCost(4)},
}

func evalDynamicQuantizeLSTM(c *Call) {
	x, rec := tensor(c, 0), tensor(c, 2)
	if x.DType != ndarray.Float32 {
		check(unsupportedType(x.DType))
	}
	wantRank("R", rec, 3)
	r := recurrenceOf(c, 4, rec.Shape[1])
	width := 4 * r.hidden
	wantShape("W", tensor(c, 1), r.dirs, r.input, width)
	wantShape("R", rec, r.dirs, r.hidden, width)
	wantShape("B", c.Array(3), r.dirs, 2*width)
	w := newQuantWeights("W", c.Array(1), c.Array(8), c.Array(9))
	u := newQuantWeights("R", rec, c.Array(10), c.Array(11))
	data := ndarray.Slice[float32](x)
	runLSTM(c, &r, recurrentParts[float32]{
		input:  func(d int, out []float32) { w.addProduct(d, data, out) },
		hidden: func(d, _, _ int, h, out []float32) { u.addProduct(d, h, out) },
	})
}

// quantWeights is a stack of quantized matrices [stack, rows, cols].
type quantWeights struct {
	rows, cols int
	data       []int32 // less the zero points
	scale      []float32
	perColumn  bool
}

func newQuantWeights(what string, w, scale, zero *ndarray.Array) *quantWeights {
	if scale == nil || zero == nil || !byteInts.has(w.DType) || scale.DType != ndarray.Float32 {
		failf("%s is %s with scale %v and zero point %v; expected 8-bit integers and both", what, w, scale, zero)
	}
	q := &quantWeights{rows: w.Shape[1], cols: w.Shape[2], scale: ndarray.Slice[float32](scale)}
	if zero.Len() != scale.Len() {
		failf("%s has %d scales and %d zero points", what, scale.Len(), zero.Len())
	}
	switch scale.Len() {
	case w.Shape[0]:
		zero = zero.Reshaped(w.Shape[0], 1, 1)
	case w.Shape[0] * q.cols:
		q.perColumn = true
		zero = zero.Reshaped(w.Shape[0], 1, q.cols)
	default:
		failf("%s of shape %v has %d scales", what, w.Shape, scale.Len())
	}
	q.data = centered32(what, w, zero)
	return q
}

// addProduct quantizes x [n, rows] by its range and adds its product with matrix
// d to out [n, cols].
func (q *quantWeights) addProduct(d int, x, out []float32) {
	if q.rows == 0 || len(x) == 0 {
		return
	}
	n := len(x) / q.rows
	scale, zero := dynamicRange(x)
	bytes := make([]byte, len(x))
	quantizeBytes(bytes, x, scale, zero)
	a, acc := make([]int32, len(x)), make([]int32, n*q.cols)
	for i, b := range bytes {
		a[i] = int32(b) - int32(zero)
	}
	matMulAdd(n, q.cols, q.rows, a, q.rows, q.data[d*q.rows*q.cols:], q.cols, acc, q.cols)
	for i, v := range acc {
		s := q.scale[min(d, len(q.scale)-1)]
		if q.perColumn {
			s = q.scale[d*q.cols+i%q.cols]
		}
		out[i] += float32(v) * (scale * s)
	}
}
