package expr

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/berth-onnx/berth/gradient"
	"github.com/berth-onnx/berth/internal/rescue"
	"github.com/berth-onnx/berth/internal/rewrite"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// Operators of the program's own. What a node computes, and what its derivative is, are written as expressions over its ends.
// Both become graphs of standard operators when the shapes of a node are known:
//
//	types        of the results are those of the graph
//	reference    the graph is interpreted
//	programs     the node is replaced by the graph's nodes, which are fused and planned with all others
//	derivatives  the backward graph is written behind the node; the node itself still is one then

// Operator is a differentiable operator of the program's own, in a domain of ONNX files. Elements of operands and results have fixed
// shapes wherever Forward and Backward are called; a node in a file need not have them before shapes are bound.
type Operator struct {
	Domain, Name    string // as nodes of files have them; the domain is not that of ONNX
	Inputs, Outputs int    // how many operands, none of which may be absent, and results
	// Attrs are the attributes that nodes may have, with their defaults.
	Attrs []*ops.AttrSpec
	// Forward computes all results: [Operand], [Yield].
	Forward func(x *Executor)
	// Backward computes the derivatives of operands that are wanted: [Operand], [Yielded], [Slope], [YieldSlope]. Without it,
	// Forward is differentiated.
	Backward func(x *Executor)
}

// Executor stands for one node while an [Operator] writes what it computes. It is of use until the function that was given it
// returns.
type Executor struct {
	o        *Operator
	n        *ssa.Node
	l        *lowering
	in       []*node // operands
	results  []*node // what Forward yields, or has yielded
	dy       []*node // derivatives by results, nil in Forward
	slopes   []*node // derivatives by operands
	asked    []bool  // for derivatives by results
	backward bool
	err      error
}

// defined are the operators of this package.
var defined sync.Map // *Operator by *ops.Op

func init() {
	rewrite.Expand(func(o *ops.Op) bool { return definition(o) != nil }, func(n *ssa.Node) (*ssa.Graph, error) { return definition(ops.Of(n)).forward(n) })
}

// definition is what an operator was defined by, nil for others.
func definition(o *ops.Op) *Operator {
	if d, ok := defined.Load(o); ok {
		return d.(*Operator)
	}
	return nil
}

// Define makes an operator known: files that hold it are run, trained and written, and [Apply] does not find it. It is for functions
// init, or for the beginning of a program: no model may be opened or compiled meanwhile.
func Define(o Operator) (err error) {
	defer rescue.Into(&err)
	if o.Domain == "" || o.Domain == "ai.onnx" || o.Domain == ops.Private || o.Name == "" || o.Forward == nil || o.Inputs < 1 || o.Outputs < 1 {
		return &TypeError{"Define", fmt.Sprintf("%q of domain %q needs a name, a domain of its own, operands, results and Forward", o.Name, o.Domain), nil}
	}
	if ops.Lookup(o.Domain, o.Name) != nil {
		return &TypeError{"Define", fmt.Sprintf("there is an operator %q of domain %q already", o.Name, o.Domain), nil}
	}
	d := gradient.Definition{Forward: o.forward}
	if o.Backward != nil {
		d.Backward = o.reverse
	}
	if err := gradient.Define(o.Domain, o.Name, d); err != nil {
		return err
	}
	op := &ops.Op{Domain: o.Domain, Name: o.Name, Since: 1, Doc: "operator of the program", MinIn: o.Inputs, MaxIn: o.Inputs, MinOut: o.Outputs, MaxOut: o.Outputs,
		Attrs: o.Attrs, Infer: o.infer, Eval: o.eval, Facts: ops.Facts{Traits: ops.GeneralTraits}}
	defined.Store(op, &o)
	ops.Register(op)
	return nil
}

// executor makes the graph of a node with parameters for values of some types.
func (o *Operator) executor(ctx context.Context, n *ssa.Node) *Executor {
	x := &Executor{o: o, n: n, l: newLowering(ctx, standardViews), results: make([]*node, o.Outputs)}
	x.l.portable = true
	return x
}

// ends adds a parameter for each type.
func (x *Executor) ends(what string, types ...ssa.Type) (out []*node, err error) {
	for i, t := range types {
		shape, ok := t.Static()
		if !ok || t.Kind != ssa.KindTensor {
			return nil, &ShapeError{x.o.Name, nil, fmt.Sprintf("%s %d is %s, without known dimensions: fix them with berth.WithShape or berth.WithDim", what, i, t)}
		}
		n := &node{kind: end, dt: t.DType, shape: shape}
		x.l.params[n] = x.l.g.AddParam(fmt.Sprint(what, "_", i), t)
		out = append(out, n)
	}
	return out, nil
}

