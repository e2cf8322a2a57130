package onnximport

import (
	"context"
	"fmt"

	"github.com/berth-onnx/berth/internal/onnxwire"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ssa"
)

// maxTypeDepth bounds sequences of optionals of sequences …
const maxTypeDepth = 16

// typeOf converts a declared type. dim turns each declared dimension into one
// of the IR; nil leaves shapes out (element type and rank unknown).
func typeOf(t *onnxwire.Type, dim func(axis int, d *onnxwire.Dim) ssa.Dim) (ssa.Type, error) {
	return typeAt(t, dim, 0)
}

func typeAt(t *onnxwire.Type, dim func(int, *onnxwire.Dim) ssa.Dim, depth int) (ssa.Type, error) {
	if depth > maxTypeDepth {
		return ssa.Type{}, fail("", "a type nests deeper than %d", maxTypeDepth)
	}
	wrap := func(kind ssa.Kind, key ndarray.DType, elem *onnxwire.Type) (ssa.Type, error) {
		inner := dim
		if inner != nil && kind != ssa.KindOptional {
			inner = plainDim // members differ: an unknown length is not one number
		}
		e, err := typeAt(elem, inner, depth+1)
		return ssa.Type{Kind: kind, DType: key, Elem: &e}, err
	}
	switch {
	case t == nil:
	case t.Tensor != nil:
		return tensorType(ssa.KindTensor, t.Tensor.ElemType, t.Tensor.Shape, dim)
	case t.SparseTensor != nil:
		return tensorType(ssa.KindSparse, t.SparseTensor.ElemType, t.SparseTensor.Shape, dim)
	case t.Sequence != nil:
		return wrap(ssa.KindSequence, 0, t.Sequence.ElemType)
	case t.Optional != nil:
		return wrap(ssa.KindOptional, 0, t.Optional.ElemType)
	case t.Map != nil:
		return wrap(ssa.KindMap, ndarray.DType(t.Map.KeyType), t.Map.ValueType)
	}
	return ssa.Type{}, nil // nothing is said, or a type only its domain understands
}

func tensorType(kind ssa.Kind, elem onnxwire.DataType, shape *onnxwire.Shape, dim func(int, *onnxwire.Dim) ssa.Dim) (ssa.Type, error) {
	t := ssa.Type{Kind: kind, DType: ndarray.DType(elem)}
	if elem != 0 && (elem < 0 || elem >= ndarray.NumDTypes) {
		return t, fail("", "element type %s is not supported", elem)
	}
	if shape == nil || dim == nil {
		return t, nil
	}
	t.Ranked, t.Shape = true, make([]ssa.Dim, len(shape.Dims))
	for i, d := range shape.Dims {
		t.Shape[i] = dim(i, d)
	}
	return t, nil
}

// plainDim keeps numbers and names and leaves the rest unknown: for types inside
// attributes and of the inputs of bodies.
func plainDim(_ int, d *onnxwire.Dim) ssa.Dim {
	switch {
	case d == nil:
	case d.Kind == onnxwire.DimValue && d.Value >= 0:
		return ssa.D(d.Value)
	case d.Kind == onnxwire.DimParam && d.Param != "" && d.Param != "?":
		return ssa.Sym(d.Param)
	}
	return ssa.Dim{}
}

// symbols makes dimensions of the model's inputs: a number is itself, 0 too, as ONNX
// Runtime has it; a name is a symbol whatever its text looks like, and everything else
// (nothing, "?", -1) is a length that only a caller knows: a symbol of its own, "input.axis".
type symbols struct{ taken map[string]bool }

// newSymbols reserves every name that an input uses for a dimension.
func newSymbols(ctx context.Context, inputs []*onnxwire.ValueInfo) *symbols {
	s := &symbols{taken: map[string]bool{}}
	for _, in := range inputs {
		if ctx.Err() != nil {
			break // as the reader of the inputs sees
		}
		t, _ := typeOf(in.Type, plainDim) // an error is reported where the input is made
		for e := &t; e != nil; e = e.Elem {
			for _, d := range e.Shape {
				if name, ok := d.SymbolName(); ok {
					s.taken[name] = true
				}
			}
		}
	}
	return s
}

// dimsOf returns the conversion for one input.
func (s *symbols) dimsOf(input string) func(int, *onnxwire.Dim) ssa.Dim {
	return func(axis int, d *onnxwire.Dim) ssa.Dim {
		if known := plainDim(axis, d); known.Known() {
			return known
		}
		name := fmt.Sprintf("%s.%d", input, axis)
		for s.taken[name] {
			name += "_"
		}
		s.taken[name] = true
		return ssa.Sym(name)
	}
}
