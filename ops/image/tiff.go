package image

import (
	"encoding/binary"
	"errors"
	"image"
	"image/color"
	"io"
)

// A TIFF file is cut into blocks, tiles or strips of rows, whose size the file states. The decoder holds a whole block, at
// most 8 bytes a pixel of the stated size, and any number of bytes of a block packed by PackBits.
//
// Source: TIFF Revision 6.0, sections 2, 3, 9 and 15.

const (
	tiffWidth        = 256
	tiffHeight       = 257
	tiffCompression  = 259
	tiffStripOffsets = 273
	tiffRowsPerStrip = 278
	tiffStripBytes   = 279
	tiffTileWidth    = 322
	tiffTileHeight   = 323
	tiffTileOffsets  = 324
	tiffTileBytes    = 325

	tiffPackBits   = 32773
	tiffBlockBytes = 8 // most that a block takes, per pixel
)

var errTIFF = errors.New("broken TIFF directory")

// tiffFile is the directory of a file: where its entries are, by their tags.
type tiffFile struct {
	data    []byte
	order   binary.ByteOrder
	entries map[int][]byte
	values  int64 // of all entries
}

func openTIFF(data []byte) (*tiffFile, error) {
	f := &tiffFile{data: data, order: binary.LittleEndian, entries: map[int][]byte{}}
	if len(data) < 8 {
		return nil, errTIFF
	}
	if data[0] == 'M' {
		f.order = binary.BigEndian
	}
	at := int64(f.order.Uint32(data[4:]))
	if at+2 > int64(len(data)) {
		return nil, errTIFF
	}
	n := int(f.order.Uint16(data[at:]))
	list := data[at+2:]
	if len(list) < 12*n {
		return nil, errTIFF
	}
	for ; n > 0; n, list = n-1, list[12:] {
		f.entries[int(f.order.Uint16(list))] = list[:12]
		f.values += min(int64(f.order.Uint32(list[4:])), int64(len(data)))
	}
	return f, nil
}

// list returns the values of an entry, none where it is absent or broken.
func (f *tiffFile) list(tag int) func(i int) (value int64, ok bool) {
	e, raw, width := f.entries[tag], []byte(nil), 0
	if e != nil {
		width = []int{1: 1, 3: 2, 4: 4, 5: 0}[min(f.order.Uint16(e[2:]), 5)]
		raw = e[8:]
		if size := int64(width) * int64(f.order.Uint32(e[4:])); size <= 4 {
			raw = raw[:size]
		} else if at := int64(f.order.Uint32(raw)); at+size <= int64(len(f.data)) {
			raw = f.data[at : at+size]
		} else {
			raw = nil
		}
	}
	return func(i int) (int64, bool) {
		switch {
		case width == 0 || i >= len(raw)/width:
			return 0, false
		case width == 1:
			return int64(raw[i]), true
		case width == 2:
			return int64(f.order.Uint16(raw[2*i:])), true
		}
		return int64(f.order.Uint32(raw[4*i:])), true
	}
}

// first is the first value of an entry, 0 without one.
func (f *tiffFile) first(tag int) int64 {
	v, _ := f.list(tag)(0)
	return v
}

func tiffConfig(r io.Reader) (image.Config, error) {
	data, err := io.ReadAll(r)
	if err != nil {
		return image.Config{}, err
	}
	f, err := openTIFF(data)
	if err != nil {
		return image.Config{}, err
	}
	return image.Config{ColorModel: color.NRGBAModel, Width: int(f.first(tiffWidth)), Height: int(f.first(tiffHeight))}, nil
}

// tiffBytes is what decoding a file takes, with the block that is unpacked and the values of the directory. Rows per strip beyond
// the image, which would let a strip hold more than the image, are replaced by the rows that the image has.
func tiffBytes(data []byte, conf image.Config, look func()) (int64, error) {
	f, err := openTIFF(data)
	if err != nil {
		return 0, err
	}
	width, height := f.first(tiffTileWidth), f.first(tiffTileHeight)
	offsets, counts := f.list(tiffTileOffsets), f.list(tiffTileBytes)
	if width == 0 {
		if err := f.limitRows(conf.Height); err != nil {
			return 0, err
		}
		width, height = int64(conf.Width), f.first(tiffRowsPerStrip)
		if height == 0 {
			height = int64(conf.Height)
		}
		offsets, counts = f.list(tiffStripOffsets), f.list(tiffStripBytes)
	}
	if height > 0 && width > maxPixels/height {
		return 0, tooLarge("a block", width, height)
	}
	if f.first(tiffCompression) == tiffPackBits {
		for i := 0; ; i++ {
			at, ok := offsets(i)
			n, known := counts(i)
			if !ok || !known {
				break
			}
			look()
			block := data[min(at, int64(len(data))):]
			if unpacked(block[:min(n, int64(len(block)))]) > tiffBlockBytes*width*height {
				return 0, &refusedError{"a block of it holds more than its pixels"}
			}
		}
	}
	return pixelBytes*max(width*height, int64(conf.Width)*int64(conf.Height)) + 2*8*f.values, nil
}

// limitRows bounds the rows per strip in the file's data.
func (f *tiffFile) limitRows(height int) error {
	e := f.entries[tiffRowsPerStrip]
	if e == nil || f.first(tiffRowsPerStrip) <= int64(height) {
		return nil
	}
	switch {
	case f.order.Uint32(e[4:]) != 1:
		return errTIFF
	case f.order.Uint16(e[2:]) == 3:
		f.order.PutUint16(e[8:], uint16(height))
	case f.order.Uint16(e[2:]) == 4:
		f.order.PutUint32(e[8:], uint32(height))
	default: // a byte
		e[8] = byte(height)
	}
	return nil
}

// unpacked is how many bytes a block has that PackBits packed.
func unpacked(block []byte) (sum int64) {
	for len(block) > 0 {
		skip := 2
		switch code := int(int8(block[0])); {
		case code >= 0:
			sum, skip = sum+int64(code)+1, code+2
		case code == -128:
			skip = 1
		default:
			sum += int64(1 - code)
		}
		block = block[min(skip, len(block)):]
	}
	return sum
}
