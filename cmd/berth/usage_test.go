package main

import (
	"bytes"
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth/onnximport"
)

var commands = []string{"optimize", "run", "verify", "compare", "inspect", "bench", "diff", "train", "models"}

func TestHelp(t *testing.T) {
	for _, args := range [][]string{{}, {"--help"}, {"help"}} {
		out := ok(t, args...)
		for _, c := range commands {
			assert.Contains(t, out, "\n  "+c+" ")
		}
		assert.Contains(t, out, "Exit codes: 0 done, 1 the model or the run failed, 2 usage")
	}
	for _, c := range commands {
		out := ok(t, c, "--help")
		for _, flag := range []string{"--json", "--shape", "--dim", "--threads", "--planner", "--schedule", "--seed", "--check", "--dump", "--verbose"} {
			assert.Contains(t, out, flag, c)
		}
		_, examples, found := strings.Cut(out, "Examples:\n")
		require.True(t, found, "%s has no example", c)
		examples, _, _ = strings.Cut(examples, "\n\n")
		for _, flag := range regexp.MustCompile(`--[a-z-]+`).FindAllString(examples, -1) {
			assert.Contains(t, strings.Replace(out, examples, "", 1), " "+flag+" ", "an example of %s", c)
		}
	}
}

// TestReadme: the README has a line per command, in the order of the help, and every
// flag that it names there is one of that command.
func TestReadme(t *testing.T) {
	text, err := os.ReadFile("../../README.md")
	require.NoError(t, err)
	rows := regexp.MustCompile("(?m)^\\| `([a-z]+)[^`]*` \\| (.*) \\|$").FindAllStringSubmatch(string(text), -1)
	var named []string
	for _, row := range rows {
		named = append(named, row[1])
		help := ok(t, row[1], "--help")
		for _, flag := range regexp.MustCompile(`--[a-z-]+`).FindAllString(row[0], -1) {
			assert.Contains(t, help, flag+" ", row[1])
		}
	}
	assert.Equal(t, commands, named)
}

