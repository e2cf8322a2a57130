package program_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth/backend"
	"github.com/berth-onnx/berth/internal/cpu"
	"github.com/berth-onnx/berth/internal/graphgen"
	"github.com/berth-onnx/berth/internal/program"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// TestCarriedCaches: a cache of fixed size that a loop updates in some rows lies in
// one place, and an update writes those rows only.
func TestCarriedCaches(t *testing.T) {
	const cacheBytes = 1 * 2 * 64 * 8 * 4
	for _, c := range []struct{ name, update string }{
		{"TensorScatter", `%at = Reshape(%i, %one) %n = TensorScatter(%c, %row, %at)`},
		{"ScatterND", `const %two: int64[2] = [0, 0] const %shape: int64[2] = [1, 3] const %eight: int64[2] = [1, 8]
			%a = Unsqueeze(%i, %zero) %at = Concat(%two, %a) [axis=0] %ix = Reshape(%at, %shape) %flat = Reshape(%r, %eight) %n = ScatterND(%c, %ix, %flat)`},
		{"ScatterElements", `const %ones: int64[4] = [1, 1, 1, 1] const %whole: int64[4] = [1, 2, 1, 8]
			%a = Reshape(%i, %ones) %at = Expand(%a, %whole) %n = ScatterElements(%c, %at, %row) [axis=2]`},
	} {
		text := `graph "g" { in %m: int64[] in %x: float32[1,2,64,8] in %y: float32[1,1,1,8] const %true: bool[] = true
		  %c2, %last = Loop(%m, %true, %x, %y) { body: graph "b" {
		    in %i: int64[] in %go: bool[] in %c: float32[1,2,64,8] in %r: float32[1,1,1,8]
		    const %one: int64[1] = [1] const %zero: int64[1] = [0] const %both: int64[4] = [1, 2, 1, 8]
		    %row = Expand(%r, %both) ` + c.update + ` %s = Tanh(%r) out %go, %n, %s } }
		  out %c2, %last }`
		for _, be := range []backend.Backend{backend.Reference{}, cpu.New()} {
			t.Run(c.name+" "+be.Name(), func(t *testing.T) {
				g, err := ssa.ParseGraph(text)
				require.NoError(t, err, text)
				require.NoError(t, ops.InferGraph(g))
				p, err := program.Compile(context.Background(), g, program.Options{Backend: be})
				require.NoError(t, err)
				assert.Less(t, p.ArenaBytes, int64(2*cacheBytes), "the cache has one place")
				assert.Zero(t, p.Report.CopiesPerTrip)
				s, err := p.NewSession()
				require.NoError(t, err)
				s.Poison = true
				var at []*byte
				s.Observe = func(in *program.Instr, out []ndarray.Value) {
					if in.Node.Op == c.name {
						at = append(at, &out[0].(*ndarray.Array).Data[0])
					}
				}
				x, y := ndarray.Must(ndarray.Float32, 1, 2, 64, 8), ndarray.Of([]float32{1, 2, 3, 4, 5, 6, 7, 8}, 1, 1, 1, 8)
				in := []ndarray.Value{ndarray.Scalar(int64(5)), x, y}
				want, err := ops.Interpret(context.Background(), g, in, nil)
				require.NoError(t, err)
				got, err := s.Run(context.Background(), in)
				require.NoError(t, err)
				require.Empty(t, graphgen.Noise.Diff(cloneAll(got), want))
				require.Len(t, at, 5)
				for _, p := range at {
					assert.Same(t, at[0], p, "every trip writes in the same place")
				}
			})
		}
	}
}

