package gradient

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/berth-onnx/berth/internal/rescue"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ssa"
)

// Weight is a constant that something reads in a graph or in its bodies. A body that reads a constant of a graph around it has a
// copy of it, a value of the same name and [ssa.Constant], which is the same weight; values of one name with constants of their
// own, in sibling bodies, are several.
type Weight struct {
	// Name is that of the values. Where several weights have it, those of bodies have the way to them ahead: for each body the first
	// result of its node and the body's attribute, as in "y.else_branch.w".
	Name   string
	Const  *ssa.Constant
	Values []*ssa.Value // from the outside in
}

// Weights lists the constants of a graph and its bodies, from the outside in. The error is that of [ssa.Check] or of the context.
func Weights(ctx context.Context, g *ssa.Graph) (_ []*Weight, err error) {
	defer rescue.Into(&err)
	if ctx == nil || g == nil {
		return nil, errors.New("a list of weights needs a context and a graph")
	}
	if err := ssa.Check(g); err != nil {
		return nil, err
	}
	l := weightList{ctx: ctx, at: map[weightKey]*Weight{}, count: map[string]int{}, way: map[*Weight]string{}}
	l.add(g, "")
	if err := ctx.Err(); err != nil {
		return nil, rescue.WithCause(ctx, err)
	}
	for _, w := range l.list {
		if l.count[w.Name] > 1 {
			w.Name = l.way[w] + w.Name
		}
	}
	return l.list, nil
}

// weightKey tells weights from each other.
type weightKey struct {
	name string
	of   *ssa.Constant
}

// weightList collects weights.
type weightList struct {
	ctx   context.Context
	list  []*Weight
	at    map[weightKey]*Weight
	count map[string]int     // weights by name
	way   map[*Weight]string // to the first value, "" in the outermost graph
}

// add lists the weights of a graph and of its bodies.
func (l *weightList) add(g *ssa.Graph, way string) {
	for i, v := range g.Values() {
		if ended(l.ctx, i) {
			return
		}
		if v.Const == nil || len(v.Uses()) == 0 && !g.IsResult(v) {
			continue
		}
		key := weightKey{v.Name, v.Const}
		w := l.at[key]
		if w == nil {
			w = &Weight{Name: v.Name, Const: v.Const}
			l.at[key], l.way[w] = w, way
			l.list = append(l.list, w)
			l.count[v.Name]++
		}
		w.Values = append(w.Values, v)
	}
	for i, n := range g.Nodes {
		if ended(l.ctx, i) {
			return
		}
		for k, body := range n.Bodies {
			l.add(body, way+nodeName(n)+"."+n.BodyAttr[k]+".")
		}
	}
}

// nodeName is the name of a node's first result, or of the node where it has none.
func nodeName(n *ssa.Node) string {
	for _, v := range n.Out {
		if v != nil {
			return v.Name
		}
	}
	return n.Name
}

// Promote turns weights, some of [Weights], into parameters of the graph behind those that it has, captured by the bodies that
// read them, so that derivatives by them exist and values can be given. It returns the parameters in the order of the
// weights, with their names. After an error of the context the graph may hold a part of the changes.
func Promote(ctx context.Context, g *ssa.Graph, weights ...*Weight) (params []*ssa.Value, err error) {
	defer rescue.Into(&err)
	if ctx == nil || g == nil || slices.Contains(weights, nil) {
		return nil, errors.New("weights are promoted with a context and in a graph")
	}
	if err := ssa.Check(g); err != nil {
		return nil, err
	}
	p := promotion{ctx: ctx, of: map[*ssa.Value]int{}, inside: map[*ssa.Node][]int{}}
	for i, w := range weights {
		if w.Const == nil || w.Const.DType() == ndarray.String {
			return nil, fmt.Errorf("weight %q is no constant, or it holds strings", w.Name)
		}
		for _, v := range w.Values {
			if _, twice := p.of[v]; twice || v == nil || v.Const != w.Const {
				return nil, fmt.Errorf("weight %q is given twice, or has other values than its own", w.Name)
			}
			p.of[v] = i
		}
	}
	if found := len(p.held(g)); found < len(weights) && ctx.Err() == nil {
		return nil, fmt.Errorf("the graph holds %d of the %d weights", found, len(weights))
	}
	given := make(map[int]*ssa.Value, len(weights))
	for i, w := range weights {
		given[i] = g.AddParam(w.Name, w.Const.Type())
		params = append(params, given[i])
	}
	p.replace(g, given)
	return params, rescue.WithCause(ctx, ctx.Err())
}

// promotion lets a graph and its bodies read parameters in the place of weights, which it knows by their numbers.
type promotion struct {
	ctx    context.Context
	of     map[*ssa.Value]int
	inside map[*ssa.Node][]int // what bodies of a node hold, in order
}

// held lists what a graph and its bodies hold, in order.
func (p *promotion) held(g *ssa.Graph) (list []int) {
	for i, v := range g.Values() {
		if ended(p.ctx, i) {
			return nil
		}
		if k, is := p.of[v]; is {
			list = append(list, k)
		}
	}
	for _, n := range g.Nodes {
		var inside []int
		for _, body := range n.Bodies {
			inside = append(inside, p.held(body)...)
		}
		if inside != nil {
			slices.Sort(inside)
			p.inside[n] = slices.Compact(inside)
			list = append(list, p.inside[n]...)
		}
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// replace lets a graph read parameters in the place of the weights with their numbers. Other constants of a body give way where
// they have the name of one.
func (p *promotion) replace(g *ssa.Graph, params map[int]*ssa.Value) {
	names, values := make(map[string]bool, len(params)), g.Values()
	for _, v := range params {
		names[v.Name] = true
	}
	for i, v := range values[:len(values):len(values)] {
		if ended(p.ctx, i) {
			return
		}
		if k, is := p.of[v]; is {
			v.Name += " as it was"
			g.ReplaceUses(v, params[k])
		} else if v.Const != nil && names[v.Name] {
			v.Name += " of its own"
		}
	}
	for _, n := range g.Nodes {
		inside := p.inside[n]
		if inside == nil {
			continue
		}
		for _, body := range n.Bodies {
			given := make(map[int]*ssa.Value, len(inside))
			for _, k := range inside {
				given[k] = body.AddParam(params[k].Name, params[k].Type)
			}
			p.replace(body, given)
		}
		for _, k := range inside {
			n.AddInput(params[k])
			n.Captures++
		}
	}
}
