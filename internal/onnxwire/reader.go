package onnxwire

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"unsafe"

	"google.golang.org/protobuf/encoding/protowire"
)

// The decoder is one cursor over the whole input with a stack of the messages it stands in. Entering a message narrows
// `end` to that message's last byte, leaving it restores the outer one:
//
//	data  ├──────────────── model ────────────────┤
//	            ├───────── graph ─────────┤
//	               ├─ node[0] ─┤├─ node[1] ─┤
//	                                ▲pos    ▲end        stack: model, graph, node[1]
//
// Errors stick: the first one is kept with its path, `next` then answers false everywhere, and the message methods unwind
// without checking anything themselves.

const (
	// MaxDepth is how many messages may nest. A sub-graph inside a sub-graph takes three levels (node, attribute, graph).
	MaxDepth = 128

	// Decoded structs are larger than their bytes in the file: up to 20 times in graphs without weights. A file made of
	// empty messages would reach some hundred times, and is refused.
	budgetBase   = 64 << 20
	budgetFactor = 32

	// Names up to this length are kept once however often they occur; value names occur at least twice.
	internMax = 128
)

// message is what every message type of this package implements on its pointer.
type message[T any] interface {
	*T
	decode(*decoder)
	encode(*encoder)
}

type frame struct {
	name  string
	index int // place in a repeated field, -1 in a singular one
	end   int // where the message around this one ends
}

type decoder struct {
	data   []byte
	pos    int
	end    int // of the message the cursor stands in
	num    protowire.Number
	typ    protowire.Type
	start  int // offset of the current field's tag
	stack  []frame
	budget int64
	names  map[string]string
	err    *SyntaxError
}

// decodeRoot reads data as one message of the type that into has. root is the first word of paths in errors.
func decodeRoot[T any, P message[T]](data []byte, root string, into P) error {
	d := &decoder{
		data:   data,
		end:    len(data),
		stack:  append(make([]frame, 0, 16), frame{name: root, index: -1}),
		budget: budgetBase + budgetFactor*int64(len(data)),
		names:  map[string]string{},
	}
	into.decode(d)
	if d.err != nil {
		return d.err
	}
	return nil
}

// parse reads data as one message of type T.
func parse[T any, P message[T]](data []byte, root string) (*T, error) {
	m := new(T)
	if err := decodeRoot(data, root, P(m)); err != nil {
		return nil, err
	}
	return m, nil
}

// next moves to the next field of the current message and reads its tag into num and typ; false at the end or after an error.
func (d *decoder) next() bool {
	if d.err != nil || d.pos == d.end {
		return false
	}
	num, typ, n := protowire.ConsumeTag(d.data[d.pos:d.end])
	d.start = d.pos
	if n < 0 {
		d.fail("no field tag: %v", protowire.ParseError(n))
		return false
	}
	d.num, d.typ = num, typ
	d.pos += n
	return true
}

// fail keeps the first error, with the path to the current message.
func (d *decoder) fail(format string, args ...any) {
	if d.err == nil {
		d.err = &SyntaxError{Path: d.path(), Offset: d.start, Reason: fmt.Sprintf(format, args...)}
	}
}

func (d *decoder) path() string {
	var b strings.Builder
	for i, f := range d.stack {
		if i > 0 {
			b.WriteByte('.')
		}
		b.WriteString(f.name)
		if f.index >= 0 {
			b.WriteString("[" + strconv.Itoa(f.index) + "]")
		}
	}
	return b.String()
}

// charge counts memory about to be allocated, n elements of the given size in bytes, against the budget.
func (d *decoder) charge(n, size int) bool {
	d.budget -= int64(n) * int64(size)
	if d.budget < 0 {
		d.fail("the file describes far more elements than its %d bytes can stand for", len(d.data))
	}
	return d.err == nil
}

// want checks the wire type of the current field.
func (d *decoder) want(typ protowire.Type) bool {
	if d.typ != typ {
		d.fail("field %d has wire type %d where %d is due", d.num, d.typ, typ)
	}
	return d.err == nil
}

// unknown keeps the current field as it stands.
func (d *decoder) unknown(x *Extra) {
	n := protowire.ConsumeFieldValue(d.num, d.typ, d.data[d.pos:d.end])
	if n < 0 {
		d.fail("field %d: %v", d.num, protowire.ParseError(n))
		return
	}
	d.pos += n
	x.Unknown = append(x.Unknown, d.data[d.start:d.pos]...)
}

