package main

import (
	"archive/zip"
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"image"
	imagepng "image/png"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/berth-onnx/berth/internal/hostile"
	"github.com/berth-onnx/berth/internal/npy"
	"github.com/berth-onnx/berth/internal/onnxwire"
	"github.com/berth-onnx/berth/internal/sysmem"
	"github.com/berth-onnx/berth/ndarray"
)

// commandLines is the environment variable by which the test binary carries out command lines.
const commandLines = "BERTH_TEST_COMMAND_LINES"

// measured is a command line that was carried out, and the resident memory of the process since its start, at most.
type measured struct {
	name string
	code int
	peak int64
	text string
}

func init() { becomes[commandLines] = executeLines }

// executeLines executes the command lines of a file. It prints the peak of the resident memory before, and after every command
// line with the exit code and the last line of errors.
func executeLines(file string) {
	progressAfter = time.Hour
	lines, err := os.ReadFile(file)
	if err != nil {
		panic(err)
	}
	sysmem.CountProgram()
	fmt.Printf("start\t0\t%d\t\n", peakResident())
	for line := range strings.Lines(string(lines)) {
		var errs bytes.Buffer
		code := execute(context.Background(), strings.Split(strings.TrimSuffix(line, "\n"), "\t"), io.Discard, &errs)
		said := strings.Split(strings.TrimSpace(errs.String()), "\n")
		fmt.Printf("%q\t%d\t%d\t%.600s\n", line, code, peakResident(), said[len(said)-1])
	}
}

// peakResident is the largest resident size of this program so far; getrusage would count the process that started it, too.
func peakResident() int64 {
	status, err := os.ReadFile("/proc/self/status")
	_, rest, ok := strings.Cut(string(status), "VmHWM:")
	if err != nil || !ok {
		panic("no VmHWM in /proc/self/status")
	}
	kilobytes, err := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
	if err != nil {
		panic(err)
	}
	return kilobytes << 10
}

// carryOut carries out command lines in one process after the other. The first result is its state at the start.
func carryOut(t *testing.T, lines [][]string) (out []measured) {
	file := filepath.Join(t.TempDir(), "lines")
	var text strings.Builder
	for _, l := range lines {
		text.WriteString(strings.Join(l, "\t") + "\n")
	}
	require.NoError(t, os.WriteFile(file, []byte(text.String()), 0o600))
	c := exec.Command(os.Args[0])
	c.Dir, c.Env = t.TempDir(), append(os.Environ(), commandLines+"="+file) // optimize writes to the current folder
	got, err := c.Output()
	require.NoError(t, err, "%s", got[max(0, len(got)-4000):])
	for s := bufio.NewScanner(bytes.NewReader(got)); s.Scan(); {
		if f := strings.SplitN(s.Text(), "\t", 4); len(f) == 4 {
			code, err := strconv.Atoi(f[1])
			require.NoError(t, err)
			peak, err := strconv.ParseInt(f[2], 10, 64)
			require.NoError(t, err)
			out = append(out, measured{f[0], code, peak, f[3]})
		}
	}
	require.Len(t, out, len(lines)+1)
	return out
}

const (
	testBudget = 256 << 20
	testLimit  = "--max-memory=256MiB"
)

// requireWithin checks that no command line took more than the budget of the tests and a tenth.
func requireWithin(t *testing.T, got []measured) {
	t.Helper()
	requireBudget(t, got, testBudget)
}

// requireBudget checks that the process never had more than a budget and a tenth, itself included.
func requireBudget(t *testing.T, got []measured, budget int64) {
	t.Helper()
	last := got[0].peak
	for _, m := range got[1:] {
		require.Less(t, m.peak, budget*11/10, "after %s, before it were %d; %s", m.name, last, m.text)
		last = m.peak
	}
	t.Logf("resident at the start %d MiB, at most %d MiB more", got[0].peak>>20, (last-got[0].peak)>>20)
}

// TestBudgetOfHostileFiles: whatever a file holds, no command takes more memory than it may.
func TestBudgetOfHostileFiles(t *testing.T) {
	dir := t.TempDir()
	var lines [][]string
	for i, k := range hostile.Kinds() {
		path := filepath.Join(dir, fmt.Sprint(i, ".onnx"))
		require.NoError(t, os.WriteFile(path, k.Data, 0o600))
		for _, command := range []string{"inspect", "optimize", "run"} {
			lines = append(lines, []string{command, path, testLimit, "--timeout=1s"})
		}
	}
	requireWithin(t, carryOut(t, lines))
}

