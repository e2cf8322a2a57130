package program

import (
	"cmp"
	"context"
	"slices"

	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ssa"
)

// The verifier of plans that must hold for every schedule. It observes the replays of
// the symbolic check (check.go) and asks of each write whether in some other legal
// schedule, or with nodes that run at the same time, it could come too early:
//
//	bytes 0..64    w1 writes, r1 and r2 read, w2 writes
//	               fine if w1, r1 and r2 are each before w2 in every schedule
//
// That is sufficient, since it is asked of each write against the one before it in the
// replay: if w2 must wait for the readers of w1, and w3 for w2, then w3 waits for the
// readers of w1 too. And it is exact: if some reader need not be before w2, then there
// is a schedule of the same run in which w2 comes between its writer and it. A write
// that nothing reads must be before w2 only if something reads w2, which it could
// otherwise overwrite.
//
// The order: a node starts when its operands are complete, control flow when all
// operands of its node are, captured ones included; a body's nodes start after their
// control flow, an iteration after the one before it. Two steps are compared in the
// innermost graph or body that holds both:
//
//	main   0 ─ 1 ─ 2:Loop ─ 3      step (2,it 1)/(0) against (2,it 4)/(1): by iteration
//	                │              step (2,it 1)/(0) against (3): node 2 against node 3
//	body            0 ─ 1
//
// Nothing is shared with packages liveness and inplace, which make such plans.

// CheckParallel reports whether the program's plan holds for every schedule and when
// independent nodes run at the same time. The error is a *[CheckError] that names the
// write which can come too early; an order that is not sound itself is an error too.
// Main graphs and bodies of more than [MaxParallel] nodes are an error, as is an order for which the context's budget does
// not suffice.
func CheckParallel(ctx context.Context, p *Program) error {
	orders := map[*Block]*order{}
	if err := addOrders(ctx, orders, p.Main); err != nil {
		return err
	}
	return replays(ctx, p, orders)
}

// MaxParallel bounds the nodes of one graph or body that can be verified for every
// schedule: the relation "after" takes the square of it in bits.
const MaxParallel = 1<<16 - 1

// order is the partial order of one block's instructions: after[i] has the bit of
// every instruction that waits for instruction i.
type order struct{ after [][]uint64 }

func addOrders(ctx context.Context, orders map[*Block]*order, b *Block) error {
	if len(b.Instrs) > MaxParallel {
		return &CheckError{Node: "graph " + b.Graph.Name, Reason: "has too many nodes to look at all schedules"}
	}
	words := (len(b.Instrs) + 63) / 64
	if err := ndarray.BudgetOf(ctx).AskContext(ctx, "the order of the nodes of graph "+b.Graph.Name, 8*int64(words)*int64(len(b.Instrs))); err != nil {
		return err
	}
	o := &order{make([][]uint64, len(b.Instrs))}
	orders[b] = o
	made := map[*ssa.Value]int{}
	readers := make([][]int, len(b.Instrs))
	for i := range b.Instrs {
		n := b.Instrs[i].Node
		for _, v := range n.In {
			if w, ok := made[v]; ok && v != nil {
				readers[w] = append(readers[w], i)
			}
		}
		for _, v := range n.Out {
			made[v] = i
		}
		for _, body := range b.Instrs[i].Bodies {
			if err := addOrders(ctx, orders, body); err != nil {
				return err
			}
		}
	}
	for i := len(b.Instrs) - 1; i >= 0; i-- {
		if err := ctx.Err(); err != nil {
			return err
		}
		row := make([]uint64, words)
		for _, j := range readers[i] {
			row[j/64] |= 1 << (j % 64)
			for w, x := range o.after[j] {
				row[w] |= x
			}
		}
		o.after[i] = row
	}
	return nil
}

// frame is a position in one block: instruction at, and in it phase it of control flow.
type frame struct {
	in *order
	at int
	it int
}

// event is a step of a replay: its position in each of the nested blocks, outermost first.
type event []frame