// TestUsage has a command line per mistake a person can make.
func TestUsage(t *testing.T) {
	for _, c := range []struct {
		want string
		args []string
	}{
		{`no command "frobnicate"`, []string{"frobnicate"}},
		{`no command "runn" (did you mean run?)`, []string{"help", "runn"}},
		{`no command "run this"`, []string{"help", "run", "this"}},
		{"unknown flag: --bogus; 'berth run --help' lists the flags", []string{"run", "--bogus"}},
		{"run takes one model, got 0", []string{"run"}},
		{"run takes one model, got 2", []string{"run", "a", "b"}},
		{"optimize takes one model, got 2", []string{"optimize", "a", "b"}},
		{"diff takes two models, got 1", []string{"diff", "a"}},
		{"models takes no arguments, got 1", []string{"models", "a"}},
		{"verify takes at least one", []string{"verify"}},
		{"one model, or --instance", []string{"compare"}},
		{"one model, or --instance", []string{"compare", "a", "--instance", "b"}},
		{"only one of --json, --csv and --markdown", []string{"compare", "builtin:mlp", "--csv", "--json"}},
		{"only one of --json, --csv and --markdown", []string{"compare", "builtin:mlp", "--csv", "--markdown"}},
		{`no built-in model "nope"; there are if-capture`, []string{"inspect", "builtin:nope"}},
		{`no planner "best"; there are naive, `, []string{"run", "builtin:mlp", "--planner", "best"}},
		{`no planner "all"`, []string{"run", "builtin:mlp", "--planner", "all"}},
		{`no planner "best"`, []string{"compare", "--instance", "x.csv", "--planner", "best"}},
		{`no schedule "best"; there are min-peak`, []string{"compare", "builtin:mlp", "--schedule", "best"}},
		{"--threads must be at least 1", []string{"bench", "builtin:mlp", "--threads", "0"}},
		{"invalid argument \"x\" for \"--threads\"", []string{"bench", "builtin:mlp", "--threads", "x"}},
		{`no backend "gpu"`, []string{"bench", "builtin:mlp", "--backend", "gpu"}},
		{`--shape "x": want NAME=`, []string{"run", "builtin:mlp", "--shape", "x"}},
		{`--shape "x=4x": want NAME=`, []string{"run", "builtin:mlp", "--shape", "x=4x"}},
		{`--shape "x=-1x64": want NAME=`, []string{"run", "builtin:mlp", "--shape", "x=-1x64"}},
		{"no input \"y\"; the inputs are x", []string{"run", "builtin:mlp", "--shape", "y=4x64"}},
		{"--shape x: the input is float32[4,64]", []string{"run", "builtin:mlp", "--shape", "x=5x64"}},
		{"--shape x: the input is float32[4,64]", []string{"inspect", "builtin:mlp", "--shape", "x=4"}},
		{"--max-opset -1: want", []string{"optimize", "builtin:mlp", "--max-opset", "-1"}},
		{"--max-opset 0: want an operator set from 1 to", []string{"optimize", "builtin:mlp", "--max-opset", "0"}},
		{`--dim "N": want NAME=NUMBER`, []string{"run", "builtin:encoder", "--dim", "N"}},
		{`--dim "N=-1": want NAME=NUMBER`, []string{"run", "builtin:encoder", "--dim", "N=-1"}},
		{`no dimension "Q"; the dimensions are N, S`, []string{"run", "builtin:encoder", "--dim", "Q=1"}},
		{"the inputs have no symbolic dimensions", []string{"run", "builtin:mlp", "--dim", "N=1"}},
		{"--data goes with a model file", []string{"run", "builtin:mlp", "--data", "x"}},
		{`no node named "n"`, []string{"inspect", "builtin:mlp", "--node", "n"}},
		{"no input \"y\"; the inputs are x", []string{"run", "builtin:mlp", "--input", "y=a.npy"}},
		{`--input "a.npy": want NAME=FILE`, []string{"run", "builtin:mlp", "--input", "a.npy"}},
		{`files of type ".txt" are not understood`, []string{"run", "builtin:mlp", "--input", "x=a.txt"}},
	} {
		o := fails(t, exitUsage, []string{c.want}, c.args...)
		assert.Empty(t, o.out, c.args)
	}
}

// TestNoModel gives every command a file that is not there, or no model.
func TestNoModel(t *testing.T) {
	dir := t.TempDir()
	missing, text, empty := filepath.Join(dir, "missing.onnx"), filepath.Join(dir, "text.onnx"), filepath.Join(dir, "empty.onnx")
	require.NoError(t, os.WriteFile(text, []byte("once upon a time there was a network"), 0o644))
	require.NoError(t, os.WriteFile(empty, nil, 0o644))
	for _, c := range commands[:len(commands)-1] {
		for _, path := range []string{missing, text, empty, dir} {
			args := []string{c, path}
			if c == "diff" {
				args = append(args, path)
			}
			if c == "train" {
				args = append(args, "--data", "data.npz", "-o", filepath.Join(dir, "out.onnx"))
			}
			if c == "verify" && path == text || path == empty || path == dir {
				continue // a folder of cases, or a model without any
			}
			o := fails(t, exitModel, []string{path}, args...)
			assert.Empty(t, o.out)
			if path == missing {
				assert.Contains(t, o.err, "no such file")
			}
		}
	}
	fails(t, exitUsage, []string{"name of the model is empty"}, "run", "")
	fails(t, exitFailed, []string{"--data " + dir, "no input_0.pb"}, "run", exported(t, "mlp"), "--data", dir)
	fails(t, exitFailed, []string{"--max-memory"}, "run", exported(t, "mlp"), "--max-memory", "1B")
	fails(t, exitModel, []string{"no such file"}, "compare", "--instance", missing)
	instance := filepath.Join(dir, "i.csv")
	require.NoError(t, os.WriteFile(instance, []byte("id,lower,upper,size\na,0,1,64\n"), 0o644))
	fails(t, exitFailed, []string{"i.csv", "--max-memory"}, "compare", "--instance", instance, "--max-memory", "1B")
	fails(t, exitModel, []string{text}, "compare", "--instance", text)
	fails(t, exitModel, []string{"second"}, "diff", "builtin:mlp", filepath.Join(dir, "second"))

	data := &onnximport.ImportError{File: text, Reason: `external data "w" can not be read`, Err: &fs.PathError{Op: "open", Path: "w", Err: fs.ErrPermission}}
	assert.ErrorContains(t, modelError(text, data), data.Reason, "what is said of another file than the model stays")
}