// bombs are small models that are to take far more than the budget, each in its own way.
var bombs = []struct{ name, graph string }{
	{"large intermediates", `in %x: float32[1,33554432] %a = Neg(%x) %b = Exp(%a) %c = Concat(%a, %b, %x) [axis=0] %d = Transpose(%c) out %d`},
	{"a constant written out", `in %x: float32[1] const %s: int64[1] = [67108864] %a = ConstantOfShape(%s) %b = Add(%a, %x) out %b`},
	{"a loop that doubles", `in %x: float32[1024] const %n: int64[] = 40 %y = Loop(%n, _, %x) { body: graph "b" { in %i: int64[] in %c: bool[] in %p: float32[N] %q = Concat(%p, %p) [axis=0] out %c, %q } } out %y`},
	{"a loop that collects", `in %x: float32[65536] const %n: int64[] = 100000 %s = SequenceEmpty() [dtype=1] %y = Loop(%n, _, %s | %x) { body: graph "b" { in %i: int64[] in %c: bool[] in %p: seq(float32[65536]) in %x: float32[65536] %q = SequenceInsert(%p, %x) out %c, %q } } %z = SequenceLength(%y) out %z`},
	{"a loop that stacks", `in %x: float32[1024] const %n: int64[] = 1000000 %y = Loop(%n, _ | %x) { body: graph "b" { in %i: int64[] in %c: bool[] in %x: float32[1024] %q = Neg(%x) out %c, %q } } out %y`},
	{"conversions", `in %x: float16[25165824] const %z: int64[] = 0 %y = CumSum(%x, %z) out %y`},
	{"indices", `in %x: float32[33554432] %n = IsNaN(%x) %o = Not(%n) %y = NonZero(%o) out %y`},
	{"a Fourier transform", `in %x: float32[1,4,1] const %n: int64[] = 8388608 const %a: int64[] = 1 %y = DFT(%x, %n, %a) out %y`},
	{"an intermediate of Einsum", `in %x: float64[8192] %y = Einsum(%x, %x, %x) [equation="i,j,i->j"] out %y`},
	{"weights of Resize", `in %x: int32[1,1,4,4] const %s: int64[4] = [1, 1, 6000, 4096] %y = Resize(%x, _, _, %s) [mode="cubic"] out %y`},
	{"numbers as text", `in %x: float32[10000000] %y = Cast(%x) [to=8] out %y`},
	{"strings of constants", `in %x: float32[4] const %s0: string[] = "0.5" ` + doubled("StringConcat", 26) + ` %y = Cast(%s26) [to=1] %z = Add(%x, %y) out %z`},
	{"tokens", `in %a: int64[8000000] const %k: int64[] = 1000000 %x = Add(%a, %k) %t = TfIdfVectorizer(%x) [max_gram_length=1, max_skip_count=0, min_gram_length=1, mode="TF", ngram_counts=[0], ngram_indexes=[0], pool_int64s=[1]] out %t`},
	{"case of a long string", `in %x: float32[1] %s0 = Cast(%x) [to=8] ` + doubled("StringConcat", 24) + ` %y = StringNormalizer(%s24) [case_change_action="LOWER"] out %y`},
	{"taps of Resize", `in %x: int64[2000000] const %s: float32[1] = [2] %y = Resize(%x, _, %s) [mode="cubic"] out %y`},
	{"blocks of sparse attention", `in %x: float32[1,1,8] const %c: int64[4] = [1, 1, 4, 8] const %n: int64[2] = [1, 200001] const %k: int32[1,1] = [0] const %t: int32[] = 1 const %l: int32[1] = [1] ` +
		`%p = ConstantOfShape(%c) %z = ConstantOfShape(%n) %r = Cast(%z) [to=6] %y = com.microsoft.SparseAttention(%x, %x, %x, %p, %p, %r, %k, %t, %l) [kv_num_heads=1, num_heads=1, sparse_block_size=16] out %y`},
	{"strings", `in %x: float32[4] %s0 = Cast(%x) [to=8] ` + doubled("StringConcat", 30) + ` out %s30`},
}

