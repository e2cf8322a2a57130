package image

import (
	"bytes"
	"fmt"
	"image"
	"image/color"
	stdjpeg "image/jpeg"
	"image/png"
	"io"

	"golang.org/x/image/bmp"
	"golang.org/x/image/tiff"
	"golang.org/x/image/webp"

	"github.com/berth-onnx/berth/internal/jpeg"
	"github.com/berth-onnx/berth/internal/jpeg2000"
	"github.com/berth-onnx/berth/internal/ops/kit"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// ImageDecoder decodes an image file: https://onnx.ai/onnx/operators/onnx__ImageDecoder.html
//
// The result is [height, width, channels] of uint8. A stream that can not be
// decoded gives an image without pixels. Formats: BMP, JPEG, JPEG 2000, PNG,
// TIFF, WebP, PBM/PGM/PPM. Alpha is dropped.
var ImageDecoder = ops.Op{
	Name: "ImageDecoder", Since: 20, Doc: "image = pixels of encoded_stream",
	MinIn: 1, MaxIn: 1, MinOut: 1, MaxOut: 1,
	Attrs: []*ops.AttrSpec{ops.StrAttr("pixel_format", "RGB", "BGR", "Grayscale")},
	Facts: ops.Facts{Traits: ops.GeneralTraits.But(ops.ExtentOpen)}, Infer: kit.Rule(func(n *ssa.Node) []ops.Inferred {
		kit.MatchShapes(n, "_")
		channels, _ := pixelFormat(n)
		return ops.One(ssa.TensorOf(ndarray.Uint8, ssa.Dim{}, ssa.Dim{}, ssa.D(int64(channels))))
	}),
	Eval: kit.Kernel(evalImageDecoder),
}

// maxPixels bounds the images that are decoded: a small file can claim to be a
// very large image.
const maxPixels = 1 << 26

// pixelBytes is about what a pixel takes while an image is decoded: coefficients, planes of colors, wavelets of JPEG 2000.
const pixelBytes = 32

// imageFormat is one file format, recognized by its first bytes.
type imageFormat struct {
	magic  string // ? stands for any byte
	config func(io.Reader) (image.Config, error)
	decode func(io.Reader) (image.Image, error)
}

var imageFormats = []imageFormat{
	{"\xff\xd8", stdjpeg.DecodeConfig, decodeJPEG},
	{"\x89PNG\r\n\x1a\n", png.DecodeConfig, png.Decode},
	{"BM", bmp.DecodeConfig, bmp.Decode},
	{"II*\x00", tiff.DecodeConfig, tiff.Decode},
	{"MM\x00*", tiff.DecodeConfig, tiff.Decode},
	{"RIFF????WEBP", webp.DecodeConfig, webp.Decode},
	{"\x00\x00\x00\x0cjP  \r\n\x87\n", jpeg2000Config, decodeJPEG2000},
	{"\xff\x4f\xff\x51", jpeg2000Config, decodeJPEG2000},
	{"P1", pnmConfig, decodePNM}, {"P2", pnmConfig, decodePNM}, {"P3", pnmConfig, decodePNM},
	{"P4", pnmConfig, decodePNM}, {"P5", pnmConfig, decodePNM}, {"P6", pnmConfig, decodePNM},
}

func (f *imageFormat) matches(data []byte) bool {
	if len(data) < len(f.magic) {
		return false
	}
	for i := range f.magic {
		if f.magic[i] != '?' && f.magic[i] != data[i] {
			return false
		}
	}
	return true
}

// pixelFormat returns how many channels are asked for and how a color gives them.
func pixelFormat(n *ssa.Node) (channels int, put func(dst []byte, c color.NRGBA)) {
	switch ops.Str(n, "pixel_format") {
	case "BGR":
		return 3, func(dst []byte, c color.NRGBA) { dst[0], dst[1], dst[2] = c.B, c.G, c.R }
	case "Grayscale":
		return 1, func(dst []byte, c color.NRGBA) {
			dst[0] = byte((19595*uint32(c.R) + 38470*uint32(c.G) + 7471*uint32(c.B) + 1<<15) >> 16) // ITU-R 601
		}
	}
	return 3, func(dst []byte, c color.NRGBA) { dst[0], dst[1], dst[2] = c.R, c.G, c.B }
}

func evalImageDecoder(c *ops.Call) {
	a := kit.Tensor(c, 0)
	if a.DType != ndarray.Uint8 {
		kit.Failf("the stream is %s, it must be bytes", a)
	}
	channels, put := pixelFormat(c.Node)
	at, width, height := kit.Try3(decodePixels(c, a.Data))
	out := kit.Result(c, 0, ndarray.Uint8, height, width, channels)
	w := kit.Watching(c)
	for y := range height {
		for x := range width {
			w.Did(1)
			put(out.Data[(y*width+x)*channels:], at(x, y))
		}
	}
}

// decodePixels returns the colors of an image by position; no pixels where the
// stream can not be decoded. Only an image too large is an error.
func decodePixels(c *ops.Call, data []byte) (at func(x, y int) color.NRGBA, width, height int, err error) {
	for i := range imageFormats {
		f := &imageFormats[i]
		if !f.matches(data) {
			continue
		}
		conf, err := f.config(bytes.NewReader(data))
		if err != nil || conf.Width <= 0 || conf.Height <= 0 {
			return nil, 0, 0, nil
		}
		if conf.Width > maxPixels/conf.Height {
			return nil, 0, 0, fmt.Errorf("an image of %dx%d is larger than %d pixels", conf.Width, conf.Height, maxPixels)
		}
		if err := c.Memory.Ask("decoding an image", pixelBytes*int64(conf.Width)*int64(conf.Height)); err != nil {
			return nil, 0, 0, err
		}
		img, err := f.decode(&reader{bytes.NewReader(data), func() { kit.CheckEnded(c) }})
		if err != nil {
			return nil, 0, 0, nil
		}
		b := img.Bounds()
		return colorsOf(img), b.Dx(), b.Dy(), nil
	}
	return nil, 0, 0, nil
}

// reader is a stream that a decoder reads. It calls look, which panics when the call of the kernel is to end.
type reader struct {
	data *bytes.Reader
	look func()
}

func (r *reader) Read(b []byte) (int, error) {
	r.look()
	return r.data.Read(b)
}

func (r *reader) ReadAt(b []byte, at int64) (int, error) {
	r.look()
	return r.data.ReadAt(b, at)
}

// lookOf is the function of a [reader], which decoders without a need to read call.
func lookOf(r io.Reader) func() {
	if r, ok := r.(*reader); ok {
		return r.look
	}
	return func() {}
}

// decodeJPEG reads the whole stream and decodes it.
func decodeJPEG(r io.Reader) (image.Image, error) {
	data, err := io.ReadAll(r)
	if err != nil {
		return nil, err
	}
	return jpeg.Decode(data, lookOf(r))
}

func jpeg2000Config(r io.Reader) (image.Config, error) {
	data, err := io.ReadAll(r)
	if err != nil {
		return image.Config{}, err
	}
	w, h, err := jpeg2000.Config(data)
	return image.Config{ColorModel: color.NRGBAModel, Width: w, Height: h}, err
}

func decodeJPEG2000(r io.Reader) (image.Image, error) {
	data, err := io.ReadAll(r)
	if err != nil {
		return nil, err
	}
	return jpeg2000.Decode(data, lookOf(r))
}

// colorsOf returns the colors of an image, alpha not multiplied in.
func colorsOf(img image.Image) func(x, y int) color.NRGBA {
	low := img.Bounds().Min
	switch m := img.(type) {
	case *image.YCbCr: // lossy WebP
		return webpColors(m)
	case *image.NYCbCrA:
		return webpColors(&m.YCbCr)
	case *image.NRGBA:
		return func(x, y int) color.NRGBA { return m.NRGBAAt(x+low.X, y+low.Y) }
	case *image.Gray:
		return func(x, y int) color.NRGBA {
			v := m.GrayAt(x+low.X, y+low.Y).Y
			return color.NRGBA{v, v, v, 255}
		}
	}
	return func(x, y int) color.NRGBA {
		return color.NRGBAModel.Convert(img.At(x+low.X, y+low.Y)).(color.NRGBA)
	}
}
