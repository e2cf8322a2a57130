package jpeg2000

import (
	"cmp"
	"math/bits"
	"slices"
)

// tagTree codes a grid of numbers by minima (T.800, B.10.2): each level holds
// the minimum of 2x2 numbers of the level below, and a number is coded as how
// much it is above its parent.
//
//	1 3 2      1 2        1
//	2 1 4  ─▶  2 2   ─▶
//	2 2 2
type tagTree struct {
	levels []tagLevel
}

type tagLevel struct {
	w     int
	value []int // lower bound so far
	known []bool
}

func newTagTree(w, h int) *tagTree {
	t := &tagTree{}
	for w > 0 && h > 0 {
		t.levels = append(t.levels, tagLevel{w, make([]int, w*h), make([]bool, w*h)})
		if w == 1 && h == 1 {
			break
		}
		w, h = (w+1)/2, (h+1)/2
	}
	return t
}

// below decodes until it is known whether the number at x, y is below limit, and
// returns its lower bound and whether it is exact.
func (t *tagTree) below(b *packetBits, x, y, limit int) (int, bool, error) {
	low := 0
	for l := len(t.levels) - 1; l >= 0; l-- {
		lv := &t.levels[l]
		i := y>>l*lv.w + x>>l
		lv.value[i] = max(lv.value[i], low)
		for !lv.known[i] && lv.value[i] < limit {
			bit, err := b.bit()
			if err != nil {
				return 0, false, err
			}
			if bit == 1 {
				lv.known[i] = true
			} else {
				lv.value[i]++
			}
		}
		if low = lv.value[i]; l == 0 {
			return low, lv.known[i], nil
		}
	}
	return 0, false, ErrFormat
}

// packetBits reads the bits of a packet header; after a byte 0xff the next one
// holds seven bits.
type packetBits struct {
	data []byte
	pos  int
	n    int
	cur  byte
}

func (b *packetBits) bit() (int, error) {
	if b.n == 0 {
		if b.pos >= len(b.data) {
			return 0, ErrFormat
		}
		b.n = 8
		if b.cur == 0xff {
			b.n = 7
		}
		b.cur = b.data[b.pos]
		b.pos++
	}
	b.n--
	return int(b.cur>>b.n) & 1, nil
}

func (b *packetBits) take(n int) (int, error) {
	v := 0
	for range n {
		bit, err := b.bit()
		if err != nil {
			return 0, err
		}
		v = v<<1 | bit
	}
	return v, nil
}

// align goes to the next byte.
func (b *packetBits) align() {
	if b.cur == 0xff && b.pos < len(b.data) {
		b.pos++
	}
	b.n, b.cur = 0, 0
}

// packetAt names a precinct of a tile.
type packetAt struct {
	comp, res, index int
	p                *precinct
}

// readPackets decodes the headers of a tile's packets and assigns their bodies to code-blocks. A truncated tile gives what
// it holds.
func (t *tile) readPackets(data []byte, look func()) error {
	changes := t.params.changes
	if len(changes) == 0 {
		changes = []change{{res1: 33, comp1: len(t.comps), layer1: t.params.layers, order: t.params.order}}
	}
	for _, c := range changes {
		rest, err := t.readVolume(data, c, look)
		if err != nil || len(rest) == 0 {
			return err
		}
		data = rest
	}
	return nil
}

// packetsPerLook is how many packets are read between two calls of look.
const packetsPerLook = 256

// readVolume reads the packets of one progression volume.
func (t *tile) readVolume(data []byte, c change, look func()) ([]byte, error) {
	var at []packetAt
	for i := c.comp0; i < min(c.comp1, len(t.comps)); i++ {
		for r := c.res0; r < min(c.res1, len(t.comps[i].res)); r++ {
			for k, p := range t.comps[i].res[r].precincts {
				at = append(at, packetAt{i, r, k, p})
			}
		}
	}
	layers := min(c.layer1, t.params.layers)
	slices.SortStableFunc(at, func(a, b packetAt) int { return comparePackets(c.order, a, b) })
	if c.order > 1 { // all layers of a precinct follow each other
		for _, a := range at {
			look()
			for l := range layers {
				var err error
				if data, err = t.readPacket(data, a, l); err != nil || len(data) == 0 {
					return nil, err
				}
			}
		}
		return data, nil
	}
	return t.readByLayer(data, at, layers, c.order, look)
}

// readByLayer reads in the orders whose layers are an outer loop: of everything
// (LRCP), or of each resolution (RLCP).
func (t *tile) readByLayer(data []byte, at []packetAt, layers, order int, look func()) ([]byte, error) {
	for len(at) > 0 {
		group := at
		if order == 1 {
			k := slices.IndexFunc(at, func(a packetAt) bool { return a.res != at[0].res })
			if k > 0 {
				group = at[:k]
			}
		}
		for l := range layers {
			for i, a := range group {
				if i%packetsPerLook == 0 {
					look()
				}
				var err error
				if data, err = t.readPacket(data, a, l); err != nil || len(data) == 0 {
					return nil, err
				}
			}
		}
		at = at[len(group):]
	}
	return data, nil
}

