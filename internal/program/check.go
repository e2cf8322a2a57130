package program

import (
	"context"
	"fmt"
	"slices"

	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// The symbolic verifier of plans replays a program without computing anything. The
// arena is a map from bytes to the identity of what was last written there; every
// read must find exactly the value that SSA says the operand is.
//
//	arena   0        64        128       192
//	        ├ v7 ─────┼ v9 ─────┼ v9+64 ──┤
//	read b at 64, 128 bytes, expecting v9: fine
//	read a at 0,   64 bytes, expecting v5: v7 lies there, the plan is wrong
//
// Values are followed through views, branches and loop rotation by the rules of
// SSA (a parameter is the result of the iteration before), offsets by the rules
// of the runtime (a pointer is where it was last pointed). How often loops run, and
// which branches, is in checktrips.go. Nothing is shared with package liveness:
// this is the second verifier of every plan, after planner.Validate.
//
// Source: the symbolic checkers of register allocators (regalloc2's checker.rs
// describes the idea); NNC specification §4.4.

// CheckError says at which step of a replay a program went wrong.
type CheckError struct {
	Node   string // operator and name
	Value  string // the value that is not what it must be
	Reason string
	Trips  int // loop trip count of the replay; negative: a different one each time
}

// Error prints node, value and what is wrong.
func (e *CheckError) Error() string {
	return fmt.Sprintf("plan check: at %s: value %q %s (loops running %d times)", e.Node, e.Value, e.Reason, e.Trips)
}

// piece is a run of bytes of one written value: bytes [at, at+n) of value id.
type piece struct {
	id, at, n int64
}

// anything is the identity of bytes a short replay never came to write.
const anything = -1

// location is an offset in the arena, or in memory that no plan can overwrite.
type location struct {
	arena bool
	off   int64
	span  int64 // not 0: a window somewhere in this many bytes
}

func arenaAt(off int64) location { return location{arena: true, off: off} }

type replay struct {
	p       *Program
	cells   cells
	loc     []location // by slot
	expect  [][]piece  // by slot
	iter    []int
	pick    map[int]int
	fresh   int64
	trips   tripCounts
	pattern int
	chosen  int // branches taken so far
	entered int // loops entered so far
	ctx     context.Context

	race *races // nil when only the program's own order counts
}

func newReplay(ctx context.Context, p *Program, trips tripCounts, pattern int) *replay {
	r := &replay{p: p, loc: make([]location, len(p.Slots)), expect: make([][]piece, len(p.Slots)), iter: make([]int, p.Levels),
		pick: map[int]int{}, trips: trips, pattern: pattern, ctx: ctx}
	for i, s := range p.Slots {
		if ctx.Err() != nil {
			break // and so does the replay
		}
		switch s.Kind {
		case SlotArena:
			r.loc[i] = arenaAt(s.Offsets[0])
		case SlotConst, SlotInput:
			r.expect[i] = r.value(int64(s.Bytes))
		}
	}
	r.overwrittenAt()
	return r
}

// value makes a new identity of n bytes.
func (r *replay) value(n int64) []piece {
	r.fresh++
	return []piece{{r.fresh, 0, n}}
}

func (r *replay) fail(n *ssa.Node, slot int, format string, args ...any) error {
	e := &CheckError{Node: "the end", Reason: fmt.Sprintf(format, args...), Trips: r.trips.all}
	if n != nil {
		e.Node = n.String()
	}
	if slot >= 0 {
		e.Value = r.p.Slots[slot].Value.Name
	}
	return e
}

func (r *replay) main() error {
	if err := r.ctx.Err(); err != nil {
		return err
	}
	if err := r.geometry(); err != nil {
		return err
	}
	if err := r.block(r.p.Main); err != nil {
		return err
	}
	for _, s := range r.p.Main.Results {
		if err := r.read(nil, s); err != nil {
			return err
		}
	}
	return nil
}

// geometry checks that every slot lies inside the arena and is aligned.
func (r *replay) geometry() error {
	for i, s := range r.p.Slots {
		for _, off := range s.Offsets {
			switch {
			case off < 0 || off+int64(s.Bytes) > r.p.ArenaBytes:
				return r.fail(s.Value.Def, i, "lies at [%d, %d), outside the arena of %d bytes", off, off+int64(s.Bytes), r.p.ArenaBytes)
			case off%int64(s.Align) != 0:
				return r.fail(s.Value.Def, i, "lies at %d, which is not aligned to %d", off, s.Align)
			}
		}
	}
	return nil
}

func (r *replay) block(b *Block) error {
	r.race.open(b)
	defer r.race.shut()
	for i := range b.Instrs {
		in := &b.Instrs[i]
		if err := r.ctx.Err(); err != nil {
			return err
		}
		r.race.step(i)
		var err error
		switch in.Kind {
		case Exec:
			err = r.exec(in)
		case View:
			err = r.readAll(in)
			r.view(in)
		case Branch:
			err = r.branch(in)
		case Iterate:
			err = r.iterate(in)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// view points results at windows of the operand: part of its bytes and of its value.
func (r *replay) view(in *Instr) {
	of := in.In[0]
	for i, o := range in.Out {
		if o < 0 {
			continue
		}
		r.loc[o] = r.loc[of]
		if r.loc[of].span > 0 || in.Moving != nil && r.p.Slots[o].Bytes < r.p.Slots[of].Bytes {
			r.anywhere(o, of)
			continue
		}
		r.loc[o].off += in.Windows[i]
		r.expect[o] = window(r.expect[of], in.Windows[i], int64(r.p.Slots[o].Bytes))
	}
}

// anywhere points a slot at a window that may be anywhere in an operand: to read it
// is to read all of that.
func (r *replay) anywhere(slot, of int) {
	r.expect[slot] = r.expect[of]
	if r.loc[slot].span == 0 {
		r.loc[slot].span = max(int64(r.p.Slots[of].Bytes), 1)
	}
}

// assign makes slot a an alias of slot b: same location, same value.
func (r *replay) assign(a, b int) {
	if a >= 0 {
		r.loc[a], r.expect[a] = r.loc[b], r.expect[b]
	}
}

// readAll reads the operands of an instruction.
func (r *replay) readAll(in *Instr) error {
	for _, s := range in.In {
		if err := r.read(in.Node, s); err != nil {
			return err
		}
	}
	return nil
}

// read checks that a slot's bytes are of the value SSA expects there.
func (r *replay) read(n *ssa.Node, slot int) error {
	if slot < 0 || !r.loc[slot].arena || r.p.Slots[slot].Kind == SlotConst {
		return nil
	}
	at := r.loc[slot].off
	for _, want := range r.expect[slot] {
		if err := r.ctx.Err(); err != nil {
			return err
		}
		if want.id == anything {
			at += want.n
			continue
		}
		if got, ok := r.cells.find(at, want); !ok {
			reason := "nothing was written there"
			if got != 0 {
				reason = fmt.Sprintf("another value (write %d) lies there", got)
			}
			return r.fail(n, slot, "is overwritten at arena byte %d: %s", at, reason)
		}
		if at := r.race.read(at, at+want.n); at >= 0 {
			return r.fail(n, slot, "may be overwritten at arena byte %d in another order of the nodes", at)
		}
		at += want.n
	}
	return nil
}

// put writes the pieces of a value at an offset, unless the context has ended.
func (r *replay) put(at int64, value []piece) {
	for _, p := range value {
		if r.ctx.Err() != nil {
			return
		}
		r.cells.put(at, p)
		at += p.n
	}
}

// write puts a new value into a slot.
func (r *replay) write(n *ssa.Node, slot int) error {
	s := &r.p.Slots[slot]
	if !s.Static || s.Bytes == 0 {
		r.loc[slot], r.expect[slot] = location{}, nil
		return nil
	}
	if !r.loc[slot].arena && s.Kind == SlotPointer && r.loc[slot].off < 0 {
		r.expect[slot] = nil // a slice of memory that grows while running
		return nil
	}
	if s.Kind == SlotPlaced && !r.loc[slot].arena {
		return nil
	}
	if !r.loc[slot].arena {
		return r.fail(n, slot, "is written but has no offset in the arena")
	}
	r.expect[slot] = r.value(int64(s.Bytes))
	r.cells.put(r.loc[slot].off, r.expect[slot][0])
	return r.ordered(n, slot, r.loc[slot].off, int64(s.Bytes))
}

// ordered reports an error if in another schedule the present write of a run of bytes
// could come before a read of what they held.
func (r *replay) ordered(n *ssa.Node, slot int, off, size int64) error {
	if at := r.race.write(off, off+size); at >= 0 {
		return r.fail(n, slot, "is written at arena byte %d, and nothing makes that wait until all have read what was there before", at)
	}
	return nil
}

// exec replays a kernel: operands are read, then results and workspace written;
// nothing written may touch an operand except in an in-place pair.
func (r *replay) exec(in *Instr) error {
	if err := r.readAll(in); err != nil {
		return err
	}
	if err := r.disjoint(in); err != nil {
		return err
	}
	if in.Join != nil {
		return r.join(in)
	}
	if in.Work > 0 {
		r.fresh++
		r.cells.put(in.Scratch, piece{r.fresh, 0, in.Work})
		if err := r.ordered(in.Node, -1, in.Scratch, in.Work); err != nil {
			return err
		}
	}
	for _, s := range in.Out {
		if s < 0 {
			continue
		}
		if err := r.write(in.Node, s); err != nil {
			return err
		}
	}
	return nil
}

// join replays a concatenation: the result's bytes are the operands' bytes,
// wherever those were made.
func (r *replay) join(in *Instr) error {
	o := in.Out[0]
	if o < 0 || r.p.Slots[o].Bytes == 0 {
		return nil
	}
	if !r.loc[o].arena {
		if r.p.Slots[o].Kind == SlotPointer && r.loc[o].off < 0 {
			return nil
		}
		return r.fail(in.Node, o, "is written but has no offset in the arena")
	}
	var all []piece
	at := r.loc[o].off
	for i, a := range in.In {
		if err := r.ctx.Err(); err != nil {
			return err
		}
		size := int64(r.p.Slots[a].Bytes)
		all = append(all, r.expectOf(a, size)...)
		if into := at + in.Join[i]; size > 0 && r.loc[a] != arenaAt(into) {
			if err := r.ordered(in.Node, o, into, size); err != nil {
				return err
			}
		}
	}
	r.put(at, all)
	r.expect[o] = all
	return nil
}

// pairs are operands and the results that may be written over them, looked up where they are many.
type pairs struct {
	list  []ops.Pair
	known map[ops.Pair]bool
}

func (p *pairs) has(pair ops.Pair) bool {
	const few = 16
	if len(p.list) <= few {
		return slices.Contains(p.list, pair)
	}
	if p.known == nil {
		p.known = make(map[ops.Pair]bool, len(p.list))
		for _, q := range p.list {
			p.known[q] = true
		}
	}
	return p.known[pair]
}

// disjoint checks that an instruction's results, workspace and operands do not
// overlap where they must not.
func (r *replay) disjoint(in *Instr) error {
	alike, smaller := pairs{list: ops.InPlacePairs(in.Node)}, pairs{}
	for k, o := range in.Out {
		if o < 0 || !r.loc[o].arena {
			continue
		}
		lo, hi := r.loc[o].off, r.loc[o].off+int64(r.p.Slots[o].Bytes)
		if in.Work > 0 && lo < in.Scratch+in.Work && in.Scratch < hi {
			return r.fail(in.Node, o, "overlaps the kernel's workspace")
		}
		for j, q := range in.Out[:k] {
			if q >= 0 && r.overlap(q, lo, hi) {
				return r.fail(in.Node, o, "overlaps result %d", j)
			}
		}
		for i, a := range in.In {
			if err := r.ctx.Err(); err != nil {
				return err
			}
			if a < 0 || !r.overlap(a, lo, hi) || r.madeThere(in, i, lo) {
				continue
			}
			may := &alike
			if r.p.Slots[a].Bytes > r.p.Slots[o].Bytes {
				if may = &smaller; may.list == nil {
					may.list = ops.SmallerPairs(in.Node)
				}
			}
			fits := r.loc[a] == arenaAt(lo) && r.p.Slots[a].Bytes >= r.p.Slots[o].Bytes
			if !fits || !may.has(ops.Pair{In: i, Out: k}) {
				return r.fail(in.Node, o, "is written over operand %d while that is read", i)
			}
		}
	}
	for i, a := range in.In {
		if in.Work > 0 && a >= 0 && r.overlap(a, in.Scratch, in.Scratch+in.Work) {
			return r.fail(in.Node, a, "(operand %d) overlaps the kernel's workspace", i)
		}
	}
	if in.Work > 0 && (in.Scratch < 0 || in.Scratch+in.Work > r.p.ArenaBytes) {
		return r.fail(in.Node, -1, "has its workspace outside the arena")
	}
	return nil
}

// madeThere reports whether operand i of a concatenation lies inside one that
// was made in its window of the result, most often itself, and so is not written over.
func (r *replay) madeThere(in *Instr, i int, result int64) bool {
	lo := r.loc[in.In[i]].off
	hi := lo + r.extent(in.In[i])
	inside := func(j int) bool {
		s, at := in.In[j], result+in.Join[j]
		return s >= 0 && r.loc[s] == arenaAt(at) && lo >= at && hi <= at+int64(r.p.Slots[s].Bytes)
	}
	if i < len(in.Join) && inside(i) {
		return true
	}
	for j := range in.Join {
		if inside(j) {
			return true
		}
	}
	return false
}

func (r *replay) overlap(slot int, lo, hi int64) bool {
	w := r.loc[slot]
	return w.arena && w.off < hi && lo < w.off+r.extent(slot)
}

// extent is the bytes from its offset on that a slot may alias.
func (r *replay) extent(slot int) int64 {
	return max(r.loc[slot].span, int64(r.p.Slots[slot].Bytes))
}

func (r *replay) branch(in *Instr) error {
	if err := r.read(in.Node, in.In[0]); err != nil {
		return err
	}
	which := 0
	switch r.pattern {
	case 1:
		which = 1
	case 2:
		which = r.chosen % 2
	case 3:
		which = (r.chosen*r.chosen/3 + 1) % 2
	}
	r.chosen++
	body := in.Bodies[which%len(in.Bodies)]
	r.race.tick()
	if err := r.block(body); err != nil {
		return err
	}
	r.race.tick()
	for i, o := range in.Out {
		if err := r.read(in.Node, body.Results[i]); err != nil {
			return err
		}
		r.assign(o, body.Results[i])
	}
	return nil
}
