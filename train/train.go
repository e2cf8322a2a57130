package train

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"slices"
	"sync/atomic"

	"github.com/berth-onnx/berth"
	"github.com/berth-onnx/berth/gradient"
	"github.com/berth-onnx/berth/internal/cpu"
	"github.com/berth-onnx/berth/internal/rescue"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ssa"
)

func init() {
	cpu.LinkChains()
	cpu.LinkTraining()
}

// Options say what is learned, and how.
type Options struct {
	Loss Loss // nil: [OutputIsLoss]
	// Output is what the loss is of: an output, or another value of the model, as the scores that its last Softmax reads; "": the first
	// output.
	Output string
	// Learn are the names of the weights to be changed; nil: all tensors of floats of rank 1 and more that the loss depends on.
	// Batch normalizations take the training form where their scale or bias is learned.
	Learn     []string
	Optimizer Optimizer // the zero value is SGD(0)
	Rate      Schedule  // of each change of the weights; nil: Constant(0.01)
	// Accumulate is over how many steps derivatives are averaged before they change the weights: as one step of that many times the
	// batch, in the memory of one. 0 and 1: every step changes them.
	Accumulate int
	ClipNorm   float64 // the derivatives of all weights together are shortened to this length; 0: as they are
	// Budget is how many bytes of arena a step may take; what is not kept from the way forward is computed again on the way
	// back, with the same numbers but for last bits. 0: no bound. What no choice fits is a [*BudgetError].
	Budget int64
	// Seed sets the masks of dropouts, which differ from step to step. Equal seeds give equal steps on any number of threads.
	Seed int64
	// WithoutDropout lets Dropout nodes pass their operand on. Else those whose mode is no input of the model train, also if the
	// model was exported for inference.
	WithoutDropout bool
	// Compile are the options of the program. All shapes must be bound by [berth.WithShape] and [berth.WithDim].
	Compile []berth.Option
}

// Trainer changes the weights of a model step by step. It serves one call at a time; one that comes while another is in progress
// is refused with [berth.ErrSessionInUse].
type Trainer struct {
	busy        atomic.Bool
	model       *berth.Model
	options     Options
	program     *berth.Program
	session     *berth.Session
	inputs      []*ssa.Value // of a step: those of the model, then those of the loss
	labels      []labels     // which of them are checked for classes
	states      []state      // what the session keeps
	learned     []string     // the weights among them
	statistics  []string     // of batch normalizations, among them
	constants   map[string]*ssa.Constant
	kept        string // what a budget has kept
	activations int64  // see Activations
	draws       bool   // whether the first scalar is the number of the step, for dropouts
	step        atomic.Int64
	args        []ndarray.Value // inputs, then the rate and the optimizer's scalars, then nil for states
	scalars     []*ndarray.Array
}

// state is an input that a step replaces by a result.
type state struct {
	name  string
	typ   ssa.Type
	first *ssa.Constant // nil: zeros
}

// enter begins a call; leave ends it.
func (t *Trainer) enter() error {
	switch {
	case t == nil || t.session == nil:
		return errors.New("the trainer was not made by New")
	case !t.busy.CompareAndSwap(false, true):
		return berth.ErrSessionInUse
	}
	return nil
}

func (t *Trainer) leave() { t.busy.Store(false) }

// New compiles the step. The model is not changed. The errors of derivatives are [*gradient.Error]; a name that is
// no weight, an output that is not there and a loss of several elements are told by name.
func New(ctx context.Context, m *berth.Model, o Options) (_ *Trainer, err error) {
	defer rescue.Into(&err)
	if ctx == nil || m == nil {
		return nil, errors.New("training needs a context and a model")
	}
	if o.Loss == nil {
		o.Loss = OutputIsLoss
	}
	if o.Rate == nil {
		o.Rate = Constant(0.01)
	}
	if o.Optimizer.update == nil {
		o.Optimizer = SGD(0)
	}
	if err := o.check(m); err != nil {
		return nil, err
	}
	defer func() { err = rescue.WithCause(ctx, err) }()
	t := &Trainer{model: m, options: o, constants: map[string]*ssa.Constant{}}
	g, err := t.forward(ctx)
	if err != nil {
		return nil, err
	}
	if err := t.complete(ctx, g); err != nil {
		return nil, err
	}
	if err := t.compile(ctx, g); err != nil {
		return nil, err
	}
	return t, nil
}

