package jpeg

import (
	"errors"
	"fmt"
)

// ErrFormat reports a stream that is no JPEG or is broken.
var ErrFormat = errors.New("jpeg: broken stream")

// ErrUnsupported reports a JPEG of a kind this package does not decode
// (arithmetic coding, lossless, 12 bits).
var ErrUnsupported = errors.New("jpeg: unsupported kind")

// component is one color plane.
type component struct {
	id         byte
	h, v       int // sampling factors
	quant      byte
	wide, high int     // blocks, padded to whole units
	coef       []int16 // 64 coefficients per block, natural order
	dc         int32   // predictor
	dcTable    byte
	acTable    byte
	plane      []byte // samples, wide*8 per row
}

// decoder is the state of one image.
type decoder struct {
	data          []byte
	pos           int
	width, height int
	progressive   bool
	comps         []*component
	hmax, vmax    int
	quant         [4][64]int32
	huff          [2][4]*huffman
	restart       int
	adobe         int // transform of the Adobe marker, -1 without one
	done          bool
	look          func()
}

// blocksPerLook is how many blocks are decoded between two calls of look.
const blocksPerLook = 256

// The markers.
const (
	mSOF0 = 0xc0
	mSOF1 = 0xc1
	mSOF2 = 0xc2
	mDHT  = 0xc4
	mRST0 = 0xd0
	mRST7 = 0xd7
	mSOI  = 0xd8
	mEOI  = 0xd9
	mSOS  = 0xda
	mDQT  = 0xdb
	mDRI  = 0xdd
	mAPPE = 0xee
	mTEM  = 0x01
)

// zigzag is the place of the k-th coefficient of a block.
var zigzag = [64]byte{
	0, 1, 8, 16, 9, 2, 3, 10, 17, 24, 32, 25, 18, 11, 4, 5,
	12, 19, 26, 33, 40, 48, 41, 34, 27, 20, 13, 6, 7, 14, 21, 28,
	35, 42, 49, 56, 57, 50, 43, 36, 29, 22, 15, 23, 30, 37, 44, 51,
	58, 59, 52, 45, 38, 31, 39, 46, 53, 60, 61, 54, 47, 55, 62, 63,
}

// parse reads the markers of the stream and decodes its scans.
func (d *decoder) parse() error {
	if len(d.data) < 2 || d.data[0] != 0xff || d.data[1] != mSOI {
		return ErrFormat
	}
	d.pos = 2
	for {
		marker, err := d.marker()
		if err != nil {
			if d.done { // a missing end marker is common
				return nil
			}
			return err
		}
		switch {
		case marker == mEOI:
			return nil
		case marker >= mRST0 && marker <= mRST7 || marker == mTEM || marker == mSOI:
			continue
		}
		seg, err := d.segment()
		if err != nil {
			return err
		}
		if err := d.apply(marker, seg); err != nil {
			return err
		}
	}
}

// marker skips to the next marker.
func (d *decoder) marker() (byte, error) {
	for d.pos+1 < len(d.data) {
		if d.data[d.pos] == 0xff && d.data[d.pos+1] != 0 && d.data[d.pos+1] != 0xff {
			d.pos += 2
			return d.data[d.pos-1], nil
		}
		d.pos++
	}
	return 0, ErrFormat
}

// segment reads the parameters that follow a marker.
func (d *decoder) segment() ([]byte, error) {
	if d.pos+2 > len(d.data) {
		return nil, ErrFormat
	}
	n := int(d.data[d.pos])<<8 | int(d.data[d.pos+1])
	if n < 2 || d.pos+n > len(d.data) {
		return nil, ErrFormat
	}
	seg := d.data[d.pos+2 : d.pos+n]
	d.pos += n
	return seg, nil
}

func (d *decoder) apply(marker byte, seg []byte) error {
	switch marker {
	case mSOF0, mSOF1, mSOF2:
		d.progressive = marker == mSOF2
		return d.frame(seg)
	case mDHT:
		return d.huffmanTables(seg)
	case mDQT:
		return d.quantTables(seg)
	case mDRI:
		if len(seg) < 2 {
			return ErrFormat
		}
		d.restart = int(seg[0])<<8 | int(seg[1])
	case mAPPE:
		if len(seg) >= 12 && string(seg[:5]) == "Adobe" {
			d.adobe = int(seg[11])
		}
	case mSOS:
		return d.scan(seg)
	default:
		if marker >= 0xc0 && marker <= 0xcf {
			return fmt.Errorf("%w: frame type %#x", ErrUnsupported, marker)
		}
	}
	return nil
}

// frame reads the image's size and components.
func (d *decoder) frame(seg []byte) error {
	if d.comps != nil || len(seg) < 6 {
		return ErrFormat
	}
	n := int(seg[5])
	if seg[0] != 8 || n != 1 && n != 3 && n != 4 {
		return fmt.Errorf("%w: %d bits, %d components", ErrUnsupported, seg[0], n)
	}
	d.height, d.width = int(seg[1])<<8|int(seg[2]), int(seg[3])<<8|int(seg[4])
	if d.height == 0 || d.width == 0 || len(seg) < 6+3*n {
		return ErrFormat
	}
	for i := range n {
		s := seg[6+3*i:]
		c := &component{id: s[0], h: int(s[1] >> 4), v: int(s[1] & 15), quant: s[2]}
		if c.h < 1 || c.h > 4 || c.v < 1 || c.v > 4 || c.quant > 3 {
			return ErrFormat
		}
		d.comps = append(d.comps, c)
		d.hmax, d.vmax = max(d.hmax, c.h), max(d.vmax, c.v)
	}
	if n == 1 { // a single component is not interleaved: its factors say nothing
		d.comps[0].h, d.comps[0].v, d.hmax, d.vmax = 1, 1, 1, 1
	}
	for _, c := range d.comps {
		c.wide = ceilDiv(d.width, 8*d.hmax) * c.h
		c.high = ceilDiv(d.height, 8*d.vmax) * c.v
		c.coef = make([]int16, c.wide*c.high*64)
	}
	return nil
}

func (d *decoder) quantTables(seg []byte) error {
	for len(seg) > 0 {
		wide, id := seg[0]>>4, seg[0]&15
		size := 1 + 64*(1+int(wide))
		if id > 3 || wide > 1 || len(seg) < size {
			return ErrFormat
		}
		for k, place := range zigzag {
			v := int32(seg[1+k])
			if wide == 1 {
				v = int32(seg[1+2*k])<<8 | int32(seg[2+2*k])
			}
			d.quant[id][place] = v
		}
		seg = seg[size:]
	}
	return nil
}

func ceilDiv(a, b int) int { return (a + b - 1) / b }
