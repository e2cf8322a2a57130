package program

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sort"
	"sync"
	"sync/atomic"

	"github.com/berth-onnx/berth/backend"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// Prepared kernels of a program, one for each kind of node: the same operator,
// attributes, types and constants. A kernel knows no node, so all nodes of its kind
// run it; the operands of a call are what tells them apart.
//
//	node ──▶ signature ──┐
//	types of operands ───┴──▶ key ──┬─ prepared: shared
//	                                └─ new: asked of the backend
//
// For nodes of known shapes that happens while compiling. For others the shapes are
// those of a run, and what the backend prepares for them is kept, up to a number of
// bytes: beyond it, what was not used for longest goes. Packed weights are no part of
// that: they do not depend on shapes, and kernels share them.

// kernelBytes is what the kernels for shapes met while running may take, and
// kernelSize about what one takes, beside what it says that it holds.
const (
	kernelBytes = 32 << 20
	kernelSize  = 1 << 10
)

// kernels prepares nodes once for each kind.
type kernels struct {
	backend backend.Backend
	threads int
	memory  ndarray.Budget
	limit   int64

	mu    sync.Mutex
	made  map[string]*prepared
	kinds map[string]uint32 // numbers of the signatures of nodes of unknown shapes
	bytes int64
	clock atomic.Int64 // lookups so far
}

// prepared is a kernel for one kind of node; nil means the reference kernel. It may be
// read once done is closed.
type prepared struct {
	backend.Prepared
	outs  []arrayType // of the results
	done  chan struct{}
	bytes int64
	used  atomic.Int64 // the last lookup
}

// threadsOf is how many of some threads the kernel may use.
func (p *prepared) threadsOf(most int) int {
	if p.Threads > 0 {
		return min(p.Threads, most)
	}
	return most
}

// arrayType is the type of a result whose shape is known.
type arrayType struct {
	dt    ndarray.DType
	shape []int
	bytes int
}

func newKernels(o Options) *kernels {
	return &kernels{backend: o.Backend, threads: max(o.Threads, 1), memory: o.Memory, limit: kernelBytes, made: map[string]*prepared{}, kinds: map[string]uint32{}}
}

