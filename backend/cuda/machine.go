package cuda

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"weak"

	"github.com/berth-onnx/berth/backend/cuda/internal/device"
	"github.com/berth-onnx/berth/backend/cuda/internal/kernels"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ssa"
)

// machine is a device that is open, with what programs share on it: kernels and weights. A device serves one call at a time.
type machine struct {
	open   func() (device.Device, error)
	once   sync.Once
	failed error

	launches atomic.Int64 // of all sessions

	lock    sync.Mutex
	dev     device.Device
	set     *kernels.Set
	emitted map[content]weak.Pointer[emitted]
	weights map[content]weak.Pointer[weight]
	tensors map[uintptr]weak.Pointer[Tensor] // by the memory of the host that stands for them
}

// content is what identifies text and constants: elements of a file that is closed may be followed by others at their address.
type content [sha256.Size]byte

// emitted is a kernel on the device, for as long as a program holds it.
type emitted struct{ kernel device.Kernel }

// weight is a constant on the device, for as long as a program holds it.
type weight struct{ at kernels.Operand }

// ready opens the device at the first call.
func (m *machine) ready() error {
	m.once.Do(func() {
		if m.dev, m.failed = m.open(); m.failed != nil {
			return
		}
		m.emitted, m.weights = map[content]weak.Pointer[emitted]{}, map[content]weak.Pointer[weight]{}
		m.tensors = map[uintptr]weak.Pointer[Tensor]{}
		m.set, m.failed = kernels.Load(m.dev)
	})
	return m.failed
}

// kernel compiles a module, or finds what it has compiled.
func (m *machine) kernel(text, name string) (*emitted, error) {
	key := content(sha256.Sum256([]byte(text)))
	m.lock.Lock()
	defer m.lock.Unlock()
	if e := m.emitted[key].Value(); e != nil {
		return e, nil
	}
	mod, err := m.dev.Load(text)
	if err != nil {
		return nil, fmt.Errorf("compile an emitted kernel: %w", err)
	}
	k, err := mod.Kernel(name)
	if err != nil {
		return nil, errors.Join(err, mod.Unload())
	}
	e := &emitted{k}
	m.emitted[key] = weak.Make(e)
	runtime.AddCleanup(e, func(mod device.Module) {
		m.lock.Lock()
		defer m.lock.Unlock()
		collect(m.emitted, key)
		_ = mod.Unload() // a device that is lost has unloaded it
	}, mod)
	return e, nil
}

// collect removes an entry that nobody holds; another may have taken its place.
func collect[T any](from map[content]weak.Pointer[T], key content) {
	if p, ok := from[key]; ok && p.Value() == nil {
		delete(from, key)
	}
}

// weight uploads a constant, or finds it.
func (m *machine) weight(ctx context.Context, c *ssa.Constant) (*weight, error) {
	a, err := c.ArrayIn(ndarray.BudgetOf(ctx))
	if err != nil {
		return nil, err
	}
	key := content(sha256.Sum256(a.Data))
	m.lock.Lock()
	defer m.lock.Unlock()
	if w := m.weights[key].Value(); w != nil {
		return w, nil
	}
	at, err := m.dev.Alloc(max(int64(len(a.Data)), 1))
	if err != nil {
		return nil, fmt.Errorf("weights: %w", err)
	}
	if err := m.dev.CopyIn(at, a.Data); err != nil {
		return nil, err
	}
	w := &weight{kernels.Operand{Base: at, Bytes: int64(len(a.Data))}}
	m.weights[key] = weak.Make(w)
	runtime.AddCleanup(w, func(at device.Pointer) {
		m.lock.Lock()
		defer m.lock.Unlock()
		collect(m.weights, key)
		_ = m.dev.Free(at) // a device that is lost has freed it
	}, at)
	return w, nil
}
