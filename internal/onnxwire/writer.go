package onnxwire

import (
	"encoding/binary"
	"io"
	"math"
	"reflect"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"
)

// A protobuf message is preceded by its length, so the sizes of all messages must be known before the first byte is
// written. Each message says what it holds once, in its encode method, and the encoder goes over it twice:
//
//	pass 1, sizing:   nothing is written; the size of each message is put in `lens`, in the order the messages are entered
//	pass 2, writing:  the same order, so `lens` is read front to back
//
//	lens  [graph] [node 0] [node 0.attribute 0] [node 1] …
//
// In the second pass output goes to one buffer of exactly the known size, or through a small buffer to a writer, where
// large byte fields (weights) go straight from where they lie.

const (
	// MaxSize is the size in bytes at which a protobuf message ends.
	MaxSize = math.MaxInt32

	streamBuffer = 64 << 10 // bytes gathered before a write
	streamDirect = 16 << 10 // byte fields of this size are written from where they lie
)

// Message is any message of this package: *Model, *Tensor, *Sequence, …
type Message interface {
	encode(*encoder)
}

type encoder struct {
	sizing bool
	size   int64   // bytes so far, in the sizing pass
	lens   []int64 // sizes of messages and packed runs in the order they are entered
	next   int     // first of lens not used yet, in the writing pass
	depth  int

	buf []byte
	out io.Writer // nil: all output stays in buf
	n   int64     // bytes given to out
	err error     // the first error of out, or *NestingError
}

// measure runs the sizing pass.
func measure(m Message) (*encoder, error) {
	e := &encoder{sizing: true}
	if v := reflect.ValueOf(m); v.IsValid() && !v.IsNil() {
		m.encode(e)
	}
	if e.err != nil {
		return nil, e.err
	}
	if e.size > MaxSize {
		return nil, &TooLargeError{Size: e.size}
	}
	e.sizing = false
	return e, nil
}

// Size returns how many bytes Marshal will make of m. The errors are *TooLargeError and *NestingError.
func Size(m Message) (int, error) {
	e, err := measure(m)
	if err != nil {
		return 0, err
	}
	return int(e.size), nil
}

// Marshal returns m as protobuf. Equal messages give equal bytes. The errors are those of Size.
func Marshal(m Message) ([]byte, error) {
	return Append(nil, m)
}

// Append appends m as protobuf to b, growing b at most once. On an error, one of those of Size, b comes back as it was.
func Append(b []byte, m Message) ([]byte, error) {
	e, err := measure(m)
	if err != nil || e.size == 0 {
		return b, err
	}
	e.buf = slices.Grow(b, int(e.size))
	m.encode(e)
	return e.buf, nil
}

// WriteTo writes m as protobuf to w and returns the number of bytes w took. Large weights go to w straight from
// Tensor.RawData. The errors are those of Size, before anything is written, and those of w.
func WriteTo(w io.Writer, m Message) (int64, error) {
	e, err := measure(m)
	if err != nil || e.size == 0 {
		return 0, err
	}
	e.out = w
	e.buf = make([]byte, 0, min(e.size, streamBuffer+streamDirect))
	m.encode(e)
	e.flush()
	return e.n, e.err
}

func (e *encoder) flush() {
	e.write(e.buf)
	e.buf = e.buf[:0]
}

func (e *encoder) write(b []byte) {
	if e.err != nil || len(b) == 0 {
		return
	}
	n, err := e.out.Write(b)
	e.n += int64(n)
	if err == nil && n < len(b) {
		err = io.ErrShortWrite
	}
	e.err = err
}

// room flushes a full buffer when there is somewhere to flush to.
func (e *encoder) room() {
	if e.out != nil && len(e.buf) >= streamBuffer {
		e.flush()
	}
}

func (e *encoder) varint(num protowire.Number, v uint64) {
	if e.sizing {
		e.size += int64(protowire.SizeTag(num) + protowire.SizeVarint(v))
		return
	}
	e.buf = protowire.AppendTag(e.buf, num, protowire.VarintType)
	e.buf = protowire.AppendVarint(e.buf, v)
	e.room()
}

// int64 writes an optional int64 field.
func (e *encoder) int64(num protowire.Number, v int64, x *Extra) {
	if v != 0 || x.Explicit.Has(int(num)) {
		e.varint(num, uint64(v))
	}
}

// int32 writes an optional int32 or enum field; negative ones take ten bytes, as the format has it.
func (e *encoder) int32(num protowire.Number, v int32, x *Extra) {
	e.int64(num, int64(v), x)
}

// float32 writes an optional float field.
func (e *encoder) float32(num protowire.Number, v float32, x *Extra) {
	if bits := math.Float32bits(v); bits != 0 || x.Explicit.Has(int(num)) {
		e.fixed32(num, bits)
	}
}

func (e *encoder) fixed32(num protowire.Number, bits uint32) {
	if e.sizing {
		e.size += int64(protowire.SizeTag(num) + 4)
		return
	}
	e.buf = protowire.AppendTag(e.buf, num, protowire.Fixed32Type)
	e.buf = protowire.AppendFixed32(e.buf, bits)
	e.room()
}

