package train_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
	"github.com/berth-onnx/berth/train"
)

// choice is a model that multiplies by a constant "w" in either branch of an If: y = mean(x·w).
func choice(t *testing.T, then, otherwise *ssa.Constant) *berth.Model {
	g := ssa.NewGraph("choice")
	cond, x := g.AddParam("cond", ssa.StaticTensor(ndarray.Bool)), g.AddParam("x", ssa.StaticTensor(ndarray.Float32, 2))
	n := g.NewNode("If", []*ssa.Value{cond, x}, 0)
	n.Captures = 1
	for i, c := range []*ssa.Constant{then, otherwise} {
		attr := []string{"then_branch", "else_branch"}[i]
		body := ssa.NewGraph(attr)
		product := body.NewNode("Mul", []*ssa.Value{body.AddParam("x", x.Type), body.AddConst("w", c)}, 1)
		body.Results = body.NewNode("ReduceMean", product.Out, 1, ssa.IntAttr("keepdims", 0)).Out
		n.AddBody(attr, body)
	}
	g.Results = []*ssa.Value{g.AddOutput(n, "y")}
	require.NoError(t, ops.InferGraph(g))
	return berth.FromModule(&ssa.Module{Graph: g})
}

// TestWeightsOfBranches: constants of one name in sibling branches are weights of their own, unless they are one constant. A step
// changes what the branch that ran has, and the model that comes back has it there.
func TestWeightsOfBranches(t *testing.T) {
	of := func(values ...float32) *ssa.Constant { return ssa.NewConstant(ndarray.Of(values, len(values))) }
	shared := of(1, 2)
	for _, c := range []struct {
		name            string
		then, otherwise *ssa.Constant
		learned         []string
		after           map[string][]float64 // a step with rate 1 in the first branch, whose derivative is x/2 = [1, 2]
	}{
		{"other values", of(1, 2), of(3, 4), []string{"y.then_branch.w", "y.else_branch.w"}, map[string][]float64{"y.then_branch.w": {0, 0}, "y.else_branch.w": {3, 4}}},
		{"other shapes", of(1, 2), of(3), []string{"y.then_branch.w", "y.else_branch.w"}, map[string][]float64{"y.then_branch.w": {0, 0}, "y.else_branch.w": {3}}},
		{"equal values", of(1, 2), of(1, 2), []string{"y.then_branch.w", "y.else_branch.w"}, map[string][]float64{"y.then_branch.w": {0, 0}, "y.else_branch.w": {1, 2}}},
		{"one constant", shared, shared, []string{"w"}, map[string][]float64{"w": {0, 0}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := choice(t, c.then, c.otherwise)
			tr, err := train.New(t.Context(), m, train.Options{Optimizer: train.SGD(0), Rate: train.Constant(1)})
			require.NoError(t, err)
			assert.Equal(t, c.learned, tr.Learned())
			x := ndarray.Of([]float32{2, 4}, 2)
			_, err = tr.Step(t.Context(), ndarray.Of([]bool{true}), x)
			require.NoError(t, err)
			for name, want := range c.after {
				w, err := tr.Weight(name)
				require.NoError(t, err)
				for i, v := range want {
					assert.Equal(t, v, w.Float(i), name)
				}
			}
			back, err := tr.Model()
			require.NoError(t, err)
			for _, branch := range []bool{true, false} {
				cond := ndarray.Of([]bool{branch})
				got, err := back.RunValues(t.Context(), map[string]ndarray.Value{"cond": cond, "x": x})
				require.NoError(t, err)
				loss, err := tr.Step(t.Context(), cond, x) // of the weights before it
				require.NoError(t, err)
				if !branch && len(c.learned) == 1 {
					continue // the step of the other branch has changed the weight
				}
				assert.Equal(t, loss, got["y"].(*ndarray.Array).Float(0))
			}
			_, err = train.New(t.Context(), m, train.Options{Learn: c.learned[:1]})
			require.NoError(t, err)
			_, err = train.New(t.Context(), m, train.Options{Learn: []string{"w"}})
			if len(c.learned) > 1 {
				assert.ErrorContains(t, err, "y.then_branch.w")
				assert.ErrorContains(t, err, "y.else_branch.w")
			} else {
				assert.NoError(t, err)
			}
		})
	}
}

// TestNormOfAnotherDomain: a node that shares no more than its name with BatchNormalization stays as it is, whatever its operands.
func TestNormOfAnotherDomain(t *testing.T) {
	g, err := ssa.ParseGraph(`graph "g" { in %x: float32[2,3] const %w: float32[3,3] = splat 1 %y = MatMul(%x, %w) %z = my.domain::BatchNormalization(%x) out %y, %z }`)
	require.NoError(t, err)
	tr, err := train.New(t.Context(), berth.FromModule(&ssa.Module{Graph: g}), train.Options{Loss: train.MeanSquaredError, Learn: []string{"w"}})
	require.NoError(t, err)
	assert.Equal(t, []string{"w"}, tr.Learned())
}

// TestLiterals: what a file writes as Constant nodes is no weight, unless there is nothing else or it is named.
func TestLiterals(t *testing.T) {
	for _, c := range []struct {
		literals, learn, want []string
	}{
		{nil, nil, []string{"w", "k"}},
		{[]string{"k"}, nil, []string{"w"}},
		{[]string{"k"}, []string{"k"}, []string{"k"}},
		{[]string{"w", "k"}, nil, []string{"w", "k"}},
	} {
		g, err := ssa.ParseGraph(`graph "g" { in %x: float32[2,3] const %w: float32[3] = [1,2,3] const %k: float32[3] = [1,0,1] %a = Mul(%x, %w) %y = Mul(%a, %k) out %y }`)
		require.NoError(t, err)
		require.NoError(t, ops.InferGraph(g))
		for _, v := range g.Values() {
			if slices.Contains(c.literals, v.Name) {
				v.Const.SetLiteral()
			}
		}
		tr, err := train.New(t.Context(), berth.FromModule(&ssa.Module{Graph: g}), train.Options{Loss: train.MeanSquaredError, Learn: c.learn})
		require.NoError(t, err)
		assert.ElementsMatch(t, c.want, tr.Learned())
	}
}
