package program

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/berth-onnx/berth/alias"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// Caches between runs. A decoder takes the keys and values of the rows so far as an
// input, and appends to them:
//
//	present = Concat(past, new, axis=2)      past [N,H,P,D], present [N,H,P+S,D]
//
// Where a bound for P is declared, a session keeps such a cache itself, with memory
// for the bound in every slice, and a run writes the new rows only:
//
//	head 0   ■■■■■□□□□□□□       the stride of slices is the bound; P rows of each are used
//	head 1   ■■■■■□□□□□□□
//	          P ▲ the next rows
//
// past and present are then no arrays but strided windows of that memory (see
// strided.go); with a single slice they are ordinary arrays. Rows in use are never
// written again, so past stays readable beside present. The number of rows in use is
// raised when a run has succeeded, so a run that fails leaves the cache as it was.
//
// Only a result that is the whole concatenation continues a cache. Results that are cut
// afterwards (a sliding window), and past and present of attention nodes, whose kernels
// read contiguous arrays, are passed from run to run by the caller.

// Cache is an input that some result continues along one axis.
type Cache struct {
	Param, Result int    // positions among the program's parameters and results
	Axis          int    // grows from run to run
	Symbol        string // its length in the input's type
	Bound         int64  // rows along the axis at most
	Bytes         int64  // memory a session takes for it, once it is used

	name  string
	typ   string // the input's type
	dtype ndarray.DType
	shape []int // with 0 along the axis
}

// String names the input and the bound.
func (c Cache) String() string { return fmt.Sprintf("%s, at most %d rows", c.name, c.Bound) }

// findCaches lists the caches of a graph for declared bounds of dimensions.
func findCaches(g *ssa.Graph, bounds map[string]int64) []Cache {
	var out []Cache
	for k, r := range g.Results {
		n := alias.Identical(r).Def
		if n == nil || n.Op != "Concat" || n.Domain != "" || len(n.In) < 2 || n.In[0] == nil {
			continue
		}
		i := slices.Index(g.Params, alias.Identical(n.In[0]))
		if i < 0 || slices.ContainsFunc(out, func(c Cache) bool { return c.Param == i }) {
			continue
		}
		if c, ok := cacheOf(g.Params[i], concatAxis(n, g.Params[i].Type.Rank()), bounds); ok {
			c.Param, c.Result = i, k
			out = append(out, c)
		}
	}
	return out
}

// cacheOf is the cache for a parameter: the axis must be a symbol with a bound, all
// other dimensions must be known.
func cacheOf(p *ssa.Value, axis int, bounds map[string]int64) (c Cache, ok bool) {
	t := p.Type
	if axis < 0 || t.DType == ndarray.String {
		return c, false
	}
	c = Cache{Axis: axis, name: p.Name, typ: t.String(), dtype: t.DType, shape: make([]int, t.Rank())}
	full := make([]int, t.Rank())
	for i, d := range t.Shape {
		n, known := d.Const()
		if i == axis {
			if c.Symbol, ok = d.SymbolName(); !ok || bounds[c.Symbol] < 1 {
				return c, false
			}
			c.Bound = bounds[c.Symbol]
			full[i] = int(c.Bound)
			continue
		}
		if !known {
			return c, false
		}
		c.shape[i], full[i] = int(n), int(n)
	}
	n, err := ndarray.NumElems(append(full, t.DType.Size()))
	c.Bytes = int64(n)
	return c, err == nil
}

// markCaches finds the caches and the instructions that append to them.
func (c *compiler) markCaches() {
	g := c.p.Graph
	for _, k := range findCaches(g, c.opts.Bounds) {
		n := alias.Identical(g.Results[k.Result]).Def
		for j := range c.p.Main.Instrs {
			in := &c.p.Main.Instrs[j]
			if in.Node == n && in.Kind == Exec && in.Dynamic && !c.p.Slots[in.Out[0]].Static {
				c.p.caches = append(c.p.caches, k)
				in.cache = len(c.p.caches)
			}
		}
	}
	if len(c.p.caches) > 0 {
		c.p.products = newProducts(c.ctx, c.kernels)
	}
}

// slices is how many slices a cache has, rowBytes the bytes of a row in one.
func (c *Cache) slices() int { return ndarray.Product(c.shape[:c.Axis]) }

func (c *Cache) rowBytes() int { return ndarray.Product(c.shape[c.Axis+1:]) * c.dtype.Size() }

// check reports an array that can not be rows of the cache.
func (c *Cache) check(a *ndarray.Array) error {
	ok := a.DType == c.dtype && len(a.Shape) == len(c.shape)
	for d := range c.shape {
		ok = ok && (d == c.Axis || a.Shape[d] == c.shape[d])
	}
	if !ok {
		return &InputError{c.name, c.typ, a.String()}
	}
	return nil
}

// kept is a session's memory of a cache.
type kept struct {
	data   []byte
	rows   int  // in use after the last run
	grown  int  // in use when the present run is over
	active bool // the present run reads and grows it
}

// Caches lists what sessions of the program can keep from run to run.
func (p *Program) Caches() []Cache { return p.caches }

// Reset empties the caches that the session keeps, and gives states their first values.
func (s *Session) Reset() error {
	for i := range s.kept {
		s.kept[i].rows = 0
	}
	return s.resetStates()
}

// CacheRows is how many rows cache i of [Program.Caches] holds.
func (s *Session) CacheRows(i int) int { return s.kept[i].rows }

// State is [Session.CacheCopy] of a state, in the session's memory. Other caches have an error.
func (s *Session) State(i int) (*ndarray.Array, error) {
	k := i - len(s.kept)
	switch {
	case k < 0:
		return nil, errors.New("it is not a state")
	case s.states[k].torn:
		return nil, s.tornError(k)
	}
	return &ndarray.Array{DType: s.p.recurrent[k].dtype, Shape: s.p.recurrent[k].shape, Data: s.stateOf(k)}, nil
}

