package engine

import (
	"fmt"
	"slices"

	"gorgonia.org/tensor"

	"github.com/berth-onnx/berth/ndarray"
)

// Comparisons give tensors of bool, or of the operands' type, 0 and 1, with AsSameType and UseUnsafe.

func (o *operations) compare(op string, negate bool, a tensor.Tensor, in []*ndarray.Array, opts []tensor.FuncOpt) (tensor.Tensor, error) {
	d := a.(*tensor.Dense)
	dt := tensor.Bool
	given, err := optionsOf(opts)
	switch {
	case err != nil:
		return nil, err
	case given.Same() || !given.Safe():
		dt = d.Dtype()
	}
	if dt == tensor.String {
		return nil, fmt.Errorf("AsSameType and UseUnsafe give 0 and 1, for which %s has no elements", dt)
	}
	return o.result(d, dt, slices.Clone(d.Shape()), func(out *ndarray.Array) error {
		truth, err := o.compute(ndarray.Bool, out.Shape, op, nil, in...)
		if err == nil && negate {
			err = o.kernels.run(truth, "Not", nil, truth)
		}
		if err == nil {
			truth, err = o.convert(truth, out.DType)
		}
		if err == nil {
			copyElements(out, truth)
		}
		return err
	}, opts)
}

func (o *operations) compareTensors(op string, negate bool, a, b tensor.Tensor, opts []tensor.FuncOpt) (tensor.Tensor, error) {
	return guarded(o, op, func() (tensor.Tensor, error) {
		in, err := sameArrays(a, b)
		if err != nil {
			return nil, err
		}
		return o.compare(op, negate, a, in, opts)
	})
}

func (o *operations) compareScalar(op string, negate bool, a tensor.Tensor, b any, left bool, opts []tensor.FuncOpt) (tensor.Tensor, error) {
	return guarded(o, op, func() (tensor.Tensor, error) {
		in, err := operandsWith(a, b, left)
		if err != nil {
			return nil, err
		}
		return o.compare(op, negate, a, in, opts)
	})
}

// Lt is [Engine.Lt].
func (o *operations) Lt(a, b tensor.Tensor, opts ...tensor.FuncOpt) (tensor.Tensor, error) {
	return o.compareTensors("Less", false, a, b, opts)
}

// LtScalar is [Engine.LtScalar].
func (o *operations) LtScalar(a tensor.Tensor, b any, left bool, opts ...tensor.FuncOpt) (tensor.Tensor, error) {
	return o.compareScalar("Less", false, a, b, left, opts)
}

// Lte is [Engine.Lte].
func (o *operations) Lte(a, b tensor.Tensor, opts ...tensor.FuncOpt) (tensor.Tensor, error) {
	return o.compareTensors("LessOrEqual", false, a, b, opts)
}

// LteScalar is [Engine.LteScalar].
func (o *operations) LteScalar(a tensor.Tensor, b any, left bool, opts ...tensor.FuncOpt) (tensor.Tensor, error) {
	return o.compareScalar("LessOrEqual", false, a, b, left, opts)
}

// Gt is [Engine.Gt].
func (o *operations) Gt(a, b tensor.Tensor, opts ...tensor.FuncOpt) (tensor.Tensor, error) {
	return o.compareTensors("Greater", false, a, b, opts)
}

// GtScalar is [Engine.GtScalar].
func (o *operations) GtScalar(a tensor.Tensor, b any, left bool, opts ...tensor.FuncOpt) (tensor.Tensor, error) {
	return o.compareScalar("Greater", false, a, b, left, opts)
}

// Gte is [Engine.Gte].
func (o *operations) Gte(a, b tensor.Tensor, opts ...tensor.FuncOpt) (tensor.Tensor, error) {
	return o.compareTensors("GreaterOrEqual", false, a, b, opts)
}

// GteScalar is [Engine.GteScalar].
func (o *operations) GteScalar(a tensor.Tensor, b any, left bool, opts ...tensor.FuncOpt) (tensor.Tensor, error) {
	return o.compareScalar("GreaterOrEqual", false, a, b, left, opts)
}

// ElEq is [Engine.ElEq].
func (o *operations) ElEq(a, b tensor.Tensor, opts ...tensor.FuncOpt) (tensor.Tensor, error) {
	return o.compareTensors("Equal", false, a, b, opts)
}

// EqScalar is [Engine.EqScalar].
func (o *operations) EqScalar(a tensor.Tensor, b any, left bool, opts ...tensor.FuncOpt) (tensor.Tensor, error) {
	return o.compareScalar("Equal", false, a, b, left, opts)
}

// ElNe is [Engine.ElNe].
func (o *operations) ElNe(a, b tensor.Tensor, opts ...tensor.FuncOpt) (tensor.Tensor, error) {
	return o.compareTensors("Equal", true, a, b, opts)
}

// NeScalar is [Engine.NeScalar].
func (o *operations) NeScalar(a tensor.Tensor, b any, left bool, opts ...tensor.FuncOpt) (tensor.Tensor, error) {
	return o.compareScalar("Equal", true, a, b, left, opts)
}