// TestDeadCaches: an update of a cache that nobody reads afterwards is written into
// it, in one place.
func TestDeadCaches(t *testing.T) {
	const cacheBytes = 1 * 2 * 64 * 8 * 4
	for _, c := range []struct{ name, update string }{
		{"TensorScatter", `%row = Exp(%r) %n = TensorScatter(%c, %row, %at)`},
		{"ScatterND", `const %ix: int64[1,3] = [0, 1, 9] const %shape: int64[2] = [1, 8] const %zero: int64[1] = [0] const %one: int64[1] = [1] const %ax: int64[1] = [1]
			%e = Exp(%r) %f = Slice(%e, %zero, %one, %ax) %row = Reshape(%f, %shape) %n = ScatterND(%c, %ix, %row)`},
		{"ScatterElements", `const %ix: int64[1,2,1,8] = [9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9] %row = Exp(%r) %n = ScatterElements(%c, %ix, %row) [axis=2]`},
	} {
		for _, be := range []backend.Backend{backend.Reference{}, cpu.New()} {
			t.Run(c.name+" "+be.Name(), func(t *testing.T) {
				g, err := ssa.ParseGraph(`graph "g" { in %x: float32[1,2,64,8] in %r: float32[1,2,1,8] const %at: int64[1] = [9] %c = Softmax(%x) ` + c.update + ` %y = Neg(%n) out %y }`)
				require.NoError(t, err)
				require.NoError(t, ops.InferGraph(g))
				p, err := program.Compile(context.Background(), g, program.Options{Backend: be})
				require.NoError(t, err)
				assert.Less(t, p.ArenaBytes, int64(2*cacheBytes), "the cache has one place")
				s, err := p.NewSession()
				require.NoError(t, err)
				s.Poison = true
				in := []ndarray.Value{rowsFor(g.Params[0], 0, 1), rowsFor(g.Params[1], 0, 2)}
				want, err := ops.Interpret(context.Background(), g, in, nil)
				require.NoError(t, err)
				got, err := s.Run(context.Background(), in)
				require.NoError(t, err)
				require.Empty(t, graphgen.Noise.Diff(cloneAll(got), want))
			})
		}
	}
}

