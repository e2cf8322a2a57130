// Package cuda runs programs on NVIDIA GPUs, with nothing but the driver installed. Importing it registers two backends:
//
//	cuda       the GPU, by the driver's library, opened while running
//	cuda-sim   the same kernels on an interpreter of PTX, for tests and to look for faults in kernels without a GPU
//
// The planned arena has a counterpart on the device, one allocation with the same offsets:
//
//	graph ──lower──▶ launches ──┬─▶ driver   libcuda
//	         │                  └─▶ sim      internal/ptx
//	         └─ no rule: the host's kernel; what it reads and writes is copied, and counted
//
// Weights are uploaded once, however many programs use them. Views, branches and loops move addresses, as they do without a device.
package cuda

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/berth-onnx/berth"
	"github.com/berth-onnx/berth/backend"
	"github.com/berth-onnx/berth/backend/cuda/internal/device"
	"github.com/berth-onnx/berth/backend/cuda/internal/driver"
	"github.com/berth-onnx/berth/backend/cuda/internal/kernels"
	"github.com/berth-onnx/berth/backend/cuda/internal/lower"
	"github.com/berth-onnx/berth/backend/cuda/internal/sim"
	"github.com/berth-onnx/berth/internal/rescue"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// The names of the backends, for berth.WithBackend and --backend.
const (
	Name    = "cuda"
	SimName = "cuda-sim"
)

var (
	simulated = &machine{open: func() (device.Device, error) { return sim.New(sim.Options{}), nil }}
	gpus      sync.Map // by index: *slot
)

// gpu is the machine of a GPU, opened when it is first used.
func gpu(index int) *machine {
	s, _ := gpus.LoadOrStore(index, &slot{open: func() (device.Device, error) { return driver.Open(driver.Library, index) }})
	return s.(*slot).machine()
}

func init() {
	backend.Register(Name, func(fast backend.Backend) backend.Backend { return newOn(Name, gpu(0), fast) })
	backend.Register(SimName, func(fast backend.Backend) backend.Backend { return newOn(SimName, simulated, fast) })
}

// WithDevice is berth.WithBackend for the GPU of a number, counted from 0 as the driver lists them; the backend "cuda" is the first one.
// A number that no GPU has is a [NoDeviceError] of compiling. The backend gets the name "cuda:" and the number.
func WithDevice(index int) berth.Option {
	name := fmt.Sprintf("%s:%d", Name, index)
	backend.Register(name, func(fast backend.Backend) backend.Backend { return newOn(name, gpu(index), fast) })
	return berth.WithBackend(name)
}

// executor prepares the nodes of one program.
type executor struct {
	name    string
	machine *machine
	fast    backend.Backend

	lock   sync.Mutex
	failed error // what kept a node from being prepared for the device, for Ready
}

func newOn(name string, m *machine, fast backend.Backend) *executor {
	if fast == nil {
		fast = backend.Reference{}
	}
	return &executor{name: name, machine: m, fast: fast}
}

// Name is the name that the backend is registered by.
func (e *executor) Name() string { return e.name }

// Ready opens the device, and says what kept nodes from being prepared.
func (e *executor) Ready(ctx context.Context) (err error) {
	defer rescue.Into(&err)
	if err := e.machine.ready(ctx); err != nil {
		return err
	}
	e.lock.Lock()
	defer e.lock.Unlock()
	return e.failed
}

// Prepare lowers a node, or leaves it to the host's kernels.
func (e *executor) Prepare(ctx context.Context, n *ssa.Node, threads int) (_ backend.Prepared, err error) {
	defer rescue.Into(&err)
	if err := e.machine.ready(ctx); err != nil {
		return backend.Prepared{}, &refusal{err}
	}
	h := &holder{machine: e.machine, node: n}
	plan, err := lower.Node(ctx, n, h)
	if err != nil {
		e.lock.Lock()
		defer e.lock.Unlock()
		e.failed = err
		return backend.Prepared{}, &refusal{err}
	}
	if plan == nil {
		return e.fast.Prepare(ctx, n, threads)
	}
	k := &kernel{plan: plan, machine: e.machine, holds: h.list}
	return backend.Prepared{Kernel: k, Scratch: plan.Scratch, Absorbed: plan.Absorbed, Tables: h.bytes}, nil
}

// refusal is an error of the device, and none of the node: the host does not compute what the device should.
type refusal struct{ error }

// IsFinal ends compiling, or the run.
func (*refusal) IsFinal() bool { return true }

// Unwrap gives the device's error.
func (e *refusal) Unwrap() error { return e.error }

// Fuses reports that there is a kernel for a product with its epilogue.
func (e *executor) Fuses(n *ssa.Node) bool { return lower.Fuses(n) }

// Attends reports that there is a kernel for an attention, which needs no workspace.
func (e *executor) Attends(n *ssa.Node) (workspace int64, ok bool) { return 0, lower.Attends(n) }

// Groups reports that a node can be part of a group, which becomes one kernel.
func (e *executor) Groups(n *ssa.Node) bool { return lower.Groups(n) }

// holder collects what a kernel has on the device, for as long as the kernel is kept.
type holder struct {
	machine *machine
	node    *ssa.Node
	list    []any // weights and emitted kernels
	bytes   int64 // of what was made for the node: tables and modules, but no operand of it
}

// Kernels are those that were compiled ahead.
func (h *holder) Kernels() *kernels.Set { return h.machine.set }

// Emitted compiles a module.
func (h *holder) Emitted(ctx context.Context, text, name string) (device.Kernel, error) {
	k, err := h.machine.kernel(ctx, text, name)
	if err != nil {
		return nil, err
	}
	h.list, h.bytes = append(h.list, k), h.bytes+int64(len(text))
	return k.kernel, nil
}

// Weight uploads a constant.
func (h *holder) Weight(ctx context.Context, c *ssa.Constant) (kernels.Operand, error) {
	w, err := h.machine.weight(ctx, c)
	if err != nil {
		return kernels.Operand{}, err
	}
	h.list = append(h.list, w)
	if !slices.ContainsFunc(h.node.In, func(v *ssa.Value) bool { return v != nil && v.Const == c }) {
		h.bytes += w.at.Bytes
	}
	return w.at, nil
}

// Open allocates the counterpart of an arena.
func (e *executor) Open(arena []byte, shared any, budget ndarray.Budget) (_ backend.Memory, err error) {
	defer rescue.Into(&err)
	return newMemory(e.machine, arena, shared, budget)
}

// kernel is a node on the device.
type kernel struct {
	plan    *lower.Plan
	machine *machine
	holds   []any // weights and emitted kernels, which go with the kernel
}

// Choice says that the node is on the device, and what was chosen there.
func (k *kernel) Choice() backend.Choice {
	return backend.Choice{Algorithm: "device", Reason: k.plan.Choice}
}

// Run is for calls without memory on the device: the reference kernel computes them.
func (k *kernel) Run(c *ops.Call) (err error) {
	defer rescue.Into(&err)
	h := *c
	h.In = append([]ndarray.Value{}, c.In...)
	for i, v := range c.Node.In {
		if v != nil && v.Const != nil && h.In[i] == nil {
			a, err := v.Const.ArrayIn(c.Memory)
			if err != nil {
				return err
			}
			h.In[i] = a
		}
	}
	if err := ops.Eval(&h); err != nil {
		return err
	}
	copy(c.Out, h.Out)
	return nil
}
