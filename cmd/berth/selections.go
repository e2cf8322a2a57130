package main

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/berth-onnx/berth"
	"github.com/berth-onnx/berth/internal/selection"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ssa"
)

// Selections. A network that detects finds nothing in inputs unlike its own, so its outputs are empty and tell nothing of what computes them. Then the values
// that the selections read are compared, as further outputs of both models:
//
//	convolutions ──▶ scores ──▶ Greater, TopK, NonMaxSuppression ──▶ boxes [0,4]
//	                   └─ compared                                     └─ empty
//
// Rewriting keeps the names of values that it does not replace; of the others, and of what follows the last selection, nothing is known, so the result is
// verified in part.
//
// Where outputs differ, that may be because a selection went another way among near ties: scores that differ by less than rounding makes in them. Then the result
// runs with what the original has selected in the place of its own selections, also in branches and loops (internal/selection says how), and passes if
//
//   - the outputs, and the operands of every selection, are those of the original, by the rules for outputs: within the tolerance, or else as near to float64;
//     where float64 is asked, the original runs in it with the same selections
//   - every selection of the result gives what that of the original gives with the very same operands, so that the node is the same function
//   - some selection of the result differs, as nothing else explains outputs that do
//
// Operands within the tolerance are no near tie yet: two scores of 1000 may be ten thousand roundings apart. So differences of more than a few roundings are always
// compared with float64, and where that can not be (more than mostRescued operations, models that compute in float16 or quantize while they run otherwise than by
// QuantizeLinear, which is a selection as others) the result is refused, unless the tolerance was given. Scales leave out elements that mask others, and what is not finite must be so in both.
//
// So all that is left unexplained is a choice between operands that differ as rounding makes them. A selection that rewriting has replaced has no counterpart
// in the result; it stays as it is, and what differs behind it is refused.

// selected compares what selections read while an output has had no element, with the first inputs. Its only error is a cancellation.
func (v *verification) selected(ctx context.Context) error {
	if v.f.noVerify || v.first == nil || !v.res.Verified || len(v.unseen()) == 0 {
		return nil
	}
	names := read(v.m, func(m *ssa.Graph) []string {
		return read(v.opt, func(opt *ssa.Graph) []string { return selectedFrom(m, opt) })
	})
	m, err := v.withOutputs(ctx, v.m, names)
	if err != nil || len(names) == 0 {
		return ctx.Err()
	}
	defer m.Close()
	opt, err := v.withOutputs(ctx, v.opt, names)
	if err != nil {
		return ctx.Err()
	}
	defer opt.Close()
	res := optimizeJSON{Verified: true, Folding: foldingJSON{Why: "the outputs themselves were compared"}}
	w := v.a.newVerification(m, opt, v.have, v.f, &res)
	w.ran = &coverage{}
	defer func() { w.wide.Close() }()
	want, err := m.RunValues(ctx, v.first.in, append(v.a.limits(), berth.WithoutPasses())...)
	if err != nil {
		return ctx.Err()
	}
	if err = w.compare(ctx, v.first.in, want); err == nil {
		err = w.judge(ctx)
	}
	v.res.Verified, v.res.differed, v.res.failure, v.res.MaxDiff = res.Verified, res.differed, res.failure, max(v.res.MaxDiff, res.MaxDiff)
	for _, name := range names {
		if res.Verified && w.seen[name] > 0 {
			v.res.Selected = append(v.res.Selected, name)
		}
	}
	return err
}

