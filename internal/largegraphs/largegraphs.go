// Package largegraphs builds graphs whose size is a parameter, for tests and benchmarks of what
// larger models cost.
package largegraphs

import (
	"fmt"
	"slices"
	"strings"

	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	_ "github.com/berth-onnx/berth/ops/standard"
	"github.com/berth-onnx/berth/ssa"
)

// Families are graphs whose size is a parameter, each large in one way: what takes more than a constant time
// for one more node shows on one of them.
//
//	chain            x ─▶ ○ ─▶ ○ ─▶ … ─▶ y            readers     one value, n readers, each a result
//	lattice          each node reads two before       join        n values in one Sum
//	concat, split    one node of n operands, results  initializers, names, loops, branches, dims
//
// Build of a size gives a valid graph with about that many nodes.
var Families = []Family{
	{"chain", chain},
	{"residuals", residuals},
	{"readers", readers},
	{"join", func(n int) *ssa.Graph { return joined(n, "Sum") }},
	{"concat", func(n int) *ssa.Graph { return joined(n, "Concat", ssa.IntAttr("axis", 0)) }},
	{"split", split},
	{"wide-join", func(n int) *ssa.Graph { return joined(min(n, wide), "Sum") }},
	{"wide-concat", func(n int) *ssa.Graph { return joined(min(n, wide), "Concat", ssa.IntAttr("axis", 0)) }},
	{"split-concat", splitConcat},
	{"operands", operands},
	{"products", products},
	{"initializers", initializers},
	{"weights", ownWeights},
	{"convolutions", convolutions},
	{"every-result", everyResult},
	{"names", names},
	{"namesakes", namesakes},
	{"loops", manyLoops},
	{"branches", branches},
	{"dims", dims},
	{"sum-of-dims", sumOfDims},
	{"body", body},
	{"captures", captures},
	{"constant-captures", func(n int) *ssa.Graph { return unreadCaptures(n, true) }},
	{"unread-captures", func(n int) *ssa.Graph { return unreadCaptures(n, false) }},
	{"branch-results", branchResults},
	{"unread-carried", func(n int) *ssa.Graph { return carried(n, false) }},
	{"constant-carried", func(n int) *ssa.Graph { return carried(n, true) }},
	{"wide-carried", wideCarried},
	{"identical", identical},
	{"identities", identities},
	{"folded", folded},
	{"transposes", transposes},
	{"reshapes", reshapes},
	{"slices", sliced},
	{"unread", unread},
}

// wide is so many operands of a node that their square shows, and few enough that orders of such graphs are searched for.
const wide = 2000

// Family is a set of graphs.
type Family struct {
	Name  string
	Build func(n int) *ssa.Graph
}

// Of is the graph of a size with its types inferred.
func (s Family) Of(n int) (*ssa.Graph, error) {
	g := s.Build(n)
	return g, ops.InferGraph(g)
}

var row = ssa.StaticTensor(ndarray.Float32, 16)

// node adds a node with one result.
func node(g *ssa.Graph, op string, in ...*ssa.Value) *ssa.Value {
	return g.NewNode(op, in, 1).Out[0]
}

// functions have no rule that removes one after the other.
var functions = []string{"Sigmoid", "Tanh", "Sin", "Exp"}

// repeated applies a step n times to a parameter of a type.
func repeated(name string, t ssa.Type, n int, step func(g *ssa.Graph, v *ssa.Value, i int) *ssa.Value) *ssa.Graph {
	g := ssa.NewGraph(name)
	v := g.AddParam("x", t)
	for i := range n {
		v = step(g, v, i)
	}
	g.Results = []*ssa.Value{v}
	return g
}

func chain(n int) *ssa.Graph { return repeated("chain", row, n, function) }

// function applies function i.
func function(g *ssa.Graph, v *ssa.Value, i int) *ssa.Value {
	return node(g, functions[i%len(functions)], v)
}

