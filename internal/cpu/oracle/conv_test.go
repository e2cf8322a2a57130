package oracle

import (
	"math/rand"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth/backend"
	"github.com/berth-onnx/berth/internal/cpu"
	"github.com/berth-onnx/berth/internal/cpu/kern/convolve"
	"github.com/berth-onnx/berth/internal/cpu/kern/machine"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ssa"
)

var auto = func(s string) []ssa.Attr { return []ssa.Attr{ssa.StringAttr("auto_pad", s)} }

func lists(pairs ...any) []ssa.Attr {
	var out []ssa.Attr
	for i := 0; i < len(pairs); i += 2 {
		var v []int64
		for _, x := range pairs[i+1].([]int) {
			v = append(v, int64(x))
		}
		out = append(out, ssa.IntsAttr(pairs[i].(string), v...))
	}
	return out
}

func grouped(g int64, more ...ssa.Attr) []ssa.Attr { return append(more, ssa.IntAttr("group", g)) }

func TestConv(t *testing.T) {
	x := f32s(2, 6, 11, 13)
	runCases(t, []opCase{
		{op: "Conv", in: []arg{x, f32s(7, 6, 3, 3).c()}, tol: 1e-4},
		{op: "Conv", in: []arg{x, f32s(7, 6, 3, 3)}, tol: 1e-4},
		{op: "Conv", in: []arg{x, f32s(7, 6, 3, 3).c(), f32s(7)}, attrs: lists("pads", []int{1, 1, 1, 1}), tol: 1e-4},
		{op: "Conv", in: []arg{x, f32s(16, 6, 1, 1).c(), f32s(16).c()}, tol: 1e-4},
		{op: "Conv", in: []arg{x, f32s(16, 6, 1, 1).c()}, attrs: lists("strides", []int{2, 2}), tol: 1e-4},
		{op: "Conv", in: []arg{x, f32s(6, 1, 3, 3).c(), f32s(6)}, attrs: grouped(6, lists("pads", []int{1, 1, 1, 1})...), tol: 1e-4},
		{op: "Conv", in: []arg{x, f32s(6, 1, 5, 5).c()}, attrs: grouped(6, lists("pads", []int{2, 2, 2, 2}, "strides", []int{2, 2})...), tol: 1e-4},
		{op: "Conv", in: []arg{x, f32s(8, 3, 3, 3).c()}, attrs: grouped(2, lists("dilations", []int{2, 1})...), tol: 1e-4},
		{op: "Conv", in: []arg{x, f32s(4, 6, 3, 5).c()}, attrs: lists("pads", []int{0, 2, 1, 3}, "strides", []int{1, 2}), tol: 1e-4},
		{op: "Conv", in: []arg{x, f32s(4, 6, 3, 4).c()}, attrs: append(auto("SAME_UPPER"), lists("strides", []int{2, 3})...), tol: 1e-4},
		{op: "Conv", in: []arg{x, f32s(4, 6, 3, 4).c()}, attrs: append(auto("SAME_LOWER"), lists("strides", []int{2, 3})...), tol: 1e-4},
		{op: "Conv", in: []arg{x, f32s(4, 6, 3, 4).c()}, attrs: auto("VALID"), tol: 1e-4},
		{op: "Conv", in: []arg{f32s(2, 3, 50), f32s(5, 3, 7).c(), f32s(5)}, attrs: lists("pads", []int{3, 3}), tol: 1e-4},
		{op: "Conv", in: []arg{f32s(1, 3, 6, 7, 8), f32s(5, 3, 3, 2, 3).c()}, attrs: lists("pads", []int{1, 0, 1, 1, 1, 1}), tol: 1e-4},
		{op: "Conv", in: []arg{f32s(2, 17, 5, 13, 15), f32s(34, 17, 3, 3, 3).c(), f32s(34)}, attrs: lists("pads", []int{1, 1, 1, 1, 1, 1}), tol: 1e-3},
		{op: "Conv", in: []arg{f32s(1, 17, 5, 13, 15), f32s(34, 17, 2, 1, 1).c()}, attrs: lists("strides", []int{2, 1, 1}), tol: 1e-4},
		{op: "Conv", name: "two outputs to each input", in: []arg{f32s(2, 20, 17, 19), f32s(40, 1, 7, 7).c(), f32s(40)}, attrs: grouped(20, lists("pads", []int{3, 3, 3, 3}, "strides", []int{2, 2})...), tol: 1e-3},
		{op: "Conv", name: "three outputs", in: []arg{f32s(2, 40, 17, 19), f32s(3, 40, 3, 3).c(), f32s(3)}, attrs: lists("pads", []int{1, 1, 1, 1}), tol: 1e-3},
		{op: "Conv", name: "three outputs, taps outside", in: []arg{f32s(1, 40, 7, 6), f32s(3, 40, 3, 3).c(), f32s(3)}, attrs: lists("pads", []int{9, 9, 9, 9}, "dilations", []int{9, 8}), tol: 1e-3},
		{op: "Conv", name: "one output of a signal", in: []arg{f32s(1, 32, 700), f32s(1, 32, 7).c(), f32s(1)}, attrs: lists("pads", []int{3, 3}), tol: 1e-3},
		{op: "FusedConv", domain: microsoft, name: "three outputs, residual", in: []arg{f32s(1, 40, 17, 19), f32s(3, 40, 3, 3).c(), f32s(3), f32s(1, 3, 17, 19)}, attrs: append(strs("activation", "Tanh"), lists("pads", []int{1, 1, 1, 1})...), tol: 1e-3},
		{op: "Conv", in: []arg{f32s(1, 3, 3, 4, 5, 3), f32s(5, 3, 2, 2, 2, 2).c()}, left: true},
		{op: "Conv", in: []arg{tensor(ndarray.Float64, 1, 3, 5), tensor(ndarray.Float64, 2, 3, 3)}, left: true},
	})
	runRandom(t, 40, func(r *rand.Rand) opCase {
		g := pick(r, 1, 1, 2, 3)
		kh, kw := 1+r.Intn(4), 1+r.Intn(4)
		pads := []int{r.Intn(3), r.Intn(3), r.Intn(3), r.Intn(3)}
		w := f32s(g*(1+r.Intn(9)), 1+r.Intn(9), kh, kw)
		if r.Intn(4) > 0 {
			w = w.c()
		}
		in := []arg{f32s(1+r.Intn(2), g*w.shape[1], 8+r.Intn(12), 8+r.Intn(12)), w, f32s(w.shape[0])}
		if r.Intn(2) == 0 {
			in = in[:2]
		}
		return opCase{op: "Conv", in: in, tol: 1e-4, attrs: grouped(int64(g), lists("pads", pads,
			"strides", []int{1 + r.Intn(3), 1 + r.Intn(3)}, "dilations", []int{1 + r.Intn(2), 1 + r.Intn(2)})...)}
	})
}

