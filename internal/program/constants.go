package program

import (
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
// are small ones.
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

// smallConstant is the size in bytes up to which constants are not worth an entry.
const smallConstant = 1 << 10

// share replaces the constants of a graph and its bodies by equal ones in the table, and drops
// the elements of those that nothing reads.
func (k *Constants) share(g *ssa.Graph, memory ndarray.Budget) {
	g.Walk(func(b *ssa.Graph) {
		for _, v := range b.Values() {
			switch {
			case v == nil || v.Const == nil:
			case len(v.Uses()) == 0 && !b.IsResult(v):
				v.Const = v.Const.Taken()
			default:
				v.Const = k.one(v.Const, memory)
			}
		}
	})
}

// one returns the constant of the table that equals c, which is c if there was none.
func (k *Constants) one(c *ssa.Constant, memory ndarray.Budget) *ssa.Constant {
	if _, splat := c.Splat(); splat || c.StoredBytes() <= smallConstant || c.DType() == ndarray.String || sysmem.IsMapped(c.Packed()) {
		return c
	}
	id, err := c.Identity(memory)
	if err != nil {
		return c // whoever reads it reports that
	}
	key := string(fmt.Appendf(appendType(nil, c.DType(), c.Shape()), "%v", id))
	k.mu.Lock()
	defer k.mu.Unlock()
	if old := k.made[key].Value(); old != nil {
		return old
	}
	if len(k.made) >= max(k.next, 64) {
		k.sweep()
	}
	k.made[key] = weak.Make(c)
	return c
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
