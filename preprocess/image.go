package preprocess

import (
	"errors"
	"fmt"
	"image"
	"image/color"
	"math"

	"golang.org/x/image/draw"

	"github.com/berth-onnx/berth/internal/rescue"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ssa"
)

// Fit says how an image fits a tensor of other proportions.
type Fit uint8

// The ways to fit.
const (
	Stretch   Fit = iota // width and height are scaled each by itself
	Letterbox            // scaled until it fits, in the middle, the rest filled with Image.Fill
	Crop                 // scaled until it covers the tensor, the excess cut off on both sides
)

// Image says how an image becomes a tensor. The zero value gives float32[1,3,H,W], red, green and
// blue from 0 to 1, at the size of the image. An element is
//
//	(value from 0 to 255 * Scale - Mean[channel]) / Std[channel]
type Image struct {
	Width, Height int           // of the tensor; 0: of the image
	Channels      int           // 3, or 1 for luminance (ITU-R BT.601); 0 is 3
	ChannelsLast  bool          // NHWC instead of NCHW
	NoBatch       bool          // rank 3, without the leading dimension 1
	DType         ndarray.DType // a type of real numbers, of integers one that has 255*Scale; 0 is Float32
	BGR           bool          // blue first
	Scale         float32       // 0 is 1/255, and 1 for integer types
	Mean, Std     []float32     // by channel of the tensor, or one for all; none: 0 and 1
	Fit           Fit
	Fill          color.Color // around a letterbox; nil is the grey 114, which detectors of the YOLO family are trained with

	Budget ndarray.Budget // for the memory that Tensor takes; 0 is the default
}

// ForInput is how an image becomes an input of a type: of rank 4 with 3 channels or 1, second or
// last, or of rank 3 with 3 channels. Sizes that the type leaves open are those of the image.
func ForInput(t ssa.Type) (_ Image, err error) {
	defer rescue.Into(&err)
	none := func(why string) (Image, error) { return Image{}, fmt.Errorf("an image does not fit %s: %s", t, why) }
	rank := t.Rank()
	if t.Kind != ssa.KindTensor || rank != 3 && rank != 4 {
		return none("it takes a tensor of rank 4, or of rank 3 with 3 channels")
	}
	d := t.Shape[rank-3:]
	known := func(i int) int { n, _ := d[i].Const(); return int(n) }
	isChannels := func(i int) bool { return d[i].Is(3) || rank == 4 && d[i].Is(1) }
	p := Image{DType: t.DType, NoBatch: rank == 3, Channels: 3}
	switch {
	case isChannels(2) && !d[0].Is(3):
		p.ChannelsLast, p.Channels, p.Height, p.Width = true, known(2), known(0), known(1)
	case isChannels(0):
		p.Channels, p.Height, p.Width = known(0), known(1), known(2)
	case rank == 4 && !isConst(d[0]):
		p.Height, p.Width = known(1), known(2)
	default:
		return none("neither the second nor the last dimension is that of 3 channels, or of 1")
	}
	if n, ok := t.Shape[0].Const(); ok && rank == 4 && n != 1 {
		return none(fmt.Sprintf("it takes %d at a time", n))
	}
	if isConst(d[0]) && isConst(d[1]) && isConst(d[2]) && (p.Width < 2 || p.Height < 2) {
		return none(fmt.Sprintf("it would be %d x %d pixels", p.Width, p.Height))
	}
	return p, p.check()
}

func isConst(d ssa.Dim) bool { _, ok := d.Const(); return ok }

// check reports invalid fields.
func (p Image) check() error {
	dt := p.dtype()
	switch {
	case p.Width < 0 || p.Height < 0:
		return fmt.Errorf("an image of %d x %d pixels is asked for", p.Width, p.Height)
	case p.channels() != 1 && p.channels() != 3:
		return fmt.Errorf("an image has 1 or 3 channels here, not %d", p.Channels)
	case !dt.IsFloat() && !dt.IsInteger():
		return fmt.Errorf("an image can not have elements of type %s", dt)
	case !dt.IsFloat() && len(p.Mean)+len(p.Std) > 0:
		return fmt.Errorf("mean and standard deviation need an input of floating-point numbers, this one is %s", dt)
	case p.Fit > Crop:
		return fmt.Errorf("there is no way %d to fit an image", p.Fit)
	}
	for i, what := range []string{"mean", "standard deviation"} {
		if n := len([][]float32{p.Mean, p.Std}[i]); n > 1 && n != p.channels() {
			return fmt.Errorf("the %s has %d numbers for %d channels", what, n, p.channels())
		}
	}
	for _, s := range p.Std {
		if !(s > 0) {
			return fmt.Errorf("the standard deviation %g is not above 0", s)
		}
	}
	return nil
}

