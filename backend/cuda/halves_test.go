package cuda

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth"
	"github.com/berth-onnx/berth/backend"
	"github.com/berth-onnx/berth/backend/cuda/internal/device"
	"github.com/berth-onnx/berth/backend/cuda/internal/sim"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
	"github.com/berth-onnx/berth/testmodels"
)

// halves are the 16-bit floats, with what rounding to them makes of a number, relatively.
var halves = map[ndarray.DType]float64{ndarray.Float16: 0x1p-11, ndarray.BFloat16: 0x1p-8}

// as are the elements of an array in another type.
func as(dt ndarray.DType, a *ndarray.Array) *ndarray.Array {
	out := ndarray.Must(dt, a.Shape...)
	for i := range a.Len() {
		out.SetFloat(i, a.Float(i))
	}
	return out
}

// halfCase is a node of 16-bit floats.
type halfCase struct {
	op       string
	operands [][]int          // shapes of floats, nil where there is none
	whole    []*ndarray.Array // further operands
	attrs    []ssa.Attr
	isExact  bool // no float is rounded
	grows    bool // what is behind it becomes part of its kernel
	more     int  // launches than one
}

func up(rng *rand.Rand, n int) int { return 1 + rng.IntN(n) }

// drawProduct draws a MatMul or a Gemm.
func drawProduct(rng *rand.Rand) halfCase {
	m, k, n := up(rng, 70), up(rng, 90), up(rng, 70)
	if rng.IntN(2) == 0 {
		a, b := []int{m, k}, []int{k, n}
		isSame := rng.IntN(2) == 0 // for all of the batch
		for range rng.IntN(3) {
			d := up(rng, 3)
			if a = append([]int{d}, a...); !isSame {
				b = append([]int{d}, b...)
			}
		}
		return halfCase{op: "MatMul", operands: [][]int{a, b}, grows: true}
	}
	transA, transB := rng.IntN(2), rng.IntN(2)
	a, b := [][]int{{m, k}, {k, m}}[transA], [][]int{{k, n}, {n, k}}[transB]
	c := [][]int{{n}, {m, 1}, {m, n}, {1}}[rng.IntN(4)]
	return halfCase{op: "Gemm", operands: [][]int{a, b, c}, grows: true, attrs: []ssa.Attr{ssa.IntAttr("transA", int64(transA)), ssa.IntAttr("transB", int64(transB)),
		ssa.FloatAttr("alpha", 0.5), ssa.FloatAttr("beta", 2)}}
}

// drawWindow draws a convolution, one that is transposed, or a pool.
func drawWindow(rng *rand.Rand) halfCase {
	batch, groups, in, out := up(rng, 2), up(rng, 3), up(rng, 4), up(rng, 5)
	kh, kw := up(rng, 3), up(rng, 3)
	attrs := []ssa.Attr{ssa.IntsAttr("strides", int64(up(rng, 2)), int64(up(rng, 3))), ssa.IntsAttr("pads", int64(kh/2), int64(kw/2), int64(kh/2), 0)}
	x := []int{batch, groups * in, 6 + up(rng, 8), 6 + up(rng, 8)}
	op := []string{"Conv", "Conv", "ConvTranspose", "MaxPool", "AveragePool"}[rng.IntN(5)]
	if op == "MaxPool" || op == "AveragePool" {
		return halfCase{op: op, operands: [][]int{x}, attrs: append(attrs, ssa.IntsAttr("kernel_shape", int64(kh), int64(kw))), isExact: op == "MaxPool"}
	}
	attrs = append(attrs, ssa.IntAttr("group", int64(groups)), ssa.IntsAttr("dilations", int64(up(rng, 2)), int64(up(rng, 2))))
	w := []int{groups * out, in, kh, kw}
	if op == "ConvTranspose" {
		w = []int{groups * in, out, kh, kw}
	}
	return halfCase{op: op, operands: [][]int{x, w, {groups * out}}, attrs: attrs, grows: op == "Conv"}
}