// rateOption is where the rate is from.
const rateOption = "Options.Rate"

// counts are of steps and bytes.
func (o *Options) counts() []number {
	return []number{count("Options.Accumulate", int64(o.Accumulate), 0, "a number of steps, or 0 for one"), count("Options.Budget", o.Budget, 0, "a number of bytes, or 0 for no bound")}
}

// numbers are those that weights and derivatives are computed with, but for the rate.
func (o *Options) numbers() []number {
	clip := notNegative("Options.ClipNorm", o.ClipNorm)
	clip.want = "a finite length, or 0 for none"
	return append([]number{clip}, o.Optimizer.numbers...)
}

// rateOf is the rate of a change, and what is wrong with it or its schedule.
func (o *Options) rateOf(change int) (rate float64, err error) {
	rate, err = called(o.Rate, change)
	if err != nil {
		var wrong *berth.OptionError // of a schedule of this package
		if errors.As(err, &wrong) {
			return 0, wrong
		}
		return 0, err
	}
	if n := notNegative(rateOption, rate); n.check() != nil {
		return 0, &berth.OptionError{Option: rateOption, Got: fmt.Sprintf("%g in change %d", rate, change), Want: n.want}
	}
	return rate, nil
}

// called is what a schedule returns; a panic of it is an error.
func called(s Schedule, change int) (rate float64, err error) {
	defer rescue.Into(&err)
	rescue.Call(rateOption, func() { rate = s(change) })
	return rate, nil
}

// check reports options that make no sense.
func (o *Options) check(m *berth.Model) error {
	if err := firstWrong(append(o.counts(), o.numbers()...), number.check); err != nil {
		return err
	}
	if _, err := o.rateOf(1); err != nil {
		return err
	}
	switch {
	case len(m.Outputs()) == 0:
		return errors.New("the model has no outputs, and so no loss")
	case o.Learn != nil && len(o.Learn) == 0:
		return errors.New("Learn names no weight; nil learns all")
	}
	inputs, known := map[string]bool{}, make(map[string]bool, len(o.Learn))
	for _, p := range m.Inputs() {
		inputs[p.Name] = true
	}
	for _, name := range o.Learn {
		if known[name] {
			return fmt.Errorf("Learn names %q twice", name)
		}
		if inputs[name] {
			return fmt.Errorf("Learn names %q, which is an input of the model and no weight", name)
		}
		known[name] = true
	}
	return nil
}

// sameType reports weights of several element types: rate and lengths of derivatives have one.
func sameType(weights []*ssa.Value) error {
	for _, w := range weights {
		if first := weights[0]; w.Type.DType != first.Type.DType {
			return fmt.Errorf("weight %q is of %s and %q of %s; Learn must name weights of one element type", first.Name, first.Type.DType, w.Name, w.Type.DType)
		}
	}
	return nil
}

