package conformance

import (
	"context"
	"fmt"
	"io/fs"
	"strings"

	"github.com/berth-onnx/berth/internal/onnxwire"
	"github.com/berth-onnx/berth/ndarray"
)

// lightSet makes the data set of a light model: every input holds 0, 1/n, 2/n …
// in row-major order (n elements, dimensions without a number taken as 1),
// rounded to float32, and the outputs lie beside the model.
func (c *Case) lightSet(ctx context.Context, sig *Signature) (*Set, error) {
	set := &Set{Name: "rule"}
	for _, in := range sig.Inputs {
		a, err := ruleInput(ctx, in)
		if err != nil {
			return nil, fmt.Errorf("case %s: %w", c.Name, err)
		}
		set.Inputs = append(set.Inputs, Named{in.Name, a})
	}
	var err error
	set.Outputs, err = c.values(ctx, sig.Outputs, c.lightOutputs(sig))
	return set, err
}

// lightOutputs finds the recorded outputs of a light model by number.
func (c *Case) lightOutputs(sig *Signature) map[int]string {
	files := map[int]string{}
	for i := range sig.Outputs {
		name := fmt.Sprintf("%s_output_%d.pb", strings.TrimSuffix(c.model, ".onnx"), i)
		if _, err := fs.Stat(c.files, name); err == nil {
			files[i] = name
		}
	}
	return files
}

func ruleInput(ctx context.Context, in *onnxwire.ValueInfo) (*ndarray.Array, error) {
	if in.Type == nil || in.Type.Tensor == nil || in.Type.Tensor.ElemType != onnxwire.TypeFloat || in.Type.Tensor.Shape == nil {
		return nil, fmt.Errorf("input %q is no float tensor of known rank: no values follow from a rule", in.Name)
	}
	var shape []int
	for _, d := range in.Type.Tensor.Shape.Dims {
		n := 1
		if d.Kind == onnxwire.DimValue {
			n = int(d.Value)
		}
		shape = append(shape, n)
	}
	a, err := ndarray.NewContext(ctx, ndarray.BudgetOf(ctx), ndarray.Float32, shape...)
	if err != nil {
		return nil, err
	}
	out := ndarray.Slice[float32](a)
	for i := range out {
		out[i] = float32(float64(i) / float64(len(out)))
	}
	return a, nil
}
