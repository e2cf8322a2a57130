package onnxgo_test

import (
	"context"
	"errors"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"unsafe"

	"github.com/owulveryck/onnx-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"gorgonia.org/tensor"

	"github.com/berth-onnx/berth"
	"github.com/berth-onnx/berth/backend/onnxgo"
	"github.com/berth-onnx/berth/internal/onnxwire"
	"github.com/berth-onnx/berth/ops"
)

// layer is y = relu(x·w + b) over any batch.
var layer = file{opset: 13, inputs: "x[N,2]", outputs: "y[N,2]", nodes: []*onnxwire.Node{op("Gemm", "x w b -> a"), op("Relu", "a -> y")},
	weights: []*onnxwire.Tensor{weight("w", []int64{2, 2}, 1, 2, 3, 4), weight("b", []int64{2}, -10, 0)}}

// both decodes a model in the two ways.
func both(t *testing.T, f file, test func(t *testing.T, g *onnxgo.Graph, m *onnx.Model)) {
	for name, decode := range map[string]func(testing.TB, file) (*onnxgo.Graph, *onnx.Model){"decoded by onnx-go": decoded, "read by the graph": parsed} {
		t.Run(name, func(t *testing.T) {
			g, m := decode(t, f)
			test(t, g, m)
		})
	}
}

// TestRuns runs a graph again and again: with inputs set anew, changed where they are, and of other shapes. It compiles once
// for each shape, and results stay what they were.
func TestRuns(t *testing.T) {
	both(t, layer, func(t *testing.T, g *onnxgo.Graph, m *onnx.Model) {
		x := floats([]int{1, 2}, 1, 2)
		first := outputs(t, g, m, x)
		assert.Equal(t, []any{[]float32{0, 10}}, first)
		compiled := g.Model().Stats().Misses
		x.Set(0, float32(5)) // the tensor that was set is read again
		assert.Equal(t, []any{[]float32{1, 18}}, outputs(t, g, m))
		for k := range 5 {
			assert.Equal(t, []any{[]float32{float32(k), float32(2*k + 10)}}, outputs(t, g, m, floats([]int{1, 2}, float32(k)-5, 5)))
		}
		assert.Equal(t, compiled, g.Model().Stats().Misses, "compiled again")
		for _, batch := range []int{3, 1, 2, 3} {
			got := outputs(t, g, m, floats([]int{batch, 2}))
			assert.Len(t, got[0], 2*batch)
		}
		assert.Equal(t, compiled+2, g.Model().Stats().Misses, "compiled for 3 and 2")
		assert.Equal(t, []any{[]float32{0, 10}}, first, "written over by a later run")
	})
}

// TestInputErrors gives inputs that do not fit.
func TestInputErrors(t *testing.T) {
	both(t, layer, func(t *testing.T, g *onnxgo.Graph, m *onnx.Model) {
		var wrong *berth.InputError
		require.ErrorAs(t, g.Run(), &wrong, "none set")
		assert.Equal(t, "x", wrong.Name)
		for name, x := range map[string]tensor.Tensor{
			"columns": floats([]int{1, 3}), "rank": floats([]int{2, 2, 2}), "type": tensor.New(tensor.WithShape(1, 2), tensor.WithBacking([]int64{1, 2})),
		} {
			err := m.SetInput(0, x)
			if err == nil { // what onnx-go has not handed over
				err = g.Run()
			}
			require.Error(t, err, name)
			if name != "rank" {
				require.ErrorAs(t, err, &wrong)
			}
			out, err := m.GetOutputTensors()
			require.NoError(t, err)
			assert.Equal(t, []tensor.Tensor{nil}, out, "neither zeros nor the result of another run")
		}
		assert.Equal(t, []any{[]float32{0, 10}}, outputs(t, g, m, floats([]int{1, 2}, 1, 2)), "after errors")
		assert.Error(t, m.SetInput(0, (*tensor.Dense)(nil)))
		assert.NoError(t, m.SetInput(0, nil), "takes the value away")
		assert.ErrorAs(t, g.Run(), &wrong)
	})
}

// TestClosed: results stay valid when a graph is closed; a run after that fails and leaves none.
func TestClosed(t *testing.T) {
	both(t, layer, func(t *testing.T, g *onnxgo.Graph, m *onnx.Model) {
		assert.Equal(t, []any{[]float32{0, 10}}, outputs(t, g, m, floats([]int{1, 2}, 1, 2)))
		require.NoError(t, g.Close())
		out, err := m.GetOutputTensors()
		require.NoError(t, err)
		assert.Equal(t, []float32{0, 10}, out[0].Data())
		require.ErrorIs(t, g.Run(), berth.ErrClosed)
		out, err = m.GetOutputTensors()
		require.NoError(t, err)
		assert.Equal(t, []tensor.Tensor{nil}, out)
	})
}

