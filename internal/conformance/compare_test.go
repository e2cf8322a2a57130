package conformance

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth/ndarray"
)

func half(v ...float32) *ndarray.Array {
	a := ndarray.Must(ndarray.Float16, len(v))
	for i, x := range v {
		a.SetFloat(i, float64(x))
	}
	return a
}

func brain(bits ...uint16) *ndarray.Array {
	return &ndarray.Array{DType: ndarray.BFloat16, Shape: []int{len(bits)}, Data: ndarray.Bytes(bits)}
}

func seq(items ...ndarray.Value) *ndarray.Sequence { return &ndarray.Sequence{Items: items} }

func f32(v ...float32) *ndarray.Array { return ndarray.Of(v, len(v)) }

func TestCompare(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	one := f32(1)
	tests := []struct {
		name      string
		got, want ndarray.Value
		diff      string // "" means equal
	}{
		{"equal", f32(1, 2), f32(1, 2), ""},
		{"within rtol", f32(1000.5), f32(1000), ""},
		{"outside rtol", f32(1, 1002), f32(1, 1000), "element [1] is 1002, want 1000 (1 of 2 elements differ, largest difference 2, relative 0.002)"},
		{"within atol", f32(5e-8), f32(0), ""},
		{"NaN equals NaN", f32(nan), f32(nan), ""},
		{"NaN is no number", f32(nan), one, "is NaN, want 1"},
		{"number is no NaN", one, f32(nan), "is 1, want NaN (1 of 1 elements differ, largest difference +Inf, relative +Inf)"},
		{"infinities", f32(inf, -inf), f32(inf, -inf), ""},
		{"infinity has a sign", f32(inf), f32(-inf), "is +Inf, want -Inf (1 of 1 elements differ, largest difference +Inf, relative +Inf)"},
		{"finite is not infinite", f32(math.MaxFloat32), f32(inf), "want +Inf"},
		{"shape", ndarray.Of([]float32{1, 2}, 2, 1), f32(1, 2), "is float32[2,1], want float32[2]"},
		{"element type", ndarray.Of([]float64{1}, 1), one, "is float64[1], want float32[1]"},
		{"integers exactly", ndarray.Of([]int64{1000001}, 1), ndarray.Of([]int64{1000000}, 1), "is 1000001, want 1000000"},
		{"large unsigned", ndarray.Of([]uint64{math.MaxUint64}, 1), ndarray.Of([]uint64{1}, 1), "is 18446744073709551615, want 1"},
		{"booleans", ndarray.Of([]bool{true}, 1), ndarray.Of([]bool{false}, 1), "is true, want false"},
		{"strings", ndarray.Strings([]string{"a"}, 1), ndarray.Strings([]string{"b"}, 1), `is "a", want "b"`},
		{"half, one unit", half(1.0009766), half(1), ""},
		{"half, two units", half(1.0029297), half(1), "want 1"},
		{"bfloat16, two units", brain(0x3f82), brain(0x3f80), ""},
		{"bfloat16, three units", brain(0x3f83), brain(0x3f80), "want 1"},
		{"complex", ndarray.Of([]complex64{3 + 4i}, 1), ndarray.Of([]complex64{3 + 4.1i}, 1), "want (3+4.09"},
		{"empty", f32(), f32(), ""},
		{"position", ndarray.Of([]float32{1, 2, 3, 4, 5, 6}, 2, 3), ndarray.Of([]float32{1, 2, 3, 4, 0, 6}, 2, 3), "element [1,1] is 5, want 0"},
		{"sequence", seq(one, f32(2)), seq(one, f32(3)), "[1]: element [0] is 2, want 3"},
		{"sequence length", seq(one), seq(one, one), "has 1 members, want 2"},
		{"sequence in optional", &ndarray.Optional{Value: seq(one)}, &ndarray.Optional{Value: seq(f32(4))}, "[0]: element [0] is 1, want 4"},
		{"empty optionals", &ndarray.Optional{}, &ndarray.Optional{}, ""},
		{"empty optional and nothing", nil, &ndarray.Optional{}, ""},
		{"optional of a tensor is the tensor", one, &ndarray.Optional{Value: one}, ""},
		{"tensor is its optional", &ndarray.Optional{Value: one}, one, ""},
		{"something for nothing", one, &ndarray.Optional{}, "is float32[1], want an optional"},
		{"kinds", seq(), one, "is a sequence of 0, want float32[1]"},
		{"maps in another order", &ndarray.Map{Keys: ndarray.Strings([]string{"a", "b"}, 2), Values: f32(1, 2)},
			&ndarray.Map{Keys: ndarray.Strings([]string{"b", "a"}, 2), Values: f32(2, 1)}, ""},
		{"map values", &ndarray.Map{Keys: ndarray.Of([]int64{7, 3}, 2), Values: f32(1, 2)},
			&ndarray.Map{Keys: ndarray.Of([]int64{3, 7}, 2), Values: f32(1, 2)}, ".values: element [0] is 2, want 1 (2 of 2"},
		{"map keys", &ndarray.Map{Keys: f32(1), Values: one}, &ndarray.Map{Keys: f32(2), Values: one}, ".keys: element [0] is 1, want 2"},
		{"sparse", &ndarray.Sparse{Shape: []int{3}, Values: one, Indices: one}, &ndarray.Sparse{Shape: []int{4}, Values: one, Indices: one}, "has shape [3], want [4]"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			d := Compare(tt.got, tt.want, BackendTolerance)
			if tt.diff == "" {
				assert.Nil(t, d)
				return
			}
			require.NotNil(t, d)
			assert.Contains(t, d.Error(), tt.diff)
		})
	}
}

func TestDiffCounts(t *testing.T) {
	d := Compare(f32(1, 5, 2, 8), f32(1, 4, 2, 4), Tolerance{})
	require.NotNil(t, d)
	assert.Equal(t, Diff{Index: []int{1}, Want: "4", Got: "5", MaxAbs: 4, MaxRel: 1, Mismatched: 2, Total: 4}, *d)
}
