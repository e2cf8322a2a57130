package berth_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth"
	"github.com/berth-onnx/berth/internal/conformance"
	"github.com/berth-onnx/berth/internal/program"
	"github.com/berth-onnx/berth/internal/shareddata"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/onnximport"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/planner"
	"github.com/berth-onnx/berth/ssa"
	"github.com/berth-onnx/berth/testmodels"
)

func TestPorts(t *testing.T) {
	m := builtin("decoder")
	in, out := m.Inputs(), m.Outputs()
	assert.Equal(t, "ids", in[0].Name)
	assert.Equal(t, "int64[N,1]", in[0].Type.String())
	assert.Equal(t, "past_value3", in[len(in)-1].Name)
	assert.Equal(t, "scores", out[0].Name)
	assert.False(t, in[0].Optional)
}

// TestInputErrors runs a model on what does not fit; the error names the input,
// what it must be and what it is.
func TestInputErrors(t *testing.T) {
	m := builtin("mlp")
	p, err := m.Compile(t.Context())
	require.NoError(t, err)
	for _, c := range []struct {
		in   map[string]ndarray.Value
		want []string
	}{
		{nil, []string{`"x"`, "float32[4,64]", "nothing"}},
		{map[string]ndarray.Value{"y": ones(4, 64)}, []string{`"y"`, "unknown", "x float32[4,64]"}},
		{map[string]ndarray.Value{"x": ones(4, 64), "y": ones(4, 64)}, []string{`"y"`, "unknown"}},
		{map[string]ndarray.Value{"x": ones(4, 63)}, []string{`"x"`, "float32[4,64]", "float32[4,63]"}},
		{map[string]ndarray.Value{"x": ndarray.Must(ndarray.Float64, 4, 64)}, []string{`"x"`, "float64[4,64]"}},
	} {
		_, err := p.RunValues(t.Context(), c.in)
		var input *program.InputError
		require.ErrorAs(t, err, &input)
		for _, w := range c.want {
			assert.ErrorContains(t, err, w)
		}
	}
	_, err = p.RunValues(t.Context(), map[string]ndarray.Value{"x": nil})
	require.ErrorContains(t, err, `input "x"`)
	_, err = m.RunValues(t.Context(), map[string]ndarray.Value{"x": ones(4, 63)})
	require.ErrorContains(t, err, `input "x"`)
}

func TestOptionErrors(t *testing.T) {
	m := builtin("encoder")
	for _, c := range []struct {
		opt  berth.Option
		want string
	}{
		{berth.WithPlanner("best"), `"best"`},
		{berth.WithSchedule("best"), `"best"`},
		{berth.WithBackend("gpu"), `"gpu"`},
		{berth.WithShape("x", 1), `"x"`},
		{berth.WithShape("ids", 1), `"ids"`},
		{berth.WithDim("N", -1), `"N"`},
		{berth.WithContext(nil), "the context is nil"},
		{berth.WithoutPass("no-such-pass"), `"no-such-pass"`},
	} {
		_, err := m.Compile(t.Context(), c.opt)
		require.ErrorContains(t, err, c.want)
		var bad *berth.OptionError
		require.ErrorAs(t, err, &bad)
	}
	_, err := m.Compile(t.Context(), berth.WithPlanner("best"))
	var unknown *planner.UnknownPlannerError
	require.ErrorAs(t, err, &unknown, "the cause")
}

func TestOpenErrors(t *testing.T) {
	path := filepath.Join(t.TempDir(), "m.onnx")
	_, err := berth.Open(path)
	require.ErrorIs(t, err, os.ErrNotExist)
	require.NoError(t, os.WriteFile(path, []byte("no model"), 0o644))
	_, err = berth.Open(path)
	var imp *onnximport.ImportError
	require.ErrorAs(t, err, &imp)
	assert.Equal(t, path, imp.File)
	_, err = berth.Parse([]byte("no model"))
	require.ErrorAs(t, err, &imp)
}

