package layout_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth/internal/cpu"
	"github.com/berth-onnx/berth/internal/cpu/kern/kerntest"
	"github.com/berth-onnx/berth/internal/fuse"
	"github.com/berth-onnx/berth/internal/graphgen"
	"github.com/berth-onnx/berth/internal/layout"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	_ "github.com/berth-onnx/berth/ops/standard"
	"github.com/berth-onnx/berth/ssa"
)

// drawer draws networks of images: convolutions of every kind, pools, residual sums, factors
// of channels, concatenations, and readers that know the plain layout only.
type drawer struct {
	t    *testing.T
	g    *ssa.Graph
	rng  *rand.Rand
	pool []*ssa.Value // images of the main resolution and of others
	n    int
}

// drawNetwork draws a network; open leaves batch and spatial dimensions to the run.
func drawNetwork(t *testing.T, seed uint64, open bool) *ssa.Graph {
	d := &drawer{t: t, g: ssa.NewGraph(fmt.Sprint("images", seed)), rng: rand.New(rand.NewPCG(seed, 0x1a))}
	dims := []ssa.Dim{ssa.D(1 + int64(d.rng.IntN(2))), ssa.D(d.channels()), ssa.D(3 + int64(d.rng.IntN(12))), ssa.D(3 + int64(d.rng.IntN(12)))}
	if open {
		dims[0], dims[3] = ssa.Sym("N"), ssa.Sym("M").AddN(7)
	}
	if seed%7 == 3 {
		dims = dims[:3] // a signal
	}
	d.pool = []*ssa.Value{d.g.AddParam("x", ssa.TensorOf(ndarray.Float32, dims...))}
	for range 5 + d.rng.IntN(10) {
		d.step()
	}
	d.g.Results = append(d.g.Results, d.pool[len(d.pool)-1])
	if more := d.pick(); more.Def != nil && more != d.g.Results[0] {
		d.g.Results = append(d.g.Results, more)
	}
	require.NoError(t, ops.Check(d.g))
	return d.g
}

func (d *drawer) channels() int64 {
	return []int64{3, 8, 16, 17, 24, 5, 32, 40, 20}[d.rng.IntN(9)]
}

func (d *drawer) pick() *ssa.Value {
	return d.pool[max(d.rng.IntN(len(d.pool)), d.rng.IntN(len(d.pool)))]
}

// weights are small, so that values keep their size.
func (d *drawer) weights(scale float64, shape ...int) *ssa.Value {
	a := ndarray.Must(ndarray.Float32, shape...)
	for i := range a.Len() {
		a.SetFloat(i, scale*(d.rng.Float64()*2-1))
	}
	if d.rng.IntN(10) == 0 { // one element for all
		for i := range a.Len() {
			a.SetFloat(i, scale/2)
		}
	}
	return d.constant(a)
}

func (d *drawer) constant(a *ndarray.Array) *ssa.Value {
	d.n++
	return d.g.AddConst(fmt.Sprint("c", d.n), ssa.NewConstant(a))
}

func (d *drawer) op(op string, in []*ssa.Value, attrs ...ssa.Attr) *ssa.Value {
	n := d.g.NewNode(op, in, 1, attrs...)
	require.NoError(d.t, ops.Infer(n))
	return n.Out[0]
}

func (d *drawer) keep(v *ssa.Value) { d.pool = append(d.pool, v) }

func channelsOf(v *ssa.Value) int {
	c, _ := v.Type.Shape[1].Const()
	return int(c)
}

func (d *drawer) step() {
	x := d.pick()
	switch d.rng.IntN(14) {
	case 0, 1, 2, 3, 4:
		if x = d.conv(x); d.rng.IntN(3) == 0 {
			x = d.finished(x)
		}
		d.keep(x)
	case 5:
		op := []string{"Relu", "Sigmoid", "HardSwish", "Tanh", "LeakyRelu", "HardSigmoid", "Softplus"}[d.rng.IntN(7)]
		d.keep(d.op(op, []*ssa.Value{x}))
	case 6:
		d.keep(d.pooled(x))
	case 7:
		d.keep(d.joined(x))
	case 8:
		d.keep(d.gated(x))
	case 9:
		d.keep(d.op([]string{"Mul", "Add", "Max"}[d.rng.IntN(3)], []*ssa.Value{x, d.constant(ndarray.Of([]float32{0.7}, 1))}))
	case 10:
		if x = d.normalized(x); d.rng.IntN(2) == 0 {
			x = d.finished(x)
		}
		d.keep(x)
	case 11:
		d.keep(d.op("Softmax", []*ssa.Value{x}, ssa.IntAttr("axis", 1)))
	case 12:
		d.keep(d.resized(x))
	case 13:
		for _, y := range d.pool {
			if y != x && y.Type.Equal(x.Type) {
				d.keep(d.op([]string{"Add", "Mul", "Sub"}[d.rng.IntN(3)], []*ssa.Value{x, y}))
				return
			}
		}
		d.keep(d.conv(x))
	}
}

