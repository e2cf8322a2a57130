package expr

import (
	"fmt"
	"math"
	"slices"

	"github.com/berth-onnx/berth/ndarray"
)

// Elem are the Go types of elements: numbers, booleans, and the half types [berth.Float16] and
// [berth.BFloat16]. Complex elements are refused when they are computed with.
type Elem = ndarray.Elem

// Value is what an expression reads: an LValue, which has memory (a [Tensor], or a window of one), or
// an RValue, which is computed when it is read (an [Expr]). Only this package implements it.
type Value[T Elem] interface {
	// Shape is a copy of the dimensions, outermost first; nil for a scalar.
	Shape() []int
	operand(T) *node
}

// Expr is an RValue: an expression over other values. Making one computes nothing; [Assign] does.
// Expressions never change, and may be read by several others and at the same time. The zero value is
// an operand that every operator refuses.
type Expr[T Elem] struct{ n *node }

// Shape is a copy of the dimensions, outermost first.
func (e Expr[T]) Shape() []int { return slices.Clone(e.operand(*new(T)).shape) }

// Err is what is wrong with the expression, nil if nothing is; assignments report it too.
func (e Expr[T]) Err() error { return e.operand(*new(T)).err }

func (e Expr[T]) operand(T) *node {
	if e.n == nil {
		return failed(errNilValue)
	}
	return e.n
}

// nodeOf is the node of a value, which may be nil.
func nodeOf[T Elem](v Value[T]) *node {
	if v == nil {
		return failed(errNilValue)
	}
	return v.operand(*new(T))
}

// optional is the node of a value, nil for nil.
func optional[T Elem](v Value[T]) *node {
	if v == nil {
		return nil
	}
	return nodeOf(v)
}

func dtypeOf[T Elem]() ndarray.DType { return ndarray.DTypeOf(*new(T)) }

// Num is a scalar constant, rounded to an element type of floats; a number that an integer type does not have is an error. It is part of
// what is compiled: a number that changes from one assignment to the next should be a [Tensor] without dimensions.
func Num[T Elem](v float64) Expr[T] {
	a := ndarray.Must(dtypeOf[T]())
	if a.DType.IsFloat() || math.Abs(v) >= 1<<53 {
		a.SetFloat(0, v)
	} else {
		a.SetInt(0, int64(v))
	}
	if a.DType == ndarray.Bool {
		a.SetFloat(0, v)
	} else if !a.DType.IsFloat() && a.Float(0) != v {
		return Expr[T]{failed(&TypeError{"Num", fmt.Sprintf("%v is no number of %s", v, a.DType), nil})}
	}
	return Expr[T]{constant(a)}
}
