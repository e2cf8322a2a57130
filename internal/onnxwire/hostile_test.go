package onnxwire

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/berth-onnx/berth/internal/sysmem"
)

// nested wraps body in one message field after the other, the last one outermost.
func nested(body wire, fields ...protowire.Number) wire {
	for _, num := range fields {
		body = wire{}.bytes(num, body)
	}
	return body
}

func TestSyntaxErrors(t *testing.T) {
	node := []protowire.Number{1, 7} // as the first node of the model's graph
	twoNodes := wire{}.bytes(1, nil).bytes(1, wire{}.bytes(5, wire{}.varint(5, 1)))
	tests := []struct {
		name   string
		in     wire
		path   string
		offset int
		reason string
	}{
		{"field number 0", wire{0x00, 1}, "model", 0, "no field tag"},
		{"cut in a tag", wire{0x80}, "model", 0, "no field tag"},
		{"cut in a varint", wire{0x08, 0x80}, "model", 0, "unexpected EOF"},
		{"endless varint", append(wire{0x08}, bytes.Repeat([]byte{0xff}, 11)...), "model", 0, "overflow"},
		{"string as varint", wire{}.varint(2, 5), "model", 0, "field 2 has wire type 0 where 2 is due"},
		{"message as varint", wire{}.varint(1, 9).varint(7, 5), "model", 2, "field 7 has wire type 0 where 2 is due"},
		{"repeated message as varint", wire{}.varint(8, 5), "model", 0, "field 8 has wire type 0"},
		{"longer than the input", wire{0x3a, 100}, "model", 0, "field 7 needs 100 bytes, 0 are left"},
		{"far longer than the input", wire{0x3a, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1}, "model", 0, "needs 18446744073709551615 bytes"},
		{"longer than its message", nested(wire{0x0a, 9}, node...), "model.graph.node[0]", 4, "field 1 needs 9 bytes, 0 are left"},
		{"end of no group", wire{0x0c}, "model", 0, "field 1 has wire type 4"},
		{"end of no unknown group", wire(protowire.AppendTag(nil, 500, protowire.EndGroupType)), "model", 0, "field 500"},
		{"group without an end", wire(protowire.AppendTag(nil, 500, protowire.StartGroupType)), "model", 0, "field 500"},
		{"in a later node", nested(twoNodes, 7), "model.graph.node[1].attribute[0]", 8, "field 5 has wire type 0"},
		{"in a sub-graph", nested(wire{}.varint(1, 1), append([]protowire.Number{6, 5}, node...)...), "model.graph.node[0].attribute[0].g", 8, "field 1 has wire type 0"},
		{"packed integers cut", nested(wire{}.bytes(1, []byte{1, 2, 0x80}), 5, 7), "model.graph.initializer[0]", 4, "packed element 2"},
		{"packed floats cut", nested(wire{}.bytes(4, []byte{1, 2, 3}), 5, 7), "model.graph.initializer[0]", 4, "3 packed bytes are no whole number of 4-byte elements"},
		{"packed doubles cut", nested(wire{}.bytes(10, []byte{1, 2, 3}), 5, 7), "model.graph.initializer[0]", 4, "8-byte elements"},
		{"float cut", nested(wire{0x25, 1, 2}, 5, 7), "model.graph.initializer[0]", 4, "field 4 needs 4 bytes, 2 are left"},
		{"single float cut", nested(wire{0x15, 1, 2}, 5, 1, 7), "model.graph.node[0].attribute[0]", 6, "field 2 needs 4 bytes, 2 are left"},
		{"float as double", nested(wire{}.fixed64(2, 1), 5, 1, 7), "model.graph.node[0].attribute[0]", 6, "field 2 has wire type 1 where 5 is due"},
		{"floats as doubles", nested(wire{}.fixed64(7, 1), 5, 1, 7), "model.graph.node[0].attribute[0]", 6, "field 7 has wire type 1 where 5 is due"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			_, err := Parse(test.in)
			var syntax *SyntaxError
			require.ErrorAs(t, err, &syntax)
			assert.Equal(t, test.path, syntax.Path)
			assert.Equal(t, test.offset, syntax.Offset)
			assert.Contains(t, syntax.Reason, test.reason)
			assert.Contains(t, err.Error(), test.path)
		})
	}
}

