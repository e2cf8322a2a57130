package tile_test

import (
	"context"
	"math"
	"math/rand"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth/internal/tile"
	"github.com/berth-onnx/berth/internal/tile/tiletest"
	"github.com/berth-onnx/berth/ndarray"
)

// softmax is the formula written out.
const softmax = `(float32) inner 1
%1 = row float32 ReduceMax %0
%2 = float32 Sub %0 %1
%3 = float32 Exp %2
%4 = row float32 ReduceSum %3
%5 = float32 Div %3 %4
return %5 %4 dropped
`

func TestInterpret(t *testing.T) {
	p, err := tile.Parse(softmax)
	require.NoError(t, err)
	out, err := p.Interpret(t.Context(), []*ndarray.Array{ndarray.Of([]float32{0, float32(math.Log(3)), 1, 1}, 2, 2)})
	require.NoError(t, err)
	assert.InDeltaSlice(t, []float32{0.25, 0.75, 0.5, 0.5}, ndarray.Slice[float32](out[0]), 1e-6)
	assert.Equal(t, []int{2}, out[1].Shape)
	assert.InDeltaSlice(t, []float32{4. / 3, 2}, ndarray.Slice[float32](out[1]), 1e-6)
}

// TestFarFromZero: the logarithm of a sum is not rounded off beside a large maximum.
func TestFarFromZero(t *testing.T) {
	for op, want := range map[tile.Op]float32{"Softmax": 0.5, "LogSoftmax": -math.Ln2} {
		p := &tile.Program{Operands: []ndarray.DType{ndarray.Float32}, Inner: 1}
		p.Store(p.Add(tile.Instr{Op: op, DType: ndarray.Float32, Args: []tile.Ref{0}}))
		out, err := p.Interpret(t.Context(), []*ndarray.Array{ndarray.Of([]float32{1e18, 1e18}, 1, 2)})
		require.NoError(t, err)
		assert.InDeltaSlice(t, []float32{want, want}, ndarray.Slice[float32](out[0]), 1e-6, "%s", op)
	}
}

// TestScalars reads single elements: what the standard says where kernels could differ.
func TestScalars(t *testing.T) {
	nan := math.NaN()
	for _, c := range []struct {
		program string
		in      []float64
		want    float64
	}{
		{"(float32, float32)\n%2 = float32 Max %0 %1\nreturn %2\n", []float64{nan, math.Inf(1)}, nan},
		{"(float32, float32)\n%2 = float32 Mod %0 %1\nreturn %2\n", []float64{-5, 3}, 1},
		{"(float32, float32)\n%2 = float32 Fmod %0 %1\nreturn %2\n", []float64{-5, 3}, -2},
		{"(int8, int8)\n%2 = int8 Mod %0 %1\nreturn %2\n", []float64{5, -3}, -1},
		{"(int8, int8)\n%2 = int8 Add %0 %1\nreturn %2\n", []float64{127, 1}, -128},
		{"(uint8, uint8)\n%2 = bool Less %0 %1\nreturn %2\n", []float64{200, 100}, 0},
		{"(uint8, uint8)\n%2 = uint8 ShiftRight %0 %1\nreturn %2\n", []float64{200, 9}, 0},
		{"(float32)\n%1 = int32 Cast %0\nreturn %1\n", []float64{-2.75}, -2},
		{"(float32)\n%1 = int32 Cast %0\nreturn %1\n", []float64{nan}, math.MinInt32},
		{"(float32)\n%1 = int64 Cast %0\nreturn %1\n", []float64{math.Inf(1)}, math.MinInt64},
		{"(float32)\n%1 = int8 Cast %0\nreturn %1\n", []float64{nan}, 0},
		{"(float32)\n%1 = bool Cast %0\nreturn %1\n", []float64{nan}, 1},
		{"(float32)\n%1 = float32 Round %0\nreturn %1\n", []float64{2.5}, 2},
		{"(float16, float16)\n%2 = float16 Add %0 %1\nreturn %2\n", []float64{2048, 1}, 2048},
		{"(float32)\n%1 = float32 Constant 3\n%2 = float32 Clip %0 %1 _\nreturn %2\n", []float64{2}, 3},
		{"(float32)\n%1 = float32 Constant 3\n%2 = float32 Clip %0 %1 _\nreturn %2\n", []float64{math.Inf(1)}, math.MaxFloat32},
		{"(float16)\n%1 = float16 Constant 3\n%2 = float16 Clip %0 _ %1\nreturn %2\n", []float64{math.Inf(-1)}, -65504},
		{"(float32)\n%1 = bool IsInf %0 {0 1}\nreturn %1\n", []float64{math.Inf(1)}, 0},
	} {
		p, err := tile.Parse(c.program)
		require.NoError(t, err, c.program)
		var in []*ndarray.Array
		for i, v := range c.in {
			a := ndarray.Must(p.Operands[i])
			a.SetFloat(0, v)
			in = append(in, a)
		}
		out, err := p.Interpret(t.Context(), in)
		require.NoError(t, err, c.program)
		if got := out[0].Float(0); got != c.want && !(got != got && c.want != c.want) {
			t.Errorf("%s on %v: %v, not %v", c.program, c.in, got, c.want)
		}
	}
}