// selectedFrom names the computed values that selections of the original read and that the result has, too.
func selectedFrom(m, opt *ssa.Graph) (names []string) {
	has := map[string]bool{}
	for _, n := range opt.Nodes {
		for _, o := range n.Out {
			if o != nil && !slices.Contains(opt.Results, o) {
				has[o.Name] = true
			}
		}
	}
	for _, n := range m.Nodes {
		if !selection.Selects(n) {
			continue
		}
		for _, x := range n.In {
			if x != nil && x.Def != nil && has[x.Name] && !slices.Contains(m.Results, x) {
				names = append(names, x.Name)
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// withOutputs is a model with further outputs, of the shapes of the first case.
func (v *verification) withOutputs(ctx context.Context, m *berth.Model, names []string) (*berth.Model, error) {
	return m.Extend(ctx, func(_ context.Context, g *ssa.Graph) error {
		for _, name := range names {
			i := slices.IndexFunc(g.Nodes, func(n *ssa.Node) bool { return outputNamed(n, name) != nil })
			if i < 0 {
				return fmt.Errorf("no node computes %q", name)
			}
			g.Results = append(g.Results, outputNamed(g.Nodes[i], name))
		}
		return nil
	}, append(v.a.limits(), shapesIn(v.first.in)...)...)
}

func outputNamed(n *ssa.Node, name string) *ssa.Value {
	for _, o := range n.Out {
		if o != nil && o.Name == name {
			return o
		}
	}
	return nil
}

// tiesModels are what near ties are looked for with, for the shapes of some inputs.
type tiesModels struct {
	plan     *selection.Plan
	observed *berth.Model // the original, with its selections and their operands as outputs
	given    *berth.Model // the original with given selections
	result   *berth.Model // the result with given selections, and what it selects itself
	alone    *berth.Model // the selections of the original, but for those in bodies
	bind     []berth.Option
}

func (t *tiesModels) Close() {
	for _, m := range []*berth.Model{t.observed, t.given, t.result, t.alone} {
		m.Close()
	}
}

// newTiesModels changes copies of both models.
func (v *verification) newTiesModels(ctx context.Context, in map[string]ndarray.Value, bodies bool) (*tiesModels, error) {
	opt := v.opt
	if v.unfolded > 0 {
		opt = v.m
	}
	bind := append(v.a.limits(), shapesIn(in)...)
	folded, err := v.m.Folded(ctx, append(bind, berth.WithSchedule("file"))...) // what shapes decide is no selection
	if err != nil {
		return nil, err
	}
	t := &tiesModels{plan: selection.Of(folded, v.m.Graph(), opt.Graph())}
	if !bodies {
		t.plan.LeaveBodies()
	}
	if t.bind = bind; len(t.plan.Both) == 0 {
		return t, nil
	}
	edits := []struct {
		made **berth.Model
		of   *berth.Model
		edit func(g *ssa.Graph) error
	}{
		{&t.observed, v.m, t.plan.Observe},
		{&t.given, v.m, func(g *ssa.Graph) error { return t.plan.Give(g, t.plan.All, false) }},
		{&t.result, opt, func(g *ssa.Graph) error { return t.plan.Give(g, t.plan.Both, true) }},
		{&t.alone, v.m, t.plan.Alone},
	}
	for _, e := range edits {
		m, err := e.of.Extend(ctx, func(_ context.Context, g *ssa.Graph) error { return e.edit(g) }, bind...)
		if err != nil {
			t.Close()
			return nil, err
		}
		*e.made = m
	}
	return t, nil
}

// amongTies decides whether selections among near ties explain that outputs differ. Its only error is a cancellation.
func (v *verification) amongTies(ctx context.Context, in map[string]ndarray.Value) (bool, error) {
	if v.given || !v.f.given && v.precision.unit > 0 {
		return false, nil
	}
	t, runs, err := v.tiesOf(ctx, in)
	if err != nil || len(t.plan.Both) == 0 {
		return false, ctx.Err()
	}
	defer t.Close()
	if !v.f.given && read(t.given, quantizesWhileRunning) {
		return false, nil
	}
	flipped, same := v.flipped(t.plan, runs)
	if !same || len(flipped) == 0 {
		return false, nil
	}
	v.a.note("berth: outputs differ, and so does what %s select; comparing with the selections of the original", someOf(flipped))
	res := optimizeJSON{Verified: true}
	w := v.a.newVerification(t.given, t.result, v.have, v.f, &res)
	w.given, w.scaled, w.ran = true, v.scaled, &coverage{}
	defer func() { w.wide.Close() }()
	if err = w.hold(ctx, runs.in, runs.got, runs.want); err == nil {
		err = w.judge(ctx)
	}
	if res.untested {
		v.a.note("berth: with those selections outputs are within the tolerance, but not compared with float64, so that a near tie is not shown; --rtol and --atol can say what may differ")
		res.Verified = false
	}
	if v.tied = !res.Verified; err != nil || v.tied {
		if alone := t.plan.Missing(); len(alone) > 0 {
			v.a.note("berth: the result has no counterpart of %s, so that its own selection was compared", someOf(alone))
		}
		return false, err
	}
	v.tellTies(flipped, &res)
	return true, nil
}

// tiesOf changes copies of both models and runs them; where they do not run with selections in bodies, those are left as they are.
func (v *verification) tiesOf(ctx context.Context, in map[string]ndarray.Value) (t *tiesModels, runs tiesRuns, err error) {
	for _, bodies := range []bool{true, false} {
		if t, err = v.newTiesModels(ctx, in, bodies); err != nil {
			continue
		}
		if len(t.plan.Both) == 0 {
			return t, runs, nil
		}
		if runs, err = v.runTies(ctx, t, in); err == nil {
			return t, runs, nil
		}
		t.Close()
		if ctx.Err() != nil || !slices.ContainsFunc(t.plan.All, t.plan.Taped) {
			break
		}
	}
	return nil, runs, err
}

// tiesRuns are the values of both models under the selections of the original.
type tiesRuns struct {
	in        map[string]ndarray.Value // with all selections
	want, got map[string]ndarray.Value // outputs and operands
	chosen    map[string]ndarray.Value // by the original
	own       map[string]ndarray.Value // by the result
	again     map[string]ndarray.Value // by the nodes of the original, of the operands in the result
}

func (v *verification) runTies(ctx context.Context, t *tiesModels, in map[string]ndarray.Value) (r tiesRuns, err error) {
	var seen, got map[string]ndarray.Value
	if seen, err = t.observed.RunValues(ctx, in, append(v.a.limits(), berth.WithoutPasses())...); err != nil {
		return r, err
	}
	r.chosen, r.want = split(seen, t.plan.All, t.plan.Own)
	r.in = maps.Clone(in)
	for _, name := range t.plan.All {
		r.in[t.plan.Given(name)] = seen[t.plan.Own(name)]
	}
	opts := []berth.Option{exact}
	if v.unfolded > 0 {
		opts = unfolded
	}
	if got, err = t.result.RunValues(ctx, taken(t.result, r.in), append(v.a.limits(), opts...)...); err != nil {
		return r, err
	}
	r.own, r.got = split(got, t.plan.Both, t.plan.Own)
	operands := maps.Clone(r.in)
	maps.Copy(operands, got)
	again, err := t.alone.RunValues(ctx, taken(t.alone, operands), append(v.a.limits(), berth.WithoutPasses())...)
	if err != nil {
		return r, err
	}
	r.again, _ = split(again, t.plan.Both, t.plan.Own)
	for _, name := range t.plan.Both {
		if t.plan.Taped(name) && err == nil {
			r.again[name], err = v.selectedAgain(ctx, t, name, operands)
		}
	}
	return r, err
}

// mostTaped bounds how often the node of a selection in a body runs again.
const mostTaped = 10_000

// selectedAgain is what the node of a selection in a body selects of the operands in the result, one time after the other.
func (v *verification) selectedAgain(ctx context.Context, t *tiesModels, name string, operands map[string]ndarray.Value) (*ndarray.Sequence, error) {
	alone, err := v.m.Extend(ctx, func(_ context.Context, g *ssa.Graph) error { return t.plan.AloneIn(g, name) }, t.bind...)
	if err != nil {
		return nil, err
	}
	defer alone.Close()
	all := &ndarray.Sequence{}
	times := 0
	for k := 0; k == 0 || k < times; k++ {
		in := map[string]ndarray.Value{}
		for _, p := range alone.Inputs() {
			s, ok := operands[p.Name].(*ndarray.Sequence)
			if !ok || len(s.Items) > mostTaped || k > 0 && len(s.Items) != times {
				return nil, fmt.Errorf("%q is no sequence of %d", p.Name, times)
			}
			if times = len(s.Items); times == 0 {
				return all, nil
			}
			in[p.Name] = s.Items[k]
		}
		out, err := alone.RunValues(ctx, in, append(v.a.limits(), berth.WithoutPasses())...)
		if err != nil {
			return nil, err
		}
		all.Items = append(all.Items, out[t.plan.Own(name)])
	}
	return all, nil
}

// split takes what was selected out of outputs.
func split(outputs map[string]ndarray.Value, names []string, own func(string) string) (selected, others map[string]ndarray.Value) {
	selected, others = map[string]ndarray.Value{}, maps.Clone(outputs)
	for _, name := range names {
		selected[name] = outputs[own(name)]
		delete(others, own(name))
	}
	return selected, others
}

// taken are the values that a model has inputs for.
func taken(m *berth.Model, values map[string]ndarray.Value) map[string]ndarray.Value {
	in := map[string]ndarray.Value{}
	for _, p := range m.Inputs() {
		if x, ok := values[p.Name]; ok {
			in[p.Name] = x
		}
	}
	return in
}

// flipped lists the selections that differ; same reports that all are the same function in both models.
func (v *verification) flipped(p *selection.Plan, r tiesRuns) (names []string, same bool) {
	for _, name := range p.Both {
		if !sameSelection(r.own[name], r.again[name]) {
			v.a.note("berth: %s of the result does not select what that of the model does of the same operands", p.Text(name))
			return nil, false
		}
		if !sameSelection(r.own[name], r.chosen[name]) {
			names = append(names, p.Text(name))
		}
	}
	return names, true
}

// sameSelection reports equal tensors, or sequences of such. A comparison of outputs allows types narrower than float32 a unit in the last place, which for a number rounded to a whole one is
// the next whole one.
func sameSelection(x, y ndarray.Value) bool {
	if s, ok := x.(*ndarray.Sequence); ok {
		of, ok := y.(*ndarray.Sequence)
		return ok && slices.EqualFunc(s.Items, of.Items, sameSelection)
	}
	a, ok1 := x.(*ndarray.Array)
	b, ok2 := y.(*ndarray.Array)
	if !ok1 || !ok2 || !sameForm(a, b) {
		return false
	}
	for i := range a.Len() {
		if !a.DType.IsFloat() {
			if a.Int(i) != b.Int(i) {
				return false
			}
		} else if p, q := a.Float(i), b.Float(i); p != q && (p == p || q == q) {
			return false
		}
	}
	return true
}

// tellTies records the selections that went another way, and how far outputs and operands differ under those of the original.
func (v *verification) tellTies(flipped []string, res *optimizeJSON) {
	for _, text := range flipped {
		if !slices.Contains(v.res.Ties, text) {
			v.res.Ties = append(v.res.Ties, text)
		}
	}
	if !v.scaled {
		v.res.MaxDiff = max(v.res.MaxDiff, res.MaxDiff)
	}
	if res.Note != "" {
		v.res.Note = res.Note
	}
}
