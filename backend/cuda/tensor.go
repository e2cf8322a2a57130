package cuda

import (
	"context"
	"errors"
	"fmt"
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
//	features, err := cuda.NewTensor(encoder, ndarray.Float32, 1, 512)
//	err = cuda.RunInto(ctx, encoder, inputs, map[string]ndarray.Value{"features": features})
//	err = cuda.RunInto(ctx, decoder, map[string]ndarray.Value{"features": features}, buffers)
//
// The memory is the caller's: a run reads it or copies a whole result into it, on the device, and no later run changes it unless it is
// given to that run as a buffer. It takes part in one run or call at a time; another one at the same time is refused. Memory is given back
// by Close, or when the tensor is no longer reachable.
//
// It is a value of RunInto alone: other functions of berth refuse it.
type Tensor struct {
	value
	machine *machine
	at      device.Pointer

	// shadow stands for the tensor in a session, whose headers point into memory of the host. It gets the elements when a node that
	// runs on the host reads them.
	shadow ndarray.Array

	lock             sync.Mutex
	isUsed, isClosed bool
	hasValue         bool
	isLeft           *atomic.Bool // by a run that failed, whose work may go on
	cleanup          runtime.Cleanup
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
// [TensorError], a [MemoryError], or one of the shape.
func NewTensor(s *berth.Session, dt ndarray.DType, shape ...int) (_ *Tensor, err error) {
	defer rescue.Into(&err)
	mem, err := memoryOf(s)
	if err != nil {
		return nil, err
	}
	if dt == ndarray.String || dt == ndarray.Undefined {
		return nil, &TensorError{Reason: fmt.Sprintf("elements of type %s have no place on a device", dt)}
	}
	n, err := ndarray.ByteSize(dt, shape)
	if err != nil {
		return nil, err
	}
	m := mem.machine
	at, err := m.alloc(context.Background(), "a tensor", int64(n))
	if err != nil {
		return nil, err
	}
	if err := mem.budget.Ask("what stands for a tensor on the device", int64(n)); err != nil {
		return nil, errors.Join(err, m.ask(context.Background(), func(d device.Device) error { return d.Free(at) }))
	}
	left := &atomic.Bool{}
	t := &Tensor{machine: m, at: at, isLeft: left, shadow: ndarray.Array{DType: dt, Shape: slices.Clone(shape), Data: ndarray.AlignedBytes(n)}}
	m.known.Lock()
	defer m.known.Unlock()
	if n > 0 {
		m.tensors[keyOf(t.shadow.Data)] = weak.Make(t)
	}
	t.cleanup = runtime.AddCleanup(t, func(data []byte) {
		if left.Load() {
			go func() { _ = m.drop(data, at, true) }()
		} else {
			_ = m.drop(data, at, false) // a device that is lost has freed it
		}
	}, t.shadow.Data)
	return t, nil
}

// keyOf finds tensors by the memory that stands for them.
func keyOf(data []byte) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(data))) }

// drop gives a tensor's memory back, when work that may use it is done.
func (m *machine) drop(data []byte, at device.Pointer, isLeft bool) error {
	m.known.Lock()
	if cap(data) > 0 {
		delete(m.tensors, keyOf(data))
	}
	m.known.Unlock()
	if isLeft {
		if err := m.wait(context.Background()); err != nil {
			return err
		}
	}
	return m.ask(context.Background(), func(d device.Device) error { return d.Free(at) })
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
	return slices.Clone(t.shadow.Shape)
}

// String is the type, as float32[4,4].
func (t *Tensor) String() string {
	if t == nil {
		return "nil"
	}
	return t.shadow.String()
}

// claim takes the tensor for a run or a call.
func (t *Tensor) claim(name string) error {
	if t == nil || t.machine == nil {
		return &TensorError{name, "it was not made by NewTensor"}
	}
	t.lock.Lock()
	defer t.lock.Unlock()
	switch {
	case t.isClosed:
		return &TensorError{name, "it is closed"}
	case t.isUsed:
		return &TensorError{name, "another run or call is using it"}
	}
	t.isUsed = true
	return nil
}

// release ends a claim.
func (t *Tensor) release() {
	t.lock.Lock()
	defer t.lock.Unlock()
	t.isUsed = false
}

