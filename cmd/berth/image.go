package main

import (
	"context"
	"fmt"
	"image"
	_ "image/gif"  // decoder
	_ "image/jpeg" // decoder
	_ "image/png"  // decoder
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	_ "golang.org/x/image/bmp" // decoder

	"github.com/berth-onnx/berth"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/preprocess"
	"github.com/berth-onnx/berth/ssa"
)

// imageFlags say how images become inputs.
type imageFlags struct {
	files           []string
	mean, std       string
	scale           float64
	bgr, boxed, cut bool
}

// imageOptions are the flags that concern images only.
var imageOptions = []string{"mean", "std", "scale", "bgr", "letterbox", "crop"}

// imageTypes are the files that are taken for images.
var imageTypes = []string{".png", ".jpg", ".jpeg", ".gif", ".bmp"}

func (f *imageFlags) add(c *cobra.Command) {
	c.Flags().StringArrayVar(&f.files, "image", nil, "FILE or NAME=FILE: an image for the input that takes one, or for this input (repeatable)")
	c.Flags().StringVar(&f.mean, "mean", "", "subtract from an image: a number, or one for each channel in the model's order, as 0.485,0.456,0.406")
	c.Flags().StringVar(&f.std, "std", "", "then divide by: a number, or one for each channel")
	c.Flags().Float64Var(&f.scale, "scale", 0, "before that, multiply values from 0 to 255 by (default 1/255; 1 for integers)")
	c.Flags().BoolVar(&f.bgr, "bgr", false, "the model wants blue first")
	c.Flags().BoolVar(&f.boxed, "letterbox", false, "keep an image's proportions, with grey around it")
	c.Flags().BoolVar(&f.cut, "crop", false, "keep an image's proportions, and cut off what reaches out")
}

// check reports flags that contradict each other, and those for images where there is no image.
func (f *imageFlags) check(c *cobra.Command, inputs []string) error {
	if c.Flags().Changed("scale") && (f.scale == 0 || math.IsNaN(f.scale) || math.Abs(f.scale) > math.MaxFloat32) {
		return usagef("--scale %v: want a finite number other than 0", f.scale)
	}
	if f.boxed && f.cut {
		return usagef("--letterbox and --crop exclude each other")
	}
	if len(f.files) > 0 || slices.ContainsFunc(inputs, func(s string) bool { return isImage(filepath.Ext(s)) }) {
		return nil
	}
	for _, name := range imageOptions {
		if (given{c}).any(name) {
			return usagef("--%s concerns images: give one by --image FILE", name)
		}
	}
	return nil
}

func isImage(ext string) bool { return slices.Contains(imageTypes, strings.ToLower(ext)) }

// inputs are the images as NAME=FILE.
func (f *imageFlags) inputs(m *berth.Model) (specs []string, err error) {
	for _, file := range f.files {
		name, path, named := splitInput(m, file)
		if named {
			_, err := inputPort(m, name)
			if err == nil {
				specs = append(specs, name+"="+path)
				continue
			}
			if _, missing := os.Stat(file); missing != nil { // else the sign is of the file's name
				return nil, usagef("--image %s: %w", file, err)
			}
		}
		var takes []string
		for _, p := range m.Inputs() {
			if _, err := preprocess.ForInput(p.Type); err == nil {
				takes = append(takes, p.Name)
			}
		}
		switch len(takes) {
		case 0:
			return nil, usagef("--image %s: no input takes an image; the inputs are %s", file, portsText(m))
		case 1:
			specs = append(specs, takes[0]+"="+file)
		default:
			return nil, usagef("--image %s: the inputs %s take images; give NAME=FILE", file, strings.Join(takes, ", "))
		}
	}
	return specs, nil
}

func portsText(m *berth.Model) string {
	var ports []string
	for _, p := range m.Inputs() {
		ports = append(ports, p.Name+" "+p.Type.String())
	}
	return strings.Join(ports, ", ")
}

// forInput is how an image becomes an input.
func (f *imageFlags) forInput(t ssa.Type) (preprocess.Image, error) {
	p, err := preprocess.ForInput(t)
	if err != nil {
		return p, err
	}
	if p.Mean, err = numbers("mean", f.mean); err != nil {
		return p, err
	}
	if p.Std, err = numbers("std", f.std); err != nil {
		return p, err
	}
	p.Scale, p.BGR = float32(f.scale), f.bgr
	switch {
	case f.boxed:
		p.Fit = preprocess.Letterbox
	case f.cut:
		p.Fit = preprocess.Crop
	}
	switch {
	case f.bgr && p.Channels == 1:
		return p, usagef("--bgr has no effect on an input of one channel, %s", t)
	case p.Fit != preprocess.Stretch && p.Width == 0 && p.Height == 0:
		return p, usagef("--%s has no effect on %s, which takes an image as large as it is; give a size with --shape", word(f.boxed, "letterbox", "crop"), t)
	}
	return p, nil
}

// numbers reads a list like 0.485,0.456,0.406.
func numbers(flag, list string) (out []float32, err error) {
	if list == "" {
		return nil, nil
	}
	for _, s := range strings.Split(list, ",") {
		v, err := strconv.ParseFloat(strings.TrimSpace(s), 32)
		if err != nil || v-v != 0 {
			return nil, usagef("--%s %q: want finite numbers, like 0.485,0.456,0.406", flag, list)
		}
		out = append(out, float32(v))
	}
	return out, nil
}

// mostPixels is how large an image may be.
const mostPixels = 1 << 28

// decodedBytes is how much memory decoding takes for a pixel, at most, by format: of PNG 16 bits a channel, interlaced; of JPEG the
// coefficients of four components, and what they are converted to.
var decodedBytes = map[string]int64{"png": 16, "jpeg": 24, "gif": 2, "bmp": 4}

// endingReader is a file that can not be read any more when the context has ended.
type endingReader struct {
	io.ReadSeeker
	ctx context.Context
}

func (r endingReader) Read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	return r.ReadSeeker.Read(p)
}

// readImage makes an input of an image file.
func (f *imageFlags) readImage(r io.ReadSeeker, t ssa.Type, memory ndarray.Budget) (ndarray.Value, error) {
	p, err := f.forInput(t)
	if err != nil {
		return nil, err
	}
	p.Budget = memory
	cfg, format, err := image.DecodeConfig(r)
	if err != nil {
		return nil, err
	}
	if int64(cfg.Width)*int64(cfg.Height) > mostPixels {
		return nil, fmt.Errorf("the image has %d x %d pixels", cfg.Width, cfg.Height)
	}
	if err := memory.Ask("decoding the image", decodedBytes[format]*int64(cfg.Width)*int64(cfg.Height)); err != nil {
		return nil, err
	}
	if _, err := r.Seek(0, io.SeekStart); err != nil {
		return nil, err
	}
	img, _, err := image.Decode(r)
	if err != nil {
		return nil, err
	}
	return arrayOrNil(p.Tensor(img))
}

// readSound makes an input of a WAVE file.
func readSound(r io.Reader, t ssa.Type, memory ndarray.Budget) (ndarray.Value, error) {
	s, err := preprocess.ReadWAVIn(memory, r)
	if err != nil {
		return nil, err
	}
	return arrayOrNil(s.Tensor(t))
}
