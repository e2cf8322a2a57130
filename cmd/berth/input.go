package main

import (
	"archive/zip"
	"fmt"
	"image"
	_ "image/gif"  // decoder
	_ "image/jpeg" // decoder
	_ "image/png"  // decoder
	"os"
	"path/filepath"
	"strings"

	_ "golang.org/x/image/bmp" // decoder
	"golang.org/x/image/draw"

	"github.com/berth-onnx/berth"
	"github.com/berth-onnx/berth/internal/conformance"
	"github.com/berth-onnx/berth/ndarray"
)

// readInput reads NAME=FILE into the set of inputs. A .npz without a name gives
// every input it has an entry for.
func (a *app) readInput(m *berth.Model, spec string, in map[string]ndarray.Value) error {
	name, file, ok := splitInput(m, spec)
	switch {
	case !ok && strings.HasSuffix(spec, ".npz"):
		if err := readNPZ(m, spec, in); err != nil {
			return fmt.Errorf("%s: %w", spec, err)
		}
		return nil
	case !ok:
		return usagef("--input %q: want NAME=FILE", spec)
	}
	port, err := inputPort(m, name)
	if err != nil {
		return err
	}
	var v ndarray.Value
	switch ext := strings.ToLower(filepath.Ext(file)); ext {
	case ".npy":
		v, err = readFileNPY(file)
	case ".npz":
		all := map[string]ndarray.Value{}
		if err = readNPZ(m, file, all); err == nil && all[name] == nil {
			err = fmt.Errorf("has no entry %q", name)
		}
		v = all[name]
	case ".pb":
		v, err = conformance.ReadTensor(file)
	case ".png", ".jpg", ".jpeg", ".gif", ".bmp":
		v, err = readImage(file, port)
	default:
		return usagef("--input %s: files of type %q are not understood (.npy, .npz, .pb, .png, .jpg, .gif, .bmp)", spec, ext)
	}
	if err != nil {
		return fmt.Errorf("input %q: %s: %w", name, file, err)
	}
	in[name] = v
	return nil
}

// splitInput cuts NAME=FILE. Both may contain the sign: the cut is made after the
// name of an input, if there is one.
func splitInput(m *berth.Model, spec string) (name, file string, ok bool) {
	for _, p := range m.Inputs() {
		if file, ok := strings.CutPrefix(spec, p.Name+"="); ok {
			return p.Name, file, true
		}
	}
	name, file, ok = strings.Cut(spec, "=")
	return name, file, ok && name != ""
}

func readFileNPY(file string) (ndarray.Value, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return readNPY(f)
}

func readNPZ(m *berth.Model, file string, in map[string]ndarray.Value) error {
	z, err := zip.OpenReader(file)
	if err != nil {
		return err
	}
	defer z.Close()
	for _, e := range z.File {
		name := strings.TrimSuffix(e.Name, ".npy")
		if _, err := inputPort(m, name); err != nil {
			continue
		}
		r, err := e.Open()
		if err != nil {
			return err
		}
		a, err := readNPY(r)
		r.Close()
		if err != nil {
			return fmt.Errorf("%s: %w", e.Name, err)
		}
		in[name] = a
	}
	return nil
}

// readImage turns an image into the input's layout: channels first or last, one
// or three of them, values from 0 to 1 (0 to 255 for uint8 inputs).
func readImage(file string, p berth.Port) (ndarray.Value, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	cfg, _, err := image.DecodeConfig(f)
	if err != nil {
		return nil, err
	}
	if int64(cfg.Width)*int64(cfg.Height) > 1<<28 {
		return nil, fmt.Errorf("the image has %d x %d pixels", cfg.Width, cfg.Height)
	}
	if _, err := f.Seek(0, 0); err != nil {
		return nil, err
	}
	img, _, err := image.Decode(f)
	if err != nil {
		return nil, err
	}
	lay, err := layoutOf(p, cfg.Height, cfg.Width)
	if err != nil {
		return nil, err
	}
	scaled := image.NewNRGBA(image.Rect(0, 0, lay.w, lay.h))
	draw.BiLinear.Scale(scaled, scaled.Bounds(), img, img.Bounds(), draw.Src, nil)
	out, err := ndarray.New(p.Type.DType, lay.shape...)
	if err != nil {
		return nil, err
	}
	scale := 1.0 / 255
	if p.Type.DType == ndarray.Uint8 {
		scale = 1
	}
	for y := range lay.h {
		for x := range lay.w {
			c := scaled.NRGBAAt(x, y)
			rgb := [3]float64{float64(c.R), float64(c.G), float64(c.B)}
			if lay.channels == 1 {
				rgb[0] = 0.299*rgb[0] + 0.587*rgb[1] + 0.114*rgb[2]
			}
			for ch := range lay.channels {
				out.SetFloat(lay.index(ch, y, x), rgb[ch]*scale)
			}
		}
	}
	return out, nil
}

// layout is where the channels of an image input are.
type layout struct {
	shape          []int
	channels, h, w int
	last           bool
}

func (l layout) index(c, y, x int) int {
	if l.last {
		return (y*l.w+x)*l.channels + c
	}
	return (c*l.h+y)*l.w + x
}

func layoutOf(p berth.Port, h, w int) (layout, error) {
	t := p.Type
	if t.Rank() != 4 && t.Rank() != 3 {
		return layout{}, fmt.Errorf("an image does not fit input type %s", t)
	}
	dims := t.Shape[t.Rank()-3:]
	pick := func(i, def int) int {
		if n, ok := dims[i].Const(); ok {
			return int(n)
		}
		return def
	}
	l := layout{}
	switch {
	case dims[2].Is(3) || dims[2].Is(1):
		l = layout{channels: pick(2, 3), h: pick(0, h), w: pick(1, w), last: true}
		l.shape = []int{l.h, l.w, l.channels}
	case dims[0].Is(1) || dims[0].Is(3) || !dims[0].Known():
		l = layout{channels: pick(0, 3), h: pick(1, h), w: pick(2, w)}
		l.shape = []int{l.channels, l.h, l.w}
	default:
		return l, fmt.Errorf("input type %s has neither 1 nor 3 channels", t)
	}
	if t.Rank() == 4 {
		l.shape = append([]int{1}, l.shape...)
	}
	return l, nil
}
