package batch

import (
	"slices"

	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// rules are those of operators that are not elementwise, by domain and name.
var rules map[string]rule

func init() {
	rules = map[string]rule{
		".MatMul": matMul, ".Gemm": gemm, private + "Accumulate": gemm,
		".Reshape": reshape, ".Flatten": sameOrder, ".Squeeze": sameOrder, ".Unsqueeze": sameOrder, ".Identity": identity, ".Expand": expand,
		".Transpose": transpose, ".Concat": concat, ".Split": splits, ".Slice": slice, ".Gather": gather, ".ScatterND": scatterND,
		".ReduceSum": reduced(true, false), ".ReduceSumSquare": reduced(true, false), ".ReduceMean": reduced(true, true),
		".ReduceMax": reduced(false, false), ".ReduceMin": reduced(false, false), ".ReduceProd": reduced(false, false), ".ReduceL1": reduced(true, false),
		".ReduceL2": reduced(false, false), ".ReduceLogSum": reduced(false, false), ".ReduceLogSumExp": reduced(false, false),
		".Softmax": lines(-1), ".LogSoftmax": lines(-1), ".Hardmax": lines(-1), ".LayerNormalization": normalized, ".RMSNormalization": normalized,
		".InstanceNormalization": images, ".GroupNormalization": images, ".BatchNormalization": batchNorm, ".LpNormalization": lines(-1), ".LRN": images,
		".Conv": images, ".ConvTranspose": images, ".MaxPool": images, ".AveragePool": images, ".LpPool": images,
		".GlobalAveragePool": images, ".GlobalMaxPool": images, ".GlobalLpPool": images, ".DepthToSpace": images, ".SpaceToDepth": images,
		private + "ConvWeights": convWeights, private + "MaxPoolGradient": imagePairs, ".Attention": attention, private + "StepDropout": dropout,
		private + "MatMul": withEpilogue(2, matMul), private + "Gemm": withEpilogue(3, gemm), private + "Conv": withEpilogue(3, images),
		".Scan": scan, ".Loop": loop, ".LSTM": recurrent, ".GRU": recurrent, ".RNN": recurrent,
	}
}

// private is the domain of berth's own operators, with the dot behind it.
const private = ops.Private + "."

// identity passes any form on.
func identity(_ *analysis, _ *ssa.Node, in []form) *recipe { return one(in[0]) }

// matMul is A [… m, k] · B [… k, n].
func matMul(a *analysis, n *ssa.Node, in []form) *recipe {
	x, y, out := dims(n, 0), dims(n, 1), len(result(n, 0))
	if len(x) < 2 || len(y) < 2 {
		return nil
	}
	row, column := in[0].isSplit() && in[0].axis == len(x)-2, in[1].isSplit() && in[1].axis == len(y)-1
	switch {
	case in[0].kind == sum && in[1].isAll() || in[1].kind == sum && in[0].isAll():
		return one(form{kind: sum})
	case row && in[1].isAll():
		return one(form{split, out - 2, in[0].outer})
	case column && in[0].isAll():
		return one(form{split, out - 1, in[1].outer})
	case in[0].isSplit() && in[0].axis == len(x)-1 || in[1].isSplit() && in[1].axis == len(y)-2:
		return contracted(in[0], in[1], len(x)-1, len(y)-2)
	}
	f, r := a.aligned(n, in, all(n), out, 2)
	if r != nil {
		r.out = []form{f}
	}
	return r
}

// gemm is A' · B' + C, where C is broadcast to rows and columns.
func gemm(a *analysis, n *ssa.Node, in []form) *recipe {
	k, m := 1, 0
	if ops.Int(n, "transA") != 0 {
		k, m = 0, 1
	}
	kB, nB := 0, 1
	if ops.Int(n, "transB") != 0 {
		kB, nB = 1, 0
	}
	c := form{}
	if n.Input(2) != nil {
		c = in[2]
	}
	x, y := in[0], in[1]
	switch {
	case x.kind == sum || y.kind == sum:
		return nil
	case x.isSplit() && x.axis == k || y.isSplit() && y.axis == kB:
		r := contracted(x, y, k, kB)
		switch {
		case r == nil:
			return nil
		case a.inBody && (n.Input(2) == nil || c.kind == sum || a.lenient && c.kind == whole):
			return r
		case a.inBody || n.Input(2) != nil && !(c.isAll() && slices.Equal(dims(n, 2), result(n, 0))):
			return nil
		}
		return r.startingWith(2)
	case x.isSplit() && x.axis == m && y.isAll():
		return a.plus(n, in, form{split, 0, x.outer})
	case y.isSplit() && y.axis == nB && x.isAll():
		return a.plus(n, in, form{split, 1, y.outer})
	}
	return nil
}

// contracted is the recipe of a sum over an axis of two operands, of which one may be whole.
func contracted(x, y form, axisX, axisY int) *recipe {
	r := one(form{kind: sum})
	switch {
	case x.isSplit() && y.isSplit():
		if x.axis != axisX || y.axis != axisY || x.outer != y.outer {
			return nil
		}
	case x.isSplit() && y.isAll():
		r.withCut(1, form{split, axisY, x.outer})
	case y.isSplit() && x.isAll():
		r.withCut(0, form{split, axisX, y.outer})
	default:
		return nil
	}
	return r
}

// plus is the recipe of a product whose result has a form, with its C.
func (a *analysis) plus(n *ssa.Node, in []form, f form) *recipe {
	r := one(f)
	if n.Input(2) == nil {
		return r
	}
	shape := dims(n, 2)
	axis := f.axis - 2 + len(shape)
	at := form{split, axis, f.outer}
	switch {
	case in[2].isSplit() && in[2] == at:
	case !in[2].isAll():
		return nil
	case axis >= 0 && shape[axis] != 1:
		r.withCut(2, at)
	}
	return r
}

// reshape gives a part the constant that it needs.
func reshape(a *analysis, n *ssa.Node, in []form) *recipe {
	if in[0].kind == sum || !allBut(in, 0) {
		return linearMove(in)
	}
	f, ok := inShape(in[0], dims(n, 0), result(n, 0), a.parts)
	if !ok {
		return nil
	}
	return one(f).withInts(1, a.part(n.Out[0], f))
}

// linearMove is the recipe of moves of sums.
func linearMove(in []form) *recipe {
	if in[0].kind == sum && allBut(in, 0) {
		return one(in[0])
	}
	return nil
}

// sameOrder nodes add or drop dimensions.
func sameOrder(a *analysis, n *ssa.Node, in []form) *recipe {
	if in[0].kind == sum || !allBut(in, 0) {
		return linearMove(in)
	}
	f, ok := inShape(in[0], dims(n, 0), result(n, 0), a.parts)
	if !ok {
		return nil
	}
	return one(f)
}

// expand gives a part the constant that it needs.
func expand(a *analysis, n *ssa.Node, in []form) *recipe {
	if !in[0].isSplit() || !allBut(in, 0) {
		return nil
	}
	from, to := dims(n, 0), result(n, 0)
	f := form{split, in[0].axis + len(to) - len(from), in[0].outer}
	if to[f.axis] != from[in[0].axis] {
		return nil
	}
	return one(f).withInts(1, a.part(n.Out[0], f))
}

func transpose(_ *analysis, n *ssa.Node, in []form) *recipe {
	if !in[0].isSplit() {
		return linearMove(in)
	}
	perm := ops.Ints(n, "perm")
	for i := range perm {
		if int(perm[i]) == in[0].axis {
			return one(form{split, i, in[0].outer})
		}
	}
	if perm == nil {
		return one(form{split, len(dims(n, 0)) - 1 - in[0].axis, in[0].outer})
	}
	return nil
}

// concat joins along another dimension than the parts'.
func concat(a *analysis, n *ssa.Node, in []form) *recipe {
	axis, err := ops.NormAxis(ops.Int(n, "axis"), len(result(n, 0)))
	if err != nil {
		return nil
	}
	sums := 0
	for _, f := range in {
		if f.kind == sum {
			sums++
		}
	}
	if sums > 0 {
		if sums < len(in) {
			return nil
		}
		return one(in[0])
	}
	f, r := a.aligned(n, in, all(n), len(result(n, 0)), 0)
	if r == nil || f.isSplit() && f.axis == axis {
		return nil
	}
	r.out = []form{f}
	return r
}

// splits cuts along another dimension than the parts'.
func splits(_ *analysis, n *ssa.Node, in []form) *recipe {
	axis, err := ops.NormAxis(ops.Int(n, "axis"), len(dims(n, 0)))
	if err != nil || in[0].isSplit() && in[0].axis == axis || !allBut(in, 0) {
		return nil
	}
	return &recipe{out: slices.Repeat([]form{in[0]}, len(n.Out))}
}

// slice cuts other dimensions than the parts'.
func slice(a *analysis, n *ssa.Node, in []form) *recipe {
	if !in[0].isSplit() || !allBut(in, 0) {
		return nil
	}
	rank := len(dims(n, 0))
	axes, ok := ops.ConstInts(n, 3)
	if n.Input(3) == nil {
		starts := dims(n, 1)
		axes, ok = make([]int64, ndarray.Product(starts)), true
		for i := range axes {
			axes[i] = int64(i)
		}
	}
	if !ok || n.Input(1) == nil || n.In[1].Const == nil || n.Input(2) == nil || n.In[2].Const == nil || n.Input(4) != nil && n.In[4].Const == nil {
		return nil
	}
	for _, v := range axes {
		axis, err := ops.NormAxis(v, rank)
		if err != nil || axis == in[0].axis {
			return nil
		}
	}
	return one(in[0])
}

// gather picks along another dimension than the parts', or what parts of the indices say.
func gather(_ *analysis, n *ssa.Node, in []form) *recipe {
	data, at := dims(n, 0), dims(n, 1)
	axis, err := ops.NormAxis(ops.Int(n, "axis"), len(data))
	if err != nil {
		return nil
	}
	switch f := in[0]; {
	case f.isSplit() && in[1].isAll() && f.axis < axis:
		return one(f)
	case f.isSplit() && in[1].isAll() && f.axis > axis:
		return one(form{split, f.axis + len(at) - 1, f.outer})
	case f.isAll() && in[1].isSplit():
		return one(form{split, in[1].axis + axis, in[1].outer})
	}
	return nil
}

// scatterND adds what parts have to data; or each part has its elements along dimensions that indices do not reach.
func scatterND(a *analysis, n *ssa.Node, in []form) *recipe {
	data, at := dims(n, 0), dims(n, 1)
	if len(at) == 0 {
		return nil
	}
	depth, batch := at[len(at)-1], len(at)-1
	adds := ops.Str(n, "reduction") == "add"
	switch {
	case in[1].isSplit() && in[2].isSplit() && in[1].axis < batch && in[1] == in[2] && in[0].isAll() && adds && !a.inBody:
		return one(form{kind: sum}).startingWith(0)
	case in[1].isAll() && in[2].isSplit() && in[2].axis >= batch:
		f := form{split, in[2].axis - batch + depth, in[2].outer}
		if f.axis >= len(data) {
			return nil
		}
		r := one(f)
		if in[0].isAll() {
			r.withCut(0, f)
		} else if in[0] != f {
			return nil
		}
		return r
	}
	return nil
}

// startingWith says that the sum begins with operand i.
func (r *recipe) startingWith(i int) *recipe {
	r.onto = map[int]int{0: i}
	return r
}

// reduced reduces other dimensions than the parts', or makes a sum.
func reduced(adds, mean bool) rule {
	return func(a *analysis, n *ssa.Node, in []form) *recipe {
		if !in[0].isSplit() || !allBut(in, 0) {
			return nil
		}
		mask, ok := ops.ReducedAxes(n, len(dims(n, 0)))
		if !ok {
			return nil
		}
		f := in[0]
		if mask[f.axis] {
			if !adds || a.inBody && mean || mean && !n.Out[0].Type.DType.IsFloat() {
				return nil
			}
			r := one(form{kind: sum})
			r.mean = mean
			return r
		}
		if ops.Int(n, "keepdims") == 0 {
			axis := f.axis
			for i := range f.axis {
				if mask[i] {
					axis--
				}
			}
			f.axis = axis
		}
		return one(f)
	}
}

// lines compute along an axis other than the parts'.
func lines(byDefault int64) rule {
	return func(_ *analysis, n *ssa.Node, in []form) *recipe {
		axis, err := ops.NormAxis(ops.IntOr(n, "axis", byDefault), len(dims(n, 0)))
		if err != nil || !in[0].isSplit() || in[0].axis == axis || !allBut(in, 0) {
			return nil
		}
		return one(in[0])
	}
}

// normalized computes over all dimensions from an axis on.
func normalized(_ *analysis, n *ssa.Node, in []form) *recipe {
	axis, err := ops.NormAxis(ops.IntOr(n, "axis", -1), len(dims(n, 0)))
	if err != nil || !in[0].isSplit() || in[0].axis >= axis || !allBut(in, 0) {
		return nil
	}
	if len(dims(n, 1)) > len(dims(n, 0))-axis || n.Input(2) != nil && len(dims(n, 2)) > len(dims(n, 0))-axis {
		return nil
	}
	return &recipe{out: slices.Repeat([]form{in[0]}, len(n.Out))}
}

// images computes each image [N, C, …] for itself. Positions of maxima would count from the first image of all.
func images(_ *analysis, n *ssa.Node, in []form) *recipe {
	if !in[0].isSplit() || in[0].axis != 0 || !allBut(in, 0) || n.Output(1) != nil {
		return nil
	}
	return &recipe{out: slices.Repeat([]form{in[0]}, len(n.Out))}
}

// imagePairs computes images of two operands.
func imagePairs(a *analysis, n *ssa.Node, in []form) *recipe {
	f, r := a.aligned(n, in, all(n), len(dims(n, 0)), 0)
	if r == nil || !f.isSplit() || f.axis != 0 {
		return nil
	}
	r.out = []form{f}
	return r
}

// batchNorm with given statistics computes each image for itself.
func batchNorm(a *analysis, n *ssa.Node, in []form) *recipe {
	if ops.Int(n, "training_mode") != 0 {
		return nil
	}
	return images(a, n, in)
}

// convWeights is a sum over images.
func convWeights(a *analysis, n *ssa.Node, in []form) *recipe {
	r := imagePairs(a, n, in)
	if r != nil {
		r.out[0] = form{kind: sum}
	}
	return r
}

// attention computes each element of the batch for itself. A mask is broadcast to [batch, heads, queries, keys].
func attention(a *analysis, n *ssa.Node, in []form) *recipe {
	r, first := &recipe{}, form{split, 0, 1}
	for i, v := range n.In {
		if v == nil {
			continue
		}
		isMask := i == 3
		switch {
		case isMask && in[i].isAll() && (len(dims(n, i)) < 4 || dims(n, i)[0] == 1):
		case in[i] == first && (!isMask || len(dims(n, i)) == 4):
		case in[i].isAll():
			r.withCut(i, first)
		default:
			return nil
		}
	}
	if !slices.ContainsFunc(in, form.isSplit) {
		return nil
	}
	r.out = slices.Repeat([]form{first}, len(n.Out))
	return r
}

// dropout draws by position, so a part is told where it begins.
func dropout(a *analysis, n *ssa.Node, in []form) *recipe {
	shape := dims(n, 0)
	if !in[0].isSplit() || !allBut(in, 0) || in[0].outer != 1 || ndarray.Product(shape[:in[0].axis]) != 1 || ops.Int(n, "first") != 0 {
		return nil
	}
	size := int64(ndarray.Product(shape) / a.parts)
	r := one(in[0])
	r.first = func(part int) ssa.Attr { return ssa.IntAttr("first", int64(part)*size) }
	return r
}

// recurrent is LSTM, GRU or RNN over sequences of its own for each element of the batch.
func recurrent(_ *analysis, n *ssa.Node, in []form) *recipe {
	atX, atY, atH := 1, 2, 1
	if ops.Int(n, "layout") != 0 {
		atX, atY, atH = 0, 0, 0
	}
	at := map[int]int{0: atX, 4: 0, 5: atH, 6: atH}
	r := &recipe{}
	if !in[0].isSplit() {
		return nil
	}
	for i, v := range n.In {
		axis, has := at[i]
		f := form{split, axis, in[0].outer}
		switch {
		case v == nil:
		case has && in[i] == f:
		case has && in[i].isAll():
			r.withCut(i, f)
		case !has && in[i].isAll():
		default:
			return nil
		}
	}
	for i := range n.Out {
		axis := atH
		if i == 0 {
			axis = atY
		}
		r.out = append(r.out, form{split, axis, in[0].outer})
	}
	return r
}

// withEpilogue is the rule of a product with a program over its result, whose other operands stand behind the operator's own.
func withEpilogue(own int, product rule) rule {
	return func(a *analysis, n *ssa.Node, in []form) *recipe {
		first := min(own, len(n.In))
		base := &ssa.Node{Op: n.Op, Attrs: n.Attrs, In: n.In[:first], Out: n.Out}
		r := product(a, base, in[:first])
		if r == nil || r.onto != nil || !r.out[0].isSplit() {
			return nil
		}
		f, out := r.out[0], result(n, 0)
		for i := first; i < len(n.In); i++ {
			if n.In[i] == nil {
				continue
			}
			shape := dims(n, i)
			axis := f.axis - len(out) + len(shape)
			at := form{split, axis, f.outer}
			switch {
			case in[i].isAll() && axis >= 0 && shape[axis] != 1:
				r.withCut(i, at)
			case in[i].isAll(), in[i] == at:
			default:
				return nil
			}
		}
		return r
	}
}
