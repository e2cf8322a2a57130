package fuse_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth/internal/cpu"
	"github.com/berth-onnx/berth/internal/cpu/kern/kerntest"
	"github.com/berth-onnx/berth/internal/fuse"
	"github.com/berth-onnx/berth/internal/graphgen"
	"github.com/berth-onnx/berth/internal/program"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/planner"
	"github.com/berth-onnx/berth/ssa"
)

// attended is a graph after the pass.
func attended(t *testing.T, g *ssa.Graph, o fuse.AttentionOptions) (*ssa.Graph, int) {
	c, _ := g.Clone()
	n, err := fuse.Attentions(t.Context(), c, cpu.New().Layouts(), o)
	require.NoError(t, err)
	require.NoError(t, ops.Check(c), "%s", c)
	require.NoError(t, graphgen.CheckSources(g, c))
	return c, n
}

func opsOf(g *ssa.Graph) string {
	var out []string
	for _, n := range g.Nodes {
		out = append(out, n.Op)
	}
	return strings.Join(out, " ")
}

func TestAttentions(t *testing.T) {
	const heads = `in %x: float32[2,24,3,16] in %m: float32[2,1,1,24] in %b: bool[24,24] const %c: float32[] = 0.25 const %low: float32[] = -1e9 const %zero: float32[] = 0
		%q = Transpose(%x) [perm=[0,2,1,3]] %k = Transpose(%x) [perm=[0,2,3,1]] `
	const tail = ` %w = Softmax(%s) [axis=-1] %z = MatMul(%w, %q) `
	for _, c := range []struct{ name, graph, want string }{
		{"plain", heads + `%s = MatMul(%q, %k)` + tail + `out %z`, "Attention"},
		{"heads brought together", heads + `const %f: int64[3] = [2,24,48] %s = MatMul(%q, %k)` + tail + `%y = Transpose(%z) [perm=[0,2,1,3]] %r = Reshape(%y, %f) out %r`, "Attention Reshape"},
		{"scale and mask", heads + `%p = MatMul(%q, %k) %n = Mul(%p, %c) %s = Add(%n, %m)` + tail + `out %z`, "Attention"},
		{"scale of both operands", heads + `%q2 = Mul(%q, %c) %k2 = Div(%k, %c) %s = MatMul(%q2, %k2)` + tail + `out %z`, "Attention"},
		{"choices", heads + `%p = MatMul(%q, %k) %n = Where(%b, %p, %low) %s = Where(%b, %low, %n)` + tail + `out %z`, "Attention"},
		{"weights that are NaN", heads + `%s = MatMul(%q, %k) %w = Softmax(%s) [axis=-1] %i = IsNaN(%w) %u = Where(%i, %zero, %w) %z = MatMul(%u, %q) out %z`, "Attention"},
		{"windows", heads + `in %wm: float32[2,1,24,24] const %f: int64[5] = [1,2,3,24,24] const %f2: int64[4] = [2,3,24,24] %p = MatMul(%q, %k) %n = Reshape(%p, %f) %a = Add(%n, %wm) %s = Reshape(%a, %f2)` + tail + `out %z`, "Attention"},
		{"weights are a result", heads + `%s = MatMul(%q, %k)` + tail + `out %z, %w`, "Transpose Transpose MatMul Softmax MatMul"},
		{"scores are a result", heads + `%s = MatMul(%q, %k)` + tail + `out %z, %s`, "Transpose Transpose MatMul Softmax MatMul"},
		{"a scale behind a mask", heads + `%p = MatMul(%q, %k) %n = Add(%p, %m) %s = Mul(%n, %c)` + tail + `out %z`, "Transpose Transpose MatMul Add Mul Softmax MatMul"},
		{"another axis", heads + `%s = MatMul(%q, %k) %w = Softmax(%s) [axis=2] %z = MatMul(%w, %q) out %z`, "Transpose Transpose MatMul Softmax MatMul"},
		{"constant keys", `in %q: float32[9,4] in %v: float32[3,4] const %k: float32[4,3] = [1,2,3,4,5,6,7,8,9,10,11,12] %s = MatMul(%q, %k) %w = Softmax(%s) [axis=-1] %z = MatMul(%w, %v) out %z`, "MatMul Softmax MatMul"},
		{"open dimensions", `in %q: float32[2,S,4] in %k: float32[2,4,7] in %v: float32[2,7,5] %s = MatMul(%q, %k) %w = Softmax(%s) [axis=-1] %z = MatMul(%w, %v) out %z`, "MatMul Softmax MatMul"},
		{"float64", `in %q: float64[2,9,4] in %k: float64[2,4,7] in %v: float64[2,7,5] %s = MatMul(%q, %k) %w = Softmax(%s) [axis=-1] %z = MatMul(%w, %v) out %z`, "MatMul Softmax MatMul"},
		{"float16", strings.ReplaceAll(heads, "float32", "float16") + `%p = MatMul(%q, %k) %n = Mul(%p, %c) %s = Add(%n, %m)` + tail + `out %z`, "Attention"},
		{"bfloat16", strings.ReplaceAll(heads, "float32", "bfloat16") + `%p = MatMul(%q, %k) %n = Mul(%p, %c) %a = Add(%n, %m) %s = Where(%b, %a, %low)` + tail + `out %z`, "Attention"},
		{"a mask of another type", heads + `in %h: float16[2,1,1,24] %p = MatMul(%q, %k) %f = Cast(%h) [to=1] %s = Add(%p, %f)` + tail + `out %z`, "Cast Attention"},
		{"one query", `in %q: float32[2,1,16] in %k: float32[2,16,99] in %v: float32[2,99,16] %s = MatMul(%q, %k) %w = Softmax(%s) [axis=-1] %z = MatMul(%w, %v) out %z`, "Attention"},
		{"a batch that is divided in part", `in %q: float32[4,9,32,8] in %k: float32[4,9,8,32] const %f: int64[5] = [2,3,6,32,8] %s = MatMul(%q, %k) %w = Softmax(%s) [axis=-1] %z = MatMul(%w, %q) %r = Reshape(%z, %f) out %r`, "Attention Reshape"},
		{"transposed by default", `in %q: float32[32,32] in %x: float32[32,32] %k = Transpose(%x) %s = MatMul(%q, %k) %w = Softmax(%s) [axis=-1] %z = MatMul(%w, %q) out %z`, "Attention"},
		{"axes from the end", `in %x: float32[32,3,32] %q = Transpose(%x) [perm=[-2,0,-1]] %k = Transpose(%x) [perm=[1,-1,0]] %s = MatMul(%q, %k) %w = Softmax(%s) [axis=-1] %z = MatMul(%w, %q) %y = Transpose(%z) [perm=[1,0,-1]] out %y`, "Attention"},
		{"a part without a name", `in %x: float32[3,32,32] _, %q, %v = Split(%x) [axis=0, num_outputs=3] %k = Transpose(%q) [perm=[0,2,1]] %s = MatMul(%q, %k) %w = Softmax(%s) [axis=-1] %z = MatMul(%w, %v) out %z`, "Split Attention"},
		{"few queries of few keys", `in %q: float32[2,3,16] in %k: float32[2,16,5] in %v: float32[2,5,16] %s = MatMul(%q, %k) %w = Softmax(%s) [axis=-1] %z = MatMul(%w, %v) out %z`, "MatMul Softmax MatMul"},
	} {
		t.Run(c.name, func(t *testing.T) {
			g, err := ssa.ParseGraph("graph \"g\" {\n" + c.graph + "\n}\n")
			require.NoError(t, err)
			require.NoError(t, ops.InferGraph(g))
			made, _ := attended(t, g, fuse.AttentionOptions{})
			assert.Equal(t, c.want, opsOf(made), "%s", made)
			if !strings.Contains(c.name, "float16") {
				require.NoError(t, graphgen.Agree(t.Context(), g, made, 1, 2))
				runProducts(t, g, made, 1)
				return
			}
			_, err = graphgen.AgreeAtExtremes(t.Context(), g, made, 1, 4) // rounded once
			require.NoError(t, err)
			runProducts(t, made, made, 1)
		})
	}
}

