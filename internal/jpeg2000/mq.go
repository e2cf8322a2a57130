package jpeg2000

// The MQ decoder is a binary arithmetic decoder (T.800, annex C). The interval
// [0, a) is split by an estimate q of the less probable symbol; c is where the
// code lies in it. Estimates adapt per context along a fixed table of states.
//
//	0 ├────── q: less probable ──────┼──── a-q: more probable ────┤ a

// mqState is one row of table C.2: the estimate, the next state after the more
// and the less probable symbol, and whether their meaning is exchanged.
type mqState struct {
	q         uint16
	mps, lps  uint8
	exchanged bool
}

var mqStates = [47]mqState{
	{0x5601, 1, 1, true}, {0x3401, 2, 6, false}, {0x1801, 3, 9, false}, {0x0ac1, 4, 12, false}, {0x0521, 5, 29, false}, {0x0221, 38, 33, false},
	{0x5601, 7, 6, true}, {0x5401, 8, 14, false}, {0x4801, 9, 14, false}, {0x3801, 10, 14, false}, {0x3001, 11, 17, false}, {0x2401, 12, 18, false},
	{0x1c01, 13, 20, false}, {0x1601, 29, 21, false}, {0x5601, 15, 14, true}, {0x5401, 16, 14, false}, {0x5101, 17, 15, false}, {0x4801, 18, 16, false},
	{0x3801, 19, 17, false}, {0x3401, 20, 18, false}, {0x3001, 21, 19, false}, {0x2801, 22, 19, false}, {0x2401, 23, 20, false}, {0x2201, 24, 21, false},
	{0x1c01, 25, 22, false}, {0x1801, 26, 23, false}, {0x1601, 27, 24, false}, {0x1401, 28, 25, false}, {0x1201, 29, 26, false}, {0x1101, 30, 27, false},
	{0x0ac1, 31, 28, false}, {0x09c1, 32, 29, false}, {0x08a1, 33, 30, false}, {0x0521, 34, 31, false}, {0x0441, 35, 32, false}, {0x02a1, 36, 33, false},
	{0x0221, 37, 34, false}, {0x0141, 38, 35, false}, {0x0111, 39, 36, false}, {0x0085, 40, 37, false}, {0x0049, 41, 38, false}, {0x0025, 42, 39, false},
	{0x0015, 43, 40, false}, {0x0009, 44, 41, false}, {0x0005, 45, 42, false}, {0x0001, 45, 43, false}, {0x5601, 46, 46, false},
}

// The contexts: nine for significance, five for signs, three for refinement, one
// for runs and one of equal probability.
const (
	ctxSign    = 9
	ctxRefine  = 14
	ctxRun     = 17
	ctxUniform = 18
	numCtx     = 19
)

type mqContext struct {
	state uint8
	mps   uint8
}

// mq decodes one segment of bytes. raw segments hold plain bits instead.
type mq struct {
	data []byte
	pos  int
	a, c uint32
	ct   int
	ctx  [numCtx]mqContext
	bits int // raw: unread bits of the last byte
}

// resetContexts gives the contexts their initial states (table D.7).
func (m *mq) resetContexts() {
	m.ctx = [numCtx]mqContext{}
	m.ctx[0].state, m.ctx[ctxRun].state, m.ctx[ctxUniform].state = 4, 3, 46
}

// at is a byte of the segment; past its end there are only ones.
func (m *mq) at(i int) uint32 {
	if i < len(m.data) {
		return uint32(m.data[i])
	}
	return 0xff
}

// start begins a segment.
func (m *mq) start(data []byte) {
	m.data, m.pos, m.bits = data, 0, 0
	m.c = m.at(0) << 16
	m.byteIn()
	m.c <<= 7
	m.ct -= 7
	m.a = 0x8000
}

func (m *mq) byteIn() {
	if m.at(m.pos) != 0xff {
		m.pos++
		m.c += m.at(m.pos) << 8
		m.ct = 8
		return
	}
	if next := m.at(m.pos + 1); next > 0x8f { // a marker: the segment is over
		m.c += 0xff00
		m.ct = 8
	} else {
		m.pos++
		m.c += next << 9
		m.ct = 7
	}
}

// decode returns the next symbol in a context.
func (m *mq) decode(ctx int) uint8 {
	x := &m.ctx[ctx]
	s := &mqStates[x.state]
	q := uint32(s.q)
	m.a -= q
	less := m.c>>16 < q
	if !less {
		m.c -= q << 16
		if m.a&0x8000 != 0 {
			return x.mps
		}
	}
	small := m.a < q // the parts have changed places: the larger one is the less probable
	if less {
		m.a = q
	}
	d := x.mps
	if less != small {
		d = 1 - x.mps
		if s.exchanged {
			x.mps = d
		}
		x.state = s.lps
	} else {
		x.state = s.mps
	}
	for {
		if m.ct == 0 {
			m.byteIn()
		}
		m.a <<= 1
		m.c <<= 1
		m.ct--
		if m.a&0x8000 != 0 {
			return d
		}
	}
}

// rawBit returns the next plain bit; after a byte 0xff one bit is stuffing.
func (m *mq) rawBit() uint8 {
	if m.bits == 0 {
		m.bits = 8
		if m.pos > 0 && m.at(m.pos-1) == 0xff {
			m.bits = 7
		}
		m.pos++
	}
	m.bits--
	return uint8(m.at(m.pos-1)>>m.bits) & 1
}
