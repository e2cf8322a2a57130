package jpeg

import (
	"image"
	"image/color"
)

// Decode reads a JPEG image: *[image.Gray] for one component, else *[image.NRGBA].
// The caller bounds the size beforehand.
// It calls look between pieces of work of at most some milliseconds; that may panic to end it.
func Decode(data []byte, look func()) (image.Image, error) {
	d := &decoder{data: data, adobe: -1, look: look}
	if err := d.parse(); err != nil {
		return nil, err
	}
	if d.comps == nil || !d.done {
		return nil, ErrFormat
	}
	for _, c := range d.comps {
		c.plane = make([]byte, c.wide*c.high*64)
		for b := range c.wide * c.high {
			if b%blocksPerLook == 0 {
				look()
			}
			idct(c.coef[b*64:b*64+64], &d.quant[c.quant], c.plane[(b/c.wide*8*c.wide+b%c.wide)*8:], c.wide*8)
		}
		c.coef = nil
	}
	if len(d.comps) == 1 {
		return &image.Gray{Pix: d.comps[0].plane, Stride: d.comps[0].wide * 8, Rect: image.Rect(0, 0, d.width, d.height)}, nil
	}
	img := image.NewNRGBA(image.Rect(0, 0, d.width, d.height))
	paint := d.painter()
	for y := range d.height {
		look()
		for x := range d.width {
			img.SetNRGBA(x, y, paint(x, y))
		}
	}
	return img, nil
}

// sampler returns how the samples of a component are read at image positions.
//
// Planes of half the width or height are enlarged by a triangle filter: 3/4 of
// the nearer, 1/4 of the farther sample. Ties round down and up in turn.
//
//	samples     A       B       C
//	pixels    .   .   x   y   .   .       x = (A + 3B + 1)/4   y = (3B + C + 2)/4
func (d *decoder) sampler(c *component) func(x, y int) int32 {
	w, h, stride := ceilDiv(d.width*c.h, d.hmax), ceilDiv(d.height*c.v, d.vmax), c.wide*8
	at := func(x, y int) int32 {
		return int32(c.plane[min(max(y, 0), h-1)*stride+min(max(x, 0), w-1)])
	}
	wide, high := d.hmax == 2*c.h, d.vmax == 2*c.v
	switch {
	case wide && high && w > 2:
		return func(x, y int) int32 {
			nx, fx, ny, fy := x/2, x/2+2*(x&1)-1, y/2, y/2+2*(y&1)-1
			near, far := 3*at(nx, ny)+at(nx, fy), 3*at(fx, ny)+at(fx, fy)
			return (3*near + far + 8 - int32(x&1)) >> 4
		}
	case wide && d.vmax == c.v && w > 2:
		return func(x, y int) int32 {
			return (3*at(x/2, y) + at(x/2+2*(x&1)-1, y) + 1 + int32(x&1)) >> 2
		}
	case high && d.hmax == c.h:
		return func(x, y int) int32 {
			return (3*at(x, y/2) + at(x, y/2+2*(y&1)-1) + 1 + int32(y&1)) >> 2
		}
	}
	return func(x, y int) int32 { return at(x*c.h/d.hmax, y*c.v/d.vmax) }
}

// painter returns the color of each pixel. Three components are Y, Cb, Cr unless
// the file says they are red, green, blue; four are C, M, Y, K or the inverse of
// their first three as Y, Cb, Cr, and stored inverted by custom.
func (d *decoder) painter() func(x, y int) color.NRGBA {
	var s []func(x, y int) int32
	for _, c := range d.comps {
		s = append(s, d.sampler(c))
	}
	if len(s) == 3 {
		if d.adobe == 0 || d.adobe < 0 && string([]byte{d.comps[0].id, d.comps[1].id, d.comps[2].id}) == "RGB" {
			return func(x, y int) color.NRGBA {
				return color.NRGBA{byte(s[0](x, y)), byte(s[1](x, y)), byte(s[2](x, y)), 255}
			}
		}
		return func(x, y int) color.NRGBA { return rgbOf(s[0](x, y), s[1](x, y), s[2](x, y)) }
	}
	return func(x, y int) color.NRGBA {
		ink := color.NRGBA{byte(s[0](x, y)), byte(s[1](x, y)), byte(s[2](x, y)), 255}
		light := s[3](x, y)
		if d.adobe == 2 { // Y, Cb, Cr of the inverted inks
			ink = rgbOf(s[0](x, y), s[1](x, y), s[2](x, y))
		}
		if d.adobe < 0 { // stored as inks, not inverted
			ink.R, ink.G, ink.B, light = 255-ink.R, 255-ink.G, 255-ink.B, 255-light
		}
		mix := func(v byte) byte { return byte((int32(v)*light + 127) / 255) }
		return color.NRGBA{mix(ink.R), mix(ink.G), mix(ink.B), 255}
	}
}

// rgbOf converts a color (ITU-T T.871, section 7) with 16 fraction bits.
func rgbOf(y, cb, cr int32) color.NRGBA {
	u, v := cb-128, cr-128
	clamp := func(v int32) byte { return byte(min(max(v, 0), 255)) }
	return color.NRGBA{
		clamp(y + (91881*v+1<<15)>>16),
		clamp(y + (-22554*u-46802*v+1<<15)>>16),
		clamp(y + (116130*u+1<<15)>>16), 255}
}