// TestParse imports a model from memory and computes what the file computes.
func TestParse(t *testing.T) {
	path := filepath.Join(t.TempDir(), "m.onnx")
	require.NoError(t, builtin("inception").Save(path, berth.SaveOptions{Metadata: map[string]string{"k": "v"}}))
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	a, err := berth.Parse(data)
	require.NoError(t, err)
	b, err := berth.Open(path)
	require.NoError(t, err)
	defer b.Close()
	in := map[string]ndarray.Value{"x": ones(1, 16, 16, 16)}
	x, err := a.RunValues(t.Context(), in)
	require.NoError(t, err)
	y, err := b.RunValues(t.Context(), in)
	require.NoError(t, err)
	assert.Equal(t, x, y)
}

// TestRunOwnsResults changes what a run gave; the next run must not notice.
func TestRunOwnsResults(t *testing.T) {
	m := builtin("if-pass") // one branch hands its input through
	p, err := m.Compile(t.Context())
	require.NoError(t, err)
	in := map[string]ndarray.Value{"cond": ndarray.Scalar(true), "x": ones(4, 32)}
	first, err := p.RunValues(t.Context(), in)
	require.NoError(t, err)
	kept := ndarray.CloneValue(first["z"])
	for _, v := range first {
		for i := range v.(*ndarray.Array).Data {
			v.(*ndarray.Array).Data[i] = 99
		}
	}
	second, err := p.RunValues(t.Context(), in)
	require.NoError(t, err)
	assert.Equal(t, kept, second["z"])
	assert.Equal(t, ones(4, 32), in["x"])
}

// TestKeepPorts freezes sizes inside and leaves them open outside, while others read the model.
func TestKeepPorts(t *testing.T) {
	m := builtin("heads")
	frozen, _, err := m.Optimize(t.Context(), berth.WithDim("N", 2), berth.WithDim("S", 3))
	require.NoError(t, err)
	var all sync.WaitGroup
	all.Go(func() {
		for range 100 {
			assert.Equal(t, "float32[2,3,24]", frozen.Inputs()[0].Type.String())
		}
	})
	open, err := frozen.KeepPorts(m)
	require.NoError(t, err)
	all.Wait()
	assert.Equal(t, "float32[N,S,24]", open.Inputs()[0].Type.String())
	assert.Equal(t, m.Outputs(), open.Outputs())
	assert.Equal(t, "float32[N,S,24]", m.Inputs()[0].Type.String())
	assert.Equal(t, "float32[2,3,24]", frozen.Inputs()[0].Type.String())
	_, err = frozen.KeepPorts(nil)
	require.EqualError(t, err, "KeepPorts(nil): want the model that declares the types")
	for want, declares := range map[string]string{
		`KeepPorts(a model where "x" is float64[2]): want the one from which this model was made, where it is float32[2]`: `in %x: float64[2] %y = Abs(%x) out %y`,
		`KeepPorts(a model where "x" is float32[3]): want the one from which this model was made, where it is float32[2]`: `in %x: float32[3] %y = Abs(%x) out %y`,
		`KeepPorts(a model where "y" is int64[1]): want the one from which this model was made, where it is float32[2]`:   `in %x: float32[2] %y: int64[1] = Shape(%x) out %y`,
	} {
		_, err = parsed(t, `graph "abs" { in %x: float32[2] %y: float32[2] = Abs(%x) out %y }`).KeepPorts(parsed(t, `graph "other" { `+declares+` }`))
		var refused *berth.OptionError
		require.ErrorAs(t, err, &refused, want)
		require.EqualError(t, err, want)
	}
	require.NoError(t, frozen.Close())
	_, err = frozen.KeepPorts(m)
	require.ErrorIs(t, err, berth.ErrClosed)
	assert.Equal(t, m.Inputs(), open.Inputs(), "models made from one are closed separately")
}

func TestTrace(t *testing.T) {
	m := builtin("mlp")
	tr, err := m.Trace(t.Context(), map[string]ndarray.Value{"x": ndarray.Must(ndarray.Float32, 4, 64)}, berth.WithoutPasses())
	require.NoError(t, err)
	assert.Len(t, tr.Steps, 6)
	require.Len(t, tr.Outputs, 1)
	assert.Equal(t, "probabilities", tr.Outputs[0].Value)
	assert.Equal(t, tr.Steps[5].Data, tr.Outputs[0].Data)
}

