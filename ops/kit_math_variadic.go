package ops

import (
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ssa"
)

// variadic is an operator that folds any number of operands, element by element.
// Every result element is finished before the next one starts, so the result may
// take the place of any operand of its shape.
type variadic struct {
	step arithmetic
	// mean divides the sum by the number of operands at the end.
	mean bool
}

// variadicOp fills in what such operators have in common.
func variadicOp(name string, since int, doc string, v variadic, form func(*ssa.Node) int) Op {
	return Op{
		Name: name, Since: since, Form: form, Doc: doc,
		MinIn: 1, MaxIn: -1, MinOut: 1, MaxOut: 1,
		Infer: rule(inferVariadic), Eval: kernel(func(c *Call) { evalVariadic(c, v) }),
		Facts:    Facts{Elementwise: true, Commutative: true},
		Upgrades: dropConsumedInputs(name),
	}
}

func inferVariadic(n *ssa.Node) []Inferred {
	types := make([]ssa.Type, len(n.In))
	all := make([]int, len(n.In))
	for i := range n.In {
		if n.In[i] == nil {
			failf("operand %d is absent", i)
		}
		types[i], all[i] = n.In[i].Type, i
	}
	dt := sameDType(n, all...)
	t := try(BroadcastTypes(dt, types...))
	if len(n.In) == 2 {
		return factOf(t, arithmeticContent(n, t))
	}
	return One(t)
}

func evalVariadic(c *Call, v variadic) {
	in := make([]*ndarray.Array, len(c.In))
	shapes := make([][]int, len(c.In))
	for i := range in {
		a := needTensor(c, i)
		if a.DType != c.Array(0).DType {
			failf("operands 0 and %d have element types %s and %s", i, c.Array(0).DType, a.DType)
		}
		in[i], shapes[i] = a, a.Shape
	}
	if len(in) == 2 && !v.mean {
		evalArithmetic(c, v.step)
		return
	}
	shape := try(BroadcastShapes(shapes...))
	out := try(c.Output(0, in[0].DType, shape...))
	v.fold(out, in, shapes)
}

func (v variadic) fold(out *ndarray.Array, in []*ndarray.Array, shapes [][]int) {
	w := newWalk(out.Shape, shapes...)
	count := float64(len(in))
	switch dt := out.DType; {
	case dt.IsFloat() && v.step.float != nil:
		read := make([]func(int) float64, len(in))
		for i, a := range in {
			read[i] = floatReader(a)
		}
		write := floatWriter(out)
		if v.mean {
			store := write
			write = func(i int, s float64) { store(i, s/count) }
		}
		foldRuns(w, read, v.step.float, write)
	case dt.IsSigned() && v.step.int != nil && !v.mean:
		foldRuns(w, readers(in, (*ndarray.Array).Int), v.step.int, out.SetInt)
	case dt.IsUnsigned() && v.step.uint != nil && !v.mean:
		read := func(a *ndarray.Array, i int) uint64 { return uint64(a.Int(i)) }
		foldRuns(w, readers(in, read), v.step.uint, func(i int, x uint64) { out.SetInt(i, int64(x)) })
	default:
		check(unsupportedType(dt))
	}
}

// readers binds an accessor to every operand.
func readers[W any](in []*ndarray.Array, get func(a *ndarray.Array, i int) W) []func(int) W {
	out := make([]func(int) W, len(in))
	for k, a := range in {
		out[k] = func(i int) W { return get(a, i) }
	}
	return out
}

// foldRuns folds the operands at every position of the walk.
func foldRuns[W any](w walk, read []func(int) W, step func(x, y W) W, write func(int, W)) {
	w.each(func(first int, at []int) {
		for k := range w.run {
			acc := read[0](at[0] + k*w.step[0])
			for i := 1; i < len(read); i++ {
				acc = step(acc, read[i](at[i]+k*w.step[i]))
			}
			write(first+k, acc)
		}
	})
}
