package jpeg

// huffman decodes the codes of one table (ITU-T T.81, annex C and F.2.2.3):
// codes of length n are consecutive numbers from first[n] on.
type huffman struct {
	first, count [17]int
	offset       [17]int // where the values of length n start
	values       []byte
}

func (d *decoder) huffmanTables(seg []byte) error {
	for len(seg) > 0 {
		if len(seg) < 17 {
			return ErrFormat
		}
		class, id := seg[0]>>4, seg[0]&15
		h := &huffman{}
		code, total := 0, 0
		for n := 1; n <= 16; n++ {
			h.first[n], h.count[n], h.offset[n] = code, int(seg[n]), total
			total += int(seg[n])
			code = (code + int(seg[n])) << 1
		}
		if class > 1 || id > 3 || total > 256 || len(seg) < 17+total {
			return ErrFormat
		}
		h.values = seg[17 : 17+total]
		d.huff[class][id] = h
		seg = seg[17+total:]
	}
	return nil
}

// bits reads the entropy-coded data of a scan: a zero byte after 0xff is
// stuffing, any other byte a marker, at which the data ends. A few bytes may be
// missing there; they count as zeros.
type bits struct {
	data []byte
	pos  int
	acc  uint32
	n    int // bits in acc
	over int // bytes made up past the end
}

// maxOver is how many bytes may be missing in a scan.
const maxOver = 4

func (b *bits) fill(need int) error {
	for b.n < need {
		var next byte
		switch {
		case b.pos >= len(b.data), b.data[b.pos] == 0xff && (b.pos+1 >= len(b.data) || b.data[b.pos+1] != 0):
			if b.over++; b.over > maxOver {
				return ErrFormat
			}
		case b.data[b.pos] == 0xff:
			next = 0xff
			b.pos += 2
		default:
			next = b.data[b.pos]
			b.pos++
		}
		b.acc = b.acc<<8 | uint32(next)
		b.n += 8
	}
	return nil
}

// take reads n bits, at most 16.
func (b *bits) take(n int) (int32, error) {
	if n == 0 {
		return 0, nil
	}
	if err := b.fill(n); err != nil {
		return 0, err
	}
	b.n -= n
	return int32(b.acc>>b.n) & (1<<n - 1), nil
}

// value reads n bits as a signed number: those below half of the range are
// negative (F.2.2.1, EXTEND).
func (b *bits) value(n int) (int32, error) {
	v, err := b.take(n)
	if n > 0 && v < 1<<(n-1) {
		v -= 1<<n - 1
	}
	return v, err
}

// symbol reads one code.
func (b *bits) symbol(h *huffman) (byte, error) {
	if h == nil {
		return 0, ErrFormat
	}
	code := 0
	for n := 1; n <= 16; n++ {
		bit, err := b.take(1)
		if err != nil {
			return 0, err
		}
		code = code<<1 | int(bit)
		if k := code - h.first[n]; k >= 0 && k < h.count[n] {
			return h.values[h.offset[n]+k], nil
		}
	}
	return 0, ErrFormat
}

// restart drops the bits up to the next restart marker and steps over it.
func (b *bits) restart() {
	b.acc, b.n = 0, 0
	for p := b.pos; p+1 < len(b.data); p++ {
		if b.data[p] == 0xff && b.data[p+1] != 0 && b.data[p+1] != 0xff {
			if m := b.data[p+1]; m >= mRST0 && m <= mRST7 {
				b.pos = p + 2
			}
			return
		}
	}
}
