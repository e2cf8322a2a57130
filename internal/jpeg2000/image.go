package jpeg2000

import (
	"image"
	"image/color"
	"math"
)

// plane is one decoded component, values from 0 to 2^depth-1.
type plane struct {
	rect
	depth  int
	dx, dy int
	v      []int32
}

// SampleBytes is about what a sample takes while an image is decoded: in a plane, in a subband, in a resolution and in the one
// below it, and its part of code-blocks and of the image.
const SampleBytes = 20

// Config returns an image's size, and how many samples its components have, without decoding it.
func Config(data []byte) (width, height int, samples int64, err error) {
	f, err := parseFile(data)
	if err != nil {
		return 0, 0, 0, err
	}
	cs, err := parseCodestream(f.stream, true)
	if err != nil {
		return 0, 0, 0, err
	}
	for _, c := range cs.size.comps {
		r := cs.size.of(c)
		samples += int64(r.w()) * int64(r.h())
	}
	return cs.size.x1 - cs.size.x0, cs.size.y1 - cs.size.y0, samples, nil
}

// of is where a component's samples are.
func (s *sizeInfo) of(c compInfo) rect {
	return rect{ceilDiv(s.x0, c.dx), ceilDiv(s.y0, c.dy), ceilDiv(s.x1, c.dx), ceilDiv(s.y1, c.dy)}
}

// samplesPerLook is how many samples are computed between two calls of look.
const samplesPerLook = 1 << 15

// Decode reads a JP2 file or codestream; samples come as 8 bits, alpha is
// dropped. The caller bounds the size beforehand. It calls look between pieces of work of at most some milliseconds; that
// may panic to end it.
func Decode(data []byte, look func()) (image.Image, error) {
	f, err := parseFile(data)
	if err != nil {
		return nil, err
	}
	cs, err := parseCodestream(f.stream, false)
	if err != nil {
		return nil, err
	}
	planes := make([]*plane, len(cs.size.comps))
	for i, c := range cs.size.comps {
		r := cs.size.of(c)
		if r.empty() {
			return nil, ErrFormat
		}
		planes[i] = &plane{rect: r, depth: c.depth, dx: c.dx, dy: c.dy, v: make([]int32, r.w()*r.h())}
	}
	budget := 1 << 14
	for _, p := range planes {
		budget += len(p.v)
	}
	budget = min(budget, maxBlocks)
	d := blockDecoder{look: look}
	for index := range cs.size.tiles {
		data := cs.tiles[index]
		if data == nil {
			continue
		}
		look()
		t, err := cs.newTile(index, data.params, &budget)
		if err != nil {
			return nil, err
		}
		if err := t.readPackets(data.data, look); err != nil {
			return nil, err
		}
		for _, c := range t.comps {
			c.reconstruct(&d)
		}
		if data.params.multi {
			look()
			t.inverseColor(look)
		}
		for i, c := range t.comps {
			c.store(planes[i], look)
		}
	}
	return f.paint(cs, planes, look)
}

// inverseColor undoes the color transform of the first three components
// (annex G).
func (t *tile) inverseColor(look func()) {
	if len(t.comps) < 3 {
		return
	}
	a, b, c := t.comps[0], t.comps[1], t.comps[2]
	if a.coding.reversible {
		if len(a.ints) != len(b.ints) || len(a.ints) != len(c.ints) {
			return
		}
		for i, y := range a.ints {
			if i%samplesPerLook == 0 {
				look()
			}
			u, v := b.ints[i], c.ints[i]
			g := y - (u+v)>>2
			a.ints[i], b.ints[i], c.ints[i] = v+g, g, u+g
		}
		return
	}
	if len(a.reals) != len(b.reals) || len(a.reals) != len(c.reals) {
		return
	}
	for i, y := range a.reals {
		if i%samplesPerLook == 0 {
			look()
		}
		u, v := b.reals[i], c.reals[i]
		a.reals[i], b.reals[i], c.reals[i] = y+1.402*v, y-0.344136*u-0.714136*v, y+1.772*u
	}
}

// store writes a tile's samples into the image, shifted to start at 0.
func (c *tileComp) store(p *plane, look func()) {
	top := int32(1)<<p.depth - 1
	half := int32(1) << (p.depth - 1)
	for y := range c.h() {
		look()
		row := p.v[(c.y0-p.y0+y)*p.w()+c.x0-p.x0:]
		for x := range c.w() {
			var v int32
			switch i := y*c.w() + x; {
			case i < len(c.ints):
				v = c.ints[i]
			case i < len(c.reals):
				v = int32(math.RoundToEven(float64(min(max(c.reals[i], -1<<28), 1<<28))))
			}
			row[x] = min(max(v+half, 0), top)
		}
	}
}

// sample is a plane's value at a grid point of the image.
func (p *plane) sample(x, y int) int32 {
	return p.v[(min(max(y/p.dy, p.y0), p.y1-1)-p.y0)*p.w()+min(max(x/p.dx, p.x0), p.x1-1)-p.x0]
}

// at is a plane's value at a grid point of the image, scaled to 0..255.
func (p *plane) at(x, y int) byte {
	v := p.sample(x, y)
	switch {
	case p.depth > 8:
		v >>= p.depth - 8
	case p.depth < 8:
		v = v * 255 / (1<<p.depth - 1)
	}
	return byte(v)
}

// paint turns planes into colors by what the file says of them.
func (f *file) paint(cs *codestream, planes []*plane, look func()) (image.Image, error) {
	channels, err := f.channels(planes)
	if err != nil {
		return nil, err
	}
	w, h := cs.size.x1-cs.size.x0, cs.size.y1-cs.size.y0
	if f.space == spaceGray || len(channels) < 3 {
		img := image.NewGray(image.Rect(0, 0, w, h))
		for i := range img.Pix {
			if i%samplesPerLook == 0 {
				look()
			}
			img.Pix[i] = channels[0](cs.size.x0+i%w, cs.size.y0+i/w)
		}
		return img, nil
	}
	// Without a word on it, color of half the resolution is chroma.
	ycc := f.space == spaceYCC || f.space == spaceUnknown && f.palette == nil && planes[1].dx > planes[0].dx
	img := image.NewNRGBA(image.Rect(0, 0, w, h))
	for y := range h {
		look()
		for x := range w {
			gx, gy := cs.size.x0+x, cs.size.y0+y
			a, b, c := channels[0](gx, gy), channels[1](gx, gy), channels[2](gx, gy)
			if ycc {
				a, b, c = color.YCbCrToRGB(a, b, c)
			}
			img.SetNRGBA(x, y, color.NRGBA{a, b, c, 255})
		}
	}
	return img, nil
}
