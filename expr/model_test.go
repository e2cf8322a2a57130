package expr

import (
	"context"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ssa"
	"github.com/berth-onnx/berth/testmodels"
)

func builtin(t testing.TB, name string) *berth.Model {
	m, err := testmodels.Build(name)
	require.NoError(t, err)
	return berth.FromModule(m)
}

// readBack saves a model, and opens the file, which has operators of ONNX alone.
func readBack(t *testing.T, m *berth.Model) *berth.Model {
	path := filepath.Join(t.TempDir(), "extended.onnx")
	require.NoError(t, m.Save(path, berth.SaveOptions{}))
	back, err := berth.Open(path)
	require.NoError(t, err)
	t.Cleanup(func() { back.Close() })
	for _, n := range back.Graph().Nodes {
		require.Empty(t, n.Domain, "%s", n)
	}
	violations, err := back.TypeViolations(t.Context())
	require.NoError(t, err)
	require.Empty(t, violations)
	return back
}

// TestExtend feeds bytes to a model of floats, and decodes what it gives: the results are those of doing the same in Go.
func TestExtend(t *testing.T) {
	plain := builtin(t, "mlp") // x [4 64] -> probabilities [4 10]
	mean, err := Of(make([]float32, 128), 128)
	require.NoError(t, err)
	pixels, x := ndarray.Must(ndarray.Uint8, 4, 64), ndarray.Must(ndarray.Float32, 4, 64)
	for i := range mean.Data() {
		mean.Data()[i] = float32(i) / 100
	}
	for i := range pixels.Len() {
		pixels.SetInt(i, int64(i*37%256))
		x.SetFloat(i, float64((float32(i*37%256)-float32(2*(i%64))/100)/float32(64)))
	}
	extended, err := Extend(t.Context(), plain, func(p *Ports) {
		in := Input[uint8](p, "pixels", 4, 64)
		every := mean.Slice(Range{0, ToEnd, 2})
		Feed(p, "x", Cast[float32](in).Sub(every).Div(Num[float32](64)))
		scores := Output[float32](p, "probabilities")
		Result(p, "class", ArgMax(scores, -1, false))
		Result(p, "score", ReduceMax(scores, false, -1))
		Result(p, "same score", ReduceMax(scores, false, -1))
		Result(p, "last first", Slice(scores, Range{-1, ToStart, -1}))
		Result(p, "bytes", in)
		Result(p, "half", Num[float32](0.5))
		p.Drop("probabilities")
	})
	require.NoError(t, err)
	assert.Equal(t, "x", plain.Inputs()[0].Name, "the receiver is unchanged")
	mean.Data()[0] = 1000 // the model has its own
	before, err := plain.RunValues(t.Context(), map[string]ndarray.Value{"x": x})
	require.NoError(t, err)
	scores := before["probabilities"].(*ndarray.Array)
	for name, m := range map[string]*berth.Model{"extended": extended, "read back": readBack(t, extended)} {
		require.Len(t, m.Inputs(), 1)
		out, err := m.RunValues(t.Context(), map[string]ndarray.Value{"pixels": pixels})
		require.NoError(t, err, name)
		require.Len(t, out, 6)
		class, score, turned := out["class"].(*ndarray.Array), out["score"].(*ndarray.Array), out["last first"].(*ndarray.Array)
		for i := range 4 {
			best := 0
			for j := range 10 {
				if scores.Float(i*10+j) > scores.Float(i*10+best) {
					best = j
				}
				assert.InDelta(t, scores.Float((3-i)*10+j), turned.Float(i*10+j), 1e-6)
			}
			assert.Equal(t, int64(best), class.Int(i), name)
			assert.InDelta(t, scores.Float(i*10+best), score.Float(i), 1e-6, name)
		}
		assert.Equal(t, score.Data, out["same score"].(*ndarray.Array).Data)
		assert.Equal(t, pixels.Data, out["bytes"].(*ndarray.Array).Data)
		assert.Equal(t, 0.5, out["half"].(*ndarray.Array).Float(0))
	}
}

