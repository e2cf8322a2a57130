package rewrite

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth/internal/graphgen"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

func TestUnroll(t *testing.T) {
	const loop = `graph "g" {
  in %x: float32[2]
  in %w: float32[2]
  const %n: int64[] = COUNT
  %y, %s = Loop(%n, _, %x | %w) {
    body: graph "b" {
      in %i: int64[]
      in %c: bool[]
      in %p: float32[2]
      in %q: float32[2]
      %a = Mul(%p, %q)
      %f = Cast(%i) [to=1]
      %d = Add(%a, %f)
      out %c, %d, %a
    }
  }
  out %y, %s
}`
	for _, c := range []struct {
		name   string
		text   string
		unroll bool
		loops  int
	}{
		{"three iterations", strings.ReplaceAll(loop, "COUNT", "3"), true, 0},
		{"not asked for", strings.ReplaceAll(loop, "COUNT", "3"), false, 1},
		{"too many", strings.ReplaceAll(loop, "COUNT", "65"), true, 1},
		{"random", strings.NewReplacer("COUNT", "3", "Mul(%p, %q)", "RandomUniformLike(%p) [seed=3.0]").Replace(loop), true, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			before, err := ssa.ParseGraph(c.text)
			require.NoError(t, err)
			require.NoError(t, ops.InferGraph(before))
			after, _ := before.Clone()
			_, err = Run(context.Background(), &ssa.Module{Graph: after, Opsets: []ssa.Opset{{Version: 18}}}, Options{Unroll: c.unroll, Check: true})
			require.NoError(t, err)
			loops := 0
			for _, n := range after.Nodes {
				if n.Op == "Loop" {
					loops++
				}
			}
			assert.Equal(t, c.loops, loops)
			assert.NoError(t, graphgen.Agree(context.Background(), before, after, 1, 3))
		})
	}
}
