package image

import (
	"encoding/binary"
	"errors"
	"fmt"
	"image"
	"image/color"
	"io"
)

// A WebP file is a list of chunks. The canvas of an extended file, chunk VP8X, has a size of its own, and so has the frame
// in it. The decoder makes what the frame says, so both must agree.
//
// Source: RFC 9649; RFC 6386, section 9.1.

var errNoFrame = errors.New("no frame")

// webpConfig returns the size of the frame that is decoded.
func webpConfig(r io.Reader) (image.Config, error) {
	data, err := io.ReadAll(r)
	if err != nil {
		return image.Config{}, err
	}
	var canvas image.Point
	for at := 12; at+8 <= len(data); {
		id, length := string(data[at:at+4]), uint64(binary.LittleEndian.Uint32(data[at+4:]))
		body := data[at+8:]
		if length > uint64(len(body)) {
			break
		}
		body = body[:length]
		if id == "VP8X" && len(body) == 10 {
			canvas = image.Pt(1+little24(body[4:]), 1+little24(body[7:]))
		}
		if size, ok := webpFrame(id, body); ok {
			if canvas != (image.Point{}) && canvas != size {
				return image.Config{}, &refusedError{fmt.Sprintf("a canvas of %dx%d holds a frame of %dx%d", canvas.X, canvas.Y, size.X, size.Y)}
			}
			return image.Config{ColorModel: color.NRGBAModel, Width: size.X, Height: size.Y}, nil
		}
		at += 8 + len(body) + len(body)%2
	}
	return image.Config{}, errNoFrame
}

// webpFrame returns the size of the frame in a chunk; ok is false for chunks of other kinds.
func webpFrame(id string, body []byte) (size image.Point, ok bool) {
	switch {
	case id == "VP8 " && len(body) >= 10:
		return image.Pt(int(binary.LittleEndian.Uint16(body[6:])&0x3fff), int(binary.LittleEndian.Uint16(body[8:])&0x3fff)), true
	case id == "VP8L" && len(body) >= 5:
		bits := binary.LittleEndian.Uint32(body[1:])
		return image.Pt(1+int(bits&0x3fff), 1+int(bits>>14&0x3fff)), true
	}
	return size, false
}

func little24(b []byte) int { return int(b[0]) | int(b[1])<<8 | int(b[2])<<16 }
