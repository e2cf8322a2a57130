package ptx

import (
	"bytes"
	"context"
	"encoding/binary"
	"math"
	"math/rand/v2"
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

//go:generate go run ../tools/nvrtc testdata/basic.cu

// bench is a program with memory, for tests.
type bench struct {
	testing.TB
	*Program
	mem *Memory
}

func load(t testing.TB, file string) *bench {
	t.Helper()
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	return loadText(t, string(text))
}

func loadText(t testing.TB, text string) *bench {
	t.Helper()
	m, err := Parse(text)
	require.NoError(t, err)
	p, err := Compile(m)
	require.NoError(t, err)
	return &bench{t, p, NewMemory()}
}

// buffer is an operand of a kernel in global memory.
type buffer struct {
	*Allocation
	access Access
}

// in is an operand with values, out one of n elements that nobody has written.
func in[T any](b *bench, values []T) *buffer {
	var w bytes.Buffer
	require.NoError(b, binary.Write(&w, binary.LittleEndian, values))
	a := b.mem.Alloc(0, w.Bytes())
	require.NoError(b, b.mem.SetWritten(a.Base, w.Len(), true))
	return &buffer{a, Read}
}

func out[T any](b *bench, n int) *buffer {
	return &buffer{b.mem.Alloc(n*binary.Size(*new(T)), nil), Write}
}

func values[T any](b *bench, from *buffer) []T {
	list := make([]T, len(from.Data)/binary.Size(*new(T)))
	require.NoError(b, binary.Read(bytes.NewReader(from.Data), binary.LittleEndian, list))
	at, err := b.mem.Unwritten(from.Base, len(from.Data))
	require.NoError(b, err)
	assert.Equal(b, -1, at, "a byte of the result is unwritten")
	return list
}

// run launches a kernel over n threads; its operands make the windows.
func (b *bench) run(kernel string, grid, block [3]int, operands ...any) *Result {
	b.Helper()
	info, err := b.Info(kernel)
	require.NoError(b, err)
	require.Len(b, operands, len(info.Params))
	l := Launch{Kernel: kernel, Grid: grid, Block: block, Args: make([]byte, info.ArgBytes), Windows: []Window{}, MaxSteps: 1 << 22}
	for i, o := range operands {
		var w bytes.Buffer
		if buf, ok := o.(*buffer); ok {
			l.Windows = append(l.Windows, Window{Name: string(rune('a' + i)), Base: buf.Base, Size: len(buf.Data), Access: buf.access, Arg: int(info.Offsets[i]) + 1})
			o = buf.Base
		}
		require.NoError(b, binary.Write(&w, binary.LittleEndian, o))
		require.EqualValues(b, info.Params[i], w.Len())
		copy(l.Args[info.Offsets[i]:], w.Bytes())
	}
	r, err := b.Launch(context.Background(), b.mem, l)
	require.NoError(b, err)
	return r
}

// must is run without reports.
func (b *bench) must(kernel string, grid, block [3]int, operands ...any) *Result {
	b.Helper()
	r := b.run(kernel, grid, block, operands...)
	require.NoError(b, r.Err())
	return r
}

func line(n int) [3]int { return [3]int{n, 1, 1} }

func uniform(rng *rand.Rand, n int, scale float64) []float32 {
	out := make([]float32, n)
	for i := range out {
		out[i] = float32((rng.Float64()*2 - 1) * scale)
	}
	return out
}

func whole[T int8 | int16 | int32 | uint32](rng *rand.Rand, n int, low, high int) []T {
	out := make([]T, n)
	for i := range out {
		out[i] = T(low + rng.IntN(high-low))
	}
	return out
}

// TestKernels runs kernels that NVRTC compiled against the same formulas in Go.
func TestKernels(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	const n = 1000
	grid, block := line(8), line(128)
	x, y := uniform(rng, n, 4), uniform(rng, n, 4)
	tests := map[string]func(t *testing.T, b *bench){
		"saxpy": func(t *testing.T, b *bench) {
			z := out[float32](b, n)
			b.must("saxpy", grid, block, in(b, x), in(b, y), z, float32(1.5), int32(n))
			for i, v := range values[float32](b, z) {
				require.Equal(t, fma32(1.5, x[i], y[i]), v)
			}
		},
		"collatz": func(t *testing.T, b *bench) {
			start := whole[int32](rng, n, 1, 5000)
			z := out[int32](b, n)
			r := b.must("collatz", grid, block, in(b, start), z, int32(n))
			assert.Positive(t, r.Counts.Divergent)
			for i, v := range values[int32](b, z) {
				s := int32(0)
				for u := start[i]; u != 1 && s < 1000; s++ {
					if u&1 != 0 {
						u = 3*u + 1
					} else {
						u >>= 1
					}
				}
				require.Equal(t, s, v)
			}
		},
		"blocksum": func(t *testing.T, b *bench) { testSum(t, b, "blocksum", x) },
		"warpsum":  func(t *testing.T, b *bench) { testSum(t, b, "warpsum", x) },
		"matmul": func(t *testing.T, b *bench) {
			const m, n = 33, 21
			c := out[float32](b, m*n)
			b.must("matmul", [3]int{2, 3, 1}, [3]int{16, 16, 1}, in(b, x), in(b, append(y, x...)), c, int32(m), int32(n), int32(20))
			for i, v := range values[float32](b, c) {
				sum := float32(0)
				for p := range 20 {
					sum = fma32(x[i/n*20+p], y[p*n+i%n], sum)
				}
				require.Equal(t, sum, v)
			}
		},
		"poly": func(t *testing.T, b *bench) {
			c := []float32{1, -0.5, 0.25, 3, -2, 0.125, 7, 1}
			z := out[float32](b, n)
			b.must("poly", grid, block, in(b, x), z, int32(n))
			for i, v := range values[float32](b, z) {
				want := x[i]
				if i&1 != 0 {
					want = 0
					for _, k := range c[:1+i%8] {
						want = fma32(want, x[i], k)
					}
				}
				require.Equal(t, want, v)
			}
		},
		"sortrow": func(t *testing.T, b *bench) {
			list := whole[int32](rng, 8*n, 0, 100)
			z := out[int32](b, 8*n)
			b.must("sortrow", grid, block, in(b, list), z, int32(n))
			for i, v := range values[int32](b, z) {
				row := sortedCopy(list[i/8*8 : i/8*8+8])
				require.Equal(t, row[(i%8+int(list[i/8*8]))&7], v)
			}
		},
		"histogram": func(t *testing.T, b *bench) {
			list := whole[int32](rng, n, 0, 1<<20)
			bins := in(b, make([]int32, 16))
			bins.access = ReadWrite
			b.must("histogram", grid, block, in(b, list), bins, int32(n))
			var want [16]int32
			for _, v := range list {
				want[v&15]++
			}
			assert.Equal(t, want[:], values[int32](b, bins))
		},
		"special": func(t *testing.T, b *bench) { testSpecial(t, b, x) },
		"dot4": func(t *testing.T, b *bench) {
			u, v := whole[int8](rng, 16*n, -128, 128), whole[int8](rng, 16*n, -128, 128)
			z := out[int32](b, n)
			b.must("dot4", grid, block, in(b, u), in(b, v), z, int32(n))
			for i, got := range values[int32](b, z) {
				want := int32(0)
				for j := range 16 {
					if p, q := u[16*i+j], v[16*i+j]; j < 12 {
						want += int32(p) * int32(q)
					} else {
						want += int32(uint8(p)) * int32(uint8(q))
					}
				}
				require.Equal(t, want, got)
			}
		},
		"cases": func(t *testing.T, b *bench) {
			list := whole[int32](rng, n, -2, 9)
			z := out[int32](b, n)
			b.must("cases", grid, block, in(b, list), z, int32(n))
			for i, got := range values[int32](b, z) {
				v := list[i]
				want := []int32{v * 3, v - 1000, 0, v << 7, -v, v * v * v, ^v, 42, 42, 42, 42}[uint32(v)%11]
				if v < 0 {
					want = 42
				} else if v == 2 {
					want = n / (v + 1)
				}
				require.Equal(t, want, got)
			}
		},
		"strided": func(t *testing.T, b *bench) {
			list := whole[int16](rng, 24, -300, 300)
			shape := struct{ Rank, D0, D1, D2, D3, S0, S1, S2, S3 int32 }{3, 4, 2, 3, 0, 1, 12, 4, 0}
			z := out[int16](b, 24)
			b.must("strided", line(1), line(32), in(b, list), z, shape, int32(24))
			for i, got := range values[int16](b, z) {
				require.Equal(t, list[i/6+i/3%2*12+i%3*4], got)
			}
		},
		"doubles": func(t *testing.T, b *bench) {
			list := make([]float64, n)
			for i := range list {
				list[i] = rng.Float64() * 20
			}
			z, k := out[float64](b, n), out[int64](b, n)
			b.must("doubles", grid, block, in(b, list), z, k, int32(n))
			whole := values[int64](b, k)
			for i, got := range values[float64](b, z) {
				require.InDelta(t, math.Sqrt(list[i])/3+math.Exp(-list[i]), got, 1e-15*(1+math.Abs(got)))
				require.Equal(t, int64(list[i]*1e6)%1234567+int64(math.Floor(-list[i])), whole[i])
			}
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) { test(t, load(t, "testdata/basic.ptx")) })
	}
}

