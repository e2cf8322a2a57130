package gorgonia_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"gorgonia.org/tensor"

	"github.com/berth-onnx/berth"
	"github.com/berth-onnx/berth/backend/gorgonia"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ssa"
	"github.com/berth-onnx/berth/testmodels"
)

func builtin(t testing.TB, name string) *gorgonia.Model {
	t.Helper()
	m, err := testmodels.Build(name)
	require.NoError(t, err)
	return gorgonia.Wrap(berth.FromModule(m))
}

func fromText(t testing.TB, text string) *gorgonia.Model {
	t.Helper()
	g, err := ssa.ParseGraph(text)
	require.NoError(t, err)
	return gorgonia.Wrap(berth.FromModule(&ssa.Module{Graph: g}))
}

// ways are the methods that run, as one function each.
func ways(t testing.TB, m *gorgonia.Model) map[string]func(gorgonia.Tensors) (gorgonia.Tensors, error) {
	t.Helper()
	p, err := m.Compile(t.Context())
	require.NoError(t, err)
	s, err := p.NewSession()
	require.NoError(t, err)
	shared, err := p.NewSessionIn(berth.NewArena())
	require.NoError(t, err)
	return map[string]func(gorgonia.Tensors) (gorgonia.Tensors, error){
		"Model.Run":          func(in gorgonia.Tensors) (gorgonia.Tensors, error) { return m.Run(t.Context(), in) },
		"Program.Run":        func(in gorgonia.Tensors) (gorgonia.Tensors, error) { return p.Run(t.Context(), in) },
		"Session.Run":        func(in gorgonia.Tensors) (gorgonia.Tensors, error) { return s.Run(t.Context(), in) },
		"Session.Run shared": func(in gorgonia.Tensors) (gorgonia.Tensors, error) { return shared.Run(t.Context(), in) },
	}
}

// TestWrap runs a model in every way, on tensors that lie in memory in every way.
func TestWrap(t *testing.T) {
	m := fromText(t, `graph "g" { in %x: float32[2,3] in %h: float16[1] %y = Neg(%x) out %y, %h }`)
	o, _, err := m.Optimize(t.Context())
	require.NoError(t, err)
	h, err := gorgonia.DenseOf(ndarray.Of([]berth.Float16{0x3c00}, 1))
	require.NoError(t, err)
	for layout, x := range map[string]*tensor.Dense{
		"rows":         counted(2, 3),
		"transposed":   transposed(t, tensor.New(tensor.WithShape(3, 2), tensor.WithBacking([]float32{0, 3, 1, 4, 2, 5}))),
		"window":       slice(t, tensor.New(tensor.WithShape(2, 4), tensor.WithBacking([]float32{0, 1, 2, 9, 3, 4, 5, 9})), nil, tensor.S(0, 3)),
		"column-major": tensor.New(tensor.WithShape(2, 3), tensor.AsFortran([]float32{0, 1, 2, 3, 4, 5})),
	} {
		for _, of := range []*gorgonia.Model{m, o} {
			for way, run := range ways(t, of) {
				t.Run(layout+"/"+way, func(t *testing.T) {
					out, err := run(gorgonia.Tensors{"x": x, "h": h})
					require.NoError(t, err)
					assert.Equal(t, tensor.Shape{2, 3}, out["y"].Shape())
					assert.InDeltaSlice(t, []float32{0, -1, -2, -3, -4, -5}, out["y"].Data(), 0)
					assert.Equal(t, []berth.Float16{0x3c00}, out["h"].Data())
				})
			}
		}
	}
}

// TestWrapErrors: what does not fit names the input or the result.
func TestWrapErrors(t *testing.T) {
	m := builtin(t, "mlp")
	sequence := fromText(t, `graph "g" { in %x: float32[2] %s = SequenceConstruct(%x) out %s }`)
	for way, run := range ways(t, m) {
		for name, in := range map[string]gorgonia.Tensors{
			`input "x" must be float32[4,64], got nothing`:      {},
			`got a nil *tensor.Dense: it has no elements`:       {"x": nil},
			`got a *tensor.Dense: it has no element type`:       {"x": {}},
			`input "x" must be float32[4,64], got float32[4,0]`: {"x": tensor.New(tensor.WithShape(4, 0), tensor.WithBacking([]float32{}))},
			`input "y" must be one of x float32[4,64]`:          {"x": counted(4, 64), "y": counted(1)},
		} {
			_, err := run(in)
			var ie *berth.InputError
			require.ErrorAs(t, err, &ie, way)
			assert.ErrorContains(t, err, name, way)
		}
	}
	for way, run := range ways(t, sequence) {
		_, err := run(gorgonia.Tensors{"x": counted(2)})
		var oe *berth.OutputError
		require.ErrorAs(t, err, &oe, way)
	}
	for _, unmade := range []*gorgonia.Model{nil, {}, {Model: &berth.Model{}}} {
		_, err := unmade.Run(t.Context(), nil)
		require.ErrorContains(t, err, "the receiver is nil or a zero value")
	}
}

