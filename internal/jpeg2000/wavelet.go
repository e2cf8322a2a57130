package jpeg2000

// The inverse wavelet transform (T.800, annex F) puts four subbands together.
// Along each dimension low and high samples alternate, then lifting steps undo
// what the analysis did, each sample from its two neighbours:
//
//	coordinate   0    1    2    3    4
//	             L    H    L    H    L      (mirrored at both ends)
//	step 1       L -= f(H, H)
//	step 2            H -= g(L, L)
//
// The reversible 5/3 transform has two steps in integers, the irreversible 9/7
// one four in floating point and a scaling.

// lift adds to every sample of one parity a function of its neighbours; first is
// 0 or 1.
func lift[T int32 | float32](v []T, first int, f func(a, b T) T) {
	n := len(v)
	for i := first; i < n; i += 2 {
		l, r := i-1, i+1
		if l < 0 {
			l = r
		}
		if r >= n {
			r = l
		}
		v[i] += f(v[l], v[r])
	}
}

// inverse53 transforms a line whose first coordinate is odd or even.
func inverse53(v []int32, odd int) {
	if len(v) == 1 {
		if odd == 1 {
			v[0] /= 2
		}
		return
	}
	lift(v, odd, func(a, b int32) int32 { return -((a + b + 2) >> 2) })
	lift(v, 1-odd, func(a, b int32) int32 { return (a + b) >> 1 })
}

// The lifting parameters of the 9/7 transform (table F.4).
const (
	alpha = -1.586134342059924
	beta  = -0.052980118572961
	gamma = 0.882911075530934
	delta = 0.443506852043971
	kappa = 1.230174104914001
)

// inverse97 transforms a line whose first coordinate is odd or even.
func inverse97(v []float32, odd int) {
	if len(v) == 1 {
		if odd == 1 {
			v[0] /= 2
		}
		return
	}
	for i := range v {
		if i&1 == odd {
			v[i] *= kappa
		} else {
			v[i] *= 1 / kappa
		}
	}
	lift(v, odd, func(a, b float32) float32 { return -delta * (a + b) })
	lift(v, 1-odd, func(a, b float32) float32 { return -gamma * (a + b) })
	lift(v, odd, func(a, b float32) float32 { return -beta * (a + b) })
	lift(v, 1-odd, func(a, b float32) float32 { return -alpha * (a + b) })
}

// synthesize joins the samples of the resolution below with the detail subbands
// of a resolution; of gives a subband's coefficients.
func synthesize[T int32 | float32](res *resolution, low []T, lowRect rect, of func(*band) []T, line func([]T, int), look func()) []T {
	if res.empty() {
		return nil
	}
	w, h := res.w(), res.h()
	out := make([]T, w*h)
	spread(out, res.rect, low, lowRect, 0, 0, look)
	for _, b := range res.bands {
		spread(out, res.rect, of(b), b.rect, b.orient&1, b.orient>>1, look)
	}
	for y := range h {
		look()
		line(out[y*w:(y+1)*w], res.x0&1)
	}
	column := make([]T, h)
	for x := range w {
		look()
		for y := range h {
			column[y] = out[y*w+x]
		}
		line(column, res.y0&1)
		for y := range h {
			out[y*w+x] = column[y]
		}
	}
	return out
}

// spread puts a subband's samples at every second place of both dimensions.
func spread[T int32 | float32](out []T, to rect, v []T, from rect, hx, hy int, look func()) {
	if from.empty() {
		return
	}
	w := to.w()
	for y := from.y0; y < from.y1; y++ {
		look()
		row := (2*y+hy-to.y0)*w - to.x0 + hx
		src := v[(y-from.y0)*from.w():]
		for x := from.x0; x < from.x1; x++ {
			out[row+2*x] = src[x-from.x0]
		}
	}
}

// reconstruct computes a component's samples from its code-blocks.
func (c *tileComp) reconstruct(d *blockDecoder) {
	for _, res := range c.res {
		for _, p := range res.precincts {
			for _, part := range p.parts {
				for _, cb := range part.blocks {
					d.look()
					c.decodeBlock(d, part.band, cb)
				}
			}
		}
	}
	base := c.res[0]
	c.ints, c.reals = base.bands[0].ints, base.bands[0].reals
	below := base.rect
	for _, res := range c.res[1:] {
		if c.coding.reversible {
			c.ints = synthesize(res, c.ints, below, func(b *band) []int32 { return b.ints }, inverse53, d.look)
		} else {
			c.reals = synthesize(res, c.reals, below, func(b *band) []float32 { return b.reals }, inverse97, d.look)
		}
		below = res.rect
	}
}

// decodeBlock decodes a code-block into its subband (annexes D, E and H.1).
func (c *tileComp) decodeBlock(d *blockDecoder, b *band, cb *codeBlock) {
	if len(cb.segs) == 0 || cb.planes <= 0 || cb.empty() {
		return
	}
	d.decodeBlock(cb.w(), cb.h(), b.orient, c.coding.style, cb.planes, cb.segs)
	cb.segs = nil
	for y := range cb.h() {
		at := (cb.y0-b.y0+y)*b.w() + cb.x0 - b.x0
		for x := range cb.w() {
			v := d.value[y*cb.w()+x]
			if up := c.coding.region; up > 0 && (v >= 2<<up || v <= -2<<up) { // inside of the region of interest
				if v >>= up; v < 0 {
					v = -(-d.value[y*cb.w()+x] >> up)
				}
			}
			if c.coding.reversible {
				b.ints[at+x] = v / 2
			} else {
				b.reals[at+x] = float32(v) * 0.5 * b.step
			}
		}
	}
}
