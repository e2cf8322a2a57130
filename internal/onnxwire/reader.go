package onnxwire

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"hash/maphash"
	"math"
	"strconv"
	"strings"
	"unsafe"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/berth-onnx/berth/internal/sysmem"
)

// The decoder is one cursor over the whole input with a stack of the messages it stands in. Entering a message narrows
// `end` to that message's last byte, leaving it restores the outer one:
//
//	data  ├──────────────── model ────────────────┤
//	            ├───────── graph ─────────┤
//	               ├─ node[0] ─┤├─ node[1] ─┤
//	                                ▲pos    ▲end        stack: model, graph, node[1]
//
// The first error is kept with its path. From then on no field has a number, so nothing more is read, and the message methods
// return without checking for errors themselves.

const (
	// MaxDepth is how many messages may nest. A sub-graph inside a sub-graph takes three levels (node, attribute, graph).
	MaxDepth = 128

	// Decoded structs are larger than their bytes in the file: up to 20 times in graphs without weights. A file made of
	// empty messages would reach some hundred times, and is refused.
	budgetBase   = 64 << 20
	budgetFactor = 32

	// Names up to this length are mostly kept once however often they occur: value names occur at least twice, often one after
	// the other. internSlots is how many are remembered, textPiece the memory that short ones are cut from.
	internMax   = 128
	internSlots = 1 << 10
	textPiece   = 4 << 10

	// lookEach is how many bytes of input are read between two looks at the context.
	lookEach = 64 << 10
)

type frame struct {
	name  string
	index int // place in a repeated field, -1 in a singular one
	end   int // where the message around this one ends
}

type decoder struct {
	data   []byte
	pos    int
	end    int              // of the message the cursor stands in
	num    protowire.Number // of the current field, whose tag has been read; 0 at the end of a message and after an error
	typ    protowire.Type
	start  int // offset of the current field's tag
	stack  []frame
	budget int64
	names  []string // seen last, by hash
	seed   maphash.Seed
	room   []byte // for the next names
	err    *SyntaxError
	ctx    context.Context
	looked int // offset at which the context was looked at last
	memory sysmem.Budget
	full   error // that there is not enough memory
}

// decodeRoot reads data into m. root is the first word of paths in errors.
func decodeRoot(ctx context.Context, data []byte, root string, m Message) error {
	d := &decoder{
		ctx:    ctx,
		memory: sysmem.BudgetOf(ctx),
		data:   data,
		end:    len(data),
		stack:  append(make([]frame, 0, 16), frame{name: root, index: -1}),
		budget: budgetBase + budgetFactor*int64(len(data)),
	}
	d.message(m)
	if err := ctx.Err(); err != nil {
		return err
	}
	if d.full != nil {
		return d.full
	}
	if d.err != nil {
		return d.err
	}
	return nil
}

// parse reads data as one message of type T.
func parse[T any, P message[T]](data []byte, root string) (*T, error) {
	return parseContext[T, P](context.Background(), data, root)
}

func parseContext[T any, P message[T]](ctx context.Context, data []byte, root string) (*T, error) {
	m := P(new(T))
	if err := decodeRoot(ctx, data, root, m); err != nil {
		return nil, err
	}
	return m, nil
}

// message reads the fields of m up to the end of the message the cursor stands in.
func (d *decoder) message(m Message) {
	c := codec{d: d, x: m.extra()}
	d.next()
	for d.look(d.pos) && d.num != 0 {
		first := d.start
		m.fields(c)
		if d.num != 0 && d.start == first {
			d.unknown(c.x)
			d.next()
		}
	}
	m.finish()
}

// next moves to the next field of the current message and reads its tag.
func (d *decoder) next() {
	d.num = 0
	if d.err != nil || d.pos == d.end {
		return
	}
	d.start = d.pos
	num, typ, n := protowire.ConsumeTag(d.data[d.pos:d.end])
	if n < 0 {
		d.fail("no field tag: %v", protowire.ParseError(n))
		return
	}
	d.num, d.typ = num, typ
	d.pos += n
}