// TestSquaredScores: scores that are squared again and again are looked at once.
func TestSquaredScores(t *testing.T) {
	src := `graph "g" { in %x0: float32[16,16] in %b: bool[16,16]`
	for i := range 30 {
		src += fmt.Sprintf(" %%x%d = %s", i+1, []string{"Mul(%x$, %x$)", "Add(%x$, %x$)", "Where(%b, %x$, %x$)"}[i%3])
		src = strings.ReplaceAll(src, "$", fmt.Sprint(i))
	}
	g, err := ssa.ParseGraph(src + " %w = Softmax(%x30) [axis=-1] out %w }")
	require.NoError(t, err)
	require.NoError(t, ops.InferGraph(g))
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	n, err := fuse.Attentions(ctx, g, cpu.New().Layouts(), fuse.AttentionOptions{All: true})
	require.NoError(t, err)
	assert.Zero(t, n)
}

// TestAttentionsForMemory: where memory counts more, an attention whose scores are smaller than a workspace stays written out.
func TestAttentionsForMemory(t *testing.T) {
	for keys, want := range map[int]int{40: 0, 400: 1} {
		g, err := ssa.ParseGraph(fmt.Sprintf(`graph "g" { in %%q: float32[4,%[1]d,64] in %%k: float32[4,64,%[1]d] in %%v: float32[4,%[1]d,64]
			%%s = MatMul(%%q, %%k) %%w = Softmax(%%s) [axis=-1] %%z = MatMul(%%w, %%v) out %%z }`, keys))
		require.NoError(t, err)
		require.NoError(t, ops.InferGraph(g))
		_, n := attended(t, g, fuse.AttentionOptions{Memory: true})
		assert.Equal(t, want, n, "%d keys", keys)
		_, n = attended(t, g, fuse.AttentionOptions{})
		assert.Equal(t, 1, n, "%d keys", keys)
	}
}

