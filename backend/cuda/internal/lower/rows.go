package lower

import (
	"slices"

	"github.com/berth-onnx/berth/backend/cuda/internal/device"
	"github.com/berth-onnx/berth/backend/cuda/internal/kernels"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
)

// What goes over rows: softmax, normalizations, reductions, positions of largest elements, running sums.

func init() {
	add("", softmax, "Softmax", "LogSoftmax")
	add("", layerNorm, "LayerNormalization", "RMSNormalization", "SimplifiedLayerNormalization")
	add(microsoft, layerNorm, "SimplifiedLayerNormalization")
	add("", groupNorm, "InstanceNormalization", "GroupNormalization")
	add("", reduce, "ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL1", "ReduceL2", "ReduceSumSquare", "ReduceLogSum", "ReduceLogSumExp")
	add("", lpNorm, "LpNormalization")
	add("", best, "ArgMax", "ArgMin")
	add("", cumulate, "CumSum", "CumProd")
}

func softmax(p *prep) (bool, error) {
	axis, ok := p.axis(len(p.in[0].shape))
	f, areFloats := p.floats()
	if !areFloats || !ok {
		return false, nil
	}
	outer, n, inner := around(p.in[0].shape, axis)
	isLog := p.node.Op == "LogSoftmax"
	p.launch(func(c *Call) (*device.Launch, error) {
		return p.host.Kernels().Of(f).Softmax(int64(outer)*int64(inner), int32(n), int32(inner), isLog, c.In[0], c.Out[0])
	}, 0)
	return true, nil
}

// layerNorm has the whole row for its scale.
func layerNorm(p *prep) (bool, error) {
	axis, ok := p.axis(len(p.in[0].shape))
	if !ok {
		return false, nil
	}
	if p.node.Op != "LayerNormalization" && p.wants(1) {
		return false, nil // the factor alone
	}
	n := ndarray.Product(p.in[0].shape[axis:])
	if p.has(1) && p.in[1].n != n || p.has(2) && p.in[2].n != n {
		return false, nil
	}
	g := kernels.Norm{N: int32(n), Groups: 1, Span: 1, Epsilon: ops.Float(p.node, "epsilon")}
	if p.node.Op == "LayerNormalization" {
		g.Centers = 1
	}
	return p.normalize(g, p.in[0].n/n)
}

// groupNorm has a scale for each channel; an InstanceNormalization has as many groups as channels.
func groupNorm(p *prep) (bool, error) {
	x := p.in[0].shape
	if len(x) < 2 || p.in[0].n == 0 {
		return false, nil
	}
	_, channels, span := around(x, 1)
	groups := channels
	if p.node.Op == "GroupNormalization" {
		groups = int(ops.Int(p.node, "num_groups"))
	}
	if groups < 1 || channels%groups != 0 || p.in[1].n != channels || p.in[2].n != channels {
		return false, nil
	}
	n := channels / groups * span
	return p.normalize(kernels.Norm{N: int32(n), Groups: int32(groups), Channels: int32(channels / groups), Span: int32(span), Centers: 1,
		Epsilon: ops.Float(p.node, "epsilon")}, p.in[0].n/n)
}

// normalize adds the launch of a normalization of floats whose statistics are float32s.
func (p *prep) normalize(g kernels.Norm, rows int) (bool, error) {
	f, ok := floatTypes[p.in[0].dt]
	for i, o := range slices.Concat(p.in, p.out) {
		isStatistic := i > len(p.in)
		ok = ok && (!o.present || o.dt == p.in[0].dt && !isStatistic || o.dt == ndarray.Float32 && isStatistic)
	}
	precision := ndarray.DType(ops.IntOr(p.node, "stash_type", int64(ndarray.Float32)))
	if !ok || f != kernels.Float32 && precision != ndarray.Float32 {
		return false, nil
	}
	p.launch(func(c *Call) (*device.Launch, error) {
		return p.host.Kernels().Of(f).Normalize(int64(rows), g, c.In[0], at(c.In, 1), at(c.In, 2), c.Out[0], at(c.Out, 1), at(c.Out, 2))
	}, 0, 1, 2)
	return true, nil
}

// reductions are the kernels of operators.
var reductions = map[string]string{
	"ReduceSum": "sum", "ReduceMean": "sum", "ReduceMax": "max", "ReduceMin": "min", "ReduceProd": "product", "ReduceL1": "l1",
	"ReduceL2": "l2", "ReduceSumSquare": "squares", "ReduceLogSum": "log", "ReduceLogSumExp": "logexp",
}

func reduce(p *prep) (bool, error) {
	x := p.in[0]
	mask, ok := ops.ReducedAxes(p.node, len(x.shape))
	f, isFloat := floatTypes[x.dt]
	if !isFloat && x.dt != ndarray.Float64 || p.out[0].dt != x.dt || !ok || x.n == 0 {
		return false, nil
	}
	g, fits := reduction(x.shape, mask)
	if !fits {
		return false, nil
	}
	if p.node.Op == "ReduceMean" {
		g.Scale = 1 / float32(g.N)
	}
	how, rows := reductions[p.node.Op], x.n/int(g.N)
	if x.dt == ndarray.Float64 {
		if p.node.Op == "ReduceMean" {
			return false, nil // the scale is a float32
		}
		how += "_f64"
	}
	p.launch(func(c *Call) (*device.Launch, error) {
		return p.host.Kernels().Of(f).Reduce(how, int64(rows), g, c.In[0], c.Out[0])
	}, 0)
	return true, nil
}

