package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
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

	"github.com/berth-onnx/berth/internal/hostile"
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
	c.Env = append(os.Environ(), commandLines+"="+file)
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

// requireWithin checks that no command line took more than the budget and a tenth.
func requireWithin(t *testing.T, got []measured) {
	t.Helper()
	last := got[0].peak
	for _, m := range got[1:] {
		require.Less(t, m.peak, got[0].peak+testBudget*11/10, "after %s, before it were %d; %s", m.name, last, m.text)
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