func TestNoModel(t *testing.T) {
	for name, in := range map[string]wire{
		"nothing":        nil,
		"no graph":       wire{}.varint(1, 9),
		"another format": wire{}.bytes(1, []byte("x")).bytes(500, []byte("y"))[3:],
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Parse(in)
			var model *ModelError
			require.ErrorAs(t, err, &model)
			assert.Contains(t, err.Error(), "no ONNX graph")
		})
	}
}

func TestNestingIsLimited(t *testing.T) {
	nest := func(levels int) []byte { // a sequence in a sequence in …
		var b wire
		for range levels - 1 {
			b = wire{}.bytes(5, b)
		}
		return b
	}
	deepest, err := parse[Sequence](nest(MaxDepth), "sequence")
	require.NoError(t, err)
	_, err = Marshal(deepest)
	assert.NoError(t, err, "what can be read can be written")

	_, err = parse[Sequence](nest(MaxDepth+1), "sequence")
	var syntax *SyntaxError
	require.ErrorAs(t, err, &syntax)
	assert.Contains(t, syntax.Reason, "nest deeper than 128 levels")
	assert.Equal(t, MaxDepth-1, strings.Count(syntax.Path, "."))

	_, err = parse[Sequence](nest(5000), "sequence")
	require.ErrorAs(t, err, &syntax)
}

// Messages that contain themselves can be built, not written.
func TestCyclesCannotBeWritten(t *testing.T) {
	g := &Graph{}
	g.Nodes = []*Node{{Attributes: []*Attribute{{Type: AttrGraph, G: g}, {Type: AttrGraph, G: g}}}}
	var nesting *NestingError
	_, err := Marshal(&Model{Graph: g})
	require.ErrorAs(t, err, &nesting)
	_, err = WriteTo(t.Context(), &bytes.Buffer{}, &Model{Graph: g})
	require.ErrorAs(t, err, &nesting)
	assert.NotEmpty(t, err.Error())
}

// Two bytes in the file can stand for a struct of some hundred bytes in memory. A file of nothing else is refused before
// the memory is taken.
func TestMemoryIsBoundedByTheInput(t *testing.T) {
	const elements = 1 << 20
	tests := []struct {
		name string
		in   []byte
	}{
		{"empty attributes", nested(bytes.Repeat([]byte{0x2a, 0}, elements), 1, 7)},
		{"empty nodes", nested(bytes.Repeat([]byte{0x0a, 0}, elements), 7)},
		{"nodes and inputs in turn", nested(bytes.Repeat([]byte{0x0a, 0, 0x5a, 0}, elements), 7)},
		{"empty graphs merged", bytes.Repeat([]byte{0x3a, 0}, elements)},
		{"empty names", nested(bytes.Repeat([]byte{0x0a, 0}, elements), 1, 7)},
		{"packed zeros", nested(wire{}.bytes(7, make([]byte, elements)), 5, 7)},
		{"a length alone", wire{0x3a, 0xff, 0xff, 0xff, 0xff, 7}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, err := Parse(test.in)
			runtime.ReadMemStats(&after)
			limit := 2 * (budgetBase + budgetFactor*uint64(len(test.in))) // twice for lists that grow
			assert.Less(t, after.TotalAlloc-before.TotalAlloc, limit, "parse answered %v", err)
		})
	}
	_, err := Parse(tests[0].in)
	var syntax *SyntaxError
	require.ErrorAs(t, err, &syntax)
	assert.Contains(t, syntax.Reason, "far more elements")
}

// countedLooks is a context that counts how often it is looked at.
type countedLooks struct {
	context.Context
	looks int
}

func (c *countedLooks) Err() error { c.looks++; return c.Context.Err() }

