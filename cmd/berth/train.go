package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/gob"
	"errors"
	"fmt"
	"hash"
	"hash/crc32"
	"html"
	"io"
	"io/fs"
	"maps"
	"math"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/berth-onnx/berth"
	"github.com/berth-onnx/berth/internal/rescue"
	"github.com/berth-onnx/berth/internal/safefile"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/train"
)

type trainFlags struct {
	data, out, curve   string
	checkpoint         string
	loss, optimizer    string
	output, budget     string
	learn              []string
	rate, decay, clip  float64
	batch              int
	epochs, steps      int
	warmup, accumulate int
	cosine             bool
	ignore             int64
	ignores            bool // --ignore-label is given
	batches            bool // --batch is given
}

// losses and optimizers by the names that flags give.
var (
	losses = map[string]train.Loss{"output": train.OutputIsLoss, "mean-squared-error": train.MeanSquaredError, "mean-absolute-error": train.MeanAbsoluteError,
		"huber": train.Huber(1), "cross-entropy": train.CrossEntropy, "binary-cross-entropy": train.BinaryCrossEntropy}
	optimizers = map[string]func(decay float64) train.Optimizer{"sgd": train.SGD,
		"momentum": func(d float64) train.Optimizer { return train.Momentum(0.9, d) }, "nesterov": func(d float64) train.Optimizer { return train.Nesterov(0.9, d) },
		"adam":    func(d float64) train.Optimizer { return train.Adam(0.9, 0.999, 1e-8, d) },
		"adamw":   func(d float64) train.Optimizer { return train.AdamW(0.9, 0.999, 1e-8, d) },
		"adagrad": func(d float64) train.Optimizer { return train.Adagrad(1e-10, d) }}
)

func (a *app) trainCmd() *cobra.Command {
	var f trainFlags
	names := func(m []string) string { return strings.Join(slices.Sorted(slices.Values(m)), ", ") }
	c := modelCommand("train MODEL --data FILE.npz -o OUT", "Fit a model's weights to data",
		"Train changes the weights of a model so that a loss becomes small, and writes the model with the new weights.\n"+
			"The .npz file has an array for each input, and one called \"target\" for losses with a target; the first dimension\n"+
			"of each counts examples. Steps take --batch of them, in an order drawn by --seed anew for every pass over the\n"+
			"data, as masks of dropouts are for every step; what is left of a pass is not used. Forward and backward\n"+
			"pass and the update are one program in one arena; --budget bounds its bytes: what is not kept from the forward pass is computed again.\n"+
			"With --checkpoint a command that was interrupted, or has more --epochs, goes on where it was, with the same steps as one that ran through.",
		"  berth train model.onnx --data digits.npz --loss cross-entropy --optimizer adam --rate 0.001 --epochs 5 -o trained.onnx\n"+
			"  berth train model.onnx --data digits.npz --learn head.weight --learn head.bias --curve losses.html -o trained.onnx\n"+
			"  berth train model.onnx --data digits.npz --epochs 50 --checkpoint digits.state -o trained.onnx",
		func(c *cobra.Command, model string) error {
			f.ignores, f.batches = c.Flags().Changed("ignore-label"), c.Flags().Changed("batch")
			return a.train(c.Context(), model, f)
		})
	c.Flags().StringVar(&f.data, "data", "", "archive of arrays, .npz: one for each input, and \"target\"")
	c.Flags().StringVarP(&f.out, "output", "o", "", "file to write the trained model to")
	c.Flags().StringVar(&f.loss, "loss", "cross-entropy", "what is to become small: "+names(slices.Collect(maps.Keys(losses))))
	outputFlag(c, &f.output, "output that the loss is of")
	c.Flags().Int64Var(&f.ignore, "ignore-label", 0, "target of cross-entropy that says that there is no class, as -100 (default none)")
	c.Flags().StringArrayVar(&f.learn, "learn", nil, "weight to be changed (repeatable; default all that the loss depends on)")
	c.Flags().StringVar(&f.optimizer, "optimizer", "sgd", "how weights change: "+names(slices.Collect(maps.Keys(optimizers))))
	c.Flags().Float64Var(&f.rate, "rate", 0.01, "rate of learning")
	c.Flags().Float64Var(&f.decay, "decay", 0, "decay of weights")
	c.Flags().Float64Var(&f.clip, "clip", 0, "shorten the derivatives to this length together; 0 leaves them as they are")
	c.Flags().IntVar(&f.warmup, "warmup", 0, "steps in which the rate rises from 0")
	c.Flags().BoolVar(&f.cosine, "cosine", false, "lower the rate to 0 along a cosine")
	c.Flags().IntVar(&f.batch, "batch", 0, "examples of a step (default the model's, else 32)")
	c.Flags().IntVar(&f.accumulate, "accumulate", 1, "steps whose derivatives are averaged before they change the weights")
	c.Flags().IntVar(&f.epochs, "epochs", 1, "passes over the data")
	c.Flags().IntVar(&f.steps, "steps", 0, "most steps; 0 is as many as the passes have")
	c.Flags().StringVar(&f.budget, "budget", "", "bytes that the arena of a step may take: 512MiB, … (default no bound)")
	c.Flags().StringVar(&f.curve, "curve", "", "write a page with the losses of all steps")
	c.Flags().StringVar(&f.checkpoint, "checkpoint", "", "file with the state of training: written every half minute, at the end and when the command is interrupted; where it is there, training goes on from it")
	return c
}

