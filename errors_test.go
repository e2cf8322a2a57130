package berth_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth"
	"github.com/berth-onnx/berth/internal/shareddata"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// sixWays runs a model by each method that takes values.
func sixWays(t *testing.T, m *berth.Model, opts ...berth.Option) map[string]func(context.Context, map[string]ndarray.Value) error {
	t.Helper()
	p, err := m.Compile(t.Context(), opts...)
	require.NoError(t, err)
	s, err := p.NewSession()
	require.NoError(t, err)
	return map[string]func(context.Context, map[string]ndarray.Value) error{
		"Model.RunValues": func(ctx context.Context, in map[string]ndarray.Value) error {
			_, err := m.RunValues(ctx, in, opts...)
			return err
		},
		"Program.RunValues": func(ctx context.Context, in map[string]ndarray.Value) error {
			_, err := p.RunValues(ctx, in)
			return err
		},
		"Program.RunInto": func(ctx context.Context, in map[string]ndarray.Value) error { return p.RunInto(ctx, in, nil) },
		"Session.RunValues": func(ctx context.Context, in map[string]ndarray.Value) error {
			_, err := s.RunValues(ctx, in)
			return err
		},
		"Session.RunInto": func(ctx context.Context, in map[string]ndarray.Value) error { return s.RunInto(ctx, in, nil) },
		"Session.Run": func(ctx context.Context, in map[string]ndarray.Value) error {
			args, err := p.Arguments(in)
			if err == nil {
				_, err = s.Run(ctx, args)
			}
			return err
		},
	}
}

// TestOneFamilyOfErrors gives every method what does not fit: the errors are of one type, and
// say the same.
func TestOneFamilyOfErrors(t *testing.T) {
	fixed, open := builtin("mlp"), builtin("flatten")
	sequences := fromText(t, `graph "g" { in %s: seq(float32[2]) in %o: opt(float32[2]) %y = ConcatFromSequence(%s) [axis=0] %z = OptionalHasElement(%o) out %y, %z }`)
	x, y := floats(0, 1, 3, 4), floats(0, 2, 4)
	seq, opt := &ndarray.Sequence{Items: []ndarray.Value{floats(0, 2)}}, &ndarray.Optional{}
	short := &ndarray.Array{DType: ndarray.Float32, Shape: []int{4, 64}, Data: make([]byte, 20)}
	type inputs = map[string]ndarray.Value
	for _, c := range []struct {
		name string
		m    *berth.Model
		in   inputs
		want string
	}{
		{"missing", fixed, inputs{}, `input "x" must be float32[4,64], got nothing`},
		{"nil", fixed, inputs{"x": nil}, `input "x" must be float32[4,64], got nothing`},
		{"typed nil", fixed, inputs{"x": (*ndarray.Array)(nil)}, `input "x" must be float32[4,64], got a nil *ndarray.Array`},
		{"unknown", fixed, inputs{"x": floats(0, 4, 64), "q": x}, `input "q" must be one of x float32[4,64], got an unknown name`},
		{"type", fixed, inputs{"x": ndarray.Must(ndarray.Float64, 4, 64)}, `input "x" must be float32[4,64], got float64[4,64]`},
		{"shape", fixed, inputs{"x": floats(0, 4, 63)}, `input "x" must be float32[4,64], got float32[4,63]`},
		{"rank", fixed, inputs{"x": floats(0, 256)}, `input "x" must be float32[4,64], got float32[256]`},
		{"short", fixed, inputs{"x": short}, `input "x" must be float32[4,64], got float32[4,64] with too little data: have 5 elements, need 256`},
		{"sequence for a tensor", fixed, inputs{"x": seq}, `input "x" must be float32[4,64], got a sequence`},
		{"undefined", fixed, inputs{"x": &ndarray.Array{}}, `input "x" must be float32[4,64], got undefined[]`},
		{"open type", open, inputs{"x": ndarray.Must(ndarray.Int64, 1, 3, 4), "y": y}, `input "x" must be float32[N,S,4], got int64[1,3,4]`},
		{"open rank", open, inputs{"x": y, "y": y}, `input "x" must be float32[N,S,4], got float32[2,4]`},
		{"open shape", open, inputs{"x": floats(0, 1, 3, 5), "y": y}, `input "x" must be float32[N,S,4], got float32[1,3,5]`},
		{"open short", open, inputs{"x": &ndarray.Array{DType: ndarray.Float32, Shape: []int{1, 3, 4}}, "y": y}, `got float32[1,3,4] with too little data: have 0 elements, need 12`},
		{"negative", open, inputs{"x": &ndarray.Array{DType: ndarray.Float32, Shape: []int{-1, -3, 4}}, "y": y}, `negative or too large`},
		{"strings", open, inputs{"x": ndarray.Strings([]string{"a"}, 1), "y": y}, `got string[1]`},
		{"tensor for a sequence", sequences, inputs{"s": y, "o": opt}, `input "s" must be seq(float32[2]), got float32[2,4]`},
		{"member", sequences, inputs{"s": &ndarray.Sequence{Items: []ndarray.Value{floats(0, 2), floats(0, 3)}}, "o": opt}, `got a sequence whose member 1 is float32[3]`},
		{"nil member", sequences, inputs{"s": &ndarray.Sequence{Items: []ndarray.Value{nil}}, "o": opt}, `got a sequence whose member 0 is nothing`},
		{"optional", sequences, inputs{"s": seq, "o": &ndarray.Optional{Value: floats(0, 3)}}, `input "o" must be opt(float32[2]), got float32[3]`},
	} {
		for way, run := range sixWays(t, c.m) {
			t.Run(c.name+"/"+way, func(t *testing.T) {
				err := run(t.Context(), c.in)
				var ie *berth.InputError
				require.ErrorAs(t, err, &ie)
				assert.ErrorContains(t, err, c.want)
			})
		}
	}
	for way, run := range sixWays(t, sequences) {
		assert.NoError(t, run(t.Context(), inputs{"s": seq, "o": opt}), way)
		assert.NoError(t, run(t.Context(), inputs{"s": seq}), way)
	}
}