// complete adds loss, derivatives and update. The results are the loss, then what states become.
func (t *Trainer) complete(ctx context.Context, g *ssa.Graph) error {
	b := &Builder{Graph: g, ctx: ctx}
	var loss *ssa.Value
	rescue.Call("Options.Loss", func() { loss = t.options.Loss(b, g.Results[0]) })
	if b.err != nil {
		return b.err
	}
	if loss == nil {
		return errors.New("the loss gave no value")
	}
	if size, ok := loss.Type.Static(); !ok || ndarray.Product(size) != 1 {
		return fmt.Errorf("the loss is %s; it must be one number of known shape: bind the shapes of the inputs, or take a mean", loss.Type)
	}
	g.Results[0] = loss
	all := labelsOf(b)
	weights, slopes, err := t.slopes(ctx, g, loss)
	if err == nil {
		err = sameType(weights)
	}
	if err == nil {
		err = firstWrong(t.options.numbers(), func(n number) error { return n.fits(weights[0].Type.DType) })
	}
	if err != nil {
		return err
	}
	for _, p := range g.Params {
		if t.constants[p.Name] == nil && p.Name != stepNumber {
			t.inputs = append(t.inputs, p)
		}
	}
	for _, l := range all {
		if l.at = slices.Index(t.inputs, l.input); l.at >= 0 {
			t.labels = append(t.labels, l)
		}
	}
	from := len(g.Nodes)
	sums := t.accumulate(b, weights, slopes)
	t.clip(b, slopes)
	t.update(b, weights, slopes)
	t.holdUntilDue(b, weights, sums)
	updateEarly(g, from)
	return b.err
}

// updateEarly moves the nodes from a position on, which change weights, to where what they read has been made: a derivative then dies
// there, and so does what it is a product of, once the update is a part of that product. Nodes that read inputs of the step alone come
// ahead of their first reader.
func updateEarly(g *ssa.Graph, from int) {
	behind, at := make([][]*ssa.Node, from), map[*ssa.Node]int{}
	for i, n := range g.Nodes[:from] {
		at[n] = i
	}
	var place func(n *ssa.Node, slot int)
	place = func(n *ssa.Node, slot int) {
		if _, placed := at[n]; placed {
			return
		}
		for _, v := range n.In {
			if v != nil && v.Def != nil {
				place(v.Def, slot)
			}
		}
		at[n] = slot
		behind[slot] = append(behind[slot], n)
	}
	var rest []*ssa.Node
	for _, n := range g.Nodes[from:] {
		slot := -1
		for _, v := range n.In {
			if v != nil && v.Def != nil {
				if i, placed := at[v.Def]; placed {
					slot = max(slot, i)
				}
			}
		}
		if slot >= 0 {
			place(n, slot)
		} else {
			rest = append(rest, n)
		}
	}
	var all []*ssa.Node
	for i, n := range g.Nodes[:from] {
		all = append(append(all, n), behind[i]...)
	}
	for _, n := range rest {
		if _, placed := at[n]; !placed {
			all = append(all, n)
		}
	}
	g.Nodes = all
}

// slopes are the weights that the loss depends on and its derivatives by them. Weights that were asked for by name must be
// among them.
func (t *Trainer) slopes(ctx context.Context, g *ssa.Graph, loss *ssa.Value) (weights, slopes []*ssa.Value, err error) {
	chosen := setOf(t.learned)
	for _, p := range g.Params {
		if chosen[p.Name] {
			weights = append(weights, p)
		}
	}
	r := gradient.Reversal{Graph: g, Y: loss, By: weights, Last: true}
	all, err := r.Append(ctx)
	if err != nil {
		return nil, nil, err
	}
	if t.options.Learn != nil && slices.Contains(all, nil) {
		_, err = gradient.Of(ctx, g, loss, weights...) // which says what is in the way
		return nil, nil, err
	}
	if t.options.Learn != nil {
		return weights, all, nil
	}
	var learned []*ssa.Value
	t.learned = nil
	for i, d := range all {
		if d != nil {
			learned, slopes = append(learned, weights[i]), append(slopes, d)
			t.learned = append(t.learned, weights[i].Name)
		}
	}
	switch {
	case learned != nil:
	case len(weights) == 0:
		return nil, nil, errors.New("the model has no weights: no tensors of floats of rank 1 or more")
	default:
		_, err = gradient.Of(ctx, g, loss, weights[0]) // which says what is in the way
		return nil, nil, fmt.Errorf("the loss depends on no weight: %w", err)
	}
	return learned, slopes, nil
}