// outputFlag adds --of.
func outputFlag(c *cobra.Command, name *string, what string) {
	c.Flags().StringVar(name, "of", "", what+", or another value, as the scores before a last Softmax (default the first output)")
}

// check reports flags that make no sense, and reads the budget.
func (f *trainFlags) check() (budget int64, err error) {
	switch {
	case f.data == "" || f.out == "":
		return 0, usagef("train needs --data FILE.npz and -o OUT")
	case losses[f.loss] == nil:
		return 0, unknownChoice("loss", f.loss, slices.Sorted(maps.Keys(losses)))
	case optimizers[f.optimizer] == nil:
		return 0, unknownChoice("optimizer", f.optimizer, slices.Sorted(maps.Keys(optimizers)))
	}
	least := 0.0
	if f.batches {
		least = 1
	}
	for _, n := range []struct {
		flag  string
		v     float64
		least float64
		want  string
	}{{"rate", f.rate, math.SmallestNonzeroFloat64, "a finite number above 0"}, {"decay", f.decay, 0, "a finite number from 0 on"}, {"clip", f.clip, 0, "a finite length, or 0 for none"},
		{"batch", float64(f.batch), least, "a number of examples; leave the flag out for the model's"}, {"epochs", float64(f.epochs), 1, "a number of passes"},
		{"steps", float64(f.steps), 0, "a number of steps, or 0 for all"}, {"warmup", float64(f.warmup), 0, "a number of steps"}, {"accumulate", float64(f.accumulate), 1, "a number of steps"}} {
		if !(n.v >= n.least) || math.IsInf(n.v, 0) {
			return 0, usagef("--%s %v: want %s", n.flag, n.v, n.want)
		}
	}
	if f.budget == "" {
		return 0, nil
	}
	if budget, err = parseBytes(f.budget); err != nil {
		return 0, usagef("--budget %q: %w", f.budget, err)
	}
	return budget, nil
}

// unknownChoice names the nearest choice, or all.
func unknownChoice(flag, name string, known []string) error {
	hint := didYouMean(name, known)
	if hint == "" {
		hint = ": want one of " + strings.Join(known, ", ")
	}
	return usagef("--%s %s is unknown%s", flag, name, hint)
}

// trainJSON is the object printed by train.
type trainJSON struct {
	Model      string    `json:"model"`
	Output     string    `json:"output"`
	Learned    []string  `json:"learned"`
	Examples   int       `json:"examples"`
	Batch      int       `json:"batch"`
	Steps      int       `json:"steps"`
	Losses     []float64 `json:"losses"`
	ArenaBytes int64     `json:"arena_bytes"`
	Kept       string    `json:"kept,omitempty"` // with a budget
	StepNanos  int64     `json:"step_ns"`
}

