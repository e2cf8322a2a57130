package expr

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth/ndarray"
)

// keyReader reads a key back, from its first byte to its last.
type keyReader struct {
	t   *testing.T
	key []byte
}

func (r *keyReader) byte() byte {
	require.NotEmpty(r.t, r.key)
	b := r.key[0]
	r.key = r.key[1:]
	return b
}

func (r *keyReader) tag(want byte) { require.Equal(r.t, string(want), string(r.byte())) }

func (r *keyReader) number() int {
	v, n := binary.Varint(r.key)
	require.Positive(r.t, n)
	r.key = r.key[n:]
	return int(v)
}

func (r *keyReader) numbers() []int {
	r.tag('[')
	out := make([]int, r.number())
	for i := range out {
		out[i] = r.number()
	}
	return out
}

func (r *keyReader) text() string {
	r.tag('s')
	n := r.number()
	out := string(r.key[:n])
	r.key = r.key[n:]
	return out
}

// layout reads an element type, a shape, and strides if there are some.
func (r *keyReader) layout() string {
	s := fmt.Sprint(ndarray.DType(r.byte()), r.numbers())
	if len(r.key) > 0 && r.key[0] == '[' {
		s += fmt.Sprint(r.numbers())
	}
	return s
}

// task reads the key of one assignment.
func (r *keyReader) task() string {
	var s strings.Builder
	sources := 0
	for {
		switch tag := r.byte(); tag {
		case 'l':
			sources++
			fmt.Fprintln(&s, "tensor", r.layout())
		case 'r':
			fmt.Fprintln(&s, "source", r.number())
		case 'n':
			dt, shape := ndarray.DType(r.byte()), r.numbers()
			size, err := ndarray.ByteSize(dt, shape)
			require.NoError(r.t, err)
			fmt.Fprintln(&s, "number", dt, shape, r.key[:size])
			r.key = r.key[size:]
		case 'v':
			fmt.Fprintln(&s, "view", r.numbers(), r.numbers(), r.numbers(), r.numbers(), "of", r.number())
		case 'o':
			fmt.Fprint(&s, "operator ", ndarray.DType(r.byte()), " ", r.text(), " ", r.text())
			r.tag('(')
			for range r.number() {
				fmt.Fprint(&s, " ", r.number())
			}
			fmt.Fprintln(&s)
		case '=':
			fmt.Fprintln(&s, "of", r.number())
			r.tag('d')
			fmt.Fprintln(&s, "to", r.layout())
			fmt.Fprintln(&s, "meets", r.key[:sources])
			require.Len(r.t, r.key, sources)
			return s.String()
		default:
			require.Fail(r.t, "no tag", "%d", tag)
		}
	}
}

// structure writes what a key is made of, with the numbers that the encoder gave.
type structure struct {
	strings.Builder
	c       *encoder
	seen    map[*node]bool
	sources int
}

func (s *structure) layout(n *node) string {
	text := fmt.Sprint(n.dt, n.shape)
	if w := n.place.window; w != nil {
		text += fmt.Sprint(w.Strides)
	}
	return text
}

func (s *structure) node(n *node) {
	if n == nil || s.seen[n] {
		return
	}
	for _, x := range n.in {
		s.node(x)
	}
	s.seen[n] = true
	switch {
	case n.kind == leaf && s.c.t.indexOf[n] < s.sources:
		fmt.Fprintln(s, "source", s.c.t.indexOf[n])
	case n.kind == leaf:
		s.sources++
		fmt.Fprintln(s, "tensor", s.layout(n))
	case n.kind == number:
		fmt.Fprintln(s, "number", n.dt, n.shape, n.value.Data)
	case n.kind == looked:
		fmt.Fprintln(s, "view", n.view.shape, n.view.start, n.view.of, n.view.step, "of", s.c.index[n.in[0]])
	default:
		fmt.Fprint(s, "operator ", n.dt, " ", n.op.name, " ", n.op.text)
		for _, x := range n.in {
			at := -1
			if x != nil {
				at = s.c.index[x]
			}
			fmt.Fprint(s, " ", at)
		}
		fmt.Fprintln(s)
	}
}

// TestKeysSayTheStructure reads keys of expressions drawn at random back, with as many nodes as numbers of one byte reach: what can
// be read back from a key alone has no key in common with anything else.
func TestKeysSayTheStructure(t *testing.T) {
	most := 0
	for seed := range uint64(300) {
		d := &drawer{Rand: rand.New(rand.NewPCG(seed, 11)), exact: true, memory: map[ndarray.DType]*ndarray.Array{}}
		shape := d.shape()
		parts := make([]*node, 1+d.IntN(20))
		for i := range parts {
			parts[i] = d.expr(ndarray.Float32, shape, d.IntN(6))
		}
		j := job{d.tensor(ndarray.Float32, shape, true), each("Sum", ndarray.Float32, nil, append(parts, nil)...)}
		require.NoError(t, j.check())
		c := &encoder{index: map[*node]int{}, t: task{indexOf: map[*node]int{}}}
		c.add(j)
		c.finish()
		require.NoError(t, c.err)
		want := &structure{c: c, seen: map[*node]bool{}}
		want.node(j.src)
		var meets []byte
		for _, m := range c.t.meets[0] {
			meets = append(meets, byte(m))
		}
		fmt.Fprintf(want, "of %d\nto %s\nmeets %d\n", c.index[j.src], want.layout(j.dst), meets)
		require.Equal(t, want.String(), (&keyReader{t, c.key}).task(), "seed %d", seed)
		most = max(most, len(c.index))
	}
	assert.Greater(t, most, 64)
}