// rowCases are the operators that go over rows, and those of planes that are no windows.
var rowCases = []halfCase{
	{op: "Softmax", operands: [][]int{{3, 40, 5}}, attrs: []ssa.Attr{ssa.IntAttr("axis", 1)}},
	{op: "LogSoftmax", operands: [][]int{{7, 200}}},
	{op: "LayerNormalization", operands: [][]int{{4, 3, 50}, {50}, {50}}},
	{op: "RMSNormalization", operands: [][]int{{4, 150}, {150}}},
	{op: "InstanceNormalization", operands: [][]int{{2, 3, 5, 7}, {3}, {3}}},
	{op: "GroupNormalization", operands: [][]int{{2, 6, 5, 3}, {6}, {6}}, attrs: []ssa.Attr{ssa.IntAttr("num_groups", 2)}},
	{op: "BatchNormalization", operands: [][]int{{2, 3, 5, 3}, {3}, {3}, {3}, {3}}},
	{op: "LRN", operands: [][]int{{2, 7, 3, 3}}, attrs: []ssa.Attr{ssa.IntAttr("size", 3)}},
	{op: "GlobalAveragePool", operands: [][]int{{2, 3, 9, 15}}},
	{op: "GlobalMaxPool", operands: [][]int{{2, 3, 9, 15}}, isExact: true},
	{op: "ReduceSum", operands: [][]int{{3, 20, 9}}, whole: []*ndarray.Array{ndarray.Of([]int64{1}, 1)}},
	{op: "ReduceMean", operands: [][]int{{3, 20, 9}}, whole: []*ndarray.Array{ndarray.Of([]int64{0, 2}, 2)}},
	{op: "ReduceMax", operands: [][]int{{3, 200}}, whole: []*ndarray.Array{ndarray.Of([]int64{1}, 1)}, isExact: true},
	{op: "ReduceMin", operands: [][]int{{3, 200}}, whole: []*ndarray.Array{ndarray.Of([]int64{0}, 1)}, isExact: true},
	{op: "ReduceProd", operands: [][]int{{3, 8}}, whole: []*ndarray.Array{ndarray.Of([]int64{1}, 1)}},
	{op: "ReduceL1", operands: [][]int{{3, 8}}}, {op: "ReduceL2", operands: [][]int{{130, 8}}}, {op: "ReduceSumSquare", operands: [][]int{{3, 8}}},
	{op: "ReduceLogSumExp", operands: [][]int{{3, 8}}},
	{op: "ArgMax", operands: [][]int{{3, 80}}, attrs: []ssa.Attr{ssa.IntAttr("axis", 1)}, isExact: true},
	{op: "ArgMin", operands: [][]int{{3, 80}}, attrs: []ssa.Attr{ssa.IntAttr("axis", 0)}, isExact: true},
	{op: "CumSum", operands: [][]int{{3, 80, 2}}, whole: []*ndarray.Array{ndarray.Of([]int64{1})}, attrs: []ssa.Attr{ssa.IntAttr("reverse", 1)}},
	{op: "MatMul", operands: [][]int{{2, 3, 5, 17}, {2, 1, 17, 40}}, more: 1},
	{op: "LpNormalization", operands: [][]int{{3, 150}}, more: 2},
	{op: "LpNormalization", operands: [][]int{{3, 7, 5}}, attrs: []ssa.Attr{ssa.IntAttr("p", 1), ssa.IntAttr("axis", 1)}, more: 2},
	{op: "Attention", operands: [][]int{{2, 6, 5, 9}, {2, 3, 7, 9}, {2, 3, 7, 11}, {5, 7}}},
	{op: "Attention", operands: [][]int{{2, 4, 24}, {2, 3, 24}, {2, 3, 24}, nil, {2, 4, 2, 6}, {2, 4, 2, 6}}, more: 4, attrs: []ssa.Attr{
		ssa.IntAttr("q_num_heads", 4), ssa.IntAttr("kv_num_heads", 4), ssa.IntAttr("is_causal", 1), ssa.FloatAttr("softcap", 1.5)}},
	{op: "Resize", operands: [][]int{{2, 3, 5, 7}, nil}, whole: []*ndarray.Array{ndarray.Of([]float32{1, 1, 1, 2}, 4)}, attrs: []ssa.Attr{ssa.StringAttr("mode", "linear")}},
	{op: "Resize", operands: [][]int{{2, 3, 5, 7}, nil}, whole: []*ndarray.Array{ndarray.Of([]float32{1, 2, 1.6, 0.5}, 4)}, attrs: []ssa.Attr{
		ssa.StringAttr("mode", "cubic")}, more: 2},
	{op: "RNN", operands: [][]int{{4, 3, 5}, {1, 7, 5}, {1, 7, 7}, {1, 14}}, attrs: []ssa.Attr{ssa.IntAttr("hidden_size", 7)}, more: 3},
	{op: "GRU", operands: [][]int{{4, 3, 5}, {2, 27, 5}, {2, 27, 9}, {2, 54}, nil, {2, 3, 9}}, more: 3, attrs: []ssa.Attr{ssa.IntAttr("hidden_size", 9),
		ssa.StringAttr("direction", "bidirectional"), ssa.IntAttr("linear_before_reset", 1)}},
	{op: "LSTM", operands: [][]int{{4, 3, 5}, {1, 132, 5}, {1, 132, 33}, {1, 264}, nil, {1, 3, 33}, {1, 3, 33}, {1, 99}}, more: 3, attrs: []ssa.Attr{
		ssa.IntAttr("hidden_size", 33)}},
	{op: "CumProd", operands: [][]int{{3, 9}}, whole: []*ndarray.Array{ndarray.Of([]int64{1})}, attrs: []ssa.Attr{ssa.IntAttr("exclusive", 1)}},
}

