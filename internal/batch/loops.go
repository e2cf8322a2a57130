package batch

import (
	"slices"

	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// A loop over parts is a loop of each part, if each node of its body has a rule. Carried values have one form in all iterations: that of what the body makes of
// them. Sums over the batch that a body carries, as the derivatives of weights, are sums of the parts: the first begins with zero, each other one with
// what the one before it has.

// bodyRecipe is how a body is computed in parts.
type bodyRecipe struct {
	analysis *analysis
	params   []form
	results  []form
}

// scan is a loop over slices.
func scan(a *analysis, n *ssa.Node, in []form) *recipe {
	s, err := ops.ScanOf(n)
	if err != nil {
		return nil
	}
	params := slices.Clone(in)
	for i, axis64 := range s.InAxes {
		at := s.States + i
		axis, err := ops.NormAxis(axis64, len(dims(n, at)))
		if err != nil || params[at].isSplit() && params[at].axis == axis {
			return nil
		}
		if params[at].isSplit() && params[at].axis > axis {
			params[at].axis--
		}
	}
	r := a.loopBody(n, s.Body, params, 0, s.States, 0)
	if r == nil {
		return nil
	}
	for i, axis64 := range s.OutAxes {
		f := r.body.results[s.States+i]
		v := s.Body.Results[s.States+i]
		axis, err := ops.NormAxis(axis64, v.Type.Rank()+1)
		if err != nil {
			return nil
		}
		r.out = append(r.out, stacked(f, axis))
	}
	r.out = r.out[:len(n.Out)]
	return r
}

// stacked is the form of a body's results in one tensor.
func stacked(f form, axis int) form {
	switch {
	case f.kind == whole:
		return form{kind: same}
	case f.isSplit() && f.axis >= axis:
		f.axis++
	}
	return f
}

// loop counts or asks a condition, which no part may decide.
func loop(a *analysis, n *ssa.Node, in []form) *recipe {
	s, err := ops.LoopOf(n)
	if err != nil || !in[0].isAll() || !in[1].isAll() {
		return nil
	}
	r := a.loopBody(n, s.Body, slices.Clone(in), 2, s.Carried, 1)
	if r == nil || r.body.results[0].kind != whole {
		return nil
	}
	for i := range s.Scans {
		r.out = append(r.out, stacked(r.body.results[1+s.Carried+i], 0))
	}
	r.out = r.out[:len(n.Out)]
	return r
}

// loopBody finds the forms of the values that a body carries: operands from position first on, results from another. The recipe's results are those of
// the carried values.
//
// What the body makes of a carried value is its form in the next iteration, so forms are looked for until they stay: first with values that may be sums
// where they are whole as yet, since a sum begins with a whole zero, then as they are.
func (a *analysis) loopBody(n *ssa.Node, body *ssa.Graph, params []form, first, carried, results int) *recipe {
	if isRandom(body) {
		return nil
	}
	for i := range params {
		switch params[i].kind {
		case sum:
			return nil
		case same:
			params[i] = form{}
		}
	}
	c := &carriedForms{node: n, body: body, params: params, first: first, count: carried, results: results, recipe: &recipe{}}
	lenient := true
	for range carried + 3 {
		b := a.bodyAnalysis(body, params, lenient)
		if b == nil {
			return nil
		}
		stay, ok := c.next(b)
		switch {
		case !ok:
			return nil
		case stay && !lenient:
			return c.finish(b)
		}
		lenient = !stay
	}
	return nil
}

// bodyAnalysis finds the forms of a body's values, given those of its parameters; nil where they have none.
func (a *analysis) bodyAnalysis(body *ssa.Graph, params []form, lenient bool) *analysis {
	b := &analysis{graph: body, parts: a.parts, inBody: true, lenient: lenient, forms: map[*ssa.Value]form{}, recipes: map[*ssa.Node]*recipe{}}
	for i, p := range body.Params[:min(len(params), len(body.Params))] {
		if isUnknown(p) && params[i].kind != whole {
			return nil
		}
		b.forms[p] = params[i]
	}
	if b.run(); b.err != nil {
		return nil
	}
	return b
}

// carriedForms are the forms of the values that a body carries, as far as they are known.
type carriedForms struct {
	node           *ssa.Node
	body           *ssa.Graph
	params         []form // of the body
	first, results int    // where carried values begin among parameters and results
	count          int
	recipe         *recipe
}

// next takes the forms of carried values from what a body makes of them. stay reports that none has changed; ok is false where one can not be its own next
// value.
func (c *carriedForms) next(b *analysis) (stay, ok bool) {
	stay = true
	for i := range c.count {
		at := c.first + i
		have, next := c.params[at], b.forms[c.body.Results[c.results+i]]
		switch {
		case have == next || have.isSplit() && next.kind == whole:
		case have.kind == whole && next.isSplit():
			if !b.fits(c.body.Params[at], next) {
				return false, false
			}
			c.params[at], stay = next, false
			c.recipe.withCut(at, next)
		case have.kind == whole && next.kind == sum && isZero(c.node.In[at]):
			c.params[at], stay = next, false
		default:
			return false, false
		}
	}
	return stay, true
}

// finish completes the recipe. Sums that a body only adds to go on from one part to the next.
func (c *carriedForms) finish(b *analysis) *recipe {
	r := c.recipe
	r.body = &bodyRecipe{analysis: b, params: c.params}
	for i, v := range c.body.Results {
		k := i - c.results
		if k < 0 || k >= c.count {
			r.body.results = append(r.body.results, b.forms[v])
			continue
		}
		f := c.params[c.first+k]
		r.body.results = append(r.body.results, f)
		if f.kind == sum && isOnlyAddedTo(c.body, c.body.Params[c.first+k], v) {
			if r.onto == nil {
				r.onto = map[int]int{}
			}
			r.onto[k] = c.first + k
		}
		if f.kind == whole {
			f.kind = same
		}
		r.out = append(r.out, f)
	}
	return r
}

// isRandom reports a body that draws numbers: each part would draw its own.
func isRandom(body *ssa.Graph) bool {
	random := false
	body.Walk(func(g *ssa.Graph) {
		for _, n := range g.Nodes {
			if o := ops.Of(n); o == nil || o.Facts.Traits.Randomness != ops.Deterministic {
				random = true
			}
		}
	})
	return random
}

// isOnlyAddedTo reports that all a body does with a value is to add to it what becomes its next value. Then a part goes on with the sum of the parts
// before it, as memory of its own it does not take. A state that is scaled, or that something else reads, begins with zeros in each part:
//
//	s' = s + c                     Σ of all parts in one state
//	s' = 0.5·s + c,  t' = t + s    a state for each part, which are added up behind the loop
func isOnlyAddedTo(body *ssa.Graph, v, next *ssa.Value) bool {
	for !body.IsResult(v) {
		uses := v.Uses()
		if len(uses) != 1 || !isAddition(uses[0].Node, uses[0].Index) {
			return false
		}
		v = uses[0].Node.Out[0]
	}
	after := body.Results[slices.Index(body.Results, v)+1:]
	return v == next && len(v.Uses()) == 0 && !slices.Contains(after, v)
}

// isAddition reports a node whose result is an operand and what it adds.
func isAddition(n *ssa.Node, operand int) bool {
	switch {
	case n.Op == "Gemm" && n.Domain == "", n.Op == "Accumulate" && n.Domain == ops.Private:
		return operand == 2 && ops.Float(n, "beta") == 1
	case n.Domain != "":
		return false
	}
	return n.Op == "Add" || n.Op == "Sum" || n.Op == "Sub" && operand == 0
}

// isZero reports constants of zeros.
func isZero(v *ssa.Value) bool {
	if v == nil || v.Const == nil {
		return false
	}
	e, ok := v.Const.Splat()
	return ok && e.DType.IsFloat() && e.Float(0) == 0
}
