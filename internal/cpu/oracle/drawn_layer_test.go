package oracle

import (
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ssa"
)

// window draws sizes and attributes of a kernel that moves over an image of the
// given rank; the image is large enough for it.
func (d *dice) window(rank int) (image, kernel []int, attrs []ssa.Attr) {
	var strides, dilations, pads []int
	for range rank {
		k := d.to(1, 4)
		kernel, strides, dilations = append(kernel, k), append(strides, d.to(1, 3)), append(dilations, d.to(1, 2))
		image = append(image, max((k-1)*2+1, d.to(3, 9)))
	}
	for i := range 2 * rank {
		pads = append(pads, d.Intn(kernel[i%rank]))
	}
	if d.chance(0.3) {
		return image, kernel, append(auto(pick(d.Rand, "SAME_UPPER", "SAME_LOWER", "VALID")), lists("strides", strides)...)
	}
	return image, kernel, d.some(lists("strides", strides, "dilations", dilations, "pads", pads)...)
}

// channels draws groups and channels: plain, in groups, depthwise.
func (d *dice) channels() (groups, in, out int) {
	g := pick(d.Rand, 1, 1, 2, 3)
	if d.chance(0.2) {
		c := pick(d.Rand, 3, 16, 17)
		return c, c, c * d.to(1, 2)
	}
	return g, g * pick(d.Rand, 1, 2, 8), g * pick(d.Rand, 1, 3, 16, 17)
}

func join(a []int, b ...int) []int { return append(append([]int{}, a...), b...) }

