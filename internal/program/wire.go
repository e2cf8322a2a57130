package program

import (
	"fmt"
	"math"
	"slices"

	"github.com/berth-onnx/berth/loops"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// Instructions with bodies. A body is compiled once. For a loop, everything that running and checking it ask for is
// translated into slots here: which slots rotate with the iterations, and the sources and targets of carried values,
// slices and stacked outputs.

func (c *compiler) branch(in *Instr, levels []int) error {
	in.Kind, in.other = Branch, slices.Index(in.Node.BodyAttr, "else_branch")
	for _, body := range in.Node.Bodies {
		off := len(in.Node.In) - len(body.Params)
		for i, p := range body.Params {
			c.slot.Put(p.ID, p, in.In[off+i])
		}
		b, err := c.block(body, levels)
		if err != nil {
			return err
		}
		in.Bodies = append(in.Bodies, b)
	}
	return nil
}

func (c *compiler) iterate(in *Instr, levels []int) error {
	in.Kind = Iterate
	rot := c.p.Timeline.Rotation(in.Node)
	if rot == nil {
		return ops.AtNode("compile", in.Node, fmt.Errorf("the loop was not laid out"))
	}
	l := &Loop{Ring: rot.Ring, Compact: rot.Compact, MinTrips: rot.MinTrips, MaxTrips: math.MaxInt,
		Level: c.p.Levels, Iter: -1, Trip: -1, state: c.p.states}
	if k, ok := rot.Trips.Const(); ok {
		l.MaxTrips = int(k)
	}
	c.p.Levels++
	c.p.states++
	in.Loop = l
	if rot.Iter != nil {
		if s, err := ops.LoopOf(in.Node); err == nil {
			l.Endless, _ = s.Endless(in.Node)
		}
	}
	inner := append(slices.Clone(levels), l.Level)
	off := len(in.Node.In) - in.Node.Captures
	np := len(rot.Body.Params) - in.Node.Captures
	for i, p := range rot.Body.Params[np:] {
		c.slot.Put(p.ID, p, in.In[off+i])
	}
	first := len(c.p.Slots)
	b, err := c.block(rot.Body, inner)
	if err != nil {
		return err
	}
	in.Bodies = []*Block{b}
	for s := first; s < len(c.p.Slots); s++ {
		if slices.Contains(c.p.Slots[s].Levels, l.Level) {
			l.Rotate = append(l.Rotate, s)
		}
	}
	c.wireLoop(l, rot, inner)
	findGrowth(c.ctx, l, rot.Carries, b)
	return nil
}

// wireLoop translates the rotation's values into slots.
func (c *compiler) wireLoop(l *Loop, rot *loops.Rotation, inner []int) {
	if rot.Iter != nil {
		l.Iter, _ = c.slot.Get(rot.Iter.ID, rot.Iter)
	}
	if rot.Trip != nil {
		l.Trip = c.slotOf(rot.Trip, inner[:len(inner)-1])
	}
	slot := func(v *ssa.Value) int { return c.slotOf(v, inner) }
	for _, cr := range rot.Carries {
		l.Carries = append(l.Carries, Carry{slot(cr.Param), slot(cr.Init), slot(cr.Result), slot(cr.Out)})
	}
	c.findSticky(l, rot)
	for _, s := range rot.ScanIns {
		l.ScanIns = append(l.ScanIns, ScanIn{slot(s.Param), slot(s.Of), s.Axis, s.Reverse})
	}
	for _, s := range rot.ScanOuts {
		l.ScanOuts = append(l.ScanOuts, ScanOut{slot(s.Result), slot(s.Out), slot(s.Made), s.Axis, s.Reverse})
	}
}

// findSticky lists the rotating slots that hold values an iteration may pass on
// unchanged.
func (c *compiler) findSticky(l *Loop, rot *loops.Rotation) {
	t := c.p.Timeline
	for _, cr := range rot.Carries {
		if !rot.Sticky(cr) {
			continue
		}
		for _, block := range t.BlocksOf(cr.Result) {
			v := t.Vars[block].Value
			s, ok := c.slot.Get(v.ID, v)
			if ok && slices.Contains(l.Rotate, s) && !slices.Contains(l.Sticky, s) {
				l.Sticky = append(l.Sticky, s)
				c.p.stickyDigit[s] = slices.Index(c.p.Slots[s].Levels, l.Level)
			}
		}
	}
}

// setFree notes after which instruction each dynamic slot of a block has had its last use.
func (c *compiler) setFree(b *Block) {
	own := map[int]bool{}
	for i := range b.Instrs {
		for _, s := range b.Instrs[i].Out {
			if s >= 0 && c.p.Slots[s].Kind == SlotDynamic {
				own[s] = true
			}
		}
	}
	if len(own) == 0 {
		return
	}
	later := map[int]bool{}
	for _, r := range b.Results {
		later[r] = true
	}
	for i := len(b.Instrs) - 1; i >= 0; i-- {
		in := &b.Instrs[i]
		for _, s := range slices.Concat(in.In, in.Out) {
			if s >= 0 && own[s] && !later[s] {
				in.Free = append(in.Free, s)
				later[s] = true
			}
		}
	}
}