// finished draws a sum with another image and an activation, which nothing reads but the one the other.
func (d *drawer) finished(x *ssa.Value) *ssa.Value {
	at := d.rng.IntN(len(d.pool))
	for _, y := range slices.Concat(d.pool[at:], d.pool[:at]) {
		if y.Type.Equal(x.Type) && d.rng.IntN(3) > 0 {
			x = d.op([]string{"Add", "Sum"}[d.rng.IntN(2)], [][]*ssa.Value{{x, y}, {y, x}}[d.rng.IntN(2)])
			break
		}
	}
	switch act := d.rng.IntN(16); act {
	case 0:
		return x
	case 1:
		return d.op("Clip", []*ssa.Value{x, nil, d.constant(ndarray.Of([]float32{0.5}))})
	case 2:
		return d.op("Gelu", []*ssa.Value{x}, ssa.StringAttr("approximate", "tanh"))
	default:
		return d.op([]string{"Relu", "LeakyRelu", "Elu", "HardSigmoid", "HardSwish", "Sigmoid", "Swish", "Tanh", "Gelu", "Mish", "Softplus", "Softsign", "Abs"}[act-3], []*ssa.Value{x})
	}
}

// conv draws a convolution, of groups, depthwise, strided, dilated, fused with a residual.
func (d *drawer) conv(x *ssa.Value) *ssa.Value {
	spatial := x.Type.Rank() - 2
	in, out, groups := channelsOf(x), int(d.channels()), 1
	k, stride, dilation := []int{1, 3, 3, 5}[d.rng.IntN(4)], 1+d.rng.IntN(5)/4, 1+d.rng.IntN(6)/5
	switch {
	case d.rng.IntN(4) == 0:
		out, groups = in, in
	case in%32 == 0 && d.rng.IntN(2) == 0:
		out, groups = 64, 2
	}
	all := func(v int) []int64 { return slices.Repeat([]int64{int64(v)}, spatial) }
	pad := (k/2)*dilation + d.rng.IntN(4)/3
	attrs := []ssa.Attr{ssa.IntsAttr("pads", append(all(pad), all(pad)...)...), ssa.IntsAttr("strides", all(stride)...), ssa.IntsAttr("dilations", all(dilation)...), ssa.IntAttr("group", int64(groups))}
	shape := append([]int{out, in / groups}, slices.Repeat([]int{k}, spatial)...)
	size := in / groups * int(math.Pow(float64(k), float64(spatial)))
	operands := []*ssa.Value{x, d.weights(2/math.Sqrt(float64(size)), shape...)}
	if d.rng.IntN(2) == 0 {
		operands = append(operands, d.weights(0.5, out))
	}
	if d.rng.IntN(3) == 0 {
		return d.fused(operands, attrs)
	}
	return d.op("Conv", operands, attrs...)
}

// fused is a convolution with an activation, and a residual where there is one that fits.
func (d *drawer) fused(in []*ssa.Value, attrs []ssa.Attr) *ssa.Value {
	n := d.g.NewNode("FusedConv", in, 1, append(attrs, ssa.StringAttr("activation", []string{"Relu", "Sigmoid", "HardSwish"}[d.rng.IntN(3)]))...)
	n.Domain = "com.microsoft"
	require.NoError(d.t, ops.Infer(n))
	for _, z := range d.pool {
		if z.Type.Equal(n.Out[0].Type) {
			if len(in) == 2 {
				n.AddInput(nil)
			}
			n.AddInput(z)
			break
		}
	}
	return n.Out[0]
}

func (d *drawer) pooled(x *ssa.Value) *ssa.Value {
	spatial := x.Type.Rank() - 2
	all := func(v int) []int64 { return slices.Repeat([]int64{int64(v)}, spatial) }
	attrs := []ssa.Attr{ssa.IntsAttr("kernel_shape", all(3)...), ssa.IntsAttr("pads", slices.Repeat([]int64{1}, 2*spatial)...)}
	attrs = append(attrs, ssa.IntsAttr("strides", all(1+d.rng.IntN(2))...), ssa.IntAttr("ceil_mode", int64(d.rng.IntN(2))))
	if d.rng.IntN(2) == 0 {
		return d.op("MaxPool", []*ssa.Value{x}, attrs...)
	}
	return d.op("AveragePool", []*ssa.Value{x}, append(attrs, ssa.IntAttr("count_include_pad", int64(d.rng.IntN(2))))...)
}

func (d *drawer) joined(x *ssa.Value) *ssa.Value {
	in := []*ssa.Value{x, x}
	for _, y := range d.pool {
		if y.Type.Rank() == x.Type.Rank() && slices.EqualFunc(y.Type.Shape[2:], x.Type.Shape[2:], ssa.Dim.Equal) && len(in) < 4 {
			in = append(in, y)
		}
	}
	axis := int64(1)
	if d.rng.IntN(3) == 0 {
		axis -= int64(x.Type.Rank())
	}
	return d.op("Concat", in[1:], ssa.IntAttr("axis", axis))
}

