package jpeg

// scan is one pass over the image (ITU-T T.81, annex F and G): coefficients from
// lo to hi of some components, from bit ah down to bit al. A sequential image
// has all coefficients in one pass; a progressive one sends low frequencies and
// high bits first.
type scan struct {
	*decoder
	bits
	comps          []*component
	lo, hi, ah, al int
	run            int // blocks without coefficients still to come (end of band)
}

func (d *decoder) scan(seg []byte) error {
	if d.comps == nil || len(seg) < 1 || len(seg) < 4+2*int(seg[0]) || seg[0] < 1 || seg[0] > 4 {
		return ErrFormat
	}
	s := &scan{decoder: d, bits: bits{data: d.data, pos: d.pos}}
	n := int(seg[0])
	for i := range n {
		c := d.component(seg[1+2*i])
		if c == nil || seg[2+2*i]>>4 > 3 || seg[2+2*i]&15 > 3 {
			return ErrFormat
		}
		c.dcTable, c.acTable = seg[2+2*i]>>4, seg[2+2*i]&15
		s.comps = append(s.comps, c)
	}
	tail := seg[1+2*n:]
	s.lo, s.hi, s.ah, s.al = int(tail[0]), int(tail[1]), int(tail[2]>>4), int(tail[2]&15)
	if !d.progressive {
		s.lo, s.hi, s.ah, s.al = 0, 63, 0, 0
	}
	if s.lo > s.hi || s.hi > 63 || s.al > 13 || d.progressive && s.lo == 0 && s.hi != 0 || s.lo > 0 && n != 1 {
		return ErrFormat
	}
	err := s.blocks()
	d.pos, d.done = s.bits.pos, true
	return err
}

func (d *decoder) component(id byte) *component {
	for _, c := range d.comps {
		if c.id == id {
			return c
		}
	}
	return nil
}

// blocks decodes all blocks of the scan. Several components are interleaved unit by
// unit, a single one goes row by row and has no padding blocks.
func (s *scan) blocks() error {
	across, down := ceilDiv(s.width, 8*s.hmax), ceilDiv(s.height, 8*s.vmax)
	single := len(s.comps) == 1
	if single {
		c := s.comps[0]
		across, down = ceilDiv(ceilDiv(s.width*c.h, s.hmax), 8), ceilDiv(ceilDiv(s.height*c.v, s.vmax), 8)
	}
	s.reset()
	for unit := range across * down {
		if unit%blocksPerLook == 0 {
			s.look()
		}
		if s.decoder.restart > 0 && unit > 0 && unit%s.decoder.restart == 0 {
			s.bits.restart()
			s.reset()
		}
		x, y := unit%across, unit/across
		for _, c := range s.comps {
			h, v := c.h, c.v
			if single {
				h, v = 1, 1
			}
			for k := range h * v {
				at := (y*v+k/h)*c.wide + x*h + k%h
				if err := s.block(c, c.coef[at*64:at*64+64]); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

func (s *scan) reset() {
	s.run = 0
	for _, c := range s.comps {
		c.dc = 0
	}
}

// block decodes one block's part of the scan.
func (s *scan) block(c *component, b []int16) error {
	if s.lo == 0 {
		if err := s.first(c, b); err != nil {
			return err
		}
	}
	switch {
	case !s.progressive || s.lo > 0 && s.ah == 0:
		return s.band(c, b)
	case s.lo > 0:
		return s.refine(c, b)
	}
	return nil
}

// first decodes the coefficient of frequency 0: its difference to the block
// before, or one more bit of it.
func (s *scan) first(c *component, b []int16) error {
	if s.ah > 0 {
		bit, err := s.take(1)
		b[0] |= int16(bit << s.al)
		return err
	}
	size, err := s.symbol(s.huff[0][c.dcTable])
	if err != nil || size > 15 {
		return ErrFormat
	}
	diff, err := s.value(int(size))
	c.dc += diff
	b[0] = int16(c.dc << s.al)
	return err
}

// band decodes coefficients for the first time: pairs of how many zeros come
// first and how large the coefficient is.
func (s *scan) band(c *component, b []int16) error {
	if s.run > 0 {
		s.run--
		return nil
	}
	for k := max(s.lo, 1); k <= s.hi; k++ {
		rs, err := s.symbol(s.huff[1][c.acTable])
		if err != nil {
			return err
		}
		zeros, size := int(rs>>4), int(rs&15)
		if size == 0 {
			if zeros == 15 {
				k += 15
				continue
			}
			return s.endOfBand(zeros)
		}
		if k += zeros; k > s.hi {
			return ErrFormat
		}
		v, err := s.value(size)
		if err != nil {
			return err
		}
		b[zigzag[k]] = int16(v << s.al)
	}
	return nil
}

// endOfBand notes for how many more blocks the band is empty.
func (s *scan) endOfBand(size int) error {
	extra, err := s.take(size)
	s.run = 1<<size - 1 + int(extra)
	return err
}

// refine adds one bit to the coefficients that are not zero, and new ones of
// magnitude one between them.
func (s *scan) refine(c *component, b []int16) error {
	bit := int16(1) << s.al
	k := s.lo
	for ; s.run == 0 && k <= s.hi; k++ {
		rs, err := s.symbol(s.huff[1][c.acTable])
		if err != nil {
			return err
		}
		zeros, fresh := int(rs>>4), int16(0)
		switch rs & 15 {
		case 0:
			if zeros < 15 {
				if err := s.endOfBand(zeros); err != nil {
					return err
				}
				s.run++ // this block counts, its rest is refined below
			}
		case 1:
			sign, err := s.take(1)
			if err != nil {
				return err
			}
			fresh = bit * int16(2*sign-1)
		default:
			return ErrFormat
		}
		if s.run > 0 {
			break
		}
		if k, err = s.refineZeros(b, k, zeros, bit); err != nil {
			return err
		}
		if fresh != 0 {
			if k > s.hi {
				return ErrFormat
			}
			b[zigzag[k]] = fresh
		}
	}
	if s.run > 0 {
		s.run--
		_, err := s.refineZeros(b, k, -1, bit)
		return err
	}
	return nil
}

// refineZeros refines coefficients from k on until it has passed the given
// number of zeros and stands on the next one; to the end of the band if negative.
func (s *scan) refineZeros(b []int16, k, zeros int, bit int16) (int, error) {
	for ; k <= s.hi; k++ {
		p := &b[zigzag[k]]
		if *p == 0 {
			if zeros == 0 {
				break
			}
			zeros--
			continue
		}
		more, err := s.take(1)
		if err != nil {
			return k, err
		}
		if more == 1 && *p&bit == 0 {
			if *p > 0 {
				*p += bit
			} else {
				*p -= bit
			}
		}
	}
	return k, nil
}
