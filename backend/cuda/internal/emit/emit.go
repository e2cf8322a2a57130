// Package emit writes tile programs, the arithmetic of fused groups, as kernels in PTX: one thread computes one element of all
// results. It knows nothing of devices.
package emit

import (
	"compress/gzip"
	_ "embed"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"

	"github.com/berth-onnx/berth/internal/tile"
	"github.com/berth-onnx/berth/ndarray"
)

// compressed holds, one by one, the functions that kernels call.
//
//go:generate go run ../../../../internal/tools/nvrtc -gzip functions.cu
//go:embed functions.ptx.gz
var compressed string

// functions is their text; a test compares it with that which was compressed.
var functions = sync.OnceValue(func() string {
	r, err := gzip.NewReader(strings.NewReader(compressed))
	if err != nil {
		return ""
	}
	text, _ := io.ReadAll(r)
	return string(text)
})

// Name is the name of an emitted kernel, and Threads the size of its blocks.
const (
	Name    = "fused"
	Threads = 256
)

// UnsupportedError says what of a program cannot be written as a kernel.
type UnsupportedError struct{ What string }

// Error says that the program stays on the host, and why.
func (e *UnsupportedError) Error() string { return "no CUDA kernel for " + e.What }

func unsupported(format string, args ...any) error {
	return &UnsupportedError{What: fmt.Sprintf(format, args...)}
}

// Program writes a module with the kernel of a program over the given loops. The kernel's parameters are the addresses of the operands
// and of the results, in their order, and the number of elements as 32 bits; without rows. With rows a block of [RowThreads] threads has one. A
// result may lie where an operand does that has as many elements. What cannot be written is an [UnsupportedError]: some element types and operators.
//
// Every operation is rounded as it is written (add.rn and not add), so that the driver joins no product and sum.
func Program(p *tile.Program, l *tile.Loops) (string, error) {
	n := 1
	for _, d := range l.Dims {
		n *= d
		if n > math.MaxInt32 {
			return "", unsupported("more than %d elements", math.MaxInt32)
		}
	}
	if p.Inner != 0 {
		return rowProgram(p, l)
	}
	w := newWriter(p, l)
	if err := w.write(); err != nil {
		return "", err
	}
	return w.module(), nil
}

// writer writes one kernel.
type writer struct {
	program *tile.Program
	loops   *tile.Loops
	body    strings.Builder
	counts  map[string]int // registers, by class
	values  []string       // the register of each value
	called  map[string]bool
	prefix  string // of the names of registers
}

func newWriter(p *tile.Program, l *tile.Loops) *writer {
	return &writer{program: p, loops: l, counts: map[string]int{}, called: map[string]bool{}}
}

// kind is how an element type is kept: its class of registers, its type in arithmetic and in memory.
type kind struct {
	class, typ, bits, memory string
	size                     int
	narrow                   string // integers of fewer than 32 bits: the type that results are cut to
}

// kinds are the element types of emitted kernels. A bool is 0 or 1 in 32 bits, 16-bit floats are float32s that are rounded after
// every instruction.
var kinds = map[ndarray.DType]kind{
	ndarray.Float32:  {"f", "f32", "b32", "f32", 4, ""},
	ndarray.Float64:  {"d", "f64", "b64", "f64", 8, ""},
	ndarray.Float16:  half,
	ndarray.BFloat16: half,
	ndarray.Int8:     narrow("s32", "s8", 1),
	ndarray.Int16:    narrow("s32", "s16", 2),
	ndarray.Int32:    {"r", "s32", "b32", "u32", 4, ""},
	ndarray.Int64:    {"x", "s64", "b64", "u64", 8, ""},
	ndarray.Uint8:    narrow("u32", "u8", 1),
	ndarray.Uint16:   narrow("u32", "u16", 2),
	ndarray.Uint32:   {"r", "u32", "b32", "u32", 4, ""},
	ndarray.Uint64:   {"x", "u64", "b64", "u64", 8, ""},
	ndarray.Bool:     {"r", "s32", "b32", "u8", 1, ""},
}

var half = kind{"f", "f32", "b32", "b16", 2, ""}

// narrow are integers of fewer than 32 bits.
func narrow(typ, memory string, size int) kind { return kind{"r", typ, "b32", memory, size, memory} }

// classes are the classes of registers with their types.
var classes = [][2]string{{"f", "f32"}, {"d", "f64"}, {"r", "b32"}, {"x", "b64"}, {"h", "b16"}, {"p", "pred"}}

// register gives a new register of a class.
func (w *writer) register(class string) string {
	w.counts[class]++
	return fmt.Sprintf("%%%s%s%d", w.prefix, class, w.counts[class])
}

// emit writes an instruction with its operands.
func (w *writer) emit(op string, operands ...string) {
	fmt.Fprintf(&w.body, "\t%s \t%s;\n", op, strings.Join(operands, ", "))
}

func (w *writer) write() error {
	x, y, size, index := w.register("r"), w.register("r"), w.register("r"), w.register("r")
	outside := w.register("p")
	w.emit("mov.u32", x, "%ctaid.x")
	w.emit("mov.u32", y, "%tid.x")
	w.emit("mad.lo.u32", index, x, fmt.Sprint(Threads), y)
	w.emit("ld.param.u32", size, "[count]")
	w.emit("setp.ge.u32", outside, index, size)
	w.emit("@"+outside+" bra", "END")
	if err := w.operands(index); err != nil {
		return err
	}
	if err := w.instructions(); err != nil {
		return err
	}
	for i, r := range w.program.Results {
		w.store(w.program.DType(r.Value), "["+w.address(fmt.Sprintf("y%d", i), index, kinds[w.program.DType(r.Value)].size)+"]", w.values[r.Value])
	}
	w.body.WriteString("END:\n")
	return nil
}

