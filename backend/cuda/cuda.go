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
	"cmp"
	"context"
	"errors"
	"iter"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/berth-onnx/berth/backend"
	"github.com/berth-onnx/berth/backend/cuda/internal/device"
	"github.com/berth-onnx/berth/backend/cuda/internal/driver"
	"github.com/berth-onnx/berth/backend/cuda/internal/kernels"
	"github.com/berth-onnx/berth/backend/cuda/internal/lower"
	"github.com/berth-onnx/berth/backend/cuda/internal/sim"
	"github.com/berth-onnx/berth/internal/digest"
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
	attached  = &gpus{library: driver.Library}
)

// gpus are those of a driver.
type gpus struct {
	library string
	slots   sync.Map // by number: *slot
}

// find is the machine of the GPU of a number. Nothing is kept for what is not there.
func (g *gpus) find(index int) (*machine, error) {
	if _, known := g.slots.Load(index); !known {
		if err := driver.Find(g.library, index); err != nil {
			return nil, err
		}
	}
	return g.at(index), nil
}

// at is the machine of a number, whose GPU is opened when it is first used.
func (g *gpus) at(index int) *machine {
	s, _ := g.slots.LoadOrStore(index, &slot{open: func() (device.Device, error) { return driver.Open(g.library, index) }})
	return s.(*slot).machine()
}

// newOnFirst is a backend on the first GPU, unless it is told another number.
func (g *gpus) newOnFirst(fast backend.Backend) backend.Backend {
	e := newOn(Name, g.at(0), fast)
	e.others = g.find
	return e
}

func init() {
	backend.Register(Name, attached.newOnFirst)
	backend.Register(SimName, func(fast backend.Backend) backend.Backend { return newOn(SimName, simulated, fast) })
}

// executor prepares the nodes of one program.
type executor struct {
	name    string
	machine *machine
	others  func(index int) (*machine, error) // by number; nil if there is one device
	fast    backend.Backend
	limit   int64 // of device memory that the process takes; 0: none

	lock   sync.Mutex
	failed error // what kept a node from being prepared for the device, for Ready
	needs  needs

	isLoaded atomic.Bool // constants are uploaded when their nodes are prepared
}

// needs are the constants of a program before it is known whether it fits: those of nodes that are prepared before Load.
type needs struct {
	weights map[digest.Sum]need
	bytes   int64
	full    *MemoryError // why memory for one of them is not to be had
}

// need is a constant, and where it will be; nil if there is no room.
type need struct {
	constant *ssa.Constant
	weight   *weight
}

// taken are the constants that there is room for.
func (n *needs) taken() iter.Seq2[digest.Sum, *weight] {
	return func(yield func(digest.Sum, *weight) bool) {
		for key, need := range n.weights {
			if need.weight != nil && !yield(key, need.weight) {
				return
			}
		}
	}
}

func newOn(name string, m *machine, fast backend.Backend) *executor {
	if fast == nil {
		fast = backend.Reference{}
	}
	return &executor{name: name, machine: m, fast: fast}
}

// Name is the name that the backend is registered by.
func (e *executor) Name() string { return e.name }

// Use sets the number of the device, and how many bytes the process may take on it.
func (e *executor) Use(index int, limit int64) (err error) {
	defer rescue.Into(&err)
	e.limit = limit
	switch {
	case index == 0:
		return nil
	case e.others == nil:
		return &NoDeviceError{Index: index, Devices: []string{e.name}}
	}
	m, err := e.others(index)
	if err == nil {
		e.machine = m
	}
	return err
}

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
	h := &holder{executor: e, machine: e.machine, node: n}
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
	k := &kernel{plan: plan, machine: e.machine, holds: h.list, bytes: h.bytes}
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
	executor *executor
	machine  *machine
	node     *ssa.Node
	list     []any // weights and emitted kernels
	bytes    int64 // of what was made for the node: tables and modules, but no operand of it
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