// accumulate replaces derivatives by their sums over the steps since the last change, divided by the number of steps between
// changes. The sums are states.
func (t *Trainer) accumulate(b *Builder, weights, slopes []*ssa.Value) (sums []*ssa.Value) {
	if t.options.Accumulate < 2 {
		return nil
	}
	for i, w := range weights {
		if b.hasEnded() {
			return nil
		}
		sum := b.Input("sum of "+w.Name, w.Type)
		slopes[i] = b.add(sum, b.times(slopes[i], 1/float64(t.options.Accumulate)))
		sums = append(sums, slopes[i])
	}
	return sums
}

// holdUntilDue lets weights and moments be as they were, and sums go on, in steps that are not the last before a change.
func (t *Trainer) holdUntilDue(b *Builder, weights, sums []*ssa.Value) {
	if sums == nil {
		return
	}
	g := b.Graph
	due := b.Input("whether weights change", ssa.StaticTensor(sums[0].Type.DType))
	t.scalars = append(t.scalars, ndarray.Must(due.Type.DType))
	now := b.Op("Greater", []*ssa.Value{due, b.Number(due, 0)})
	statistics, params := setOf(t.statistics), paramsByName(g)
	for i, s := range t.states {
		if b.hasEnded() {
			return
		}
		if !statistics[s.name] { // every step is one of theirs
			g.Results[1+i] = b.Op("Where", []*ssa.Value{now, g.Results[1+i], params[s.name]})
		}
	}
	for i, sum := range sums {
		t.states = append(t.states, state{"sum of " + weights[i].Name, sum.Type, nil})
		g.Results = append(g.Results, b.Op("Where", []*ssa.Value{now, b.Number(sum, 0), sum}))
	}
}

// clip shortens the derivatives to a common length.
func (t *Trainer) clip(b *Builder, slopes []*ssa.Value) {
	if t.options.ClipNorm <= 0 {
		return
	}
	var sum *ssa.Value
	for _, d := range slopes {
		if b.hasEnded() {
			return
		}
		part := b.Op("ReduceSumSquare", []*ssa.Value{d}, ssa.IntAttr("keepdims", 0))
		if sum == nil {
			sum = part
		} else {
			sum = b.add(sum, part)
		}
	}
	norm := b.add(b.sqrt(sum), b.Number(sum, 1e-6))
	factor := b.Op("Min", []*ssa.Value{b.div(b.Number(sum, t.options.ClipNorm), norm), b.Number(sum, 1)})
	for i, d := range slopes {
		slopes[i] = b.mul(d, factor)
	}
}

// update adds the rate, the optimizer's scalars and the new weights and moments.
func (t *Trainer) update(b *Builder, weights, slopes []*ssa.Value) {
	o, g := t.options.Optimizer, b.Graph
	scalar := ssa.StaticTensor(weights[0].Type.DType)
	rate := b.Input("rate of the step", scalar)
	scalars := []*ssa.Value{rate}
	for i := range o.scalars {
		scalars = append(scalars, b.Input(fmt.Sprintf("scalar %d of the step", i), scalar))
	}
	for range scalars {
		t.scalars = append(t.scalars, ndarray.Must(scalar.DType))
	}
	for i, w := range weights {
		if b.hasEnded() {
			return
		}
		moments := make([]*ssa.Value, o.moments)
		for k := range moments {
			moments[k] = b.Input(fmt.Sprintf("moment %d of %s", k, w.Name), w.Type)
		}
		next, kept := o.update(b, w, slopes[i], moments, rate, scalars[1:])
		t.states = append(t.states, state{w.Name, w.Type, t.constants[w.Name]})
		g.Results = append(g.Results, next)
		for k, v := range kept {
			t.states = append(t.states, state{moments[k].Name, w.Type, nil})
			g.Results = append(g.Results, v)
		}
	}
}

