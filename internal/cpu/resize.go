package cpu

import (
	"math"
	"slices"
	"strconv"

	"github.com/berth-onnx/berth/backend"
	"github.com/berth-onnx/berth/internal/cpu/kern/vec"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
)

// Resize works axis by axis. Preparation computes which indices of the operand every
// index of the result reads, and with which weights:
//
//	operand      0     1     2     3     4
//	                      ^ x = 1.7
//	nearest               2                  one tap
//	linear          1     2                  weights 0.3 0.7
//	cubic     0     1     2     3            weights of the cubic kernel at the distances
//
// Nearest elements are moved row by row (see remap). Weighted ones are summed one axis
// after the other, the last one first (vec.Weighted).

var resizeOps = []entry{
	{op: "Resize", prepare: prepareResize, empties: true},
}

// resizeAxis is one dimension: sizes, and the factor between them.
type resizeAxis struct {
	in, out int
	scale   float64
	listed  bool // named by attribute axes
}

// isUnchanged reports that the axis is copied as it is.
func (x *resizeAxis) isUnchanged() bool { return !x.listed || x.in == x.out && x.scale == 1 }

func prepareResize(p *prep) (ops.Kernel, error) {
	x, out := p.in[0], p.out[0]
	if x.n == 0 || x.dt != out.dt || ops.Str(p.node, "keep_aspect_ratio_policy") != "stretch" {
		return nil, nil
	}
	if ops.Str(p.node, "coordinate_transformation_mode") == "tf_crop_and_resize" {
		return nil, nil // a region, even where the factors are 1
	}
	axes, err := p.resizeAxes()
	if axes == nil || err != nil {
		return nil, err
	}
	if x.blocked {
		if axes = p.blockedAxes(axes); axes == nil {
			return nil, nil
		}
	}
	switch ops.Str(p.node, "mode") {
	case "nearest":
		return p.resizeNearest(axes)
	default: // linear, cubic
		if x.dt == ndarray.Float32 {
			return p.resizeWeighted(axes)
		}
	}
	return nil, nil
}

// resizeAxes reads the factors; nil where they are not known.
func (p *prep) resizeAxes() ([]resizeAxis, error) {
	x, out := p.in[0], p.out[0]
	listed := ops.Ints(p.node, "axes")
	if !p.node.Has("axes") {
		for i := range x.shape {
			listed = append(listed, int64(i))
		}
	}
	axes := make([]resizeAxis, len(x.shape))
	for i := range axes {
		axes[i] = resizeAxis{in: x.shape[i], out: out.shape[i], scale: 1}
	}
	var scales []float32
	if p.has(2) && p.in[2].n > 0 {
		v, err := p.floats(2)
		if v == nil || err != nil || len(v) != len(listed) {
			return nil, err
		}
		scales = v
	}
	for i, a := range listed {
		k, err := ops.NormAxis(a, len(axes))
		if err != nil {
			return nil, nil
		}
		axes[k].listed, axes[k].scale = true, float64(axes[k].out)/float64(axes[k].in)
		if scales != nil {
			axes[k].scale = float64(scales[i])
		}
	}
	return axes, nil
}

// blockedAxes are the axes of blocked images, nil where batch or channels change.
func (p *prep) blockedAxes(axes []resizeAxis) []resizeAxis {
	if !axes[0].isUnchanged() || !axes[1].isUnchanged() {
		return nil
	}
	p.seeStored()
	in := p.in[0].shape
	axes[1] = resizeAxis{in: in[1], out: in[1], scale: 1}
	b := in[len(in)-1]
	return append(axes, resizeAxis{in: b, out: b, scale: 1})
}

