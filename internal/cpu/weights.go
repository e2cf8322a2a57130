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
	mu    sync.Mutex
	made  map[weightKey]weight
	forms map[weightForm]*weightForm // of the keys: a model has few
	next  int                        // number of entries at which collected ones are removed
}

// NewWeights returns an empty store.
func NewWeights() *Weights {
	return &Weights{made: map[weightKey]weight{}, forms: map[weightForm]*weightForm{}}
}

// weightForm is the arrangement of a constant's elements, and the layout they get.
type weightForm struct {
	taken  arrangement
	layout gemm.Layout
}

// weightKey is a constant and its form, which is one of the store.
type weightKey struct {
	constant ssa.Identity
	form     *weightForm
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

// weight is an entry.
type weight struct {
	packed  weak.Pointer[gemm.Packed]
	packing bool
	done    chan struct{} // what calls wait for that find it being packed; nil until the first does
}

// of returns what was packed before in a form, or packs it. A call that finds it
// being packed waits, until its context ends.
func (w *Weights) of(ctx context.Context, id ssa.Identity, form weightForm, pack func() (*gemm.Packed, error)) (*gemm.Packed, error) {
	for {
		p, key, done := w.claim(id, form)
		switch {
		case p != nil:
			return p, nil
		case done == nil:
			return w.fill(key, pack)
		}
		select {
		case <-done:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// claim returns what is packed, or a channel that is closed when packing ends; neither if the
// caller must pack it.
func (w *Weights) claim(id ssa.Identity, form weightForm) (*gemm.Packed, weightKey, chan struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.made) >= max(w.next, 64) {
		w.sweep()
	}
	f := w.forms[form]
	if f == nil {
		f = &weightForm{form.taken, form.layout}
		w.forms[form] = f
	}
	key := weightKey{id, f}
	e, found := w.made[key]
	if e.packing {
		if e.done == nil {
			e.done = make(chan struct{})
			w.made[key] = e
		}
		return nil, key, e.done
	}
	if found {
		if p := e.packed.Value(); p != nil {
			return p, key, nil
		}
	}
	w.made[key] = weight{packing: true}
	return nil, key, nil
}

// fill packs a claimed key.
func (w *Weights) fill(key weightKey, pack func() (*gemm.Packed, error)) (p *gemm.Packed, err error) {
	defer func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		done := w.made[key].done
		if err != nil || p == nil { // a cancelled packing leaves half of it
			delete(w.made, key)
		} else {
			w.made[key] = weight{packed: weak.Make(p)}
		}
		if done != nil {
			close(done)
		}
	}()
	return pack()
}

// sweep removes entries whose packed weights no kernel holds, and forms without entries.
func (w *Weights) sweep() {
	for k, e := range w.made {
		if !e.packing && e.packed.Value() == nil {
			delete(w.made, k)
		}
	}
	w.next = 2 * len(w.made)
	clear(w.forms)
	for k := range w.made {
		w.forms[*k.form] = k.form
	}
}

// Bytes returns the memory of the packed weights that kernels hold, by layout.
func (w *Weights) Bytes() map[string]int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := map[string]int64{}
	for k, e := range w.made {
		if p := e.packed.Value(); !e.packing && p != nil {
			out[k.form.layout.Kind] += int64(p.Bytes())
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
	packed, err := p.weights.of(p.ctx, id, weightForm{taken, layout}, func() (*gemm.Packed, error) {
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