func TestConvTranspose(t *testing.T) {
	x := f32s(2, 6, 5, 7)
	runCases(t, []opCase{
		{op: "ConvTranspose", in: []arg{x, f32s(6, 4, 2, 2).c(), f32s(4)}, attrs: lists("strides", []int{2, 2}), tol: 1e-4},
		{op: "ConvTranspose", in: []arg{x, f32s(6, 4, 3, 3)}, tol: 1e-4},
		{op: "ConvTranspose", in: []arg{x, f32s(6, 4, 3, 3).c()}, attrs: lists("strides", []int{2, 3}, "pads", []int{1, 1, 1, 1}, "output_padding", []int{1, 0}), tol: 1e-4},
		{op: "ConvTranspose", in: []arg{x, f32s(6, 2, 3, 3).c(), f32s(4).c()}, attrs: grouped(2, lists("dilations", []int{2, 1}, "pads", []int{0, 2, 1, 0})...), tol: 1e-4},
		{op: "ConvTranspose", in: []arg{x, f32s(6, 4, 3, 3).c()}, attrs: lists("strides", []int{3, 2}, "output_shape", []int{10, 8}), tol: 1e-4},
		{op: "ConvTranspose", in: []arg{x, f32s(6, 4, 3, 3).c()}, attrs: append(auto("SAME_UPPER"), lists("strides", []int{2, 2})...), tol: 1e-4},
		{op: "ConvTranspose", in: []arg{x, f32s(6, 4, 3, 3).c()}, attrs: append(auto("SAME_LOWER"), lists("strides", []int{2, 2})...), tol: 1e-4},
		{op: "ConvTranspose", in: []arg{f32s(2, 3, 9), f32s(3, 4, 4).c()}, attrs: lists("strides", []int{2}), tol: 1e-4},
		{op: "ConvTranspose", in: []arg{f32s(1, 3, 2, 3, 4), f32s(3, 2, 2, 3, 2).c()}, attrs: lists("strides", []int{1, 2, 1}), tol: 1e-4},
		{op: "ConvTranspose", name: "phases", in: []arg{f32s(2, 40, 5, 7), f32s(40, 24, 4, 4).c(), f32s(24)}, attrs: lists("strides", []int{2, 2}, "pads", []int{1, 1, 1, 1}), tol: 1e-3},
		{op: "ConvTranspose", name: "phases, groups", in: []arg{f32s(1, 34, 6, 3), f32s(34, 16, 3, 3).c()}, attrs: grouped(2, lists("strides", []int{2, 2}, "pads", []int{1, 1, 1, 1}, "output_padding", []int{1, 1})...), tol: 1e-3},
		{op: "ConvTranspose", name: "phases, dilations", in: []arg{f32s(1, 20, 6, 9), f32s(20, 36, 3, 4).c(), f32s(36)}, attrs: lists("strides", []int{2, 3}, "dilations", []int{3, 2}, "pads", []int{2, 0, 1, 3}), tol: 1e-3},
		{op: "ConvTranspose", name: "phases, stride one", in: []arg{f32s(1, 20, 9, 8), f32s(20, 16, 3, 5).c()}, attrs: lists("pads", []int{1, 2, 1, 2}), tol: 1e-3},
		{op: "ConvTranspose", name: "phases, long signal", in: []arg{f32s(1, 33, 700), f32s(33, 32, 16).c(), f32s(32)}, attrs: lists("strides", []int{8}, "pads", []int{4, 4}), tol: 1e-3},
		{op: "ConvTranspose", name: "phases, tall signal", in: []arg{f32s(1, 33, 90, 1), f32s(33, 16, 4, 1).c()}, attrs: lists("strides", []int{4, 1}), tol: 1e-3},
		{op: "ConvTranspose", name: "phases, outside", in: []arg{f32s(1, 16, 3, 4), f32s(16, 16, 2, 3).c()}, attrs: lists("strides", []int{2, 2}, "pads", []int{-2, -3, 1, 0}), tol: 1e-3, either: true},
		{op: "ConvTranspose", name: "common divisor", in: []arg{f32s(1, 16, 5, 6), f32s(16, 32, 3, 3).c()}, attrs: lists("strides", []int{2, 2}, "dilations", []int{2, 2}), tol: 1e-3},
		{op: "ConvTranspose", name: "stride beyond the kernel", in: []arg{f32s(1, 16, 5, 6), f32s(16, 32, 2, 2).c()}, attrs: lists("strides", []int{3, 3}), tol: 1e-3},
		{op: "ConvTranspose", name: "few positions", in: []arg{f32s(2, 50, 1, 1), f32s(50, 20, 4, 4).c(), f32s(40)}, attrs: grouped(2), tol: 1e-3},
		{op: "ConvTranspose", name: "few positions, padding", in: []arg{f32s(1, 30, 2, 3), f32s(30, 40, 3, 3).c(), f32s(40)}, attrs: lists("strides", []int{2, 2}, "pads", []int{1, 1, 1, 1}), tol: 1e-3},
		{op: "ConvTranspose", name: "slabs", in: []arg{f32s(1, 4, 60, 70), f32s(4, 24, 2, 2).c()}, attrs: lists("strides", []int{2, 2}), tol: 1e-4},
	})
}

