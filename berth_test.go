package berth_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"gorgonia.org/tensor"

	"github.com/berth-onnx/berth"
	"github.com/berth-onnx/berth/internal/shareddata"
)

func zoo(t testing.TB, name string) string {
	return shareddata.Path(t, "models", name, "model.onnx")
}

func TestRunDense(t *testing.T) {
	m, err := berth.Open(zoo(t, "wakeword"))
	require.NoError(t, err)
	defer m.Close()
	in := tensor.New(tensor.WithShape(1, 25, 96), tensor.Of(tensor.Float32))
	out, err := m.Run(context.Background(), map[string]*tensor.Dense{m.Inputs()[0].Name: in})
	require.NoError(t, err)
	got := out[m.Outputs()[0].Name]
	require.NotNil(t, got)
	assert.Equal(t, tensor.Shape{1, 1}, got.Shape())

	p, err := m.Compile(context.Background())
	require.NoError(t, err)
	assert.Positive(t, p.Plan().ArenaBytes)
	t.Logf("%+v", p.Plan())
}
