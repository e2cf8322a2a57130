package schedule

import "context"

// Safe moves. Let b be a bound that the best order is known to reach or exceed.
// After the executed set S, let U be nodes that can run next in some order, every
// step of which needs at most b, such that
//
//	live(S ∪ U) ≤ live(S ∪ U')   for every part U' of U that can run alone     (*)
//
// (a valley that lies no higher than any point on the way to it, the start
// included). Then some best order runs all of U right after S.
//
// Proof. Take a best order after S and move U to its front. The moved steps need
// at most b. Consider another step m of it, run after the set T ⊇ S before and
// after T ∪ U now. Write h(X) for the memory taken when m starts after X: live(X)
// and what m is the first to write. Like live, h is submodular, so
//
//	h(T ∪ U) + h(S ∪ (T ∩ U)) ≤ h(T) + h(S ∪ U).
//
// U' = T ∩ U is a part of U as in (*), and what m is the first to write after
// S ∪ U it is the first to write after S ∪ U' as well, so h(S ∪ U) ≤ h(S ∪ U').
// Hence h(T ∪ U) ≤ h(T). And m saves at least as much as before, since an operand
// that was to be touched by m only after T still is. So no step needs more. ∎
//
// (S. Baruah's and C. Lam's arguments for trees, J. Liu's hills and valleys in
// An Application of Generalized Tree Pebbling to Sparse Matrix Factorization,
// 1987, are the case of one chain; submodularity carries them to any graph.)
//
//	live      ╭╮
//	     ╭╮   ││ ╭╮          a chain from S: first it needs more, then
//	  ───╯╰───╯╰─╯│          it lies at or below where it began
//	  S      U    ╰──        ▲ here it may stop: all before was higher

// chainLimit bounds how far a chain is followed in search of its valley.
const chainLimit = 64

// safeMoves executes safe moves until there are none, the context ends, or so many steps are done in all: behind each move,
// all nodes that can run are tried again.
func (s *sim) safeMoves(ctx context.Context, b, steps int64) {
	for moved := true; moved; {
		moved = false
		s.eachReady(func(n int32) bool {
			if s.steps > steps || ctx.Err() != nil {
				return false
			}
			moved = s.valley(n, b)
			return !moved // the set of ready nodes has changed
		})
	}
}

// valley executes the chain that begins with n if it leads to a valley at or below
// the present memory; otherwise nothing. Each node of the chain depends on the one
// before, so that its parts that can run alone are its beginnings, and (*) holds at
// the first point that lies no higher than the start.
func (s *sim) valley(n int32, b int64) bool {
	start, live := len(s.trail), s.live
	for range chainLimit {
		if s.exec(n) > b {
			break
		}
		if s.live <= live {
			return true
		}
		next := s.follow(n, b)
		if next < 0 {
			break
		}
		n = next
	}
	s.rollback(start)
	return false
}

// follow picks, among the nodes that n has made ready, the one that leaves the
// least memory; -1 if none can run within b.
func (s *sim) follow(n int32, b int64) int32 {
	best, low := int32(-1), int64(0)
	for _, q := range s.m.nodes[n].succs {
		if !hasBit(s.ready, int(q)) {
			continue
		}
		at := len(s.trail)
		if s.exec(q) <= b && (best < 0 || s.live < low) {
			best, low = q, s.live
		}
		s.rollback(at)
	}
	return best
}
