package kernels

import (
	"encoding/binary"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth/backend/cuda/internal/device"
	"github.com/berth-onnx/berth/backend/cuda/internal/sim"
	"github.com/berth-onnx/berth/internal/ptx"
	"github.com/berth-onnx/berth/ndarray"
)

// bench has the kernels on the interpreter. Operands have windows of their very size, and results count as unwritten.
type bench struct {
	testing.TB
	*Set
	d   *sim.Device
	rng *rand.Rand
}

func newBench(t testing.TB) *bench {
	d := sim.New(sim.Options{Errors: 1})
	s, err := Load(d)
	require.NoError(t, err)
	return &bench{t, s, d, rand.New(rand.NewPCG(11, 12))}
}

// on is the bench of a test within the test, which draws the same numbers whatever the order of tests.
func (b *bench) on(t *testing.T) *bench { return &bench{t, b.Set, b.d, rand.New(rand.NewPCG(11, 12))} }

func (b *bench) alloc(bytes int) Operand {
	p, err := b.d.Alloc(int64(bytes))
	require.NoError(b, err)
	return Operand{p, int64(bytes)}
}

func in[T any](b *bench, list []T) Operand {
	data, err := binary.Append(nil, binary.LittleEndian, list)
	require.NoError(b, err)
	o := b.alloc(len(data))
	require.NoError(b, b.d.CopyIn(o.Base, data))
	return o
}

func (b *bench) floats(n int) []float32 {
	out := make([]float32, n)
	for i := range out {
		out[i] = float32(b.rng.NormFloat64())
	}
	return out
}

// run launches and gives the result, every byte of which must be written.
func run[T any](b *bench, y Operand, l *device.Launch, err error) []T {
	b.Helper()
	require.NoError(b, err)
	require.NoError(b, b.d.Launch(l))
	return read[T](b, y)
}

func read[T any](b *bench, o Operand) []T {
	data := make([]byte, o.Bytes)
	require.NoError(b, b.d.CopyOut(data, o.Base))
	out := make([]T, len(data)/binary.Size(*new(T)))
	_, err := binary.Decode(data, binary.LittleEndian, out)
	require.NoError(b, err)
	return out
}

// everyFloats are the types of floats, with what rounding to them makes of an element: the largest relative error, and that near zero.
var everyFloats = map[Floats]struct{ relative, least float64 }{Float32: {}, Float16: {0x1p-11, 0x1p-25}, BFloat16: {0x1p-8, 0}}

// slack is the error of an element that is rounded to a type when it is stored.
func (f Floats) slack(v float64) float64 {
	return everyFloats[f].relative*math.Abs(v) + everyFloats[f].least
}

// put uploads floats of a type, and rounds the list to it.
func (b *bench) put(f Floats, list []float32) Operand {
	bits := make([]uint16, len(list))
	for i, v := range list {
		switch f {
		case Float16:
			bits[i] = ndarray.F32ToF16(v)
			list[i] = ndarray.F16ToF32(bits[i])
		case BFloat16:
			bits[i] = ndarray.F32ToBF16(v)
			list[i] = ndarray.BF16ToF32(bits[i])
		}
	}
	if f == Float32 {
		return in(b, list)
	}
	return in(b, bits)
}

// floatsOf is run for floats of a type.
func (b *bench) floatsOf(f Floats, y Operand, l *device.Launch, err error) []float32 {
	b.Helper()
	if f == Float32 {
		return run[float32](b, y, l, err)
	}
	var out []float32
	for _, v := range run[uint16](b, y, l, err) {
		if f == Float16 {
			out = append(out, ndarray.F16ToF32(v))
		} else {
			out = append(out, ndarray.BF16ToF32(v))
		}
	}
	return out
}

// unit is the rounding error of one operation of float32.
const unit = 0x1p-24

