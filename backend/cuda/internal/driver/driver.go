//go:build (linux || windows) && (amd64 || arm64) && !nocuda

package driver

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"sync"
	"time"
	"unsafe"

	"github.com/berth-onnx/berth/backend/cuda/internal/device"
)

// gpu is one GPU: its primary context and one stream.
type gpu struct {
	calls  *calls
	dev    int32
	ctx    uintptr
	stream uintptr
	info   device.Info

	capture capture

	calling  sync.RWMutex // for reading by calls in progress
	isClosed bool         // under calling

	holding sync.Mutex
	pinned  map[*byte][]byte // what AllocHost gave and FreeHost has not had back, by its first byte; under holding
}

// Open opens the library, usually [Library], and a GPU of it. Errors: [device.NoDriverError], [device.OldDriverError],
// [device.NoDeviceError], [device.OldDeviceError], [device.CallError].
func Open(library string, index int) (device.Device, error) {
	c, err := find(library, index)
	if err != nil {
		return nil, err
	}
	g := &gpu{calls: c, pinned: map[*byte][]byte{}}
	if err := c.failure("cuDeviceGet", c.deviceGet(&g.dev, int32(index))); err != nil {
		return nil, err
	}
	if err := g.describe(); err != nil {
		return nil, err
	}
	if g.info.Major < oldest {
		return nil, &device.OldDeviceError{Device: g.info.Name, Major: g.info.Major, Minor: g.info.Minor}
	}
	if code := c.retain(&g.ctx, g.dev); code == outOfMemory {
		return nil, &device.MemoryError{What: "a context of the driver (cuDevicePrimaryCtxRetain)"}
	} else if err := c.failure("cuDevicePrimaryCtxRetain", code); err != nil {
		return nil, err
	}
	const nonBlocking = 1
	if err := g.do("cuStreamCreate", func() int32 { return c.streamCreate(&g.stream, nonBlocking) }); err != nil {
		return nil, errors.Join(err, c.failure("cuDevicePrimaryCtxRelease_v2", c.release(g.dev)))
	}
	return g, nil
}

// Find says whether there is a GPU of a number; the errors are those of [Open].
func Find(library string, index int) error {
	_, err := find(library, index)
	return err
}

// find is the library with a GPU of a number.
func find(library string, index int) (*calls, error) {
	c, err := bind(library)
	if err != nil {
		return nil, err
	}
	if code := c.init(0); code == noDevice {
		return nil, &device.NoDeviceError{Index: index}
	} else if err := c.failure("cuInit", code); err != nil {
		return nil, err
	}
	var count int32
	if err := c.failure("cuDeviceGetCount", c.deviceGetCount(&count)); err != nil {
		return nil, err
	}
	if index >= 0 && index < int(count) {
		return c, nil
	}
	none := &device.NoDeviceError{Index: index}
	for i := range count {
		var dev int32
		if err := c.failure("cuDeviceGet", c.deviceGet(&dev, i)); err != nil {
			return nil, errors.Join(none, err)
		}
		name, err := c.name(dev)
		if err != nil {
			return nil, errors.Join(none, err)
		}
		none.Devices = append(none.Devices, name)
	}
	return nil, none
}

// name asks for a device's name.
func (c *calls) name(dev int32) (string, error) {
	name := make([]byte, 256)
	err := c.failure("cuDeviceGetName", c.deviceGetName(&name[0], int32(len(name)), dev))
	return textOf(name), err
}

// describe asks for the device's name and properties, by the numbers of CUdevice_attribute.
func (g *gpu) describe() error {
	var err error
	if g.info.Name, err = g.calls.name(g.dev); err != nil {
		return err
	}
	for attribute, to := range map[int32]*int{75: &g.info.Major, 76: &g.info.Minor, 16: &g.info.Processors,
		13: &g.info.ClockKHz, 36: &g.info.MemoryClockKHz, 37: &g.info.MemoryBusBits} {
		var v int32
		if err := g.calls.failure("cuDeviceGetAttribute", g.calls.deviceGetAttribute(&v, attribute, g.dev)); err != nil {
			return err
		}
		*to = int(v)
	}
	return nil
}

