package ops

import (
	"image"
	"image/color"
)

// Images are often stored with color (chroma) at half the resolution of
// brightness. Decoders agree on pixel values only if they interpolate chroma
// alike. The triangle filter takes 3/4 of the nearer and 1/4 of the farther
// sample along each axis:
//
//	chroma      A       B       C
//	pixels    .   .   x   y   .   .       x = (A + 3B)/4   y = (3B + C)/4
//
// JPEG rounds 0.5 down and up in turn (the libjpeg "fancy upsampling" that the
// ONNX operator's text describes); WebP rounds as its reference decoder does.

// chromaPlane is one subsampled plane.
type chromaPlane struct {
	v             []byte
	stride        int
	width, height int // samples that belong to the image
}

func (p *chromaPlane) at(x, y int) int {
	return int(p.v[min(max(y, 0), p.height-1)*p.stride+min(max(x, 0), p.width-1)])
}

// chromaPlanes returns the chroma planes of an image and how many pixels a
// sample covers along x and y.
func chromaPlanes(m *image.YCbCr) (cb, cr chromaPlane, sx, sy int) {
	sx, sy = 1, 1
	switch m.SubsampleRatio {
	case image.YCbCrSubsampleRatio422:
		sx = 2
	case image.YCbCrSubsampleRatio420:
		sx, sy = 2, 2
	case image.YCbCrSubsampleRatio440:
		sy = 2
	case image.YCbCrSubsampleRatio411:
		sx = 4
	case image.YCbCrSubsampleRatio410:
		sx, sy = 4, 2
	}
	b := m.Bounds()
	w, h := (b.Dx()+sx-1)/sx, (b.Dy()+sy-1)/sy
	return chromaPlane{m.Cb, m.CStride, w, h}, chromaPlane{m.Cr, m.CStride, w, h}, sx, sy
}

// fancy interpolates a sample of a plane for pixel x, y by the rule of JPEG.
func (p *chromaPlane) fancy(x, y, sx, sy int) int {
	if sx > 2 || sx == 2 && sy == 1 && p.width <= 2 {
		return p.at(x/sx, y/sy)
	}
	nearX, farX := x/sx, x/sx
	if sx == 2 {
		farX += 2*(x&1) - 1
	}
	nearY, farY := y/sy, y/sy
	if sy == 2 {
		farY += 2*(y&1) - 1
	}
	near, far := p.at(nearX, nearY), p.at(farX, nearY)
	switch {
	case sx == 2 && sy == 2:
		near, far = 3*near+p.at(nearX, farY), 3*far+p.at(farX, farY)
		return (3*near + far + 8 - x&1) >> 4
	case sx == 2:
		return (3*near + far + 1 + x&1) >> 2
	case sy == 2:
		return (3*near + p.at(nearX, farY) + 1 + y&1) >> 2
	}
	return near
}

// jpegColors returns the colors of a decoded JPEG (ITU-T T.871, section 7).
func jpegColors(m *image.YCbCr) func(x, y int) color.NRGBA {
	cb, cr, sx, sy := chromaPlanes(m)
	return func(x, y int) color.NRGBA {
		l := int(m.Y[y*m.YStride+x])
		u, v := cb.fancy(x, y, sx, sy)-128, cr.fancy(x, y, sx, sy)-128
		return color.NRGBA{
			clampByte(l + (91881*v+1<<15)>>16),
			clampByte(l + (-22554*u-46802*v+1<<15)>>16),
			clampByte(l + (116130*u+1<<15)>>16), 255}
	}
}

func clampByte(v int) byte { return byte(min(max(v, 0), 255)) }

// diagonal interpolates a sample of a plane of half width and height for pixel
// x, y by the rule of WebP: 9/16 of the nearest, 3/16 of its neighbours, 1/16 of
// the one across.
func (p *chromaPlane) diagonal(x, y int) int {
	nx, ny := x>>1, y>>1
	fx, fy := nx+2*(x&1)-1, ny+2*(y&1)-1
	a, c := p.at(nx, ny), p.at(nx, fy)
	if fx < 0 || fx >= p.width { // at the left and right edge only rows mix
		return (3*a + c + 2) >> 2
	}
	b, d := p.at(fx, ny), p.at(fx, fy)
	return ((a+b+c+d+8+2*(b+c))>>3 + a) >> 1
}

// webpColors returns the colors of a lossy WebP (RFC 9649, section 2.5, with
// the upsampling and fixed-point arithmetic of the reference decoder).
func webpColors(m *image.YCbCr) func(x, y int) color.NRGBA {
	cb, cr, _, _ := chromaPlanes(m)
	clip := func(v int) byte { return clampByte(v >> 6) }
	return func(x, y int) color.NRGBA {
		l := int(m.Y[y*m.YStride+x]) * 19077 >> 8
		u, v := cb.diagonal(x, y), cr.diagonal(x, y)
		return color.NRGBA{
			clip(l + v*26149>>8 - 14234),
			clip(l - u*6419>>8 - v*13320>>8 + 8708),
			clip(l + u*33050>>8 - 17685), 255}
	}
}
