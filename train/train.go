package train

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/berth-onnx/berth"
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
	// Learn are the names of the weights to be changed; nil: all tensors of floats of rank 1 and more that the loss depends on. Left out then are zeros that
	// are only the first state of a loop or a recurrent layer, and what a file writes as Constant nodes, unless it writes all so. Other constants of a
	// program, which its exporter may have put among the weights, a file does not tell from them: see [Trainer.Learned].
	// Batch normalizations take the training form where their scale or bias is learned.
	Learn     []string
	Optimizer Optimizer // the zero value is SGD(0)
	Rate      Schedule  // of each change of the weights; nil: Constant(0.01)
	// Accumulate is over how many steps derivatives are averaged before they change the weights: as one step of that many times the
	// batch, in the memory of one. 0 and 1: every step changes them.
	Accumulate int
	ClipNorm   float64 // the derivatives of all weights together are shortened to this length; 0: as they are
	// Budget is how many bytes of arena a step may take; what is not kept from the forward pass is computed again in the
	// backward pass, with the same numbers but for last bits. 0: no bound. What no choice fits is a [*BudgetError].
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
		return nil, t.whereOpen(g, err)
	}
	if err := t.compile(ctx, g); err != nil {
		return nil, err
	}
	return t, nil
}

// rateOption names the rate in errors.
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

// fit reports numbers, the first rate among them, that the type of the weights has not.
func (o *Options) fit(weights ndarray.DType) error {
	rate, err := o.rateOf(1)
	if err != nil {
		return err
	}
	return firstWrong(append(o.numbers(), number{option: rateOption, value: rate}), func(n number) error { return n.fits(weights) })
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
		return notLearned("none", "weights; nil learns all")
	}
	inputs, known := map[string]bool{}, make(map[string]bool, len(o.Learn))
	for _, p := range m.Inputs() {
		inputs[p.Name] = true
	}
	for _, name := range o.Learn {
		if known[name] {
			return notLearned(name, "each weight once")
		}
		if inputs[name] {
			return notLearned(name, "a weight, and no input of the model")
		}
		known[name] = true
	}
	return nil
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
	t.session, err = t.program.NewSessionContext(ctx)
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

// Activations are the bytes that a budget can act on: of all that is live at the peak of the plan, those of values that the forward pass computed
// and the backward pass reads later. The rest of the arena is derivatives, workspace and what is computed there.
func (t *Trainer) Activations() int64 {
	if t == nil {
		return 0
	}
	return t.activations
}

// Kept says what is kept from the forward pass to the backward pass where there is a budget: "all", "all but results of cheap operators",
// or values between a number of segments; "less at the peak" where that did not do.
func (t *Trainer) Kept() string {
	if t == nil || t.options.Budget <= 0 {
		return ""
	}
	return t.kept
}
