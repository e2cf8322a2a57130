package program

import (
	"errors"
	"fmt"
	"slices"
	"unsafe"

	"github.com/berth-onnx/berth/internal/sysmem"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
)

// Running instructions. The headers of static slots point into the arena permanently,
// so the common instruction is one call of its kernel. Values whose size is known only
// while running need more:
//
//	Exec      static   kernel on the headers
//	          dynamic  appended to, or kept cache ──▶ written in place   (grow.go, cache.go)
//	                   Identity                   ──▶ the operand itself
//	                   else kernel; its result is copied out of the arena (detach)
//	View      the result's header is pointed into the operand
//	Branch    the condition picks a body; its results are pointed to
//	Iterate   iterate.go

// carried is a value between two iterations of a loop: the bytes of a static value, or
// any value.
type carried struct {
	data []byte
	val  ndarray.Value
}

func (s *Session) run(b *Block) error {
	for i := range b.Instrs {
		if err := s.ended(); err != nil {
			return err
		}
		in := &b.Instrs[i]
		s.at = in
		if in.commits {
			s.commit()
		}
		if in.Kind == Exec && !in.Dynamic && !s.watched {
			if err := in.Kernel.Run(&s.calls[in.call]); err != nil {
				return s.wrap(in, err)
			}
			continue
		}
		if err := s.runWatched(in); err != nil {
			return err
		}
	}
	return nil
}

// stepsPerErr is how many steps a run takes between two looks at the error of its context, which a budget may have ended:
// that costs more than a look at whether it is done.
const stepsPerErr = 16

// ended is the error of the run's context once that has ended. It is asked before each step.
func (s *Session) ended() error {
	sysmem.LookAtPages()
	if s.steps++; s.steps%stepsPerErr == 0 {
		if err := s.ctx.Err(); err != nil {
			return err
		}
	}
	if s.done == nil {
		return nil
	}
	select {
	case <-s.done:
		return s.ctx.Err()
	default:
		return nil
	}
}

// runWatched runs any instruction, tells those that watch, and drops what has had its last use.
func (s *Session) runWatched(in *Instr) (err error) {
	if h := s.p.hook; h != nil {
		err = s.hooked(h, in)
	} else {
		err = s.step(in)
	}
	if err != nil {
		return err
	}
	if s.Observe != nil {
		if err := s.observe(in); err != nil {
			return s.wrap(in, err)
		}
	}
	for _, f := range in.Free {
		s.drop(f)
	}
	return nil
}

// step runs one instruction.
func (s *Session) step(in *Instr) error {
	switch in.Kind {
	case Exec:
		return s.exec(in)
	case View:
		return s.view(in)
	}
	return s.control(in)
}

// control runs a branch or a loop. Strided operands are made contiguous before: bodies take arrays only.
func (s *Session) control(in *Instr) error {
	if len(s.kept) > 0 {
		if _, err := s.onStrided(in); err != nil {
			return s.wrap(in, err)
		}
	}
	if in.Kind == Branch {
		return ops.AtNode("run", in.Node, s.branch(in))
	}
	return ops.AtNode("run", in.Node, s.iterate(in))
}

func (s *Session) observe(in *Instr) error {
	if err := s.read(in.Out); err != nil {
		return err
	}
	out := make([]ndarray.Value, len(in.Out))
	for i, sl := range in.Out {
		if sl >= 0 {
			out[i] = s.vals[sl]
			if v, ok := out[i].(*strided); ok {
				a, err := s.whole(v)
				if err != nil {
					return err
				}
				out[i] = a
			}
		}
	}
	s.Observe(in, out)
	return nil
}

func (s *Session) exec(in *Instr) error {
	c := &s.calls[in.call]
	if !in.Dynamic {
		if err := s.onKernel(in.Kernel, c); err != nil {
			return s.wrap(in, err)
		}
		return nil
	}
	if done, err := s.withoutKernel(in); err != nil {
		return s.wrap(in, err)
	} else if done {
		s.wrote(in.Out)
		return nil
	}
	s.fill(c, in)
	c.Scratch = s.work
	err := s.execOpen(in, c)
	s.work, c.Scratch = c.Scratch, nil // so that the call keeps nothing reachable
	clear(c.In)
	clear(c.Out)
	if err != nil {
		return s.wrap(in, err)
	}
	return nil
}

// execOpen computes the results of an instruction on values of unknown shapes.
func (s *Session) execOpen(in *Instr, c *ops.Call) error {
	if err := s.p.memory.AskContext(c.Ctx, "the run", int64(len(in.Out))*headerBytes); err != nil {
		return err
	}
	if err := s.compute(in, c); err != nil {
		return err
	}
	for i, sl := range in.Out {
		if sl >= 0 && !s.p.Slots[sl].Static {
			v, err := s.detach(c.Out[i])
			if err != nil {
				return err
			}
			s.vals[sl] = v
		}
	}
	return nil
}

