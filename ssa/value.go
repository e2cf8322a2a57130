package ssa

import (
	"context"
	"fmt"

	"github.com/berth-onnx/berth/internal/rescue"
	"github.com/berth-onnx/berth/ndarray"
)

// CheckValue reports, with a [*ndarray.ValueError], a value that is not of the type: kind, element type, rank, known dimensions, and
// whatever [ndarray.CheckValue] refuses. Nil is a value of an optional. A context that ends is its error.
func (t Type) CheckValue(ctx context.Context, v ndarray.Value) (err error) {
	defer rescue.Into(&err)
	a, isArray := v.(*ndarray.Array)
	if isArray = isArray && a != nil; v != nil && !isArray {
		if err := ndarray.CheckValue(ctx, v); err != nil {
			return err
		}
	}
	if got := t.mismatch(ctx, v); got != "" {
		return &ndarray.ValueError{Got: got}
	}
	if isArray {
		if err := a.Check(); err != nil {
			return &ndarray.ValueError{Got: err.Error()}
		}
	}
	if ctx != nil {
		return ctx.Err()
	}
	return nil
}

// lookItems is how many members of a sequence are visited between two looks at a context.
const lookItems = 1 << 10

// mismatch describes a sound value that is not of a type; "" if it is, or if the context ends first.
func (t Type) mismatch(ctx context.Context, v ndarray.Value) string {
	ok := true
	switch x := v.(type) {
	case *ndarray.Array:
		if t.Kind == KindOptional && t.Elem != nil {
			return t.Elem.mismatch(ctx, v)
		}
		ok = (t.Kind == KindUnknown || t.Kind == KindTensor && x.DType == t.DType) && t.Fits(x.Shape)
	case *ndarray.Sequence:
		if t.Kind == KindSequence && t.Elem != nil {
			return t.Elem.mismatchItem(ctx, x)
		}
		ok = t.Kind == KindSequence || t.Kind == KindOptional
	case *ndarray.Optional:
		if ok = t.Kind == KindOptional; ok && x.Value != nil && t.Elem != nil {
			return t.Elem.mismatch(ctx, x.Value)
		}
	case *ndarray.Map:
		ok = t.Kind == KindMap
	case *ndarray.Sparse:
		ok = t.Kind == KindSparse
	case nil:
		ok = t.Kind == KindOptional
	default: // of a package that keeps values elsewhere
		return ndarray.Describe(v)
	}
	if ok || t.Kind == KindUnknown && v != nil {
		return ""
	}
	return ndarray.Describe(v)
}

// mismatchItem describes the first member of a sequence that is not of a type.
func (t Type) mismatchItem(ctx context.Context, s *ndarray.Sequence) string {
	for i, item := range s.Items {
		if i%lookItems == 0 && ctx != nil && ctx.Err() != nil {
			return ""
		}
		if got := t.mismatch(ctx, item); got != "" {
			return fmt.Sprintf("a sequence whose member %d is %s", i, got)
		}
	}
	return ""
}