// Whatever a file is full of, memory is asked for before it is taken, and the context is looked at all along.
func TestLongFields(t *testing.T) {
	const size = 4 << 20 // bytes
	content := make([]byte, size)
	var names wire
	for i := range size / internMax {
		names = names.bytes(1, fmt.Appendf(nil, "%0*d", internMax, i))
	}
	group := func(in []byte) wire {
		return protowire.AppendTag(append(protowire.AppendTag(nil, 500, protowire.StartGroupType), in...), 500, protowire.EndGroupType)
	}
	for _, c := range []struct {
		name  string
		in    []byte
		full  bool // its content takes memory beyond that of the input
		quick bool // not all of it is read
	}{
		{"text", wire{}.bytes(2, content), true, false},
		{"metadata", wire{}.bytes(14, wire{}.bytes(2, content)), true, false},
		{"names", nested(names, 1, 7), true, false},
		{"bytes", nested(wire{}.bytes(4, content), 5, 1, 7), true, false},
		{"packed integers", nested(wire{}.bytes(7, content), 5, 7), true, false},
		{"packed long integers", nested(wire{}.bytes(7, bytes.Repeat([]byte{0xff, 0xff, 0x7f, 1}, size/4)), 5, 7), true, false},
		{"integers", nested(bytes.Repeat([]byte{0x38, 1}, size/2), 5, 7), true, false},
		{"packed floats", nested(wire{}.bytes(4, content), 5, 7), true, false},
		{"packed doubles", nested(wire{}.bytes(10, content), 5, 7), true, false},
		{"floats", nested(bytes.Repeat([]byte{0x25, 0, 0, 0, 0}, size/5), 5, 7), true, false},
		{"lists in turn", nested(bytes.Repeat([]byte{0x38, 1, 0x0a, 0}, size/4), 5, 7), true, false},
		{"nodes", nested(bytes.Repeat([]byte{0x0a, 0}, size/40), 7), true, true},
		{"unknown fields", bytes.Repeat(wire{}.varint(500, 1), size/3), false, false},
		{"unknown fields among others", bytes.Repeat(wire{}.varint(500, 1).varint(1, 1), size/5), true, false},
		{"an unknown field", wire{}.bytes(500, content), false, true},
		{"unknown fields far apart", append(append(wire{}.bytes(500, content), wire{}.varint(1, 1)...), wire{}.bytes(500, content)...), true, true},
		{"a group", group(bytes.Repeat(wire{}.varint(1, 1), size/2)), false, false},
		{"raw data", nested(wire{}.bytes(9, content), 5, 7), false, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			ctx := &countedLooks{Context: sysmem.Budget(0).In(t.Context())}
			m := new(Model)
			require.NoError(t, decodeRoot(ctx, c.in, "model", m))
			if !c.quick {
				assert.Greater(t, ctx.looks, len(c.in)/lookEach-2)
			}
			b, err := Marshal(m)
			require.NoError(t, err)
			again := new(Model)
			require.NoError(t, decodeRoot(t.Context(), b, "model", again))
			assert.True(t, equal(m, again))

			assert.Equal(t, c.full, refusedBelow(t, c.in, size/2))
		})
	}
}

// refusedBelow says whether in is refused where no more than bytes beside what is in use may be taken. What is in use may become less
// after it is measured, which is when reading succeeds: a try that succeeds is repeated.
func refusedBelow(t *testing.T, in []byte, bytes int64) bool {
	for range 5 {
		var now, full *sysmem.Error
		require.ErrorAs(t, sysmem.Budget(1).Check("the test"), &now)
		err := decodeRoot(sysmem.Budget(now.Live+bytes).In(t.Context()), in, "model", new(Model))
		if errors.As(err, &full) {
			return true
		}
		require.NoError(t, err)
	}
	return false
}

// A small model cut anywhere, or with any bit flipped, is read or refused, and what is read can be written.
func TestDamagedFiles(t *testing.T) {
	whole, err := Marshal(filled[Model](3))
	require.NoError(t, err)
	for cut := 0; cut < len(whole); cut += 11 {
		checkDamaged(t, whole[:cut])
	}
	for bit := 0; bit < 8*len(whole); bit += 37 {
		damaged := bytes.Clone(whole)
		damaged[bit/8] ^= 1 << (bit % 8)
		checkDamaged(t, damaged)
	}
}

func checkDamaged(t *testing.T, data []byte) {
	m := new(Model)
	if decodeRoot(t.Context(), data, "model", m) != nil {
		return
	}
	b, err := Marshal(m)
	require.NoError(t, err)
	again := new(Model)
	require.NoError(t, decodeRoot(t.Context(), b, "model", again))
	require.True(t, equal(m, again))
}