// TestSessionsShareArena lets programs for two lengths take turns in one arena.
func TestSessionsShareArena(t *testing.T) {
	arena := berth.NewArena()
	m := builtin("heads")
	for _, n := range []int64{2, 5, 2} {
		p, err := m.Compile(t.Context(), berth.WithDim("N", n), berth.WithDim("S", 3))
		require.NoError(t, err)
		s, err := p.NewSessionIn(arena)
		require.NoError(t, err)
		out, err := s.Run(t.Context(), []ndarray.Value{ndarray.Must(ndarray.Float32, int(n), 3, 24)})
		require.NoError(t, err)
		assert.Equal(t, []int{int(n), 3, 24}, out[0].(*ndarray.Array).Shape)
	}
}

// TestCompareOrders plans with every order and planner; shared bounds make rows of
// one order comparable.
func TestCompareOrders(t *testing.T) {
	var told int
	rows, err := builtin("inception").Compare(t.Context(), berth.CompareOptions{Schedules: berth.Schedules(), Progress: func(string, string) { told++ }})
	require.NoError(t, err)
	require.Len(t, rows, len(berth.Planners())*len(berth.Schedules()))
	assert.Equal(t, len(rows), told)
	bounds := map[string]int64{}
	for _, r := range rows {
		require.NoError(t, r.Err)
		if old, ok := bounds[r.Schedule]; ok {
			assert.Equal(t, old, r.LowerBound)
		}
		bounds[r.Schedule] = r.LowerBound
		assert.GreaterOrEqual(t, r.ArenaBytes, r.LowerBound)
		assert.Equal(t, r.ArenaBytes == r.LowerBound, r.Proven)
	}
}

// TestBuiltinsMeetTheBound: on every built-in model the default planner needs no more
// than what is alive at once, in the order of the file and in any other. No loop copies
// what it carries; slices are copied where they do not lie in one piece, or were made
// elsewhere.
func TestBuiltinsMeetTheBound(t *testing.T) {
	stacked := map[string]int64{
		"loop-stack":         8,      // the iteration's number
		"loop-stack-carried": 4 * 24, // the value before, which the iteration before has made
		"scan-axis1":         2 * 96, // a slice read and one stacked along an inner axis
	}
	for _, b := range testmodels.List() {
		t.Run(b.Name, func(t *testing.T) {
			m := builtin(b.Name)
			var opts []berth.Option
			for _, in := range m.Inputs() {
				for _, d := range in.Type.Shape {
					for _, symbol := range d.Symbols(nil) {
						opts = append(opts, berth.WithDim(symbol, 3))
					}
				}
			}
			rows, err := m.Compare(t.Context(), berth.CompareOptions{Planners: []string{"auto"}, Schedules: berth.Schedules()}, opts...)
			require.NoError(t, err)
			for _, r := range rows {
				require.NoError(t, r.Err, r.Schedule)
				assert.Equal(t, r.LowerBound, r.ArenaBytes, r.Schedule)
				assert.Equal(t, r.Dynamic == 0, r.Proven, r.Schedule)
				assert.Equal(t, stacked[b.Name], r.LoopCopyBytes, r.Schedule)
			}
		})
	}
}

// TestRecordedArchitecturesMeetTheBound: the same on AlexNet, DenseNet, Inception,
// ResNet, ShuffleNet and the like, as the ONNX project records them.
func TestRecordedArchitecturesMeetTheBound(t *testing.T) {
	cases, err := conformance.Open(shareddata.Path(t, "onnx-conformance", "light.tar.gz"))
	require.NoError(t, err)
	for _, c := range cases {
		t.Run(c.Name, func(t *testing.T) {
			data, err := c.ModelBytes()
			require.NoError(t, err)
			m, err := berth.Parse(data)
			require.NoError(t, err)
			rows, err := m.Compare(t.Context(), berth.CompareOptions{Planners: []string{"auto"}, Schedules: []string{"file", "min-peak"}})
			require.NoError(t, err)
			for _, r := range rows {
				require.NoError(t, r.Err, r.Schedule)
				assert.Equal(t, r.LowerBound, r.ArenaBytes, r.Schedule)
				assert.True(t, r.Proven, r.Schedule)
			}
		})
	}
}

