package machine

import (
	"sync"
	"unsafe"
)

// FreeList keeps the states of calls that have ended for calls to come: a run allocates
// only when more calls are active at the same time than ever before.
//
// The list itself is the same code for all types: with code of its own each of them added 2.5 KB to a program.
type FreeList[T any] struct{ list pointers }

// Get takes a state from the list, or makes one if the list is empty.
func (f *FreeList[T]) Get() *T {
	if t := f.list.take(); t != nil {
		return (*T)(t)
	}
	return new(T)
}

// Put returns a buffer, which holds no pointers, to the list as it is.
func (f *FreeList[T]) Put(t *T) { f.list.put(unsafe.Pointer(t)) }

// Release clears a state, so that it keeps nothing reachable, and returns it to the list.
func (f *FreeList[T]) Release(t *T) {
	*t = *new(T)
	f.list.put(unsafe.Pointer(t))
}

// pointers is a stack of pointers to one type.
type pointers struct {
	mu   sync.Mutex
	free []unsafe.Pointer
}

// take is nil if there are none.
func (p *pointers) take() unsafe.Pointer {
	p.mu.Lock()
	defer p.mu.Unlock()
	last := len(p.free) - 1
	if last < 0 {
		return nil
	}
	t := p.free[last]
	p.free = p.free[:last]
	return t
}

func (p *pointers) put(t unsafe.Pointer) {
	p.mu.Lock()
	p.free = append(p.free, t)
	p.mu.Unlock()
}