// TestEveryFormula computes one element by every operator of every element type that it takes.
func TestEveryFormula(t *testing.T) {
	types := []ndarray.DType{ndarray.Bool, ndarray.Float32, ndarray.Float16, ndarray.Int8, ndarray.Int64, ndarray.Uint8, ndarray.Uint64}
	for _, op := range tile.Ops() {
		least, _ := op.Args()
		computed := 0
		for _, in := range types {
			for _, out := range types {
				args := slices.Repeat([]ndarray.DType{in}, least)
				if op == "Where" {
					args[0] = ndarray.Bool
				}
				if op == tile.Call || op == tile.Copy && in != out || !op.Accepts(args, out) {
					continue
				}
				instr := tile.Instr{Op: op, DType: out, Params: slices.Repeat([]float64{0.5}, len(op.Params()))}
				p := &tile.Program{Operands: args}
				if op.Reduces() || op.Normalizes() {
					p.Inner, instr.Row = 1, op.Reduces()
				}
				var operands []*ndarray.Array
				for k, dt := range args {
					a := ndarray.Must(dt, 1)
					a.SetFloat(0, 1)
					operands, instr.Args = append(operands, a), append(instr.Args, tile.Ref(k))
				}
				if op == tile.Constant {
					instr.Value = ndarray.Must(out)
				}
				p.Store(p.Add(instr))
				_, err := p.Interpret(t.Context(), operands)
				require.NoError(t, err, "%s of %s", op, in)
				computed++
			}
		}
		assert.True(t, computed > 0 || op == tile.Call, "%s", op)
	}
}

func TestIntegerDivisionByZero(t *testing.T) {
	p, err := tile.Parse("(int32, int32)\n%2 = int32 Div %0 %1\nreturn %2\n")
	require.NoError(t, err)
	_, err = p.Interpret(t.Context(), []*ndarray.Array{ndarray.Scalar(int32(1)), ndarray.Scalar(int32(0))})
	assert.ErrorContains(t, err, "division by zero")
}

func TestRefused(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"", "begins with the types"},
		{"(float32)\n%1 = float32 Neg %0\n", "without return"},
		{"(string)\nreturn %0\n", "operand 0 is of string"},
		{"(float32)\n%1 = float32 Frob %0\nreturn %1\n", "no such operator"},
		{"(float32)\n%1 = float32 Neg %1\nreturn %1\n", "does not come before"},
		{"(float32)\n%1 = float32 Add %0\nreturn %1\n", "1 arguments"},
		{"(float32, int32)\n%2 = float32 Add %0 %1\nreturn %2\n", "not defined"},
		{"(float32)\n%1 = row float32 ReduceSum %0\nreturn %1\n", "has no rows"},
		{"(float32) inner 1\n%1 = float32 ReduceSum %0\nreturn %1\n", "row is false"},
		{"(float32) inner 1\n%1 = float32 Neg %0\n%2 = row float32 Neg %1\nreturn %2\n", "is no row value"},
		{"(float32)\nreturn %0\n", "no computed value"},
		{"(float32)\n%1 = float32 Neg %0\nreturn\n", "no result"},
		{"(float32)\n%1 = float32 Constant 1\n%2 = float32 Neg %1\nreturn %2\n", "is a number"},
	} {
		_, err := tile.Parse(c.text)
		assert.ErrorContains(t, err, c.want, c.text)
	}
}

