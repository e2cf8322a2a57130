package jpeg2000

import "math"

// The geometry of a tile (T.800, annex B). Every component of a tile is a
// pyramid of resolutions; resolution 0 is the smallest subband LL, each further
// one adds three subbands of details:
//
//	+----+----+---------+
//	| LL | HL |         |      resolution 0: LL
//	+----+----+   HL    |      resolution 1: the small HL, LH, HH
//	| LH | HH |         |      resolution 2: the large HL, LH, HH
//	+----+----+---------+
//	|   LH    |   HH    |
//	+---------+---------+
//
// A resolution is cut into precincts, each subband's part of a precinct into
// code-blocks. A packet holds what one layer adds to one precinct.

const (
	bandLL = iota
	bandHL
	bandLH
	bandHH
)

// rect is a half-open rectangle.
type rect struct{ x0, y0, x1, y1 int }

func (r rect) w() int      { return r.x1 - r.x0 }
func (r rect) h() int      { return r.y1 - r.y0 }
func (r rect) empty() bool { return r.x0 >= r.x1 || r.y0 >= r.y1 }

// tile is one tile with all that is decoded of it.
type tile struct {
	rect
	params *params
	comps  []*tileComp
}

type tileComp struct {
	rect
	coding *coding
	info   compInfo
	res    []*resolution
	ints   []int32   // samples of a reversible transform
	reals  []float32 // samples of an irreversible one
}

type resolution struct {
	rect
	pw, ph     int // log2 of the precinct size
	across, up int // precincts
	bands      []*band
	precincts  []*precinct
}

type band struct {
	rect
	orient int
	planes int     // bit planes of magnitudes
	step   float32 // quantization step
	ints   []int32
	reals  []float32
}

type precinct struct {
	parts  []*bandPart
	x, y   int // where it starts on the reference grid, for the position orders
	layers int // decoded so far
}

// bandPart is the code-blocks of one subband in one precinct.
type bandPart struct {
	band          *band
	across, down  int
	blocks        []*codeBlock
	included, top *tagTree // layers of first inclusion, missing bit planes
}

type codeBlock struct {
	rect
	seen   bool
	planes int
	lblock int
	segs   []segment
}

// maxBlocks bounds the code-blocks of an image: a file can claim empty precincts
// at no cost.
const maxBlocks = 1 << 22

// newTile lays out tile number index.
func (cs *codestream) newTile(index int, p *params, budget *int) (*tile, error) {
	s := &cs.size
	px, py := index%s.acrossTiles, index/s.acrossTiles
	t := &tile{params: p, rect: rect{
		max(s.tx0+px*s.tw, s.x0), max(s.ty0+py*s.th, s.y0), min(s.tx0+(px+1)*s.tw, s.x1), min(s.ty0+(py+1)*s.th, s.y1)}}
	for i, info := range s.comps {
		c := &tileComp{coding: &p.comps[i], info: info, rect: rect{
			ceilDiv(t.x0, info.dx), ceilDiv(t.y0, info.dy), ceilDiv(t.x1, info.dx), ceilDiv(t.y1, info.dy)}}
		if c.coding.precincts == nil || c.coding.steps == nil {
			return nil, ErrFormat
		}
		for r := range c.coding.levels + 1 {
			res, err := c.newResolution(t, r, budget)
			if err != nil {
				return nil, err
			}
			c.res = append(c.res, res)
		}
		t.comps = append(t.comps, c)
	}
	return t, nil
}

func (c *tileComp) newResolution(t *tile, r int, budget *int) (*resolution, error) {
	down := c.coding.levels - r
	res := &resolution{
		rect: rect{ceilShift(c.x0, down), ceilShift(c.y0, down), ceilShift(c.x1, down), ceilShift(c.y1, down)},
		pw:   int(c.coding.precincts[r] & 15), ph: int(c.coding.precincts[r] >> 4),
	}
	if !res.empty() {
		res.across = ceilShift(res.x1, res.pw) - res.x0>>res.pw
		res.up = ceilShift(res.y1, res.ph) - res.y0>>res.ph
	}
	orients := []int{bandHL, bandLH, bandHH}
	if r == 0 {
		orients = []int{bandLL}
	}
	for _, o := range orients {
		b, err := c.newBand(r, o)
		if err != nil {
			return nil, err
		}
		res.bands = append(res.bands, b)
	}
	if *budget -= res.across * res.up; *budget < 0 {
		return nil, ErrUnsupported
	}
	for k := range res.across * res.up {
		if err := c.newPrecinct(t, res, r, k, budget); err != nil {
			return nil, err
		}
	}
	return res, nil
}