// residuals is a chain in which every fourth node adds what was there four before.
func residuals(n int) *ssa.Graph {
	g := ssa.NewGraph("residuals")
	v := g.AddParam("x", row)
	for start := v; len(g.Nodes) < n; start = v {
		for i := range 3 {
			v = function(g, v, i)
		}
		v = node(g, "Add", v, start)
	}
	g.Results = []*ssa.Value{v}
	return g
}

// fan makes n values that differ, each of its own constant and x.
func fan(g *ssa.Graph, n int) []*ssa.Value { return fanOf(g, n, g.AddParam("x", row)) }

// fanOf is fan over a value.
func fanOf(g *ssa.Graph, n int, x *ssa.Value) []*ssa.Value {
	out := make([]*ssa.Value, n)
	for i := range out {
		k := g.AddConst(fmt.Sprintf("k%d", i), ssa.ScalarConst(float32(i)+2))
		out[i] = node(g, "Add", x, k)
	}
	return out
}

func readers(n int) *ssa.Graph {
	g := ssa.NewGraph("readers")
	g.Results = fan(g, n)
	return g
}

func joined(n int, op string, attrs ...ssa.Attr) *ssa.Graph {
	g := ssa.NewGraph(op)
	g.Results = g.NewNode(op, fan(g, n), 1, attrs...).Out
	return g
}

// splitConcat cuts one value into pieces and joins what is computed of each.
func splitConcat(n int) *ssa.Graph {
	g := split(min(n, wide))
	g.Results = g.NewNode("Concat", g.Results, 1, ssa.IntAttr("axis", 0)).Out
	return g
}

// products has n results, of which those that overwrite no operand and those that do take turns.
func products(n int) *ssa.Graph {
	g := ssa.NewGraph("products")
	x := g.AddParam("x", ssa.StaticTensor(ndarray.Float32, 4, 4))
	for i := range n {
		op, in := "Exp", []*ssa.Value{x}
		if i%2 == 0 {
			op, in = "MatMul", []*ssa.Value{x, x}
		}
		g.Results = append(g.Results, node(g, op, in...))
	}
	return g
}

// operands is one node that reads each of a few values many times.
func operands(n int) *ssa.Graph {
	g := ssa.NewGraph("operands")
	g.Results = g.NewNode("Sum", slices.Repeat(fan(g, 4), min(n, wide)/4), 1).Out
	return g
}

func split(n int) *ssa.Graph {
	g := ssa.NewGraph("split")
	x := g.AddParam("x", ssa.StaticTensor(ndarray.Float32, n, 4))
	for _, v := range g.NewNode("Split", []*ssa.Value{x}, n, ssa.IntAttr("axis", 0), ssa.IntAttr("num_outputs", int64(n))).Out {
		g.Results = append(g.Results, node(g, "Sigmoid", v))
	}
	return g
}

func initializers(n int) *ssa.Graph {
	return repeated("initializers", row, n, func(g *ssa.Graph, v *ssa.Value, i int) *ssa.Value {
		k := g.AddConst(fmt.Sprintf("weights_%d", i), ssa.NewConstant(ndarray.Of(slices.Repeat([]float32{float32(i%100) + 2}, 16), 16)))
		return node(g, []string{"Max", "Min"}[i%2], v, k)
	})
}

// ownWeights are products with a matrix of their own each.
func ownWeights(n int) *ssa.Graph {
	return repeated("weights", ssa.StaticTensor(ndarray.Float32, 1, 8), n, func(g *ssa.Graph, v *ssa.Value, i int) *ssa.Value {
		return node(g, "MatMul", v, g.AddConst(fmt.Sprintf("weights_%d", i), weights(i, 8, 8)))
	})
}