// TestExtendErrors: what is wrong is an error that names it.
func TestExtendErrors(t *testing.T) {
	f, err := NewFunc("of a model", func(v float32) float32 { return v })
	require.NoError(t, err)
	var elsewhere Expr[float32]
	for _, x := range []struct {
		name, says string
		edit       func(p *Ports)
	}{
		{"unknown input", `no input "pixels"`, func(p *Ports) { Feed[float32](p, "pixels", Num[float32](1)) }},
		{"unknown output", `no output "boxes"`, func(p *Ports) { Output[float32](p, "boxes") }},
		{"drop of an unknown output", `no output "boxes"`, func(p *Ports) { p.Drop("boxes") }},
		{"input of another type", "not a tensor of uint8", func(p *Ports) { Feed(p, "x", Input[uint8](p, "b", 4, 64)) }},
		{"output of another type", "not a tensor of int64", func(p *Ports) { Output[int64](p, "probabilities") }},
		{"another shape", "broadcast", func(p *Ports) { Feed(p, "x", Input[float32](p, "b", 3)) }},
		{"name of an input", "of that name", func(p *Ports) { Input[float32](p, "x", 1) }},
		{"name of an output", `"probabilities" already`, func(p *Ports) { Result(p, "probabilities", Num[float32](1)) }},
		{"no name", "already", func(p *Ports) { Result(p, "", Num[float32](1)) }},
		{"function of Go", "of a model: a function of Go", func(p *Ports) { Result(p, "y", Map(f, Output[float32](p, "probabilities"))) }},
		{"no operand", errNilValue.Error(), func(p *Ports) { Result[float32](p, "y", nil) }},
		{"no operand to feed", errNilValue.Error(), func(p *Ports) { Feed[float32](p, "x", nil) }},
		{"negative dimension", "shape", func(p *Ports) { Input[float32](p, "b", -1) }},
		{"nothing left", "output", func(p *Ports) { p.Drop("probabilities") }},
		{"end of another model", errOtherModel.Error(), func(p *Ports) {
			_, err := Extend(t.Context(), builtin(t, "mlp"), func(p *Ports) { elsewhere = Output[float32](p, "probabilities") })
			require.NoError(t, err)
			Result[float32](p, "y", elsewhere)
		}},
		{"operand with an error", "do not broadcast", func(p *Ports) {
			Result(p, "y", Output[float32](p, "probabilities").Add(Input[float32](p, "b", 3)))
		}},
		{"a panic of the caller's", "boom", func(p *Ports) { panic("boom") }},
	} {
		t.Run(x.name, func(t *testing.T) {
			_, err := Extend(t.Context(), builtin(t, "mlp"), x.edit)
			require.ErrorContains(t, err, x.says)
		})
	}
	t.Run("dimensions that are open", func(t *testing.T) {
		g := ssa.NewGraph("open")
		in := g.AddParam("x", ssa.TensorOf(ndarray.Float32, ssa.Sym("N")))
		g.Results = g.NewNode("Neg", []*ssa.Value{in}, 1).Out
		g.Results[0].Name, g.Results[0].Type = "y", in.Type
		m := berth.FromModule(&ssa.Module{Graph: g, Opsets: []ssa.Opset{{Version: 21}}})
		edit := func(p *Ports) { Feed(p, "x", Input[float32](p, "b", 3)) }
		_, err := Extend(t.Context(), m, edit)
		require.ErrorContains(t, err, "berth.WithDim")
		_, err = Extend(t.Context(), m, edit, berth.WithShape("x", 3))
		require.NoError(t, err)
	})
	t.Run("arguments", func(t *testing.T) {
		_, err := Extend(t.Context(), nil, func(*Ports) {})
		require.Error(t, err)
		_, err = Extend(t.Context(), builtin(t, "mlp"), nil)
		require.ErrorIs(t, err, errNilValue)
		var none context.Context
		_, err = Extend(none, builtin(t, "mlp"), func(*Ports) {})
		require.Error(t, err)
		var late *Ports
		_, err = Extend(t.Context(), builtin(t, "mlp"), func(p *Ports) { late = p })
		require.NoError(t, err)
		for _, p := range []*Ports{nil, {}, late} { // nothing to be changed
			require.ErrorIs(t, Input[float32](p, "x", 1).Err(), errNilValue)
			require.ErrorIs(t, Output[float32](p, "x").Err(), errNilValue)
			Feed[float32](p, "x", Num[float32](1))
			Result[float32](p, "x", Num[float32](1))
			p.Drop("x")
		}
		y, err := New[float32](4, 10)
		require.NoError(t, err)
		require.ErrorIs(t, Assign[float32](t.Context(), y, elsewhere), errOtherModel)
		require.ErrorIs(t, Batch(t.Context(), Into[float32](y, elsewhere.Add(y))), errOtherModel)
	})
}

