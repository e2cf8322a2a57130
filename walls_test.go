package berth_test

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// TestWalls: a program that imports the root package links no operators that few
// models hold, nor what they need.
func TestWalls(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", ".").Output()
	require.NoError(t, err)
	deps := strings.Fields(string(out))
	assert.Contains(t, deps, modulePath+"/ops/standard")
	for _, dir := range []string{"ops/all", "ops/image", "ops/rare", "ops/training", "onnximport/nchwc", "internal/jpeg", "internal/jpeg2000"} {
		assert.NotContains(t, deps, modulePath+"/"+dir)
	}
	assert.NotContains(t, string(out), "golang.org/x/image")
}

// TestUnlinkedOperator: the error at the run of an operator that the program does
// not link names the package to import. These tests do not link it.
func TestUnlinkedOperator(t *testing.T) {
	g, err := ssa.ParseGraph(`graph "g" { in %x: uint8[4] %y: uint8[...] = ImageDecoder(%x) out %y }`)
	require.NoError(t, err)
	_, err = ops.Interpret(t.Context(), g, []ndarray.Value{ndarray.Must(ndarray.Uint8, 4)}, nil)
	var unknown *ops.UnknownOperatorError
	require.ErrorAs(t, err, &unknown)
	assert.Equal(t, modulePath+"/ops/image", unknown.Package)
	assert.ErrorContains(t, err, `import _ "github.com/berth-onnx/berth/ops/image"`)
}
