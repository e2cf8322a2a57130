package signal

import (
	"math"

	"github.com/berth-onnx/berth/internal/ops/kit"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// MelWeightMatrix makes the triangular filters that turn spectra into mel bands:
// https://onnx.ai/onnx/operators/onnx__MelWeightMatrix.html
//
//	mel(f) = 2595 * log10(1 + f/700)
//
//	1      /\  /\        column i rises from edge i to edge i+1 and falls to
//	      /  \/  \       edge i+2; the edges are evenly spaced in mel, rounded
//	0 ___/   /\   \__    down to bins of the spectrum
var MelWeightMatrix = ops.Op{
	Name: "MelWeightMatrix", Since: 17, Doc: "[dft_length/2+1, num_mel_bins] of triangular mel filters",
	MinIn: 5, MaxIn: 5, MinOut: 1, MaxOut: 1,
	Attrs: []*ops.AttrSpec{ops.IntAttr("output_datatype", 1)},
	Facts: ops.Facts{Traits: ops.GeneralTraits}, Infer: kit.Rule(func(n *ssa.Node) []ops.Inferred {
		dt := kit.Try(kit.DtypeAttr(n, "output_datatype", ndarray.Float32))
		return ops.One(ssa.TensorOf(dt, kit.ScalarDim(n, 1).FloorDiv(ssa.D(2)).AddN(1), kit.ScalarDim(n, 0)))
	}),
	Eval: kit.Kernel(evalMelWeightMatrix),
}

func evalMelWeightMatrix(c *ops.Call) {
	var in [5]float64
	for i := range in {
		in[i] = kit.Sole(c, i).Float(0)
	}
	bands, length, rate := in[0], in[1], in[2]
	if !(bands >= 0 && length >= 1 && rate > 0 && in[3] >= 0 && in[4] >= in[3]) || bands > math.MaxInt32 || length > math.MaxInt32 {
		kit.Failf("%g bands of a transform of length %g at %g Hz between %g and %g Hz", bands, length, rate, in[3], in[4])
	}
	dt := kit.Try(kit.DtypeAttr(c.Node, "output_datatype", ndarray.Float32))
	edges := melEdges(int(bands), length, rate, in[3], in[4])
	bins, cols := int(length)/2+1, int(bands)
	if last := edges[len(edges)-1]; last > bins {
		kit.Failf("the upper edge of %g Hz is above half the sample rate", in[4])
	}
	y := kit.Result(c, 0, dt, bins, cols)
	kit.ClearSlice(c, y.Data)
	w := kit.Watching(c)
	set := func(bin, band int, v float64) {
		w.Did(1)
		if bin < bins {
			y.SetFloat(bin*cols+band, v)
		}
	}
	for i := range cols {
		lo, mid, hi := edges[i], edges[i+1], edges[i+2]
		if lo == mid {
			set(mid, i, 1)
		} else {
			for j := lo; j <= mid; j++ {
				set(j, i, float64(j-lo)/float64(mid-lo))
			}
		}
		for j := mid; j < hi; j++ {
			set(j, i, float64(hi-j)/float64(hi-mid))
		}
	}
}

// melEdges returns the spectrum bins of bands+2 edges.
func melEdges(bands int, length, rate, low, high float64) []int {
	mel := func(f float64) float64 { return 2595 * math.Log10(1+f/700) }
	step := (mel(high) - mel(low)) / float64(bands+2)
	edges := make([]int, bands+2)
	for i := range edges {
		f := 700 * (math.Pow(10, (mel(low)+float64(i)*step)/2595) - 1)
		edges[i] = int(math.Floor((length + 1) * f / rate))
	}
	return edges
}
