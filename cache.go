package berth

import (
	"fmt"
	"maps"
	"slices"

	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/program"
	"github.com/berth-onnx/berth/ssa"
)

// Cache names an input that a session can keep from run to run, and the result that
// continues it.
type Cache struct {
	Input, Output string
	Symbol        string // the dimension that grows
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
// by [WithBound]. Other inputs, past keys of attention nodes among them, are handed
// over with every run.
func (p *Program) Caches() []Cache {
	var out []Cache
	for _, c := range p.prog.Caches() {
		out = append(out, Cache{p.prog.Graph.Params[c.Param].Name, p.outputs[c.Result], c.Symbol, c.Bound, c.Bytes})
	}
	return out
}

func (p *Program) isCache(param int) bool {
	return slices.ContainsFunc(p.prog.Caches(), func(c program.Cache) bool { return c.Param == param })
}

// handedOver reports a cache that is missing where no session keeps it.
func (p *Program) handedOver(inputs map[string]ndarray.Value) error {
	for _, c := range p.prog.Caches() {
		prm := p.prog.Graph.Params[c.Param]
		if inputs[prm.Name] == nil && p.defaults[prm.Name] == nil {
			return &program.InputError{Name: prm.Name, Want: prm.Type.String(), Got: "nothing; only a session keeps caches"}
		}
	}
	return nil
}

// Reset empties the caches that the session keeps: the next run begins anew.
func (s *Session) Reset() { s.s.Reset() }

// Cache returns a copy of what the session keeps for an input.
func (s *Session) Cache(input string) (*ndarray.Array, error) {
	i, err := s.p.cache(input)
	if err != nil {
		return nil, err
	}
	return s.s.CacheCopy(i)
}

// SetCache lets the session keep a copy of an array for an input in place of what it
// keeps, to go on from what [Session.Cache] returned, say. An array that does not
// fit is an error ([InputError], [CacheError]) and changes nothing.
func (s *Session) SetCache(input string, a *ndarray.Array) error {
	i, err := s.p.cache(input)
	if err != nil {
		return err
	}
	return s.s.SetCache(i, a)
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

// checkBounds reports bounds that can not be meant.
func (m *Model) checkBounds(bounds map[string]int64) error {
	for _, symbol := range slices.Sorted(maps.Keys(bounds)) {
		if bounds[symbol] < 1 {
			return fmt.Errorf("dimension %q is bounded by %d; a bound must be at least 1", symbol, bounds[symbol])
		}
		named := func(d ssa.Dim) bool { s, ok := d.SymbolName(); return ok && s == symbol }
		if !slices.ContainsFunc(m.module.Graph.Params, func(v *ssa.Value) bool { return slices.ContainsFunc(v.Type.Shape, named) }) {
			return fmt.Errorf("no input has a dimension %q to bound; the inputs are %s", symbol, portNames(m.module.Graph.Params))
		}
	}
	return nil
}
