package preprocess_test

import (
	"bytes"
	"encoding/binary"
	"image"
	"image/color"
	"io"
	"io/fs"
	"math"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/preprocess"
	"github.com/berth-onnx/berth/ssa"
)

// painted is an image whose bounds do not begin at 0: column x, row y is (10x, 10y, 200).
func painted(w, h int) image.Image {
	img := image.NewRGBA(image.Rect(5, 7, 5+w, 7+h))
	for y := range h {
		for x := range w {
			img.Set(5+x, 7+y, color.RGBA{uint8(10 * x), uint8(10 * y), 200, 255})
		}
	}
	return img
}

func tensorOf(t *testing.T, p preprocess.Image, img image.Image) *ndarray.Array {
	t.Helper()
	a, err := p.Tensor(img)
	require.NoError(t, err)
	require.NoError(t, a.Check())
	return a
}

// TestImageLayouts takes an image of two rows and three columns without scaling it.
func TestImageLayouts(t *testing.T) {
	img := painted(3, 2)
	for _, c := range []struct {
		name string
		p    preprocess.Image
		want *ndarray.Array
	}{
		{"nchw", preprocess.Image{Scale: 1}, ndarray.Of([]float32{0, 10, 20, 0, 10, 20, 0, 0, 0, 10, 10, 10, 200, 200, 200, 200, 200, 200}, 1, 3, 2, 3)},
		{"nhwc", preprocess.Image{Scale: 1, ChannelsLast: true}, ndarray.Of([]float32{0, 0, 200, 10, 0, 200, 20, 0, 200, 0, 10, 200, 10, 10, 200, 20, 10, 200}, 1, 2, 3, 3)},
		{"chw", preprocess.Image{Scale: 1, NoBatch: true, BGR: true}, ndarray.Of([]float32{200, 200, 200, 200, 200, 200, 0, 0, 0, 10, 10, 10, 0, 10, 20, 0, 10, 20}, 3, 2, 3)},
		{"uint8", preprocess.Image{DType: ndarray.Uint8, Channels: 1}, ndarray.Of([]uint8{23, 26, 29, 29, 32, 35}, 1, 1, 2, 3)},
		{"int8", preprocess.Image{DType: ndarray.Int8, Channels: 1, Scale: 0.499}, ndarray.Of([]int8{11, 12, 14, 14, 15, 17}, 1, 1, 2, 3)},
		{"normalized", preprocess.Image{Scale: 1, NoBatch: true, ChannelsLast: true, Width: 3, Height: 2, Mean: []float32{10, 0, 100}, Std: []float32{10, 1, 50}},
			ndarray.Of([]float32{-1, 0, 2, 0, 0, 2, 1, 0, 2, -1, 10, 2, 0, 10, 2, 1, 10, 2}, 2, 3, 3)},
		{"one mean", preprocess.Image{Scale: 0.5, NoBatch: true, Channels: 1, Mean: []float32{0.5}}, ndarray.Of([]float32{11, 12.5, 14, 14, 15.5, 17}, 1, 2, 3)},
	} {
		t.Run(c.name, func(t *testing.T) { assert.Equal(t, c.want, tensorOf(t, c.p, img)) })
	}
	unit := tensorOf(t, preprocess.Image{}, img).Floats32()
	assert.InDelta(t, 200.0/255, unit[17], 1e-7)
	half := tensorOf(t, preprocess.Image{DType: ndarray.Float16, Scale: 1}, img)
	assert.Equal(t, 200.0, half.Float(17))
}

