package emit

import (
	"context"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math"
	"math/rand"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth/backend/cuda/internal/device"
	"github.com/berth-onnx/berth/backend/cuda/internal/sim"
	_ "github.com/berth-onnx/berth/internal/ops/elementwise"
	"github.com/berth-onnx/berth/internal/ptx"
	"github.com/berth-onnx/berth/internal/tile"
	"github.com/berth-onnx/berth/internal/tile/tiletest"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// run emits a program and runs it on the interpreter of PTX, in windows of the operands' very size. covered is the result that lies
// over operand 0, -1: none does.
func run(t *testing.T, p *tile.Program, in []*ndarray.Array, covered int) ([]*ndarray.Array, error) {
	t.Helper()
	shapes := make([][]int, len(in))
	for i, a := range in {
		shapes[i] = a.Shape
	}
	l, err := p.Bind(shapes)
	require.NoError(t, err)
	text, err := Program(p, l)
	if err != nil {
		return nil, err
	}
	requireTraced(t, text)
	d := sim.New(sim.Options{Errors: 1})
	m, err := d.Load(text)
	require.NoError(t, err, text)
	k, err := m.Kernel(Name)
	require.NoError(t, err)
	n := 1
	for _, dim := range l.Shape {
		n *= dim
	}
	launch := &device.Launch{Kernel: k, Grid: [3]int{(n + Threads - 1) / Threads, 1, 1}, Block: [3]int{Threads, 1, 1}}
	if p.Inner > 0 {
		launch.Grid[0], launch.Block[0] = n/l.Dims[len(l.Dims)-1], RowThreads
	}
	add := func(w device.Window) {
		w.Arg = len(launch.Args) + 1
		launch.Windows = append(launch.Windows, w)
		launch.Args = binary.LittleEndian.AppendUint64(launch.Args, uint64(w.Base))
	}
	for i, a := range in {
		at, err := d.Alloc(int64(len(a.Data)))
		require.NoError(t, err)
		require.NoError(t, d.CopyIn(at, a.Data))
		add(device.Window{Name: fmt.Sprint("operand ", i), Base: at, Bytes: int64(len(a.Data)), IsRead: true, IsWritten: covered >= 0 && i == 0})
	}
	results := make([]device.Pointer, len(p.Results))
	for i, r := range p.Results {
		bytes := int64(ndarray.Product(p.ResultShape(i, l.Shape)) * p.DType(r.Value).Size())
		results[i] = launch.Windows[max(len(in)-1, 0)].Base
		if i == covered {
			results[i] = launch.Windows[0].Base
			launch.Args = binary.LittleEndian.AppendUint64(launch.Args, uint64(results[i]))
			continue
		}
		results[i], err = d.Alloc(bytes)
		require.NoError(t, err)
		add(device.Window{Name: fmt.Sprint("result ", i), Base: results[i], Bytes: bytes, IsWritten: true})
	}
	launch.Args = binary.LittleEndian.AppendUint32(launch.Args, uint32(n))
	require.NoError(t, d.Launch(launch), text)
	out := make([]*ndarray.Array, len(results))
	for i, at := range results {
		out[i] = ndarray.Must(p.DType(p.Results[i].Value), p.ResultShape(i, l.Shape)...)
		require.NoError(t, d.CopyOut(out[i].Data, at))
	}
	return out, nil
}

// requireTraced holds that every address is computed from a parameter, so that accesses are held to its operand.
func requireTraced(t *testing.T, text string) {
	m, err := ptx.Parse(text)
	require.NoError(t, err, text)
	p, err := ptx.Compile(m)
	require.NoError(t, err, text)
	info, err := p.Info(Name)
	require.NoError(t, err)
	require.Empty(t, info.Untraced, text)
}

// The element types that operators have no kernel of.
var (
	integers = []ndarray.DType{ndarray.Uint8, ndarray.Int8, ndarray.Uint16, ndarray.Int16, ndarray.Int32, ndarray.Int64, ndarray.Uint32, ndarray.Uint64}
	floats   = []ndarray.DType{ndarray.Float32, ndarray.Float16, ndarray.Float64, ndarray.BFloat16}
)

// refused are the operators without a kernel, by element type. Functions of Go (Call) are for expressions, which run on the host, and
// copies to another type are none.
var refused = func() map[tile.Op][]ndarray.DType {
	out := map[tile.Op][]ndarray.DType{
		tile.Copy: elements, "Div": integers, "IsInf": {ndarray.Float64},
		"Fmod": append([]ndarray.DType{ndarray.Float64}, integers...), "PRelu": append([]ndarray.DType{ndarray.Float64}, integers...),
		"Sign": {ndarray.Float64}, "Mod": append(slices.Clone(floats), integers...),
	}
	for _, op := range strings.Fields(`Acos Acosh Asin Asinh Atan Atanh Celu Cos Cosh Elu Erf Exp Gelu GeluTanh HardSigmoid HardSwish
		LeakyRelu Log Mish Pow Selu Shrink Sigmoid Sin Sinh Softplus Softsign Swish Tan Tanh ThresholdedRelu`) {
		out[tile.Op(op)] = []ndarray.DType{ndarray.Float64} // no function of doubles is compiled
	}
	for op := range out {
		out[op] = slices.Sorted(slices.Values(out[op]))
	}
	return out
}()

// elements are the element types of emitted kernels.
var elements = slices.Sorted(maps.Keys(kinds))

// TestOperators emits every operator that reads elements, of every type that emitted kernels have, and compares with the
// interpreter of tile programs on special values.
func TestOperators(t *testing.T) {
	values := []float64{0, math.Copysign(0, -1), 1, -1, 0.5, -0.5, 0.75, 2, -3, 7.25, 20, -20, 88, -90, 100, math.Inf(1), math.Inf(-1), math.NaN(), 1e-5, -3e-7, 0x1p63, 0x1.8p63, 0x1p64, -0x1p63}
	emitted, no := 0, map[tile.Op][]ndarray.DType{}
	for _, c := range tiletest.Singles(elements) {
		op, dt, name, p, types := c.Op, c.Type, c.Name, c.Program, c.Program.Operands
		require.NoError(t, p.Check(), name)
		in := make([]*ndarray.Array, len(types))
		for i := range in {
			in[i] = ndarray.Must(types[i], len(values)*len(values))
			for k := range in[i].Len() {
				v := values[(k/[]int{1, len(values), 7}[i])%len(values)]
				switch {
				case types[i] == ndarray.Bool:
					in[i].SetInt(k, int64(k>>i&1))
				case types[i].IsFloat():
					in[i].SetFloat(k, v)
				default:
					in[i].SetInt(k, int64(min(max(v, -1e9), 1e9)))
				}
			}
		}
		got, err := run(t, p, in, -1)
		if unsupported := (*UnsupportedError)(nil); errors.As(err, &unsupported) {
			if !slices.Contains(no[op], dt) {
				no[op] = append(no[op], dt)
			}
			continue
		}
		require.NoError(t, err, name)
		want, err := p.Interpret(context.Background(), in)
		require.NoError(t, err)
		requireNear(t, name, in, want[0], got[0])
		emitted++
	}
	assert.Equal(t, refused, no)
	assert.Greater(t, emitted, 100)
}

// requireNear allows what CUDA documents for its functions, at most 8 units in the last place for these, and what an argument rounded
// on the way makes of it.
func requireNear(t *testing.T, name string, in []*ndarray.Array, want, got *ndarray.Array) {
	t.Helper()
	require.Equal(t, want.DType, got.DType)
	for i := range want.Len() {
		at := name
		for _, a := range in {
			at += fmt.Sprintf(" %v", a.Float(i))
		}
		if !want.DType.IsFloat() {
			require.Equal(t, want.Int(i), got.Int(i), at)
			continue
		}
		w, g := want.Float(i), got.Float(i)
		if w == g || w != w && g != g {
			continue
		}
		require.False(t, math.IsNaN(w) || math.IsNaN(g), "%s: %v, not %v", at, g, w)
		limit := 16 * 0x1p-24 * math.Max(math.Abs(w), 1)
		if math.Abs(in[0].Float(i)) > 20 { // exponentials of rounded products
			limit *= math.Abs(in[0].Float(i))
		}
		require.InDelta(t, w, g, limit, at)
	}
}

// TestDrawn emits random programs with broadcast operands; a result may lie over the first operand.
func TestDrawn(t *testing.T) {
	r := rand.New(rand.NewSource(21))
	emitted, covered, rows := 0, 0, 0
	shapes := [][]int{{7}, {3, 5}, {2, 3, 4}, {300}, {1}, {2, 1, 130}}
	for i := range 1500 {
		shape := shapes[i%len(shapes)]
		d := tiletest.Draw(r, shape, 1+i%7)
		in := d.Operands(r)
		want, err := d.Program.Interpret(context.Background(), in)
		if err != nil {
			continue
		}
		over := -1
		if res := d.Program.Results[0]; len(in) > 0 && !d.Program.IsRow(res.Value) && slices.Equal(d.Shapes[0], shape) && d.Program.DType(res.Value) == d.Program.Operands[0] && i%2 == 0 {
			over = 0
		}
		got, err := run(t, d.Program, in, over)
		if err != nil {
			var no *UnsupportedError
			require.ErrorAs(t, err, &no)
			continue
		}
		for k := range got {
			d.RequireSame(t, k, want[k], got[k])
		}
		emitted++
		if over == 0 {
			covered++
		}
		if d.Program.Inner > 0 {
			rows++
		}
	}
	assert.Greater(t, emitted, 100)
	assert.Greater(t, covered, 10)
	assert.Greater(t, rows, 100)
	t.Logf("%d of 1500 programs emitted, %d of them over an operand, %d with rows", emitted, covered, rows)
}

var update = flag.Bool("update", false, "write the golden file")

// TestFunctions: what is compressed is the PTX that is committed.
func TestFunctions(t *testing.T) {
	want, err := os.ReadFile("functions.ptx")
	require.NoError(t, err)
	require.True(t, functions() == string(want), "functions.ptx.gz is not functions.ptx: go generate")
}

// TestGolden holds the texts of a kernel and of one with rows.
func TestGolden(t *testing.T) {
	const f = ndarray.Float32
	p := &tile.Program{Operands: []ndarray.DType{f, f}}
	sum := p.Add(tile.Instr{Op: "Add", DType: f, Args: []tile.Ref{0, 1}})
	p.Store(p.Add(tile.Instr{Op: "ThresholdedRelu", DType: f, Args: []tile.Ref{sum}, Params: []float64{0.5}}))
	rows := &tile.Program{Operands: []ndarray.DType{f, f}, Inner: 1}
	masked := rows.Add(tile.Instr{Op: "Add", DType: f, Args: []tile.Ref{0, 1}})
	rows.Store(rows.Add(tile.Instr{Op: "Softmax", DType: f, Args: []tile.Ref{masked}}))
	for _, c := range []struct {
		file    string
		program *tile.Program
		calls   int
	}{{"golden.ptx", p, 1}, {"goldenrows.ptx", rows, 1}} {
		l, err := c.program.Bind([][]int{{2, 30, 4}, {30, 1}})
		require.NoError(t, err)
		text, err := Program(c.program, l)
		require.NoError(t, err)
		if *update {
			require.NoError(t, os.WriteFile("testdata/"+c.file, []byte(text), 0o644))
		}
		want, err := os.ReadFile("testdata/" + c.file)
		require.NoError(t, err)
		assert.Equal(t, string(want), text)
		assert.Equal(t, c.calls, strings.Count(text, ".func"), "a function that is not called is there")
	}
}

// TestCastsToHalves compares casts to 16-bit floats with those of the operator's reference kernel, bit by bit: values in the middle of two
// results and next to it, where a result that is first rounded to float32 is another; subnormal results, overflow, large integers.
func TestCastsToHalves(t *testing.T) {
	var values []float64
	for _, to := range []struct{ bits, lowest, highest int }{{10, -24, 15}, {7, -133, 127}} { // float16, bfloat16
		for _, exponent := range []int{to.lowest - 2, to.lowest - 1, to.lowest, to.lowest + 1, to.lowest + to.bits, -1, 0, 3, 12, to.highest - 1, to.highest} {
			half := math.Ldexp(1, max(exponent-to.bits-1, to.lowest-1))
			for _, at := range []float64{math.Ldexp(1, exponent), math.Ldexp(2, exponent) - 2*half, math.Ldexp(1.5, exponent)} {
				for _, middle := range []float64{at, at + half, at - half, at + 3*half} {
					for _, beside := range []float64{0, 0x1p-52, -0x1p-52, 0x1p-30, -0x1p-30, 0x1p-20} {
						values = append(values, middle*(1+beside), -middle*(1+beside))
					}
				}
			}
		}
	}
	values = append(values, 0, math.Copysign(0, -1), math.Inf(1), math.Inf(-1), math.MaxFloat64, math.SmallestNonzeroFloat64, math.MaxFloat32, 65519.999, 65520, 1<<24+1,
		1<<31-1, 1<<32-1, 0x1p62+0x1p54+1, 0x1p62+0x1p54-1024, 0x1p63-1024)
	for _, from := range []ndarray.DType{ndarray.Float32, ndarray.Float64, ndarray.Int16, ndarray.Int32, ndarray.Uint32, ndarray.Int64, ndarray.Uint64} {
		x := ndarray.Must(from, len(values))
		for i, v := range values {
			if !from.IsFloat() && math.Abs(v) >= 0x1p63 {
				v = 0
			}
			x.SetFloat(i, v)
		}
		for _, to := range []ndarray.DType{ndarray.Float16, ndarray.BFloat16} {
			g, err := ssa.ParseGraph(fmt.Sprintf("graph \"g\" {\nin %%x: %s[%d]\n%%y = Cast(%%x) [to=%d]\nout %%y\n}", from, x.Len(), to))
			require.NoError(t, err)
			want, err := ops.Interpret(t.Context(), g, []ndarray.Value{x}, nil)
			require.NoError(t, err)
			p := &tile.Program{Operands: []ndarray.DType{from}, Instrs: []tile.Instr{{Op: "Cast", DType: to, Args: []tile.Ref{0}}}, Results: []tile.Result{{Value: 1}}}
			require.NoError(t, p.Check())
			grouped, err := p.Interpret(t.Context(), []*ndarray.Array{x})
			require.NoError(t, err)
			got, err := run(t, p, []*ndarray.Array{x}, -1)
			require.NoError(t, err)
			for i := range x.Len() {
				bits := ndarray.Slice[uint16](want[0].(*ndarray.Array))[i]
				assert.Equal(t, bits, ndarray.Slice[uint16](got[0])[i], "%s %v to %s", from, x.Float(i), to)
				assert.Equal(t, bits, ndarray.Slice[uint16](grouped[0])[i], "%s %v to %s in a group of the host", from, x.Float(i), to)
			}
		}
	}
}
