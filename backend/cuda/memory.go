package cuda

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"
	"unsafe"

	"github.com/berth-onnx/berth/backend"
	"github.com/berth-onnx/berth/backend/cuda/internal/device"
	"github.com/berth-onnx/berth/backend/cuda/internal/kernels"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
)

// memory is a session's memory on a device.
//
//	host     arena ░░▓▓▓▓░░░░   inputs ▒▒▒▒   elsewhere ···
//	           │ same offset      │ once a run   │ a copy for each launch
//	device   arena ░░▓▓▓▓░░░░   inputs ▒▒▒▒   spare ···
//
// It is closed when the collector finds its session gone. What it asks of the device is in segment.go.
type memory struct {
	*held
	budget ndarray.Budget // of memory of the host
	limit  int64          // of the process on the device; 0: none
	ctx    context.Context
	arena  []byte
	where  spans
	inputs []input
	spares int // spare buffers in use by the present node
	late   []lateCopy
	stats  stats

	now      segment
	kernels  ends // of it
	outs     []stagedCopy
	chunk    int                   // of staging memory that is filled now
	filled   int64                 // bytes of it
	profiler *profiler             // of the run; nil but in MeasureRuns
	checks   bool                  // a launch of the present segment notes indices
	holds    atomic.Pointer[Stats] // after the last run
}

// held is what is given back to the device.
type held struct {
	machine    *machine
	room       *arena
	shared     any            // what its sessions share, nil if there is one
	base       device.Pointer // of the arena as the recordings have it; 0 if there is none
	bytes      int64
	done       device.Event // behind the work of the last segment
	isBusy     bool         // the device may be at work, for a run whose context has ended
	isMarked   bool         // done is behind that
	inputs     []buffer
	spare      []buffer
	staging    [][]byte
	retired    []device.Pointer // given back when the present segment is done
	recordings recordings
	status     kernels.Operand // where launches note indices, if there were any that do
	isStale    bool            // what stands there may be of an earlier segment
}

// buffer is memory of the device that is used again where it is large enough.
type buffer struct {
	at    device.Pointer
	bytes int64
}

// input is memory of the caller's that kernels read.
type input struct {
	data     []byte
	tensor   *Tensor // that the memory stands for, nil for ordinary memory
	isCopied bool    // in this run: to the device, or from it if it is a tensor there
}

// lateCopy is a result outside the arena, which is copied to the host behind its launch.
type lateCopy struct {
	to   []byte
	from device.Pointer
}

// stats counts what a session does.
type stats struct {
	Launches   int   // kernels that ran on the device
	Graphs     int   // launches of graphs
	Recorded   int   // graphs that were made
	Waits      int   // for the device
	HostNodes  int   // nodes that ran on the host
	BytesIn    int64 // copied to the device
	BytesOut   int64 // copied to the host
	BytesMoved int64 // copied inside the device, for joined and stacked values
}

// String is a line.
func (s *stats) String() string {
	return fmt.Sprintf("%d kernels, %d graphs of which %d are new, %d waits, %d nodes on the host, %d bytes to the device, %d from it, %d inside it",
		s.Launches, s.Graphs, s.Recorded, s.Waits, s.HostNodes, s.BytesIn, s.BytesOut, s.BytesMoved)
}

func newMemory(ctx context.Context, m *machine, arena []byte, shared any, budget ndarray.Budget, limit int64) (*memory, error) {
	mem := &memory{held: &held{machine: m, room: m.arenaOf(shared), shared: shared}, budget: budget, limit: limit}
	runtime.AddCleanup(mem, (*held).free, mem.held)
	var done device.Event
	err := m.withRoom(ctx, func(d device.Device) (err error) {
		done, err = d.NewEvent(false)
		return err
	}, func(device.Device) { _ = done.Close() })
	if err != nil {
		return nil, err
	}
	mem.done = done
	if err = mem.attach(ctx, arena); err != nil {
		return nil, err
	}
	mem.count()
	return mem, nil
}

// free gives everything back, when the work of a run is done whose context has ended.
func (h *held) free() {
	m := h.machine
	m.giveBackWhen(!h.isBusy, func(d device.Device) error {
		err := h.recordings.forget(func(*recording) bool { return true })
		for _, b := range append(append(h.inputs, h.spare...), buffer{h.status.Base, h.status.Bytes}) {
			if b.at != 0 {
				h.retired = append(h.retired, b.at)
			}
		}
		for _, p := range h.retired {
			err = errors.Join(err, m.free(d, p))
		}
		for _, chunk := range h.staging {
			err = errors.Join(err, d.FreeHost(chunk))
		}
		if h.done != nil {
			err = errors.Join(err, h.done.Close())
		}
		return err
	})
	m.leave(h.room, h.shared)
}