// TestImageFit places a wide image in a square, and maps places back.
func TestImageFit(t *testing.T) {
	img := image.NewGray(image.Rect(10, 20, 110, 70)) // 100 x 50, black but for the right half
	for y := 20; y < 70; y++ {
		for x := 60; x < 110; x++ {
			img.SetGray(x, y, color.Gray{Y: 255})
		}
	}
	for _, c := range []struct {
		name       string
		fit        preprocess.Fit
		rows       [3]float64 // left, in the middle, right, of the first row
		middle     [3]float64 // of the row in the middle
		x, y       float64    // a place in the tensor
		sx, sy     float64    // the same in the image
		scaleEqual bool
	}{
		{"stretch", preprocess.Stretch, [3]float64{0, 0, 255}, [3]float64{0, 0, 255}, 32, 32, 50, 25, false},
		{"letterbox", preprocess.Letterbox, [3]float64{114, 114, 114}, [3]float64{0, 0, 255}, 32, 48, 50, 50, true},
		{"crop", preprocess.Crop, [3]float64{0, 0, 255}, [3]float64{0, 0, 255}, 0, 0, 25, 0, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := preprocess.Image{Width: 64, Height: 64, Channels: 1, Scale: 1, Fit: c.fit}
			a := tensorOf(t, p, img)
			for i, x := range []int{0, 20, 60} {
				assert.Equal(t, c.rows[i], a.Float(x), "first row, column %d", x)
				assert.Equal(t, c.middle[i], a.Float(32*64+x), "row 32, column %d", x)
			}
			at, err := p.Place(img.Bounds())
			require.NoError(t, err)
			sx, sy := at.Source(c.x, c.y)
			assert.InDelta(t, c.sx, sx, 1e-9)
			assert.InDelta(t, c.sy, sy, 1e-9)
			assert.Equal(t, c.scaleEqual, at.ScaleX == at.ScaleY)
		})
	}
	red := tensorOf(t, preprocess.Image{Width: 64, Height: 64, Scale: 1, Fit: preprocess.Letterbox, Fill: color.RGBA{R: 255, A: 255}}, img)
	assert.Equal(t, 255.0, red.Float(0))
	assert.Equal(t, 0.0, red.Float(64*64))
	for _, fit := range []preprocess.Fit{preprocess.Stretch, preprocess.Letterbox, preprocess.Crop} {
		for _, size := range [][2]int{{1, 1}, {1, 3000}, {3000, 1}, {2, 1}} {
			tensorOf(t, preprocess.Image{Width: 8, Height: 5, Fit: fit}, image.NewGray(image.Rect(0, 0, size[0], size[1])))
		}
	}
}

func TestImageErrors(t *testing.T) {
	img := painted(2, 2)
	for _, c := range []struct {
		want string
		p    preprocess.Image
		img  image.Image
	}{
		{"empty", preprocess.Image{}, nil},
		{"empty", preprocess.Image{}, image.NewGray(image.Rect(0, 0, 0, 4))},
		{"-1 x 0", preprocess.Image{Width: -1}, img},
		{"1 or 3 channels", preprocess.Image{Channels: 4}, img},
		{"mean has 2 numbers for 3 channels", preprocess.Image{Mean: []float32{1, 2}}, img},
		{"standard deviation has 3 numbers for 1 channels", preprocess.Image{Channels: 1, Std: []float32{1, 2, 3}}, img},
		{"not above 0", preprocess.Image{Std: []float32{0}}, img},
		{"not above 0", preprocess.Image{Std: []float32{float32(math.NaN())}}, img},
		{"uint8", preprocess.Image{DType: ndarray.Uint8, Mean: []float32{1}}, img},
		{"string", preprocess.Image{DType: ndarray.String}, img},
		{"int8 has no number for a pixel of 255", preprocess.Image{DType: ndarray.Int8}, img},
		{"uint4 has no number for a pixel of 255, which is 127.5", preprocess.Image{DType: ndarray.Uint4, Scale: 0.5}, img},
		{"uint8 has no number for a pixel of 255, which is -255", preprocess.Image{DType: ndarray.Uint8, Scale: -1}, img},
		{"no way 9", preprocess.Image{Fit: 9}, img},
		{"", preprocess.Image{Width: math.MaxInt, Height: math.MaxInt}, img},
	} {
		_, err := c.p.Tensor(c.img)
		require.Error(t, err, c.want)
		assert.ErrorContains(t, err, c.want)
	}
}

