package cuda

import (
	"context"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"unsafe"
	"weak"

	"github.com/berth-onnx/berth"
	"github.com/berth-onnx/berth/backend/cuda/internal/device"
	"github.com/berth-onnx/berth/internal/rescue"
	"github.com/berth-onnx/berth/ndarray"
)

// value makes a Tensor an ndarray.Value without the methods of any.
type value = ndarray.Value

// Tensor is a tensor in the memory of a GPU (or of cuda-sim): an input or a buffer for a result of [RunInto], for sessions of any
// program on the same device. Results of one model become inputs of the next without a copy to the host:
//
//	features, err := cuda.NewTensor(ctx, encoder, ndarray.Float32, 1, 512)
//	err = cuda.RunInto(ctx, encoder, inputs, map[string]ndarray.Value{"features": features})
//	err = cuda.RunInto(ctx, decoder, map[string]ndarray.Value{"features": features}, buffers)
//
// The memory is the caller's: a run reads it or copies a whole result into it, on the device, and no later run changes it unless it is
// given to that run as a buffer. Any number of runs and calls may read it at a time, as an input or by Get. One that writes it, as a buffer
// or by Set or Close, has it alone: what comes at the same time is refused. Memory is given back by Close, or when the tensor is no longer
// reachable. It depends on no session, program or model: it stays as it is when they are closed.
//
// It is a value of RunInto alone: other functions of berth refuse it.
type Tensor struct {
	value
	machine *machine
	at      device.Pointer
	made    []int // the shape that it was made with: how much room there is

	// shadow stands for the tensor in a session, whose headers point into memory of the host. It gets the elements when a node that
	// runs on the host reads them.
	shadow ndarray.Array

	lock     sync.Mutex
	uses     int // by runs and calls that read it; -1: by one that writes it
	isClosed bool
	hasValue bool
	isLeft   *atomic.Bool // by a run that failed, whose work may go on
	cleanup  runtime.Cleanup

	fetching gate // of what follows
	isOnHost bool // the shadow has the elements
}

// TensorError says why a [Tensor] cannot be made or used.
type TensorError struct {
	Name   string // of the input or output; empty outside a run
	Reason string
}

// Error names the input or output, and the reason.
func (e *TensorError) Error() string {
	if e.Name == "" {
		return "tensor on a device: " + e.Reason
	}
	return fmt.Sprintf("tensor on a device for %q: %s", e.Name, e.Reason)
}

// memoryOf is a session's memory on a device.
func memoryOf(s *berth.Session) (*memory, error) {
	if m, ok := s.DeviceMemory().(*memory); ok && m != nil {
		return m, nil
	}
	return nil, &TensorError{Reason: "the session does not run on a device; compile its program with the backend cuda or cuda-sim"}
}

// NewTensor takes memory for a tensor on the device of a session. It has no value until [Tensor.Set] or a run gives it one. The error is a
// [TensorError] or a [MemoryError].
func NewTensor(ctx context.Context, s *berth.Session, dt ndarray.DType, shape ...int) (_ *Tensor, err error) {
	defer rescue.Into(&err)
	defer func() { err = rescue.WithCause(ctx, err) }()
	mem, err := memoryOf(s)
	if err != nil {
		return nil, err
	}
	if err := ended(ctx); err != nil {
		return nil, err
	}
	if dt == ndarray.String || !dt.Valid() {
		return nil, &TensorError{Reason: fmt.Sprintf("elements of type %s have no place on a device", dt)}
	}
	n, err := ndarray.ByteSize(dt, shape)
	if err != nil {
		return nil, &TensorError{Reason: fmt.Sprintf("%s%v: %v", dt, shape, err)}
	}
	m := mem.machine
	at, err := m.alloc(ctx, "a tensor", int64(n), mem.limit)
	if err != nil {
		return nil, err
	}
	if err := mem.budget.Ask("what stands for a tensor on the device", int64(n)); err != nil {
		m.giveBack(func(d device.Device) error { return m.free(d, at) })
		return nil, err
	}
	left := &atomic.Bool{}
	t := &Tensor{machine: m, at: at, isLeft: left, made: slices.Clone(shape), shadow: ndarray.Array{DType: dt, Shape: slices.Clone(shape), Data: ndarray.AlignedBytes(n)}}
	m.known.Lock()
	defer m.known.Unlock()
	if n > 0 {
		m.tensors[keyOf(t.shadow.Data)] = weak.Make(t)
	}
	t.cleanup = runtime.AddCleanup(t, func(data []byte) { m.drop(data, at, left.Load()) }, t.shadow.Data)
	return t, nil
}

// keyOf finds tensors by the memory that stands for them.
func keyOf(data []byte) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(data))) }