// convolutions have weights of their own each.
func convolutions(n int) *ssa.Graph {
	return repeated("convolutions", ssa.StaticTensor(ndarray.Float32, 1, 4, 8, 8), n, func(g *ssa.Graph, v *ssa.Value, i int) *ssa.Value {
		return node(g, "Conv", v, g.AddConst(fmt.Sprintf("weights_%d", i), weights(i, 4, 4, 1, 1)))
	})
}

// weights are those of number i: no two of them are equal.
func weights(i int, shape ...int) *ssa.Constant {
	w := make([]float32, ndarray.Product(shape))
	for k := range w {
		w[k] = float32((i+k)%97)/97 - 0.5
	}
	w[0] = float32(i)
	return ssa.NewConstant(ndarray.Of(w, shape...))
}

// everyResult is a chain every value of which is a result.
func everyResult(n int) *ssa.Graph {
	g := ssa.NewGraph("every result")
	x := g.AddParam("x", row)
	for v := x; len(g.Results) < n; {
		v = node(g, "Add", v, x)
		g.Results = append(g.Results, v)
	}
	return g
}

// names have a thousand characters each.
func names(n int) *ssa.Graph {
	g := chain(n)
	for _, node := range g.Nodes {
		node.Out[0].Name = strings.Repeat("name/", 200) + node.Out[0].Name
	}
	return g
}

// namesakes are nodes of one name.
func namesakes(n int) *ssa.Graph {
	g := chain(n)
	for _, node := range g.Nodes {
		node.Name = "same"
	}
	return g
}

// loopBody runs a loop of five iterations over a carried value.
func loopBody(g *ssa.Graph, i int, x, trips, yes *ssa.Value) *ssa.Value {
	b := ssa.NewGraph(fmt.Sprintf("body%d", i))
	b.AddParam("i", ssa.StaticTensor(ndarray.Int64))
	keep := b.AddParam("keep", ssa.StaticTensor(ndarray.Bool))
	b.Results = []*ssa.Value{keep, function(b, b.AddParam("v", row), i)}
	n := g.NewNode("Loop", []*ssa.Value{trips, yes, x}, 1)
	n.AddBody("body", b)
	return n.Out[0]
}

func manyLoops(n int) *ssa.Graph {
	g := ssa.NewGraph("loops")
	yes := g.AddConst("yes", ssa.ScalarConst(true))
	trips := g.AddParam("trips", ssa.StaticTensor(ndarray.Int64))
	for i, v := range fan(g, n) {
		g.Results = append(g.Results, loopBody(g, i, v, trips, yes))
	}
	return g
}

func branches(n int) *ssa.Graph {
	g := ssa.NewGraph("branches")
	cond := g.AddParam("cond", ssa.StaticTensor(ndarray.Bool))
	v := g.AddParam("x", row)
	for i := range n {
		f := g.NewNode("If", []*ssa.Value{cond, v}, 1)
		f.Captures = 1
		for k, name := range []string{"then_branch", "else_branch"} {
			b := ssa.NewGraph(name)
			b.Results = []*ssa.Value{function(b, b.AddParam("v", row), i+k)}
			f.AddBody(name, b)
		}
		v = f.Out[0]
	}
	g.Results = []*ssa.Value{v}
	return g
}

// dims has n inputs, each of a symbolic size of its own.
func dims(n int) *ssa.Graph {
	g := ssa.NewGraph("dims")
	for i := range n {
		x := g.AddParam(fmt.Sprintf("x%d", i), ssa.TensorOf(ndarray.Float32, ssa.Sym(fmt.Sprintf("n%d", i))))
		g.Results = append(g.Results, node(g, "Sigmoid", x))
	}
	return g
}

// sumOfDims joins them to one.
func sumOfDims(n int) *ssa.Graph {
	g := dims(n)
	joined := g.NewNode("Concat", g.Results, 1, ssa.IntAttr("axis", 0)).Out[0]
	g.Results = []*ssa.Value{node(g, "Sigmoid", joined)}
	return g
}

