package ndarray

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

// TestKinds: what kernels ask of element types.
func TestKinds(t *testing.T) {
	for name, c := range map[string]struct {
		holds func(DType) bool
		of    []DType
	}{
		"IsHalf":    {DType.IsHalf, []DType{Float16, BFloat16}},
		"InFloat32": {DType.InFloat32, []DType{Float32, Float16, BFloat16}},
		"IsByte":    {DType.IsByte, []DType{Uint8, Int8}},
	} {
		var of []DType
		for d := range DType(255) {
			if c.holds(d) {
				of = append(of, d)
			}
		}
		assert.ElementsMatch(t, c.of, of, name)
	}
}
