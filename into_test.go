package berth_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// fromText makes a model of the text form of a graph, shapes and types inferred.
func fromText(t testing.TB, text string) *berth.Model {
	t.Helper()
	g, err := ssa.ParseGraph(text)
	require.NoError(t, err)
	require.NoError(t, ops.InferGraph(g))
	return berth.FromModule(&ssa.Module{Graph: g})
}

// floats makes a tensor that counts up from a number.
func floats(from float32, shape ...int) *ndarray.Array {
	a := ndarray.Must(ndarray.Float32, shape...)
	for i := range a.Len() {
		a.SetFloat(i, float64(from)+float64(i))
	}
	return a
}

// TestRunInto compares results in the caller's buffers with those of RunValues, of sessions and
// programs, with known and unknown shapes.
func TestRunInto(t *testing.T) {
	for _, name := range []string{"mlp", "inception", "loop-conv", "if-results", "heads", "flatten", "loop-grow"} {
		t.Run(name, func(t *testing.T) {
			m, asked := questions(t, name, map[string]int64{"N": 2, "S": 3, "M": 5}, 2)
			p, err := m.Compile(t.Context())
			require.NoError(t, err)
			s, err := p.NewSession()
			require.NoError(t, err)
			for _, q := range asked {
				in := byName(m, q.in)
				want, err := p.RunValues(t.Context(), in)
				require.NoError(t, err)
				for kind, run := range map[string]func(context.Context, map[string]ndarray.Value, map[string]*ndarray.Array) error{"program": p.RunInto, "session": s.RunInto} {
					buffers := map[string]*ndarray.Array{}
					for out, v := range want {
						a := v.(*ndarray.Array)
						buffers[out] = ndarray.Must(a.DType, a.Shape...)
					}
					require.NoError(t, run(t.Context(), in, buffers), kind)
					for out, v := range want {
						assert.Equal(t, v, buffers[out], "%s, output %q", kind, out)
					}
				}
			}
		})
	}
}

// TestRunIntoRoom lets results of unknown size into larger buffers, and takes only one of two.
func TestRunIntoRoom(t *testing.T) {
	m := builtin("flatten")
	p, err := m.Compile(t.Context())
	require.NoError(t, err)
	buffer := floats(0, 100, 4)
	data := &buffer.Data[0]
	for _, n := range []int{1, 7, 3} {
		in := map[string]ndarray.Value{"x": floats(1, 1, n, 4), "y": floats(2, 2, 4)}
		want, err := p.RunValues(t.Context(), in)
		require.NoError(t, err)
		require.NoError(t, p.RunInto(t.Context(), in, map[string]*ndarray.Array{"centred": buffer}))
		assert.Equal(t, want["centred"], buffer)
		assert.Same(t, data, &buffer.Data[0])
	}
}

