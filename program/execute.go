package program

import (
	"errors"
	"fmt"
	"slices"
	"unsafe"

	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
)

// Running instructions. Static slots have headers that point into the arena once and
// for all, so the common instruction is one call of its kernel; what has no place
// before the run takes the longer way:
//
//	Exec      static   kernel on the headers
//	          dynamic  appended to, or kept cache ──▶ written in place   (grow.go, cache.go)
//	                   Identity                   ──▶ handed on
//	                   else kernel; its result is taken out of the arena (detach)
//	View      the result's header is pointed into the operand
//	Branch    the condition picks a body; its results are pointed to
//	Iterate   iterate.go

// carried is a value on its way to the next iteration: bytes of a static value,
// or anything.
type carried struct {
	data []byte
	val  ndarray.Value
}

func (s *Session) run(b *Block) error {
	for i := range b.Instrs {
		in := &b.Instrs[i]
		select {
		case <-s.done:
			return s.ctx.Err()
		default:
		}
		s.at = in
		var err error
		switch in.Kind {
		case Exec:
			err = s.exec(in)
		case View:
			err = s.view(in)
		case Branch, Iterate:
			err = s.control(in)
		}
		if err != nil {
			return err
		}
		if s.Observe != nil {
			s.observe(in)
		}
		for _, f := range in.Free {
			s.drop(f)
		}
	}
	return nil
}

// control runs a branch or a loop; their bodies know arrays only.
func (s *Session) control(in *Instr) error {
	if len(s.kept) > 0 {
		if _, err := s.onStrided(in); err != nil {
			return s.wrap(in, err)
		}
	}
	if in.Kind == Branch {
		return s.branch(in)
	}
	return s.iterate(in)
}

func (s *Session) observe(in *Instr) {
	out := make([]ndarray.Value, len(in.Out))
	for i, sl := range in.Out {
		if sl >= 0 {
			out[i] = s.vals[sl]
			if v, ok := out[i].(*strided); ok {
				out[i] = v.contiguous()
			}
		}
	}
	s.Observe(in, out)
}

func (s *Session) exec(in *Instr) error {
	c := &s.calls[in.call]
	if !in.Dynamic {
		if err := in.Kernel.Run(c); err != nil {
			return s.wrap(in, err)
		}
		return nil
	}
	if done, err := s.shortcut(in); done || err != nil {
		return s.wrapAny(in, err)
	}
	s.fill(c, in)
	if err := s.grown(); err != nil {
		return s.wrap(in, err)
	}
	c.Scratch = s.work
	if err := s.compute(in, c); err != nil {
		return s.wrap(in, err)
	}
	s.work = c.Scratch
	for i, sl := range in.Out {
		if sl >= 0 && !s.p.Slots[sl].Static {
			s.vals[sl] = s.detach(c.Out[i])
		}
	}
	clear(c.In) // the call keeps no value alive
	clear(c.Out)
	return nil
}

// compute runs a kernel on values of unknown shapes.
func (s *Session) compute(in *Instr, c *ops.Call) error {
	if k, ok := in.Kernel.(*dynamicKernel); ok {
		return k.run(c, &s.recycled)
	}
	return in.Kernel.Run(c)
}

// grown checks now and then that what grows bit by bit, such as a sequence in a
// loop, has not outgrown the memory a run may use.
func (s *Session) grown() error {
	if s.steps++; s.steps%64 != 0 {
		return nil
	}
	return ops.Room("the run", 0, s.p.maxMemory)
}

// shortcut runs instructions on dynamic values that need no kernel.
func (s *Session) shortcut(in *Instr) (done bool, err error) {
	if in.grow != nil {
		if done, err = s.appendTo(in); done || err != nil {
			return done, err
		}
	}
	if in.cache > 0 {
		if done, err = s.appendCache(in); done || err != nil {
			return done, err
		}
	}
	if len(s.kept) > 0 {
		if done, err = s.onStrided(in); done || err != nil {
			return done, err
		}
	}
	return s.passOn(in), nil
}

func (s *Session) wrapAny(in *Instr, err error) error {
	if err == nil {
		return nil
	}
	return s.wrap(in, err)
}