func TestShapeForms(t *testing.T) {
	for _, c := range []struct {
		in    string
		name  string
		shape []int
	}{
		{"x=1x3x224x224", "x", []int{1, 3, 224, 224}},
		{"x:1,3,224,224", "x", []int{1, 3, 224, 224}},
		{"x=1X3,2", "x", []int{1, 3, 2}},
		{"x=7", "x", []int{7}},
		{"x=", "x", []int{}},
		{"x=0x4", "x", []int{0, 4}},
		{"a=b:0=2x3", "a=b:0", []int{2, 3}},
		{"input:0:2,3", "input:0", []int{2, 3}},
	} {
		name, shape, err := parseShape(c.in)
		require.NoError(t, err, c.in)
		assert.Equal(t, c.name, name, c.in)
		assert.Equal(t, c.shape, shape, c.in)
	}
}

// TestInterrupted cancels every command that works on a model, at once and, for one
// that would go on for a minute, in the middle.
func TestInterrupted(t *testing.T) {
	path := exported(t, "unet")
	out := filepath.Join(t.TempDir(), "out.onnx")
	for _, args := range [][]string{{"optimize", path, "-o", out}, {"run", path}, {"compare", path}, {"bench", path}, {"diff", path, path}} {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		o := berthCtx(ctx, args...)
		checkPlain(t, o, args)
		assert.Equal(t, exitFailed, o.code, args)
		assert.Equal(t, "berth: "+path+": interrupted\n", o.err, args)
		absent(t, out)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
	defer cancel()
	start := time.Now()
	o := berthCtx(ctx, "bench", path, "--seconds", "60")
	assert.Equal(t, outcome{exitFailed, "", "berth: " + path + ": interrupted\n"}, o)
	assert.Less(t, time.Since(start), 10*time.Second)
}

// brokenWriter is a bug.
type brokenWriter struct{}

func (brokenWriter) Write([]byte) (int, error) { panic("broken") }

// TestPanic makes sure that a bug ends in a line, too.
func TestPanic(t *testing.T) {
	var errOut bytes.Buffer
	code := execute(context.Background(), []string{"models"}, brokenWriter{}, &errOut)
	assert.Equal(t, exitFailed, code)
	assert.Equal(t, "berth: internal error: broken; please report it with the command line and, if you can, the model\n", errOut.String())
}

// TestOutputFiles: what can not be a file is refused before the model is looked at.
func TestOutputFiles(t *testing.T) {
	refused := []string{os.DevNull, "is a device and can not be replaced"}
	for _, args := range [][]string{
		{"optimize", "none.onnx", "-o", os.DevNull}, {"inspect", "none.onnx", "--html", os.DevNull}, {"verify", "none.onnx", "--list", os.DevNull},
		{"compare", "none.onnx", "--write-instance", os.DevNull}, {"run", "none.onnx", "--dump", os.DevNull},
	} {
		fails(t, exitFailed, refused, args...)
	}
	dir := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(dir, "probabilities.npy"), 0o755))
	fails(t, exitFailed, []string{"probabilities.npy is a folder"}, "run", "builtin:mlp", "--output-dir", dir)
}