func (a *app) train(ctx context.Context, model string, f trainFlags) error {
	budget, err := f.check()
	if err != nil {
		return err
	}
	opts, err := a.options(f.out, f.curve, f.checkpoint)
	if err != nil {
		return err
	}
	m, err := a.model(model, false)
	if err != nil {
		return err
	}
	defer m.Close()
	d, err := a.examples(m, f)
	if err != nil {
		return err
	}
	total := math.MaxInt
	if f.epochs <= math.MaxInt/d.batches() {
		total = d.batches() * f.epochs
	}
	if f.steps > 0 {
		total = min(total, f.steps)
	}
	rate := train.Constant(f.rate)
	if f.cosine {
		rate = train.Cosine(f.rate, 0, max(1, total/f.accumulate))
	}
	if f.warmup > 0 {
		rate = train.Warmup(f.warmup, rate)
	}
	loss := losses[f.loss]
	if f.ignores {
		loss = train.CrossEntropyIgnoring(f.ignore)
	}
	t, err := train.New(ctx, m, train.Options{Loss: loss, Output: f.output, Learn: f.learn, Optimizer: optimizers[f.optimizer](f.decay), Rate: rate,
		ClipNorm: f.clip, Accumulate: f.accumulate, Budget: budget, Seed: a.seed, Compile: append(d.shapes(m), opts...)})
	if err == nil {
		err = d.fit(t)
	}
	if err != nil {
		return trainingOf(model, err)
	}
	res := trainJSON{Model: model, Output: f.out, Learned: t.Learned(), Examples: d.count, Batch: d.batch, ArenaBytes: t.Plan().ArenaBytes, Kept: t.Kept()}
	c := &checkpoint{path: f.checkpoint, of: training{Examples: d.count, Batch: d.batch, Seed: a.seed, Loss: f.loss, Of: cmp.Or(f.output, m.Outputs()[0].Name), Optimizer: f.optimizer}, written: time.Now()}
	if res.Losses, err = c.restore(a.within(), t); err != nil {
		return err
	}
	if err := a.fit(ctx, t, d, c, total, &res); err != nil {
		return err
	}
	return a.trained(ctx, t, f, res)
}

// fit takes the steps that are left.
func (a *app) fit(ctx context.Context, t *train.Trainer, d *examples, c *checkpoint, total int, res *trainJSON) error {
	if c.path != "" {
		a.ending.finishing.Lock()
		defer a.ending.finishing.Unlock()
	}
	bar := a.newProgress(total)
	defer bar.done()
	done := len(res.Losses)
	bar.step("training")
	bar.skip(done)
	start := time.Now()
	waits := context.Background()
	if c.path == "" { // nothing is kept of a step that goes on to its end since it has begun to change weights
		waits = ctx
	}
	_, err := rescue.Until(waits, func() (struct{}, error) {
		return struct{}{}, t.Fit(ctx, d.draw(a.seed, done, total), func(step int, loss float64) error {
			if waits.Err() != nil { // nobody waits any more
				return waits.Err()
			}
			res.Losses = append(res.Losses, loss)
			bar.step(fmt.Sprintf("step %d of %d, loss %.4g", step, total, loss))
			if time.Since(c.written) < checkpointEvery || step == total {
				return nil
			}
			return c.write(ctx, t, res.Losses)
		})
	})
	if waits.Err() != nil {
		return err
	}
	res.Steps = len(res.Losses)
	res.StepNanos = time.Since(start).Nanoseconds() / int64(max(res.Steps-done, 1))
	ended := err != nil && ctx.Err() != nil && res.Steps > done // by a signal or --timeout
	if err != nil && !ended {
		return err
	}
	if wrong := c.write(context.WithoutCancel(ctx), t, res.Losses); wrong != nil && ended {
		a.note("berth: the state of training is not kept: %v", wrong)
	} else if wrong != nil {
		return wrong
	}
	return err
}

// trainingOf adds the model's name to an error of its training, unless that names it.
func trainingOf(model string, err error) error {
	if strings.Contains(err.Error(), model) {
		return err
	}
	return fmt.Errorf("%s: %w", model, err)
}

