package jpeg2000

// A code-block's coefficients are decoded bit plane by bit plane, from the top
// (T.800, annex D). Three passes go over each plane; every coefficient takes part
// in one of them:
//
//	significance  zeros with a neighbour that is not zero
//	refinement    coefficients that are not zero already
//	cleanup       all others (the only pass of the first plane)
//
// A pass goes in stripes of four rows, column by column:
//
//	1  5  9 …
//	2  6 10
//	3  7 11
//	4  8 12
//	-- next stripe
//
// Values are kept with one bit below the lowest plane, so that the middle of the
// interval that is still open can be stored.

// The code-block styles (table A.19).
const (
	styleBypass  = 1 << iota // raw bits in low planes
	styleReset               // contexts start anew with every pass
	styleTermAll             // every pass is a segment of its own
	styleCausal              // the next stripe does not count as neighbour
	stylePredict             // predictable termination: helps only error detection
	styleSymbols             // four known symbols end every cleanup pass
)

// segment is a run of passes coded together.
type segment struct {
	data   []byte
	passes int
	most   int // how many passes it can take
}

// The flags of a coefficient.
const (
	significant = 1 << iota
	negative
	visited // by the significance pass of this plane
	refined
)

// blockDecoder decodes code-blocks; its buffers are reused.
type blockDecoder struct {
	mq
	w, h   int
	stride int
	flags  []uint8 // with a border of one
	value  []int32
	orient int
	style  int
	raw    bool
	look   func()
}

// decodeBlock decodes the segments of a block with the given number of bit planes.
func (b *blockDecoder) decodeBlock(w, h, orient, style, planes int, segs []segment) {
	b.w, b.h, b.stride, b.orient, b.style = w, h, w+2, orient, style
	b.flags = make([]uint8, (w+2)*(h+2))
	b.value = make([]int32, w*h)
	b.resetContexts()
	plane, pass := planes, 2
	for _, s := range segs {
		b.raw = style&styleBypass != 0 && plane <= planes-4 && pass < 2
		b.mq.start(s.data)
		if b.raw {
			b.mq.pos = 0
		}
		for range s.passes {
			if plane < 1 {
				return
			}
			b.pass(pass, int32(1)<<plane)
			if style&styleReset != 0 {
				b.resetContexts()
			}
			if pass++; pass == 3 {
				pass, plane = 0, plane-1
			}
		}
	}
}

// pass runs one pass over a plane; one is the plane's bit.
func (b *blockDecoder) pass(kind int, one int32) {
	for top := 0; top < b.h; top += 4 {
		rows := min(4, b.h-top)
		for x := range b.w {
			switch kind {
			case 0:
				b.significance(x, top, rows, one)
			case 1:
				b.refinement(x, top, rows, one)
			case 2:
				b.cleanup(x, top, rows, one)
			}
		}
	}
	if kind == 2 && b.style&styleSymbols != 0 {
		for range 4 {
			b.decode(ctxUniform)
		}
	}
}

// neighbours counts significant neighbours: horizontal, vertical, diagonal.
func (b *blockDecoder) neighbours(x, y int) (h, v, d int) {
	p := (y+1)*b.stride + x + 1
	f := b.flags
	h = int(f[p-1]&1 + f[p+1]&1)
	v = int(f[p-b.stride] & 1)
	d = int(f[p-b.stride-1]&1 + f[p-b.stride+1]&1)
	if b.style&styleCausal == 0 || y%4 != 3 {
		v += int(f[p+b.stride] & 1)
		d += int(f[p+b.stride-1]&1 + f[p+b.stride+1]&1)
	}
	return h, v, d
}

// significanceContext is table D.1.
func (b *blockDecoder) significanceContext(x, y int) int {
	h, v, d := b.neighbours(x, y)
	if b.orient == bandHH {
		hv := h + v
		switch {
		case d >= 3:
			return 8
		case d == 2:
			return 6 + min(hv, 1)
		case d == 1:
			return 3 + min(hv, 2)
		}
		return min(hv, 2)
	}
	if b.orient == bandHL {
		h, v = v, h
	}
	switch {
	case h == 2:
		return 8
	case h == 1 && v > 0:
		return 7
	case h == 1:
		return 5 + min(d, 1)
	case v > 0:
		return 2 + v
	}
	return min(d, 2)
}

