package program

import "github.com/berth-onnx/berth/ops"

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