// enter steps into the message that is the current field.
func (d *decoder) enter(name string, index int) bool {
	b := d.view()
	if d.err != nil {
		return false
	}
	if len(d.stack) >= MaxDepth {
		d.fail("messages nest deeper than %d levels", MaxDepth)
		return false
	}
	d.stack = append(d.stack, frame{name: name, index: index, end: d.end})
	d.end = d.pos
	d.pos -= len(b)
	return true
}

// leave steps back out. After an error it leaves the cursor alone: nothing more is read.
func (d *decoder) leave() {
	if d.err != nil {
		return
	}
	top := len(d.stack) - 1
	d.end = d.stack[top].end
	d.stack = d.stack[:top]
}

// run counts how many fields in a row, from the current one on, have the current tag. Repeated fields are written in one
// go, so this is nearly always how many elements there are, and lists are allocated once and at their size. Lengths are
// followed, not trusted: a run that does not fit its message ends early, and reading it will say what is wrong.
func (d *decoder) run() int {
	tag := d.data[d.start:d.pos]
	rest := d.data[d.pos:d.end]
	for count := 1; ; count++ {
		n := protowire.ConsumeFieldValue(d.num, d.typ, rest)
		if n < 0 || !bytes.HasPrefix(rest[n:], tag) {
			return count
		}
		rest = rest[n+len(tag):]
	}
}

// repeated reads the run of fields that starts with the current one as more elements of list.
func repeated[T any, P message[T]](d *decoder, list []*T, name string) []*T {
	var zero T
	n := d.run()
	if !d.want(protowire.BytesType) || !d.charge(n, int(unsafe.Sizeof(zero))+8) {
		return list
	}
	list = slices.Grow(list, n)
	block := make([]T, n)
	for i := range block {
		if i > 0 && !d.next() || !d.enter(name, len(list)) {
			return list
		}
		P(&block[i]).decode(d)
		d.leave()
		list = append(list, &block[i])
	}
	return list
}

// optional reads the current field into old, or into a new message where there is none yet: protobuf merges the
// occurrences of a singular message.
func optional[T any, P message[T]](d *decoder, old *T, name string) *T {
	if old == nil {
		var zero T
		if !d.charge(1, int(unsafe.Sizeof(zero))) {
			return nil
		}
		old = new(T)
	}
	if d.enter(name, -1) {
		P(old).decode(d)
		d.leave()
	}
	return old
}

// view reads the current field as bytes and returns them where they lie, with no room to append.
func (d *decoder) view() []byte {
	if !d.want(protowire.BytesType) {
		return nil
	}
	size, n := protowire.ConsumeVarint(d.data[d.pos:d.end])
	if n < 0 {
		d.fail("field %d: length: %v", d.num, protowire.ParseError(n))
		return nil
	}
	if size > uint64(d.end-d.pos-n) {
		d.fail("field %d needs %d bytes, %d are left in its message", d.num, size, d.end-d.pos-n)
		return nil
	}
	from := d.pos + n
	d.pos = from + int(size)
	return d.data[from:d.pos:d.pos]
}

// bytes reads the current field as a copy; an empty one is empty, not nil.
func (d *decoder) bytes() []byte {
	b := d.view()
	if d.err != nil {
		return nil
	}
	return append(make([]byte, 0, len(b)), b...)
}

// text reads the current field as a string, the same Go string for equal short ones.
func (d *decoder) text() string {
	b := d.view()
	if len(b) > internMax {
		return string(b)
	}
	if s, ok := d.names[string(b)]; ok {
		return s
	}
	if len(b) == 0 {
		return ""
	}
	s := string(b)
	d.names[s] = s
	return s
}

// str reads an optional string field.
func (d *decoder) str(x *Extra) string {
	s := d.text()
	x.note(int(d.num), s == "")
	return s
}

// strs reads a run of elements of a repeated string field.
func (d *decoder) strs(list []string) []string {
	n := d.run()
	if !d.charge(n, 16) {
		return list
	}
	list = append(slices.Grow(list, n), d.text())
	for i := 1; i < n && d.next(); i++ {
		list = append(list, d.text())
	}
	return list
}

// blobs reads a run of elements of a repeated bytes field.
func (d *decoder) blobs(list [][]byte) [][]byte {
	n := d.run()
	if !d.charge(n, 24) {
		return list
	}
	list = append(slices.Grow(list, n), d.bytes())
	for i := 1; i < n && d.next(); i++ {
		list = append(list, d.bytes())
	}
	return list
}

