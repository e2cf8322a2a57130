package program

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth/ndarray"
)

// TestRunsLeaveNothingOfTheCaller: after a run a session holds neither its context, whose end is no matter of later calls, nor
// its inputs.
func TestRunsLeaveNothingOfTheCaller(t *testing.T) {
	for _, graph := range []string{
		`in %x: float32[262145] const %s: int64[2] = [1,262145] %a = Reshape(%x, %s) %y = Neg(%x) out %y, %a`,
		`in %x: float32[N] %y = Neg(%x) out %y, %x`,
		`in %x: float32[N] const %n: int64[] = 3 %y = Loop(%n, _, %x) { body: graph "b" { in %i: int64[] in %c: bool[] in %p: float32[?] %q = Neg(%p) out %c, %q } } out %y`,
	} {
		_, _, s := started(t, `graph "g" {`+graph+`}`)
		ctx, cancel := context.WithCancel(t.Context())
		out, err := s.Run(ctx, []ndarray.Value{ndarray.Must(ndarray.Float32, 1<<18+1)})
		require.NoError(t, err, graph)
		cancel()
		assert.Nil(t, s.ctx, graph)
		for i := range s.calls {
			assert.Nil(t, s.calls[i].Ctx, graph)
		}
		for i := range s.p.Slots {
			if k := s.p.Slots[i].Kind; k != SlotConst && k != SlotArena {
				assert.Nil(t, s.heads[i].Data, graph)
				if !s.p.Slots[i].Static {
					assert.Nil(t, s.vals[i], graph)
				}
			}
		}
		_, err = s.Run(t.Context(), out[:1])
		require.NoError(t, err, graph)
	}
}

// TestCallsKeepNothing: after a run, also one that failed, no call of a node of unknown sizes has operands, results or a workspace: all
// calls share the session's, and one of them grows it.
func TestCallsKeepNothing(t *testing.T) {
	_, _, s := started(t, `graph "g" { in %x: float32[N] in %i: int64[M] %a = Neg(%x) %y = Gather(%a, %i) out %y }`)
	for _, index := range []int64{0, 9} {
		s.work = make([]byte, 64)
		_, err := s.Run(t.Context(), []ndarray.Value{ndarray.Must(ndarray.Float32, 2), ndarray.Of([]int64{index}, 1)})
		require.Equal(t, index == 9, err != nil)
		for _, c := range s.calls {
			assert.Nil(t, c.Scratch)
			for _, v := range append(c.In, c.Out...) {
				assert.Nil(t, v)
			}
		}
	}
}

// TestKeysTellRanksApart: shapes of 256 dimensions more are another key.
func TestKeysTellRanksApart(t *testing.T) {
	long := make([]int, 257)
	for i := range long {
		long[i] = 1
	}
	key := func(shapes ...[]int) string {
		var in []ndarray.Value
		for _, shape := range shapes {
			in = append(in, &ndarray.Array{DType: ndarray.Float32, Shape: shape})
		}
		k, ok := appendShapes(nil, in)
		require.True(t, ok)
		return string(k)
	}
	float := long[:0]
	assert.NotEqual(t, key(long[:256]), key(float), "256 and 0 dimensions")
	odd := append(append([]int{}, long[:255]...), int(ndarray.Float32))
	assert.NotEqual(t, key(odd, long[:1]), key(float, long), "the same numbers in other shapes")
}