func TestForInput(t *testing.T) {
	n, f32 := ssa.Sym("N"), ndarray.Float32
	for _, c := range []struct {
		t    ssa.Type
		want preprocess.Image
		ok   bool
	}{
		{ssa.StaticTensor(f32, 1, 3, 224, 225), preprocess.Image{DType: f32, Channels: 3, Height: 224, Width: 225}, true},
		{ssa.StaticTensor(f32, 1, 224, 225, 3), preprocess.Image{DType: f32, Channels: 3, Height: 224, Width: 225, ChannelsLast: true}, true},
		{ssa.StaticTensor(ndarray.Uint8, 1, 1, 28, 28), preprocess.Image{DType: ndarray.Uint8, Channels: 1, Height: 28, Width: 28}, true},
		{ssa.StaticTensor(f32, 3, 48, 320), preprocess.Image{DType: f32, Channels: 3, Height: 48, Width: 320, NoBatch: true}, true},
		{ssa.TensorOf(f32, n, ssa.D(3), ssa.D(48), ssa.Sym("W")), preprocess.Image{DType: f32, Channels: 3, Height: 48}, true},
		{ssa.TensorOf(f32, n, n, n, n), preprocess.Image{DType: f32, Channels: 3}, true},
		{ssa.StaticTensor(f32, 1, 43844, 1), preprocess.Image{}, false}, // samples
		{ssa.StaticTensor(f32, 1, 25, 96), preprocess.Image{}, false},   // features
		{ssa.TensorOf(f32, n, ssa.Sym("S"), ssa.D(24)), preprocess.Image{}, false},
		{ssa.StaticTensor(f32, 1, 576), preprocess.Image{}, false},
		{ssa.StaticTensor(f32, 1, 1, 1, 16000), preprocess.Image{}, false},
		{ssa.StaticTensor(f32, 8, 3, 224, 224), preprocess.Image{}, false},
		{ssa.StaticTensor(f32, 1, 4, 224, 224), preprocess.Image{}, false},
		{ssa.StaticTensor(ndarray.String, 1, 3, 224, 224), preprocess.Image{}, false},
		{ssa.UnrankedTensor(f32), preprocess.Image{}, false},
		{ssa.SequenceOf(ssa.StaticTensor(f32, 1, 3, 2, 2)), preprocess.Image{}, false},
		{ssa.Type{}, preprocess.Image{}, false},
	} {
		t.Run(c.t.String(), func(t *testing.T) {
			got, err := preprocess.ForInput(c.t)
			if !c.ok {
				require.Error(t, err)
				return
			}
			require.NoError(t, err)
			assert.Equal(t, c.want, got)
		})
	}
}

func TestScores(t *testing.T) {
	p := preprocess.Softmax([]float32{1000, 1001, 999})
	assert.InDeltaSlice(t, []float32{0.24472847, 0.66524096, 0.09003057}, p, 1e-6)
	assert.Nil(t, preprocess.Softmax(nil))
	nan := float32(math.NaN())
	got := preprocess.TopK([]float32{1, nan, 3, 3, 2}, 3)
	assert.Equal(t, []preprocess.Ranked{{2, 3}, {3, 3}, {4, 2}}, got)
	assert.Len(t, preprocess.TopK([]float32{1, nan}, 9), 2)
	assert.Empty(t, preprocess.TopK([]float32{1}, -1))
	assert.Empty(t, preprocess.TopK(nil, 3))
}

// wav writes a WAVE file with a chunk that nobody knows before the samples.
func wav(format, channels, rate, bits int, data []byte) []byte {
	le := binary.LittleEndian
	var b []byte
	b = append(b, "RIFF\xff\xff\xff\xffWAVEJUNK\x03\x00\x00\x00abc\x00fmt "...)
	b = le.AppendUint32(b, 16)
	b = le.AppendUint16(b, uint16(format))
	b = le.AppendUint16(b, uint16(channels))
	b = le.AppendUint32(b, uint32(rate))
	b = le.AppendUint32(b, uint32(rate*channels*bits/8))
	b = le.AppendUint16(b, uint16(channels*bits/8))
	b = le.AppendUint16(b, uint16(bits))
	b = append(b, "data"...)
	return append(le.AppendUint32(b, uint32(len(data))), data...)
}