// reduction reduces the axes of a mask; false for too many dimensions.
func reduction(shape []int, mask []bool) (g kernels.Reduction, ok bool) {
	var dims, strides [2][]int // of what is kept and what is reduced
	g = kernels.Reduction{N: 1, Scale: 1}
	for i, s := range ops.Strides(shape) {
		k := 0
		if mask[i] {
			k, g.N = 1, g.N*int32(shape[i])
		}
		dims[k], strides[k] = append(dims[k], shape[i]), append(strides[k], s)
	}
	var fits [2]bool
	g.Rows, fits[0] = viewOf(0, dims[0], strides[0])
	g.Row, fits[1] = viewOf(0, dims[1], strides[1])
	return g, fits[0] && fits[1]
}

// lpNorm divides by the norms of rows, which lie in workspace as float32; 0 where a norm is 0.
func lpNorm(p *prep) (bool, error) {
	const f = ndarray.Float32
	dt, shape := p.out[0].dt, p.in[0].shape
	axis, ok := p.axis(len(shape))
	if _, areFloats := p.floats(); !areFloats || !ok || p.in[0].n == 0 {
		return false, nil
	}
	mask := make([]bool, len(shape))
	mask[axis] = true
	g, ok := reduction(shape, mask)
	if !ok {
		return false, nil
	}
	wide, ok, err := p.widened(0)
	if !ok || err != nil {
		return false, err
	}
	how, rows := map[int64]string{1: "l1", 2: "l2"}[ops.Int(p.node, "p")], p.in[0].n/int(g.N)
	norms := p.temporary(int64(rows) * 4)
	p.launch(func(c *Call) (*device.Launch, error) {
		return p.host.Kernels().Reduce(how, int64(rows), g, wide(c), norms(c))
	}, 0)
	kept := slices.Clone(shape)
	kept[axis] = 1
	var b builder
	x, norm := b.operand(f), b.operand(f)
	isZero := b.do(ndarray.Bool, "Equal", norm, b.Number(f, 0))
	y := b.do(f, "Where", isZero, b.Number(f, 0), b.do(f, "Div", x, norm))
	if dt != f {
		y = b.do(dt, "Cast", y)
	}
	b.Store(y)
	return p.programOver(&b.Program, [][]int{shape, kept}, func(c *Call) []Operand { return []Operand{wide(c), norms(c)} }, 0)
}

// reduceRows reduces contiguous rows of n elements.
func (p *prep) reduceRows(f kernels.Floats, how string, rows, n int, scale float32) {
	g := kernels.Reduction{N: int32(n), Scale: scale}
	g.Rows, _ = viewOf(0, []int{rows}, []int{n})
	g.Row, _ = viewOf(0, []int{n}, []int{1})
	p.launch(func(c *Call) (*device.Launch, error) {
		return p.host.Kernels().Of(f).Reduce(how, int64(rows), g, c.In[0], c.Out[0])
	}, 0)
}

func best(p *prep) (bool, error) {
	x := p.in[0]
	axis, ok := p.axis(len(x.shape))
	f, isFloat := floatTypes[x.dt]
	if !isFloat || !ok || x.n == 0 {
		return false, nil
	}
	outer, n, inner := around(x.shape, axis)
	isSmallest, isLast := p.node.Op == "ArgMin", ops.Int(p.node, "select_last_index") != 0
	p.launch(func(c *Call) (*device.Launch, error) {
		return p.host.Kernels().Of(f).Best(int64(outer)*int64(inner), int32(n), int32(inner), isSmallest, isLast, c.In[0], c.Out[0])
	}, 0)
	return true, nil
}

func cumulate(p *prep) (bool, error) {
	x := p.in[0]
	axes, ok := p.ints(1)
	f, isFloat := floatTypes[x.dt]
	typ := map[ndarray.DType]string{ndarray.Float64: "_f64", ndarray.Int32: "_i32", ndarray.Int64: "_i64"}[x.dt]
	if typ == "" && !isFloat || !ok || len(axes) != 1 {
		return false, nil
	}
	how := "sum" + typ
	if p.node.Op == "CumProd" {
		how = "product" + typ
	}
	axis, err := ops.NormAxis(axes[0], len(x.shape))
	if err != nil {
		return false, nil
	}
	outer, n, inner := around(x.shape, axis)
	isExclusive, isReverse := ops.Int(p.node, "exclusive") != 0, ops.Int(p.node, "reverse") != 0
	p.launch(func(c *Call) (*device.Launch, error) {
		return p.host.Kernels().Of(f).Cumulate(how, int64(outer)*int64(inner), int32(n), int32(inner), isExclusive, isReverse, c.In[0], c.Out[0])
	}, 0)
	return true, nil
}
