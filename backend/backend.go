// Package backend is the interface between a compiled program and the kernels that
// compute its nodes. A backend prepares a node once, with types, constants and thread
// count known, and the kernel it returns then runs many times without
// allocating.
package backend

import (
	"context"
	"maps"
	"slices"
	"sync"

	"github.com/berth-onnx/berth/internal/rescue"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// Prepared is a kernel ready to run and the workspace it needs.
type Prepared struct {
	Kernel  ops.Kernel // nil: the backend does not claim the node
	Scratch int64      // bytes of workspace, given to each run as Call.Scratch, 64-byte aligned
	Held    int64      // bytes of constants that this kernel alone holds in a layout of its own
	Tables  int64      // bytes of what the kernel holds beside constants: indices, taps, offsets
	Packs   []Pack     // constants in a layout of the backend, which kernels share
	// Threads is how many threads a run may use, where that is fewer than the kernel was
	// prepared for: a node may be too small for more. 0: as many as it was prepared for.
	Threads int
	// Absorbed lists the constant operands the kernel has packed and will not
	// read from Call.In; they may be absent there, their memory never filled.
	Absorbed []int
}

// Choice is what a kernel says about how it computes its node.
type Choice struct {
	Algorithm string // what it does, in a few words
	Reason    string // why it does that, where it could do something else; or how much it does at a time
}

// String is algorithm and reason.
func (c Choice) String() string {
	if c.Reason == "" {
		return c.Algorithm
	}
	return c.Algorithm + ": " + c.Reason
}

// Chooser is a kernel that says what it chose. Whoever shows it asks; a run does not.
type Chooser interface{ Choice() Choice }

// ChoiceOf is what a kernel says, the zero Choice if it says nothing.
func ChoiceOf(k ops.Kernel) Choice {
	if c, ok := k.(Chooser); ok {
		return c.Choice()
	}
	if _, ok := k.(ops.KernelFunc); ok {
		return Choice{Algorithm: "reference", Reason: "no fast kernel takes the node"}
	}
	return Choice{}
}

// Pack is a constant in a layout of the backend.
type Pack struct {
	ID     any // the same for kernels that share it
	Layout string
	Bytes  int64
}

// Backend turns nodes into kernels.
type Backend interface {
	// Name is the name users choose it by.
	Name() string
	// Prepare makes the kernel of a node whose operand and result types are
	// static; constants are at n.In[i].Const. A zero Prepared means that the
	// reference kernel serves this node. Kernels are safe for concurrent use with
	// different Calls, use at most Call.Threads threads, and give the same bytes
	// for any thread count. A context that ends ends the packing of weights. Unless the backend
	// is [Remote], several goroutines call Prepare at once while a program is compiled.
	Prepare(ctx context.Context, n *ssa.Node, threads int) (Prepared, error)
}

// Remote is a backend whose kernels compute in the memory of a device.
type Remote interface {
	Backend
	// Use comes before all else: it says on which device, by its number, and how many bytes of it the process may take, 0 for no limit.
	Use(device int, limit int64) error
	// Ready says why kernels could not be prepared, for want of a device or of its memory; nil if nothing is wrong.
	Ready(ctx context.Context) error
	// Load puts the constants of a program on the device whose kernels have been prepared, or says that they do not fit with an arena of
	// so many bytes, of which workspace is a part. Constants of kernels that are prepared later go there at once.
	Load(ctx context.Context, arena, workspace int64) error
	// Open takes memory of the device for a session: a counterpart of its arena, with the same offsets. Sessions whose arena is that of
	// others take turns in one; shared is the same for all of them, and nil for a session with an arena of its own. Memory of the host that
	// the session's copies need is asked of the budget.
	Open(ctx context.Context, arena []byte, shared any, budget ndarray.Budget) (Memory, error)
}

// Final is an error of [Backend.Prepare] that ends compiling or the run. With others the reference kernel computes the node.
type Final interface {
	error
	IsFinal() bool
}

// Lost is an error after which a program is of no use any more: a program that is compiled later opens the device again.
type Lost interface {
	error
	IsLost() bool
}

// Full is an error of memory of a device that others use and may give back.
type Full interface {
	error
	IsFull() bool
}

type briefKey struct{}

// Brief is a context of a call that has none: what it asks of a device is waited for, but memory that others have yet to give back
// for a second at most.
func Brief() context.Context { return context.WithValue(context.Background(), briefKey{}, true) }

// IsBrief reports a context that Brief made.
func IsBrief(ctx context.Context) bool { return ctx != nil && ctx.Value(briefKey{}) != nil }

// Memory is a session's memory on a device. It knows for every byte of the arena which side has its value, and copies what is read on
// the other side. All addresses are those of the host; bytes outside the arena have no counterpart unless they are inputs. It serves
// one run at a time. Values are by slot, and a slot of -1 is none.
type Memory interface {
	// Begin starts a run: what the arena held is forgotten. Inputs stay as they are until the run ends.
	Begin(ctx context.Context, arena []byte, values []ndarray.Value, inputs []int) error
	// Run runs a kernel, on the device if it is one of the backend's.
	Run(k ops.Kernel, c *ops.Call) error
	// Read makes values readable on the host, and returns when they are.
	Read(values []ndarray.Value, slots []int) error
	// ReadBytes is Read for bytes.
	ReadBytes(data []byte) error
	// Wrote says that the host has written values.
	Wrote(values []ndarray.Value, slots []int)
	// Copy copies bytes, on the side where they are.
	Copy(to, from []byte) error
	// Has reports that memory outside the arena stands for memory of the caller's on the device, to which Copy copies there.
	Has(data []byte) bool
	// Leave ends a run that has failed: nothing of the caller's is kept.
	Leave()
	// End ends a run that has succeeded: it returns when all that was asked for is done.
	End() error
}

// Join is a kernel that copies its operands to places in its result, but for those that lie there.
type Join interface{ Places() []int64 }

// Reference is the backend that claims nothing: every node runs its reference
// kernel. It is the oracle for the others.
type Reference struct{}

// Name returns "reference".
func (Reference) Name() string { return "reference" }

// Prepare claims nothing.
func (Reference) Prepare(context.Context, *ssa.Node, int) (_ Prepared, err error) {
	defer rescue.Into(&err)
	return Prepared{}, nil
}

var (
	registryLock sync.Mutex
	registry     = map[string]func(fast Backend) Backend{}
)

// Register makes a backend known by its name, usually when its package is initialized. It is made anew for each program,
// from the backend of fast kernels that the program's options ask for, which it may ask for what it does not claim.
func Register(name string, newBackend func(fast Backend) Backend) {
	registryLock.Lock()
	defer registryLock.Unlock()
	registry[name] = newBackend
}

// Registered makes a registered backend; nil if there is none of that name.
func Registered(name string, fast Backend) Backend {
	registryLock.Lock()
	defer registryLock.Unlock()
	if newBackend := registry[name]; newBackend != nil {
		return newBackend(fast)
	}
	return nil
}

// Names lists the registered backends.
func Names() []string {
	registryLock.Lock()
	defer registryLock.Unlock()
	return slices.Sorted(maps.Keys(registry))
}
