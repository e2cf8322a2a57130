package gradient

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/berth-onnx/berth/internal/ops/kit"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// The derivatives of operators that read or write by index, of cumulative sums and of Einsum.

func init() {
	maps.Copy(rules, map[string]rule{
		"Gather": gatherGradient, "ScatterND": scatterNDGradient, "MaxUnpool": maxUnpoolGradient, "TopK": topKGradient,
		"Trilu": triluGradient, "com.microsoft.Trilu": triluGradient,
		"com.microsoft.Pad": moveGradient, "com.microsoft.GatherND": moveGradient, "com.microsoft.ExpandDims": viewGradient,
		"CumSum": cumSumGradient, "ReduceProd": reduceProdGradient, "Einsum": einsumGradient, "com.microsoft.Inverse": inverseGradient,
		"Slice": sliceGradient, "Mod": modGradient, "Shrink": shrinkGradient,
		"CastLike": func(g *builder, n *ssa.Node, dy []*ssa.Value) []*ssa.Value {
			return []*ssa.Value{g.cast(dy[0], n.In[0].Type.DType)}
		},
	})
}

// gatherGradient adds the rows of the adjoint where they were read: an embedding table gets a scatter
// of as many rows as were looked up. Other axes are brought to the front.
//
//	y = x[i]    dx = zeros; dx[i[k]] += d[k]
func gatherGradient(g *builder, n *ssa.Node, dy []*ssa.Value) []*ssa.Value {
	x, index, d := n.In[0], n.In[1], dy[0]
	rank, more := g.rank(x), g.rank(index)
	axis, err := ops.NormAxis(ops.Int(n, "axis"), rank)
	if err != nil {
		g.fail(n, err)
		return nil
	}
	perm := slices.Concat(axesFrom(axis, axis+more), axesFrom(0, axis), axesFrom(axis+more, rank-1+more))
	if axis > 0 {
		d = g.transpose(d, perm...)
	}
	front := slices.Concat([]int64{int64(axis)}, axesFrom(0, axis), axesFrom(axis+1, rank))
	zeros := g.filled(x, 0)
	if axis > 0 {
		zeros = g.transpose(zeros, front...)
	}
	how := "add"
	if isDistinct(n, axis) {
		how = "none"
	}
	sum := g.with("ScatterND", []*ssa.Value{zeros, g.op("Unsqueeze", index, g.ints(-1)), d}, ssa.StringAttr("reduction", how))
	if axis > 0 {
		back := make([]int64, rank)
		for i, p := range front {
			back[p] = int64(i)
		}
		sum = g.transpose(sum, back...)
	}
	return []*ssa.Value{sum}
}

// isDistinct reports a Gather that reads no element twice: of one index, or of constant ones that differ.
func isDistinct(n *ssa.Node, axis int) bool {
	x, okX := n.In[0].Type.Static()
	at, ok := n.In[1].Type.Static()
	if ok && kit.SizeOf(at) == 1 {
		return true
	}
	list, known := ops.ConstInts(n, 1)
	if !known || !okX {
		return false
	}
	seen := map[int64]bool{}
	for _, i := range list {
		if i < 0 {
			i += int64(x[axis])
		}
		if seen[i] {
			return false
		}
		seen[i] = true
	}
	return true
}

// sliceGradient pads the adjoint of a window of known place with zeros; of other slices positions tell where elements come from.
func sliceGradient(g *builder, n *ssa.Node, dy []*ssa.Value) []*ssa.Value {
	shape, ok := n.In[0].Type.Static()
	out, okOut := n.Out[0].Type.Static()
	starts, okStarts := ops.ConstInts(n, 1)
	axes, okAxes := ops.ConstInts(n, 3)
	steps, okSteps := ops.ConstInts(n, 4)
	if n.Input(3) == nil {
		axes, okAxes = axesFrom(0, len(starts)), true
	}
	okSteps = n.Input(4) == nil || okSteps && !slices.ContainsFunc(steps, func(s int64) bool { return s != 1 })
	if !ok || !okOut || !okStarts || !okAxes || !okSteps || len(axes) != len(starts) || slices.Contains(out, 0) {
		return moveGradient(g, n, dy)
	}
	pads := make([]int64, 2*len(shape))
	for i, from := range starts {
		axis, err := ops.NormAxis(axes[i], len(shape))
		if err != nil {
			g.fail(n, err)
			return nil
		}
		size := int64(shape[axis])
		if from < 0 {
			from = max(from+size, 0)
		}
		pads[axis], pads[len(shape)+axis] = from, size-from-int64(out[axis])
	}
	return []*ssa.Value{g.op("Pad", dy[0], g.ints(pads...))}
}

