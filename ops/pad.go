package ops

import (
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ssa"
)

// Pad adds elements around a tensor, or removes them where a pad is negative:
// https://onnx.ai/onnx/operators/onnx__Pad.html
//
// What stands outside of [a b c d]:
//
//	constant   v v v | a b c d | v v v
//	edge       a a a | a b c d | d d d
//	reflect    d c b | a b c d | c b a
//	wrap       b c d | a b c d | a b c
//
// Negative pads crop first; the modes then see only what is left.
var Pad = Op{
	Name: "Pad", Since: 25, Form: padForm, Doc: "output = data extended by pads per mode",
	MinIn: 2, MaxIn: 4, MinOut: 1, MaxOut: 1,
	Attrs: []AttrSpec{strAttr("mode", "constant", "reflect", "edge", "wrap"),
		intsAttr("paddings").required().until(2), intsAttr("pads").required().since(2).until(11), floatAttr("value", 0).until(11)},
	Infer: rule(inferPad), Eval: kernel(evalPad),
	Facts: Facts{Traits: passing, Cost: moveCost},
	Upgrades: []Upgrade{
		{Below: 2, Source: "https://onnx.ai/onnx/operators/onnx__Pad.html#pad-2", Apply: func(_ *Upgrader, n *ssa.Node) error {
			if a := n.Attr("paddings"); a != nil {
				a.Name = "pads"
			}
			return nil
		}},
		{Below: 11, Source: "https://onnx.ai/onnx/operators/onnx__Pad.html#pad-11", Apply: upgradePad},
	},
}

// upgradePad makes operands of the attributes pads and value.
func upgradePad(u *Upgrader, n *ssa.Node) error {
	u.AttrToInput(n, "pads", 1)
	if a := n.Attr("value"); a != nil && a.F != 0 {
		dt := InType(n, 0).DType
		if dt == ndarray.Undefined {
			dt = ndarray.Float32
		}
		v, err := ndarray.New(dt)
		if err != nil {
			return err
		}
		v.SetFloat(0, float64(a.F))
		n.AddInput(u.Const("value", ssa.NewConstant(v)))
	}
	n.DropAttr("value")
	return nil
}

func padForm(n *ssa.Node) int {
	base := 11
	if n.Input(3) != nil {
		base = 18
	}
	if Str(n, "mode") == "wrap" {
		base = 19
	}
	return typeForm(base, 13, 18, 19, 21, 23, 24, 25)(n)
}

// spreadPads returns the begin and end pad of every dimension from the pads of
// the listed axes (all axes without a list).
func spreadPads[T any](pads []T, axes []int64, listed bool, rank int, zero T) (begin, end []T) {
	begin, end = make([]T, rank), make([]T, rank)
	for i := range rank {
		begin[i], end[i] = zero, zero
	}
	if !listed {
		axes = make([]int64, rank)
		for i := range axes {
			axes[i] = int64(i)
		}
	}
	at := try(normAxes(axes, rank))
	if len(pads) != 2*len(at) {
		failf("%d pads for %d axes", len(pads), len(at))
	}
	for i, k := range at {
		begin[k], end[k] = pads[i], pads[len(at)+i]
	}
	return begin, end
}

func inferPad(n *ssa.Node) []Inferred {
	t := InType(n, 0)
	if !t.Ranked {
		return One(t)
	}
	pads := ContentOf(n, 1)
	axes, known := ConstInts(n, 3)
	listed := n.Input(3) != nil
	if pads == nil || listed && !known {
		return One(tensorOfRank(t.DType, len(t.Shape)))
	}
	begin, end := spreadPads(pads, axes, listed, len(t.Shape), ssa.D(0))
	dims := make([]ssa.Dim, len(t.Shape))
	for i, d := range t.Shape {
		dims[i] = d.Add(begin[i]).Add(end[i])
		if k, ok := dims[i].Const(); ok && k < 0 {
			failf("pads %s and %s leave nothing of dimension %s", begin[i], end[i], d)
		}
	}
	return One(ssa.TensorOf(t.DType, dims...))
}

// padIndex maps position i (which may be negative or past the end) to an index
// in [0, n), n > 0, for the modes that repeat data.
func padIndex(mode string, i, n int) int {
	switch mode {
	case "edge":
		return min(max(i, 0), n-1)
	case "wrap":
		return (i%n + n) % n
	}
	if n == 1 { // reflect
		return 0
	}
	period := 2 * (n - 1)
	i = (i%period + period) % period
	return min(i, period-i)
}

func evalPad(c *Call) {
	a := tensor(c, 0)
	pads := ints(c, 1)
	axes := optionalInts(c, 3)
	begin, end := spreadPads(pads, axes, c.Has(3), a.Rank(), 0)
	dims := make([]int64, a.Rank())
	for i, d := range a.Shape {
		dims[i] = int64(d) + begin[i] + end[i]
	}
	shape := shapeOfInts(dims)
	out := result(c, 0, a.DType, shape...)
	if out.Len() == 0 {
		return
	}
	switch mode := Str(c.Node, "mode"); mode {
	case "constant":
		padConstant(c, out, a, begin)
	case "reflect", "edge", "wrap":
		padRepeat(mode, out, a, begin, end)
	default:
		failf("mode %q is none of constant, reflect, edge, wrap", mode)
	}
}

// padConstant fills the result and lays what is left of the operand over it.
func padConstant(c *Call, out, a *ndarray.Array, begin []int64) {
	fill := ndarray.Must(a.DType)
	if c.Has(2) {
		v := c.Array(2)
		if v == nil || v.DType != a.DType || v.Len() != 1 {
			failf("constant_value is not one %s", a.DType)
		}
		fill = v
	}
	fillWhole(out, fill)
	b := block{shape: make([]int, a.Rank()), dstr: Strides(out.Shape), sstr: Strides(a.Shape)}
	for i, d := range a.Shape {
		from := max(int(-begin[i]), 0) // first index of the operand that stays
		at := max(int(begin[i]), 0)    // where it goes
		b.shape[i] = max(min(d-from, out.Shape[i]-at), 0)
		b.src += from * b.sstr[i]
		b.dst += at * b.dstr[i]
	}
	moveBlock(out, a, b)
}

// padRepeat looks every result index up in the cropped operand.
func padRepeat(mode string, out, a *ndarray.Array, begin, end []int64) {
	maps := make([][]int, a.Rank())
	for i, d := range a.Shape {
		from, left := max(int(-begin[i]), 0), d+int(min(begin[i], 0)+min(end[i], 0))
		if left <= 0 {
			failf("mode %s has nothing to repeat along dimension %d of %v", mode, i, a.Shape)
		}
		maps[i] = make([]int, out.Shape[i])
		for o := range maps[i] {
			maps[i][o] = from + padIndex(mode, o-int(max(begin[i], 0)), left)
		}
	}
	moveMapped(out, a, maps)
}
