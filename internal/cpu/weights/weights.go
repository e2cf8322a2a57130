// Package weights keeps the constants of a model packed as kernels read them.
package weights

import (
	"context"
	"sync"
	"weak"

	"github.com/berth-onnx/berth/internal/cpu/kern/gemm"
	"github.com/berth-onnx/berth/ssa"
)

// Store holds the constants of a model as kernels read them: one copy for each
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
// A Store is safe for concurrent use.
type Store struct {
	Shared Shared // what kernels of like nodes have beside weights

	mu    sync.Mutex
	made  map[key]weight
	forms map[Form]*Form // of the keys: a model has few
	next  int            // number of entries at which collected ones are removed
}

// New returns an empty store.
func New() *Store {
	return &Store{made: map[key]weight{}, forms: map[Form]*Form{}}
}

// Form is the arrangement of a constant's elements, and the layout they get.
type Form struct {
	Arrangement any // how rows and columns are found in the constant: a comparable value of the caller's
	Layout      gemm.Layout
}

// key is a constant and its form, which is one of the store.
type key struct {
	constant ssa.Identity
	form     *Form
}

// weight is an entry.
type weight struct {
	packed  weak.Pointer[gemm.Packed]
	packing bool
	done    chan struct{} // what calls wait for that find it being packed; nil until the first does
}

// Of returns what was packed before in a form, or packs it. A call that finds it
// being packed waits, until its context ends.
func (w *Store) Of(ctx context.Context, id ssa.Identity, form Form, pack func() (*gemm.Packed, error)) (*gemm.Packed, error) {
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
func (w *Store) claim(id ssa.Identity, form Form) (*gemm.Packed, key, chan struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.made) >= max(w.next, 64) {
		w.sweep()
	}
	f := w.forms[form]
	if f == nil {
		f = &form
		w.forms[form] = f
	}
	key := key{id, f}
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
func (w *Store) fill(key key, pack func() (*gemm.Packed, error)) (p *gemm.Packed, err error) {
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
func (w *Store) sweep() {
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
func (w *Store) Bytes() map[string]int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := map[string]int64{}
	for k, e := range w.made {
		if p := e.packed.Value(); !e.packing && p != nil {
			out[k.form.Layout.Kind] += int64(p.Bytes())
		}
	}
	return out
}
