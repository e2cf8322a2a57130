// Package kernels has the CUDA kernels of ONNX operators, as CUDA C++ and as the PTX compiled from it, and makes their launches. It
// needs a device and knows nothing of graphs.
//
//	gemm.cu   products of matrices          rows.cu        softmax, normalization, reductions
//	conv.cu   convolutions, pools           move.cu        views, transpositions, gathers, tables
//	recurrent.cu   LSTM, GRU, RNN           attention.cu   scaled dot-product attention
//	resize.cu      sums of weighted elements along an axis
//	integer.cu     products and convolutions of 8-bit integers
//	dynamic.cu     quantization by the range of the elements, LSTM with quantized weights
//
// Sources that include element.h are compiled for float32, float16 and bfloat16, but for dynamic.cu.
package kernels

import (
	"compress/gzip"
	"embed"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"math/bits"
	"slices"
	"strings"
	"sync"

	"github.com/berth-onnx/berth/backend/cuda/internal/device"
	"github.com/berth-onnx/berth/backend/cuda/internal/emit"
)

// files has the PTX compressed, a sixth of its size in a program.
//
//go:generate go run ../../../../internal/tools/nvrtc -gzip attention.cu attention_bf16.cu attention_f16.cu conv.cu conv_bf16.cu conv_f16.cu dynamic.cu gemm.cu gemm_bf16.cu gemm_f16.cu integer.cu move.cu recurrent.cu recurrent_bf16.cu recurrent_f16.cu resize.cu resize_bf16.cu resize_f16.cu rows.cu rows_bf16.cu rows_f16.cu
//go:embed *.ptx.gz
var files embed.FS

// Floats is a type of floats: 16-bit floats have kernels of their own, which compute in float32.
type Floats string

// The types, by the ends of the names of modules and kernels.
const (
	Float32  Floats = ""
	Float16  Floats = "_f16"
	BFloat16 Floats = "_bf16"
)

// Size is that of an element in bytes.
func (f Floats) Size() int64 {
	if f == Float32 {
		return 4
	}
	return 2
}

// entries are the kernels of each module.
var entries = withHalves(map[string][]string{
	"attention":   {"attend"},
	"dynamic":     {"ranges", "dynamic", "quantized_lstm"},
	"resize_f16":  {"resample_first_f16", "resample_last_f16"},
	"resize_bf16": {"resample_first_bf16", "resample_last_bf16"},
	"integer":     {"igemm", "iconv", "idepthwise"},
	"move": {"view1", "view2", "view4", "view8", "place1", "place2", "place4", "place8", "take1", "take2", "take4", "take8", "transpose4",
		"look11", "look12", "look14", "look18", "look21", "look22", "look24", "look28",
		"gather1", "gather2", "gather4", "gather8"},
	"rows": {"reduce_sum_f64", "reduce_product_f64", "reduce_max_f64", "reduce_min_f64", "reduce_l1_f64", "reduce_l2_f64",
		"reduce_squares_f64", "reduce_log_f64", "reduce_logexp_f64", "cumulate_sum_f64", "cumulate_sum_i32", "cumulate_sum_i64",
		"cumulate_product_f64", "cumulate_product_i32", "cumulate_product_i64"},
})

// ofFloats are the kernels of each module that there are for every type of floats.
var ofFloats = map[string][]string{
	"attention": {"attention"},
	"recurrent": {"recurrent"},
	"resize":    {"resample"},
	"conv":      {"conv", "depthwise", "pool", "transposed", "lrn"},
	"gemm":      {"gemm", "few", "gemv"},
	"rows": {"softmax", "normalize", "reduce_sum", "reduce_product", "reduce_max", "reduce_min", "reduce_l1", "reduce_l2", "reduce_squares",
		"reduce_log", "reduce_logexp", "best", "cumulate_sum", "cumulate_product"},
}

// withHalves adds them.
func withHalves(entries map[string][]string) map[string][]string {
	for file, names := range ofFloats {
		for _, f := range []Floats{Float32, Float16, BFloat16} {
			for _, name := range names {
				entries[file+string(f)] = append(entries[file+string(f)], name+string(f))
			}
		}
	}
	return entries
}