// TestKeptCaches: what a session keeps from run to run equals what callers would
// hand back, for readers that take it in place and for those that need a copy.
func TestKeptCaches(t *testing.T) {
	const head = `in %p: float32[2,3,P,4] in %x: float32[2,3,S,4] %n = Concat(%p, %x) [axis=2] `
	for _, c := range []struct {
		name, text string
		moved      bool // some reader needs the cache in one piece
	}{
		{"attention", head + `%k = Transpose(%n) [perm=[0,1,3,2]] %s = MatMul(%x, %k) %w = Softmax(%s) [axis=-1] %y = MatMul(%w, %n) out %y, %n`, false},
		{"the old cache is read", head + `%k = Transpose(%n) [perm=[0,1,3,2]] %s = MatMul(%x, %k) %old = Shape(%p) %y = Identity(%s) out %y, %old, %n`, false},
		{"through Identity, appended twice", `in %p: float32[2,3,P,4] in %x: float32[2,3,S,4] %q = Identity(%p) %n = Concat(%q, %x, %x) [axis=-2] %z = Size(%n) %m = Identity(%n) out %z, %m`, false},
		{"one slice: the axis is the outermost that matters", `in %p: float32[1,P,4] in %x: float32[1,S,4] %n = Concat(%p, %x) [axis=1] %y = Relu(%n) %z = Exp(%p) out %y, %n, %z`, false},
		{"a reshape", head + `const %sh: int64[3] = [2, -1, 4] const %ax: int64[1] = [0] %z = Unsqueeze(%n, %ax) %y = Reshape(%z, %sh) out %y, %n`, true},
		{"rows cut out", head + `const %b: int64[1] = [-1] const %e: int64[1] = [9] const %a: int64[1] = [2] %y = Slice(%n, %b, %e, %a) out %y, %n`, true},
		{"key heads shared by query heads", head + `const %two: int64[1] = [2] const %sh: int64[4] = [2, 6, -1, 4] const %rep: int64[5] = [1, 1, 2, 1, 1]
			%u = Unsqueeze(%n, %two) %e = Expand(%u, %rep) %y = Reshape(%e, %sh) out %y, %n`, true},
		{"half precision", `in %p: float16[2,3,P,4] in %x: float16[2,3,S,4] %n = Concat(%p, %x) [axis=2] %k = Transpose(%n) [perm=[0,1,3,2]] %y = MatMul(%x, %k) out %y, %n`, true},
		{"two results", head + `%m = Identity(%n) out %n, %m`, true},
		{"appended to twice", head + `%q = Concat(%p, %x, %x) [axis=2] out %q, %n`, true},
		{"elementwise", head + `%y = Relu(%n) out %y, %n`, true},
		{"a transposition of other axes", head + `%y = Transpose(%n) [perm=[1,0,2,3]] out %y, %n`, true},
		{"turned, and read otherwise", head + `%k = Transpose(%n) [perm=[0,1,3,2]] %y = Neg(%k) out %y, %n`, true},
		{"the first factor of a product", head + `%k = Transpose(%x) [perm=[0,1,3,2]] %y = MatMul(%n, %k) out %y, %n`, true},
		{"a branch", head + `in %b: bool[] %y = If(%b | %n) { then_branch: graph "t" { in %u: float32[2,3,P+S,4] %v = Neg(%u) out %v }
			else_branch: graph "e" { in %u2: float32[2,3,P+S,4] %v2 = Exp(%u2) out %v2 } } out %y, %n`, true},
	} {
		for _, be := range []backend.Backend{backend.Reference{}, cpu.New()} {
			t.Run(c.name+" "+be.Name(), func(t *testing.T) {
				p, s := keptSession(t, c.text, be, 18)
				g, k := p.Graph, p.Caches()[0]
				past := rowsFor(g.Params[0], 2, 0)
				require.NoError(t, s.SetCache(0, past))
				for call, n := range []int{3, 1, 1, 2, 1} {
					in := []ndarray.Value{past, rowsFor(g.Params[1], n, call+1), ndarray.Scalar(call%2 == 0)}[:len(g.Params)]
					want, err := ops.Interpret(context.Background(), g, in, nil)
					require.NoError(t, err)
					past = keptRun(t, s, k, in, want)
					assert.Equal(t, c.moved, s.Moved() > 0, "copied %d bytes", s.Moved())
				}
				// An input that is handed over is read as it is, and the cache stays.
				in := []ndarray.Value{rowsFor(g.Params[0], 1, 7), rowsFor(g.Params[1], 1, 8), ndarray.Scalar(true)}[:len(g.Params)]
				want, err := ops.Interpret(context.Background(), g, in, nil)
				require.NoError(t, err)
				got, err := s.Run(context.Background(), in)
				require.NoError(t, err)
				require.Empty(t, graphgen.Noise.Diff(cloneAll(got), want))
				now, err := s.CacheCopy(0)
				require.NoError(t, err)
				require.Empty(t, graphgen.Noise.Diff([]ndarray.Value{now}, []ndarray.Value{past}))
			})
		}
	}
}

// keptSession compiles a graph, given as text, whose first input is a cache.
func keptSession(t *testing.T, text string, be backend.Backend, bound int64) (*program.Program, *program.Session) {
	g, err := ssa.ParseGraph("graph \"g\" { " + text + " }")
	require.NoError(t, err)
	require.NoError(t, ops.InferGraph(g))
	p, err := program.Compile(context.Background(), g, program.Options{Backend: be, Bounds: map[string]int64{"P": bound}})
	require.NoError(t, err)
	require.Len(t, p.Caches(), 1)
	s, err := p.NewSession()
	require.NoError(t, err)
	s.Poison = true
	return p, s
}

// rowsFor makes an input with a number of rows along its open dimension.
func rowsFor(p *ssa.Value, n, seed int) *ndarray.Array {
	var shape []int
	for _, d := range p.Type.Shape {
		k, known := d.Const()
		if !known {
			k = int64(n)
		}
		shape = append(shape, int(k))
	}
	a := ndarray.Must(p.Type.DType, shape...)
	for i := range a.Len() {
		a.SetFloat(i, float64((i*5+seed*3)%7)/4-1)
	}
	return a
}

