package cuda

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"unsafe"

	"github.com/berth-onnx/berth/backend/cuda/internal/device"
	"github.com/berth-onnx/berth/backend/cuda/internal/kernels"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// What a run wants of the device is noted until the host needs a result, and then asked for together. This is a segment: a run of which
// everything is on the device is one, and a node without a kernel, or a condition that the device computes, begins another.
//
//	run   copy in, launch, launch, copy out │ node on the host │ copy in, launch, copy out
//	      └──────────── segment ──────────┘                     └────── segment ───────┘
//
// A segment that comes for the first time is asked for piece by piece. The second time it is recorded as a graph, which is launched then
// and whenever it comes again. Segments are the same if all addresses are: what the host gives and takes goes through staging memory at
// places that depend on the order of copies alone, and everything else has its place in the arena. So control flow needs no rule of its
// own: whatever path a run takes, its segments are known or new ones.

// what a piece of work is.
type what uint8

const (
	copiesIn what = iota
	copiesOut
	copiesInside
	copiesStatus // to the host, behind all launches that note indices
	launches
)

// work is a copy, or the launches of a node.
type work struct {
	what     what
	to, from device.Pointer // of copies
	bytes    int64
	host     []byte // staging memory of copies from and to the host
	kernel   *kernel
	in, out  int       // of launches: how many operands and results
	node     *ssa.Node // that the launches are for, for errors
}

// segment is work, and the operands, results and workspaces of its launches one behind the other.
type segment struct {
	list     []work
	operands []kernels.Operand
}

func (s *segment) clear() {
	clear(s.list) // so that no kernel is kept
	s.list, s.operands = s.list[:0], s.operands[:0]
}

// isSame reports that two segments ask for the same.
func (s *segment) isSame(o *segment) bool {
	return slices.Equal(s.operands, o.operands) && slices.EqualFunc(s.list, o.list, func(a, b work) bool {
		return a.what == b.what && a.to == b.to && a.from == b.from && a.bytes == b.bytes && a.kernel == b.kernel && a.in == b.in && a.out == b.out &&
			(len(a.host) == 0 || &a.host[0] == &b.host[0])
	})
}

// hash finds segments. It depends on all that isSame compares.
func (s *segment) hash() uint64 {
	const prime = 0x9E3779B97F4A7C15
	h := uint64(len(s.list))
	mix := func(v uint64) { h = (h ^ v) * prime; h ^= h >> 29 }
	for i := range s.list {
		w := &s.list[i]
		mix(uint64(w.what) + uint64(w.bytes)<<3)
		mix(uint64(w.to))
		mix(uint64(w.from))
		mix(uint64(w.in)<<32 + uint64(w.out))
		mix(uint64(uintptr(unsafe.Pointer(w.kernel)))) // a recording keeps its kernels, so none of them is another's address
		mix(uint64(uintptr(unsafe.Pointer(unsafe.SliceData(w.host)))))
	}
	for _, o := range s.operands {
		mix(uint64(o.Base))
		mix(uint64(o.Bytes))
	}
	return h
}

// flush asks for what has been noted, and waits for it.
func (m *memory) flush() error {
	if len(m.now.list) == 0 {
		return nil
	}
	defer m.reset()
	status, err := m.copyStatus()
	if err != nil {
		return err
	}
	if err := m.request(); err != nil {
		return err
	}
	m.stats.Waits++
	if err := m.machine.note(m.now.named(m.done.Wait(m.ctx), m.kernels)); err != nil {
		return err
	}
	m.isBusy = false
	if err := m.machine.note(m.profiler.settle()); err != nil {
		return err
	}
	if err := m.outside(status); err != nil {
		return err
	}
	for _, o := range m.outs {
		copy(o.to, o.staged)
	}
	m.retire()
	return nil
}

// request asks for what has been noted, and marks its end. While the device does it others may ask for more.
func (m *memory) request() error {
	if err := m.machine.enter(m.ctx); err != nil {
		return err
	}
	defer m.machine.lock.Unlock()
	m.isBusy, m.isMarked = true, false
	err := m.clearStatus()
	if err == nil {
		m.isStale = m.isStale || m.checks
		err = m.perform(m.machine.dev)
	}
	if markErr := m.done.Record(); markErr != nil {
		return m.machine.note(device.Join(err, markErr))
	}
	m.isMarked = true
	return m.machine.note(err)
}

// watch has a place where launches of the present segment note indices outside of an axis.
func (m *memory) watch() error {
	m.checks = true
	if m.status.Base != 0 {
		return nil
	}
	at, err := m.machine.alloc(m.ctx, "what kernels note", kernels.StatusBytes, m.limit)
	if err == nil {
		m.status, m.isStale = kernels.Operand{Base: at, Bytes: kernels.StatusBytes}, true
	}
	return err
}

// clearStatus has launches find no index noted: not the one of a run that has failed, nor of one that its context has ended.
func (m *memory) clearStatus() error {
	if !m.checks || !m.isStale {
		return nil
	}
	return m.machine.dev.Zero(m.status.Base, kernels.StatusBytes)
}