// told is a WAVE file of two channels of 16 bits that tells of so many bytes of samples, and ends before them.
func told(size uint32) []byte {
	b := wav(1, 2, 8000, 16, nil)
	binary.LittleEndian.PutUint32(b[len(b)-4:], size)
	return b
}

func TestReadWAV(t *testing.T) {
	le := binary.LittleEndian
	f32 := le.AppendUint32(le.AppendUint32(nil, math.Float32bits(0.25)), math.Float32bits(-0.5))
	f64 := le.AppendUint64(nil, math.Float64bits(0.25))
	for _, c := range []struct {
		name string
		file []byte
		want [][]float32
	}{
		{"8", wav(1, 1, 8000, 8, []byte{0, 128, 192}), [][]float32{{-1, 0, 0.5}}},
		{"16 stereo", wav(1, 2, 8000, 16, []byte{0, 0x40, 0, 0x80, 0, 0xc0, 0, 0}), [][]float32{{0.5, -0.5}, {-1, 0}}},
		{"24", wav(1, 1, 8000, 24, []byte{0, 0, 0x40, 0, 0, 0x80}), [][]float32{{0.5, -1}}},
		{"32", wav(1, 1, 8000, 32, []byte{0, 0, 0, 0x40}), [][]float32{{0.5}}},
		{"float", wav(3, 1, 8000, 32, f32), [][]float32{{0.25, -0.5}}},
		{"double", wav(3, 1, 8000, 64, f64), [][]float32{{0.25}}},
		{"to a pipe", append(told(0xffffffff), 0, 0x40, 0, 0x80), [][]float32{{0.5}, {-1}}},
		{"silence", wav(1, 1, 8000, 16, nil), [][]float32{{}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, err := preprocess.ReadWAV(bytes.NewReader(c.file))
			require.NoError(t, err)
			assert.Equal(t, 8000, s.Rate)
			assert.Equal(t, c.want, s.Channels)
			assert.Len(t, s.Mono(), len(c.want[0]))
		})
	}
	good := wav(1, 2, 8000, 16, nil)
	for n := range good {
		_, err := preprocess.ReadWAV(bytes.NewReader(good[:n]))
		require.Error(t, err, "%d bytes", n)
		_, err = preprocess.ReadWAV(io.MultiReader(bytes.NewReader(good[:n]), iotest.ErrReader(fs.ErrPermission)))
		require.ErrorIs(t, err, fs.ErrPermission, "%d bytes", n)
	}
	block := told(4)
	block[len(block)-12] = 3
	for want, bad := range map[string][]byte{
		"0 channels": wav(1, 0, 8000, 16, nil), "of 0 samples a second": wav(1, 1, 0, 16, nil), "12 bits in format 1": wav(1, 1, 8000, 12, nil), "4 bits in format 2": wav(2, 1, 8000, 4, nil),
		"0 bits in format 1": wav(1, 1, 8000, 0, nil), "does not begin with RIFF": []byte("\x89PNG\r\n\x1a\n12345678"),
		"ends after 7 of 8 bytes": append(told(8), 0, 0x40, 0, 0x80, 0, 0xc0, 0), "ends after 4 of 8 bytes": append(told(8), 0, 0x40, 0, 0x80), "6 bytes of samples, which is not a multiple of the 4": append(told(6), 0, 0x40, 0, 0x80, 0, 0xc0),
		"ends within a sample": append(told(0xffffffff), 0, 0x40, 0, 0x80, 0), "has 3 bytes for each time": append(block, 0, 0, 0, 0),
	} {
		for _, r := range []io.Reader{bytes.NewReader(bad), io.MultiReader(bytes.NewReader(bad))} {
			_, err := preprocess.ReadWAV(r)
			var wrong *preprocess.WAVError
			require.ErrorAs(t, err, &wrong, want)
			assert.ErrorContains(t, err, want)
		}
	}
	early := append([]byte("RIFF\xff\xff\xff\xffWAVEdata"), 0, 0, 0, 0)
	_, err := preprocess.ReadWAV(bytes.NewReader(early))
	require.ErrorContains(t, err, "before it has a format")
}

