package rewrite

import (
	"slices"

	"github.com/berth-onnx/berth/ndarray"
)

// The standard allows operators for element types for which runtimes have no kernel: they
// refuse a file in which GlobalAveragePool of float64 replaces ReduceMean, which they run.
//
// withoutKernel holds these types for the operators that the portable passes make of
// others: what the CPU provider of ONNX Runtime 1.32 refuses to load, in any operator set
// (internal/tools/ortfuzz/kernels.py tries them; float16 is computed as float32 there).
// All other operators that the passes make run for every type for which the operators that
// they replace run. bfloat16 is left out, because not even Add runs for it.
var withoutKernel = map[string][]ndarray.DType{
	"Clip":              {ndarray.Int16, ndarray.Uint16},
	"Gelu":              {ndarray.Float64},
	"Gemm":              {ndarray.Int32, ndarray.Int64, ndarray.Uint32, ndarray.Uint64},
	"GlobalAveragePool": {ndarray.Float64},
	"HardSigmoid":       {ndarray.Float64},
	"HardSwish":         {ndarray.Float64},
	"Mish":              {ndarray.Float64},
	"Relu":              {ndarray.Int16, ndarray.Int64},
}

// withoutKernelFrom holds operators that the same runtime refuses, for any element type, in models that import this operator
// set or a newer one: it has no kernel, and takes the function that defines Swish for operator set 24 only.
var withoutKernelFrom = map[string]int{"Swish": 25}

// runs reports that the readers of the list's result have a kernel of an operator for an element type.
func (c *Context) runs(op string, dt ndarray.DType) bool {
	if !c.opts.List.CommonKernels {
		return true
	}
	from, isLimited := withoutKernelFrom[op]
	return !slices.Contains(withoutKernel[op], dt) && !(isLimited && c.module.OpsetVersion("") >= from)
}
