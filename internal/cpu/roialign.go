package cpu

import (
	"fmt"
	"math"

	"github.com/berth-onnx/berth/backend"
	"github.com/berth-onnx/berth/internal/cpu/kern/convolve"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
)

var roiOps = []entry{
	{op: "RoiAlign", prepare: prepareRoiAlign},
}

// roiAlign pools regions by the mean of bilinear samples. The samples of a bin are a
// grid, so the weight of a pixel in the sum is the product of the weights of its row and
// its column, and pixels between several samples are read once:
//
//	        col  ¼  ¾+¼  ¾
//	row ¼        ·   ·   ·      four samples (×), nine pixels (·)
//	              ×   ×
//	  ¾+¼        ·   ·   ·
//	              ×   ×
//	    ¾        ·   ·   ·
//
// For many regions the image is converted to the blocked layout, where a pixel is a
// vector of channels; a few are summed in the plain layout.
type roiAlign struct {
	n, channels, h, w int
	regions, oh, ow   int
	scale, shift      float32
	ratio             int64 // samples of a bin along each axis, 0: one per pixel
	minOnePixel       bool  // regions are at least one pixel large
	blocked           bool
	image             int // workspace: the image
	sums, axes, spans int // for each worker: results, weights of rows and columns, their ranges
	sumsLen, axesLen  int // elements of these for a worker
	threads           int
}

func prepareRoiAlign(p *prep) (ops.Kernel, error) {
	x, rois, batch, out := p.in[0], p.in[1], p.in[2], p.out[0]
	if x.dt != ndarray.Float32 || rois.dt != ndarray.Float32 || batch.dt != ndarray.Int64 || len(x.shape) != 4 || x.n == 0 ||
		len(rois.shape) != 2 || rois.shape[1] != 4 || batch.n != rois.shape[0] || len(out.shape) != 4 || ops.Str(p.node, "mode") != "avg" {
		return nil, nil
	}
	k := &roiAlign{n: x.shape[0], channels: x.shape[1], h: x.shape[2], w: x.shape[3], regions: batch.n, oh: out.shape[2], ow: out.shape[3],
		scale: float32(ops.Float(p.node, "spatial_scale")), ratio: max(ops.Int(p.node, "sampling_ratio"), 0), threads: p.threads}
	switch ops.Str(p.node, "coordinate_transformation_mode") {
	case "half_pixel":
		k.shift = 0.5
	case "output_half_pixel":
		k.minOnePixel = true
	default:
		return nil, nil
	}
	if k.blocked = 8*k.regions*k.oh*k.ow > k.n*k.h*k.w; k.blocked {
		k.image = p.workspace(4 * convolve.BlockedLen(k.n, k.channels, k.h*k.w))
		k.sumsLen = roundUp(convolve.BlockedLen(1, k.channels, k.oh*k.ow), 16)
		k.sums = p.perWorker(4*k.sumsLen, k.regions)
	}
	k.axesLen = roundUp(k.h+k.ow*k.w, 16)
	k.axes = p.perWorker(4*k.axesLen, k.regions)
	k.spans = p.perWorker(8*k.ow, k.regions)
	return k, nil
}

// Run pools all regions.
func (k *roiAlign) Run(c *ops.Call) error {
	batch, rois := elems[int64](c.In[2]), f32(c.In[1])
	if err := checkIndices(c, batch, k.n); err != nil {
		return err
	}
	for r := range k.regions {
		if b := k.bins(rois[4*r : 4*r+4]); !(b.y.samples <= 1<<15 && b.x.samples <= 1<<15) {
			return fmt.Errorf("region %v needs too many sampling points", rois[4*r:4*r+4])
		}
	}
	if k.blocked {
		image := scratchOf[float32](c, k.image, convolve.BlockedLen(k.n, k.channels, k.h*k.w))
		convolve.ToBlocked(image, f32(c.In[0]), k.n, k.channels, k.h*k.w, min(k.threads, c.Threads))
	}
	runSmall(c, k.regions, 8*k.channels*k.oh*k.ow, k.threads, k)
	return nil
}

// Choice says how it is computed.
func (k *roiAlign) Choice() backend.Choice {
	return backend.Choice{Algorithm: "region by region"}
}

// roiAxis is a region along one axis.
type roiAxis struct {
	start, bin float64 // where it starts, size of a bin
	samples    float64 // of a bin
}

type roiBins struct{ y, x roiAxis }