// instructions computes the values of the program behind its operands.
func (w *writer) instructions() error {
	for i := range w.program.Instrs {
		x := &w.program.Instrs[i]
		if _, ok := kinds[x.DType]; !ok || x.Row {
			return unsupported("values of type %s", x.DType)
		}
		v, err := w.instr(x)
		if err != nil {
			return err
		}
		w.values = append(w.values, w.rounded(x.DType, v))
	}
	return nil
}

// operands loads the thread's element of every operand that has no register yet.
func (w *writer) operands(index string) error {
	contiguous := make([]int, len(w.loops.Dims))
	for d, n := len(contiguous)-1, 1; d >= 0; d-- {
		contiguous[d] = n
		n *= w.loops.Dims[d]
	}
	var at []string // the element's place in each loop, once it is needed
	for i := len(w.values); i < len(w.program.Operands); i++ {
		dt := w.program.Operands[i]
		k, ok := kinds[dt]
		if !ok {
			return unsupported("operands of type %s", dt)
		}
		offset := index
		if strides := w.loops.Strides[i]; !slices.Equal(strides, contiguous) {
			if at == nil {
				at = w.placesIn(index, w.loops.Dims)
			}
			var err error
			if offset, err = w.offset(at, strides); err != nil {
				return err
			}
		}
		w.values = append(w.values, w.load(dt, "["+w.address(operandName(i), offset, k.size)+"]"))
	}
	return nil
}

// operandName is the parameter with the address of an operand.
func operandName(i int) string { return fmt.Sprintf("x%d", i) }

// offset is the sum of places by strides.
func (w *writer) offset(at []string, strides []int) (string, error) {
	offset := w.register("r")
	w.emit("mov.u32", offset, "0")
	for d, s := range strides {
		if s < 0 || s > math.MaxInt32 {
			return "", unsupported("a stride of %d", s)
		}
		if s != 0 {
			next := w.register("r")
			w.emit("mad.lo.u32", next, at[d], fmt.Sprint(s), offset)
			offset = next
		}
	}
	return offset, nil
}

// placesIn divides the index by loops, from the innermost outwards.
func (w *writer) placesIn(index string, dims []int) []string {
	at, rest := make([]string, len(dims)), index
	for d := len(at) - 1; d >= 0; d-- {
		at[d] = w.register("r")
		n := fmt.Sprint(dims[d])
		w.emit("rem.u32", at[d], rest, n)
		next := w.register("r")
		w.emit("div.u32", next, rest, n)
		rest = next
	}
	return at
}

// address is a register with the address of an element of a parameter.
func (w *writer) address(param, offset string, size int) string {
	base, global, bytes, at := w.register("x"), w.register("x"), w.register("x"), w.register("x")
	w.emit("ld.param.u64", base, "["+param+"]")
	w.emit("cvta.to.global.u64", global, base)
	w.emit("mul.wide.u32", bytes, offset, fmt.Sprint(size))
	w.emit("add.s64", at, global, bytes)
	return at
}

// module puts the kernel behind the functions that it calls.
func (w *writer) module() string {
	s := &strings.Builder{}
	s.WriteString(Header)
	writeFunctions(s, w.called)
	w.head(s, Threads)
	w.declare(s)
	return s.String() + w.body.String() + "\tret;\n}\n"
}

// head begins the kernel.
func (w *writer) head(s *strings.Builder, threads int) {
	s.WriteString(".visible .entry " + Name + "(\n")
	for i := range w.program.Operands {
		s.WriteString("\t.param .u64 " + operandName(i) + ",\n")
	}
	for i := range w.program.Results {
		fmt.Fprintf(s, "\t.param .u64 y%d,\n", i)
	}
	fmt.Fprintf(s, "\t.param .u32 count\n)\n.maxntid %d, 1, 1\n{\n", threads)
}

// declare declares the registers.
func (w *writer) declare(s *strings.Builder) {
	for _, c := range classes {
		if n := w.counts[c[0]]; n > 0 {
			fmt.Fprintf(s, "\t.reg .%s \t%%%s%s<%d>;\n", c[1], w.prefix, c[0], n+1)
		}
	}
}

// Header begins a module.
const Header = ".version 8.1\n.target sm_70\n.address_size 64\n\n"

// writeFunctions writes the functions of some names and the tables that they read.
func writeFunctions(s *strings.Builder, called map[string]bool) {
	names := slices.Sorted(maps.Keys(called))
	tables := map[string]bool{}
	for _, name := range names {
		text := functionText(name)
		for _, table := range tablesOf(text) {
			if !tables[table] {
				tables[table] = true
				s.WriteString(table + "\n")
			}
		}
		s.WriteString(text)
	}
}

// functionText is a function's definition; empty if there is none of the name.
func functionText(name string) string {
	start := strings.Index(functions(), ".func  (.param .b32 func_retval0) "+name+"(")
	if start < 0 {
		return ""
	}
	end := strings.Index(functions()[start:], "\n}\n")
	return functions()[start : start+end+3]
}

// tablesOf are the declarations of the tables in memory that a function reads.
func tablesOf(text string) (out []string) {
	const table = "__cudart_i2opi_f"
	if strings.Contains(text, table) {
		start := strings.Index(functions(), ".global .align 4 .b8 "+table)
		line, _, _ := strings.Cut(functions()[start:], "\n")
		out = append(out, line)
	}
	return out
}
