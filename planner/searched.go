package planner

import "math/bits"

// What the exact searches have in common: what they may cost, and what they remember, positions that were searched to their end without finding a plan.
//
// A position is known by 128 bits: the sums of two 64-bit hashes over its parts (a section at a height, a class of items
// placed). Positions themselves are not kept; each is hundreds of numbers. A search of n positions compares each with one of
// at most 2^18 remembered ones, so the probability that two different ones are taken for one, and that its proof may be
// wrong, is below n/2^110. With the default budget n is at most 2^22.

// meter counts what a search costs.
type meter struct {
	nodes   int64 // positions visited over all runs
	work    int64 // sections, or items and cliques, looked at
	limit   int64 // of nodes in this run
	budget  int64 // of all runs, as spent counts
	asked   int64 // when spent reaches this, stop is asked
	stop    func() bool
	stopped bool
}

// start allows a search to spend as much again as the budget.
func (m *meter) start(budget int64, stop func() bool) {
	m.budget, m.stop, m.stopped = m.spent()+budget, stop, false
}

// visited is the number of positions over all runs.
func (m *meter) visited() int64 { return m.nodes }

// spent is what all runs have cost, in units of about a third of a microsecond.
func (m *meter) spent() int64 { return m.nodes + m.work/100 }

// spentOut reports whether the budget is gone or the caller wants an end; the caller is asked now and then.
func (m *meter) spentOut() bool {
	spent := m.spent()
	if spent >= m.budget {
		return true
	}
	if spent >= m.asked {
		m.asked = spent + askEvery
		m.stopped = m.stopped || m.stop()
	}
	return m.stopped
}

const askEvery = 1 << 14

// fingerprint is a sum of fingerprints of parts.
type fingerprint struct{ a, b uint64 }

// fingerprintOf is the part for a pair of numbers. The second hash is the folded product of wyhash.
func fingerprintOf(x, y uint64) fingerprint {
	hi, lo := bits.Mul64(x^0xa0761d6478bd642f, y^0xe7037ed1a0b428db)
	return fingerprint{scramble(x*0x9fb21c651e98df25 + y), hi ^ lo}
}

func (f *fingerprint) add(g fingerprint)    { f.a, f.b = f.a+g.a, f.b+g.b }
func (f *fingerprint) remove(g fingerprint) { f.a, f.b = f.a-g.a, f.b-g.b }

// scramble is the finalizer of the splitmix generator: a good 64-bit hash of small numbers.
func scramble(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// searched remembers positions without a plan by their fingerprints, and what that rests on. It grows with its content up to a
// limit, then forgets some.
type searched struct {
	slots []searchedSlot
	shift int
	used  int
}

type searchedSlot struct {
	hash fingerprint
	at   stretch
}

const (
	searchedMin = 8  // log2 of the slots to begin with
	searchedMax = 18 // and at most
)

// clear empties the table.
func (t *searched) clear() {
	if len(t.slots) != 1<<searchedMin {
		t.slots = make([]searchedSlot, 1<<searchedMin)
	}
	clear(t.slots)
	t.shift, t.used = 64-searchedMin, 0
}

func (t *searched) find(h fingerprint) (stretch, bool) {
	s := &t.slots[h.a>>t.shift]
	return s.at, s.hash == h
}

func (t *searched) add(h fingerprint, at stretch) {
	if t.used++; t.used > len(t.slots)/2 && len(t.slots) < 1<<searchedMax {
		old := t.slots
		t.slots = make([]searchedSlot, 2*len(old))
		t.shift--
		for _, s := range old {
			if s.hash.a != 0 {
				t.slots[s.hash.a>>t.shift] = s
			}
		}
	}
	t.slots[h.a>>t.shift] = searchedSlot{h, at}
}

// dice is a small deterministic generator.
type dice struct{ state uint64 }

// draw returns a number from 0 to n-1; n >= 1.
func (d *dice) draw(n int64) int64 {
	d.state++
	return int64(scramble(d.state) >> 1 % uint64(n))
}
