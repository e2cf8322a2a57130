package program

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"unsafe"

	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ssa"
)

// OutputError reports a buffer of the caller's that can not take a result.
type OutputError struct {
	Name string
	Want string
	Got  string
}

// Error names the output, what its buffer must be and what it is.
func (e *OutputError) Error() string {
	return fmt.Sprintf("the buffer for output %q must be %s, got %s", e.Name, e.Want, e.Got)
}

// RunInto is Run with the results copied into buffers of the caller's, nil for results that are
// not wanted. The buffer of a result of known shape has that shape. Any other needs room, the
// capacity of its data, and is given the shape of the result. A buffer may be the memory of an
// input, but not of another buffer, nor memory of the session. Buffers that do not fit are an
// [*OutputError], before the run wherever that can be told.
func (s *Session) RunInto(ctx context.Context, inputs []ndarray.Value, buffers []*ndarray.Array) error {
	if len(buffers) != len(s.p.Main.Results) {
		return fmt.Errorf("the program has %d outputs, got %d buffers", len(s.p.Main.Results), len(buffers))
	}
	_, err := s.runAnd(ctx, inputs, false, buffers)
	return err
}

func (p *Program) outputName(i int) string {
	if i < len(p.outputs) {
		return p.outputs[i]
	}
	return p.Graph.Results[i].Name
}

// span is the memory of a buffer.
type span struct {
	lo, hi uintptr
	output int
}

// spanOf is the memory that a result of known size takes in a buffer, or may take else.
func spanOf(a *ndarray.Array, output int, known bool) span {
	lo, n := uintptr(unsafe.Pointer(unsafe.SliceData(a.Data))), cap(a.Data)
	if a.DType == ndarray.String {
		lo, n = uintptr(unsafe.Pointer(unsafe.SliceData(a.Str))), cap(a.Str)*ndarray.String.Size()
	}
	if known {
		n = a.Len() * a.DType.Size()
	}
	return span{lo, lo + uintptr(n), output}
}

// Target is memory of the caller's to which the result in the buffer of an output is copied after a run.
type Target struct {
	Output string
	Memory []byte
}

// targetsKey is the key of a context's targets.
type targetsKey struct{}

// WithTargets has [Session.RunInto] check targets beside its buffers; a nil context stays nil.
func WithTargets(ctx context.Context, t []Target) context.Context {
	if ctx == nil || len(t) == 0 {
		return ctx
	}
	return context.WithValue(ctx, targetsKey{}, t)
}

// checkTargets reports a target in memory of the session.
func (s *Session) checkTargets(ctx context.Context) error {
	if ctx == nil {
		return nil
	}
	targets, _ := ctx.Value(targetsKey{}).([]Target)
	for _, t := range targets {
		if inside, _ := s.intrudes(t.Memory); inside {
			return intruding(t.Output)
		}
	}
	return nil
}

func intruding(output string) *OutputError {
	return &OutputError{output, "memory of the caller's", "memory of the session, such as a result of its last run"}
}

// buffered reports that results of a type can have a buffer.
func buffered(t ssa.Type) bool { return t.Kind == ssa.KindTensor || t.Kind == ssa.KindUnknown }

// BufferOf is what the buffer of a result of a type must be.
func BufferOf(t ssa.Type) string {
	if !buffered(t) {
		return "left out: " + t.String() + " is no tensor"
	}
	return t.String()
}

// checkBuffers reports a buffer that does not fit what is known of its result, lies in memory of the
// session, where a result would overwrite another that is copied later, or shares memory with another one.
func (s *Session) checkBuffers(buffers []*ndarray.Array) error {
	s.spans = s.spans[:0]
	for i, a := range buffers {
		if a == nil {
			continue
		}
		t := s.p.Graph.Results[i].Type
		if !buffered(t) {
			return &OutputError{s.p.outputName(i), BufferOf(t), a.String()}
		}
		if t.IsStatic() {
			if err := CheckInput(context.Background(), "", t, a); err != nil {
				return &OutputError{s.p.outputName(i), t.String(), err.(*InputError).Got}
			}
		} else if t.Kind == ssa.KindTensor && a.DType != t.DType {
			return &OutputError{s.p.outputName(i), t.String(), a.String()}
		}
		if inside, _ := s.intrudes(a.Data[:cap(a.Data)]); inside {
			return intruding(s.p.outputName(i))
		}
		if m := spanOf(a, i, t.IsStatic()); m.lo < m.hi { // an empty one would hide that those beside it overlap
			s.spans = append(s.spans, m)
		}
	}
	s.order = s.order[:0]
	for i := range s.spans {
		s.order = append(s.order, i)
	}
	slices.SortFunc(s.order, func(i, j int) int { return cmp.Compare(s.spans[i].lo, s.spans[j].lo) })
	for k := range s.order[min(1, len(s.order)):] {
		if a, b := s.spans[s.order[k]], s.spans[s.order[k+1]]; b.lo < a.hi {
			return &OutputError{s.p.outputName(b.output), "memory of its own", fmt.Sprintf("memory of the buffer for output %q", s.p.outputName(a.output))}
		}
	}
	return nil
}

// copyTo copies results into the caller's buffers, if all of them have room. A result that is memory of an input, which
// may be the buffer of another result, is taken out first.
func (s *Session) copyTo(buffers []*ndarray.Array, results []ndarray.Value) error {
	for i, to := range buffers {
		if to == nil {
			continue
		}
		a, ok := results[i].(*ndarray.Array)
		if !ok || a == nil || a.DType != to.DType {
			return &OutputError{s.p.outputName(i), cmp.Or(s.keeps(i), ndarray.Describe(results[i])), to.String()}
		}
		if cap(to.Data) < len(a.Data) || cap(to.Str) < len(a.Str) {
			room := max(cap(to.Str), cap(to.Data)/to.DType.Size())
			return &OutputError{s.p.outputName(i), a.String(), fmt.Sprintf("a buffer that is too short: have room for %d elements, need %d", room, a.Len())}
		}
		if !s.inArena(a.Data) && s.inBuffers(spanOf(a, i, true)) {
			own, err := s.clone(a)
			if err != nil {
				return err
			}
			results[i] = own
		}
	}
	for i, to := range buffers {
		if to == nil {
			continue
		}
		a := results[i].(*ndarray.Array)
		to.Data, to.Str = to.Data[:len(a.Data)], to.Str[:len(a.Str)]
		if err := s.copyResult(to.Data, a.Data); err != nil {
			return err
		}
		copy(to.Str, a.Str)
		if !slices.Equal(to.Shape, a.Shape) {
			to.Shape = slices.Clone(a.Shape) // the old one may be that of another buffer or of an input, too
		}
	}
	return nil
}

// keeps says that the session keeps a result, "" if it does not.
func (s *Session) keeps(result int) string {
	if s.Keeps(result) {
		return "nil: the session keeps this result"
	}
	return ""
}

// inBuffers reports whether memory overlaps a buffer of another result.
func (s *Session) inBuffers(m span) bool {
	for _, b := range s.spans {
		if b.output != m.output && b.lo < m.hi && m.lo < b.hi {
			return true
		}
	}
	return false
}
