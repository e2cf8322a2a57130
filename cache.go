package berth

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/berth-onnx/berth/internal/program"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ssa"
)

// Cache names an input that a session can keep from run to run, and the result that
// continues it.
type Cache struct {
	Input, Output string
	Symbol        string // the dimension that grows; "" for a state, which has one size ([WithState])
	Bound         int64  // rows along it at most, as [WithBound] declared
	Bytes         int64  // memory a session takes for it when it is first used
}

// Caches lists the inputs that a session keeps where they are left out of a run
// (nil in [Session.Run]): each is what the run before left, empty at first, and a
// run writes only the rows that are new. The results that continue them are not
// delivered then; [Session.Cache] copies them. A run that fails leaves the caches as
// they were; one for which they have no room fails with a [CacheError].
// Caches along one dimension are left out together.
//
// A cache is an input whose dimensions are all known but one, along which a result
// of the model is Concat(input, new) and nothing else; that dimension needs a bound
// by [WithBound]. Other inputs, past keys of attention nodes among them, are
// passed to every run, unless they are of one size and declared by [WithState]: such a
// state is kept in two places that alternate, or in one ([WithStatesOverwritten]), and each state is left out or given independently.
func (p *Program) Caches() []Cache {
	if !p.made() {
		return nil
	}
	var out []Cache
	for _, c := range p.prog.Caches() {
		out = append(out, Cache{p.prog.Graph.Params[c.Param].Name, p.outputs[c.Result], c.Symbol, c.Bound, c.Bytes})
	}
	for _, c := range p.prog.States() {
		out = append(out, Cache{Input: p.prog.Graph.Params[c.Param].Name, Output: p.outputs[c.Result], Bytes: c.Bytes()})
	}
	return out
}

// isState reports whether an input is a declared state.
func (p *Program) isState(param int) bool {
	return slices.ContainsFunc(p.prog.States(), func(st program.State) bool { return st.Param == param })
}

func (p *Program) isCache(param int) bool {
	return p.isState(param) || slices.ContainsFunc(p.prog.Caches(), func(c program.Cache) bool { return c.Param == param })
}

// checkBegin reports what keeps a run from beginning before it has a session: a closed model, or a cache or state that is
// missing, which only a session of the caller's keeps.
func (p *Program) checkBegin(inputs map[string]ndarray.Value) error {
	if err := p.life.refusal(); err != nil {
		return err
	}
	for i, prm := range p.prog.Graph.Params {
		if inputs[prm.Name] == nil && p.isCache(i) && (p.isState(i) || p.defaults[prm.Name] == nil) {
			if err := checkNames(p.prog.Graph.Params, inputs); err != nil {
				return err
			}
			return &program.InputError{Name: prm.Name, Want: prm.Type.String(), Got: "nothing; only a session keeps caches and states"}
		}
	}
	return nil
}

// Reset empties the caches that the session keeps and gives states their first values: the
// next run begins anew. The errors are [ErrSessionInUse], [ErrClosed] and those of reading a first value again, behind which runs have
// a [TornError] until another reset.
func (s *Session) Reset() error { return s.alone(func() error { return s.s.Reset() }) }

// Cache returns a copy of what the session keeps for an input. A state that a failed run or reset has partly overwritten is a [TornError].
func (s *Session) Cache(input string) (a *ndarray.Array, err error) {
	if !s.made() {
		return nil, errUnmade
	}
	i, err := s.p.cache(input)
	if err != nil {
		return nil, err
	}
	err = s.alone(func() error {
		a, err = s.s.CacheCopy(i)
		return err
	})
	return a, err
}

// borrowState calls f with a state, in the session's memory.
func borrowState(session any, input string, f func(*ndarray.Array) error) error {
	s, ok := session.(*Session)
	if !ok || !s.made() {
		return errUnmade
	}
	i, err := s.p.cache(input)
	if err != nil {
		return err
	}
	return s.alone(func() error {
		a, err := s.s.State(i)
		if err != nil {
			return err
		}
		return f(a)
	})
}

// SetCache replaces what the session keeps for an input by a copy of an array, for example
// one that [Session.Cache] returned. An array of another type or shape, or with more rows
// than the bound, is an error ([InputError], [CacheError]) and changes nothing.
func (s *Session) SetCache(input string, a *ndarray.Array) error {
	if !s.made() {
		return errUnmade
	}
	i, err := s.p.cache(input)
	if err != nil {
		return err
	}
	return s.alone(func() error { return s.s.SetCache(i, a) })
}