// trained writes the model and the curve, and tells of both.
func (a *app) trained(ctx context.Context, t *train.Trainer, f trainFlags, res trainJSON) error {
	m, err := t.Model()
	if err != nil {
		return err
	}
	if err := m.Save(f.out, berth.SaveOptions{Context: ctx, MaxMemory: int64(a.memory)}); err != nil {
		return err
	}
	if f.curve != "" {
		if err := safefile.Write(f.curve, lossCurve{res.Model, res.Losses}.write); err != nil {
			return err
		}
	}
	if a.json {
		return a.printJSON(res)
	}
	tab := newTable(a.out)
	for _, row := range [][]any{{"weights learned", len(res.Learned)}, {"examples", res.Examples}, {"steps", fmt.Sprintf("%d of %d examples", res.Steps, res.Batch)},
		{"loss of the first step", fmt.Sprintf("%.6g", res.Losses[0])}, {"loss of the last step", fmt.Sprintf("%.6g", res.Losses[len(res.Losses)-1])},
		{"arena", bytesText(res.ArenaBytes)}, {"time of a step", time.Duration(res.StepNanos).Round(time.Microsecond)}, {"written", f.out}} {
		tab.AppendRow(row)
	}
	if res.Kept != "" {
		tab.AppendRow([]any{"kept for the backward pass", res.Kept})
	}
	tab.Render()
	return nil
}

// checkpoint is the file that keeps the state of training.
type checkpoint struct {
	path    string // "" keeps none
	of      training
	written time.Time
}

// checkpointEvery is how long steps go on between two times that their state is written.
const checkpointEvery = 30 * time.Second

// training is what a file says first. It is followed by a [keptState] for each of its states, as a message of encoding/gob has a limit, and by a checksum.
type training struct {
	Examples, Batch int
	Seed            int64
	Loss, Of        string // of which the weights were to become better
	Optimizer       string
	Losses          []float64 // of all steps taken
	States          int
}

type keptState struct {
	Name  string
	Value *ndarray.Array
}

// readState is a [keptState] as it is read: states have no strings, which would take more memory than their bytes say.
type readState struct {
	Name  string
	Value struct {
		DType ndarray.DType
		Shape []int
		Data  []byte
	}
}

// stateReader gives encoding/gob one message after the other, each when the memory that it may become was granted, until the context ends.
type stateReader struct {
	*bufio.Reader
	ctx    context.Context
	factor int64 // memory of a decoded message, in parts of its bytes: a list grows while it is read, and zeros take a byte each
	left   int64 // bytes of the message that are not read
	sum    hash.Hash32
}

// stateSum is the checksum at the end of the file, of all messages before it.
func stateSum() hash.Hash32 { return crc32.New(crc32.MakeTable(crc32.Castagnoli)) }

func (r *stateReader) Read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	if r.left <= 0 {
		if err := r.next(); err != nil {
			return 0, err
		}
	}
	n, err := r.Reader.Read(p[:min(int64(len(p)), r.left)])
	r.left -= int64(n)
	r.sum.Write(p[:n])
	return n, err
}

// next reads ahead how long the next message is: one byte below 128, or a negative number of bytes and the bytes of the length.
func (r *stateReader) next() error {
	b, err := r.Peek(1)
	if err != nil {
		return err
	}
	size, head := int64(b[0]), 1
	if b[0] >= 128 {
		head = 1 + min(-int(int8(b[0])), 8)
		if b, err = r.Peek(head); err != nil {
			return err
		}
		size = 0
		for _, d := range b[1:] {
			size = size<<8 | int64(d)
		}
	}
	r.left = int64(head) + max(0, min(size, math.MaxInt32)) // encoding/gob refuses messages of more than 2³⁰ bytes
	return ndarray.BudgetOf(r.ctx).Ask("the state of training", r.factor*r.left)
}

