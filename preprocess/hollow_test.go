package preprocess_test

import (
	"image"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/preprocess"
)

// TestHollowImages: an image that panics is an error that says whose it is, and one whose scaling takes more than the budget is refused
// before memory is taken.
func TestHollowImages(t *testing.T) {
	bounds := image.Rect(0, 0, 10, 10)
	for name, img := range map[string]image.Image{"nil": (*image.RGBA)(nil), "no pixels": &image.RGBA{Rect: bounds}, "no grey pixels": &image.Gray{Rect: bounds}} {
		for _, p := range []preprocess.Image{{}, {Width: 4, Height: 4}} {
			var of *ops.PanicError
			_, err := p.Tensor(img)
			if assert.ErrorAs(t, err, &of, name) {
				assert.Equal(t, "the image", of.Of, name)
			}
		}
	}
	for name, img := range map[string]image.Image{"wide": image.NewGray(image.Rect(0, 0, 20_000_000, 1)), "high": image.NewGray(image.Rect(0, 0, 1, 20_000_000))} {
		var full *ops.MemoryError
		_, err := preprocess.Image{Width: 4, Height: 4, Budget: ndarray.Budget(600 << 20)}.Tensor(img)
		assert.ErrorAs(t, err, &full, name)
	}
}
