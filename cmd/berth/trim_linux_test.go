package main

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

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