// seeking counts how often it is asked where it is.
type seeking struct {
	*bytes.Reader
	seeks int
}

func (s *seeking) Seek(at int64, from int) (int64, error) {
	s.seeks++
	return s.Reader.Seek(at, from)
}

// TestReadWAVChunks: however many chunks a file has, few of them are read, of every kind.
func TestReadWAVChunks(t *testing.T) {
	format := wav(1, 1, 8000, 16, nil)[24:48]
	require.Equal(t, "fmt ", string(format[:4]))
	for name, chunk := range map[string][]byte{"empty": []byte("LIST\x00\x00\x00\x00"), "odd": []byte("JUNK\x01\x00\x00\x00ab"), "formats": format} {
		t.Run(name, func(t *testing.T) {
			r := bytes.NewReader(append([]byte("RIFF\xff\xff\xff\xffWAVE"), bytes.Repeat(chunk, 100_000)...))
			_, err := preprocess.ReadWAV(r)
			var wrong *preprocess.WAVError
			require.ErrorAs(t, err, &wrong)
			assert.ErrorContains(t, err, "more than 16384 chunks")
			assert.Greater(t, r.Len(), 80_000*len(chunk))
		})
	}
}

// TestReadWAVCounts: of a reader that can tell how much it has, samples are counted first, and have no more memory than they need.
func TestReadWAVCounts(t *testing.T) {
	const samples = 100_003
	r := &seeking{Reader: bytes.NewReader(wav(1, 1, 8000, 16, make([]byte, 2*samples)))}
	s, err := preprocess.ReadWAV(r)
	require.NoError(t, err)
	assert.Equal(t, []int{3, samples, samples}, []int{r.seeks, len(s.Channels[0]), cap(s.Channels[0])})
}

// TestSoundsThatAreNone: a nil sound and channels of several lengths have no mean.
func TestSoundsThatAreNone(t *testing.T) {
	ragged := &preprocess.Sound{Rate: 1, Channels: [][]float32{{1, 2}, {1}}}
	for _, dim := range []ssa.Dim{ssa.D(2), ssa.Sym("N")} {
		for s, want := range map[*preprocess.Sound]string{nil: "it is nil", ragged: "its channels are not equally long"} {
			assert.Nil(t, s.Mono())
			_, err := s.Tensor(ssa.TensorOf(ndarray.Float32, ssa.D(1), dim))
			require.ErrorContains(t, err, want)
		}
	}
}

func TestSoundTensor(t *testing.T) {
	s := &preprocess.Sound{Rate: 8000, Channels: [][]float32{{0, 1, 0.5}, {1, 0, 0.5}}}
	f32, n := ndarray.Float32, ssa.Sym("N")
	for _, c := range []struct {
		t    ssa.Type
		want []int
	}{
		{ssa.StaticTensor(f32, 1, 3), []int{1, 3}},
		{ssa.StaticTensor(f32, 1, 3, 1), []int{1, 3, 1}},
		{ssa.TensorOf(f32, n, ssa.Sym("S")), []int{1, 3}},
		{ssa.TensorOf(f32, n, ssa.D(3)), []int{1, 3}},
		{ssa.TensorOf(f32, n), []int{3}},
		{ssa.StaticTensor(f32, 1, 512), nil},
		{ssa.StaticTensor(f32, 3, 3), nil},
		{ssa.StaticTensor(f32, 1), nil},
		{ssa.StaticTensor(f32), nil},
		{ssa.StaticTensor(ndarray.Int64, 3), nil},
		{ssa.Type{}, nil},
	} {
		t.Run(c.t.String(), func(t *testing.T) {
			a, err := s.Tensor(c.t)
			if c.want == nil {
				require.Error(t, err)
				return
			}
			require.NoError(t, err)
			assert.Equal(t, ndarray.Of([]float32{0.5, 0.5, 0.5}, c.want...), a)
		})
	}
	assert.Empty(t, new(preprocess.Sound).Mono())
}