// Weight takes memory for a constant.
func (h *holder) Weight(ctx context.Context, c *ssa.Constant) (kernels.Operand, error) {
	a, err := c.ArrayContext(ctx, ndarray.BudgetOf(ctx))
	if err != nil {
		return kernels.Operand{}, err
	}
	id, err := digest.Of(ctx, a.Data)
	if err != nil {
		return kernels.Operand{}, err
	}
	w, err := h.executor.weight(ctx, c, id, int64(len(a.Data)))
	if err != nil {
		return kernels.Operand{}, err
	}
	h.list = append(h.list, w)
	if !slices.ContainsFunc(h.node.In, func(v *ssa.Value) bool { return v != nil && v.Const == c }) {
		h.bytes += w.at.Bytes
	}
	return w.at, nil
}

// weight is where a constant is or will be. Where there is no room for it, Load will say so: what else the program needs is not known yet.
func (e *executor) weight(ctx context.Context, c *ssa.Constant, key digest.Sum, bytes int64) (*weight, error) {
	if e.isLoaded.Load() {
		w, err := e.machine.weight(ctx, key, bytes, e.limit)
		if err != nil {
			return nil, err
		}
		return w, e.machine.load(ctx, w, c)
	}
	e.lock.Lock()
	defer e.lock.Unlock()
	if known, ok := e.needs.weights[key]; ok {
		return cmp.Or(known.weight, lacking(bytes)), nil
	}
	var w *weight
	if e.needs.full == nil {
		var err error
		if w, err = e.machine.weight(ctx, key, bytes, e.limit); err != nil && !errors.As(err, &e.needs.full) {
			return nil, err
		}
	}
	if e.needs.weights == nil {
		e.needs.weights = map[digest.Sum]need{}
	}
	e.needs.weights[key] = need{c, w}
	e.needs.bytes += bytes
	return cmp.Or(w, lacking(bytes)), nil
}

// lacking stands for a weight that there is no room for; no program runs with it.
func lacking(bytes int64) *weight { return &weight{at: kernels.Operand{Base: 1, Bytes: bytes}} }

// Load uploads the constants of a program whose sessions have an arena of some bytes, if both fit.
func (e *executor) Load(ctx context.Context, arena, workspace int64) (err error) {
	defer rescue.Into(&err)
	e.lock.Lock()
	defer e.lock.Unlock()
	if err := e.fits(arena, workspace); err != nil {
		for key, w := range e.needs.taken() {
			e.machine.refuse(key, w)
		}
		e.needs = needs{}
		return err
	}
	for _, n := range e.needs.weights {
		if err := e.machine.load(ctx, n.weight, n.constant); err != nil {
			return err
		}
	}
	e.needs = needs{}
	e.isLoaded.Store(true)
	return nil
}

// fits is the error of a program that can never have a session, or whose weights have no room beside what else is there.
func (e *executor) fits(arena, workspace int64) error {
	full := MemoryError{What: "a program", Want: e.needs.bytes + arena, Weights: e.needs.bytes, Arena: arena, Workspace: workspace}
	others := e.machine.used.Load()
	for _, w := range e.needs.taken() {
		others -= w.at.Bytes
	}
	err := e.machine.use(func(d device.Device) (err error) {
		full.Free, full.Total, err = d.Memory()
		return err
	})
	if err != nil {
		return err
	}
	if have := e.needs.full; have != nil {
		if have.Limit > 0 {
			full.Limit, full.Used = have.Limit, max(others, 0)
		}
		return &full
	}
	if e.limit > 0 && full.Want > e.limit {
		full.Limit, full.Used = e.limit, max(others, 0)
		return &full
	}
	if full.Want > full.Total {
		return &full
	}
	return nil
}

// Open allocates the counterpart of an arena.
func (e *executor) Open(ctx context.Context, arena []byte, shared any, budget ndarray.Budget) (_ backend.Memory, err error) {
	defer rescue.Into(&err)
	return newMemory(ctx, e.machine, arena, shared, budget, e.limit)
}

// kernel is a node on the device.
type kernel struct {
	plan    *lower.Plan
	machine *machine
	holds   []any // weights and emitted kernels, which go with the kernel
	bytes   int64 // of tables and modules
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
			a, err := v.Const.ArrayContext(c.Ctx, c.Memory)
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
