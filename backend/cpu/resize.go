package cpu

import (
	"math"

	"github.com/berth-onnx/berth/backend/cpu/kern"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
)

// Resize works axis by axis. Where every index of the result reads, and with which
// weights, is worked out at preparation:
//
//	operand      0     1     2     3     4
//	                      ^ x = 1.7
//	nearest               2                  one tap
//	linear          1     2                  weights 0.3 0.7
//	cubic     0     1     2     3            weights of the cubic kernel at the distances
//
// Nearest elements are moved row by row, a row that reads the same operand row as
// the one before being a copy of it. Weighted ones are summed one axis after the
// other, the last one first: within rows element by element, across rows as whole
// rows.

var resizeOps = []entry{
	{op: "Resize", prepare: prepareResize, empties: true},
}

// resizeAxis is one dimension: sizes, and the factor between them.
type resizeAxis struct {
	in, out int
	scale   float64
	listed  bool // the node speaks of it
}

// stays reports that the axis is passed on.
func (x *resizeAxis) stays() bool { return !x.listed || x.in == x.out && x.scale == 1 }

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
	switch ops.Str(p.node, "mode") {
	case "nearest":
		return p.resizeNearest(axes), nil
	case "linear", "cubic":
		if x.dt == ndarray.Float32 {
			return p.resizeWeighted(axes), nil
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

// coordinate returns where index y of the result lies in the operand; ok is false
// for a mode that is not served.
func (x *resizeAxis) coordinate(mode string, y int) (at float64, ok bool) {
	at = float64(y)
	width := x.scale * float64(x.in) // before it was rounded to out
	switch mode {
	case "half_pixel":
		return (at+0.5)/x.scale - 0.5, true
	case "half_pixel_symmetric":
		return float64(x.in)/2*(1-float64(x.out)/width) + (at+0.5)/x.scale - 0.5, true
	case "pytorch_half_pixel":
		if x.out <= 1 {
			return 0, true
		}
		return (at+0.5)/x.scale - 0.5, true
	case "align_corners":
		if width == 1 || x.out == 1 {
			return 0, true
		}
		return at * float64(x.in-1) / (width - 1), true
	case "asymmetric":
		return at / x.scale, true
	case "tf_half_pixel_for_nn":
		return (at + 0.5) / x.scale, true
	}
	return 0, false
}

// nearest rounds a coordinate to an operand index. One that misses a multiple of
// one half only by the rounding of a float32 scale counts as that.
func (x *resizeAxis) nearest(mode string, at float64) (int, bool) {
	if r := math.Round(2*at) / 2; math.Abs(at-r) <= 1e-6*max(1, math.Abs(at)) {
		at = r
	}
	switch mode {
	case "round_prefer_floor":
		at = math.Ceil(at - 0.5)
	case "round_prefer_ceil":
		at = math.Floor(at + 0.5)
	case "floor":
		at = math.Floor(at)
	case "ceil":
		at = math.Ceil(at)
	default:
		return 0, false
	}
	return int(min(max(at, 0), float64(x.in-1))), true
}

// resizeNearest moves elements of any type.
type resizeNearest struct {
	dims  []int     // result dimensions up to the last resized one
	ss    []int     // operand strides of those, in bytes
	maps  [][]int32 // operand index of every result index
	width int       // bytes of an element
	inner int       // bytes behind one index of the last of dims
	cut             // over rows
}

func (p *prep) resizeNearest(axes []resizeAxis) ops.Kernel {
	coord, mode := ops.Str(p.node, "coordinate_transformation_mode"), ops.Str(p.node, "nearest_mode")
	last := 0
	for i := range axes {
		if !axes[i].stays() {
			last = i
		}
	}
	x, out := p.in[0], p.out[0]
	if len(x.shape) == 0 {
		return nil
	}
	k := &resizeNearest{dims: out.shape[:last+1], width: x.dt.Size(), inner: sizeOf(x.shape[last+1:]) * x.dt.Size()}
	strides := ops.Strides(x.shape)
	for i := range last + 1 {
		m := make([]int32, axes[i].out)
		for y := range m {
			m[y] = int32(y)
			if axes[i].stays() {
				continue
			}
			at, ok := axes[i].coordinate(coord, y)
			src, ok2 := axes[i].nearest(mode, at)
			if !ok || !ok2 {
				return nil
			}
			m[y] = int32(src)
		}
		k.maps, k.ss = append(k.maps, m), append(k.ss, strides[i]*k.width)
	}
	row := out.shape[last] * k.inner
	k.cut = newCut(sizeOf(k.dims[:last]), 1, max(1, tileBytes/row))
	return k
}

// Run writes all rows.
func (k *resizeNearest) Run(c *ops.Call) error {
	runTiles(c, k.tiles, k)
	return nil
}

func (k *resizeNearest) tile(c *ops.Call, i, _ int) {
	dst, src := arrayOf(c.Out[0]).Data, arrayOf(c.In[0]).Data
	last := len(k.dims) - 1
	size := k.dims[last] * k.inner
	r0, r1, _, _ := k.cut.tile(i)
	before := -1 // operand row of the result row before
	for r := r0; r < r1; r++ {
		at := 0
		for d, rest := last-1, r; d >= 0; d-- {
			at += int(k.maps[d][rest%k.dims[d]]) * k.ss[d]
			rest /= k.dims[d]
		}
		row := dst[r*size : (r+1)*size]
		if at == before {
			copy(row, dst[(r-1)*size:r*size])
			continue
		}
		before = at
		k.row(row, src[at:])
	}
}

// row picks one row.
func (k *resizeNearest) row(row, src []byte) {
	m := k.maps[len(k.maps)-1]
	switch {
	case k.inner == 4 && k.width == 4:
		pickRow(ndarray.Slice[uint32](&ndarray.Array{Data: row}), ndarray.Slice[uint32](&ndarray.Array{Data: src}), m)
	case k.inner == 1:
		pickRow(row, src, m)
	default:
		for y, x := range m {
			copy(row[y*k.inner:(y+1)*k.inner], src[int(x)*k.inner:])
		}
	}
}

func pickRow[T any](row, src []T, m []int32) {
	for y, x := range m {
		row[y] = src[x]
	}
}

// resizeWeighted sums weighted elements, axis by axis; results between two axes
// lie in the workspace.
type resizeWeighted struct {
	passes  []resizePass
	tmp     int // workspace of a row, for each worker
	tmpLen  int
	copy    *mover // where nothing is resized
	now     int    // workspace: the pass that is running
	threads int
}

// resizePass resizes the middle of [outer, in, inner].
type resizePass struct {
	outer, in, out, inner int
	first                 []int32 // position of the first tap of every result index; one more at the end
	at                    []int32 // operand index of every tap
	weight                []float32
	dst                   int // workspace of the result, -1 for the node's
	per                   int // outer indices in a tile; 0: a tile is one of them
}

func (p *prep) resizeWeighted(axes []resizeAxis) ops.Kernel {
	k := &resizeWeighted{threads: p.threads}
	shape := append([]int(nil), p.in[0].shape...)
	for i := len(axes) - 1; i >= 0; i-- {
		if axes[i].stays() {
			continue
		}
		s := resizePass{in: axes[i].in, out: axes[i].out, dst: -1}
		s.outer, _, s.inner = around(shape, i)
		if !s.taps(p, &axes[i]) {
			return nil
		}
		s.per = max(1, tileElems/(s.out*s.inner))
		shape[i] = s.out
		k.tmpLen = max(k.tmpLen, min(s.inner, tileElems))
		k.passes = append(k.passes, s)
	}
	if len(k.passes) == 0 {
		k.copy, _ = newMover(4, []int{p.in[0].n}, []int{1}, []int{1}, 0, 0)
		return k
	}
	for i := range k.passes[:len(k.passes)-1] {
		s := &k.passes[i]
		s.dst = p.workspace(4 * s.outer * s.out * s.inner)
	}
	k.tmp, k.now = p.workspace(p.threads*roundUp(4*k.tmpLen, lineBytes)), p.workspace(8)
	return k
}

// taps works out where every result index reads; false for modes not served.
func (s *resizePass) taps(p *prep, x *resizeAxis) bool {
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
		return false
	}
	for y := range s.out {
		s.first = append(s.first, int32(len(s.at)))
		at, ok := x.coordinate(coord, y)
		if !ok || math.IsNaN(at) || math.Abs(at) > 1<<30 {
			return false
		}
		sum, begin := 0.0, len(s.at)
		for i := int(math.Ceil(at - reach)); float64(i) <= at+reach; i++ {
			d := math.Abs(float64(i)-at) * stretch
			w := max(0, 1-d)
			if cubic {
				w = cubicWeight(a, d)
			}
			if w == 0 || exclude && (i < 0 || i >= x.in) {
				continue
			}
			s.at, s.weight = append(s.at, int32(min(max(i, 0), x.in-1))), append(s.weight, float32(w))
			sum += w
		}
		if sum != 0 && (exclude || antialias) {
			for i := range s.weight[begin:] {
				s.weight[begin+i] = float32(float64(s.weight[begin+i]) / sum)
			}
		}
	}
	s.first = append(s.first, int32(len(s.at)))
	return true
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
func (k *resizeWeighted) Run(c *ops.Call) error {
	if k.copy != nil {
		return k.copy.run(arrayOf(c.Out[0]), arrayOf(c.In[0]), c.Threads)
	}
	now := scratchOf[int64](c, k.now, 1)
	for i := range k.passes {
		now[0] = int64(i)
		runTilesOn(c, ceilDiv(k.passes[i].outer, k.passes[i].per), k.threads, k)
	}
	return nil
}

// result is where a pass writes; pass -1 is the operand.
func (k *resizeWeighted) result(c *ops.Call, pass int) []float32 {
	if pass < 0 {
		return f32(c.In[0])
	}
	s := &k.passes[pass]
	if s.dst < 0 {
		return f32(c.Out[0])
	}
	return scratchOf[float32](c, s.dst, s.outer*s.out*s.inner)
}

func (k *resizeWeighted) tile(c *ops.Call, i, worker int) {
	pass := int(scratchOf[int64](c, k.now, 1)[0])
	s := &k.passes[pass]
	src, dst := k.result(c, pass-1), k.result(c, pass)
	tmp := scratchOf[float32](c, k.tmp+worker*roundUp(4*k.tmpLen, lineBytes), k.tmpLen)
	for o := i * s.per; o < min((i+1)*s.per, s.outer); o++ {
		x, y := src[o*s.in*s.inner:][:s.in*s.inner], dst[o*s.out*s.inner:][:s.out*s.inner]
		if s.inner == 1 {
			s.within(y, x)
		} else {
			s.across(y, x, tmp)
		}
	}
}

// within resizes a row.
func (s *resizePass) within(y, x []float32) {
	for i := range y {
		t0, t1 := s.first[i], s.first[i+1]
		if t1-t0 == 2 {
			y[i] = s.weight[t0]*x[s.at[t0]] + s.weight[t0+1]*x[s.at[t0+1]]
			continue
		}
		sum := float32(0)
		for t := t0; t < t1; t++ {
			sum += s.weight[t] * x[s.at[t]]
		}
		y[i] = sum
	}
}

// across makes every row a weighted sum of rows, a strip of columns at a time.
func (s *resizePass) across(y, x, tmp []float32) {
	for from := 0; from < s.inner; from += len(tmp) {
		n := min(len(tmp), s.inner-from)
		for r := range s.out {
			row := y[r*s.inner+from:][:n]
			t0, t1 := s.first[r], s.first[r+1]
			if t0 == t1 {
				clear(row)
				continue
			}
			kern.BinaryScalar(kern.Mul, row, x[int(s.at[t0])*s.inner+from:][:n], s.weight[t0])
			for t := t0 + 1; t < t1; t++ {
				kern.BinaryScalar(kern.Mul, tmp[:n], x[int(s.at[t])*s.inner+from:][:n], s.weight[t])
				kern.Binary(kern.Add, row, row, tmp[:n])
			}
		}
	}
}
