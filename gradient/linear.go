package gradient

import (
	"fmt"
	"slices"

	"github.com/berth-onnx/berth/internal/ops/kit"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// The derivatives of products, convolutions, pooling and normalization.

// axesFrom is first, first+1, …, end-1.
func axesFrom(first, end int) []int64 {
	axes := make([]int64, max(end-first, 0))
	for i := range axes {
		axes[i] = int64(first + i)
	}
	return axes
}

// swapped exchanges the last two dimensions.
func (g *builder) swapped(v *ssa.Value) *ssa.Value {
	r := g.rank(v)
	perm := axesFrom(0, r)
	if r >= 2 {
		perm[r-1], perm[r-2] = perm[r-2], perm[r-1]
	}
	return g.with("Transpose", []*ssa.Value{v}, ssa.IntsAttr("perm", perm...))
}

// matMulGradient: da = d·bᵀ, db = aᵀ·d; a vector counts as a matrix of one row
// or column.
func matMulGradient(g *builder, n *ssa.Node, dy []*ssa.Value) []*ssa.Value {
	a, b, d := n.In[0], n.In[1], dy[0]
	if k, ok := ofRows(a, b); ok {
		return g.rowsGradient(n, d, k)
	}
	row, column := g.rank(a) == 1, g.rank(b) == 1
	am, bm := a, b
	if row {
		am = g.op("Unsqueeze", a, g.ints(0))
	}
	if column {
		bm = g.op("Unsqueeze", b, g.ints(1))
	}
	switch {
	case row && column:
		d = g.op("Reshape", d, g.ints(1, 1))
	case row:
		d = g.op("Unsqueeze", d, g.ints(-2))
	case column:
		d = g.op("Unsqueeze", d, g.ints(-1))
	}
	out := make([]*ssa.Value, 2)
	if g.wants(n, 0) {
		out[0] = g.op("Reshape", g.sumTo(g.op("MatMul", d, g.swapped(bm)), am), g.shape(a))
	}
	if g.wants(n, 1) {
		out[1] = g.op("Reshape", g.sumTo(g.op("MatMul", g.swapped(am), d), bm), g.shape(b))
	}
	return out
}

// ofRows reports a product of rows, whatever their arrangement, with one matrix of known sizes: those of the matrix.
func ofRows(a, b *ssa.Value) (matrix []int, ok bool) {
	matrix, ok = b.Type.Static()
	return matrix, ok && len(matrix) == 2 && a.Type.Rank() >= 1 && matrix[0] > 0 && matrix[1] > 0
}

// rowsGradient sees a and d as matrices of as many rows as there are: the derivative by b is one product, without one for each matrix of
// a batch to be added up, and no operand is transposed.
func (g *builder) rowsGradient(n *ssa.Node, d *ssa.Value, matrix []int) []*ssa.Value {
	a, b := n.In[0], n.In[1]
	d = g.reshape(d, -1, int64(matrix[1]))
	out := make([]*ssa.Value, 2)
	if g.wants(n, 1) {
		out[1] = g.product(g.reshape(a, -1, int64(matrix[0])), d, 1, true, false)
	}
	if g.wants(n, 0) {
		out[0] = g.op("Reshape", g.product(d, b, 1, false, true), g.shape(a))
	}
	return out
}

// product is alpha·a·b with either matrix transposed.
func (g *builder) product(a, b *ssa.Value, alpha float32, transA, transB bool) *ssa.Value {
	return g.with("Gemm", []*ssa.Value{a, b}, ssa.FloatAttr("alpha", alpha), ssa.IntAttr("transA", int64(kit.Btoi(transA))), ssa.IntAttr("transB", int64(kit.Btoi(transB))))
}

// gemmGradient differentiates alpha·A'·B' + beta·C, by products that transpose their operands as they read them.
func gemmGradient(g *builder, n *ssa.Node, dy []*ssa.Value) []*ssa.Value {
	a, b, d, alpha := n.In[0], n.In[1], dy[0], ops.Float(n, "alpha")
	ta, tb := ops.Int(n, "transA") != 0, ops.Int(n, "transB") != 0
	out := make([]*ssa.Value, len(n.In))
	switch {
	case !g.wants(n, 1):
	case tb:
		out[1] = g.product(d, a, alpha, true, ta)
	default:
		out[1] = g.product(a, d, alpha, !ta, false)
	}
	switch {
	case !g.wants(n, 0):
	case ta:
		out[0] = g.product(b, d, alpha, tb, true)
	default:
		out[0] = g.product(d, b, alpha, false, !tb)
	}
	if g.wants(n, 2) {
		out[2] = g.sumTo(g.scaled(dy[0], float64(ops.Float(n, "beta"))), n.In[2])
	}
	return out
}

// windowAttrs is the geometry of a convolution or pooling with known sizes.
type windowAttrs struct {
	in, kernel, out               []int
	strides, dilations, pads, end []int64 // end: what a transposed convolution must add
	over                          []int64 // by how much the last windows reach beyond the padding, with ceil_mode: a part of pads
}

// window reads the geometry; sizes must be known.
func (g *builder) window(n *ssa.Node, kernel []int) (*windowAttrs, bool) {
	x, okX := n.In[0].Type.Static()
	y, okY := n.Out[0].Type.Static()
	if !okX || !okY || len(x) != len(kernel)+2 {
		g.fail(n, fmt.Errorf("sizes must be known: %w", ops.ErrUnsupported))
		return nil, false
	}
	r := len(kernel)
	w := &windowAttrs{in: x[2:], out: y[2:], kernel: kernel, strides: ops.Ints(n, "strides"), dilations: ops.Ints(n, "dilations"), pads: slices.Clone(ops.Ints(n, "pads"))}
	ones := slices.Repeat([]int64{1}, r)
	if w.strides == nil {
		w.strides = ones
	}
	if w.dilations == nil {
		w.dilations = ones
	}
	auto := ops.Str(n, "auto_pad")
	if w.pads == nil || !padsAreGiven(n) {
		w.pads = make([]int64, 2*r)
	}
	for i := range r {
		reach := w.dilations[i]*int64(kernel[i]-1) + 1
		covered := (int64(w.out[i])-1)*w.strides[i] + reach
		if auto == "SAME_UPPER" || auto == "SAME_LOWER" {
			total := max(covered-int64(w.in[i]), 0)
			w.pads[i], w.pads[r+i] = total/2, total-total/2
			if auto == "SAME_LOWER" {
				w.pads[i], w.pads[r+i] = w.pads[r+i], w.pads[i]
			}
		}
		left := int64(w.in[i]) + w.pads[i] + w.pads[r+i] - covered
		w.over = append(w.over, max(-left, 0))
		w.pads[r+i] += w.over[i]
		w.end = append(w.end, max(left, 0))
	}
	return w, true
}

// padsAreGiven reports padding by attribute pads, none if there is no such attribute. auto_pad may be written as nothing, which some exporters do.
func padsAreGiven(n *ssa.Node) bool {
	auto := ops.Str(n, "auto_pad")
	return auto == "NOTSET" || auto == ""
}

// transposed is the adjoint of a convolution by its input.
func (g *builder) transposed(w *windowAttrs, d, weights *ssa.Value, group int64) *ssa.Value {
	return g.with("ConvTranspose", []*ssa.Value{d, weights}, ssa.IntAttr("group", group), ssa.IntsAttr("strides", w.strides...),
		ssa.IntsAttr("dilations", w.dilations...), ssa.IntsAttr("pads", w.pads...), ssa.IntsAttr("output_padding", w.end...))
}

// convGradient: dx is the transposed convolution of d; dw the convolution of x
// with d as weights, batch and channels exchanged, strides and dilations too:
//
//	x [N, C, …] ─▶ [C, N, …]    d [N, M, …] ─▶ [M, N, …]    dw ─▶ [C, M, k…]
func convGradient(g *builder, n *ssa.Node, dy []*ssa.Value) []*ssa.Value {
	x, weights, d := n.In[0], n.In[1], dy[0]
	shape, ok := weights.Type.Static()
	if !ok || len(shape) < 3 {
		g.fail(n, fmt.Errorf("the weights' sizes must be known: %w", ops.ErrUnsupported))
		return nil
	}
	w, ok := g.window(n, shape[2:])
	if !ok {
		return nil
	}
	group := ops.Int(n, "group")
	out := make([]*ssa.Value, len(n.In))
	if g.wants(n, 1) {
		out[1] = g.groupedWeights(w, x, d, group)
	}
	if g.wants(n, 0) {
		out[0] = g.transposed(w, d, weights, group)
	}
	g.channelBias(n, d, len(shape), out)
	return out
}

// channelBias is the adjoint of a bias for each channel, operand 2: the sums of d over batch and window axes.
func (g *builder) channelBias(n *ssa.Node, d *ssa.Value, rank int, out []*ssa.Value) {
	if g.wants(n, 2) {
		axes := append([]int64{0}, axesFrom(2, rank)...)
		out[2] = g.with("ReduceSum", []*ssa.Value{d, g.ints(axes...)}, ssa.IntAttr("keepdims", 0))
	}
}

// groupedWeights is the adjoint of the weights of all groups.
func (g *builder) groupedWeights(w *windowAttrs, x, d *ssa.Value, group int64) *ssa.Value {
	if channels, ok := x.Type.Static(); ok && group > 1 && int64(channels[1]) == group {
		return g.depthwiseWeights(w, x, d)
	}
	if g.hasKernels(x) && len(w.kernel) <= 2 {
		return g.private("ConvWeights", w, []*ssa.Value{x, d}, ssa.IntAttr("group", group))
	}
	xs, ds := []*ssa.Value{x}, []*ssa.Value{d}
	if group > 1 {
		xs = g.node("Split", []*ssa.Value{x}, int(group), ssa.IntAttr("axis", 1), ssa.IntAttr("num_outputs", group)).Out
		ds = g.node("Split", []*ssa.Value{d}, int(group), ssa.IntAttr("axis", 1), ssa.IntAttr("num_outputs", group)).Out
	}
	parts := make([]*ssa.Value, group)
	for i := range parts {
		parts[i] = g.convWeights(w, xs[i], ds[i])
	}
	return g.with("Concat", parts, ssa.IntAttr("axis", 0))
}

// depthwiseWeights is groupedWeights for groups of one input channel: one convolution with a
// group for each channel of each image, summed over the images.
//
//	x [1, N·C, …]    d [N·M, 1, …] as weights    ─▶ [1, N·M, k…] = [N, M, 1, k…]    Σ N: dw
func (g *builder) depthwiseWeights(w *windowAttrs, x, d *ssa.Value) *ssa.Value {
	xs, _ := x.Type.Static()
	ds, _ := d.Type.Static()
	images, channels, results := int64(xs[0]), int64(xs[1]), int64(ds[1])
	flat := func(lead []int64, sizes []int) *ssa.Value {
		shape := slices.Clone(lead)
		for _, n := range sizes {
			shape = append(shape, int64(n))
		}
		return g.ints(shape...)
	}
	dw := g.with("Conv", []*ssa.Value{g.op("Reshape", x, flat([]int64{1, images * channels}, xs[2:])), g.op("Reshape", d, flat([]int64{images * results, 1}, ds[2:]))},
		ssa.IntAttr("group", images*channels), ssa.IntsAttr("strides", w.dilations...), ssa.IntsAttr("dilations", w.strides...), ssa.IntsAttr("pads", w.pads...))
	r := len(w.kernel)
	starts, ends := make([]int64, r), make([]int64, r)
	kit.Convert(nil, ends, w.kernel, func(k int) int64 { return int64(k) })
	dw = g.op("Slice", dw, g.ints(starts...), g.ints(ends...), g.ints(axesFrom(2, 2+r)...))
	dw = g.op("Reshape", dw, flat([]int64{images, results, 1}, w.kernel))
	return g.with("ReduceSum", []*ssa.Value{dw, g.ints(0)}, ssa.IntAttr("keepdims", 0))
}

// fewOffsets is up to how many positions of a kernel the adjoint of weights is a product for each.
const fewOffsets = 49

// convWeights is the adjoint of the weights of one group.
func (g *builder) convWeights(w *windowAttrs, x, d *ssa.Value) *ssa.Value {
	if n := kit.SizeOf(w.kernel); n <= fewOffsets && n < kit.SizeOf(w.out) {
		return g.weightsByOffset(w, x, d)
	}
	r := len(w.kernel)
	starts, ends, axes := make([]int64, r), make([]int64, r), axesFrom(2, 2+r)
	kit.Convert(nil, ends, w.kernel, func(k int) int64 { return int64(k) })
	turn := ssa.IntsAttr("perm", append([]int64{1, 0}, axes...)...)
	dw := g.with("Conv", []*ssa.Value{g.with("Transpose", []*ssa.Value{x}, turn), g.with("Transpose", []*ssa.Value{d}, turn)},
		ssa.IntsAttr("strides", w.dilations...), ssa.IntsAttr("dilations", w.strides...), ssa.IntsAttr("pads", w.pads...))
	cut := g.op("Slice", dw, g.ints(starts...), g.ints(ends...), g.ints(axes...))
	return g.with("Transpose", []*ssa.Value{cut}, turn)
}

// weightsByOffset is convWeights as one matrix product for each position k of the kernel, of all that the position has been
// multiplied with. Such products are faster than a convolution whose kernel is as large as an image.
//
//	x [N, C, …] ─▶ padded [N, …, C] ─▶ every stride-th from k·dilation on [N·out, C]
//	d [N, M, …] ─▶ [M, N·out]                                       dw[:, :, k] = d · x
func (g *builder) weightsByOffset(w *windowAttrs, x, d *ssa.Value) *ssa.Value {
	r := len(w.kernel)
	if slices.Max(w.pads) > 0 {
		x = g.op("Pad", x, g.ints(slices.Concat([]int64{0, 0}, w.pads[:r], []int64{0, 0}, w.pads[r:])...))
	}
	x = g.transpose(x, append(append([]int64{0}, axesFrom(2, 2+r)...), 1)...)
	channels, _ := x.Type.Static()
	flat := g.op("Flatten", g.transpose(d, append([]int64{1, 0}, axesFrom(2, 2+r)...)...))
	at, starts, ends := make([]int, r), make([]int64, r), make([]int64, r)
	parts := make([]*ssa.Value, kit.SizeOf(w.kernel))
	for i := range parts {
		for k := range r {
			starts[k] = int64(at[k]) * w.dilations[k]
			ends[k] = starts[k] + int64(w.out[k]-1)*w.strides[k] + 1
		}
		seen := g.op("Slice", x, g.ints(starts...), g.ints(ends...), g.ints(axesFrom(1, 1+r)...), g.ints(w.strides...))
		product := g.op("MatMul", flat, g.reshape(seen, -1, int64(channels[1+r])))
		parts[i] = g.op("Unsqueeze", product, g.ints(2))
		for k := r - 1; k >= 0; k-- { // the next position, last dimension first
			if at[k]++; at[k] < w.kernel[k] {
				break
			}
			at[k] = 0
		}
	}
	shape := []int64{0, 0}
	for _, k := range w.kernel {
		shape = append(shape, int64(k))
	}
	return g.reshape(g.joined(2, parts...), shape...)
}

// addedAt is a vector of the given size with the elements of d added at their positions.
func (g *builder) addedAt(positions, d, size *ssa.Value) *ssa.Value {
	flat := g.ints(-1)
	empty := g.op("Expand", g.number(d, 0), size)
	return g.with("ScatterElements", []*ssa.Value{empty, g.op("Reshape", positions, flat), g.op("Reshape", d, flat)}, ssa.StringAttr("reduction", "add"))
}

// maxPoolGradient sends the adjoint to where the maxima were.
func maxPoolGradient(g *builder, n *ssa.Node, dy []*ssa.Value) []*ssa.Value {
	if dy[0] == nil || ops.Int(n, "storage_order") != 0 {
		g.fail(n, ops.ErrUnsupported)
		return nil
	}
	x, flat := n.In[0], g.ints(-1)
	if kernel := ops.Ints(n, "kernel_shape"); g.hasKernels(x) && len(kernel) <= 2 && x.Type.IsStatic() && ops.Int(n, "ceil_mode") == 0 {
		size := make([]int, len(kernel))
		kit.Convert(nil, size, kernel, func(k int64) int { return int(k) })
		if w, ok := g.window(n, size); ok {
			return []*ssa.Value{g.private("MaxPoolGradient", w, []*ssa.Value{x, dy[0]})}
		}
		return nil
	}
	at := n.Output(1)
	if at == nil {
		at = g.node("MaxPool", n.In, 2, n.Attrs...).Out[1]
	}
	// A window of nothing but padding has the position -1: it has no maximum to send its adjoint to.
	none := g.op("Less", at, g.number(at, 0))
	d := g.op("Where", none, g.number(dy[0], 0), dy[0])
	sums := g.addedAt(g.op("Where", none, g.number(at, 0), at), d, g.op("Reshape", g.op("Size", x), flat))
	return []*ssa.Value{g.op("Reshape", sums, g.shape(x))}
}

// averagePoolGradient is the transposed convolution, channel by channel, with
// weights 1, of the adjoint divided by how many elements each mean was over.
func averagePoolGradient(g *builder, n *ssa.Node, dy []*ssa.Value) []*ssa.Value {
	x := n.In[0]
	shape, ok := x.Type.Static()
	kernel := ops.Ints(n, "kernel_shape")
	if !ok || len(kernel) != len(shape)-2 {
		g.fail(n, fmt.Errorf("sizes must be known: %w", ops.ErrUnsupported))
		return nil
	}
	size := make([]int, len(kernel))
	kit.Convert(nil, size, kernel, func(k int64) int { return int(k) })
	w, ok := g.window(n, size)
	if !ok {
		return nil
	}
	dims := []int64{int64(shape[1]), 1}
	one := g.number(x, 1)
	ones := g.op("Expand", one, g.ints(append(dims, kernel...)...))
	count := g.number(x, float64(kit.SizeOf(size)))
	counted, includes := g.filled(x, 1), ops.Int(n, "count_include_pad") != 0
	pads, r := w.pads, len(kernel)
	if includes { // what lies beyond the padding counts in no case
		given := slices.Clone(pads)
		pads = slices.Concat(make([]int64, r), w.over)
		for i := range given {
			given[i] -= pads[i]
		}
		if slices.Max(w.over) > 0 {
			counted = g.op("Pad", counted, g.ints(slices.Concat([]int64{0, 0}, given[:r], []int64{0, 0}, given[r:])...), one)
		}
	}
	if slices.Max(pads) > 0 {
		count = g.with("Conv", []*ssa.Value{counted, ones}, ssa.IntAttr("group", dims[0]), ssa.IntsAttr("strides", w.strides...),
			ssa.IntsAttr("dilations", w.dilations...), ssa.IntsAttr("pads", pads...))
	}
	return []*ssa.Value{g.transposed(w, g.op("Div", dy[0], count), ones, dims[0])}
}

func globalPoolGradient(g *builder, n *ssa.Node, dy []*ssa.Value) []*ssa.Value {
	x := n.In[0]
	size := g.op("Div", g.op("Size", x), g.op("Size", n.Out[0]))
	return []*ssa.Value{g.op("Expand", g.op("Div", dy[0], g.like(size, x)), g.shape(x))}
}

// asChannel gives a vector of channels the rank of x.
func (g *builder) asChannel(v, x *ssa.Value) *ssa.Value {
	shape := slices.Repeat([]int64{1}, max(g.rank(x)-1, 1))
	shape[0] = -1
	return g.op("Reshape", v, g.ints(shape...))
}

// batchNormGradient differentiates scale·(x - mean)/√(var + ε) + bias with given
// mean and variance.
func batchNormGradient(g *builder, n *ssa.Node, dy []*ssa.Value) []*ssa.Value {
	if ops.Int(n, "training_mode") != 0 {
		return trainedNormGradient(g, n, dy)
	}
	x, d := n.In[0], dy[0]
	scale, mean, variance := g.asChannel(n.In[1], x), g.asChannel(n.In[3], x), g.asChannel(n.In[4], x)
	spread := g.op("Add", variance, g.number(variance, float64(ops.Float(n, "epsilon"))))
	inv := g.op("Reciprocal", g.op("Sqrt", spread))
	normal := g.op("Mul", g.op("Sub", x, mean), inv)
	perScale := g.op("Mul", d, g.op("Mul", scale, inv))
	channel := func(v, like *ssa.Value) *ssa.Value { return g.op("Reshape", g.sumTo(v, scale), g.shape(like)) }
	out := []*ssa.Value{perScale, nil, nil, nil, nil}
	if g.wants(n, 1) {
		out[1] = channel(g.op("Mul", d, normal), n.In[1])
	}
	if g.wants(n, 2) {
		out[2] = channel(d, n.In[2])
	}
	if g.wants(n, 3) {
		out[3] = channel(g.op("Neg", perScale), n.In[3])
	}
	if g.wants(n, 4) {
		out[4] = channel(g.scaled(g.op("Div", g.op("Mul", perScale, g.op("Sub", x, mean)), spread), -0.5), n.In[4])
	}
	return out
}

// layerNormGradient, with h = (x - mean)·inv and e = d·scale:
//
//	dx = inv·(e - mean(e) - h·mean(e·h)),  dscale = Σ d·h,  dbias = Σ d
func layerNormGradient(g *builder, n *ssa.Node, dy []*ssa.Value) []*ssa.Value {
	x, scale, d := n.In[0], n.In[1], dy[0]
	axis, err := ops.NormAxis(ops.Int(n, "axis"), g.rank(x))
	if err != nil || dy[0] == nil {
		g.fail(n, fmt.Errorf("only the first result can be differentiated: %w", ops.ErrUnsupported))
		return nil
	}
	axes := axesFrom(axis, g.rank(x))
	h, inv := g.normalized(x, axes, float64(ops.Float(n, "epsilon")))
	e := g.op("Mul", d, scale)
	inner := g.op("Sub", g.op("Sub", e, g.meanOver(e, axes)), g.op("Mul", h, g.meanOver(g.op("Mul", e, h), axes)))
	out := []*ssa.Value{g.op("Mul", inv, inner), nil, nil}
	if g.wants(n, 1) {
		out[1] = g.sumTo(g.op("Mul", d, h), scale)
	}
	if g.wants(n, 2) {
		out[2] = g.sumTo(d, n.In[2])
	}
	return out
}

// dropoutGradient passes the adjoint on; a dropout that trains gives its mask for that.
func dropoutGradient(g *builder, n *ssa.Node, dy []*ssa.Value) []*ssa.Value {
	train := n.Input(2)
	if train == nil || ops.ConstBool(train) == 0 {
		return []*ssa.Value{dy[0]}
	}
	mask := n.Output(1)
	if mask == nil {
		n.Out = n.Out[:1]
		mask = g.graph.AddOutput(n, n.Out[0].Name+" mask")
		g.infer(n)
	}
	d := dy[0]
	keep := g.number(d, 0.5)
	if ratio := n.Input(1); ratio != nil {
		keep = g.op("Sub", g.number(d, 1), g.like(ratio, d))
	}
	kept := g.where(mask, g.op("Div", d, keep), 0)
	if train.Const != nil {
		return []*ssa.Value{kept}
	}
	return []*ssa.Value{g.op("Where", train, kept, d)}
}
