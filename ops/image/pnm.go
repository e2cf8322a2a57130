package image

import (
	"bufio"
	"errors"
	"image"
	"image/color"
	"io"
)

// The portable anymap formats: a header of text, then samples.
//
//	P1 P4  bits (1 is black)      P4 packed, rows padded to bytes
//	P2 P5  gray                   P2, P3 as text
//	P3 P6  red green blue         two bytes a sample if the maximum is above 255
//
// Source: the Netpbm format pages pbm(5), pgm(5), ppm(5).

var errPNM = errors.New("not a portable anymap")

// pnmReader reads an anymap.
type pnmReader struct {
	r             *bufio.Reader
	kind          byte // '1' to '6'
	width, height int
	most          int // largest sample
}

// number reads a decimal number after white space and comments.
func (p *pnmReader) number() (int, error) {
	b, err := p.r.ReadByte()
	for err == nil && (b == ' ' || b >= '\t' && b <= '\r' || b == '#') {
		if b == '#' {
			if _, err = p.r.ReadString('\n'); err != nil {
				return 0, err
			}
		}
		b, err = p.r.ReadByte()
	}
	n := 0
	for digits := 0; ; digits++ {
		if err != nil || b < '0' || b > '9' {
			if digits == 0 || err != nil && err != io.EOF {
				return 0, errPNM
			}
			if err == nil && p.kind < '4' { // the separator may start a comment
				return n, p.r.UnreadByte()
			}
			return n, nil
		}
		if n = n*10 + int(b-'0'); n > 1<<30 {
			return 0, errPNM
		}
		if p.kind == '1' && p.height > 0 { // bits need no separators
			return n, nil
		}
		b, err = p.r.ReadByte()
	}
}

// newPNM reads the header.
func newPNM(in io.Reader) (*pnmReader, error) {
	p := &pnmReader{r: bufio.NewReader(in), most: 1}
	magic := make([]byte, 2)
	if _, err := io.ReadFull(p.r, magic); err != nil || magic[0] != 'P' || magic[1] < '1' || magic[1] > '6' {
		return nil, errPNM
	}
	p.kind = magic[1]
	w, err := p.number()
	if err != nil {
		return nil, err
	}
	h, err := p.number()
	if err != nil {
		return nil, err
	}
	if p.kind != '1' && p.kind != '4' {
		if p.most, err = p.number(); err != nil || p.most < 1 || p.most > 65535 {
			return nil, errPNM
		}
	}
	p.width, p.height = w, h
	return p, nil
}

func pnmConfig(r io.Reader) (image.Config, error) {
	p, err := newPNM(r)
	if err != nil {
		return image.Config{}, err
	}
	return image.Config{ColorModel: color.NRGBAModel, Width: p.width, Height: p.height}, nil
}

// sample reads one sample of a text or byte format.
func (p *pnmReader) sample() (int, error) {
	if p.kind < '4' {
		return p.number()
	}
	b, err := p.r.ReadByte()
	if err != nil || p.most < 256 {
		return int(b), err
	}
	low, err := p.r.ReadByte()
	return int(b)<<8 | int(low), err
}

// row reads the samples of one row, scaled to 0..255.
func (p *pnmReader) row(out []byte) error {
	if p.kind == '4' {
		packed := make([]byte, (len(out)+7)/8)
		if _, err := io.ReadFull(p.r, packed); err != nil {
			return err
		}
		for i := range out {
			out[i] = 255 * (1 - packed[i/8]>>(7-i%8)&1)
		}
		return nil
	}
	for i := range out {
		v, err := p.sample()
		if err != nil {
			return err
		}
		if v > p.most {
			return errPNM
		}
		if p.kind == '1' {
			v = 1 - v
		}
		out[i] = byte((v*255 + p.most/2) / p.most)
	}
	return nil
}

func decodePNM(r io.Reader) (image.Image, error) {
	p, err := newPNM(r)
	if err != nil {
		return nil, err
	}
	img := image.NewNRGBA(image.Rect(0, 0, p.width, p.height))
	channels := 1
	if p.kind%3 == 0 { // '3' and '6'
		channels = 3
	}
	row := make([]byte, p.width*channels)
	for y := range p.height {
		if err := p.row(row); err != nil {
			return nil, err
		}
		for x := range p.width {
			px := row[x*channels : (x+1)*channels]
			img.SetNRGBA(x, y, color.NRGBA{px[0], px[channels/2], px[channels-1], 255})
		}
	}
	return img, nil
}