// comparePackets sorts precincts by a progression order (B.12.1): 0 LRCP, 1 RLCP,
// 2 RPCL, 3 PCRL, 4 CPRL.
func comparePackets(order int, a, b packetAt) int {
	res, comp := cmp.Compare(a.res, b.res), cmp.Compare(a.comp, b.comp)
	place := cmp.Or(cmp.Compare(a.p.y, b.p.y), cmp.Compare(a.p.x, b.p.x))
	index := cmp.Compare(a.index, b.index)
	switch order {
	case 2:
		return cmp.Or(res, place, comp, index)
	case 3:
		return cmp.Or(place, comp, res, index)
	case 4:
		return cmp.Or(comp, place, res, index)
	}
	return cmp.Or(res, comp, index)
}

// contribution is what a packet adds to a code-block.
type contribution struct {
	block  *codeBlock
	seg    int
	length int
}

// readPacket reads one packet unless an earlier volume had it; it returns the
// data after it.
func (t *tile) readPacket(data []byte, a packetAt, layer int) ([]byte, error) {
	if a.p.layers != layer {
		return data, nil
	}
	a.p.layers++
	if t.params.sop && len(data) >= 6 && be16(data) == mSOP {
		data = data[6:]
	}
	b := &packetBits{data: data}
	style := t.comps[a.comp].coding.style
	adds, err := a.p.header(b, layer, style, t.comps[a.comp].coding.region)
	if err != nil {
		return nil, nil // the stream ends here: what was decoded stays
	}
	b.align()
	data = data[b.pos:]
	if t.params.eph && len(data) >= 2 && be16(data) == mEPH {
		data = data[2:]
	}
	for _, c := range adds {
		n := min(c.length, len(data))
		s := &c.block.segs[c.seg]
		s.data = append(s.data, data[:n]...)
		data = data[n:]
	}
	return data, nil
}

// header reads a packet header (B.10).
func (p *precinct) header(b *packetBits, layer, style, region int) ([]contribution, error) {
	some, err := b.bit()
	if err != nil || some == 0 {
		return nil, err
	}
	var adds []contribution
	for _, part := range p.parts {
		for i, cb := range part.blocks {
			in, err := part.inclusion(b, cb, i, layer, region)
			if err != nil {
				return nil, err
			}
			if !in {
				continue
			}
			if adds, err = cb.lengths(b, style, adds); err != nil {
				return nil, err
			}
		}
	}
	return adds, nil
}

// inclusion tells whether block i takes part in the packet; the first time it
// also reads how many bit planes are missing.
func (part *bandPart) inclusion(b *packetBits, cb *codeBlock, i, layer, region int) (bool, error) {
	if cb.seen {
		bit, err := b.bit()
		return bit == 1, err
	}
	x, y := i%part.across, i/part.across
	first, exact, err := part.included.below(b, x, y, layer+1)
	if err != nil || !exact || first > layer {
		return false, err
	}
	most := part.band.planes + region
	for limit := 1; ; limit++ {
		missing, exact, err := part.top.below(b, x, y, limit)
		if err != nil {
			return false, err
		}
		if exact {
			cb.planes, cb.seen = most-missing, true
			return true, nil
		}
		if limit > most+1 {
			return false, ErrFormat
		}
	}
}

// passCount reads a number of coding passes (table B.4).
func passCount(b *packetBits) (int, error) {
	for _, step := range []struct{ bits, base int }{{1, 1}, {1, 2}, {2, 3}, {5, 6}, {7, 37}} {
		v, err := b.take(step.bits)
		if err != nil {
			return 0, err
		}
		if all := 1<<step.bits - 1; v < all || step.bits == 7 {
			return step.base + v, nil
		}
	}
	return 0, ErrFormat
}

// lengths reads how many passes and bytes a block gets, segment by segment.
func (cb *codeBlock) lengths(b *packetBits, style int, adds []contribution) ([]contribution, error) {
	passes, err := passCount(b)
	if err != nil {
		return nil, err
	}
	for {
		bit, err := b.bit()
		if err != nil {
			return nil, err
		}
		if bit == 0 {
			break
		}
		if cb.lblock++; cb.lblock > 32 {
			return nil, ErrFormat
		}
	}
	for passes > 0 {
		if k := len(cb.segs); k == 0 || cb.segs[k-1].passes == cb.segs[k-1].most {
			cb.segs = append(cb.segs, segment{most: cb.nextSegment(style)})
		}
		s := &cb.segs[len(cb.segs)-1]
		n := min(passes, s.most-s.passes)
		length, err := b.take(cb.lblock + bits.Len(uint(n)) - 1)
		if err != nil {
			return nil, err
		}
		s.passes += n
		passes -= n
		adds = append(adds, contribution{cb, len(cb.segs) - 1, length})
	}
	return adds, nil
}

// nextSegment is how many passes the next segment can take. With bypass the
// first ten are coded, then two raw and one coded pass alternate.
func (cb *codeBlock) nextSegment(style int) int {
	switch {
	case style&styleTermAll != 0:
		return 1
	case style&styleBypass == 0:
		return 1 << 20
	case len(cb.segs) == 0:
		return 10
	case cb.segs[len(cb.segs)-1].most == 2:
		return 1
	}
	return 2
}