// TestErrorsOfCounts: a run in order takes one value for each input, and names are looked at before what is missing.
func TestErrorsOfCounts(t *testing.T) {
	m, x := builtin("mlp"), floats(0, 4, 64)
	p, err := m.Compile(t.Context())
	require.NoError(t, err)
	s, err := p.NewSession()
	require.NoError(t, err)
	for _, in := range [][]ndarray.Value{nil, {x, x}} {
		_, err := s.Run(t.Context(), in)
		var wrong *berth.InputError
		require.ErrorAs(t, err, &wrong)
		assert.EqualError(t, err, fmt.Sprintf("the inputs must be 1 values (x float32[4,64]), got %d", len(in)))
	}
	for way, run := range sixWays(t, m) {
		assert.EqualError(t, run(t.Context(), map[string]ndarray.Value{"X": x}), `input "X" must be one of x float32[4,64], got an unknown name`, way)
	}
}

// TestListsInErrorsEnd: what lists the ports of a model does not grow with their number.
func TestListsInErrorsEnd(t *testing.T) {
	g := ssa.NewGraph("g")
	for i := range 2000 {
		x := g.AddParam(fmt.Sprintf("x%d", i), ssa.StaticTensor(ndarray.Float32, 2))
		y := g.NewNode("Neg", []*ssa.Value{x}, 1).Out[0]
		y.Name, y.Type = fmt.Sprintf("y%d", i), x.Type
		g.Results = append(g.Results, y)
	}
	m := berth.FromModule(&ssa.Module{Graph: g, IR: 10, Opsets: []ssa.Opset{{Version: 22}}})
	p, err := m.Compile(t.Context())
	require.NoError(t, err)
	s, err := p.NewSession()
	require.NoError(t, err)
	compile := func(o berth.Option) error { _, err := m.Compile(t.Context(), o); return err }
	for _, c := range []struct {
		list string
		err  error
	}{
		{"x0 float32[2], x1 float32[2]", second(p.RunValues(t.Context(), nil))},
		{"x0 float32[2], x1 float32[2]", second(m.RunValues(t.Context(), map[string]ndarray.Value{"x": floats(0, 2)}))},
		{"x0 float32[2], x1 float32[2]", second(s.Run(t.Context(), nil))},
		{"x0 float32[2], x1 float32[2]", compile(berth.WithShape("x", 2))},
		{"x0 float32[2], x1 float32[2]", compile(berth.WithDim("N", 2))},
		{"x0 float32[2], x1 float32[2]", compile(berth.WithBound("N", 2))},
		{"x0 float32[2], x1 float32[2]", compile(berth.WithState("x", "y0"))},
		{"y0 float32[2], y1 float32[2]", compile(berth.WithState("x0", "y"))},
		{"y0, y1", p.RunInto(t.Context(), nil, map[string]*ndarray.Array{"y": floats(0, 2)})},
	} {
		require.ErrorContains(t, c.err, c.list)
		assert.Regexp(t, ` and \d+ more`, c.err.Error())
		assert.Less(t, len(c.err.Error()), 1300)
	}
}

