package engine

import (
	"errors"
	"fmt"

	"gorgonia.org/tensor"

	"github.com/berth-onnx/berth/backend/gorgonia/internal/dense"
	"github.com/berth-onnx/berth/internal/rescue"
	"github.com/berth-onnx/berth/ndarray"
)

// heap gives an engine the allocator of the default one, which is an unexported method of package tensor. What else the default
// engine has is hidden: its operations by the methods of [Engine], and the loops on bare memory that it embeds, which check
// nothing, by fields of the same names at the same depth, so that the names mean neither.
type heap struct {
	tensor.StdEng
	unsafeLoops
}

type unsafeLoops struct{ loopNames }

type loopNames struct {
	AbsIter, AddIncr, AddIter, AddIterIncr, AddRecv, AddSliced, ArgmaxFlat, ArgmaxFlatMasked, ArgmaxIter,
	ArgmaxIterMasked, ArgminFlat, ArgminFlatMasked, ArgminIter, ArgminIterMasked, CbrtIter, ClampIter, CubeIter, DivIncr,
	DivIter, DivIterIncr, DivRecv, Eq, EqIter, EqSame, EqSameIter, ExpIter, GtIter, GtSame, GtSameIter, GteIter, GteSame,
	GteSameIter, InvIter, InvSqrtIter, Log10Iter, Log2Iter, LogIter, LtIter, LtSame, LtSameIter, LteIter, LteSame,
	LteSameIter, MapIter, MaxBetweenIter, MinBetweenIter, ModIncr, ModIter, ModIterIncr, ModRecv, MulIncr, MulIter,
	MulIterIncr, MulRecv, Ne, NeIter, NeSame, NeSameIter, NegIter, PowIncr, PowIter, PowIterIncr, PowRecv, ReduceDefault,
	ReduceFirst, ReduceLast, SignIter, SqrtIter, SquareIter, SubIncr, SubIter, SubIterIncr, SubRecv, TanhIter struct{}
}

// AllocAccessible is true: memory is that of Go.
func (e *Engine) AllocAccessible() bool { return true }

// Alloc is an error: package tensor allocates for this engine.
func (e *Engine) Alloc(int64) (tensor.Memory, error) {
	return nil, &Error{"Alloc", errors.New("package tensor allocates in the heap; tensor.New makes tensors")}
}

// Free does nothing: the garbage collector frees memory.
func (e *Engine) Free(tensor.Memory, int64) error { return nil }

// Memset fills a tensor with a value.
func (e *Engine) Memset(m tensor.Memory, v any) error { return memset(m, v) }

// Memclr fills a tensor with zeros.
func (e *Engine) Memclr(m tensor.Memory) { memclr(m) }

// Memcpy copies one tensor's memory to another's.
func (e *Engine) Memcpy(dst, src tensor.Memory) error { return memcpy(dst, src) }

// Accessible returns the memory.
func (e *Engine) Accessible(m tensor.Memory) (tensor.Memory, error) { return m, nil }

// WorksWith is true for every order.
func (e *Engine) WorksWith(tensor.DataOrder) bool { return true }

// memset fills a tensor, or memory that package tensor passes, with a value. The default engine fills the gaps of slices as well.
func memset(m tensor.Memory, v any) (err error) {
	defer naming("Memset", &err)
	defer rescue.Into(&err)
	t, ok := m.(tensor.Tensor)
	if !ok {
		return stock.Memset(m, v)
	}
	d, err := denseOf(t)
	if err != nil {
		return err
	}
	to, err := dense.MemoryOf(d)
	if err != nil {
		return err
	}
	value, err := scalarOf(v, d.Dtype())
	if err == nil {
		to.Fill(value)
	}
	return err
}

// memclr fills a tensor with zeros. One that can not be written stays as it is: there is no error to return.
func memclr(m tensor.Memory) {
	t, ok := m.(tensor.Tensor)
	if !ok {
		stock.Memclr(m)
		return
	}
	if d, err := denseOf(t); err == nil {
		if to, err := dense.MemoryOf(d); err == nil {
			to.Fill(ndarray.Must(to.DType))
		}
	}
}

// memcpy copies a tensor's elements to one of the same type and as many elements, or memory that package tensor passes.
func memcpy(dst, src tensor.Memory) (err error) {
	defer naming("Memcpy", &err)
	defer rescue.Into(&err)
	to, isTensor := dst.(tensor.Tensor)
	from, alike := src.(tensor.Tensor)
	if !isTensor || !alike {
		return stock.Memcpy(dst, src)
	}
	d, err := denseOf(to)
	if err != nil {
		return err
	}
	m, err := dense.MemoryOf(d)
	if err != nil {
		return err
	}
	a, err := arrayOf(from)
	switch {
	case err != nil:
		return err
	case d.Dtype() != from.Dtype() || a.Len() != ndarray.Product(m.Shape):
		return fmt.Errorf("a tensor of %s%v can not be copied to one of %s%v", from.Dtype(), a.Shape, d.Dtype(), m.Shape)
	}
	if dense.Overlap(d.Raw, from.(*tensor.Dense).Raw) {
		a = a.Clone()
	}
	m.Store(a)
	return nil
}
