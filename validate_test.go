package berth_test

import (
	"io"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth"
	"github.com/berth-onnx/berth/ndarray"
)

type emptyReader struct{}

func (emptyReader) Read([]byte) (int, error) { return 0, nil }

// TestNoProgress: a reader that gives nothing and no error is not asked for ever.
func TestNoProgress(t *testing.T) {
	_, err := berth.Read(emptyReader{})
	assert.ErrorIs(t, err, io.ErrNoProgress)
}

// TestBadOptions: invalid arguments are errors that name the option.
func TestBadOptions(t *testing.T) {
	m := parsed(t, `graph "g" { in %x: float32[N,4] %y = Relu(%x) out %y }`)
	for _, c := range []struct {
		option string
		o      berth.Option
	}{
		{"WithThreads", berth.WithThreads(-1)}, {"WithMaxMemory", berth.WithMaxMemory(-1)}, {"WithAccuracy", berth.WithAccuracy(77)},
		{"WithOptimizeFor", berth.WithOptimizeFor(9)}, {"WithMaxOpset", berth.WithMaxOpset(-1)}, {"WithMaxOpset", berth.WithMaxOpset(99)},
		{"WithDim", berth.WithDim("M", 2)},
	} {
		for name, use := range map[string]func() error{
			"Compile":  func() error { _, err := m.Compile(t.Context(), c.o); return err },
			"Optimize": func() error { _, _, err := m.Optimize(t.Context(), c.o); return err },
			"Compare":  func() error { _, err := m.Compare(t.Context(), berth.CompareOptions{}, c.o); return err },
		} {
			var bad *berth.OptionError
			require.ErrorAs(t, use(), &bad, "%s of %s", c.option, name)
			assert.Equal(t, c.option, bad.Option)
		}
	}
	for _, o := range []berth.Option{berth.WithDim("N", 3), berth.WithShape("x", 3, 4)} {
		_, err := m.RunValues(t.Context(), map[string]ndarray.Value{"x": ndarray.Must(ndarray.Float32, 2, 4)}, o)
		var bad *berth.InputError
		require.ErrorAs(t, err, &bad)
		assert.Equal(t, "x", bad.Name)
	}
}