func TestFusedConv(t *testing.T) {
	x, w, b, z := f32s(2, 6, 9, 10), f32s(8, 6, 3, 3).c(), f32s(8).c(), f32s(2, 8, 9, 10)
	same := lists("pads", []int{1, 1, 1, 1})
	for _, act := range []string{"", "Relu", "Clip", "LeakyRelu", "HardSigmoid", "Sigmoid", "Tanh", "HardSwish", "Silu", "Gelu", "Elu"} {
		attrs := append(strs("activation", act), same...)
		if act == "Clip" {
			attrs = append(attrs, ssa.FloatsAttr("activation_params", 0, 6))
		}
		runCases(t, []opCase{
			{op: "FusedConv", domain: microsoft, in: []arg{x, w, b}, attrs: attrs, tol: 1e-4},
			{op: "FusedConv", domain: microsoft, in: []arg{x, w, b, z}, attrs: attrs, tol: 1e-4},
			{op: "FusedConv", domain: microsoft, in: []arg{x, w, absent, z}, attrs: attrs, tol: 1e-4},
		})
	}
}

func TestRowConv(t *testing.T) {
	one := lists("pads", []int{1, 1, 1, 1})
	runCases(t, []opCase{
		{op: "Conv", name: "squeezed", in: []arg{f32s(3, 40, 1, 1), f32s(50, 40, 1, 1).c(), f32s(50)}, tol: 1e-4},
		{op: "Conv", name: "covering", in: []arg{f32s(3, 5, 3, 4), f32s(50, 5, 3, 4).c()}, tol: 1e-4},
		{op: "Conv", name: "center", in: []arg{f32s(1, 40, 1, 1), f32s(50, 40, 3, 3).c(), f32s(50).c()}, attrs: one, tol: 1e-4},
		{op: "Conv", name: "few", in: []arg{f32s(2, 40, 3, 4), f32s(20, 40, 3, 3).c()}, attrs: one, tol: 1e-4},
		{op: "Conv", name: "pixels", in: []arg{f32s(3, 40, 3, 4), f32s(20, 40, 1, 1).c(), f32s(20)}, tol: 1e-4},
		{op: "Conv", name: "pixels in steps", in: []arg{f32s(3, 40, 3, 4), f32s(20, 40, 1, 1).c()}, attrs: lists("strides", []int{2, 1}), tol: 1e-4},
		{op: "Conv", name: "dilated", in: []arg{f32s(2, 6, 7, 7), f32s(20, 6, 3, 3).c()}, attrs: lists("pads", []int{2, 1, 2, 0}, "dilations", []int{2, 3}, "strides", []int{2, 2}), tol: 1e-4},
		{op: "Conv", name: "outside", in: []arg{f32s(1, 3, 1, 2), f32s(4, 3, 1, 1).c()}, attrs: lists("pads", []int{0, 3, 0, 4}), tol: 1e-4},
		{op: "Conv", name: "frames", in: []arg{f32s(1, 1, 640), f32s(30, 1, 256).c()}, attrs: lists("strides", []int{128}), tol: 1e-4},
		{op: "Conv", name: "patches", in: []arg{f32s(2, 3, 40, 48), f32s(33, 3, 8, 8).c(), f32s(33)}, attrs: lists("strides", []int{8, 8}), tol: 1e-4},
		{op: "Conv", name: "patches with a rest", in: []arg{f32s(1, 3, 41, 50), f32s(33, 3, 8, 8).c()}, attrs: lists("strides", []int{8, 8}), tol: 1e-4},
		{op: "Conv", name: "one pixel wide", in: []arg{f32s(2, 12, 70, 1), f32s(20, 12, 5, 1).c(), f32s(20)}, attrs: lists("pads", []int{2, 0, 1, 0}, "strides", []int{1, 3}), tol: 1e-4},
		{op: "Conv", name: "one pixel wide, patches", in: []arg{f32s(1, 3, 64, 1), f32s(9, 3, 8, 1).c()}, attrs: lists("strides", []int{8, 2}), tol: 1e-4},
		{op: "Conv", name: "a flat volume", in: []arg{f32s(1, 3, 9, 1, 8), f32s(9, 3, 3, 1, 2).c()}, attrs: lists("dilations", []int{2, 5, 1}), tol: 1e-4},
		{op: "Conv", name: "one pixel under a wide kernel", in: []arg{f32s(1, 3, 30, 1), f32s(9, 3, 3, 3).c()}, attrs: lists("pads", []int{1, 1, 1, 1}), tol: 1e-4},
		{op: "Conv", name: "volume", in: []arg{f32s(1, 3, 3, 3, 3), f32s(9, 3, 2, 2, 2).c()}, tol: 1e-4},
		{op: "FusedConv", domain: microsoft, in: []arg{f32s(3, 40, 1, 1), f32s(50, 40, 1, 1).c(), f32s(50)}, attrs: strs("activation", "Sigmoid"), tol: 1e-4},
	})
}