// get returns the entry of a key, prepared by f if it is new. Calls for an entry that is
// being prepared wait for it, or until their context ends. Where f fails, no entry is kept.
func (k *kernels) get(ctx context.Context, key string, f func(p *prepared) error) (*prepared, error) {
	for {
		p, mine := k.claim(key)
		if mine {
			return p, k.fill(key, p, f)
		}
		select {
		case <-p.done:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		if p.bytes > 0 {
			return p, nil
		}
	}
}

// claim returns the entry of a key; mine says that it is new, and the caller's to fill.
func (k *kernels) claim(key string) (p *prepared, mine bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	p = k.made[key]
	if p == nil {
		p, mine = &prepared{done: make(chan struct{})}, true
		k.made[key] = p
	}
	p.used.Store(k.clock.Add(1))
	return p, mine
}

// use says that an entry is used without a lookup.
func (k *kernels) use(p *prepared) {
	if now := k.clock.Load(); p.used.Load() != now {
		p.used.Store(now)
	}
}

func (k *kernels) fill(key string, p *prepared, f func(p *prepared) error) error {
	err := fmt.Errorf("preparing a kernel ended early")
	defer func() {
		k.mu.Lock()
		defer k.mu.Unlock()
		if err != nil {
			delete(k.made, key)
		} else {
			p.bytes = kernelSize + int64(len(key)) + p.Held + p.Tables
			k.bytes += p.bytes
			k.trim()
		}
		close(p.done)
	}()
	err = f(p)
	return err
}

// trim drops what was not used for longest, a quarter of the limit at a time.
func (k *kernels) trim() {
	if k.bytes <= k.limit {
		return
	}
	type entry struct {
		used int64 // when it was asked for: changes as programs run
		key  string
	}
	order := make([]entry, 0, len(k.made))
	for key, p := range k.made {
		order = append(order, entry{p.used.Load(), key})
	}
	sort.Slice(order, func(i, j int) bool { return order[i].used < order[j].used })
	for _, e := range order[:len(order)-1] { // all but the last to be asked for
		if k.bytes <= k.limit*3/4 {
			return
		}
		k.bytes -= k.made[e.key].bytes
		delete(k.made, e.key)
	}
}

// static returns the kernel of a node with static types.
func (k *kernels) static(ctx context.Context, n *ssa.Node) (*prepared, error) {
	key, ok := signature(n, k.memory)
	if !ok {
		key = fmt.Appendf(nil, "%p", n)
	}
	for _, v := range slices.Concat(n.In, n.Out) {
		key = append(key, 0xff)
		if v != nil {
			shape, _ := v.Type.Static()
			key = appendType(key, v.Type.DType, shape)
			key = fmt.Append(key, v.Content)
		}
	}
	return k.get(ctx, string(key), func(p *prepared) error {
		// A node that the backend refuses may be in a branch that never runs. If it
		// runs, the reference kernel reports the error.
		made, err := k.backend.Prepare(ctx, n, k.threads)
		if err == nil {
			p.Prepared = made
		}
		return ended(ctx, err)
	})
}

// ended is the error that ends compiling or a run when a backend refuses a node: that of the
// context, or of memory that its kernel does not get.
func ended(ctx context.Context, err error) error {
	if full := (*ops.MemoryError)(nil); errors.As(err, &full) {
		return err
	}
	return ctx.Err()
}

// kind numbers the signature of a node; nodes that share no kernel have numbers of their
// own.
func (k *kernels) kind(n *ssa.Node) uint32 {
	key, ok := signature(n, k.memory)
	if !ok {
		key = fmt.Appendf(nil, "%p", n)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if _, known := k.kinds[string(key)]; !known {
		k.kinds[string(key)] = uint32(len(k.kinds))
	}
	return k.kinds[string(key)]
}

// forget drops all entries: programs hold the kernels they need.
func (k *kernels) forget() {
	k.mu.Lock()
	defer k.mu.Unlock()
	clear(k.made)
	k.bytes = 0
}

// signature encodes operator, attributes, layouts and constants of a node, all that a kernel is
// prepared from besides the shapes of its operands; ok is false for nodes that share no kernel.
func signature(n *ssa.Node, memory ndarray.Budget) (key []byte, ok bool) {
	if n.Opaque || len(n.Bodies) > 0 {
		return nil, false
	}
	key = fmt.Appendf(nil, "%q%q%q", n.Domain, n.Op, n.Overload)
	for i := range n.Attrs {
		if key, ok = appendAttr(key, &n.Attrs[i], memory); !ok {
			return nil, false
		}
	}
	for i, v := range slices.Concat(n.In, n.Out) {
		if v != nil && v.Type.IsBlocked() {
			key = fmt.Appendf(key, "|%d", v.Type.Channels)
		}
		switch {
		case v == nil:
			key = append(key, '-')
		case i < len(n.In) && v.Const != nil:
			if key, ok = appendConst(key, v.Const, memory); !ok {
				return nil, false
			}
		default:
			key = append(key, '+')
		}
	}
	return key, true
}

func appendAttr(key []byte, a *ssa.Attr, memory ndarray.Budget) ([]byte, bool) {
	if a.Kind == ssa.AttrOther {
		return nil, false
	}
	key = fmt.Appendf(key, "%q%d:%d %b %q %v %b %q %v", a.Name, a.Kind, a.I, a.F, a.S, a.Ints, a.Floats, a.Strings, a.Type)
	ok := true
	for _, c := range append(a.Tensors, a.Tensor) {
		if c != nil && ok {
			key, ok = appendConst(key, c, memory)
		}
	}
	return key, ok
}

func appendConst(key []byte, c *ssa.Constant, memory ndarray.Budget) ([]byte, bool) {
	id, err := c.Identity(memory)
	return fmt.Appendf(appendType(key, c.DType(), c.Shape()), "%v", id), err == nil
}

// appendType encodes an element type and a shape.
func appendType(key []byte, dt ndarray.DType, shape []int) []byte {
	key = append(key, byte(dt), byte(len(shape)))
	for _, d := range shape {
		key = binary.AppendUvarint(key, uint64(d))
	}
	return key
}
