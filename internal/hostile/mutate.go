// Package hostile makes malformed and malicious input for tests: models changed field by field
// ([Mutate]), and a file for every kind of defect that readers are known to fail on ([Kinds]).
package hostile

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"slices"
)

// field is one field of a serialized protobuf message. Bytes that are themselves a message are
// parsed too, so that a change below keeps the lengths above right.
type field struct {
	num, wire uint64
	number    uint64 // varint and fixed fields
	data      []byte
	message   []*field // in place of data, if it parses
}

const (
	wireVarint  = 0
	wireFixed64 = 1
	wireBytes   = 2
	wireFixed32 = 5
)

// parse reads a message; ok is false for bytes that are none.
func parse(b []byte, depth int) (out []*field, ok bool) {
	for len(b) > 0 {
		tag, n := binary.Uvarint(b)
		if n <= 0 || tag>>3 == 0 || tag>>3 > 64 {
			return nil, false
		}
		f := &field{num: tag >> 3, wire: tag & 7}
		b = b[n:]
		switch f.wire {
		case wireVarint:
			if f.number, n = binary.Uvarint(b); n <= 0 {
				return nil, false
			}
		case wireFixed64, wireFixed32:
			if n = 8; f.wire == wireFixed32 {
				n = 4
			}
			if len(b) < n {
				return nil, false
			}
			f.data = b[:n]
		case wireBytes:
			size, k := binary.Uvarint(b)
			if k <= 0 || size > uint64(len(b)-k) {
				return nil, false
			}
			f.data, n = b[k:k+int(size)], k+int(size)
			if sub, ok := parse(f.data, depth+1); ok && depth < 40 && len(sub) > 0 {
				f.message = sub
			}
		default:
			return nil, false
		}
		b = b[n:]
		out = append(out, f)
	}
	return out, true
}

// clone copies a field and those in it.
func (f *field) clone() *field {
	c := *f
	c.message = slices.Clone(f.message)
	for i, g := range c.message {
		c.message[i] = g.clone()
	}
	return &c
}

func encode(fields []*field) (b []byte) {
	for _, f := range fields {
		b = binary.AppendUvarint(b, f.num<<3|f.wire)
		switch f.wire {
		case wireVarint:
			b = binary.AppendUvarint(b, f.number)
		case wireBytes:
			data := f.data
			if f.message != nil {
				data = encode(f.message)
			}
			b = append(binary.AppendUvarint(b, uint64(len(data))), data...)
		default:
			b = append(b, f.data...)
		}
	}
	return b
}

// Mutate changes a serialized model in a few fields, drawn by rng: numbers to other ones, names
// to others of the model or to nothing, lists to longer, shorter and differently ordered ones.
// Bytes that are no message come back as they are.
func Mutate(rng *rand.Rand, model []byte) []byte {
	top, ok := parse(model, 0)
	if !ok {
		return model
	}
	for range 1 + rng.IntN(3) {
		lists, leaves := survey(&top)
		change(rng, lists[rng.IntN(len(lists))], leaves)
	}
	return encode(top)
}

// survey lists all messages of a message, and all fields of bytes.
func survey(top *[]*field) (lists []*[]*field, leaves []*field) {
	lists = append(lists, top)
	for _, f := range *top {
		switch {
		case f.message != nil:
			l, s := survey(&f.message)
			lists, leaves = append(lists, l...), append(leaves, s...)
		case f.wire == wireBytes:
			leaves = append(leaves, f)
		}
	}
	return lists, leaves
}

// numbers at which range checks fail: small ones, and those around the limits of integer types.
var numbers = []uint64{0, 1, 2, 3, 7, 16, 127, 255, 1 << 16, 1 << 31, 1<<32 - 1, 1 << 40, math.MaxInt64, 1 << 63, math.MaxUint64, math.MaxUint64 - 1}

func change(rng *rand.Rand, list *[]*field, leaves []*field) {
	if len(*list) == 0 {
		return
	}
	i := rng.IntN(len(*list))
	f := (*list)[i]
	switch rng.IntN(8) {
	case 0:
		*list = slices.Delete(*list, i, i+1)
		return
	case 1:
		*list = slices.Insert(*list, i, f.clone())
		return
	case 2:
		j := rng.IntN(len(*list))
		(*list)[i], (*list)[j] = (*list)[j], f
		return
	}
	switch g := f; {
	case g.wire == wireVarint:
		g.number = numbers[rng.IntN(len(numbers))]
	case g.wire != wireBytes:
		g.data = slices.Repeat([]byte{byte(rng.IntN(256))}, len(g.data))
	case rng.IntN(4) == 0:
		g.data, g.message = nil, nil
	case len(leaves) > 0 && g.message == nil && rng.IntN(2) == 0:
		g.data = leaves[rng.IntN(len(leaves))].data
	case g.message == nil && len(g.data) > 0:
		g.data = slices.Clone(g.data)
		if rng.IntN(2) == 0 {
			g.data = g.data[:rng.IntN(len(g.data))]
		} else {
			g.data[rng.IntN(len(g.data))] ^= byte(1 << rng.IntN(8))
		}
	}
}

func newRand(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 0)) }

// appendLength appends the length of a field.
func appendLength(b []byte, n int) []byte { return binary.AppendUvarint(b, uint64(n)) }
