// Package engine computes tensors of gorgonia.org/tensor with berth's kernels.
//
// An engine is set on a tensor, and tensors computed from it have it, too:
//
//	e := engine.New()
//	a := tensor.New(tensor.WithShape(2, 3), tensor.WithBacking(x), tensor.WithEngine(e))
//	c, err := tensor.MatMul(a, b)
//
// Unlike the default engine it computes what the operations say for every layout of operands and results: slices, transposed
// and column-major tensors, overlapping memory. Operands, their shapes and strides are only read, so that any number of
// goroutines may use them at once. Results are what ONNX says of the operators: NaN and infinities go through. Operands that
// do not lie in row-major order are copied before, results after; transposed operands of products are not.
//
// What has no operator in ONNX is left to the default engine, on such copies: SVD, Trace, Map, Reduce.
package engine

import (
	"fmt"
	"sync"
	"unsafe"

	"gorgonia.org/tensor"

	"github.com/berth-onnx/berth/internal/rescue"
	"github.com/berth-onnx/berth/ndarray"
)

// Engine computes with berth's kernels, and allocates as the default engine does, within the process' budget of memory (three
// quarters of the machine's): what is beyond it is an error. It is safe for concurrent use.
//
// Errors of its operations are [*Error], also those of an engine that is nil or a zero value; beside an error, results are nil, and
// tensors given for results are as they were. A tensor given by WithReuse, WithIncr or UseUnsafe has the result's element type and
// as many elements, and gets its shape if it has another and is no slice with gaps; one for a product has the product's shape. It
// keeps its own engine. A masked element is an error.
//
// Limits are those of package tensor, whose code decides before an engine is asked:
//   - The methods Argmax and Argmin of a Dense call the default engine's unexported methods, which come with its allocator and
//     give wrong indices for slices. The functions tensor.Argmax and tensor.Argmin ask this engine, and with an [Arena], which
//     holds its memory itself, the methods do as well.
//   - The method Inner refuses vectors with gaps between their elements.
//   - tensor.MatMul, MatVecMul and Outer give the tensor of WithReuse the shape of the product, and the strides of a tensor
//     without gaps, before they ask an engine, and also if the operation then fails. A slice with gaps is refused then, and no
//     slice any more; Outer has overwritten all from its first element to its last with zeros. The methods MatMul, MatVecMul and
//     Outer of an engine write into slices.
//   - tensor.New allocates without a budget, and panics if the engine is nil or has no memory. Functions such as tensor.Add panic
//     on a nil *Dense, which has no engine to ask; methods of an engine return an error.
type Engine struct {
	ops operations
	heap
}

// New makes an engine that allocates in the heap.
func New() *Engine {
	e := &Engine{}
	e.ops = newOperations(e)
	return e
}

// operations are those of the engine, nil if there is none.
func (e *Engine) operations() *operations {
	if e == nil {
		return nil
	}
	return &e.ops
}

// Arena computes with berth's kernels, and allocates tensors one behind the other in memory of its own: that given to
// [NewArena], and more of the heap where that does not suffice. All of it is held until [Arena.Reset] makes room, or the
// arena and the tensors in it are not used any more. It is safe for concurrent use.
//
// Tensors of strings must not be made with it: package tensor does not say what memory is for, and the garbage collector does
// not look for strings in bytes. Operations whose results are strings are errors.
type Arena struct {
	ops    operations
	mu     sync.Mutex
	memory []byte
	used   int
	more   [][]byte // allocations that did not fit
}

// NewArena makes an engine with an arena of so many bytes.
func NewArena(bytes int) (*Arena, error) {
	if bytes < 0 {
		return nil, &Error{"NewArena", fmt.Errorf("an arena of %d bytes", bytes)}
	}
	a, err := newArray(ndarray.Uint8, []int{bytes})
	if err != nil {
		return nil, &Error{"NewArena", err}
	}
	e := &Arena{memory: a.Data}
	e.ops = newOperations(e)
	return e, nil
}

// operations are those of the engine, nil if there is none.
func (e *Arena) operations() *operations {
	if e == nil {
		return nil
	}
	return &e.ops
}