// cache is the position of an input among the caches.
func (p *Program) cache(input string) (int, error) {
	known := []string{}
	for i, c := range p.Caches() {
		if c.Input == input {
			return i, nil
		}
		known = append(known, c.Input)
	}
	return 0, fmt.Errorf("a session keeps no input %q; it keeps %q", input, known)
}

// checkBounds reports bounds below 1 and those of unknown dimensions.
func (c *config) checkBounds(params []*ssa.Value) error {
	for _, symbol := range slices.Sorted(maps.Keys(c.bounds)) {
		if c.bounds[symbol] < 1 {
			return c.badBound(symbol, "a bound of at least 1")
		}
		named := func(d ssa.Dim) bool { s, ok := d.SymbolName(); return ok && s == symbol }
		if !slices.ContainsFunc(params, func(v *ssa.Value) bool { return slices.ContainsFunc(v.Type.Shape, named) }) {
			return c.badBound(symbol, "a dimension of an input; the inputs are "+program.Ports(params))
		}
	}
	return nil
}

func (c *config) badBound(symbol, want string) error {
	return &OptionError{Option: "WithBound", Got: fmt.Sprintf("%q, %d", symbol, c.bounds[symbol]), Want: want}
}

// checkFixed reports a dimension that the other options fix above its bound. Both lists are the inputs, bound those of fixed sizes.
func (c *config) checkFixed(params, bound []*ssa.Value) error {
	for i, v := range params {
		for axis, d := range v.Type.Shape {
			symbol, _ := d.SymbolName()
			most, bounded := c.bounds[symbol]
			if n, fixed := bound[i].Type.Shape[axis].Const(); bounded && fixed && n > most {
				return c.badBound(symbol, fmt.Sprintf("a bound of at least %d, which axis %d of input %q is fixed to, or another size there", n, axis, v.Name))
			}
		}
	}
	return nil
}

// statePair names the input and the result of a declared state.
type statePair struct{ input, result string }

// refused says why a state can not be kept.
func (s statePair) refused(err error) error {
	return &OptionError{Option: "WithState", Got: fmt.Sprintf("%q, %q", s.input, s.result), Err: err}
}

// refusedState names the option that declared a state that a program can not keep.
func (c *config) refusedState(err error) error {
	var bad *program.StateError
	if !errors.As(err, &bad) {
		return err
	}
	return c.states[slices.IndexFunc(c.states, func(s statePair) bool { return s.input == bad.Name })].refused(err)
}

// checkOptions reports options of compiling that do not fit the model, and returns the states that they declare.
func (m *Model) checkOptions(c *config) ([]program.State, error) {
	params := m.module.Graph.Params
	if err := cmp.Or(c.validateFor(params), c.checkBounds(params)); err != nil {
		return nil, err
	}
	return m.statesOf(c)
}

// statesOf finds declared states among inputs and results.
func (m *Model) statesOf(c *config) ([]program.State, error) {
	if c.overwrite != nil && len(c.states) == 0 {
		return nil, &OptionError{Option: "WithStatesOverwritten", Want: "a state to overwrite; WithState declares one"}
	}
	if len(c.states) == 0 {
		return nil, nil
	}
	inputs, results := firstNamed(m.Inputs()), firstNamed(m.Outputs())
	continued, continues := make([]bool, len(m.module.Graph.Params)), make([]bool, len(m.module.Graph.Results))
	var out []program.State
	for _, s := range c.states {
		in, isInput := inputs[s.input]
		res, isResult := results[s.result]
		switch {
		case !isInput:
			return nil, s.refused(fmt.Errorf("no input is called %q, to be a state; the inputs are %s", s.input, program.Ports(m.module.Graph.Params)))
		case !isResult:
			return nil, s.refused(fmt.Errorf("no result is called %q, to continue the state %q; the results are %s", s.result, s.input, program.Ports(m.module.Graph.Results)))
		case continued[in] || continues[res]:
			return nil, s.refused(errors.New("the input or the result is that of another state"))
		}
		continued[in], continues[res] = true, true
		out = append(out, program.State{Param: in, Result: res, Initial: m.module.Defaults[s.input], Overwrite: c.overwrite})
	}
	return out, nil
}

// firstNamed are the first positions of names.
func firstNamed(ports []Port) map[string]int {
	at := make(map[string]int, len(ports))
	for i, p := range slices.Backward(ports) {
		at[p.Name] = i
	}
	return at
}