// restore goes on from the file, if there is one, and gives the losses until then.
func (c *checkpoint) restore(ctx context.Context, t *train.Trainer) (losses []float64, err error) {
	if c.path == "" {
		return nil, nil
	}
	f, err := os.Open(c.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	in := &stateReader{Reader: bufio.NewReader(f), ctx: ctx, factor: 20, sum: stateSum()}
	said, from := training{}, gob.NewDecoder(in)
	if err := from.Decode(&said); err != nil {
		return nil, c.unread(ctx, err)
	}
	if said.Examples != c.of.Examples || said.Batch != c.of.Batch || said.Seed != c.of.Seed {
		return nil, fmt.Errorf("--checkpoint %s is of %d examples, --batch %d and --seed %d: the order of what is left would be another; name a file that is not there to begin anew",
			c.path, said.Examples, said.Batch, said.Seed)
	}
	if said.Loss != c.of.Loss || said.Of != c.of.Of || said.Optimizer != c.of.Optimizer {
		return nil, fmt.Errorf("--checkpoint %s is of --loss %s, --of %q and --optimizer %s; name a file that is not there to begin anew", c.path, said.Loss, said.Of, said.Optimizer)
	}
	state := &train.Checkpoint{Steps: len(said.Losses), States: map[string]*ndarray.Array{}}
	in.factor = 4
	for range said.States {
		var s readState
		if err := from.Decode(&s); err != nil {
			return nil, c.unread(ctx, err)
		}
		state.States[s.Name] = &ndarray.Array{DType: s.Value.DType, Shape: s.Value.Shape, Data: s.Value.Data}
	}
	var sum uint32
	if got := in.sum.Sum32(); from.Decode(&sum) != nil || sum != got {
		return nil, fmt.Errorf("--checkpoint %s is damaged: it has changed since it was written, or is cut short; name a file that is not there to begin anew", c.path)
	}
	if err := t.Restore(state); err != nil {
		return nil, fmt.Errorf("--checkpoint %s: %w", c.path, err)
	}
	return said.Losses, nil
}

// unread says why the file is not read.
func (c *checkpoint) unread(ctx context.Context, err error) error {
	var memory *berth.MemoryError
	switch {
	case errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF):
		return fmt.Errorf("--checkpoint %s is no state of training, or cut short; name a file that is not there to begin anew", c.path)
	case ctx.Err() != nil || errors.As(err, &memory):
		return fmt.Errorf("--checkpoint %s: %w", c.path, err)
	}
	return fmt.Errorf("--checkpoint %s is no state of training: %w", c.path, err)
}

// write keeps the state, unless weights have ceased to be numbers.
func (c *checkpoint) write(ctx context.Context, t *train.Trainer, losses []float64) error {
	if err := t.CheckFinite(ctx); err != nil && ctx.Err() == nil {
		return fmt.Errorf("%w: lower --rate, or bound derivatives by --clip", err)
	} else if err != nil {
		return err
	}
	c.written = time.Now()
	if c.path == "" {
		return nil
	}
	state, err := t.Checkpoint()
	if err != nil {
		return err
	}
	return safefile.Write(c.path, func(w io.Writer) error {
		c.of.Losses, c.of.States = losses, len(state.States)
		sum := stateSum()
		to := gob.NewEncoder(io.MultiWriter(w, sum))
		if err := to.Encode(c.of); err != nil {
			return err
		}
		for _, name := range slices.Sorted(maps.Keys(state.States)) {
			if err := to.Encode(keptState{name, state.States[name]}); err != nil {
				return err
			}
		}
		return to.Encode(sum.Sum32())
	})
}

// lossCurve is a page with the losses of all steps.
type lossCurve struct {
	model  string
	losses []float64
}

const curvePage = `<!doctype html>
<html lang="en"><meta charset="utf-8"><title>%[1]s: losses</title>
<style>
body{font:14px system-ui,sans-serif;margin:24px;color:#222;background:#fff}
svg{border:1px solid #ccc;background:#fafafa;max-width:100%%}
polyline{fill:none;stroke:#27c;stroke-width:1.5}
</style>
<h1>%[1]s</h1>
<p>%[2]d steps, loss from %.6[3]g to %.6[4]g</p>
<svg viewBox="0 0 960 480" width="960" height="480">
<polyline points="%[5]s"/>
<text x="4" y="16">%.4[6]g</text><text x="4" y="474">%.4[7]g</text>
</svg>
</html>
`

// write draws steps to the right and losses upwards, from the least to the largest.
func (c lossCurve) write(w io.Writer) error {
	low, high := slices.Min(c.losses), slices.Max(c.losses)
	var points bytes.Buffer
	for i, v := range c.losses {
		x := 960 * float64(i) / float64(max(len(c.losses)-1, 1))
		y := 240.0
		if high > low {
			y = 470 - 460*(v-low)/(high-low)
		}
		fmt.Fprintf(&points, "%.1f,%.1f ", x, y)
	}
	_, err := fmt.Fprintf(w, curvePage, html.EscapeString(c.model), len(c.losses), c.losses[0], c.losses[len(c.losses)-1], points.String(), high, low)
	return err
}
