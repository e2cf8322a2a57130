package cpu

import (
	"context"
	"sync"
	"weak"

	"github.com/berth-onnx/berth/backend"
	"github.com/berth-onnx/berth/internal/cpu/kern/gemm"
	"github.com/berth-onnx/berth/internal/cpu/kern/machine"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ssa"
)

// Weights holds the constants of a model as kernels read them: one copy for each
// layout, whatever the number of programs, input shapes and threads.
//
//	constant ────┐
//	arrangement ─┼─▶ key ──┬─ packed: shared
//	layout ──────┘         ├─ being packed: waited for
//	                       └─ new: packed by the worker pool, from the constant's bytes
//
// The table holds weak pointers: packed weights live as long as a kernel holds them, and
// constants are not kept alive. The pages of a mapped file are released once packed.
//
// Weights are safe for concurrent use.
type Weights struct {
	mu   sync.Mutex
	made map[weightKey]*weight
	next int // number of entries at which collected ones are removed
}

// NewWeights returns an empty store.
func NewWeights() *Weights { return &Weights{made: map[weightKey]*weight{}} }

// weightKey is a constant, the arrangement of its elements, and the layout they get.
type weightKey struct {
	constant ssa.Identity
	taken    arrangement
	layout   gemm.Layout
}

// arrangement is how a layout's rows and columns are found in a constant.
type arrangement struct {
	offset       int // first element
	trans        bool
	ld           int
	channelsLast bool // taps before channels, see rowConv
	// The taps of a convolution that are kept, see window.cropped: the first one, their
	// number, the number of all.
	first, cropped, full [3]int

	zeros  ssa.Identity // of the zero points that were subtracted
	signed bool
}

// weight is an entry. While it is being packed, done is open.
type weight struct {
	done   chan struct{}
	packed weak.Pointer[gemm.Packed]
}

// of returns what was packed before under a key, or packs it. A call that finds the
// key being packed waits, until its context ends.
func (w *Weights) of(ctx context.Context, key weightKey, pack func() (*gemm.Packed, error)) (*gemm.Packed, error) {
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

// claim returns what is packed, or the entry that is being packed; neither if the
// caller must pack it.
func (w *Weights) claim(key weightKey) (*gemm.Packed, *weight) {
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
func (w *Weights) fill(key weightKey, pack func() (*gemm.Packed, error)) (p *gemm.Packed, err error) {
	defer func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		e := w.made[key]
		if err != nil || p == nil { // a cancelled packing leaves half of it
			delete(w.made, key)
		} else {
			e.packed = weak.Make(p)
		}
		close(e.done)
	}()
	return pack()
}

// sweep removes entries whose packed weights no kernel holds.
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

// Bytes returns the memory of the packed weights that kernels hold, by layout.
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

// pack returns constant operand i in a layout, packed by f unless it was before; runs
// do not read the operand.
func (p *prep) pack(i int, layout gemm.Layout, taken arrangement, f func(c *ssa.Constant) (*gemm.Packed, error)) (*gemm.Packed, error) {
	c := p.in[i].value.Const
	id, err := c.Identity(p.memory())
	if err != nil {
		return nil, err
	}
	packed, err := p.weights.of(p.ctx, weightKey{id, taken, layout}, func() (*gemm.Packed, error) {
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
func (p *prep) packFloats(i int, layout gemm.Layout, taken arrangement, f func(gemm.Source) (*gemm.Packed, error)) (*gemm.Packed, error) {
	return p.pack(i, layout, taken, func(c *ssa.Constant) (*gemm.Packed, error) {
		src, err := p.sourceOf(c)
		if err != nil {
			return nil, err
		}
		if !src.Splat {
			src.Data = src.Data[taken.offset:]
		}
		return f(src)
	})
}

// sourceOf is a float32 constant in its own memory.
func (p *prep) sourceOf(c *ssa.Constant) (gemm.Source, error) {
	data, err := c.Bytes(p.memory())
	_, splat := c.Splat()
	return gemm.Source{Data: machine.FloatsOf(data), Splat: splat}, err
}

// packA packs constant operand i, from an element on, as the left side of a product.
func (p *prep) packA(g *gemm.Gemm, i, offset int) (*gemm.Packed, error) {
	s := g.Spec()
	return p.packFloats(i, g.LayoutA(), arrangement{offset: offset, trans: s.TransA, ld: s.LDA},
		func(src gemm.Source) (*gemm.Packed, error) { return g.PackA(p.ctx, src) })
}

// packB is packA for the right side.
func (p *prep) packB(g *gemm.Gemm, i, offset int) (*gemm.Packed, error) {
	s := g.Spec()
	return p.packFloats(i, g.LayoutB(), arrangement{offset: offset, trans: s.TransB, ld: s.LDB},
		func(src gemm.Source) (*gemm.Packed, error) { return g.PackB(p.ctx, src) })
}

// packBytes packs 8-bit integers as the right side of a product.
func (p *prep) packBytes(g *gemm.IntGemm, i, offset, n int) (*gemm.Packed, error) {
	return p.pack(i, g.LayoutB(), arrangement{offset: offset}, func(c *ssa.Constant) (*gemm.Packed, error) {
		data, err := p.bytesOf(c)
		if err != nil {
			return nil, err
		}
		return g.PackB(p.ctx, data[offset:][:n])
	})
}

// bytesOf are the elements of a constant of 8-bit integers.
func (p *prep) bytesOf(c *ssa.Constant) ([]byte, error) {
	data, err := c.Bytes(p.memory())
	if _, splat := c.Splat(); !splat || err != nil {
		return data, err
	}
	var a *ndarray.Array
	if a, err = c.ArrayIn(p.memory()); err != nil {
		return nil, err
	}
	return a.Data, nil
}