// TestEntries holds the list of kernels against the modules.
func TestEntries(t *testing.T) {
	listed, err := files.ReadDir(".")
	require.NoError(t, err)
	require.Len(t, listed, len(entries))
	for file, want := range entries {
		text, err := texts[file]()
		require.NoError(t, err)
		committed, err := os.ReadFile(file + ".ptx")
		require.NoError(t, err)
		require.True(t, text == string(committed), "%s.ptx.gz is not %s.ptx: go generate", file, file)
		m, err := ptx.Parse(text)
		require.NoError(t, err)
		p, err := ptx.Compile(m)
		require.NoError(t, err)
		assert.ElementsMatch(t, want, p.Kernels(), file)
	}
}

func TestGemm(t *testing.T) {
	b := newBench(t)
	for f := range everyFloats {
		t.Run("floats"+string(f), func(t *testing.T) { b.on(t).products(f) })
	}
}

// products compares products of fixed and of drawn sizes, in every order of the factors' elements.
func (b *bench) products(f Floats) {
	sizes := [][4]int{{1, 1, 1, 1}, {64, 64, 16, 1}, {65, 3, 17, 2}, {7, 130, 33, 3}, {100, 70, 1, 1}, {1, 70, 33, 2}, {1, 5, 300, 1}, {9, 1, 40, 2}, {70, 1, 129, 1},
		{2, 2, 1, 1}, {2, 33, 130, 2}, {16, 100, 65, 1}, {17, 31, 64, 1}, {32, 32, 5, 1}, {33, 35, 20, 2}, {90, 4, 70, 1}, {35, 16, 3, 2}}
	for range 6 {
		sizes = append(sizes, [4]int{1 + b.rng.IntN(40), 1 + b.rng.IntN(80), 1 + b.rng.IntN(150), 1 + b.rng.IntN(3)})
	}
	for _, size := range sizes {
		for form := range 16 {
			m, n, k, batch := size[0], size[1], size[2], size[3]
			g := Gemm{M: int32(m), N: int32(n), K: int32(k), Alpha: 0.5, Beta: 2, CBatch: int64(m * n)}
			g.ARow, g.AColumn, g.ABatch = int64(k), 1, int64(m*k)
			if form&1 != 0 {
				g.ARow, g.AColumn = 1, int64(m)
			}
			g.BRow, g.BColumn = int64(n), 1 // the same for all of the batch
			if form&2 != 0 {
				g.BRow, g.BColumn = 1, int64(k)
			}
			x, y, bias := b.floats(batch*m*k), b.floats(k*n), []float32{0}
			var biasAt Operand
			if form&4 != 0 {
				bias = b.floats(n)
				biasAt, g.HasBias, g.BiasColumn = b.put(f, bias), 1, 1
			}
			if form&12 == 12 {
				bias = b.floats(m)
				biasAt, g.BiasRow, g.BiasColumn = b.put(f, bias), 1, 0
			}
			c := b.alloc(int(f.Size()) * batch * m * n)
			l, err := b.Of(f).Gemm(g, int64(batch), b.put(f, x), b.put(f, y), biasAt, c)
			for i, got := range b.floatsOf(f, c, l, err) {
				row, col, z := int64(i/n%m), int64(i%n), int64(i/n/m)
				sum, size := 0.0, 0.0
				for p := range int64(k) {
					v := float64(x[z*g.ABatch+row*g.ARow+p*g.AColumn]) * float64(y[p*g.BRow+col*g.BColumn])
					sum, size = sum+v, size+math.Abs(v)
				}
				add := 2 * float64(bias[int32(row)*g.BiasRow+int32(col)*g.BiasColumn])
				// k roundings of sums of products, three of scale and bias
				require.InDelta(b, sum/2+add, got, unit*(float64(k+3)*size+3*math.Abs(add))+f.slack(sum/2+add), "%v, form %d, element %d", size, form, i)
			}
		}
	}
}