// fail keeps the first error, with the path to the current message.
func (d *decoder) fail(format string, args ...any) {
	if d.err == nil {
		d.num, d.err = 0, &SyntaxError{Path: d.path(), Offset: d.start, Reason: fmt.Sprintf(format, args...)}
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

// charge counts memory about to be allocated, n elements of the given size in bytes, against the budgets: what a file of this
// size can need, and what the process may take.
func (d *decoder) charge(n, size int) bool {
	if d.err == nil {
		if d.full = d.memory.AskContext(d.ctx, "the content of the file", int64(n)*int64(size)); d.full != nil {
			d.fail("%v", d.full)
		}
	}
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

// unknown keeps the run of fields that starts with the current one as it stands: where it lies in the input, if that is where
// the unknown fields before it end.
func (d *decoder) unknown(x *Extra) {
	_, past := d.run()
	if past == d.start {
		_, fault := d.skip(d.pos)
		d.fail("field %d: %v", d.num, protowire.ParseError(fault))
	}
	if d.err != nil {
		return
	}
	kept := len(x.Unknown)
	need := kept + past - d.start
	if first := d.start - kept; kept == 0 || first >= 0 && &d.data[first] == &x.Unknown[0] {
		x.Unknown = d.data[first:past:past]
	} else if need <= cap(x.Unknown) || d.charge(2, need) {
		if need > cap(x.Unknown) {
			x.Unknown = append(make([]byte, 0, 2*need), x.Unknown...)
		}
		x.Unknown = d.appendInput(x.Unknown, d.start, past)
	}
	d.pos = past
}

// appendInput appends the input between two offsets to b. Pages of a mapped file that have been copied are given back: beside the
// copy they would count twice.
func (d *decoder) appendInput(b []byte, from, past int) []byte {
	for ; from < past && d.look(from); from += lookEach {
		piece := d.data[from:min(from+lookEach, past)]
		b = append(b, piece...)
		if len(piece) == lookEach {
			sysmem.Discard(piece)
		}
	}
	return b
}

// skip returns where the value of the current field ends if it begins at an offset, and a code for [protowire.ParseError] that is
// negative where there is none.
func (d *decoder) skip(at int) (past, fault int) {
	num, typ := d.num, d.typ
	var groups []protowire.Number // that the offset stands in
	for d.look(at) {
		n := 0
		switch depth := len(groups); {
		case typ == protowire.StartGroupType && depth == MaxDepth:
			d.fail("groups nest deeper than %d levels", MaxDepth)
		case typ == protowire.StartGroupType:
			groups = append(groups, num)
		case typ == protowire.EndGroupType && depth > 0 && groups[depth-1] == num:
			groups = groups[:depth-1]
		default:
			n = protowire.ConsumeFieldValue(num, typ, d.data[at:d.end])
		}
		if at += n; n < 0 || len(groups) == 0 {
			return at, min(n, 0)
		}
		if num, typ, n = protowire.ConsumeTag(d.data[at:d.end]); n < 0 {
			return at, n
		}
		at += n
	}
	return at, 0
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

// nested reads the current field as message m.
func (d *decoder) nested(m Message, name string, index int) {
	if d.enter(name, index) {
		d.message(m)
		d.leave()
	}
}

// run counts how many fields in a row, from the current one on, have the current tag, and says where the last whole one ends.
// Repeated fields are written in one go, so this is nearly always how many elements there are, and lists are allocated once and at
// their size. Lengths are followed, not trusted: a run that does not fit its message ends early, and reading it will say what is wrong.
func (d *decoder) run() (count, past int) {
	tag := d.data[d.start:d.pos]
	past = d.start
	for at := d.pos; d.look(at); at = past + len(tag) {
		count++
		end, fault := d.skip(at)
		if fault < 0 {
			break
		}
		if past = end; !bytes.HasPrefix(d.data[past:d.end], tag) {
			break
		}
	}
	return count, past
}

// mostTogether is how many messages are made in one piece of memory: it is there as long as any of them.
const mostTogether = 256

// readRepeated reads the run of fields that starts with the current one as more elements of list, and moves on.
func readRepeated[T any, P message[T]](d *decoder, list []P, name string) []P {
	var zero T
	n, _ := d.run()
	list = withRoom(d, list, n)
	if !d.want(protowire.BytesType) || !d.charge(n, int(unsafe.Sizeof(zero))) {
		return list
	}
	var block []T
	for i := 0; i < n && d.err == nil; i++ {
		if len(block) == 0 {
			block = make([]T, min(n-i, mostTogether))
		}
		d.nested(P(&block[0]), name, len(list))
		d.next()
		list, block = append(list, &block[0]), block[1:]
	}
	return list
}

// readOptional reads the current field into old, or into a new message where there is none yet: protobuf merges the
// occurrences of a singular message.
func readOptional[T any, P message[T]](d *decoder, old P, name string) P {
	if old == nil {
		var zero T
		if !d.charge(1, int(unsafe.Sizeof(zero))) {
			return nil
		}
		old = new(T)
	}
	d.nested(old, name, -1)
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
	if !d.charge(1, len(b)) {
		return nil
	}
	return d.appendInput(make([]byte, 0, len(b)), d.pos-len(b), d.pos)
}

// text reads the current field as a string, mostly the same Go string for equal short ones.
func (d *decoder) text() string {
	b := d.view()
	switch {
	case len(b) == 0:
		return ""
	case len(b) > internMax:
		if !d.charge(1, len(b)) {
			return ""
		}
		b = d.appendInput(make([]byte, 0, len(b)), d.pos-len(b), d.pos)
		return unsafe.String(unsafe.SliceData(b), len(b))
	}
	if d.names == nil {
		d.names, d.seed = make([]string, internSlots), maphash.MakeSeed()
	}
	slot := &d.names[maphash.Bytes(d.seed, b)%internSlots]
	if *slot != string(b) {
		if len(b) > cap(d.room)-len(d.room) {
			if !d.charge(1, textPiece) {
				return ""
			}
			d.room = make([]byte, 0, textPiece)
		}
		from := len(d.room)
		d.room = append(d.room, b...)
		*slot = unsafe.String(&d.room[from], len(b)) // never written again
	}
	return *slot
}

// withRoom is list with room for n more elements. Memory is not touched before there is something to put into it.
func withRoom[T any](d *decoder, list []T, n int) []T {
	need := d.reserve(len(list), cap(list), n, int(unsafe.Sizeof(*new(T))))
	if need == 0 {
		return list
	}
	more := make([]T, len(list), need)
	for from := 0; from < len(list) && d.lookNow(d.pos); from += lookEach {
		copy(more[from:], list[from:min(from+lookEach, len(list))])
	}
	return more
}

// reserve asks for the memory of a list that is to hold n more elements than it does, and returns how many it is to have room for; 0
// if there is room, or no memory.
func (d *decoder) reserve(held, most, n, size int) int {
	need := held + n
	if need <= most {
		return 0
	}
	if held > 0 {
		need = max(need, 2*held)
	}
	if !d.charge(need, size) {
		return 0
	}
	return need
}

// elements reads the run of fields that starts with the current one as more elements of list, and moves on.
func elements[T any](d *decoder, list []T, read func() T) []T {
	n, _ := d.run()
	list = withRoom(d, list, n)
	for i := 0; i < n && d.look(d.pos); i++ {
		list = append(list, read())
		d.next()
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

// fixed reads the current field, of the given wire type and size in bytes; zeros after an error.
func (d *decoder) fixed(typ protowire.Type, size int) []byte {
	if left := d.end - d.pos; d.want(typ) && left < size {
		d.fail("field %d needs %d bytes, %d are left in its message", d.num, size, left)
	}
	if d.err != nil {
		return make([]byte, size)
	}
	d.pos += size
	return d.data[d.pos-size : d.pos]
}

// number returns the little-endian float or double at the start of b.
func number[T float32 | float64](b []byte) T {
	if unsafe.Sizeof(T(0)) == 4 {
		return T(math.Float32frombits(binary.LittleEndian.Uint32(b)))
	}
	return T(math.Float64frombits(binary.LittleEndian.Uint64(b)))
}

// appendNumber is the inverse of number.
func appendNumber[T float32 | float64](b []byte, v T) []byte {
	if unsafe.Sizeof(v) == 4 {
		return binary.LittleEndian.AppendUint32(b, math.Float32bits(float32(v)))
	}
	return binary.LittleEndian.AppendUint64(b, math.Float64bits(float64(v)))
}

// readVarints reads a repeated integer field, packed or as a run of single elements, and moves on.
func readVarints[T int32 | int64](d *decoder, list []T) []T {
	if d.typ != protowire.VarintType {
		return readPackedVarints(d, list)
	}
	return elements(d, list, func() T { return T(d.varint()) })
}

func readPackedVarints[T int32 | int64](d *decoder, list []T) []T {
	b := d.view()
	from, count := d.pos-len(b), 0
	for at := 0; at < len(b) && d.look(from+at); at += lookEach {
		for _, c := range b[at:min(at+lookEach, len(b))] {
			count += int(^c >> 7) // each varint ends in the only byte of its own below 0x80
		}
	}
	list = withRoom(d, list, count)
	for at := 0; at < len(b) && d.look(from+at); {
		v, n := uint64(b[at]), 1
		if v >= 0x80 {
			v, n = protowire.ConsumeVarint(b[at:])
		}
		if n < 0 {
			d.fail("field %d: packed element %d: %v", d.num, len(list), protowire.ParseError(n))
			return list
		}
		list = append(list, T(v))
		at += n
	}
	d.next()
	return list
}

// readFixed reads a repeated float or double field, packed or as a run of single elements, and moves on.
func readFixed[T float32 | float64](d *decoder, list []T) []T {
	size := int(unsafe.Sizeof(T(0)))
	if d.typ != protowire.BytesType {
		typ := protowire.Fixed32Type
		if size == 8 {
			typ = protowire.Fixed64Type
		}
		return elements(d, list, func() T { return number[T](d.fixed(typ, size)) })
	}
	b := d.view()
	if len(b)%size != 0 {
		d.fail("field %d: %d packed bytes are no whole number of %d-byte elements", d.num, len(b), size)
	}
	list = withRoom(d, list, len(b)/size)
	for at, from := 0, d.pos-len(b); at < len(b) && d.look(from+at); at += size {
		list = append(list, number[T](b[at:]))
	}
	d.next()
	return list
}

// look reports whether to read on at an offset. From time to time it looks at the context, whose end is an error as any.
func (d *decoder) look(at int) bool {
	return d.err == nil && (uint(at-d.looked) < lookEach || d.lookNow(at))
}

func (d *decoder) lookNow(at int) bool {
	d.looked = at
	if err := d.ctx.Err(); err != nil {
		d.fail("%v", err)
	}
	return d.err == nil
}
