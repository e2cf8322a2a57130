package program

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
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
	kernelShare = 16 // and no more than this part of the budget
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
// read once bytes is set.
type prepared struct {
	backend.Prepared
	outs  []arrayType   // of the results
	done  chan struct{} // what calls wait for that find it being prepared; nil until the first does
	bytes int64         // 0 while it is being prepared
	used  atomic.Int64  // the last lookup
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
	return &kernels{backend: o.Backend, threads: max(o.Threads, 1), memory: o.Memory, limit: math.MaxInt64, made: map[string]*prepared{}, kinds: map[string]uint32{}}
}

// get returns the entry of a key, prepared by f if it is new. Calls for an entry that is
// being prepared wait for it, or until their context ends. Where f fails, no entry is kept.
func (k *kernels) get(ctx context.Context, key string, f func(p *prepared) error) (*prepared, error) {
	for {
		p, mine, done := k.claim(key)
		switch {
		case mine:
			return p, k.fill(key, p, f)
		case done == nil:
			return p, nil
		}
		select {
		case <-done:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		if p.bytes > 0 {
			return p, nil
		}
	}
}

// claim returns the entry of a key; mine says that it is new, and the caller's to fill. Of an entry that is being prepared, done
// is closed when that ends.
func (k *kernels) claim(key string) (p *prepared, mine bool, done chan struct{}) {
	k.mu.Lock()
	defer k.mu.Unlock()
	p = k.made[key]
	if p == nil {
		p, mine = new(prepared), true
		k.made[key] = p
	} else if p.bytes == 0 && p.done == nil {
		p.done = make(chan struct{})
	}
	p.used.Store(k.clock.Add(1))
	if p.bytes == 0 {
		done = p.done
	}
	return p, mine, done
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
		kept := k.made[key] == p // not forgotten meanwhile
		if err != nil {
			if kept {
				delete(k.made, key)
			}
		} else {
			p.bytes = kernelSize + int64(len(key)) + p.Held + p.Tables
			for _, out := range p.outs { // an array may have any number of dimensions
				p.bytes += int64(len(out.shape)) * 8
			}
			if kept {
				k.bytes += p.bytes
				k.trim()
			}
		}
		if p.done != nil {
			close(p.done)
		}
	}()
	err = f(p)
	return err
}

// trim drops what was not used for longest, a quarter of the limit at a time. What is being prepared stays: it counts once it is kept.
func (k *kernels) trim() {
	if k.bytes <= k.limit {
		return
	}
	type entry struct {
		used, bytes int64 // used: when it was asked for, which changes as programs run
		key         string
	}
	order := make([]*entry, 0, len(k.made))
	for key, p := range k.made {
		if p.bytes > 0 {
			order = append(order, &entry{p.used.Load(), p.bytes, key})
		}
	}
	slices.SortFunc(order, func(a, b *entry) int { return cmp.Compare(a.used, b.used) })
	for _, e := range order[:len(order)-1] { // all but the last to be asked for
		if k.bytes <= k.limit*3/4 {
			return
		}
		k.bytes -= e.bytes
		delete(k.made, e.key)
	}
}

// static returns the kernel of a node with static types.
func (k *kernels) static(ctx context.Context, n *ssa.Node) (*prepared, error) {
	var room [512]byte // of most keys
	key, ok := signature(ctx, room[:0], n, k.memory)
	if !ok {
		key = fmt.Appendf(nil, "%p", n)
	}
	for _, values := range [...][]*ssa.Value{n.In, n.Out} {
		for i, v := range values {
			if i%256 == 255 && ctx.Err() != nil {
				return nil, ctx.Err()
			}
			key = append(key, 0xff)
			if v != nil {
				key = appendDims(key, v.Type)
				key = binary.AppendUvarint(key, uint64(len(v.Content)))
				for _, d := range v.Content {
					key = appendTexts(key, d.String())
				}
			}
		}
	}
	return k.get(ctx, string(key), func(p *prepared) error {
		// A node that the backend refuses may be in a branch that never runs. If it
		// runs, the reference kernel reports the error.
		made, err := prepare(ctx, k.backend, n, k.threads)
		if err == nil {
			p.Prepared = made
		}
		return ended(ctx, err)
	})
}

// ended is the error that ends compiling or a run when a backend refuses a node: that of the
// context, of memory that its kernel does not get, or one that is final.
func ended(ctx context.Context, err error) error {
	if err == nil {
		return ctx.Err()
	}
	if full := (*ops.MemoryError)(nil); errors.As(err, &full) {
		return err
	}
	if final := backend.Final(nil); errors.As(err, &final) && final.IsFinal() && ctx.Err() == nil {
		return err
	}
	return ctx.Err()
}