// attach makes the counterpart of an arena. Recordings name its addresses.
func (m *memory) attach(ctx context.Context, arena []byte) error {
	err := m.machine.enlarge(ctx, m.room, int64(len(arena)), m.limit)
	if m.base != 0 && m.base != m.room.at {
		m.base = 0
		err = errors.Join(err, m.machine.use(func(device.Device) error { return m.recordings.forget(func(*recording) bool { return true }) }))
	}
	if err == nil {
		m.arena, m.base, m.bytes = arena, m.room.at, m.room.bytes
	}
	return err
}

// forgetter is a device that tells what nobody has written.
type forgetter interface {
	Forget(p device.Pointer, bytes int64) error
}

// Begin starts a run.
func (m *memory) Begin(ctx context.Context, arena []byte, values []ndarray.Value, inputs []int) error {
	if err := m.settleWork(ctx); err != nil {
		return err
	}
	m.recordings.run++
	if err := m.attach(ctx, arena); err != nil {
		return err
	}
	noteBegun(ctx)
	m.ctx, m.stats = ctx, stats{}
	m.profiler = profilerOf(ctx)
	m.where.clear()
	m.inputs = m.inputs[:0]
	m.eachArray(values, inputs, func(a *ndarray.Array) {
		m.inputs = append(m.inputs, input{data: a.Data, tensor: m.machine.tensor(a.Data)})
	})
	return m.machine.ask(ctx, func(d device.Device) error {
		if f, ok := d.(forgetter); ok {
			return f.Forget(m.base, m.bytes)
		}
		return nil
	})
}

// offset is where bytes lie in the arena; false if they lie elsewhere.
func (m *memory) offset(data []byte) (int64, bool) {
	if len(data) == 0 || len(m.arena) == 0 {
		return 0, false
	}
	at := uintptr(unsafe.Pointer(&data[0])) - uintptr(unsafe.Pointer(&m.arena[0]))
	return int64(at), at < uintptr(len(m.arena))
}

// eachArray calls f for the tensors with elements in what slots hold.
func (m *memory) eachArray(values []ndarray.Value, slots []int, f func(a *ndarray.Array)) {
	for _, slot := range slots {
		if slot >= 0 {
			eachIn(values[slot], f)
		}
	}
}

// eachIn calls f for the tensors with elements in a value. Strings have none that a device could hold.
func eachIn(v ndarray.Value, f func(a *ndarray.Array)) {
	switch x := v.(type) {
	case *ndarray.Array:
		if x != nil && len(x.Data) > 0 && x.DType != ndarray.String {
			f(x)
		}
	case *ndarray.Sequence:
		for _, item := range x.Items {
			eachIn(item, f)
		}
	case *ndarray.Optional:
		eachIn(x.Value, f)
	case *ndarray.Map:
		eachIn(x.Keys, f)
		eachIn(x.Values, f)
	}
}

// Run launches a node's kernels, or runs the host's kernel on copies of what it reads.
func (m *memory) Run(k ops.Kernel, c *ops.Call) error {
	if join, ok := k.(backend.Join); ok {
		return m.join(join, c)
	}
	if d, ok := k.(*kernel); ok && isPlaced(c) {
		return m.launch(d, c)
	}
	m.stats.HostNodes++
	var err error
	for _, v := range c.In {
		eachIn(v, func(a *ndarray.Array) { err = errors.Join(err, m.fetch(a.Data)) })
	}
	if err == nil {
		err = m.wait()
	}
	if err != nil {
		return err
	}
	if err := k.Run(c); err != nil {
		return err
	}
	for _, v := range c.Out {
		eachIn(v, func(a *ndarray.Array) { m.wrote(a.Data) })
	}
	return nil
}

// isPlaced reports that all results of a call have memory.
func isPlaced(c *ops.Call) bool {
	for i := range c.Node.Out {
		if _, isArray := outAt(c, i).(*ndarray.Array); c.Wants(i) && !isArray {
			return false
		}
	}
	return true
}

// join copies the operands of a concatenation that were not computed in place.
func (m *memory) join(k backend.Join, c *ops.Call) error {
	out := c.Out[0].(*ndarray.Array).Data
	for i, at := range k.Places() {
		in := c.In[i].(*ndarray.Array).Data
		if err := m.Copy(out[at:int(at)+len(in)], in); err != nil {
			return err
		}
	}
	return nil
}

// launch notes the launches of a node's kernels.
func (m *memory) launch(d *kernel, c *ops.Call) error {
	m.spares, m.late = 0, m.late[:0]
	if err := m.operands(d, c); err != nil {
		return err
	}
	if d.plan.Outside != nil {
		if err := m.watch(); err != nil {
			return err
		}
	}
	m.now.list = append(m.now.list, work{what: launches, kernel: d, in: len(c.In), out: len(c.Node.Out), node: c.Node})
	return m.finish(c)
}