// TestSetInput: what the declared shape excludes is refused where it is set, and leaves the value that was set before.
func TestSetInput(t *testing.T) {
	strict := file{opset: 13, inputs: "x[N,2,M,3]", outputs: "y[N,2,M,3]", nodes: []*onnxwire.Node{op("Relu", "x -> y")}}
	both(t, strict, func(t *testing.T, g *onnxgo.Graph, m *onnx.Model) {
		want := outputs(t, g, m, floats([]int{1, 2, 1, 3}, 1, -2, 3, -4, 5, -6))
		for name, x := range map[string]tensor.Tensor{
			"another size": floats([]int{1, 2, 1, 4}), "another order": floats([]int{1, 3, 1, 2}), "too few": floats([]int{2}), "a number": tensor.New(tensor.FromScalar(float32(1))),
		} {
			var wrong *berth.InputError
			require.ErrorAs(t, m.SetInput(0, x), &wrong, name)
			assert.Equal(t, "x", wrong.Name)
		}
		assert.ErrorContains(t, m.SetInput(0, &tensor.Dense{}), "no element type")
		assert.Equal(t, want, outputs(t, g, m))
		assert.NoError(t, m.SetInput(0, floats([]int{2, 2, 2, 3})))
	})
	g, m := parsed(t, strict)
	var wrong *berth.InputError
	require.ErrorAs(t, m.SetInput(0, floats([]int{1, 2, 1, 1, 3})), &wrong, "another rank")
	require.ErrorAs(t, m.SetInput(0, tensor.New(tensor.WithShape(1, 2, 1, 3), tensor.Of(tensor.Int64))), &wrong, "another type")
	assert.Equal(t, `input "x" must be float32[N,2,M,3], got a tensor of int64[1 2 1 3]`, wrong.Error())
	require.NoError(t, g.Close())
}

// TestUndecoded: a graph that onnx-go's decoder has left half filled, by an error or a panic of its own, does not run; the graph
// reads the same file itself.
func TestUndecoded(t *testing.T) {
	below := ports("x[N,2]")
	below[0].Type.Tensor.Shape.Dims[0] = &onnxwire.Dim{Kind: onnxwire.DimValue, Value: -1}
	branch := &onnxwire.Graph{Name: "b", Nodes: []*onnxwire.Node{op("Neg", "x -> b")}, Outputs: ports("b[2]")}
	graphs := func(name string) *onnxwire.Attribute {
		return &onnxwire.Attribute{Name: name, Type: onnxwire.AttrGraph, G: branch}
	}
	for name, c := range map[string]struct {
		f      file
		inputs []*onnxwire.ValueInfo
	}{
		"a dimension of -1": {file{opset: 13, outputs: "y[N,2]", nodes: []*onnxwire.Node{op("Relu", "x -> y")}}, below},
		"an empty weight":   {file{opset: 13, inputs: "x[N,2]", outputs: "y[N,2]", nodes: []*onnxwire.Node{op("Concat", "x w -> y", intAttr("axis", 0))}, weights: []*onnxwire.Tensor{weight("w", []int64{0, 2})}}, nil},
		"a branch": {file{opset: 13, inputs: "x[2]", outputs: "y[2]", nodes: []*onnxwire.Node{op("Neg", "x -> a"), op("If", "c -> y", graphs("then_branch"), graphs("else_branch"))},
			weights: []*onnxwire.Tensor{{Name: "c", DataType: onnxwire.TypeBool, Int32Data: []int32{1}}}}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			if c.inputs != nil {
				c.f.ports = c.inputs
			}
			data := c.f.bytes(t)
			g := onnxgo.NewGraph()
			m := onnx.NewModel(g)
			func() {
				defer func() { _ = recover() }()
				require.Error(t, m.UnmarshalBinary(data))
			}()
			var wrong *onnxgo.GraphError
			require.ErrorAs(t, g.Run(), &wrong)
			assert.ErrorContains(t, wrong, "Parse or Open of a new graph")
			whole := onnxgo.NewGraph()
			require.NoError(t, whole.Parse(onnx.NewModel(whole), data))
		})
	}
}