// TestExtendMemory: tensors in the expressions are copied within the limit of memory and the context. A tensor for whose elements there
// is no memory has no array.
func TestExtendMemory(t *testing.T) {
	small, err := New[float32](1)
	require.NoError(t, err)
	var full *berth.MemoryError
	_, err = Extend(t.Context(), builtin(t, "mlp"), func(p *Ports) { Result(p, "weight", small.Broadcast(1<<28)) }, berth.WithMaxMemory(900<<20))
	require.ErrorAs(t, err, &full)
	ctx, cancel := context.WithCancel(t.Context())
	_, err = Extend(ctx, builtin(t, "mlp"), func(p *Ports) {
		cancel()
		Result(p, "weight", small.Broadcast(2, 3))
		require.ErrorIs(t, p.err, context.Canceled)
	})
	require.ErrorIs(t, err, context.Canceled)
	for name, x := range map[string]*Tensor[float32]{"repeated": small.Broadcast(math.MaxInt), "repeated beyond all sizes": small.Broadcast(math.MaxInt, math.MaxInt), "wrong": small.Pick(3, 0)} {
		a, err := x.Array()
		assert.Error(t, err, name)
		assert.Nil(t, a, name)
		assert.Nil(t, x.Elements(), name)
	}
	a, err := small.Broadcast(2, 1).Array()
	require.NoError(t, err)
	assert.Equal(t, ndarray.Of([]float32{0, 0}, 2, 1), a)
}

// TestSlicesInModels: a range means in a model what it means in an assignment.
func TestSlicesInModels(t *testing.T) {
	x, err := Of([]float32{0, 1, 2, 3, 4}, 5)
	require.NoError(t, err)
	for _, r := range []Range{{-100, ToStart, -1}, {-100, -100, -2}, {100, 100, 1}, {ToStart, ToStart, 1}, {0, 0, -1}, {3, 1, 1}, {ToEnd, ToStart, -3}, {-1, -100, -1}, {1, ToEnd, 3},
		{2, ToEnd, math.MaxInt}, {2, ToStart, math.MinInt}, {0, ToEnd, 1<<31 - 1}} {
		want, err := New[float32](Slice(x, r).Shape()...)
		require.NoError(t, err)
		require.NoError(t, Assign(t.Context(), want, Slice(Neg(x), r)))
		m, err := Extend(t.Context(), builtin(t, "mlp"), func(p *Ports) {
			Result(p, "y", Slice(Neg(Input[float32](p, "in", 5)), r))
			p.Drop("probabilities")
		})
		require.NoError(t, err, "%v", r)
		out, err := m.RunValues(t.Context(), map[string]ndarray.Value{"in": ndarray.Of(x.Data(), 5), "x": ndarray.Must(ndarray.Float32, 4, 64)})
		require.NoError(t, err, "%v", r)
		assert.Equal(t, want.Elements(), ndarray.Slice[float32](out["y"].(*ndarray.Array)), "%v", r)
	}
}