// passOn lets the result of an Identity be its operand, where that lies outside the
// arena: dynamic values are never written again.
func (s *Session) passOn(in *Instr) bool {
	if in.Node.Op != "Identity" || in.Node.Domain != "" || in.In[0] < 0 || s.p.Slots[in.In[0]].Static || s.p.Slots[in.Out[0]].Static {
		return false
	}
	v := s.vals[in.In[0]]
	if a, ok := v.(*ndarray.Array); !ok || s.inArena(a.Data) {
		return false
	}
	s.point(in.Out[0], v)
	return true
}

// wrap names the node of an error unless it is named or a cancellation.
func (s *Session) wrap(in *Instr, err error) error {
	var ne *ops.NodeError
	if errors.As(err, &ne) || s.ctx.Err() != nil && errors.Is(err, s.ctx.Err()) {
		return err
	}
	return ops.AtNode("run", in.Node, err)
}

// detach copies what a dynamic result shares with the arena: its places will be
// written again while the result lives on.
func (s *Session) detach(v ndarray.Value) ndarray.Value {
	switch x := v.(type) {
	case *ndarray.Array:
		if x != nil && s.inArena(x.Data) {
			return x.Clone()
		}
	case *ndarray.Sequence:
		var own []ndarray.Value // made with the first member that is copied
		for i, it := range x.Items {
			d := s.detach(it)
			if d != it && own == nil {
				own = slices.Clone(x.Items)
			}
			if own != nil {
				own[i] = d
			}
		}
		if own != nil {
			return &ndarray.Sequence{Elem: x.Elem, Items: own}
		}
	case *ndarray.Optional:
		if x.Value != nil {
			return &ndarray.Optional{Value: s.detach(x.Value)}
		}
	case *ndarray.Map:
		keys, _ := s.detach(x.Keys).(*ndarray.Array)
		return &ndarray.Map{Keys: keys, Values: s.detach(x.Values)}
	}
	return v
}

func (s *Session) inArena(b []byte) bool {
	if len(b) == 0 || len(s.arena) == 0 {
		return false
	}
	p, base := uintptr(unsafe.Pointer(&b[0])), uintptr(unsafe.Pointer(&s.arena[0]))
	return p >= base && p < base+uintptr(len(s.arena))
}

// view points results at their windows of the operand.
func (s *Session) view(in *Instr) error {
	var further int64
	if in.Moving != nil {
		tuple, _ := s.vals[in.In[1]].(*ndarray.Array)
		var err error
		if further, err = in.Moving.Offset(tuple); err != nil {
			return ops.AtNode("run", in.Node, err)
		}
	}
	of := s.vals[in.In[0]].(*ndarray.Array).Data
	for i, o := range in.Out {
		if o >= 0 {
			lo, n := in.Windows[i]+further, int64(s.p.Slots[o].Bytes)
			s.heads[o].Data = of[lo : lo+n : lo+n]
		}
	}
	return nil
}

// point lets a slot stand for another slot's value without moving bytes.
func (s *Session) point(slot int, v ndarray.Value) {
	if slot < 0 {
		return
	}
	s.deliver(slot, carry(v))
}

// carry takes hold of a value before headers move.
func carry(v ndarray.Value) carried {
	if a, ok := v.(*ndarray.Array); ok && a != nil {
		return carried{a.Data, v}
	}
	return carried{nil, v}
}

// deliver stores a carried value in a pointer or dynamic slot. Dynamic slots get
// a header of their own: the value's may be pointed elsewhere later.
func (s *Session) deliver(slot int, c carried) {
	sl := &s.p.Slots[slot]
	if sl.Static {
		s.heads[slot].Data = c.data[:sl.Bytes:sl.Bytes]
		return
	}
	if a, ok := c.val.(*ndarray.Array); ok && a != nil {
		s.vals[slot] = &ndarray.Array{DType: a.DType, Shape: slices.Clone(a.Shape), Data: c.data, Str: a.Str}
		return
	}
	s.vals[slot] = c.val
}

func (s *Session) branch(in *Instr) error {
	cond, ok := s.vals[in.In[0]].(*ndarray.Array)
	if !ok || cond.DType != ndarray.Bool || len(cond.Data) != 1 {
		return ops.AtNode("run", in.Node, fmt.Errorf("the condition is not one boolean"))
	}
	want := "else_branch"
	if cond.Data[0] != 0 {
		want = "then_branch"
	}
	body := in.Bodies[slices.Index(in.Node.BodyAttr, want)]
	if err := s.run(body); err != nil {
		return ops.AtNode("run", in.Node, err)
	}
	for i, o := range in.Out {
		s.point(o, s.vals[body.Results[i]])
	}
	return nil
}
