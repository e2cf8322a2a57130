package cuda

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"unsafe"

	"github.com/berth-onnx/berth/backend"
	"github.com/berth-onnx/berth/backend/cuda/internal/device"
	"github.com/berth-onnx/berth/backend/cuda/internal/kernels"
	"github.com/berth-onnx/berth/backend/cuda/internal/lower"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
)

// memory is a session's memory on a device.
//
//	host     arena ░░▓▓▓▓░░░░   inputs ▒▒▒▒   elsewhere ···
//	           │ same offset      │ once a run   │ a copy for each launch
//	device   arena ░░▓▓▓▓░░░░   inputs ▒▒▒▒   spare ···
//
// It is closed when the collector finds its session gone.
type memory struct {
	*held
	machine  *machine
	ctx      context.Context
	arena    []byte
	where    spans
	inputs   []input
	isWaited bool // copies to the host have been asked for
	spares   int  // spare buffers in use by the present launch
	late     []lateCopy
	stats    stats
}

// held is what is given back to the device.
type held struct {
	base   device.Pointer
	bytes  int64
	inputs []buffer
	spare  []buffer
}

// buffer is memory of the device that is used again where it is large enough.
type buffer struct {
	at    device.Pointer
	bytes int64
}

// input is memory of the caller's that kernels read.
type input struct {
	data     []byte
	isCopied bool // in this run
}

// lateCopy is a result outside the arena, which is copied to the host behind its launch.
type lateCopy struct {
	to   []byte
	from device.Pointer
}

// stats counts what a session does.
type stats struct {
	Launches   int   // kernels that ran on the device
	HostNodes  int   // nodes that ran on the host
	BytesIn    int64 // copied to the device
	BytesOut   int64 // copied to the host
	BytesMoved int64 // copied inside the device, for joined and stacked values
}

// String is a line.
func (s *stats) String() string {
	return fmt.Sprintf("%d launches, %d nodes on the host, %d bytes to the device, %d from it, %d inside it", s.Launches, s.HostNodes, s.BytesIn, s.BytesOut, s.BytesMoved)
}

func newMemory(m *machine, arena []byte) (*memory, error) {
	mem := &memory{held: &held{}, machine: m}
	if err := mem.attach(arena); err != nil {
		return nil, err
	}
	runtime.AddCleanup(mem, func(h *held) {
		m.lock.Lock()
		defer m.lock.Unlock()
		h.free(m.dev)
	}, mem.held)
	return mem, nil
}

// free gives everything back. What a lost device says to it is of no use to anyone.
func (h *held) free(d device.Device) {
	list := append(append([]buffer{{h.base, h.bytes}}, h.inputs...), h.spare...)
	for _, b := range list {
		if b.at != 0 {
			_ = d.Free(b.at)
		}
	}
	*h = held{}
}

// attach allocates the counterpart of an arena.
func (m *memory) attach(arena []byte) error {
	m.machine.lock.Lock()
	defer m.machine.lock.Unlock()
	m.arena = arena
	if m.base != 0 && m.bytes >= int64(len(arena)) {
		return nil
	}
	d := m.machine.dev
	if m.base != 0 {
		if err := d.Free(m.base); err != nil {
			return err
		}
		m.base = 0
	}
	at, err := d.Alloc(max(int64(len(arena)), 1))
	if err != nil {
		return fmt.Errorf("the arena of %d bytes: %w", len(arena), err)
	}
	m.base, m.bytes = at, max(int64(len(arena)), 1)
	return nil
}

// forgetter is a device that tells what nobody has written.
type forgetter interface {
	Forget(p device.Pointer, bytes int64) error
}