// second is the error of a call that has another result, too.
func second[T any](_ T, err error) error { return err }

// TestErrorOfPass: a pass that made shapes known which a node refuses is told in a sentence.
func TestErrorOfPass(t *testing.T) {
	m := fromText(t, `graph "g" { in %x: float32[N] const %k: float32[1] = [9] %r = Sqrt(%k) %e = Exp(%r) %l = Log(%e) %s = Cast(%l) [to=7] %y = Reshape(%x, %s) out %y }`)
	_, err := m.Compile(t.Context(), berth.WithDim("N", 4))
	require.ErrorContains(t, err, "pass ")
	assert.NotContains(t, err.Error(), "{")
	assert.ErrorContains(t, err, ` in graph "g": `)
	var node *berth.NodeError
	require.ErrorAs(t, err, &node)
}

// TestSymbolsAgree gives inputs whose dimensions of one name differ.
func TestSymbolsAgree(t *testing.T) {
	m := fromText(t, `graph "g" { in %a: float32[N,2] in %b: float32[N,2] %y = Add(%a, %b) out %y }`)
	for way, run := range sixWays(t, m) {
		err := run(t.Context(), map[string]ndarray.Value{"a": floats(0, 3, 2), "b": floats(0, 1, 2)})
		var ie *berth.InputError
		require.ErrorAs(t, err, &ie, way)
		assert.EqualError(t, err, `input "b" must be float32[N,2] with N = 3 as in input "a", got float32[1,2]`, way)
		require.NoError(t, run(t.Context(), map[string]ndarray.Value{"a": floats(0, 3, 2), "b": floats(0, 3, 2)}), way)
	}
}