// compile makes the program and its session. Weights that nothing learns stay constants' parameters with defaults.
func (t *Trainer) compile(ctx context.Context, g *ssa.Graph) (err error) {
	names := []string{"loss"}
	opts := append(slices.Clone(t.options.Compile), berth.WithStatesOverwritten())
	defaults := map[string]*ssa.Constant{}
	for i, s := range t.states {
		names = append(names, fmt.Sprintf("state %d", i))
		opts = append(opts, berth.WithState(s.name, names[i+1]))
		if s.first != nil {
			defaults[s.name] = s.first
		}
	}
	t.order(g)
	if err := distinct(ctx, g); err != nil {
		return err
	}
	if t.program, err = t.planned(ctx, &ssa.Module{Graph: g, OutputNames: names, Defaults: defaults}, opts); err != nil {
		return err
	}
	t.session, err = t.program.NewSession()
	t.args = make([]ndarray.Value, len(g.Params))
	return err
}

// order puts inputs first, then scalars, then states; parameters that nothing learns become constants again.
func (t *Trainer) order(g *ssa.Graph) {
	var scalars, states []*ssa.Value
	input, kept := make(map[*ssa.Value]bool, len(t.inputs)), make(map[string]bool, len(t.states))
	for _, v := range t.inputs {
		input[v] = true
	}
	for _, s := range t.states {
		kept[s.name] = true
	}
	for _, p := range g.Params {
		switch {
		case input[p]:
		case kept[p.Name]:
			states = append(states, p)
		case t.constants[p.Name] != nil:
			c := g.AddConst(p.Name, t.constants[p.Name])
			g.ReplaceUses(p, c)
		default:
			scalars = append(scalars, p)
		}
	}
	g.Params = slices.Concat(t.inputs, scalars, states)
}

// distinct gives results and nodes' values names of their own.
func distinct(ctx context.Context, g *ssa.Graph) error {
	seen, own := make(map[string]bool, g.NumValues()), make(map[*ssa.Value]bool, len(g.Params))
	for _, p := range g.Params {
		seen[p.Name], own[p] = true, true
	}
	results := make(map[*ssa.Value]bool, len(g.Results))
	for i, r := range g.Results { // one value may be several results
		if results[r] || r.Def == nil {
			g.Results[i] = g.NewNode("Identity", []*ssa.Value{r}, 1).Out[0]
			g.Results[i].Type = r.Type
		}
		results[r] = true
	}
	for i, v := range g.Values() {
		if i%lookEvery == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		if v == nil || own[v] {
			continue
		}
		for seen[v.Name] {
			v.Name += fmt.Sprintf(" %d", v.ID)
		}
		seen[v.Name] = true
	}
	return nil
}

// lookEvery is how many values a loop passes between two looks at the context.
const lookEvery = 1024

// Inputs lists what a step takes, in order: the inputs of the model, then those of the loss, with types and shapes.
func (t *Trainer) Inputs() (ports []berth.Port) {
	if t == nil {
		return nil
	}
	for _, v := range t.inputs {
		ports = append(ports, berth.Port{Name: v.Name, Type: v.Type})
	}
	return ports
}

// Learned lists the weights that steps change.
func (t *Trainer) Learned() []string {
	if t == nil {
		return nil
	}
	return slices.Clone(t.learned)
}

// Plan is the memory plan of a step: forward, backward and update in one arena.
func (t *Trainer) Plan() berth.PlanInfo {
	if t == nil {
		return berth.PlanInfo{}
	}
	return t.program.Plan()
}

// Activations are the bytes that a budget can act on: of all that is live at the peak of the plan, those of values that the way forward computed
// and the way back reads later. The rest of the arena is derivatives, workspace and what is computed there.
func (t *Trainer) Activations() int64 {
	if t == nil {
		return 0
	}
	return t.activations
}

// Kept says what is kept from the way forward to the way back where there is a budget: "all", "all but results of cheap operators",
// or values between a number of segments; "less at the peak" where that did not do.
func (t *Trainer) Kept() string {
	if t == nil || t.options.Budget <= 0 {
		return ""
	}
	return t.kept
}