// drop gives a tensor's memory back, when work that may use it is done.
func (m *machine) drop(data []byte, at device.Pointer, isLeft bool) {
	m.known.Lock()
	if cap(data) > 0 {
		delete(m.tensors, keyOf(data))
	}
	m.known.Unlock()
	m.giveBackWhen(!isLeft, func(d device.Device) error { return m.free(d, at) })
}

// tensor is the one that memory of the host stands for, nil for other memory.
func (m *machine) tensor(data []byte) *Tensor {
	m.known.Lock()
	defer m.known.Unlock()
	if len(data) == 0 || len(m.tensors) == 0 {
		return nil
	}
	return m.tensors[keyOf(data)].Value()
}

// DType is the element type.
func (t *Tensor) DType() ndarray.DType {
	if t == nil {
		return ndarray.Undefined
	}
	return t.shadow.DType
}

// Shape is a copy of the shape. A run gives a tensor the shape of its result where that is known only then.
func (t *Tensor) Shape() []int {
	if t == nil {
		return nil
	}
	t.lock.Lock()
	defer t.lock.Unlock()
	return slices.Clone(t.shadow.Shape)
}

// String is the type, as float32[4,4].
func (t *Tensor) String() string {
	if t == nil {
		return "nil"
	}
	return (&ndarray.Array{DType: t.shadow.DType, Shape: t.Shape()}).String()
}

// claim takes the tensor for a run or a call, to write it or to read it.
func (t *Tensor) claim(name string, writes bool) error {
	if t == nil || t.machine == nil {
		return &TensorError{name, "it was not made by NewTensor"}
	}
	t.lock.Lock()
	defer t.lock.Unlock()
	switch {
	case t.isClosed:
		return &TensorError{name, "it is closed"}
	case t.uses < 0:
		return &TensorError{name, "another run or call is writing it"}
	case writes && t.uses > 0:
		return &TensorError{name, "another run or call is reading it"}
	}
	if t.uses++; writes {
		t.uses = -1
	}
	return nil
}

// release ends a claim.
func (t *Tensor) release() {
	t.lock.Lock()
	defer t.lock.Unlock()
	t.uses = max(t.uses-1, 0)
}

// Set copies an array of the host to the tensor, which has the tensor's shape, or that which the tensor was made with. Where the copy fails, or its context ends while it is in progress, the tensor has no value.
func (t *Tensor) Set(ctx context.Context, a *ndarray.Array) (err error) {
	defer rescue.Into(&err)
	defer func() { err = rescue.WithCause(ctx, err) }()
	if err := t.claim("", true); err != nil {
		return err
	}
	defer t.release()
	if a == nil || a.DType != t.shadow.DType || !slices.Equal(a.Shape, t.shadow.Shape) && !slices.Equal(a.Shape, t.made) {
		return &TensorError{Reason: fmt.Sprintf("it is %s, got %s", t.shadow.String(), ndarray.Describe(a))}
	}
	if err := a.Check(); err != nil {
		return err
	}
	if err := ended(ctx); err != nil {
		return err
	}
	t.wrote(&ndarray.Array{Shape: slices.Clone(a.Shape)}, false)
	if err = t.machine.upload(ctx, t.at, a.Data); err != nil {
		t.isLeft.Store(true)
	}
	t.hasValue = err == nil
	return err
}

// ended is why a call must not begin.
func ended(ctx context.Context) error {
	if ctx == nil {
		return &TensorError{Reason: "the context is nil"}
	}
	return ctx.Err()
}

// Get is a copy of the tensor on the host.
func (t *Tensor) Get(ctx context.Context) (_ *ndarray.Array, err error) {
	defer rescue.Into(&err)
	defer func() { err = rescue.WithCause(ctx, err) }()
	if err := t.claim("", false); err != nil {
		return nil, err
	}
	defer t.release()
	if err := ended(ctx); err != nil {
		return nil, err
	}
	if !t.hasValue {
		return nil, &TensorError{Reason: "it has no value yet"}
	}
	a, err := ndarray.NewContext(ctx, ndarray.BudgetOf(ctx), t.shadow.DType, t.shadow.Shape...)
	if err != nil {
		return nil, err
	}
	if err := t.machine.download(ctx, a.Data, t.at); err != nil {
		t.isLeft.Store(true)
		return nil, err
	}
	return a, nil
}

// fetch has the elements in the memory of the host that stands for the tensor, copied once for all runs until the tensor is written.
func (t *Tensor) fetch(ctx context.Context) error {
	if err := t.fetching.enter(ctx); err != nil {
		return err
	}
	defer t.fetching.Unlock()
	if t.isOnHost {
		return nil
	}
	if err := t.machine.download(ctx, t.head().Data, t.at); err != nil {
		t.isLeft.Store(true)
		return err
	}
	t.isOnHost = true
	return nil
}

