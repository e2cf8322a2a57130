package preprocess

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"

	"github.com/berth-onnx/berth/internal/rescue"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ssa"
)

// Sound is recorded sound.
type Sound struct {
	Rate     int         // samples a second
	Channels [][]float32 // samples from -1 to 1, of each channel the same number

	budget ndarray.Budget // of reading, and of making tensors
}

// length is how many samples each channel has.
func (s *Sound) length() int {
	if s == nil || len(s.Channels) == 0 {
		return 0
	}
	return len(s.Channels[0])
}

// isEven reports whether all channels are equally long.
func (s *Sound) isEven() bool {
	return s != nil && !slices.ContainsFunc(s.Channels, func(c []float32) bool { return len(c) != len(s.Channels[0]) })
}

// Mono is the mean of the channels; nil if they are not equally long.
func (s *Sound) Mono() []float32 {
	if !s.isEven() || len(s.Channels) == 0 {
		return nil
	}
	out := make([]float32, len(s.Channels[0]))
	for i := range out {
		sum := 0.0
		for _, c := range s.Channels {
			sum += float64(c[i])
		}
		out[i] = float32(sum / float64(len(s.Channels)))
	}
	return out
}

// Tensor is the mean of the channels as an input of a type: one dimension is that of the samples,
// all others are 1. A dimension that the type leaves open is as long as the sound, the last one
// if there are several.
func (s *Sound) Tensor(t ssa.Type) (_ *ndarray.Array, err error) {
	defer rescue.Into(&err)
	none := func(format string, args ...any) (*ndarray.Array, error) {
		return nil, fmt.Errorf("sound does not fit %s: %s", t, fmt.Sprintf(format, args...))
	}
	if s == nil {
		return none("it is nil")
	}
	if !s.isEven() {
		return none("its channels are not equally long")
	}
	if t.Kind != ssa.KindTensor || t.DType != ndarray.Float32 || t.Rank() < 1 {
		return none("it takes a tensor of float32 samples")
	}
	length := s.length()
	shape, along := make([]int, t.Rank()), -1
	for i, d := range t.Shape {
		n, known := d.Const()
		shape[i] = 1
		if known && n == 1 {
			continue
		}
		if known && along >= 0 && isConst(t.Shape[along]) {
			return none("it has more than one dimension")
		}
		if along < 0 || known || !isConst(t.Shape[along]) {
			along = i
		}
	}
	if along < 0 {
		return none("it takes a single sample")
	}
	if n, known := t.Shape[along].Const(); known && int(n) != length {
		return none("there are %d samples, %d a second, it takes %d", length, s.Rate, n)
	}
	shape[along] = length
	if err := s.budget.Ask("the tensor of the sound", sampleBytes*int64(length)); err != nil {
		return nil, err
	}
	return ndarray.Of(s.Mono(), shape...), nil
}

// The sample formats of WAVE files.
const (
	wavePCM        = 1
	waveFloat      = 3
	waveExtensible = 0xfffe
)

// wave is the format chunk of a file.
type wave struct {
	format, channels, bits int
	rate                   int
}

// WAVError says why a file is no WAVE file that can be read.
type WAVError struct{ Reason string }

// Error is the reason.
func (e *WAVError) Error() string { return "the WAVE file " + e.Reason }

func badWAV(format string, args ...any) error { return &WAVError{fmt.Sprintf(format, args...)} }

// unknownSize is what programs write that do not know how many samples will come.
const unknownSize = math.MaxUint32

// ReadWAV reads a WAVE file: integers of 8, 16, 24 or 32 bits, or floating-point numbers of 32 or
// 64. The errors of what is in the file are [*WAVError]s: a file that ends before the samples that it tells of, half a sample,
// a format that contradicts itself, or thousands of chunks before the samples. A file that tells of 0xffffffff bytes, as those do that are written to a pipe, has samples to its end.
func ReadWAV(r io.Reader) (*Sound, error) { return ReadWAVIn(0, r) }

// ReadWAVIn is [ReadWAV] within a budget, which [Sound.Tensor] keeps, too. Of a reader that is an [io.Seeker] the samples are
// counted before memory is taken for them.
func ReadWAVIn(b ndarray.Budget, r io.Reader) (_ *Sound, err error) {
	defer rescue.Into(&err)
	given := r
	r = rescue.Reader(r)
	var head [12]byte
	if _, err := io.ReadFull(r, head[:]); failed(err) {
		return nil, err
	} else if err != nil || string(head[:4]) != "RIFF" || string(head[8:]) != "WAVE" {
		return nil, badWAV("does not begin with RIFF and WAVE")
	}
	var w wave
	for range mostChunks {
		var chunk [8]byte
		if _, err := io.ReadFull(r, chunk[:]); failed(err) {
			return nil, err
		} else if err != nil {
			return nil, errNoSamples
		}
		size := int64(binary.LittleEndian.Uint32(chunk[4:]))
		switch string(chunk[:4]) {
		case "fmt ":
			if err := w.read(io.LimitReader(r, size+size&1)); err != nil {
				return nil, err
			}
		case "data":
			return w.samples(b, r, size, left(given))
		default:
			if _, err := io.CopyN(io.Discard, r, size+size&1); failed(err) {
				return nil, err
			} else if err != nil {
				return nil, errNoSamples
			}
		}
	}
	return nil, badWAV("has more than %d chunks before its samples", mostChunks)
}

// mostChunks bounds the chunks before the samples, each of which is read on its own. Programs write some tens.
const mostChunks = 1 << 14