// TestFewRows: a product of few rows, or columns, executes no more than twice the operations that it needs.
func TestFewRows(t *testing.T) {
	b := newBench(t)
	worst := 0.0
	for m := 2; m <= 64; m++ {
		for _, size := range [][2]int{{64, 64}, {130, 200}, {257, 64}} {
			n, k := size[0], size[1]
			if m > fewRows && n%64 != 0 {
				continue // of the tile's columns some are none of the matrix
			}
			for _, isTransposed := range []bool{false, true} {
				g := Gemm{M: int32(m), N: int32(n), K: int32(k), ARow: int64(k), AColumn: 1, BRow: int64(n), BColumn: 1, Alpha: 1}
				if isTransposed {
					g.M, g.N, g.BRow = g.N, g.M, int64(m)
				}
				before := b.d.Work().Operations
				l, err := b.Gemm(g, 1, in(b, b.floats(int(g.M)*k)), in(b, b.floats(k*int(g.N))), Operand{}, b.alloc(4*m*n))
				require.NoError(t, err)
				require.NoError(t, b.d.Launch(l))
				ratio := float64(b.d.Work().Operations-before) / float64(2*m*n*k)
				require.LessOrEqual(t, ratio, 2.0, "%d×%d×%d by %s", g.M, g.N, k, g.Entry())
				worst = max(worst, ratio)
			}
		}
	}
	t.Logf("at most %.2f times", worst)
}

func (p Window2D) sized(height, width int32) Window2D {
	p.Height, p.Width = height, width
	p.OutHeight = (height+2*p.PadY-p.DilationY*(p.FilterHeight-1)-1)/p.StrideY + 1
	p.OutWidth = (width+2*p.PadX-p.DilationX*(p.FilterWidth-1)-1)/p.StrideX + 1
	return p
}

// taps calls f with the place in x and in the filter of what one result reads of a channel.
func (p Window2D) taps(pixel int, f func(at, tap int)) {
	oy, ox := int32(pixel)/p.OutWidth, int32(pixel)%p.OutWidth
	for r := range p.FilterHeight {
		for s := range p.FilterWidth {
			row, col := oy*p.StrideY-p.PadY+r*p.DilationY, ox*p.StrideX-p.PadX+s*p.DilationX
			if row >= 0 && row < p.Height && col >= 0 && col < p.Width {
				f(int(row*p.Width+col), int(r*p.FilterWidth+s))
			}
		}
	}
}

var windows = map[string]Window2D{
	"1x1":         Window2D{Batch: 2, Groups: 1, Channels: 5, Outputs: 66, FilterHeight: 1, FilterWidth: 1, StrideY: 1, StrideX: 1, DilationY: 1, DilationX: 1}.sized(5, 3),
	"3x3":         Window2D{Batch: 1, Groups: 1, Channels: 3, Outputs: 4, FilterHeight: 3, FilterWidth: 3, StrideY: 1, StrideX: 1, PadY: 1, PadX: 1, DilationY: 1, DilationX: 1}.sized(9, 10),
	"strides":     Window2D{Batch: 1, Groups: 1, Channels: 4, Outputs: 2, FilterHeight: 3, FilterWidth: 5, StrideY: 2, StrideX: 3, PadY: 0, PadX: 2, DilationY: 2, DilationX: 1}.sized(11, 13),
	"groups":      Window2D{Batch: 2, Groups: 3, Channels: 2, Outputs: 5, FilterHeight: 2, FilterWidth: 2, StrideY: 1, StrideX: 1, PadX: 1, DilationY: 1, DilationX: 1}.sized(6, 7),
	"depthwise":   Window2D{Batch: 2, Groups: 4, Channels: 1, Outputs: 1, FilterHeight: 3, FilterWidth: 3, StrideY: 2, StrideX: 2, PadY: 1, PadX: 1, DilationY: 1, DilationX: 1}.sized(17, 19),
	"two a group": Window2D{Batch: 1, Groups: 3, Channels: 1, Outputs: 2, FilterHeight: 5, FilterWidth: 1, StrideY: 1, StrideX: 1, PadY: 2, DilationY: 1, DilationX: 1}.sized(8, 4),
}

// window is a case.
type window struct {
	name string
	Window2D
}