// coordinate returns where index y of the result lies in the operand.
func (x *resizeAxis) coordinate(mode string, y int) float64 {
	at := float64(y)
	width := x.scale * float64(x.in) // before it was rounded to out
	switch mode {
	case "half_pixel_symmetric":
		return float64(x.in)/2*(1-float64(x.out)/width) + (at+0.5)/x.scale - 0.5
	case "pytorch_half_pixel":
		if x.out <= 1 {
			return 0
		}
	case "align_corners":
		if width == 1 || x.out == 1 {
			return 0
		}
		return at * float64(x.in-1) / (width - 1)
	case "asymmetric":
		return at / x.scale
	case "tf_half_pixel_for_nn":
		return (at + 0.5) / x.scale
	}
	return (at+0.5)/x.scale - 0.5 // half_pixel
}

// nearest rounds a coordinate to an operand index. A coordinate within the rounding
// error of a float32 scale from a multiple of one half is taken for that multiple.
func (x *resizeAxis) nearest(mode string, at float64) int {
	if r := math.Round(2*at) / 2; math.Abs(at-r) <= 1e-6*max(1, math.Abs(at)) {
		at = r
	}
	return int(min(max(roundings[mode](at), 0), float64(x.in-1)))
}

// roundings are the modes of Resize with nearest elements.
var roundings = map[string]func(float64) float64{
	"round_prefer_floor": func(v float64) float64 { return math.Ceil(v - 0.5) },
	"round_prefer_ceil":  func(v float64) float64 { return math.Floor(v + 0.5) },
	"floor":              math.Floor,
	"ceil":               math.Ceil,
}

func (p *prep) resizeNearest(axes []resizeAxis) (ops.Kernel, error) {
	coord, mode := ops.Str(p.node, "coordinate_transformation_mode"), ops.Str(p.node, "nearest_mode")
	last := 0
	for i := range axes {
		if !axes[i].isUnchanged() {
			last = i
		}
	}
	if len(axes) == 0 {
		return nil, nil
	}
	maps := make([][]int32, last+1)
	for i := range maps {
		if err := p.table(indices, 4*int64(axes[i].out)); err != nil {
			return nil, err
		}
		m := make([]int32, axes[i].out)
		for y := range m {
			m[y] = int32(y)
			if axes[i].isUnchanged() {
				continue
			}
			m[y] = int32(axes[i].nearest(mode, axes[i].coordinate(coord, y)))
		}
		maps[i] = m
	}
	return newRemap(p, maps, false), nil
}

// resizeWeighted sums weighted elements, axis by axis; results between two axes
// lie in the workspace.
type resizeWeighted []*resizePass

// resizePass resizes the middle of [outer, in, inner].
type resizePass struct {
	vec.Weighted
	outer, inner int
	src, dst     int // workspace of the operand and the result, -1 for the node's
	tmp, tmpLen  int // workspace of a tile, for each worker
	per          int // outer indices in a tile
	threads      int
}

func (p *prep) resizeWeighted(axes []resizeAxis) (ops.Kernel, error) {
	var k resizeWeighted
	shape, widest, tasks := slices.Clone(p.in[0].shape), 0, 0
	for i := len(axes) - 1; i >= 0; i-- {
		if axes[i].isUnchanged() {
			continue
		}
		s := &resizePass{Weighted: vec.Weighted{In: axes[i].in, Out: axes[i].out}, src: -1, dst: -1, threads: p.threads}
		s.outer, _, s.inner = around(shape, i)
		if ok, err := s.taps(p, &axes[i]); !ok || err != nil {
			return nil, err
		}
		s.per = max(1, TileElems/(s.Out*s.inner))
		shape[i] = s.Out
		s.tmpLen = s.Scratch(min(s.per, s.outer), s.inner)
		widest, tasks = max(widest, s.tmpLen), max(tasks, ceilDiv(s.outer, s.per))
		k = append(k, s)
	}
	if len(k) == 0 {
		return newCopy(p.in[0])
	}
	for i, s := range k[1:] {
		s.src = p.workspace(4 * s.outer * s.In * s.inner)
		k[i].dst = s.src
	}
	tmp := p.perWorker(roundUp(4*widest, lineBytes), tasks)
	for _, s := range k {
		s.tmp = tmp
	}
	return k, nil
}

