package train_test

import (
	"math"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth"
	"github.com/berth-onnx/berth/gradient"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
	"github.com/berth-onnx/berth/train"
)

// masked is the graph of a dropout of training steps, over x of a type, for a ratio.
func masked(t *testing.T, dt ndarray.DType, ratio float64, seed int64, shape ...int) (*ssa.Graph, *ssa.Value) {
	g := ssa.NewGraph("masked")
	r := ndarray.Must(ndarray.Float32)
	r.SetFloat(0, ratio)
	in := []*ssa.Value{g.AddParam("x", ssa.StaticTensor(dt, shape...)), g.AddConst("ratio", ssa.NewConstant(r)), g.AddParam("step", ssa.StaticTensor(ndarray.Int64)), g.AddParam("iteration", ssa.StaticTensor(ndarray.Int64))}
	n := g.NewNode("StepDropout", in, 1, ssa.IntAttr("seed", seed))
	n.Domain = ops.Private
	require.NoError(t, ops.Infer(n))
	g.Results = n.Out
	return g, n.Out[0]
}

func masks(t *testing.T, g *ssa.Graph, x *ndarray.Array, step, iteration int64) []float64 {
	out, err := ops.Interpret(t.Context(), g, []ndarray.Value{x, ndarray.Of([]int64{step}), ndarray.Of([]int64{iteration})}, nil)
	require.NoError(t, err)
	y := out[0].(*ndarray.Array)
	v := make([]float64, y.Len())
	for i := range v {
		v[i] = y.Float(i)
	}
	return v
}

// TestMaskStatistics: of n elements the ratio is zero, others are scaled, and masks of neighbours, rows, steps, iterations and seeds do not
// depend on each other. A share p of n independent draws has the deviation √(p(1-p)/n); five of them are allowed.
func TestMaskStatistics(t *testing.T) {
	const rows, columns = 500, 401
	x := filled(1, rows, columns)
	n := float64(rows * columns)
	for _, ratio := range []float64{0, 0.1, 0.5, 0.9} {
		g, _ := masked(t, ndarray.Float32, ratio, 1, rows, columns)
		other, _ := masked(t, ndarray.Float32, ratio, 2, rows, columns)
		base := masks(t, g, x, 0, 0)
		share := func(v []float64) (kept float64) {
			for _, y := range v {
				if y != 0 {
					assert.InEpsilon(t, 1/(1-ratio), y, 1e-6)
					kept++
				}
			}
			return kept / n
		}
		near := func(want, got float64, what string) {
			assert.InDelta(t, want, got, 5*math.Sqrt(want*(1-want)/n)+1e-12, "ratio %g: %s", ratio, what)
		}
		keep := 1 - ratio
		near(keep, share(base), "kept")
		both := func(a, b []float64) (sum float64) {
			for i := range b {
				if a[i] != 0 && b[i] != 0 {
					sum++
				}
			}
			return sum / float64(len(b))
		}
		near(keep*keep, both(base, masks(t, g, x, 1, 0)), "kept in two steps")
		near(keep*keep, both(base, masks(t, g, x, 0, 1)), "kept in two iterations")
		near(keep*keep, both(base, masks(t, other, x, 0, 0)), "kept by two seeds")
		near(keep*keep, both(base, base[1:]), "neighbours")
		near(keep*keep, both(base, base[columns:]), "rows")
		assert.Equal(t, base, masks(t, g, x, 0, 0), "drawn again")
	}
}

