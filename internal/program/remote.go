package program

import (
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
)

// Sessions with memory on a device. The session's arena is that of the host, and the device has one with the same offsets: headers point
// into the host's, and kernels of the device find theirs by the difference:
//
//	host    ░░░░░░░▓▓▓▓▓▓░░░░░░    x lies at arena[64:]; its bytes are there only if the host reads or writes them
//	device  ░░░░░░░▓▓▓▓▓▓░░░░░░    x lies at base+64
//
// So views, branches and the turning places of loops are what they are without a device: headers move, and no byte does. What the
// host reads itself, conditions, trip counts and results, it asks for first, and it says what it has written.

// begin tells the device of a run and its inputs.
func (s *Session) begin() error {
	s.inputs = s.inputs[:0]
	for _, slot := range s.p.Main.Params {
		if s.p.Slots[slot].Static && s.p.Slots[slot].DType != ndarray.String {
			s.inputs = append(s.inputs, s.heads[slot].Data)
		}
	}
	return s.device.Begin(s.ctx, s.arena, s.inputs)
}

// onKernel runs a kernel where it belongs.
func (s *Session) onKernel(k ops.Kernel, c *ops.Call) error {
	if s.device == nil {
		return k.Run(c)
	}
	if join, ok := k.(*joinKernel); ok {
		return s.join(join, c)
	}
	if done, err := s.device.Run(k, c); done || err != nil {
		return err
	}
	if err := s.read(c.In...); err != nil {
		return err
	}
	if err := k.Run(c); err != nil {
		return err
	}
	for _, v := range c.Out {
		if a, ok := v.(*ndarray.Array); ok && a != nil {
			s.wrote(a.Data)
		}
	}
	return nil
}

// join copies the operands of a concatenation that were not computed in place.
func (s *Session) join(k *joinKernel, c *ops.Call) error {
	out := c.Out[0].(*ndarray.Array).Data
	for i, at := range k.at {
		in := c.In[i].(*ndarray.Array).Data
		if len(in) == 0 || &out[at] == &in[0] {
			continue
		}
		if err := s.device.Copy(out[at:int(at)+len(in)], in); err != nil {
			return err
		}
	}
	return nil
}

// read makes values readable on the host.
func (s *Session) read(values ...ndarray.Value) error {
	if s.device == nil {
		return nil
	}
	var list [][]byte
	for _, v := range values {
		list = appendBytes(list, v)
	}
	return s.device.Read(list...)
}

// readSlots is read for what slots hold.
func (s *Session) readSlots(slots []int) error {
	if s.device == nil {
		return nil
	}
	var list [][]byte
	for _, slot := range slots {
		if slot >= 0 {
			list = appendBytes(list, s.vals[slot])
		}
	}
	return s.device.Read(list...)
}

// appendBytes appends the elements in a value.
func appendBytes(list [][]byte, v ndarray.Value) [][]byte {
	switch x := v.(type) {
	case *ndarray.Array:
		if x != nil && len(x.Data) > 0 {
			list = append(list, x.Data)
		}
	case *ndarray.Sequence:
		for _, item := range x.Items {
			list = appendBytes(list, item)
		}
	case *ndarray.Optional:
		return appendBytes(list, x.Value)
	case *ndarray.Map:
		return appendBytes(appendBytes(list, x.Keys), x.Values)
	}
	return list
}

// readContents makes the integers readable that kernels are chosen by.
func (s *Session) readContents(in []ndarray.Value) error {
	if s.device == nil {
		return nil
	}
	for _, v := range in {
		if a, ok := v.(*ndarray.Array); ok && a != nil && isSmallInt(a) {
			if err := s.device.Read(a.Data); err != nil {
				return err
			}
		}
	}
	return nil
}

// wroteSlots is wrote for results that the host has written.
func (s *Session) wroteSlots(slots []int) {
	for _, slot := range slots {
		if slot >= 0 && s.p.Slots[slot].Static {
			s.wrote(s.heads[slot].Data)
		}
	}
}

// wrote says that the host has written bytes.
func (s *Session) wrote(data []byte) {
	if s.device != nil {
		s.device.Wrote(data)
	}
}