// kind numbers the signature of a node; nodes that share no kernel have numbers of their
// own.
func (k *kernels) kind(ctx context.Context, n *ssa.Node) uint32 {
	key, ok := signature(ctx, nil, n, k.memory)
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

// forget drops all entries: programs hold the kernels they need. From then on kernels are kept up to a limit.
func (k *kernels) forget() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.made = map[string]*prepared{}
	k.bytes, k.limit = 0, min(kernelBytes, k.memory.Bytes()/kernelShare)
}

// PackedBytes is what kernels made of constants, those that they share once: the kernels of nodes with known shapes,
// and those that are kept for shapes met while running.
func (p *Program) PackedBytes() int64 {
	k := p.kernels
	if k == nil {
		return p.Report.PackedBytes
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	n, seen := p.Report.PackedBytes, map[any]bool{}
	for _, e := range k.made {
		if e.bytes == 0 {
			continue // being prepared
		}
		n += e.Held
		for _, pack := range e.Packs {
			if !p.packs[pack.ID] && !seen[pack.ID] {
				seen[pack.ID] = true
				n += pack.Bytes
			}
		}
	}
	return n
}

// signature encodes operator, attributes, layouts and constants of a node, all that a kernel is
// prepared from besides the shapes of its operands, behind key; ok is false for nodes that share no kernel.
func signature(ctx context.Context, key []byte, n *ssa.Node, memory ndarray.Budget) (_ []byte, ok bool) {
	if n.Opaque || len(n.Bodies) > 0 {
		return nil, false
	}
	key = appendTexts(key, n.Domain, n.Op, n.Overload)
	for i := range n.Attrs {
		if key, ok = appendAttr(ctx, key, &n.Attrs[i], memory); !ok {
			return nil, false
		}
	}
	if key, ok = appendOperands(ctx, key, n.In, true, memory); !ok {
		return nil, false
	}
	return appendOperands(ctx, key, n.Out, false, memory)
}

// appendOperands encodes layouts and constants of operands or results.
func appendOperands(ctx context.Context, key []byte, values []*ssa.Value, operands bool, memory ndarray.Budget) (_ []byte, ok bool) {
	for _, v := range values {
		if v != nil && v.Type.IsBlocked() {
			key = binary.AppendVarint(append(key, '|'), int64(v.Type.Channels))
		}
		switch {
		case v == nil:
			key = append(key, '-')
		case operands && v.Const != nil:
			if key, ok = appendConst(ctx, append(key, 'c'), v.Const, memory); !ok {
				return nil, false
			}
		default:
			key = append(key, '+')
		}
	}
	return key, true
}

func appendAttr(ctx context.Context, key []byte, a *ssa.Attr, memory ndarray.Budget) ([]byte, bool) {
	if a.Kind == ssa.AttrOther {
		return nil, false
	}
	key = append(appendTexts(key, a.Name, a.S), byte(a.Kind))
	key = binary.LittleEndian.AppendUint64(binary.AppendVarint(key, a.I), math.Float64bits(float64(a.F)))
	key = binary.AppendUvarint(key, uint64(len(a.Ints)))
	for _, i := range a.Ints {
		key = binary.AppendVarint(key, i)
	}
	key = binary.AppendUvarint(key, uint64(len(a.Floats)))
	for _, f := range a.Floats {
		key = binary.LittleEndian.AppendUint64(key, math.Float64bits(float64(f)))
	}
	key = appendTexts(binary.AppendUvarint(key, uint64(len(a.Strings))), a.Strings...)
	if a.Kind == ssa.AttrType {
		key = appendTexts(key, a.Type.String())
	}
	ok := true
	key = binary.AppendUvarint(key, uint64(len(a.Tensors)))
	for _, c := range a.Tensors {
		if c != nil && ok {
			key, ok = appendConst(ctx, key, c, memory)
		}
	}
	if a.Tensor != nil && ok {
		key, ok = appendConst(ctx, key, a.Tensor, memory)
	}
	return key, ok
}

// appendTexts encodes texts and where each of them ends.
func appendTexts(key []byte, texts ...string) []byte {
	for _, s := range texts {
		key = append(binary.AppendUvarint(key, uint64(len(s))), s...)
	}
	return key
}

func appendConst(ctx context.Context, key []byte, c *ssa.Constant, memory ndarray.Budget) ([]byte, bool) {
	id, err := c.IdentityContext(ctx, memory)
	return id.Append(appendType(key, c.DType(), c.Shape())), err == nil
}

// appendDims is appendType for a static type.
func appendDims(key []byte, t ssa.Type) []byte {
	key = binary.AppendUvarint(append(key, byte(t.DType)), uint64(len(t.Shape)))
	for _, d := range t.Shape {
		n, _ := d.Const()
		key = binary.AppendUvarint(key, uint64(n))
	}
	return key
}

// appendType encodes an element type and a shape.
func appendType(key []byte, dt ndarray.DType, shape []int) []byte {
	key = binary.AppendUvarint(append(key, byte(dt)), uint64(len(shape)))
	for _, d := range shape {
		key = binary.AppendUvarint(key, uint64(d))
	}
	return key
}
