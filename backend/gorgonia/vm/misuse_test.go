package vm_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"github.com/berth-onnx/berth/backend/gorgonia/vm"
)

// TestNodesGiven: a node that an option can not be about is refused, by its name and the option's.
func TestNodesGiven(t *testing.T) {
	g := G.NewGraph()
	x := vector(g, "x", 1, 2, 3)
	unset := G.NewVector(g, tensor.Float64, G.WithShape(3), G.WithName("unset"))
	y := G.Must(G.Add(G.Must(G.Square(x)), unset))
	G.WithName("y")(y)
	other := vector(G.NewGraph(), "other", 1, 2)
	var v G.Value
	read := G.Read(y, &v)
	one := G.NewConstant(1.0)
	number := G.NewScalar(g, tensor.Float64, G.WithName("number"))
	require.NoError(t, G.Let(number, 1.0))
	for name, c := range map[string]struct {
		option vm.Option
		want   string
	}{
		"kept, nil":                {vm.Keep(x, nil), `node 1 of vm.Keep is nil`},
		"kept, of another graph":   {vm.Keep(other), `node "other": vm.Keep has the node of another graph; give it nodes of the graph itself`},
		"kept, in no graph":        {vm.Keep(one), `vm.Keep has the node of another graph`},
		"kept, a statement":        {vm.Keep(read), `vm.Keep has a statement, which has no value; give it the node that is read`},
		"frozen, nil":              {vm.Freeze(nil), `node 0 of vm.Freeze is nil`},
		"frozen, of another graph": {vm.Freeze(x, other), `node "other": vm.Freeze has the node of another graph`},
		"frozen, computed":         {vm.Freeze(y), `node "y" (gorgonia.elemBinOp): vm.Freeze takes inputs, and the node is computed`},
		"frozen, without a value":  {vm.Freeze(unset), `node "unset": vm.Freeze makes a constant of the input, and no value is bound to it; bind one first`},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := vm.New(g, c.option)
			var e *vm.GraphError
			require.ErrorAs(t, err, &e)
			assert.ErrorContains(t, err, c.want)
		})
	}
}

// TestFrozenMisfit: gorgonia.Let takes a number for any node; a constant is not made of it.
func TestFrozenMisfit(t *testing.T) {
	g := G.NewGraph()
	x := vector(g, "x", 1, 2, 3)
	y := G.Must(G.Square(x))
	require.NoError(t, G.Let(x, 3.0))
	_, err := vm.New(g, vm.Freeze(x))
	require.ErrorContains(t, err, `node "x": its value is float64[] where the node is float64[3]; bind one of that type and shape`)
	require.NoError(t, G.Let(x, tensor.New(tensor.WithShape(3, 1), tensor.WithBacking([]float64{2, 3, 4}))))
	m := compiled(t, g, vm.Freeze(x))
	require.NoError(t, m.RunAll())
	assert.Equal(t, []float64{4, 9, 16}, floats(t, y.Value()))
}

// TestReads: what gorgonia.Read can not fill is told by the name of the node that is read.
func TestReads(t *testing.T) {
	built := func(into *G.Value) *G.ExprGraph {
		g := G.NewGraph()
		y := G.Must(G.Square(vector(g, "x", 1, 2, 3)))
		G.WithName("y")(y)
		G.Read(y, into)
		return g
	}
	_, err := vm.New(built(nil))
	require.ErrorContains(t, err, "gorgonia.Read into a nil pointer; give it the address of a gorgonia.Value")

	short := tensor.New(tensor.WithBacking([]float64{1, 2}))
	narrow := tensor.New(tensor.WithBacking([]float32{1, 2, 3}))
	column, err := tensor.New(tensor.Of(tensor.Float64), tensor.WithShape(3, 3)).Slice(nil, tensor.S(1))
	require.NoError(t, err)
	for name, c := range map[string]struct {
		into G.Value
		want string
	}{
		"size":    {short, `the result float64[3] does not fit into a value of float64[2]`},
		"type":    {narrow, `the result float64[3] does not fit into a value of float32[3]`},
		"strided": {column.(*tensor.Dense), `give a contiguous one`},
		"nil":     {(*tensor.Dense)(nil), `a nil *tensor.Dense`},
	} {
		t.Run(name, func(t *testing.T) {
			v := c.into
			err := compiled(t, built(&v)).RunAll()
			var e *vm.GraphError
			require.ErrorAs(t, err, &e)
			assert.Equal(t, "y", e.Node)
			assert.ErrorContains(t, err, c.want)
			assert.ErrorContains(t, err, "or set the variable to nil")
		})
	}
}

// TestSliceChanged: a slice that gorgonia.UnsafeLet changes is part of the program, and is not what the next pass computes by.
func TestSliceChanged(t *testing.T) {
	g := G.NewGraph()
	x := vector(g, "x", 1, 2, 3, 4)
	part := G.Must(G.Slice(x, G.S(0, 2)))
	y := G.Must(G.Square(part))
	m := compiled(t, g)
	require.NoError(t, m.RunAll())
	assert.Equal(t, []float64{1, 4}, floats(t, y.Value()))
	require.NoError(t, G.UnsafeLet(part, G.S(2, 4)))
	require.ErrorContains(t, m.RunAll(), "its slice was changed after vm.New, which compiles slices; make a new machine")
	require.NoError(t, G.UnsafeLet(part, G.S(0, 2)))
	require.NoError(t, m.RunAll())
	require.NoError(t, G.UnsafeLet(part, G.S(2, 4)))
	require.NoError(t, compiled(t, g).RunAll())
	assert.Equal(t, []float64{9, 16}, floats(t, y.Value()))
}