// Close gives the memory back. A tensor that a run is using is not closed. It waits for nothing: memory that work of the device may still
// use, as of a run whose context has ended, is given back behind it.
func (t *Tensor) Close() (err error) {
	defer rescue.Into(&err)
	if err := t.claim("", true); err != nil {
		return err
	}
	defer t.release()
	t.cleanup.Stop()
	t.isClosed = true
	t.machine.drop(t.shadow.Data, t.at, t.isLeft.Load())
	return t.machine.use(func(device.Device) error { return nil })
}

// RunInto is [berth.Session.RunInto] for inputs and results on the device of the session: values are arrays of the host or [Tensor]s. A
// result is copied into its tensor on the device, and one that has no buffer is not copied at all. After a run that has begun and fails,
// tensors that were buffers have no value; a call that is refused, as for its inputs or buffers, changes none.
//
// Errors: those of [berth.Session.RunInto], where types and shapes do not fit, and [TensorError]. Tensors are claimed before the session, so
// of several goroutines that use one session with one tensor, all but one may get a TensorError and not [berth.ErrSessionInUse].
func RunInto(ctx context.Context, s *berth.Session, inputs, buffers map[string]ndarray.Value) (err error) {
	defer rescue.Into(&err)
	mem, err := memoryOf(s)
	if err != nil {
		return err
	}
	c := claims{machine: mem.machine, heads: map[*Tensor]*ndarray.Array{}}
	defer c.release()
	out, err := c.buffers(buffers)
	if err != nil {
		return err
	}
	made := slices.Collect(maps.Keys(c.heads))
	in, err := c.inputs(inputs)
	if err != nil {
		return err
	}
	if err := ended(ctx); err != nil {
		return rescue.WithCause(ctx, err)
	}
	hasBegun := false
	if err = s.RunInto(context.WithValue(ctx, begunKey{}, &hasBegun), in, out); !hasBegun {
		return err
	}
	for _, t := range made {
		t.wrote(c.heads[t], err == nil)
	}
	for t := range c.heads {
		t.isLeft.Store(t.isLeft.Load() || err != nil)
	}
	return err
}

// wrote notes that a run has written the tensor, with what shape, or that it has failed.
func (t *Tensor) wrote(head *ndarray.Array, hasValue bool) {
	t.lock.Lock()
	defer t.lock.Unlock()
	t.hasValue, t.isOnHost, t.shadow.Shape = hasValue, false, head.Shape
}

// begunKey is the key of a bool in the context of a run, which is set when the run begins: errors before that are refusals, whatever they are.
type begunKey struct{}

// noteBegun sets it.
func noteBegun(ctx context.Context) {
	if hasBegun, _ := ctx.Value(begunKey{}).(*bool); hasBegun != nil {
		*hasBegun = true
	}
}

// claims are the tensors of a run, each claimed once, with what stands for them in the run: headers of its own, since others may read a
// tensor at the same time.
type claims struct {
	machine *machine
	heads   map[*Tensor]*ndarray.Array
}

// buffers claims what the run writes. It comes before inputs, since a tensor may be both.
func (c *claims) buffers(given map[string]ndarray.Value) (out map[string]*ndarray.Array, err error) {
	out = make(map[string]*ndarray.Array, len(given))
	for name, v := range given {
		switch b := v.(type) {
		case *Tensor:
			if out[name], err = c.claim(name, b, true); err != nil {
				return nil, err
			}
		case *ndarray.Array:
			out[name] = b
		default:
			return nil, &TensorError{name, "a buffer is an array or a tensor, got " + ndarray.Describe(v)}
		}
	}
	return out, nil
}

// inputs claims what the run reads.
func (c *claims) inputs(given map[string]ndarray.Value) (in map[string]ndarray.Value, err error) {
	in = make(map[string]ndarray.Value, len(given))
	for name, v := range given {
		if t, ok := v.(*Tensor); ok {
			if v, err = c.claim(name, t, false); err == nil && !t.hasValue {
				err = &TensorError{name, "it has no value yet"}
			}
			if err != nil {
				return nil, err
			}
		}
		in[name] = v
	}
	return in, nil
}

// claim takes a tensor for the run, and gives what stands for it.
func (c *claims) claim(name string, t *Tensor, writes bool) (*ndarray.Array, error) {
	if head := c.heads[t]; head != nil {
		return head, nil
	}
	if err := t.claim(name, writes); err != nil {
		return nil, err
	}
	head := t.head()
	c.heads[t] = head
	if t.machine != c.machine {
		return nil, &TensorError{name, "it lies on another device than the session"}
	}
	return head, nil
}

// head is what stands for the tensor in a run: as many bytes as its shape has, in room for the shape that it was made with.
func (t *Tensor) head() *ndarray.Array {
	head := t.shadow
	head.Shape = slices.Clone(head.Shape)
	head.Data = head.Data[:head.Len()*head.DType.Size()]
	return &head
}

func (c *claims) release() {
	for t := range c.heads {
		t.release()
	}
}