// TestMaskedDifferences: the derivative of a dropout of training steps is that of central differences in float64; the function is
// linear, so its second derivative is nothing.
func TestMaskedDifferences(t *testing.T) {
	g, y := masked(t, ndarray.Float64, 0.4, 7, 3, 5)
	square := g.NewNode("ReduceSumSquare", []*ssa.Value{y}, 1, ssa.IntAttr("keepdims", 0))
	require.NoError(t, ops.Infer(square))
	d, err := gradient.Of(t.Context(), g, square.Out[0], g.Params[0])
	require.NoError(t, err)
	g.Results = []*ssa.Value{square.Out[0], d[0]}
	x := ndarray.Must(ndarray.Float64, 3, 5)
	for i := range x.Len() {
		x.SetFloat(i, math.Sin(float64(i)*1.7))
	}
	run := func() []ndarray.Value {
		out, err := ops.Interpret(t.Context(), g, []ndarray.Value{x, ndarray.Of([]int64{11}), ndarray.Of([]int64{2})}, nil)
		require.NoError(t, err)
		return out
	}
	slopes := run()[1].(*ndarray.Array)
	zeros := 0
	for i := range x.Len() {
		const h = 1e-5
		old := x.Float(i)
		x.SetFloat(i, old+h)
		up := run()[0].(*ndarray.Array).Float(0)
		x.SetFloat(i, old-h)
		down := run()[0].(*ndarray.Array).Float(0)
		x.SetFloat(i, old)
		assert.InDelta(t, (up-down)/(2*h), slopes.Float(i), 1e-8)
		if slopes.Float(i) == 0 {
			zeros++
		}
	}
	assert.Greater(t, zeros, 0)
	assert.Less(t, zeros, x.Len())
}

// wide is a perceptron with a dropout, as operator sets have it: attributes are those of a version, 0 for the newest.
func wide(t *testing.T, dropout string, version int, attrs ...ssa.Attr) *berth.Model {
	m := parsed(t, `in %x: float32[8,6] in %w1: float32[6,64] in %w2: float32[64,2] const %r: float32[] = 0.25 const %on: bool[] = true const %off: bool[] = false const %none: float32[] = 0
		%h = MatMul(%x, %w1) %a = Tanh(%h) `+dropout+` %y = MatMul(%d, %w2) out %y`, map[string]*ndarray.Array{"w1": waves(0.7, 1, 6, 64), "w2": waves(0.6, 3, 64, 2)})
	g := m.Graph()
	for _, n := range append([]*ssa.Node(nil), g.Nodes...) {
		if n.Op == "Dropout" && version > 0 {
			n.Version, n.Attrs = version, attrs
			require.NoError(t, ops.Modernize(t.Context(), g, n))
		}
	}
	require.NoError(t, ops.InferGraph(g))
	return berth.FromModule(&ssa.Module{Graph: g})
}

