package image

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
// WebP rounds as its reference decoder does; for JPEG see internal/jpeg.

// chromaPlane is one subsampled plane.
type chromaPlane struct {
	v             []byte
	stride        int
	width, height int // samples that belong to the image
}

func (p *chromaPlane) at(x, y int) int {
	return int(p.v[min(max(y, 0), p.height-1)*p.stride+min(max(x, 0), p.width-1)])
}

// chromaPlanes returns the chroma planes of an image of half the width and height.
func chromaPlanes(m *image.YCbCr) (cb, cr chromaPlane) {
	b := m.Bounds()
	w, h := (b.Dx()+1)/2, (b.Dy()+1)/2
	return chromaPlane{m.Cb, m.CStride, w, h}, chromaPlane{m.Cr, m.CStride, w, h}
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
	cb, cr := chromaPlanes(m)
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