var layerDrawers = []drawer{
	{"Conv ms:FusedConv", func(d *dice, op string) opCase {
		image, kernel, attrs := d.window(d.to(1, 3))
		g, c, m := d.channels()
		k := opCase{in: []arg{f32s(join([]int{d.to(1, 2), c}, image...)...), d.fixed(f32s(join([]int{m, c / g}, kernel...)...))}, tol: 1e-4, attrs: grouped(int64(g), attrs...)}
		if d.chance(0.6) {
			k.in = append(k.in, d.fixed(f32s(m)))
		}
		if op == "FusedConv" {
			k.attrs = append(k.attrs, strs("activation", pick(d.Rand, "Relu", "Sigmoid", "Tanh", "LeakyRelu", "HardSwish"))...)
		}
		return k
	}},
	{"ConvTranspose", func(d *dice, _ string) opCase {
		image, kernel, attrs := d.window(d.to(1, 3))
		g, c, m := d.channels()
		return opCase{in: []arg{f32s(join([]int{d.to(1, 2), c}, image...)...), d.fixed(f32s(join([]int{c, m / g}, kernel...)...)), f32s(m)}, tol: 1e-4, attrs: grouped(int64(g), attrs...)}
	}},
	{"ConvInteger QLinearConv", func(d *dice, op string) opCase {
		image, kernel, attrs := d.window(d.to(1, 3))
		g, c, m := d.channels()
		a, b := pick(d.Rand, u8, i8), pick(d.Rand, u8, i8)
		x, w := tensor(a, join([]int{d.to(1, 2), c}, image...)...), tensor(b, join([]int{m, c / g}, kernel...)...).c()
		if op == "ConvInteger" {
			return opCase{in: []arg{x, w, tensor(a), tensor(b, pick(d.Rand, []int{}, []int{m})...).c()}, attrs: grouped(int64(g), attrs...)}
		}
		per := pick(d.Rand, []int{}, []int{m})
		return opCase{in: []arg{x, scaleOf(), tensor(a), w, scaleOf(per...), tensor(b, per...).c(), scaleOf().between(1, 9), tensor(a), tensor(ndarray.Int32, m)}, attrs: grouped(int64(g), attrs...)}
	}},
	{"MaxPool AveragePool", func(d *dice, op string) opCase {
		image, kernel, attrs := d.window(d.to(1, 3))
		attrs = append(attrs, lists("kernel_shape", kernel)...)
		attrs = append(attrs, d.some(d.flag("ceil_mode"))...)
		if op == "AveragePool" {
			attrs = append(attrs, d.some(d.flag("count_include_pad"))...)
		}
		outs := 1
		if op == "MaxPool" {
			outs = d.to(1, 2)
		}
		return opCase{in: []arg{f32s(join([]int{d.to(1, 2), pick(d.Rand, 1, 3, 17)}, image...)...)}, attrs: attrs, outs: outs, tol: 1e-5}
	}},
	{"GlobalAveragePool GlobalMaxPool", func(d *dice, _ string) opCase {
		return opCase{in: []arg{f32s(join(d.full(2, 2), d.full(1, 3)...)...)}, tol: 1e-5}
	}},
	{"BatchNormalization", func(d *dice, _ string) opCase {
		s := d.full(2, 4)
		c := f32s(s[1])
		attrs, outs := d.some(ssa.FloatAttr("epsilon", 1e-3)), 1
		if d.to(0, 2) == 0 {
			attrs, outs = append(attrs, ssa.IntAttr("training_mode", 1)), d.to(1, 3)
		}
		return opCase{in: []arg{f32s(s...), d.fixed(c), d.fixed(c), d.fixed(c), d.fixed(c.between(0.1, 2))}, attrs: attrs, outs: outs, tol: 1e-5}
	}},
	{"InstanceNormalization", func(d *dice, _ string) opCase {
		s := d.full(3, 4)
		return opCase{in: []arg{f32s(s...), d.fixed(f32s(s[1])), d.fixed(f32s(s[1]))}, attrs: []ssa.Attr{ssa.FloatAttr("epsilon", 1e-3)}, tol: 1e-4}
	}},
	{"GroupNormalization", func(d *dice, _ string) opCase {
		g := d.to(1, 3)
		c := g * d.to(1, 3)
		return opCase{in: []arg{f32s(join([]int{d.to(1, 2), c}, d.full(1, 2)...)...), d.fixed(f32s(c)), d.fixed(f32s(c))},
			attrs: []ssa.Attr{ssa.IntAttr("num_groups", int64(g)), ssa.FloatAttr("epsilon", 1e-3)}, tol: 1e-4}
	}},
	{"LayerNormalization RMSNormalization SimplifiedLayerNormalization ms:SimplifiedLayerNormalization", func(d *dice, op string) opCase {
		s := d.full(1, 4)
		a := d.Intn(len(s))
		k := opCase{in: []arg{f32s(s...), d.fixed(f32s(s[a:]...))}, attrs: []ssa.Attr{ssa.IntAttr("axis", int64(a-len(s)*d.Intn(2))), ssa.FloatAttr("epsilon", 1e-3)}, tol: 1e-4}
		if op == "LayerNormalization" && d.chance(0.6) {
			k.in = append(k.in, d.fixed(f32s(s[a:]...)))
		}
		return k
	}},
	{"ms:SkipLayerNormalization ms:SkipSimplifiedLayerNormalization", func(d *dice, op string) opCase {
		s := []int{d.to(1, 3), d.to(1, 4), pick(d.Rand, 1, 4, 17, 33)}
		skip := pick(d.Rand, s, s[1:], []int{1, s[1], s[2]})
		k := opCase{in: []arg{f32s(s...), f32s(skip...), d.fixed(f32s(s[2]))}, outs: pick(d.Rand, 1, 4), attrs: []ssa.Attr{ssa.FloatAttr("epsilon", 1e-3)}, tol: 1e-4}
		if op == "SkipLayerNormalization" {
			k.in = append(k.in, d.fixed(f32s(s[2])))
		}
		if d.chance(0.5) {
			k.in = append(k.in, d.fixed(f32s(s[2])))
		}
		if k.outs == 4 {
			k.unused = []int{1, 2}
		}
		return k
	}},
	{"ms:BiasGelu ms:FastGelu", func(d *dice, op string) opCase {
		s := d.full(1, 3)
		k := opCase{in: []arg{f32s(s...)}, tol: 1e-5}
		if op == "BiasGelu" || d.chance(0.5) {
			k.in = append(k.in, d.fixed(f32s(s[len(s)-1])))
		}
		return k
	}},
	{"LRN", func(d *dice, _ string) opCase {
		return opCase{in: []arg{f32s(join(d.full(2, 2), d.full(1, 2)...)...)}, tol: 1e-5,
			attrs: append(d.some(ssa.FloatAttr("alpha", 0.5), ssa.FloatAttr("beta", 0.6), ssa.FloatAttr("bias", 2)), ssa.IntAttr("size", int64(d.to(1, 5))))}
	}},
	{"RNN GRU LSTM", func(d *dice, op string) opCase {
		seq, batch, hidden, dirs := d.to(1, 5), d.to(1, 3), pick(d.Rand, 1, 5, 16, 17), d.to(1, 2)
		k := layer(op, seq, batch, pick(d.Rand, 1, 3, 17), hidden, dirs, d.chance(0.7), d.some(ssa.FloatAttr("clip", 0.5))...)
		if d.chance(0.4) {
			more := []arg{pick(d.Rand, absent, lengths(batch, seq)), f32s(dirs, batch, hidden)}
			if op == "LSTM" {
				more = append(more, f32s(dirs, batch, hidden))
			}
			k = k.with(more...)
		}
		if op == "GRU" {
			k.attrs = append(k.attrs, d.flag("linear_before_reset"))
		}
		return k
	}},
	{"ms:DynamicQuantizeLSTM", func(d *dice, _ string) opCase {
		return quantLayer(d.to(1, 5), d.to(1, 3), pick(d.Rand, 1, 5, 17), pick(d.Rand, 1, 5, 16), d.to(1, 2), d.chance(0.5))
	}},
	{"Attention", func(d *dice, _ string) opCase {
		b, kv, g, q, k, h, v := d.to(1, 2), d.to(1, 2), d.to(1, 3), d.to(1, 9), d.to(1, 9), pick(d.Rand, 2, 8, 16), pick(d.Rand, 2, 8, 16)
		kase := opCase{in: []arg{f32s(b, kv*g, q, h), f32s(b, kv, k, h), f32s(b, kv, k, v)}, tol: 1e-5,
			attrs: d.some(d.flag("is_causal"), ssa.FloatAttr("scale", 0.4), ssa.FloatAttr("softcap", 1.5))}
		switch d.Intn(3) {
		case 0:
			kase.in = append(kase.in, boolean(pick(d.Rand, []int{q, k}, []int{b, 1, q, k}, []int{b, kv * g, q, k})...))
		case 1:
			kase.in = append(kase.in, f32s(pick(d.Rand, []int{q, k}, []int{1, 1, q, k})...))
		}
		return kase
	}},
	{"ms:MultiHeadAttention", func(d *dice, _ string) opCase {
		b, n, q, k, h, v := d.to(1, 2), d.to(1, 3), d.to(1, 9), d.to(1, 9), pick(d.Rand, 2, 8, 16), pick(d.Rand, 2, 8, 16)
		kase := opCase{in: []arg{f32s(b, q, n*h), f32s(b, k, n*h), f32s(b, k, n*v), absent, absent}, tol: 1e-5,
			attrs: append(d.some(d.flag("unidirectional"), ssa.FloatAttr("scale", 0.4), ssa.FloatAttr("mask_filter_value", -3)), ssa.IntAttr("num_heads", int64(n)))}
		if d.chance(0.5) {
			kase.in[3] = f32s(n * (h + h + v))
		}
		switch d.Intn(3) {
		case 0:
			kase.in[4] = tensor(ndarray.Int32, pick(d.Rand, []int{b}, []int{b, k})...).between(0, float64(k)+1)
		case 1:
			kase.in = append(kase.in, f32s(pick(d.Rand, []int{b, n, q, k}, []int{1, 1, q, k})...))
		}
		return kase
	}},
	{"ms:GroupQueryAttention", func(d *dice, _ string) opCase {
		b, n, g, s, h, room := d.to(1, 2), d.to(1, 2), d.to(1, 3), d.to(1, 5), pick(d.Rand, 2, 8, 16), d.to(0, 9)
		all := s + d.to(0, room)
		kase := opCase{outs: 3, tol: 1e-5, attrs: append(d.some(ssa.IntAttr("local_window_size", 3), ssa.IntAttr("smooth_softmax", 1), ssa.FloatAttr("scale", 0.4)),
			ssa.IntAttr("num_heads", int64(n*g)), ssa.IntAttr("kv_num_heads", int64(n)))}
		kase.in = []arg{f32s(b, s, n*g*h), f32s(b, s, n*h), f32s(b, s, n*h), f32s(b, n, room, h), f32s(b, n, room, h)}
		if d.chance(0.5) {
			kase.in[0], kase.in[1], kase.in[2] = f32s(b, s, n*(g+2)*h), absent, absent
		}
		first := s - 1
		if all == s {
			first = 0
		}
		kase.in = append(kase.in, tensor(ndarray.Int32, b).between(float64(first), float64(all)), scalarOf(ndarray.Int32, float64(all)))
		if d.chance(0.5) {
			kase.in, kase.attrs = append(kase.in, f32s(7, h/2), f32s(7, h/2)), append(kase.attrs, ssa.IntAttr("do_rotary", 1), ssa.IntAttr("rotary_interleaved", int64(d.Intn(2))))
		}
		return kase
	}},
	{"RotaryEmbedding", func(d *dice, _ string) opCase {
		b, n, s, h := d.to(1, 2), d.to(1, 3), d.to(1, 4), pick(d.Rand, 2, 6, 8, 34)
		attrs := d.some(d.flag("interleaved"))
		if d.chance(0.5) {
			return opCase{in: []arg{f32s(b, n, s, h), f32s(b, s, h/2), f32s(b, s, h/2)}, attrs: attrs, tol: 1e-6}
		}
		return opCase{in: []arg{f32s(b, n, s, h), f32s(9, h/2), f32s(9, h/2), arg{dt: ndarray.Int64, shape: []int{b, s}}.between(0, 9)}, attrs: attrs, tol: 1e-6}
	}},
	{"SwiGLU", func(d *dice, _ string) opCase {
		s := d.full(1, 3)
		return opCase{in: []arg{f32s(s...), f32s(s...)}, tol: 1e-5}
	}},
}