func TestDeadTaps(t *testing.T) {
	wide := lists("pads", []int{6, 6, 6, 6}, "dilations", []int{6, 6})
	runCases(t, []opCase{
		{op: "Conv", name: "center", in: []arg{f32s(2, 8, 6, 6), f32s(20, 8, 3, 3).c(), f32s(20)}, attrs: wide, tol: 1e-4},
		{op: "Conv", name: "center of rows", in: []arg{f32s(1, 8, 6, 13), f32s(20, 8, 3, 3).c()}, attrs: wide, tol: 1e-4},
		{op: "Conv", name: "depthwise", in: []arg{f32s(1, 8, 6, 6), f32s(8, 1, 3, 3).c()}, attrs: grouped(8, wide...), tol: 1e-4},
		{op: "Conv", name: "strided", in: []arg{f32s(2, 3, 5, 4), f32s(9, 3, 3, 3).c()}, attrs: lists("pads", []int{7, 1, 3, 9}, "dilations", []int{4, 5}, "strides", []int{2, 3}), tol: 1e-4},
		{op: "Conv", name: "the end", in: []arg{f32s(1, 3, 40), f32s(9, 3, 5).c()}, attrs: lists("pads", []int{120, 0}, "dilations", []int{30}), tol: 1e-4},
		{op: "Conv", name: "none", in: []arg{f32s(1, 3, 2), f32s(9, 3, 2).c(), f32s(9)}, attrs: lists("pads", []int{10, 10}, "dilations", []int{21}), tol: 1e-4},
		{op: "FusedConv", domain: microsoft, name: "few", in: []arg{f32s(1, 3, 1, 2), f32s(4, 3, 3, 3).c(), f32s(4), f32s(1, 4, 1, 2)}, attrs: lists("pads", []int{1, 1, 1, 1}), tol: 1e-4},
	})
	runRandom(t, 60, func(r *rand.Rand) opCase {
		n := func(m int) int { return 1 + r.Intn(m) }
		return opCase{op: "Conv", in: []arg{f32s(1, 4, n(9), n(9)), f32s(5, 4, n(4), n(4)).c()}, tol: 1e-4,
			attrs: lists("pads", []int{30 + r.Intn(9), 30 + r.Intn(9), r.Intn(9), r.Intn(9)}, "strides", []int{n(3), n(3)}, "dilations", []int{n(8), n(8)})}
	})
}