// Begin starts a run.
func (m *memory) Begin(ctx context.Context, arena []byte, values []ndarray.Value, inputs []int) error {
	if len(arena) != len(m.arena) || len(arena) > 0 && &arena[0] != &m.arena[0] {
		if err := m.attach(arena); err != nil {
			return err
		}
	}
	m.ctx, m.stats = ctx, stats{}
	m.where.clear()
	m.inputs = m.inputs[:0]
	m.eachArray(values, inputs, func(a *ndarray.Array) { m.inputs = append(m.inputs, input{data: a.Data}) })
	m.machine.lock.Lock()
	defer m.machine.lock.Unlock()
	if f, ok := m.machine.dev.(forgetter); ok {
		return f.Forget(m.base, m.bytes)
	}
	return nil
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

// launch runs a node's kernels.
func (m *memory) launch(d *kernel, c *ops.Call) error {
	m.machine.lock.Lock()
	defer m.machine.lock.Unlock()
	m.spares, m.late = 0, m.late[:0]
	call, err := m.operands(d, c)
	if err != nil {
		return err
	}
	for _, step := range d.plan.Steps {
		l, err := step(call)
		if err != nil {
			return err
		}
		l.Context = m.ctx
		if err := m.machine.dev.Launch(l); err != nil {
			return err
		}
		m.stats.Launches++
		m.machine.launches.Add(1)
	}
	return m.finish(c)
}

func outAt(c *ops.Call, i int) ndarray.Value {
	if i >= len(c.Out) {
		return nil
	}
	return c.Out[i]
}

// operands finds or makes the places of what a node reads and writes.
func (m *memory) operands(k *kernel, c *ops.Call) (*lower.Call, error) {
	out := &lower.Call{In: make([]kernels.Operand, len(c.In)), Out: make([]kernels.Operand, len(c.Node.Out))}
	for _, i := range k.plan.Reads {
		if w := k.plan.Weights[i]; w.Base != 0 {
			out.In[i] = w
			continue
		}
		a, ok := c.In[i].(*ndarray.Array)
		if !ok || a == nil {
			return nil, fmt.Errorf("operand %d is no tensor", i)
		}
		at, err := m.forReading(a.Data)
		if err != nil {
			return nil, err
		}
		out.In[i] = kernels.Operand{Base: at, Bytes: int64(len(a.Data))}
	}
	for i := range out.Out {
		a, ok := outAt(c, i).(*ndarray.Array)
		if !ok || a == nil {
			continue
		}
		at, err := m.forWriting(a.Data)
		if err != nil {
			return nil, err
		}
		out.Out[i] = kernels.Operand{Base: at, Bytes: int64(len(a.Data))}
	}
	if n := k.plan.Scratch; n > 0 {
		at, err := m.forWriting(c.Scratch[:n])
		if err != nil {
			return nil, err
		}
		if len(m.late) > 0 && &m.late[len(m.late)-1].to[0] == &c.Scratch[0] {
			m.late = m.late[:len(m.late)-1] // nobody reads it
		}
		out.Scratch = kernels.Operand{Base: at, Bytes: n}
	}
	return out, nil
}

// forReading is where the device has bytes, copied there if it has not.
func (m *memory) forReading(data []byte) (device.Pointer, error) {
	d := m.machine.dev
	if len(data) == 0 {
		return m.base, nil
	}
	if lo, ok := m.offset(data); ok {
		err := m.where.each(lo, lo+int64(len(data)), onHost, func(lo, hi int64) error {
			m.stats.BytesIn += hi - lo
			return d.CopyIn(m.base+device.Pointer(lo), m.arena[lo:hi])
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
	m.stats.BytesIn += int64(len(data))
	return at, d.CopyIn(at, data)
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
	m.stats.BytesIn += int64(len(in.data))
	return b.at, m.machine.dev.CopyIn(b.at, in.data)
}

// enlarge makes a buffer large enough.
func (m *memory) enlarge(b *buffer, bytes int64) error {
	if b.at != 0 && b.bytes >= bytes {
		return nil
	}
	if b.at != 0 {
		if err := m.machine.dev.Free(b.at); err != nil {
			return err
		}
		*b = buffer{}
	}
	at, err := m.machine.dev.Alloc(bytes)
	if err == nil {
		*b = buffer{at, bytes}
	}
	return err
}

// take is a buffer for the present launch.
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
		m.stats.BytesOut += int64(len(l.to))
		if err := m.machine.dev.CopyOut(l.to, l.from); err != nil {
			return err
		}
	}
	if len(m.late) > 0 {
		return m.machine.dev.Wait(m.ctx)
	}
	return nil
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
		return nil
	}
	m.machine.lock.Lock()
	defer m.machine.lock.Unlock()
	hi := lo + int64(len(data))
	err := m.where.each(lo, hi, onDevice, func(lo, hi int64) error {
		m.isWaited = true
		m.stats.BytesOut += hi - lo
		return m.machine.dev.CopyOut(m.arena[lo:hi], m.base+device.Pointer(lo))
	})
	m.settle(lo, hi, onDevice)
	return err
}

// wait waits for the copies that were asked for.
func (m *memory) wait() error {
	if !m.isWaited {
		return nil
	}
	m.isWaited = false
	m.machine.lock.Lock()
	defer m.machine.lock.Unlock()
	return m.machine.dev.Wait(m.ctx)
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

// Copy copies on the device what is there, and on the host what is not.
func (m *memory) Copy(to, from []byte) error {
	if len(to) == 0 || &to[0] == &from[0] {
		return nil
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
	m.machine.lock.Lock()
	defer m.machine.lock.Unlock()
	if _, err := m.forReading(from); err != nil {
		return err
	}
	m.stats.BytesMoved += n
	if err := m.machine.dev.Copy(m.base+device.Pointer(target), m.base+device.Pointer(source), n); err != nil {
		return errors.Join(err, m.ctx.Err())
	}
	m.where.set(target, target+n, onDevice)
	return nil
}

// isOnDevice reports that the device has a part of a range that the host has not.
func (m *memory) isOnDevice(lo, hi int64) (found bool) {
	_ = m.where.each(lo, hi, onDevice, func(int64, int64) error { found = true; return nil })
	return found
}