// Reset makes the whole arena free. Tensors allocated before must not be used any more.
func (e *Arena) Reset() {
	if e == nil {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.used, e.more = 0, nil
}

// Used is how many bytes are allocated, in the arena and beyond it.
func (e *Arena) Used() (inside, beyond int) {
	if e == nil {
		return 0, 0
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, b := range e.more {
		beyond += len(b)
	}
	return e.used, beyond
}

// alignment of tensors, in bytes.
const alignment = 64

// memory is what [Arena.Alloc] gives.
type memory []byte

// Uintptr is the address.
func (m memory) Uintptr() uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(m))) }

// MemSize is the size in bytes.
func (m memory) MemSize() uintptr { return uintptr(len(m)) }

// AllocAccessible is true: memory is that of Go.
func (e *Arena) AllocAccessible() bool { return true }

// Alloc takes zeroed memory. It is held by the arena, which matters: package tensor passes its address as a number.
func (e *Arena) Alloc(size int64) (_ tensor.Memory, err error) {
	defer rescue.Into(&err)
	if e == nil {
		return nil, &Error{"Alloc", errUnmade}
	}
	if size < 0 || int64(int(size)) != size {
		return nil, &Error{"Alloc", fmt.Errorf("an allocation of %d bytes", size)}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if n := int(size); n <= len(e.memory)-e.used {
		m := e.memory[e.used : e.used+n : e.used+n]
		e.used = min(len(e.memory), (e.used+n+alignment-1)/alignment*alignment)
		clear(m)
		return memory(m), nil
	}
	a, err := newArray(ndarray.Uint8, []int{int(size)})
	if err != nil {
		return nil, &Error{"Alloc", err}
	}
	e.more = append(e.more, a.Data)
	return memory(a.Data), nil
}

// Free does nothing: memory is given back by [Arena.Reset].
func (e *Arena) Free(tensor.Memory, int64) error { return nil }

// Memset fills a tensor with a value.
func (e *Arena) Memset(m tensor.Memory, v any) error { return memset(m, v) }

// Memclr fills a tensor with zeros.
func (e *Arena) Memclr(m tensor.Memory) { memclr(m) }

// Memcpy copies one tensor's memory to another's.
func (e *Arena) Memcpy(dst, src tensor.Memory) error { return memcpy(dst, src) }

// Accessible returns the memory.
func (e *Arena) Accessible(m tensor.Memory) (tensor.Memory, error) { return m, nil }

// WorksWith is true for every order.
func (e *Arena) WorksWith(tensor.DataOrder) bool { return true }

// engine is what both are for package tensor.
type engine interface {
	tensor.Engine
	tensor.Adder
	tensor.Suber
	tensor.Muler
	tensor.Diver
	tensor.Power
	tensor.Moder
	tensor.FMAer
	tensor.MinBetweener
	tensor.MaxBetweener
	tensor.Lter
	tensor.Lteer
	tensor.Gter
	tensor.Gteer
	tensor.ElEqer
	tensor.MatMuler
	tensor.MatVecMuler
	tensor.OuterProder
	tensor.InnerProder
	tensor.Dotter
	tensor.Tracer
	tensor.SVDer
	tensor.Mapper
	tensor.Neger
	tensor.Inver
	tensor.Squarer
	tensor.Cuber
	tensor.Exper
	tensor.Tanher
	tensor.Loger
	tensor.Log2er
	tensor.Log10er
	tensor.Sqrter
	tensor.Cbrter
	tensor.InvSqrter
	tensor.Signer
	tensor.Abser
	tensor.Clamper
	tensor.Reducer
	tensor.OptimizedReducer
	tensor.Sumer
	tensor.Proder
	tensor.Miner
	tensor.Maxer
	tensor.Argmaxer
	tensor.Argminer
	tensor.SoftMaxer
	tensor.Transposer
	tensor.Concater
	tensor.Stacker
	tensor.DenseStacker
	tensor.Repeater
	tensor.Diager
	tensor.ByIndiceser
}

var (
	_ engine = (*Engine)(nil)
	_ engine = (*Arena)(nil)
)