func outAt(c *ops.Call, i int) ndarray.Value {
	if i >= len(c.Out) {
		return nil
	}
	return c.Out[i]
}

// operands finds or makes the places of what a node reads and writes, and notes them: operands, results, workspace.
func (m *memory) operands(k *kernel, c *ops.Call) error {
	in := len(m.now.operands)
	out := in + len(c.In)
	for range len(c.In) + len(c.Node.Out) + 1 {
		m.now.operands = append(m.now.operands, kernels.Operand{})
	}
	list := m.now.operands
	for _, i := range k.plan.Reads {
		if w := k.plan.Weights[i]; w.Base != 0 {
			list[in+i] = w
			continue
		}
		a, ok := c.In[i].(*ndarray.Array)
		if !ok || a == nil {
			return fmt.Errorf("operand %d is no tensor", i)
		}
		at, err := m.forReading(a.Data)
		if err != nil {
			return err
		}
		list[in+i] = kernels.Operand{Base: at, Bytes: int64(len(a.Data))}
	}
	for i := range c.Node.Out {
		a, ok := outAt(c, i).(*ndarray.Array)
		if !ok || a == nil {
			continue
		}
		at, err := m.forWriting(a.Data)
		if err != nil {
			return err
		}
		list[out+i] = kernels.Operand{Base: at, Bytes: int64(len(a.Data))}
	}
	if n := k.plan.Scratch; n > 0 {
		at, err := m.forWriting(c.Scratch[:n])
		if err != nil {
			return err
		}
		if len(m.late) > 0 && &m.late[len(m.late)-1].to[0] == &c.Scratch[0] {
			m.late = m.late[:len(m.late)-1] // nobody reads it
		}
		list[len(list)-1] = kernels.Operand{Base: at, Bytes: n}
	}
	return nil
}

// forReading is where the device has bytes, copied there if it has not.
func (m *memory) forReading(data []byte) (device.Pointer, error) {
	if len(data) == 0 {
		return m.base, nil
	}
	if lo, ok := m.offset(data); ok {
		err := m.where.each(lo, lo+int64(len(data)), onHost, func(lo, hi int64) error {
			return m.copyIn(m.base+device.Pointer(lo), m.arena[lo:hi])
		})
		if err == nil {
			m.settle(lo, lo+int64(len(data)), onHost)
		}
		return m.base + device.Pointer(lo), err
	}
	for i := range m.inputs {
		in := &m.inputs[i]
		if at, ok := within(in.data, data); ok {
			base, err := m.input(i)
			return base + device.Pointer(at), err
		}
	}
	at, err := m.take(int64(len(data)))
	if err != nil {
		return 0, err
	}
	return at, m.copyIn(at, data)
}

// settle marks the pieces of a range that are on one side as on both.
func (m *memory) settle(lo, hi int64, from side) {
	for i := m.where.from(lo); i < len(m.where.list) && m.where.list[i].lo < hi; i++ {
		if e := m.where.list[i]; e.side == from {
			m.where.set(max(e.lo, lo), min(e.hi, hi), onBoth)
		}
	}
}

// within is where a part lies in a whole.
func within(whole, part []byte) (int64, bool) {
	if len(whole) == 0 {
		return 0, false
	}
	at := uintptr(unsafe.Pointer(&part[0])) - uintptr(unsafe.Pointer(&whole[0]))
	return int64(at), at < uintptr(len(whole)) && uintptr(len(part)) <= uintptr(len(whole))-at
}

// input copies an input at its first use.
func (m *memory) input(i int) (device.Pointer, error) {
	in := &m.inputs[i]
	if in.tensor != nil {
		return in.tensor.at, nil
	}
	for len(m.held.inputs) <= i {
		m.held.inputs = append(m.held.inputs, buffer{})
	}
	b := &m.held.inputs[i]
	if in.isCopied {
		return b.at, nil
	}
	if err := m.enlarge(b, int64(len(in.data))); err != nil {
		return 0, err
	}
	in.isCopied = true
	return b.at, m.copyIn(b.at, in.data)
}

// enlarge makes a buffer large enough.
func (m *memory) enlarge(b *buffer, bytes int64) error {
	if b.at != 0 && b.bytes >= bytes {
		return nil
	}
	if b.at != 0 {
		m.retired = append(m.retired, b.at) // what is noted may use it
		*b = buffer{}
	}
	at, err := m.machine.alloc(m.ctx, "an input or another operand outside the arena", bytes, m.limit)
	if err == nil {
		*b = buffer{at, bytes}
	}
	return err
}