// before reports whether step e, which the replay met first, is complete in every
// schedule before step f starts, or is the same step.
func (e event) before(f event) bool {
	for d := range min(len(e), len(f)) {
		x, y := e[d], f[d]
		switch {
		case x.at != y.at:
			return x.in.after[x.at][y.at/64]>>(y.at%64)&1 == 1
		case x.it != y.it:
			return true // the phases of control flow follow each other
		}
	}
	return true
}

// races follows one replay. A nil *races follows nothing.
type races struct {
	orders map[*Block]*order
	now    event
	runs   []run
}

// run is a run of arena bytes.
type run struct {
	lo, hi    int64
	writer    event   // the last write
	readers   []event // the last reads since, in memory of the run's own
	unordered []event // earlier writes that nothing read and that the last write does not wait for
}

func (r *races) open(b *Block) {
	if r != nil {
		r.now = append(r.now, frame{in: r.orders[b]})
	}
}

func (r *races) shut() {
	if r != nil {
		r.now = r.now[:len(r.now)-1]
	}
}

// step says that instruction i of the open block runs now.
func (r *races) step(i int) {
	if r != nil {
		f := &r.now[len(r.now)-1]
		f.at, f.it = i, 0
	}
}

// tick says that control flow starts its next phase: entering, a body, leaving.
func (r *races) tick() {
	if r != nil {
		r.now[len(r.now)-1].it++
	}
}

// read notes that the present step reads bytes [lo, hi). It returns the first byte
// that an earlier write could overwrite, -1 if there is none.
func (r *races) read(lo, hi int64) int64 {
	if r == nil || lo >= hi {
		return -1
	}
	me := slices.Clone(r.now)
	r.split(lo, hi)
	for i := r.first(lo); i < len(r.runs) && r.runs[i].lo < hi; i++ {
		x := &r.runs[i]
		if len(x.unordered) > 0 {
			return x.lo
		}
		x.readers = append(slices.DeleteFunc(x.readers, func(e event) bool { return e.before(me) }), me)
	}
	return -1
}

// write notes that the present step writes bytes [lo, hi). It returns the first byte
// at which that could come too early, -1 if there is none.
func (r *races) write(lo, hi int64) int64 {
	if r == nil || lo >= hi {
		return -1
	}
	me := slices.Clone(r.now)
	r.split(lo, hi)
	i := r.first(lo)
	k, at := i, lo
	var fresh []run
	for ; k < len(r.runs) && r.runs[k].lo < hi; k++ {
		x := r.runs[k]
		if slices.ContainsFunc(x.readers, func(e event) bool { return !e.before(me) }) {
			return x.lo
		}
		unordered := notBefore(x.unordered, me)
		if len(x.readers) == 0 && !x.writer.before(me) {
			unordered = append(unordered, x.writer)
		}
		if len(unordered) > 0 {
			if at < x.lo {
				fresh = append(fresh, run{lo: at, hi: x.lo, writer: me})
			}
			fresh = append(fresh, run{lo: x.lo, hi: x.hi, writer: me, unordered: unordered})
			at = x.hi
		}
	}
	if at < hi {
		fresh = append(fresh, run{lo: at, hi: hi, writer: me})
	}
	r.runs = replaced(r.runs, i, k, fresh...)
	return -1
}

// notBefore keeps the events of a list that need not be complete before another.
func notBefore(list []event, e event) []event {
	return slices.DeleteFunc(slices.Clone(list), func(x event) bool { return x.before(e) })
}

// first is the index of the first run that ends after a byte.
func (r *races) first(at int64) int {
	i, _ := slices.BinarySearchFunc(r.runs, at, func(x run, at int64) int { return cmp.Compare(x.hi, at+1) })
	return i
}

// split cuts runs at both ends of [lo, hi).
func (r *races) split(lo, hi int64) {
	for _, at := range [2]int64{lo, hi} {
		i := r.first(at)
		if i < len(r.runs) && r.runs[i].lo < at {
			x := r.runs[i]
			low, high := x, x
			low.hi, high.lo = at, at
			low.readers, low.unordered = slices.Clone(x.readers), slices.Clone(x.unordered)
			r.runs = replaced(r.runs, i, i+1, low, high)
		}
	}
}
