package berth_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth"
	"github.com/berth-onnx/berth/ndarray"
)

// TestEarlierResults: a result of RunValues that is kept over a further run of its session is
// refused as an input, wherever it lies; the last one is not, nor are results of Program.RunValues.
func TestEarlierResults(t *testing.T) {
	m := parsed(t, `graph "counter" { in %h: float32[4] const %one: float32[1] = [1] %next = Add(%h, %one) out %next }`)
	p, err := m.Compile(t.Context())
	require.NoError(t, err)
	s, err := p.NewSession()
	require.NoError(t, err)
	run := func(h ndarray.Value) (*ndarray.Array, error) {
		out, err := s.RunValues(t.Context(), map[string]ndarray.Value{"h": h})
		if err != nil {
			return nil, err
		}
		return out["next"].(*ndarray.Array), nil
	}
	first, err := run(ndarray.Of(make([]float32, 4), 4))
	require.NoError(t, err)
	second, err := run(first)
	require.NoError(t, err)
	assert.NotSame(t, first, second)
	assert.Equal(t, float32(2), ndarray.Slice[float32](second)[0])

	for name, use := range map[string]func() error{
		"RunValues": func() error { _, err := run(first); return err },
		"Run":       func() error { _, err := s.Run(t.Context(), []ndarray.Value{first}); return err },
		"RunInto": func() error {
			return s.RunInto(t.Context(), map[string]ndarray.Value{"h": first}, map[string]*ndarray.Array{"next": ndarray.Must(ndarray.Float32, 4)})
		},
	} {
		var refused *berth.InputError
		require.ErrorAs(t, use(), &refused, name)
		assert.Equal(t, "h", refused.Name)
	}
	third, err := run(second)
	require.NoError(t, err)
	assert.Equal(t, float32(3), ndarray.Slice[float32](third)[0])

	fresh, err := p.RunValues(t.Context(), map[string]ndarray.Value{"h": third})
	require.NoError(t, err)
	for range 2 {
		_, err = p.RunValues(t.Context(), fresh2(fresh))
		require.NoError(t, err)
	}
}

func fresh2(out map[string]ndarray.Value) map[string]ndarray.Value {
	return map[string]ndarray.Value{"h": out["next"]}
}

// TestKeptResults: a run takes no longer when the caller keeps the results of many earlier ones.
func TestKeptResults(t *testing.T) {
	m := parsed(t, `graph "double" { in %x: float32[4] %y = Add(%x, %x) out %y }`)
	p, err := m.Compile(t.Context())
	require.NoError(t, err)
	s, err := p.NewSession()
	require.NoError(t, err)
	in, kept := map[string]ndarray.Value{"x": ndarray.Must(ndarray.Float32, 4)}, []ndarray.Value(nil)
	shortest := func(of int) time.Duration { // of that many series of 100 runs, for other work on the machine makes runs longer
		least := time.Duration(1 << 62)
		for range of {
			start := time.Now()
			for range 100 {
				out, err := s.RunValues(t.Context(), in)
				require.NoError(t, err)
				kept = append(kept, out["y"])
			}
			least = min(least, time.Since(start))
		}
		return least
	}
	first := shortest(5)
	shortest(50)
	assert.Less(t, shortest(20), 10*first, "runs when %d results are kept, and the first ones", len(kept))
}
