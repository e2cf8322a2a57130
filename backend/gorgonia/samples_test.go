package gorgonia_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// samples are what the code of docs/gorgonia.md takes as given, block by block, and the variables that it sets for the reader.
var samples = []struct{ given, set string }{
	{`graph *gorgonia.ExprGraph, prediction *gorgonia.Node, weights gorgonia.Nodes, solver gorgonia.Solver`, `err values`},
	{`ctx context.Context, model *berth.Model, x *tensor.Dense, graph *gorgonia.ExprGraph, prediction *gorgonia.Node, weights gorgonia.Nodes`, `err results`},
	{`data []byte, x tensor.Tensor`, `out err`},
	{`data []byte`, `err`},
}

// imported are the packages that the samples use.
var imported = map[string]string{
	"context": "context", "berth": "github.com/berth-onnx/berth", "tensors": "github.com/berth-onnx/berth/backend/gorgonia",
	"vm": "github.com/berth-onnx/berth/backend/gorgonia/vm", "export": "github.com/berth-onnx/berth/backend/gorgonia/export",
	"exprgraph": "github.com/berth-onnx/berth/backend/gorgonia/exprgraph", "onnxgo": "github.com/berth-onnx/berth/backend/onnxgo",
	"onnx": "github.com/owulveryck/onnx-go", "gorgonia": "gorgonia.org/gorgonia", "tensor": "gorgonia.org/tensor",
}

// TestSamples compiles the code of docs/gorgonia.md.
func TestSamples(t *testing.T) {
	tool, err := exec.LookPath("go")
	if err != nil {
		t.Skip("no go command")
	}
	text, err := os.ReadFile("../../docs/gorgonia.md")
	require.NoError(t, err)
	blocks := regexp.MustCompile("(?s)```go\n(.*?)```").FindAllStringSubmatch(string(text), -1)
	require.Len(t, blocks, len(samples))
	here, err := os.Getwd()
	require.NoError(t, err)
	replace, dir := map[string]string{}, t.TempDir()
	for i, b := range blocks {
		file := filepath.Join(dir, fmt.Sprintf("%d.go", i))
		require.NoError(t, os.WriteFile(file, []byte(program(i, b[1])), 0o600))
		replace[filepath.Join(here, "samples", filepath.Base(file))] = file
	}
	overlay, err := json.Marshal(map[string]any{"Replace": replace})
	require.NoError(t, err)
	list := filepath.Join(dir, "overlay.json")
	require.NoError(t, os.WriteFile(list, overlay, 0o600))
	out, err := exec.CommandContext(t.Context(), tool, "build", "-overlay", list, "./samples").CombinedOutput()
	assert.NoError(t, err, "%s", out)
}

// program makes a file of a sample.
func program(i int, body string) string {
	var lines []string
	for line := range strings.Lines(body) {
		if !strings.HasPrefix(line, "import ") {
			lines = append(lines, line)
		}
	}
	code := fmt.Sprintf("func sample%d(%s) {\n%s", i, samples[i].given, strings.Join(lines, ""))
	for _, name := range strings.Fields(samples[i].set) {
		code += "_ = " + name + "\n"
	}
	code += "}\n"
	head := "package samples\n"
	for name, path := range imported {
		if regexp.MustCompile(`\b` + name + `\.`).MatchString(code) {
			head += fmt.Sprintf("import %s %q\n", name, path)
		}
	}
	return head + code
}