// CacheCopy returns what cache i holds, as fresh memory; numbers beyond the caches are those
// of states, of which a torn one is a [TornError].
func (s *Session) CacheCopy(i int) (*ndarray.Array, error) {
	if i >= len(s.kept) {
		a, err := s.State(i)
		if err != nil {
			return nil, err
		}
		return s.clone(a)
	}
	if err := s.openCache(i); err != nil {
		return nil, err
	}
	v := s.cacheValue(i, s.kept[i].rows)
	if w, ok := v.(*strided); ok {
		return s.whole(w)
	}
	return s.clone(v.(*ndarray.Array))
}

// SetCache puts rows into cache i in place of what it holds, or a copy of an array into a
// state. What does not fit is an [InputError], too many rows a [CacheError]; the cache is
// as it was then.
func (s *Session) SetCache(i int, a *ndarray.Array) error {
	if k := i - len(s.kept); k >= 0 {
		return s.setState(k, a)
	}
	c := &s.p.caches[i]
	if err := CheckInput(context.Background(), c.name, s.p.Slots[s.p.Main.Params[c.Param]].Value.Type, a); err != nil {
		return err
	}
	if err := s.openCache(i); err != nil {
		return err
	}
	n, err := s.writeRows(i, 0, a)
	if err == nil {
		s.kept[i].rows = n
	}
	return err
}

// openCache allocates the memory of a cache when it is first used.
func (s *Session) openCache(i int) error {
	c, k := &s.p.caches[i], &s.kept[i]
	if k.data != nil {
		return nil
	}
	data, err := newBytes("the cache "+c.name, int(c.Bytes), s.p.memory)
	k.data = data
	return err
}

// cacheValue is a cache's first rows.
func (s *Session) cacheValue(i, rows int) ndarray.Value {
	c := &s.p.caches[i]
	a := &ndarray.Array{DType: c.dtype, Shape: slices.Clone(c.shape)}
	a.Shape[c.Axis] = rows
	v := &strided{Array: a, of: c, data: s.kept[i].data}
	if c.slices() == 1 {
		a.Data = v.slice(0)
		return a
	}
	return v
}

// bindCaches gives the inputs that are left out what the session keeps. Caches
// along one dimension have one length, so they are left out together.
func (s *Session) bindCaches(inputs []ndarray.Value) error {
	for i := range s.p.caches {
		c, k := &s.p.caches[i], &s.kept[i]
		k.active, k.grown = inputs[c.Param] == nil, k.rows
		for j := range i {
			if o := &s.p.caches[j]; o.Symbol == c.Symbol && s.kept[j].active != k.active {
				return &InputError{c.name, fmt.Sprintf("left out or passed as %q is: both are %s long", o.name, c.Symbol), "the opposite"}
			}
		}
		if !k.active {
			continue
		}
		if err := s.openCache(i); err != nil {
			return err
		}
		s.vals[s.p.Main.Params[c.Param]] = s.cacheValue(i, k.rows)
	}
	return nil
}

// keepCaches ends a run that succeeded: the rows that it appended are in use now.
func (s *Session) keepCaches() {
	for i := range s.kept {
		if s.kept[i].active {
			s.kept[i].rows = s.kept[i].grown
		}
	}
}

// Keeps reports that a result continues a cache or state that the session kept in the last
// run: it is nil among the results.
func (s *Session) Keeps(result int) bool {
	for i := range s.kept {
		if s.p.caches[i].Result == result {
			return s.kept[i].active
		}
	}
	for i := range s.states {
		if s.p.recurrent[i].Result == result {
			return s.states[i].active
		}
	}
	return false
}

// CacheError reports a cache without room for the rows of a run.
type CacheError struct {
	Name        string // of the input
	Rows, Bound int
}

// Error names the input and the remedy.
func (e *CacheError) Error() string {
	return fmt.Sprintf("cache %q would hold %d rows, its bound is %d: declare a larger one, or reset the session", e.Name, e.Rows, e.Bound)
}

// Is makes the error an [ops.ErrInput]: the rows of this input are more than the cache has room for.
func (e *CacheError) Is(target error) bool { return target == ops.ErrInput }

// appendCache runs the concatenation that makes a cache longer; false if the cache
// is not the session's in this run.
func (s *Session) appendCache(in *Instr) (done bool, err error) {
	i := in.cache - 1
	c, k := &s.p.caches[i], &s.kept[i]
	if !k.active {
		return false, nil
	}
	at := k.rows
	for _, slot := range in.In[1:] {
		a, err := s.contiguous(slot)
		if err != nil {
			return false, err
		}
		if err := c.check(a); err != nil {
			return false, err
		}
		if at, err = s.writeRows(i, at, a); err != nil {
			return false, err
		}
	}
	k.grown = at
	s.vals[in.Out[0]] = s.cacheValue(i, at)
	return true, nil
}

// writeRows writes rows that fit into every slice of a cache, from a row on, and
// returns the row behind them.
func (s *Session) writeRows(i, at int, a *ndarray.Array) (end int, err error) {
	c := &s.p.caches[i]
	bound, n, row := int(c.Bound), a.Shape[c.Axis], c.rowBytes()
	if n > bound-at {
		return at, &CacheError{c.name, at + n, bound}
	}
	for o := range c.slices() {
		if err := s.copySlice(s.kept[i].data[(o*bound+at)*row:], a.Data[o*n*row:(o+1)*n*row], o); err != nil {
			return at, err
		}
	}
	return at + n, nil
}