// drawnAttention writes attentions in the forms that exporters have for them.
type drawnAttention struct {
	t       *testing.T
	r       *rand.Rand
	g       *ssa.Graph
	params  map[string]*ndarray.Array
	wild    bool // operands have infinities and NaN
	b, h    int
	s, n, d int // queries, keys, size
	e       int
}

func (a *drawnAttention) op(name string, in []*ssa.Value, attrs ...ssa.Attr) *ssa.Value {
	n := a.g.NewNode(name, in, 1, attrs...)
	require.NoError(a.t, ops.Infer(n), "%s", a.g)
	return n.Out[0]
}

func (a *drawnAttention) input(scale float64, shape ...int) *ssa.Value {
	x := ndarray.Must(ndarray.Float32, shape...)
	for i := range x.Len() {
		x.SetFloat(i, (a.r.Float64()*2-1)*scale)
	}
	if a.wild && a.r.IntN(3) == 0 {
		for range 1 + a.r.IntN(2) {
			x.SetFloat(a.r.IntN(x.Len()), []float64{math.NaN(), math.Inf(1), math.Inf(-1)}[a.r.IntN(3)])
		}
	}
	name := fmt.Sprintf("in%d", len(a.params))
	a.params[name] = x
	return a.g.AddParam(name, ssa.StaticTensor(x.DType, x.Shape...))
}

func (a *drawnAttention) reshape(v *ssa.Value, shape ...int) *ssa.Value {
	list := make([]int64, len(shape))
	for i, d := range shape {
		list[i] = int64(d)
	}
	return a.op("Reshape", []*ssa.Value{v, a.g.AddConst(fmt.Sprintf("shape%d", len(a.g.Values())), ssa.Int64s(list...))})
}

func (a *drawnAttention) transpose(v *ssa.Value, perm ...int64) *ssa.Value {
	return a.op("Transpose", []*ssa.Value{v}, ssa.IntsAttr("perm", perm...))
}

func (a *drawnAttention) number(x float32) *ssa.Value {
	return a.g.AddConst(fmt.Sprintf("number%d", len(a.g.Values())), ssa.ScalarConst(x))
}