// TestWrapInto writes results into tensors that lie in memory in every way.
func TestWrapInto(t *testing.T) {
	m := fromText(t, `graph "g" { in %x: float32[N,3] %y = Neg(%x) out %y }`)
	p, err := m.Compile(t.Context())
	require.NoError(t, err)
	s, err := p.NewSession()
	require.NoError(t, err)
	for way, run := range map[string]func(in, out gorgonia.Tensors) error{
		"Program": func(in, out gorgonia.Tensors) error { return p.RunInto(t.Context(), in, out) },
		"Session": func(in, out gorgonia.Tensors) error { return s.RunInto(t.Context(), in, out) },
	} {
		all := counted(2, 4)
		for layout, y := range map[string]*tensor.Dense{
			"rows":         counted(2, 3),
			"transposed":   transposed(t, counted(3, 2)),
			"window":       slice(t, all, nil, tensor.S(1, 4)),
			"column-major": tensor.New(tensor.WithShape(2, 3), tensor.AsFortran([]float32{0, 0, 0, 0, 0, 0})),
		} {
			require.NoError(t, run(gorgonia.Tensors{"x": counted(2, 3)}, gorgonia.Tensors{"y": y}), layout)
			a, err := gorgonia.ArrayOf(y)
			require.NoError(t, err)
			assert.InDeltaSlice(t, []float32{0, -1, -2, -3, -4, -5}, a.Floats32(), 0, way+" "+layout)
		}
		assert.InDeltaSlice(t, []float32{0, 0, -1, -2, 4, -3, -4, -5}, all.Data(), 0, "what lies beside the window stays")
		for name, y := range map[string]*tensor.Dense{"rows": counted(1, 3), "window": slice(t, counted(1, 4), nil, tensor.S(1, 4)), "type": tensor.New(tensor.WithShape(2, 3), tensor.Of(tensor.Int64)), "nil": nil} {
			err := run(gorgonia.Tensors{"x": counted(2, 3)}, gorgonia.Tensors{"y": y})
			var oe *berth.OutputError
			require.ErrorAs(t, err, &oe, name)
			if name == "rows" {
				assert.ErrorContains(t, err, "must be float32[2,3], got")
			}
		}
	}
}

