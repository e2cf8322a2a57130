package ops_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// TestEndlessLoops: loops that provably never end are refused, others are not.
func TestEndlessLoops(t *testing.T) {
	loop := func(trip, cond, next string) string {
		return `graph "g" { in %x: float32[2] in %c: bool[] const %yes: bool[] = true const %no: bool[] = false const %three: int64[] = 3 const %most: int64[] = 9223372036854775807
			%y, %g1, %g2 = Loop(` + trip + ", " + cond + `, %x, %yes, %yes | %c, %yes) { body: graph "b" { in %i: int64[] in %k: bool[] in %v: float32[2] in %flag: bool[] in %once: bool[] in %cap: bool[] in %outer: bool[]
			const %t: bool[] = true const %f: bool[] = false %w = Neg(%v) %same = Identity(%k) %not = Not(%k) %twice = Not(%not) %or = Or(%cap, %same) %and = And(%k, %twice) %maybe = And(%k, %cap) out ` + next + `, %w, %flag, %f } } out %y }`
	}
	for _, c := range []struct {
		name, trip, cond, next string
		endless, certain       bool
	}{
		{"constant true", "_", "%yes", "%t", true, true},
		{"handed on", "_", "%yes", "%k", true, true},
		{"handed on by name", "_", "%yes", "%same", true, true},
		{"no condition at first", "_", "_", "%t", true, true},
		{"the largest count", "%most", "%yes", "%t", true, true},
		{"false at first", "_", "%no", "%t", true, false},
		{"given at first", "_", "%c", "%k", true, false},
		{"becomes false", "_", "%yes", "%f", false, true},
		{"computed", "_", "%yes", "%not", false, true},
		{"captured", "_", "%yes", "%cap", false, true},
		{"by logic of what stays", "_", "%yes", "%or", true, true},
		{"both stay", "_", "%yes", "%and", true, true},
		{"twice not", "_", "%yes", "%twice", true, true},
		{"a carried flag that stays", "_", "%yes", "%flag", true, true},
		{"a carried flag that is true at first only", "_", "%yes", "%once", false, true},
		{"a captured constant", "_", "%yes", "%outer", true, true},
		{"and what is not known", "_", "%yes", "%maybe", false, true},
		{"counted", "%three", "%yes", "%t", false, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			g, err := ssa.ParseGraph(loop(c.trip, c.cond, c.next))
			require.NoError(t, err)
			require.NoError(t, ops.InferGraph(g))
			n := g.Nodes[0]
			s, err := ops.LoopOf(n)
			require.NoError(t, err)
			endless, certain := s.Endless(n)
			assert.Equal(t, c.endless, endless)
			assert.Equal(t, c.certain, certain)
			_, err = ops.Interpret(context.Background(), g, []ndarray.Value{ndarray.Must(ndarray.Float32, 2), ndarray.Scalar(false)}, nil)
			var at *ops.NodeError
			if endless && certain {
				require.ErrorAs(t, err, &ops.EndlessError{})
				require.ErrorAs(t, err, &at)
			} else {
				require.NoError(t, err)
			}
		})
	}
}
