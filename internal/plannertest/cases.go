package plannertest

import (
	"fmt"
	"math/rand/v2"

	"github.com/berth-onnx/berth/planner"
)

// Case is a problem with what is known about it from the way it was made.
type Case struct {
	Kind    string
	Problem *planner.Problem
	// Graph stands behind a partial order; nil for intervals.
	Graph *Graph
	// Capacity: a plan of this height exists; 0 when none is known.
	Capacity int64
}

// kinds of problems. What a kind needs is always there, other features come by chance.
var kinds = []struct {
	name   string
	weight int // how often
	slow   bool
	draw   func(r *rand.Rand, n int) Case
}{
	{"intervals", 3, false, func(r *rand.Rand, n int) Case { return featured(r, n, Options{}) }},
	{"ties", 2, false, drawTies},
	{"zero", 1, false, func(r *rand.Rand, n int) Case { return featured(r, n, Options{Zero: true}) }},
	{"alignment", 2, true, func(r *rand.Rand, n int) Case { return featured(r, n, Options{Align: true}) }},
	{"windows", 2, false, func(r *rand.Rand, n int) Case { return featured(r, n, Options{Holes: true}) }},
	{"capacity", 2, false, drawBox},
	{"partial", 3, false, func(r *rand.Rand, n int) Case { return featured(r, n, Options{Partial: true}) }},
	{"mixed", 1, true, drawMixed},
}

// Kinds lists the names of all kinds.
func Kinds() []string {
	names := make([]string, len(kinds))
	for i, k := range kinds {
		names[i] = k.name
	}
	return names
}

// Draw draws problem number index of the sequence of a seed. kind is one of Kinds, or empty for any.
// Most problems have a few buffers, some have up to 40.
func Draw(seed, index uint64, kind string) (Case, error) {
	r := rand.New(rand.NewPCG(seed, index))
	total := 0
	for _, k := range kinds {
		total += k.weight
	}
	pick := r.IntN(total)
	for _, k := range kinds {
		if pick -= k.weight; (kind == "" && pick < 0) || k.name == kind {
			c := k.draw(r, drawCount(r, k.slow))
			c.Kind = k.name
			return c, nil
		}
	}
	return Case{}, fmt.Errorf("there is no kind of problem named %q; there are %v", kind, Kinds())
}

// drawCount is the most buffers that a problem may have: where proofs take long, large ones are rarer.
func drawCount(r *rand.Rand, slow bool) int {
	switch x := r.IntN(100); {
	case x < 40:
		return 1 + r.IntN(bruteLimit)
	case slow && x < 98:
		return 1 + r.IntN(14)
	case x < 80:
		return 8 + r.IntN(13)
	}
	return 21 + r.IntN(20)
}

// featured draws a problem of at most n buffers with the features of o.
func featured(r *rand.Rand, n int, o Options) Case {
	o.MaxBuffers, o.MaxTime, o.MaxSize = n, 1+r.IntN(30), 1+r.IntN(1+r.IntN(200))
	p, g := random(r, o)
	return Case{Problem: p, Graph: g}
}

// drawTies draws few sizes and few points.
func drawTies(r *rand.Rand, n int) Case {
	p, g := random(r, Options{MaxBuffers: n, MaxTime: 1 + r.IntN(8), MaxSize: 1 + r.IntN(3)})
	return Case{Problem: p, Graph: g}
}

// drawMixed switches every feature by chance.
func drawMixed(r *rand.Rand, n int) Case {
	o := Pick(r)
	o.MaxBuffers = n
	p, g := random(r, o)
	return Case{Problem: p, Graph: g}
}

// drawBox cuts a box of points and bytes into buffers, so that its height is a capacity for which a plan exists, and with
// nothing thrown away the least one.
//
//	+-----+--------+
//	|     |   |    |      cuts from side to side, then of the parts; some parts are thrown away
//	+-----+   +----+
//	|     |   |    |
//	+-----+---+----+
func drawBox(r *rand.Rand, n int) Case {
	width, height := 2+r.IntN(30), int64(2+r.IntN(200))
	parts := []planner.Buffer{{Lo: 0, Hi: width, Size: height}}
	for len(parts) < n {
		k := r.IntN(len(parts))
		b := &parts[k]
		switch span := b.Hi - b.Lo; {
		case span > 1 && (b.Size == 1 || r.IntN(2) == 0):
			rest := *b
			b.Hi = b.Lo + 1 + r.IntN(span-1)
			rest.Lo = b.Hi
			parts = append(parts, rest)
		case b.Size > 1:
			rest := *b
			b.Size = 1 + r.Int64N(b.Size-1)
			rest.Size -= b.Size
			parts = append(parts, rest)
		default:
			n--
		}
	}
	r.Shuffle(len(parts), func(a, b int) { parts[a], parts[b] = parts[b], parts[a] })
	parts = parts[r.IntN(1+len(parts)/8):]
	return Case{Problem: &planner.Problem{Buffers: parts}, Capacity: height}
}
