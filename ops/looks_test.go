package ops_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth/ops"
	_ "github.com/berth-onnx/berth/ops/all"
	"github.com/berth-onnx/berth/ssa"
)

// looked counts how often a context is looked at; it has ended after some.
type looked struct {
	context.Context
	left int
}

func (l *looked) Err() error {
	if l.left--; l.left < 0 {
		return context.Canceled
	}
	return nil
}

// TestInferenceEnds: a context ends the inference of one node within its bodies, of whatever operator. The error is the context's
// alone: the node is not to blame.
func TestInferenceEnds(t *testing.T) {
	const many, most = 100, 1 << 20
	long := strings.Repeat("%%v%d: float32[2] = Neg(%%v%d) ", many)
	var at []any
	for i := range many {
		at = append(at, i+1, i)
	}
	long = fmt.Sprintf(long, at...)
	end := fmt.Sprintf("%%v%d", many)
	for name, text := range map[string]string{
		"If": `graph "g" { in %c: bool[] in %x: float32[2] %y: float32[2] = If(%c | %x) {
			then_branch: graph "a" { in %v0: float32[2] ` + long + `out ` + end + ` }
			else_branch: graph "b" { in %v0: float32[2] out %v0 } } out %y }`,
		"Loop": `graph "g" { in %n: int64[] in %c: bool[] in %x: float32[2] %y: float32[2] = Loop(%n, %c, %x) {
			body: graph "b" { in %i: int64[] in %k: bool[] in %v0: float32[2] ` + long + `out %k, ` + end + ` } } out %y }`,
		"Scan": `graph "g" { in %x: float32[5,2] %y: float32[5,2] = Scan(%x) [num_scan_inputs=1] {
			body: graph "b" { in %v0: float32[2] ` + long + `out ` + end + ` } } out %y }`,
		"SequenceMap": `graph "g" { in %x: seq(float32[2]) %y: seq(float32[2]) = SequenceMap(%x) {
			body: graph "b" { in %v0: float32[2] ` + long + `out ` + end + ` } } out %y }`,
	} {
		t.Run(name, func(t *testing.T) {
			g, err := ssa.ParseGraph(text)
			require.NoError(t, err)
			all := &looked{left: most}
			require.NoError(t, ops.InferGraphContext(all, g))
			require.Greater(t, most-all.left, many)
			err = ops.InferContext(&looked{left: many / 2}, g.Nodes[0])
			require.Equal(t, context.Canceled, err)
		})
	}
}
