package movement

import (
	"cmp"
	"fmt"

	"github.com/berth-onnx/berth/internal/ops/kit"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
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
var Pad = ops.Op{
	Name: "Pad", Since: 25, Form: padForm, Doc: "output = data extended by pads per mode",
	MinIn: 2, MaxIn: 4, MinOut: 1, MaxOut: 1,
	Attrs: []*ops.AttrSpec{ops.StrAttr("mode", "constant", "reflect", "edge", "wrap"),
		ops.IntsAttr("paddings").Mandatory().Before(2), ops.IntsAttr("pads").Mandatory().From(2).Before(11), ops.FloatAttr("value", 0).Before(11)},
	Infer: kit.Rule(InferPad), Eval: kit.Kernel(EvalPad),
	Facts: ops.Facts{Traits: ops.PassingTraits, Cost: kit.MoveCost},
	Upgrades: []ops.Upgrade{
		{Below: 2, Source: kit.Changelog("Pad", 2), Apply: func(_ *ops.Upgrader, n *ssa.Node) error {
			if a := n.Attr("paddings"); a != nil {
				a.Name = "pads"
			}
			return nil
		}},
		{Below: 11, Source: kit.Changelog("Pad", 11), Apply: upgradePad},
	},
	Downgrades: []ops.Downgrade{{Below: 18, Form: padForm, Apply: downgradePadAxes}, {Below: 11, Form: oldPadForm, Apply: downgradePad},
		{Below: 2, Form: oldPadForm, Apply: func(_ *ops.Upgrader, n *ssa.Node) error {
			n.Attr("pads").Name = "paddings"
			return nil
		}}},
}

// oldPadForm is the oldest version that has the mode and the element type, with pads as an attribute.
func oldPadForm(n *ssa.Node) int {
	if ops.Str(n, "mode") == "wrap" {
		return 19
	}
	return kit.VersionFor(ops.InType(n, 0).DType, kit.From(1, kit.FloatTypes), kit.From(11, kit.AnyType))
}

// downgradePadAxes writes the pads of all axes.
func downgradePadAxes(u *ops.Upgrader, n *ssa.Node) error {
	if n.Input(3) == nil {
		n.TruncateInputs(min(len(n.In), 3))
		return nil
	}
	pads, known := ops.ConstInts(n, 1)
	axes, listed := ops.ConstInts(n, 3)
	rank := ops.InType(n, 0).Rank()
	if !known || !listed || rank < 0 {
		return fmt.Errorf("pads of listed axes need to be constant, and the rank known")
	}
	return kit.Attempt(func() {
		begin, end := spreadPads(pads, axes, true, rank, 0)
		n.SetInput(1, u.Const("pads", ssa.Int64s(append(begin, end...)...)))
		n.TruncateInputs(3)
	})
}

// downgradePad makes attributes of pads and value.
func downgradePad(u *ops.Upgrader, n *ssa.Node) error {
	if v := n.Input(2); v != nil {
		k, err := kit.FloatConst(v)
		if err != nil {
			return fmt.Errorf("constant_value: %w", err)
		}
		n.SetAttr(ssa.FloatAttr("value", k))
	}
	return u.InputToAttr(n, 1, "pads")
}

// upgradePad makes operands of the attributes pads and value.
func upgradePad(u *ops.Upgrader, n *ssa.Node) error {
	u.AttrToInput(n, "pads", 1)
	if a := n.Attr("value"); a != nil && a.F != 0 {
		v, err := ndarray.New(cmp.Or(ops.InType(n, 0).DType, ndarray.Float32))
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
	if ops.Str(n, "mode") == "wrap" {
		base = 19
	}
	return kit.TypeForm(base, 13, 18, 19, 21, 23, 24, 25)(n)
}

// spreadPads returns the begin and end pad of every dimension from the pads of
// the listed axes (all axes without a list).
func spreadPads[T any](pads []T, axes []int64, listed bool, rank int, zero T) (begin, end []T) {
	begin, end = make([]T, rank), make([]T, rank)
	for i := range rank {
		begin[i], end[i] = zero, zero
	}
	at := kit.Positions(rank)
	if listed {
		at = kit.Try(kit.NormAxes(axes, rank))
	}
	if len(pads) != 2*len(at) {
		kit.Failf("%d pads for %d axes", len(pads), len(at))
	}
	for i, k := range at {
		begin[k], end[k] = pads[i], pads[len(at)+i]
	}
	return begin, end
}

// InferPad is the type and shape rule of [Pad].
func InferPad(n *ssa.Node) []ops.Inferred {
	t := ops.InType(n, 0)
	if !t.Ranked {
		return ops.One(t)
	}
	pads := ops.ContentOf(n, 1)
	axes, known := ops.ConstInts(n, 3)
	listed := n.Input(3) != nil
	if pads == nil || listed && !known {
		return ops.One(kit.TensorOfRank(t.DType, len(t.Shape)))
	}
	begin, end := spreadPads(pads, axes, listed, len(t.Shape), ssa.D(0))
	dims := make([]ssa.Dim, len(t.Shape))
	for i, d := range t.Shape {
		dims[i] = d.Add(begin[i]).Add(end[i])
		if k, ok := dims[i].Const(); ok && k < 0 {
			kit.Failf("pads %s and %s leave nothing of dimension %s", begin[i], end[i], d)
		}
	}
	return ops.One(ssa.TensorOf(t.DType, dims...))
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

// EvalPad is the reference kernel of [Pad].
func EvalPad(c *ops.Call) {
	a := kit.Tensor(c, 0)
	begin, end := spreadPads(kit.Ints(c, 1), kit.OptionalInts(c, 3), c.Has(3), a.Rank(), 0)
	dims := make([]int64, a.Rank())
	for i, d := range a.Shape {
		dims[i] = int64(d) + begin[i] + end[i]
	}
	out := kit.Result(c, 0, a.DType, kit.ShapeOfInts(dims)...)
	if out.Len() == 0 {
		return
	}
	if mode := ops.Str(c.Node, "mode"); mode == "constant" {
		padConstant(c, out, a, begin)
	} else {
		padRepeat(c, mode, out, a, begin, end)
	}
}

// padConstant fills the result and lays what is left of the operand over it.
func padConstant(c *ops.Call, out, a *ndarray.Array, begin []int64) {
	fill := ndarray.Must(a.DType)
	if c.Has(2) {
		v := c.Array(2)
		if v == nil || v.DType != a.DType || v.Len() != 1 {
			kit.Failf("constant_value is not one %s", a.DType)
		}
		fill = v
	}
	kit.FillWhole(c, out, fill)
	b := kit.Block{Shape: make([]int, a.Rank()), Dstr: ops.Strides(out.Shape), Sstr: ops.Strides(a.Shape)}
	for i, d := range a.Shape {
		from := max(int(-begin[i]), 0) // first index of the operand that stays
		at := max(int(begin[i]), 0)    // where it goes
		b.Shape[i] = max(min(d-from, out.Shape[i]-at), 0)
		b.Src += from * b.Sstr[i]
		b.Dst += at * b.Dstr[i]
	}
	kit.MoveBlock(c, out, a, b)
}

// padRepeat looks every result index up in the cropped operand.
func padRepeat(c *ops.Call, mode string, out, a *ndarray.Array, begin, end []int64) {
	maps := make([][]int, a.Rank())
	for i, d := range a.Shape {
		from, left := max(int(-begin[i]), 0), d+int(min(begin[i], 0)+min(end[i], 0))
		if left <= 0 {
			kit.Failf("mode %s has nothing to repeat along dimension %d of %v", mode, i, a.Shape)
		}
		maps[i] = kit.Make[int](c, out.Shape[i])
		w := kit.Watching(c)
		for o := range maps[i] {
			w.Did(1)
			maps[i][o] = from + padIndex(mode, o-int(max(begin[i], 0)), left)
		}
	}
	kit.MoveMapped(c, out, a, maps)
}
