package exprgraph

import (
	"gorgonia.org/gorgonia"

	"github.com/berth-onnx/berth/ssa"
)

// OpOf is the op of a node's first result. Loops, which derivatives of recurrent layers have, are ops, too.
func OpOf(n *ssa.Node) (gorgonia.UsePreallocDoer, error) {
	t, err := newTemplate(n)
	return &op{t, 0}, err
}
