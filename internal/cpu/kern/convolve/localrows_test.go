package convolve

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/berth-onnx/berth/internal/cpu/kern/kerntest"
)

func TestConvLocalRows(t *testing.T) {
	kerntest.EachLevel(t, func(t *testing.T) {
		for i, c := range []struct {
			s     ConvSpec
			local bool
		}{
			{conv2(2, 32, 40, 1, 50, 70, 3, 2, 1), true},
			{conv2(1, 64, 32, 2, 41, 60, 5, 3, 2), true},
			{conv2(1, 32, 16, 1, 50, 70, 3, 2, 0), false}, // nothing to pad
			{conv2(1, 32, 32, 1, 12, 70, 3, 2, 1), false}, // in the cache anyway
			{conv2(1, 640, 8, 1, 8, 40, 3, 2, 1), false},  // few rows at a time
		} {
			s := c.s
			s.Epilogue = blockedEpilogues[i%len(blockedEpilogues)]
			runBlocked(t, s, i)
			s.InBlocked = true
			assert.Equal(t, c.local, newDirectConv(geometryOf(t, s)).local > 0, "%+v", s)
		}
	})
}
