//go:build unix

package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// TestSignalsEndTheCommand: SIGINT and SIGTERM end a command soon, with exit code 1 and
// no file left behind; inspect does not show a plan that was cut short as one of 0 bytes.
func TestSignalsEndTheCommand(t *testing.T) {
	dir := t.TempDir()
	model := filepath.Join(dir, "model.onnx")
	saveChain(t, model, 30000)
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM} {
		command := map[syscall.Signal][]string{syscall.SIGINT: {"inspect", model}, syscall.SIGTERM: {"optimize", model, "-o", filepath.Join(dir, "out.onnx")}}[sig]
		t.Run(sig.String(), func(t *testing.T) {
			c := exec.Command(os.Args[0])
			c.Env = append(os.Environ(), commandLine+"="+strings.Join(command, "\n"))
			var errs bytes.Buffer
			c.Stderr = &errs
			require.NoError(t, c.Start())
			kill := time.AfterFunc(time.Minute, func() { c.Process.Kill() })
			defer kill.Stop()
			time.Sleep(300 * time.Millisecond)
			require.NoError(t, c.Process.Signal(sig))
			require.Error(t, c.Wait(), "it was done before the signal came")
			assert.Equal(t, exitFailed, c.ProcessState.ExitCode())
			assert.Contains(t, errs.String(), "interrupted")
			left, err := os.ReadDir(dir)
			require.NoError(t, err)
			assert.Len(t, left, 1, "the model alone is there")
		})
	}
}

// saveChain writes a model of so many additions.
func saveChain(t *testing.T, path string, nodes int) {
	var b strings.Builder
	b.WriteString("graph \"chain\" {\nin %v0: float32[16]\n")
	for i := range nodes {
		fmt.Fprintf(&b, "%%v%d: float32[16] = Add(%%v%d, %%v%d)\n", i+1, i, i-i%50)
	}
	fmt.Fprintf(&b, "out %%v%d\n}\n", nodes)
	g, err := ssa.ParseGraph(b.String())
	require.NoError(t, err)
	require.NoError(t, ops.InferGraph(g))
	m := berth.FromModule(&ssa.Module{Graph: g, IR: 10, Opsets: []ssa.Opset{{Version: 22}}})
	require.NoError(t, m.Save(path, berth.SaveOptions{}))
}

// TestTrainingIsKept: the process of an interrupted command goes on until the state of training is written, which waits for a folder that another
// program has locked here.
func TestTrainingIsKept(t *testing.T) {
	ended := make(chan int, 1)
	endProcess = func(code int) { ended <- code }
	defer func() { endProcess = nil }()
	dir := t.TempDir()
	data, kept := trainData(t, dir), filepath.Join(dir, "kept")
	require.NoError(t, os.Mkdir(kept, 0o777))
	lock, err := os.Open(kept)
	require.NoError(t, err)
	defer lock.Close()
	steps, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan outcome)
	go func() {
		done <- berthCtx(steps, "train", "builtin:mlp", "--data", data, "--loss", "mean-squared-error", "--epochs", "100000000", "--checkpoint", filepath.Join(kept, "state"), "-o", filepath.Join(dir, "out.onnx"))
	}()
	time.Sleep(300 * time.Millisecond) // for some steps; without any there is nothing to keep
	require.NoError(t, syscall.Flock(int(lock.Fd()), syscall.LOCK_EX))
	cancel()
	time.Sleep(3 * grace)
	assert.Empty(t, ended, "the process ends before the state is written")
	require.NoError(t, syscall.Flock(int(lock.Fd()), syscall.LOCK_UN))
	require.Equal(t, exitFailed, (<-done).code)
	assert.Equal(t, exitFailed, <-ended, "of who would have ended it")
	assert.FileExists(t, filepath.Join(kept, "state"))
}
