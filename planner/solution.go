package planner

// ProofKind says what stands behind Solution.LowerBound.
type ProofKind int

const (
	// ProofNone: nothing better than the size of the largest buffer is claimed.
	ProofNone ProofKind = iota
	// ProofWitness: the buffers listed in Proof.Members are all live together and need LowerBound bytes.
	ProofWitness
	// ProofExhausted: a search visited everything below LowerBound and found no plan there. It recognizes positions that it has
	// visited by 128 bits of hash: the proof of a search of n positions is wrong with a probability below n/2^110.
	ProofExhausted
)

func (k ProofKind) String() string {
	return nameOf(int(k), "none", "witness", "exhausted")
}

// Proof backs a lower bound.
type Proof struct {
	Kind ProofKind
	// Point is the time point of a witness taken from intervals, or -1 for an antichain of a partial order.
	Point int
	// Members are the buffers of the witness, ascending; pairwise they interfere.
	Members []int
}

// Window is a run of arena bytes that a planner laid out on its own: a group of the NNC allocation graph, a
// colour of dsatur, a block of the pool. They do not overlap.
type Window struct{ Offset, Size int64 }

// Stats counts what a planner did. All counts are the same on every machine and under every load,
// unless the context cut the planner short.
type Stats struct {
	// Winner is the planner whose plan this is (differs from Solution.Planner for auto and nnc-best).
	Winner string
	// Nodes visited by searches.
	Nodes int64
	// Cut is true when the context ended the work before its own budget did.
	Cut bool
}

// Solution is a plan: an offset per buffer.
type Solution struct {
	Planner string
	// Offsets[i] is the first byte of buffer i in the arena.
	Offsets []int64
	// ArenaBytes is the end of the highest buffer, exactly.
	ArenaBytes int64
	// LowerBound: no plan is smaller. Proof says why.
	LowerBound int64
	Proof      Proof
	Windows    []Window
	Stats      Stats
}

// Proven reports whether the plan is known to be the smallest there is.
func (s *Solution) Proven() bool { return s.ArenaBytes == s.LowerBound }

// Gap is how far the plan may be above the optimum, as a fraction of the lower bound; 0 when proven.
func (s *Solution) Gap() float64 {
	if s.LowerBound == 0 {
		return 0
	}
	return float64(s.ArenaBytes-s.LowerBound) / float64(s.LowerBound)
}

// height is the end of the highest buffer.
func (p *Problem) height(offsets []int64) int64 {
	var h int64
	for i, o := range offsets {
		h = max(h, o+p.Buffers[i].Size)
	}
	return h
}
