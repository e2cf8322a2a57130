package berth_test

import (
	"io"
	"math"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/onnximport"
	"github.com/berth-onnx/berth/ssa"
)

type emptyReader struct{}

func (emptyReader) Read([]byte) (int, error) { return 0, nil }

// TestNoProgress: a reader that gives nothing and no error is not asked for ever.
func TestNoProgress(t *testing.T) {
	_, err := berth.Read(emptyReader{})
	assert.ErrorIs(t, err, io.ErrNoProgress)
}

func several(opts ...berth.Option) []berth.Option { return opts }

// TestBadOptions: invalid arguments are errors that name the option.
func TestBadOptions(t *testing.T) {
	m := parsed(t, `graph "g" { in %x: float32[N,4] %y = Relu(%x) out %y }`)
	for _, c := range []struct {
		option string
		opts   []berth.Option
	}{
		{"WithThreads", several(berth.WithThreads(-1))}, {"WithMaxMemory", several(berth.WithMaxMemory(-1))}, {"WithAccuracy", several(berth.WithAccuracy(77))},
		{"WithOptimizeFor", several(berth.WithOptimizeFor(9))}, {"WithMaxOpset", several(berth.WithMaxOpset(-1))}, {"WithMaxOpset", several(berth.WithMaxOpset(99))},
		{"WithDim", several(berth.WithDim("M", 2))}, {"WithThreads", several(berth.WithThreads(1 << 30))}, {"WithPrograms", several(berth.WithPrograms(-1))},
		{"WithIdleLimits", several(berth.WithIdleLimits(berth.IdleLimits{Sessions: -1}))}, {"WithIdleLimits", several(berth.WithIdleLimits(berth.IdleLimits{Bytes: -1}))},
		{"WithIdleLimits", several(berth.WithIdleLimits(berth.IdleLimits{After: -1}))}, {"WithChannelBlock", several(berth.WithChannelBlock(7))},
		{"WithDim", several(berth.WithDim("N", 2), berth.WithDim("N", 3))}, {"WithBound", several(berth.WithBound("N", 2), berth.WithBound("N", 3))},
		{"WithShape", several(berth.WithShape("x", 2, 4), berth.WithShape("x", 3, 4))},
		{"WithShape", several(berth.WithShape("q", 2, 4))}, {"WithShape", several(berth.WithShape("q", -1))}, {"WithDim", several(berth.WithDim("N", -1))},
		{"WithoutPass", several(berth.WithoutPass("q"))}, {"WithPlanner", several(berth.WithPlanner("q"))}, {"WithSchedule", several(berth.WithSchedule("q"))},
		{"WithContext", several(berth.WithContext(nil))}, {"WithDevice", several(berth.WithDevice(0), berth.WithDevice(1))}, {"WithDeviceMemory", several(berth.WithDeviceMemory(-1))},
	} {
		for name, use := range map[string]func() error{
			"Compile":  func() error { _, err := m.Compile(t.Context(), c.opts...); return err },
			"Optimize": func() error { _, _, err := m.Optimize(t.Context(), c.opts...); return err },
			"RunValues": func() error {
				_, err := m.RunValues(t.Context(), map[string]ndarray.Value{"x": ndarray.Must(ndarray.Float32, 2, 4)}, c.opts...)
				return err
			},
			"Compare": func() error { _, err := m.Compare(t.Context(), berth.CompareOptions{}, c.opts...); return err },
		} {
			var bad *berth.OptionError
			require.ErrorAs(t, use(), &bad, "%s of %s", c.option, name)
			assert.Equal(t, c.option, bad.Option)
		}
	}
	for _, c := range []struct {
		option string
		opts   []berth.Option
	}{
		{"WithDevice", several(berth.WithDevice(1))}, {"WithDevice", several(berth.WithBackend("reference"), berth.WithDevice(-1))},
		{"WithStatesOverwritten", several(berth.WithStatesOverwritten())}, {"WithBound", several(berth.WithBound("q", 2))}, {"WithBound", several(berth.WithBound("N", 0))},
		{"WithBound", several(berth.WithBound("N", 2), berth.WithDim("N", 3))}, {"WithBound", several(berth.WithBound("N", 2), berth.WithShape("x", 3, 4))},
		{"WithState", several(berth.WithState("x", "q"))}, {"WithState", several(berth.WithDim("N", 2), berth.WithState("x", "y"), berth.WithState("x", "y"))},
		{"WithShape", several(berth.WithShape("x", 2))}, {"WithShape", several(berth.WithShape("x", 2, 5))}, {"WithShape", several(berth.WithShape("x", 2, 4), berth.WithDim("N", 3))},
		{"WithState", several(berth.WithState("q", "y"))}, {"WithState", several(berth.WithState("x", "y"))},
		{"WithShape", several(berth.WithShape("x", math.MaxInt, 4))}, {"WithDim", several(berth.WithDim("N", 1<<62))},
	} {
		_, err := m.Compile(t.Context(), c.opts...)
		var bad *berth.OptionError
		require.ErrorAs(t, err, &bad, c.option)
		assert.Equal(t, c.option, bad.Option)
	}
	inputs := map[string]ndarray.Value{"x": ndarray.Must(ndarray.Float32, 2, 4)}
	_, err := m.RunValues(t.Context(), inputs)
	require.NoError(t, err)
	for _, opts := range [][]berth.Option{
		several(berth.WithStatesOverwritten()), several(berth.WithState("q", "y")), several(berth.WithState("x", "q")),
		several(berth.WithState("x", "y"), berth.WithState("x", "y")), several(berth.WithBound("q", 2)), several(berth.WithBound("N", 0)),
	} {
		_, compiling := m.Compile(t.Context(), opts...)
		_, running := m.RunValues(t.Context(), inputs, opts...)
		require.Error(t, compiling)
		assert.Equal(t, compiling, running)
	}
	var bad *berth.OptionError
	path := filepath.Join(t.TempDir(), "m.onnx")
	require.NoError(t, m.Save(path, berth.SaveOptions{}))
	for _, o := range []berth.Option{berth.WithPrograms(-1), berth.WithContext(nil)} {
		_, err := berth.Open(path, o)
		require.ErrorAs(t, err, &bad)
	}
	_, err = berth.FromModule(&ssa.Module{Graph: m.Graph()}, berth.WithPrograms(-1)).Compile(t.Context())
	require.ErrorAs(t, err, &bad)
	_, err = berth.FromModule(&ssa.Module{Graph: m.Graph()}, berth.WithPrograms(-1)).RunValues(t.Context(), inputs)
	require.ErrorAs(t, err, &bad)
	_, err = m.Compile(t.Context(), berth.WithDim("M", 7))
	require.ErrorContains(t, err, `WithDim("M", 7)`)
	_, err = m.Compile(t.Context(), berth.WithLimits(onnximport.Limits{NameBytes: -1}))
	require.ErrorContains(t, err, "NameBytes:-1")
	agreeing := several(berth.WithDim("N", 2), berth.WithDim("N", 2), berth.WithShape("x", 2, 4), berth.WithShape("x", 2, 4))
	_, err = m.Compile(t.Context(), agreeing...)
	require.NoError(t, err)
	for _, o := range []berth.Option{berth.WithDim("N", 1<<62), berth.WithShape("x", math.MaxInt, 4)} {
		_, err := m.Compile(t.Context(), o)
		assert.ErrorContains(t, err, `input "x"`)
	}
	for _, o := range []berth.Option{berth.WithDim("N", 3), berth.WithShape("x", 3, 4)} {
		_, err := m.RunValues(t.Context(), map[string]ndarray.Value{"x": ndarray.Must(ndarray.Float32, 2, 4)}, o)
		var bad *berth.InputError
		require.ErrorAs(t, err, &bad)
		assert.Equal(t, "x", bad.Name)
	}
}

