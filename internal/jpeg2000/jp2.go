package jpeg2000

import (
	"bytes"
	"math"
)

// file is what the boxes around a codestream say (T.800, annex I).
type file struct {
	stream  []byte
	space   int
	palette *palette
	mapping []mapEntry
}

// The enumerated color spaces.
const (
	spaceUnknown = 0
	spaceRGB     = 16
	spaceGray    = 17
	spaceYCC     = 18
)

// palette holds the columns of a color table, as 8 bits.
type palette struct {
	columns [][]byte
}

// mapEntry says which component and palette column make a channel.
type mapEntry struct {
	comp    int
	indexed bool
	column  int
}

var signature = []byte("\x00\x00\x00\x0cjP  \r\n\x87\n")

// parseFile finds the codestream in a JP2 file; data may be a codestream itself.
func parseFile(data []byte) (*file, error) {
	f := &file{}
	if !bytes.HasPrefix(data, signature) {
		f.stream = data
		return f, nil
	}
	if err := f.boxes(data, 0); err != nil {
		return nil, err
	}
	if f.stream == nil {
		return nil, ErrFormat
	}
	return f, nil
}

// boxes reads a sequence of boxes.
func (f *file) boxes(data []byte, depth int) error {
	for len(data) >= 8 {
		size, kind, head := be32(data), string(data[4:8]), 8
		if size == 1 && len(data) >= 16 {
			size, head = be32(data[12:]), 16
			if be32(data[8:]) != 0 {
				size = math.MaxInt // four gigabytes and more
			}
		}
		if size == 0 {
			size = len(data)
		}
		if size < head || size > len(data) {
			if kind != "jp2c" { // a codestream may be cut off
				return ErrFormat
			}
			size = len(data)
		}
		if err := f.box(kind, data[head:size], depth); err != nil {
			return err
		}
		data = data[size:]
	}
	return nil
}

func (f *file) box(kind string, body []byte, depth int) error {
	switch {
	case kind == "jp2h" && depth == 0:
		return f.boxes(body, 1)
	case kind == "jp2c" && f.stream == nil:
		f.stream = body
	case kind == "colr" && f.space == spaceUnknown && len(body) >= 7 && body[0] == 1:
		f.space = be32(body[3:])
	case kind == "pclr":
		return f.readPalette(body)
	case kind == "cmap":
		for ; len(body) >= 4; body = body[4:] {
			f.mapping = append(f.mapping, mapEntry{be16(body), body[2] == 1, int(body[3])})
		}
	}
	return nil
}

// readPalette reads pclr: entries, columns, their depths, then the values.
func (f *file) readPalette(body []byte) error {
	if len(body) < 3 {
		return ErrFormat
	}
	entries, columns := be16(body), int(body[2])
	if entries == 0 || entries > 1024 || columns == 0 || len(body) < 3+columns {
		return ErrFormat
	}
	depths, body := body[3:3+columns], body[3+columns:]
	p := &palette{columns: make([][]byte, columns)}
	for range entries {
		for c, d := range depths {
			bits := int(d&0x7f) + 1
			n := (bits + 7) / 8
			if len(body) < n || bits > 16 {
				return ErrFormat
			}
			v := int(body[0])
			if n == 2 {
				v = be16(body)
			}
			body = body[n:]
			if bits > 8 {
				v >>= bits - 8
			} else {
				v = v * 255 / (1<<bits - 1)
			}
			p.columns[c] = append(p.columns[c], byte(v))
		}
	}
	f.palette = p
	return nil
}

// channels returns the color channels as functions of grid points.
func (f *file) channels(planes []*plane) ([]func(x, y int) byte, error) {
	var out []func(x, y int) byte
	if f.palette == nil {
		for _, p := range planes {
			out = append(out, p.at)
		}
		return out, nil
	}
	for _, m := range f.mapping {
		if m.comp >= len(planes) || m.indexed && m.column >= len(f.palette.columns) {
			return nil, ErrFormat
		}
		p := planes[m.comp]
		if !m.indexed {
			out = append(out, p.at)
			continue
		}
		table := f.palette.columns[m.column]
		out = append(out, func(x, y int) byte { return table[min(int(p.sample(x, y)), len(table)-1)] })
	}
	if len(out) == 0 {
		return nil, ErrFormat
	}
	return out, nil
}
