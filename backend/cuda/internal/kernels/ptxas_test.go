package kernels

import (
	"cmp"
	goflag "flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var update = goflag.Bool("update", false, "write the table of registers")

// architecture is what a multiprocessor has, by the CUDA C++ programming guide's table of technical specifications.
type architecture struct {
	name             int // 80: sm_80
	threads, blocks  int
	shared, reserved int // bytes, and those that every block takes beside its own
}

var architectures = []architecture{
	{70, 2048, 32, 96 << 10, 0}, {80, 2048, 32, 164 << 10, 1 << 10}, {86, 1536, 16, 100 << 10, 1 << 10}, {89, 1536, 24, 100 << 10, 1 << 10},
	{90, 2048, 32, 228 << 10, 1 << 10}, {100, 2048, 32, 228 << 10, 1 << 10}, {120, 1536, 24, 100 << 10, 1 << 10},
}

// needs is what ptxas says that a kernel needs on an architecture.
type needs struct{ registers, spilled, shared, stack int }

// occupancy is the part of a multiprocessor's threads that can be there at a time, in per cent: registers are given to warps in units of 256.
func (a *architecture) occupancy(n needs, threads int) int {
	warps := (threads + 31) / 32
	perWarp := (n.registers*32 + 255) / 256 * 256
	blocks := min(a.blocks, a.threads/threads, 65536/max(perWarp, 1)/warps)
	if n.shared+a.reserved > 0 {
		blocks = min(blocks, a.shared/((n.shared+a.reserved+127)/128*128))
	}
	return 100 * blocks * warps * 32 / a.threads
}

// kernelOf tells kernels of modules apart.
type kernelOf struct{ file, name string }

var (
	compiling = regexp.MustCompile(`Compiling entry function '(\w+)'`)
	stack     = regexp.MustCompile(`(\d+) bytes stack frame, (\d+) bytes spill stores`)
	used      = regexp.MustCompile(`Used (\d+) registers`)
	smem      = regexp.MustCompile(`(\d+) bytes smem`)
	entry     = regexp.MustCompile(`\.entry (\w+)\(`)
	threadsOf = regexp.MustCompile(`\.maxntid (\d+), 1, 1`)
)

func number(t *testing.T, s string) int {
	n, err := strconv.Atoi(s)
	require.NoError(t, err)
	return n
}

// compiled reads what ptxas -v prints; a kernel's figures include those of the functions that it calls.
func compiled(t *testing.T, text string) map[string]needs {
	out := map[string]needs{}
	name := ""
	for _, line := range strings.Split(text, "\n") {
		n := out[name]
		if m := compiling.FindStringSubmatch(line); m != nil {
			name, n = m[1], needs{}
		}
		if m := stack.FindStringSubmatch(line); m != nil {
			n.stack, n.spilled = n.stack+number(t, m[1]), n.spilled+number(t, m[2])
		}
		if m := used.FindStringSubmatch(line); m != nil {
			n.registers = number(t, m[1])
			if m := smem.FindStringSubmatch(line); m != nil {
				n.shared = number(t, m[1])
			}
		}
		if name != "" {
			out[name] = n
		}
	}
	return out
}

// TestPtxas compiles all committed PTX for every architecture, and compares what kernels need with the committed table.
func TestPtxas(t *testing.T) {
	ptxas := os.Getenv("BERTH_PTXAS")
	if ptxas == "" {
		t.Skip("BERTH_PTXAS names no ptxas of CUDA 12.8 (the wheel nvidia-cuda-nvcc-cu12==12.8.93 of PyPI has one)")
	}
	files := globbed(t, "*.ptx", "../emit/*.ptx", "../emit/testdata/*.ptx", "../../../../internal/ptx/testdata/*.ptx")
	found := make([]map[kernelOf]needs, len(architectures))
	var wait sync.WaitGroup
	for i, a := range architectures {
		found[i] = map[kernelOf]needs{}
		wait.Add(1)
		go func() {
			defer wait.Done()
			for _, file := range files {
				out, err := exec.Command(ptxas, "-v", "-arch", fmt.Sprintf("sm_%d", a.name), file, "-o", filepath.Join(t.TempDir(), "out")).CombinedOutput()
				assert.NoError(t, err, "%s for sm_%d: %s", file, a.name, out)
				for name, n := range compiled(t, string(out)) {
					found[i][kernelOf{strings.TrimSuffix(filepath.Base(file), ".ptx"), name}] = n
				}
			}
		}()
	}
	wait.Wait()
	require.False(t, t.Failed())
	for i, a := range architectures {
		for k, n := range found[i] {
			assert.Zero(t, n.spilled, "bytes that %s spills for sm_%d", k.name, a.name)
		}
	}
	const path = "../../../../docs/cuda-kernels.md"
	text := tableOf(t, files, found)
	if *update {
		require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	assert.Equal(t, string(want), text, "go test ./backend/cuda/internal/kernels -run TestPtxas -update")
}

func globbed(t *testing.T, patterns ...string) (files []string) {
	for _, p := range patterns {
		list, err := filepath.Glob(p)
		require.NoError(t, err)
		require.NotEmpty(t, list, p)
		files = append(files, list...)
	}
	return files
}

// blocks are the threads of a block by kernel, as the modules declare them; 256 where they do not.
func blocks(t *testing.T, files []string) map[kernelOf]int {
	out := map[kernelOf]int{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		for _, part := range strings.Split(string(text), ".visible ")[1:] {
			m := entry.FindStringSubmatch(part)
			if m == nil {
				continue
			}
			head, _, _ := strings.Cut(part, "{")
			k := kernelOf{strings.TrimSuffix(filepath.Base(file), ".ptx"), m[1]}
			if out[k] = 256; threadsOf.MatchString(head) {
				out[k] = number(t, threadsOf.FindStringSubmatch(head)[1])
			}
		}
	}
	return out
}

const tableHead = `# What CUDA kernels need

Written by a test from what ` + "`ptxas`" + ` 12.8 says of the PTX that is committed. In a column of an architecture: registers of a thread, and the part
of a multiprocessor's threads that can be there at a time, as registers, shared memory and the size of blocks allow (computed, not measured).
No kernel spills registers.

`

// tableOf writes the table.
func tableOf(t *testing.T, files []string, found []map[kernelOf]needs) string {
	var s strings.Builder
	s.WriteString(tableHead + "| module | kernel | threads | shared |")
	for _, a := range architectures {
		fmt.Fprintf(&s, " sm_%d |", a.name)
	}
	s.WriteString("\n|---|---|---|---|" + strings.Repeat("---|", len(architectures)) + "\n")
	threads := blocks(t, files)
	for _, k := range slices.SortedFunc(maps.Keys(found[0]), func(a, b kernelOf) int { return cmp.Or(cmp.Compare(a.file, b.file), cmp.Compare(a.name, b.name)) }) {
		fmt.Fprintf(&s, "| %s | %s | %d | %d |", k.file, k.name, threads[k], found[0][k].shared)
		for i, a := range architectures {
			n := found[i][k]
			fmt.Fprintf(&s, " %d, %d %% |", n.registers, a.occupancy(n, threads[k]))
		}
		s.WriteString("\n")
	}
	return s.String()
}
