package program

import (
	"slices"

	"github.com/berth-onnx/berth/inplace"
	"github.com/berth-onnx/berth/liveness"
	"github.com/berth-onnx/berth/ssa"
)

// Slots. A value has one slot however often the loops around it were laid out; the
// offsets of all those copies become the slot's table, indexed by iteration:
//
//	y has period 2 in a loop       variables y@0, y@1      slot y: Offsets [64 128], Radix [2]
//	z has one offset               variables z@0, z@1      slot z: Offsets [0]
//
// Captured values have the slot of the outer value.

// param makes the slot of a graph parameter unless it has one (captures share
// their outer value's slot).
func (c *compiler) param(v *ssa.Value, g *ssa.Graph, levels []int) int {
	if s, ok := c.slot.Get(v.ID, v); ok {
		return s
	}
	if g == c.p.Graph {
		return c.addSlot(v, SlotInput, levels)
	}
	return c.slotOf(v, levels)
}

// slotOf returns the slot of a value, making it on first use.
func (c *compiler) slotOf(v *ssa.Value, levels []int) int {
	if v == nil {
		return -1
	}
	if s, ok := c.slot.Get(v.ID, v); ok {
		return s
	}
	kind := SlotDynamic
	_, static := v.Type.ByteSize()
	switch pl := c.p.Timeline.PlacesOf(v); {
	case v.Const != nil:
		kind = SlotConst
	case !static:
	case c.isPlaced(c.p.Graph, v):
		kind = SlotPlaced
	case pl != nil && c.p.Timeline.Vars[pl.Vars[0]].Kind == liveness.Block:
		kind = SlotArena
	default:
		kind = SlotPointer
	}
	return c.addSlot(v, kind, levels)
}

// slotsOf returns the slots of values.
func (c *compiler) slotsOf(vs []*ssa.Value, levels []int) []int {
	out := c.ids.Make(len(vs))
	for i, v := range vs {
		if i%lookEvery == lookEvery-1 && c.ctx.Err() != nil {
			return out
		}
		out[i] = c.slotOf(v, levels)
	}
	return out
}

func (c *compiler) addSlot(v *ssa.Value, kind SlotKind, levels []int) int {
	s := Slot{Value: v, Kind: kind, Const: v.Const}
	if n, ok := v.Type.ByteSize(); ok {
		s.Static, s.DType, s.Bytes = true, v.Type.DType, n
		if s.Shape = c.dims.Make(len(v.Type.Shape)); s.Shape == nil {
			s.Shape = []int{}
		}
		for i, d := range v.Type.Shape {
			k, _ := d.Const()
			s.Shape[i] = int(k)
		}
	}
	if kind == SlotArena {
		pl := c.p.Timeline.PlacesOf(v)
		s.Align = inplace.Align
		s.Offsets = c.bytes.Make(len(pl.Vars))
		for i, id := range pl.Vars {
			s.Offsets[i] = c.offsets[id]
			if c.inside[id] {
				s.Align = max(v.Type.DType.Size(), 1)
			}
		}
		s.Levels, s.Radix = levels[:len(pl.Radix)], pl.Radix
		if !slices.ContainsFunc(s.Offsets, func(at int64) bool { return at != s.Offsets[0] }) {
			s.Offsets, s.Levels, s.Radix = s.Offsets[:1], nil, nil
		}
	}
	c.p.Slots = append(c.p.Slots, s)
	c.slot.Put(v.ID, v, len(c.p.Slots)-1)
	return len(c.p.Slots) - 1
}