// rows makes an operand [b, h, rows, size] by one of the ways in which heads come about.
func (a *drawnAttention) rows(rows, size int) *ssa.Value {
	switch a.r.IntN(5) {
	case 0:
		return a.input(1, a.b, a.h, rows, size)
	case 1:
		return a.transpose(a.reshape(a.input(1, a.b, rows, a.h*size), a.b, rows, a.h, size), 0, 2, 1, 3)
	case 2: // one tensor of three
		x := a.transpose(a.input(1, a.b, rows, 3, a.h, size), 2, 0, 3, 1, 4)
		return a.op("Gather", []*ssa.Value{x, a.g.AddConst(fmt.Sprintf("index%d", len(a.g.Values())), ssa.ScalarConst(int64(a.r.IntN(3))))}, ssa.IntAttr("axis", 0))
	case 3:
		x := a.input(1, a.b, rows, 2*a.h*size)
		at := int64(a.r.IntN(2) * a.h * size)
		ints := func(v int64) *ssa.Value {
			return a.g.AddConst(fmt.Sprintf("ints%d", len(a.g.Values())), ssa.Int64s(v))
		}
		x = a.op("Slice", []*ssa.Value{x, ints(at), ints(at + int64(a.h*size)), ints(2)})
		return a.transpose(a.reshape(x, a.b, rows, a.h, size), 0, 2, 1, 3)
	}
	return a.reshape(a.transpose(a.input(1, rows, a.b*a.h, size), 1, 0, 2), a.b, a.h, rows, size)
}

// masked adds a mask to scores [b, h, s, n], or chooses by one.
func (a *drawnAttention) masked(v *ssa.Value) *ssa.Value {
	shapes := [][]int{{a.b, 1, 1, a.n}, {a.s, a.n}, {1, 1, a.s, a.n}, {1, a.h, a.s, a.n}, {a.b, a.h, a.s, a.n}, {a.n}, {a.s, 1}, {a.h, 1, 1}}
	shape := shapes[a.r.IntN(len(shapes))]
	switch a.r.IntN(5) {
	case 0, 1:
		m := a.input(1, shape...)
		x := a.params[a.g.Params[len(a.g.Params)-1].Name]
		if low := []float64{math.Inf(-1), -1e9, -10000}[a.r.IntN(3)]; a.r.IntN(2) == 0 {
			for i := range x.Len() {
				if a.r.IntN(3) == 0 {
					x.SetFloat(i, low)
				}
			}
		}
		return a.op("Add", []*ssa.Value{v, m})
	case 2, 3:
		m := ndarray.Must(ndarray.Bool, shape...)
		for i := range m.Data {
			m.Data[i] = byte(a.r.IntN(2))
		}
		name := fmt.Sprintf("in%d", len(a.params))
		a.params[name] = m
		in := []*ssa.Value{a.g.AddParam(name, ssa.StaticTensor(m.DType, m.Shape...)), v, a.number([]float32{minusInf, -1e9, 0}[a.r.IntN(3)])}
		if a.r.IntN(2) == 0 {
			in[1], in[2] = in[2], in[1]
		}
		return a.op("Where", in)
	}
	five := a.reshape(v, 1, a.b, a.h, a.s, a.n)
	return a.reshape(a.op("Add", []*ssa.Value{a.input(1, a.b, 1, a.s, a.n), five}), a.b, a.h, a.s, a.n)
}

var minusInf = float32(math.Inf(-1))

