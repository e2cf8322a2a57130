package rules

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth/internal/graphgen"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

func parse(t *testing.T, body string) *ssa.Graph {
	t.Helper()
	g, err := ssa.ParseGraph("graph \"g\" {\n" + body + "\n}")
	require.NoError(t, err)
	require.NoError(t, ops.InferGraph(g))
	return g
}

// TestRules plans small graphs whose arenas are found by hand; 64 floats are 256
// bytes, the size of an ONNX Runtime block.
func TestRules(t *testing.T) {
	const (
		// x and the constants are not counted
		chain = `in %x: float32[64]
  %a: float32[64] = Softmax(%x)
  %b: float32[64] = Relu(%a)
  %c: float32[64] = Exp(%b)
  out %c`
		// a is read again after Relu: no tool may write over it there
		twice = `in %x: float32[64]
  %a: float32[64] = Softmax(%x)
  %b: float32[64] = Relu(%a)
  %c: float32[64] = Mul(%a, %b)
  %d: float32[64] = Softmax(%c)
  out %d`
		// a result of a third of the size, then one of the size again
		sizes = `in %x: float32[64]
  in %y: float32[16]
  %a: float32[64] = Softmax(%x)
  %b: float32[1] = ReduceSum(%a)
  %c: float32[16] = Mul(%b, %y)
  %d: float32[16] = Softmax(%c)
  out %d`
	)
	cases := []struct {
		graph string
		want  map[string]int64
	}{
		{chain, map[string]int64{
			"rule:onnxruntime": 512, // b over a; c is a result of the graph
			"rule:tflite":      512, "rule:tflite-2020": 512, "rule:tvm": 512, "rule:tvm-usmp": 512,
			"rule:onnxsim": 256, // all in one
		}},
		{twice, map[string]int64{
			"rule:onnxruntime": 512, // c over a or b, d where the other was
			"rule:tflite":      512, // a has two readers, b one: c over b
			"rule:tflite-2020": 768, "rule:tvm": 768, "rule:tvm-usmp": 768,
			"rule:onnxsim": 512,
		}},
		{sizes, map[string]int64{
			"rule:tflite-2020": 320, // a beside b; c and d where a was
			"rule:tvm":         320, // c in the token of a, d in that of b
			"rule:onnxsim":     260,
		}},
	}
	for _, c := range cases {
		g := parse(t, c.graph)
		for _, tool := range Tools() {
			p, err := tool.Plan(t.Context(), g)
			require.NoError(t, err)
			assert.Empty(t, p.Unsound(), tool.Name)
			if want, ok := c.want[tool.Name]; ok {
				assert.Equal(t, want, p.Arena, "%s:\n%s", tool.Name, c.graph)
			}
		}
	}
}

const captured = `in %x: float32[64]
  in %c: bool[]
  %a: float32[64] = Mul(%x, %x)
  %e: float32[64] = Exp(%a)
  %r: float32[64] = If(%c | %a, %e) {
    then_branch: graph "then" {
      in %p: float32[64]
      in %q: float32[64]
      %s: float32[64] = Add(%p, %q)
      out %s
    }
    else_branch: graph "else" {
      in %p2: float32[64]
      in %q2: float32[64]
      %u: float32[64] = Neg(%q2)
      %w: float32[64] = Softmax(%u)
      out %w
    }
  }
  out %r`

// TestBodies: what a node holds for its branches differs by tool, and one of them
// writes over a value that a branch still reads.
func TestBodies(t *testing.T) {
	g := parse(t, captured)
	want := map[string]int64{
		"rule:onnxruntime": 5 * 256, // a, e, r, and the larger branch, which takes two blocks
		"rule:tflite":      6 * 256, // a, e, r, and the branches' arenas, of one and of two
		"rule:tvm":         5 * 256,
		"rule:onnxsim":     (1 + 1 + 2 - 1 + 1) * 256, // e over a, r, and a block for each branch, u in w
	}
	for _, tool := range Tools() {
		p, err := tool.Plan(t.Context(), g)
		require.NoError(t, err)
		if w, ok := want[tool.Name]; ok {
			assert.Equal(t, w, p.Arena, tool.Name)
		}
		if tool.blind {
			assert.Contains(t, p.Unsound(), `finds "a" overwritten`)
		} else {
			assert.Empty(t, p.Unsound(), tool.Name)
		}
	}
}

// TestReplay breaks sound plans: a buffer moved onto another that is needed is found.
func TestReplay(t *testing.T) {
	g := parse(t, `in %x: float32[8, 8]
  %a: float32[8, 8] = Softmax(%x)
  %b: float32[8, 8] = Softmax(%a)
  %c: float32[8, 8] = MatMul(%a, %b)
  out %c, %b`)
	tool := Tools()[0]
	p, err := tool.Plan(t.Context(), g)
	require.NoError(t, err)
	require.Empty(t, p.Unsound())
	for i := range p.offsets {
		for k := range p.offsets {
			if i == k {
				continue
			}
			kept := p.offsets[i]
			p.offsets[i] = p.offsets[k]
			assert.NotEmpty(t, p.replay(), "buffer %d at %d's place", i, k)
			p.offsets[i] = kept
		}
	}
}

// TestSoundOnRandomGraphs: except for the rule that does not look at captures, every
// rule gives plans that the replay finds nothing wrong with, never below what must be
// live at once.
func TestSoundOnRandomGraphs(t *testing.T) {
	n := 300
	if testing.Short() {
		n = 40
	}
	unsound := 0
	for seed := range n {
		g, err := graphgen.New(uint64(seed), graphgen.Config{Nodes: 20})
		require.NoError(t, err)
		for _, tool := range Tools() {
			p, err := tool.Plan(t.Context(), g)
			require.NoError(t, err, "seed %d, %s", seed, tool.Name)
			if tool.blind {
				if p.Unsound() != "" {
					unsound++
				}
				continue
			}
			assert.Empty(t, p.Unsound(), "seed %d, %s", seed, tool.Name)
		}
	}
	assert.Positive(t, unsound, "graphs with a value that is captured after its last direct reader")
}

func TestTokens(t *testing.T) {
	cases := []struct {
		buffers []buffer
		offsets []int64
		arena   int64
	}{
		{[]buffer{{size: 100, lo: 0, hi: 1}, {size: 50, lo: 1, hi: 2}}, []int64{0, 0}, 100},
		{[]buffer{{size: 50, lo: 0, hi: 1}, {size: 100, lo: 1, hi: 2}}, []int64{0, 0}, 100}, // grows
		{[]buffer{{size: 1700, lo: 0, hi: 1}, {size: 100, lo: 1, hi: 2}}, []int64{0, 1700}, 1800},
		{[]buffer{{size: 100, lo: 0, hi: 2}, {size: 100, lo: 1, hi: 2}}, []int64{0, 100}, 200},
		{[]buffer{{size: 10, lo: 0, hi: 1}, {size: 40, lo: 0, hi: 1}, {size: 90, lo: 0, hi: 1}, {size: 50, lo: 1, hi: 2}, {size: 60, lo: 1, hi: 2}},
			[]int64{0, 10, 70, 70, 10}, 160},
	}
	for i, c := range cases {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			at, arena := tokens(c.buffers, 1)
			assert.Equal(t, c.offsets, at)
			assert.Equal(t, c.arena, arena)
		})
	}
}
