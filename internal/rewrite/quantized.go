package rewrite

import (
	"math"
	"slices"

	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// Quantized computes in integers what a quantized model declares in real numbers: with
// DequantizeLinear ahead of every operator and QuantizeLinear behind it (the QDQ form,
// which most tools write):
//
//	x ─DQ─┐                                       x ────────┐
//	w ─DQ─┼▶ Conv ─[Relu]─ Q ──▶ y        ->      w ────────┼▶ QLinearConv ──▶ y
//	b ─DQ─┘                                       b, s, z ──┘
//
//	Q(MatMul(DQ(a), DQ(b)))        ->   QLinearMatMul(a, b)
//	Q(Add(DQ(a), DQ(b)))           ->   QLinearAdd(a, b)
//	MatMul(DQ(a), DQ(b)), Gemm     ->   Cast(MatMulInteger(a, b) + bias) * (sa*sb)
//	Q(move(DQ(x)))                 ->   move(x)        same scale and zero point before and after; also maxima of windows
//	Gather(DQ(x), i)               ->   DQ(Gather(x, i))
//
// The integer forms sum up exactly and round once, the real ones round every sum;
// so a result may be one step of its scale away from what the written graph gives.
// That is why the pass is not among those that change a model file. Scales and zero
// points are constants, of a tensor for activations, of a channel or column for
// weights; weights are constants.
//
// Sums have 32 bits: K products of a and b and the bias stay below 2^31 ([fitsInt32]). A bias
// is added as an integer where that is as good as the real one ([integerBias]), else behind
// the scales.
//
// The nodes are visited from the last to the first: the rules of QuantizeLinear come before
// those of the product it reads.
var Quantized = &Pass{
	Name: "quantized", Doc: "operators between DequantizeLinear and QuantizeLinear -> operators on integers", backward: true,
	rules: []rule{
		{"Q(DQ(x)) -> x", named("QuantizeLinear"), requantized},
		{"Q(move(DQ(x))) -> move(x)", named("QuantizeLinear"), quantizedMove},
		{"Q(Conv, MatMul or Add(DQ, DQ)) -> QLinearConv, QLinearMatMul, QLinearAdd", named("QuantizeLinear"), quantizedResult},
		{"MatMul(DQ, DQ) -> Cast(MatMulInteger) * scale", named("MatMul", "Gemm"), integerProduct},
		{"Gather(DQ(x), i) -> DQ(Gather(x, i))", named("Gather"), gatherQuantized},
	},
}

// quantization is the quantization parameters of a tensor: integers x are the real numbers
// (x - zero) * scale.
type quantization struct {
	node        *ssa.Node // DequantizeLinear or QuantizeLinear
	x           *ssa.Value
	dt          ndarray.DType // of the integers
	scale, zero *ssa.Value    // operands; zero may be nil
	s           []float32     // the scales: one, or one for each index of the node's axis
}

// dequantized reads v as DQ(x) with 8-bit x and constant parameters; nil if it is
// something else.
func dequantized(v *ssa.Value) *quantization {
	n := def(v, "DequantizeLinear")
	if n == nil || v.Type.DType != ndarray.Float32 || n.In[0] == nil || !n.In[0].Type.DType.IsByte() {
		return nil
	}
	return quantizationOf(n, n.In[0].Type.DType)
}

// quantizationOf reads the parameters of a quantization to or from dt.
func quantizationOf(n *ssa.Node, dt ndarray.DType) *quantization {
	q := &quantization{node: n, x: n.In[0], dt: dt, scale: n.In[1], zero: n.Input(2)}
	if ops.Int(n, "block_size") != 0 || q.scale == nil || q.scale.Const == nil || q.scale.Type.DType != ndarray.Float32 ||
		len(q.scale.Const.Shape()) > 1 || q.zero != nil && (q.zero.Const == nil || q.zero.Type.DType != dt || q.zero.Const.Len() != q.scale.Const.Len()) {
		return nil
	}
	a, err := q.scale.Const.Array()
	if err != nil {
		return nil
	}
	q.s = ndarray.Slice[float32](a)
	for _, s := range q.s {
		if !(s >= 0x1p-60 && s <= 0x1p60) { // products of two are normal numbers
			return nil
		}
	}
	return q
}

// whole reports one scale for the whole tensor.
func (q *quantization) whole() bool { return q != nil && len(q.s) == 1 }

// along reports constant integers with one scale, or one for each of n indices of
// an axis.
func (q *quantization) along(axis, rank, n int) bool {
	if q == nil || q.x.Const == nil {
		return false
	}
	return len(q.s) == 1 || len(q.s) == n && normalAxis(q.node, rank) == int64(axis)
}

// zeroOr is the zero point, a constant 0 where there is none.
func (q *quantization) zeroOr(c *Context) *ssa.Value {
	if q.zero != nil {
		return q.zero
	}
	return c.constant(q.node.Out[0].Name+"_zero", ssa.NewConstant(ndarray.Must(q.dt, q.scale.Const.Shape()...)))
}

// zeroAt is the zero point of a tensor with one.
func (q *quantization) zeroAt() int64 {
	if q.zero == nil {
		return 0
	}
	v, _ := scalar(q.zero)
	return int64(v)
}

// same reports that equal integers of two tensors with one scale each are equal real numbers.
func (q *quantization) same(r *quantization) bool {
	return q.whole() && r.whole() && q.dt == r.dt && q.s[0] == r.s[0] && q.zeroAt() == r.zeroAt()
}

// target reads a QuantizeLinear to 8 bits with one scale.
func target(n *ssa.Node) *quantization {
	if !n.Out[0].Type.DType.IsByte() || n.In[0].Type.DType != ndarray.Float32 || ops.Int(n, "precision") != 0 {
		return nil
	}
	if q := quantizationOf(n, n.Out[0].Type.DType); q.whole() {
		return q
	}
	return nil
}

// source is the node whose result n quantizes. A Relu or Clip to the range of the integers
// between them is skipped: saturation does the same. Only n may read it.
func (c *Context) source(n *ssa.Node, q *quantization) *ssa.Node {
	v := n.In[0]
	if !c.only(v, n) {
		return nil
	}
	if m := v.Def; m != nil && c.saturates(m, q) && c.only(m.In[0], m) {
		return m.In[0].Def
	}
	return v.Def
}

// saturates reports an activation whose limits lie outside of what q can hold.
func (c *Context) saturates(m *ssa.Node, q *quantization) bool {
	lo, hi := limits(q.dt)
	least, most := float64(lo-q.zeroAt())*float64(q.s[0]), float64(hi-q.zeroAt())*float64(q.s[0])
	slack := float64(q.s[0]) / 1000 // the limits were rounded when they were written
	k, ok := clampOf(m)
	return ok && k.lo <= least+slack && k.hi >= most-slack
}

// quantizedResult is Q(Conv(DQ, DQ)), Q(MatMul(DQ, DQ)) and Q(Add(DQ, DQ)).
func quantizedResult(c *Context, n *ssa.Node) bool {
	q := target(n)
	if q == nil {
		return false
	}
	switch m := c.source(n, q); {
	case is(m, "Conv"):
		return c.quantizedConv(n, m, q)
	case is(m, "MatMul"):
		return c.quantizedMatMul(n, m, q)
	case is(m, "Add"):
		return c.quantizedSum(n, m, q)
	}
	return false
}

func (c *Context) quantizedConv(n, conv *ssa.Node, q *quantization) bool {
	x, w := dequantized(conv.In[0]), dequantized(conv.In[1])
	if rank := conv.In[1].Type.Rank(); !x.whole() || rank < 3 || rank > 5 || !w.along(0, rank, w.channels()) {
		return false
	}
	bias, ok := integerBias(c, conv.Input(2), x, w, w.channels(), float64(q.s[0]))
	if !ok || !fitsInt32(c, x, w, w.x.Const.Len()/max(w.channels(), 1), bias) {
		return false
	}
	in := []*ssa.Value{x.x, x.scale, x.zeroOr(c), w.x, w.scale, w.zeroOr(c), q.scale, q.zeroOr(c)}
	if bias != nil {
		in = append(in, c.constant(n.Out[0].Name+"_bias", bias))
	}
	return c.become(n, "QLinearConv", in, conv.Attrs...)
}

// channels is the first dimension of weights.
func (q *quantization) channels() int {
	if q == nil || q.x.Const == nil || len(q.x.Const.Shape()) == 0 {
		return -1
	}
	return q.x.Const.Shape()[0]
}

// integerBias writes a constant bias of n channels in steps of the product of the
// scales of x and w, nil for none; ok is false where it is not constant, does not fit, or is
// rounded by more than a float32 would be and more than a 64th of step, the quantization step of the result.
func integerBias(c *Context, b *ssa.Value, x, w *quantization, n int, step float64) (k *ssa.Constant, ok bool) {
	if b == nil {
		return nil, true
	}
	real := realBias(c, b)
	if len(real) != 1 && len(real) != n {
		return nil, false
	}
	out := make([]int32, n)
	for i := range out {
		v, unit := real[min(i, len(real)-1)], float64(x.s[0])*float64(w.s[min(i, len(w.s)-1)])
		k := math.RoundToEven(v / unit)
		if slack := max(step/64, math.Abs(v)*0x1p-22); !(math.Abs(k) < 1<<30) || math.Abs(k*unit-v) > slack {
			return nil, false
		}
		out[i] = int32(k)
	}
	return ssa.NewConstant(ndarray.Of(out, n)), true
}

// fitsInt32 reports that sums of count products of elements of a and b, and a bias, are below 2^31.
func fitsInt32(c *Context, a, b *quantization, count int, bias *ssa.Constant) bool {
	most := 0.0
	if bias != nil {
		k, err := c.elements(bias)
		if err != nil {
			return false
		}
		for i := range k.Len() {
			most = max(most, math.Abs(k.Float(i)))
		}
	}
	if float64(count)*math.MaxUint8*math.MaxUint8+most < 1<<31 { // whatever the elements are
		return true
	}
	return float64(count)*a.span(c)*b.span(c)+most < 1<<31
}

// span is the largest |x - zero| of the integers x: of a constant's elements, else of the type.
func (q *quantization) span(c *Context) (most float64) {
	lo, hi := limits(q.dt)
	if k := q.x.Const; k != nil {
		if a, err := c.elements(k); err == nil && a.Len() > 0 {
			lo, hi = a.Int(0), a.Int(0)
			for i := range a.Len() {
				lo, hi = min(lo, a.Int(i)), max(hi, a.Int(i))
			}
		}
	}
	zeros := []int64{0}
	if q.zero != nil {
		if a, err := c.elements(q.zero.Const); err == nil {
			zeros = zeros[:0]
			for i := range a.Len() {
				zeros = append(zeros, a.Int(i))
			}
		}
	}
	for _, z := range zeros {
		most = max(most, math.Abs(float64(hi-z)), math.Abs(float64(lo-z)))
	}
	return most
}

// limits are the smallest and the largest number of an 8-bit type.
func limits(dt ndarray.DType) (lo, hi int64) {
	if dt == ndarray.Int8 {
		return math.MinInt8, math.MaxInt8
	}
	return 0, math.MaxUint8
}

// realBias reads a bias by column that is constant, or dequantized from constants, nil if it is
// neither.
func realBias(c *Context, b *ssa.Value) (real []float64) {
	src, scale := b, []float32{1}
	var zero *ndarray.Array
	if n := def(b, "DequantizeLinear"); n != nil {
		q := quantizationOf(n, n.In[0].Type.DType)
		if q == nil {
			return nil
		}
		src, scale = n.In[0], q.s
		if q.zero != nil {
			zero, _ = q.zero.Const.Array()
		}
	}
	if src.Const == nil {
		return nil
	}
	a, err := c.elements(src.Const)
	if err != nil || a.Rank() > 0 && a.Len() != a.Shape[a.Rank()-1] { // a bias of rows
		return nil
	}
	for i := range a.Len() {
		v := a.Float(i)
		if zero != nil {
			v -= zero.Float(min(i, zero.Len()-1))
		}
		real = append(real, v*float64(scale[min(i, len(scale)-1)]))
	}
	return real
}

func (c *Context) quantizedMatMul(n, m *ssa.Node, q *quantization) bool {
	a, b := dequantized(m.In[0]), dequantized(m.In[1])
	ra, rb := m.In[0].Type.Rank(), m.In[1].Type.Rank()
	if !a.whole() || b == nil || ra < 2 || rb < 2 || !b.matrix(1) && !(b.whole() && ra == rb) {
		return false
	}
	if k, ok := m.In[1].Type.Shape[rb-2].Const(); !ok || !fitsInt32(c, a, b, int(k), nil) {
		return false
	}
	return c.become(n, "QLinearMatMul", []*ssa.Value{a.x, a.scale, a.zeroOr(c),
		b.x, b.scale, b.zeroOr(c), q.scale, q.zeroOr(c)})
}

// quantizedSum adds tensors of one shape.
func (c *Context) quantizedSum(n, add *ssa.Node, q *quantization) bool {
	a, b := dequantized(add.In[0]), dequantized(add.In[1])
	if !a.whole() || !b.whole() || a.dt != q.dt || b.dt != q.dt || !sameShape(a.x.Type, b.x.Type) {
		return false
	}
	const domain = "com.microsoft"
	if ops.Lookup(domain, "QLinearAdd") == nil {
		return false
	}
	m := c.insert(n, "QLinearAdd", []*ssa.Value{a.x, a.scale, a.zeroOr(c), b.x, b.scale, b.zeroOr(c), q.scale, q.zeroOr(c)}, 1)
	m.Domain, m.Name, m.Out[0].Name = domain, n.Name, c.fresh(n.Out[0].Name)
	c.fail(ops.Infer(m))
	c.replace(n.Out[0], m.Out[0])
	return true
}

// matrix reports a constant matrix with one scale, or one for each index of an axis.
func (q *quantization) matrix(axis int) bool {
	return q != nil && q.x.Const != nil && len(q.x.Const.Shape()) == 2 && q.along(axis, 2, q.x.Const.Shape()[axis])
}

// integerProduct is a product of a dequantized operand with dequantized constant
// weights whose result is not quantized.
func integerProduct(c *Context, n *ssa.Node) bool {
	a, b := dequantized(n.In[0]), dequantized(n.In[1])
	columns := 1
	if ops.Int(n, "transB") != 0 {
		columns = 0
	}
	if !a.whole() || a.x.Const != nil || n.In[0].Type.Rank() < 2 || n.Out[0].Type.DType != ndarray.Float32 || !b.matrix(columns) {
		return false
	}
	if n.Op == "Gemm" && (ops.Int(n, "transA") != 0 || ops.Float(n, "alpha") != 1 || ops.Float(n, "beta") != 1) {
		return false
	}
	shape := b.x.Const.Shape()
	bias, whole := integerBias(c, n.Input(2), a, b, shape[columns], 0)
	return fitsInt32(c, a, b, shape[1-columns], bias) && c.scaledProduct(n, a, b, bias, whole, columns == 0)
}

// scaledProduct replaces n by Mul(Cast(MatMulInteger + bias), scales). A bias that is not whole is added behind.
func (c *Context) scaledProduct(n *ssa.Node, a, b *quantization, bias *ssa.Constant, whole, transposed bool) bool {
	name := n.Out[0].Name
	w := b.x
	if transposed {
		w = c.op(n, w.Name, "Transpose", []*ssa.Value{w}, ssa.IntsAttr("perm", 1, 0))
	}
	sums := c.op(n, name+"_sums", "MatMulInteger", []*ssa.Value{a.x, w, a.zeroOr(c), b.zeroOr(c)})
	if bias != nil {
		sums = c.op(n, name+"_sums", "Add", []*ssa.Value{sums, c.constant(name+"_bias", bias)})
	}
	f := c.op(n, name+"_sums", "Cast", []*ssa.Value{sums}, ssa.IntAttr("to", int64(ndarray.Float32)))
	scales := make([]float32, len(b.s))
	for i, s := range b.s {
		scales[i] = a.s[0] * s
	}
	factors := c.constant(name+"_scale", ssa.NewConstant(ndarray.Of(scales, len(scales))))
	if whole {
		return c.become(n, "Mul", []*ssa.Value{f, factors})
	}
	return c.become(n, "Add", []*ssa.Value{c.op(n, name+"_scaled", "Mul", []*ssa.Value{f, factors}), n.In[2]})
}

// requantized is Q(DQ(x)).
func requantized(c *Context, n *ssa.Node) bool {
	d := dequantized(n.In[0])
	return d.same(target(n)) && c.forward(n, d.x)
}

// quantizedMove is Q(move(DQ(x))), Q(Concat(DQ(x), DQ(y))) and Q(MaxPool(DQ(x))).
func quantizedMove(c *Context, n *ssa.Node) bool {
	q := target(n)
	m := defWith(n.In[0], func(f *ops.Facts) bool { return f.IsMovement() })
	data := 1 // operands that are moved
	if m == nil {
		if m = def(n.In[0], "Concat", "MaxPool"); m != nil {
			data = len(m.In)
		}
	}
	if m == nil || m.Op == "MaxPool" && (len(m.Out) > 1 || !c.opts.MaxOfBytes) || !c.only(n.In[0], n) {
		return false
	}
	in := slices.Clone(m.In)
	for i, v := range in[:data] {
		d := dequantized(v)
		if !d.same(q) {
			return false
		}
		in[i] = d.x
	}
	return c.become(n, m.Op, in, m.Attrs...)
}

// gatherQuantized gathers integers, so that only the gathered rows of a constant table
// are dequantized.
func gatherQuantized(c *Context, n *ssa.Node) bool {
	d := dequantized(n.In[0])
	if !d.whole() || d.x.Const == nil {
		return false
	}
	in := []*ssa.Value{c.copyNode(n, []*ssa.Value{d.x, n.In[1]}).Out[0], d.scale}
	if d.zero != nil {
		in = append(in, d.zero)
	}
	return c.become(n, "DequantizeLinear", in)
}
