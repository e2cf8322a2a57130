package cuda

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"unsafe"

	"github.com/berth-onnx/berth/backend/cuda/internal/device"
	"github.com/berth-onnx/berth/backend/cuda/internal/kernels"
	"github.com/berth-onnx/berth/backend/cuda/internal/lower"
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

// asking is how the work of a segment is asked for.
type asking struct {
	ctx      context.Context
	device   device.Device
	profiler *profiler // nil but in MeasureRuns
	edges    *edges    // of a graph that is captured, else nil
	status   kernels.Operand
	launched int
	kernels  ends
}

// ends are the names of the first kernel of a segment and of the last.
type ends struct{ first, last string }

// String names one or both.
func (e ends) String() string {
	if e.first == e.last {
		return e.first
	}
	return e.first + ", " + e.last + " or one between them"
}

// each makes the launches of a segment and asks for all of its work.
func (s *segment) each(a *asking) error {
	if err := a.profiler.begin(); err != nil {
		return err
	}
	at := 0
	for i := range s.list {
		w := &s.list[i]
		var err error
		if w.what == launches {
			n := at + w.in + w.out
			call := lower.Call{In: s.operands[at : at+w.in], Out: s.operands[at+w.in : n], Scratch: s.operands[n], Status: a.status, Launch: uint32(i + 1)}
			at = n + 1
			err = a.launch(w, &call)
			a.launched += len(w.kernel.plan.Steps)
		} else {
			err = a.copy(w)
		}
		if err == nil {
			err = a.profiler.done(w)
		}
		if err != nil {
			if ended := a.ctx.Err(); !errors.Is(err, ended) {
				err = errors.Join(err, ended)
			}
			return err
		}
	}
	return nil
}

// after says what the next piece of work of a graph waits for.
func (a *asking) after() error {
	if a.edges == nil {
		return nil
	}
	return a.device.After(a.edges.next())
}

// copy asks for a copy.
func (a *asking) copy(w *work) error {
	if w.what != copiesIn {
		a.edges.read(w.from, w.bytes)
	}
	switch w.what {
	case copiesIn, copiesInside:
		a.edges.write(w.to, w.bytes)
	case copiesStatus:
		a.edges.write(w.from, w.bytes) // all that note indices only read it, as far as edges go
	}
	if err := a.after(); err != nil {
		return err
	}
	switch w.what {
	case copiesIn:
		return a.device.CopyIn(w.to, w.host)
	case copiesOut, copiesStatus:
		return a.device.CopyOut(w.host, w.from)
	}
	return a.device.Copy(w.to, w.from, w.bytes)
}

// ask asks for a launch.
func (a *asking) ask(l *device.Launch) error {
	for _, w := range l.Windows {
		if w.IsRead {
			a.edges.read(w.Base, w.Bytes)
		}
	}
	for _, w := range l.Windows {
		if w.IsWritten && !w.Commutes {
			a.edges.write(w.Base, w.Bytes)
		}
	}
	if err := a.after(); err != nil {
		return err
	}
	l.Context = a.ctx
	a.kernels.last = l.Kernel.Name()
	if a.kernels.first == "" {
		a.kernels.first = a.kernels.last
	}
	a.profiler.launched(l.Kernel.Name())
	return a.device.Launch(l)
}

// births are the results and the workspace of a node, for a device that tells what nobody has written: their values begin with the node. Of several
// launches, later ones read the operands that results lie over, so these results are left out.
func (a *asking) births(call *lower.Call, isAlone bool) (list []device.Window) {
	if _, ok := a.device.(forgetter); !ok {
		return nil
	}
	for i, o := range append(slices.Clone(call.Out), call.Scratch) {
		isOver := slices.ContainsFunc(call.In, func(in kernels.Operand) bool { return overlap(in.Base, in.Bytes, o.Base, o.Bytes) })
		if o.Base != 0 && (isAlone || !isOver) {
			list = append(list, device.Window{Name: fmt.Sprintf("result %d", i), Base: o.Base, Bytes: o.Bytes})
		}
	}
	return list
}

// overlap reports that two places have a byte in common.
func overlap(a device.Pointer, aBytes int64, b device.Pointer, bBytes int64) bool {
	return a < b+device.Pointer(bBytes) && b < a+device.Pointer(aBytes)
}

