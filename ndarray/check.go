package ndarray

import (
	"context"
	"fmt"

	"github.com/berth-onnx/berth/internal/rescue"
)

// Values of callers are walked within limits: nothing keeps a sequence from being a member of itself, or one value from
// being both members of a sequence that is both members of another one.
const (
	maxNesting  = 64
	maxMembers  = 1 << 24
	memberBytes = 128 // about what a value takes beside its elements
	lookMembers = 1 << 10
)

// ValueError says why a value can not be one of a model.
type ValueError struct{ Got string }

// Error describes the value.
func (e *ValueError) Error() string { return "the value is " + e.Got }

// CheckValue reports, with a [*ValueError], a value that no operator can read: nil members, arrays that [Array.Check]
// refuses, maps and sparse tensors whose parts do not fit each other, values nested deeper than 64 levels, as those that
// hold themselves are, and those of more than 2^24 members. A context that ends is its error.
func CheckValue(ctx context.Context, v Value) (err error) {
	defer rescue.Into(&err)
	return (&walk{ctx: orBackground(ctx), strict: true}).value(v, 0)
}

// orBackground is a context that never ends in place of none.
func orBackground(ctx context.Context) context.Context {
	if ctx == nil {
		return context.Background()
	}
	return ctx
}

// walk goes through a value and adds up what a copy of it takes.
type walk struct {
	ctx     context.Context
	strict  bool // the value is checked, not measured alone
	members int
	bytes   int64
}

func (w *walk) value(v Value, depth int) error {
	if w.members++; w.members%lookMembers == 0 && w.ctx.Err() != nil {
		return w.ctx.Err()
	}
	switch {
	case depth > maxNesting:
		return &ValueError{fmt.Sprintf("nested deeper than %d levels; it may hold itself", maxNesting)}
	case w.members > maxMembers:
		return &ValueError{fmt.Sprintf("one of more than %d members", maxMembers)}
	}
	w.bytes += memberBytes
	switch x := v.(type) {
	case *Array:
		if x != nil {
			return w.array(x)
		}
	case *Sequence:
		if x != nil {
			return w.items(x.Items, depth)
		}
	case *Optional:
		if x != nil && x.Value == nil {
			return nil
		} else if x != nil {
			return w.value(x.Value, depth+1)
		}
	case *Map:
		if x != nil {
			return w.parts(depth, mapProblem(x), x.Keys, x.Values)
		}
	case *Sparse:
		if x != nil {
			return w.parts(depth, sparseProblem(x), x.Values, x.Indices)
		}
	default: // nothing, or of a package that keeps values elsewhere
		return w.refuse(Describe(v))
	}
	return w.refuse(fmt.Sprintf("a nil %T", v))
}

// refuse is the error of a value that is checked.
func (w *walk) refuse(got string) error {
	if !w.strict || got == "" {
		return nil
	}
	return &ValueError{got}
}

func (w *walk) array(a *Array) error {
	w.bytes += int64(len(a.Data) + len(a.Str)*String.Size())
	if !w.strict {
		return nil
	}
	if err := a.Check(); err != nil {
		return w.refuse(err.Error())
	}
	return nil
}

func (w *walk) items(items []Value, depth int) error {
	for i, it := range items {
		if err := w.value(it, depth+1); err != nil {
			if bad, ok := err.(*ValueError); ok && depth == 0 {
				bad.Got = fmt.Sprintf("a sequence whose member %d is %s", i, bad.Got)
			}
			return err
		}
	}
	return nil
}

// parts walks the parts of a map or sparse tensor, which has a problem unless that is "".
func (w *walk) parts(depth int, problem string, of ...Value) error {
	if err := w.refuse(problem); err != nil {
		return err
	}
	for _, v := range of {
		if err := w.value(v, depth+1); err != nil {
			return err
		}
	}
	return nil
}

func mapProblem(m *Map) string {
	if m.Keys == nil || m.Keys.DType != String && !m.Keys.DType.IsInteger() || len(m.Keys.Shape) != 1 {
		return "a map whose keys are no list of integers or strings"
	}
	n := -1
	switch x := m.Values.(type) {
	case *Array:
		if x != nil && len(x.Shape) == 1 {
			n = x.Shape[0]
		}
	case *Sequence:
		if x != nil {
			n = len(x.Items)
		}
	}
	if n != m.Keys.Shape[0] {
		return fmt.Sprintf("a map of %d keys whose values are no list of as many", m.Keys.Shape[0])
	}
	return ""
}

func sparseProblem(s *Sparse) string {
	_, err := NumElems(s.Shape)
	v, at := s.Values, s.Indices
	if err != nil || v == nil || at == nil || at.DType != Int64 || len(v.Shape) != 1 || len(at.Shape) == 0 || at.Shape[0] != v.Shape[0] ||
		len(at.Shape) > 2 || len(at.Shape) == 2 && at.Shape[1] != len(s.Shape) {
		return fmt.Sprintf("a sparse tensor of shape %v without a list of values and an int64 index for each", s.Shape)
	}
	return ""
}
