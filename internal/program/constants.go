package program

import (
	"context"
	"fmt"
	"sync"
	"weak"

	"github.com/berth-onnx/berth/internal/sysmem"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ssa"
)

// Constants makes equal constants of several programs one. Each program rewrites a copy of the
// model's graph, so what is folded (a batch normalization into the weights before it) is
// computed anew, with equal elements:
//
//	program 1:  W ─fold─▶ W'  ◀── weak ── elements, type, shape
//	program 2:  W ─fold─▶ W'' ──same key──▶ W' takes its place
//
// The table holds weak pointers: a constant lives as long as a program reads it. Constants in
// mapped files and those of one repeated element take no memory of their own, and are left alone, as
// are small ones. Small ones in mapped files that runs read are copied, once for all programs (inMemory).
//
// Constants are safe for concurrent use.
type Constants struct {
	mu   sync.Mutex
	made map[string]weak.Pointer[ssa.Constant]
	next int // number of entries at which collected ones are removed
}

// NewConstants returns an empty table.
func NewConstants() *Constants { return &Constants{made: map[string]weak.Pointer[ssa.Constant]{}} }

// Bytes is the memory of the constants that programs hold.
func (k *Constants) Bytes() (n int64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, p := range k.made {
		if c := p.Value(); c != nil {
			n += c.StoredBytes()
		}
	}
	return n
}

// lookEvery is how many constants, slots or instructions a loop passes between two looks at the context.
const lookEvery = 1024

// smallConstant is the size in bytes up to which constants are not worth an entry.
const smallConstant = 1 << 10

// share replaces the constants of a graph and its bodies by equal ones in the table, and drops
// the elements of those that nothing reads. It does nothing more once the context has ended.
func (k *Constants) share(ctx context.Context, g *ssa.Graph, memory ndarray.Budget) {
	g.Walk(func(b *ssa.Graph) {
		for i, v := range b.Values() {
			if i%lookEvery == 0 && ctx.Err() != nil {
				return
			}
			switch {
			case v == nil || v.Const == nil:
			case len(v.Uses()) == 0 && !b.IsResult(v):
				v.Const = v.Const.Taken()
			default:
				v.Const = k.one(ctx, v.Const, memory)
			}
		}
	})
}

// one returns the constant of the table that equals c, which is c if there was none.
func (k *Constants) one(ctx context.Context, c *ssa.Constant, memory ndarray.Budget) *ssa.Constant {
	if _, splat := c.Splat(); splat || c.StoredBytes() <= smallConstant || c.DType() == ndarray.String || sysmem.IsMapped(c.Packed()) {
		return c
	}
	key, ok := keyOf(ctx, c, memory)
	if !ok {
		return c // whoever reads it reports that
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.first(key, c)
}

// keyOf is the same for equal constants; those in a mapped file are known by their addresses.
func keyOf(ctx context.Context, c *ssa.Constant, memory ndarray.Budget) (key string, ok bool) {
	id, err := c.IdentityContext(ctx, memory)
	return string(fmt.Appendf(appendType(nil, c.DType(), c.Shape()), "%v", id)), err == nil
}

// first returns the constant of a key, which is c if there was none.
func (k *Constants) first(key string, c *ssa.Constant) *ssa.Constant {
	if old := k.made[key].Value(); old != nil {
		return old
	}
	if len(k.made) >= max(k.next, 64) {
		k.sweep()
	}
	k.made[key] = weak.Make(c)
	return c
}

// copiedConstant is the size in bytes up to which a constant that runs read is copied out of a mapped file: for one element the system
// maps 64 KB around it, so that the biases of a network kept a quarter of its file resident.
const copiedConstant = 4 << 10

// inMemory replaces small constants in mapped files by copies in ordinary memory, which it shares with other programs. Where the budget
// has no room for those that are new, they stay where they are.
func (k *Constants) inMemory(ctx context.Context, constants []*ssa.Constant) {
	k.mu.Lock()
	defer k.mu.Unlock()
	memory := ndarray.BudgetOf(ctx)
	var missing []int
	keys, bytes := make([]string, len(constants)), int64(0)
	for i, c := range constants {
		if i%lookEvery == 0 && ctx.Err() != nil {
			return
		}
		if c == nil || c.StoredBytes() > copiedConstant || !sysmem.IsMapped(c.Packed()) {
			continue
		}
		var ok bool
		if keys[i], ok = keyOf(ctx, c, memory); !ok {
			continue
		}
		if old := k.made[keys[i]].Value(); old != nil {
			constants[i] = old
			continue
		}
		missing, bytes = append(missing, i), bytes+c.StoredBytes()
	}
	if len(missing) == 0 || memory.AskContext(ctx, "copies of small constants", bytes) != nil {
		return
	}
	for n, i := range missing {
		if n%lookEvery == 0 && ctx.Err() != nil {
			return
		}
		if a, err := constants[i].ArrayContext(ctx, memory); err == nil { // who reads it is told of errors
			constants[i] = k.first(keys[i], ssa.NewConstant(a.Clone()))
		}
	}
}

// sweep removes entries whose constants no program holds.
func (k *Constants) sweep() {
	for key, p := range k.made {
		if p.Value() == nil {
			delete(k.made, key)
		}
	}
	k.next = 2 * len(k.made)
}
