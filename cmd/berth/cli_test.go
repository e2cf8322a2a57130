package main

import (
	"bytes"
	"context"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth/internal/onnxexport"
	"github.com/berth-onnx/berth/testmodels"
)

// commandLine is the environment variable by which the test binary becomes the command, in a process of its own.
const commandLine = "BERTH_TEST_COMMAND_LINE"

// becomes says what the test binary does in the place of tests, by the environment variable that is set; the function takes
// its value.
var becomes = map[string]func(value string){
	commandLine: func(line string) {
		os.Args = append([]string{"berth"}, strings.Split(line, "\n")...)
		main()
	},
}

// TestMain keeps the progress of slow machines out of what tests expect on standard error.
func TestMain(m *testing.M) {
	for variable, f := range becomes {
		if value, ok := os.LookupEnv(variable); ok {
			f(value)
			return
		}
	}
	progressAfter = time.Hour
	os.Exit(m.Run())
}

// outcome is what one command line did.
type outcome struct {
	code     int
	out, err string
}

// berthCtx runs a command line in this process.
func berthCtx(ctx context.Context, args ...string) outcome {
	var out, errOut bytes.Buffer
	code := execute(ctx, args, &out, &errOut)
	return outcome{code, out.String(), errOut.String()}
}

// cli runs a command line and checks what holds for every one: a failure is told in
// one or two plain lines, nothing printed is meant for a terminal.
func cli(t testing.TB, args ...string) outcome {
	t.Helper()
	o := berthCtx(context.Background(), args...)
	checkPlain(t, o, args)
	return o
}

func checkPlain(t testing.TB, o outcome, args []string) {
	t.Helper()
	line := strings.Join(args, " ")
	assert.NotContains(t, o.out+o.err, "\x1b", line)
	for _, bad := range []string{"goroutine ", "panic", "internal error", ".go:"} {
		assert.NotContains(t, o.err, bad, line)
	}
	if o.code != exitDone {
		last := o.err[strings.LastIndex(strings.TrimSuffix(o.err, "\n"), "\n")+1:]
		assert.True(t, strings.HasPrefix(last, "berth: "), "%s: the last line must say what is wrong: %q", line, o.err)
	}
}

// ok is cli for command lines that must succeed.
func ok(t testing.TB, args ...string) string {
	t.Helper()
	o := cli(t, args...)
	require.Equal(t, exitDone, o.code, "%s: %s", strings.Join(args, " "), o.err)
	return o.out
}

// fails is cli for command lines that must end with a code and one or two lines
// that contain all the given pieces.
func fails(t testing.TB, code int, pieces []string, args ...string) outcome {
	t.Helper()
	o := cli(t, args...)
	line := strings.Join(args, " ")
	assert.Equal(t, code, o.code, "%s: %s", line, o.err)
	assert.LessOrEqual(t, strings.Count(o.err, "\n"), 2, "%s: %s", line, o.err)
	for _, p := range pieces {
		assert.Contains(t, o.err, p, line)
	}
	return o
}

// object decodes the one JSON object that standard output must be, and checks the
// names of its fields.
func object(t testing.TB, out string, fields ...string) map[string]any {
	t.Helper()
	require.Equal(t, 1, strings.Count(out, "\n"), "not one line: %q", out)
	var m map[string]any
	require.NoError(t, json.Unmarshal([]byte(out), &m), out)
	hasFields(t, m, fields...)
	return m
}

func hasFields(t testing.TB, m map[string]any, fields ...string) {
	t.Helper()
	if len(fields) > 0 {
		fields = slices.Sorted(slices.Values(fields))
		assert.Equal(t, fields, slices.Sorted(maps.Keys(m)))
	}
}

// exported writes a built-in model to a file.
func exported(t testing.TB, name string) string {
	t.Helper()
	m, err := testmodels.Build(name)
	require.NoError(t, err)
	path := filepath.Join(t.TempDir(), name+".onnx")
	require.NoError(t, onnxexport.Save(m, path, onnxexport.Options{}))
	return path
}

// absent checks that a file was not written, nor a piece of it.
func absent(t testing.TB, path string) {
	t.Helper()
	left, err := filepath.Glob(filepath.Join(filepath.Dir(path), "*"))
	require.NoError(t, err)
	hidden, err := filepath.Glob(filepath.Join(filepath.Dir(path), ".berth*"))
	require.NoError(t, err)
	assert.NotContains(t, left, path)
	assert.Empty(t, hidden)
}