// newBand computes a subband's place (B-15) and quantization (E-3, E-5).
func (c *tileComp) newBand(r, orient int) (*band, error) {
	level := c.coding.levels
	if r > 0 {
		level += 1 - r
	}
	shift := func(v, high int) int {
		if high != 0 && level > 0 {
			v -= 1 << (level - 1)
		}
		return ceilShift(v, level)
	}
	hx, hy := orient&1, orient>>1
	b := &band{orient: orient, rect: rect{shift(c.x0, hx), shift(c.y0, hy), shift(c.x1, hx), shift(c.y1, hy)}}
	index := 0
	if r > 0 {
		index = 3*r - 3 + orient
	}
	steps := c.coding.steps
	exponent, mantissa := 0, 0
	if c.coding.quantStyle == 1 {
		exponent, mantissa = int(steps[0]>>11)+level-c.coding.levels, int(steps[0]&0x7ff)
	} else {
		if index >= len(steps) {
			return nil, ErrFormat
		}
		exponent, mantissa = int(steps[index]>>11), int(steps[index]&0x7ff)
	}
	b.planes = exponent + c.coding.guard - 1
	if b.planes < 0 || b.planes+c.coding.region > 29 {
		return nil, ErrFormat
	}
	gain := hx + hy // log2 of the subband's nominal gain
	b.step = (1 + float32(mantissa)/2048) * float32(math.Ldexp(1, c.info.depth+gain-exponent))
	if !b.empty() {
		if c.coding.reversible {
			b.ints = make([]int32, b.w()*b.h())
		} else {
			b.reals = make([]float32, b.w()*b.h())
		}
	}
	return b, nil
}

// newPrecinct lays out precinct k of a resolution.
func (c *tileComp) newPrecinct(t *tile, res *resolution, r, k int, budget *int) error {
	px, py := res.x0>>res.pw+k%res.across, res.y0>>res.ph+k/res.across
	down := c.coding.levels - r
	p := &precinct{
		x: max(px<<(res.pw+down)*c.info.dx, t.x0),
		y: max(py<<(res.ph+down)*c.info.dy, t.y0),
	}
	half := 1 // precincts of detail subbands are half as large as on their resolution
	if r == 0 {
		half = 0
	}
	pw, ph := res.pw-half, res.ph-half
	cw, ch := min(c.coding.cbw, pw), min(c.coding.cbh, ph)
	for _, b := range res.bands {
		area := rect{max(b.x0, px<<pw), max(b.y0, py<<ph), min(b.x1, (px+1)<<pw), min(b.y1, (py+1)<<ph)}
		part := &bandPart{band: b}
		if !area.empty() {
			part.across = ceilShift(area.x1, cw) - area.x0>>cw
			part.down = ceilShift(area.y1, ch) - area.y0>>ch
		}
		if *budget -= part.across * part.down; *budget < 0 {
			return ErrUnsupported
		}
		for i := range part.across * part.down {
			x, y := (area.x0>>cw+i%part.across)<<cw, (area.y0>>ch+i/part.across)<<ch
			part.blocks = append(part.blocks, &codeBlock{lblock: 3,
				rect: rect{max(x, area.x0), max(y, area.y0), min(x+1<<cw, area.x1), min(y+1<<ch, area.y1)}})
		}
		part.included, part.top = newTagTree(part.across, part.down), newTagTree(part.across, part.down)
		p.parts = append(p.parts, part)
	}
	res.precincts = append(res.precincts, p)
	return nil
}
