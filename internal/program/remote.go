package program

import (
	"github.com/berth-onnx/berth/backend"
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

// onKernel runs a kernel where it belongs.
func (s *Session) onKernel(k ops.Kernel, c *ops.Call) error {
	if s.device == nil {
		return k.Run(c)
	}
	return s.device.Run(k, c)
}

// read makes what slots hold readable on the host.
func (s *Session) read(slots []int) error {
	if s.device == nil {
		return nil
	}
	return s.device.Read(s.vals, slots)
}

// readOne is read for one slot. Without a device it allocates nothing.
func (s *Session) readOne(slot int) error {
	if s.device == nil {
		return nil
	}
	return s.device.Read(s.vals, []int{slot})
}

// wrote says that the host has written what slots hold.
func (s *Session) wrote(slots []int) {
	if s.device != nil {
		s.device.Wrote(s.vals, slots)
	}
}

// wroteOne is wrote for one slot.
func (s *Session) wroteOne(slot int) {
	if s.device != nil {
		s.device.Wrote(s.vals, []int{slot})
	}
}

// DeviceMemory is the session's memory on a device, nil without one.
func (s *Session) DeviceMemory() backend.Memory { return s.device }

// readResults makes results readable on the host: all of them, or those that are copied into buffers there, and what the session keeps.
func (s *Session) readResults(buffers []*ndarray.Array) error {
	if buffers == nil || s.device == nil {
		return s.read(s.p.Main.Results)
	}
	s.wanted = s.wanted[:0]
	for i, slot := range s.p.Main.Results {
		if to := buffers[i]; s.p.keeps || !s.p.Slots[slot].Static || to != nil && (!s.device.Has(to.Data) || s.sharesBytes(i)) {
			s.wanted = append(s.wanted, slot)
		}
	}
	return s.read(s.wanted)
}

// sharesBytes reports that a result is copied on the host before it is given away: it lies outside the arena, or where another does.
func (s *Session) sharesBytes(result int) bool {
	if s.own.plain {
		return false
	}
	data := s.heads[s.p.Main.Results[result]].Data
	for j, slot := range s.p.Main.Results {
		if j != result && overlap(data, s.heads[slot].Data) {
			return true
		}
	}
	return !s.inArena(data)
}

// copyResult copies a result to memory of the caller's. It copies all of it: what the session keeps has moved on.
func (s *Session) copyResult(to, from []byte) error {
	if s.device != nil {
		return s.device.Copy(to, from)
	}
	copy(to, from)
	return nil
}