// gated is the attention of squeeze-and-excitation networks, or an offset for each channel.
func (d *drawer) gated(x *ssa.Value) *ssa.Value {
	if d.rng.IntN(3) == 0 {
		return d.op([]string{"Add", "Mul"}[d.rng.IntN(2)], []*ssa.Value{d.weights(1, append([]int{channelsOf(x)}, slices.Repeat([]int{1}, x.Type.Rank()-2)...)...), x})
	}
	s := d.op([]string{"GlobalAveragePool", "GlobalMaxPool"}[d.rng.IntN(2)], []*ssa.Value{x})
	s = d.op("Sigmoid", []*ssa.Value{s})
	return d.op([]string{"Add", "Mul"}[d.rng.IntN(2)], []*ssa.Value{x, s})
}

func (d *drawer) normalized(x *ssa.Value) *ssa.Value {
	c := channelsOf(x)
	variance := ndarray.Must(ndarray.Float32, c)
	for i := range c {
		variance.SetFloat(i, 0.5+d.rng.Float64())
	}
	return d.op("BatchNormalization", []*ssa.Value{x, d.weights(1, c), d.weights(1, c), d.weights(1, c), d.constant(variance)})
}

func (d *drawer) resized(x *ssa.Value) *ssa.Value {
	scales := ndarray.Must(ndarray.Float32, x.Type.Rank())
	for i := range scales.Len() {
		scales.SetFloat(i, 1)
		if i > 1 {
			scales.SetFloat(i, 2)
		}
	}
	mode := ssa.StringAttr("mode", []string{"nearest", "linear"}[d.rng.IntN(2)])
	return d.op("Resize", []*ssa.Value{x, nil, d.constant(scales)}, mode)
}

// assigned is a graph with everything blocked that can be, and how many nodes are.
func assigned(t *testing.T, g *ssa.Graph, force bool) (*ssa.Graph, int) {
	c, _ := g.Clone()
	_, err := fuse.Epilogues(t.Context(), c, cpu.New().Layouts())
	require.NoError(t, err)
	n, err := layout.Assign(t.Context(), c, cpu.New().Layouts(), layout.Force(force))
	require.NoError(t, err)
	require.NoError(t, ops.Check(c), "%s", c)
	require.NoError(t, graphgen.CheckSources(g, c))
	return c, n
}

// TestRandomNetworks compares networks in which every tensor that can be is blocked, with
// reference kernels and with fast ones in a poisoned arena, with the plain network under the
// interpreter. Programs give the same bytes on any number of threads.
func TestRandomNetworks(t *testing.T) {
	kerntest.EachLevel(t, func(t *testing.T) {
		made := map[string]int{}
		for seed := range uint64(120) {
			g := drawNetwork(t, seed, seed%3 == 0)
			c, _ := assigned(t, g, seed%5 != 4)
			for _, n := range c.Nodes {
				if n.Domain == ops.Private {
					made[n.Op]++
				}
			}
			if seed%4 == 0 {
				require.NoError(t, graphgen.Agree(t.Context(), g, c, seed, 1), "seed %d: %s", seed, c)
			}
			runNetwork(t, seed, g, c)
			wantKernels(t, c)
		}
		for _, op := range []string{"ToBlocked", "FromBlocked", "Conv", "BlockedConv", "BlockedFusedConv", "BlockedMaxPool", "BlockedAveragePool", "BlockedGlobalAveragePool", "BlockedGlobalMaxPool",
			"BlockedBatchNormalization", "BlockedResize", "BlockedMul", "BlockedAdd"} {
			assert.NotZero(t, made[op], op)
		}
	})
}

// wantKernels checks that every node over blocked images has a fast kernel.
func wantKernels(t *testing.T, g *ssa.Graph) {
	for _, n := range g.Nodes {
		if n.Domain != ops.Private || !n.IsStatic() {
			continue
		}
		p, err := cpu.New().Prepare(t.Context(), n, 1)
		require.NoError(t, err)
		require.NotNil(t, p.Kernel, "%s", n)
	}
}

func runNetwork(t *testing.T, seed uint64, g, c *ssa.Graph) {
	t.Helper()
	rng := rand.New(rand.NewPCG(seed, 9))
	bind := map[string]int64{"N": 1 + int64(rng.IntN(3)), "M": 1 + int64(rng.IntN(6))}
	in, err := graphgen.Inputs(rng, g, bind)
	require.NoError(t, err)
	want, err := ops.Interpret(t.Context(), g, in, nil)
	require.NoError(t, err)
	got := runFast(t, c, in, 1)
	if d := graphgen.Noise.Diff(got, want); d != "" {
		t.Fatalf("seed %d: %s\n%s", seed, d, c)
	}
	require.Equal(t, got, runFast(t, c, in, 3), "seed %d, 3 threads", seed)
}