// textOf is the text before the first zero byte.
func textOf(b []byte) string {
	text, _, _ := bytes.Cut(b, []byte{0})
	return string(text)
}

// stringAt is the text at an address of the driver's, which stays as it is.
func stringAt(at uintptr) string {
	p := *(**byte)(unsafe.Pointer(&at))
	n := 0
	for *(*byte)(unsafe.Add(unsafe.Pointer(p), n)) != 0 {
		n++
	}
	return string(unsafe.Slice(p, n))
}

var errClosed = errors.New("it has been closed, to be opened again")

// do makes a call, and says where it means that the GPU is lost or has too little memory.
func (g *gpu) do(call string, f func() int32) error {
	g.calling.RLock()
	defer g.calling.RUnlock()
	if g.isClosed {
		return &device.DeviceLostError{Device: g.info.Name, Err: errClosed}
	}
	err := g.calls.on(g.ctx, call, f)
	failed, ok := err.(*device.CallError)
	switch {
	case !ok:
		return err
	case lasting[failed.Code] != "":
		return &device.DeviceLostError{Device: g.info.Name, Err: failed}
	case failed.Code == outOfMemory:
		var free, total uint64
		_ = g.calls.on(g.ctx, "cuMemGetInfo_v2", func() int32 { return g.calls.memGetInfo(&free, &total) }) // which then are 0
		return &device.MemoryError{What: call, Free: int64(free), Total: int64(total)}
	}
	return err
}

// Info describes the GPU.
func (g *gpu) Info() device.Info { return g.info }

// Memory asks the driver.
func (g *gpu) Memory() (free, total int64, err error) {
	var f, t uint64
	err = g.do("cuMemGetInfo_v2", func() int32 { return g.calls.memGetInfo(&f, &t) })
	return int64(f), int64(t), err
}

// Alloc gives memory of the GPU.
func (g *gpu) Alloc(bytes int64) (device.Pointer, error) {
	var p uint64
	err := g.do("cuMemAlloc_v2", func() int32 { return g.calls.memAlloc(&p, uint64(bytes)) })
	if full, ok := err.(*device.MemoryError); ok {
		full.What, full.Want = "", bytes
	}
	return device.Pointer(p), err
}

// Free gives it back.
func (g *gpu) Free(p device.Pointer) error {
	return g.do("cuMemFree_v2", func() int32 { return g.calls.memFree(uint64(p)) })
}

// AllocHost gives pages of the program's own that the driver has locked: those of cuMemAllocHost are gone with the context, also under
// who reads them. They are kept until they are given back, or the GPU is closed, so that the collector has no other use for them before.
func (g *gpu) AllocHost(bytes int64) ([]byte, error) {
	if bytes == 0 {
		return nil, nil
	}
	page := int64(os.Getpagesize())
	size := (bytes + page - 1) / page * page
	all := make([]byte, size+page)
	from := -int64(uintptr(unsafe.Pointer(&all[0]))) & (page - 1)
	b := all[from : from+bytes : from+bytes]
	err := g.do("cuMemHostRegister_v2", func() int32 { return g.calls.hostRegister(&b[0], uint64(size), 0) })
	if _, isFull := err.(*device.MemoryError); isFull {
		return nil, &device.MemoryError{Want: bytes, Host: true}
	}
	if err != nil {
		return nil, err
	}
	g.holding.Lock()
	defer g.holding.Unlock()
	g.pinned[&b[0]] = b
	return b, nil
}

// FreeHost gives it back.
func (g *gpu) FreeHost(b []byte) error {
	if len(b) == 0 {
		return nil
	}
	err := g.do("cuMemHostUnregister", func() int32 { return g.calls.hostUnregister(&b[0]) })
	if err == nil {
		g.holding.Lock()
		defer g.holding.Unlock()
		delete(g.pinned, &b[0])
	}
	return err
}