// write computes values as the graph's results.
func (x *Executor) write(list []*node) (*ssa.Graph, error) {
	if x.err != nil {
		return nil, x.err
	}
	for _, n := range list {
		v, err := x.l.shaped(n, n.shape)
		if err != nil {
			return nil, err
		}
		x.l.g.Results = append(x.l.g.Results, v)
	}
	return x.l.g, nil
}

func typesOf(values []*ssa.Value) (out []ssa.Type) {
	for _, v := range values {
		if v != nil {
			out = append(out, v.Type)
		}
	}
	return out
}

// forward is the graph of a node, from its operands to its results.
func (o *Operator) forward(n *ssa.Node) (*ssa.Graph, error) {
	return o.from(context.Background(), n, typesOf(n.In))
}

func (o *Operator) from(ctx context.Context, n *ssa.Node, types []ssa.Type) (_ *ssa.Graph, err error) {
	defer rescue.Into(&err)
	x := o.executor(ctx, n)
	if x.in, err = x.ends("operand", types...); err != nil {
		return nil, err
	}
	if len(types) != o.Inputs {
		return nil, &TypeError{o.Name, fmt.Sprintf("it takes %d operands, got %d", o.Inputs, len(types)), nil}
	}
	o.Forward(x)
	for i, r := range x.results {
		if r == nil && x.err == nil {
			return nil, &TypeError{o.Name, fmt.Sprintf("Forward yields no result %d", i), nil}
		}
	}
	return x.write(x.results)
}

// reverse is the graph of the derivative of a node.
func (o *Operator) reverse(n *ssa.Node, given, wants []bool) (_ *ssa.Graph, err error) {
	defer rescue.Into(&err)
	x := o.executor(context.Background(), n)
	x.backward, x.slopes, x.asked = true, make([]*node, o.Inputs), make([]bool, o.Outputs)
	if x.in, err = x.ends("operand", typesOf(n.In)...); err != nil {
		return nil, err
	}
	if x.results, err = x.ends("result", typesOf(n.Out)...); err != nil {
		return nil, err
	}
	if len(x.in) != o.Inputs || len(x.results) != o.Outputs {
		return nil, &TypeError{o.Name, "a node whose derivative is taken has all operands and results", nil}
	}
	for i, v := range n.Out {
		if !given[i] {
			zeros, err := broadcast(nil, x.results[i].shape)
			x.dy, x.asked[i] = append(x.dy, look(constant(ndarray.Must(v.Type.DType)), zeros, err)), true
			continue
		}
		d, err := x.ends(fmt.Sprint("slope of result ", i), v.Type)
		if err != nil {
			return nil, err
		}
		x.dy = append(x.dy, d[0])
	}
	o.Backward(x)
	var list []*node
	for i, s := range x.slopes {
		switch {
		case !wants[i]:
		case s == nil && x.err == nil:
			return nil, &TypeError{o.Name, fmt.Sprintf("Backward yields no derivative by operand %d", i), nil}
		default:
			list = append(list, s)
		}
	}
	if i := slices.Index(x.asked, false); i >= 0 && x.err == nil {
		return nil, &TypeError{o.Name, fmt.Sprintf("the derivative depends on result %d, and Backward does not read its slope", i), nil}
	}
	return x.write(list)
}

// infer gives the types of the graph's results; nothing is known before the operands have shapes.
func (o *Operator) infer(n *ssa.Node) ([]ops.Inferred, error) {
	out := make([]ops.Inferred, o.Outputs)
	if slices.ContainsFunc(n.In, func(v *ssa.Value) bool {
		if v == nil {
			return false
		}
		_, ok := v.Type.Static()
		return !ok
	}) {
		return out, nil
	}
	g, err := o.forward(n)
	if err != nil {
		return nil, err
	}
	for i, v := range g.Results {
		out[i].Type = v.Type
	}
	return out, nil
}

