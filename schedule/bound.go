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
//
// left is how many pairs of a node and a node or region may still be looked at.
func (m *model) bound(left *int64) int64 {
	if len(m.nodes) == 0 {
		return m.base
	}
	pairs := int64(len(m.nodes)) * int64(len(m.nodes)+len(m.regions))
	if len(m.nodes) > 1<<13 || pairs > *left {
		return m.largest() // the sets would take too much memory, or too long
	}
	*left -= pairs
	before, after := m.closures()
	best := int64(0)
	for n := range m.nodes {
		best = max(best, m.mustNeed(n, m.mustLive(before[n], after[n], n)))
	}
	return best
}

// largest is the bytes that the largest node needs on its own, with what nothing
// ever frees.
func (m *model) largest() int64 {
	best, always := m.base, m.base
	known := make([]lives, len(m.regions))
	for r := range m.regions {
		if known[r] = m.regions[r].known(); known[r].held() {
			always += m.regions[r].bytes
		}
	}
	for n := range m.nodes {
		x := &m.nodes[n]
		for _, r := range x.writes {
			known[r] |= written
		}
		for _, r := range x.touches {
			known[r] |= touched
		}
		sum := always + x.extra
		for _, r := range x.touches {
			if x := &m.regions[r]; known[r].held() && !x.known().held() {
				sum += x.bytes
			}
		}
		best = max(best, sum-m.couldSave(n, known))
		for _, r := range x.touches {
			known[r] = m.regions[r].known()
		}
		for _, r := range x.writes {
			known[r] = m.regions[r].known()
		}
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

// held reports whether a region must be alive.
func (k lives) held() bool { return k&written != 0 && k&touched != 0 }

// known is what holds for a region at every node.
func (x *region) known() (k lives) {
	if x.early {
		k |= written
	}
	if x.kept {
		k |= touched | later
	}
	return k
}

// mustLive finds what is known of every region while n runs.
func (m *model) mustLive(before, after []uint64, n int) []lives {
	known := make([]lives, len(m.regions))
	for r := range m.regions {
		known[r] = m.regions[r].known()
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
	sum := m.base + m.nodes[n].extra
	for r, k := range known {
		if k.held() {
			sum += m.regions[r].bytes
		}
	}
	return sum - m.couldSave(n, known)
}

// couldSave is the most that n could take less by writing over operands.
func (m *model) couldSave(n int, known []lives) int64 {
	x := &m.nodes[n]
	var sum int64
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
		sum += min(out, in)
	}
	for _, r := range x.frees {
		if known[r]&later == 0 {
			sum += m.regions[r].bytes
		}
	}
	return sum
}