// texts are the modules, each read once.
var texts = func() map[string]func() (string, error) {
	out := map[string]func() (string, error){}
	for file := range entries {
		out[file] = sync.OnceValues(func() (string, error) { return unpacked(file + ".ptx.gz") })
	}
	return out
}()

// unpacked is the text of a compressed file.
func unpacked(name string) (string, error) {
	f, err := files.Open(name)
	if err != nil {
		return "", err
	}
	r, err := gzip.NewReader(f)
	if err != nil {
		return "", err
	}
	text, err := io.ReadAll(r)
	return string(text), err
}

// Text is the PTX of one kernel, which calls nothing, as a module of its own.
func Text(entry string) (string, error) {
	for file, names := range entries {
		if !slices.Contains(names, entry) {
			continue
		}
		text, err := texts[file]()
		if err != nil {
			return "", err
		}
		_, body, found := strings.Cut(text, ".visible .entry "+entry+"(")
		body, _, isWhole := strings.Cut(body, "\n}\n")
		if found && isWhole {
			return emit.Header + ".visible .entry " + entry + "(" + body + "\n}\n", nil
		}
	}
	return "", fmt.Errorf("there is no kernel %s", entry)
}

// Set is the kernels on a device, for floats of one type. It is safe for concurrent use.
type Set struct {
	*modules
	floats Floats
}

// modules are those that a device has compiled.
type modules struct {
	device  device.Device
	lock    sync.Mutex
	list    []device.Module
	kernels map[string]device.Kernel
}

// Load compiles the kernels for a device, those of 16-bit floats excepted: these are compiled when a launch needs them.
func Load(d device.Device) (*Set, error) {
	s := &Set{&modules{device: d, kernels: map[string]device.Kernel{}}, Float32}
	for file := range entries {
		if isHalf(file) {
			continue
		}
		if err := s.load(file); err != nil {
			return nil, errors.Join(err, s.Close())
		}
	}
	return s, nil
}

// isHalf tells the modules of 16-bit floats.
func isHalf(file string) bool { return strings.HasSuffix(file, "f16") }

// load compiles a module.
func (m *modules) load(file string) error {
	text, err := texts[file]()
	if err != nil {
		return err
	}
	module, err := m.device.Load(text)
	if err != nil {
		return fmt.Errorf("%s.ptx: %w", file, err)
	}
	m.list = append(m.list, module)
	for _, name := range entries[file] {
		if m.kernels[name], err = module.Kernel(name); err != nil {
			return err
		}
	}
	return nil
}

// Of is the same set for floats of another type.
func (s *Set) Of(f Floats) *Set { return &Set{s.modules, f} }

// kernel finds a kernel for the set's floats, and compiles its module if that has not been done.
func (s *Set) kernel(name string) (device.Kernel, error) {
	s.lock.Lock()
	defer s.lock.Unlock()
	if s.floats != Float32 {
		name += string(s.floats)
	}
	k := s.kernels[name]
	if k == nil {
		for file, names := range entries {
			if slices.Contains(names, name) {
				err := s.load(file)
				return s.kernels[name], err
			}
		}
		return nil, fmt.Errorf("there is no kernel %s", name)
	}
	return k, nil
}

// Close gives the kernels back.
func (m *modules) Close() (err error) {
	m.lock.Lock()
	defer m.lock.Unlock()
	for _, module := range m.list {
		err = errors.Join(err, module.Unload())
	}
	return err
}

// Operand is where a tensor lies on the device. The zero value is an absent one.
type Operand struct {
	Base  device.Pointer
	Bytes int64
}

// written is an operand that a kernel writes.
type written Operand

// scratch is workspace, which a kernel writes before it reads it.
type scratch Operand

// noted is a [Status].
type noted Operand

// Status is where kernels note the first index of a session that lies outside of an axis: the number of its launch, 0 while there is
// none, and the index.
type Status struct {
	Launch, _ uint32
	Index     int64
}

// StatusBytes is the size of a Status.
const StatusBytes = 16

// ReadStatus reads a Status from its bytes.
func ReadStatus(b []byte) Status {
	return Status{Launch: binary.LittleEndian.Uint32(b), Index: int64(binary.LittleEndian.Uint64(b[8:]))}
}

