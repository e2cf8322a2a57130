package onnxwire

import (
	"context"
	"io"
	"math"
	"reflect"

	"google.golang.org/protobuf/encoding/protowire"
)

// A protobuf message is preceded by its length, so the sizes of all messages must be known before the first byte is
// written. The encoder goes over the fields twice:
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

type encoder struct {
	ctx    context.Context
	sizing bool
	size   int64   // bytes so far, in the sizing pass
	lens   []int64 // sizes of messages and packed runs in the order they are entered
	next   int     // first of lens not used yet, in the writing pass
	depth  int

	buf []byte
	out io.Writer // nil: all output stays in buf
	n   int64     // bytes given to out
	err error     // the first error of out, the context's, or *NestingError

	visit func(Message) // called for each message; may be nil
}

// measure runs the sizing pass.
func measure(ctx context.Context, m Message) (*encoder, error) {
	e := &encoder{ctx: ctx, sizing: true}
	if v := reflect.ValueOf(m); v.IsValid() && !v.IsNil() {
		e.message(m)
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

// Size returns how many bytes Marshal will make of m. The errors are *TooLargeError, *NestingError and the
// context's.
func Size(ctx context.Context, m Message) (int, error) {
	e, err := measure(ctx, m)
	if err != nil {
		return 0, err
	}
	return int(e.size), nil
}

// Marshal returns m as protobuf. Equal messages give equal bytes. The errors are those of Size.
func Marshal(m Message) ([]byte, error) {
	e, err := measure(context.Background(), m)
	if err != nil || e.size == 0 {
		return nil, err
	}
	e.buf = make([]byte, 0, e.size)
	e.message(m)
	return e.buf, nil
}

// WriteTo writes m as protobuf to w and returns the number of bytes w took. Large weights go to w straight from
// Tensor.RawData. The errors are those of Size, before anything is written, and those of w.
func WriteTo(ctx context.Context, w io.Writer, m Message) (int64, error) {
	e, err := measure(ctx, m)
	if err != nil || e.size == 0 {
		return 0, err
	}
	e.out = w
	e.buf = make([]byte, 0, min(e.size, streamBuffer+streamDirect))
	e.message(m)
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

// put is called after each addition to buf: it counts it in the sizing pass, else flushes a full buffer to where it goes.
func (e *encoder) put() {
	if e.sizing {
		e.size += int64(len(e.buf))
		e.buf = e.buf[:0]
	} else if e.out != nil && len(e.buf) >= streamBuffer {
		e.flush()
	}
}

func (e *encoder) varint(num protowire.Number, v uint64) {
	e.buf = protowire.AppendTag(e.buf, num, protowire.VarintType)
	e.buf = protowire.AppendVarint(e.buf, v)
	e.put()
}

func (e *encoder) fixed32(num protowire.Number, bits uint32) {
	e.buf = protowire.AppendTag(e.buf, num, protowire.Fixed32Type)
	e.buf = protowire.AppendFixed32(e.buf, bits)
	e.put()
}

// prefix writes what comes before the content of a field of the given length in bytes.
func (e *encoder) prefix(num protowire.Number, length int64) {
	e.buf = protowire.AppendTag(e.buf, num, protowire.BytesType)
	e.buf = protowire.AppendVarint(e.buf, uint64(length))
	e.put()
}

func (e *encoder) text(num protowire.Number, s string) {
	e.prefix(num, int64(len(s)))
	e.buf = append(e.buf, s...)
	e.put()
}

// bytes writes a bytes field, present even if empty.
func (e *encoder) bytes(num protowire.Number, b []byte) {
	e.prefix(num, int64(len(b)))
	e.raw(b)
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
		e.put()
	}
}

// message writes the fields of m, the ones the reader did not know last.
func (e *encoder) message(m Message) {
	if e.err == nil {
		e.err = e.ctx.Err()
	}
	if e.err != nil {
		return
	}
	if e.visit != nil {
		e.visit(m)
	}
	x := m.extra()
	m.fields(codec{e: e, x: x})
	e.raw(x.Unknown)
}

// run writes a field whose length is that of what content writes.
func (e *encoder) run(num protowire.Number, content func()) {
	if !e.sizing {
		e.next++
		e.prefix(num, e.lens[e.next-1])
		content()
		return
	}
	index, before := len(e.lens), e.size
	e.lens = append(e.lens, 0)
	content()
	e.lens[index] = e.size - before
	e.prefix(num, e.lens[index])
}

// writeMessage writes a nested message; a nil one is written as an empty one, to keep its place in a list.
func writeMessage[T any, P message[T]](e *encoder, num protowire.Number, m P) {
	if m == nil {
		m = new(T)
	}
	e.nested(num, m)
}

func (e *encoder) nested(num protowire.Number, m Message) {
	if e.err != nil {
		return
	}
	if e.depth++; e.depth >= MaxDepth {
		e.err = &NestingError{}
		return
	}
	e.run(num, func() { e.message(m) })
	e.depth--
}

// writePacked writes a repeated field of numbers as one packed run; add appends a number to a buffer.
func writePacked[T any](e *encoder, num protowire.Number, list []T, add func([]byte, T) []byte) {
	if len(list) == 0 {
		return
	}
	e.run(num, func() {
		for _, v := range list {
			e.buf = add(e.buf, v)
			e.put()
		}
	})
}
