package onnxwire

import (
	"math"

	"google.golang.org/protobuf/encoding/protowire"
)

// Each message type lists its fields once: its method fields gives number, kind and destination of every field, in the order
// of the numbers. A codec visits them in one of two directions.
//
//	fields     1 name    2 type    3 doc_string    4 metadata_props
//	           │         │         │               │
//	writing    ▼         ▼         ▼               ▼              what is there, then Extra.Unknown
//	reading    reads the field at the cursor if it has this number, and moves on to the next
//
// Files usually keep the order of the numbers, so that one pass over the fields reads a message; where a file does not, the
// pass is repeated. A field at which the cursor still stands after a whole pass is unknown.

// Message is any message of this package: *Model, *Tensor, *Sequence, …
type Message interface {
	fields(codec)
	extra() *Extra
	finish()
}

// message is what every message type of this package implements on its pointer.
type message[T any] interface {
	*T
	Message
}

type codec struct {
	d      *decoder // nil when writing
	e      *encoder // nil when reading
	x      *Extra   // of the message
	always bool     // the field is written though it holds its default
}

// reads reports whether the cursor stands at field num. The caller then reads its value and moves on to the next field.
func (c codec) reads(num protowire.Number) bool {
	return c.d != nil && c.d.num == num
}

// writes reports whether field num is written.
func (c codec) writes(num protowire.Number, isDefault bool) bool {
	return c.e != nil && (!isDefault || c.always || c.x.Explicit.Has(int(num)))
}

// integer is an optional integer or enum field. As in every protobuf reader the upper half of the varint is dropped for
// 32-bit ones; negative ones take ten bytes, as the format has it.
func integer[T ~int32 | ~int64](c codec, num protowire.Number, v *T) {
	if c.reads(num) {
		*v = T(c.d.varint())
		c.x.note(int(num), *v == 0)
		c.d.next()
	} else if c.writes(num, *v == 0) {
		c.e.varint(num, uint64(*v))
	}
}

// float32 is an optional float field.
func (c codec) float32(num protowire.Number, v *float32) {
	if c.reads(num) {
		*v = number[float32](c.d.fixed(protowire.Fixed32Type, 4))
		c.x.note(int(num), math.Float32bits(*v) == 0)
		c.d.next()
	} else if bits := math.Float32bits(*v); c.writes(num, bits == 0) {
		c.e.fixed32(num, bits)
	}
}

// str is an optional string field.
func (c codec) str(num protowire.Number, s *string) {
	if c.reads(num) {
		*s = c.d.text()
		c.x.note(int(num), *s == "")
		c.d.next()
	} else if c.writes(num, *s == "") {
		c.e.text(num, *s)
	}
}

// bytes is an optional bytes field, taken by read (as a copy or as a view of the input): empty where it is there without
// content, nil where it is not.
func (c codec) bytes(num protowire.Number, b *[]byte, read func() []byte) {
	if c.reads(num) {
		*b = read()
		c.d.next()
	} else if c.writes(num, *b == nil) {
		c.e.bytes(num, *b)
	}
}

// strs is a repeated string field.
func (c codec) strs(num protowire.Number, list *[]string) {
	if c.reads(num) {
		*list = elements(c.d, *list, c.d.text)
	} else if c.e != nil {
		for _, s := range *list {
			c.e.text(num, s)
		}
	}
}

// blobs is a repeated bytes field.
func (c codec) blobs(num protowire.Number, list *[][]byte) {
	if c.reads(num) {
		*list = elements(c.d, *list, c.d.bytes)
	} else if c.e != nil {
		for _, b := range *list {
			c.e.bytes(num, b)
		}
	}
}

// varints is a repeated integer field that is written without packing, as onnx.proto declares dims and the like.
func varints[T int32 | int64](c codec, num protowire.Number, list *[]T) {
	if c.reads(num) {
		*list = readVarints(c.d, *list)
	} else if c.e != nil {
		for _, v := range *list {
			c.e.varint(num, uint64(v))
		}
	}
}

// packedVarints is a repeated integer field that onnx.proto declares packed.
func packedVarints[T int32 | int64](c codec, num protowire.Number, list *[]T) {
	if c.reads(num) {
		*list = readVarints(c.d, *list)
	} else if c.e != nil {
		writePacked(c.e, num, *list, func(b []byte, v T) []byte { return protowire.AppendVarint(b, uint64(v)) })
	}
}

// floats is a repeated float field that is written without packing.
func (c codec) floats(num protowire.Number, list *[]float32) {
	if c.reads(num) {
		*list = readFixed(c.d, *list)
	} else if c.e != nil {
		for _, v := range *list {
			c.e.fixed32(num, math.Float32bits(v))
		}
	}
}

// packedFixed is a repeated float or double field that onnx.proto declares packed.
func packedFixed[T float32 | float64](c codec, num protowire.Number, list *[]T) {
	if c.reads(num) {
		*list = readFixed(c.d, *list)
	} else if c.e != nil {
		writePacked(c.e, num, *list, appendNumber[T])
	}
}

// optional is a singular message field, nil where it is absent. Errors call it by its name.
func optional[T any, P message[T]](c codec, num protowire.Number, m *P, name string) {
	if c.reads(num) {
		*m = readOptional[T](c.d, *m, name)
		c.d.next()
	} else if c.e != nil && *m != nil {
		writeMessage[T](c.e, num, *m)
	}
}

// alternative is a field of t of which only one can be there: the last in a file wins.
func alternative[T any, P message[T]](c codec, num protowire.Number, t *Type, m *P, name string) {
	if c.reads(num) {
		was := *m
		*t = Type{Denotation: t.Denotation, Extra: t.Extra}
		*m = readOptional[T](c.d, was, name)
		c.d.next()
	} else if c.e != nil && *m != nil {
		writeMessage[T](c.e, num, *m)
	}
}

// repeated is a repeated message field.
func repeated[T any, P message[T]](c codec, num protowire.Number, list *[]P, name string) {
	if c.reads(num) {
		*list = readRepeated[T](c.d, *list, name)
	} else if c.e != nil {
		for _, m := range *list {
			writeMessage[T](c.e, num, m)
		}
	}
}
