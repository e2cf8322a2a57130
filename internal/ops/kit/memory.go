package kit

import (
	"context"
	"math"
	"unsafe"

	"github.com/berth-onnx/berth/internal/sysmem"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
)

// Temporaries of reference kernels are as large as their operands and results, and more of
// them can be alive at once. They are asked for in the call's budget, and a kernel that does
// not get one fails. A nil call, of whoever reads a few elements outside of a run, has the
// default budget.

func memoryOf(c *ops.Call) ndarray.Budget {
	if c == nil {
		return 0
	}
	return c.Memory
}

// ask asks the budget of the call, until the call ends.
func ask(c *ops.Call, what string, bytes int64) error {
	if c == nil {
		return ndarray.Budget(0).Ask(what, bytes)
	}
	return c.Memory.AskContext(c.Ctx, what, bytes)
}

// Make is make([]T, n) in the budget of the call.
func Make[T any](c *ops.Call, n int) []T {
	var one T
	if p := room(c, (*T)(nil), n, int(unsafe.Sizeof(one))); p != nil {
		return unsafe.Slice((*T)(p), n)
	}
	return make([]T, n)
}

// largeBytes is the size from which the runtime would take some milliseconds to clear memory, which no context ends.
const largeBytes = 32 << 20

// room asks for n elements of a size. Large memory is cleared here, until the call ends, unless the elements, which a pointer
// tells, hold pointers; for other memory it is nil.
func room(c *ops.Call, of any, n, size int) unsafe.Pointer {
	if n < 0 || n > math.MaxInt/max(size, 1) {
		Check(ndarray.ErrSize)
	}
	Check(ask(c, "workspace of a reference kernel", int64(n)*int64(size)))
	if n*size < largeBytes {
		return nil
	}
	switch of.(type) {
	case *float32, *float64, *int8, *int16, *int32, *int64, *int, *uint8, *uint16, *uint32, *uint64, *bool, *complex64, *complex128:
		return unsafe.Pointer(unsafe.SliceData(Try(sysmem.Zeros(contextOf(c), n*size))))
	}
	return nil
}

// contextOf is the context of the call, nil if it has none.
func contextOf(c *ops.Call) context.Context {
	if c == nil {
		return nil
	}
	return c.Ctx
}

// Text asks for the memory of a string, which is small or not made yet, and returns it.
func Text(c *ops.Call, s string) string {
	Check(ask(c, "a string", int64(len(s)+15)&^15)) // as memory is allocated
	return s
}

// New is a new array in the budget of the call.
func New(c *ops.Call, dt ndarray.DType, shape ...int) *ndarray.Array {
	return Try(ndarray.NewContext(contextOf(c), memoryOf(c), dt, shape...))
}

// Clone is a copy of a value in the budget of the call.
func Clone[V ndarray.Value](c *ops.Call, v V) V {
	if a, ok := any(v).(*ndarray.Array); ok && a != nil {
		out := New(c, a.DType, a.Shape...)
		CopyWhole(c, out, a)
		return any(out).(V)
	}
	return Try(ndarray.CloneIn(contextOf(c), memoryOf(c), v)).(V)
}

// Copy is a copy of some elements in the budget of the call.
func Copy[T any](c *ops.Call, v []T) []T {
	out := Make[T](c, len(v))
	CopySlice(c, out, v)
	return out
}

// Beside is what a kernel reads of operand i while it writes result k: the operand, or a copy in the budget of the call where that result
// was given its memory.
func Beside(c *ops.Call, k, i int) *ndarray.Array {
	x := c.Array(i)
	if k < len(c.Out) {
		if y, ok := c.Out[k].(*ndarray.Array); ok && y != nil && x != nil && len(y.Data) > 0 && len(x.Data) > 0 && &y.Data[0] == &x.Data[0] {
			return Clone(c, x)
		}
	}
	return x
}

// Append is append in the budget of the call, for lists whose length depends on data.
func Append[T any](c *ops.Call, list []T, v ...T) []T {
	if need := len(list) + len(v); need > cap(list) {
		list = append(Make[T](c, max(need, 2*cap(list)))[:0], list...)
	}
	return append(list, v...)
}