// TestHalves compares nodes of 16-bit floats, alone and with others behind them, with the reference kernels, which round as often: a result is
// off by no more than rounding the other way makes of it. All of them are launches on the device.
func TestHalves(t *testing.T) {
	rng := rand.New(rand.NewPCG(16, 1))
	cases := rowCases
	for range 20 {
		cases = append(cases, drawProduct(rng), drawWindow(rng))
	}
	for i, c := range cases {
		for dt, unit := range halves {
			t.Run(fmt.Sprint(i, " ", c.op, c.operands, " ", dt), func(t *testing.T) {
				rng := rand.New(rand.NewPCG(16, uint64(i)))
				var operands []*ndarray.Array
				for k, shape := range c.operands {
					if shape == nil {
						operands = append(operands, nil)
						continue
					}
					a := as(dt, normal(rng, shape...))
					if c.op == "BatchNormalization" && k == 4 { // variances
						for j := range a.Len() {
							a.SetFloat(j, 0.5+math.Abs(a.Float(j)))
						}
					}
					operands = append(operands, a)
				}
				operands = append(operands, c.whole...)
				tolerance := 2.1 * unit
				if c.isExact {
					tolerance = 0
				}
				g := oneNodeGraph(c.op, 1, operands, c.attrs...)
				if i%3 == 0 && c.grows {
					half := g.AddConst("half", ssa.NewConstant(as(dt, ndarray.Of([]float32{0.5}))))
					g.Results = g.NewNode("Add", []*ssa.Value{g.NewNode("Relu", g.Results, 1).Out[0], half}, 1).Out
					g.Results[0].Name = "behind"
					tolerance *= 2
				}
				comparison(t, modelOfGraph(g), operands[0], int64(1+c.more), tolerance)
			})
		}
	}
}