// TestRowChains: convolutions as products with positions as rows add up 128 products at most one after the other, with more than 16 rows 32.
// Products of 2⁻²⁵ are lost in the chain that begins with 1 and in no other, whose sums are rounded once.
func TestRowChains(t *testing.T) {
	fill := func(first, rest float32) func(*rand.Rand, *ndarray.Array) {
		return func(_ *rand.Rand, a *ndarray.Array) {
			row := a.Len() / a.Shape[0]
			for i := range a.Len() {
				ndarray.Slice[float32](a)[i] = rest
				if i%row == 0 {
					ndarray.Slice[float32](a)[i] = first
				}
			}
		}
	}
	for _, c := range []struct {
		opCase
		chain int
	}{
		{opCase{op: "Conv", name: "frames", in: []arg{f32s(1, 1, 1200), f32s(9, 1, 512).c()}, attrs: lists("strides", []int{100})}, 128},
		{opCase{op: "Conv", name: "many frames", in: []arg{f32s(1, 1, 3000), f32s(9, 1, 512).c()}, attrs: lists("strides", []int{100})}, 32},
		{opCase{op: "Conv", name: "few positions", in: []arg{f32s(2, 64, 3, 4), f32s(40, 64, 3, 3).c()}}, 128},
		{opCase{op: "Conv", name: "few positions of many images", in: []arg{f32s(9, 64, 3, 4), f32s(40, 64, 3, 3).c()}}, 32},
		{opCase{op: "Conv", name: "one position", in: []arg{f32s(1, 300, 2, 2), f32s(40, 300, 2, 2).c()}}, 128},
	} {
		k := c.opCase
		t.Run(k.String(), func(t *testing.T) {
			k.in[0].fill, k.in[1].fill = fill(1, 1), fill(1, 0x1p-25)
			b := k.build(t, 1)
			n := b.in[1].Len() / b.in[1].Shape[0]
			exact, claimed := b.wide(t, 0), 0
			b.eachLevel(t, func(level string, i int, _, got *ndarray.Array) {
				claimed++
				requireWithin(t, level, exact[i], got, func(int) float64 { return float64(c.chain+n/c.chain+1) * 0x1p-25 })
			})
			require.NotZero(t, claimed, "there is no kernel")
		})
	}
}