func sortedCopy(list []int32) []int32 {
	out := append([]int32{}, list...)
	for i := range out {
		for j := i; j > 0 && out[j-1] > out[j]; j-- {
			out[j-1], out[j] = out[j], out[j-1]
		}
	}
	return out
}

func testSum(t *testing.T, b *bench, kernel string, x []float32) {
	z := out[float32](b, 4)
	b.must(kernel, line(4), line(256), in(b, x), z, int32(len(x)))
	for i, got := range values[float32](b, z) {
		want := 0.0
		for _, v := range x[i*256 : min(len(x), i*256+256)] {
			want += float64(v)
		}
		require.InDelta(t, want, got, 256*4*0x1p-24*8) // eight roundings of sums up to 1024
	}
}

func testSpecial(t *testing.T, b *bench, x []float32) {
	z := out[float32](b, 12*len(x))
	b.must("special", line(8), line(128), in(b, x), z, int32(len(x)))
	got := values[float32](b, z)
	for i, v32 := range x {
		v := float64(v32)
		want := []float64{math.Exp(v), math.Log(math.Abs(v) + 1), math.Tanh(v), math.Erf(v), math.Sqrt(math.Abs(v)), 1 / (v + 100),
			math.Sin(v), math.Cos(v), math.Pow(math.Abs(v), 1.5), math.Floor(v) + math.RoundToEven(v)*math.Ceil(v), math.Mod(v, 1.5),
			1 / math.Sqrt(math.Abs(v)+1)}
		for j, w := range want {
			// The largest error that CUDA documents for these is 4 units in the last place (powf), beside the rounding of operands.
			require.InDelta(t, w, got[12*i+j], 8*0x1p-23*math.Max(math.Abs(w), 0x1p-3), "function %d of %v", j, v)
		}
	}
}
