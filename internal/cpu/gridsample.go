package cpu

import (
	"math"

	"github.com/berth-onnx/berth/internal/ops/kit"
	"github.com/berth-onnx/berth/ops"
)

var gridOps = []entry{
	{op: "GridSample", prepare: prepareGridSample},
}

// gridSample interpolates images at the positions of a grid. The four neighbours of a
// position and their weights are computed once for every channel, for a run of positions
// at a time:
//
//	a ─── b      weights (1−fx)(1−fy)   fx(1−fy)
//	│  ×  │              (1−fx)fy       fx·fy
//	c ─── d      outside of the image: index 0, weight 0, or moved inside
type gridSample struct {
	n, channels, h, w int
	points            int // positions of one image
	corners, nearest  bool
	padding           gridPadding
	runs              int // tiles of an image
	ws                int
}

type gridPadding uint8

const (
	gridZeros gridPadding = iota
	gridBorder
	gridReflection
)

var gridPaddings = map[string]gridPadding{"zeros": gridZeros, "border": gridBorder, "reflection": gridReflection}

// gridRun is how many positions make a run.
const gridRun = 256

func prepareGridSample(p *prep) (ops.Kernel, error) {
	x, g := p.in[0], p.in[1]
	if !p.allF32() || len(x.shape) != 4 || len(g.shape) != 4 || g.shape[3] != 2 || g.shape[0] != x.shape[0] ||
		ops.Str(p.node, "mode") == "cubic" || sizeOf(x.shape[2:]) > math.MaxInt32 {
		return nil, nil
	}
	k := &gridSample{n: x.shape[0], channels: x.shape[1], h: x.shape[2], w: x.shape[3], points: g.shape[1] * g.shape[2],
		corners: ops.Int(p.node, "align_corners") != 0,
		nearest: ops.Str(p.node, "mode") == "nearest", padding: gridPaddings[ops.Str(p.node, "padding_mode")]}
	k.runs = ceilDiv(k.points, gridRun)
	k.ws = p.perWorker(gridRun*4*8, k.n*k.runs)
	return smallTiles(k.n*k.runs, 4*gridRun*k.channels, p.threads, k), nil
}

func (k *gridSample) tile(c *ops.Call, i, worker int) {
	b, first := i/k.runs, i%k.runs*gridRun
	n := min(gridRun, k.points-first)
	at := scratchOf[int32](c, k.ws+worker*gridRun*4*8, 4*gridRun)[:4*n]
	weight := scratchOf[float32](c, k.ws+worker*gridRun*4*8+gridRun*4*4, 4*gridRun)[:4*n]
	grid := f32(c.In[1])[2*(b*k.points+first):][:2*n]
	for j := range n {
		k.neighbours(grid[2*j], grid[2*j+1], at[4*j:4*j+4], weight[4*j:4*j+4])
	}
	plane := k.h * k.w
	for ch := range k.channels {
		x := f32(c.In[0])[(b*k.channels+ch)*plane:][:plane]
		y := f32(c.Out[0])[(b*k.channels+ch)*k.points+first:][:n]
		for j := range y {
			a, w := at[4*j:4*j+4], weight[4*j:4*j+4]
			if k.nearest {
				y[j] = 0
				if a[0] >= 0 {
					y[j] = x[a[0]]
				}
				continue
			}
			sum := float32(0)
			if a[0]|a[1]|a[2]|a[3] >= 0 {
				sum = w[0]*x[a[0]] + w[1]*x[a[1]] + w[2]*x[a[2]] + w[3]*x[a[3]]
			} else {
				for t, p := range a {
					if p >= 0 {
						sum += w[t] * x[p]
					}
				}
			}
			y[j] = sum
		}
	}
}

// neighbours finds the elements around a position; -1 for those that are outside
// and count as zero.
func (k *gridSample) neighbours(gx, gy float32, at []int32, weight []float32) {
	x0, x1, fx := k.along(gx, k.w)
	y0, y1, fy := k.along(gy, k.h)
	for i, y := range [2]int{y0, y1} {
		at[2*i], at[2*i+1] = int32(y*k.w+x0|(x0|y)>>63), int32(y*k.w+x1|(x1|y)>>63)
	}
	weight[0], weight[1], weight[2], weight[3] = (1-fx)*(1-fy), fx*(1-fy), (1-fx)*fy, fx*fy
}

// along finds the two indices around a position along one dimension and the
// weight of the second; with nearest the first one alone counts.
func (k *gridSample) along(v float32, dim int) (i, j int, frac float32) {
	lo, hi := -0.5, float64(dim)-0.5
	p := ((v+1)*float32(dim) - 1) / 2
	if k.corners {
		lo, hi = 0, float64(dim-1)
		p = (v + 1) / 2 * float32(dim-1)
	}
	if k.padding == gridZeros && !k.nearest {
		if !(p > -2 && p < float32(dim)+1) {
			return -1, -1, 0
		}
		if i = int(p); p < float32(i) {
			i--
		}
		return orNone(i, dim), orNone(i+1, dim), p - float32(i)
	}
	at := float64(p)
	if k.nearest {
		at = math.RoundToEven(at)
	}
	if !(at >= lo && at <= hi) {
		switch k.padding {
		case gridBorder:
			at = min(max(at, 0), float64(dim-1))
		case gridReflection:
			at = kit.Reflected(at, lo, hi)
		}
	}
	if math.IsNaN(at) || math.Abs(at) > 1<<31 {
		if k.padding == gridZeros {
			return -1, -1, 0
		}
		at = 0
	}
	first := math.Floor(at)
	return k.inside(int(first), dim, lo, hi), k.inside(int(first)+1, dim, lo, hi), float32(at - first)
}

// orNone is an index, -1 if there is no element.
func orNone(i, dim int) int { return i | (i|(dim-1-i))>>63 }

// inside maps an index to one that exists, -1 if there is none.
func (k *gridSample) inside(i, dim int, lo, hi float64) int {
	if uint(i) < uint(dim) {
		return i
	}
	switch k.padding {
	case gridBorder:
		return min(max(i, 0), dim-1)
	case gridReflection:
		return min(max(int(kit.Reflected(float64(i), lo, hi)), 0), dim-1)
	}
	return -1
}