// TestDropout: every form of Dropout is drawn anew in each step, the same on any number of threads and after a checkpoint; ratio 0 and
// WithoutDropout are the model without it; and the model that training gives is in the form of inference.
func TestDropout(t *testing.T) {
	x, want := waves(1, 5, 8, 6), waves(0.5, 6, 8, 2)
	losses := func(m *berth.Model, o train.Options) (out []float64, tr *train.Trainer) {
		o.Loss = train.MeanSquaredError
		if o.Rate == nil {
			o.Rate = train.Constant(0.05)
		}
		tr, err := train.New(t.Context(), m, o)
		require.NoError(t, err)
		assert.Len(t, tr.Inputs(), 2)
		tr.Poison()
		for range 4 {
			loss, err := tr.Step(t.Context(), x, want)
			require.NoError(t, err)
			out = append(out, loss)
		}
		return out, tr
	}
	threads := func(n int) []berth.Option { return []berth.Option{berth.WithThreads(n)} }
	plain, _ := losses(wide(t, `%d = Identity(%a)`, 0), train.Options{})
	var first []float64
	for _, c := range []struct {
		name, node string
		version    int
		attrs      []ssa.Attr
		off        bool
	}{
		{"ratio alone", `%d = Dropout(%a, %r)`, 0, nil, false},
		{"training", `%d = Dropout(%a, %r, %on)`, 0, nil, false},
		{"not training", `%d = Dropout(%a, %r, %off)`, 0, nil, false},
		{"opset 6", `%d = Dropout(%a)`, 6, []ssa.Attr{ssa.FloatAttr("ratio", 0.25)}, false},
		{"opset 6, test", `%d = Dropout(%a)`, 6, []ssa.Attr{ssa.FloatAttr("ratio", 0.25), ssa.IntAttr("is_test", 1)}, false},
		{"opset 7", `%d = Dropout(%a)`, 7, []ssa.Attr{ssa.FloatAttr("ratio", 0.25)}, false},
		{"opset 10", `%d = Dropout(%a)`, 10, []ssa.Attr{ssa.FloatAttr("ratio", 0.25)}, false},
		{"opset 12", `%d = Dropout(%a, %r)`, 12, nil, false},
		{"unread mask", `%d, %mask = Dropout(%a, %r, %on)`, 0, nil, false},
		{"mask that is read", `%zeros, %mask = Dropout(%a, %r, %on) %d = Identity(%zeros) %unread = Not(%mask)`, 0, nil, false},
		{"ratio 0", `%d = Dropout(%a, %none, %on)`, 0, nil, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := wide(t, c.node, c.version, c.attrs...)
			got, tr := losses(m, train.Options{Compile: threads(1)})
			if c.off {
				assert.Equal(t, plain, got)
				return
			}
			if first == nil {
				first = got
			}
			assert.Equal(t, first, got, "the mask is that of the seed, not of the form")
			for i := range got {
				assert.NotEqual(t, plain[i], got[i])
			}
			more, _ := losses(m, train.Options{Compile: threads(3)})
			assert.Equal(t, got, more, "threads")
			tight, _ := losses(m, train.Options{Budget: tr.Plan().ArenaBytes})
			assert.Equal(t, got, tight, "recomputed")
			other, _ := losses(m, train.Options{Seed: 1})
			assert.NotEqual(t, got, other, "seed")
			without, _ := losses(m, train.Options{WithoutDropout: true})
			assert.Equal(t, plain, without)
			still, _ := losses(m, train.Options{Rate: train.Constant(0)})
			assert.NotEqual(t, still[0], still[1], "each step draws")
			held, _ := losses(m, train.Options{Rate: train.Constant(0), Accumulate: 2})
			assert.Equal(t, still, held, "each step of an accumulation draws")

			c, err := tr.Checkpoint()
			require.NoError(t, err)
			a, err := tr.Step(t.Context(), x, want)
			require.NoError(t, err)
			require.NoError(t, tr.Restore(c))
			b, err := tr.Step(t.Context(), x, want)
			require.NoError(t, err)
			assert.Equal(t, a, b)
			in := []ndarray.Value{x, want}
			ctx := t.Context()
			assert.Zero(t, testing.AllocsPerRun(5, func() {
				if _, err := tr.Step(ctx, in...); err != nil {
					t.Error(err)
				}
			}))
			infers(t, tr, x)
		})
	}
}

// infers compares the model of a trainer, after it was written and read, with the net without a dropout and the same weights.
func infers(t *testing.T, tr *train.Trainer, x *ndarray.Array) {
	m, err := tr.Model()
	require.NoError(t, err)
	file := filepath.Join(t.TempDir(), "m.onnx")
	require.NoError(t, m.Save(file, berth.SaveOptions{}))
	read, err := berth.Open(file)
	require.NoError(t, err)
	defer read.Close()
	got, err := read.RunValues(t.Context(), map[string]ndarray.Value{"x": x})
	require.NoError(t, err)
	w1, err := tr.Weight("w1")
	require.NoError(t, err)
	w2, err := tr.Weight("w2")
	require.NoError(t, err)
	same := parsed(t, `in %x: float32[8,6] in %w1: float32[6,64] in %w2: float32[64,2] %h = MatMul(%x, %w1) %a = Tanh(%h) %y = MatMul(%a, %w2) out %y`, map[string]*ndarray.Array{"w1": w1, "w2": w2})
	out, err := same.RunValues(t.Context(), map[string]ndarray.Value{"x": x})
	require.NoError(t, err)
	assert.Equal(t, out["y"].(*ndarray.Array).Data, got["y"].(*ndarray.Array).Data)
}

