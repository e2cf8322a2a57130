package vision

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/berth-onnx/berth/internal/ops/kit"
)

// TestResizeTaps checks that weights sum to 1 in every mode and stay inside.
func TestResizeTaps(t *testing.T) {
	for _, mode := range []string{"nearest", "linear", "cubic"} {
		for _, coord := range []string{"half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric", "tf_crop_and_resize"} {
			for _, size := range [][2]int{{1, 1}, {1, 5}, {5, 1}, {4, 7}, {7, 3}, {6, 6}} {
				for flags := range 4 {
					p := resizePlan{mode: mode, coord: coord, nearest: "floor", cubicA: -0.75, exclude: flags&1 != 0, antialias: flags&2 != 0}
					scale := float64(size[1]) / float64(size[0])
					x := resizeAxis{in: size[0], out: size[1], scale: scale, width: scale * float64(size[0]), to: 1, listed: true}
					for y := range x.out {
						taps, _ := p.taps(&x, y)
						sum := 0.0
						for _, tap := range taps {
							assert.True(t, tap.index >= 0 && tap.index < x.in)
							sum += tap.weight
						}
						assert.InDelta(t, 1, sum, 1e-9, "%s %s %v", mode, coord, size)
					}
				}
			}
		}
	}
}

// TestReflect folds coordinates by hand.
func TestReflect(t *testing.T) {
	for _, c := range []struct{ v, lo, hi, want float64 }{
		{-1, 0, 3, 1}, {4, 0, 3, 2}, {7, 0, 3, 1}, {-3.5, -0.5, 3.5, 2.5}, {9, 0, 0, 0}, {3, 0, 3, 3}, {-0.5, -0.5, 3.5, -0.5},
	} {
		assert.InDelta(t, c.want, kit.Reflected(c.v, c.lo, c.hi), 1e-12, "%v", c)
	}
}
