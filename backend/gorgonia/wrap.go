package gorgonia

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"gorgonia.org/tensor"

	"github.com/berth-onnx/berth"
	"github.com/berth-onnx/berth/backend/gorgonia/internal/dense"
	"github.com/berth-onnx/berth/internal/program"
	"github.com/berth-onnx/berth/internal/rescue"
	"github.com/berth-onnx/berth/ndarray"
)

// Tensors are values by name, inputs or results.
type Tensors = map[string]*tensor.Dense

// Model is a [berth.Model] that takes and gives tensors; everything else is that model's.
type Model struct{ *berth.Model }

// Program is a [berth.Program] that takes and gives tensors; everything else is that program's.
type Program struct{ *berth.Program }

// Session is a [berth.Session] that takes and gives tensors; everything else is that session's.
type Session struct{ *berth.Session }

// Wrap gives a model the API in tensors.
func Wrap(m *berth.Model) *Model { return &Model{m} }

// WrapProgram gives a program the API in tensors.
func WrapProgram(p *berth.Program) *Program { return &Program{p} }

// WrapSession gives a session the API in tensors.
func WrapSession(s *berth.Session) *Session { return &Session{s} }

// model is nil for a nil receiver, which the methods of a [berth.Model] report.
func (m *Model) model() *berth.Model {
	if m == nil {
		return nil
	}
	return m.Model
}

func (p *Program) program() *berth.Program {
	if p == nil {
		return nil
	}
	return p.Program
}

func (s *Session) session() *berth.Session {
	if s == nil {
		return nil
	}
	return s.Session
}

// Run is [berth.Model.RunValues]: it compiles the model for the shapes of the inputs, unless it did before, and runs it
// once. Inputs may be slices, transposed or column-major. The results are fresh tensors.
func (m *Model) Run(ctx context.Context, inputs Tensors, opts ...berth.Option) (Tensors, error) {
	return run(ctx, inputs, func(in values) (values, error) { return m.model().RunValues(ctx, in, opts...) })
}

// Compile is [berth.Model.Compile].
func (m *Model) Compile(ctx context.Context, opts ...berth.Option) (*Program, error) {
	p, err := m.model().Compile(ctx, opts...)
	if err != nil {
		return nil, err
	}
	return WrapProgram(p), nil
}

// Optimize is [berth.Model.Optimize].
func (m *Model) Optimize(ctx context.Context, opts ...berth.Option) (*Model, *berth.OptimizeReport, error) {
	o, r, err := m.model().Optimize(ctx, opts...)
	if err != nil {
		return nil, nil, err
	}
	return Wrap(o), r, nil
}

// Run is [berth.Program.RunValues]. The results are fresh tensors. Any number of runs may be in progress.
func (p *Program) Run(ctx context.Context, inputs Tensors) (Tensors, error) {
	return run(ctx, inputs, func(in values) (values, error) { return p.program().RunValues(ctx, in) })
}

// RunInto is [berth.Program.RunInto]: results are written into the caller's tensors, which may be slices, transposed or
// column-major. Those have the results' shapes; where a shape is known only after the run, a tensor of another one may have been
// written to when the error is returned. Tensors of one memory must be apart: one behind the other, or side by side as columns
// or blocks of columns of one matrix are. All others whose ranges of memory overlap are a [*berth.OutputError] before the run,
// and so are those over a result of the session's, and those that have one place for several elements.
func (p *Program) RunInto(ctx context.Context, inputs, buffers Tensors) error {
	return runInto(ctx, inputs, buffers, p.program().RunInto)
}

// NewSession is [berth.Program.NewSession].
func (p *Program) NewSession() (*Session, error) {
	return session(p.program().NewSession())
}

// NewSessionContext is [berth.Program.NewSessionContext].
func (p *Program) NewSessionContext(ctx context.Context) (*Session, error) {
	return session(p.program().NewSessionContext(ctx))
}

// NewSessionIn is [berth.Program.NewSessionIn].
func (p *Program) NewSessionIn(a *berth.Arena) (*Session, error) {
	return session(p.program().NewSessionIn(a))
}

// NewSessionInContext is [berth.Program.NewSessionInContext].
func (p *Program) NewSessionInContext(ctx context.Context, a *berth.Arena) (*Session, error) {
	return session(p.program().NewSessionInContext(ctx, a))
}

func session(s *berth.Session, err error) (*Session, error) {
	if err != nil {
		return nil, err
	}
	return WrapSession(s), nil
}

// Run is [berth.Session.RunValues]. The results are windows over the session's arena, valid until its next run.
func (s *Session) Run(ctx context.Context, inputs Tensors) (Tensors, error) {
	return run(ctx, inputs, func(in values) (values, error) { return s.session().RunValues(ctx, in) })
}

// RunInto is [berth.Session.RunInto], with buffers as in [Program.RunInto].
func (s *Session) RunInto(ctx context.Context, inputs, buffers Tensors) error {
	return runInto(ctx, inputs, buffers, s.session().RunInto)
}

