package older_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	_ "github.com/berth-onnx/berth/internal/older"

	"github.com/berth-onnx/berth/internal/graphgen"
	"github.com/berth-onnx/berth/internal/rewrite"
	_ "github.com/berth-onnx/berth/ops/standard"

	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// nodes are written in an operator set, and in none before it.
var nodes = []struct {
	opset int
	text  string
}{
	{6, `in %x: float32[N,3] %y = Gelu(%x) [approximate="tanh"] out %y`},
	{9, `in %x: float32[N,3] %y = Gelu(%x) out %y`},
	{6, `in %x: float32[N,3] %y = Celu(%x) [alpha=1.5] out %y`},
	{6, `in %x: float32[N,3] %y = Swish(%x) [alpha=0.5] out %y`},
	{6, `in %x: float32[2,3] %y = Swish(%x) out %y`},
	{6, `in %x: float32[N,3] in %b: float32[N,3] %y = SwiGLU(%x, %b) out %y`},
	{6, `in %x: float32[N,3] %y = Mish(%x) out %y`},
	{1, `in %x: float64[N,3] %y = HardSwish(%x) out %y`},
	{11, `in %x: float32[N,3] in %b: float32[3] %y = GreaterOrEqual(%x, %b) out %y`},
	{9, `in %x: int64[N,3] in %b: int64[3] %y = LessOrEqual(%x, %b) out %y`},
	{1, `in %x: float32[N,3] in %b: int32[1] %y = CastLike(%x, %b) out %y`},
	{6, `in %x: float32[N,4,3] in %s: float32[3] in %b: float32[3] %y, %m, %i = LayerNormalization(%x, %s, %b) [axis=-1] out %y, %m, %i`},
	{6, `in %x: float16[N,4,3] in %s: float16[4,3] %y = LayerNormalization(%x, %s) [axis=1] out %y`},
	{6, `in %x: float32[N,3] in %s: float32[3] %y = RMSNormalization(%x, %s) out %y`},
	{6, `in %x: float32[N,4,3] in %s: float64[4,3] %y = RMSNormalization(%x, %s) [axis=-2] out %y`},
	{6, `in %x: float32[N,4,W,5] in %s: float32[4] in %b: float32[4] %y = GroupNormalization(%x, %s, %b) [num_groups=2] out %y`},
	{1, `in %x: float32[A,B,C] %y = Shape(%x) [start=1, end=-1] out %y`},
	{11, `in %x: float32[A,B,C] in %k: int64[] %y = Trilu(%x, %k) [upper=0] out %y`},
	{11, `in %x: float32[2,4,3] const %k: int64[] = -1 %y = Trilu(%x, %k) out %y`},
	{11, `in %x: bool[A,B] %y = Trilu(%x) out %y`},
	{12, `in %x: float32[A,5,3] const %k: int64[2] = [2, 8] %y = CenterCropPad(%x, %k) [axes=[1, -1]] out %y`},
	{12, `in %x: float32[A,5] const %k: int32[2] = [3, 2] %y = CenterCropPad(%x, %k) out %y`},
	{11, `in %x: float32[1,2,4,4] const %k: int64[2] = [6, 3] %y = Resize(%x, _, _, %k) [axes=[3, 2], mode="linear"] out %y`},
	{11, `in %x: float32[1,2,4,4] const %k: float32[2] = [2, 1.5] %y = Resize(%x, _, %k) [axes=[2, 3]] out %y`},
	{11, `in %x: float32[1,2,4,4] const %r: float32[4] = [0.1, 0.2, 0.9, 0.7] const %k: float32[2] = [2, 1.5] %y = Resize(%x, %r, %k) [axes=[2, 3], mode="linear", coordinate_transformation_mode="tf_crop_and_resize"] out %y`},
	{11, `in %x: float32[1,2,4,4] const %k: int64[4] = [1, 2, 6, 3] %y = Resize(%x, _, _, %k) [mode="linear", coordinate_transformation_mode="half_pixel_symmetric"] out %y`},
	{1, `in %x: float32[N,S,12] %d = Shape(%x) [start=0, end=2] const %k: int64[2] = [3, 4] %t = Concat(%d, %k) [axis=0] %y = Reshape(%x, %t) [allowzero=1] out %y`},
	{11, `in %x: float32[N,S,12] %d = Shape(%x) const %k: int64[3] = [1, 2, 0] %t = Gather(%d, %k) %y = Reshape(%x, %t) [allowzero=1] out %y`},
	{1, `in %x: float32[N,S,12] %n = Size(%x) const %k: int64[2] = [12, -1] const %l: int64[] = 12 const %z: int64[1] = 0 %r = Div(%n, %l) %u = Unsqueeze(%r, %z) const %q: int64[1] = 12 %t = Concat(%u, %q) [axis=0] %y = Reshape(%x, %t) [allowzero=1] out %y`},
	{7, `in %x: float32[B,S,3] in %w: float32[1,16,3] in %r: float32[1,16,4] in %h: float32[B,1,4] %y, %z, %c = LSTM(%x, %w, %r, _, _, %h, %h) [hidden_size=4, layout=1] out %y, %z, %c`},
	{7, `in %x: float32[B,S,3] in %w: float32[2,12,3] in %r: float32[2,12,4] _, %z = GRU(%x, %w, %r) [hidden_size=4, layout=1, direction="bidirectional"] out %z`},
	{9, `in %q: float32[N,4,S,8] in %k: float32[N,2,T,8] in %v: float32[N,2,T,5] in %m: bool[S,T] %y = Attention(%q, %k, %v, %m) [softcap=2.0] out %y`},
	{11, `in %q: float32[N,S,8] in %k: float32[N,S,8] in %p: float32[N,2,P,4] %y, %a, %b = Attention(%q, %k, %k, _, %p, %p) [q_num_heads=2, kv_num_heads=2, is_causal=1, scale=0.3] out %y, %a, %b`},
	{1, `in %q: float32[N,S,8] in %m: float32[S,S] %y = Attention(%q, %q, %q, %m) [q_num_heads=2, kv_num_heads=2] out %y`},
}