// signOf is +1, -1 or 0 for a neighbour that is significant or not.
func (b *blockDecoder) signOf(p int) int {
	switch b.flags[p] & (significant | negative) {
	case significant:
		return 1
	case significant | negative:
		return -1
	}
	return 0
}

// becomeSignificant decodes the sign of a coefficient and sets its value
// (tables D.2 and D.3).
func (b *blockDecoder) becomeSignificant(x, y int, one int32) {
	p := (y+1)*b.stride + x + 1
	var sign uint8
	if b.raw {
		sign = b.rawBit()
	} else {
		h := b.signOf(p-1) + b.signOf(p+1)
		v := b.signOf(p - b.stride)
		if b.style&styleCausal == 0 || y%4 != 3 {
			v += b.signOf(p + b.stride)
		}
		h, v = min(max(h, -1), 1), min(max(v, -1), 1)
		var flip uint8
		if h < 0 || h == 0 && v < 0 {
			h, v, flip = -h, -v, 1
		}
		sign = b.decode(ctxSign+3*h+v) ^ flip
	}
	b.flags[p] |= significant | sign*negative
	v := one | one>>1
	if sign == 1 {
		v = -v
	}
	b.value[y*b.w+x] = v
}

func (b *blockDecoder) significance(x, top, rows int, one int32) {
	for y := top; y < top+rows; y++ {
		p := (y+1)*b.stride + x + 1
		if b.flags[p]&significant != 0 {
			continue
		}
		ctx := b.significanceContext(x, y)
		if ctx == 0 {
			continue
		}
		b.flags[p] |= visited
		bit := uint8(0)
		if b.raw {
			bit = b.rawBit()
		} else {
			bit = b.decode(ctx)
		}
		if bit == 1 {
			b.becomeSignificant(x, y, one)
		}
	}
}

func (b *blockDecoder) refinement(x, top, rows int, one int32) {
	for y := top; y < top+rows; y++ {
		p := (y+1)*b.stride + x + 1
		if b.flags[p]&(significant|visited) != significant {
			continue
		}
		var bit uint8
		if b.raw {
			bit = b.rawBit()
		} else {
			ctx := ctxRefine + 2
			if b.flags[p]&refined == 0 {
				ctx = ctxRefine
				if h, v, d := b.neighbours(x, y); h+v+d > 0 {
					ctx++
				}
			}
			bit = b.decode(ctx)
		}
		b.flags[p] |= refined
		step := one >> 1 // the open interval halves: up for a one, down for a zero
		if (bit == 1) == (b.flags[p]&negative != 0) {
			step = -step
		}
		b.value[y*b.w+x] += step
	}
}

func (b *blockDecoder) cleanup(x, top, rows int, one int32) {
	y := top
	if rows == 4 && b.quiet(x, top) {
		if b.decode(ctxRun) == 0 {
			return
		}
		y += int(b.decode(ctxUniform)<<1 | b.decode(ctxUniform))
		b.becomeSignificant(x, y, one)
		y++
	}
	for ; y < top+rows; y++ {
		p := (y+1)*b.stride + x + 1
		if b.flags[p]&(significant|visited) == 0 && b.decode(b.significanceContext(x, y)) == 1 {
			b.becomeSignificant(x, y, one)
		}
	}
	for y := top; y < top+rows; y++ {
		b.flags[(y+1)*b.stride+x+1] &^= visited
	}
}

// quiet reports a column of four coefficients without significance in or around
// it, none visited: it is coded as a run.
func (b *blockDecoder) quiet(x, top int) bool {
	for y := top; y < top+4; y++ {
		if b.flags[(y+1)*b.stride+x+1]&(significant|visited) != 0 || b.significanceContext(x, y) != 0 {
			return false
		}
	}
	return true
}