// args collects the arguments of a launch.
type args struct {
	bytes   []byte
	windows []device.Window
}

// add appends an argument at a multiple of its alignment.
func (a *args) add(name string, v any) error {
	align, window := 4, device.Window{Name: name}
	switch v := v.(type) {
	case Operand:
		window.Base, window.Bytes, window.IsRead = v.Base, v.Bytes, true
	case written:
		window.Base, window.Bytes, window.IsWritten = v.Base, v.Bytes, true
	case scratch:
		window.Base, window.Bytes, window.IsRead, window.IsWritten = v.Base, v.Bytes, true, true
	case noted:
		window.Base, window.Bytes, window.IsRead, window.IsWritten, window.Commutes = v.Base, v.Bytes, true, true, true
	case Gemm, IntGemm, uint64:
		align = 8
	}
	var value any = v
	if window.IsRead || window.IsWritten {
		align, value = 8, uint64(window.Base)
	}
	for len(a.bytes)%align != 0 {
		a.bytes = append(a.bytes, 0)
	}
	if window.Base != 0 {
		window.Arg = len(a.bytes) + 1
		a.windows = append(a.windows, window)
	}
	var err error
	a.bytes, err = binary.Append(a.bytes, binary.LittleEndian, value)
	return err
}

// GridError says that a grid has more blocks along an axis than a GPU allows.
type GridError struct {
	Kernel string
	Grid   [3]int64
}

// Error names the kernel and the limits.
func (e *GridError) Error() string {
	return fmt.Sprintf("kernel %s: a grid of %v blocks; a GPU has 1 to %v along its axes", e.Kernel, e.Grid, mostBlocks)
}

// launch makes a launch. The names of operands in reports are x0, x1 and so on.
func (s *Set) launch(name string, grid, block [3]int64, list ...any) (*device.Launch, error) {
	k, err := s.kernel(name)
	if err != nil {
		return nil, err
	}
	l := &device.Launch{Kernel: k}
	for i, most := range mostBlocks {
		if grid[i] < 1 || grid[i] > most {
			return nil, &GridError{name, grid}
		}
		l.Grid[i], l.Block[i] = int(grid[i]), int(block[i])
	}
	var a args
	for i, v := range list {
		if err := a.add(fmt.Sprintf("x%d", i), v); err != nil {
			return nil, fmt.Errorf("kernel %s: %w", name, err)
		}
	}
	l.Args, l.Windows = a.bytes, a.windows
	return l, nil
}

func pieces(n, size int64) int64 { return (n + size - 1) / size }

// threads is the block of kernels in which a thread computes one element, or a block a tile of 64×64.
var threads = [3]int64{256, 1, 1}

// mostBlocks is how many blocks a grid may have along its axes.
var mostBlocks = [3]int64{math.MaxInt32, math.MaxUint16, math.MaxUint16}

// MostMatrices is how many matrices or planes one launch of a product or a convolution has at most.
const MostMatrices = math.MaxUint16

// elements is the grid of n threads.
func elements(n int64) [3]int64 { return [3]int64{pieces(n, threads[0]), 1, 1} }

// tiles is the grid of a batch of matrices. The longer axis comes first, so that any matrix fits that has no more elements than an int32
// counts; kernels tell by rows and columns which it is.
func tiles(rows, columns int32, batch int64) [3]int64 {
	return [3]int64{pieces(int64(max(rows, columns)), 64), pieces(int64(min(rows, columns)), 64), batch}
}

// Gemm is c = Alpha·a·b + Beta·bias, with strides in elements; the rows of c are contiguous.
type Gemm struct {
	M, N, K                       int32
	BiasRow, BiasColumn, HasBias  int32
	ARow, AColumn, ABatch         int64
	BRow, BColumn, BBatch, CBatch int64
	Alpha, Beta                   float32
}

// fewRows is how many rows, or columns, a product has at most that a tile of 64×64 would compute more than twice of.
const fewRows = 32

// Entry is the kernel of a product: those of vectors, and those of few rows or columns, have their own.
func (g *Gemm) Entry() string {
	switch least := min(g.M, g.N); {
	case least == 1:
		return "gemv"
	case least <= fewRows:
		return "few"
	}
	return "gemm"
}

