package onnxexport

import (
	"encoding/json"
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth/internal/onnxwire"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/onnximport"
	"github.com/berth-onnx/berth/ssa"
)

// TestFloat6Packing compares the bytes of six-bit elements with those the onnx
// package writes, both ways; see ndarray/testdata/float6.py.
func TestFloat6Packing(t *testing.T) {
	raw, err := os.ReadFile("../../ndarray/testdata/float6.json")
	require.NoError(t, err)
	var cases map[string]struct {
		Packed     []int
		PackedFive []int `json:"packed_five"`
	}
	require.NoError(t, json.Unmarshal(raw, &cases))
	for _, dt := range []ndarray.DType{ndarray.Float6E2M3, ndarray.Float6E3M2} {
		for n, want := range map[int][]int{64: cases[dt.String()].Packed, 5: cases[dt.String()].PackedFive} {
			a := ndarray.Must(dt, n)
			for i := range a.Data {
				a.Data[i] = byte(i)
			}
			file, err := TensorOf("x", a)
			require.NoError(t, err)
			require.Len(t, file.RawData, len(want))
			for i, b := range want {
				assert.EqualValues(t, b, file.RawData[i], "%s, byte %d", dt, i)
			}
			data, err := onnxwire.Marshal(file)
			require.NoError(t, err)
			back, err := onnximport.ReadValue(data, ssa.KindTensor)
			require.NoError(t, err)
			assert.Equal(t, a.Data, back.(*ndarray.Array).Data)
		}
	}
}