// Step computes the loss of inputs, in the order of [Trainer.Inputs], with the weights that it finds, and changes the
// weights where they lie. It allocates nothing. Labels of classes that are none are a [*LabelError], before anything changes. A step whose context ends before the first weight changes leaves all as they were;
// from then on it goes on to its end. Should it fail there, further steps are refused with a [berth.TornError] until [Trainer.Restore].
func (t *Trainer) Step(ctx context.Context, inputs ...ndarray.Value) (loss float64, err error) {
	defer rescue.Into(&err)
	if err := t.enter(); err != nil {
		return 0, err
	}
	defer t.leave()
	if len(inputs) != len(t.inputs) {
		return 0, fmt.Errorf("a step takes %d inputs, got %d", len(t.inputs), len(inputs))
	}
	if err := t.checkLabels(inputs); err != nil {
		return 0, err
	}
	copy(t.args, inputs)
	every := max(t.options.Accumulate, 1)
	step := int(t.step.Load())
	change := step/every + 1
	scalars := t.scalars
	if t.draws {
		scalars[0].SetInt(0, int64(step))
		scalars = scalars[1:]
	}
	rate, err := t.options.rateOf(change)
	if err != nil {
		return 0, err
	}
	if scalars[0].SetFloat(0, rate); math.IsInf(scalars[0].Float(0), 0) {
		return 0, number{option: rateOption, value: rate}.fits(scalars[0].DType)
	}
	for i := range t.options.Optimizer.scalars {
		scalars[1+i].SetFloat(0, t.options.Optimizer.scalar(i, change))
	}
	if every > 1 {
		scalars[len(scalars)-1].SetFloat(0, float64(step%every/(every-1)))
	}
	for i, a := range t.scalars {
		t.args[len(inputs)+i] = a
	}
	out, err := t.session.Run(ctx, t.args)
	if err != nil {
		return 0, err
	}
	t.step.Add(1)
	return out[0].(*ndarray.Array).Float(0), nil
}

// Fit takes a step for each element of the data, which are inputs in the order of [Trainer.Inputs], and tells of the loss of
// each. It ends with the data, with an error of the data, of a step or of each, when the loss is no number, or with the context.
func (t *Trainer) Fit(ctx context.Context, data iter.Seq2[[]ndarray.Value, error], each func(step int, loss float64) error) (err error) {
	defer rescue.Into(&err)
	switch {
	case data == nil:
		return errors.New("no data is given")
	case ctx == nil:
		return errors.New("training needs a context")
	case ctx.Err() != nil:
		return rescue.WithCause(ctx, ctx.Err())
	}
	ended := false
	defer func() { ended = true }()
	wrong := reading(data, func(inputs []ndarray.Value, wrong error) bool {
		if ended {
			panic(errors.New("it goes on after it was told to end"))
		}
		if err = wrong; err == nil {
			err = t.fit(ctx, inputs, each)
		}
		ended = err != nil
		return !ended
	})
	switch {
	case wrong != nil:
		return errors.Join(err, wrong)
	case err == nil:
		err = rescue.WithCause(ctx, ctx.Err())
	}
	return err
}

// reading goes through data; a panic of it is its error.
func reading(data iter.Seq2[[]ndarray.Value, error], yield func([]ndarray.Value, error) bool) (err error) {
	defer rescue.Into(&err)
	rescue.Call("the data given to Fit", func() { data(yield) })
	return nil
}

// fit takes a step and tells of its loss.
func (t *Trainer) fit(ctx context.Context, inputs []ndarray.Value, each func(step int, loss float64) error) (err error) {
	defer rescue.Into(&err)
	loss, err := t.Step(ctx, inputs...)
	if err != nil {
		return err
	}
	step := t.Steps()
	if math.IsNaN(loss) || math.IsInf(loss, 0) {
		return fmt.Errorf("the loss of step %d is %g: lower the rate, set ClipNorm, or look for what is no number in the data", step, loss)
	}
	if each != nil {
		rescue.Call("the function given to Fit", func() { err = each(step, loss) })
	}
	return err
}

// Steps is how many steps were taken.
func (t *Trainer) Steps() int {
	if t == nil {
		return 0
	}
	return int(t.step.Load())
}