// TestExtendGraph changes graphs whose outputs are named otherwise than their values, are one value, or an input, and
// an input of which has a default.
func TestExtendGraph(t *testing.T) {
	g := ssa.NewGraph("ends")
	x := g.AddParam("x", ssa.StaticTensor(ndarray.Float32, 2))
	bias := g.AddParam("bias", x.Type)
	sum := g.NewNode("Add", []*ssa.Value{x, bias}, 1).Out[0]
	sum.Name, sum.Type = "first", x.Type
	g.Results = []*ssa.Value{sum, sum, x}
	one := ndarray.Must(ndarray.Float32, 2)
	one.SetFloat(0, 1)
	m := berth.FromModule(&ssa.Module{Graph: g, Opsets: []ssa.Opset{{Version: 21}}, OutputNames: []string{"second", "first", "same"},
		Defaults: map[string]*ssa.Constant{"bias": ssa.NewConstant(one)}})
	extended, err := m.Extend(t.Context(), func(_ context.Context, g *ssa.Graph) error { // x + x, and no bias
		assert.Equal(t, []string{"second", "first", "same"}, []string{g.Results[0].Name, g.Results[1].Name, g.Results[2].Name})
		g.ReplaceUses(g.Params[1], g.Params[0])
		g.Params = g.Params[:1]
		return nil
	})
	require.NoError(t, err)
	three := ndarray.Must(ndarray.Float32, 2)
	three.SetFloat(0, 3)
	in := map[string]ndarray.Value{"x": three}
	for i, x := range []struct {
		m    *berth.Model
		want []float64
	}{{m, []float64{4, 4, 3}}, {extended, []float64{6, 6, 3}}} {
		out, err := x.m.RunValues(t.Context(), in)
		require.NoError(t, err)
		for k, name := range []string{"second", "first", "same"} {
			assert.Equal(t, x.want[k], out[name].(*ndarray.Array).Float(0), "model %d, %s", i, name)
		}
	}
	assert.Len(t, m.Inputs(), 2)
	assert.Len(t, extended.Inputs(), 1)
	require.NoError(t, extended.Save(filepath.Join(t.TempDir(), "extended.onnx"), berth.SaveOptions{}))
	_, err = m.Extend(t.Context(), nil)
	require.EqualError(t, err, "Extend(nil): want a function that changes the graph")
	_, err = m.Extend(t.Context(), func(context.Context, *ssa.Graph) error { return errFailing })
	require.ErrorIs(t, err, errFailing)
	_, err = m.Extend(t.Context(), func(_ context.Context, g *ssa.Graph) error { g.Results[0].Name = "x"; return nil })
	require.Error(t, err, "two values have one name")
}

