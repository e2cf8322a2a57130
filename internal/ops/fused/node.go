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

// forms are operators of programs that have another name in ONNX, or need attributes.
var forms = map[tile.Op]struct {
	op    string
	attrs []ssa.Attr
}{
	"Gelu":               {"Gelu", []ssa.Attr{ssa.StringAttr("approximate", "none")}},
	tile.GeluTanh:        {"Gelu", []ssa.Attr{ssa.StringAttr("approximate", "tanh")}},
	"Mod":                {"Mod", []ssa.Attr{ssa.IntAttr("fmod", 0)}},
	tile.Fmod:            {"Mod", []ssa.Attr{ssa.IntAttr("fmod", 1)}},
	tile.ShiftLeft:       {"BitShift", []ssa.Attr{ssa.StringAttr("direction", "LEFT")}},
	tile.ShiftRight:      {"BitShift", []ssa.Attr{ssa.StringAttr("direction", "RIGHT")}},
	"Softmax":            {"Softmax", []ssa.Attr{ssa.IntAttr("axis", -1)}},
	"LogSoftmax":         {"LogSoftmax", []ssa.Attr{ssa.IntAttr("axis", -1)}},
	"LayerNormalization": {"LayerNormalization", []ssa.Attr{ssa.IntAttr("axis", -1)}},
	"RMSNormalization":   {"RMSNormalization", []ssa.Attr{ssa.IntAttr("axis", -1)}},
}

// Node is a node that computes an instruction over matrices of rows and columns; it is in no
// graph, and lists none as the reader of its operands.
func Node(x *tile.Instr, in []*ssa.Value, out *ssa.Value) *ssa.Node {
	n := &ssa.Node{Op: string(x.Op), In: in, Out: []*ssa.Value{out}}
	if f, ok := forms[x.Op]; ok {
		n.Op = f.op
		n.Attrs = append(n.Attrs, f.attrs...)
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
	if !o.Known() || o == tile.Constant {
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
