package cpu

import (
	"slices"

	"github.com/berth-onnx/berth/internal/cpu/kern/machine"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
)

// innerCall is the call of a kernel that another one is made of: operands and results of its
// own, some of them in the workspace.
type innerCall struct {
	call    ops.Call
	in, out []ndarray.Value
	arrays  []ndarray.Array
}

// innerCalls are calls to be used again, so that a run allocates nothing.
type innerCalls struct{ free machine.FreeList[innerCall] }

// take returns a call like c without operands and results, with room for so many arrays.
func (f *innerCalls) take(c *ops.Call, arrays int) *innerCall {
	r := f.free.Get()
	r.call, r.in, r.out = *c, r.in[:0], r.out[:0]
	r.arrays = slices.Grow(r.arrays[:0], arrays)
	return r
}

// release gives a call back, which then holds on to nothing but its own slices.
func (f *innerCalls) release(r *innerCall) {
	r.call = ops.Call{}
	clear(r.in)
	clear(r.out)
	clear(r.arrays)
	f.free.Put(r)
}

// array is a float32 array of n elements in the workspace.
func (r *innerCall) array(c *ops.Call, at, n int, shape []int) *ndarray.Array {
	r.arrays = append(r.arrays, ndarray.Array{DType: ndarray.Float32, Shape: shape, Data: c.Scratch[at : at+4*n]})
	return &r.arrays[len(r.arrays)-1]
}

// run calls the kernel with the operands and results as they are now.
func (r *innerCall) run(k ops.Kernel) error {
	r.call.In, r.call.Out = r.in, r.out
	return k.Run(&r.call)
}
