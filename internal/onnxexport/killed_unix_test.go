//go:build unix

package onnxexport

import (
	"bufio"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestKilledAtRandom kills a process that saves one model after the other under one name: each time the file is a whole
// model with its own weights, and the next save leaves nothing else.
func TestKilledAtRandom(t *testing.T) {
	if dir := os.Getenv("BERTH_SAVE_FOR_EVER"); dir != "" {
		os.Stdout.WriteString("saving\n")
		for i := 0; ; i++ {
			require.NoError(t, Save(filled(t, 20_000, float32(i%5)), filepath.Join(dir, "m.onnx"), Options{External: int64(i+1) % 4}))
		}
	}
	dir := t.TempDir()
	path := filepath.Join(dir, "m.onnx")
	require.NoError(t, Save(filled(t, 20_000, 0), path, external))
	kills, _ := strconv.Atoi(os.Getenv("BERTH_KILLS"))
	left := 0
	for range max(kills, 120) {
		cmd := exec.Command(os.Args[0], "-test.run=^TestKilledAtRandom$")
		cmd.Env = append(os.Environ(), "BERTH_SAVE_FOR_EVER="+dir)
		out, err := cmd.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, cmd.Start())
		line, err := bufio.NewReader(out).ReadString('\n')
		require.NoError(t, err)
		require.Equal(t, "saving\n", line)
		time.Sleep(time.Duration(rand.IntN(20_000)) * time.Microsecond)
		require.NoError(t, cmd.Process.Kill())
		require.Error(t, cmd.Wait())
		weight(t, path)
		if len(listed(t, dir)) > 2 {
			left++
		}
	}
	t.Logf("something was left over %d times", left)
	require.NoError(t, Save(filled(t, 20_000, 0), path, external))
	assert.Equal(t, []string{"m.onnx", "m.onnx.HASH.data"}, listed(t, dir))
}
