package cpu

import (
	"math"
	"math/rand"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth/internal/cpu/chain"
	"github.com/berth-onnx/berth/internal/cpu/kern/kerntest"
	"github.com/berth-onnx/berth/internal/cpu/kern/machine"
	"github.com/berth-onnx/berth/internal/tile"
	"github.com/berth-onnx/berth/ndarray"
)

func init() { LinkChains() }

// numbers are those that chains treat in ways of their own, among others.
var numbers = []float64{0, math.Copysign(0, -1), 1, -0.75, 3, math.NaN(), math.Inf(1), math.Inf(-1)}

// drawChain is a program of operations that chains have, and some that they do not have.
func drawChain(r *rand.Rand, operands, instrs int) *tile.Program {
	p := &tile.Program{Operands: slices.Repeat([]ndarray.DType{ndarray.Float32}, operands)}
	pick := func() tile.Ref {
		if r.Intn(2) == 0 {
			return tile.Ref(p.NumValues() - 1)
		}
		return tile.Ref(r.Intn(p.NumValues()))
	}
	full := func() tile.Ref {
		for {
			if a := pick(); !p.IsConstant(a) && (a == 0 || int(a) >= operands) {
				return a
			}
		}
	}
	p.Add(tile.Instr{Op: "Neg", DType: ndarray.Float32, Args: []tile.Ref{0}})
	for range instrs {
		x := tile.Instr{DType: ndarray.Float32}
		switch k := r.Intn(12); {
		case k < 7:
			x.Op, x.Args = []tile.Op{"Add", "Sub", "Mul", "Div", "Max", "Min"}[r.Intn(6)], []tile.Ref{pick(), pick()}
		case k < 9:
			x.Op, x.Args = []tile.Op{"Neg", "Abs", "Sqrt", "Reciprocal", "Round", "Floor", "Ceil", "Relu"}[r.Intn(8)], []tile.Ref{full()}
		case k == 9:
			x.Op, x.Args = "Clip", []tile.Ref{full(), tile.None, p.Number(ndarray.Float32, 2)}
		case k == 10 && r.Intn(3) == 0:
			x.Op, x.Args = "Sigmoid", []tile.Ref{full()}
		default:
			p.Number(ndarray.Float32, numbers[r.Intn(len(numbers))])
			continue
		}
		p.Add(x)
	}
	for v := tile.Ref(p.NumValues() - 1); v >= tile.Ref(operands); v-- {
		if !p.IsConstant(v) && (len(p.Results) == 0 || r.Intn(6) == 0) {
			p.Store(v)
		}
	}
	return p
}

// TestChains compares drawn chains, bit for bit, with the kernels of their instructions: lines around whole rounds, operands that cover
// them in every way, results over operands and, above a size, past the caches.
func TestChains(t *testing.T) {
	kerntest.EachLevel(t, func(t *testing.T) {
		blocks, far := blockElems, chain.FarBytes
		defer func() { blockElems, chain.FarBytes = blocks, far }()
		r := rand.New(rand.NewSource(5))
		for range 60 {
			blockElems, chain.FarBytes = []int{300, 4096}[r.Intn(2)], []int{1, 8 << 20}[r.Intn(2)]
			rows, cols := []int{1, 1, 3, 40}[r.Intn(4)], []int{5, 127, 128, 129, 256, 300, 1024, 5000}[r.Intn(8)]
			shapes := [][]int{{rows, cols}}
			for range r.Intn(4) {
				shapes = append(shapes, [][]int{{rows, cols}, {1, cols}, {rows, 1}, {1, 1}}[r.Intn(4)])
			}
			p := drawChain(r, len(shapes), 1+r.Intn(14))
			require.NoError(t, p.Check(), "%s", p)
			requireSingle(t, r, p, shapes)
		}
	})
}

// requireSingle runs a program, also with results over operands, and compares it with its instructions one by one.
func requireSingle(t *testing.T, r *rand.Rand, p *tile.Program, shapes [][]int) {
	var in []*ndarray.Array
	for _, s := range shapes {
		a := ndarray.Must(ndarray.Float32, s...)
		for k := range a.Len() {
			a.SetFloat(k, r.NormFloat64())
			if r.Intn(20) == 0 {
				a.SetFloat(k, numbers[r.Intn(len(numbers))])
			}
		}
		in = append(in, a)
	}
	n := fusedNode(t, p, shapes)
	made := prepareFused(t, n, 2)
	c := callOf(n, made, in, 2)
	require.NoError(t, made.Kernel.Run(c))
	loops, err := p.Bind(shapes)
	require.NoError(t, err)
	values := slices.Clone(in)
	for i := range p.Instrs {
		values = append(values, runSingle(t, p, i, loops, values))
	}
	for k, res := range p.Results {
		for i, want := range floatsOf(values[res.Value]) {
			got := floatsOf(arrayOf(c.Out[k]))[i]
			require.True(t, math.Float32bits(want) == math.Float32bits(got) || want != want && got != got, "%v, expected %v: element %d of result %d of\n%s%v", got, want, i, k, p, shapes)
		}
	}
	inPlace(t, n, made, in, c)
}

// TestLongChainIsOneStep: a chain of contiguous operands needs no workspace, and has one step.
func TestLongChainIsOneStep(t *testing.T) {
	p, err := tile.Parse("(float32, float32)\n%2 = float32 Constant 0.5\n%3 = float32 Mul %0 %2\n%4 = float32 Add %3 %1\n%5 = float32 Relu %4\n%6 = float32 Max %5 %3\nreturn %6\n")
	require.NoError(t, err)
	kerntest.EachLevel(t, func(t *testing.T) {
		made := prepareFused(t, fusedNode(t, p, [][]int{{1 << 20}, {1 << 20}}), 1)
		g := made.Kernel.(*tiled).tiler.(*fusedGroup)
		if machine.Active() == machine.LevelGeneric {
			require.Len(t, g.variants[0].steps, 4)
			return
		}
		require.Len(t, g.variants[0].steps, 1)
		require.Zero(t, made.Scratch)
	})
}