// TestTargetsAreChecked: a shape or axes that an input gives is checked in every kind of run as by the reference kernels, also where
// the type of the result follows without it, so that a program could do without the node. x has 6 elements, 0 to 5.
func TestTargetsAreChecked(t *testing.T) {
	cases := []struct {
		name, graph string
		right       []int64
		wrong       [][]int64
	}{
		{"reshape to its own shape", "in %x: float32[6]\nin %s: int64[1]\n%y = Reshape(%x, %s)", []int64{6}, [][]int64{{7}, {3}, {-2}}},
		{"reshape of open size", "in %x: float32[N]\nin %s: int64[K]\n%y = Reshape(%x, %s)", []int64{-1}, [][]int64{{7}, {-1, -1}, {1 << 40, 1 << 40}}},
		{"reshape to a row", "in %x: float32[2,3]\nin %s: int64[1]\n%y = Reshape(%x, %s)", []int64{-1}, [][]int64{{7}, {5}}},
		{"reshape within arithmetic", "in %x: float32[2,3]\nin %s: int64[1]\n%a = Relu(%x)\n%b = Reshape(%a, %s)\n%y = Neg(%b)", []int64{6}, [][]int64{{7}, {0}}},
		{"reshape before another", "in %x: float32[2,3]\nin %s: int64[1]\nconst %k: int64[2] = [3, 2]\n%b = Reshape(%x, %s)\n%y = Reshape(%b, %k)", []int64{6}, [][]int64{{7}}},
		{"reshape to a shape joined", "in %x: float32[2,3]\nin %s: int64[1]\nconst %k: int64[1] = [2]\n%t = Concat(%k, %s) [axis=0]\n%b = Reshape(%x, %t)\n%y = Neg(%b)", []int64{3}, [][]int64{{4}, {-3}}},
		{"expand that keeps the shape", "in %x: float32[2,3]\nin %s: int64[2]\n%y = Expand(%x, %s)", []int64{1, 3}, [][]int64{{4, 3}, {-1, 3}}},
		{"expand by fewer dimensions", "in %x: float32[2,3]\nin %s: int64[1]\n%a = Relu(%x)\n%y = Expand(%a, %s)", []int64{1}, [][]int64{{2}}},
		{"squeeze to a scalar", "in %x: float32[6]\nin %s: int64[1]\n%y = Squeeze(%x, %s)", nil, [][]int64{{0}, {4}}},
		{"squeeze", "in %x: float32[1,6]\nin %s: int64[1]\n%y = Squeeze(%x, %s)", []int64{0}, [][]int64{{1}, {2}}},
		{"unsqueeze", "in %x: float32[6]\nin %s: int64[1]\n%y = Unsqueeze(%x, %s)", []int64{1}, [][]int64{{2}, {-3}}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			g, err := ssa.ParseGraph("graph \"g\" {\n" + c.graph + "\nout %y\n}\n")
			require.NoError(t, err)
			require.NoError(t, ops.InferGraph(g))
			shape, ok := g.Params[0].Type.Static()
			if !ok {
				shape = []int{6}
			}
			m := berth.FromModule(&ssa.Module{Graph: g})
			p, err := m.Compile(t.Context())
			require.NoError(t, err)
			asked := c.wrong
			if c.right != nil {
				asked = append(asked, c.right)
			}
			for _, s := range asked {
				in := map[string]ndarray.Value{"x": ndarray.Of([]float32{0, 1, 2, 3, 4, 5}, shape...), "s": ndarray.Of(s, len(s))}
				want, wrong := ops.Interpret(t.Context(), g, []ndarray.Value{in["x"], in["s"]}, nil)
				assert.Equal(t, wrong == nil, slices.Equal(s, c.right))
				for kind, run := range map[string]func() (ndarray.Value, error){
					"Model.RunValues":   func() (ndarray.Value, error) { out, err := m.RunValues(t.Context(), in); return out["y"], err },
					"Program.RunValues": func() (ndarray.Value, error) { out, err := p.RunValues(t.Context(), in); return out["y"], err },
					"Trace": func() (ndarray.Value, error) {
						tr, err := m.Trace(t.Context(), in)
						if err != nil {
							return nil, err
						}
						return tr.Outputs[0].Data, nil
					},
				} {
					got, err := run()
					if wrong == nil {
						require.NoError(t, err, kind)
						assert.Equal(t, want[0].(*ndarray.Array).Floats32(), got.(*ndarray.Array).Floats32(), kind)
						continue
					}
					var node *ops.NodeError
					assert.True(t, errors.As(err, &node), "%s of %v: %v", kind, s, err)
				}
			}
		})
	}
}

// TestChangedCopies changes everything that a model gives away: the model stays as it is.
func TestChangedCopies(t *testing.T) {
	m := fromText(t, `graph "g" { in %x: float32[2,3] in %s: seq(float32[2]) %t = Transpose(%x) [perm=[1, 0]] %y = Neg(%t) %n = Shape(%y) out %y, %n }`)
	change := func(g *ssa.Graph) {
		for _, v := range g.Values() {
			for i := range v.Content {
				v.Content[i] = ssa.D(7)
			}
		}
		g.Params[0].Type.Shape[0], g.Params[1].Type.Elem.Shape[0] = ssa.D(7), ssa.D(7)
		g.Nodes[0].Attrs[0].Ints[0] = 0
	}
	want := m.Graph().String()
	for _, p := range append(m.Inputs(), m.Outputs()...) {
		for i := range p.Type.Shape {
			p.Type.Shape[i] = ssa.D(9)
		}
		if p.Type.Elem != nil {
			p.Type.Elem.Shape[0] = ssa.D(9)
		}
	}
	change(m.Graph())
	folded, err := m.Folded(t.Context())
	require.NoError(t, err)
	change(folded)
	_, _ = m.Extend(t.Context(), func(_ context.Context, g *ssa.Graph) error { change(g); return nil })
	assert.Equal(t, want, m.Graph().String())
	p, err := builtin("mlp").Compile(t.Context())
	require.NoError(t, err)
	clear(p.Plan().Packed)
	assert.NotEmpty(t, p.Plan().Packed)
}