// body is one loop around n nodes.
func body(n int) *ssa.Graph {
	g := ssa.NewGraph("body")
	yes := g.AddConst("yes", ssa.ScalarConst(true))
	y := loopBody(g, 0, g.AddParam("x", row), g.AddParam("trips", ssa.StaticTensor(ndarray.Int64)), yes)
	b := g.Nodes[0].Bodies[0]
	for i := range n {
		b.Results[1] = function(b, b.Results[1], i)
	}
	g.Results = []*ssa.Value{y}
	return g
}

// captures is one branch that reads n values around it.
func captures(n int) *ssa.Graph {
	g := ssa.NewGraph("captures")
	cond := g.AddParam("cond", ssa.StaticTensor(ndarray.Bool))
	outer := fan(g, n)
	f := g.NewNode("If", append([]*ssa.Value{cond}, outer...), 1)
	f.Captures = n
	for _, name := range []string{"then_branch", "else_branch"} {
		b := ssa.NewGraph(name)
		var in []*ssa.Value
		for i := range n {
			in = append(in, b.AddParam(fmt.Sprintf("c%d", i), row))
		}
		b.Results = []*ssa.Value{node(b, "Tanh", node(b, map[string]string{"then_branch": "Max", "else_branch": "Min"}[name], in...))}
		f.AddBody(name, b)
	}
	g.Results = f.Out
	return g
}

// unreadCaptures is one branch that captures n values of which it reads one, or n constants, all of which it reads.
func unreadCaptures(n int, constant bool) *ssa.Graph {
	g := ssa.NewGraph("unread captures")
	in := []*ssa.Value{g.AddParam("cond", ssa.StaticTensor(ndarray.Bool)), g.AddParam("x", row)}
	if constant {
		for i := range n {
			in = append(in, g.AddConst(fmt.Sprintf("k%d", i), ssa.ScalarConst(float32(i))))
		}
	} else {
		in = append(in, fanOf(g, n, in[1])...)
	}
	f := g.NewNode("If", in, 1)
	f.Captures = len(in) - 1
	for _, name := range []string{"then_branch", "else_branch"} {
		b := ssa.NewGraph(name)
		for i, v := range in[1:] {
			b.AddParam(fmt.Sprintf("c%d", i), v.Type)
		}
		read := b.Params[:1]
		if constant {
			read = b.Params
		}
		b.Results = []*ssa.Value{node(b, map[string]string{"then_branch": "Max", "else_branch": "Min"}[name], read...)}
		f.AddBody(name, b)
	}
	g.Results = f.Out
	return g
}

// branchResults is one branch of n results, of which one is read.
func branchResults(n int) *ssa.Graph {
	g := ssa.NewGraph("branch results")
	f := g.NewNode("If", []*ssa.Value{g.AddParam("cond", ssa.StaticTensor(ndarray.Bool)), g.AddParam("x", row)}, n)
	f.Captures = 1
	for k, name := range []string{"then_branch", "else_branch"} {
		b := ssa.NewGraph(name)
		x := b.AddParam("v", row)
		for i := range n {
			b.Results = append(b.Results, node(b, functions[(i+k)%len(functions)], x))
		}
		f.AddBody(name, b)
	}
	g.Results = f.Out[:1]
	return g
}

// carried is one loop of n carried values, of which one is read: each of the others is computed from itself and the one
// before, or stays as it is.
func carried(n int, constant bool) *ssa.Graph {
	g := ssa.NewGraph("carried")
	x := g.AddParam("x", row)
	in := append([]*ssa.Value{g.AddParam("trips", ssa.StaticTensor(ndarray.Int64)), g.AddConst("yes", ssa.ScalarConst(true))}, fanOf(g, n, x)...)
	f := g.NewNode("Loop", in, n)
	b := ssa.NewGraph("body")
	b.AddParam("i", ssa.StaticTensor(ndarray.Int64))
	b.Results = []*ssa.Value{b.AddParam("keep", ssa.StaticTensor(ndarray.Bool))}
	for i := range n {
		v := b.AddParam(fmt.Sprintf("v%d", i), row)
		switch {
		case i == 0:
			v = node(b, "Tanh", v)
		case !constant:
			v = node(b, "Max", v, b.Params[i+1])
		}
		b.Results = append(b.Results, v)
	}
	f.AddBody("body", b)
	g.Results = f.Out[:1]
	return g
}