// Set copies an array of the host to the tensor.
func (t *Tensor) Set(ctx context.Context, a *ndarray.Array) (err error) {
	defer rescue.Into(&err)
	defer func() { err = rescue.WithCause(ctx, err) }()
	if err := t.claim(""); err != nil {
		return err
	}
	defer t.release()
	if a == nil || a.DType != t.shadow.DType || !slices.Equal(a.Shape, t.shadow.Shape) {
		return &TensorError{Reason: fmt.Sprintf("it is %s, got %s", t.shadow.String(), ndarray.Describe(a))}
	}
	if err := a.Check(); err != nil {
		return err
	}
	if err := ended(ctx); err != nil {
		return err
	}
	if err := t.machine.ask(ctx, func(d device.Device) error { return d.CopyIn(t.at, a.Data) }); err != nil {
		return err
	}
	t.hasValue = true
	return nil
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
	if err := t.claim(""); err != nil {
		return nil, err
	}
	defer t.release()
	if err := ended(ctx); err != nil {
		return nil, err
	}
	if !t.hasValue {
		return nil, &TensorError{Reason: "it has no value yet"}
	}
	a, err := ndarray.NewIn(ndarray.BudgetOf(ctx), t.shadow.DType, t.shadow.Shape...)
	if err != nil {
		return nil, err
	}
	if err := t.machine.ask(ctx, func(d device.Device) error { return d.CopyOut(a.Data, t.at) }); err != nil {
		return nil, err
	}
	return a, t.machine.wait(ctx)
}

// Close gives the memory back. A tensor that a run is using is not closed.
func (t *Tensor) Close() (err error) {
	defer rescue.Into(&err)
	if err := t.claim(""); err != nil {
		return err
	}
	defer t.release()
	t.cleanup.Stop()
	t.isClosed = true
	return t.machine.drop(t.shadow.Data, t.at, t.isLeft.Load())
}

// RunInto is [berth.Session.RunInto] for inputs and results on the device of the session: values are arrays of the host or [Tensor]s. A
// result is copied into its tensor on the device, and one that has no buffer is not copied at all. After a run that has begun and fails,
// tensors that were buffers have no value; a call that is refused, as for its inputs, changes none.
//
// Errors: those of [berth.Session.RunInto], where types and shapes do not fit, and [TensorError].
func RunInto(ctx context.Context, s *berth.Session, inputs, buffers map[string]ndarray.Value) (err error) {
	defer rescue.Into(&err)
	mem, err := memoryOf(s)
	if err != nil {
		return err
	}
	c := claims{machine: mem.machine}
	defer c.release()
	in, out := make(map[string]ndarray.Value, len(inputs)), make(map[string]*ndarray.Array, len(buffers))
	for name, v := range inputs {
		if t, ok := v.(*Tensor); ok {
			if v, err = c.claim(name, t); err == nil && !t.hasValue {
				err = &TensorError{name, "it has no value yet"}
			}
			if err != nil {
				return err
			}
		}
		in[name] = v
	}
	var made []*Tensor
	for name, v := range buffers {
		switch b := v.(type) {
		case *Tensor:
			if out[name], err = c.claim(name, b); err != nil {
				return err
			}
			made = append(made, b)
		case *ndarray.Array:
			out[name] = b
		default:
			return &TensorError{name, "a buffer is an array or a tensor, got " + ndarray.Describe(v)}
		}
	}
	if err := ended(ctx); err != nil {
		return rescue.WithCause(ctx, err)
	}
	err = s.RunInto(ctx, in, out)
	if isRefused(err) {
		return err
	}
	for _, t := range made {
		t.hasValue = err == nil
	}
	for _, t := range c.list {
		t.isLeft.Store(t.isLeft.Load() || err != nil)
	}
	return err
}

// isRefused reports errors of runs that have not begun.
func isRefused(err error) bool {
	var input *berth.InputError
	return errors.As(err, &input) || errors.Is(err, berth.ErrClosed) || errors.Is(err, berth.ErrSessionInUse)
}

// claims are the tensors of a run, each claimed once.
type claims struct {
	machine *machine
	list    []*Tensor
}

// claim takes a tensor for the run, and gives what stands for it.
func (c *claims) claim(name string, t *Tensor) (*ndarray.Array, error) {
	if slices.Contains(c.list, t) {
		return &t.shadow, nil
	}
	if err := t.claim(name); err != nil {
		return nil, err
	}
	c.list = append(c.list, t)
	if t.machine != c.machine {
		return nil, &TensorError{name, "it lies on another device than the session"}
	}
	return &t.shadow, nil
}

func (c *claims) release() {
	for _, t := range c.list {
		t.release()
	}
}
