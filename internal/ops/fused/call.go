package fused

import (
	"github.com/berth-onnx/berth/internal/tile"
	"github.com/berth-onnx/berth/ssa"
)

// CallName is the operator that computes a function of the program's user, element by element; package
// call has it, for programs that link it.
const CallName = "Call"

// FuncAttr is the attribute that holds a function.
func FuncAttr(f *tile.Func) ssa.Attr { return funcAttrs(f)[0] }

// funcAttrs are the attributes of a node that calls a function.
//
//go:noinline
func funcAttrs(f *tile.Func) []ssa.Attr {
	return []ssa.Attr{{Name: "function", Kind: ssa.AttrString, S: f.Name, Other: f}}
}

// FuncOf returns the function of a node, nil if it has none.
//
//go:noinline
func FuncOf(n *ssa.Node) *tile.Func {
	if a := n.Attr("function"); a != nil {
		f, _ := a.Other.(*tile.Func)
		return f
	}
	return nil
}
