package onnxgo_test

import (
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// onnxGo is the module that only programs that use it are to link.
const onnxGo = "github.com/owulveryck/onnx-go"

// depsOf lists the packages that a package links.
func depsOf(t *testing.T, pkg string) []string {
	t.Helper()
	out, err := exec.Command("go", "list", "-deps", pkg).CombinedOutput()
	require.NoError(t, err, "%s", out)
	return strings.Fields(string(out))
}

// TestLinks requires that the command does not link onnx-go, its description of ONNX or this package. TestWalls requires it of
// the root package.
func TestLinks(t *testing.T) {
	foreign := func(p string) bool {
		return strings.HasPrefix(p, onnxGo) || strings.HasSuffix(p, "/backend/onnxgo")
	}
	assert.False(t, slices.ContainsFunc(depsOf(t, "../../cmd/berth"), foreign))
	assert.True(t, slices.ContainsFunc(depsOf(t, "."), foreign))
}

// TestOneBinary builds and runs a program that links berth, onnx-go and both of its backends: their descriptions of the ONNX
// format do not clash when it starts.
func TestOneBinary(t *testing.T) {
	program := filepath.Join(t.TempDir(), "program")
	out, err := exec.Command("go", "build", "-o", program, "./testdata/program").CombinedOutput()
	require.NoError(t, err, "%s", out)
	out, err = exec.Command(program).CombinedOutput()
	require.NoError(t, err, "%s", out)
	assert.Equal(t, "gorgonnx [-1 2]\nberth [-1 2]\n", string(out))
}