// doubled is a chain of an operator on a value twice.
func doubled(op string, times int) string {
	var b strings.Builder
	for i := range times {
		fmt.Fprintf(&b, "%%s%d = %s(%%s%d, %%s%d) ", i+1, op, i, i)
	}
	return b.String()
}

// TestBudgetOfBombs: a model that needs more than it may have fails, and what fails says what, how much, the limit and the remedy.
func TestBudgetOfBombs(t *testing.T) {
	for _, b := range bombs {
		t.Run(b.name, func(t *testing.T) {
			path := textModel(t, b.graph)
			start := time.Now()
			got := carryOut(t, [][]string{
				{"optimize", path, "-o", filepath.Join(t.TempDir(), "o.onnx"), testLimit, "--timeout=60s"},
				{"run", path, testLimit, "--timeout=60s"},
				{"run", path, testLimit, "--timeout=60s", "--planner=naive"},
			})
			requireWithin(t, got)
			t.Logf("%v: %s", time.Since(start).Round(time.Millisecond), got[2].text)
			assert.Equal(t, exitFailed, got[2].code, got[2].text)
			assert.Contains(t, got[2].text, "268435456; if the size is right, raise the limit (WithMaxMemory, --max-memory of the command)")
		})
	}
}

// TestBudgetOfSmallMembers: the members of a sequence count with what they take beside their elements, which is most of it.
func TestBudgetOfSmallMembers(t *testing.T) {
	path := textModel(t, `in %x: float32[700000] %q = SplitToSequence(%x) %y = SequenceLength(%q) out %y`)
	got := carryOut(t, [][]string{{"run", "builtin:lstm-loop"}, {"run", path, "--max-memory=96MiB"}})[1:] // the first reads the program's code
	requireBudget(t, got, 96<<20)
	assert.Equal(t, exitFailed, got[1].code, got[1].text)
	assert.Contains(t, got[1].text, "is beyond the limit of 100663296")
}

// TestBudgetOfLongStrings: a long string that folding makes is in the optimized model, in the copy that is read back, and in the
// key of the kernel that reads it; no more of them, nor of the pages that were read, than the budget allows.
func TestBudgetOfLongStrings(t *testing.T) {
	for _, times := range []int{24, 25} { // 50 and 100 MB
		for name, end := range map[string]string{
			"read":   fmt.Sprintf(`%%z = StringConcat(%%s%d, %%x) out %%z`, times),
			"result": fmt.Sprintf(`%%z = Identity(%%x) out %%z, %%s%d`, times),
		} {
			t.Run(fmt.Sprint(name, times), func(t *testing.T) {
				path := textModel(t, `in %x: string[4] const %s0: string[] = "0.5" `+doubled("StringConcat", times)+end)
				requireWithin(t, carryOut(t, [][]string{{"optimize", path, "-o", filepath.Join(t.TempDir(), "o.onnx"), testLimit, "--timeout=60s"}}))
			})
		}
	}
}

// TestBudgetOfManyNodes: what is made of a graph of many nodes is within the budget, or an error, or left out of the description.
func TestBudgetOfManyNodes(t *testing.T) {
	chain := func(head string, count int, block func(b *strings.Builder, i int)) string {
		var b strings.Builder
		b.WriteString(head)
		for i := range count {
			block(&b, i)
		}
		fmt.Fprintf(&b, "out %%y%d", count)
		return textModel(t, b.String())
	}
	sums := chain("in %x: float32[1,64] const %w: float32[] = 0.5 %y0 = Relu(%x) ", 15000, func(b *strings.Builder, i int) {
		fmt.Fprintf(b, "%%z%d = Add(%%y%d, %%w) %%y%d = Relu(%%z%d) ", i, i, i+1, i)
	})
	residuals := chain("in %x: float32[1,8,8,8] const %w: float32[8,8,3,3] = splat 0.5 %y0 = Relu(%x) ", 3000, func(b *strings.Builder, i int) {
		fmt.Fprintf(b, "%%a%d = Conv(%%y%d, %%w) [pads=[1,1,1,1]] %%b%d = Relu(%%a%d) %%c%d = Conv(%%b%d, %%w) [pads=[1,1,1,1]] %%d%d = Add(%%c%d, %%y%d) %%y%d = Relu(%%d%d) ",
			i, i, i, i, i, i, i, i, i, i+1, i)
	})
	for _, c := range []struct {
		path      string
		megabytes int64
		code      int
		said      string
	}{
		{sums, 64, exitFailed, "is beyond the limit of 64000000"},
		{sums, 160, exitDone, ""},
		{residuals, 72, exitDone, ""},
	} {
		got := carryOut(t, [][]string{{"inspect", "builtin:lstm-loop"}, {"inspect", c.path, fmt.Sprintf("--max-memory=%dMB", c.megabytes)}})[1:] // the first reads the program's code
		requireBudget(t, got, c.megabytes*1000000)
		assert.Equal(t, c.code, got[1].code, got[1].text)
		assert.Contains(t, got[1].text, c.said)
	}
}

