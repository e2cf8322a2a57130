package berth

import (
	"context"
	"fmt"
	"maps"
	"runtime/debug"
	"slices"

	"github.com/berth-onnx/berth/internal/program"
	"github.com/berth-onnx/berth/internal/rescue"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ssa"
)

// RunInto is [Program.RunValues] with the results copied into buffers of the caller's, by name;
// results without a buffer are dropped. It allocates nothing for values whose size is known.
//
// The buffer of a result of known shape has that shape. Any other needs room, the capacity of
// its data, and is given the shape of the result. A buffer may be the memory of an input, as of
// a state that is updated, but not of another buffer, nor memory of the session, in which it has results of known size. Buffers that
// do not fit are an [*OutputError], before the run wherever that can be told. Where a device has no room for a session it waits as
// RunValues does; a run that lacks memory for its operands fails, for a second one could read what the first has written.
func (p *Program) RunInto(ctx context.Context, inputs map[string]ndarray.Value, buffers map[string]*ndarray.Array) (err error) {
	defer rescue.Into(&err)
	if !p.made() {
		return errUnmade
	}
	if err := p.checkBegin(inputs); err != nil {
		return err
	}
	if p.room != nil { // a second attempt could read what the first has written
		return p.room.run(ctx, p, false, func(s *Session) error { return s.RunInto(ctx, inputs, buffers) })
	}
	s, err := p.idleSession(ctx)
	if err != nil {
		return err
	}
	defer p.keepIdle(s)
	return s.RunInto(ctx, inputs, buffers)
}

// RunInto is [Session.RunValues] with the results copied into buffers of the caller's; see
// [Program.RunInto]. What the session keeps (see [Program.Caches]) has no buffer.
func (s *Session) RunInto(ctx context.Context, inputs map[string]ndarray.Value, buffers map[string]*ndarray.Array) error {
	if err := s.begin(1); err != nil {
		return err
	}
	defer s.end()
	defer clear(s.args)
	defer clear(s.into)
	if err := s.p.buffers(s.into, buffers); err != nil {
		return err
	}
	return rescue.WithCause(ctx, s.runInto(ctx, inputs))
}

// runInto runs while the files are watched, as [Session.guarded] does; it allocates nothing.
func (s *Session) runInto(ctx context.Context, inputs map[string]ndarray.Value) (err error) {
	defer s.p.life.guard(debug.SetPanicOnFault(true), &err)
	if ctx == nil {
		return errNilContext
	}
	if err := s.p.arguments(s.args, inputs); err != nil {
		return err
	}
	if err := s.notStale(s.args); err != nil {
		return err
	}
	return s.s.RunInto(ctx, s.args, s.into)
}

// buffers orders buffers as the model's outputs.
func (p *Program) buffers(into []*ndarray.Array, buffers map[string]*ndarray.Array) error {
	known := 0
	for i, name := range p.outputs {
		a, ok := buffers[name]
		if ok && a == nil {
			return &OutputError{Name: name, Want: program.BufferOf(p.prog.Graph.Results[i].Type), Got: "nil"}
		}
		if into[i] = a; ok {
			known++
		}
	}
	if known == len(buffers) {
		return nil
	}
	for _, name := range slices.Sorted(maps.Keys(buffers)) {
		if !slices.Contains(p.outputs, name) {
			return &OutputError{Name: name, Want: "for one of " + program.Listed(p.outputs), Got: "an unknown name"}
		}
	}
	return nil
}

// checkInputs compares inputs with what the model declares, before it is compiled for them. Caches and states that are declared may
// be left out.
func (m *Model) checkInputs(ctx context.Context, c *config, inputs map[string]ndarray.Value) error {
	params := m.module.Graph.Params
	dims := map[string]dimOf{}
	var absent *ssa.Value
	for _, prm := range params {
		v, given := inputs[prm.Name]
		if !given {
			if absent == nil && m.module.Defaults[prm.Name] == nil && prm.Type.Kind != ssa.KindOptional {
				absent = prm
			}
			continue
		}
		if err := program.CheckInput(ctx, prm.Name, prm.Type, v); err != nil {
			return err
		}
		if err := checkSymbols(prm, v, dims); err != nil {
			return err
		}
	}
	if absent != nil && len(c.states)+len(c.bounds) == 0 {
		return missing(absent, params, inputs)
	}
	return checkNames(params, inputs)
}

// missing is the error of an input that was not given, or of a name in its place that was misspelled, most likely.
func missing(prm *ssa.Value, params []*ssa.Value, inputs map[string]ndarray.Value) error {
	if err := checkNames(params, inputs); err != nil {
		return err
	}
	return &InputError{Name: prm.Name, Want: prm.Type.String(), Got: "nothing; the inputs are " + program.Ports(params)}
}

// dimOf is the length of a symbolic dimension, and the input that has it.
type dimOf struct {
	n     int
	input string
}

// checkSymbols reports a symbolic dimension that is not as long as in an input before.
func checkSymbols(prm *ssa.Value, v ndarray.Value, dims map[string]dimOf) error {
	a, ok := v.(*ndarray.Array)
	if !ok || !prm.Type.Ranked {
		return nil
	}
	for i, d := range prm.Type.Shape {
		symbol, ok := d.SymbolName()
		if !ok {
			continue
		}
		old, seen := dims[symbol]
		if seen && old.n != a.Shape[i] {
			return &InputError{Name: prm.Name, Want: fmt.Sprintf("%s with %s = %d as in input %q", prm.Type, symbol, old.n, old.input), Got: a.String()}
		}
		dims[symbol] = dimOf{a.Shape[i], prm.Name}
	}
	return nil
}

// checkNames reports an input that the model does not have.
func checkNames(params []*ssa.Value, inputs map[string]ndarray.Value) error {
	known := 0
	for _, v := range params {
		if _, given := inputs[v.Name]; given {
			known++
		}
	}
	if known == len(inputs) {
		return nil
	}
	for _, name := range slices.Sorted(maps.Keys(inputs)) {
		if !slices.ContainsFunc(params, func(v *ssa.Value) bool { return v.Name == name }) {
			return &InputError{Name: name, Want: "one of " + program.Ports(params), Got: "an unknown name"}
		}
	}
	return nil
}
