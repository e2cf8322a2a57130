package lower

import (
	"github.com/berth-onnx/berth/backend/cuda/internal/device"
	"github.com/berth-onnx/berth/backend/cuda/internal/kernels"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
)

// Sliding windows over signals and images. A signal is an image of one row.

func init() {
	add("", conv, "Conv")
	add("", convTranspose, "ConvTranspose")
	add("", pool, "MaxPool", "AveragePool")
	add("", globalPool, "GlobalAveragePool", "GlobalMaxPool")
	add("", lrn, "LRN")
}

// pair is a list of one or two numbers as rows and columns.
func pair(list []int, missing int) (y, x int32) {
	switch len(list) {
	case 1:
		return int32(missing), int32(list[0])
	case 2:
		return int32(list[0]), int32(list[1])
	}
	return int32(missing), int32(missing)
}

// list is a list attribute of n numbers.
func (p *prep) list(name string, n, missing int) ([]int, bool) {
	out := make([]int, n)
	given := ops.Ints(p.node, name)
	for i := range out {
		out[i] = missing
		if len(given) == n {
			out[i] = int(given[i])
		}
	}
	return out, len(given) == 0 || len(given) == n
}

// window is the geometry of a node: x, y and filter are the spatial dimensions. False for more than two of them.
func (p *prep) window(x, y, filter []int) (g kernels.Window2D, ok bool) {
	rank := len(x)
	strides, ok1 := p.list("strides", rank, 1)
	dilations, ok2 := p.list("dilations", rank, 1)
	pads, ok3 := p.list("pads", 2*rank, 0)
	if rank < 1 || rank > 2 || len(y) != rank || len(filter) != rank || !ok1 || !ok2 || !ok3 {
		return g, false
	}
	begin := pads[:rank]
	switch mode := ops.Str(p.node, "auto_pad"); mode {
	case "", "NOTSET":
	case "VALID":
		begin = make([]int, rank)
	default:
		begin = make([]int, rank)
		for d := range begin {
			total := max((y[d]-1)*strides[d]+(filter[d]-1)*dilations[d]+1-x[d], 0)
			begin[d] = total / 2
			if mode == "SAME_LOWER" {
				begin[d] = total - total/2
			}
		}
	}
	g.Height, g.Width = pair(x, 1)
	g.OutHeight, g.OutWidth = pair(y, 1)
	g.FilterHeight, g.FilterWidth = pair(filter, 1)
	g.StrideY, g.StrideX = pair(strides, 1)
	g.DilationY, g.DilationX = pair(dilations, 1)
	g.PadY, g.PadX = pair(begin, 0)
	return g, true
}

// images is the type of floats of images and their filters.
func (p *prep) images() (f kernels.Floats, ok bool) {
	f, ok = p.floats()
	return f, ok && len(p.in[0].shape) > 2 && p.in[0].n > 0
}

func conv(p *prep) (bool, error) {
	f, areImages := p.images()
	if !areImages || p.in[1].n == 0 {
		return false, nil
	}
	x, w, y := p.in[0].shape, p.in[1].shape, p.out[0].shape
	groups := int(ops.Int(p.node, "group"))
	g, ok := p.window(x[2:], y[2:], w[2:])
	if !ok || groups < 1 {
		return false, nil
	}
	g.Batch, g.Groups, g.Channels, g.Outputs = int32(x[0]), int32(groups), int32(w[1]), int32(w[0]/groups)
	if p.has(2) {
		g.HasBias = 1
	}
	each := imagesAtOnce(groups)
	entry := g.ConvEntry()
	if p.entry = entry + string(f); entry == "depthwise" {
		each = int64(x[0])
	}
	return p.launchParts(int64(x[0]), each, func(c *Call, from, n int64) (*device.Launch, error) {
		some := g
		some.Batch = int32(n)
		return p.host.Kernels().Of(f).Conv(some, behind(c.In[0], from*p.in[0].imageBytes()), c.In[1], at(c.In, 2), behind(c.Out[0], from*p.out[0].imageBytes()))
	}, 0, 1, 2), nil
}

// imagesAtOnce is how many images one launch takes whose planes are those of groups.
func imagesAtOnce(groups int) int64 { return max(1, kernels.MostMatrices/int64(groups)) }

// imageBytes is the size of an image of a batch.
func (o *operand) imageBytes() int64 { return o.bytes() / int64(o.shape[0]) }

