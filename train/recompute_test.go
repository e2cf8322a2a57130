package train_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ssa"
	"github.com/berth-onnx/berth/train"
)

// deep is a perceptron of many layers whose weights are small beside what they compute.
func deep(t testing.TB, layers, rows, width int) *berth.Model {
	var text strings.Builder
	fmt.Fprintf(&text, "in %%x: float32[%d,%d]", rows, width)
	weights := map[string]*ndarray.Array{}
	last := "x"
	for i := range layers {
		name := fmt.Sprintf("w%d", i)
		weights[name] = waves(4/float64(width), float64(i), width, width)
		fmt.Fprintf(&text, " in %%%s: float32[%d,%d] %%p%d = MatMul(%%%s, %%%s) %%h%d = Tanh(%%p%d)", name, width, width, i, last, name, i, i)
		last = fmt.Sprintf("h%d", i)
	}
	fmt.Fprintf(&text, " out %%%s", last)
	return parsed(t, text.String(), weights)
}

// TestBudget: steps within a budget have the losses and weights of steps without one, bit for bit, in an arena that fits,
// over poisoned memory. The batch is of a prime number, so it stays in one part.
func TestBudget(t *testing.T) {
	const rows = 257
	x, want := waves(1, 5, rows, 8), waves(0.5, 6, rows, 8)
	steps := func(budget int64) (tr *train.Trainer, losses []float64, err error) {
		tr, err = train.New(t.Context(), deep(t, 16, rows, 8), train.Options{Loss: train.MeanSquaredError, Optimizer: train.Momentum(0.9, 0), Budget: budget})
		if err != nil {
			return nil, nil, err
		}
		tr.Poison()
		for range 3 {
			loss, err := tr.Step(t.Context(), x, want)
			require.NoError(t, err)
			losses = append(losses, loss)
		}
		return tr, losses, nil
	}
	free, losses, err := steps(0)
	require.NoError(t, err)
	arena := free.Plan().ArenaBytes
	for _, share := range []float64{2, 0.8, 0.6} {
		tr, got, err := steps(int64(share * float64(arena)))
		require.NoError(t, err, "%g of %d bytes", share, arena)
		t.Logf("budget %g: %s kept, %d of %d bytes, bound %d", share, tr.Kept(), tr.Plan().ArenaBytes, arena, tr.Plan().LowerBound)
		assert.LessOrEqual(t, float64(tr.Plan().ArenaBytes), share*float64(arena))
		assert.Equal(t, losses, got)
		for _, name := range tr.Learned() {
			a, err := free.Weight(name)
			require.NoError(t, err)
			b, err := tr.Weight(name)
			require.NoError(t, err)
			assert.Equal(t, a.Data, b.Data)
		}
	}
	_, _, err = steps(1000)
	var short *train.BudgetError
	require.ErrorAs(t, err, &short)
	assert.LessOrEqual(t, float64(short.Least), 0.6*float64(arena))
}

// TestBudgetOfParts: a batch in parts gives the losses and weights but for roundings, with every optimizer and with all that a step does beside, dropout included.
func TestBudgetOfParts(t *testing.T) {
	const rows, width = 256, 8
	dropped := `in %x: float32[256,8] in %w: float32[8,32] in %v: float32[32,8] const %half: float32[] = 0.5 const %yes: bool[] = true
		%a = MatMul(%x, %w) %b = Tanh(%a) %c = Dropout(%b, %half, %yes) %d = MatMul(%c, %v) out %d`
	perceptron := func() *berth.Model { return deep(t, 16, rows, width) }
	dropout := func() *berth.Model {
		return parsed(t, dropped, map[string]*ndarray.Array{"w": waves(0.2, 1, 8, 32), "v": waves(0.2, 2, 32, 8)})
	}
	for _, c := range []struct {
		name    string
		model   func() *berth.Model
		options train.Options
	}{
		{"SGD", perceptron, train.Options{Optimizer: train.SGD(0.01)}},
		{"momentum", perceptron, train.Options{Optimizer: train.Momentum(0.9, 0)}},
		{"Adam", perceptron, train.Options{Optimizer: train.Adam(0.9, 0.999, 1e-3, 0)}},
		{"accumulated", perceptron, train.Options{Accumulate: 2}},
		{"clipped", perceptron, train.Options{ClipNorm: 0.1}},
		{"dropout", dropout, train.Options{Seed: 5}},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := c.options
			o.Loss, o.Rate = train.MeanSquaredError, train.Constant(0.01)
			free, err := train.New(t.Context(), c.model(), o)
			require.NoError(t, err)
			o.Budget = free.Plan().ArenaBytes * 6 / 10
			tight, err := train.New(t.Context(), c.model(), o)
			require.NoError(t, err)
			assert.Contains(t, tight.Kept(), "parts of the batch")
			tight.Poison()
			learnAlike(t, free, tight, 4, waves(1, 5, rows, width), waves(0.5, 6, rows, width))
		})
	}
}

