package cuda

import (
	"github.com/berth-onnx/berth"
	"github.com/berth-onnx/berth/internal/rescue"
)

// Stats are what a session, and the process, hold on a device.
type Stats struct {
	UsedBytes     int64 // of the device's memory, by all sessions, programs and tensors of the process: what [berth.WithDeviceMemory] limits
	ArenaBytes    int64 // of the session, or of those that share its arena
	OperandBytes  int64 // of inputs and other operands outside of the arena
	StagingBytes  int64 // of pinned memory of the host, for copies of the session
	Graphs        int   // segments that the session has noted or recorded as graphs, at most 512
	GraphBytes    int64 // that they count, at most 64 MiB: 1 KiB for each piece of work, the tables and the code of its kernel
	EvictedGraphs int64 // that made room for others so far
}

// StatsOf counts what a session holds after its last run, as it is while another is in progress. The error is a [TensorError].
func StatsOf(s *berth.Session) (_ Stats, err error) {
	defer rescue.Into(&err)
	mem, err := memoryOf(s)
	if err != nil {
		return Stats{}, err
	}
	out := Stats{}
	if last := mem.holds.Load(); last != nil {
		out = *last
	}
	out.UsedBytes = mem.machine.used.Load()
	return out, nil
}

// count notes what the session holds, where that is not what it was.
func (m *memory) count() {
	s := Stats{ArenaBytes: m.bytes, Graphs: len(m.recordings.of), GraphBytes: m.recordings.bytes, EvictedGraphs: m.recordings.evicted}
	for _, list := range [2][]buffer{m.held.inputs, m.spare} {
		for _, b := range list {
			s.OperandBytes += b.bytes
		}
	}
	for _, chunk := range m.staging {
		s.StagingBytes += int64(len(chunk))
	}
	if last := m.holds.Load(); last == nil || *last != s {
		now := s // so that s itself is not on the heap
		m.holds.Store(&now)
	}
}
