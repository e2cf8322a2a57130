package preprocess

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/berth-onnx/berth/internal/rescue"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ssa"
)

// Sound is recorded sound.
type Sound struct {
	Rate     int         // samples a second
	Channels [][]float32 // samples from -1 to 1, of each channel the same number
}

// Mono is the mean of the channels.
func (s *Sound) Mono() []float32 {
	if s == nil || len(s.Channels) == 0 {
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
func (s *Sound) Tensor(t ssa.Type) (*ndarray.Array, error) {
	none := func(format string, args ...any) (*ndarray.Array, error) {
		return nil, fmt.Errorf("sound does not fit %s: %s", t, fmt.Sprintf(format, args...))
	}
	if t.Kind != ssa.KindTensor || t.DType != ndarray.Float32 || t.Rank() < 1 {
		return none("it takes a tensor of float32 samples")
	}
	samples := s.Mono()
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
	if n, known := t.Shape[along].Const(); known && int(n) != len(samples) {
		return none("there are %d samples, %d a second, it takes %d", len(samples), s.Rate, n)
	}
	shape[along] = len(samples)
	return ndarray.Of(samples, shape...), nil
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

// ReadWAV reads a WAVE file: integers of 8, 16, 24 or 32 bits, or floating-point numbers of 32 or
// 64. A file that ends early has the samples that are there.
func ReadWAV(r io.Reader) (_ *Sound, err error) {
	defer rescue.Into(&err)
	var head [12]byte
	if _, err := io.ReadFull(r, head[:]); err != nil || string(head[:4]) != "RIFF" || string(head[8:]) != "WAVE" {
		return nil, errors.New("no WAVE file: it does not begin with RIFF and WAVE")
	}
	var w wave
	for {
		var chunk [8]byte
		if _, err := io.ReadFull(r, chunk[:]); err != nil {
			return nil, errors.New("the WAVE file has no samples")
		}
		size := int64(binary.LittleEndian.Uint32(chunk[4:]))
		switch string(chunk[:4]) {
		case "fmt ":
			if err := w.read(io.LimitReader(r, size+size&1)); err != nil {
				return nil, err
			}
		case "data":
			return w.samples(io.LimitReader(r, size))
		default:
			if _, err := io.CopyN(io.Discard, r, size+size&1); err != nil {
				return nil, errors.New("the WAVE file has no samples")
			}
		}
	}
}

// read reads a format chunk to its end.
func (w *wave) read(r io.Reader) error {
	b, err := io.ReadAll(io.LimitReader(r, 64))
	if err != nil || len(b) < 16 {
		return errors.New("the WAVE file's format is cut short")
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
		return fmt.Errorf("the WAVE file has %d channels of %d samples a second", w.channels, w.rate)
	}
	if w.decoder() == nil {
		return fmt.Errorf("samples of %d bits in format %d of a WAVE file are not supported", w.bits, w.format)
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

// samples reads a data chunk.
func (w *wave) samples(r io.Reader) (*Sound, error) {
	if w.channels == 0 {
		return nil, errors.New("the WAVE file has samples before it has a format")
	}
	b, err := io.ReadAll(r)
	if err != nil {
		return nil, err
	}
	width, decode := w.bits/8, w.decoder()
	frame := width * w.channels
	s := &Sound{Rate: w.rate, Channels: make([][]float32, w.channels)}
	for c := range s.Channels {
		s.Channels[c] = make([]float32, len(b)/frame)
		for i := range s.Channels[c] {
			s.Channels[c][i] = decode(b[i*frame+c*width:])
		}
	}
	return s, nil
}