// checkRange is check, and reports an integer type that lacks the number of a white pixel.
func (p Image) checkRange() error {
	if err := p.check(); err != nil || p.dtype().IsFloat() {
		return err
	}
	white := ndarray.Must(p.dtype())
	white.SetFloat(0, 255*p.scale())
	if math.Abs(white.Float(0)-255*p.scale()) < 1 {
		return nil
	}
	return fmt.Errorf("%s has no number for a pixel of 255, which is %g there: set Scale (--scale) so that it has one", p.dtype(), 255*p.scale())
}

func (p Image) dtype() ndarray.DType {
	if p.DType == ndarray.Undefined {
		return ndarray.Float32
	}
	return p.DType
}

func (p Image) channels() int {
	if p.Channels == 0 {
		return 3
	}
	return p.Channels
}

// Placement is where an image lies in a tensor: pixel (x, y) of the image at
// (x*ScaleX+Left, y*ScaleY+Top).
type Placement struct {
	ScaleX, ScaleY float64
	Left, Top      float64
}

// Source is the place in the image of a place in the tensor, such as the corner of a box that a
// detector found.
func (p Placement) Source(x, y float64) (sx, sy float64) {
	return (x - p.Left) / p.ScaleX, (y - p.Top) / p.ScaleY
}

// size is that of the tensor for an image.
func (p Image) size(bounds image.Rectangle) (w, h int) {
	w, h = p.Width, p.Height
	if w == 0 {
		w = bounds.Dx()
	}
	if h == 0 {
		h = bounds.Dy()
	}
	return w, h
}

// Place says where an image with these bounds lies in the tensor. The error is that of
// [Image.Tensor].
func (p Image) Place(bounds image.Rectangle) (_ Placement, err error) {
	defer rescue.Into(&err)
	if err := p.checkRange(); err != nil {
		return Placement{}, err
	}
	if bounds.Empty() {
		return Placement{}, errEmpty
	}
	from, to := p.parts(bounds)
	at := Placement{ScaleX: float64(to.Dx()) / float64(from.Dx()), ScaleY: float64(to.Dy()) / float64(from.Dy())}
	at.Left = float64(to.Min.X) - float64(from.Min.X-bounds.Min.X)*at.ScaleX
	at.Top = float64(to.Min.Y) - float64(from.Min.Y-bounds.Min.Y)*at.ScaleY
	return at, nil
}

// parts are the part of the image that is used and the part of the tensor that it fills, in whole
// pixels.
func (p Image) parts(bounds image.Rectangle) (from, to image.Rectangle) {
	w, h := p.size(bounds)
	from, to = bounds, image.Rect(0, 0, w, h)
	switch p.Fit {
	case Letterbox:
		to = middle(to, bounds.Dx(), bounds.Dy())
	case Crop:
		from = middle(from, w, h)
	}
	return from, to
}

// middle is the largest part of a rectangle that has the proportions w to h, in its middle.
func middle(r image.Rectangle, w, h int) image.Rectangle {
	scale := min(float64(r.Dx())/float64(w), float64(r.Dy())/float64(h))
	pw := min(max(int(math.Round(float64(w)*scale)), 1), r.Dx())
	ph := min(max(int(math.Round(float64(h)*scale)), 1), r.Dy())
	at := r.Min.Add(image.Pt((r.Dx()-pw)/2, (r.Dy()-ph)/2))
	return image.Rectangle{Min: at, Max: at.Add(image.Pt(pw, ph))}
}

var errEmpty = errors.New("the image is empty")

// Tensor makes the tensor. Sizes are changed by bilinear interpolation, over all the pixels that
// shrink into one.
func (p Image) Tensor(img image.Image) (out *ndarray.Array, err error) {
	defer rescue.Into(&err)
	if err := p.checkRange(); err != nil {
		return nil, err
	}
	rescue.Call("the image", func() { out, err = p.tensor(img) })
	return out, err
}

