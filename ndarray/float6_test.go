package ndarray

import (
	"encoding/json"
	"math"
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestFloat6 compares both six-bit types with the onnx package's conversions:
// every pattern read, every value and every border between two values rounded.
// The file is written by testdata/float6.py.
func TestFloat6(t *testing.T) {
	raw, err := os.ReadFile("testdata/float6.json")
	require.NoError(t, err)
	var cases map[string]struct {
		Values []float32
		Inputs []uint32
		Codes  []int
	}
	require.NoError(t, json.Unmarshal(raw, &cases))
	for _, dt := range []DType{Float6E2M3, Float6E3M2} {
		t.Run(dt.String(), func(t *testing.T) {
			c, ok := cases[dt.String()]
			require.True(t, ok)
			require.Len(t, c.Values, 64)
			for code, want := range c.Values {
				got := F8ToF32(dt, byte(code))
				assert.Equal(t, math.Float32bits(want), math.Float32bits(got), "code %d", code)
			}
			for i, bits := range c.Inputs {
				for _, saturate := range []bool{true, false} { // neither infinity nor NaN: always saturates
					assert.EqualValues(t, c.Codes[i], F32ToF8(dt, math.Float32frombits(bits), saturate), "%g", math.Float32frombits(bits))
				}
			}
		})
	}
}
