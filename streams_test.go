package berth_test

import (
	"context"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth"
	"github.com/berth-onnx/berth/internal/graphgen"
	"github.com/berth-onnx/berth/internal/shareddata"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

func parsed(t testing.TB, text string) *berth.Model {
	g, err := ssa.ParseGraph(text)
	require.NoError(t, err)
	return berth.FromModule(&ssa.Module{Graph: g, Opsets: []ssa.Opset{{Version: 21}}, IR: 10})
}

// recurrent are models whose results are their next inputs, one by one.
var recurrent = []struct {
	name, text string
	inputs     int  // that are no state, first
	outputs    int  // likewise
	copies     bool // a state kept by the session is copied
}{
	{"sum", `graph "g" { in %x: float32[64] in %h: float32[64] %a = Add(%x, %h) %b = Tanh(%a) %y = Relu(%b) out %y, %b }`, 1, 1, false},
	{"state over its operand", `graph "g" { in %x: float32[64] in %h: float32[64] %a = Mul(%x, %h) %b = Exp(%x) %c = Add(%a, %b) %d = Sin(%c) %e = Neg(%h) %y = Add(%e, %d) out %y, %d }`, 1, 1, false},
	{"joined", `graph "g" { in %x: float32[2,8] in %h: float32[4,8] const %from: int64[1] = [2] const %to: int64[1] = [4] const %axis: int64[1] = [0]
		%a = Tanh(%x) %b = Slice(%h, %from, %to, %axis) %c = Sin(%b) %n = Concat(%c, %a) [axis=0] %y = Exp(%h) out %y, %n }`, 1, 1, false},
	{"exchanged", `graph "g" { in %x: float32[16] in %a: float32[16] in %b: float32[16] %c = Add(%x, %a) %p = Identity(%b) %q = Identity(%c) out %c, %p, %q }`, 1, 1, true},
	{"passed on", `graph "g" { in %x: float32[16] in %h: float32[16] %y = Add(%x, %h) %n = Identity(%h) out %y, %n }`, 1, 1, true},
	{"two of one", `graph "g" { in %x: float32[16] in %a: float32[16] in %b: float32[4,4] const %s2: int64[2] = [4, 4] const %s1: int64[1] = [16]
		%y = Add(%x, %a) %s = Reshape(%y, %s2) %t = Mul(%s, %b) %u = Tanh(%t) %v = Reshape(%u, %s1) out %y, %v, %u }`, 1, 1, true},
	{"branch", `graph "g" { in %c: bool[] in %x: float32[16] in %h: float32[16] %n = If(%c | %x, %h) {
		then_branch: graph "t" { in %p: float32[16] in %q: float32[16] %a = Add(%p, %q) out %a }
		else_branch: graph "e" { in %p: float32[16] in %q: float32[16] %b = Mul(%p, %q) %d = Tanh(%b) out %d } } %y = Neg(%n) out %y, %n }`, 2, 1, false},
	{"loop", `graph "g" { in %x: float32[16] in %h: float32[16] const %m: int64[] = 3 const %yes: bool[] = true %n = Loop(%m, %yes, %h | %x) {
		body: graph "b" { in %i: int64[] in %k: bool[] in %v: float32[16] in %w: float32[16] %go = Identity(%k) %a = Add(%v, %w) %b = Sin(%a) out %go, %b } } %y = Neg(%n) out %y, %n }`, 1, 1, false},
	{"places that turn", `graph "g" { in %x: float32[16] in %h: float32[16] const %m: int64[] = 4 const %yes: bool[] = true %n, %o = Loop(%m, %yes, %h, %x) {
		body: graph "b" { in %i: int64[] in %k: bool[] in %v: float32[16] in %w: float32[16] %go = Identity(%k) %a = Sin(%w) out %go, %a, %v } } %y = Neg(%o) out %y, %n }`, 1, 1, true},
}

// steps runs a model count times, the states by given feed, and returns all other results.
func steps(t testing.TB, count int, inputs int, draw func(i, k int) ndarray.Value, run func(in []ndarray.Value) []ndarray.Value, outputs int) [][]ndarray.Value {
	var all [][]ndarray.Value
	for i := range count {
		in := make([]ndarray.Value, inputs)
		for k := range in {
			in[k] = draw(i, k)
		}
		out := run(in)
		kept := make([]ndarray.Value, outputs)
		for k := range kept {
			kept[k] = ndarray.CloneValue(out[k])
		}
		all = append(all, kept)
	}
	return all
}

// TestStreams: results handed back as the next inputs, states that the session keeps, and
// copies of results handed back all give the same, for whatever the state lies in.
func TestStreams(t *testing.T) {
	for _, c := range recurrent {
		t.Run(c.name, func(t *testing.T) {
			m := parsed(t, c.text)
			ins, outs := m.Inputs(), m.Outputs()
			draw := func(i, k int) ndarray.Value { return drawn(ins[k].Type, uint64(i*31+k)) }
			var first []ndarray.Value
			for _, in := range ins[c.inputs:] {
				shape, _ := in.Type.Static()
				first = append(first, ndarray.Must(in.Type.DType, shape...))
			}
			var states []berth.Option
			for k := range first {
				states = append(states, berth.WithState(ins[c.inputs+k].Name, outs[c.outputs+k].Name))
			}
			fed := func(copied bool, opts ...berth.Option) [][]ndarray.Value {
				s := session(t, m, opts...)
				state := first
				return steps(t, 20, c.inputs, draw, func(in []ndarray.Value) []ndarray.Value {
					out, err := s.Run(t.Context(), append(in, state...))
					require.NoError(t, err)
					state = append([]ndarray.Value{}, out[c.outputs:]...)
					for k := range state {
						if copied {
							state[k] = ndarray.CloneValue(state[k])
						}
					}
					return out
				}, c.outputs)
			}
			want := fed(true)
			assert.Equal(t, want, fed(false), "fed back")
			assert.Equal(t, want, fed(false, states...), "fed back to a program with states")
			for _, opts := range [][]berth.Option{nil, {berth.WithoutInPlace()}, {berth.WithoutViews()}, {berth.WithParallelSafe()}, {berth.WithoutPasses()}} {
				s := session(t, m, append(opts, states...)...)
				for range 2 {
					got := steps(t, 20, c.inputs, draw, func(in []ndarray.Value) []ndarray.Value {
						out, err := s.Run(t.Context(), append(in, make([]ndarray.Value, len(first))...))
						require.NoError(t, err)
						for k := range first {
							require.Nil(t, out[c.outputs+k])
						}
						if opts == nil {
							assert.Equal(t, c.copies, s.Raw().Moved() > 0, "%d bytes copied", s.Raw().Moved())
						}
						return out
					}, c.outputs)
					require.Equal(t, want, got, "kept, %d options", len(opts))
					require.NoError(t, s.Reset())
				}
			}
		})
	}
}

// drawn is a value of a type.
func drawn(typ ssa.Type, seed uint64) ndarray.Value {
	shape, _ := typ.Static()
	a := ndarray.Must(typ.DType, shape...)
	r := rand.New(rand.NewPCG(seed, 1))
	for i := range a.Len() {
		if typ.DType == ndarray.Bool {
			a.SetInt(i, int64(r.IntN(2)))
		} else {
			a.SetFloat(i, r.Float64()*2-1)
		}
	}
	return a
}

func session(t testing.TB, m *berth.Model, opts ...berth.Option) *berth.Session {
	p, err := m.Compile(context.Background(), opts...)
	require.NoError(t, err)
	s, err := p.NewSession()
	require.NoError(t, err)
	s.Poison(true)
	return s
}

// TestStaleResults: memory of the session that holds no result of its last run is refused as
// an input, by name; results of others, and of a session in the same arena, are taken.
func TestStaleResults(t *testing.T) {
	ctx := t.Context()
	m := parsed(t, `graph "g" { in %x: float32[64] in %h: float32[64] %a = Add(%x, %h) %b = Tanh(%a) %y = Sin(%b) %z = Exp(%a) out %y, %b, %z }`)
	p, err := m.Compile(ctx)
	require.NoError(t, err)
	x, h := drawn(m.Inputs()[0].Type, 1), drawn(m.Inputs()[1].Type, 2)
	arena := berth.NewArena()
	a, err := p.NewSessionIn(arena)
	require.NoError(t, err)
	b, err := p.NewSessionIn(arena)
	require.NoError(t, err)
	want, err := p.RunValues(ctx, map[string]ndarray.Value{"x": x, "h": h})
	require.NoError(t, err)
	next, err := p.RunValues(ctx, map[string]ndarray.Value{"x": x, "h": want["b"]})
	require.NoError(t, err)

	first, err := a.Run(ctx, []ndarray.Value{x, h})
	require.NoError(t, err)
	stale := *first[1].(*ndarray.Array)
	second, err := b.Run(ctx, []ndarray.Value{x, first[1]})
	require.NoError(t, err)
	assert.Equal(t, next["y"], second[0], "of another session in the same arena")
	var refused *berth.InputError
	for _, s := range []*berth.Session{a, b} {
		window := &ndarray.Array{DType: stale.DType, Shape: stale.Shape, Data: append([]byte{}, stale.Data...)}
		_, err = s.Run(ctx, []ndarray.Value{x, window})
		require.NoError(t, err, "a copy")
	}
	s := session(t, m)
	out, err := s.Run(ctx, []ndarray.Value{x, h})
	require.NoError(t, err)
	kept := *out[2].(*ndarray.Array)
	_, err = s.Run(ctx, []ndarray.Value{x, ndarray.Must(ndarray.Float32, 63)})
	require.Error(t, err)
	again, err := s.Run(ctx, []ndarray.Value{x, out[1]})
	require.NoError(t, err, "a run that did not begin leaves the results")
	assert.Equal(t, next["y"], again[0])
	dead, cancel := context.WithCancel(ctx)
	cancel()
	_, err = s.Run(dead, []ndarray.Value{x, h})
	require.Error(t, err)
	_, err = s.Run(ctx, []ndarray.Value{x, &kept})
	require.ErrorAs(t, err, &refused, "a run that failed leaves no results")
	assert.Equal(t, "h", refused.Name)
	_, err = s.Run(ctx, []ndarray.Value{x, h})
	require.NoError(t, err)
}

// TestResultsAreSeparate: results share no memory with each other, with inputs or with
// constants: writing to them changes nothing.
func TestResultsAreSeparate(t *testing.T) {
	m := parsed(t, `graph "g" { in %x: float32[8] const %c: float32[8] = [1, 2, 3, 4, 5, 6, 7, 8] const %s: int64[2] = [2, 4]
		%a = Neg(%x) %b = Reshape(%a, %s) %d = Identity(%c) %e = Identity(%x) %f = Identity(%a) %g = Concat(%a, %x) [axis=0] out %a, %b, %d, %e, %f, %g, %a }`)
	p, err := m.Compile(t.Context())
	require.NoError(t, err)
	s, err := p.NewSession()
	require.NoError(t, err)
	x := drawn(m.Inputs()[0].Type, 3).(*ndarray.Array)
	before := x.Clone()
	var want []ndarray.Value
	for range 3 {
		out, err := s.Run(t.Context(), []ndarray.Value{x})
		require.NoError(t, err)
		if want == nil {
			for _, v := range out {
				want = append(want, ndarray.CloneValue(v))
			}
		}
		for i, v := range out {
			require.Equal(t, want[i], v, "result %d", i)
			a := v.(*ndarray.Array)
			clear(a.Data)
			clear(a.Shape)
		}
		require.Equal(t, before, x)
	}
}

// TestInputsOfOneMemory: inputs may be the same memory.
func TestInputsOfOneMemory(t *testing.T) {
	m := parsed(t, recurrent[1].text)
	s := session(t, m)
	x := drawn(m.Inputs()[0].Type, 4)
	want, err := s.Run(t.Context(), []ndarray.Value{x, ndarray.CloneValue(x)})
	require.NoError(t, err)
	kept := ndarray.CloneValue(want[0])
	got, err := s.Run(t.Context(), []ndarray.Value{x, x})
	require.NoError(t, err)
	assert.Equal(t, kept, got[0])
	got, err = s.Run(t.Context(), []ndarray.Value{got[1], got[1]})
	require.NoError(t, err)
	fresh := session(t, m)
	next, err := fresh.Run(t.Context(), []ndarray.Value{x, x})
	require.NoError(t, err)
	next, err = fresh.Run(t.Context(), []ndarray.Value{ndarray.CloneValue(next[1]), ndarray.CloneValue(next[1])})
	require.NoError(t, err)
	assert.Equal(t, next[0], got[0])
}

// TestSilero streams the voice detectors for 1,000 steps: fed with copies, with the results
// themselves, with what the session keeps, and by Program.RunValues.
func TestSilero(t *testing.T) {
	for _, name := range []string{"silero_vad", "silero_vad_ifless"} {
		t.Run(name, func(t *testing.T) {
			m, err := berth.Open(shareddata.Path(t, "models", name, "model.onnx"))
			require.NoError(t, err)
			defer m.Close()
			opts := []berth.Option{berth.WithShape("input", 1, 512), berth.WithShape("state", 2, 1, 128)}
			p, err := m.Compile(t.Context(), opts...)
			require.NoError(t, err)
			kept := session(t, m, append(opts, berth.WithState("state", "stateN"))...)
			fedBack, copied := session(t, m, opts...), session(t, m, opts...)
			reference, err := m.Compile(t.Context(), append(opts, berth.WithBackend("reference"))...)
			require.NoError(t, err)
			zeros := ndarray.Must(ndarray.Float32, 2, 1, 128)
			state := map[*berth.Session]ndarray.Value{fedBack: zeros, copied: zeros}
			var byProgram ndarray.Value = zeros
			for i := range 1000 {
				in := map[string]ndarray.Value{"input": sound(i), "sr": ndarray.Scalar(int64(16000))}
				if len(m.Inputs()) == 2 {
					delete(in, "sr")
				}
				got, err := kept.RunValues(t.Context(), in)
				require.NoError(t, err)
				want := ndarray.CloneValue(got["output"])
				for _, s := range []*berth.Session{copied, fedBack} {
					in["state"] = state[s]
					out, err := s.RunValues(t.Context(), in)
					require.NoError(t, err)
					require.Equal(t, want, out["output"], "step %d", i)
					if state[s] = out["stateN"]; s == copied {
						state[s] = ndarray.CloneValue(out["stateN"])
					}
				}
				in["state"] = byProgram
				out, err := p.RunValues(t.Context(), in)
				require.NoError(t, err)
				require.Equal(t, want, out["output"], "step %d", i)
				byProgram = out["stateN"]
				if i%50 == 49 { // it takes twenty times as long
					by, err := reference.RunValues(t.Context(), in)
					require.NoError(t, err)
					requireClose(t, by["stateN"], byProgram)
					probability, got := by["output"].(*ndarray.Array).Float(0), out["output"].(*ndarray.Array).Float(0)
					require.InDelta(t, probability, got, 1e-4*probability*(1-probability)+0x1p-24, "as far as 1e-4 of the logit moves it, step %d", i)
				}
				if i == 0 {
					t.Logf("%s: %d bytes copied", name, kept.Raw().Moved())
				}
			}
			last, err := kept.Cache("state")
			require.NoError(t, err)
			assert.Equal(t, byProgram, ndarray.Value(last))
		})
	}
}

// sound is half a second of tone and noise, in pieces.
func sound(i int) *ndarray.Array {
	a := ndarray.Must(ndarray.Float32, 1, 512)
	r := rand.New(rand.NewPCG(uint64(i), 9))
	for k := range a.Len() {
		at := float64(i*512 + k)
		a.SetFloat(k, 0.4*math.Sin(at/16000*2*math.Pi*220)*math.Abs(math.Sin(at/9000))+0.02*r.NormFloat64())
	}
	return a
}

// TestStateErrors: what can not be a state is refused when compiling.
func TestStateErrors(t *testing.T) {
	static := `graph "g" { in %x: float32[4] in %h: float32[4] %y = Add(%x, %h) %z = Concat(%x, %h) [axis=0] %i = Cast(%y) [to=7] out %y, %z, %i }`
	unlike := `graph "g" { in %h: float32[1,512] in %v: float32[3,1] in %b: bool[3] %y = Compress(%v, %b) [axis=0] out %y }`
	open := `graph "g" { in %x: float32[N] in %h: float32[N] %y = Add(%x, %h) out %y }`
	for _, c := range []struct {
		text string
		opts []berth.Option
		want string
	}{
		{static, []berth.Option{berth.WithState("q", "y")}, `no input is called "q"`},
		{static, []berth.Option{berth.WithState("h", "q")}, `no result is called "q"`},
		{static, []berth.Option{berth.WithState("h", "z")}, `state "h" is float32[4], but the result that is its next value is float32[8]`},
		{static, []berth.Option{berth.WithState("h", "i")}, `float32[4], but the result that is its next value is int64[4]`},
		{static, []berth.Option{berth.WithState("h", "y"), berth.WithState("h", "i")}, `of another state`},
		{static, []berth.Option{berth.WithState("h", "y"), berth.WithState("x", "y")}, `of another state`},
		{unlike, []berth.Option{berth.WithState("h", "y")}, `state "h" is float32[1,512], but the result that is its next value is float32[?,1]`},
		{open, []berth.Option{berth.WithState("h", "y")}, `only if all its dimensions are known`},
	} {
		_, err := parsed(t, c.text).Compile(t.Context(), c.opts...)
		var bad *berth.OptionError
		require.ErrorAs(t, err, &bad)
		assert.Equal(t, "WithState", bad.Option)
		assert.ErrorContains(t, err, c.want)
	}
	late := session(t, parsed(t, `graph "g" { in %h: float32[2] in %v: float32[3] in %b: bool[3] %y = Compress(%v, %b) [axis=0] out %y }`), berth.WithState("h", "y"))
	_, err := late.RunValues(t.Context(), map[string]ndarray.Value{"v": floats(0, 3), "b": ndarray.Must(ndarray.Bool, 3)})
	var state *berth.StateError
	require.ErrorAs(t, err, &state, "known only while running")
	m := parsed(t, open)
	p, err := m.Compile(t.Context(), berth.WithDim("N", 4), berth.WithState("h", "y"))
	require.NoError(t, err)
	x := drawn(ssa.StaticTensor(ndarray.Float32, 4), 1).(*ndarray.Array)
	var wrong *berth.InputError
	_, err = p.RunValues(t.Context(), map[string]ndarray.Value{"x": x})
	require.ErrorAs(t, err, &wrong, "only a session keeps it")
	between, err := p.RunValues(t.Context(), map[string]ndarray.Value{"x": x, "h": x})
	require.NoError(t, err)
	ofModel, err := m.RunValues(t.Context(), map[string]ndarray.Value{"x": x, "h": x}, berth.WithState("h", "y"))
	require.NoError(t, err)
	assert.Equal(t, between, ofModel)
	assert.Equal(t, 2*x.Float(1), between["y"].(*ndarray.Array).Float(1), "what no session keeps is delivered")
	s, err := p.NewSession()
	require.NoError(t, err)
	require.ErrorAs(t, s.SetCache("h", ndarray.Must(ndarray.Float32, 5)), &wrong)
	require.ErrorAs(t, s.SetCache("h", nil), &wrong)
	require.NoError(t, s.SetCache("h", x))
	_, err = s.RunValues(t.Context(), map[string]ndarray.Value{"x": x})
	require.NoError(t, err)
	h, err := s.Cache("h")
	require.NoError(t, err)
	assert.Equal(t, 2*x.Float(1), h.Float(1))
	dead, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = s.RunValues(dead, map[string]ndarray.Value{"x": x})
	require.Error(t, err)
	again, err := s.Cache("h")
	require.NoError(t, err)
	assert.Equal(t, h, again, "a run that fails leaves the state")
	out, err := s.RunValues(t.Context(), map[string]ndarray.Value{"x": x, "h": x})
	require.NoError(t, err)
	assert.Equal(t, 2*x.Float(1), out["y"].(*ndarray.Array).Float(1), "handed over, the result is delivered")
	assert.Equal(t, fmt.Sprint(p.Caches()), "[{h y  0 128}]")
}

// TestRandomStreams takes inputs and results of one type in random graphs as states, and
// compares a session that keeps them, and one that is fed its own results, with the interpreter
// fed by copies.
func TestRandomStreams(t *testing.T) {
	pairs, moved := 0, 0
	for seed := range uint64(250) {
		g, err := graphgen.New(seed, graphgen.Config{Nodes: 8 + int(seed%16)})
		require.NoError(t, err)
		rng := rand.New(rand.NewPCG(seed, 3))
		dims := map[string]int64{"N": 1 + int64(rng.IntN(4)), "M": 1 + int64(rng.IntN(4))}
		bound, err := ops.Bind(t.Context(), g, ops.Binding{Dims: dims})
		require.NoError(t, err)
		next := pairsOf(bound)
		if len(next) == 0 {
			continue
		}
		in, err := graphgen.Inputs(rng, bound, dims)
		require.NoError(t, err)
		var opts []berth.Option
		for _, in := range slices.Sorted(maps.Keys(next)) {
			opts = append(opts, berth.WithState(bound.Params[in].Name, bound.Results[next[in]].Name))
		}
		if seed%2 == 1 {
			opts = append(opts, berth.WithStatesOverwritten())
		}
		m := berth.FromModule(&ssa.Module{Graph: bound, Opsets: []ssa.Opset{{Version: 21}}, IR: 10})
		keeps, fed := session(t, m, opts...), session(t, m)
		for i := range next {
			require.NoError(t, keeps.SetCache(bound.Params[i].Name, in[i].(*ndarray.Array)))
		}
		inFed := slices.Clone(in)
		for step := range 4 {
			want, err := ops.Interpret(t.Context(), bound, in, nil)
			if err != nil {
				break
			}
			inKept := slices.Clone(in)
			for i := range next {
				inKept[i] = nil
			}
			got, err := keeps.Run(t.Context(), inKept)
			require.NoError(t, err, "seed %d", seed)
			again, err := fed.Run(t.Context(), inFed)
			require.NoError(t, err, "seed %d", seed)
			for k := range want {
				require.Empty(t, graphgen.Noise.Diff(again[k:k+1], want[k:k+1]), "seed %d step %d result %d, fed", seed, step, k)
				if got[k] != nil {
					require.Empty(t, graphgen.Noise.Diff(got[k:k+1], want[k:k+1]), "seed %d step %d result %d, kept", seed, step, k)
				}
			}
			for i, k := range next {
				kept, err := keeps.Cache(bound.Params[i].Name)
				require.NoError(t, err)
				require.Empty(t, graphgen.Noise.Diff([]ndarray.Value{kept}, want[k:k+1]), "seed %d step %d state %d", seed, step, i)
				in[i], inFed[i] = ndarray.CloneValue(again[k]), again[k]
			}
			pairs += len(next)
			moved += int(min(keeps.Raw().Moved(), 1))
		}
	}
	t.Logf("%d states, %d runs copied one", pairs, moved)
	assert.Greater(t, pairs, 100)
}

// pairsOf matches parameters with results of the same static type.
func pairsOf(g *ssa.Graph) map[int]int {
	out, taken := map[int]int{}, map[int]bool{}
	for i, p := range g.Params {
		if _, ok := p.Type.ByteSize(); !ok {
			continue
		}
		for k, r := range g.Results {
			if !taken[k] && p.Type.Equal(r.Type) && !slices.ContainsFunc(g.Results[:k], func(o *ssa.Value) bool { return o.Name == r.Name }) {
				if _, has := out[i]; !has {
					out[i], taken[k] = k, true
				}
			}
		}
	}
	return out
}

// TestDynamicStreams: results of unknown size, and sequences of results, are fed back.
func TestDynamicStreams(t *testing.T) {
	for name, text := range map[string]string{
		"open":     `graph "g" { in %x: float32[N] in %h: float32[N] %a = Mul(%x, %h) %b = Exp(%x) %c = Add(%a, %b) %d = Sin(%c) %e = Neg(%h) %y = Add(%e, %d) out %y, %d }`,
		"passed":   `graph "g" { in %x: float32[N] in %h: float32[N] %y = Add(%x, %h) %z = Identity(%y) %k = Identity(%h) out %y, %z, %k }`,
		"constant": `graph "g" { in %x: float32[N] in %h: float32[8] const %c: float32[8] = [1, 2, 3, 4, 5, 6, 7, 8] %s = Shape(%x) %k = Reshape(%c, %s) %y = Add(%x, %k) out %y, %k }`,
		"mixed":    `graph "g" { in %x: float32[8] in %h: float32[N] %a = Sin(%x) %y = Add(%a, %h) %k = Exp(%a) out %y, %k }`,
	} {
		t.Run(name, func(t *testing.T) {
			m := parsed(t, text)
			x := drawn(ssa.StaticTensor(ndarray.Float32, 8), 1)
			want := session(t, m)
			got := session(t, m)
			p, err := m.Compile(t.Context())
			require.NoError(t, err)
			var a, b, c ndarray.Value = x, x, x
			for range 10 {
				in := ndarray.CloneValue(x)
				out, err := want.Run(t.Context(), []ndarray.Value{in, a})
				require.NoError(t, err)
				fed, err := got.Run(t.Context(), []ndarray.Value{in, b})
				require.NoError(t, err)
				require.Equal(t, out, fed)
				fresh, err := p.RunValues(t.Context(), map[string]ndarray.Value{"x": in, "h": c})
				require.NoError(t, err)
				for i, o := range m.Outputs() {
					require.Equal(t, out[i], fresh[o.Name])
				}
				a, b, c = ndarray.CloneValue(out[1]), fed[1], fresh[m.Outputs()[1].Name]
				for i := range out { // what is written to one changes no other, and no constant
					if i != 1 {
						clear(fed[i].(*ndarray.Array).Data)
					}
				}
				require.Equal(t, a, b)
				clear(in.(*ndarray.Array).Data)
			}
		})
	}
	m := parsed(t, `graph "g" { in %x: float32[8] in %q: seq(float32[8]) const %zero: int64[] = 0 %h = SequenceAt(%q, %zero) %a = Add(%x, %h) %b = Tanh(%a) %y = Sin(%b) %p = SequenceInsert(%q, %b) out %y, %b, %p }`)
	s, want := session(t, m), session(t, m)
	x := drawn(ssa.StaticTensor(ndarray.Float32, 8), 1)
	var q, cloned ndarray.Value = &ndarray.Sequence{Elem: ndarray.Float32, Items: []ndarray.Value{x}}, &ndarray.Sequence{Elem: ndarray.Float32, Items: []ndarray.Value{x}}
	for range 5 {
		out, err := s.Run(t.Context(), []ndarray.Value{x, q})
		require.NoError(t, err)
		ref, err := want.Run(t.Context(), []ndarray.Value{x, cloned})
		require.NoError(t, err)
		require.Equal(t, ref, out)
		q = &ndarray.Sequence{Elem: ndarray.Float32, Items: append([]ndarray.Value{out[1]}, out[2].(*ndarray.Sequence).Items...)}
		cloned = ndarray.CloneValue(q)
	}
}
