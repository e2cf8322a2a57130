package cpu

import (
	"context"
	"sync"
	"weak"

	"github.com/berth-onnx/berth/backend"
	"github.com/berth-onnx/berth/backend/cpu/kern"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ssa"
)

// Weights holds the constants of a model as kernels read them: one copy for each
// layout, whatever the number of programs, input shapes and threads.
//
//	constant ─┐
//	layout ───┼─▶ key ──┬─ packed: shared
//	arrangement ┘       ├─ being packed: waited for
//	                    └─ new: packed from where the constant lies, by the pool
//
// An entry lives as long as a kernel holds what was packed; the table itself keeps
// nothing alive, neither constants nor packed ones. The pages of a mapped file are
// given back as soon as they are packed.
//
// Weights are safe for concurrent use.
type Weights struct {
	mu   sync.Mutex
	made map[weightKey]*weight
	next int // entries at which the dead are swept out
}

// NewWeights returns an empty store.
func NewWeights() *Weights { return &Weights{made: map[weightKey]*weight{}} }

// weightKey is a constant, the way its elements are taken, and the layout they get.
type weightKey struct {
	constant ssa.Identity
	taken    arrangement
	layout   kern.Layout
}

// arrangement is how a layout's rows and columns are found in a constant.
type arrangement struct {
	offset int // first element
	trans  bool
	ld     int
	turned bool // taps before channels, see rowConv
	// What is left of a kernel's taps, see window.cropped: from the first on, so many of
	// all.
	first, cropped, full [3]int

	zeros  ssa.Identity // of the zero points that were subtracted
	signed bool
}

// weight is an entry. While it is being packed, done is open.
type weight struct {
	done   chan struct{}
	packed weak.Pointer[kern.Packed]
}

// of returns what was packed before under a key, or packs it. A call that finds the
// key being packed waits, until its context ends.
func (w *Weights) of(ctx context.Context, key weightKey, pack func() (*kern.Packed, error)) (*kern.Packed, error) {
	for {
		p, e := w.claim(key)
		switch {
		case p != nil:
			return p, nil
		case e == nil:
			return w.fill(key, pack)
		}
		select {
		case <-e.done:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// claim returns what is packed, or the entry that is being packed; neither where the
// caller is to pack it.
func (w *Weights) claim(key weightKey) (*kern.Packed, *weight) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if e := w.made[key]; e != nil {
		select {
		case <-e.done:
			if p := e.packed.Value(); p != nil {
				return p, nil
			}
		default:
			return nil, e
		}
	}
	if len(w.made) >= max(w.next, 64) {
		w.sweep()
	}
	w.made[key] = &weight{done: make(chan struct{})}
	return nil, nil
}

// fill packs a claimed key.
func (w *Weights) fill(key weightKey, pack func() (*kern.Packed, error)) (p *kern.Packed, err error) {
	defer func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		e := w.made[key]
		if p == nil {
			delete(w.made, key)
		} else {
			e.packed = weak.Make(p)
		}
		close(e.done)
	}()
	return pack()
}

// sweep forgets what nobody holds any more.
func (w *Weights) sweep() {
	for k, e := range w.made {
		select {
		case <-e.done:
			if e.packed.Value() == nil {
				delete(w.made, k)
			}
		default:
		}
	}
	w.next = 2 * len(w.made)
}

// Bytes returns the memory that is held, by layout.
func (w *Weights) Bytes() map[string]int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := map[string]int64{}
	for k, e := range w.made {
		select {
		case <-e.done:
			if p := e.packed.Value(); p != nil {
				out[k.layout.Kind] += int64(p.Bytes())
			}
		default:
		}
	}
	return out
}

// pack returns constant operand i in a layout, making it with f unless it is at hand;
// the operand is not read in runs.
func (p *prep) pack(i int, layout kern.Layout, taken arrangement, f func(c *ssa.Constant) (*kern.Packed, error)) (*kern.Packed, error) {
	c := p.in[i].value.Const
	id, err := c.Identity()
	if err != nil {
		return nil, err
	}
	packed, err := p.weights.of(p.ctx, weightKey{id, taken, layout}, func() (*kern.Packed, error) {
		defer c.Release()
		return f(c)
	})
	if err != nil {
		return nil, err
	}
	p.packs = append(p.packs, backend.Pack{ID: packed, Layout: layout.Kind, Bytes: int64(packed.Bytes())})
	p.absorb(i, 0)
	return packed, nil
}

// packFloats is pack for float32 constants, from an element on.
func (p *prep) packFloats(i int, layout kern.Layout, taken arrangement, f func(kern.Source) (*kern.Packed, error)) (*kern.Packed, error) {
	return p.pack(i, layout, taken, func(c *ssa.Constant) (*kern.Packed, error) {
		src, err := sourceOf(c)
		if err != nil {
			return nil, err
		}
		if !src.Splat {
			src.Data = src.Data[taken.offset:]
		}
		return f(src)
	})
}

// sourceOf is a float32 constant where it lies.
func sourceOf(c *ssa.Constant) (kern.Source, error) {
	data, err := c.Bytes()
	_, splat := c.Splat()
	return kern.Source{Data: kern.FloatsOf(data), Splat: splat}, err
}

// packA packs constant operand i, from an element on, as the left side of a product.
func (p *prep) packA(g *kern.Gemm, i, offset int) (*kern.Packed, error) {
	s := g.Spec()
	return p.packFloats(i, g.LayoutA(), arrangement{offset: offset, trans: s.TransA, ld: s.LDA},
		func(src kern.Source) (*kern.Packed, error) { return g.PackA(p.ctx, src) })
}

// packB is packA for the right side.
func (p *prep) packB(g *kern.Gemm, i, offset int) (*kern.Packed, error) {
	s := g.Spec()
	return p.packFloats(i, g.LayoutB(), arrangement{offset: offset, trans: s.TransB, ld: s.LDB},
		func(src kern.Source) (*kern.Packed, error) { return g.PackB(p.ctx, src) })
}

// packBytes packs 8-bit integers as the right side of a product.
func (p *prep) packBytes(g *kern.IntGemm, i, offset, n int) (*kern.Packed, error) {
	return p.pack(i, g.LayoutB(), arrangement{offset: offset}, func(c *ssa.Constant) (*kern.Packed, error) {
		data, err := bytesOf(c)
		if err != nil {
			return nil, err
		}
		return g.PackB(p.ctx, data[offset:][:n])
	})
}

// bytesOf are the elements of a constant of 8-bit integers.
func bytesOf(c *ssa.Constant) ([]byte, error) {
	data, err := c.Bytes()
	if _, splat := c.Splat(); !splat || err != nil {
		return data, err
	}
	var a *ndarray.Array
	if a, err = c.Array(); err != nil {
		return nil, err
	}
	return a.Data, nil
}
