package schedule

// bound is memory that every order of the model needs: the most that must be
// alive when some node runs. A region must be alive while n runs if something
// that writes it comes before n (or is n) in every order, and something that
// touches it comes after n (or is n).
//
//	a ─▶ b ─▶ n ─▶ c       while n runs: a's result if c reads it too, b's, n's;
//	└─────────────▲        nothing of what is neither before nor after n
//
// From that the most is taken off that n could save by writing over operands.
func (m *model) bound() int64 {
	if len(m.nodes) == 0 {
		return m.base
	}
	if len(m.nodes) > 1<<13 {
		return m.largest() // the sets would take too much memory
	}
	before, after := m.closures()
	best := int64(0)
	for n := range m.nodes {
		best = max(best, m.mustNeed(n, m.mustLive(before[n], after[n], n)))
	}
	return best
}

// largest is the bytes that the largest node needs on its own.
func (m *model) largest() int64 {
	best := m.base
	none := make([]uint64, (len(m.nodes)+63)/64)
	for n := range m.nodes {
		setBit(none, n)
		best = max(best, m.mustNeed(n, m.mustLive(none, none, n)))
		clearBit(none, n)
	}
	return best
}

// closures returns for every node the set of nodes before and after it, itself
// included.
func (m *model) closures() (before, after [][]uint64) {
	n, words := len(m.nodes), (len(m.nodes)+63)/64
	before, after = make([][]uint64, n), make([][]uint64, n)
	all := make([]uint64, 2*n*words)
	for i := range n {
		before[i], all = all[:words], all[words:]
		after[i], all = all[:words], all[words:]
		setBit(before[i], i)
		setBit(after[i], i)
		for _, p := range m.nodes[i].preds {
			join(before[i], before[p])
		}
	}
	for i := n - 1; i >= 0; i-- {
		for _, s := range m.nodes[i].succs {
			join(after[i], after[s])
		}
	}
	return before, after
}

func join(a, b []uint64) {
	for w := range a {
		a[w] |= b[w]
	}
}

// lives says what is known of a region while some node runs, in every order.
type lives uint8

const (
	written lives = 1 << iota // it has been taken
	touched                   // the node or something after it touches it
	later                     // something after the node touches it
)

// mustLive finds what is known of every region while n runs.
func (m *model) mustLive(before, after []uint64, n int) []lives {
	known := make([]lives, len(m.regions))
	for r, x := range m.regions {
		if x.early {
			known[r] |= written
		}
		if x.kept {
			known[r] |= touched | later
		}
	}
	for i := range m.nodes {
		if hasBit(before, i) {
			for _, r := range m.nodes[i].writes {
				known[r] |= written
			}
		}
		if hasBit(after, i) {
			for _, r := range m.nodes[i].touches {
				known[r] |= touched
				if i != n {
					known[r] |= later
				}
			}
		}
	}
	return known
}

// mustNeed is the least that n needs with what is known. Operands that nothing
// after n touches may die at n.
func (m *model) mustNeed(n int, known []lives) int64 {
	x := &m.nodes[n]
	sum := m.base + x.extra
	for r, k := range known {
		if k&written != 0 && k&touched != 0 {
			sum += m.regions[r].bytes
		}
	}
	for _, f := range x.folds {
		var out, in int64
		for _, r := range f.out {
			out += m.regions[r].bytes
		}
		for _, r := range f.in {
			if known[r]&later == 0 {
				in += m.regions[r].bytes
			}
		}
		sum -= min(out, in)
	}
	for _, r := range x.frees {
		if known[r]&later == 0 {
			sum -= m.regions[r].bytes
		}
	}
	return sum
}
