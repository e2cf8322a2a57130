package ndarray

import (
	"context"

	"github.com/berth-onnx/berth/internal/rescue"
	"github.com/berth-onnx/berth/internal/sysmem"
)

// Budget is how many bytes of memory the process may use beyond what it used when it started;
// 0 is the default, three quarters of the machine's memory, its control group's or GOMEMLIMIT if that is less. [Budget.Ask] comes before memory
// is taken whose size a file or data decides.
type Budget = sysmem.Budget

// BudgetOf is the budget that a context carries ([Budget.In]); the default one if it carries none.
func BudgetOf(ctx context.Context) Budget { return sysmem.BudgetOf(ctx) }

// NewIn is [New] within a budget, which a scalar is not asked of.
func NewIn(b Budget, dt DType, shape ...int) (*Array, error) {
	return NewContext(context.Background(), b, dt, shape...)
}

// NewContext is [NewIn] until a context ends, whose error it then returns; nil never does. Clearing gigabytes takes seconds.
func NewContext(ctx context.Context, b Budget, dt DType, shape ...int) (_ *Array, err error) {
	defer rescue.Into(&err)
	n, err := ByteSize(dt, shape)
	if err != nil {
		return nil, err
	}
	if len(shape) > 0 {
		if err := b.AskContext(ctx, "an array", allocated(n)); err != nil {
			return nil, err
		}
	}
	a := &Array{DType: dt, Shape: append([]int(nil), shape...)}
	if dt == String {
		a.Str = make([]string, n/dt.Size())
		return a, nil
	}
	if a.Data, err = sysmem.Zeros(ctx, n); err != nil {
		return nil, err
	}
	return a, nil
}

// allocated is what an array of n bytes takes: with the elements its header, which is most of it in a sequence of millions of small
// ones, and for large ones nothing.
func allocated(n int) int64 {
	if n >= 32*memberBytes {
		return int64(n)
	}
	return memberBytes + int64(n+63)&^63
}

// CloneIn is [CloneValue] within a budget and until a context ends. A value that is nested too deep or has too many members
// ([CheckValue] says what is) is a [*ValueError].
func CloneIn(ctx context.Context, b Budget, v Value) (_ Value, err error) {
	defer rescue.Into(&err)
	ctx = orBackground(ctx)
	w := &walk{ctx: ctx}
	if err := w.value(v, 0); err != nil {
		return nil, err
	}
	if err := b.AskContext(ctx, "a copy of a value", w.bytes); err != nil {
		return nil, err
	}
	c := &copier{ctx: ctx}
	if v = c.value(v); c.err != nil {
		return nil, c.err
	}
	return v, nil
}
