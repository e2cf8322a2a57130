package program

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth/loops"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// nest is a graph of loops in loops, each with its own carried values, which it moves on
// by one and adds to. Trips is how often each runs; 0: as an input says.
func nest(depth, carried, trips int) string {
	names := func(prefix string, level int) string {
		var out []string
		for k := range carried {
			out = append(out, fmt.Sprintf("%%%s%d_%d", prefix, level, k))
		}
		return strings.Join(out, ", ")
	}
	count := "in %trip: int64[]"
	capture, param := " | %trip", "in %trip: int64[]\n"
	if trips > 0 {
		count, capture, param = fmt.Sprintf("const %%trip: int64[] = %d", trips), "", fmt.Sprintf("const %%trip: int64[] = %d\n", trips)
	}
	var body func(level int) string
	body = func(level int) string {
		var b strings.Builder
		fmt.Fprintf(&b, "graph \"b%d\" {\nin %%i%d: int64[]\nin %%c%d: bool[]\n", level, level, level)
		for k := range carried {
			fmt.Fprintf(&b, "in %%x%d_%d: float32[16]\n", level, k)
		}
		b.WriteString(param)
		from := "x"
		if level > 1 {
			from = "l"
			fmt.Fprintf(&b, "const %%yes: bool[] = true\n%s = Loop(%%trip, %%yes, %s%s) {\nbody: %s}\n", names("l", level), names("x", level), capture, body(level-1))
		}
		fmt.Fprintf(&b, "%%h%d: float32[16] = Add(%%%s%d_0, %%%s%d_%d)\nout %%c%d, %%h%d", level, from, level, from, level, carried-1, level, level)
		for k := range carried - 1 {
			fmt.Fprintf(&b, ", %%%s%d_%d", from, level, k)
		}
		b.WriteString("\n}\n")
		return b.String()
	}
	var in strings.Builder
	for k := range carried {
		fmt.Fprintf(&in, "in %%in%d_%d: float32[16]\n", depth, k)
	}
	return fmt.Sprintf("graph \"nest\" {\n%s%s\nconst %%yes: bool[] = true\n%s = Loop(%%trip, %%yes, %s%s) {\nbody: %s}\nout %s\n}\n", in.String(), count,
		names("o", depth), names("in", depth), capture, body(depth), names("o", depth))
}

func parsed(t testing.TB, text string) *ssa.Graph {
	g, err := ssa.ParseGraph(text)
	require.NoError(t, err, text)
	require.NoError(t, ops.InferGraph(g))
	return g
}

// TestNests compiles loops in loops whose copies would multiply, for one order and for
// all, and compares them with the interpreter. The deadline is for what would take hours.
func TestNests(t *testing.T) {
	for _, c := range []struct{ depth, carried, trips int }{
		{2, 3, 2}, {2, 4, 0}, {3, 3, 2}, {3, 3, 0}, {4, 3, 2}, {4, 3, 0}, {5, 4, 2}, {5, 4, 0}, {8, 4, 1}, {9, 6, 0},
	} {
		for _, parallel := range []bool{false, true} {
			t.Run(fmt.Sprintf("depth %d carried %d trips %d parallel %v", c.depth, c.carried, c.trips, parallel), func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				g := parsed(t, nest(c.depth, c.carried, c.trips))
				p, err := Compile(ctx, g, Options{ParallelSafe: parallel})
				require.NoError(t, err)
				assert.LessOrEqual(t, len(p.Timeline.Steps), 2*loops.MaxSteps)
				args := nestArguments(g, int64(max(1, 3-c.depth/3)))
				want, err := ops.Interpret(ctx, g, args, nil)
				require.NoError(t, err)
				s, err := p.NewSession()
				require.NoError(t, err)
				s.Poison = true
				got, err := s.Run(ctx, args)
				require.NoError(t, err)
				for i := range want {
					require.Equal(t, want[i].(*ndarray.Array).Data, got[i].(*ndarray.Array).Data, "result %d", i)
				}
			})
		}
	}
}

