package layout

import (
	"context"
	"slices"

	"github.com/berth-onnx/berth/ssa"
)

// problem is the choice of layouts for one graph.
type problem struct {
	g     *ssa.Graph
	costs Costs
	block int
	force bool

	roles   []*role // by number of a node; nil for those that are always plain
	made    int     // roles
	flow    *network
	total   float64 // cost of all convolutions, plain
	base    float64 // cost of everything plain, in the network's terms
	blocked []bool  // of vertices, once solved

	last   [4]estimate // of convolutions whose costs were asked for last
	oldest int         // of them
}

// estimate is what a convolution costs, by the layouts of its image and its result.
type estimate struct {
	node *ssa.Node
	cost [2][2]float64
}

func newProblem(ctx context.Context, g *ssa.Graph, c Costs, force bool) (*problem, error) {
	p := &problem{g: g, costs: c, block: c.Block(), force: force, roles: make([]*role, g.NumNodeIDs()), flow: newNetwork()}
	convs := false
	for _, n := range g.Nodes {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if r := p.roleOf(n); r != nil {
			p.roles[n.ID] = r
			p.made++
			convs = convs || r.isConv
		}
	}
	if !convs {
		p.made = 0
		return p, nil
	}
	return p, p.meet(ctx)
}

// blockOf is the channels of a block of an image.
func (p *problem) blockOf(v *ssa.Value) int {
	if v.Type.DType.IsByte() {
		return channels(v)
	}
	return p.block
}

// variable makes a variable.
func (p *problem) variable() int { return p.flow.vertex() }

// charge makes a blocked variable cost more, or less, than a plain one.
func (p *problem) charge(v int, cost float64) {
	switch {
	case p.force:
		p.flow.edge(blockedSide, v, 1)
		p.base++
	case cost > 0:
		p.flow.edge(v, plainSide, cost)
	case cost < 0:
		p.flow.edge(blockedSide, v, -cost)
		p.base -= cost
	}
}

// layoutOf is the variable of a value's layout: the plain terminal for values that are always
// plain.
func (p *problem) layoutOf(v *ssa.Value) int {
	if v.Def != nil {
		if r := p.roles[v.Def.ID]; r != nil && r.out != 0 {
			return r.out
		}
	}
	return plainSide
}

// wanted is the variable of the layout that an operand is read in.
func (p *problem) wanted(u ssa.Use) int {
	r := p.roles[u.Node.ID]
	if r == nil {
		return plainSide
	}
	if r.residue && u.Index == 3 {
		return r.out
	}
	for _, i := range r.images {
		if i == u.Index {
			return r.in
		}
	}
	return plainSide
}

// meet adds the conversions: for each value one to the plain layout, paid if it is blocked and
// any reader wants it plain, and one to the blocked.
//
//	layout ──cost──▶ a ──∞──▶ every reader        any reader ──∞──▶ b ──cost──▶ layout
func (p *problem) meet(ctx context.Context) error {
	var readers []int
	edges := 0 // at most: a conversion each way, and an edge of every reader to each
	for _, v := range p.g.Values() {
		if v != nil && isImage(v) {
			edges += 2 + 2*len(v.Uses())
		}
	}
	p.flow.reserve(edges)
	for _, v := range p.g.Values() {
		if err := ctx.Err(); err != nil {
			return err
		}
		if v == nil || !isImage(v) || v.Def == nil && !v.IsParam() && v.Const == nil {
			continue
		}
		readers = readers[:0]
		layout := p.layoutOf(v)
		read := func(w int) {
			if w != layout {
				readers = append(readers, w)
			}
		}
		for _, u := range v.Uses() {
			read(p.wanted(u))
		}
		if p.g.IsResult(v) {
			read(plainSide)
		}
		if len(readers) > 0 {
			slices.Sort(readers)
			p.convert(v, layout, slices.Compact(readers))
		}
	}
	return nil
}

// convert adds the conversions of a value for readers that want it in other layouts than its own.
func (p *problem) convert(v *ssa.Value, layout int, readers []int) {
	cost := float64(conversionCost)
	if n, ok := elements(v); ok {
		cost += n * p.costs.Move()
	}
	if p.force {
		cost = 0
	}
	if layout != plainSide {
		a := p.variable()
		p.flow.edge(layout, a, cost)
		for _, w := range readers {
			p.flow.capacity(a, w, forbidden)
		}
	}
	b := p.variable()
	p.flow.edge(b, layout, cost)
	for _, w := range readers {
		if w != plainSide {
			p.flow.capacity(w, b, forbidden)
		}
	}
}

// solve finds the layouts; false if all stays plain.
func (p *problem) solve(ctx context.Context) (bool, error) {
	cost, blocked, err := p.flow.cut(ctx)
	p.blocked = blocked
	return p.base-float64(cost) > leastGain*p.total || p.force, err
}

// isBlocked reports that a variable is blocked.
func (p *problem) isBlocked(v int) bool { return v > plainSide && p.blocked[v] }