func (d *decoder) varint() uint64 {
	if !d.want(protowire.VarintType) {
		return 0
	}
	v, n := protowire.ConsumeVarint(d.data[d.pos:d.end])
	if n < 0 {
		d.fail("field %d: %v", d.num, protowire.ParseError(n))
		return 0
	}
	d.pos += n
	return v
}

// int64 reads an optional int64 field.
func (d *decoder) int64(x *Extra) int64 {
	v := int64(d.varint())
	x.note(int(d.num), v == 0)
	return v
}

// int32 reads an optional int32 or enum field; as in every protobuf reader the upper half of the varint is dropped.
func (d *decoder) int32(x *Extra) int32 {
	v := int32(d.varint())
	x.note(int(d.num), v == 0)
	return v
}

// float32 reads an optional float field.
func (d *decoder) float32(x *Extra) float32 {
	if !d.want(protowire.Fixed32Type) {
		return 0
	}
	v, n := protowire.ConsumeFixed32(d.data[d.pos:d.end])
	if n < 0 {
		d.fail("field %d: %v", d.num, protowire.ParseError(n))
		return 0
	}
	d.pos += n
	x.note(int(d.num), v == 0)
	return math.Float32frombits(v)
}

// varints reads a repeated integer field: a packed run, or a run of single elements where the file does not pack.
func varints[T int32 | int64 | uint64](d *decoder, list []T) []T {
	size := int(unsafe.Sizeof(T(0)))
	if d.typ != protowire.VarintType {
		return packedVarints(d, list, size)
	}
	n := d.run()
	if !d.charge(n, size) {
		return list
	}
	list = append(slices.Grow(list, n), T(d.varint()))
	for i := 1; i < n && d.next(); i++ {
		list = append(list, T(d.varint()))
	}
	return list
}

func packedVarints[T int32 | int64 | uint64](d *decoder, list []T, size int) []T {
	b := d.view()
	count := 0 // each varint ends in the only byte of its own below 0x80
	for _, c := range b {
		if c < 0x80 {
			count++
		}
	}
	if !d.charge(count, size) {
		return list
	}
	list = slices.Grow(list, count)
	for len(b) > 0 {
		v, n := protowire.ConsumeVarint(b)
		if n < 0 {
			d.fail("field %d: packed element %d: %v", d.num, len(list), protowire.ParseError(n))
			return list
		}
		list = append(list, T(v))
		b = b[n:]
	}
	return list
}

// fixed reads a repeated field of fixed-size elements: a packed run, or a run of single elements of wire type single.
func fixed[T float32 | float64](d *decoder, list []T, single protowire.Type, read func([]byte) T) []T {
	size := int(unsafe.Sizeof(T(0)))
	if d.typ == protowire.BytesType {
		return packedFixed(d, list, size, read)
	}
	n := d.run()
	if !d.want(single) || !d.charge(n, size) {
		return list
	}
	list = slices.Grow(list, n)
	for i := range n {
		if i > 0 && !d.next() {
			return list
		}
		if d.end-d.pos < size {
			d.fail("field %d needs %d bytes, %d are left in its message", d.num, size, d.end-d.pos)
			return list
		}
		list = append(list, read(d.data[d.pos:]))
		d.pos += size
	}
	return list
}

func packedFixed[T float32 | float64](d *decoder, list []T, size int, read func([]byte) T) []T {
	b := d.view()
	if len(b)%size != 0 {
		d.fail("field %d: %d packed bytes are no whole number of %d-byte elements", d.num, len(b), size)
	}
	if !d.charge(len(b)/size, size) {
		return list
	}
	list = slices.Grow(list, len(b)/size)
	for ; len(b) > 0; b = b[size:] {
		list = append(list, read(b))
	}
	return list
}

// floats reads a repeated float field.
func (d *decoder) floats(list []float32) []float32 {
	return fixed(d, list, protowire.Fixed32Type, func(b []byte) float32 {
		return math.Float32frombits(binary.LittleEndian.Uint32(b))
	})
}

// doubles reads a repeated double field.
func (d *decoder) doubles(list []float64) []float64 {
	return fixed(d, list, protowire.Fixed64Type, func(b []byte) float64 {
		return math.Float64frombits(binary.LittleEndian.Uint64(b))
	})
}