// sparse writes a file that begins with some bytes, and is zeros up to its size.
func sparse(t *testing.T, name string, head []byte, size int64) string {
	t.Helper()
	path := writeTemp(t, t.TempDir(), name, head)
	require.NoError(t, os.Truncate(path, int64(len(head))+size))
	return path
}

// inputFiles are files with an array of float32 in every form that inputs come in.
func inputFiles(t *testing.T, rows, columns int) map[string]string {
	t.Helper()
	size := 4 * int64(rows) * int64(columns)
	var head bytes.Buffer
	require.NoError(t, npy.Write(&head, ndarray.Must(ndarray.Float32, 0, 0)))
	header := func(order string) []byte {
		text := fmt.Sprintf("{'descr': '<f4', 'fortran_order': %s, 'shape': (%d, %d), }", order, rows, columns)
		return append(head.Bytes()[:10:10], append([]byte(text), append(bytes.Repeat([]byte(" "), head.Len()-11-len(text)), '\n')...)...)
	}
	files := map[string]string{"npy": sparse(t, "x.npy", header("False"), size), "column-major": sparse(t, "x.npy", header("True"), size)}
	var packed bytes.Buffer
	z := zip.NewWriter(&packed)
	w, err := z.Create("x.npy")
	require.NoError(t, err)
	_, err = w.Write(header("True"))
	require.NoError(t, err)
	for zeros := make([]byte, 1<<20); size > 0; size -= 1 << 20 {
		_, err = w.Write(zeros[:min(size, 1<<20)])
		require.NoError(t, err)
	}
	require.NoError(t, z.Close())
	files["npz"] = writeTemp(t, t.TempDir(), "x.npz", packed.Bytes())
	size = 4 * int64(rows) * int64(columns)
	pb := append(binary.AppendUvarint([]byte{1 << 3}, uint64(rows)), 1<<3)
	pb = append(binary.AppendUvarint(pb, uint64(columns)), 2<<3, 1)
	files["pb, packed"] = sparse(t, "x.pb", binary.AppendUvarint(append(pb[:len(pb):len(pb)], 9<<3|2), uint64(size)), size)
	files["pb, a list"] = sparse(t, "x.pb", binary.AppendUvarint(append(pb[:len(pb):len(pb)], 4<<3|2), uint64(size)), size)
	return files
}

// TestBudgetOfInputs: reading an input takes its bytes, or is refused before it takes them: by the budget, or by the type and shape
// that the file tells of.
func TestBudgetOfInputs(t *testing.T) {
	model := textModel(t, `in %x: float32[R,5000] %y = ReduceMax(%x) [keepdims=0] out %y`)
	other := textModel(t, `in %x: float32[R,4] %y = ReduceMax(%x) [keepdims=0] out %y`)
	const refused = "268435456; if the size is right, raise the limit (WithMaxMemory, --max-memory of the command)"
	for name, file := range inputFiles(t, 10000, 5000) { // 200 MB
		got := carryOut(t, [][]string{{"run", other, "--input", "x=" + file, testLimit}, {"run", model, "--input", "x=" + file, testLimit}})
		requireWithin(t, got)
		assert.Equal(t, exitFailed, got[1].code, name)
		assert.Contains(t, got[1].text, "holds float32[10000,5000]", name)
		assert.Less(t, got[1].peak, got[0].peak+testBudget/4, "%s: the elements were read", name)
		if name == "pb, a list" { // is converted, which takes as much again
			assert.Equal(t, exitFailed, got[2].code, name)
			assert.Contains(t, got[2].text, file, name)
			assert.Contains(t, got[2].text, refused, name)
		} else {
			assert.Equal(t, exitDone, got[2].code, "%s: %s", name, got[2].text)
		}
	}
	for name, file := range inputFiles(t, 15000, 5000) { // 300 MB
		got := carryOut(t, [][]string{{"run", model, "--input", "x=" + file, testLimit}})
		requireWithin(t, got)
		assert.Equal(t, exitFailed, got[1].code, name)
		assert.Contains(t, got[1].text, file, name)
		assert.Contains(t, got[1].text, refused, name)
		assert.Less(t, got[1].peak, got[0].peak+testBudget/4, "%s: memory was taken for what is refused", name)
	}
}

