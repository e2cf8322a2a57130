// Package loops works out how a Loop's or Scan's carried values can move from
// one iteration to the next without a copy: how many slots a value needs
// (its period), how many iterations start differently from the rest (the
// prefix), and which results can be written straight into a stacked output.
//
// # Carries
//
// A body has parameters p and results q; after an iteration every p becomes its
// q. At run time nothing is moved: p's pointer is set to where q lies. That is
// right as long as q's place is not written again before p's last reader:
//
//	iteration   t            t+1          t+2
//	y written   ■ A          ■ B          ■ A      two slots, period 2
//	x reads       init       A            B        x = init, then the y before
//
// A chain x4<=x3, x3<=x2, x2<=x1, x1<=y keeps y alive for four iterations; its
// period is 5, or 4 where the operator that reads x4 may write y over it.
//
// The planner sees the body as prefix + ring copies laid out in time (unrolling
// is a planning device; the program holds the body once). A value of period P
// owns P blocks, copy t uses block t mod P.
//
// Source: L. Liu, the NNC tensor allocation algorithm (unrolling, multi-view
// tensors of type I and II); M. Lam, Software Pipelining, 1988 (modulo variable
// expansion).
//
// # Panics
//
// A function that returns an error returns one whatever its arguments are. The others take what
// is not nil and was made by [Of] or [OfAnyOrder]; they panic otherwise.
package loops
