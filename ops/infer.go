package ops

import (
	"context"
	"fmt"
	"slices"
	"unsafe"

	"github.com/berth-onnx/berth/internal/rescue"
	"github.com/berth-onnx/berth/internal/sysmem"
	"github.com/berth-onnx/berth/ssa"
)

// manyResults is from how many results on the memory for their types is asked for.
const manyResults = 1024

// Infer applies a node's type and shape rule and stores what it says on the
// results. Results of opaque nodes keep the type they have.
func Infer(n *ssa.Node) error { return InferContext(context.Background(), n) }

// InferContext is Infer within a context, which ends it between the nodes of bodies; its error is returned then.
func InferContext(ctx context.Context, n *ssa.Node) (err error) {
	defer rescue.Into(&err)
	o := Of(n)
	if o == nil {
		return nil
	}
	err = o.CheckArity(n)
	if err == nil {
		err = o.CheckAttrs(n)
	}
	if err == nil {
		err = checkBodies(n)
	}
	if err != nil {
		return AtNode("shape inference", n, &StructureError{err})
	}
	if len(n.Out) >= manyResults {
		if err := sysmem.BudgetOf(ctx).AskContext(ctx, "the types of the results of a node", int64(len(n.Out))*int64(unsafe.Sizeof(Inferred{}))); err != nil {
			return AtNode("shape inference", n, err)
		}
	}
	facts, err := o.rule(ctx, n)
	if err != nil {
		if ended := ctx.Err(); ended != nil {
			return ended
		}
		return AtNode("shape inference", n, err)
	}
	general := o.Domain != Private && slices.ContainsFunc(n.In, isBlocked) // once: a loop may have many operands and results
	for i, v := range n.Out {
		if v == nil {
			continue
		}
		if i >= len(facts) {
			return AtNode("shape inference", n, fmt.Errorf("the rule knows %d results, the node has %d", len(facts), len(n.Out)))
		}
		if o.foreign {
			if err := facts[i].Type.Check(); err != nil {
				return AtNode("shape inference", n, fmt.Errorf("the rule says that result %d has %w", i, err))
			}
		}
		v.Type, v.Content = facts[i].Type, facts[i].Content
		if general && v.Type.Channels == 0 {
			v.Type.Channels = channelsOf(o, n, v.Type)
		}
	}
	return nil
}

// rule asks the operator's rule.
func (o *Op) rule(ctx context.Context, n *ssa.Node) (facts []Inferred, err error) {
	defer rescue.Into(&err)
	o.call(func() {
		if o.InferBodies != nil {
			facts, err = o.InferBodies(ctx, n)
		} else {
			facts, err = o.Infer(n)
		}
	})
	return facts, err
}

// call calls what belongs to the operator: a panic in an operator of another package is that one's.
func (o *Op) call(f func()) {
	if !o.foreign {
		f()
		return
	}
	rescue.Call("the operator "+o.Domain+"."+o.Name, f)
}

// StructureError is a failure that no other shape of the operands avoids: operands,
// results, attributes or bodies are missing, too many or not valid.
type StructureError struct{ error }

// Unwrap returns the cause.
func (e *StructureError) Unwrap() error { return e.error }

// InferGraph infers every node of a graph in order; parameters must be typed.
func InferGraph(g *ssa.Graph) error { return InferGraphContext(context.Background(), g) }

// InferGraphContext is InferGraph until the context ends, whose error it then returns.
func InferGraphContext(ctx context.Context, g *ssa.Graph) (err error) {
	defer rescue.Into(&err)
	for _, n := range g.Nodes {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := InferContext(ctx, n); err != nil {
			return err
		}
	}
	return nil
}

// CheckArity compares a node's operands and results with the schema: how many there are, and
// that none is absent which is required.
func (o *Op) CheckArity(n *ssa.Node) (err error) {
	defer rescue.Into(&err)
	in := len(n.In) - n.Captures
	if in < o.MinIn || o.MaxIn >= 0 && in > o.MaxIn {
		return fmt.Errorf("has %d operands, the operator takes %s", in, span(o.MinIn, o.MaxIn))
	}
	first, end := 0, min(o.MinIn, in)
	if o.MaxIn < 0 {
		first, end = min(o.OptionalIn, in), in
	}
	for i, v := range n.In[first:end] {
		if v == nil {
			return fmt.Errorf("operand %d is required and absent", first+i)
		}
	}
	if out := len(n.Out); out < o.MinOut || o.MaxOut >= 0 && out > o.MaxOut {
		return fmt.Errorf("has %d results, the operator gives %s", out, span(o.MinOut, o.MaxOut))
	}
	if o.MaxOut < 0 {
		return nil // any of them may be absent
	}
	for i, v := range n.Out[:o.MinOut] {
		if v == nil {
			return fmt.Errorf("result %d is required and absent", i)
		}
	}
	return nil
}

func span(lo, hi int) string {
	switch {
	case hi < 0:
		return fmt.Sprintf("at least %d", lo)
	case lo == hi:
		return fmt.Sprint(lo)
	}
	return fmt.Sprintf("%d to %d", lo, hi)
}
