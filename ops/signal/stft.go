package signal

import (
	"github.com/berth-onnx/berth/internal/ops/kit"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// STFT is the Fourier transform of overlapping frames: https://onnx.ai/onnx/operators/onnx__STFT.html
//
//	y[b,f] = DFT(window * signal[b, f*step : f*step+length])
//	frames = floor((signal_length - length) / step) + 1
//
// The signal is [batch, length, 1 or 2] (real or complex); onesided=1, the
// default, keeps the first length/2+1 values of each frame. [batch, length], which
// torch.onnx.export writes for real signals, is read as ONNX Runtime does.
var STFT = ops.Op{
	Name: "STFT", Since: 17, Doc: "y[f] = DFT(window · signal[f·step : f·step+length])",
	MinIn: 2, MaxIn: 4, MinOut: 1, MaxOut: 1,
	Attrs: []*ops.AttrSpec{ops.IntAttr("onesided", 1)},
	Facts: ops.Facts{Traits: ops.GeneralTraits, Disputed: isTwoSided}, Infer: kit.Rule(inferSTFT), Eval: kit.Kernel(evalSTFT),
}

// isTwoSided reports that onnx infers all values of a frame: it takes onesided, where it is not given, for 0.
func isTwoSided(n *ssa.Node) bool { return !n.Has("onesided") }

func inferSTFT(n *ssa.Node) []ops.Inferred {
	x := ops.InType(n, 0)
	kit.MatchShapes(n, "*", "*", "_")
	if x.Ranked && x.Rank() != 2 && x.Rank() != 3 {
		kit.Failf("signal %s, expected [batch, length, 1 or 2] or [batch, length]", x)
	}
	length, frame := kit.DimOf(x, 1), kit.DimOf(x, 1)
	if n.Input(2) != nil {
		frame = kit.DimOf(ops.InType(n, 2), 0)
	}
	if d := kit.ScalarDim(n, 3); n.Input(3) != nil && (d.Known() || n.Input(2) == nil) {
		frame = d
	}
	bins := frame
	if ops.Int(n, "onesided") != 0 {
		bins = frame.FloorDiv(ssa.D(2)).AddN(1)
	}
	frames := length.Sub(frame).FloorDiv(kit.ScalarDim(n, 1)).AddN(1)
	return ops.One(ssa.TensorOf(x.DType, kit.DimOf(x, 0), frames, bins, ssa.D(2)))
}

func evalSTFT(c *ops.Call) {
	x, w := c.Array(0), c.Array(2)
	if x.Rank() == 2 {
		x = x.Reshaped(x.Shape[0], x.Shape[1], 1)
	}
	kit.WantRank("signal", x, 3)
	batch, length, parts := x.Shape[0], x.Shape[1], x.Shape[2]
	def := length
	if w != nil {
		if w.Rank() != 1 {
			kit.Failf("window has shape %v, expected rank 1", w.Shape)
		}
		def = w.Shape[0]
	}
	frame := kit.OptionalInt(c, 3, int64(def))
	step := kit.OptionalInt(c, 1, 0)
	if step < 1 || frame < 1 || frame > int64(length) || w != nil && frame != int64(def) || parts != 1 && parts != 2 || !x.DType.IsFloat() {
		kit.Failf("signal %s with frame_step=%d, frame_length=%d and window %v", x, step, frame, w)
	}
	frames := (length-int(frame))/int(min(step, int64(length))) + 1
	t := newTransform(c, int(frame), false, ops.Int(c.Node, "onesided") != 0)
	y := kit.NewResult[float64](c, 0, x.DType, batch, frames, t.outLen(), 2)
	v, win := kit.Elements[float64](c, x), kit.Elements[float64](c, w)
	for f := range batch * frames {
		start := (f/frames*length + f%frames*int(step)) * parts
		t.load(int(frame), func(k int) complex128 {
			z := complex(v[start+k*parts], 0)
			if parts == 2 {
				z = complex(v[start+k*parts], v[start+k*parts+1])
			}
			if win != nil {
				z *= complex(win[k], 0)
			}
			return z
		})
		t.run()
		t.store(func(k, part int, value float64) { y.V[(f*t.outLen()+k)*2+part] = value })
	}
	y.Store()
}