var errNoSamples = badWAV("has no samples")

// failed reports an error of a reader that is not its end.
func failed(err error) bool {
	return err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF)
}

// read reads a format chunk to its end.
func (w *wave) read(r io.Reader) error {
	b, err := io.ReadAll(io.LimitReader(r, 64))
	if err != nil {
		return err
	}
	if len(b) < 16 {
		return badWAV("has a format that is cut short")
	}
	if _, err := io.Copy(io.Discard, r); err != nil {
		return err
	}
	le := binary.LittleEndian
	w.format, w.channels, w.rate, w.bits = int(le.Uint16(b)), int(le.Uint16(b[2:])), int(le.Uint32(b[4:])), int(le.Uint16(b[14:]))
	if w.format == waveExtensible && len(b) >= 26 {
		w.format = int(le.Uint16(b[24:]))
	}
	if w.channels == 0 || w.rate == 0 {
		return badWAV("has %d channels of %d samples a second", w.channels, w.rate)
	}
	if w.decoder() == nil {
		return badWAV("has samples of %d bits in format %d, which are not supported", w.bits, w.format)
	}
	if block := int(le.Uint16(b[12:])); block != w.channels*w.bits/8 {
		return badWAV("has %d bytes for each time, %d channels of %d bits take %d", block, w.channels, w.bits, w.channels*w.bits/8)
	}
	return nil
}

// decoder reads one sample; nil for formats that are not supported.
func (w *wave) decoder() func(b []byte) float32 {
	le := binary.LittleEndian
	switch [2]int{w.format, w.bits} {
	case [2]int{wavePCM, 8}:
		return func(b []byte) float32 { return (float32(b[0]) - 128) / 128 }
	case [2]int{wavePCM, 16}:
		return func(b []byte) float32 { return float32(int16(le.Uint16(b))) / (1 << 15) }
	case [2]int{wavePCM, 24}:
		return func(b []byte) float32 {
			return float32(int32(uint32(b[0])<<8|uint32(b[1])<<16|uint32(b[2])<<24)>>8) / (1 << 23)
		}
	case [2]int{wavePCM, 32}:
		return func(b []byte) float32 { return float32(float64(int32(le.Uint32(b))) / (1 << 31)) }
	case [2]int{waveFloat, 32}:
		return func(b []byte) float32 { return math.Float32frombits(le.Uint32(b)) }
	case [2]int{waveFloat, 64}:
		return func(b []byte) float32 { return float32(math.Float64frombits(le.Uint64(b))) }
	}
	return nil
}

// sampleBytes is the size of a sample in memory.
const sampleBytes = 4

// left is how many bytes a reader has, 0 if that is not known.
func left(r io.Reader) (n int64) {
	s, ok := r.(io.Seeker)
	if !ok {
		return 0
	}
	rescue.Call("the reader", func() {
		at, err1 := s.Seek(0, io.SeekCurrent)
		end, err2 := s.Seek(0, io.SeekEnd)
		if err1 != nil || err2 != nil {
			return
		}
		if _, err := s.Seek(at, io.SeekStart); err == nil {
			n = max(0, end-at)
		}
	})
	return n
}

// samples reads a data chunk of size bytes, of a file that may end before and is known to have left bytes.
func (w *wave) samples(memory ndarray.Budget, file io.Reader, size, left int64) (*Sound, error) {
	if w.channels == 0 {
		return nil, badWAV("has samples before it has a format")
	}
	width, decode := w.bits/8, w.decoder()
	frame := width * w.channels
	s := &Sound{Rate: w.rate, Channels: make([][]float32, w.channels), budget: memory}
	for c := range s.Channels {
		s.Channels[c] = []float32{}
	}
	if size != unknownSize && size%int64(frame) != 0 {
		return nil, badWAV("tells of %d bytes of samples, which is not a multiple of the %d for each time", size, frame)
	}
	if err := s.grow(int(min(size, left) / int64(frame))); err != nil {
		return nil, err
	}
	r := file
	if size != unknownSize {
		r = io.LimitReader(file, size)
	}
	read := int64(0)
	buf := make([]byte, max(64<<10/frame, 1)*frame)
	for {
		n, err := io.ReadFull(r, buf)
		frames := n / frame
		read += int64(n)
		if s.length()+frames > cap(s.Channels[0]) {
			if err := s.grow(max(s.length(), frames)); err != nil {
				return nil, err
			}
		}
		for c := range s.Channels {
			for i := range frames {
				s.Channels[c] = append(s.Channels[c], decode(buf[i*frame+c*width:]))
			}
		}
		switch err {
		case nil:
		case io.EOF, io.ErrUnexpectedEOF:
			return w.complete(s, read, size)
		default:
			return nil, err
		}
	}
}

// complete is the sound, unless the file has not all of the samples.
func (w *wave) complete(s *Sound, read, size int64) (*Sound, error) {
	switch {
	case size != unknownSize && read < size:
		return nil, badWAV("ends after %d of %d bytes of samples", read, size)
	case read%int64(w.channels*w.bits/8) != 0:
		return nil, badWAV("ends within a sample")
	}
	return s, nil
}

// grow makes room for more samples in every channel.
func (s *Sound) grow(frames int) error {
	all := int64(len(s.Channels)) * int64(s.length()+frames)
	if err := s.budget.Ask("the sound", sampleBytes*all); err != nil {
		return err
	}
	for c, old := range s.Channels {
		s.Channels[c] = append(make([]float32, 0, len(old)+frames), old...)
	}
	return nil
}