// TestUnbound: values that are taken away between passes are told by the names of the nodes.
func TestUnbound(t *testing.T) {
	g := G.NewGraph()
	x, w := vector(g, "x", 1, 2, 3), vector(g, "w", 4, 5, 6)
	_, err := G.Grad(G.Must(G.Sum(G.Must(G.Square(G.Must(G.HadamardProd(x, w)))))), w)
	require.NoError(t, err)
	frozen, free := compiled(t, g, vm.Freeze(w)), compiled(t, g)
	require.NoError(t, frozen.RunAll())
	g.UnbindAll()
	var input *vm.InputError
	require.ErrorAs(t, free.RunAll(), &input)
	require.NoError(t, G.Let(x, tensor.New(tensor.WithBacking([]float64{1, 2, 3}))))
	var e *vm.GraphError
	require.ErrorAs(t, frozen.RunAll(), &e)
	assert.Equal(t, "w", e.Node)
	assert.ErrorContains(t, e, "a gradient is bound to the value of its input, which has none any more; bind one with gorgonia.Let")
}

// TestUnboundTensors: what a graph lets go of, Gorgonia makes other tensors of. Values and gradients of later passes are not in
// them, and no tensor of the user's is written over.
func TestUnboundTensors(t *testing.T) {
	g := G.NewGraph()
	x, w := vector(g, "x", 1, 2, 3), vector(g, "w", 4, 5, 6)
	y := G.Must(G.HadamardProd(x, w))
	_, err := G.Grad(G.Must(G.Sum(G.Must(G.Square(y)))), w)
	require.NoError(t, err)
	m := compiled(t, g, vm.Keep(y))
	var own []*tensor.Dense
	for range 3 {
		require.NoError(t, m.RunAll())
		grad, err := w.Grad()
		require.NoError(t, err)
		g.UnbindAllNonInputs()
		for range 8 {
			own = append(own, tensor.New(tensor.WithBacking([]float64{7, 7, 7})).Clone().(*tensor.Dense))
		}
		assert.Equal(t, []float64{8, 40, 108}, floats(t, grad))
		assert.Nil(t, y.Value())
	}
	require.NoError(t, m.RunAll())
	assert.Equal(t, []float64{4, 10, 18}, floats(t, y.Value()))
	for _, d := range own {
		assert.Equal(t, []float64{7, 7, 7}, d.Data())
	}
}

// moody is an op of a user's own that differs between training and use.
type moody struct {
	plusOne
	tell func(training bool) error
}

func (o moody) SetTraining(training bool) error { return o.tell(training) }

// TestTrainingRefused: an op that can not be told is an error that names it.
func TestTrainingRefused(t *testing.T) {
	broken := errors.New("broken")
	for name, tell := range map[string]func(bool) error{
		"fails":  func(bool) error { return broken },
		"panics": func(bool) error { panic(broken) },
	} {
		var did string
		g := G.NewGraph()
		G.Must(G.ApplyOp(moody{plusOne{&did}, tell}, vector(g, "x", 1, 2, 3)))
		_, err := vm.New(g)
		var e *vm.GraphError
		require.ErrorAs(t, err, &e, name)
		assert.ErrorIs(t, err, broken, name)
		assert.ErrorContains(t, err, "SetTraining(true)", name)
	}
}

// TestMessages: errors name nodes of the expression graph and what the user has written, not what it was compiled to.
func TestMessages(t *testing.T) {
	named := func(n *G.Node, err error) *G.Node {
		G.WithName("y")(G.Must(n, err))
		return n
	}
	for name, c := range map[string]struct {
		build func(g *G.ExprGraph)
		want  string
	}{
		"softmax of no axis": {func(g *G.ExprGraph) { named(G.SoftMax(filled(g, "x", 2, 3), 5)) }, `node "y" (*gorgonia.softmaxOp): Softmax: axis 5 is out of range for rank 2`},
		"a negative size": {func(g *G.ExprGraph) {
			named(G.Square(G.NewVector(g, tensor.Float64, G.WithShape(-3), G.WithName("x"))))
		}, `node "x": `},
		"a size beyond memory": {func(g *G.ExprGraph) {
			named(G.Square(G.NewTensor(g, tensor.Float64, 3, G.WithShape(1<<30, 1<<30, 1<<30), G.WithName("x"))))
		}, `node "x": `},
		"pooling of integers": {func(g *G.ExprGraph) {
			named(G.MaxPool2D(G.NewTensor(g, tensor.Int, 4, G.WithShape(1, 1, 4, 4), G.WithName("x")), tensor.Shape{2, 2}, []int{0, 0}, []int{2, 2}))
		}, `node "y" (*gorgonia.maxPoolOp): MaxPool is of floats, and these elements are int64; convert them with gorgonia.ConvType`},
		"index out of range": {func(g *G.ExprGraph) {
			i := G.NewVector(g, tensor.Int, G.WithShape(2), G.WithName("i"), G.WithValue(tensor.New(tensor.WithBacking([]int{0, 7}))))
			named(G.ByIndices(filled(g, "x", 2, 3), i, 0))
		}, `"-> y/Gather"(float64[2,3], int64[2]): index 7 is out of range`},
	} {
		t.Run(name, func(t *testing.T) {
			g := G.NewGraph()
			c.build(g)
			m, err := vm.New(g)
			if err == nil {
				err = m.RunAll()
			}
			assert.ErrorContains(t, err, c.want)
		})
	}
}
