package vision

import (
	"cmp"
	"math"
	"slices"

	"github.com/berth-onnx/berth/internal/ops/kit"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// GridSample samples a tensor at the positions of a grid:
// https://onnx.ai/onnx/operators/onnx__GridSample.html
//
//	X     [N, C, d1, …, dr]
//	grid  [N, o1, …, or, r]     positions in [-1, 1], innermost dimension first
//	Y     [N, C, o1, …, or]
//
// A position is turned into an index of X (align_corners: -1 and 1 are the
// centers of the corner elements, else their outer edges), moved inside by
// padding_mode, and interpolated with the neighbours of every dimension:
//
//	nearest 1     linear 2     cubic 4 (a = -0.75)
var GridSample = ops.Op{
	Name: "GridSample", Since: 22, Form: gridSampleForm, Doc: "Y = X interpolated at the positions of grid",
	MinIn: 2, MaxIn: 2, MinOut: 1, MaxOut: 1,
	Attrs: []*ops.AttrSpec{ops.IntAttr("align_corners", 0), ops.StrAttr("mode", "bilinear", "nearest", "bicubic").Before(20),
		ops.StrAttr("mode", "linear", "nearest", "cubic").From(20), ops.StrAttr("padding_mode", "zeros", "border", "reflection")},
	Infer: kit.Rule(InferGridSample), Eval: kit.Kernel(EvalGridSample),
	Facts: ops.Facts{Traits: ops.GeneralTraits, Cost: GridSampleCost},
	Upgrades: []ops.Upgrade{{Below: 20, Source: kit.Changelog("GridSample", 20), Apply: func(_ *ops.Upgrader, n *ssa.Node) error {
		m := gridMode(n)
		if n.DropAttr("mode"); m != "linear" { // the default of either version
			n.SetAttr(ssa.StringAttr("mode", m))
		}
		return nil
	}}},
	Downgrades: []ops.Downgrade{{Below: 20, Form: gridSampleForm, Apply: func(_ *ops.Upgrader, n *ssa.Node) error {
		old := map[string]string{"linear": "bilinear", "cubic": "bicubic"}
		if a := n.Attr("mode"); a != nil {
			a.S = cmp.Or(old[a.S], a.S)
		}
		return nil
	}}},
}

// gridMode returns the mode of a node by the name it has since version 20.
func gridMode(n *ssa.Node) string {
	m := ops.Str(n, "mode")
	return cmp.Or(map[string]string{"bilinear": "linear", "bicubic": "cubic"}[m], m)
}

func gridSampleForm(n *ssa.Node) int {
	base := 20
	if ops.InType(n, 0).Rank() == 4 {
		base = 16
	}
	return kit.TypeForm(base, 22)(n)
}

// InferGridSample is the type and shape rule of [GridSample].
func InferGridSample(n *ssa.Node) []ops.Inferred {
	x, g := ops.InType(n, 0), ops.InType(n, 1)
	rank := max(x.Rank(), g.Rank())
	if rank < 0 {
		return ops.One(ssa.UnrankedTensor(x.DType))
	}
	if rank < 3 || x.Ranked && g.Ranked && len(x.Shape) != len(g.Shape) {
		kit.Failf("X %s and grid %s must have one rank of at least 3", x, g)
	}
	kit.MatchShapes(n, "N *", "N *")
	if k, ok := kit.DimOf(g, rank-1).Const(); ok && k != int64(rank-2) {
		kit.Failf("grid is %s: its last dimension must be %d, the number of spatial dimensions", g, rank-2)
	}
	dims := kit.UnknownDims(rank)
	if x.Ranked {
		dims[0], dims[1] = x.Shape[0], x.Shape[1]
	}
	if g.Ranked {
		copy(dims[2:], g.Shape[1:rank-1])
		if !dims[0].Known() {
			dims[0] = g.Shape[0]
		}
	}
	return ops.One(ssa.TensorOf(x.DType, dims...))
}

// GridSampleCost counts the work of [GridSample].
func GridSampleCost(n *ssa.Node) ops.Cost {
	c := kit.MoveCost(n)
	taps, width := int64(1), tapsOf[gridMode(n)]
	for range max(ops.InType(n, 0).Rank()-2, 0) {
		taps *= width
	}
	if k, ok := n.Out[0].Type.NumElems().Const(); ok {
		c.FLOPs = 2 * taps * k
	}
	return c
}

// gridSampler is the attributes of a GridSample node and the dimensions sampled.
type gridSampler struct {
	mode, padding string
	corners       bool
	dims, strides []int
}

// EvalGridSample is the reference kernel of [GridSample].
func EvalGridSample(c *ops.Call) {
	x, g := kit.Tensor(c, 0), kit.Tensor(c, 1)
	r := x.Rank() - 2
	if r < 1 || g.Rank() != r+2 || g.Shape[r+1] != r || g.Shape[0] != x.Shape[0] || !g.DType.IsFloat() {
		kit.Failf("grid %s does not fit X %s", g, x)
	}
	s := gridSampler{mode: gridMode(c.Node), padding: ops.Str(c.Node, "padding_mode"),
		corners: ops.Int(c.Node, "align_corners") != 0, dims: x.Shape[2:], strides: ops.Strides(x.Shape[2:])}
	out := kit.Result(c, 0, x.DType, slices.Concat(x.Shape[:2], g.Shape[1:r+1])...)
	if out.Len() == 0 {
		return
	}
	if x.Len() == 0 {
		kit.Failf("%s has no elements to sample", x)
	}
	if s.mode != "nearest" && (x.DType == ndarray.String || x.DType.IsComplex()) {
		kit.Check(kit.UnsupportedType(x.DType))
	}
	if g.DType == ndarray.Float64 {
		sampleGrid[float64](c, &s, out, x, g)
	} else {
		sampleGrid[float32](c, &s, out, x, g)
	}
}

// sampleGrid computes all results; positions are computed in T.
func sampleGrid[T kit.RealNum](c *ops.Call, s *gridSampler, out, x, g *ndarray.Array) {
	pos, r := kit.Elements[T](c, g), len(s.dims)
	n, channels := x.Shape[0], x.Shape[1]
	points, plane := g.Len()/max(n*r, 1), x.Len()/max(n*channels, 1)
	var v []float64
	y := kit.BufferFor[float64](c, out)
	if s.mode != "nearest" {
		v = kit.Elements[float64](c, x)
	}
	var taps, axis []tap
	w := kit.Watching(c)
	for b := range n {
		for p := range points {
			taps = append(taps[:0], tap{0, 1})
			for k := range r {
				at := pos[(b*points+p)*r+r-1-k]
				axis = s.axisTaps(axis[:0], float64(denormalize(at, s.dims[k], s.corners)), k)
				w.Did(8)
				taps = crossTaps(taps, axis, s.strides[k])
			}
			for ch := range channels {
				from, to := (b*channels+ch)*plane, (b*channels+ch)*points+p
				if s.mode == "nearest" {
					s.copyNearest(&w, out, to, x, from, taps)
					continue
				}
				w.Did(len(taps))
				sum := 0.0
				for _, t := range taps {
					sum += t.weight * v[from+t.index]
				}
				y.V[to] = sum
			}
		}
	}
	if s.mode != "nearest" {
		y.Store()
	}
}

// copyNearest copies the one element sampled, or stores the type's zero.
func (s *gridSampler) copyNearest(w *kit.Watch, out *ndarray.Array, to int, x *ndarray.Array, from int, taps []tap) {
	if len(taps) > 0 {
		kit.CopyElems(w, out, to, x, from+taps[0].index, 1)
	} else {
		kit.ClearElems(w, out, to, 1)
	}
}

// denormalize turns a position in [-1, 1] into an index of a dimension.
func denormalize[T kit.RealNum](v T, dim int, corners bool) T {
	if corners {
		return (v + 1) / 2 * T(dim-1)
	}
	return ((v+1)*T(dim) - 1) / 2
}

// crossTaps multiplies the taps found so far with those of one more dimension.
// Weights of 0 stay: they carry NaN and infinity of the elements on.
func crossTaps(taps, axis []tap, stride int) []tap {
	out := make([]tap, 0, len(taps)*len(axis))
	for _, t := range taps {
		for _, a := range axis {
			out = append(out, tap{t.index + a.index*stride, t.weight * a.weight})
		}
	}
	return out
}

// axisTaps appends the taps along dimension k of a coordinate; those outside are
// missing with padding zeros.
func (s *gridSampler) axisTaps(out []tap, at float64, k int) []tap {
	lo, hi := -0.5, float64(s.dims[k])-0.5
	if s.corners {
		lo, hi = 0, float64(s.dims[k]-1)
	}
	if s.mode == "nearest" {
		at = math.RoundToEven(at)
	}
	if !(at >= lo && at <= hi) {
		switch {
		case s.padding == "border" && s.mode == "cubic": // the taps are moved one by one
			at = min(max(at, -3), float64(s.dims[k]+2))
		case s.padding == "border":
			at = min(max(at, 0), float64(s.dims[k]-1))
		case s.padding == "reflection":
			at = kit.Reflected(at, lo, hi)
		}
	}
	if math.IsNaN(at) || math.Abs(at) > 1<<31 {
		if s.padding == "zeros" {
			return out
		}
		at = 0
	}
	first := math.Floor(at)
	f := at - first
	add := func(i int, w float64) {
		if i, ok := s.inside(i, k, lo, hi); ok {
			out = append(out, tap{i, w})
		}
	}
	switch s.mode {
	case "nearest":
		add(int(at), 1)
	case "linear":
		add(int(first), 1-f)
		add(int(first)+1, f)
	default:
		for i := -1; i <= 2; i++ {
			add(int(first)+i, cubicKernel(-0.75, float64(i)-f))
		}
	}
	return out
}

// inside maps an index of dimension k to one that exists.
func (s *gridSampler) inside(i, k int, lo, hi float64) (int, bool) {
	if i >= 0 && i < s.dims[k] {
		return i, true
	}
	switch s.padding {
	case "border":
		return min(max(i, 0), s.dims[k]-1), true
	case "reflection":
		return min(max(int(kit.Reflected(float64(i), lo, hi)), 0), s.dims[k]-1), true
	}
	return 0, false
}