// copyStatus notes a copy of what launches of the present segment have noted, behind all of its work; nil if none of them notes anything.
func (m *memory) copyStatus() ([]byte, error) {
	if !m.checks {
		return nil, nil
	}
	staged, err := m.stage(kernels.StatusBytes)
	if err == nil {
		m.now.list = append(m.now.list, work{what: copiesStatus, from: m.status.Base, bytes: kernels.StatusBytes, host: staged})
	}
	return staged, err
}

// outside is the error of the first index outside of an axis, as the host has it.
func (m *memory) outside(staged []byte) error {
	if staged == nil {
		return nil
	}
	s := kernels.ReadStatus(staged)
	if s.Launch == 0 {
		m.isStale = false
		return nil
	}
	w := &m.now.list[s.Launch-1]
	return ops.AtNode("run", w.node, w.kernel.plan.Outside(s.Index))
}

// perform asks for what has been noted: as a graph, or piece by piece where there is none, or no memory for one.
func (m *memory) perform(d device.Device) error {
	if m.profiler == nil { // else each piece of work is marked
		r, err := m.recordings.find(&m.now)
		if err != nil {
			return err
		}
		if r != nil {
			if err = m.performGraph(d, r); !isFull(err) {
				return err
			}
		}
	}
	a := &asking{ctx: m.ctx, device: d, profiler: m.profiler, status: m.status}
	err := m.now.each(a)
	m.kernels = a.kernels
	if lost := (*device.DeviceLostError)(nil); errors.As(err, &lost) {
		err = m.now.named(err, m.kernels)
	}
	m.launched(a.launched)
	return err
}

// performGraph is perform with a graph. Where the device has too little memory for it, those of other segments make room for it, and where
// that is not enough it makes room itself.
func (m *memory) performGraph(d device.Device, r *recording) error {
	err := m.runGraph(d, r)
	for _, isRest := range []bool{false, true} {
		if !isFull(err) {
			break
		}
		before := len(m.recordings.of)
		if closeErr := m.recordings.forget(func(x *recording) bool { return (x == r) == isRest }); closeErr != nil {
			return errors.Join(err, closeErr)
		}
		m.recordings.evicted += int64(before - len(m.recordings.of))
		if !isRest {
			err = m.runGraph(d, r)
		}
	}
	return err
}

// runGraph launches the graph of a recording, which is made first if it has none.
func (m *memory) runGraph(d device.Device, r *recording) error {
	if r.graph == nil {
		if err := r.record(m.ctx, d, m.status); err != nil {
			return err
		}
		m.stats.Recorded++
	}
	if err := r.graph.Run(m.ctx); err != nil {
		m.kernels = r.kernels
		return r.named(err, r.kernels)
	}
	m.stats.Graphs++
	m.kernels = r.kernels
	m.launched(r.launches)
	return nil
}

// launched counts kernels.
func (m *memory) launched(count int) {
	m.stats.Launches += count
	m.machine.launches.Add(int64(count))
}

// named names the node of an error of the segment as a graph: the very one if the device tells, else the first and the last.
func (s *segment) named(err error, kernels ends) error {
	if err == nil {
		return nil
	}
	var failed *device.KernelError
	var lost *device.DeviceLostError
	switch {
	case errors.As(err, &failed):
	case errors.As(err, &lost) && kernels.first != "":
		err = &device.KernelError{Kernel: kernels.String(), Err: err}
	default:
		return err
	}
	var piece *device.PieceError
	knows, at := errors.As(err, &piece), 0
	var first, last *ssa.Node
	for i := range s.list {
		w := &s.list[i]
		if w.what != launches {
			at++
			continue
		}
		if at += len(w.kernel.plan.Steps); knows && piece.Piece < at {
			return ops.AtNode("run", w.node, piece.Err)
		}
		if first == nil {
			first = w.node
		}
		last = w.node
	}
	if first == nil || first == last {
		return ops.AtNode("run", first, err)
	}
	return fmt.Errorf("one of the nodes from %s to %s: %w", first, last, err)
}

// reset forgets what has been noted.
func (m *memory) reset() {
	m.now.clear()
	clear(m.outs)
	m.outs, m.chunk, m.filled, m.checks = m.outs[:0], 0, 0, false
}

// settleWork waits for what a run has left behind whose context has ended, and gives up what it has noted.
func (m *memory) settleWork(ctx context.Context) error {
	m.reset()
	if err := m.machine.lost.Load(); err != nil {
		return err
	}
	if m.isBusy && !m.isMarked {
		if err := m.machine.ask(ctx, func(device.Device) error { return m.done.Record() }); err != nil {
			return err
		}
		m.isMarked = true
	}
	if m.isBusy {
		if err := m.machine.note(m.done.Wait(ctx)); err != nil {
			return err
		}
		m.isBusy = false
	}
	m.retire()
	return nil
}

// retire gives back what no work uses any more.
func (m *memory) retire() {
	for _, p := range m.retired {
		m.machine.giveBack(func(d device.Device) error { return m.machine.free(d, p) })
	}
	m.retired = m.retired[:0]
}
