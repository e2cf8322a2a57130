package train

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/berth-onnx/berth"
	"github.com/berth-onnx/berth/gradient"
	"github.com/berth-onnx/berth/internal/fuse"
	"github.com/berth-onnx/berth/internal/rewrite"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// What of a model's constants a step learns or keeps as statistics, and the forward pass that reads them.

// forward is the model's graph with the weights as parameters, batch normalization in training form, and shapes bound.
func (t *Trainer) forward(ctx context.Context) (*ssa.Graph, error) {
	g := t.model.Graph()
	kept, err := t.chooseWeights(ctx, g)
	if err != nil {
		return nil, err
	}
	if t.options.WithoutDropout {
		passDropouts(g)
	} else if step := drawDropouts(ctx, g, t.options.Seed); step != nil {
		t.draws = true
		t.scalars = append(t.scalars, ndarray.Must(ndarray.Int64))
		kept = append(kept, step)
	}
	if _, err := gradient.Promote(ctx, g, kept...); err != nil {
		return nil, err
	}
	var outputs []string
	for _, port := range t.model.Outputs() {
		outputs = append(outputs, port.Name)
	}
	at, ports := 0, len(outputs)
	if t.options.Output != "" {
		if at = slices.Index(outputs, t.options.Output); at < 0 {
			v := resultNamed(g, t.options.Output)
			if v == nil {
				return nil, &berth.OptionError{Option: "Options.Output", Got: t.options.Output,
					Want: "an output, or another result of a node outside of bodies; the outputs are " + strings.Join(outputs, ", ")}
			}
			at, outputs[0], g.Results[0] = 0, v.Name, v
		}
	}
	for _, r := range g.Results[ports:] { // running statistics
		outputs = append(outputs, r.Name)
	}
	pools := rewrite.Further(func(_ context.Context, g *ssa.Graph, leavesOut func(pass string) bool) error {
		if !leavesOut(fuse.EpiloguePass) {
			poolFirst(g)
		}
		return nil
	})
	if holdsSequences(g) {
		lists := rewrite.Further(func(_ context.Context, g *ssa.Graph, _ func(pass string) bool) error { return sequences(g) })
		if g, err = berth.FromModule(&ssa.Module{Graph: g, OutputNames: outputs}).Folded(lists.In(ctx), t.options.Compile...); err != nil {
			return nil, err
		}
		t.declare(g)
	}
	out, err := berth.FromModule(&ssa.Module{Graph: g, OutputNames: outputs}).Folded(pools.In(ctx), t.options.Compile...)
	if err != nil {
		return nil, err
	}
	params := paramsByName(out)
	for _, name := range t.statistics {
		t.states = append(t.states, state{name, params[name].Type, t.constants[name]})
	}
	out.Results = append([]*ssa.Value{out.Results[at]}, out.Results[ports:]...)
	return out, nil
}

// resultNamed is the result of a node that has a name, or nil.
func resultNamed(g *ssa.Graph, name string) *ssa.Value {
	for _, n := range g.Nodes {
		for _, v := range n.Out {
			if v != nil && v.Name == name {
				return v
			}
		}
	}
	return nil
}

// chooseWeights brings batch normalizations of a model's graph into the form that the options ask for and returns the weights that are
// learned, then the statistics.
func (t *Trainer) chooseWeights(ctx context.Context, g *ssa.Graph) (kept []*gradient.Weight, err error) {
	all, err := gradient.Weights(ctx, g)
	if err != nil {
		return nil, err
	}
	byName := make(map[string]*gradient.Weight, len(all))
	for _, w := range all {
		byName[w.Name] = w
	}
	t.statistics = trainNorms(g, t.options.Learn)
	if t.learned = t.options.Learn; t.learned == nil {
		t.learned = learnable(all, t.statistics)
	}
	for _, name := range slices.Concat(t.learned, t.statistics) {
		w := byName[name]
		if w == nil {
			return nil, unknownWeight(all, name)
		}
		delete(byName, name)
		t.constants[name] = w.Const
		kept = append(kept, w)
	}
	return kept, nil
}

// mostNamed is how many weights an error lists.
const mostNamed = 12