// bins scales a region (x1, y1, x2, y2) and divides it into bins.
func (k *roiAlign) bins(v []float32) roiBins {
	axis := func(a, b float32, n int) roiAxis {
		a, b = a*k.scale-k.shift, b*k.scale-k.shift
		size := b - a
		if k.minOnePixel {
			size = max(size, 1)
		}
		x := roiAxis{start: float64(a), bin: float64(size / float32(n)), samples: float64(k.ratio)}
		if k.ratio == 0 {
			x.samples = math.Ceil(x.bin)
		}
		return x
	}
	return roiBins{axis(v[1], v[3], k.oh), axis(v[0], v[2], k.ow)}
}

// weights writes the weight of every pixel of a line in the mean over the samples of
// bin i, and returns the range of pixels with one.
func (a *roiAxis) weights(line []float32, i int) (lo, hi int) {
	clear(line)
	n := int(max(a.samples, 0))
	lo = len(line)
	for s := range n {
		v := a.start + float64(i)*a.bin + (float64(s)+0.5)*a.bin/float64(n)
		if !(v >= -1 && v <= float64(len(line))) {
			continue
		}
		at := min(int(max(v, 0)), len(line)-1)
		next := min(at+1, len(line)-1)
		far := max(v, 0) - float64(at)
		if at == next {
			far = 0
		}
		line[at] += float32((1 - far) / float64(n))
		line[next] += float32(far / float64(n))
		lo, hi = min(lo, at), max(hi, at+1)
		if far > 0 {
			hi = max(hi, next+1)
		}
	}
	return lo, hi
}

// tile pools one region.
func (k *roiAlign) tile(c *ops.Call, r, worker int) {
	b := k.bins(f32(c.In[1])[4*r : 4*r+4])
	axes := scratchOf[float32](c, k.axes+4*worker*k.axesLen, k.axesLen)
	row, cols := axes[:k.h], axes[k.h:]
	spans := scratchOf[int32](c, k.spans+8*worker*k.ow, 2*k.ow)
	image := wrapped(elems[int64](c.In[2])[r], k.n)
	out := f32(c.Out[0])[r*k.channels*k.oh*k.ow:][:k.channels*k.oh*k.ow]
	for px := range k.ow {
		lo, hi := b.x.weights(cols[px*k.w:][:k.w], px)
		spans[2*px], spans[2*px+1] = int32(lo), int32(hi)
	}
	if !k.blocked {
		for py := range k.oh {
			lo, hi := b.y.weights(row, py)
			for px := range k.ow {
				from, to := spans[2*px], spans[2*px+1]
				k.bin(out[py*k.ow+px:], f32(c.In[0])[image*k.channels*k.h*k.w:], row, lo, hi, cols[px*k.w:][:to], int(from))
			}
		}
		return
	}
	size := convolve.BlockedLen(1, k.channels, k.h*k.w)
	x := scratchOf[float32](c, k.image, k.n*size)[image*size:]
	sums := scratchOf[float32](c, k.sums+4*worker*k.sumsLen, k.sumsLen)
	taps := convolve.TakePixelTaps(sums, k.oh*k.ow, x, k.h*k.w, k.channels)
	defer taps.Release()
	for py := range k.oh {
		lo, hi := b.y.weights(row, py)
		for px := range k.ow {
			from, to := spans[2*px], spans[2*px+1]
			taps.Begin(py*k.ow + px)
			for y := lo; y < hi; y++ {
				for x := from; x < to; x++ {
					if weight := row[y] * cols[px*k.w+int(x)]; weight != 0 {
						taps.Tap(y*k.w+int(x), weight)
					}
				}
			}
			taps.End()
		}
	}
	convolve.FromBlocked(out, sums, 1, k.channels, k.oh*k.ow, 1)
}

// bin sums one bin of every channel: rows lo up to hi, columns from up to the end of
// col.
func (k *roiAlign) bin(out, x, row []float32, lo, hi int, col []float32, from int) {
	for ch := range k.channels {
		sum := float32(0)
		for y := lo; y < hi; y++ {
			if row[y] == 0 {
				continue // between samples; the pixels may be infinite
			}
			line := x[(ch*k.h+y)*k.w:][:len(col)]
			part := float32(0)
			for i := from; i < len(col); i++ {
				if col[i] != 0 {
					part += line[i] * col[i]
				}
			}
			sum += part * row[y]
		}
		out[ch*k.oh*k.ow] = sum
	}
}
