package kernels

import (
	"errors"
	"fmt"
	"math/rand"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth/backend/cuda/internal/emit"
	"github.com/berth-onnx/berth/internal/tile"
	"github.com/berth-onnx/berth/internal/tile/tiletest"
	"github.com/berth-onnx/berth/ndarray"
)

// packed collects emitted kernels in one module, so that ptxas is called once for all of them.
type packed struct {
	t       *testing.T
	shared  []string // functions and tables that kernels have in common
	kernels []string
	names   map[string]string // of programs, by kernel
}

// add takes the kernel of a module, with what it calls; what cannot be written as a kernel is left out.
func (p *packed) add(name, text string, err error) {
	if no := (*emit.UnsupportedError)(nil); errors.As(err, &no) {
		return
	}
	require.NoError(p.t, err, name)
	before, kernel, found := strings.Cut(strings.TrimPrefix(text, emit.Header), ".visible .entry ")
	require.True(p.t, found, name)
	for _, part := range strings.SplitAfter(before, "\n}\n") {
		for _, line := range strings.SplitAfter(part, "\n") { // tables stand before the functions that read them
			if strings.HasPrefix(line, ".global") {
				p.share(line)
				part = strings.Replace(part, line, "", 1)
			}
		}
		p.share(part)
	}
	own := fmt.Sprintf("k%d", len(p.kernels))
	_, kernel, _ = strings.Cut(kernel, "(")
	p.kernels = append(p.kernels, ".visible .entry "+own+"("+kernel)
	p.names[own] = name
}

func (p *packed) share(part string) {
	if part != "" && !slices.Contains(p.shared, part) {
		p.shared = append(p.shared, part)
	}
}

// program adds the kernel of a program over operands of some shapes.
func (p *packed) program(name string, x *tile.Program, shapes ...[]int) {
	require.NoError(p.t, x.Check(), name)
	l, err := x.Bind(shapes)
	require.NoError(p.t, err, name)
	text, err := emit.Program(x, l)
	p.add(name, text, err)
}

// shapesOf are operands of a result of three dimensions, each broadcast in another way.
func shapesOf(n int) (out [][]int) {
	ways := [][]int{{6, 40, 33}, {33}, {40, 1}, {6, 1, 33}, {}, {6, 40, 33}, {1, 40, 33}}
	for i := range n {
		out = append(out, ways[i%len(ways)])
	}
	return out
}

// longest is a program with as many operators and operands as groups have at most, of which many are needed until the end: functions of all
// operands, their sum, with reductions of rows if there are any, and functions of that. Results are the last value and three of the first.
func longest(dt ndarray.DType, hasRows, isEpilogue bool) *tile.Program {
	const operands, members = 12, 32
	p := &tile.Program{Operands: slices.Repeat([]ndarray.DType{dt}, operands)}
	do := func(op tile.Op, args ...tile.Ref) tile.Ref { return p.Add(tile.Instr{Op: op, DType: dt, Args: args}) }
	functions := []tile.Op{"Exp", "Tanh", "Erf", "Gelu", "Sigmoid", "Cos", "Softplus", "Sqrt"}
	var first []tile.Ref
	for i := range operands {
		first = append(first, do(functions[i%len(functions)], tile.Ref(i)))
	}
	sum := first[0]
	for _, v := range first[1:] {
		sum = do("Add", sum, v)
	}
	if hasRows {
		p.Inner = 1
		most := p.Add(tile.Instr{Op: "ReduceMax", DType: dt, Args: []tile.Ref{sum}, Row: true})
		shifted := do("Exp", do("Sub", sum, most))
		sum = do("Div", shifted, p.Add(tile.Instr{Op: "ReduceSum", DType: dt, Args: []tile.Ref{shifted}, Row: true}))
	}
	for i := 0; len(p.Instrs) < members-1; i++ {
		sum = do(functions[i%len(functions)], sum)
	}
	sum = do("Mul", sum, first[len(first)-1])
	p.Store(sum)
	if !isEpilogue {
		for _, v := range first[:3] {
			p.Store(v)
		}
	}
	return p
}

// ten is a program of ten operators over the result of a product, a residual of its shape, and numbers of each row and column.
func ten(dt ndarray.DType) *tile.Program {
	p := &tile.Program{Operands: slices.Repeat([]ndarray.DType{dt}, 5)}
	v := tile.Ref(0)
	for i, op := range []tile.Op{"Add", "Tanh", "Mul", "Gelu", "Sub", "Sigmoid", "Max", "HardSwish", "Add", "Softplus"} {
		args := []tile.Ref{v}
		if i%2 == 0 {
			args = append(args, tile.Ref(1+i/2%4))
		}
		v = p.Add(tile.Instr{Op: op, DType: dt, Args: args})
	}
	p.Store(v)
	return p
}