// scatterNDGradient reads the adjoints of updates where they were written.
func scatterNDGradient(g *builder, n *ssa.Node, dy []*ssa.Value) []*ssa.Value {
	d, index := dy[0], n.In[1]
	out := []*ssa.Value{d, nil, g.op("GatherND", d, index)}
	switch reduction := ops.Str(n, "reduction"); reduction {
	case "add":
	case "none":
		out[0] = g.op("ScatterND", d, index, g.filled(n.In[2], 0))
	default:
		g.refuse(n, "reduction "+reduction+" has no derivative here", "")
	}
	return out
}

// topKGradient sends the adjoints to where the values were.
func topKGradient(g *builder, n *ssa.Node, dy []*ssa.Value) []*ssa.Value {
	at := n.Output(1)
	if at == nil {
		at = g.node("TopK", n.In, 2, n.Attrs...).Out[1]
	}
	axis := ssa.IntAttr("axis", ops.Int(n, "axis"))
	return []*ssa.Value{g.with("ScatterElements", []*ssa.Value{g.filled(n.In[0], 0), at, dy[0]}, axis), nil}
}

// cumSumGradient sums from the other end.
func cumSumGradient(g *builder, n *ssa.Node, dy []*ssa.Value) []*ssa.Value {
	reverse := ssa.IntAttr("reverse", 1-ops.Int(n, "reverse"))
	return []*ssa.Value{g.with("CumSum", []*ssa.Value{dy[0], n.In[1]}, reverse, ssa.IntAttr("exclusive", ops.Int(n, "exclusive"))), nil}
}

// reduceProdGradient is the product of the other elements. That of those that are not 0 is divided by x where x is one of them; the
// elements that are 0 are factors that stay, so that the derivative can be differentiated: as a product, and for one of
// two as the other one, which is their sum without it.
func reduceProdGradient(g *builder, n *ssa.Node, dy []*ssa.Value) []*ssa.Value {
	x, d := n.In[0], g.keptDims(n, dy[0])
	zero := g.op("Equal", x, g.number(x, 0))
	safe := g.op("Where", zero, g.number(x, 1), x)
	over := func(op string, v *ssa.Value) *ssa.Value {
		in := []*ssa.Value{v}
		if n.Input(1) != nil {
			in = append(in, n.In[1])
		}
		return g.with(op, in, ssa.IntAttr("keepdims", 1), ssa.IntAttr("noop_with_empty_axes", ops.Int(n, "noop_with_empty_axes")))
	}
	product, zeros := over("ReduceProd", safe), over("ReduceSum", g.like(zero, x))
	one, two := g.op("Equal", zeros, g.number(x, 1)), g.op("Equal", zeros, g.number(x, 2))
	other := g.op("Sub", over("ReduceSum", g.where(zero, x, 0)), x)
	atZero := g.op("Where", one, product, g.where(two, g.mul(product, other), 0))
	elsewhere := g.mul(g.op("Div", product, safe), over("ReduceProd", g.where(zero, x, 1)))
	return []*ssa.Value{g.mul(d, g.op("Where", zero, atZero, elsewhere)), nil}
}

func triluGradient(g *builder, n *ssa.Node, dy []*ssa.Value) []*ssa.Value {
	in := append([]*ssa.Value{dy[0]}, n.In[1:]...)
	return []*ssa.Value{g.with("Trilu", in, ssa.IntAttr("upper", ops.Int(n, "upper")))}
}

