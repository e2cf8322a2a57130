package ptx

import "encoding/binary"

// Loads and stores of shared memory, for all lanes of a warp at once. Most words are written in one phase, between two barriers of the
// whole block, and read in another. What the race detector (race.go) needs to know of those is a bit for each word and a list:
//
//	ready     a word that has a value, written in an earlier phase
//	written   a word written in this phase, by one lane
//	read      a word read in this phase
//	log       the reads of this phase: which lanes of a warp read where, at which clock
//
// A load of words that are ready needs no more checks. It sets their bits and adds a line to the log. A store to a word that is neither
// read nor written in this phase races with nobody. Anything else takes the way of single lanes, for which the log is
// first entered into the cells of the detector.

// phase is what is known of the words of a block's shared memory since the last barrier.
type phase struct {
	ready, written, read []uint64 // a bit for each word
	log                  []reading
}

// reading is a load by lanes of a warp.
type reading struct {
	warp  *warp
	now   stamp
	lanes uint32
	size  int32
	at    [32]uint32 // by lane
}

// mostReadings bounds the log, which is entered into the cells when it is full.
const mostReadings = 512

func newPhase(bytes int64) phase {
	n := bytes/256 + 1
	return phase{ready: make([]uint64, n), written: make([]uint64, n), read: make([]uint64, n)}
}

// begin forgets everything, for a new block.
func (p *phase) begin() {
	clear(p.ready)
	clear(p.written)
	clear(p.read)
	p.log = p.log[:0]
}

// next begins a phase: all threads have met at a barrier.
func (p *phase) next() {
	for i, n := range p.written {
		p.ready[i] |= n
	}
	clear(p.written)
	clear(p.read)
	p.log = p.log[:0]
}

// enter enters the log into the cells. It must be done before a warp's clock advances, unless all warps begin a phase.
func (b *block) enter() {
	for i := range b.phase.log {
		r := &b.phase.log[i]
		for m := r.lanes; m != 0; m &= m - 1 {
			l := firstLane(m)
			own := r.now | stamp(l)<<5 | stamp(l)
			for c := r.at[l] >> 2; c <= (r.at[l]+uint32(r.size)-1)>>2; c++ {
				r.warp.read(uint64(c), own)
			}
		}
	}
	b.phase.log = b.phase.log[:0]
}

// change notes that the words of an access are read or written on the way of single lanes.
func (b *block) change(at uint64, size int, isWrite bool) {
	p := &b.phase
	for i := at >> 2; i <= (at+uint64(size)-1)>>2; i++ {
		word, bit := i>>6, uint64(1)<<(i&63)
		if !isWrite {
			p.read[word] |= bit
			continue
		}
		p.ready[word] &^= bit
		p.written[word] &^= bit
		if areWritten(b.sharedState[4*i : min(4*i+4, uint64(len(b.sharedState)))]) {
			p.written[word] |= bit
		}
	}
}

// addresses collects the addresses of lanes in shared memory, those of other lanes as of the first one. False unless all are multiples
// of the size and lie inside.
func (w *warp) addresses(at *[32]uint32, base uint64, r *vec, m uint32, size int) bool {
	n := uint64(len(w.block.shared))
	if n < uint64(size) || w.block.kernel.sharedGrain != 4 {
		return false
	}
	first, any, top := base+r[firstLane(m)], uint64(0), uint64(0)
	for l := range at {
		addr := base + r[l]
		if m>>l&1 == 0 {
			addr = first
		}
		any |= addr
		top = max(top, addr)
		at[l] = uint32(addr)
	}
	return any&uint64(size-1) == 0 && top <= n-uint64(size)
}

// shared loads words that are ready; false if some are not.
func (x *loading) shared(w *warp, f *frame, m uint32, base uint64) bool {
	b := w.block
	p := &b.phase
	if len(p.log) == mostReadings {
		b.enter()
	}
	if len(p.log) == cap(p.log) {
		p.log = append(p.log, reading{})
	} else {
		p.log = p.log[:len(p.log)+1]
	}
	log := &p.log[len(p.log)-1]
	if !w.addresses(&log.at, base, f.v[x.p.register], m, x.size) || !p.areReady(&log.at, uint64(1)<<(x.size/4)-1) {
		p.log = p.log[:len(p.log)-1]
		return false
	}
	log.warp, log.now, log.lanes, log.size = w, w.now, m, int32(x.size)
	b.counts.SharedBytes += int64(x.size) * lanesOf(m)
	for i, k := range x.to {
		if k < 0 {
			continue
		}
		d, data := f.v[k], b.shared[4*i:]
		if m != allLanes {
			d = &w.lanes
		}
		for l, at := range log.at {
			d[l] = uint64(binary.LittleEndian.Uint32(data[at:]))
		}
		if m != allLanes {
			blend(f.v[k], d, m)
		}
	}
	return true
}

// areReady reports that words may be read, some next to each other for each address, and notes that they are.
func (p *phase) areReady(at *[32]uint32, words uint64) bool {
	for _, a := range at {
		word, bit := a>>8, a>>2&63
		if p.ready[word]>>bit&words != words {
			return false
		}
		p.read[word] |= words << bit
	}
	return true
}

// shared stores a word for each lane of a mask, into memory that nobody has touched in this phase; false if somebody has.
func (x *storing) shared(w *warp, f *frame, m uint32, base uint64) bool {
	b := w.block
	p := &b.phase
	var at [32]uint32
	if !w.addresses(&at, base, f.v[x.p.register], m, 4) {
		return false
	}
	for n := m; n != 0; n &= n - 1 {
		a := at[firstLane(n)]
		word, bit := a>>8, uint64(1)<<(a>>2&63)
		if (p.read[word]|p.written[word])&bit != 0 || !canWrite(b.sharedState[a:a+4]) {
			for undo := m &^ n; undo != 0; undo &= undo - 1 { // they are written again, one by one
				a := at[firstLane(undo)]
				p.written[a>>8] &^= 1 << (a >> 2 & 63)
				p.ready[a>>8] &^= 1 << (a >> 2 & 63)
			}
			return false
		}
		p.written[word] |= bit
		p.ready[word] &^= bit
	}
	v := f.v[x.from[0]]
	for n := m; n != 0; n &= n - 1 {
		l := firstLane(n)
		a := at[l]
		b.cells[a>>2].write = w.own(l)
		binary.LittleEndian.PutUint32(b.sharedState[a:], written4)
		binary.LittleEndian.PutUint32(b.shared[a:], uint32(v[l]))
	}
	b.counts.SharedBytes += 4 * lanesOf(m)
	return true
}

// canWrite reports that all four bytes of a word belong to a variable, and are no target of a copy.
func canWrite(state []byte) bool {
	s := binary.LittleEndian.Uint32(state)
	return s == written4 || s == 0
}
