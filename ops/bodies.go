package ops

import (
	"fmt"

	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ssa"
)

// bindCaptures gives the last parameters of a body the types and contents of
// the captured operands.
func bindCaptures(n *ssa.Node, body *ssa.Graph) error {
	caps := n.Captured()
	if len(body.Params) < len(caps) {
		return fmt.Errorf("body %q has %d parameters for %d captured values", body.Name, len(body.Params), len(caps))
	}
	for i, p := range body.Params[len(body.Params)-len(caps):] {
		if caps[i] == nil {
			return fmt.Errorf("captured operand %d is absent", i)
		}
		p.Type, p.Content = caps[i].Type, caps[i].Content
	}
	return nil
}

// UnionType is the most precise type that both describe: dimensions that
// differ become unknown.
func UnionType(a, b ssa.Type) ssa.Type {
	if a.Kind == ssa.KindUnknown || a.Kind != b.Kind || a.DType != b.DType {
		if a.Kind == b.Kind && a.Kind == ssa.KindTensor {
			a.DType = ndarray.Undefined
			return ssa.Type{Kind: ssa.KindTensor}
		}
		return ssa.Type{}
	}
	if a.Elem != nil && b.Elem != nil {
		e := UnionType(*a.Elem, *b.Elem)
		a.Elem = &e
	}
	if !a.Ranked || !b.Ranked || len(a.Shape) != len(b.Shape) {
		a.Ranked, a.Shape = false, nil
		return a
	}
	shape := make([]ssa.Dim, len(a.Shape))
	for i := range shape {
		if a.Shape[i].Equal(b.Shape[i]) {
			shape[i] = a.Shape[i]
		}
	}
	a.Shape = shape
	return a
}

// checkBodies checks that the bodies of control flow have as many parameters and
// results as the node's operands and results ask for.
func checkBodies(n *ssa.Node) (err error) {
	switch {
	case n.Domain != "":
	case n.Op == "If":
		for i, body := range n.Bodies {
			if len(body.Results) != len(n.Out) {
				return fmt.Errorf("%s gives %d results, the node has %d", n.BodyAttr[i], len(body.Results), len(n.Out))
			}
			if len(body.Params) != n.Captures {
				return fmt.Errorf("%s has %d parameters for %d captured values", n.BodyAttr[i], len(body.Params), n.Captures)
			}
		}
	case n.Op == "Loop":
		_, err = LoopOf(n)
	case n.Op == "Scan":
		_, err = ScanOf(n)
	}
	return err
}
