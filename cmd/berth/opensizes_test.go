package main

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth"
	"github.com/berth-onnx/berth/ssa"
)

// TestOpenSizes runs models whose open dimensions may not be one.
func TestOpenSizes(t *testing.T) {
	for _, c := range []struct {
		name, graph string
		args        []string
		note        string // on standard error; what is taken
		fails       string // with this text
	}{
		{name: "a window of seven", graph: `in %x: float32[N,1,T] const %w: float32[2,1,7] = splat 1 %y = Conv(%x, %w) out %y`,
			note: "they were taken as --shape x=1x1x16"},
		{name: "a signal without a batch", graph: `in %x: float32[T] const %a: int64[2] = [0, 1] %u = Unsqueeze(%x, %a)
			const %w: float32[2,1,7] = splat 1 %y = Conv(%u, %w) out %y`, note: "they were taken as --shape x=16"},
		{name: "one is enough", graph: `in %x: float32[N,T] %y = Neg(%x) out %y`, note: "they were taken as --shape x=1x1"},
		{name: "what is given stays", graph: `in %x: float32[N,1,T] const %w: float32[2,1,7] = splat 1 %y = Conv(%x, %w) out %y`,
			args: []string{"--shape", "x=1x1x1"}, fails: "the window spans 7"},
		{name: "so does a symbol", graph: `in %x: float32[N,1,T] const %w: float32[2,1,7] = splat 1 %y = Conv(%x, %w) out %y`,
			args: []string{"--dim", "T=3"}, fails: "the window spans 7"},
		{name: "a size that only a weight has", graph: `in %x: float32[N,T] const %w: float32[1575,2] = splat 1 %y = MatMul(%x, %w) out %y`, note: "they were taken as --shape x=1x1575"},
		{name: "two sizes, one after the other", graph: `in %x: float32[N,T] in %z: float32[N,S] const %v: float32[1575,2] = splat 1 const %w: float32[333,2] = splat 1
			%a = MatMul(%x, %v) %b = MatMul(%z, %w) %y = Add(%a, %b) out %y`, note: "they were taken as --shape x=1x1575 --shape z=1x333"},
		{name: "positions of an image's squares", graph: `in %x: float32[N,3,H,W] const %k: float32[8,3,16,16] = splat 0.1 const %e: float32[8,50] = splat 1 const %c: float32[1,1,8] = splat 1
			%a = Conv(%x, %k) [strides=[16, 16]] const %s: int64[3] = [0, 8, -1] %b = Reshape(%a, %s) %t = Transpose(%b) [perm=[0, 2, 1]] %d = Concat(%c, %t) [axis=1] %y = MatMul(%e, %d) out %y`,
			note: "they were taken as --shape x=1x3x112x112"},
		{name: "two that depend on each other", graph: `in %x: float32[T,N,3] const %w: float32[1,16,3] = splat 0.1 const %r: float32[1,16,4] = splat 0.1 const %n: int32[2] = [3, 2]
			%y = LSTM(%x, %w, %r, _, %n) [hidden_size=4] out %y`, note: "they were taken as --shape x=16x2x3"},
		{name: "a symbol twice in an input", graph: `in %x: float32[B,S,S] const %w: float32[7,2] = splat 1 %y = MatMul(%x, %w) out %y`, note: "they were taken as --shape x=1x7x7"},
		{name: "a symbol that is last in one of two inputs", graph: `in %x: float32[B,S,T] in %z: float32[B,S] const %w: float32[7,2] = splat 1 %a = MatMul(%z, %w) %y = Mul(%x, %x) out %a, %y`,
			note: "--shape z=1x7"},
		{name: "no size of a symbol that stands twice", graph: `in %x: float32[B,S,S] const %w: float32[7,2] = splat 1 const %v: float32[6,2] = splat 1 %a = MatMul(%x, %w) %b = MatMul(%x, %v) %y = Add(%a, %b) out %y`,
			fails: "the sizes of x are open and were guessed: give them with --shape or --dim"},
		{name: "no size does", graph: `in %x: float32[N,T] const %w: float32[1575,2] = splat 1 const %v: float32[1574,2] = splat 1 %a = MatMul(%x, %w) %b = MatMul(%x, %v) %y = Add(%a, %b) out %y`,
			fails: "the sizes of x are open and were guessed: give them with --shape or --dim"},
	} {
		t.Run(c.name, func(t *testing.T) {
			g, err := ssa.ParseGraph(`graph "g" { ` + c.graph + ` }`)
			require.NoError(t, err)
			path := filepath.Join(t.TempDir(), "open.onnx")
			require.NoError(t, berth.FromModule(&ssa.Module{Graph: g}).Save(path, berth.SaveOptions{}))
			for _, cmd := range [][]string{{"run", path}, {"bench", path, "--seconds", "0"}, {"diff", path, path}} {
				args := append(cmd, c.args...)
				if c.fails != "" {
					fails(t, exitFailed, []string{c.fails}, args...)
					continue
				}
				o := cli(t, args...)
				require.Zero(t, o.code, o.err)
				assert.Contains(t, o.err, c.note)
			}
		})
	}
}
