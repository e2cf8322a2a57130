package program

import (
	"fmt"
	"slices"

	"github.com/berth-onnx/berth/loops"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// Instructions with bodies. A body is compiled once; for a loop it is written down
// which of its slots turn with the iterations, and where what is carried, sliced
// and stacked comes from and goes to.

func (c *compiler) branch(in *Instr, levels []int) error {
	in.Kind = Branch
	for _, body := range in.Node.Bodies {
		off := len(in.Node.In) - len(body.Params)
		for i, p := range body.Params {
			c.slot[p] = in.In[off+i]
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
	l := &Loop{Rotation: rot, Level: c.p.Levels, Iter: -1, Trip: -1, state: c.p.states}
	c.p.Levels++
	c.p.states++
	in.Loop = l
	inner := append(append([]int(nil), levels...), l.Level)
	off := len(in.Node.In) - in.Node.Captures
	np := len(rot.Body.Params) - in.Node.Captures
	for i, p := range rot.Body.Params[np:] {
		c.slot[p] = in.In[off+i]
	}
	first := len(c.p.Slots)
	b, err := c.block(rot.Body, inner)
	if err != nil {
		return err
	}
	in.Bodies = []*Block{b}
	for s := first; s < len(c.p.Slots); s++ {
		for _, lv := range c.p.Slots[s].Levels {
			if lv == l.Level {
				l.Rotate = append(l.Rotate, s)
			}
		}
	}
	c.wireLoop(l, rot, in, inner)
	findGrowth(l, b)
	return nil
}

// wireLoop translates the rotation's values into slots.
func (c *compiler) wireLoop(l *Loop, rot *loops.Rotation, in *Instr, inner []int) {
	if rot.Iter != nil {
		l.Iter = c.slot[rot.Iter]
	}
	if rot.Trip != nil {
		l.Trip = c.slotOf(rot.Trip, inner[:len(inner)-1])
	}
	slot := func(v *ssa.Value) int {
		if v == nil {
			return -1
		}
		return c.slotOf(v, inner)
	}
	for _, cr := range rot.Carries {
		l.Carries = append(l.Carries, Carry{slot(cr.Param), slot(cr.Init), slot(cr.Result), slot(cr.Out)})
	}
	c.findSticky(l, rot)
	for _, s := range rot.ScanIns {
		l.ScanIns = append(l.ScanIns, slot(s.Param))
	}
	for _, s := range rot.ScanOuts {
		l.ScanOuts = append(l.ScanOuts, ScanOut{slot(s.Result), slot(s.Out), slot(s.Made)})
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
			s, ok := c.slot[t.Vars[block].Value]
			if ok && slices.Contains(l.Rotate, s) && !slices.Contains(l.Sticky, s) {
				l.Sticky = append(l.Sticky, s)
				c.p.stickyDigit[s] = slices.Index(c.p.Slots[s].Levels, l.Level)
			}
		}
	}
}

// setFree notes after which instruction each dynamic slot of a block is dead.
func (c *compiler) setFree(b *Block) {
	later := map[int]bool{}
	for _, r := range b.Results {
		later[r] = true
	}
	own := map[int]bool{}
	for i := range b.Instrs {
		for _, s := range b.Instrs[i].Out {
			own[s] = s >= 0 && c.p.Slots[s].Kind == SlotDynamic
		}
	}
	for i := len(b.Instrs) - 1; i >= 0; i-- {
		in := &b.Instrs[i]
		for _, s := range append(append([]int(nil), in.In...), in.Out...) {
			if s >= 0 && own[s] && !later[s] {
				in.Free = append(in.Free, s)
				later[s] = true
			}
		}
	}
}