// unknownWeight says that no weight has a name, and which have it in bodies.
func unknownWeight(all []*gradient.Weight, name string) error {
	var names []string
	for _, w := range all {
		if w.Values[0].Name == name && w.Name != name {
			names = append(names, w.Name)
		}
	}
	if names == nil {
		for _, w := range all {
			if w.Const.DType().IsFloat() && len(w.Const.Shape()) > 0 {
				names = append(names, w.Name)
			}
		}
		if names == nil {
			names = []string{"none"}
		}
		if len(names) > mostNamed {
			names = append(names[:mostNamed:mostNamed], fmt.Sprintf("%d more", len(names)-mostNamed))
		}
		return notLearned(name, "a weight, which a statistic of a batch normalization that learns is not; the weights are "+strings.Join(names, ", "))
	}
	return notLearned(name, strings.Join(names, " or ")+", since several constants, in different bodies, have that name")
}

// notLearned refuses a name among [Options.Learn].
func notLearned(name, want string) error {
	return &berth.OptionError{Option: "Options.Learn", Got: name, Want: want}
}

// learnable lists the tensors of floats of rank 1 and more that nodes read, but not statistics, nor literals unless there is nothing else: some exporters
// write weights so.
func learnable(all []*gradient.Weight, stats []string) (names []string) {
	known := setOf(stats)
	var literals []string
	for _, w := range all {
		switch {
		case known[w.Name] || !w.Const.DType().IsFloat() || len(w.Const.Shape()) == 0:
		case !slices.ContainsFunc(w.Values, isOperand) || slices.ContainsFunc(w.Values, isScale) || isFirstState(w):
		case w.Const.Literal():
			literals = append(literals, w.Name)
		default:
			names = append(names, w.Name)
		}
	}
	if names == nil {
		return literals
	}
	return names
}

// isOperand reports what nodes read.
func isOperand(v *ssa.Value) bool { return len(v.Uses()) > 0 }

// isScale reports constants that say how large a result is.
func isScale(v *ssa.Value) bool {
	return slices.ContainsFunc(v.Uses(), func(u ssa.Use) bool { return u.Node.Op == "Resize" && u.Index > 0 })
}

// isFirstState reports zeros that are nothing but the first state of loops and recurrent layers: what a program makes of zeros, exporters write as a tensor.
func isFirstState(w *gradient.Weight) bool {
	for _, v := range w.Values {
		if slices.ContainsFunc(v.Uses(), func(u ssa.Use) bool { return !begins(u.Node, u.Index) }) {
			return false
		}
	}
	a, isSplat := w.Const.Splat()
	if !isSplat {
		var err error
		if a, err = w.Const.Array(); err != nil {
			return false
		}
	}
	return !slices.ContainsFunc(a.Data, func(b byte) bool { return b != 0 })
}

// begins reports an operand that is the first state of a loop or a recurrent layer.
func begins(n *ssa.Node, operand int) bool {
	if n.Domain != "" {
		return false
	}
	switch n.Op {
	case "LSTM", "GRU", "RNN":
		return operand == 5 || operand == 6
	case "Loop":
		return operand >= 2 && operand < len(n.In)-n.Captures
	case "Scan":
		s, err := ops.ScanOf(n)
		return err == nil && operand < s.States
	}
	return false
}

// setOf tells which names are in a list.
func setOf(names []string) map[string]bool {
	set := make(map[string]bool, len(names))
	for _, name := range names {
		set[name] = true
	}
	return set
}

// paramsByName are the parameters of a graph.
func paramsByName(g *ssa.Graph) map[string]*ssa.Value {
	params := make(map[string]*ssa.Value, len(g.Params))
	for _, p := range g.Params {
		params[p.Name] = p
	}
	return params
}

// trainNorms brings batch normalizations with constant statistics into training form, if their scale or bias is learned; the running
// statistics become further results, in the order of the names that are returned: those of the constants.
func trainNorms(g *ssa.Graph, learn []string) (names []string) {
	learned, known := setOf(learn), map[string]bool{}
	for _, n := range g.Nodes {
		switch {
		case n.Op != "BatchNormalization" || n.Domain != "":
			continue
		case learn != nil && !learned[n.In[1].Name] && !learned[n.In[2].Name]:
			freezeNorm(g, n)
			continue
		case n.In[3].Const == nil || n.In[4].Const == nil || known[n.In[3].Name]:
			continue
		}
		n.SetAttr(ssa.IntAttr("training_mode", 1))
		if n.Output(1) == nil && n.Output(2) == nil {
			n.Out = n.Out[:1]
		}
		for i, of := range n.In[3:5] {
			next := n.Output(1 + i)
			if next == nil {
				next = g.AddOutput(n, fmt.Sprintf("%s after the step %d", of.Name, i))
			}
			names = append(names, of.Name)
			known[of.Name] = true
			g.Results = append(g.Results, next)
		}
	}
	return names
}