// TestViews sets inputs that are views: transposed, sliced, column-major.
func TestViews(t *testing.T) {
	both(t, layer, func(t *testing.T, g *onnxgo.Graph, m *onnx.Model) {
		whole := floats([]int{3, 3})
		part, err := whole.Slice(tensor.S(1, 3), tensor.S(0, 2)) // 3 4, 6 7
		require.NoError(t, err)
		turned := floats([]int{2, 2}, 3, 6, 4, 7)
		require.NoError(t, turned.T())
		columns := tensor.New(tensor.WithShape(2, 2), tensor.AsFortran([]float32{3, 4, 6, 7}))
		want := outputs(t, g, m, floats([]int{2, 2}, 3, 4, 6, 7))
		for _, x := range []tensor.Tensor{part, turned, columns} {
			assert.Equal(t, want, outputs(t, g, m, x))
		}
	})
}

// TestNodes reads and sets values by their names.
func TestNodes(t *testing.T) {
	g, m := decoded(t, layer)
	node := func(name string) onnx.DataCarrier {
		n, ok := m.GetNodeByName(name)
		require.True(t, ok)
		return n.(onnx.DataCarrier)
	}
	assert.Equal(t, tensor.Shape{2}, m.GetInputTensors()[0].Shape(), "a placeholder, as onnx-go makes it: N is left out")
	assert.Equal(t, tensor.Float32, m.GetInputTensors()[0].Dtype())
	assert.Equal(t, []float32{1, 2, 3, 4}, node("w").GetTensor().Data())
	assert.Nil(t, node("a").GetTensor())
	assert.Equal(t, []any{[]float32{0, 10}}, outputs(t, g, m, floats([]int{1, 2}, 1, 2)))
	require.NoError(t, node("b").SetTensor(floats([]int{2}, 1, 1)), "a weight")
	assert.Equal(t, []any{[]float32{8, 11}}, outputs(t, g, m))
	var wrong *onnxgo.GraphError
	assert.ErrorAs(t, node("y").SetTensor(floats([]int{2})), &wrong, "a result")
	assert.ErrorContains(t, node("b").SetTensor((*tensor.Dense)(nil)), "a nil *tensor.Dense")
	assert.Equal(t, "y", wrong.Value)

	p, m := parsed(t, layer)
	assert.Equal(t, tensor.Shape{2}, m.GetInputTensors()[0].Shape())
	out, err := m.GetOutputTensors()
	require.NoError(t, err)
	assert.Equal(t, tensor.Float32, out[0].Dtype())
	assert.Nil(t, p.Model())
}

// TestWeightsAmongInputs decodes files of the time when weights were inputs: SetInput of onnx-go numbers them, too. A weight
// at the position of an input is never meant; where that is another input, only names say which one is.
func TestWeightsAmongInputs(t *testing.T) {
	f := file{opset: 8, outputs: "y[2]", nodes: []*onnxwire.Node{op("Mul", "x w -> a"), op("Sub", "a z -> y")}, weights: []*onnxwire.Tensor{weight("w", []int64{2}, 2, 3)}}
	x, z := floats([]int{2}, 3, 4), floats([]int{2}, 1, 1)
	for _, inputs := range []string{"x[2] z[2] w[2]", "x[2] w[2] z[2]"} {
		f.inputs = inputs
		g, m := decoded(t, f)
		assert.Equal(t, []any{[]float32{5, 11}}, outputs(t, g, m, x, z), inputs)
	}
	f.inputs = "w[2] x[2] z[2]"
	g, m := decoded(t, f)
	require.NoError(t, m.SetInput(0, x))
	assert.ErrorContains(t, m.SetInput(1, z), "GetNodeByName", "x, by its number")
	n, _ := m.GetNodeByName("z")
	require.NoError(t, n.(onnx.DataCarrier).SetTensor(z))
	assert.Equal(t, []any{[]float32{5, 11}}, outputs(t, g, m))
	assert.Equal(t, []float32{2, 3}, g.Node(0).(onnx.DataCarrier).GetTensor().Data(), "the weight is as it was")
}

// TestDefaults overrides a default of a model that the graph reads.
func TestDefaults(t *testing.T) {
	g, m := parsed(t, file{opset: 13, inputs: "w[2] x[2]", outputs: "y[2]", nodes: []*onnxwire.Node{op("Sub", "x w -> y")}, weights: []*onnxwire.Tensor{weight("w", []int64{2}, 1, 1)}})
	assert.Len(t, m.Input, 1)
	assert.Equal(t, []any{[]float32{2, 3}}, outputs(t, g, m, floats([]int{2}, 3, 4)))
	n, _ := m.GetNodeByName("w")
	require.NoError(t, n.(onnx.DataCarrier).SetTensor(floats([]int{2}, 2, 4)))
	assert.Equal(t, []any{[]float32{1, 0}}, outputs(t, g, m))
}

