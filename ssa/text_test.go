package ssa

import (
	"context"
	"math"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth/internal/sysmem"
	"github.com/berth-onnx/berth/ndarray"
)

// sample uses every part of the text form.
const sample = `graph "main" {
  doc "what it is for"
  in %x: float32[N,4]
    doc "the input"
  in %c: bool[]
  in %"odd name:0": opt(seq(float32[...]))
  const %w: float32[2,2] = [1, -0, NaN, 1e-05]
  %y: float32[N,4] = MatMul(%x, %w) @"fc1"
    doc "a node"
    doc %y "a value"
  %/layer.1/s-1: int64[2]{N,4} = Shape(%y)
  const %k: int64[2] = [0, -1]
  const %one: float32[] = 1
  const %z: float32[64] = splat 0.5
  const %big: int8[20] = base64 "AQIDBAUGBwgJCgsMDQ4PEBESExQ="
  const %str: string[2] = ["a\"b", ""]
  const %cplx: complex64[1] = [(1+2i)]
  const %none: float16[0,3] = []
  %a: float32[N,2], _ = Split(%y, _, %k, %one, %z, %big, %str, %cplx, %none) [axis=1, alpha=1.0, eps=1e-06, mode="x y", e=ints[], fs=[1.0, +Inf], ss=["p", "q"], value=tensor(float32[1] = [2]), "odd attr"=-3, t=type(seq(int64[...])), ts=[tensor(bool[] = true), tensor(uint64[1] = [18446744073709551615])], n=nan:7fc00001, f0=floats[], s0=strings[], t0=tensors[]]
  %r: float32[N,4] = If(%c | %y, %z) @"choose" {
    then_branch: graph "then" {
      in %p: float32[N,4]
      in %q: float32[64]
      out %p
    }
    else_branch: graph "else" {
      in %p: float32[N,4]
      in %q: float32[64]
      const %two: float32[] = 2
      %m: float32[N,4] = Mul(%p, %two)
      out %m
    }
  }
  () = com.acme::Log/"over load"@3(%r)
  %o: unknown = opaque com.acme::"odd op"(%"odd name:0")
  out %r, %o, %k
}
`

func TestTextRoundTrip(t *testing.T) {
	g, err := ParseGraph(sample)
	require.NoError(t, err)
	require.NoError(t, Check(g))
	assert.Equal(t, sample, Format{Full: true}.Text(g))

	again, err := ParseGraph(Format{Full: true}.Text(g))
	require.NoError(t, err)
	assert.Empty(t, Compare{Names: true, Types: true}.Diff(g, again))
}

func TestTextShortForm(t *testing.T) {
	g, err := ParseGraph(sample)
	require.NoError(t, err)
	short := g.String()
	assert.Contains(t, short, "const %big: int8[20] = #")
	assert.NotContains(t, short, "doc ")
	_, err = ParseGraph(short)
	var pe *ParseError
	require.ErrorAs(t, err, &pe)
	assert.Contains(t, pe.Error(), "full form")
	assert.NotContains(t, Format{NoTypes: true}.Text(g), "%x: float32")
}

func TestTextLeavesOutDeadConstants(t *testing.T) {
	g := NewGraph("g")
	g.AddConst("dead", ScalarConst[float32](1))
	x := g.AddParam("x", StaticTensor(ndarray.Float32, 2))
	g.Results = []*Value{x}
	assert.Equal(t, "graph \"g\" {\n  in %x: float32[2]\n  out %x\n}\n", g.String())
}

func TestNaNPayloadSurvivesText(t *testing.T) {
	g := NewGraph("g")
	bits := []uint32{0x7fc00001, 0xffc00000, 0x7fc00000}
	for i, b := range bits {
		v := g.AddConst("c"+string(rune('0'+i)), ScalarConst(math.Float32frombits(b)))
		g.Results = append(g.Results, v)
	}
	back, err := ParseGraph(Format{Full: true}.Text(g))
	require.NoError(t, err)
	assert.Empty(t, Compare{Names: true}.Diff(g, back))
}

// TestOperatorNames: domains are read with dots and with colons, and names with dots of their own are told from them.
func TestOperatorNames(t *testing.T) {
	for text, want := range map[string][3]string{
		`Add`:                 {"", "Add", `Add`},
		`com.acme::Foo`:       {"com.acme", "Foo", `com.acme::Foo`},
		`com.acme.Foo`:        {"com.acme", "Foo", `com.acme::Foo`},
		`com.acme.Foo@3`:      {"com.acme", "Foo", `com.acme::Foo@3`},
		`"com.acme.Foo"`:      {"", "com.acme.Foo", `"com.acme.Foo"`},
		`com.acme::"odd.Foo"`: {"com.acme", "odd.Foo", `com.acme::odd.Foo`},
	} {
		g, err := ParseGraph(`graph "g" { %y = ` + text + `() out %y }`)
		require.NoError(t, err, text)
		n := g.Nodes[0]
		assert.Equal(t, want, [3]string{n.Domain, n.Op, opText(n)}, text)
		again, err := ParseGraph(g.String())
		require.NoError(t, err, text)
		assert.Equal(t, g.String(), again.String(), text)
	}
}