// drawn adds windows of random sizes.
func drawn(rng *rand.Rand) (out []window) {
	for _, name := range slices.Sorted(maps.Keys(windows)) {
		out = append(out, window{name, windows[name]})
	}
	upTo := func(n int) int32 { return 1 + rng.Int32N(int32(n)) }
	for i := range 6 {
		p := Window2D{Batch: upTo(2), Groups: upTo(3), Channels: upTo(4), Outputs: upTo(6), FilterHeight: upTo(3), FilterWidth: upTo(3),
			StrideY: upTo(2), StrideX: upTo(3), PadY: upTo(2) - 1, PadX: upTo(2) - 1, DilationY: upTo(2), DilationX: upTo(2)}
		out = append(out, window{fmt.Sprint("drawn ", i), p.sized(5+upTo(9), 5+upTo(12))})
	}
	return out
}

func TestConv(t *testing.T) {
	b := newBench(t)
	for _, c := range drawn(b.rng) {
		for f := range everyFloats {
			t.Run(c.name+string(f), func(t *testing.T) { b.on(t).convolution(f, c.Window2D) })
		}
	}
}

func (b *bench) convolution(f Floats, p Window2D) {
	var biasAt Operand
	bias := make([]float32, p.Groups*p.Outputs)
	if p.Batch == 2 {
		p.HasBias, bias = 1, b.floats(len(bias))
		biasAt = b.put(f, bias)
	}
	plane, pixels, taps := int(p.Height*p.Width), int(p.OutHeight*p.OutWidth), int(p.FilterHeight*p.FilterWidth)
	channels, outputs, groups := int(p.Channels), int(p.Outputs), int(p.Groups)
	x, w := b.floats(int(p.Batch)*groups*channels*plane), b.floats(groups*outputs*channels*taps)
	y := b.alloc(int(f.Size()) * int(p.Batch) * groups * outputs * pixels)
	l, err := b.Of(f).Conv(p, b.put(f, x), b.put(f, w), biasAt, y)
	for i, got := range b.floatsOf(f, y, l, err) {
		out, image := i/pixels%(groups*outputs), i/pixels/(groups*outputs)
		sum, size, n := float64(bias[out]), math.Abs(float64(bias[out])), 0
		for c := range channels {
			from := ((image*groups+out/outputs)*channels + c) * plane
			p.taps(i%pixels, func(at, tap int) {
				v := float64(x[from+at]) * float64(w[(out*channels+c)*taps+tap])
				sum, size, n = sum+v, size+math.Abs(v), n+1
			})
		}
		require.InDelta(b, sum, got, unit*float64(n+2)*size+f.slack(sum), "element %d", i)
	}
}

func TestPool(t *testing.T) {
	b := newBench(t)
	for _, p := range drawn(b.rng) {
		for form := range 9 {
			f := []Floats{Float32, Float16, BFloat16}[form/3]
			t.Run(fmt.Sprint(p.name, f, form%3), func(t *testing.T) {
				b := b.on(t)
				plane, pixels := int(p.Height*p.Width), int(p.OutHeight*p.OutWidth)
				x := b.floats(int(p.Batch*p.Groups) * plane)
				y := b.alloc(int(f.Size()) * int(p.Batch*p.Groups) * pixels)
				l, err := b.Of(f).Pool(p.Window2D, form%3 > 0, form%3 == 2, b.put(f, x), y)
				for i, got := range b.floatsOf(f, y, l, err) {
					most, sum, size, n := math.Inf(-1), 0.0, 0.0, 0
					p.taps(i%pixels, func(at, _ int) {
						v := float64(x[i/pixels*plane+at])
						most, sum, size, n = max(most, v), sum+v, size+math.Abs(v), n+1
					})
					switch form % 3 {
					case 0:
						require.EqualValues(t, most, got)
					case 1:
						require.InDelta(t, sum/float64(n), got, unit*2*size+f.slack(sum/float64(n)))
					default:
						whole := sum / float64(p.FilterHeight*p.FilterWidth)
						require.InDelta(t, whole, got, unit*2*size+f.slack(whole))
					}
				}
			})
		}
	}
}

