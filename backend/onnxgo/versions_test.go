package onnxgo

import (
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth/ops"
	_ "github.com/berth-onnx/berth/ops/all"
)

// TestIntroduced compares the table with what the Python package onnx declares: the first version of each operator.
func TestIntroduced(t *testing.T) {
	text, err := os.ReadFile("../../ops/testdata/onnx_attributes.txt")
	require.NoError(t, err)
	want := map[string]int{}
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		if len(fields) < 2 || !strings.HasPrefix(line, ".") {
			continue
		}
		name := fields[0][1:]
		v, err := strconv.Atoi(fields[1])
		require.NoError(t, err)
		if first, known := want[name]; !known || v < first {
			want[name] = v
		}
	}
	for name, v := range want {
		if v == 1 {
			delete(want, name)
		}
	}
	assert.Equal(t, want, introduced)
}

// TestElsewhere requires that a name is in one domain besides the default one and that of programs, which no file may have.
func TestElsewhere(t *testing.T) {
	domain := map[string]string{}
	for _, o := range ops.All() {
		if o.Domain == ops.Private {
			assert.NotEqual(t, ops.Private, elsewhere(o.Name), o.Name)
		} else if o.Domain != "" {
			assert.Empty(t, domain[o.Name], "%s is in %s, too", o.Name, o.Domain)
			domain[o.Name] = o.Domain
		}
	}
	assert.NotEmpty(t, domain)
}

// TestRemoved requires that the operators are known, by a rule that replaces them.
func TestRemoved(t *testing.T) {
	for name := range removed {
		o := ops.Lookup("", name)
		require.NotNil(t, o, name)
		assert.NotEmpty(t, o.Upgrades, name)
	}
}