// fresh is what of a node's results begins with a launch: the windows of them that it writes and that no earlier launch of the node wrote, began. What other
// work read before lies in order before the windows that a launch writes, and no others.
func fresh(l *device.Launch, births, began []device.Window) (list []device.Window) {
	for _, w := range l.Windows {
		isBegun := slices.ContainsFunc(append(began, list...), func(o device.Window) bool { return overlap(w.Base, w.Bytes, o.Base, o.Bytes) })
		if !w.IsWritten || isBegun {
			continue
		}
		for _, r := range births {
			lo, hi := max(w.Base, r.Base), min(w.Base+device.Pointer(w.Bytes), r.Base+device.Pointer(r.Bytes))
			if lo < hi {
				list = append(list, device.Window{Name: r.Name, Base: lo, Bytes: int64(hi - lo)})
			}
		}
	}
	return list
}

// launch launches the kernels of a node.
func (a *asking) launch(w *work, call *lower.Call) error {
	ctx := a.ctx
	births, began := a.births(call, len(w.kernel.plan.Steps) == 1), []device.Window(nil)
	for _, step := range w.kernel.plan.Steps {
		l, err := step(call)
		if err == nil {
			l.Fresh = fresh(l, births, began)
			began = append(began, l.Fresh...)
			err = a.ask(l)
		}
		if lost := (*device.DeviceLostError)(nil); errors.As(err, &lost) {
			return err // the fault may be that of an earlier one
		}
		if err != nil && ctx.Err() == nil {
			return ops.AtNode("run", w.node, err)
		}
		if err != nil {
			return err
		}
	}
	return nil
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

// record makes the graph of a segment.
func (r *recording) record(ctx context.Context, d device.Device, status kernels.Operand) (err error) {
	a := &asking{ctx: ctx, device: d, edges: &edges{}, status: status}
	r.graph, err = d.Capture(func() error { return r.each(a) })
	r.launches, r.kernels = a.launched, a.kernels
	return err
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

// stagedCopy is what goes from staging memory to the host when a segment is done.
type stagedCopy struct{ to, staged []byte }

// smallestChunk is the least staging memory that is taken at once.
const smallestChunk = 64 << 10

// stage gives staging memory for the present segment. The places depend on the sizes that are asked for alone.
func (m *memory) stage(bytes int64) ([]byte, error) {
	for ; m.chunk < len(m.staging); m.chunk, m.filled = m.chunk+1, 0 {
		if chunk := m.staging[m.chunk]; int64(len(chunk))-m.filled >= bytes {
			at := m.filled
			m.filled = (at + bytes + 63) &^ 63
			return chunk[at : at+bytes : at+bytes], nil
		}
	}
	size := max(bytes, smallestChunk)
	if err := m.budget.Ask("memory for copies to and from the device", size); err != nil {
		return nil, err
	}
	var chunk []byte
	err := m.machine.withRoom(m.ctx, func(d device.Device) (err error) {
		chunk, err = d.AllocHost(size)
		return err
	}, func(d device.Device) { _ = d.FreeHost(chunk) })
	if err != nil {
		return nil, err
	}
	m.staging = append(m.staging, chunk)
	m.filled = (bytes + 63) &^ 63
	return chunk[:bytes:bytes], nil
}

// copyIn notes a copy to the device of what bytes are now.
func (m *memory) copyIn(to device.Pointer, data []byte) error {
	staged, err := m.stage(int64(len(data)))
	if err != nil {
		return err
	}
	copy(staged, data)
	m.stats.BytesIn += int64(len(data))
	m.now.list = append(m.now.list, work{what: copiesIn, to: to, bytes: int64(len(data)), host: staged})
	return nil
}

// copyOut notes a copy to the host, which is there after flush.
func (m *memory) copyOut(to []byte, from device.Pointer) error {
	staged, err := m.stage(int64(len(to)))
	if err != nil {
		return err
	}
	m.stats.BytesOut += int64(len(to))
	m.outs = append(m.outs, stagedCopy{to, staged})
	m.now.list = append(m.now.list, work{what: copiesOut, from: from, bytes: int64(len(to)), host: staged})
	return nil
}

// copyInside notes a copy on the device.
func (m *memory) copyInside(to, from device.Pointer, bytes int64) {
	m.stats.BytesMoved += bytes
	m.now.list = append(m.now.list, work{what: copiesInside, to: to, from: from, bytes: bytes})
}