// eval interprets the graph for the operands of a call.
func (o *Operator) eval(c *ops.Call) error {
	var types []ssa.Type
	for _, v := range c.In {
		a, ok := v.(*ndarray.Array)
		if !ok {
			return &TypeError{o.Name, "operands are tensors", nil}
		}
		types = append(types, ssa.StaticTensor(a.DType, a.Shape...))
	}
	ctx := c.Memory.In(c.Ctx)
	g, err := o.from(ctx, c.Node, types)
	if err != nil {
		return err
	}
	out, err := ops.Interpret(ctx, g, c.In, nil)
	if err != nil {
		return err
	}
	for i, v := range out {
		if !c.Wants(i) {
			continue
		}
		from := v.(*ndarray.Array)
		to, err := c.Output(i, from.DType, from.Shape...)
		if err != nil {
			return err
		}
		copy(to.Data, from.Data)
	}
	return nil
}

// Node is the node, for its attributes; it must not be changed.
func (x *Executor) Node() *ssa.Node {
	if x == nil {
		return nil
	}
	return x.n
}

// Type is the element type of an operand; [ndarray.Undefined] if there is none.
func (x *Executor) Type(i int) ndarray.DType {
	if x == nil || i < 0 || i >= len(x.in) {
		return ndarray.Undefined
	}
	return x.in[i].dt
}

// errNoEnd is the error of an end that a node does not have.
var errNoEnd = errors.New("the node has no such operand or result here")

// pick is an end of type T.
func pick[T Elem](x *Executor, what string, list func() []*node, i int) Expr[T] {
	err := errNoEnd
	if x != nil && x.o != nil {
		if ends := list(); i >= 0 && i < len(ends) && ends[i] != nil {
			if ends[i].dt == dtypeOf[T]() {
				return Expr[T]{ends[i]}
			}
			err = fmt.Errorf("%s %d is of %s, not of %s", what, i, ends[i].dt, dtypeOf[T]())
		}
		x.fail(&TypeError{x.o.Name, "", err})
	}
	return Expr[T]{failed(&TypeError{what, "", err})}
}

func (x *Executor) fail(err error) {
	if x.err == nil {
		x.err = err
	}
}

// Operand is an operand of the node.
func Operand[T Elem](x *Executor, i int) Expr[T] {
	return pick[T](x, "operand", func() []*node { return x.in }, i)
}

// Yielded is a result of the node, as Forward has computed it, in Backward.
func Yielded[T Elem](x *Executor, i int) Expr[T] {
	return pick[T](x, "result", func() []*node {
		if !x.backward {
			return nil
		}
		return x.results
	}, i)
}

// Slope is the derivative of what is differentiated by a result of the node, in Backward; zeros if it does not depend on
// the result.
func Slope[T Elem](x *Executor, i int) Expr[T] {
	if x != nil && i >= 0 && i < len(x.asked) {
		x.asked[i] = true
	}
	return pick[T](x, "slope", func() []*node { return x.dy }, i)
}

// put keeps what an end becomes.
func (x *Executor) put(what string, list []*node, i int, n *node) {
	switch {
	case i < 0 || i >= len(list) || list[i] != nil:
		x.fail(&TypeError{x.o.Name, fmt.Sprintf("%s %d is none here, or is there already", what, i), nil})
	case n.err != nil:
		x.fail(n.err)
	default:
		list[i] = n
	}
}

// Yield says what a result of the node is, in Forward.
func Yield[T Elem](x *Executor, i int, e Value[T]) {
	if x != nil && x.o != nil && !x.backward {
		x.put("result", x.results, i, nodeOf(e))
	}
}

// YieldSlope says what the derivative by an operand is, in Backward: a value of its type that broadcasts to its shape.
func YieldSlope[T Elem](x *Executor, i int, e Value[T]) {
	if x == nil || x.o == nil || !x.backward {
		return
	}
	n := nodeOf(e)
	if i >= 0 && i < len(x.in) && n.err == nil {
		switch v, err := broadcast(n.shape, x.in[i].shape); {
		case err != nil:
			x.fail(&ShapeError{x.o.Name, [][]int{n.shape, x.in[i].shape}, fmt.Sprintf("the derivative by operand %d does not broadcast to the operand", i)})
			return
		case n.dt != x.in[i].dt:
			x.fail(&TypeError{x.o.Name, fmt.Sprintf("the derivative by operand %d is of %s, not of %s", i, n.dt, x.in[i].dt), nil})
			return
		case !slices.Equal(n.shape, x.in[i].shape):
			n = look(n, v, nil)
		}
	}
	x.put("derivative", x.slopes, i, n)
}
