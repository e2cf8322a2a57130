package cuda

import (
	"context"
	"errors"
	"slices"
	"unsafe"

	"github.com/berth-onnx/berth/backend/cuda/internal/device"
	"github.com/berth-onnx/berth/backend/cuda/internal/kernels"
)

// Segments that have come before, with the graphs that they are recorded as.

// recording is a segment that has come before.
type recording struct {
	segment
	graph    device.Graph // nil until it has come twice
	launches int          // of kernels
	kernels  ends
	used     int64 // the run in which it came last
	bytes    int64
}

// What a session keeps of segments: so many, and so many bytes in all of them.
const (
	mostSegments = 512
	mostBytes    = 64 << 20
	pieceBytes   = 1 << 10 // what a piece of work counts beside the tables and the code of its kernel: its note here, and a node of the driver's graph
)

// size is what a recording of the segment counts. Kernels that several pieces run count for each: it is a bound.
func (s *segment) size() (bytes int64) {
	for i := range s.list {
		bytes += pieceBytes
		if k := s.list[i].kernel; k != nil {
			bytes += k.bytes
		}
	}
	return bytes + int64(len(s.operands))*int64(unsafe.Sizeof(kernels.Operand{}))
}

// recordings are the segments of a session. Where there is no room for one, those make it that came last longest ago, but none of this run or
// the one before it: a run of more segments than are kept would else find none of them.
type recordings struct {
	of      map[uint64]*recording
	bytes   int64 // of all of them
	run     int64
	evicted int64 // so far, to make room
}

// find is what there is of a segment, noted if there is room; nil if there is none.
func (r *recordings) find(s *segment) (*recording, error) {
	key := s.hash()
	if known := r.of[key]; known != nil && known.isSame(s) {
		known.used = r.run
		return known, nil
	}
	bytes := s.size()
	if r.of[key] != nil || bytes > mostBytes {
		return nil, nil
	}
	for len(r.of) >= mostSegments || r.bytes > mostBytes-bytes {
		if isDone, err := r.evict(); isDone || err != nil {
			return nil, err
		}
	}
	if r.of == nil {
		r.of = map[uint64]*recording{}
	}
	r.of[key] = &recording{segment: segment{slices.Clone(s.list), slices.Clone(s.operands)}, used: r.run, bytes: bytes}
	r.bytes += bytes
	return nil, nil
}

// evict gives the recordings of the oldest run back; isDone if all are needed.
func (r *recordings) evict() (isDone bool, err error) {
	oldest := r.run - 1
	for _, x := range r.of {
		oldest = min(oldest, x.used)
	}
	if oldest == r.run-1 {
		return true, nil
	}
	before := len(r.of)
	err = r.forget(func(x *recording) bool { return x.used == oldest })
	r.evicted += int64(before - len(r.of))
	return false, err
}

// forget gives recordings back.
func (r *recordings) forget(isOld func(x *recording) bool) (err error) {
	for key, x := range r.of {
		if !isOld(x) {
			continue
		}
		if x.graph != nil {
			err = errors.Join(err, x.graph.Close())
		}
		r.bytes -= x.bytes
		delete(r.of, key)
	}
	return err
}

// record makes the graph of a segment.
func (r *recording) record(ctx context.Context, d device.Device, status kernels.Operand) (err error) {
	a := &asking{ctx: ctx, device: d, edges: &edges{}, status: status}
	r.graph, err = d.Capture(func() error { return r.each(a) })
	r.launches, r.kernels = a.launched, a.kernels
	return err
}