// TestCause: the error of a run that a context ended is the context's, and its cause.
func TestCause(t *testing.T) {
	m := builtin("loop-conv")
	shutdown := errors.New("the server stops")
	in := map[string]ndarray.Value{"n": ndarray.Scalar[int64](1 << 60), "x": floats(0, 1, 4, 8, 8)}
	for way, run := range sixWays(t, m) {
		t.Run(way, func(t *testing.T) {
			ctx, cancel := context.WithCancelCause(t.Context())
			time.AfterFunc(10*time.Millisecond, func() { cancel(shutdown) })
			err := run(ctx, in)
			require.ErrorIs(t, err, context.Canceled)
			require.ErrorIs(t, err, shutdown)

			ctx, stop := context.WithTimeoutCause(t.Context(), 10*time.Millisecond, shutdown)
			defer stop()
			err = run(ctx, in)
			require.ErrorIs(t, err, context.DeadlineExceeded)
			require.ErrorIs(t, err, shutdown)
		})
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(shutdown)
	_, err := m.Compile(ctx)
	require.ErrorIs(t, err, shutdown)
	_, _, err = m.Optimize(ctx)
	require.ErrorIs(t, err, shutdown)
	require.ErrorIs(t, err, context.Canceled)
}

// made is what the operator of TestForeignOperators does.
var made struct {
	eval  func(c *ops.Call) error
	infer func() ssa.Type
}

var registerForeign = sync.OnceFunc(func() {
	ops.Register(&ops.Op{Domain: "test.foreign", Name: "Made", Since: 1, MinIn: 1, MaxIn: 1, MinOut: 1, MaxOut: 1, Facts: ops.Facts{Traits: ops.GeneralTraits},
		Infer: func(*ssa.Node) ([]ops.Inferred, error) { return ops.One(made.infer()), nil },
		Eval:  func(c *ops.Call) error { return made.eval(c) }})
})

// foreignModel is a model of one operator that the test registers.
func foreignModel(t *testing.T, shape ...ssa.Dim) *berth.Model {
	t.Helper()
	registerForeign()
	made.infer = func() ssa.Type { return ssa.TensorOf(ndarray.Float32, shape...) }
	made.eval = func(c *ops.Call) error { return c.SetOutput(0, ndarray.Of([]float32{7, 8}, 2)) }
	g := ssa.NewGraph("foreign")
	n := g.NewNode("Made", []*ssa.Value{g.AddParam("x", ssa.TensorOf(ndarray.Float32, shape...))}, 1)
	n.Domain, n.Out[0].Name, g.Results = "test.foreign", "y", n.Out
	require.NoError(t, ops.Infer(n))
	return berth.FromModule(&ssa.Module{Graph: g, OutputNames: []string{"y"}})
}

// TestForeignOperators: what operators of other packages make is of their type, or an error that names the node.
func TestForeignOperators(t *testing.T) {
	sevens := func() *ndarray.Array { return ndarray.Of([]float32{7, 8}, 2) }
	cyclic := &ndarray.Sequence{}
	cyclic.Items = []ndarray.Value{cyclic}
	put := func(v ndarray.Value) func(c *ops.Call) error {
		return func(c *ops.Call) error { c.Out[0] = v; return nil }
	}
	for _, c := range []struct {
		name string
		eval func(c *ops.Call) error
		want string // "" for [7 8]
	}{
		{"replaced", put(sevens()), ""},
		{"stored", func(c *ops.Call) error { return c.SetOutput(0, sevens()) }, ""},
		{"headers changed", func(c *ops.Call) error {
			c.Array(0).Shape[0], c.Array(0).Data = 1<<30, nil
			return put(sevens())(c)
		}, ""},
		{"short", put(&ndarray.Array{DType: ndarray.Float32, Shape: []int{2}, Data: make([]byte, 4)}), "have 1 elements, need 2"},
		{"other type", put(ndarray.Must(ndarray.Int8, 2)), "int8[2]"},
		{"other rank", put(ndarray.Must(ndarray.Float32, 2, 1)), "float32[2,1]"},
		{"nothing", put(nil), "nothing"},
		{"nil", put((*ndarray.Array)(nil)), "a nil *ndarray.Array"},
		{"no results", func(c *ops.Call) error { c.Out = nil; return nil }, "nothing"},
		{"sequence", put(cyclic), "nested deeper"},
	} {
		for _, d := range []ssa.Dim{ssa.D(2), ssa.Sym("N"), {}} {
			m := foreignModel(t, d)
			made.eval = c.eval
			for way, run := range sixWays(t, m) {
				for range 2 {
					err := run(t.Context(), map[string]ndarray.Value{"x": ndarray.Must(ndarray.Float32, 2)})
					var at *berth.NodeError
					if c.want == "" {
						require.NoError(t, err, "%s %s %s", c.name, d, way)
					} else if assert.ErrorAs(t, err, &at, "%s %s %s", c.name, d, way) {
						assert.ErrorContains(t, err, "test.foreign.Made", way)
						assert.ErrorContains(t, err, c.want, "%s %s", c.name, way)
					}
				}
			}
			out, err := m.RunValues(t.Context(), map[string]ndarray.Value{"x": ndarray.Must(ndarray.Float32, 2)})
			if c.want == "" && assert.NoError(t, err) {
				assert.Equal(t, []float32{7, 8}, out["y"].(*ndarray.Array).Floats32(), c.name)
			}
		}
	}
	g := foreignModel(t, ssa.D(2)).Graph()
	made.infer = func() ssa.Type { return ssa.StaticTensor(99, 2) }
	assert.ErrorContains(t, ops.Infer(g.Nodes[0]), "element type 99 does not exist")
}

// TestForeignOperatorsPanic: a panic in an operator of another package is an error that names the node and whose panic it is.
func TestForeignOperatorsPanic(t *testing.T) {
	check := func(err error, way string) {
		var at *berth.NodeError
		var crash *berth.PanicError
		if assert.ErrorAs(t, err, &at, way) && assert.ErrorAs(t, err, &crash, way) {
			assert.Equal(t, "the operator test.foreign.Made", crash.Of, way)
		}
	}
	for _, d := range []ssa.Dim{ssa.D(2), ssa.Sym("N")} {
		m := foreignModel(t, d)
		made.eval = func(*ops.Call) error { panic("a mistake") }
		for way, run := range sixWays(t, m) {
			check(run(t.Context(), map[string]ndarray.Value{"x": ndarray.Must(ndarray.Float32, 2)}), way)
		}
		n := m.Graph().Nodes[0]
		made.infer = func() ssa.Type { panic("a mistake") }
		check(ops.Infer(n), "inference")
	}
}

// TestForeignOperatorsGoexit: a type rule that ends its goroutine ends the compilation; who waits for it gets an error.
func TestForeignOperatorsGoexit(t *testing.T) {
	m, in := foreignModel(t, ssa.Sym("N")), map[string]ndarray.Value{"x": ndarray.Must(ndarray.Float32, 2)}
	infer := made.infer
	made.infer = func() ssa.Type { runtime.Goexit(); return ssa.Type{} }
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	_, err := m.RunValues(ctx, in)
	assert.ErrorContains(t, err, "ended the goroutine")
	made.infer = infer
	_, err = m.RunValues(ctx, in)
	require.NoError(t, err)
	assert.EqualValues(t, 1, m.Stats().Compiles)
}

// TestForeignOperatorsCallBack: an operator that calls what waits for it gets an error.
func TestForeignOperatorsCallBack(t *testing.T) {
	m, arena, in := foreignModel(t, ssa.D(2)), berth.NewArena(), map[string]ndarray.Value{"x": ndarray.Must(ndarray.Float32, 2)}
	p, err := m.Compile(t.Context())
	require.NoError(t, err)
	s, err := p.NewSessionIn(arena)
	require.NoError(t, err)
	other, err := p.NewSessionIn(arena)
	require.NoError(t, err)
	calls, eval := 0, made.eval
	made.eval = func(c *ops.Call) error {
		calls++
		_, err := other.RunValues(t.Context(), in)
		assert.ErrorIs(t, err, berth.ErrSessionInUse)
		_, err = p.NewSessionIn(arena)
		assert.ErrorIs(t, err, berth.ErrSessionInUse)
		return eval(c)
	}
	_, err = s.RunValues(t.Context(), in)
	require.NoError(t, err)
	assert.Equal(t, 1, calls)

	made.eval, calls = eval, 0
	infer, inside := made.infer, false
	made.infer = func() ssa.Type {
		if !inside {
			inside = true
			calls++
			_, err := m.RunValues(t.Context(), in)
			assert.ErrorContains(t, err, "is being compiled")
			inside = false
		}
		return infer()
	}
	_, err = m.RunValues(t.Context(), in)
	require.NoError(t, err)
	assert.Positive(t, calls)
}

// TestForeignOperatorsCompileEachOther: models whose type rules run each other get an error, however many there are on the way round.
func TestForeignOperatorsCompileEachOther(t *testing.T) {
	in := map[string]ndarray.Value{"x": ndarray.Must(ndarray.Float32, 2)}
	for _, models := range []int{1, 2, 3} {
		var round []*berth.Model
		for range models {
			round = append(round, foreignModel(t, ssa.D(2)))
		}
		infer, depth := made.infer, 0
		var inner error
		made.infer = func() ssa.Type {
			if depth++; depth <= models {
				if _, err := round[depth%models].RunValues(t.Context(), in); err != nil {
					inner = err
				}
			}
			return infer()
		}
		_, err := round[0].RunValues(t.Context(), in)
		require.NoError(t, err, models)
		assert.ErrorContains(t, inner, "is being compiled", "%d models", models)
	}
}

// TestUntypedInputs: models take any value for an input without a type, and an ended context is the error of what folds.
func TestUntypedInputs(t *testing.T) {
	g := ssa.NewGraph("untyped")
	n := g.NewNode("Identity", []*ssa.Value{g.AddParam("u", ssa.Type{})}, 1)
	n.Out[0].Name, g.Results = "y", n.Out
	require.NoError(t, ops.Infer(n))
	m := berth.FromModule(&ssa.Module{Graph: g, OutputNames: []string{"y"}})
	for name, run := range sixWays(t, m) {
		assert.NoError(t, run(t.Context(), map[string]ndarray.Value{"u": ndarray.Must(ndarray.Float32, 2)}), name)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	assert.ErrorIs(t, m.CheckPortable(ended), context.Canceled)
}

// TestErrInput: an error is an ErrInput where the model would have computed other inputs, and only there.
func TestErrInput(t *testing.T) {
	type inputs = map[string]ndarray.Value
	ids := func(batch, n int, id int64) *ndarray.Array {
		all := make([]int64, batch*n)
		for i := range all {
			all[i] = id
		}
		return ndarray.Of(all, batch, n)
	}
	tokens := func(n int, id int64) inputs {
		return inputs{"input_ids": ids(1, n, id), "attention_mask": ids(1, n, 1), "token_type_ids": ids(1, n, 0)}
	}
	model := func(name string) *berth.Model {
		m, err := berth.Open(shareddata.Path(t, "models", name, "model.onnx"))
		require.NoError(t, err)
		t.Cleanup(func() { m.Close() })
		return m
	}
	bert, ocr := model("bert_mini"), model("ppocr_rec")
	gather := fromText(t, `graph "g" { in %x: float32[4] in %i: int64[N] %y = Gather(%x, %i) [axis=0] out %y }`)
	reshape := fromText(t, `graph "g" { in %x: float32[N] const %s: int64[2] = [2, 3] %y = Reshape(%x, %s) out %y }`)
	inside := fromText(t, `graph "g" { in %x: float32[4] in %i: int64[N] in %b: bool[] %y = If(%b | %x, %i) { then_branch: graph "t" { in %x: float32[4] in %i: int64[N] %y = Gather(%x, %i) [axis=0] out %y } else_branch: graph "e" { in %x: float32[4] in %i: int64[N] %y = Identity(%x) out %y } } out %y }`)
	defect := parsed(t, `graph "g" { in %x: float32[N] const %w: float32[4] = [1, 2, 3, 4] const %i: int64[1] = [9] %g = Gather(%w, %i) [axis=0] %y = Add(%x, %g) out %y }`)
	late := fromText(t, `graph "g" { in %x: float32[N] const %w: float32[4] = [1, 2, 3, 4] %r = RandomUniform() [low=9.0, high=9.5, shape=[1]] %i = Cast(%r) [to=7] %g = Gather(%w, %i) [axis=0] %y = Add(%x, %g) out %y }`)
	for _, c := range []struct {
		name   string
		m      *berth.Model
		in     inputs
		is     bool
		opts   []berth.Option
		reason string
	}{
		{"an unknown name", gather, inputs{"q": floats(0, 1)}, true, nil, "an unknown name"},
		{"a missing input", gather, inputs{"x": floats(0, 4)}, true, nil, "got nothing"},
		{"another type", gather, inputs{"x": ndarray.Must(ndarray.Float64, 4), "i": ndarray.Of([]int64{0}, 1)}, true, nil, "float64"},
		{"another rank", gather, inputs{"x": floats(0, 4, 1), "i": ndarray.Of([]int64{0}, 1)}, true, nil, "float32[4,1]"},
		{"an index out of range", gather, inputs{"x": floats(0, 4), "i": ndarray.Of([]int64{4}, 1)}, true, nil, "out of range"},
		{"an index out of range in a branch", inside, inputs{"x": floats(0, 4), "i": ndarray.Of([]int64{4}, 1), "b": ndarray.Of([]bool{true})}, true, nil, "out of range"},
		{"a shape that does not reshape", reshape, inputs{"x": floats(0, 7)}, true, nil, "reshape"},
		{"a sequence beyond the table of positions", bert, tokens(4096, 0), true, nil, "broadcast"},
		{"a token beyond the vocabulary", bert, tokens(8, 1<<30), true, nil, "out of range"},
		{"an image of another height", ocr, inputs{"x": floats(0, 1, 3, 96, 320)}, true, nil, "reshape"},
		{"an index of the model out of range", defect, inputs{"x": floats(0, 3)}, false, nil, "out of range"},
		{"a computed index of the model out of range", late, inputs{"x": floats(0, 3)}, false, nil, "out of range"},
		{"lack of memory", gather, inputs{"x": floats(0, 4), "i": ndarray.Of([]int64{0}, 1)}, false, []berth.Option{berth.WithMaxMemory(1)}, "beyond the limit"},
	} {
		open, err := c.m.Compile(t.Context())
		if c.is {
			require.NoError(t, err, c.name)
		}
		ways := map[string]func() error{"Model.RunValues": func() error { _, err := c.m.RunValues(t.Context(), c.in, c.opts...); return err }}
		if err == nil && c.opts == nil {
			ways["Program.RunValues"] = func() error { _, err := open.RunValues(t.Context(), c.in); return err }
		}
		for way, run := range ways {
			err := run()
			require.ErrorContains(t, err, c.reason, "%s: %s", c.name, way)
			assert.Equal(t, c.is, errors.Is(err, berth.ErrInput), "%s: %s: %v", c.name, way, err)
		}
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := gather.RunValues(ended, inputs{"x": floats(0, 4), "i": ndarray.Of([]int64{0}, 1)})
	require.ErrorIs(t, err, context.Canceled)
	assert.NotErrorIs(t, err, berth.ErrInput)
}