// weightedModel is a model of nodes over an x and a weight w of float32, which is zeros in a data file.
func weightedModel(t *testing.T, x []int64, rows, columns int64, nodes ...*onnxwire.Node) string {
	t.Helper()
	path := wireModel(t, x, nodes[0], func(g *onnxwire.Graph) {
		g.Nodes = nodes
		g.Initializers = []*onnxwire.Tensor{{
			Name: "w", Dims: []int64{rows, columns}, DataType: onnxwire.TypeFloat, DataLocation: onnxwire.DataExternal,
			ExternalData: []*onnxwire.StringEntry{{Key: "location", Value: "w.data"}},
		}}
	})
	require.NoError(t, os.Rename(sparse(t, "w.data", nil, 4*rows*columns), filepath.Join(filepath.Dir(path), "w.data")))
	return path
}

// TestBudgetOfMappedWeights: pages of weights that runs and comparisons read are dropped at the limit, also those of a table of which
// rows here and there are read.
func TestBudgetOfMappedWeights(t *testing.T) {
	const rows, columns = 100000, 1000 // 400 MB
	places := make([]float32, 4096)
	for i := range places {
		places[i] = float32(i * (rows / len(places)))
	}
	var file bytes.Buffer
	require.NoError(t, npy.Write(&file, ndarray.Of(places, len(places))))
	input := "x=" + writeTemp(t, t.TempDir(), "x.npy", file.Bytes())
	table := weightedModel(t, []int64{4096}, rows, columns,
		&onnxwire.Node{OpType: "Cast", Inputs: []string{"x"}, Outputs: []string{"i"}, Attributes: []*onnxwire.Attribute{{Name: "to", Type: onnxwire.AttrInt, I: int64(onnxwire.TypeInt64)}}},
		&onnxwire.Node{OpType: "Gather", Inputs: []string{"w", "i"}, Outputs: []string{"y"}})
	product := weightedModel(t, []int64{1, rows}, rows, columns, &onnxwire.Node{OpType: "MatMul", Inputs: []string{"x", "w"}, Outputs: []string{"y"}})
	sum := weightedModel(t, []int64{1, 1}, rows/8, columns, &onnxwire.Node{OpType: "Sum", Inputs: []string{"x", "w"}, Outputs: []string{"y"}})
	for _, c := range []struct {
		args []string
		code int
	}{
		{[]string{"run", table, "--input", input}, exitDone},
		{[]string{"bench", sum, "--seconds=0.1"}, exitDone}, // the result has 50 MB, as has the weight
		{[]string{"diff", product, product}, exitFailed},    // the files are read, but the weight is packed for runs
	} {
		got := carryOut(t, [][]string{{"inspect", "builtin:lstm-loop"}, append(c.args, "--max-memory=100MiB")})[1:] // the first reads the program's code
		requireBudget(t, got, 100<<20)
		assert.Equal(t, c.code, got[1].code, "%s: %s", got[1].name, got[1].text)
	}
}

