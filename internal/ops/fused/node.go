package fused

import (
	"github.com/berth-onnx/berth/internal/tile"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// The correspondence between instructions and nodes. Most have the same name; an operator
// of a program can be a form of an ONNX operator that an attribute chooses:
//
//	GeluTanh                Gelu with approximate = tanh
//	Fmod                    Mod with fmod = 1
//	ShiftLeft, ShiftRight   BitShift with direction = LEFT, RIGHT
//	Swish                   com.microsoft.QuickGelu, too
//	Copy                    Identity, where that is not a view

// form is an operator of programs that has another name in ONNX, or needs an attribute: a text, or else
// a number.
type form struct {
	of       tile.Op
	op, attr string
	text     string
	number   int64
}

var forms = [...]form{
	{tile.Copy, "Identity", "", "", 0},
	{"Gelu", "Gelu", "approximate", "none", 0},
	{tile.GeluTanh, "Gelu", "approximate", "tanh", 0},
	{"Mod", "Mod", "fmod", "", 0},
	{tile.Fmod, "Mod", "fmod", "", 1},
	{tile.ShiftLeft, "BitShift", "direction", "LEFT", 0},
	{tile.ShiftRight, "BitShift", "direction", "RIGHT", 0},
	{"Softmax", "Softmax", "axis", "", -1},
	{"LogSoftmax", "LogSoftmax", "axis", "", -1},
	{"LayerNormalization", "LayerNormalization", "axis", "", -1},
	{"RMSNormalization", "RMSNormalization", "axis", "", -1},
}

// Node is a node that computes an instruction over matrices of rows and columns; it is in no
// graph, and lists none as the reader of its operands.
func Node(x *tile.Instr, in []*ssa.Value, out *ssa.Value) *ssa.Node {
	n := &ssa.Node{Op: string(x.Op), In: in, Out: []*ssa.Value{out}}
	for i := range forms {
		if f := &forms[i]; f.of == x.Op {
			n.Op = f.op
			if f.attr != "" {
				n.Attrs = []ssa.Attr{{Name: f.attr, Kind: ssa.AttrInt, I: f.number, S: f.text}}
				if f.text != "" {
					n.Attrs[0].Kind = ssa.AttrString
				}
			}
		}
	}
	if x.Func != nil {
		n.Op, n.Domain = CallName, Domain
		n.Attrs = funcAttrs(x.Func)
	}
	for k, name := range x.Op.Params() {
		if x.Op == "IsInf" {
			n.Attrs = append(n.Attrs, ssa.IntAttr(name, int64(x.Params[k])))
			continue
		}
		n.Attrs = append(n.Attrs, ssa.FloatAttr(name, float32(x.Params[k])))
	}
	switch {
	case x.Op == "Cast":
		n.Attrs = append(n.Attrs, ssa.IntAttr("to", int64(x.DType)))
	case x.Op.Reduces():
		n.Attrs = append(n.Attrs, ssa.IntAttr("keepdims", 1))
		axes := ndarray.Of([]int64{1}, 1)
		n.In = append(n.In, &ssa.Value{Type: ssa.StaticTensor(ndarray.Int64, 1), Const: ssa.NewConstant(axes)})
	}
	return n
}

// OpOf is the operator of a program that a node is, with its parameters; ok is false for a node
// that no instruction computes. What operands and shapes decide is not looked at.
func OpOf(n *ssa.Node) (o tile.Op, params []float64, ok bool) {
	if n.Opaque || len(n.Bodies) > 0 {
		return "", nil, false
	}
	switch o = tile.Op(n.Op); {
	case n.Domain == "com.microsoft" && n.Op == "QuickGelu":
		o = "Swish"
	case n.Domain == "com.microsoft" && n.Op == "Gelu":
		return "Gelu", nil, true
	case n.Domain == Domain && n.Op == CallName:
		return tile.Call, nil, FuncOf(n) != nil
	case n.Domain != "":
		return "", nil, false
	case n.Op == "Gelu" && ops.Str(n, "approximate") == "tanh":
		o = tile.GeluTanh
	case n.Op == "Mod" && ops.Int(n, "fmod") != 0:
		o = tile.Fmod
	case n.Op == "BitShift" && ops.Str(n, "direction") == "LEFT":
		o = tile.ShiftLeft
	case n.Op == "BitShift":
		o = tile.ShiftRight
	}
	if !o.Known() || o == tile.Constant || o == tile.Copy || o == tile.Call {
		return "", nil, false
	}
	for _, name := range o.Params() {
		if o == "IsInf" {
			params = append(params, float64(ops.Int(n, name)))
			continue
		}
		params = append(params, float64(ops.Float(n, name)))
	}
	return o, params, true
}