// str writes an optional string field.
func (e *encoder) str(num protowire.Number, s string, x *Extra) {
	if s != "" || x.Explicit.Has(int(num)) {
		e.text(num, s)
	}
}

func (e *encoder) text(num protowire.Number, s string) {
	if e.sizing {
		e.size += int64(protowire.SizeTag(num) + protowire.SizeBytes(len(s)))
		return
	}
	e.buf = protowire.AppendTag(e.buf, num, protowire.BytesType)
	e.buf = protowire.AppendString(e.buf, s)
	e.room()
}

func (e *encoder) strs(num protowire.Number, list []string) {
	for _, s := range list {
		e.text(num, s)
	}
}

// bytes writes a bytes field, present even if empty.
func (e *encoder) bytes(num protowire.Number, b []byte) {
	if e.sizing {
		e.size += int64(protowire.SizeTag(num) + protowire.SizeBytes(len(b)))
		return
	}
	e.buf = protowire.AppendTag(e.buf, num, protowire.BytesType)
	e.buf = protowire.AppendVarint(e.buf, uint64(len(b)))
	e.raw(b)
}

func (e *encoder) blobs(num protowire.Number, list [][]byte) {
	for _, b := range list {
		e.bytes(num, b)
	}
}

// raw writes bytes as they are.
func (e *encoder) raw(b []byte) {
	switch {
	case e.sizing:
		e.size += int64(len(b))
	case e.out != nil && len(b) >= streamDirect:
		e.flush()
		e.write(b)
	default:
		e.buf = append(e.buf, b...)
		e.room()
	}
}

// unknown writes back the fields that the reader did not know; it comes last in every message.
func (e *encoder) unknown(x *Extra) {
	e.raw(x.Unknown)
}

// open starts a length-prefixed run and tells where close finds it. Between the two, everything written is the run.
func (e *encoder) open(num protowire.Number) (index int, before int64) {
	if e.sizing {
		e.lens = append(e.lens, 0)
		return len(e.lens) - 1, e.size
	}
	e.buf = protowire.AppendTag(e.buf, num, protowire.BytesType)
	e.buf = protowire.AppendVarint(e.buf, uint64(e.lens[e.next]))
	e.next++
	return 0, 0
}

func (e *encoder) close(num protowire.Number, index int, before int64) {
	if e.sizing {
		body := e.size - before
		e.lens[index] = body
		e.size += int64(protowire.SizeTag(num) + protowire.SizeVarint(uint64(body)))
	}
}

// message writes a nested message; a nil one is written as an empty one, to keep its place in a list.
func writeMessage[T any, P message[T]](e *encoder, num protowire.Number, m P) {
	if e.err != nil {
		return
	}
	if e.depth++; e.depth >= MaxDepth {
		e.err = &NestingError{}
		return
	}
	index, before := e.open(num)
	if m != nil {
		m.encode(e)
	}
	e.close(num, index, before)
	e.depth--
}

// writeOptional writes a singular message field where there is one.
func writeOptional[T any, P message[T]](e *encoder, num protowire.Number, m P) {
	if m != nil {
		writeMessage[T](e, num, m)
	}
}

// writeRepeated writes each element of a repeated message field.
func writeRepeated[T any, P message[T]](e *encoder, num protowire.Number, list []P) {
	for _, m := range list {
		writeMessage[T](e, num, m)
	}
}

// writeVarints writes a repeated integer field without packing, as onnx.proto declares dims and the like.
func writeVarints[T int32 | int64 | uint64](e *encoder, num protowire.Number, list []T) {
	for _, v := range list {
		e.varint(num, uint64(v))
	}
}

// writePacked writes a repeated integer field that onnx.proto declares packed.
func writePacked[T int32 | int64 | uint64](e *encoder, num protowire.Number, list []T) {
	if len(list) == 0 {
		return
	}
	index, before := e.open(num)
	for _, v := range list {
		if e.sizing {
			e.size += int64(protowire.SizeVarint(uint64(v)))
			continue
		}
		e.buf = protowire.AppendVarint(e.buf, uint64(v))
		e.room()
	}
	e.close(num, index, before)
}

// floats writes a repeated float field without packing.
func (e *encoder) floats(num protowire.Number, list []float32) {
	for _, v := range list {
		e.fixed32(num, math.Float32bits(v))
	}
}

func (e *encoder) packedFloats(num protowire.Number, list []float32) {
	if len(list) == 0 {
		return
	}
	index, before := e.open(num)
	if e.sizing {
		e.size += 4 * int64(len(list))
	} else {
		for _, v := range list {
			e.buf = binary.LittleEndian.AppendUint32(e.buf, math.Float32bits(v))
			e.room()
		}
	}
	e.close(num, index, before)
}

func (e *encoder) packedDoubles(num protowire.Number, list []float64) {
	if len(list) == 0 {
		return
	}
	index, before := e.open(num)
	if e.sizing {
		e.size += 8 * int64(len(list))
	} else {
		for _, v := range list {
			e.buf = binary.LittleEndian.AppendUint64(e.buf, math.Float64bits(v))
			e.room()
		}
	}
	e.close(num, index, before)
}
