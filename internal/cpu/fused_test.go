package cpu

import (
	"bytes"
	"context"
	"math"
	"math/rand"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth/backend"
	"github.com/berth-onnx/berth/internal/ops/fused"
	places "github.com/berth-onnx/berth/internal/ops/window"
	"github.com/berth-onnx/berth/internal/tile"
	"github.com/berth-onnx/berth/internal/tile/tiletest"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// fusedNode is a node of a program over operands of given shapes, with its result types.
func fusedNode(t testing.TB, p *tile.Program, shapes [][]int) *ssa.Node {
	g := ssa.NewGraph("g")
	var in []*ssa.Value
	for i, s := range shapes {
		in = append(in, g.AddParam(string(rune('a'+i)), ssa.StaticTensor(p.Operands[i], s...)))
	}
	n := g.NewNode(fused.Name, in, len(p.Results), fused.Attr(p))
	n.Domain = fused.Domain
	require.NoError(t, ops.Infer(n), p)
	return n
}

func prepareFused(t testing.TB, n *ssa.Node, threads int) backend.Prepared {
	made, err := New().Prepare(context.Background(), n, threads)
	require.NoError(t, err)
	require.NotNil(t, made.Kernel)
	return made
}

// poisoned returns bytes that no kernel may read before it writes them.
func poisoned(n int) []byte {
	b := ndarray.AlignedBytes(n)
	for i := range b {
		b[i] = 0xa5
	}
	return b
}

// callOf makes a call with poisoned results and workspace.
func callOf(n *ssa.Node, made backend.Prepared, in []*ndarray.Array, threads int) *ops.Call {
	c := &ops.Call{Node: n, Threads: threads, Scratch: poisoned(int(made.Scratch))}
	for _, a := range in {
		c.In = append(c.In, a)
	}
	for _, v := range n.Out {
		shape, _ := v.Type.Static()
		a := ndarray.Must(v.Type.DType, shape...)
		a.Data = poisoned(len(a.Data))
		c.Out = append(c.Out, a)
	}
	return c
}

func drawnShape(r *rand.Rand) []int {
	switch r.Intn(4) {
	case 0:
		return []int{1 + r.Intn(3000)}
	case 1:
		return []int{1 + r.Intn(40), 1 + r.Intn(90)}
	}
	s := make([]int, r.Intn(5))
	for i := range s {
		s[i] = 1 + r.Intn(7)
	}
	return s
}

// TestFusedRandom runs drawn programs on one and two threads, in blocks of several sizes, and
// with results over operands, and compares with the interpreter.
func TestFusedRandom(t *testing.T) {
	blocks, elems := blockElems, TileElems
	defer func() { blockElems, TileElems = blocks, elems }()
	r := rand.New(rand.NewSource(7))
	prepared := 0
	for range 1500 {
		blockElems, TileElems = []int{16, 100, 2048}[r.Intn(3)], []int{64, 32 << 10}[r.Intn(2)]
		d := tiletest.Draw(r, drawnShape(r), 1+r.Intn(12))
		require.NoError(t, d.Program.Check(), "%s", d.Program)
		in := d.Operands(r)
		want, err := d.Program.Interpret(t.Context(), in)
		if err != nil {
			continue // operands that do not fit rows of two dimensions
		}
		prepared++
		n := fusedNode(t, d.Program, d.Shapes)
		made := prepareFused(t, n, 2)
		one, two := callOf(n, made, in, 1), callOf(n, made, in, 2)
		require.NoError(t, made.Kernel.Run(one))
		require.NoError(t, made.Kernel.Run(two))
		for k := range want {
			d.RequireSame(t, k, want[k], arrayOf(one.Out[k]))
			require.True(t, bytes.Equal(arrayOf(one.Out[k]).Data, arrayOf(two.Out[k]).Data), "%s", d.Program)
		}
		inPlace(t, n, made, in, one)
	}
	assert.Greater(t, prepared, 1000)
}

// inPlace runs the node with each result over each operand that it may lie over.
func inPlace(t *testing.T, n *ssa.Node, made backend.Prepared, in []*ndarray.Array, want *ops.Call) {
	for _, pair := range ops.InPlacePairs(n) {
		c := callOf(n, made, in, 2)
		over := in[pair.In].Clone()
		c.In[pair.In] = over
		arrayOf(c.Out[pair.Out]).Data = over.Data
		require.NoError(t, made.Kernel.Run(c))
		for k := range c.Out {
			require.True(t, bytes.Equal(arrayOf(want.Out[k]).Data, arrayOf(c.Out[k]).Data), "result %d over operand %d of\n%s%v", pair.Out, pair.In, n.Attr("program").S, want.In)
		}
	}
}

// TestRowsOverOperands: results of rows, with or without the rows' dimensions, over operands of their shape, in blocks of one row.
func TestRowsOverOperands(t *testing.T) {
	defer func(elems int) { blockElems = elems }(blockElems)
	blockElems = 4
	for _, c := range []struct {
		program string
		shapes  [][]int
		pairs   int
	}{
		{"(float32, float32) inner 1\n%2 = float32 Max %0 %1\n%3 = row float32 ReduceSum %2\nreturn %3 dropped\n", [][]int{{4, 4}, {4, 4, 4}}, 0},
		{"(float32, float32) inner 1\n%2 = float32 Max %0 %1\n%3 = row float32 ReduceSum %2\nreturn %3\n", [][]int{{4, 4, 1}, {4, 4, 4}}, 1},
		{"(float32, float32) inner 1\n%2 = float32 Max %0 %1\n%3 = row float32 ReduceSum %2\n%4 = float32 Sub %2 %3\nreturn %4 %3 dropped\n", [][]int{{4, 4}, {4, 4, 4}}, 1},
	} {
		p, err := tile.Parse(c.program)
		require.NoError(t, err)
		var in []*ndarray.Array
		for _, s := range c.shapes {
			a := ndarray.Must(ndarray.Float32, s...)
			for k := range a.Len() {
				a.SetFloat(k, float64(k*7%11)-3)
			}
			in = append(in, a)
		}
		n := fusedNode(t, p, c.shapes)
		made := prepareFused(t, n, 2)
		call := callOf(n, made, in, 2)
		require.NoError(t, made.Kernel.Run(call))
		assert.Len(t, ops.InPlacePairs(n), c.pairs, c.program)
		inPlace(t, n, made, in, call)
	}
}

// TestFusedIsSingleNodes: a program gives the bits that its instructions give as single nodes, so that its rounding errors
// are bounded as theirs. The cases hold sums of rows and functions that are approximated.
func TestFusedIsSingleNodes(t *testing.T) {
	r := rand.New(rand.NewSource(11))
	for _, c := range []struct {
		name, program string
		shapes        [][]int
	}{
		{"chain", "(float32, float32, float32)\n%3 = float32 Mul %0 %1\n%4 = float32 Add %3 %2\n%5 = float32 Sigmoid %4\n%6 = float32 Tanh %5\nreturn %6\n", [][]int{{37, 301}, {301}, {37, 1}}},
		{"rows", "(float32, float32) inner 1\n%2 = float32 Constant 0.125\n%3 = float32 Mul %0 %2\n%4 = float32 Add %3 %1\n%5 = float32 Softmax %4\n%6 = float32 Exp %5\nreturn %6\n", [][]int{{5, 37, 301}, {37, 301}}},
		{"conversions", "(int32, float32)\n%2 = float32 Cast %0\n%3 = float32 Mul %2 %1\n%4 = float32 Erf %3\nreturn %4\n", [][]int{{64, 300}, {64, 1}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, err := tile.Parse(c.program)
			require.NoError(t, err)
			var in []*ndarray.Array
			for i, s := range c.shapes {
				a := ndarray.Must(p.Operands[i], s...)
				for k := range a.Len() {
					a.SetFloat(k, math.Round(r.NormFloat64()*4096)/1024)
				}
				in = append(in, a)
			}
			n := fusedNode(t, p, c.shapes)
			made := prepareFused(t, n, 2)
			call := callOf(n, made, in, 2)
			require.NoError(t, made.Kernel.Run(call))
			run, last := nodesRun(t, p, in)
			run()
			assert.Equal(t, last.Data, arrayOf(call.Out[0]).Data)
		})
	}
}

// TestFusedDoesNotAllocate runs a program of several types and a row.
func TestFusedDoesNotAllocate(t *testing.T) {
	p, err := tile.Parse("(float32, float32, int32) inner 1\n%3 = float32 Cast %2\n%4 = float32 Mul %0 %3\n%5 = float32 Add %4 %1\n%6 = row float32 ReduceMax %5\n" +
		"%7 = float32 Sub %5 %6\n%8 = float32 Exp %7\n%9 = bool Less %8 %1\n%10 = float32 Where %9 %8 %1\nreturn %10 %6\n")
	require.NoError(t, err)
	shapes := [][]int{{64, 300}, {300}, {64, 300}}
	n := fusedNode(t, p, shapes)
	made := prepareFused(t, n, 1)
	in := []*ndarray.Array{ndarray.Must(ndarray.Float32, 64, 300), ndarray.Must(ndarray.Float32, 300), ndarray.Must(ndarray.Int32, 64, 300)}
	c := callOf(n, made, in, 1)
	require.NoError(t, made.Kernel.Run(c))
	assert.Zero(t, testing.AllocsPerRun(5, func() { _ = made.Kernel.Run(c) }))
}

// TestFusedEqualsSingleNodes compares bits with the kernels of the nodes that a program is made of.
func TestFusedEqualsSingleNodes(t *testing.T) {
	r := rand.New(rand.NewSource(11))
	for range 300 {
		d := tiletest.Draw(r, drawnShape(r), 1+r.Intn(10))
		in := d.Operands(r)
		loops, err := d.Program.Bind(d.Shapes)
		if err != nil {
			continue
		}
		n := fusedNode(t, d.Program, d.Shapes)
		c := callOf(n, prepareFused(t, n, 1), in, 1)
		require.NoError(t, prepareFused(t, n, 1).Kernel.Run(c))
		values := slices.Clone(in)
		for i := range d.Program.Instrs {
			values = append(values, runSingle(t, d.Program, i, loops, values))
		}
		for k, res := range d.Program.Results {
			require.Equal(t, values[res.Value].Data, arrayOf(c.Out[k]).Data, "result %d of\n%s%v", k, d.Program, d.Shapes)
		}
	}
}

// runSingle runs one instruction over whole tensors, as matrices of rows.
func runSingle(t *testing.T, p *tile.Program, i int, l *tile.Loops, values []*ndarray.Array) *ndarray.Array {
	x := &p.Instrs[i]
	if x.Op == tile.Constant {
		return x.Value
	}
	cols := sizeOf(l.Shape[len(l.Shape)-p.Inner:])
	shape := []int{sizeOf(l.Shape) / cols, cols}
	matrix := func(v tile.Ref) *ndarray.Array {
		a := values[v]
		if p.IsConstant(v) || a.Len() == 1 && x.Op == "Clip" {
			return a
		}
		return written(a, l.Shape, p.IsRow(v), shape)
	}
	var in []*ssa.Value
	c := &ops.Call{Threads: 1}
	for _, a := range x.Args {
		if a == tile.None {
			in, c.In = append(in, nil), append(c.In, nil)
			continue
		}
		m := matrix(a)
		v := &ssa.Value{Type: ssa.StaticTensor(m.DType, m.Shape...)}
		if p.IsConstant(a) {
			v.Const = ssa.NewConstant(m)
		}
		in, c.In = append(in, v), append(c.In, m)
	}
	if x.Row {
		shape = []int{shape[0], 1}
	}
	if x.Op.Normalizes() && len(c.In) > 1 { // one row of the scale
		m := c.In[1].(*ndarray.Array)
		first := &ndarray.Array{DType: m.DType, Shape: []int{cols}, Data: m.Data[:cols*m.DType.Size()]}
		c.In[1], in[1] = first, &ssa.Value{Type: ssa.StaticTensor(m.DType, cols)}
	}
	out := ndarray.Must(x.DType, shape...)
	c.Node, c.Out = fused.Node(x, in, &ssa.Value{Type: ssa.StaticTensor(x.DType, shape...)}), []ndarray.Value{out}
	for len(c.In) < len(c.Node.In) {
		a, err := c.Node.In[len(c.In)].Const.Array()
		require.NoError(t, err)
		c.In = append(c.In, a)
	}
	made, err := New().Prepare(context.Background(), c.Node, 1)
	require.NoError(t, err)
	if made.Kernel == nil {
		made.Kernel = ops.KernelFunc(ops.Eval)
	}
	c.Scratch = poisoned(int(made.Scratch))
	require.NoError(t, made.Kernel.Run(c))
	return out
}

// written is an operand with an element for every index, as a matrix; a row value with one for every row.
func written(a *ndarray.Array, full []int, isRow bool, shape []int) *ndarray.Array {
	if isRow {
		return a.Reshaped(shape[0], 1)
	}
	if a.Len() == sizeOf(full) {
		return a.Reshaped(shape...)
	}
	out := ndarray.Must(a.DType, full...)
	strides, size := ops.BroadcastStrides(a.Shape, full), a.DType.Size()
	for i := range out.Len() {
		at, rest := 0, i
		for d := len(full) - 1; d >= 0; d-- {
			at += rest % full[d] * strides[d]
			rest /= full[d]
		}
		copy(out.Data[i*size:(i+1)*size], a.Data[at*size:])
	}
	return out.Reshaped(shape...)
}

// BenchmarkFused compares a program with its nodes one after the other, in place where they may be.
func BenchmarkFused(b *testing.B) {
	chain := "(float32, float32, float32)\n%3 = float32 Mul %0 %1\n%4 = float32 Add %3 %2\n%5 = float32 Relu %4\n%6 = float32 Sub %5 %1\n%7 = float32 Abs %6\n%8 = float32 Mul %7 %2\nreturn %8\n"
	scores := "(float32, float32) inner 1\n%2 = float32 Constant 0.125\n%3 = float32 Mul %0 %2\n%4 = float32 Add %3 %1\n%5 = float32 Softmax %4\nreturn %5\n"
	ints := "(int32, float32, float32)\n%3 = float32 Cast %0\n%4 = float32 Mul %3 %1\n%5 = float32 Add %4 %2\n%6 = float32 Constant 1\n%7 = bool Less %5 %6\n%8 = float32 Where %7 %5 %6\nreturn %8\n"
	for _, bench := range []struct {
		name, program string
		shapes        [][]int
	}{
		{"chain/4KB", chain, [][]int{{1, 1024}, {1, 1024}, {1}}},
		{"chain/64KB", chain, [][]int{{16, 1024}, {1024}, {16, 1}}},
		{"chain/1MB", chain, [][]int{{256, 1024}, {1024}, {256, 1}}},
		{"chain/16MB", chain, [][]int{{4096, 1024}, {1024}, {4096, 1}}},
		{"scores/64KB", scores, [][]int{{4, 64, 64}, {64, 64}}},
		{"scores/2MB", scores, [][]int{{8, 256, 256}, {256, 256}}},
		{"ints/256KB", ints, [][]int{{64, 1024}, {64, 1}, {64, 1}}},
	} {
		p, err := tile.Parse(bench.program)
		require.NoError(b, err)
		var in []*ndarray.Array
		for i, s := range bench.shapes {
			in = append(in, ndarray.Must(p.Operands[i], s...))
		}
		n := fusedNode(b, p, bench.shapes)
		made := prepareFused(b, n, 1)
		c := callOf(n, made, in, 1)
		b.Run(bench.name+"/fused", func(b *testing.B) {
			for range b.N {
				_ = made.Kernel.Run(c)
			}
		})
		run, _ := nodesRun(b, p, in)
		b.Run(bench.name+"/nodes", func(b *testing.B) {
			for range b.N {
				run()
			}
		})
	}
}

// nodesRun runs the instructions of a program as single nodes. The array is the result of the last.
func nodesRun(b testing.TB, p *tile.Program, in []*ndarray.Array) (run func(), last *ndarray.Array) {
	shape := in[0].Shape
	values := slices.Clone(in)
	var calls []*ops.Call
	var kernels []ops.Kernel
	for i := range p.Instrs {
		x := &p.Instrs[i]
		if x.Op == tile.Constant {
			values = append(values, x.Value)
			continue
		}
		c := &ops.Call{Threads: 1}
		var args []*ssa.Value
		for _, a := range x.Args {
			v := &ssa.Value{Type: ssa.StaticTensor(values[a].DType, values[a].Shape...)}
			if p.IsConstant(a) {
				v.Const = ssa.NewConstant(values[a])
			}
			args, c.In = append(args, v), append(c.In, values[a])
		}
		out := ndarray.Must(x.DType, shape...)
		if k := len(values) - 1; p.Instr(x.Args[0]) != nil && x.Args[0] == tile.Ref(k) && values[k].DType == x.DType {
			out = values[k]
		}
		c.Node, c.Out = fused.Node(x, args, &ssa.Value{Type: ssa.StaticTensor(x.DType, shape...)}), []ndarray.Value{out}
		made, err := New().Prepare(context.Background(), c.Node, 1)
		require.NoError(b, err)
		c.Scratch = poisoned(int(made.Scratch))
		calls, kernels, values = append(calls, c), append(kernels, made.Kernel), append(values, out)
	}
	return func() {
		for i, k := range kernels {
			_ = k.Run(calls[i])
		}
	}, values[len(values)-1]
}

// drawWindow is a window of a shape: dimensions in any order in memory, with steps forwards and
// backwards, and gaps.
func drawWindow(r *rand.Rand, shape []int) *places.Window {
	w := &places.Window{Shape: shape, Strides: make([]int, len(shape))}
	at := 1
	order := r.Perm(len(shape))
	if r.Intn(2) == 0 {
		slices.Sort(order)
		slices.Reverse(order)
	}
	for _, d := range order {
		step := at * (1 + r.Intn(2)*r.Intn(3))
		at = step*shape[d] + r.Intn(2)*r.Intn(5)
		if w.Strides[d] = step; r.Intn(4) == 0 {
			w.Strides[d] = -step
		}
	}
	_, first := w.Span()
	w.First = first + r.Intn(3)
	return w
}

// windowed is a node of a drawn program whose operands and results have windows, with its operands.
func windowed(t *testing.T, r *rand.Rand, d *tiletest.Drawn, shape []int) (*ssa.Node, []*ndarray.Array) {
	p, plain := d.Program, d.Operands(r)
	w := &places.Windows{Operands: make([]*places.Window, len(p.Operands)), Results: make([]*places.Window, len(p.Results))}
	var in []*ndarray.Array
	var shapes [][]int
	for i, a := range plain {
		if r.Intn(2) == 0 {
			x := drawWindow(r, a.Shape)
			elems, first := x.Span()
			memory := ndarray.Must(a.DType, elems+x.First-first)
			memory.Data = poisoned(len(memory.Data))
			require.NoError(t, x.Scatter(t.Context(), memory, a))
			w.Operands[i], a = x, memory
		}
		in, shapes = append(in, a), append(shapes, a.Shape)
	}
	for k, res := range p.Results {
		if !p.IsRow(res.Value) && r.Intn(2) == 0 {
			w.Results[k] = drawWindow(r, shape)
		}
	}
	g := ssa.NewGraph("g")
	var values []*ssa.Value
	for i, s := range shapes {
		values = append(values, g.AddParam(string(rune('a'+i)), ssa.StaticTensor(p.Operands[i], s...)))
	}
	n := g.NewNode(fused.Name, values, len(p.Results), fused.Attr(p), places.Attr(w))
	n.Domain = fused.Domain
	require.NoError(t, ops.Infer(n), p)
	return n, in
}

// TestFusedWindows runs drawn programs over drawn windows and compares with the interpreter: the
// elements, and that nothing between them is touched.
func TestFusedWindows(t *testing.T) {
	blocks, elems := blockElems, TileElems
	defer func() { blockElems, TileElems = blocks, elems }()
	r := rand.New(rand.NewSource(23))
	fast, over := 0, 0
	for range 1500 {
		blockElems, TileElems = []int{16, 100, 2048}[r.Intn(3)], []int{64, 32 << 10}[r.Intn(2)]
		shape := drawnShape(r)
		d := tiletest.Draw(r, shape, 1+r.Intn(8))
		if d.Program.Inner > 0 && r.Intn(3) > 0 {
			continue // most rows are more than one loop
		}
		n, in := windowed(t, r, d, shape)
		made, err := New().Prepare(context.Background(), n, 2)
		require.NoError(t, err)
		if made.Kernel == nil {
			continue
		}
		fast++
		want, got := callOf(n, made, in, 1), callOf(n, made, in, 2)
		require.NoError(t, ops.Eval(want), "%s", d.Program)
		require.NoError(t, made.Kernel.Run(got))
		for k := range want.Out {
			a, b := arrayOf(want.Out[k]), arrayOf(got.Out[k])
			if w := places.Of(n).Results[k]; w != nil {
				requireSameOutside(t, w, a, b)
				a, b = gathered(t, w, a), gathered(t, w, b)
			}
			d.RequireSame(t, k, a, b)
		}
		over += overWindows(t, n, in, got)
	}
	assert.Greater(t, fast, 900)
	assert.Greater(t, over, 100)
}

func gathered(t *testing.T, w *places.Window, a *ndarray.Array) *ndarray.Array {
	out, err := w.Gather(t.Context(), a)
	require.NoError(t, err)
	return out
}

// requireSameOutside compares what is not in the window.
func requireSameOutside(t *testing.T, w *places.Window, a, b *ndarray.Array) {
	hole := ndarray.Must(a.DType, w.Shape...)
	x, y := a.Clone(), b.Clone()
	require.NoError(t, w.Scatter(t.Context(), x, hole))
	require.NoError(t, w.Scatter(t.Context(), y, hole))
	require.Equal(t, x.Data, y.Data)
}

// overWindows runs the node with results in the windows of operands.
func overWindows(t *testing.T, n *ssa.Node, in []*ndarray.Array, want *ops.Call) (tried int) {
	all := places.Of(n)
	for o := range n.In {
		for k := range n.Out {
			if all.Operands[o] == nil || all.Results[k] == nil || !slices.Equal(all.Operands[o].Shape, all.Results[k].Shape) {
				continue
			}
			w := &places.Windows{Operands: slices.Clone(all.Operands), Results: make([]*places.Window, len(n.Out))}
			copy(w.Results, all.Results)
			w.Results[k] = w.Operands[o]
			m := &ssa.Node{Op: n.Op, Domain: n.Domain, In: n.In, Attrs: []ssa.Attr{*n.Attr("program"), places.Attr(w)}}
			for i := range n.Out {
				m.Out = append(m.Out, &ssa.Value{Def: m, DefIndex: i})
			}
			require.NoError(t, ops.Infer(m))
			if !slices.Contains(fused.Overwrites(m), ops.Pair{In: o, Out: k}) {
				continue
			}
			made := prepareFused(t, m, 2)
			c := callOf(m, made, in, 2)
			memory := in[o].Clone()
			c.In[o] = memory
			arrayOf(c.Out[k]).Data = memory.Data
			require.NoError(t, made.Kernel.Run(c))
			require.Equal(t, gathered(t, all.Results[k], arrayOf(want.Out[k])).Data, gathered(t, w.Operands[o], memory).Data, "%s", n.Attr("program").S)
			tried++
		}
	}
	return tried
}
