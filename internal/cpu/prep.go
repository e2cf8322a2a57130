package cpu

import (
	"context"
	"slices"

	"github.com/berth-onnx/berth/backend"
	"github.com/berth-onnx/berth/internal/cpu/weights"
	"github.com/berth-onnx/berth/internal/ops/kit"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// prep is a node under preparation: its static types, its constants, and the workspace
// that its kernel needs. Methods that prepare functions call everywhere are not inlined: programs are smaller by tens of kilobytes.
type prep struct {
	ctx     context.Context // ends the packing of weights
	node    *ssa.Node
	threads int
	weights *weights.Store
	options Options
	in, out []operand // as in the node; absent ones are not present

	scratch  int64 // bytes of workspace
	held     int64 // bytes of constants that this kernel alone holds in a layout of its own
	tables   int64 // bytes of what this kernel computes from shapes and attributes
	packs    []backend.Pack
	absorbed []int // constant operands that a run does not read

	halves *prep // the node of half types that this is in float32
	kept   []int // operands that the kernel takes as the halves they are, and so its result
}

// operand is one operand or result with its static type.
type operand struct {
	present bool
	dt      ndarray.DType
	shape   []int
	n       int  // elements
	blocked bool // shape and n are those of the plain layout, the elements lie in blocks
	value   *ssa.Value
}

// newPrep reads the types of a node; ok is false unless every present operand and
// result is a tensor of known size with elements other than strings.
func newPrep(n *ssa.Node, threads int) (p *prep, ok bool) {
	p = &prep{node: n, threads: threads}
	if p.in, ok = operands(n.In); !ok {
		return nil, false
	}
	p.out, ok = operands(n.Out)
	return p, ok
}

func operands(values []*ssa.Value) ([]operand, bool) {
	return kit.StaticOperands(values, func(v *ssa.Value, shape []int, n int) (operand, bool) {
		return operand{present: true, dt: v.Type.DType, shape: shape, n: n, value: v}, true
	})
}

// resultsAreEmpty reports that no result has elements.
func (p *prep) resultsAreEmpty() bool {
	for _, o := range p.out {
		if o.n > 0 {
			return false
		}
	}
	return true
}

// hasEmptyOperand reports that an operand has no elements.
func (p *prep) hasEmptyOperand() bool {
	for _, o := range p.in {
		if o.present && o.n == 0 {
			return true
		}
	}
	return false
}

// has reports whether operand i is present.
//
//go:noinline
func (p *prep) has(i int) bool { return i < len(p.in) && p.in[i].present }

// wants reports whether result i is used.
func (p *prep) wants(i int) bool { return i < len(p.out) && p.out[i].present }

// all reports that every operand and result that is present has the element type dt.
func (p *prep) all(dt ndarray.DType) bool {
	for _, list := range [][]operand{p.in, p.out} {
		for _, o := range list {
			if o.present && o.dt != dt {
				return false
			}
		}
	}
	return true
}

// allF32 reports that all operands and results are float32.
//
//go:noinline
func (p *prep) allF32() bool { return p.all(ndarray.Float32) }

// memory is what packing and constants may take.
func (p *prep) memory() ndarray.Budget { return ndarray.BudgetOf(p.ctx) }

// constant returns the elements of operand i if it is a constant, else nil.
func (p *prep) constant(i int) (*ndarray.Array, error) {
	if !p.has(i) || p.in[i].value.Const == nil {
		return nil, nil
	}
	return p.in[i].value.Const.ArrayContext(p.ctx, p.memory())
}

// isConst reports whether operand i is a constant.
//
//go:noinline
func (p *prep) isConst(i int) bool { return p.has(i) && p.in[i].value.Const != nil }

// floats returns the elements of operand i if it is a float32 constant, else nil.
func (p *prep) floats(i int) ([]float32, error) {
	a, err := p.constant(i)
	if a == nil || err != nil || a.DType != ndarray.Float32 {
		return nil, err
	}
	return ndarray.Slice[float32](a), nil
}

// ints returns the elements of integer operand i where all of them are known.
func (p *prep) ints(i int) ([]int64, bool) { return ops.ConstInts(p.node, i) }

// axis returns the attribute axis, counted from the front; ok is false if it is out
// of range.
func (p *prep) axis(rank int) (axis int, ok bool) {
	axis, err := ops.NormAxis(ops.Int(p.node, "axis"), rank)
	return axis, err == nil
}

// absorb records that runs do not read constant operand i, because the kernel holds its
// content in bytes of its own.
//
//go:noinline
func (p *prep) absorb(i int, bytes int) {
	if !slices.Contains(p.absorbed, i) {
		p.absorbed = append(p.absorbed, i)
	}
	p.held += int64(bytes)
}

// table asks for the memory of what the kernel holds as long as it lives: indices, weights of taps, lists of offsets.
//
//go:noinline
func (p *prep) table(what string, bytes int64) error {
	p.tables += bytes
	return p.memory().AskContext(p.ctx, what, bytes)
}

// workspace reserves bytes of workspace and returns their offset, which is on a cache
// line.
//
//go:noinline
func (p *prep) workspace(bytes int) (offset int) {
	offset = int(p.scratch)
	p.scratch += int64(roundUp(bytes, lineBytes))
	return offset
}

// perWorker is workspace for as many workers as have tasks.
func (p *prep) perWorker(bytes, tasks int) (offset int) {
	return p.workspace(bytes * max(1, min(p.threads, tasks)))
}

// sizeOf is the product of dimensions.
func sizeOf(dims []int) int { return ndarray.Product(dims) }

// around returns the product of the dimensions before an axis, its own dimension, and
// the product of those behind it.
func around(shape []int, axis int) (outer, dim, inner int) {
	return kit.SplitDims(shape, axis)
}