// TestLongReductionInModel: reductions that assignments make in two stay one operator in files.
func TestLongReductionInModel(t *testing.T) {
	m, err := Extend(t.Context(), builtin(t, "mlp"), func(p *Ports) {
		x := Input[float32](p, "long", 3, 50_000)
		Result(p, "sum", ReduceSum(Mul[float32](x, x), false, 1))
		p.Drop("probabilities")
	})
	require.NoError(t, err)
	long := ndarray.Must(ndarray.Float32, 3, 50_000)
	for i := range long.Len() {
		long.SetFloat(i, float64(i%7))
	}
	out, err := readBack(t, m).RunValues(t.Context(), map[string]ndarray.Value{"long": long, "x": ndarray.Must(ndarray.Float32, 4, 64)})
	require.NoError(t, err)
	want := 0.0
	for i := range 50_000 {
		want += float64(i%7) * float64(i%7)
	}
	assert.InEpsilon(t, want, out["sum"].(*ndarray.Array).Float(0), 1e-5)
}

// TestRandomInModels draws expressions as outputs of models, with some of their tensors as inputs and the others as
// weights, and compares the models with the reference kernels, as they are and read back.
func TestRandomInModels(t *testing.T) {
	for seed := range uint64(randomLists() / 3) {
		d := newDrawer(seed + 1<<20)
		dt, shape := d.dtype(), d.shape()
		src := d.operand(dt, shape, 1+d.IntN(4))
		want := reference{}.eval(t, src)
		inputs := map[string]ndarray.Value{"x": ndarray.Must(ndarray.Float32, 1)}
		m, err := Extend(t.Context(), identityModel(), func(p *Ports) {
			d.feedSome(p, src, inputs, map[*node]bool{})
			require.NoError(t, p.result("result", src), "seed %d", seed)
		})
		require.NoError(t, err, "seed %d", seed)
		models := []*berth.Model{m}
		if seed%4 == 0 {
			models = append(models, readBack(t, m))
		}
		for _, m := range models {
			out, err := m.RunValues(t.Context(), inputs)
			require.NoError(t, err, "seed %d", seed)
			requireNear(t, want, out["result"].(*ndarray.Array), d.exact, fmt.Sprint("seed ", seed))
		}
	}
}

// identityModel gives back what it gets.
func identityModel() *berth.Model {
	g := ssa.NewGraph("identity")
	x := g.AddParam("x", ssa.StaticTensor(ndarray.Float32, 1))
	g.Results = []*ssa.Value{x}
	return berth.FromModule(&ssa.Module{Graph: g, Opsets: []ssa.Opset{{Version: 21}}, OutputNames: []string{"y"}})
}

// feedSome makes some tensors of an expression inputs.
func (d *drawer) feedSome(p *Ports, n *node, inputs map[string]ndarray.Value, seen map[*node]bool) {
	if n == nil || seen[n] {
		return
	}
	seen[n] = true
	for _, x := range n.in {
		d.feedSome(p, x, inputs, seen)
	}
	if n.kind == leaf && d.IntN(3) > 0 {
		name := fmt.Sprint("in ", len(inputs))
		v := p.g.AddParam(name, ssa.StaticTensor(n.dt, n.shape...))
		inputs[name] = readMemory(n)
		n.kind, p.named[v], p.l.params[n] = end, true, v
	}
}

func requireNear(t *testing.T, want, got *ndarray.Array, exact bool, name string) {
	require.True(t, slices.Equal(want.Shape, got.Shape), "%s: shape %v, must be %v", name, got.Shape, want.Shape)
	require.Equal(t, want.DType, got.DType, name)
	for i := range want.Len() {
		a, b := want.Float(i), got.Float(i)
		if a == b || a != a && b != b || !exact && math.Abs(a-b) <= 2e-5*(1+math.Abs(a)) {
			continue
		}
		require.Failf(t, "results differ", "%s: element %d is %v, must be %v", name, i, b, a)
	}
}
