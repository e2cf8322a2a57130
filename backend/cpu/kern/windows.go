package kern

// Windows over images.
//
// Depthwise convolution and pooling slide a window over one channel. A strip
// of output rows is computed from a copy of its input rows with the padding
// written out and the strides taken apart: element (y, x) of the padded input
// goes to plane (y mod sy, x mod sx), place (y div sy, x div sx). For stride 2:
//
//	a b a b a b         a a a   b b b
//	c d c d c d    ──▶  a a a   b b b   c c c   d d d
//	a b a b a b                         …       …
//	c d c d c d
//
// Then every tap of every output pixel is a fixed distance from the pixel's
// own place, rows are contiguous whatever the stride, and one kernel serves
// all shapes:
//
//	y[o] = Σₜ w[t]·plane[o + offs[t]]
//
// Narrow images waste lanes at the ends of rows. For them the planes are run
// through as one long row; the few results between rows are dropped when the
// rows are copied out.

// windows is the geometry of a window sliding over one channel and the layout
// of its strips. Pairs are height, width.
type windows struct {
	in, kernel, stride, dilation, pad, out [2]int

	rows    int   // output rows of a strip
	strips  int   // strips of a channel
	planeW  int   // extent of a plane
	planeH  int   //
	offs    []int // distance of each tap, in bytes
	flat    bool  // one long row
	bufLen  int   // floats of workspace for the planes
	flatLen int   // floats of workspace for flat results
}

const (
	windowStripFloats = 12 << 10 // planes of a strip stay in the L1 cache, or nearly
	windowTaskOps     = 1 << 18  // taps of a task
)

// plan lays out the strips; lanes is the width of the level's vectors.
func (d *windows) plan(lanes int) {
	oh, ow := d.out[0], d.out[1]
	sy, sx := d.stride[0], d.stride[1]
	taps := d.kernel[0] * d.kernel[1]
	d.planeW = ceilDiv((ow-1)*sx+(d.kernel[1]-1)*d.dilation[1]+1, sx)
	extra := (d.kernel[0] - 1) * d.dilation[0] // rows a strip needs beyond its own
	perRow := sy * sx * d.planeW
	d.rows = max(1, min(oh, (windowStripFloats/perRow)-ceilDiv(extra, sy)))
	d.rows = newSplit(oh, d.rows).largest()
	d.strips = ceilDiv(oh, d.rows)
	d.planeH = ceilDiv((d.rows-1)*sy+extra+1, sy)
	plane := d.planeW * d.planeH
	d.offs = make([]int, 0, taps)
	for ky := range d.kernel[0] {
		for kx := range d.kernel[1] {
			y, x := ky*d.dilation[0], kx*d.dilation[1]
			d.offs = append(d.offs, 4*(((y%sy)*sx+x%sx)*plane+(y/sy)*d.planeW+x/sx))
		}
	}
	d.flat = ceilDiv(ow, lanes)*d.rows*taps > ceilDiv(d.rows*d.planeW, lanes)*taps+4*d.rows
	// The flat row and whole-vector stores run a little past the planes.
	d.bufLen = roundUp(sy*sx*plane+d.planeW+2*slackFloats, slackFloats)
	if d.flat {
		d.flatLen = d.rows*d.planeW + slackFloats
	}
}

// chunk is the number of channels that make a task.
func (d *windows) chunk(channels int) int {
	work := d.rows * d.out[1] * len(d.offs)
	return max(1, min(channels, windowTaskOps/max(1, work)))
}

// fill copies the input rows that output rows y0.. need, padded with zeros and
// taken apart by stride. A segment kernel copies a vector's width of columns,
// all rows of a plane at a time. It stores whole vectors, so the last columns
// go first and what they write into the next row is overwritten by its start.
func (d *windows) fill(t *table, planes, x []float32, y0, rows int) {
	d.each(t, y0, rows, func(f, px, lo, hi, h, mask, off int) {
		plane := planes[f*d.planeW*d.planeH:]
		t.segFill(f32p(plane, px), f32p(x, 0), lo, 4*d.planeW, 0, 0, 0)
		d.columns(t, f32p(plane, lo*d.planeW+px), f32p(x, 0), hi-lo, mask, off, true)
		t.segFill(f32p(plane, hi*d.planeW+px), f32p(x, 0), h-hi, 4*d.planeW, 0, 0, 0)
	})
}

// fillWith is fill with another number than zero as padding.
func (d *windows) fillWith(t *table, pad float32, planes, x []float32, y0, rows int) {
	all := planes[:d.stride[0]*d.stride[1]*d.planeW*d.planeH]
	for i := range all {
		all[i] = pad
	}
	d.each(t, y0, rows, func(f, px, lo, hi, _, mask, off int) {
		plane := planes[f*d.planeW*d.planeH:]
		d.columns(t, f32p(plane, lo*d.planeW+px), f32p(x, 0), hi-lo, mask, off, false)
	})
}

// each calls visit for every plane f and vector's width of columns px, last
// columns first: rows lo..hi of the h rows of the plane lie in the image, mask
// selects the columns that do, and off is where lane 0 of row lo would lie.
func (d *windows) each(t *table, y0, rows int, visit func(f, px, lo, hi, h, mask, off int)) {
	sy, sx := d.stride[0], d.stride[1]
	h := ceilDiv((rows-1)*sy+(d.kernel[0]-1)*d.dilation[0]+1, sy)
	for f := range sy * sx {
		iy := y0*sy + f/sx - d.pad[0] // input row of the plane's first row
		lo := 0
		if iy < 0 {
			lo = min(h, ceilDiv(-iy, sy))
		}
		hi := max(lo, min(h, ceilDiv(d.in[0]-iy, sy)))
		for px := (d.planeW - 1) / t.tw * t.tw; px >= 0; px -= t.tw {
			ix := px*sx + f%sx - d.pad[1]
			mask := laneMask(ix, sx, d.in[1], min(t.tw, d.planeW-px))
			visit(f, px, lo, hi, h, mask, 4*((iy+lo*sy)*d.in[1]+ix))
		}
	}
}

// columns copies a vector's width of columns of n rows, one plane row each.
func (d *windows) columns(t *table, dst, src *float32, n, mask, off int, fill bool) {
	ds, ss := 4*d.planeW, 4*d.in[1]*d.stride[0]
	t.segment(d.stride[1], dst, src, n, ds, ss, mask, off, fill)
}

// laneMask selects the lanes whose element, first + lane·step, lies in [0, n).
func laneMask(first, step, n, lanes int) int {
	lo, hi := 0, 0
	if first < 0 {
		lo = min(lanes, ceilDiv(-first, step))
	}
	if first < n {
		hi = min(lanes, ceilDiv(n-first, step))
	}
	if lo >= hi {
		return 0
	}
	return 1<<hi - 1<<lo
}
