package jpeg2000

import (
	"bytes"
	"hash/crc32"
	"image"
	"os"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// pixels is the image's samples, row by row: gray, or red, green, blue.
func pixels(t *testing.T, img image.Image) []byte {
	switch m := img.(type) {
	case *image.Gray:
		return m.Pix
	case *image.NRGBA:
		var out []byte
		for i := 0; i < len(m.Pix); i += 4 {
			out = append(out, m.Pix[i:i+3]...)
		}
		return out
	}
	require.Fail(t, "the image is of an unknown kind")
	return nil
}

// TestReferencePixels compares with checksums of what OpenJPEG (by way of
// Pillow) decodes, exactly for reversible files.
func TestReferencePixels(t *testing.T) {
	for _, c := range []struct {
		file          string
		width, height int
		crc           uint32
	}{
		{"lossless.jp2", 33, 21, 0xdbcc635a},
		{"gray.jp2", 19, 13, 0x130c63fa},
		{"tiny.jp2", 1, 1, 0xf3cc41b2},
		{"thin.jp2", 1, 17, 0xe9ba767b},
		{"flat.jp2", 17, 1, 0x703992ac},
		{"tiles.jp2", 45, 37, 0x9d717bd0},
		{"tiles-offset.jp2", 45, 37, 0x9d717bd0},
		{"layers.jp2", 40, 30, 0xe058b560},
		{"truncated-53.jp2", 40, 30, 0x76033656},
		{"order-lrcp.jp2", 70, 50, 0xd5c3b534},
		{"order-rlcp.jp2", 70, 50, 0xf87d2779},
		{"order-rpcl.jp2", 70, 50, 0xf87d2779},
		{"order-pcrl.jp2", 70, 50, 0xf87d2779},
		{"order-cprl.jp2", 70, 50, 0xf87d2779},
		{"codeblocks.jp2", 64, 64, 0x575158ea},
		{"bare.j2k", 21, 22, 0x3c199396},
		{"rgba.jp2", 20, 20, 0x4374f44b},
		{"la.jp2", 20, 20, 0x4fe9db88},
		{"nomct.jp2", 20, 20, 0x4374f44b},
		{"one-res.jp2", 20, 20, 0x4374f44b},
		// written with other code-block styles, markers and depths
		{"style-bypass.jp2", 37, 29, 0x73a9eb21},
		{"style-reset.jp2", 37, 29, 0x73a9eb21},
		{"style-termall.jp2", 37, 29, 0x73a9eb21},
		{"style-causal.jp2", 37, 29, 0x73a9eb21},
		{"style-predict.jp2", 37, 29, 0x73a9eb21},
		{"style-symbols.jp2", 37, 29, 0x73a9eb21},
		{"style-bypass-termall.jp2", 37, 29, 0x73a9eb21},
		{"style-all.jp2", 37, 29, 0x73a9eb21},
		{"region.jp2", 37, 29, 0x73a9eb21},
		{"markers.jp2", 37, 29, 0x73a9eb21},
		{"bits12.jp2", 24, 20, 0x5df8b3b4},
		{"bits16.jp2", 24, 20, 0x0c33363e},
		{"changes.jp2", 37, 29, 0xf3504072},
	} {
		t.Run(c.file, func(t *testing.T) {
			data, err := os.ReadFile("testdata/" + c.file)
			require.NoError(t, err)
			img, err := Decode(data, func() {})
			require.NoError(t, err)
			assert.Equal(t, image.Rect(0, 0, c.width, c.height), img.Bounds())
			assert.Equal(t, c.crc, crc32.ChecksumIEEE(pixels(t, img)))
		})
	}
}

// TestNearReferencePixels covers files whose pixels depend on the rounding of
// floating point numbers: one step may differ.
func TestNearReferencePixels(t *testing.T) {
	for _, name := range []string{"lossy", "lossy-full", "subsampled"} {
		data, err := os.ReadFile("testdata/" + name + ".jp2")
		require.NoError(t, err)
		want, err := os.ReadFile("testdata/" + name + ".raw")
		require.NoError(t, err)
		img, err := Decode(data, func() {})
		require.NoError(t, err)
		got := pixels(t, img)
		require.Len(t, got, len(want))
		for i := range got {
			require.InDelta(t, float64(want[i]), float64(got[i]), 1, "%s sample %d", name, i)
		}
	}
}

// TestShallow spreads four bits over the whole range.
func TestShallow(t *testing.T) {
	data, err := os.ReadFile("testdata/bits4.jp2")
	require.NoError(t, err)
	img, err := Decode(data, func() {})
	require.NoError(t, err)
	for _, v := range pixels(t, img) {
		require.Zero(t, v%17)
	}
}

// TestPalette puts boxes with a color table around a codestream.
func TestPalette(t *testing.T) {
	stream, err := os.ReadFile("testdata/gray.jp2")
	require.NoError(t, err)
	f, err := parseFile(stream)
	require.NoError(t, err)
	box := func(kind string, body ...byte) []byte {
		n := len(body) + 8
		return append([]byte{byte(n >> 24), byte(n >> 16), byte(n >> 8), byte(n), kind[0], kind[1], kind[2], kind[3]}, body...)
	}
	table := []byte{1, 0, 3, 7, 7, 7} // 256 entries of three columns
	for i := range 256 {
		table = append(table, byte(i), byte(255-i), 9)
	}
	header := slices.Concat(box("colr", 1, 0, 0, 0, 0, 0, 16), box("pclr", table...), box("cmap", 0, 0, 1, 0, 0, 0, 1, 1, 0, 0, 1, 2))
	file := slices.Concat(signature, box("jp2h", header...), box("jp2c", f.stream...))
	plain, err := Decode(stream, func() {})
	require.NoError(t, err)
	img, err := Decode(file, func() {})
	require.NoError(t, err)
	colors := pixels(t, img)
	for i, v := range pixels(t, plain) {
		require.Equal(t, []byte{v, 255 - v, 9}, colors[3*i:3*i+3])
	}
}

// TestBroken cuts and changes files: an error or an image, never a panic.
func TestBroken(t *testing.T) {
	files, err := os.ReadDir("testdata")
	require.NoError(t, err)
	for _, f := range files {
		data, err := os.ReadFile("testdata/" + f.Name())
		require.NoError(t, err)
		for cut := 0; cut < len(data); cut += 1 + len(data)/40 {
			assert.NotPanics(t, func() { _, _ = Decode(data[:cut], func() {}) }, "%s cut at %d", f.Name(), cut)
		}
		for at := range data {
			if at%5 != 0 || at > 250 && at%45 != 0 {
				continue
			}
			bad := bytes.Clone(data)
			bad[at] ^= 0x5a
			if w, h, _, err := Config(bad); err == nil && w*h < 1<<16 {
				assert.NotPanics(t, func() { _, _ = Decode(bad, func() {}) }, "%s changed at %d", f.Name(), at)
			}
		}
	}
}

func FuzzDecode(f *testing.F) {
	files, err := os.ReadDir("testdata")
	require.NoError(f, err)
	for _, e := range files {
		if data, err := os.ReadFile("testdata/" + e.Name()); err == nil {
			f.Add(data)
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if w, h, _, err := Config(data); err == nil && w*h < 1<<14 {
			_, _ = Decode(data, func() {})
		}
	})
}