// TestRunIntoErrors has buffers that do not fit.
func TestRunIntoErrors(t *testing.T) {
	static, err := builtin("if-results").Compile(t.Context())
	require.NoError(t, err)
	open, err := builtin("flatten").Compile(t.Context())
	require.NoError(t, err)
	sequences, err := fromText(t, `graph "g" { in %x: float32[2] %y = SequenceConstruct(%x) out %y }`).Compile(t.Context())
	require.NoError(t, err)
	empty, err := fromText(t, `graph "g" { in %x: float32[4] in %e: float32[0] %y = Neg(%x) %z = Exp(%x) %n = Neg(%e) out %y, %z, %n }`).Compile(t.Context())
	require.NoError(t, err)
	ins := map[*berth.Program]map[string]ndarray.Value{
		open:      {"x": floats(1, 1, 3, 4), "y": floats(2, 2, 4)},
		sequences: {"x": floats(1, 2)},
		empty:     {"x": floats(1, 4), "e": floats(0, 0)},
	}
	memory := make([]byte, 64)
	part := func(from, n int) *ndarray.Array {
		return &ndarray.Array{DType: ndarray.Float32, Shape: []int{n}, Data: memory[from : from+4*n]}
	}
	m, asked := questions(t, "if-results", nil, 1)
	ins[static] = byName(m, asked[0].in)
	y := m.Outputs()[0].Type
	shape, _ := y.Static()
	good := ndarray.Must(y.DType, shape...)
	half := *good
	half.Data = half.Data[:len(half.Data)/2]
	row := ndarray.Must(ndarray.Float32, 5, 4)
	for _, c := range []struct {
		name    string
		p       *berth.Program
		buffers map[string]*ndarray.Array
		want    []string
	}{
		{"unknown", static, map[string]*ndarray.Array{"none": good}, []string{`"none"`, "one of y, z", "unknown name"}},
		{"nil", static, map[string]*ndarray.Array{"y": nil}, []string{`"y"`, y.String(), "nil"}},
		{"type", static, map[string]*ndarray.Array{"y": ndarray.Must(ndarray.Int32, shape...)}, []string{`"y"`, y.String(), "int32"}},
		{"shape", static, map[string]*ndarray.Array{"y": floats(0, 3)}, []string{`"y"`, y.String(), "float32[3]"}},
		{"short", static, map[string]*ndarray.Array{"y": &half}, []string{`"y"`, "too little data"}},
		{"twice", static, map[string]*ndarray.Array{"y": good, "z": good}, []string{"memory of its own"}},
		{"empty", static, map[string]*ndarray.Array{"y": {}}, []string{`"y"`, "undefined[]"}},
		{"room", open, map[string]*ndarray.Array{"centred": floats(0, 1, 4)}, []string{`"centred"`, "float32[5,4]", "have room for 4 elements, need 20"}},
		{"open type", open, map[string]*ndarray.Array{"centred": ndarray.Must(ndarray.Int64, 5, 4)}, []string{`"centred"`, "int64"}},
		{"open twice", open, map[string]*ndarray.Array{"centred": row, "mean": {DType: ndarray.Float32, Shape: []int{1, 4}, Data: row.Data[16:32]}}, []string{"memory of its own"}},
		{"sequence", sequences, map[string]*ndarray.Array{"y": floats(0, 2)}, []string{`"y"`, "left out: seq(", "is no tensor"}},
		{"nil for a sequence", sequences, map[string]*ndarray.Array{"y": nil}, []string{`"y"`, "left out: seq(", "is no tensor"}},
		{"overlap beside an empty one", empty, map[string]*ndarray.Array{"y": part(0, 4), "n": part(4, 0), "z": part(8, 4)}, []string{`"z"`, "memory of its own"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := c.p.RunInto(t.Context(), ins[c.p], c.buffers)
			var oe *berth.OutputError
			require.ErrorAs(t, err, &oe)
			for _, w := range c.want {
				assert.ErrorContains(t, err, w)
			}
		})
	}
	require.NoError(t, static.RunInto(t.Context(), ins[static], nil))
}

// TestRunIntoOwnResults has results of the session's last run as buffers: exchanged, one would overwrite the other before it
// is copied.
func TestRunIntoOwnResults(t *testing.T) {
	p, err := fromText(t, `graph "g" { in %x: float32[3] %y = Neg(%x) %z = Exp(%x) out %y, %z }`).Compile(t.Context())
	require.NoError(t, err)
	s, err := p.NewSession()
	require.NoError(t, err)
	in := map[string]ndarray.Value{"x": floats(1, 3)}
	out, err := s.RunValues(t.Context(), in)
	require.NoError(t, err)
	y, z := out["y"].(*ndarray.Array), out["z"].(*ndarray.Array)
	for _, buffers := range []map[string]*ndarray.Array{{"y": z, "z": y}, {"y": y}, {"z": {DType: z.DType, Shape: z.Shape, Data: z.Data[:12:12]}}} {
		var oe *berth.OutputError
		require.ErrorAs(t, s.RunInto(t.Context(), in, buffers), &oe)
		assert.ErrorContains(t, oe, "memory of the caller's")
	}
}