// CopyIn copies from the host. The driver reads memory that it has not locked before it returns.
func (g *gpu) CopyIn(to device.Pointer, from []byte) error {
	if len(from) == 0 {
		return nil
	}
	return g.do("cuMemcpyHtoDAsync_v2", func() int32 {
		return g.calls.copyIn(uint64(to), &from[0], uint64(len(from)), g.stream)
	})
}

// CopyOut copies to the host.
func (g *gpu) CopyOut(to []byte, from device.Pointer) error {
	if len(to) == 0 {
		return nil
	}
	return g.do("cuMemcpyDtoHAsync_v2", func() int32 {
		return g.calls.copyOut(&to[0], uint64(from), uint64(len(to)), g.stream)
	})
}

// Copy copies inside the GPU.
func (g *gpu) Copy(to, from device.Pointer, bytes int64) error {
	return g.do("cuMemcpyDtoDAsync_v2", func() int32 {
		return g.calls.copyInside(uint64(to), uint64(from), uint64(bytes), g.stream)
	})
}

// Zero sets all bytes of a range to 0.
func (g *gpu) Zero(p device.Pointer, bytes int64) error {
	return g.do("cuMemsetD8Async", func() int32 { return g.calls.set8(uint64(p), 0, uint64(bytes), g.stream) })
}

// Close gives stream and context back, and with it all memory, when no call is in progress.
func (g *gpu) Close() error {
	err := g.do("cuStreamDestroy_v2", func() int32 { return g.calls.streamDestroy(g.stream) })
	g.calling.Lock()
	defer g.calling.Unlock()
	if g.isClosed {
		return err
	}
	g.isClosed = true
	err = errors.Join(err, g.calls.failure("cuDevicePrimaryCtxRelease_v2", g.calls.release(g.dev)))
	g.holding.Lock()
	defer g.holding.Unlock()
	g.pinned = map[*byte][]byte{}
	return err
}

type module struct {
	gpu *gpu
	at  uintptr
}

// Load lets the driver compile PTX; what it says about a fault is part of the error.
func (g *gpu) Load(ptx string) (device.Module, error) {
	const errorLog, errorLogSize = 5, 6 // of CUjit_option
	image, log := append([]byte(ptx), 0), make([]byte, 8192)
	var pin runtime.Pinner
	defer pin.Unpin()
	pin.Pin(&log[0])
	options := [2]int32{errorLog, errorLogSize}
	values := [2]uintptr{uintptr(unsafe.Pointer(&log[0])), uintptr(len(log))}
	m := &module{gpu: g}
	err := g.do("cuModuleLoadDataEx", func() int32 {
		return g.calls.moduleLoad(&m.at, &image[0], 2, (*uintptr)(unsafe.Pointer(&options)), &values[0])
	})
	if text := textOf(log); err != nil && text != "" {
		return nil, fmt.Errorf("%w: %s", err, text)
	}
	if err != nil {
		return nil, err
	}
	return m, nil
}

type kernel struct {
	at   uintptr
	name string
}

// Name is the kernel's name.
func (k *kernel) Name() string { return k.name }

// Kernel finds a kernel.
func (m *module) Kernel(name string) (device.Kernel, error) {
	k := &kernel{name: name}
	err := m.gpu.do("cuModuleGetFunction", func() int32 { return m.gpu.calls.moduleGetFunction(&k.at, m.at, name) })
	if err != nil {
		return nil, fmt.Errorf("kernel %s: %w", name, err)
	}
	return k, nil
}

// Unload gives the module back.
func (m *module) Unload() error {
	return m.gpu.do("cuModuleUnload", func() int32 { return m.gpu.calls.moduleUnload(m.at) })
}

