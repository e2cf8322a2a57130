package oracle

import (
	"math/rand"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth/backend"
	"github.com/berth-onnx/berth/internal/cpu"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// smallerCases draws nodes whose result may lie over a larger operand. Running them
// so is part of what every case is tested for; see bench.smaller.
var smallerCases = map[string]func(r *rand.Rand) opCase{
	"cast": func(r *rand.Rand) opCase {
		dt := pick(r, ndarray.Float32, ndarray.Float64, ndarray.Int64, ndarray.Int32, ndarray.Int16)
		to := pick(r, ndarray.Float16, ndarray.BFloat16, ndarray.Int8, ndarray.Uint8, ndarray.Bool, ndarray.Int16)
		if dt != ndarray.Float32 && (to == ndarray.Float16 || to == ndarray.BFloat16) || dt.Size() < 2*to.Size() {
			dt = ndarray.Float32
		}
		return opCase{op: "Cast", in: []arg{tensor(dt, randomShape(r, 2, 90)...)}, attrs: []ssa.Attr{ssa.IntAttr("to", int64(to))}}
	},
	"compare": func(r *rand.Rand) opCase {
		s := randomShape(r, 3, 20)
		return opCase{op: pick(r, "Less", "GreaterOrEqual", "Equal"), in: []arg{f32s(s...), pick(r, f32s(s...), f32s(s[2]), f32s(s[1], 1))}}
	},
	"predicate": func(r *rand.Rand) opCase { return opCase{op: "IsNaN", in: []arg{f32s(1 + r.Intn(3000)).odd()}} },
	"quantize": func(r *rand.Rand) opCase {
		return opCase{op: "QuantizeLinear", in: []arg{f32s(randomShape(r, 3, 24)...), scalarOf(ndarray.Float32, 0.02), scalarOf(ndarray.Uint8, 100)}, tol: 1}
	},
	"reduce": func(r *rand.Rand) opCase {
		dt := pick(r, ndarray.Float32, ndarray.Float32, ndarray.Int32, ndarray.Float64)
		s := randomShape(r, 3, 14)
		return opCase{op: pick(r, "ReduceSum", "ReduceMax", "ReduceMin"), in: []arg{tensor(dt, s...), pick(r, ints(2), ints(1, 2), ints(-1))}, tol: 1e-5}
	},
	"log-sum-exp": func(r *rand.Rand) opCase {
		return opCase{op: "ReduceLogSumExp", in: []arg{f32s(1+r.Intn(60), 2+r.Intn(60)), ints(1)}, tol: 1e-5}
	},
	"position": func(r *rand.Rand) opCase {
		return opCase{op: pick(r, "ArgMax", "ArgMin"), in: []arg{tensor(pick(r, ndarray.Float32, ndarray.Int64), 1+r.Intn(60), 4+r.Intn(30))}, attrs: []ssa.Attr{ssa.IntAttr("axis", 1)}}
	},
	"planes": func(r *rand.Rand) opCase {
		return opCase{op: pick(r, "GlobalAveragePool", "GlobalMaxPool"), in: []arg{f32s(1+r.Intn(3), 1+r.Intn(40), 2+r.Intn(9), 1+r.Intn(9))}, tol: 1e-5}
	},
	"pool": func(r *rand.Rand) opCase {
		k := 2 + r.Intn(2)
		dt := pick(r, ndarray.Float32, ndarray.Float32, ndarray.Float32, ndarray.Float64)
		return opCase{op: pick(r, "MaxPool", "AveragePool"), in: []arg{tensor(dt, 1+r.Intn(2), 1+r.Intn(70), 4+r.Intn(12), 4+r.Intn(12))}, tol: 1e-5,
			attrs: []ssa.Attr{ssa.IntsAttr("kernel_shape", int64(k), int64(k)), ssa.IntsAttr("strides", 2, 2),
				pick(r, ssa.IntsAttr("pads", 0, 0, 0, 0), ssa.IntsAttr("pads", 1, 1, 1, 1), ssa.IntsAttr("pads", 0, 0, 1, 1)), ssa.IntAttr("ceil_mode", int64(r.Intn(2)))}}
	},
	"tall pool": func(r *rand.Rand) opCase { // many strips to a plane
		return opCase{op: "MaxPool", in: []arg{f32s(1, 1+r.Intn(40), 90+r.Intn(30), 70+r.Intn(60))},
			attrs: []ssa.Attr{ssa.IntsAttr("kernel_shape", 3, 3), ssa.IntsAttr("strides", 2, 2), ssa.IntsAttr("pads", 1, 1, 1, 1)}}
	},
	"slice": func(r *rand.Rand) opCase {
		s := []int{2 + r.Intn(6), 4 + r.Intn(20), 4 + r.Intn(20)}
		a, b := r.Intn(s[1]/2), r.Intn(s[2]/2)
		return opCase{op: "Slice", in: []arg{tensor(pick(r, ndarray.Float32, ndarray.Int8, ndarray.Float64), s...),
			ints(int64(a), int64(b)), ints(int64(a+s[1]/2), int64(b+s[2]/2+1)), ints(1, 2), pick(r, ints(1, 1), ints(2, 1), ints(1, 2))}}
	},
}

func TestSmaller(t *testing.T) {
	for name, draw := range smallerCases {
		t.Run(name, func(t *testing.T) {
			pairs := 0
			runRandom(t, 40, func(r *rand.Rand) opCase {
				k := draw(r)
				pairs += len(ops.SmallerPairs(k.build(t, 1).node))
				return k
			})
			assert.Positive(t, pairs, "no case has a pair: nothing was tested")
		})
	}
}

// The same, by reference kernels.
func TestSmallerReference(t *testing.T) {
	for name, draw := range smallerCases {
		r := rand.New(rand.NewSource(2))
		for range 10 {
			b := draw(r).build(t, 3)
			b.smaller(t, name, backend.Prepared{Kernel: ops.KernelFunc(ops.Eval)}, b.want)
		}
	}
}

// A promise that is not kept is found: the same kernels, with pairs that do not
// hold.
func TestSmallerFindsWrongFacts(t *testing.T) {
	for _, k := range []opCase{
		{op: "ReduceSum", in: []arg{f32s(40, 30), ints(0)}}, // the outer axis
		{op: "MaxPool", in: []arg{f32s(1, 20, 100, 100)}, attrs: []ssa.Attr{ssa.IntsAttr("kernel_shape", 3, 3), ssa.IntsAttr("pads", 1, 1, 1, 1)}},
		{op: "Slice", in: []arg{f32s(40, 30), ints(-1), ints(-1000), ints(0), ints(-2)}}, // backwards
	} {
		b := k.build(t, 1)
		assert.Empty(t, ops.SmallerPairs(b.node), k.String())
		p, err := cpu.New().Prepare(t.Context(), b.node, 2)
		require.NoError(t, err)
		in, out := b.cloned(), b.results()
		out[0].Data = in[0].Data[:len(out[0].Data)]
		require.NoError(t, p.Kernel.Run(b.call(p, in, out, 1)))
		assert.NotEqual(t, b.want[0].Data, out[0].Data, k.String())
	}
}