// TestWrapIntoShared: results are not written to places that another result has, also where the elements of a buffer do not lie
// one behind the other.
func TestWrapIntoShared(t *testing.T) {
	p, err := fromText(t, `graph "g" { in %x: float32[4] %y = Neg(%x) %z = Abs(%x) out %y, %z }`).Compile(t.Context())
	require.NoError(t, err)
	matrices, err := fromText(t, `graph "g" { in %x: float32[2,2] %y = Neg(%x) %z = Abs(%x) out %y, %z }`).Compile(t.Context())
	require.NoError(t, err)
	all, wide := counted(4, 3), counted(4, 6)
	line, cube := counted(10), counted(2, 3, 4)
	with := func(d *tensor.Dense, by ...tensor.Slice) *tensor.Dense { return slice(t, d, by...) }
	one := tensor.New(tensor.WithShape(4), tensor.WithBacking([]float32{0, 0, 0, 0}))
	one.Strides()[0] = 0
	const own, place = `must be memory of its own, got memory of the buffer for output "y"`, "a place for each element"
	for name, c := range map[string]struct {
		y, z *tensor.Dense
		want string // "" for buffers that are apart
	}{
		"a column twice":             {with(all, nil, tensor.S(1)), with(all, nil, tensor.S(1)), own},
		"a head and every second":    {with(line, tensor.S(0, 4)), with(line, tensor.S(0, 8, 2)), own},
		"a matrix and its transpose": {counted(2, 2), nil, own},
		"blocks that share a column": {with(wide, tensor.S(0, 2), tensor.S(0, 2)), with(wide, tensor.S(0, 2), tensor.S(1, 3)), own},
		"around the end of a row":    {with(wide, tensor.S(0, 2), tensor.S(4, 6)), with(wide, tensor.S(1, 3), tensor.S(0, 2)), ""},
		"two columns":                {with(all, nil, tensor.S(0)), with(all, nil, tensor.S(2)), ""},
		"even and odd":               {with(line, tensor.S(0, 8, 2)), with(line, tensor.S(1, 9, 2)), ""},
		"blocks of columns":          {with(wide, tensor.S(0, 2), tensor.S(0, 2)), with(wide, tensor.S(0, 2), tensor.S(2, 4)), ""},
		"blocks of rows":             {with(wide, tensor.S(0, 2), tensor.S(0, 2)), with(wide, tensor.S(2, 4), tensor.S(0, 2)), ""},
		"planes of a cube":           {with(cube, nil, tensor.S(0), tensor.S(0, 2)), with(cube, nil, tensor.S(1), tensor.S(0, 2)), ""},
		"one place for all":          {one, counted(4), place},
	} {
		t.Run(name, func(t *testing.T) {
			p, in := p, counted(4)
			if c.z == nil {
				c.z = transposed(t, tensor.New(tensor.WithShape(2, 2), tensor.WithBacking(c.y.Data())))
			}
			if c.y.Dims() == 2 {
				p, in = matrices, counted(2, 2)
			}
			s, err := p.NewSession()
			require.NoError(t, err)
			for way, run := range map[string]func(ctx context.Context, in, out gorgonia.Tensors) error{"Program": p.RunInto, "Session": s.RunInto} {
				if c.want == "" { // of the run before
					require.NoError(t, errors.Join(c.y.Memset(float32(99)), c.z.Memset(float32(99))))
				}
				err := run(t.Context(), gorgonia.Tensors{"x": in}, gorgonia.Tensors{"y": c.y, "z": c.z})
				if c.want != "" {
					var oe *berth.OutputError
					require.ErrorAs(t, err, &oe, way)
					assert.ErrorContains(t, err, c.want, way)
					continue
				}
				require.NoError(t, err, way)
				for sign, d := range map[float32]*tensor.Dense{-1: c.y, 1: c.z} {
					a, err := gorgonia.ArrayOf(d)
					require.NoError(t, err)
					assert.InDeltaSlice(t, []float32{0, sign, 2 * sign, 3 * sign}, a.Floats32(), 0, way)
				}
			}
		})
	}
}

// TestWrapIntoOwnResults: a view of an earlier result is memory of the session in any order of its elements.
func TestWrapIntoOwnResults(t *testing.T) {
	p, err := fromText(t, `graph "g" { in %x: float32[2,2] %y = Neg(%x) out %y }`).Compile(t.Context())
	require.NoError(t, err)
	s, err := p.NewSession()
	require.NoError(t, err)
	for name, view := range map[string]func(*tensor.Dense) *tensor.Dense{
		"as it is":   func(d *tensor.Dense) *tensor.Dense { return d },
		"transposed": func(d *tensor.Dense) *tensor.Dense { return transposed(t, d) },
	} {
		out, err := s.Run(t.Context(), gorgonia.Tensors{"x": counted(2, 2)})
		require.NoError(t, err)
		err = s.RunInto(t.Context(), gorgonia.Tensors{"x": counted(2, 2)}, gorgonia.Tensors{"y": view(out["y"])})
		var oe *berth.OutputError
		require.ErrorAs(t, err, &oe, name)
		assert.ErrorContains(t, err, "must be memory of the caller's, got memory of the session", name)
	}
	require.Error(t, s.RunInto(nil, gorgonia.Tensors{"x": counted(2, 2)}, gorgonia.Tensors{"y": transposed(t, counted(2, 2))})) //nolint:staticcheck // a nil context
}

// TestObserve shows the results of every step, over the arena.
func TestObserve(t *testing.T) {
	p, err := fromText(t, `graph "g" { in %x: float32[2,3] %n = Neg(%x) %s = Sin(%n) out %s }`).Compile(t.Context())
	require.NoError(t, err)
	s, err := p.NewSession()
	require.NoError(t, err)
	seen := map[string]*tensor.Dense{}
	s.Observe(func(step berth.Step, results []*tensor.Dense) { seen[step.Op()] = results[0].Clone().(*tensor.Dense) })
	out, err := s.Run(t.Context(), gorgonia.Tensors{"x": counted(2, 3)})
	require.NoError(t, err)
	assert.InDeltaSlice(t, []float32{0, -1, -2, -3, -4, -5}, seen["Neg"].Data(), 0)
	assert.Equal(t, out["s"].Data(), seen["Sin"].Data())
	s.Observe(nil)
}