// TestRunIntoInputs uses the memory of inputs as buffers: a state that is updated, and two
// inputs that are passed through and change places.
func TestRunIntoInputs(t *testing.T) {
	p, err := fromText(t, `graph "g" { in %a: float32[3] in %b: float32[3] %s = Add(%a, %b) out %b, %a, %s }`).Compile(t.Context())
	require.NoError(t, err)
	s, err := p.NewSession()
	require.NoError(t, err)
	a, b, sum := floats(1, 3), floats(10, 3), floats(0, 3)
	require.NoError(t, s.RunInto(t.Context(), map[string]ndarray.Value{"a": a, "b": b}, map[string]*ndarray.Array{"b": a, "a": b, "s": sum}))
	assert.Equal(t, floats(10, 3), a)
	assert.Equal(t, floats(1, 3), b)
	assert.Equal(t, []float32{11, 13, 15}, sum.Floats32())
	for range 3 {
		require.NoError(t, s.RunInto(t.Context(), map[string]ndarray.Value{"a": sum, "b": b}, map[string]*ndarray.Array{"s": sum}))
	}
	assert.Equal(t, []float32{14, 19, 24}, sum.Floats32())
}

// TestSharedShapes has the list of a shape in several places: results that are given their shape by a run change no other array.
func TestSharedShapes(t *testing.T) {
	p, err := fromText(t, `graph "g" { in %x: float32[N,M] %y = Neg(%x) %z = Transpose(%x) [perm=[1, 0]] out %y, %z }`).Compile(t.Context())
	require.NoError(t, err)
	x, room := floats(1, 2, 3), []int{1, 9, 9}
	y := &ndarray.Array{DType: ndarray.Float32, Shape: room[:1], Data: make([]byte, 24)}
	z := &ndarray.Array{DType: ndarray.Float32, Shape: room[:1], Data: make([]byte, 24)}
	u := &ndarray.Array{DType: ndarray.Float32, Shape: x.Shape, Data: make([]byte, 24)}
	in := map[string]ndarray.Value{"x": x}
	require.NoError(t, p.RunInto(t.Context(), in, map[string]*ndarray.Array{"y": y, "z": z}))
	require.NoError(t, p.RunInto(t.Context(), in, map[string]*ndarray.Array{"z": u}))
	assert.Equal(t, [][]int{{2, 3}, {3, 2}, {3, 2}, {2, 3}, {1, 9, 9}}, [][]int{y.Shape, z.Shape, u.Shape, x.Shape, room})

	static, err := fromText(t, `graph "g" { in %x: float32[2,3] %y = Neg(%x) out %y }`).Compile(t.Context())
	require.NoError(t, err)
	s, err := static.NewSession()
	require.NoError(t, err)
	flat := floats(0, 6)
	for range 2 {
		out, err := s.Run(t.Context(), []ndarray.Value{x})
		require.NoError(t, err)
		got := out[0].(*ndarray.Array)
		assert.Equal(t, []int{2, 3}, got.Shape)
		got.Shape = flat.Shape // the caller sees it as a list from here on
	}
	assert.Equal(t, []int{6}, flat.Shape)
}