func (a *drawnAttention) draw() {
	scale := a.number(0.3)
	q, k := a.rows(a.s, a.d), a.rows(a.n, a.d)
	where := a.r.IntN(5)
	if where < 2 {
		q = a.op("Mul", []*ssa.Value{q, scale})
	}
	if where == 1 {
		k = a.op("Mul", []*ssa.Value{scale, k})
	}
	kT := a.transpose(k, 0, 1, 3, 2)
	if a.r.IntN(6) == 0 {
		kT = a.input(1, a.b, a.h, a.d, a.n)
	}
	scores := a.op("MatMul", []*ssa.Value{q, kT})
	if where == 2 {
		scores = a.op("Div", []*ssa.Value{scores, a.number(3)})
	}
	for range a.r.IntN(4) {
		scores = a.masked(scores)
	}
	p := a.op("Softmax", []*ssa.Value{scores}, ssa.IntAttr("axis", int64(3-4*a.r.IntN(2))))
	if a.r.IntN(4) == 0 {
		p = a.op("Where", []*ssa.Value{a.op("IsNaN", []*ssa.Value{p}), a.number(0), p})
	}
	y := a.op("MatMul", []*ssa.Value{p, a.rows(a.n, a.e)})
	if a.r.IntN(3) > 0 {
		y = a.transpose(y, 0, 2, 1, 3)
		if a.r.IntN(2) == 0 {
			y = a.reshape(y, a.b, a.s, a.h*a.e)
		}
	}
	a.g.Results = append(a.g.Results, y)
}

// run compares the program with the interpreter of the graph as it was, on one thread and on three.
func (a *drawnAttention) run(made *ssa.Graph, tol graphgen.Tolerance) {
	var in []ndarray.Value
	for _, p := range a.g.Params {
		in = append(in, a.params[p.Name])
	}
	want, err := ops.Interpret(a.t.Context(), a.g, in, nil)
	require.NoError(a.t, err)
	var first []byte
	for _, threads := range []int{1, 3} {
		pl, err := planner.Get("auto")
		require.NoError(a.t, err)
		p, err := program.Compile(a.t.Context(), made, program.Options{Planner: pl, Backend: cpu.New(), Threads: threads})
		require.NoError(a.t, err)
		require.NoError(a.t, program.Check(a.t.Context(), p))
		s, err := p.NewSession()
		require.NoError(a.t, err)
		s.Poison = true
		got, err := s.Run(a.t.Context(), in)
		require.NoError(a.t, err, "%s", made)
		require.Empty(a.t, tol.Diff(got, want), "%s\n%s", a.g, made)
		if first == nil {
			first = slices.Clone(got[0].(*ndarray.Array).Data)
		}
		require.True(a.t, slices.Equal(first, got[0].(*ndarray.Array).Data), "%d threads\n%s", threads, made)
	}
}

// TestDrawnAttentions: each attention becomes one node, which computes what the graph says, of every number and by any
// number of threads.
func TestDrawnAttentions(t *testing.T) {
	share := cpu.ShareNanos
	cpu.ShareNanos = 0
	defer func() { cpu.ShareNanos = share }()
	pick := func(r *rand.Rand, list ...int) int { return list[r.IntN(len(list))] }
	kerntest.EachLevel(t, func(t *testing.T) {
		for seed := range uint64(160) {
			r := rand.New(rand.NewPCG(seed, 5))
			a := &drawnAttention{t: t, r: r, g: ssa.NewGraph("attention"), params: map[string]*ndarray.Array{}, wild: seed%3 == 1}
			a.b, a.h, a.s, a.n = pick(r, 1, 1, 2, 3), pick(r, 1, 2, 4), pick(r, 1, 3, 16, 49, 97), pick(r, 1, 2, 13, 49, 64, 131)
			a.d, a.e = pick(r, 1, 3, 16, 32, 64), pick(r, 1, 8, 17, 32)
			switch seed % 20 {
			case 7: // several chunks of keys
				a.b, a.h, a.s, a.n, a.d, a.e = 1, 1, pick(r, 1, 5, 70), 2049+r.IntN(300), 8, 5
			case 11:
				a.b, a.h, a.s, a.n, a.d, a.e = 1, 2, 150, 400, 256, 16
			}
			a.draw()
			made, n := attended(t, a.g, fuse.AttentionOptions{All: true})
			require.Equal(t, 1, n, "seed %d: %s", seed, a.g)
			require.LessOrEqual(t, len(made.Nodes), 8, "%s", made)
			a.run(made, graphgen.Noise)
			if seed%10 == 0 {
				require.NoError(t, graphgen.Agree(t.Context(), a.g, made, seed, 1), "%s", made)
			}
		}
	})
}