// types are all that operands may have; emission refuses some.
var types = []ndarray.DType{ndarray.Float32, ndarray.Float64, ndarray.Float16, ndarray.BFloat16, ndarray.Int8, ndarray.Int16, ndarray.Int32, ndarray.Int64,
	ndarray.Uint8, ndarray.Uint16, ndarray.Uint32, ndarray.Uint64, ndarray.Bool}

// singles are the kernels of one operator each.
func (p *packed) singles() {
	for _, c := range tiletest.Singles(types) {
		p.program(c.Name, c.Program, shapesOf(len(c.Program.Operands))...)
	}
}

// groups are kernels of many operators: the largest, and drawn ones.
func (p *packed) groups() {
	for _, dt := range []ndarray.DType{ndarray.Float32, ndarray.Float16, ndarray.BFloat16} {
		p.program(fmt.Sprint("the longest group of ", dt), longest(dt, false, false), shapesOf(12)...)
	}
	p.program("the longest group with rows", longest(ndarray.Float32, true, false), shapesOf(12)...)
	r := rand.New(rand.NewSource(5))
	for i := range 60 {
		d := tiletest.Draw(r, []int{6, 40, 33}, 8+i%25)
		p.program(fmt.Sprintf("drawn group %d\n%s", i, d.Program), d.Program, d.Shapes...)
	}
}

// mostOperators names epilogues that are as long as any may be. Their functions are called with up to 12 values alive beside those of the
// kernel; calls preserve a part of the registers, so that the compiler may keep two values in memory while functions run.
const (
	mostOperators = "the most operators"
	mostSpilled   = 8 // bytes
)

// epilogues are the kernels of products with ten operators, and with the most, behind them.
func (p *packed) epilogues() {
	for dt, f := range map[ndarray.DType]Floats{ndarray.Float32: Float32, ndarray.Float16: Float16, ndarray.BFloat16: BFloat16} {
		for _, entry := range []string{"gemm", "few", "gemv", "conv", "depthwise"} {
			text, err := Text(entry + string(f))
			require.NoError(p.t, err)
			for name, x := range map[string]*tile.Program{"ten operators": ten(dt), mostOperators: longest(dt, false, true)} {
				if name != mostOperators && f == BFloat16 {
					continue // as float16, and most of the time of all these kernels
				}
				l, err := x.Bind(shapesOf(len(x.Operands)))
				require.NoError(p.t, err)
				spliced, err := emit.Epilogue(text, x, l)
				p.add(fmt.Sprintf("%s%s with %s", entry, f, name), spliced, err)
			}
		}
	}
}

// TestPtxasEmitted compiles what package emit writes for every architecture: every operator of every type, and the longest groups and epilogues.
func TestPtxasEmitted(t *testing.T) {
	ptxas := os.Getenv("BERTH_PTXAS")
	if ptxas == "" {
		t.Skip("BERTH_PTXAS names no ptxas of CUDA 12.8 (the wheel nvidia-cuda-nvcc-cu12==12.8.93 of PyPI has one)")
	}
	for _, c := range []struct {
		name  string
		fill  func(*packed)
		least int // kernels
	}{{"singles", (*packed).singles, 541}, {"groups", (*packed).groups, 54}, {"epilogues", (*packed).epilogues, 25}} {
		t.Run(c.name, func(t *testing.T) {
			p := &packed{t: t, names: map[string]string{}}
			c.fill(p)
			require.GreaterOrEqual(t, len(p.kernels), c.least)
			file := filepath.Join(t.TempDir(), "all.ptx")
			require.NoError(t, os.WriteFile(file, []byte(emit.Header+strings.Join(append(p.shared, p.kernels...), "")), 0o644))
			var wait sync.WaitGroup
			for _, a := range architectures {
				wait.Add(1)
				go func() {
					defer wait.Done()
					out, err := exec.Command(ptxas, "-v", "-arch", fmt.Sprintf("sm_%d", a.name), file, "-o", file+fmt.Sprint(a.name)).CombinedOutput()
					if !assert.NoError(t, err, "sm_%d: %s", a.name, out) {
						return
					}
					found := compiled(t, string(out))
					assert.Len(t, found, len(p.kernels))
					most := needs{}
					for k, n := range found {
						limit := 0
						if strings.HasSuffix(p.names[k], mostOperators) {
							limit = mostSpilled
						}
						assert.LessOrEqual(t, n.spilled, limit, "sm_%d, bytes spilled: %s", a.name, p.names[k])
						most.registers, most.stack = max(most.registers, n.registers), max(most.stack, n.stack)
					}
					t.Logf("sm_%d: %d kernels, at most %d registers and %d bytes of stack", a.name, len(found), most.registers, most.stack)
				}()
			}
			wait.Wait()
		})
	}
}
