package jpeg

import (
	"bytes"
	"hash/crc32"
	"image"
	"image/color"
	stdjpeg "image/jpeg"
	"math"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// pixels is the image's samples, row by row: gray, or red, green, blue.
func pixels(img image.Image) []byte {
	var out []byte
	b := img.Bounds()
	for y := b.Min.Y; y < b.Max.Y; y++ {
		for x := b.Min.X; x < b.Max.X; x++ {
			switch m := img.(type) {
			case *image.Gray:
				out = append(out, m.GrayAt(x, y).Y)
			default:
				c := color.NRGBAModel.Convert(img.At(x, y)).(color.NRGBA)
				out = append(out, c.R, c.G, c.B)
			}
		}
	}
	return out
}

// TestReferencePixels compares with checksums of what libjpeg-turbo 6.2 (by way
// of Pillow) decodes.
func TestReferencePixels(t *testing.T) {
	for _, c := range []struct {
		file          string
		width, height int
		crc           uint32
	}{
		{"gray.jpg", 19, 13, 0x940a9b5f},
		{"444.jpg", 17, 11, 0x8ed73343},
		{"422.jpg", 17, 11, 0x0089775a},
		{"420.jpg", 19, 21, 0x00d60bfb},
		{"420-narrow.jpg", 3, 5, 0x0ff4d6d6},
		{"progressive-420.jpg", 33, 21, 0xf0c570b2},
		{"progressive-gray.jpg", 21, 9, 0x40ec4faa},
		{"restart.jpg", 40, 24, 0x3d33c6c2},
		{"cmyk.jpg", 9, 9, 0x5f70c071},
	} {
		t.Run(c.file, func(t *testing.T) {
			data, err := os.ReadFile("testdata/" + c.file)
			require.NoError(t, err)
			img, err := Decode(data, func() {})
			require.NoError(t, err)
			assert.Equal(t, image.Rect(0, 0, c.width, c.height), img.Bounds())
			assert.Equal(t, c.crc, crc32.ChecksumIEEE(pixels(img)))
		})
	}
}

// TestAgainstStandardLibrary decodes what the standard encoder writes; without
// chroma subsampling both decoders agree up to rounding.
func TestAgainstStandardLibrary(t *testing.T) {
	for _, size := range [][2]int{{1, 1}, {8, 8}, {17, 9}, {64, 40}} {
		src := image.NewGray(image.Rect(0, 0, size[0], size[1]))
		for i := range src.Pix {
			src.Pix[i] = byte(128 + 100*math.Sin(float64(i)/7))
		}
		var file bytes.Buffer
		require.NoError(t, stdjpeg.Encode(&file, src, &stdjpeg.Options{Quality: 90}))
		want, err := stdjpeg.Decode(bytes.NewReader(file.Bytes()))
		require.NoError(t, err)
		got, err := Decode(file.Bytes(), func() {})
		require.NoError(t, err)
		a, b := pixels(got), pixels(want)
		require.Len(t, a, len(b))
		for i := range a {
			assert.InDelta(t, float64(b[i]), float64(a[i]), 2)
		}
	}
}

// TestTransform compares the integer transform with the formula.
func TestTransform(t *testing.T) {
	var ones [64]int32
	for i := range ones {
		ones[i] = 1
	}
	for seed := range 20 {
		coef, dst := make([]int16, 64), make([]byte, 64)
		for i := range coef {
			coef[i] = int16(300 * math.Sin(float64(seed*64+i)*1.7) / float64(1+i/4))
		}
		idct(coef, &ones, dst, 8)
		for y := range 8 {
			for x := range 8 {
				sum := 0.0
				for v := range 8 {
					for u := range 8 {
						w := 0.25
						if u == 0 {
							w /= math.Sqrt2
						}
						if v == 0 {
							w /= math.Sqrt2
						}
						sum += w * float64(coef[v*8+u]) * math.Cos(float64((2*x+1)*u)*math.Pi/16) * math.Cos(float64((2*y+1)*v)*math.Pi/16)
					}
				}
				assert.InDelta(t, min(max(sum+128, 0), 255), float64(dst[y*8+x]), 1)
			}
		}
	}
}

// TestBroken cuts and changes files: an error or an image, never a panic.
func TestBroken(t *testing.T) {
	files, err := os.ReadDir("testdata")
	require.NoError(t, err)
	for _, f := range files {
		data, err := os.ReadFile("testdata/" + f.Name())
		require.NoError(t, err)
		for cut := 0; cut < len(data)-40; cut += 7 {
			_, err := Decode(data[:cut], func() {})
			if !strings.HasPrefix(f.Name(), "progressive") { // whole passes of those may be missing
				assert.Errorf(t, err, "%s cut at %d", f.Name(), cut)
			}
		}
		for at := 2; at < len(data); at += 3 {
			bad := bytes.Clone(data)
			bad[at] ^= 0x5a
			if c, err := stdjpeg.DecodeConfig(bytes.NewReader(bad)); err == nil && c.Width*c.Height > 1<<20 {
				continue
			}
			assert.NotPanics(t, func() { _, _ = Decode(bad, func() {}) })
		}
	}
}

func FuzzDecode(f *testing.F) {
	files, err := os.ReadDir("testdata")
	require.NoError(f, err)
	for _, e := range files {
		if data, err := os.ReadFile("testdata/" + e.Name()); err == nil {
			f.Add(data)
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if c, err := stdjpeg.DecodeConfig(bytes.NewReader(data)); err == nil && c.Width*c.Height < 1<<20 {
			_, _ = Decode(data, func() {})
		}
	})
}
