package jpeg2000

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// ErrFormat reports a stream that is no JPEG 2000 image or is broken.
var ErrFormat = errors.New("jpeg2000: broken stream")

// ErrUnsupported reports a feature this package does not decode.
var ErrUnsupported = errors.New("jpeg2000: unsupported feature")

// The markers of a codestream (table A.2).
const (
	mSOC = 0xff4f
	mSIZ = 0xff51
	mCOD = 0xff52
	mCOC = 0xff53
	mPPM = 0xff60
	mPPT = 0xff61
	mQCD = 0xff5c
	mQCC = 0xff5d
	mRGN = 0xff5e
	mPOC = 0xff5f
	mSOT = 0xff90
	mSOP = 0xff91
	mEPH = 0xff92
	mSOD = 0xff93
	mEOC = 0xffd9
)

// sizeInfo is the reference grid, the tiles on it and the components (A.5.1).
type sizeInfo struct {
	x0, y0, x1, y1     int // the image
	tx0, ty0, tw, th   int // the first tile
	acrossTiles, tiles int
	comps              []compInfo
}

type compInfo struct {
	depth  int
	dx, dy int // grid points per sample
}

// coding is a component's coding style (A.6.1) and quantization (A.6.4).
type coding struct {
	levels         int // of decomposition
	cbw, cbh       int // log2 of the code-block size
	style          int
	reversible     bool
	precincts      []byte // per resolution: log2 width, log2 height << 4
	quantStyle     int    // 0 none, 1 derived, 2 expounded
	guard          int
	steps          []uint16 // exponent << 11 | mantissa
	region         int      // up-shift of the region of interest
	ownCod, ownQcd bool     // set by COC, QCC: COD, QCD of the same header do not change it
}

// params are the styles of a tile; those of the main header are every tile's start.
type params struct {
	order    int
	layers   int
	multi    bool // color transform of the first three components
	sop, eph bool
	comps    []coding
	changes  []change
}

// change is one entry of a POC marker: a volume of packets and its order.
type change struct {
	res0, res1, comp0, comp1, layer1, order int
}

func (p *params) clone() *params {
	q := *p
	q.comps = append([]coding(nil), p.comps...)
	for i := range q.comps { // a tile's COD and QCD win over the COC and QCC of the main header
		q.comps[i].ownCod, q.comps[i].ownQcd = false, false
	}
	q.changes = append([]change(nil), p.changes...)
	return &q
}

// tileData is what the tile parts of one tile hold.
type tileData struct {
	params *params
	data   []byte
}

// codestream is a parsed codestream, packets not yet read.
type codestream struct {
	size  sizeInfo
	main  params
	tiles map[int]*tileData
}

// maxTiles and maxComps bound what a file may ask for. Up to 256 components have indices of one byte.
const (
	maxTiles = 1 << 14
	maxComps = 16
)

func be16(b []byte) int { return int(binary.BigEndian.Uint16(b)) }
func be32(b []byte) int { return int(binary.BigEndian.Uint32(b)) }

// parseCodestream reads all markers. With headerOnly it stops at the first tile.
func parseCodestream(data []byte, headerOnly bool) (*codestream, error) {
	if len(data) < 4 || be16(data) != mSOC {
		return nil, ErrFormat
	}
	cs := &codestream{tiles: map[int]*tileData{}}
	pos := 2
	for {
		if pos+4 > len(data) {
			return cs.finish()
		}
		marker := be16(data[pos:])
		if marker == mEOC {
			return cs.finish()
		}
		n := be16(data[pos+2:])
		if n < 2 || pos+2+n > len(data) {
			return nil, ErrFormat
		}
		seg := data[pos+4 : pos+2+n]
		if marker == mSOT {
			if headerOnly {
				return cs, nil
			}
			next, err := cs.tilePart(data, pos, seg)
			if err != nil {
				return nil, err
			}
			pos = next
			continue
		}
		if err := cs.apply(&cs.main, marker, seg); err != nil {
			return nil, err
		}
		pos += 2 + n
	}
}

func (cs *codestream) finish() (*codestream, error) {
	if len(cs.tiles) == 0 {
		return nil, ErrFormat
	}
	return cs, nil
}

