package image

import (
	"bytes"
	"compress/zlib"
	"context"
	"encoding/binary"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// tiffOf is an image of 8x8 gray pixels in one block, whose size entries give: tag, value, tag, value, in order.
func tiffOf(compression int, block string, entries ...int) string {
	all := append([]int{tiffWidth, 8, tiffHeight, 8, 258, 8, tiffCompression, compression, 262, 1}, entries...)
	place := 8 + 2 + 12*len(all)/2 + 4
	b := append([]byte("II*\x00\x08\x00\x00\x00"), byte(len(all)/2), 0)
	for i := 0; i < len(all); i += 2 {
		v := all[i+1]
		switch all[i] {
		case tiffStripOffsets, tiffTileOffsets:
			v = place
		case tiffStripBytes, tiffTileBytes:
			v = len(block)
		}
		b = binary.LittleEndian.AppendUint16(b, uint16(all[i]))
		b = binary.LittleEndian.AppendUint32(append(b, 4, 0), 1)
		b = binary.LittleEndian.AppendUint32(b, uint32(v))
	}
	return string(b) + "\x00\x00\x00\x00" + block
}

func tiled(compression int, block string, width, height int) string {
	return tiffOf(compression, block, tiffTileWidth, width, tiffTileHeight, height, tiffTileOffsets, 0, tiffTileBytes, 0)
}

func stripped(compression int, block string, rows int) string {
	return tiffOf(compression, block, tiffStripOffsets, 0, tiffRowsPerStrip, rows, tiffStripBytes, 0)
}

func deflated(bytes int) string {
	var b strings.Builder
	w := zlib.NewWriter(&b)
	for range bytes / 64 {
		_, _ = w.Write(make([]byte, 64))
	}
	_ = w.Close()
	return b.String()
}

// chunk is one of a WebP file.
func chunk(id, body string) string {
	return id + string(binary.LittleEndian.AppendUint32(nil, uint32(len(body)))) + body + strings.Repeat("\x00", len(body)%2)
}

func webpOf(chunks ...string) string { return chunk("RIFF", "WEBP"+strings.Join(chunks, "")) }

func canvas(width, height int) string {
	return chunk("VP8X", string([]byte{0, 0, 0, 0, byte(width - 1), byte((width - 1) >> 8), 0, byte(height - 1), byte((height - 1) >> 8), 0}))
}

// lossless is a chunk of black pixels: five codes of one symbol each, which take no bits of a pixel.
func lossless(width, height int) string {
	bits := []byte{0x2f}
	bits = binary.LittleEndian.AppendUint32(bits, uint32(width-1)|uint32(height-1)<<14)
	return chunk("VP8L", string(bits)+"\x88\x88\x08"+strings.Repeat("\x00", 8))
}

// components is a JPEG 2000 codestream without data.
func components(n, width, height int) string {
	segment := func(marker uint16, body []byte) []byte {
		return append(binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint16(nil, marker), uint16(len(body)+2)), body...)
	}
	size := []byte{0, 0}
	for _, v := range []int{width, height, 0, 0, width, height, 0, 0} {
		size = binary.BigEndian.AppendUint32(size, uint32(v))
	}
	size = append(binary.BigEndian.AppendUint16(size, uint16(n)), bytes.Repeat([]byte{7, 1, 1}, n)...)
	return "\xff\x4f" + string(segment(0xff51, size)) + string(segment(0xff52, []byte{0, 0, 0, 1, 0, 0, 4, 4, 0, 1})) +
		string(segment(0xff5c, []byte{0x40, 8 << 3})) + string(segment(0xff90, []byte{0, 0, 0, 0, 0, 0, 0, 1})) + "\xff\x93" + strings.Repeat("\x00", 16) + "\xff\xd9"
}

func decode(ctx context.Context, memory ndarray.Budget, file string) (*ndarray.Array, error) {
	g := ssa.NewGraph("image")
	n := g.NewNode("ImageDecoder", []*ssa.Value{g.AddParam("x", ssa.StaticTensor(ndarray.Uint8, len(file)))}, 1)
	c := &ops.Call{Ctx: ctx, Node: n, In: []ndarray.Value{ndarray.Of([]byte(file), len(file))}, Out: []ndarray.Value{nil}, Threads: 1, Memory: memory}
	if err := ImageDecoder.Eval(c); err != nil {
		return nil, err
	}
	return c.Out[0].(*ndarray.Array), nil
}

// TestRefused: what an image takes is bounded by its size and the budget, whatever else its file says.
func TestRefused(t *testing.T) {
	for _, c := range []struct{ name, file, want string }{
		{"a tile", tiled(8, deflated(64), 60000, 60000), "a block of 60000x60000 is larger than"},
		{"packed bytes", stripped(tiffPackBits, strings.Repeat("\x81\x00", 100), 8), "a block of it holds more than its pixels"},
		{"a lossless frame", webpOf(canvas(1, 1), lossless(16384, 16384)), "a canvas of 1x1 holds a frame of 16384x16384"},
		{"a lossy frame", webpOf(canvas(1, 1), chunk("VP8 ", "\x10\x08\x00\x9d\x01\x2a\xff\x3f\xff\x3f"+strings.Repeat("\x00", 90))), "a canvas of 1x1 holds a frame of 16383x16383"},
		{"a frame", webpOf(lossless(16384, 16384)), "it of 16384x16384 is larger than"},
		{"components", components(16, 3600, 3600), "decoding an image"},
	} {
		_, err := decode(t.Context(), 2<<30, c.file)
		assert.ErrorContains(t, err, c.want, c.name)
	}
}

// TestBlocks decodes blocks that say more rows or columns than the image has.
func TestBlocks(t *testing.T) {
	for _, c := range []struct{ name, file string }{
		{"a tile larger than the image", tiled(8, deflated(256*256), 256, 256)},
		{"all rows in a strip", stripped(8, deflated(64), 1<<31-1)},
		{"more data than rows", stripped(8, deflated(64<<20), 1<<31-1)},
		{"packed bytes", stripped(tiffPackBits, "\xc1\x00", 8)},
		{"a frame", webpOf(lossless(8, 8))},
		{"a frame on a canvas", webpOf(canvas(8, 8), lossless(8, 8))},
		{"components", components(16, 8, 8)},
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		got, err := decode(t.Context(), 1<<30, c.file)
		runtime.ReadMemStats(&after)
		require.NoError(t, err, c.name)
		assert.Equal(t, []int{8, 8, 3}, got.Shape, c.name)
		assert.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(4<<20), c.name)
	}
}

// TestEndsWhileDecoding ends a call whose decoder reads nothing for more than a second.
func TestEndsWhileDecoding(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	start := time.Now()
	_, err := decode(ctx, 4<<30, webpOf(lossless(8192, 8192)))
	require.ErrorIs(t, err, context.DeadlineExceeded)
	assert.Less(t, time.Since(start), time.Second)
}