// TestBoundedRuns: no run takes an input that is longer along a dimension than its bound, whatever runs it and however the
// program is bound.
func TestBoundedRuns(t *testing.T) {
	m := parsed(t, `graph "g" { in %x: float32[N,M] in %z: float32[N] %y = Relu(%x) out %y, %z }`)
	of := func(n int) map[string]ndarray.Value {
		return map[string]ndarray.Value{"x": ndarray.Must(ndarray.Float32, n, 4), "z": ndarray.Must(ndarray.Float32, n)}
	}
	bound := berth.WithBound("N", 3)
	compiled := func(opts ...berth.Option) *berth.Program {
		p, err := m.Compile(t.Context(), append(opts, bound)...)
		require.NoError(t, err)
		return p
	}
	open, half := compiled(), compiled(berth.WithDim("M", 4))
	s, err := open.NewSession()
	require.NoError(t, err)
	for name, run := range map[string]func(in map[string]ndarray.Value) error{
		"Model.RunValues":   func(in map[string]ndarray.Value) error { _, err := m.RunValues(t.Context(), in, bound); return err },
		"Model.Trace":       func(in map[string]ndarray.Value) error { _, err := m.Trace(t.Context(), in, bound); return err },
		"Program.RunValues": func(in map[string]ndarray.Value) error { _, err := open.RunValues(t.Context(), in); return err },
		"Program.RunInto":   func(in map[string]ndarray.Value) error { return half.RunInto(t.Context(), in, nil) },
		"Session.RunValues": func(in map[string]ndarray.Value) error { _, err := s.RunValues(t.Context(), in); return err },
		"Session.Run": func(in map[string]ndarray.Value) error {
			_, err := s.Run(t.Context(), []ndarray.Value{in["x"], in["z"]})
			return err
		},
	} {
		require.NoError(t, run(of(3)), name)
		var bad *berth.InputError
		require.ErrorAs(t, run(of(4)), &bad, name)
		assert.Equal(t, "x", bad.Name)
		assert.Contains(t, bad.Want, "N (axis 0) at most 3")
		assert.Equal(t, "float32[4,4]", bad.Got)
	}
	compiled(berth.WithDim("N", 3), berth.WithShape("x", 3, 4))
	_, err = m.Compile(t.Context(), bound, berth.WithShape("z", 4))
	require.EqualError(t, err, `WithBound("N", 3): want a bound of at least 4, which axis 0 of input "x" is fixed to, or another size there`)
}