// TestUpdateEarly: nodes that change a weight follow its derivative at once, those that read inputs alone just ahead of them.
func TestUpdateEarly(t *testing.T) {
	g, err := ssa.ParseGraph(`graph "g" { in %x: float32[2] in %v: float32[2] in %w: float32[2] in %r: float32[]
		%a = Exp(%x) %d = Neg(%a) %e = Sin(%d) %m = Mul(%v, %r) %n = Add(%m, %d) %s = Mul(%n, %r) %u = Sub(%w, %s) %l = Mul(%r, %r) out %e, %n, %u, %l }`)
	require.NoError(t, err)
	train.UpdateEarly(g, 3)
	var order []string
	for _, n := range g.Nodes {
		order = append(order, n.Out[0].Name)
	}
	assert.Equal(t, []string{"a", "d", "m", "n", "s", "u", "e", "l"}, order)
	require.NoError(t, ssa.Check(g))
}

// TestBudgetOfModels: the models of PyTorch learn the same within what is left for them.
func TestBudgetOfModels(t *testing.T) {
	for name, m := range pytorchModels {
		if name == "lstm" {
			continue // its carried values are what is kept
		}
		t.Run(name, func(t *testing.T) {
			var short *train.BudgetError
			o := train.Options{Loss: m.loss, Rate: train.Constant(0.05), Budget: 1}
			_, err := train.New(t.Context(), parsed(t, m.text, m.weights), o)
			require.ErrorAs(t, err, &short)
			o.Budget = short.Least
			tight, err := train.New(t.Context(), parsed(t, m.text, m.weights), o)
			require.NoError(t, err)
			tight.Poison()
			o.Budget = 0
			free, err := train.New(t.Context(), parsed(t, m.text, m.weights), o)
			require.NoError(t, err)
			t.Logf("%s kept, %d of %d bytes", tight.Kept(), tight.Plan().ArenaBytes, free.Plan().ArenaBytes)
			for range 3 {
				want, err := free.Step(t.Context(), m.in...)
				require.NoError(t, err)
				got, err := tight.Step(t.Context(), m.in...)
				require.NoError(t, err)
				assert.InDelta(t, want, got, max(1e-6, 2.5e-7*want))
			}
		})
	}
}

// TestActivations: what a step keeps for the backward pass is counted at its peak: of a perceptron's layers of one size all but the ends.
func TestActivations(t *testing.T) {
	const layers, rows, width = 16, 256, 8
	free, err := train.New(t.Context(), deep(t, layers, rows, width), train.Options{Loss: train.MeanSquaredError})
	require.NoError(t, err)
	const one = 4 * rows * width
	assert.Contains(t, []int64{(layers - 1) * one, layers * one}, free.Activations())
	assert.Less(t, free.Activations(), free.Plan().ArenaBytes)
	tight, err := train.New(t.Context(), deep(t, layers, rows, width), train.Options{Loss: train.MeanSquaredError, Budget: free.Plan().ArenaBytes - free.Activations()/2})
	require.NoError(t, err)
	assert.LessOrEqual(t, tight.Activations(), free.Activations()/2)
	assert.Zero(t, (*train.Trainer)(nil).Activations())
}

// learnAlike takes so many steps with both trainers: losses and weights differ by no more than 1e-6, losses above 4 by two to four units in the
// last place, since float32 numbers of 12 are 1e-6 apart.
func learnAlike(t *testing.T, free, tight *train.Trainer, steps int, in ...ndarray.Value) {
	t.Helper()
	for range steps {
		want, err := free.Step(t.Context(), in...)
		require.NoError(t, err)
		got, err := tight.Step(t.Context(), in...)
		require.NoError(t, err)
		assert.InDelta(t, want, got, max(1e-6, 2.5e-7*want))
	}
	for _, name := range tight.Learned() {
		a, err := free.Weight(name)
		require.NoError(t, err)
		b, err := tight.Weight(name)
		require.NoError(t, err)
		for i := range a.Len() {
			require.InDelta(t, a.Float(i), b.Float(i), 1e-6, "%s, element %d", name, i)
		}
	}
}