// Gemm makes the launch of a batch of products.
func (s *Set) Gemm(g Gemm, batch int64, a, b, bias, c Operand) (*device.Launch, error) {
	switch g.Entry() {
	case "gemv":
		return s.gemv(g, batch, a, b, bias, c)
	case "few":
		return s.few(g, batch, a, b, bias, c)
	}
	return s.launch("gemm", tiles(g.M, g.N, batch), threads, a, b, bias, written(c), g)
}

// swapped is the product of the transposed factors, which has the elements of the transposed result.
func (g *Gemm) swapped() Gemm {
	t := *g
	t.M, t.N, t.BiasRow, t.BiasColumn = g.N, g.M, g.BiasColumn, g.BiasRow
	t.ARow, t.AColumn, t.ABatch, t.BRow, t.BColumn, t.BBatch = g.BColumn, g.BRow, g.BBatch, g.AColumn, g.ARow, g.ABatch
	return t
}

// gemv makes the launch of a batch of products with one row; those with one column are products of the transposed factors.
func (s *Set) gemv(g Gemm, batch int64, a, b, bias, c Operand) (*device.Launch, error) {
	if g.M != 1 {
		a, b, g = b, a, g.swapped()
	}
	columns := int64(32)
	if g.BRow == 1 {
		columns = 8
	}
	return s.launch("gemv", [3]int64{pieces(int64(g.N), columns), 1, batch}, threads, a, b, bias, written(c), g)
}

// few makes the launch of a batch of products with few rows, or columns.
func (s *Set) few(g Gemm, batch int64, a, b, bias, c Operand) (*device.Launch, error) {
	row, column := g.N, int32(1)
	if g.N < g.M {
		a, b, g, row, column = b, a, g.swapped(), 1, g.N
	}
	pairs := int32(bits.Len32(uint32(g.M-1)) - 1) // the power of two
	return s.launch("few", [3]int64{pieces(int64(g.N), 32), 1, batch}, threads, a, b, bias, written(c), g, pairs, row, column)
}

// Window2D is the geometry of a convolution or a pool over images of a batch, NCHW. Channels and Outputs are those of one group.
type Window2D struct {
	Batch, Groups, Channels, Outputs                                                       int32
	Height, Width, OutHeight, OutWidth                                                     int32
	FilterHeight, FilterWidth, StrideY, StrideX, PadY, PadX, DilationY, DilationX, HasBias int32
}

func (p *Window2D) pixels() int32 { return p.OutHeight * p.OutWidth }
func (p *Window2D) planes() int64 { return int64(p.Batch) * int64(p.Groups) }

// ConvEntry is the kernel of a convolution; one channel a group has one of its own.
func (p *Window2D) ConvEntry() string {
	if p.Channels == 1 && p.Groups > 1 {
		return "depthwise"
	}
	return "conv"
}

// Conv makes the launch of a convolution.
func (s *Set) Conv(p Window2D, x, w, bias, y Operand) (*device.Launch, error) {
	if p.ConvEntry() == "depthwise" {
		return s.launch("depthwise", elements(p.planes()*int64(p.pixels())), threads, x, w, bias, written(y), p)
	}
	return s.launch("conv", [3]int64{pieces(int64(p.pixels()), 64), pieces(int64(p.Outputs), 64), p.planes()}, threads, x, w, bias, written(y), p)
}

// Pool makes the launch of a maximum or an average over windows of each of Batch·Groups planes.
func (s *Set) Pool(p Window2D, isAverage, countsPadding bool, x, y Operand) (*device.Launch, error) {
	return s.launch("pool", elements(p.planes()*int64(p.pixels())), threads, x, written(y), p, flag(isAverage), flag(countsPadding))
}

// Transposed makes the launch of a transposed convolution: Channels and Outputs are those of x and y, of one group.
func (s *Set) Transposed(p Window2D, x, w, bias, y Operand) (*device.Launch, error) {
	return s.launch("transposed", [3]int64{pieces(int64(p.pixels()), 256), int64(p.Outputs), p.planes()}, threads, x, w, bias, written(y), p)
}

