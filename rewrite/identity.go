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
//
//	same shape      Reshape, Expand, Tile, GlobalAveragePool … whose result is as the operand
//	nothing moves   Transpose [0,1,2], Pad by 0, Slice of all, Resize by 1, a window of 1
//	neutral         x - 0, x * 1, x / 1, x ^ 1
//	equal operands  max(x, x), x and x, where(c, x, x)
//	twice           relu(relu(x)) is relu(x), -(-x) is x
var Identity = &Pass{
	Name: "identity", Doc: "a node that gives its operand back -> the operand",
	run: runIdentity,
}

func runIdentity(c *Context, g *ssa.Graph) error {
	for _, n := range slices.Clone(g.Nodes) {
		if !c.alive(n) || n.Opaque || n.Domain != "" {
			continue
		}
		rule := identityRules[n.Op]
		if rule == nil {
			continue
		}
		v := rule(c, n)
		if v == nil || c.unreadResult(n, 0) || !c.canReplace(n.Out[0], v) || !c.patch(n, "gives %s back", v.Name) {
			continue
		}
		c.replace(n.Out[0], v)
	}
	return nil
}

// canReplace reports that replacing old by v makes progress: an Identity that
// only gives a name to a result of the model has to stay.
func (c *Context) canReplace(old, v *ssa.Value) bool {
	if !is(old.Def, "Identity") || !c.top() || !c.graph.IsResult(old) || len(old.Uses()) > 0 {
		return true
	}
	return v.Const != nil || v.Def != nil && !c.graph.IsResult(v)
}

// identityRules return the operand a node gives back as result 0, nil if it does
// something.
var identityRules map[string]func(c *Context, n *ssa.Node) *ssa.Value

func init() {
	sameShapeAs0 := func(_ *Context, n *ssa.Node) *ssa.Value {
		if sameShape(n.In[0].Type, n.Out[0].Type) {
			return n.In[0]
		}
		return nil
	}
	identityRules = map[string]func(c *Context, n *ssa.Node) *ssa.Value{
		"Identity": func(_ *Context, n *ssa.Node) *ssa.Value { return n.In[0] },
		"Reshape":  sameShapeAs0, "Flatten": sameShapeAs0, "Squeeze": sameShapeAs0, "Unsqueeze": sameShapeAs0,
		"Expand": sameShapeAs0, "Tile": sameShapeAs0,
		"Cast": castIdentity, "CastLike": castIdentity, "BitCast": castIdentity,
		"Dropout": dropoutIdentity, "Transpose": transposeIdentity, "Pad": padIdentity, "Slice": sliceIdentity,
		"Concat": onlyOperand, "Sum": onlyOperand, "Mean": onlyOperand, "Max": equalOperands, "Min": equalOperands,
		"And": equalOperands, "Or": equalOperands, "Split": splitIdentity, "Where": whereIdentity,
		"Add": neutralRight, "Sub": neutralRight, "Mul": neutralRight, "Div": neutralRight, "Pow": neutralRight,
		"Relu": idempotent, "Abs": idempotent, "Floor": idempotent, "Ceil": idempotent, "Round": idempotent, "Sign": idempotent,
		"Neg": selfInverse, "Not": selfInverse, "BitwiseNot": selfInverse,
		"ReduceSum": reduceIdentity, "ReduceMean": reduceIdentity, "ReduceMax": reduceIdentity, "ReduceMin": reduceIdentity, "ReduceProd": reduceIdentity,
		"MaxPool": poolIdentity, "AveragePool": poolIdentity,
		"GlobalAveragePool": sameShapeAs0, "GlobalMaxPool": sameShapeAs0,
		"Resize": resizeIdentity, "OptionalGetElement": optionalIdentity,
	}
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

// permOf returns the permutation of a Transpose, nil if it is not known.
func permOf(n *ssa.Node) []int64 {
	if p := ops.Ints(n, "perm"); p != nil {
		return p
	}
	rank := n.In[0].Type.Rank()
	if rank < 0 {
		return nil
	}
	p := make([]int64, rank)
	for i := range p {
		p[i] = int64(rank - 1 - i)
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
func sliceIdentity(_ *Context, n *ssa.Node) *ssa.Value {
	if !sameShape(n.In[0].Type, n.Out[0].Type) {
		return nil
	}
	if n.Input(4) != nil {
		steps, ok := ints(n, 4)
		if !ok || slices.ContainsFunc(steps, func(s int64) bool { return s < 0 }) {
			return nil
		}
	}
	return n.In[0]
}

func onlyOperand(_ *Context, n *ssa.Node) *ssa.Value {
	if len(n.In) == 1 {
		return n.In[0]
	}
	return nil
}

// equalOperands: max(x, x) = x, x and x = x.
func equalOperands(_ *Context, n *ssa.Node) *ssa.Value {
	for _, v := range n.In {
		if v != n.In[0] {
			return nil
		}
	}
	return n.In[0]
}

func splitIdentity(_ *Context, n *ssa.Node) *ssa.Value {
	if len(n.Out) == 1 && sameShape(n.In[0].Type, n.Out[0].Type) {
		return n.In[0]
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

// neutralRight: x+0, x-0, x*1, x/1, x^1, and 0+x, 1*x. With floats, x + 0.0 would
// turn -0.0 into 0.0, which someone must be able to notice; the neutral element of
// addition is -0.0.
func neutralRight(c *Context, n *ssa.Node) *ssa.Value {
	k, x, at := constFirst(n)
	if at < 0 || at == 0 && n.Op != "Add" && n.Op != "Mul" || !keepsShape(x.Type, k.Const.Shape()) {
		return nil
	}
	e := element(k)
	if e == nil || x.Type.DType != n.Out[0].Type.DType || !c.neutral(n, e, x) {
		return nil
	}
	return x
}

func (c *Context) neutral(n *ssa.Node, e *ndarray.Array, x *ssa.Value) bool {
	if e.DType == ndarray.String || e.DType.IsComplex() {
		return false
	}
	v := e.Float(0)
	switch n.Op {
	case "Mul", "Div", "Pow":
		return v == 1
	case "Sub":
		v = -v
	}
	return v == 0 && (!e.DType.IsFloat() || math.Signbit(v) || neverNegativeZero(x) || c.hidesZeroSign(n.Out[0]))
}

// neverNegativeZero reports that x can not contain -0.0.
func neverNegativeZero(x *ssa.Value) bool {
	if x.Type.DType.IsInteger() {
		return true
	}
	for _, op := range []string{"Exp", "Abs", "Sigmoid", "Softmax", "HardSigmoid", "Softplus", "ReduceL2", "ReduceL1", "ReduceSumSquare"} {
		if def(x, op) != nil {
			return true
		}
	}
	return false
}

// idempotent: f(f(x)) = f(x).
func idempotent(_ *Context, n *ssa.Node) *ssa.Value {
	if def(n.In[0], n.Op) != nil {
		return n.In[0]
	}
	return nil
}

// selfInverse: f(f(x)) = x.
func selfInverse(_ *Context, n *ssa.Node) *ssa.Value {
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
	for _, a := range axes {
		if k, err := ops.NormAxis(a, rank); err == nil && k == i {
			return true
		}
	}
	return false
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