// TestCompactLoops says what compact loops cost: the innermost loop copies nothing, a
// compact one its carried values.
func TestCompactLoops(t *testing.T) {
	g := parsed(t, nest(5, 4, 0))
	p, err := Compile(t.Context(), g, Options{})
	require.NoError(t, err)
	assert.EqualValues(t, 4*16*4+1, p.Report.CopiesPerTrip, "four tensors of 16 and the condition")
	var compact []bool
	p.Main.each(t.Context(), func(in *Instr) {
		if in.Loop != nil {
			compact = append(compact, in.Loop.Compact)
		}
	})
	assert.True(t, compact[0], "the outermost loop")
	assert.False(t, compact[len(compact)-1], "the innermost loop")
	p, err = Compile(t.Context(), parsed(t, nest(2, 3, 0)), Options{})
	require.NoError(t, err)
	assert.Zero(t, p.Report.CopiesPerTrip)
}

// nestArguments are inputs for a nest.
func nestArguments(g *ssa.Graph, trips int64) (args []ndarray.Value) {
	for i, v := range g.Params {
		if v.Type.DType == ndarray.Int64 {
			args = append(args, ndarray.Scalar(trips))
			continue
		}
		a := ndarray.Must(v.Type.DType, 16)
		for k := range a.Len() {
			a.SetFloat(k, float64(i+k)/1024)
		}
		args = append(args, a)
	}
	return args
}

// TestPickedInNests: a value that a loop may keep for ever is made in a loop of a loop, whose iterations take turns. What it is written over is
// picked of the places for the iteration of the outer loop.
func TestPickedInNests(t *testing.T) {
	g := parsed(t, `graph "g" {
in %n: int64[] in %c: bool[]
%o: int64[?] = Loop(%n, _ | %c, %n) { body: graph "outer" {
	in %i: int64[] in %go: bool[] in %c: bool[] in %n: int64[]
	%m: int64[] = Loop(%n, _, %n | %c) { body: graph "middle" {
		in %j: int64[] in %more: bool[] in %old: int64[] in %c: bool[]
		const %three: int64[] = 3
		%flags: bool[?] = Loop(%three, %c | %c) { body: graph "flags" {
			in %k: int64[] in %on: bool[] in %c: bool[]
			const %four: int64[] = 4 const %axes: int64[2] = [0, 1]
			%less: bool[] = Less(%k, %four) %u: bool[1,1] = Unsqueeze(%less, %axes) %q: bool[] = Squeeze(%u, %axes) %goes: bool[] = Identity(%q) %made: bool[] = Identity(%c)
			out %goes, %made } }
		%ones: int64[?] = Cast(%flags) [to=7] %sum: int64[] = ReduceSum(%ones) [keepdims=0]
		%kept: int64[] = Loop(_, %c, %old | %sum) { body: graph "keeps" {
			in %k: int64[] in %on: bool[] in %v: int64[] in %sum: int64[]
			const %zero: int64[] = 0 const %axes: int64[2] = [0, 1]
			%new: int64[] = Identity(%sum)
			%less: bool[] = Less(%k, %zero) %u: bool[1,1] = Unsqueeze(%less, %axes) %q: bool[] = Squeeze(%u, %axes) %goes: bool[] = Identity(%q)
			out %goes, %new } }
		%next: int64[] = Identity(%kept)
		const %axes: int64[2] = [0, 1] %u: bool[1,1] = Unsqueeze(%more, %axes) %q: bool[] = Squeeze(%u, %axes) %goes: bool[] = Identity(%q)
		out %goes, %next } }
	%slice: int64[] = Identity(%m)
	const %axes: int64[2] = [0, 1] %u: bool[1,1] = Unsqueeze(%go, %axes) %w: bool[1,1] = Where(%go, %u, %u) %q: bool[] = Squeeze(%w, %axes) %goes: bool[] = Identity(%q)
	out %goes, %slice } }
out %o
}`)
	p, err := Compile(t.Context(), g, Options{})
	require.NoError(t, err)
	for _, c := range []bool{false, true} {
		args := []ndarray.Value{ndarray.Scalar(int64(4)), ndarray.Of([]bool{c})}
		want, err := ops.Interpret(t.Context(), g, args, nil)
		require.NoError(t, err)
		s, err := p.NewSession()
		require.NoError(t, err)
		s.Poison = true
		got, err := s.Run(t.Context(), args)
		require.NoError(t, err)
		assert.Equal(t, want[0].(*ndarray.Array).Data, got[0].(*ndarray.Array).Data, "condition %v", c)
	}
}