// wideCarried is one loop of many carried values, all of which are read and each of which is computed from itself and another.
func wideCarried(n int) *ssa.Graph {
	g := carried(min(n, wide), false)
	loop := g.Nodes[len(g.Nodes)-1]
	b := loop.Bodies[0]
	for i := range b.Results[1:] {
		b.Results[1+i] = node(b, "Max", b.Params[2+i], b.Params[2+(i*7+1)%(len(b.Results)-1)])
	}
	g.Results = []*ssa.Value{node(g, "Sum", loop.Out...)}
	return g
}

// identical has n nodes that compute the same.
func identical(n int) *ssa.Graph {
	g := ssa.NewGraph("identical")
	x := g.AddParam("x", row)
	for range n {
		g.Results = append(g.Results, node(g, "Sigmoid", x))
	}
	return g
}

// identities has n nodes that do nothing, each with a reader.
func identities(n int) *ssa.Graph {
	return repeated("identities", row, n/2, func(g *ssa.Graph, v *ssa.Value, i int) *ssa.Value {
		return function(g, node(g, "Identity", v), i)
	})
}

// folded is a chain over constants.
func folded(n int) *ssa.Graph {
	g := ssa.NewGraph("folded")
	v := g.AddConst("k", ssa.NewConstant(ndarray.Of(slices.Repeat([]float32{0.5, 1}, 8), 16)))
	for range n {
		v = node(g, "Tanh", v)
	}
	g.Results = []*ssa.Value{node(g, "Add", g.AddParam("x", row), v)}
	return g
}

// transposes is a chain of transpositions and arithmetic.
func transposes(n int) *ssa.Graph {
	return repeated("transposes", ssa.StaticTensor(ndarray.Float32, 4, 4), n/2, func(g *ssa.Graph, v *ssa.Value, i int) *ssa.Value {
		return function(g, g.NewNode("Transpose", []*ssa.Value{v}, 1, ssa.IntsAttr("perm", 1, 0)).Out[0], i)
	})
}

// reshapes is a chain of views and arithmetic.
func reshapes(n int) *ssa.Graph {
	g := ssa.NewGraph("reshapes")
	v := g.AddParam("x", row)
	shapes := []*ssa.Value{
		g.AddConst("square", ssa.Int64s(4, 4)),
		g.AddConst("flat", ssa.Int64s(16)),
	}
	for i := range n / 2 {
		v = function(g, node(g, "Reshape", v, shapes[i%2]), i)
	}
	g.Results = []*ssa.Value{v}
	return g
}

// sliced cuts one value into n pieces that are joined again.
func sliced(n int) *ssa.Graph {
	g := ssa.NewGraph("slices")
	x := g.AddParam("x", ssa.StaticTensor(ndarray.Float32, n, 4))
	y := node(g, "Sigmoid", x)
	at := func(i int) *ssa.Value {
		return g.AddConst(fmt.Sprintf("at%d", i), ssa.Int64s(int64(i)))
	}
	var all []*ssa.Value
	last := at(0)
	for i := range n {
		next := at(i + 1)
		all = append(all, node(g, "Tanh", node(g, "Slice", y, last, next)))
		last = next
	}
	g.Results = g.NewNode("Concat", all, 1, ssa.IntAttr("axis", 0)).Out
	return g
}

// unread has n nodes whose results nobody reads.
func unread(n int) *ssa.Graph {
	g := chain(n)
	g.Results = g.Nodes[0].Out
	return g
}