// TestAllocations counts the allocations of runs of known size.
func TestAllocations(t *testing.T) {
	m, asked := questions(t, "inception", nil, 1)
	p, err := m.Compile(t.Context())
	require.NoError(t, err)
	s, err := p.NewSession()
	require.NoError(t, err)
	in := byName(m, asked[0].in)
	want, err := p.RunValues(t.Context(), in)
	require.NoError(t, err)
	buffers := map[string]*ndarray.Array{}
	for name, v := range want {
		buffers[name] = v.(*ndarray.Array)
	}
	stateful, err := fromText(t, `graph "g" { in %h: float32[2] %n = Neg(%h) out %n }`).Compile(t.Context(), berth.WithState("h", "n"))
	require.NoError(t, err)
	h := floats(1, 2)
	state, next := map[string]ndarray.Value{"h": h}, map[string]*ndarray.Array{"n": h}
	ctx := t.Context()
	for _, c := range []struct {
		name string
		most float64
		run  func() error
	}{
		{"Session.Run", 0, func() error { _, err := s.Run(ctx, asked[0].in); return err }},
		{"Session.RunInto", 0, func() error { return s.RunInto(ctx, in, buffers) }},
		{"Program.RunInto", 0, func() error { return p.RunInto(ctx, in, buffers) }},
		{"Program.RunInto with a state", 0, func() error { return stateful.RunInto(ctx, state, next) }},
		{"Program.RunValues", 6, func() error { _, err := p.RunValues(ctx, in); return err }},
	} {
		t.Run(c.name, func(t *testing.T) {
			require.NoError(t, c.run())
			got := testing.AllocsPerRun(20, func() { err = errors.Join(err, c.run()) })
			require.NoError(t, err)
			t.Logf("%v allocations", got)
			assert.LessOrEqual(t, got, c.most)
		})
	}
}

// TestConcurrentRunInto runs one program in many goroutines, each with buffers of its own, under a
// hook that all share.
func TestConcurrentRunInto(t *testing.T) {
	m, asked := questions(t, "inception", nil, 4)
	var nodes atomic.Int64
	p, err := m.Compile(t.Context(), berth.WithHook(&berth.Hook{After: func(context.Context, berth.Event) { nodes.Add(1) }}))
	require.NoError(t, err)
	_, err = p.RunValues(t.Context(), byName(m, asked[0].in))
	require.NoError(t, err)
	perRun := nodes.Load()
	want := make([]map[string]ndarray.Value, len(asked))
	for i, q := range asked {
		want[i], err = p.RunValues(t.Context(), byName(m, q.in))
		require.NoError(t, err)
	}
	nodes.Store(0)
	together(t, 4, func(g int) error {
		y := want[0]["y"].(*ndarray.Array).Clone()
		for i := range 10 {
			k := (i + g) % len(asked)
			if err := p.RunInto(t.Context(), byName(m, asked[k].in), map[string]*ndarray.Array{"y": y}); err != nil {
				return err
			}
			if !bytes.Equal(y.Data, want[k]["y"].(*ndarray.Array).Data) {
				return fmt.Errorf("goroutine %d, run %d: other results", g, i)
			}
		}
		return nil
	})
	assert.Equal(t, 40*perRun, nodes.Load())
}

// BenchmarkOneNode runs programs of one node of eight elements by each way to run one.
func BenchmarkOneNode(b *testing.B) {
	ctx := context.Background()
	for _, c := range []struct{ name, graph string }{
		{"Relu", `graph "relu" { in %x: float32[8] %y = Relu(%x) out %y }`},
		{"Add", `graph "add" { in %x: float32[8] in %h: float32[8] %y = Add(%x, %h) out %y }`},
	} {
		m := parsed(b, c.graph)
		p, err := m.Compile(ctx)
		require.NoError(b, err)
		s, err := p.NewSession()
		require.NoError(b, err)
		var in []ndarray.Value
		for _, port := range m.Inputs() {
			in = append(in, drawn(port.Type, 1))
		}
		named, buffers := byName(m, in), map[string]*ndarray.Array{"y": ndarray.Must(ndarray.Float32, 8)}
		for _, way := range []struct {
			name string
			run  func() error
		}{
			{"Session.Run", func() error { _, err := s.Run(ctx, in); return err }},
			{"Session.RunInto", func() error { return s.RunInto(ctx, named, buffers) }},
			{"Program.RunInto", func() error { return p.RunInto(ctx, named, buffers) }},
			{"Program.RunValues", func() error { _, err := p.RunValues(ctx, named); return err }},
		} {
			b.Run(c.name+"/"+way.name, func(b *testing.B) {
				for b.Loop() {
					if err := way.run(); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
