package schedule

import (
	"slices"

	"github.com/berth-onnx/berth/inplace"
	"github.com/berth-onnx/berth/liveness"
	"github.com/berth-onnx/berth/loops"
	"github.com/berth-onnx/berth/ssa"
)

// inner is what a control-flow node needs when it stands alone: its operands are
// someone else's memory and its results live on. Beside its operands, a graph
// needs no more than that while the node runs (it may need less: a body may write
// over a captured value that dies).
//
//	         ┌─ If ─────────────────┐
//	x ──────▶│ then  ■■■ 40         │──▶ y   peak 64, bytes {24}
//	         │ else  ■■■■■ 64       │
//	         └──────────────────────┘
type inner struct {
	peak  int64 // bytes at once, results included
	bound int64 // bytes that some body needs in every order, operands free
	// bytes are the blocks that results lie in, folded; outs the blocks each
	// result may lie in.
	bytes []int64
	outs  [][]int
	// passes are the operands each result may be.
	passes [][]int
	// starts are operands that only the first iteration reads: later ones hold the
	// value that the one before made, which peak counts already.
	starts []int
}

// isolated is a graph of one control-flow node, which shares the bodies. Its
// parameters stand for the operands, its results are those of the node that
// anything reads.
func isolated(n *ssa.Node, g *ssa.Graph) *ssa.Graph {
	h := ssa.NewGraph(n.Name)
	made := map[*ssa.Value]*ssa.Value{}
	in := make([]*ssa.Value, len(n.In))
	for i, v := range n.In {
		switch {
		case v == nil:
		case made[v] != nil:
			in[i] = made[v]
		case v.Const != nil:
			in[i] = h.AddConst(v.Name, v.Const)
		default:
			in[i] = h.AddParam(v.Name, v.Type)
			in[i].Content = v.Content
		}
		if v != nil {
			made[v] = in[i]
		}
	}
	k := h.NewNode(n.Op, in, 0, n.Attrs...)
	k.Name, k.Version, k.Captures = n.Name, n.Version, n.Captures
	for i, b := range n.Bodies {
		k.AddBody(n.BodyAttr[i], b)
	}
	for _, v := range n.Out {
		if v == nil {
			h.AddOutput(k, "")
			continue
		}
		o := h.AddOutput(k, v.Name)
		o.Type = v.Type
		if len(v.Uses()) > 0 || g.IsResult(v) {
			h.Results = append(h.Results, o)
		}
	}
	return h
}

// measure lays a control-flow node out on its own.
func measure(n *ssa.Node, g *ssa.Graph) (*inner, error) {
	h := isolated(n, g)
	t, f, err := inplace.Lay(h, liveness.Options{}, inplace.Options{})
	if err != nil {
		return nil, err
	}
	in := &inner{peak: peakOf(f)}
	classes := map[int]int{}
	k := h.Nodes[0]
	for _, v := range k.Out {
		blocks, params := sources(t, v)
		var outs, passes []int
		for _, b := range blocks {
			c := f.Of[b]
			if _, ok := classes[c]; !ok {
				classes[c] = len(in.bytes)
				in.bytes = append(in.bytes, round(f.Classes[c].Bytes))
			}
			if !slices.Contains(outs, classes[c]) {
				outs = append(outs, classes[c])
			}
		}
		for i, v := range k.In {
			if v != nil && slices.Contains(params, v) {
				passes = append(passes, i)
			}
		}
		in.outs, in.passes = append(in.outs, outs), append(in.passes, passes)
	}
	if rot := t.Rotation(k); rot != nil {
		in.starts = starts(t, k, rot)
	}
	return in, nil
}

// sources lists the blocks and the parameters that a result's bytes may be.
func sources(t *liveness.Timeline, v *ssa.Value) (blocks []int, params []*ssa.Value) {
	if v == nil || t.PlacesOf(v) == nil {
		return nil, nil
	}
	seen := map[int]bool{}
	var visit func(int)
	visit = func(x int) {
		if seen[x] {
			return
		}
		seen[x] = true
		switch t.Vars[x].Kind {
		case liveness.Block:
			blocks = append(blocks, x)
		case liveness.Outside:
			params = append(params, t.Vars[x].Value)
		}
		for _, s := range t.Vars[x].Sources {
			visit(s)
		}
	}
	for _, x := range t.PlacesOf(v).Vars {
		visit(x)
	}
	slices.Sort(blocks)
	return blocks, params
}

// starts finds the operands of a loop that are nothing but initial values of
// carried ones which own a block of the same size.
func starts(t *liveness.Timeline, n *ssa.Node, rot *loops.Rotation) []int {
	var out []int
	taken := map[*ssa.Value]bool{}
	for _, c := range rot.Carries {
		res := shownBy(c.Result)
		p := t.PlacesOf(res)
		if c.Init == nil || p == nil || taken[res] || t.Vars[p.Vars[0]].Kind != liveness.Block || t.Vars[p.Vars[0]].Bytes != sizeOf(c.Init) {
			continue
		}
		at := slices.Index(n.In, c.Init)
		if at < 0 || slices.Contains(n.In[at+1:], c.Init) {
			continue
		}
		taken[res] = true
		out = append(out, at)
	}
	return out
}

// shownBy follows views to the value whose bytes they show.
func shownBy(v *ssa.Value) *ssa.Value {
	for {
		of, _, ok := loops.ViewOf(v)
		if !ok {
			return v
		}
		v = of
	}
}

// ownsPlace reports whether a loop's parameter costs memory inside the body: the
// iteration counter, a slice that is copied, a carried value that the iteration
// before made. Captured values and slices that are windows lie outside.
func ownsPlace(rot *loops.Rotation, p *ssa.Value) bool {
	if sizeOf(p) == 0 {
		return false
	}
	if p == rot.Iter {
		return true
	}
	for _, s := range rot.ScanIns {
		if s.Param == p {
			return s.Axis != 0
		}
	}
	for range rot.Carries { // a parameter may get its value from another one
		next := p
		for _, c := range rot.Carries {
			if c.Param == p {
				next = shownBy(c.Result)
			}
		}
		if next == p {
			return false // captured, or handed round for ever
		}
		if p = next; p.Def != nil {
			return p.Type.IsStatic() && rot.StackOf(p) == nil
		}
	}
	return false
}

// peakOf is the most bytes that the classes of a folding need at one point.
func peakOf(f *inplace.Folding) int64 {
	type event struct {
		at    int
		bytes int64
	}
	var events []event
	for _, c := range f.Classes {
		for _, r := range c.Live {
			events = append(events, event{r.Lo, round(c.Bytes)}, event{r.Hi, -round(c.Bytes)})
		}
	}
	slices.SortFunc(events, func(a, b event) int {
		if a.at != b.at {
			return a.at - b.at
		}
		return int(min(max(a.bytes-b.bytes, -1), 1)) // what ends goes first
	})
	var now, most int64
	for _, e := range events {
		now += e.bytes
		most = max(most, now)
	}
	return most
}