func TestFewChannels(t *testing.T) {
	act := strs("activation", "Tanh")
	signal := f32s(2, 1, 3, 500)
	runCases(t, []opCase{
		{op: "Conv", name: "filter", in: []arg{f32s(1, 1, 500), f32s(1, 1, 40).c(), f32s(1)}, tol: 1e-4},
		{op: "Conv", name: "filters of lines", in: []arg{signal, f32s(3, 1, 1, 64), f32s(3)}, attrs: lists("strides", []int{1, 2}, "pads", []int{0, 20, 0, 50}), tol: 1e-4},
		{op: "Conv", name: "mostly padding", in: []arg{f32s(1, 1, 5), f32s(2, 1, 40)}, attrs: lists("pads", []int{60, 60}), tol: 1e-4},
		{op: "FusedConv", domain: microsoft, name: "filter", in: []arg{f32s(2, 1, 300), f32s(2, 1, 33).c(), f32s(2)}, attrs: act, tol: 1e-4},
		{op: "Conv", name: "frames", in: []arg{f32s(2, 2, 900), f32s(9, 2, 64).c(), f32s(9)}, attrs: lists("strides", []int{16}, "pads", []int{30, 10}), tol: 1e-4},
		{op: "Conv", name: "one channel", in: []arg{f32s(2, 8, 20, 30), f32s(1, 8, 3, 3).c(), f32s(1)}, attrs: lists("pads", []int{1, 1, 1, 1}), tol: 1e-4},
		{op: "Conv", name: "one channel", in: []arg{f32s(1, 3, 60), f32s(1, 3, 5).c()}, attrs: lists("strides", []int{2}), tol: 1e-4},
		{op: "FusedConv", domain: microsoft, name: "one channel", in: []arg{f32s(2, 8, 20, 30), f32s(1, 8, 5, 5).c(), f32s(1).c()}, attrs: act, tol: 1e-4},
	})
}

// TestWinogradWherePays: few channels are convolved directly, whatever is allowed; plain Go has neither of the two.
func TestWinogradWherePays(t *testing.T) {
	for _, c := range []struct {
		channels, pixels int
		most             convolve.Winograd
		want             convolve.ConvAlgorithm
	}{{3, 40, convolve.Winograd4, convolve.ConvDirect}, {64, 40, convolve.Winograd4, convolve.ConvWinograd4}, {64, 40, convolve.WinogradOff, convolve.ConvDirect}, {64, 5, convolve.Winograd2, convolve.ConvWinograd2}} {
		b := opCase{op: "Conv", in: []arg{f32s(1, c.channels, c.pixels, c.pixels), f32s(64, c.channels, 3, 3).c()}, attrs: lists("pads", []int{1, 1, 1, 1})}.build(t, 1)
		p, err := cpu.NewWith(cpu.Options{Winograd: c.most}).Prepare(t.Context(), b.node, 1)
		require.NoError(t, err)
		algorithm := backend.ChoiceOf(p.Kernel).Algorithm
		if machine.Active() == machine.LevelGeneric {
			c.want = convolve.ConvPatches
		}
		assert.Equal(t, c.want.String(), algorithm, "%+v", c)
	}
}
