package berth_test

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth/internal/onnxwire"
)

// extremes are the integers where arithmetic on sizes, axes and counts overflows or leaves its range.
var extremes = []int64{math.MinInt64, -1, math.MaxInt32 + 1, math.MaxInt64}

// TestExtremes gives every integer of the seed models an extreme value, one at a time, and runs the pipeline: integers of
// attributes, dimensions of inputs, and elements of integer operands, which become constants where they were inputs. One
// model is tried for each operator, place and value.
func TestExtremes(t *testing.T) {
	seeds, tried := seedModels(t), map[string]bool{}
	try := func(model, place string, w *onnxwire.Model) {
		if tried[place] {
			return
		}
		tried[place] = true
		data, err := onnxwire.Marshal(w)
		require.NoError(t, err)
		t.Run(place, func(t *testing.T) { _ = watched(t, model, data) })
	}
	for _, name := range slices.Sorted(maps.Keys(seeds)) {
		w, err := onnxwire.Parse(seeds[name])
		require.NoError(t, err)
		if len(w.Graph.Nodes) == 0 {
			continue
		}
		for _, x := range extremes {
			for _, n := range w.Graph.Nodes {
				extremeAttributes(n, x, func(place string) { try(name, place, w) })
			}
			op := w.Graph.Nodes[0].OpType
			for i, in := range w.Graph.Inputs {
				if in.Type == nil || in.Type.Tensor == nil || in.Type.Tensor.Shape == nil {
					continue
				}
				extremeDimensions(in, x, func(axis int) { try(name, fmt.Sprintf("%s: dimension %d of input %d is %d", op, axis, i, x), w) })
				extremeOperand(w.Graph, i, x, func() { try(name, fmt.Sprintf("%s: elements of input %d are %d", op, i, x), w) })
			}
		}
	}
	t.Logf("%d models", len(tried))
	require.NotEmpty(t, tried)
}

// extremeAttributes sets the integers of the attributes of a node to x, one at a time, while f is called.
func extremeAttributes(n *onnxwire.Node, x int64, f func(place string)) {
	for _, a := range n.Attributes {
		switch a.Kind() {
		case onnxwire.AttrInt:
			old := a.I
			a.I = x
			f(fmt.Sprintf("%s: %s is %d", n.OpType, a.Name, x))
			a.I = old
		case onnxwire.AttrInts:
			for i, old := range a.Ints {
				a.Ints[i] = x
				f(fmt.Sprintf("%s: %s[%d] is %d", n.OpType, a.Name, i, x))
				a.Ints[i] = old
			}
		}
	}
}

// extremeDimensions sets the dimensions of an input to x, one at a time, while f is called.
func extremeDimensions(in *onnxwire.ValueInfo, x int64, f func(axis int)) {
	for i, d := range in.Type.Tensor.Shape.Dims {
		old := *d
		*d = onnxwire.Dim{Kind: onnxwire.DimValue, Value: x}
		f(i)
		*d = old
	}
}

// extremeOperand makes integer input i a constant of elements x while f is called.
func extremeOperand(g *onnxwire.Graph, i int, x int64, f func()) {
	in := g.Inputs[i]
	elem := in.Type.Tensor.ElemType
	if elem != onnxwire.TypeInt64 && elem != onnxwire.TypeInt32 {
		return
	}
	c := &onnxwire.Tensor{Name: in.Name, DataType: elem}
	elements := int64(1)
	for _, d := range in.Type.Tensor.Shape.Dims {
		c.Dims = append(c.Dims, d.Value)
		elements *= d.Value
	}
	if elements < 1 || elements > 64 {
		return
	}
	if elem == onnxwire.TypeInt64 {
		c.Int64Data = slices.Repeat([]int64{x}, int(elements))
	} else {
		c.Int32Data = slices.Repeat([]int32{int32(min(max(x, math.MinInt32), math.MaxInt32))}, int(elements))
	}
	inputs, initializers := g.Inputs, g.Initializers
	g.Inputs = slices.Delete(slices.Clone(inputs), i, i+1)
	g.Initializers = append(slices.Clone(initializers), c)
	f()
	g.Inputs, g.Initializers = inputs, initializers
}