func (p Image) tensor(img image.Image) (*ndarray.Array, error) {
	if img == nil || img.Bounds().Empty() {
		return nil, errEmpty
	}
	w, h := p.size(img.Bounds())
	shape := []int{p.channels(), h, w}
	if p.ChannelsLast {
		shape = []int{h, w, p.channels()}
	}
	if !p.NoBatch {
		shape = append([]int{1}, shape...)
	}
	if err := p.Budget.Ask("scaling the image", p.workspace(img.Bounds())); err != nil {
		return nil, err
	}
	out, err := ndarray.NewIn(p.Budget, p.dtype(), shape...)
	if err != nil {
		return nil, err
	}
	p.write(out, p.resized(img, w, h))
	return out, nil
}

// workspace is how many bytes resizing takes: the canvas, and, where sizes differ, the image scaled in width by four numbers of 64
// bits a pixel, and the weights of pixels along both sides.
func (p Image) workspace(bounds image.Rectangle) int64 {
	const canvasBytes, scaledBytes = 4, 32
	w, h := p.size(bounds)
	bytes := canvasBytes * saturated(w, h)
	if from, to := p.parts(bounds); from.Size() != to.Size() {
		bytes += scaledBytes*saturated(to.Dx(), from.Dy()) + weightBytes(to.Dx(), from.Dx()) + weightBytes(to.Dy(), from.Dy())
	}
	return bytes
}

// weightBytes is how many bytes the weights take of which pixels along a side become which: a head for each that is made, and the pixels of
// two widths of one, which are cut to whole ones.
func weightBytes(to, from int) int64 {
	const headBytes, weightBytes = 24, 16
	return saturated(headBytes+2*weightBytes, to) + saturated(2*weightBytes, max(to, from))
}

// saturated is a product of sizes, at most 2⁵⁶.
func saturated(a, b int) int64 {
	const most = 1 << 56
	if a > 0 && int64(b) > most/int64(a) {
		return most
	}
	return int64(a) * int64(b)
}

// resized is the image at the size of the tensor.
func (p Image) resized(img image.Image, w, h int) *image.NRGBA {
	from, to := p.parts(img.Bounds())
	canvas := image.NewNRGBA(image.Rect(0, 0, w, h))
	if p.Fit == Letterbox {
		fill := p.Fill
		if fill == nil {
			fill = color.Gray{Y: 114}
		}
		draw.Draw(canvas, canvas.Bounds(), image.NewUniform(fill), image.Point{}, draw.Src)
	}
	if to.Size() == from.Size() {
		draw.Draw(canvas, to, img, from.Min, draw.Src)
	} else {
		draw.BiLinear.Scale(canvas, to, img, from, draw.Src, nil)
	}
	return canvas
}

// write puts the pixels into the tensor.
func (p Image) write(out *ndarray.Array, img *image.NRGBA) {
	var table [3][256]float64 // by channel: the element for a value
	for c := range p.channels() {
		for v := range 256 {
			table[c][v] = (float64(v)*p.scale() - pick(p.Mean, c, 0)) / pick(p.Std, c, 1)
		}
	}
	w, h, channels := img.Rect.Dx(), img.Rect.Dy(), p.channels()
	for y := range h {
		for x := range w {
			px := img.Pix[y*img.Stride+4*x:]
			rgb := [3]uint8{px[0], px[1], px[2]}
			if channels == 1 {
				rgb[0] = uint8(math.Round(0.299*float64(px[0]) + 0.587*float64(px[1]) + 0.114*float64(px[2])))
			} else if p.BGR {
				rgb[0], rgb[2] = rgb[2], rgb[0]
			}
			for c := range channels {
				at := (c*h+y)*w + x
				if p.ChannelsLast {
					at = (y*w+x)*channels + c
				}
				out.SetFloat(at, table[c][rgb[c]])
			}
		}
	}
}

func (p Image) scale() float64 {
	switch {
	case p.Scale != 0:
		return float64(p.Scale)
	case p.dtype().IsInteger():
		return 1
	}
	return 1.0 / 255
}

// pick is the number for a channel.
func pick(v []float32, channel int, none float64) float64 {
	switch len(v) {
	case 0:
		return none
	case 1:
		return float64(v[0])
	}
	return float64(v[channel])
}