// Launch passes the buffer of arguments as it is. Kernels have the shared memory that they declare.
func (g *gpu) Launch(l *device.Launch) error {
	k, ok := l.Kernel.(*kernel)
	if !ok {
		return fmt.Errorf("the kernel is not of this device")
	}
	const end, bufferPointer, bufferSize = 0, 1, 2
	args := append(append([]byte{}, l.Args...), 0) // never empty, so that it has an address
	size := uint64(len(l.Args))
	var pin runtime.Pinner
	defer pin.Unpin()
	pin.Pin(&args[0])
	pin.Pin(&size)
	extra := [5]uintptr{bufferPointer, uintptr(unsafe.Pointer(&args[0])), bufferSize, uintptr(unsafe.Pointer(&size)), end}
	err := g.do("cuLaunchKernel", func() int32 {
		return g.calls.launch(k.at, uint32(l.Grid[0]), uint32(l.Grid[1]), uint32(l.Grid[2]), uint32(l.Block[0]), uint32(l.Block[1]),
			uint32(l.Block[2]), 0, g.stream, nil, &extra[0])
	})
	if _, isLost := err.(*device.DeviceLostError); isLost {
		return err // by an earlier one
	}
	if err != nil {
		return &device.KernelError{Kernel: k.name, Err: err}
	}
	return nil
}

// capture is a graph while it is captured with pieces that After says to wait for others.
type capture struct {
	nodes  [][]uintptr // by piece: what waits for it
	isLeaf []bool      // nobody does
	isFree bool
}

// After has what is captured next wait for earlier pieces instead of the one before it.
func (g *gpu) After(pieces []int) error {
	if err := g.notePiece(); err != nil {
		return err
	}
	g.capture.isFree = true
	var nodes []uintptr
	for _, p := range pieces {
		if p < 0 || p >= len(g.capture.nodes) {
			return fmt.Errorf("piece %d of a graph of %d is waited for", p, len(g.capture.nodes))
		}
		nodes = append(nodes, g.capture.nodes[p]...)
		g.capture.isLeaf[p] = false
	}
	return g.waitFor(nodes)
}

// notePiece notes the node of the piece that was captured last.
func (g *gpu) notePiece() error {
	if !g.capture.isFree {
		return nil
	}
	const active = 1 // of CUstreamCaptureStatus
	var status int32
	var id, count uint64
	var of uintptr
	var nodes *uintptr
	var last []uintptr
	err := g.do("cuStreamGetCaptureInfo_v2", func() int32 {
		code := g.calls.captureInfo(g.stream, &status, &id, &of, &nodes, &count)
		if code == success && status == active {
			last = slices.Clone(unsafe.Slice(nodes, count)) // while they are the driver's
		}
		return code
	})
	if err != nil {
		return err
	}
	if status != active {
		return fmt.Errorf("the driver has given up a graph that is captured (status %d)", status)
	}
	g.capture.nodes = append(g.capture.nodes, last)
	g.capture.isLeaf = append(g.capture.isLeaf, true)
	return nil
}

// waitFor sets what the next piece of the capture waits for.
func (g *gpu) waitFor(nodes []uintptr) error {
	const set = 1
	list := append(slices.Clone(nodes), 0) // never empty, so that it has an address
	return g.do("cuStreamUpdateCaptureDependencies", func() int32 { return g.calls.captureAfter(g.stream, &list[0], uint64(len(nodes)), set) })
}

// join ends a capture with all work that nobody waits for, as if it had been asked for on streams that join.
func (g *gpu) join() error {
	if !g.capture.isFree {
		return nil
	}
	if err := g.notePiece(); err != nil {
		return err
	}
	var leaves []uintptr
	for p, nodes := range g.capture.nodes {
		if g.capture.isLeaf[p] {
			leaves = append(leaves, nodes...)
		}
	}
	return g.waitFor(leaves)
}

type graph struct {
	gpu  *gpu
	exec uintptr
}