// convTranspose takes the padding that inference has worked out from result and operand.
func convTranspose(p *prep) (bool, error) {
	f, areImages := p.images()
	if !areImages || p.in[1].n == 0 || ops.Str(p.node, "auto_pad") != "NOTSET" || len(ops.Ints(p.node, "output_shape")) > 0 {
		return false, nil
	}
	x, w, y := p.in[0].shape, p.in[1].shape, p.out[0].shape
	groups := int(ops.Int(p.node, "group"))
	g, ok := p.window(x[2:], y[2:], w[2:])
	if !ok || groups < 1 {
		return false, nil
	}
	g.Batch, g.Groups, g.Channels, g.Outputs = int32(x[0]), int32(groups), int32(x[1]/groups), int32(w[1])
	if p.has(2) {
		g.HasBias = 1
	}
	return p.launchParts(int64(x[0]), imagesAtOnce(groups), func(c *Call, from, n int64) (*device.Launch, error) {
		some := g
		some.Batch = int32(n)
		return p.host.Kernels().Of(f).Transposed(some, behind(c.In[0], from*p.in[0].imageBytes()), c.In[1], at(c.In, 2), behind(c.Out[0], from*p.out[0].imageBytes()))
	}, 0, 1, 2), nil
}

// pool leaves windows that end beyond the padding, as ceil_mode makes them, means of no elements and positions of maxima to the host.
func pool(p *prep) (bool, error) {
	f, areImages := p.images()
	if !areImages || p.wants(1) || ops.Int(p.node, "ceil_mode") != 0 {
		return false, nil
	}
	x, y := p.in[0].shape, p.out[0].shape
	filter, _ := p.list("kernel_shape", len(x)-2, 1)
	g, ok := p.window(x[2:], y[2:], filter)
	if !ok {
		return false, nil
	}
	g.Batch, g.Groups, g.Channels, g.Outputs = int32(x[0]), int32(x[1]), 1, 1
	isAverage := p.node.Op == "AveragePool"
	countsPadding := isAverage && ops.Int(p.node, "count_include_pad") != 0
	if isAverage && !countsPadding && (isMissed(g.Height, g.OutHeight, g.FilterHeight, g.StrideY, g.DilationY, g.PadY) ||
		isMissed(g.Width, g.OutWidth, g.FilterWidth, g.StrideX, g.DilationX, g.PadX)) {
		return false, nil
	}
	p.launch(func(c *Call) (*device.Launch, error) {
		return p.host.Kernels().Of(f).Pool(g, isAverage, countsPadding, c.In[0], c.Out[0])
	}, 0)
	return true, nil
}

// isMissed reports that all elements of some window along a dimension are padding.
func isMissed(in, out, filter, stride, dilation, pad int32) bool {
	for o := range int64(out) {
		first := o*int64(stride) - int64(pad)
		skipped := max(-first+int64(dilation)-1, 0) / int64(dilation) // elements ahead of the input
		if skipped >= int64(filter) || first+skipped*int64(dilation) >= int64(in) {
			return true
		}
	}
	return false
}

// globalPool reduces each plane.
func globalPool(p *prep) (bool, error) {
	f, ok := p.floats()
	if !ok || p.in[0].n == 0 {
		return false, nil
	}
	n := p.in[0].n / p.out[0].n
	how, scale := "max", float32(1)
	if p.node.Op == "GlobalAveragePool" {
		how, scale = "sum", 1/float32(n)
	}
	p.reduceRows(f, how, p.out[0].n, n, scale)
	return true, nil
}

func lrn(p *prep) (bool, error) {
	x := p.in[0].shape
	f, ok := p.floats()
	if !ok || len(x) < 2 {
		return false, nil
	}
	_, channels, span := around(x, 1)
	size := int(ops.Int(p.node, "size"))
	before, after := (size-1)/2, size-1-(size-1)/2
	alpha, beta, bias := ops.Float(p.node, "alpha")/float32(size), ops.Float(p.node, "beta"), ops.Float(p.node, "bias")
	n := int64(p.in[0].n)
	p.launch(func(c *Call) (*device.Launch, error) {
		return p.host.Kernels().Of(f).LRN(n, int32(channels), int32(span), int32(before), int32(after), alpha, beta, bias, c.In[0], c.Out[0])
	}, 0)
	return true, nil
}

// sizes of what is moved: kernels count bytes of elements.
func (o *operand) bytes() int64 { return int64(o.n) * int64(o.dt.Size()) }

// isMovable reports elements of a size that kernels move.
func (o *operand) isMovable() bool {
	return o.dt != ndarray.String && (o.dt.Size() == 1 || o.dt.Size() == 2 || o.dt.Size() == 4 || o.dt.Size() == 8)
}
