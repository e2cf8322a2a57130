package ops

import "github.com/berth-onnx/berth/ssa"

// microsoft is the domain of the operators that onnxruntime adds to the
// standard. Their schemas are listed in
// https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md
const microsoft = "com.microsoft"

// firstType is the type rule of operators whose results have operand 0's type.
func firstType(results int) func(*ssa.Node) []Inferred {
	return func(n *ssa.Node) []Inferred {
		out := make([]Inferred, results)
		for i := range out {
			out[i].Type = InType(n, 0)
		}
		return out
	}
}

// dimOf returns dimension i of a type, counted from the end when negative;
// unknown if the type has no such dimension.
func dimOf(t ssa.Type, i int) ssa.Dim {
	if i < 0 {
		i += len(t.Shape)
	}
	if !t.Ranked || i < 0 || i >= len(t.Shape) {
		return ssa.Dim{}
	}
	return t.Shape[i]
}