// TestOpen reads a file with external data; a closed graph says so.
func TestOpen(t *testing.T) {
	f := layer
	f.weights = []*onnxwire.Tensor{f.weights[0], {Name: "b", DataType: onnxwire.TypeFloat, Dims: []int64{2}, DataLocation: onnxwire.DataExternal,
		ExternalData: []*onnxwire.StringEntry{{Key: "location", Value: "b.bin"}}}}
	dir := t.TempDir()
	path := filepath.Join(dir, "model.onnx")
	require.NoError(t, os.WriteFile(path, f.bytes(t), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "b.bin"), []byte{0, 0, 0x20, 0xc1, 0, 0, 0, 0}, 0o600)) // -10, 0
	g := onnxgo.NewGraph(berth.WithThreads(2))
	m := onnx.NewModel(g)
	require.NoError(t, g.Open(m, path))
	assert.Equal(t, []any{[]float32{0, 10}}, outputs(t, g, m, floats([]int{1, 2}, 1, 2)))
	require.NoError(t, g.Close())
	assert.ErrorIs(t, g.Run(), berth.ErrClosed)
}

// TestContext ends a run early.
func TestContext(t *testing.T) {
	g, m := decoded(t, layer)
	require.NoError(t, m.SetInput(0, floats([]int{1, 2})))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	assert.ErrorIs(t, g.RunContext(ctx), context.Canceled)
	assert.ErrorContains(t, g.RunContext(nil), "the context is nil")
	assert.NoError(t, g.Run())
}

// TestConcurrentUse calls a graph from several goroutines, each with values of its own in turn, and graphs of their own at once.
func TestConcurrentUse(t *testing.T) {
	g, m := decoded(t, layer)
	var turn sync.Mutex
	var all sync.WaitGroup
	for k := range 8 {
		all.Go(func() {
			for i := range 20 {
				got := func() []any {
					turn.Lock()
					defer turn.Unlock()
					return outputs(t, g, m, floats([]int{1, 2}, float32(k), float32(i)))
				}()
				assert.Equal(t, []any{[]float32{float32(math.Max(0, float64(k+3*i-10))), float32(2*k + 4*i)}}, got)
			}
			own, model := decoded(t, layer)
			for i := range 20 {
				outputs(t, own, model, floats([]int{1 + i%3, 2}))
				_ = g.Nodes().Len() // no turn is needed to look
				_ = g.Node(0).(*onnxgo.Node).GetTensor()
			}
		})
	}
	all.Wait()
}

// TestResultNotFetched: where one result can not be fetched, there are none.
func TestResultNotFetched(t *testing.T) {
	g, m := parsed(t, file{opset: 13, inputs: "x[2]", outputs: "y[2] s", nodes: []*onnxwire.Node{op("Neg", "x -> y"), op("SequenceConstruct", "x -> s")}})
	require.NoError(t, m.SetInput(0, floats([]int{2}, 1, 2)))
	var ge *onnxgo.GraphError
	require.ErrorAs(t, g.Run(), &ge)
	assert.ErrorContains(t, ge, "can not be fetched")
	out, err := m.GetOutputTensors()
	require.NoError(t, err)
	assert.Equal(t, []tensor.Tensor{nil, nil}, out)
}

// TestTensorsBeyondMemory: an input or attribute whose copy in row-major order the budget of memory has no room for is that
// error, with its name, and no [*berth.InputError].
func TestTensorsBeyondMemory(t *testing.T) {
	if strconv.IntSize < 64 {
		t.Skip("no tensor has so many elements")
	}
	var few [64]byte // the first bytes of a memory that is never read
	bytes := uint64(4) << 40
	huge := tensor.New(tensor.Of(tensor.Float32), tensor.WithShape(1<<20, 1<<20), tensor.FromMemory(uintptr(unsafe.Pointer(&few)), uintptr(bytes)))
	require.NoError(t, huge.T())
	g, m := parsed(t, file{opset: 13, inputs: "x[N,M]", outputs: "y[N,M]", nodes: []*onnxwire.Node{op("Relu", "x -> y")}})
	err := m.SetInput(0, huge)
	if err == nil {
		err = g.Run()
	}
	full, wrong := (*ops.MemoryError)(nil), (*berth.InputError)(nil)
	require.ErrorAs(t, err, &full)
	assert.ErrorContains(t, err, `input "x": `)
	assert.False(t, errors.As(err, &wrong))
	require.NoError(t, g.Close())

	g = onnxgo.NewGraph()
	y := g.NewNode()
	g.AddNode(y)
	require.NoError(t, g.ApplyOperation(onnx.Operation{Name: "Constant", Attributes: map[string]any{"value": huge}}, y))
	err = g.Run()
	require.ErrorAs(t, err, &full)
	assert.ErrorContains(t, err, `attribute "value": `)
	require.NoError(t, g.Close())
}