// TestOlder: what nodes compute is written in the oldest operator set that has the operators of their formulas.
func TestOlder(t *testing.T) {
	for i, c := range nodes {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			before, err := ssa.ParseGraph(`graph "g" { ` + c.text + ` }`)
			require.NoError(t, err, c.text)
			require.NoError(t, ops.InferGraph(before))
			fits := func(version int) *ssa.Graph {
				g, _ := before.Clone()
				m := &ssa.Module{Graph: g}
				_, err := rewrite.Run(context.Background(), m, rewrite.Options{Only: []string{"older"}, MaxOpset: version, Check: true})
				require.NoError(t, err)
				for _, n := range m.Graph.Nodes {
					if !ops.FitsIn(n, version) {
						return nil
					}
				}
				return m.Graph
			}
			first := 1
			for fits(first) == nil {
				first++
			}
			assert.Equal(t, c.opset, first, c.text)
			after := fits(first)
			require.NoError(t, graphgen.Agree(context.Background(), before, after, uint64(i), 5), "%s\n%s", c.text, after)
		})
	}
}

// TestNoOlder: nodes that no operators of operator set 13 write stay.
func TestNoOlder(t *testing.T) {
	for _, text := range []string{
		`in %x: float32[1,2,4,4] const %k: int64[4] = [1, 2, 2, 3] %y = Resize(%x, _, _, %k) [mode="linear", antialias=1] out %y`,
		`in %x: float32[N,S] in %t: int64[2] %y = Reshape(%x, %t) [allowzero=1] out %y`,
		`in %x: float32[...] in %s: float32[3] in %b: float32[3] %y = LayerNormalization(%x, %s, %b) [axis=1] out %y`,
		`in %q: float32[1,2,3,4] %y = Attention(%q, %q, %q) [left_window_size=1] out %y`,
		`in %q: float32[1,2,3,4] in %m: float32[3,2] %y = Attention(%q, %q, %q, %m) out %y`,
		`in %x: int32[3] %y = BitwiseNot(%x) out %y`,
	} {
		g, err := ssa.ParseGraph(`graph "g" { ` + text + ` }`)
		require.NoError(t, err, text)
		m := &ssa.Module{Graph: g}
		_, err = rewrite.Run(context.Background(), m, rewrite.Options{Only: []string{"older"}, MaxOpset: 13})
		require.NoError(t, err, text)
		require.Len(t, m.Graph.Nodes, 1, text)
	}
}