// keptRun runs with the session's cache in place of the first input, compares all
// results, and returns what the session keeps now.
func keptRun(t *testing.T, s *program.Session, k program.Cache, in, want []ndarray.Value) *ndarray.Array {
	got, err := s.Run(context.Background(), append([]ndarray.Value{nil}, in[1:]...))
	require.NoError(t, err)
	require.Nil(t, got[k.Result], "the session keeps it")
	now, err := s.CacheCopy(0)
	require.NoError(t, err)
	got = cloneAll(got)
	got[k.Result] = now
	require.Empty(t, graphgen.Noise.Diff(got, want))
	return now
}

// TestKeptCachesInPlace: a cache of one slice is an ordinary array; it stays where
// it is, too.
func TestKeptCachesInPlace(t *testing.T) {
	p, s := keptSession(t, `in %p: float32[1,1,P,4] in %x: float32[1,1,S,4] %n = Concat(%p, %x) [axis=2] %y = Relu(%n) out %y, %n`, cpu.New(), 8)
	var at []*byte
	s.Observe = func(in *program.Instr, out []ndarray.Value) {
		if in.Node.Op == "Concat" {
			at = append(at, &out[0].(*ndarray.Array).Data[0])
		}
	}
	for call := range 8 {
		_, err := s.Run(context.Background(), []ndarray.Value{nil, rowsFor(p.Graph.Params[1], 1, call)})
		require.NoError(t, err)
		assert.Same(t, at[0], at[call])
	}
	require.Len(t, at, 8)
}

// TestNoCaches lists what is no cache, bound or not; it runs as without a bound.
func TestNoCaches(t *testing.T) {
	const head = `in %p: float32[2,3,P,4] in %x: float32[2,3,S,4] `
	for _, c := range []struct{ name, text string }{
		{"another dimension is bound", `in %p: float32[2,3,Q,4] in %x: float32[2,3,S,4] %n = Concat(%p, %x) [axis=2] out %n`},
		{"another dimension is open", `in %p: float32[N,3,P,4] in %x: float32[N,3,S,4] %n = Concat(%p, %x) [axis=2] out %n`},
		{"the axis is known", `in %p: float32[2,P] in %x: float32[2,P] %n = Concat(%p, %x) [axis=0] out %n`},
		{"the new rows come first", head + `%n = Concat(%x, %p) [axis=2] out %n`},
		{"a sliding window", head + `const %b: int64[1] = [-3] const %e: int64[1] = [99] const %a: int64[1] = [2] %n = Concat(%p, %x) [axis=2] %w = Slice(%n, %b, %e, %a) out %w`},
		{"a part of the cache is appended to", head + `const %b: int64[1] = [1] const %e: int64[1] = [99] const %a: int64[1] = [2] %q = Slice(%p, %b, %e, %a) %n = Concat(%q, %x) [axis=2] out %n`},
		{"another shape is appended to", `in %p: float32[P,2] in %x: float32[S,2,1] const %ax: int64[1] = [2] %u = Unsqueeze(%p, %ax) %n = Concat(%u, %x) [axis=0] out %n`},
		{"the result has another shape", head + `const %ax: int64[1] = [0] %n = Concat(%p, %x) [axis=2] %u = Unsqueeze(%n, %ax) out %u`},
		{"strings", `in %p: string[P] in %x: string[S] %n = Concat(%p, %x) [axis=0] out %n`},
		{"attention", head + `in %v: float32[2,3,P,4] in %y: float32[2,3,S,4] const %no: float32[1] = [0] %o, %k, %w = Attention(%x, %x, %y, %no, %p, %v) out %o, %k, %w`},
		{"attention with shared key heads", `in %p: float32[1,1,P,8] in %q: float32[1,1,16] in %k: float32[1,1,8] in %v: float32[1,1,P,8]
			const %len: int32[1] = [5] const %all: int32[] = 6 %o, %pk, %pv = com.microsoft::GroupQueryAttention(%q, %k, %k, %p, %v, %len, %all) [num_heads=2, kv_num_heads=1] out %o, %pk, %pv`},
	} {
		t.Run(c.name, func(t *testing.T) {
			g, err := ssa.ParseGraph("graph \"g\" { " + c.text + " }")
			require.NoError(t, err)
			require.NoError(t, ops.InferGraph(g))
			p, err := program.Compile(context.Background(), g, program.Options{Backend: cpu.New(), Bounds: map[string]int64{"P": 16}})
			require.NoError(t, err)
			assert.Empty(t, p.Caches())
			if g.Params[0].Type.DType == ndarray.String {
				return
			}
			var in []ndarray.Value
			for i, prm := range g.Params {
				in = append(in, rowsFor(prm, 5, i))
			}
			want, err := ops.Interpret(context.Background(), g, in, nil)
			require.NoError(t, err)
			s, err := p.NewSession()
			require.NoError(t, err)
			got, err := s.Run(context.Background(), in)
			require.NoError(t, err)
			require.Empty(t, graphgen.Noise.Diff(cloneAll(got), want))
		})
	}
}