func TestParseErrorsNameThePlace(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"", `line 1 column 1: want "graph"`},
		{"graph \"g\" {\n  out %x\n}", `line 2 column 7: value "x" is not defined`},
		{"graph \"g\" {\n  in %x: float32[2]\n  in %x\n out }", `value "x" is defined twice`},
		{"graph \"g\" { const %c: float32[N] = [] out }", "static tensor type"},
		{"graph \"g\" { const %c: float32[2] = [1] out }", "1 elements for shape [2]"},
		{"graph \"g\" { const %c: int8[1] = [200] out }", "is no int8"},
		{"graph \"g\" { const %c: int8[2] = base64 \"AA==\" out }", "want 2 bytes"},
		{"graph \"g\" { const %c: float32[99999999999,99999999999] = [1] out }", "overflows"},
		{"graph \"g\" { %y = Foo() [a=other] out %y }", "has no text form"},
		{"graph \"g\" { %y = Foo() [a=[1, 2.0]] out %y }", "mixes kinds"},
		{"graph \"g\" { %y = Foo() [a=[[1]]] out %y }", "mixes kinds"},
		{"graph \"g\" { %y, %y = Foo() out %y }", "defined twice"},
		{"graph \"g\" { out } x", "text after the graph"},
		{strings.Repeat("graph \"g\" { () = If() { b: ", 100), "nested deeper"},
	} {
		_, err := ParseGraph(c.text)
		if assert.Error(t, err, c.text) {
			assert.Contains(t, err.Error(), c.want)
		}
	}
}

func FuzzParseGraph(f *testing.F) {
	f.Add(sample)
	f.Add(`graph "g" { in %x: float32[2] out %x }`)
	f.Fuzz(func(t *testing.T, s string) {
		if len(s) > 1<<12 {
			return
		}
		g, err := ParseGraph(s)
		if err != nil {
			return
		}
		text := Format{Full: true}.Text(g)
		if strings.Contains(text, "unreadable") {
			return // a splat too large to fill: it prints as such, but is never a file's
		}
		back, err := ParseGraph(text)
		require.NoError(t, err, text)
		require.Equal(t, text, Format{Full: true}.Text(back))
	})
}

// TestTextOfUnalignedConstants: elements at odd addresses of a file are hashed where they lie, no copy of them stays, and the context ends it.
func TestTextOfUnalignedConstants(t *testing.T) {
	const copies, size = 64, 1 << 20
	g := NewGraph("main")
	file := make([]byte, size+1)
	for range copies {
		a := &ndarray.Array{DType: ndarray.Float32, Shape: []int{size / 4}, Data: file[1:]}
		g.Results = append(g.Results, g.AddConst("w", NewConstant(a)))
	}
	var text strings.Builder
	before := allocated()
	require.NoError(t, Format{}.WriteContext(t.Context(), &text, g))
	assert.Less(t, allocated()-before, uint64(size))
	assert.Contains(t, text.String(), "= #")
	for _, v := range g.Results {
		assert.Nil(t, v.Const.arr)
	}
	ended, end := context.WithCancel(t.Context())
	end()
	require.ErrorIs(t, Format{}.WriteContext(ended, &text, g), context.Canceled)
}

// allocated is how many bytes the process has allocated so far.
func allocated() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.TotalAlloc
}

// TestTextWithinBudget: a constant that can not be unpacked within the budget is the error of the text; one that can not be read is said to be so in it.
func TestTextWithinBudget(t *testing.T) {
	text := func(load func(ndarray.Budget) (*ndarray.Array, error), f Format) (string, error) {
		g := NewGraph("main")
		g.Results = append(g.Results, g.AddConst("w", NewLazyIn(ndarray.Int4, []int{1 << 20}, load)))
		var out strings.Builder
		err := f.WriteContext(ndarray.Budget(64<<20).In(t.Context()), &out, g)
		return out.String(), err
	}
	for _, f := range []Format{{}, {Full: true}} {
		got, err := text(func(b ndarray.Budget) (*ndarray.Array, error) { return nil, b.Ask("the elements", 1<<40) }, f)
		var full *sysmem.Error
		require.ErrorAs(t, err, &full)
		assert.Contains(t, got, "unreadable")
		got, err = text(func(ndarray.Budget) (*ndarray.Array, error) { return nil, errTaken }, f)
		require.NoError(t, err)
		assert.Contains(t, got, "unreadable")
	}
}
