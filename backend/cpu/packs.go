package cpu

import (
	"sync"
	"weak"

	"github.com/berth-onnx/berth/backend/cpu/kern"
	"github.com/berth-onnx/berth/ssa"
)

// packs remembers packed weights, so that the programs of one model, compiled for
// different input shapes, hold one copy of each. It keeps nothing alive: neither
// the constants nor what was packed from them.
type packs struct {
	mu   sync.Mutex
	made map[packKey]weak.Pointer[kern.Packed]
	next int // entries at which the dead are swept out
}

// packKey is a constant and the way it was laid out.
type packKey struct {
	constant weak.Pointer[ssa.Constant]
	offset   int // first element
	isA      bool
	turned   bool // taps before channels, see rowConv
	trans    bool
	rows, k  int // M or N; K
	ld       int
	level    kern.Level
}

// of returns what was packed before under a key, or packs it.
func (c *packs) of(key packKey, pack func() (*kern.Packed, error)) (*kern.Packed, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if w, ok := c.made[key]; ok {
		if p := w.Value(); p != nil {
			return p, nil
		}
	}
	p, err := pack()
	if err != nil {
		return nil, err
	}
	if c.made == nil {
		c.made = map[packKey]weak.Pointer[kern.Packed]{}
	}
	if len(c.made) >= max(c.next, 64) {
		c.sweep()
	}
	c.made[key] = weak.Make(p)
	return p, nil
}

// sweep forgets what nobody holds any more.
func (c *packs) sweep() {
	for k, w := range c.made {
		if w.Value() == nil {
			delete(c.made, k)
		}
	}
	c.next = 2 * len(c.made)
}

// packA packs constant operand i, from an element on, as the left side of a product.
func (p *prep) packA(g *kern.Gemm, i, offset int) (*kern.Packed, error) {
	s := g.Spec()
	return p.pack(i, packKey{offset: offset, isA: true, trans: s.TransA, rows: s.M, k: s.K, ld: s.LDA}, g.PackA)
}

// packB is packA for the right side.
func (p *prep) packB(g *kern.Gemm, i, offset int) (*kern.Packed, error) {
	s := g.Spec()
	return p.pack(i, packKey{offset: offset, trans: s.TransB, rows: s.N, k: s.K, ld: s.LDB}, g.PackB)
}

func (p *prep) pack(i int, key packKey, pack func([]float32) (*kern.Packed, error)) (*kern.Packed, error) {
	key.constant, key.level = weak.Make(p.in[i].value.Const), kern.Active()
	packed, err := p.packs.of(key, func() (*kern.Packed, error) {
		w, err := p.floats(i)
		if err != nil {
			return nil, err
		}
		return pack(w[key.offset:])
	})
	if err != nil {
		return nil, err
	}
	p.packed += int64(packed.Bytes())
	return packed, nil
}