// TestKeptCacheErrors: what does not fit is said, and changes nothing.
func TestKeptCacheErrors(t *testing.T) {
	g, err := ssa.ParseGraph(`graph "g" { in %p: float32[2,P] in %v: float32[2,P] in %x: float32[2,S] %n = Concat(%p, %x) [axis=1] %m = Concat(%v, %x) [axis=1] out %n, %m }`)
	require.NoError(t, err)
	require.NoError(t, ops.InferGraph(g))
	p, err := program.Compile(context.Background(), g, program.Options{Bounds: map[string]int64{"P": 4}})
	require.NoError(t, err)
	require.Len(t, p.Caches(), 2)
	s, err := p.NewSession()
	require.NoError(t, err)
	array := func(shape ...int) *ndarray.Array { return ndarray.Must(ndarray.Float32, shape...) }
	require.NoError(t, s.SetCache(0, array(2, 3)))
	require.NoError(t, s.SetCache(1, array(2, 3)))
	run := func(in ...ndarray.Value) error { _, err := s.Run(context.Background(), in); return err }
	var wrong *program.InputError
	var full *program.CacheError
	require.ErrorAs(t, s.SetCache(0, array(3, 1)), &wrong)
	require.ErrorAs(t, s.SetCache(0, ndarray.Must(ndarray.Int64, 2, 1)), &wrong)
	require.ErrorAs(t, s.SetCache(0, array(2, 5)), &full)
	require.ErrorAs(t, run(nil, array(2, 3), array(2, 1)), &wrong, "one cache of two is handed over")
	require.ErrorAs(t, run(nil, nil, array(3, 1)), &wrong)
	require.ErrorAs(t, run(nil, nil, array(2, 2)), &full)
	held, err := s.CacheCopy(0)
	require.NoError(t, err)
	nines := array(2, 3)
	for i := range nines.Len() {
		nines.SetFloat(i, 9)
	}
	for name, a := range map[string]*ndarray.Array{"nil": nil, "short": {DType: ndarray.Float32, Shape: []int{2, 3}, Data: nines.Data[:12:12]},
		"long": {DType: ndarray.Float32, Shape: []int{2, 2}, Data: nines.Data}, "no data": {DType: ndarray.Float32, Shape: []int{2, 3}},
		"negative": {DType: ndarray.Float32, Shape: []int{2, -3}, Data: nines.Data}} {
		require.ErrorAs(t, s.SetCache(0, a), &wrong, name)
		got, err := s.CacheCopy(0)
		require.NoError(t, err)
		require.Equal(t, held, got, name)
	}
	assert.Equal(t, 3, s.CacheRows(0))
	require.NoError(t, run(nil, nil, array(2, 1)))
	assert.Equal(t, []int{4, 4}, []int{s.CacheRows(0), s.CacheRows(1)})

	small, err := program.Compile(context.Background(), g, program.Options{Bounds: map[string]int64{"P": 1 << 28}, Memory: 64 << 20})
	require.NoError(t, err)
	s, err = small.NewSession()
	require.NoError(t, err)
	require.Error(t, run(nil, nil, array(2, 1)), "a cache beyond the limit is not taken")
}

