package layout_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth/internal/cpu"
	"github.com/berth-onnx/berth/internal/cpu/kern/convolve"
	"github.com/berth-onnx/berth/internal/cpu/kern/kerntest"
	"github.com/berth-onnx/berth/internal/graphgen"
	"github.com/berth-onnx/berth/internal/program"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/planner"
	"github.com/berth-onnx/berth/ssa"
)

// drawQuantized draws a network of quantized images: convolutions of every kind, sums, readers that know the plain
// layout only.
func drawQuantized(t *testing.T, seed uint64) *ssa.Graph {
	d := &drawer{t: t, g: ssa.NewGraph(fmt.Sprint("bytes", seed)), rng: rand.New(rand.NewPCG(seed, 0x8b))}
	dt := []ndarray.DType{ndarray.Uint8, ndarray.Int8}[seed%2]
	x := d.g.AddParam("x", ssa.TensorOf(dt, ssa.D(1+int64(d.rng.IntN(2))), ssa.D(d.channels()), ssa.D(3+int64(d.rng.IntN(12))), ssa.D(3+int64(d.rng.IntN(12)))))
	d.pool = []*ssa.Value{x}
	for range 5 + d.rng.IntN(8) {
		x := d.pick()
		switch d.rng.IntN(6) {
		case 0:
			d.keep(d.op("Relu", []*ssa.Value{d.op("DequantizeLinear", d.parameters(x))}))
			d.keep(d.op("QuantizeLinear", d.parameters(d.pool[len(d.pool)-1], dt)))
			d.pool = append(d.pool[:len(d.pool)-2], d.pool[len(d.pool)-1])
		case 1:
			d.keep(d.op("MaxPool", []*ssa.Value{x}, ssa.IntsAttr("kernel_shape", 3, 2), ssa.IntsAttr("pads", 1, 1, 1, 0), ssa.IntsAttr("strides", 1+int64(d.rng.IntN(2)), 2), ssa.IntAttr("ceil_mode", int64(d.rng.IntN(2)))))
		case 2:
			for _, y := range d.pool {
				if y.Type.Equal(x.Type) {
					n := d.g.NewNode("QLinearAdd", append(append(d.parameters(x), d.parameters(y)...), d.parameters(nil, dt)...), 1)
					n.Domain = "com.microsoft"
					require.NoError(t, ops.Infer(n))
					d.keep(n.Out[0])
					break
				}
			}
		default:
			d.keep(d.quantizedConv(x))
		}
	}
	d.g.Results = append(d.g.Results, d.pool[len(d.pool)-1], d.pool[1+d.rng.IntN(len(d.pool)-1)])
	if d.g.Results[0] == d.g.Results[1] {
		d.g.Results = d.g.Results[:1]
	}
	require.NoError(t, ops.Check(d.g))
	return d.g
}

// parameters are an operand, if there is one, with a scale and a zero point of its type, or of the one that is given.
func (d *drawer) parameters(x *ssa.Value, dt ...ndarray.DType) (in []*ssa.Value) {
	if x != nil {
		in = append(in, x)
		dt = append(dt, x.Type.DType)
	}
	zero := ndarray.Must(dt[0])
	zero.SetFloat(0, float64(d.rng.IntN(100)))
	return append(in, d.constant(ndarray.Of([]float32{0.25 + d.rng.Float32()})), d.constant(zero))
}

func (d *drawer) quantizedConv(x *ssa.Value) *ssa.Value {
	in, out, groups := channelsOf(x), int(d.channels()), 1
	switch {
	case d.rng.IntN(3) == 0:
		out, groups = in, in
	case in%16 == 0 && d.rng.IntN(2) == 0:
		out, groups = 24, 2
	}
	k, stride := int64([]int{1, 3, 3, 5}[d.rng.IntN(4)]), int64(1+d.rng.IntN(2))
	pad := k / 2
	w := ndarray.Must(ndarray.Int8, out, in/groups, int(k), int(k))
	scales, bias := ndarray.Must(ndarray.Float32, out), ndarray.Must(ndarray.Int32, out)
	zeros := ndarray.Must(ndarray.Int8, out)
	for i := range w.Len() {
		w.SetFloat(i, float64(d.rng.IntN(255)-127))
	}
	some := d.rng.IntN(4) == 0
	for i := range out {
		scales.SetFloat(i, 0.001+0.01*d.rng.Float64())
		bias.SetFloat(i, float64(d.rng.IntN(4000)-2000))
		if some {
			zeros.SetFloat(i, float64(d.rng.IntN(9)-4))
		}
	}
	operands := append(d.parameters(x), d.constant(w), d.constant(scales), d.constant(zeros))
	operands = append(append(operands, d.parameters(nil, x.Type.DType)...), d.constant(bias))
	return d.op("QLinearConv", operands, ssa.IntsAttr("pads", pad, pad, pad, pad), ssa.IntsAttr("strides", stride, stride), ssa.IntAttr("group", int64(groups)))
}

// TestQuantizedNetworks compares networks of bytes in which every image that can be has its channels side by side, with
// reference kernels and with fast ones in a poisoned arena, with the plain network: with the interpreter's results, and
// bit by bit with those of its own fast kernels at every level and on any number of threads.
func TestQuantizedNetworks(t *testing.T) {
	first := map[uint64][]ndarray.Value{}
	kerntest.EachLevel(t, func(t *testing.T) {
		made := map[string]int{}
		for seed := range uint64(80) {
			g := drawQuantized(t, seed)
			c, _ := assigned(t, g, seed%5 != 4)
			for _, n := range c.Nodes {
				made[n.Op]++
			}
			in, err := graphgen.Inputs(rand.New(rand.NewPCG(seed, 9)), g, nil)
			require.NoError(t, err)
			if seed%4 == 0 {
				require.NoError(t, graphgen.Agree(t.Context(), g, c, seed, 1), "seed %d: %s", seed, c)
			}
			for threads, g := range []*ssa.Graph{1: g, 2: c, 3: c} {
				if g == nil {
					continue
				}
				got := runFast(t, g, in, threads)
				if first[seed] == nil {
					first[seed] = got
				}
				require.Equal(t, first[seed], got, "seed %d: %s", seed, g)
			}
			wantKernels(t, c)
		}
		for _, op := range []string{"ToBlocked", "FromBlocked", "BlockedQLinearConv", "BlockedQLinearAdd", "BlockedMaxPool"} {
			assert.Equal(t, convolve.HasPixels(), made[op] > 0, op)
		}
	})
}

// runFast are the results of the fast kernels, run twice in a poisoned arena, which gives the same bytes.
func runFast(t *testing.T, g *ssa.Graph, in []ndarray.Value, threads int) (out []ndarray.Value) {
	pl, err := planner.Get("auto")
	require.NoError(t, err)
	p, err := program.Compile(t.Context(), g, program.Options{Planner: pl, Backend: cpu.New(), Threads: threads})
	require.NoError(t, err)
	require.NoError(t, program.Check(t.Context(), p))
	s, err := p.NewSession()
	require.NoError(t, err)
	s.Poison = true
	for range 2 {
		got, err := s.Run(t.Context(), in)
		require.NoError(t, err, "%s", g)
		if out == nil {
			for _, v := range got {
				out = append(out, ndarray.CloneValue(v))
			}
		}
		require.Equal(t, out, slices.Clone(got), "%s", g)
	}
	return out
}