// apply reads a marker segment of the main or a tile-part header.
func (cs *codestream) apply(p *params, marker int, seg []byte) error {
	if cs.size.comps == nil && marker != mSIZ {
		return ErrFormat
	}
	switch marker {
	case mSIZ:
		return cs.sizes(seg)
	case mCOD:
		return p.cod(seg)
	case mQCD:
		var q coding
		if err := q.quantization(seg); err != nil {
			return err
		}
		for i := range p.comps {
			if c := &p.comps[i]; !c.ownQcd {
				c.quantStyle, c.guard, c.steps = q.quantStyle, q.guard, q.steps
			}
		}
	case mCOC, mQCC, mRGN:
		if len(seg) < 2 || int(seg[0]) >= len(p.comps) {
			return ErrFormat
		}
		c, rest := &p.comps[seg[0]], seg[1:]
		switch marker {
		case mCOC:
			c.ownCod = true
			return c.style0(rest[1:], rest[0]&1 != 0)
		case mQCC:
			c.ownQcd = true
			return c.quantization(rest)
		default:
			if len(rest) < 2 || rest[0] != 0 || rest[1] > 30 {
				return ErrFormat
			}
			c.region = int(rest[1])
		}
	case mPOC:
		return p.poc(seg)
	case mPPM, mPPT:
		return fmt.Errorf("%w: packed packet headers", ErrUnsupported)
	}
	return nil
}

// sizes reads SIZ.
func (cs *codestream) sizes(seg []byte) error {
	if len(seg) < 36 || cs.size.comps != nil {
		return ErrFormat
	}
	s := &cs.size
	s.x1, s.y1, s.x0, s.y0 = be32(seg[2:]), be32(seg[6:]), be32(seg[10:]), be32(seg[14:])
	s.tw, s.th, s.tx0, s.ty0 = be32(seg[18:]), be32(seg[22:]), be32(seg[26:]), be32(seg[30:])
	n := be16(seg[34:])
	if s.x0 >= s.x1 || s.y0 >= s.y1 || s.tw == 0 || s.th == 0 || s.tx0 > s.x0 || s.ty0 > s.y0 || s.tx0+s.tw <= s.x0 || s.ty0+s.th <= s.y0 {
		return ErrFormat
	}
	if n < 1 || n > maxComps || len(seg) < 36+3*n {
		return fmt.Errorf("%w: %d components", ErrUnsupported, n)
	}
	s.acrossTiles = ceilDiv(s.x1-s.tx0, s.tw)
	if down := ceilDiv(s.y1-s.ty0, s.th); s.acrossTiles > maxTiles || down > maxTiles {
		return fmt.Errorf("%w: more than %d tiles", ErrUnsupported, maxTiles)
	} else if s.tiles = s.acrossTiles * down; s.tiles > maxTiles {
		return fmt.Errorf("%w: %d tiles", ErrUnsupported, s.tiles)
	}
	for i := range n {
		c := seg[36+3*i:]
		info := compInfo{depth: int(c[0]&0x7f) + 1, dx: int(c[1]), dy: int(c[2])}
		if info.depth > 24 || info.dx == 0 || info.dy == 0 {
			return fmt.Errorf("%w: %d bits", ErrUnsupported, info.depth)
		}
		s.comps = append(s.comps, info)
	}
	cs.main.comps = make([]coding, n)
	return nil
}

// cod reads COD: order, layers, color transform and the style of all components.
func (p *params) cod(seg []byte) error {
	if len(seg) < 10 {
		return ErrFormat
	}
	p.sop, p.eph = seg[0]&2 != 0, seg[0]&4 != 0
	p.order, p.layers, p.multi = int(seg[1]), be16(seg[2:]), seg[4] != 0
	if p.order > 4 || p.layers == 0 {
		return ErrFormat
	}
	for i := range p.comps {
		c := &p.comps[i]
		if c.ownCod {
			continue
		}
		if err := c.style0(seg[5:], seg[0]&1 != 0); err != nil {
			return err
		}
	}
	return nil
}

