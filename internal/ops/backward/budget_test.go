package backward

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// TestInPlaceBudget: results over operands take a copy, for which the call's memory is asked, and the others none. Both are equal.
func TestInPlaceBudget(t *testing.T) {
	filled := func(shape ...int) *ndarray.Array {
		a := ndarray.Must(ndarray.Float64, shape...)
		for i := range a.Len() {
			a.SetFloat(i, float64(i*7%11)-3)
		}
		return a
	}
	window := []ssa.Attr{ssa.IntsAttr("kernel_shape", 2), ssa.IntsAttr("strides", 2), ssa.IntsAttr("dilations", 1), ssa.IntsAttr("pads", 0, 0)}
	for _, c := range []struct {
		op    *ops.Op
		in    func() []ndarray.Value
		over  int // the operand that the result may lie over
		attrs []ssa.Attr
	}{
		{&Accumulate, func() []ndarray.Value { return []ndarray.Value{filled(3, 4), filled(4, 5), filled(3, 5)} }, 2, []ssa.Attr{ssa.FloatAttr("beta", 0.5)}},
		{&MaxPoolGradient, func() []ndarray.Value { return []ndarray.Value{filled(2, 3, 8), filled(2, 3, 4)} }, 0, window},
	} {
		t.Run(c.op.Name, func(t *testing.T) {
			g := ssa.NewGraph("g")
			run := func(inPlace bool, memory ndarray.Budget) (*ndarray.Array, error) {
				in := c.in()
				var params []*ssa.Value
				for _, v := range in {
					a := v.(*ndarray.Array)
					params = append(params, g.AddParam("", ssa.StaticTensor(a.DType, a.Shape...)))
				}
				n := g.NewNode(c.op.Name, params, 1, c.attrs...)
				n.Domain = c.op.Domain
				require.NoError(t, ops.Infer(n))
				over := in[c.over].(*ndarray.Array)
				out := ndarray.Must(over.DType, over.Shape...)
				if inPlace {
					out = over
				}
				err := c.op.Eval(&ops.Call{Ctx: t.Context(), Node: n, In: in, Out: []ndarray.Value{out}, Threads: 1, Memory: memory})
				return out, err
			}
			want, err := run(false, 1)
			require.NoError(t, err)
			_, err = run(true, 1)
			assert.True(t, errors.As(err, new(*ops.MemoryError)), "%v", err)
			got, err := run(true, 0)
			require.NoError(t, err)
			assert.Equal(t, want.Data, got.Data)
		})
	}
}