// taps computes which operand indices every result index reads, and their weights;
// false if they are too many or out of range.
func (s *resizePass) taps(p *prep, x *resizeAxis) (ok bool, err error) {
	coord := ops.Str(p.node, "coordinate_transformation_mode")
	exclude, antialias := ops.Int(p.node, "exclude_outside") != 0, ops.Int(p.node, "antialias") != 0
	cubic, a := ops.Str(p.node, "mode") == "cubic", float64(ops.Float(p.node, "cubic_coeff_a"))
	stretch, reach := 1.0, 1.0
	if antialias {
		stretch = min(x.scale, 1)
	}
	if cubic {
		reach = 2
	}
	if reach /= stretch; reach > 1<<16 {
		return false, nil
	}
	each := int(2*reach) + 1
	taps := int64(s.Out) * int64(each)
	if taps > math.MaxInt32 {
		return false, nil
	}
	if err := p.table("taps and weights of Resize", 4*int64(s.Out)+8*taps); err != nil {
		return false, err
	}
	s.First, s.At, s.Weight = make([]int32, 0, s.Out+1), make([]int32, 0, taps), make([]float32, 0, taps)
	for y := range s.Out {
		if look := lookStep/each + 1; y%look == look-1 && p.ctx.Err() != nil {
			return false, p.ctx.Err()
		}
		s.First = append(s.First, int32(len(s.At)))
		at := x.coordinate(coord, y)
		if math.IsNaN(at) || math.Abs(at) > 1<<30 {
			return false, nil
		}
		sum, begin := 0.0, len(s.At)
		for i := int(math.Ceil(at - reach)); float64(i) <= at+reach; i++ {
			d := math.Abs(float64(i)-at) * stretch
			w := max(0, 1-d)
			if cubic {
				w = cubicWeight(a, d)
			}
			if w == 0 || exclude && (i < 0 || i >= x.in) {
				continue
			}
			s.At, s.Weight = append(s.At, int32(min(max(i, 0), x.in-1))), append(s.Weight, float32(w))
			sum += w
		}
		if sum != 0 && (exclude || antialias) {
			for i := range s.Weight[begin:] {
				s.Weight[begin+i] = float32(float64(s.Weight[begin+i]) / sum)
			}
		}
	}
	s.First = append(s.First, int32(len(s.At)))
	return true, nil
}

// cubicWeight is the cubic convolution kernel at distance d.
func cubicWeight(a, d float64) float64 {
	switch {
	case d <= 1:
		return ((a+2)*d-(a+3))*d*d + 1
	case d < 2:
		return ((d-5)*d+8)*d*a - 4*a
	}
	return 0
}

// Run goes through the passes.
func (k resizeWeighted) Run(c *ops.Call) error {
	for _, s := range k {
		runTasks(c, 0, ceilDiv(s.outer, s.per), 1, s.threads, s)
	}
	return nil
}

// Choice says how it is computed.
func (k resizeWeighted) Choice() backend.Choice {
	return backend.Choice{Algorithm: "one axis after the other", Reason: strconv.Itoa(len(k)) + " axes change"}
}

func (s *resizePass) tile(c *ops.Call, i, worker int) {
	src, dst := f32(c.In[0]), f32(c.Out[0])
	if s.src >= 0 {
		src = scratchOf[float32](c, s.src, s.outer*s.In*s.inner)
	}
	if s.dst >= 0 {
		dst = scratchOf[float32](c, s.dst, s.outer*s.Out*s.inner)
	}
	tmp := scratchOf[float32](c, s.tmp+worker*roundUp(4*s.tmpLen, lineBytes), s.tmpLen)
	o := i * s.per
	n := min(s.per, s.outer-o)
	s.Run(c.Done(), dst[o*s.Out*s.inner:][:n*s.Out*s.inner], src[o*s.In*s.inner:][:n*s.In*s.inner], n, s.inner, tmp)
}