// Capture records the stream. A failing ask ends the recording, and its error is returned.
func (g *gpu) Capture(ask func() error) (device.Graph, error) {
	const threadLocal = 1
	runtime.LockOSThread() // a thread-local capture ends on the thread it began on
	defer runtime.UnlockOSThread()
	if err := g.do("cuStreamBeginCapture_v2", func() int32 { return g.calls.beginCapture(g.stream, threadLocal) }); err != nil {
		return nil, err
	}
	recorded, err := g.record(ask)
	out := &graph{gpu: g}
	if err == nil {
		err = g.do("cuGraphInstantiateWithFlags", func() int32 { return g.calls.graphInstantiate(&out.exec, recorded, 0) })
	}
	if recorded != 0 {
		err = device.Join(err, g.do("cuGraphDestroy", func() int32 { return g.calls.graphDestroy(recorded) }))
	}
	if err != nil {
		return nil, err
	}
	return out, nil
}

// record asks for the work of a capture that has begun, and ends the capture whatever becomes of that, also by a panic.
func (g *gpu) record(ask func() error) (recorded uintptr, err error) {
	g.capture = capture{}
	defer func() {
		err = device.Join(err, g.do("cuStreamEndCapture", func() int32 { return g.calls.endCapture(g.stream, &recorded) }))
	}()
	if err = ask(); err == nil {
		err = g.join()
	}
	return 0, err
}

// Run launches the graph.
func (r *graph) Run(context.Context) error {
	return r.gpu.do("cuGraphLaunch", func() int32 { return r.gpu.calls.graphLaunch(r.exec, r.gpu.stream) })
}

// Close gives the graph back.
func (r *graph) Close() error {
	return r.gpu.do("cuGraphExecDestroy", func() int32 { return r.gpu.calls.graphExecDestroy(r.exec) })
}

type event struct {
	gpu *gpu
	at  uintptr
}

// NewEvent makes a mark.
func (g *gpu) NewEvent(isTimed bool) (device.Event, error) {
	const disableTiming = 2
	flags := uint32(disableTiming)
	if isTimed {
		flags = 0
	}
	e := &event{gpu: g}
	if err := g.do("cuEventCreate", func() int32 { return g.calls.eventCreate(&e.at, flags) }); err != nil {
		return nil, err
	}
	return e, nil
}

// Record marks the end of what the stream has been asked for.
func (e *event) Record() error {
	return e.gpu.do("cuEventRecord", func() int32 { return e.gpu.calls.eventRecord(e.at, e.gpu.stream) })
}

// How Wait asks.
const (
	eager        = 50 * time.Microsecond // for so long without a pause
	longestPause = time.Millisecond
)

// Wait asks whether the work is done, time and again: without a pause at first, then after pauses of an eighth of the time that has passed.
// So it comes an eighth too late at most and takes little of a core; and no thread stays in the driver beyond its context, as one would
// that cuEventSynchronize holds.
//
//	asked   ||||||||| | |  |  |   |    |     |       |        |
//	        ├ eager ┤ pauses of 1/8 of the time, up to 1 ms
func (e *event) Wait(ctx context.Context) error {
	for begin := time.Now(); ; {
		isDone, err := e.isDone()
		if isDone || err != nil {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		if passed := time.Since(begin); passed < eager {
			runtime.Gosched()
		} else {
			time.Sleep(min(passed/8, longestPause))
		}
	}
}

// isDone reports that the work before the mark is done.
func (e *event) isDone() (isDone bool, err error) {
	isDone = true
	err = e.gpu.do("cuEventQuery", func() int32 {
		code := e.gpu.calls.eventQuery(e.at)
		if code == notReady {
			isDone, code = false, success
		}
		return code
	})
	return isDone, err
}

// Since is the GPU's time between two marks.
func (e *event) Since(earlier device.Event) (time.Duration, error) {
	first, ok := earlier.(*event)
	if !ok {
		return 0, fmt.Errorf("the event is not of this device")
	}
	var ms float32
	err := e.gpu.do("cuEventElapsedTime", func() int32 { return e.gpu.calls.eventElapsed(&ms, first.at, e.at) })
	return time.Duration(float64(ms) * float64(time.Millisecond)), err
}

// Close gives the event back; the driver keeps what it needs until the work before it is done.
func (e *event) Close() error {
	return e.gpu.do("cuEventDestroy_v2", func() int32 { return e.gpu.calls.eventDestroy(e.at) })
}
