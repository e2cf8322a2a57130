package program_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth/internal/graphgen"
	"github.com/berth-onnx/berth/internal/program"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// work is a branch that needs a temporary tensor of its own, named name.
func work(branch, name string) string {
	return fmt.Sprintf("%s_branch: graph %q { in %%a: float32[16,16] %%%s = MatMul(%%a, %%a) %%r = MatMul(%%%s, %%a) out %%r }", branch, name, name, name)
}

// fourWays is a choice of four branches: an If in either branch of an If.
var fourWays = `graph "four" {
  in %x: float32[16,16]
  in %c: bool[]
  in %d: bool[]
  %m = MatMul(%x, %x)
  %y = If(%c | %m, %d) {
    then_branch: graph "left" { in %a: float32[16,16] in %e: bool[] %r = If(%e | %a) { ` + work("then", "t0") + work("else", "t1") + ` } out %r }
    else_branch: graph "right" { in %a: float32[16,16] in %e: bool[] %r = If(%e | %a) { ` + work("then", "t2") + work("else", "t3") + ` } out %r }
  }
  out %y
}`

// TestBranchesShareScratch: only one of four branches runs, so their temporaries lie at
// one address and their results at another.
func TestBranchesShareScratch(t *testing.T) {
	g, err := ssa.ParseGraph(fourWays)
	require.NoError(t, err)
	require.NoError(t, ops.InferGraph(g))
	p, err := program.Compile(t.Context(), g, program.Options{})
	require.NoError(t, err)

	var temps, results []int64
	for _, s := range p.Slots {
		switch {
		case s.Kind != program.SlotArena:
		case s.Value.Name[0] == 't':
			temps = append(temps, s.Offsets...)
		case s.Value.Name == "r" && s.Value.Def.Op == "MatMul":
			results = append(results, s.Offsets...)
		}
	}
	require.Len(t, temps, 4)
	require.Len(t, results, 4)
	for i := range 4 {
		assert.Equal(t, temps[0], temps[i])
		assert.Equal(t, results[0], results[i])
	}
	assert.EqualValues(t, 3*16*16*4, p.ArenaBytes, "what they read, a temporary and a result")

	s, err := p.NewSession()
	require.NoError(t, err)
	s.Poison = true
	for _, c := range []bool{false, true} {
		for _, d := range []bool{false, true} {
			in := []ndarray.Value{ndarray.Must(ndarray.Float32, 16, 16), ndarray.Scalar(c), ndarray.Scalar(d)}
			for i := range 256 {
				in[0].(*ndarray.Array).SetFloat(i, float64(i%7-3)/16)
			}
			want, err := ops.Interpret(t.Context(), g, in, nil)
			require.NoError(t, err)
			got, err := s.Run(t.Context(), in)
			require.NoError(t, err)
			assert.Empty(t, graphgen.Noise.Diff(got, want), "%v %v", c, d)
		}
	}
}
