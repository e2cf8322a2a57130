package image

import (
	"bytes"
	"errors"
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
	"github.com/berth-onnx/berth/internal/rescue"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// ImageDecoder decodes an image file: https://onnx.ai/onnx/operators/onnx__ImageDecoder.html
//
// The result is [height, width, channels] of uint8. A stream that can not be
// decoded gives an image without pixels; one that takes more than its size says is refused. Formats: BMP, JPEG, JPEG 2000, PNG,
// TIFF, WebP, PBM/PGM/PPM. Alpha is dropped.
//
// When its context ends, the operator returns at once. What decodes then ends when it next reads the stream, at the latest
// when the image is complete: some seconds for the largest WebP. Its memory counts as used until then.
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
	// bytes is about what decoding takes. It may change the data; nil stands for [pixelBytes] for each pixel.
	bytes func(data []byte, conf image.Config, look func()) (int64, error)
}

// refusedError says why an image is not decoded that takes more than its size says.
type refusedError struct{ why string }

func (e *refusedError) Error() string { return "the image is refused: " + e.why }

func tooLarge(what string, width, height int64) error {
	return &refusedError{fmt.Sprintf("%s of %dx%d is larger than %d pixels", what, width, height, maxPixels)}
}

var imageFormats = []imageFormat{
	{"\xff\xd8", stdjpeg.DecodeConfig, decodeJPEG, nil},
	{"\x89PNG\r\n\x1a\n", png.DecodeConfig, png.Decode, nil},
	{"BM", bmp.DecodeConfig, bmp.Decode, nil},
	{"II*\x00", tiffConfig, tiff.Decode, tiffBytes},
	{"MM\x00*", tiffConfig, tiff.Decode, tiffBytes},
	{"RIFF????WEBP", webpConfig, webp.Decode, nil},
	{"\x00\x00\x00\x0cjP  \r\n\x87\n", jpeg2000Config, decodeJPEG2000, jpeg2000Bytes},
	{"\xff\x4f\xff\x51", jpeg2000Config, decodeJPEG2000, jpeg2000Bytes},
	{"P1", pnmConfig, decodePNM, nil}, {"P2", pnmConfig, decodePNM, nil}, {"P3", pnmConfig, decodePNM, nil},
	{"P4", pnmConfig, decodePNM, nil}, {"P5", pnmConfig, decodePNM, nil}, {"P6", pnmConfig, decodePNM, nil},
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
		img, err := f.image(c, data)
		if img == nil || err != nil {
			return nil, 0, 0, err
		}
		b := img.Bounds()
		return colorsOf(img), b.Dx(), b.Dy(), nil
	}
	return nil, 0, 0, nil
}

// image decodes a file; nil where it can not be decoded.
func (f *imageFormat) image(c *ops.Call, data []byte) (image.Image, error) {
	if err := c.Memory.AskContext(c.Ctx, "a copy of an encoded image", int64(len(data))); err != nil {
		return nil, err
	}
	data = bytes.Clone(data) // for what still decodes when the call has ended
	refused := func(err error) error {
		if e := (*refusedError)(nil); errors.As(err, &e) {
			return err
		}
		return nil
	}
	conf, err := f.config(bytes.NewReader(data))
	if err != nil || conf.Width <= 0 || conf.Height <= 0 {
		return nil, refused(err)
	}
	if conf.Width > maxPixels/conf.Height {
		return nil, tooLarge("it", int64(conf.Width), int64(conf.Height))
	}
	need := pixelBytes * int64(conf.Width) * int64(conf.Height)
	ended := ops.Call{Ctx: c.Ctx} // the call is another one when this has ended
	look := func() { kit.CheckEnded(&ended) }
	if f.bytes != nil {
		if need, err = f.bytes(data, conf, look); err != nil {
			return nil, refused(err)
		}
	}
	if err := c.Memory.AskContext(c.Ctx, "decoding an image", need); err != nil {
		return nil, err
	}
	img, err := rescue.Until(c.Ctx, func() (image.Image, error) { return f.decode(&reader{bytes.NewReader(data), look}) })
	look()
	var bug *rescue.PanicError
	if errors.As(err, &bug) {
		return nil, bug
	}
	if err != nil {
		return nil, nil
	}
	return img, nil
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
	w, h, _, err := jpeg2000.Config(data)
	return image.Config{ColorModel: color.NRGBAModel, Width: w, Height: h}, err
}

// jpeg2000Bytes is what the samples of all components take: in planes, subbands and the image.
func jpeg2000Bytes(data []byte, conf image.Config, _ func()) (int64, error) {
	_, _, samples, err := jpeg2000.Config(data)
	return max(pixelBytes*int64(conf.Width)*int64(conf.Height), jpeg2000.SampleBytes*samples), err
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
