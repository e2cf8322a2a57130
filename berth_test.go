package berth_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth"
	"github.com/berth-onnx/berth/internal/shareddata"
	"github.com/berth-onnx/berth/ndarray"
)

func zoo(t testing.TB, name string) string {
	return shareddata.Path(t, "models", name, "model.onnx")
}

func TestRunFile(t *testing.T) {
	m, err := berth.Open(zoo(t, "wakeword"))
	require.NoError(t, err)
	defer m.Close()
	in := ndarray.Must(ndarray.Float32, 1, 25, 96)
	out, err := m.RunValues(context.Background(), map[string]ndarray.Value{m.Inputs()[0].Name: in})
	require.NoError(t, err)
	assert.Equal(t, "float32[1,1]", ndarray.Describe(out[m.Outputs()[0].Name]))

	p, err := m.Compile(context.Background())
	require.NoError(t, err)
	assert.Positive(t, p.Plan().ArenaBytes)
	t.Logf("%+v", p.Plan())
}
