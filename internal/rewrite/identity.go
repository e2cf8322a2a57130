package rewrite

import (
	"math"
	"slices"

	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// Identity removes nodes whose result is equal to an operand. Every rule is
// exact: the bits stay the same, signed zeros and NaN included.
var Identity = &Pass{
	Name: "identity", Doc: "a node whose result is its operand -> the operand",
	rules: []rule{
		isFirst("a copy", named("Identity"), func(*Context, *ssa.Node) bool { return true }),
		isFirst("the same shape again", with(reshapes), targetsFirstShape),
		isFirst("the same shape again", named("Expand"), targetsFirstShape),
		isFirst("the same shape again", named("Tile", "GlobalAveragePool", "GlobalMaxPool"), keepsFirstShape),
		isFirst("the same element type again", named("Cast", "CastLike", "BitCast"), keepsType),
		isFirst("the same bits twice", with(idempotent), equalOperands),
		isFirst("f(f(x)) of an idempotent f", with(idempotent), repeated),
		isOperand("f(f(x)) of an involution f", with(func(f *ops.Facts) bool { return f.Composition == ops.Involutive }), undone),
		isOperand("an operation with its unit", with(func(f *ops.Facts) bool { return f.Unit != ops.UnitNone }), neutralOperand),
		isFirst("one operand", named("Concat", "Sum", "Mean"), func(_ *Context, n *ssa.Node) bool { return len(n.In) == 1 }),
		isFirst("Dropout outside of training", named("Dropout"), dropoutIdentity),
		isFirst("Transpose that moves nothing", named("Transpose"), transposeIdentity),
		isFirst("Pad by nothing", named("Pad"), padIdentity),
		isFirst("Slice of everything", named("Slice"), sliceIdentity),
		isFirst("Split into one", named("Split"), splitIdentity),
		isOperand("Where of one branch", named("Where"), whereOperand),
		isFirst("empty reduction", named("ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd"), reduceIdentity),
		isFirst("a window of one element", named("MaxPool", "AveragePool"), poolIdentity),
		isFirst("Resize by 1", named("Resize"), resizeIdentity),
		isFirst("an optional that is present", named("OptionalGetElement"), optionalIdentity),
	},
}

// isOperand makes a rule of a function that returns the operand equal to result 0, nil if
// there is none.
//
//go:noinline
func isOperand(what string, on operators, operand func(c *Context, n *ssa.Node) *ssa.Value) rule {
	return rule{what + " -> the operand", on, func(c *Context, n *ssa.Node) bool {
		v := operand(c, n)
		return v != nil && !c.unreadResult(n, 0) && c.forward(n, v)
	}}
}

// isFirst makes a rule of a condition under which result 0 is equal to operand 0.
//
//go:noinline
func isFirst(what string, on operators, holds func(c *Context, n *ssa.Node) bool) rule {
	return isOperand(what, on, func(c *Context, n *ssa.Node) *ssa.Value {
		if holds(c, n) {
			return n.In[0]
		}
		return nil
	})
}

func reshapes(f *ops.Facts) bool   { return f.Access == ops.Reshapes }
func idempotent(f *ops.Facts) bool { return f.Composition == ops.Idempotent }

func keepsFirstShape(_ *Context, n *ssa.Node) bool { return sameShape(n.In[0].Type, n.Out[0].Type) }

// targetsFirstShape: nothing but the operand's shape is asked for, and no kernel has to check that.
func targetsFirstShape(c *Context, n *ssa.Node) bool {
	return ops.TargetKnown(n) && keepsFirstShape(c, n)
}

func keepsType(_ *Context, n *ssa.Node) bool {
	in, out := n.In[0].Type, n.Out[0].Type
	return in.Kind == ssa.KindTensor && in.DType != ndarray.Undefined && in.DType == out.DType
}

// dropoutIdentity: outside training the result is the data, for every ratio.
func dropoutIdentity(c *Context, n *ssa.Node) bool {
	training := n.Input(2)
	if training == nil || !c.unreadResult(n, 1) {
		return c.unreadResult(n, 1)
	}
	e := element(training)
	return e != nil && e.DType == ndarray.Bool && e.Data[0] == 0
}

func transposeIdentity(_ *Context, n *ssa.Node) bool {
	return n.In[0].Type.Rank() >= 0 && isIdentityPerm(permOf(n))
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

func padIdentity(_ *Context, n *ssa.Node) bool {
	pads, ok := ints(n, 1)
	return ok && !slices.ContainsFunc(pads, func(p int64) bool { return p != 0 })
}

// sliceIdentity: with positive steps, a result as large as the operand is all of it.
func sliceIdentity(c *Context, n *ssa.Node) bool { return hasPositiveSteps(n) && keepsFirstShape(c, n) }

// equalOperands: max(x, x) = x, x and x = x; also the only operand of a maximum.
func equalOperands(_ *Context, n *ssa.Node) bool {
	return ops.Of(n).MaxIn != 1 && countOf(n.In, n.In[0]) == len(n.In)
}

func splitIdentity(c *Context, n *ssa.Node) bool { return len(n.Out) == 1 && keepsFirstShape(c, n) }

// whereOperand: one branch everywhere, or the same in both.
func whereOperand(_ *Context, n *ssa.Node) *ssa.Value {
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
func repeated(_ *Context, n *ssa.Node) bool { return ops.Of(n).MaxIn == 1 && def(n.In[0], n.Op) != nil }

// undone: f(f(x)) = x.
func undone(_ *Context, n *ssa.Node) *ssa.Value { return operandOf(n.In[0], n.Op) }

// reduceIdentity: no axes, or only axes of length 1 that stay. A sum that begins with 0.0 is never -0.0.
func reduceIdentity(c *Context, n *ssa.Node) bool {
	axes, ok := ints(n, 1)
	empty := n.Input(1) == nil || ok && len(axes) == 0
	if empty && ops.Int(n, "noop_with_empty_axes") == 1 {
		return true
	}
	in := n.In[0].Type
	if ops.Int(n, "keepdims") != 1 || !sameShape(in, n.Out[0].Type) || n.Input(1) != nil && !ok {
		return false
	}
	for i, d := range in.Shape {
		if (empty || axisListed(axes, i, len(in.Shape))) && !d.Is(1) {
			return false
		}
	}
	return !is(n, "ReduceSum") && !is(n, "ReduceMean") || clearsZeroSign(n.In[0]) || c.hidesZeroSign(n.Out[0])
}

func axisListed(axes []int64, i, rank int) bool {
	return slices.ContainsFunc(axes, func(a int64) bool {
		k, err := ops.NormAxis(a, rank)
		return err == nil && k == i
	})
}

// poolIdentity: a window of one element that moves by one, without padding.
func poolIdentity(c *Context, n *ssa.Node) bool {
	one := func(attr string) bool {
		return !slices.ContainsFunc(ops.Ints(n, attr), func(k int64) bool { return k != 1 })
	}
	return one("kernel_shape") && one("strides") && n.Has("kernel_shape") && c.unreadResult(n, 1) && keepsFirstShape(c, n)
}

// resizeIdentity: scale 1 everywhere.
func resizeIdentity(c *Context, n *ssa.Node) bool {
	if ops.Str(n, "mode") == "cubic" || ops.Str(n, "coordinate_transformation_mode") == "tf_crop_and_resize" || n.Has("axes") {
		return false
	}
	if s := n.Input(2); s != nil && s.Const != nil && s.Const.Len() > 0 {
		f, ok := scalar(s)
		return ok && f == 1
	}
	return n.Input(3) != nil && keepsFirstShape(c, n)
}

func optionalIdentity(_ *Context, n *ssa.Node) bool {
	k := n.In[0].Type.Kind
	return k == ssa.KindTensor || k == ssa.KindSequence
}