// maxUnpoolGradient reads the adjoints where the values went.
func maxUnpoolGradient(g *builder, n *ssa.Node, dy []*ssa.Value) []*ssa.Value {
	if n.Input(2) != nil {
		g.refuse(n, "with output_shape it has no derivative here", "leave output_shape out")
		return nil
	}
	flat := g.with("GatherElements", []*ssa.Value{g.reshape(dy[0], -1), g.reshape(n.In[1], -1)}, ssa.IntAttr("axis", 0))
	return []*ssa.Value{g.op("Reshape", flat, g.shape(n.In[0]))}
}

// modGradient: a mod b = a - b·t, where t does not change.
func modGradient(g *builder, n *ssa.Node, dy []*ssa.Value) []*ssa.Value {
	a, b, d, y := n.In[0], n.In[1], dy[0], n.Out[0]
	out := []*ssa.Value{g.sumTo(d, a), nil}
	if g.wants(n, 1) {
		out[1] = g.sumTo(g.mul(d, g.op("Round", g.op("Div", g.op("Sub", y, a), b))), b)
	}
	return out
}

// shrinkGradient is 1 outside of [-lambd, lambd].
func shrinkGradient(g *builder, n *ssa.Node, dy []*ssa.Value) []*ssa.Value {
	return []*ssa.Value{g.where(g.above(g.op("Abs", n.In[0]), float64(ops.Float(n, "lambd"))), dy[0], 0)}
}

// inverseGradient: dX = -Yᵀ·d·Yᵀ.
func inverseGradient(g *builder, n *ssa.Node, dy []*ssa.Value) []*ssa.Value {
	t := g.swapped(n.Out[0])
	return []*ssa.Value{g.op("Neg", g.op("MatMul", g.op("MatMul", t, dy[0]), t))}
}

// einsumGradient: the adjoint of an operand is the Einsum of the others and d with the operand's labels as
// result. Labels that no other term has were summed over, so the adjoint is the same along them.
//
//	y = "ij,jk->ik" a b    da = "jk,ik->ij" b d
func einsumGradient(g *builder, n *ssa.Node, dy []*ssa.Value) []*ssa.Value {
	terms, result, ok := einsumTerms(ops.Str(n, "equation"))
	if !ok || len(terms) != len(n.In) {
		g.refuse(n, "repeated labels in a term and ellipses have no derivative here", "write the labels out")
		return nil
	}
	out := make([]*ssa.Value, len(n.In))
	for i, term := range terms {
		if !g.wants(n, i) {
			continue
		}
		var in []*ssa.Value
		var left []string
		for k, other := range terms {
			if k != i {
				in, left = append(in, n.In[k]), append(left, other)
			}
		}
		in, left = append(in, dy[0]), append(left, result)
		known := strings.Join(left, "")
		var kept string
		var missing []int64
		for at, label := range term {
			if strings.ContainsRune(known, label) {
				kept += string(label)
			} else {
				missing = append(missing, int64(at))
			}
		}
		d := g.with("Einsum", in, ssa.StringAttr("equation", fmt.Sprintf("%s->%s", strings.Join(left, ","), kept)))
		if len(missing) > 0 {
			d = g.op("Unsqueeze", d, g.ints(missing...))
		}
		out[i] = g.op("Expand", d, g.shape(n.In[i]))
	}
	return out
}

// einsumTerms cuts an equation into the labels of operands and result; ok is false for ellipses and diagonals.
func einsumTerms(equation string) (terms []string, result string, ok bool) {
	equation = strings.ReplaceAll(equation, " ", "")
	if strings.Contains(equation, ".") {
		return nil, "", false
	}
	left, right, explicit := strings.Cut(equation, "->")
	terms = strings.Split(left, ",")
	all := strings.Join(terms, "")
	if !explicit {
		labels := []rune(all)
		slices.Sort(labels)
		for _, l := range slices.Compact(labels) {
			if strings.Count(all, string(l)) == 1 {
				right += string(l)
			}
		}
	}
	for _, t := range terms {
		for _, l := range t {
			if strings.Count(t, string(l)) > 1 {
				return nil, "", false
			}
		}
	}
	return terms, right, true
}
