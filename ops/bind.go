package ops

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/berth-onnx/berth/internal/rescue"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ssa"
)

// Binding fixes what a model leaves open before it is compiled.
type Binding struct {
	Shapes map[string][]int // whole shapes by parameter name
	Dims   map[string]int64 // symbols by name
}

// Bind returns a copy of the graph with shapes and symbols fixed and all types
// inferred anew. A parameter's shape also fixes the symbols in its type, so that
// one input's batch size reaches every other. Constants are shared.
func Bind(ctx context.Context, g *ssa.Graph, b Binding) (_ *ssa.Graph, err error) {
	defer rescue.Into(&err)
	c, _, err := g.CloneContext(ctx)
	if err != nil {
		return nil, err
	}
	dims := make(map[string]int64, len(b.Dims))
	for k, v := range b.Dims {
		if v < 0 {
			return nil, fmt.Errorf("dimension %q is bound to %d; it must not be negative", k, v)
		}
		dims[k] = v
	}
	used := map[string]bool{}
	for _, p := range c.Params {
		shape, ok := b.Shapes[p.Name]
		if !ok {
			continue
		}
		used[p.Name] = true
		if err := bindParam(p, shape, dims); err != nil {
			return nil, err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(b.Shapes)) {
		if !used[name] {
			return nil, fmt.Errorf("there is no input %q; the inputs are %s", name, paramNames(c))
		}
	}
	for _, p := range c.Params {
		p.Type = p.Type.Bind(dims)
		if _, fits := p.Type.ByteSize(); !fits && p.Type.IsStatic() && p.Type.Kind == ssa.KindTensor && p.Type.DType != ndarray.String {
			return nil, &BindingError{p.Name, fmt.Sprintf("%s has more bytes than can be counted", p.Type)}
		}
	}
	if err := InferGraphContext(ctx, c); err != nil {
		return nil, err
	}
	return c, nil
}

// BindingError reports an input that can not have the shape that a [Binding] gives it.
type BindingError struct {
	Input  string
	Reason string
}

// Error names the input.
func (e *BindingError) Error() string { return fmt.Sprintf("input %q: %s", e.Input, e.Reason) }

// bindParam gives one parameter its shape and records the symbols it fixes.
func bindParam(p *ssa.Value, shape []int, dims map[string]int64) error {
	wrong := func(format string, args ...any) error { return &BindingError{p.Name, fmt.Sprintf(format, args...)} }
	if p.Type.Kind != ssa.KindTensor {
		return &BindingError{p.Name, "it is not a tensor and has no shape to set"}
	}
	if p.Type.Ranked && len(p.Type.Shape) != len(shape) {
		return wrong("its rank is %d, that of the shape %v is %d", len(p.Type.Shape), shape, len(shape))
	}
	for i, n := range shape {
		if n < 0 {
			return wrong("dimension %d is negative", i)
		}
		if !p.Type.Ranked {
			continue
		}
		d := p.Type.Shape[i]
		if k, ok := d.Const(); ok && k != int64(n) {
			return wrong("dimension %d is %d in the model, %d asked", i, k, n)
		}
		if s, ok := d.SymbolName(); ok {
			if old, seen := dims[s]; seen && old != int64(n) {
				return wrong("dimension %d is %q = %d, but %d asked", i, s, old, n)
			}
			dims[s] = int64(n)
		}
	}
	p.Type = ssa.StaticTensor(p.Type.DType, shape...)
	return nil
}

func paramNames(g *ssa.Graph) string {
	s := ""
	for i, p := range g.Params {
		if i > 0 {
			s += ", "
		}
		s += p.Name + " " + p.Type.String()
	}
	return s
}
