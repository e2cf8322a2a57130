package berth_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// notLinked begins the paths of packages that a program does not link because it imports the root package.
var notLinked = []string{
	"gorgonia.org/", "github.com/owulveryck/", "github.com/berth-onnx/berth/backend/gorgonia", "github.com/berth-onnx/berth/backend/onnxgo",
	"google.golang.org/protobuf/proto", "google.golang.org/protobuf/reflect", "google.golang.org/protobuf/runtime", "github.com/gogo/", "github.com/golang/protobuf",
	"golang.org/x/image", "golang.org/x/text", "github.com/jedib0t/", "github.com/spf13/", "gopkg.in/yaml",
	"text/template", "html/template", "encoding/json", "encoding/gob", "image", "net", "regexp", "gonum.org/v1/gonum/mat",
}

// TestWalls: a program that imports the root package links no operators that few
// models hold, nor what they need, and no package for other libraries.
func TestWalls(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", ".").Output()
	require.NoError(t, err)
	deps := strings.Fields(string(out))
	assert.Contains(t, deps, modulePath+"/ops/standard")
	for _, dir := range []string{"ops/all", "ops/image", "ops/rare", "ops/signal", "ops/text", "ops/training", "onnximport/nchwc", "internal/jpeg", "internal/jpeg2000"} {
		assert.NotContains(t, deps, modulePath+"/"+dir)
	}
	for _, dep := range deps {
		for _, path := range notLinked {
			assert.False(t, dep == path || strings.HasPrefix(dep, strings.TrimSuffix(path, "/")+"/"), "the root package links %s", dep)
		}
	}
}

// TestSmallestProgram builds a program that opens and runs a model, with the symbols that debuggers read.
func TestSmallestProgram(t *testing.T) {
	const most = 15_000_000
	assert.LessOrEqual(t, smallest(t, ""), int64(most))
}

// TestProgramWithCUDA: the same program with the backend cuda is so much larger, built without C, where it is larger than with it: C's linker
// packs what debuggers read.
func TestProgramWithCUDA(t *testing.T) {
	const most = 2_860_000
	t.Setenv("CGO_ENABLED", "0")
	more := smallest(t, "withcuda") - smallest(t, "")
	t.Logf("%d bytes more", more)
	assert.LessOrEqual(t, more, int64(most))
}

// smallest is the size of the program built with some tags.
func smallest(t *testing.T, tags string) int64 {
	t.Helper()
	name := filepath.Join(t.TempDir(), "smallest")
	out, err := exec.Command("go", "build", "-trimpath", "-tags", tags, "-o", name, "./testdata/smallest").CombinedOutput()
	require.NoError(t, err, string(out))
	info, err := os.Stat(name)
	require.NoError(t, err)
	t.Logf("%d bytes", info.Size())
	return info.Size()
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