// TestDropoutMode: a mode that is an input of the model says which form a step takes, and a ratio that is none is refused by name.
func TestDropoutMode(t *testing.T) {
	m := func(ratio string) *berth.Model {
		return parsed(t, `in %x: float32[8,6] in %mode: bool[] in %w1: float32[6,2] const %r: float32[] = `+ratio+` %h = MatMul(%x, %w1) %y = Dropout(%h, %r, %mode) out %y`, map[string]*ndarray.Array{"w1": waves(0.7, 1, 6, 2)})
	}
	tr, err := train.New(t.Context(), m("0.5"), train.Options{Loss: train.MeanSquaredError, Rate: train.Constant(0)})
	require.NoError(t, err)
	x, want := waves(1, 5, 8, 6), waves(0.5, 6, 8, 2)
	var losses []float64
	for _, on := range []bool{false, true, false, true} {
		loss, err := tr.Step(t.Context(), x, ndarray.Of([]bool{on}), want)
		require.NoError(t, err)
		losses = append(losses, loss)
	}
	assert.Equal(t, losses[0], losses[2])
	assert.NotEqual(t, losses[0], losses[1])
	assert.NotEqual(t, losses[1], losses[3])
	bad, err := train.New(t.Context(), m("1.5"), train.Options{Loss: train.MeanSquaredError})
	if err == nil {
		_, err = bad.Step(t.Context(), x, ndarray.Of([]bool{true}), want)
	}
	assert.ErrorContains(t, err, "ratio 1.5")
}

// TestDropoutInLoop: iterations of a Loop draw masks of their own, in the backward pass the same ones.
func TestDropoutInLoop(t *testing.T) {
	const text = `in %x: float32[3,4] in %w1: float32[4,4] const %trips: int64[] = 3 const %go: bool[] = true
		%y = Loop(%trips, %go, %x | %w1) { body: graph "b" { in %i: int64[] in %c: bool[] in %h: float32[3,4] in %w1: float32[4,4] const %r: float32[] = 0.5
			%p = MatMul(%h, %w1) %d = Dropout(%p, %r) %on = Identity(%c) out %on, %d } }
		out %y`
	x, want := waves(1, 5, 3, 4), waves(0.5, 6, 3, 4)
	loss := func(w *ndarray.Array) float64 {
		tr, err := train.New(t.Context(), parsed(t, text, map[string]*ndarray.Array{"w1": w}), train.Options{Loss: train.MeanSquaredError, Rate: train.Constant(0)})
		require.NoError(t, err)
		l, err := tr.Step(t.Context(), x, want)
		require.NoError(t, err)
		return l
	}
	tr, err := train.New(t.Context(), parsed(t, text, map[string]*ndarray.Array{"w1": waves(0.7, 1, 4, 4)}), train.Options{Loss: train.MeanSquaredError, Rate: train.Constant(1)})
	require.NoError(t, err)
	_, err = tr.Step(t.Context(), x, want)
	require.NoError(t, err)
	after, err := tr.Weight("w1")
	require.NoError(t, err)
	w := waves(0.7, 1, 4, 4)
	for i := 0; i < w.Len(); i += 3 {
		const h = 1e-2 // losses are float32: the error of a difference is 1e-7/h, and that of its form h²
		old := w.Float(i)
		w.SetFloat(i, old+h)
		up := loss(w.Clone())
		w.SetFloat(i, old-h)
		down := loss(w.Clone())
		w.SetFloat(i, old)
		assert.InDelta(t, (up-down)/(2*h), old-after.Float(i), 2e-3)
	}
}
