package main

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestKinds runs the kinds with both backends: they decode, run, and give the same results.
func TestKinds(t *testing.T) {
	models, err := modelsOf(nil)
	require.NoError(t, err)
	require.Len(t, models, len(kinds))
	for _, m := range models {
		t.Run(m.name, func(t *testing.T) {
			out := make([][][]float32, len(backends))
			for i, b := range backends {
				r, err := m.decode(b)
				require.NoError(t, err, b)
				_, err = r.run()
				require.NoError(t, err, b)
				out[i], err = r.outputs()
				require.NoError(t, err, b)
				require.NotEmpty(t, out[i])
			}
			for i, b := range backends {
				for k, want := range out[len(out)-1] {
					assert.Less(t, difference(out[i][k], want), 1e-4, b)
				}
			}
		})
	}
}

// TestRows measures one model, which gorgonnx runs, and one that it refuses.
func TestRows(t *testing.T) {
	models, err := modelsOf(nil)
	require.NoError(t, err)
	m := models[0]
	rows := []*row{{Backend: "gorgonnx", Error: "refused"}, {Backend: "berth"}}
	m.time(rows, 1)
	assert.Empty(t, rows[1].Error)
	assert.Equal(t, "refused", rows[0].Error)
	assert.Len(t, rows[1].outputs, 1)
	assert.Nil(t, rows[0].outputs)
}