// inHalf is a graph of floats with a narrower type for all of them.
func inHalf(g *ssa.Graph, dt ndarray.DType) error {
	for _, p := range g.Params {
		if p.Type.DType == ndarray.Float32 {
			p.Type.DType = dt
		}
	}
	for _, v := range g.Values() {
		if v == nil || v.Const == nil || v.Const.DType() != ndarray.Float32 {
			continue
		}
		a, err := v.Const.Array()
		if err != nil {
			return err
		}
		v.Const = ssa.NewConstant(as(dt, a))
		v.Type = ssa.StaticTensor(dt, a.Shape...)
	}
	for _, n := range g.Nodes {
		if to := n.Attr("to"); n.Op == "Cast" && to != nil && to.I == int64(ndarray.Float32) {
			to.I = int64(dt)
		}
		for _, o := range n.Out {
			o.Type = ssa.Type{}
		}
		if err := ops.Infer(n); err != nil {
			return err
		}
	}
	return ops.InferGraph(g)
}

// TestHalfModels: models whose floats have 16 bits run on the device alone, and are no farther from their results in float32 than the
// reference kernels are with the same types.
func TestHalfModels(t *testing.T) {
	sum, on := new(*tally), &machine{open: func() (device.Device, error) { return sim.New(sim.Options{}), nil }}
	backend.Register("cuda-test-halves", func(fast backend.Backend) backend.Backend {
		return countingBackend{newOn("cuda-test-halves", on, fast), sum}
	})
	for _, name := range []string{"residual", "unet", "encoder"} {
		for dt := range halves {
			t.Run(fmt.Sprint(name, " ", dt), func(t *testing.T) {
				mod, err := testmodels.Build(name)
				require.NoError(t, err)
				wide := berth.FromModule(mod)
				defer wide.Close()
				narrowed, err := testmodels.Build(name)
				require.NoError(t, err)
				require.NoError(t, inHalf(narrowed.Graph, dt))
				narrow := berth.FromModule(narrowed)
				defer narrow.Close()
				var sizes []berth.Option
				if name == "encoder" {
					sizes = []berth.Option{berth.WithDim("N", 2), berth.WithDim("S", 9)}
				}
				in, inWide := map[string]ndarray.Value{}, map[string]ndarray.Value{}
				for i, p := range narrow.Inputs() {
					shape, isStatic := p.Type.Static()
					if !isStatic {
						shape = []int{2, 9}
					}
					a := as(p.Type.DType, wave(i, shape...))
					if p.Type.DType.IsInteger() {
						for k := range a.Len() {
							a.SetInt(k, int64(1+k%7*(1-i)))
						}
						in[p.Name], inWide[p.Name] = a, a
						continue
					}
					in[p.Name], inWide[p.Name] = a, as(ndarray.Float32, a)
				}
				run := func(m *berth.Model, name string, in map[string]ndarray.Value) map[string]ndarray.Value {
					p, err := m.Compile(t.Context(), append(sizes[:len(sizes):len(sizes)], berth.WithBackend(name))...)
					require.NoError(t, err)
					got, err := p.RunValues(t.Context(), in)
					require.NoError(t, err)
					return got
				}
				*sum = &tally{host: map[string]int{}}
				got, want, exact := run(narrow, "cuda-test-halves", in), run(narrow, "reference", in), run(wide, "reference", inWide)
				assert.Empty(t, (*sum).host)
				assert.Positive(t, (*sum).device)
				for out, v := range exact {
					e, w, g := v.(*ndarray.Array), want[out].(*ndarray.Array), got[out].(*ndarray.Array)
					require.Equal(t, dt, g.DType)
					require.Equal(t, e.Shape, g.Shape)
					ours, theirs := 0.0, 0.0
					for i := range e.Len() {
						ours, theirs = max(ours, math.Abs(g.Float(i)-e.Float(i))), max(theirs, math.Abs(w.Float(i)-e.Float(i)))
					}
					t.Logf("%s of %s: off by %.3g, by %.3g on the host; %d kernels", out, name, ours, theirs, (*sum).memory.stats.Launches)
					assert.Positive(t, theirs)
					assert.LessOrEqual(t, ours, 2*theirs)
				}
			})
		}
	}
}