// take is a buffer for the present node.
func (m *memory) take(bytes int64) (device.Pointer, error) {
	if m.spares == len(m.spare) {
		m.spare = append(m.spare, buffer{})
	}
	b := &m.spare[m.spares]
	m.spares++
	err := m.enlarge(b, bytes)
	return b.at, err
}

// forWriting is where the device writes bytes.
func (m *memory) forWriting(data []byte) (device.Pointer, error) {
	if len(data) == 0 {
		return m.base, nil
	}
	if lo, ok := m.offset(data); ok {
		return m.base + device.Pointer(lo), nil
	}
	at, err := m.take(int64(len(data)))
	m.late = append(m.late, lateCopy{data, at})
	return at, err
}

// finish says where results are, and copies those that have no counterpart.
func (m *memory) finish(c *ops.Call) error {
	for i := range c.Node.Out {
		if a, ok := outAt(c, i).(*ndarray.Array); ok && a != nil {
			if lo, ok := m.offset(a.Data); ok {
				m.where.set(lo, lo+int64(len(a.Data)), onDevice)
			}
		}
	}
	for _, l := range m.late {
		if err := m.copyOut(l.to, l.from); err != nil {
			return err
		}
	}
	return m.wait()
}

// Read copies to the host what the device has written.
func (m *memory) Read(values []ndarray.Value, slots []int) (err error) {
	m.eachArray(values, slots, func(a *ndarray.Array) { err = errors.Join(err, m.fetch(a.Data)) })
	return errors.Join(err, m.wait())
}

// ReadBytes is Read for bytes.
func (m *memory) ReadBytes(data []byte) error { return errors.Join(m.fetch(data), m.wait()) }

// fetch asks for copies of the bytes that the device alone has.
func (m *memory) fetch(data []byte) error {
	lo, ok := m.offset(data)
	if !ok {
		return m.fetchInput(data)
	}
	hi := lo + int64(len(data))
	err := m.where.each(lo, hi, onDevice, func(lo, hi int64) error { return m.copyOut(m.arena[lo:hi], m.base+device.Pointer(lo)) })
	m.settle(lo, hi, onDevice)
	return err
}

// fetchInput asks for a copy of the tensor on the device that an input is.
func (m *memory) fetchInput(data []byte) error {
	for i := range m.inputs {
		in := &m.inputs[i]
		if in.tensor == nil || in.isCopied {
			continue
		}
		if _, ok := within(in.data, data); ok {
			err := in.tensor.fetch(m.ctx)
			in.isCopied = err == nil
			m.stats.BytesOut += int64(len(in.data))
			return err
		}
	}
	return nil
}

// wait waits for the copies to the host that are noted.
func (m *memory) wait() error {
	if len(m.outs) == 0 {
		return nil
	}
	return m.flush()
}

// End waits for all that the run has asked for.
func (m *memory) End() error {
	err := m.flush()
	m.Leave()
	m.count()
	return err
}

// Leave ends a run: no tensor is kept that was an input.
func (m *memory) Leave() {
	clear(m.inputs)
	m.inputs, m.profiler = m.inputs[:0], nil
}

// Wrote notes what the host has written.
func (m *memory) Wrote(values []ndarray.Value, slots []int) {
	m.eachArray(values, slots, func(a *ndarray.Array) { m.wrote(a.Data) })
}

func (m *memory) wrote(data []byte) {
	if lo, ok := m.offset(data); ok {
		m.where.set(lo, lo+int64(len(data)), onHost)
	}
}

// Has reports that memory outside the arena stands for a tensor on the device.
func (m *memory) Has(data []byte) bool { return m.machine.tensor(data) != nil }

// Copy copies on the device what is there, and on the host what is not.
func (m *memory) Copy(to, from []byte) error {
	if len(to) == 0 || &to[0] == &from[0] {
		return nil
	}
	if t := m.machine.tensor(to); t != nil {
		m.spares = 0
		source, err := m.forReading(from)
		if err == nil {
			m.copyInside(t.at, source, int64(len(to)))
		}
		return err
	}
	target, mirrored := m.offset(to)
	source, isHere := m.offset(from)
	n := int64(len(to))
	if !mirrored || !isHere || !m.isOnDevice(source, source+n) {
		if err := m.ReadBytes(from); err != nil {
			return err
		}
		copy(to, from)
		m.wrote(to)
		return nil
	}
	if _, err := m.forReading(from); err != nil {
		return err
	}
	m.copyInside(m.base+device.Pointer(target), m.base+device.Pointer(source), n)
	m.where.set(target, target+n, onDevice)
	return nil
}

// isOnDevice reports that the device has a part of a range that the host has not.
func (m *memory) isOnDevice(lo, hi int64) (found bool) {
	_ = m.where.each(lo, hi, onDevice, func(int64, int64) error { found = true; return nil })
	return found
}