// LRN makes the launch of a local response normalization of n elements, of which span lie between two channels.
func (s *Set) LRN(n int64, channels, span, before, after int32, alpha, beta, bias float32, x, y Operand) (*device.Launch, error) {
	return s.launch("lrn", elements(n), threads, x, written(y), channels, span, before, after, alpha, beta, bias, int32(n))
}

func flag(b bool) int32 {
	if b {
		return 1
	}
	return 0
}

// perRow is the block of kernels in which a block has a row.
var perRow = [3]int64{128, 1, 1}

// Softmax makes the launch of softmax, or of its logarithm, over rows of n elements that are inner elements apart.
func (s *Set) Softmax(rows int64, n, inner int32, isLog bool, x, y Operand) (*device.Launch, error) {
	return s.launch("softmax", [3]int64{rows, 1, 1}, perRow, x, written(y), n, inner, flag(isLog))
}

// Norm is a normalization of rows of N elements. Element i of row r has scale and bias of channel r%Groups·Channels + i/Span.
type Norm struct {
	N, Groups, Channels, Span  int32
	Centers, HasScale, HasBias int32 // Centers: the mean is subtracted
	Epsilon                    float32
}

// Normalize makes the launch of a normalization. Scale and bias may be absent, and so may the results mean and factor, which is what
// centered elements are multiplied by.
func (s *Set) Normalize(rows int64, p Norm, x, scale, bias, y, mean, factor Operand) (*device.Launch, error) {
	p.HasScale, p.HasBias = flag(scale.Base != 0), flag(bias.Base != 0)
	return s.launch("normalize", [3]int64{rows, 1, 1}, perRow, x, scale, bias, written(y), written(mean), written(factor), p)
}

// Reduction is what is reduced: Row is the view of the elements of a row, Rows that of their first elements. The result is multiplied
// by Scale.
type Reduction struct {
	Rows, Row View
	N         int32 // elements of a row
	Scale     float32
}

// Reduce makes the launch of a reduction: sum, product, max, min, l1, l2, squares, log (of the sum), logexp (the same of exponentials);
// with _f64 behind the name, of doubles.
func (s *Set) Reduce(how string, rows int64, p Reduction, x, y Operand) (*device.Launch, error) {
	return s.launch("reduce_"+how, [3]int64{rows, 1, 1}, perRow, x, written(y), p)
}

// Best makes the launch that finds the largest or smallest element of rows of n elements, inner elements apart.
func (s *Set) Best(rows int64, n, inner int32, isSmallest, isLast bool, x, y Operand) (*device.Launch, error) {
	sign := float32(1)
	if isSmallest {
		sign = -1
	}
	return s.launch("best", [3]int64{pieces(rows, 128), 1, 1}, perRow, x, written(y), int32(rows), n, inner, sign, flag(isLast))
}

// Cumulate makes the launch of running sums or products (how; with _f64, _i32 or _i64 behind it of doubles and integers) of rows of n
// elements, inner elements apart.
func (s *Set) Cumulate(how string, rows int64, n, inner int32, isExclusive, isReverse bool, x, y Operand) (*device.Launch, error) {
	return s.launch("cumulate_"+how, [3]int64{pieces(rows, 128), 1, 1}, perRow, x, written(y), int32(rows), n, inner, flag(isExclusive),
		flag(isReverse))
}

// View is a strided view of an operand, in elements.
type View struct {
	Rank, Start   int32
	Dims, Strides [8]int32
}

// elements is how many elements a view has, if a kernel can move them.
func (v *View) elements(size int) (int64, error) {
	n := int64(1)
	for _, d := range v.Dims[:min(max(int(v.Rank), 0), len(v.Dims))] {
		n *= int64(d)
	}
	if !slices.Contains([]int{1, 2, 4, 8}, size) || v.Rank < 0 || int(v.Rank) > len(v.Dims) || n > math.MaxInt32 {
		return 0, fmt.Errorf("a view of rank %d with %d elements of %d bytes", v.Rank, n, size)
	}
	return n, nil
}

// Copy makes the launch that writes a view, of elements of 1, 2, 4 or 8 bytes, as a contiguous result.
func (s *Set) Copy(size int, v View, x, y Operand) (*device.Launch, error) {
	return s.move("view", size, v, x, y)
}