// TestBudgetOfMedia: so do sound and images.
func TestBudgetOfMedia(t *testing.T) {
	sound, picture := textModel(t, `in %x: float32[1,S] %y = ReduceMax(%x) [keepdims=0] out %y`), textModel(t, `in %x: float32[1,3,H,W] %y = ReduceMax(%x) [keepdims=0] out %y`)
	wav := func(seconds int) string {
		head := []byte("RIFF\xff\xff\xff\xffWAVEfmt \x10\x00\x00\x00\x01\x00\x01\x00\x80\x3e\x00\x00\x80\x3e\x00\x00\x01\x00\x08\x00data\xff\xff\xff\xff")
		return sparse(t, "x.wav", head, int64(seconds)*16000)
	}
	png := func(width, height int) string {
		var buf bytes.Buffer
		e := imagepng.Encoder{CompressionLevel: imagepng.BestSpeed}
		require.NoError(t, e.Encode(&buf, image.NewGray(image.Rect(0, 0, width, height))))
		return writeTemp(t, t.TempDir(), "x.png", buf.Bytes())
	}
	for _, c := range []struct {
		name string
		args []string
		code int
	}{
		{"sound", []string{sound, "--input", "x=" + wav(1500)}, exitDone},        // 192 MB of samples and tensor
		{"much sound", []string{sound, "--input", "x=" + wav(2400)}, exitFailed}, // 307 MB
		{"image", []string{picture, "--image", png(3000, 3000)}, exitDone},       // 108 MB of tensor
		{"large image", []string{picture, "--image", png(5000, 5000)}, exitFailed},
		{"scaled image", []string{picture, "--image", png(3000, 3000), "--shape", "x=1x3x100x9000"}, exitFailed}, // 864 MB between the scalings
	} {
		got := carryOut(t, [][]string{append([]string{"run", testLimit}, c.args...)})
		requireWithin(t, got)
		assert.Equal(t, c.code, got[1].code, "%s: %s", c.name, got[1].text)
		if c.code == exitFailed {
			assert.Contains(t, got[1].text, "raise the limit (WithMaxMemory, --max-memory of the command)", c.name)
		}
	}
}

// TestTrimIsInitializedBetweenPackages: code is given back behind the libraries below Gorgonia, before operators and kernels.
func TestTrimIsInitializedBetweenPackages(t *testing.T) {
	c := exec.Command(os.Args[0], "-test.run=^$")
	c.Env = append(os.Environ(), "GODEBUG=inittrace=1")
	trace, err := c.CombinedOutput()
	require.NoError(t, err)
	at := func(pkg string) int {
		i := strings.Index(string(trace), "\ninit "+pkg+" @")
		require.GreaterOrEqual(t, i, 0, "%s is not initialized", pkg)
		return i
	}
	trim := at("github.com/berth-onnx/berth/cmd/berth/internal/trim")
	for _, pkg := range []string{"google.golang.org/protobuf/reflect/protodesc", "gorgonia.org/tensor"} {
		assert.Less(t, at(pkg), trim, pkg)
	}
	for _, pkg := range []string{"internal/ops/elementwise", "internal/ops/nn", "internal/cpu", "backend/cuda"} {
		assert.Less(t, trim, at("github.com/berth-onnx/berth/"+pkg), pkg)
	}
}

// TestTerminalWithoutSize: on a terminal that has no lines and columns, as programs make them, progress is told in lines.
func TestTerminalWithoutSize(t *testing.T) {
	t.Setenv("NO_COLOR", "")
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Skip(err)
	}
	defer master.Close()
	require.NoError(t, unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0))
	number, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	require.NoError(t, err)
	terminal, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	require.NoError(t, err)
	defer terminal.Close()
	for _, c := range []struct {
		size unix.Winsize
		bar  bool
	}{{unix.Winsize{}, false}, {unix.Winsize{Row: 24}, false}, {unix.Winsize{Row: 24, Col: 80}, true}} {
		require.NoError(t, unix.IoctlSetWinsize(int(master.Fd()), unix.TIOCSWINSZ, &c.size))
		a := &app{errOut: terminal}
		p := a.newProgress(2)
		p.step("counting")
		assert.Equal(t, c.bar, p.bar != nil, "%+v", c.size)
		p.done()
	}
}

// TestPlanLeftOut: a file that is written without its memory plan, because there is no memory to compile the model, says so: its content
// depends on the budget.
func TestPlanLeftOut(t *testing.T) {
	path := textModel(t, `in %x: float32[1,1,200000,8] %y = AveragePool(%x) [kernel_shape=[199999,5], pads=[1,2,1,2]] out %y`)
	optimize := func(limit string) []string {
		return []string{"optimize", path, "-o", filepath.Join(t.TempDir(), "o.onnx"), "--no-verify", "--no-compare", "--max-memory=" + limit}
	}
	got := carryOut(t, [][]string{optimize("80MB"), optimize("1GB")})[1:]
	assert.Equal(t, []int{exitDone, exitDone}, []int{got[0].code, got[1].code})
	assert.Contains(t, got[0].text, "the file is written without its memory plan: ")
	assert.NotContains(t, got[1].text, "plan")
}