// style0 reads the part of COD and COC about one component.
func (c *coding) style0(seg []byte, precincts bool) error {
	if len(seg) < 5 {
		return ErrFormat
	}
	c.levels, c.cbw, c.cbh, c.style = int(seg[0]), int(seg[1]&15)+2, int(seg[2]&15)+2, int(seg[3])
	c.reversible = seg[4] == 1
	if c.levels > 32 || c.cbw > 10 || c.cbh > 10 || c.cbw+c.cbh > 12 || seg[4] > 1 {
		return ErrFormat
	}
	c.precincts = make([]byte, c.levels+1)
	for r := range c.precincts {
		c.precincts[r] = 0xff
		if precincts {
			if len(seg) < 6+r || r > 0 && (seg[5+r]&15 == 0 || seg[5+r]>>4 == 0) {
				return ErrFormat
			}
			c.precincts[r] = seg[5+r]
		}
	}
	return nil
}

// quantization reads the part of QCD and QCC about one component.
func (c *coding) quantization(seg []byte) error {
	if len(seg) < 2 {
		return ErrFormat
	}
	c.quantStyle, c.guard, c.steps = int(seg[0]&31), int(seg[0]>>5), nil
	rest := seg[1:]
	switch c.quantStyle {
	case 0:
		for _, b := range rest {
			c.steps = append(c.steps, uint16(b>>3)<<11)
		}
	case 1, 2:
		for ; len(rest) >= 2; rest = rest[2:] {
			c.steps = append(c.steps, uint16(be16(rest)))
		}
	}
	if len(c.steps) == 0 || c.quantStyle > 2 {
		return ErrFormat
	}
	return nil
}

// poc reads changes of the progression order.
func (p *params) poc(seg []byte) error {
	const size = 7
	if len(seg) == 0 || len(seg)%size != 0 {
		return ErrFormat
	}
	for ; len(seg) > 0; seg = seg[size:] {
		c := change{res0: int(seg[0]), comp0: int(seg[1]), layer1: be16(seg[2:]), res1: int(seg[4]), comp1: int(seg[5]), order: int(seg[6])}
		if c.comp1 == 0 {
			c.comp1 = len(p.comps)
		}
		if c.order > 4 {
			return ErrFormat
		}
		p.changes = append(p.changes, c)
	}
	return nil
}

// tilePart reads one tile part, whose SOT is at pos, and returns where the next
// marker is.
func (cs *codestream) tilePart(data []byte, pos int, sot []byte) (int, error) {
	if len(sot) < 8 || cs.size.comps == nil {
		return 0, ErrFormat
	}
	index, length := be16(sot), be32(sot[2:])
	end := pos + length
	if length == 0 || end > len(data) { // the last one may reach to the end
		end = len(data)
	}
	if index >= cs.size.tiles || end < pos+12 {
		return 0, ErrFormat
	}
	t := cs.tiles[index]
	if t == nil {
		t = &tileData{params: cs.main.clone()}
		cs.tiles[index] = t
	}
	at := pos + 12
	for first := true; ; first = false {
		if at+2 > end {
			return 0, ErrFormat
		}
		marker := be16(data[at:])
		if marker == mSOD {
			break
		}
		if at+4 > end || at+2+be16(data[at+2:]) > end || be16(data[at+2:]) < 2 {
			return 0, ErrFormat
		}
		n := be16(data[at+2:])
		if marker == mPOC && first && len(t.data) == 0 {
			t.params.changes = nil // a tile's own changes replace the main ones
		}
		if err := cs.apply(t.params, marker, data[at+4:at+2+n]); err != nil {
			return 0, err
		}
		at += 2 + n
	}
	body := data[at+2 : end]
	if length == 0 && len(body) >= 2 && be16(body[len(body)-2:]) == mEOC {
		body = body[:len(body)-2]
	}
	t.data = append(t.data, body...)
	return end, nil
}

// ceilDiv is ceil(a / b) of numbers that are not negative.
func ceilDiv(a, b int) int { return (a + b - 1) / b }

// ceilShift is ceil(a / 2^n).
func ceilShift(a, n int) int { return -(-a >> n) }
