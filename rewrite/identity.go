package rewrite

import (
	"math"
	"slices"

	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// Identity removes nodes that give an operand back unchanged. Every rule is
// exact: the bits stay the same, signed zeros and NaN included.
var Identity = &Pass{
	Name: "identity", Doc: "a node that gives its operand back -> the operand",
	rules: []rule{
		gives("a copy", named("Identity"), firstOperand),
		gives("the same shape again", with(reshapes), sameShapeAsFirst),
		gives("the same shape again", named("Expand", "Tile", "GlobalAveragePool", "GlobalMaxPool"), sameShapeAsFirst),
		gives("the same element type again", named("Cast", "CastLike", "BitCast"), castIdentity),
		gives("the same bits twice", with(idempotent), equalOperands),
		gives("f(f(x)) of an idempotent f", with(idempotent), repeated),
		gives("f(f(x)) of an involution f", with(func(f *ops.Facts) bool { return f.Composition == ops.Involutive }), undone),
		gives("an operation with its unit", with(func(f *ops.Facts) bool { return f.Unit != ops.UnitNone }), neutralOperand),
		gives("one operand", named("Concat", "Sum", "Mean"), onlyOperand),
		gives("Dropout outside of training", named("Dropout"), dropoutIdentity),
		gives("Transpose that moves nothing", named("Transpose"), transposeIdentity),
		gives("Pad by nothing", named("Pad"), padIdentity),
		gives("Slice of everything", named("Slice"), sliceIdentity),
		gives("Split into one", named("Split"), splitIdentity),
		gives("Where of one branch", named("Where"), whereIdentity),
		gives("reduction of nothing", named("ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd"), reduceIdentity),
		gives("a window of one element", named("MaxPool", "AveragePool"), poolIdentity),
		gives("Resize by 1", named("Resize"), resizeIdentity),
		gives("an optional that is there", named("OptionalGetElement"), optionalIdentity),
	},
}

// gives makes a rule of a function that returns the operand a node gives back as
// result 0, nil if it does something.
func gives(what string, on operators, operand func(c *Context, n *ssa.Node) *ssa.Value) rule {
	return rule{what + " -> the operand", on, func(c *Context, n *ssa.Node) bool {
		v := operand(c, n)
		return v != nil && !c.unreadResult(n, 0) && c.give(n, v)
	}}
}

func reshapes(f *ops.Facts) bool   { return f.Access == ops.Reshapes }
func idempotent(f *ops.Facts) bool { return f.Composition == ops.Idempotent }

func firstOperand(_ *Context, n *ssa.Node) *ssa.Value { return n.In[0] }

func sameShapeAsFirst(_ *Context, n *ssa.Node) *ssa.Value {
	if sameShape(n.In[0].Type, n.Out[0].Type) {
		return n.In[0]
	}
	return nil
}

func castIdentity(_ *Context, n *ssa.Node) *ssa.Value {
	in, out := n.In[0].Type, n.Out[0].Type
	if in.Kind == ssa.KindTensor && in.DType != ndarray.Undefined && in.DType == out.DType {
		return n.In[0]
	}
	return nil
}

// dropoutIdentity: outside training the data passes, whatever the ratio.
func dropoutIdentity(c *Context, n *ssa.Node) *ssa.Value {
	training := n.Input(2)
	if !c.unreadResult(n, 1) {
		return nil
	}
	if training == nil {
		return n.In[0]
	}
	if e := element(training); e != nil && e.DType == ndarray.Bool && e.Data[0] == 0 {
		return n.In[0]
	}
	return nil
}

func transposeIdentity(_ *Context, n *ssa.Node) *ssa.Value {
	if rank := n.In[0].Type.Rank(); rank >= 0 && isIdentityPerm(permOf(n)) {
		return n.In[0]
	}
	return nil
}

// permOf returns the permutation of a Transpose, counted from the front; nil if it is
// not known.
func permOf(n *ssa.Node) []int64 {
	p := slices.Clone(ops.Ints(n, "perm"))
	for i, x := range p {
		axis, err := ops.NormAxis(x, len(p))
		if err != nil {
			return nil
		}
		p[i] = int64(axis)
	}
	if rank := n.In[0].Type.Rank(); p == nil && rank >= 0 {
		p = make([]int64, rank)
		for i := range p {
			p[i] = int64(rank - 1 - i)
		}
	}
	return p
}

func isIdentityPerm(p []int64) bool {
	for i, x := range p {
		if x != int64(i) {
			return false
		}
	}
	return p != nil
}

func padIdentity(_ *Context, n *ssa.Node) *ssa.Value {
	pads, ok := ints(n, 1)
	if ok && !slices.ContainsFunc(pads, func(p int64) bool { return p != 0 }) {
		return n.In[0]
	}
	return nil
}

// sliceIdentity: with steps forward, a result as large as the operand is all of it.
func sliceIdentity(c *Context, n *ssa.Node) *ssa.Value {
	if !forward(n) {
		return nil
	}
	return sameShapeAsFirst(c, n)
}

func onlyOperand(_ *Context, n *ssa.Node) *ssa.Value {
	if len(n.In) == 1 {
		return n.In[0]
	}
	return nil
}

// equalOperands: max(x, x) = x, x and x = x; also the only operand of a maximum.
func equalOperands(_ *Context, n *ssa.Node) *ssa.Value {
	if ops.Of(n).MaxIn == 1 {
		return nil
	}
	for _, v := range n.In {
		if v != n.In[0] {
			return nil
		}
	}
	return n.In[0]
}

func splitIdentity(c *Context, n *ssa.Node) *ssa.Value {
	if len(n.Out) == 1 {
		return sameShapeAsFirst(c, n)
	}
	return nil
}

// whereIdentity: one branch everywhere, or the same in both.
func whereIdentity(_ *Context, n *ssa.Node) *ssa.Value {
	v := n.In[1]
	if n.In[1] != n.In[2] {
		e := element(n.In[0])
		if e == nil || e.DType != ndarray.Bool {
			return nil
		}
		if e.Data[0] == 0 {
			v = n.In[2]
		}
	}
	if sameShape(v.Type, n.Out[0].Type) {
		return v
	}
	return nil
}

// neutralOperand: x+0, x-0, x*1, x/1, x^1, and 0+x, 1*x. With floats, x + 0.0 turns
// -0.0 into 0.0, which no reader may notice.
func neutralOperand(c *Context, n *ssa.Node) *ssa.Value {
	f := ops.Of(n).Facts
	k, x, at := constFirst(n)
	if at < 0 || at == 0 && f.Order != ops.Commutative || !keepsShape(x.Type, k.Const.Shape()) || x.Type.DType != n.Out[0].Type.DType {
		return nil
	}
	e := element(k)
	if e == nil || e.DType == ndarray.String || e.DType.IsComplex() {
		return nil
	}
	v, unit := e.Float(0), units[f.Unit]
	if v != unit {
		return nil
	}
	exact := !e.DType.IsFloat() || math.Signbit(v) == math.Signbit(unit)
	if exact || clearsZeroSign(x) || c.hidesZeroSign(n.Out[0]) {
		return x
	}
	return nil
}

// units are the numbers of ops.Unit.
var units = [...]float64{ops.UnitNegativeZero: math.Copysign(0, -1), ops.UnitZero: 0, ops.UnitOne: 1}

// clearsZeroSign reports that x can not contain -0.0.
func clearsZeroSign(x *ssa.Value) bool {
	return x.Type.DType.IsInteger() || defWith(x, func(f *ops.Facts) bool { return f.ZeroSign == ops.ZeroSignCleared }) != nil
}

// repeated: f(f(x)) = f(x).
func repeated(_ *Context, n *ssa.Node) *ssa.Value {
	if ops.Of(n).MaxIn == 1 && def(n.In[0], n.Op) != nil {
		return n.In[0]
	}
	return nil
}

// undone: f(f(x)) = x.
func undone(_ *Context, n *ssa.Node) *ssa.Value {
	if m := def(n.In[0], n.Op); m != nil {
		return m.In[0]
	}
	return nil
}

// reduceIdentity: nothing to reduce, or only axes of length 1 that stay.
func reduceIdentity(_ *Context, n *ssa.Node) *ssa.Value {
	axes, ok := ints(n, 1)
	empty := n.Input(1) == nil || ok && len(axes) == 0
	if empty && ops.Int(n, "noop_with_empty_axes") == 1 {
		return n.In[0]
	}
	in := n.In[0].Type
	if ops.Int(n, "keepdims") != 1 || !sameShape(in, n.Out[0].Type) || n.Input(1) != nil && !ok {
		return nil
	}
	for i, d := range in.Shape {
		if (empty || axisListed(axes, i, len(in.Shape))) && !d.Is(1) {
			return nil
		}
	}
	return n.In[0]
}

func axisListed(axes []int64, i, rank int) bool {
	return slices.ContainsFunc(axes, func(a int64) bool {
		k, err := ops.NormAxis(a, rank)
		return err == nil && k == i
	})
}

// poolIdentity: a window of one element that moves by one, without padding.
func poolIdentity(c *Context, n *ssa.Node) *ssa.Value {
	one := func(attr string) bool {
		return !slices.ContainsFunc(ops.Ints(n, attr), func(k int64) bool { return k != 1 })
	}
	if one("kernel_shape") && one("strides") && n.Has("kernel_shape") && c.unreadResult(n, 1) && sameShape(n.In[0].Type, n.Out[0].Type) {
		return n.In[0]
	}
	return nil
}

// resizeIdentity: scale 1 everywhere.
func resizeIdentity(_ *Context, n *ssa.Node) *ssa.Value {
	mode := ops.Str(n, "mode")
	if mode == "cubic" || ops.Str(n, "coordinate_transformation_mode") == "tf_crop_and_resize" || n.Has("axes") {
		return nil
	}
	if s := n.Input(2); s != nil && s.Const != nil && s.Const.Len() > 0 {
		if f, ok := scalar(s); ok && f == 1 {
			return n.In[0]
		}
		return nil
	}
	if n.Input(3) != nil && sameShape(n.In[0].Type, n.Out[0].Type) {
		return n.In[0]
	}
	return nil
}

func optionalIdentity(_ *Context, n *ssa.Node) *ssa.Value {
	if k := n.In[0].Type.Kind; k == ssa.KindTensor || k == ssa.KindSequence {
		return n.In[0]
	}
	return nil
}
