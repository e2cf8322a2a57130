package train

import (
	"cmp"
	"context"
	"fmt"

	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// Builder adds nodes to the graph of a step, for losses and optimizers. The first node whose types do not fit is the error of
// [New].
type Builder struct {
	Graph *ssa.Graph
	ctx   context.Context
	names map[string]bool // of the first inputs, as many as read
	read  int
	err   error

	labels []labels // that losses of this package take
}

// Op adds a node, infers its type and gives its first result. Outside of the default domain an operator is "domain.Name", or "domain::Name" as in
// the text form of graphs.
func (b *Builder) Op(op string, in []*ssa.Value, attrs ...ssa.Attr) *ssa.Value {
	domain, name := ssa.SplitName(op)
	o, results := ops.Lookup(domain, name), 1
	if o != nil {
		results = max(o.MinOut, 1)
	}
	n := b.Graph.NewNode(name, in, results, attrs...)
	n.Domain = domain
	if o == nil {
		b.fail(fmt.Errorf("there is no operator %q, or its package is not linked", op))
	} else if err := ops.Infer(n); err != nil {
		b.fail(err)
	}
	return n.Out[0]
}

// fail keeps the first failure; nil is none.
func (b *Builder) fail(err error) {
	b.err = cmp.Or(b.err, err)
}

// hasEnded reports whether more nodes are of no use: the first failure, which the end of the context is too, stands.
func (b *Builder) hasEnded() bool {
	if err := b.ctx.Err(); err != nil {
		b.fail(err)
	}
	return b.err != nil
}

// Number is a scalar of the element type of another value.
func (b *Builder) Number(like *ssa.Value, v float64) *ssa.Value {
	a := ndarray.Must(like.Type.DType)
	a.SetFloat(0, v)
	return b.constant(a)
}

func (b *Builder) constant(a *ndarray.Array) *ssa.Value {
	return b.Graph.AddConst(fmt.Sprintf("train_const_%d", b.Graph.NumValues()), ssa.NewConstant(a))
}

// Input adds an input of the step behind those that it has, which [Trainer.Inputs] lists.
// A name that the step has already fails.
func (b *Builder) Input(name string, t ssa.Type) *ssa.Value {
	if b.names == nil {
		b.names = map[string]bool{}
	}
	for ; b.read < len(b.Graph.Params); b.read++ {
		b.names[b.Graph.Params[b.read].Name] = true
	}
	if b.names[name] {
		b.fail(fmt.Errorf("the step adds an input %q, and an input or a weight of the model has this name: rename that", name))
	}
	return b.Graph.AddParam(name, t)
}

func (b *Builder) add(x, y *ssa.Value) *ssa.Value { return b.Op("Add", []*ssa.Value{x, y}) }
func (b *Builder) sub(x, y *ssa.Value) *ssa.Value { return b.Op("Sub", []*ssa.Value{x, y}) }
func (b *Builder) mul(x, y *ssa.Value) *ssa.Value { return b.Op("Mul", []*ssa.Value{x, y}) }
func (b *Builder) div(x, y *ssa.Value) *ssa.Value { return b.Op("Div", []*ssa.Value{x, y}) }

// times is x multiplied by a number.
func (b *Builder) times(x *ssa.Value, v float64) *ssa.Value { return b.mul(x, b.Number(x, v)) }

func (b *Builder) sqrt(x *ssa.Value) *ssa.Value { return b.Op("Sqrt", []*ssa.Value{x}) }

// mean is the mean of all elements.
func (b *Builder) mean(x *ssa.Value) *ssa.Value {
	return b.Op("ReduceMean", []*ssa.Value{x}, ssa.IntAttr("keepdims", 0))
}