// Place makes the launch that writes a contiguous operand as a view of the result.
func (s *Set) Place(size int, v View, x, y Operand) (*device.Launch, error) {
	return s.move("place", size, v, x, y)
}

func (s *Set) move(name string, size int, v View, x, y Operand) (*device.Launch, error) {
	n, err := v.elements(size)
	if err != nil {
		return nil, err
	}
	return s.launch(fmt.Sprintf("%s%d", name, size), elements(n), threads, x, written(y), v, int32(n))
}

// Take makes the launch of y[i] = x[table[i]] for n elements; where the table has -1, fill.
func (s *Set) Take(size int, n int64, fill uint64, x, table, y Operand) (*device.Launch, error) {
	if !slices.Contains([]int{1, 2, 4, 8}, size) || n > math.MaxInt32 {
		return nil, fmt.Errorf("a table of %d elements of %d bytes", n, size)
	}
	return s.launch(fmt.Sprintf("take%d", size), elements(n), threads, x, table, written(y), fill, int32(n))
}

// Look makes the launch of y[i] = table[x[i]] for n elements of 1 or 2 bytes, taken as numbers, and results of 1, 2, 4 or 8 bytes.
func (s *Set) Look(from, to int, n int64, x, table, y Operand) (*device.Launch, error) {
	name := fmt.Sprintf("look%d%d", from, to)
	if !slices.Contains(entries["move"], name) {
		return nil, fmt.Errorf("a table from elements of %d bytes to elements of %d", from, to)
	}
	return s.launch(name, elements(n), threads, x, table, written(y), int32(n))
}

// Transpose makes the launch that exchanges the axes of a batch of matrices of 4-byte elements.
func (s *Set) Transpose(batch int64, rows, columns int32, x, y Operand) (*device.Launch, error) {
	grid := [3]int64{pieces(int64(columns), 32) * pieces(int64(rows), 32) * batch, 1, 1}
	return s.launch("transpose4", grid, threads, x, written(y), rows, columns)
}

// Gather makes the launch of y[o, j, i] = x[o, index[j], i], with indices of 64 bits (isWide) or 32 into an axis, for elements of 1, 2, 4
// or 8 bytes. An index outside is noted under the number of the launch.
func (s *Set) Gather(size int, isWide bool, outer int64, axis, count, inner int32, x, index, y, status Operand, launch uint32) (*device.Launch, error) {
	n := outer * int64(count) * int64(inner)
	if !slices.Contains([]int{1, 2, 4, 8}, size) || n > math.MaxInt32 {
		return nil, fmt.Errorf("a gather of %d elements of %d bytes", n, size)
	}
	return s.launch(fmt.Sprintf("gather%d", size), elements(n), threads, x, index, written(y), noted(status), flag(isWide), axis, count, inner,
		int32(n), launch)
}

// WithEpilogue makes the launch of a kernel with an epilogue of that of the kernel without: further operands stand behind its arguments.
func WithEpilogue(l *device.Launch, k device.Kernel, operands []Operand) (*device.Launch, error) {
	a := args{l.Args, l.Windows}
	for i, o := range operands {
		if err := a.add(fmt.Sprintf("e%d", i), o); err != nil {
			return nil, err
		}
	}
	l.Kernel, l.Args, l.Windows = k, a.bytes, a.windows
	return l, nil
}

// Emitted makes the launch of an emitted kernel in so many blocks, which takes its operands, its results and a number of elements.
func Emitted(k device.Kernel, blocks, block, n int, in, out []Operand) (*device.Launch, error) {
	var a args
	for i, o := range in {
		if err := a.add(fmt.Sprintf("x%d", i), o); err != nil {
			return nil, err
		}
	}
	for i, o := range out {
		if err := a.add(fmt.Sprintf("y%d", i), written(o)); err != nil {
			return nil, err
		}
	}
	if err := a.add("count", uint32(n)); err != nil {
		return nil, err
	}
	return &device.Launch{Kernel: k, Grid: [3]int{blocks, 1, 1}, Block: [3]int{block, 1, 1}, Args: a.bytes, Windows: a.windows}, nil
}