// TestKeptCachesOfFailedRuns: a run that fails leaves the cache as it was.
func TestKeptCachesOfFailedRuns(t *testing.T) {
	g, err := ssa.ParseGraph(`graph "g" { in %p: float32[1,2,P,4] in %x: float32[1,2,S,4] in %sh: int64[1] %n = Concat(%p, %x) [axis=2] %y = Reshape(%x, %sh) out %y, %n }`)
	require.NoError(t, err)
	require.NoError(t, ops.InferGraph(g))
	p, err := program.Compile(context.Background(), g, program.Options{Bounds: map[string]int64{"P": 3}})
	require.NoError(t, err)
	s, err := p.NewSession()
	require.NoError(t, err)
	run := func(rows int, shape int64) error {
		_, err := s.Run(context.Background(), []ndarray.Value{nil, ndarray.Must(ndarray.Float32, 1, 2, rows, 4), ndarray.Of([]int64{shape}, 1)})
		return err
	}
	require.NoError(t, run(2, -1))
	require.Error(t, run(1, 5))
	assert.Equal(t, 2, s.CacheRows(0))
	require.NoError(t, run(1, -1))
	assert.Equal(t, 3, s.CacheRows(0))
	var full *program.CacheError
	require.ErrorAs(t, run(1, -1), &full)
	assert.Equal(t, program.CacheError{Name: "p", Rows: 4, Bound: 3}, *full)
	s.Reset()
	require.NoError(t, run(3, -1))
}

// TestBuffersOfFailedRuns: a run whose buffers have too little room leaves caches, states and all buffers as they were.
func TestBuffersOfFailedRuns(t *testing.T) {
	g, err := ssa.ParseGraph(`graph "g" { in %p: float32[P] in %h: float32[1] in %x: float32[S] in %one: float32[1]
		%n = Concat(%p, %x) [axis=0] %k = Add(%h, %one) %y = Relu(%x) %z = Neg(%x) out %y, %z, %n, %k }`)
	require.NoError(t, err)
	require.NoError(t, ops.InferGraph(g))
	p, err := program.Compile(context.Background(), g, program.Options{Bounds: map[string]int64{"P": 9}, States: []program.State{{Param: 1, Result: 3}}})
	require.NoError(t, err)
	s, err := p.NewSession()
	require.NoError(t, err)
	in := []ndarray.Value{nil, nil, ndarray.Of([]float32{1, 2, 3, 4}, 4), ndarray.Of([]float32{1}, 1)}
	row := func(n int) *ndarray.Array { return ndarray.Must(ndarray.Float32, n) }
	run := func(y, z, n *ndarray.Array) error {
		return s.RunInto(context.Background(), in, []*ndarray.Array{y, z, n, nil})
	}
	kept := func() []ndarray.Value {
		var all []ndarray.Value
		for i := range 2 {
			a, err := s.CacheCopy(i)
			require.NoError(t, err)
			all = append(all, a)
		}
		return all
	}
	require.NoError(t, run(row(4), row(4), nil))
	want := kept()
	require.Equal(t, []ndarray.Value{in[2], in[3]}, want)
	for name, b := range map[string][3]*ndarray.Array{"no room": {row(4), row(3), nil}, "kept by the session": {row(4), nil, row(8)}, "another type": {row(4), ndarray.Must(ndarray.Int32, 4), nil}} {
		var wrong *program.OutputError
		require.ErrorAs(t, run(b[0], b[1], b[2]), &wrong, name)
		assert.Equal(t, want, kept(), name)
		assert.Equal(t, row(4), b[0], name)
	}
	require.NoError(t, run(row(4), row(4), nil))
	assert.Equal(t, 8, s.CacheRows(0))
	assert.Equal(t, ndarray.Of([]float32{2}, 1), kept()[1])
}