// compute runs a kernel on values of unknown shapes.
func (s *Session) compute(in *Instr, c *ops.Call) error {
	if k, ok := in.Kernel.(*dynamicKernel); ok {
		if err := s.read(in.In); err != nil { // kernels are chosen by the contents of some
			return err
		}
		return k.run(c, &s.recycled, &s.last[in.call], s.onKernel)
	}
	return s.onKernel(in.Kernel, c)
}

// headerBytes is about what a value takes besides its elements: a loop may collect values
// without any.
const headerBytes = 128

// withoutKernel runs instructions on dynamic values that need no kernel.
func (s *Session) withoutKernel(in *Instr) (done bool, err error) {
	if in.grow != nil || in.cache > 0 || len(s.kept) > 0 {
		if err := s.read(in.In); err != nil {
			return false, err
		}
	}
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
	return s.identity(in), nil
}

// identity makes the result of an Identity its operand, where that lies outside the
// arena: dynamic values are never written again.
func (s *Session) identity(in *Instr) bool {
	if in.Node.Op != "Identity" || in.Node.Domain != "" || in.In[0] < 0 || s.p.Slots[in.In[0]].Static || s.p.Slots[in.Out[0]].Static {
		return false
	}
	v := s.vals[in.In[0]]
	if a, ok := v.(*ndarray.Array); !ok || s.reused(a.Data) {
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

// detach copies what a dynamic result shares with the arena: those bytes will be
// written again while the result is still live.
func (s *Session) detach(v ndarray.Value) (ndarray.Value, error) {
	if a, ok := v.(*ndarray.Array); ok && (a == nil || !s.reused(a.Data)) {
		return v, nil
	}
	return s.replaced(v, func(a *ndarray.Array) (*ndarray.Array, error) {
		if s.reused(a.Data) {
			return s.clone(a)
		}
		return a, nil
	})
}

// reused reports whether bytes begin where another value can be written in the same run.
func (s *Session) reused(b []byte) bool {
	return s.inArena(b) || slices.ContainsFunc(s.states, func(st stateMemory) bool { return holds(st.data, b) })
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
	var base int64
	if in.Moving != nil {
		tuple, _ := s.vals[in.In[1]].(*ndarray.Array)
		err := s.readOne(in.In[1])
		if err != nil {
			return ops.AtNode("run", in.Node, err)
		}
		if base, err = in.Moving.Offset(tuple); err != nil {
			return ops.AtNode("run", in.Node, err)
		}
	}
	of := s.vals[in.In[0]].(*ndarray.Array).Data
	for i, o := range in.Out {
		if o >= 0 {
			lo, n := in.Windows[i]+base, int64(s.p.Slots[o].Bytes)
			s.heads[o].Data = of[lo : lo+n : lo+n]
		}
	}
	return nil
}

// point makes a slot an alias of a value.
func (s *Session) point(slot int, v ndarray.Value) {
	if slot < 0 {
		return
	}
	s.deliver(slot, carry(v))
}

// carry notes where a value lies now, before its header is pointed elsewhere.
func carry(v ndarray.Value) carried {
	if a, ok := v.(*ndarray.Array); ok && a != nil {
		return carried{a.Data, v}
	}
	return carried{nil, v}
}

// deliver stores a carried value in a pointer or dynamic slot. Dynamic slots get a header of
// their own if the value's is that of a static slot: it may be pointed elsewhere later.
func (s *Session) deliver(slot int, c carried) {
	sl := &s.p.Slots[slot]
	if sl.Static {
		s.heads[slot].Data = c.data[:sl.Bytes:sl.Bytes]
		return
	}
	if a, ok := c.val.(*ndarray.Array); ok && a != nil && s.isHead(a) {
		h := newHeader(a.DType, a.Shape, c.data)
		h.Str = a.Str
		s.vals[slot] = h
		return
	}
	s.vals[slot] = c.val
}

// isHead reports whether a header is that of a static slot.
func (s *Session) isHead(a *ndarray.Array) bool {
	at, first := uintptr(unsafe.Pointer(a)), uintptr(unsafe.Pointer(unsafe.SliceData(s.heads)))
	return at >= first && at < first+uintptr(len(s.heads))*unsafe.Sizeof(*a)
}

func (s *Session) branch(in *Instr) error {
	cond, ok := s.vals[in.In[0]].(*ndarray.Array)
	if !ok || cond.DType != ndarray.Bool || len(cond.Data) != 1 {
		return fmt.Errorf("the condition is not one boolean")
	}
	if err := s.readOne(in.In[0]); err != nil {
		return err
	}
	body := in.Bodies[in.other]
	if cond.Data[0] != 0 {
		body = in.Bodies[1-in.other]
	}
	if err := s.run(body); err != nil {
		return err
	}
	for i, o := range in.Out {
		s.point(o, s.vals[body.Results[i]])
	}
	return nil
}