func TestBind(t *testing.T) {
	p, err := tile.Parse("(float32, float32)\n%2 = float32 Add %0 %1\nreturn %2\n")
	require.NoError(t, err)
	l, err := p.Bind([][]int{{2, 3, 4, 5}, {3, 1, 1}})
	require.NoError(t, err)
	assert.Equal(t, []int{2, 3, 20}, l.Dims)
	assert.Equal(t, [][]int{{60, 20, 1}, {0, 1, 0}}, l.Strides)
	_, err = p.Bind([][]int{{2, 3}, {4}})
	assert.Error(t, err)
}

// TestAllocate shows where values lie: with a result that may lie over an operand read at the end,
// its memory is not used before.
func TestAllocate(t *testing.T) {
	p, err := tile.Parse("(float32, float32)\n%2 = float32 Neg %0\n%3 = float32 Exp %2\n%4 = float32 Add %3 %1\nreturn %4\n")
	require.NoError(t, err)
	free := p.Allocate(func(o, k int) bool { return false })
	assert.Equal(t, []int{-1, -1, -1}, free.Of)
	assert.Empty(t, free.Width)
	over := p.Allocate(func(o, k int) bool { return o == 1 })
	assert.Equal(t, []int{0, 0, -1}, over.Of)
	assert.Equal(t, []int{4}, over.Width)
	assert.Equal(t, []int{2}, over.FirstWrite)
}

// TestText reads drawn programs back.
func TestText(t *testing.T) {
	r := rand.New(rand.NewSource(5))
	for range 300 {
		d := tiletest.Draw(r, []int{3, 4, 5}, 1+r.Intn(12))
		text := d.Program.String()
		p, err := tile.Parse(text)
		require.NoError(t, err, text)
		require.Equal(t, text, p.String())
	}
}

func FuzzParse(f *testing.F) {
	f.Add(softmax)
	f.Add("(float32, int32)\n%2 = float32 Cast %1\n%3 = float32 HardSigmoid %2 {0.2 0.5}\n%4 = float32 Clip %3 _ %0\nreturn %3 %4\n")
	f.Fuzz(func(t *testing.T, text string) {
		p, err := tile.Parse(text)
		if err != nil {
			return
		}
		again, err := tile.Parse(p.String())
		require.NoError(t, err, "%q", text)
		require.Equal(t, p.String(), again.String())
		p.Allocate(func(o, k int) bool { return true })
	})
}

// endsAt is a context that ends when it is looked at for the nth time.
type endsAt struct {
	context.Context
	looks, end int
}

func (c *endsAt) Err() error {
	if c.looks++; c.looks >= c.end {
		return context.Canceled
	}
	return nil
}

// TestInterpreterLooks: within tensors of many elements, and within one long row, the context is looked at again and again,
// and ends the interpreter wherever that is.
func TestInterpreterLooks(t *testing.T) {
	const elements = 1 << 17
	for _, text := range []string{
		"(float32)\n%1 = float32 Exp %0\nreturn %1\n",
		"(float32) inner 1\n%1 = row float32 ReduceLogSumExp %0\nreturn %1\n",
		"(int32) inner 1\n%1 = row int32 ReduceSum %0\nreturn %1\n",
		"(float32) inner 1\n%1 = float32 Constant 2\n%2 = float32 LayerNormalization %0 %1 {1e-05}\nreturn %2\n",
		"(float32) inner 1\n%1 = float32 Softmax %0\nreturn %1\n",
	} {
		p, err := tile.Parse(text)
		require.NoError(t, err, text)
		for _, shape := range [][]int{{1, elements}, {elements / 100, 100}} {
			checkLooks(t, p, []*ndarray.Array{ndarray.Must(p.Operands[0], shape...)}, elements)
		}
	}
}

func checkLooks(t *testing.T, p *tile.Program, in []*ndarray.Array, elements int) {
	all := &endsAt{Context: t.Context(), end: math.MaxInt}
	_, err := p.Interpret(all, in)
	require.NoError(t, err, "%s", p)
	assert.Greater(t, all.looks, elements/5000, "%s", p)
	for end := 1; end <= all.looks; end += all.looks/7 + 1 {
		at := &endsAt{Context: t.Context(), end: end}
		_, err = p.Interpret(at, in)
		assert.ErrorIs(t, err, context.Canceled, "%s at %d of %d", p, end, all.looks)
		assert.Less(t, at.looks, end+4, "%s", p)
	}
}
