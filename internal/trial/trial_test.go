package trial_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth/internal/trial"
	_ "github.com/berth-onnx/berth/ops/standard"
	"github.com/berth-onnx/berth/ssa"
)

func parse(t *testing.T, text string) *ssa.Graph {
	t.Helper()
	g, err := ssa.ParseGraph(`graph "g" { ` + text + ` }`)
	require.NoError(t, err)
	return g
}

// TestCompared finds constants through conversions, in bodies, and on both sides of a comparison; not of floats and tensors.
func TestCompared(t *testing.T) {
	for _, c := range []struct {
		name, graph string
		want        map[string][]int64
	}{
		{"equation", `in %i: int64[] const %k: int64[] = 7 %y = Equal(%i, %k) out %y`, map[string][]int64{"i": {7}}},
		{"order, turned", `in %i: int32[1] const %k: int32[] = 7 %y = Less(%k, %i) out %y`, map[string][]int64{"i": {7, 6, 8}}},
		{"converted", `in %i: int64[] const %k: float32[] = 7 const %a: int64[1] = [0] %f = Cast(%i) [to=1] %u = Unsqueeze(%f, %a) %l = Unsqueeze(%k, %a) %y = Equal(%u, %l) out %y`, map[string][]int64{"i": {7}}},
		{"in a branch", `in %i: int64[] in %c: bool[] %y = If(%c | %i) { then_branch: graph "t" { in %j: int64[] const %k: int64[] = 7 %a = Equal(%j, %k) out %a }
			else_branch: graph "e" { in %j: int64[] const %k: int64[] = 9 %b = Equal(%j, %k) out %b } } out %y`, map[string][]int64{"i": {7, 9}}},
		{"no whole number", `in %i: int64[] const %k: float32[] = 7.5 %f = Cast(%i) [to=1] %y = Equal(%f, %k) out %y`, map[string][]int64{}},
		{"computed", `in %i: int64[] const %k: int64[] = 7 %n = Neg(%i) %y = Equal(%n, %k) out %y`, map[string][]int64{}},
		{"a matrix", `in %i: int64[2,N] const %k: int64[] = 7 %y = Equal(%i, %k) out %y`, map[string][]int64{}},
	} {
		t.Run(c.name, func(t *testing.T) { assert.Equal(t, c.want, trial.Compared(parse(t, c.graph))) })
	}
}

func TestChoices(t *testing.T) {
	assert.Empty(t, trial.Choices(nil))
	assert.Equal(t, []map[string]int64{{"a": 1, "b": 3}, {"a": 2, "b": 3}, {"a": 1, "b": 4}}, trial.Choices(map[string][]int64{"b": {3, 4}, "a": {1, 2}}))
}

// TestWords finds strings in constants, attributes and bodies, mixed with others; numerals where strings become numbers.
func TestWords(t *testing.T) {
	words := trial.Words(parse(t, `in %s: string[N] const %k: string[2] = ["cat", "7"] %e = Equal(%s, %k) %l = "ai.onnx.ml"::LabelEncoder(%s) [keys_strings=["dog"], values_int64s=[1]] out %e, %l`))
	assert.Equal(t, []string{"cat", "berth", "7", "Berth", "dog", ""}, words[:6])
	assert.Len(t, words, 12, "each once")
	assert.Equal(t, []string{"1", "-2.5", "0", "3e2", "7"}, trial.Words(parse(t, `in %s: string[N] %y = Cast(%s) [to=1] out %y`)))
}

func TestSizes(t *testing.T) {
	g := parse(t, `in %x: float32[N,T] const %w: float32[50,8] = splat 1 const %s: int64[3] = [-1, 0, 36] const %b: float32[99] = splat 1 %y = Identity(%x) out %y`)
	assert.Equal(t, []int{1575, 12, 6, 7, 8, 36, 50}, trial.Sizes(g, "dimensions 1575 and 12 differ, 1 is open"))
}

// TestSources follows parameters into bodies; what a loop counts and what is drawn at random is neither fixed nor of a parameter.
func TestSources(t *testing.T) {
	for _, c := range []struct {
		name, graph string
		want        []string
		fixed       bool
	}{
		{"two parameters", `in %a: float32[] in %b: float32[] in %c: float32[] %s = Add(%c, %a) %y = Neg(%s) out %y`, []string{"a", "c"}, false},
		{"a constant", `in %a: float32[] const %k: float32[] = 1 %y = Neg(%k) out %y`, nil, true},
		{"a random number", `in %a: float32[] %y = RandomNormal() [shape=[1]] out %y`, nil, false},
		{"random numbers of a constant's shape", `in %a: float32[] const %k: float32[] = 1 %y = RandomNormalLike(%k) out %y`, nil, false},
		{"drawn with a constant", `in %a: float32[] const %k: float32[] = 0.5 %y = Bernoulli(%k) out %y`, nil, false},
		{"a branch", `in %a: float32[] in %c: bool[] const %k: float32[] = 1 %y = If(%c | %k) { then_branch: graph "t" { in %p: float32[] %r = Neg(%p) out %r } else_branch: graph "e" { in %q: float32[] out %q } } out %y`, []string{"c"}, false},
		{"an iteration", `in %a: float32[] const %n: int64[] = 3 const %z: int64[] = 0 %y = Loop(%n, _, %z) { body: graph "b" { in %i: int64[] in %c: bool[] in %p: int64[] %q = Add(%p, %i) out %c, %q } } out %y`, nil, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := parse(t, c.graph)
			s := trial.SourcesOf(g)
			assert.Equal(t, c.want, s.Names(g.Results[0]))
			assert.Equal(t, c.fixed, s.Fixed(g.Results[0]))
		})
	}
}
