package ops

import (
	"context"
	"errors"
	"fmt"

	"github.com/berth-onnx/berth/internal/rescue"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ssa"
)

// Interpret runs a graph node by node with reference kernels and fresh memory
// for every result: the oracle every program is compared with. observe, if not
// nil, sees each node's results (inside bodies too). Memory is that of the context's budget
// ([ndarray.BudgetOf]).
func Interpret(ctx context.Context, g *ssa.Graph, args []ndarray.Value, observe func(*ssa.Node, []ndarray.Value)) (_ []ndarray.Value, err error) {
	defer rescue.Into(&err)
	if len(args) != len(g.Params) {
		return nil, fmt.Errorf("graph %q takes %d inputs, got %d", g.Name, len(g.Params), len(args))
	}
	env, memory := make([]ndarray.Value, g.NumValues()), ndarray.BudgetOf(ctx)
	for i, p := range g.Params {
		env[p.ID] = args[i]
	}
	for _, n := range g.Nodes {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		c := &Call{Ctx: ctx, Node: n, Threads: 1, Memory: memory, Out: make([]ndarray.Value, len(n.Out))}
		for _, v := range n.In {
			a, err := lookup(ctx, env, v, memory)
			if err != nil {
				return nil, AtNode("run", n, err)
			}
			c.In = append(c.In, a)
		}
		c.Body = func(i int, args []ndarray.Value) ([]ndarray.Value, error) {
			return Interpret(ctx, n.Bodies[i], args, observe)
		}
		if err := Eval(c); err != nil {
			return nil, err
		}
		for i, v := range n.Out {
			if v != nil {
				env[v.ID] = c.Out[i]
			}
		}
		if observe != nil {
			rescue.Call("the observer", func() { observe(n, c.Out) })
		}
	}
	if err := ctx.Err(); err != nil {
		return nil, err // also where the last kernel was cut short, or there is none
	}
	out := make([]ndarray.Value, len(g.Results))
	for i, v := range g.Results {
		a, err := lookup(ctx, env, v, memory)
		if err != nil {
			return nil, err
		}
		out[i] = a
	}
	return out, nil
}

func lookup(ctx context.Context, env []ndarray.Value, v *ssa.Value, memory ndarray.Budget) (ndarray.Value, error) {
	if v == nil {
		return nil, nil
	}
	if v.Const != nil {
		return v.Const.ArrayContext(ctx, memory)
	}
	return env[v.ID], nil
}

// Eval runs the reference kernel of c.Node. A panic inside a kernel comes back
// as an error that names the node.
func Eval(c *Call) (err error) {
	defer rescue.Into(&err)
	o := Of(c.Node)
	if o == nil || o.Eval == nil {
		return AtNode("run", c.Node, unknownOperator(c.Node))
	}
	defer func() {
		if r := recover(); r != nil {
			err = AtNode("run", c.Node, rescue.Caught(r))
		}
	}()
	for len(c.Out) < len(c.Node.Out) {
		c.Out = append(c.Out, nil)
	}
	run := o.Eval
	switch {
	case o.foreign:
		run = func(c *Call) error { return evalForeign(o, c) }
	case c.OverlaysAny():
		run = func(c *Call) error { return evalOutOfPlace(o, c) }
	}
	if err := run(c); err != nil {
		if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
			return err
		}
		return AtNode("run", c.Node, err)
	}
	return nil
}

// PanicError is a panic caught at an API border: a bug in berth, or arguments that break what a
// function documents.
type PanicError = rescue.PanicError