func TestRows(t *testing.T) {
	b := newBench(t)
	for f := range everyFloats {
		t.Run("floats"+string(f), func(t *testing.T) { b.on(t).rows(t, f) })
	}
}

func (b *bench) rows(t *testing.T, f Floats) {
	for _, n := range []int{1, 31, 128, 300, 1000} {
		const rows = 3
		x, scale, bias := b.floats(rows*n), b.floats(n), b.floats(n)
		at, y, one := b.put(f, x), b.alloc(int(f.Size())*rows*n), b.alloc(int(f.Size())*rows)
		depth := float64(n/128 + 1 + 5 + 3) // sums that a value goes through
		for _, isLog := range []bool{false, true} {
			l, err := b.Of(f).Softmax(rows, int32(n), 1, isLog, at, y)
			for i, got := range b.floatsOf(f, y, l, err) {
				row, sum, most := x[i/n*n:i/n*n+n], 0.0, math.Inf(-1)
				for _, v := range row {
					most = max(most, float64(v))
				}
				for _, v := range row {
					sum += math.Exp(float64(v) - most)
				}
				shifted := float64(x[i]) - most
				if isLog {
					require.InDelta(t, shifted-math.Log(sum), got, unit*(depth+8)*(1+math.Abs(shifted)+math.Log(sum))+f.slack(shifted-math.Log(sum)))
				} else { // expf: 2 units in the last place, for an argument rounded once
					want := math.Exp(shifted) / sum
					require.InDelta(t, want, got, unit*want*(2*depth+12+math.Abs(shifted))+f.slack(want))
				}
			}
		}
		scaleAt := b.put(f, scale)
		for _, biasAt := range []Operand{{}, b.put(f, bias)} {
			l, err := b.Of(f).Normalize(rows, Norm{N: int32(n), Groups: 1, Span: 1, Centers: 1, Epsilon: 1e-3}, at, scaleAt, biasAt, y, Operand{}, Operand{})
			for i, got := range b.floatsOf(f, y, l, err) {
				row, mean, variance, size := x[i/n*n:i/n*n+n], 0.0, 0.0, 0.0
				for _, v := range row {
					mean, size = mean+float64(v)/float64(n), size+math.Abs(float64(v))/float64(n)
				}
				for _, v := range row {
					variance += (float64(v) - mean) * (float64(v) - mean) / float64(n)
				}
				factor := 1 / math.Sqrt(variance+1e-3)
				want := (float64(x[i]) - mean) * factor * float64(scale[i%n])
				if biasAt.Base != 0 {
					want += float64(bias[i%n])
				}
				// an error of the mean, and a relative one of the factor
				require.InDelta(t, want, got, unit*(2*depth+16)*(math.Abs(want)+math.Abs(float64(bias[i%n]))+size*factor*math.Abs(float64(scale[i%n])))+f.slack(want))
			}
		}
		for how, step := range map[string]func(a, b float64) float64{
			"sum": func(a, b float64) float64 { return a + b }, "product": func(a, b float64) float64 { return a * b },
			"max": math.Max, "min": math.Min,
		} {
			l, err := b.Of(f).Reduce(how, rows, Reduction{Rows: View{Rank: 1, Dims: [8]int32{rows}, Strides: [8]int32{int32(n)}}, Row: View{Rank: 1, Dims: [8]int32{int32(n)}, Strides: [8]int32{1}}, N: int32(n), Scale: 1}, at, one)
			for r, got := range b.floatsOf(f, one, l, err) {
				want, size := float64(x[r*n]), 0.0
				for i, v := range x[r*n : r*n+n] {
					if size += math.Abs(float64(v)); i > 0 {
						want = step(want, float64(v))
					}
				}
				limit := map[string]float64{"sum": unit * depth * size, "product": unit*float64(n)*math.Abs(want) + 0x1p-126}[how]
				require.InDelta(t, want, got, limit+f.slack(want), how)
			}
		}
	}
}

