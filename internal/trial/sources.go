package trial

import (
	"slices"

	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// Sources says from which parameters of a graph the values of the graph and its bodies are computed.
type Sources struct {
	params []*ssa.Value
	from   map[*ssa.Value][]bool // by parameter; nil for what is the same in every run
}

// SourcesOf follows the parameters of a graph.
func SourcesOf(g *ssa.Graph) *Sources {
	s := &Sources{g.Params, map[*ssa.Value][]bool{}}
	for i, p := range g.Params {
		s.from[p] = make([]bool, len(g.Params))
		s.from[p][i] = true
	}
	s.graph(g)
	return s
}

// Fixed reports a value that is the same in every run.
func (s *Sources) Fixed(v *ssa.Value) bool { return s.from[v] == nil }

// Names lists the parameters that a value is computed from.
func (s *Sources) Names(v *ssa.Value) (names []string) {
	for i, from := range s.from[v] {
		if from {
			names = append(names, s.params[i].Name)
		}
	}
	return names
}

func (s *Sources) graph(g *ssa.Graph) {
	for _, n := range g.Nodes {
		all := s.union(n)
		for _, b := range n.Bodies {
			for _, p := range b.Params {
				s.from[p] = all
			}
			for i, v := range n.Captured() {
				s.from[b.Params[len(b.Params)-n.Captures+i]] = s.from[v]
			}
			s.graph(b)
		}
		for _, v := range n.Out {
			if v != nil && all != nil {
				s.from[v] = all
			}
		}
	}
}

// union is from where the operands of a node are computed. Random numbers, and bodies other than those of If, which run with numbers of iterations, change,
// although no parameter decides.
func (s *Sources) union(n *ssa.Node) (all []bool) {
	if o := ops.Of(n); o != nil && o.Facts.Randomness == ops.Random || len(n.Bodies) > 0 && n.Op != "If" {
		all = make([]bool, len(s.params))
	}
	for _, v := range n.In {
		from := s.from[v]
		switch {
		case from == nil:
		case all == nil:
			all = from
		case !slices.Equal(all, from):
			all = slices.Clone(all)
			for i, in := range from {
				all[i] = all[i] || in
			}
		}
	}
	return all
}