// Observe is [berth.Session.Observe]: f is called after every step of later runs, with its results as windows over the
// arena, valid during the call only; nil for absent results and for those that are no tensors. A nil f ends that.
func (s *Session) Observe(f func(step berth.Step, results []*tensor.Dense)) {
	if f == nil {
		s.session().Observe(nil)
		return
	}
	s.session().Observe(func(step berth.Step, results []ndarray.Value) {
		out := make([]*tensor.Dense, len(results))
		for i, v := range results {
			out[i], _ = DenseOf(v)
		}
		f(step, out)
	})
}

type values = map[string]ndarray.Value

// run converts inputs and results.
func run(ctx context.Context, inputs Tensors, f func(values) (values, error)) (_ Tensors, err error) {
	defer rescue.Into(&err)
	in, err := valuesOf(ctx, inputs)
	if err != nil {
		return nil, err
	}
	out, err := f(in)
	if err != nil {
		return nil, err
	}
	res := make(Tensors, len(out))
	for _, name := range slices.Sorted(maps.Keys(out)) {
		if res[name], err = DenseOf(out[name]); err != nil {
			return nil, outputError(name, err)
		}
	}
	return res, nil
}

// valuesOf converts inputs. Of several errors, it returns that of the first name.
func valuesOf(ctx context.Context, in Tensors) (values, error) {
	out := make(values, len(in))
	for _, name := range slices.Sorted(maps.Keys(in)) {
		a, err := dense.ArrayOf(ctx, in[name])
		if err != nil {
			return nil, inputError(name, err)
		}
		out[name] = a
	}
	return out, nil
}

// inputError names the input whose tensor is no array; other errors, as those of the budget of memory, stay what they are.
func inputError(name string, err error) error {
	if wrong := (*DenseError)(nil); errors.As(err, &wrong) {
		return &berth.InputError{Name: name, Want: "a tensor", Got: err.Error()}
	}
	return fmt.Errorf("input %q: %w", name, err)
}

// outputError is inputError of a result, or of the buffer for it.
func outputError(name string, err error) error {
	if wrong := (*DenseError)(nil); errors.As(err, &wrong) {
		return &berth.OutputError{Name: name, Want: "a tensor", Got: err.Error()}
	}
	return fmt.Errorf("output %q: %w", name, err)
}

// runInto runs into the buffers' memory; into arrays that are copied to the buffers, where elements do not lie in
// row-major order. A session can not see where the latter will be copied to, and is told.
func runInto(ctx context.Context, inputs, buffers Tensors, f func(context.Context, values, map[string]*ndarray.Array) error) (err error) {
	defer rescue.Into(&err)
	in, err := valuesOf(ctx, inputs)
	if err != nil {
		return err
	}
	memory, err := memoryOf(buffers)
	if err != nil {
		return err
	}
	out := make(map[string]*ndarray.Array, len(buffers))
	var strided []func()
	var later []program.Target
	for _, name := range slices.Sorted(maps.Keys(memory)) {
		m := memory[name]
		if m.Contiguous() {
			out[name] = m.Array()
			continue
		}
		if out[name], err = ndarray.NewContext(ctx, ndarray.BudgetOf(ctx), m.DType, m.Shape...); err != nil {
			return outputError(name, err)
		}
		strided = append(strided, func() { m.Store(out[name]) })
		later = append(later, program.Target{Output: name, Memory: m.Extent()})
	}
	if err := f(program.WithTargets(ctx, later), in, out); err != nil {
		return err
	}
	return finish(buffers, out, strided)
}

// memoryOf finds where the elements of buffers lie, which is another place for each. Whether buffers meet whose elements lie in
// row-major order, the run looks itself.
func memoryOf(buffers Tensors) (map[string]*dense.Memory, error) {
	out := make(map[string]*dense.Memory, len(buffers))
	names := slices.Sorted(maps.Keys(buffers))
	var strided []string
	for i, name := range names {
		m, err := dense.MemoryOf(buffers[name])
		if err != nil {
			return nil, outputError(name, err)
		}
		if m.Shared() {
			return nil, &berth.OutputError{Name: name, Want: "a tensor with a place for each element", Got: fmt.Sprintf("one of shape %v with strides %v", m.Shape, m.Strides)}
		}
		others := strided
		if !m.Contiguous() {
			others, strided = names[:i], append(strided, name)
		}
		for _, other := range others {
			if m.Meets(out[other]) {
				return nil, &berth.OutputError{Name: name, Want: "memory of its own", Got: fmt.Sprintf("memory of the buffer for output %q", other)}
			}
		}
		out[name] = &m
	}
	return out, nil
}

// finish fills strided buffers, once all results are known to have the buffers' shapes.
func finish(buffers Tensors, out map[string]*ndarray.Array, strided []func()) error {
	for _, name := range slices.Sorted(maps.Keys(out)) {
		if want := []int(buffers[name].Shape()); !slices.Equal(out[name].Shape, want) {
			return &berth.OutputError{Name: name, Want: out[name].String(), Got: fmt.Sprintf("a tensor of shape %v", want)}
		}
	}
	for _, store := range strided {
		store()
	}
	return nil
}