func TestMoves(t *testing.T) {
	b := newBench(t)
	x := make([]uint64, 2*3*4*5)
	for i := range x {
		x[i] = b.rng.Uint64()
	}
	// transposed, one axis backwards, one repeated
	v := View{Rank: 4, Start: 4, Dims: [8]int32{5, 2, 2, 3}, Strides: [8]int32{-1, 0, 60, 20}}
	t.Run("view", func(t *testing.T) {
		y1, y8 := b.alloc(60), b.alloc(480)
		narrow := make([]uint8, len(x))
		for i := range x {
			narrow[i] = uint8(x[i])
		}
		l, err := b.Copy(8, v, in(b, x), y8)
		wide := run[uint64](b, y8, l, err)
		l, err = b.Copy(1, v, in(b, narrow), y1)
		for i, got := range run[uint8](b, y1, l, err) {
			want := x[4-i/12+i/3%2*60+i%3*20]
			require.Equal(t, want, wide[i])
			require.Equal(t, uint8(want), got)
		}
		_, err = b.Copy(3, v, Operand{}, Operand{})
		require.ErrorContains(t, err, "of 3 bytes")
	})
	t.Run("transpose", func(t *testing.T) {
		const batch, rows, columns = 2, 37, 65
		list := b.floats(batch * rows * columns)
		y := b.alloc(4 * len(list))
		l, err := b.Transpose(batch, rows, columns, in(b, list), y)
		for i, got := range run[float32](b, y, l, err) {
			z, r, c := i/rows/columns, i%rows, i/rows%columns
			require.Equal(t, list[(z*rows+r)*columns+c], got)
		}
	})
	t.Run("gather", func(t *testing.T) {
		half := make([]uint16, len(x))
		for i := range half {
			half[i] = uint16(x[i])
		}
		index, status := []int64{3, -1, 0, -4, 2}, in(b, []Status{{}})
		y := b.alloc(2 * 6 * 5 * 5)
		l, err := b.Gather(2, true, 6, 4, 5, 5, in(b, half), in(b, index), y, status, 3)
		for i, got := range run[uint16](b, y, l, err) {
			k := (index[i/5%5] + 4) % 4
			require.Equal(t, half[i/25*20+int(k)*5+i%5], got)
		}
		require.Equal(t, []Status{{}}, read[Status](b, status))
		for i, outside := range []int64{4, -5, math.MaxInt64, math.MinInt64} {
			status := in(b, []Status{{}})
			l, err = b.Gather(2, true, 6, 4, 2, 5, in(b, half), in(b, []int64{1, outside}), y, status, uint32(i+1))
			run[uint16](b, Operand{y.Base, 2 * 6 * 2 * 5}, l, err)
			require.Equal(t, []Status{{Launch: uint32(i + 1), Index: outside}}, read[Status](b, status))
		}
	})
	t.Run("a window one element too small", func(t *testing.T) {
		at, y := in(b, x), b.alloc(480)
		at.Bytes -= 480
		l, err := b.Copy(8, v, at, y)
		require.NoError(t, err)
		var report *ptx.Report
		require.ErrorAs(t, b.d.Launch(l), &report)
		assert.Equal(t, ptx.OutOfBounds, report.Kind)
		_, err = b.Transpose(1<<31, 1, 1, at, y)
		require.ErrorContains(t, err, "grid")
	})
}

// TestAddresses: every address of every kernel is computed from a parameter, so that its accesses are held to that operand.
func TestAddresses(t *testing.T) {
	for file, names := range entries {
		text, err := texts[file]()
		require.NoError(t, err)
		m, err := ptx.Parse(text)
		require.NoError(t, err)
		p, err := ptx.Compile(m)
		require.NoError(t, err)
		for _, name := range names {
			info, err := p.Info(name)
			require.NoError(t, err)
			assert.Empty(t, info.Untraced, "lines of %s", name)
		}
	}
}
