package main

import (
	"context"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// damagedModels are small, so that damage hits structure and not only weights.
var damagedModels = []string{"if-nested", "loop-best", "loop-stack", "scan-axis1", "heads", "shared", "flatten"}

// TestTruncated cuts models off at many lengths. A shorter file is never a valid
// model, except where only what follows the graph is missing.
func TestTruncated(t *testing.T) {
	for _, name := range damagedModels {
		data, err := os.ReadFile(exported(t, name))
		require.NoError(t, err)
		path := filepath.Join(t.TempDir(), "cut.onnx")
		for n := 0; n < len(data); n += max(1, len(data)/60) {
			require.NoError(t, os.WriteFile(path, data[:n], 0o644))
			codes := []int{exitModel}
			if n > len(data)-16 { // what follows the graph may be absent
				codes = append(codes, exitDone)
			}
			damaged(t, path, codes...)
		}
	}
}

// TestBitFlips turns single bits at hundreds of random places.
func TestBitFlips(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, name := range damagedModels {
		data, err := os.ReadFile(exported(t, name))
		require.NoError(t, err)
		path := filepath.Join(t.TempDir(), "flipped.onnx")
		for range 100 {
			i, bit := rng.IntN(len(data)), byte(1)<<rng.IntN(8)
			data[i] ^= bit
			require.NoError(t, os.WriteFile(path, data, 0o644))
			data[i] ^= bit
			if !damaged(t, path, exitDone, exitModel, exitFailed, exitUsage, exitDiffers) {
				t.Logf("%s: byte %d, bit %#x", name, i, bit)
			}
		}
	}
}

// damaged runs the commands on a damaged file: each ends with one of the codes and
// says why in a line or two: which file and, if it is a node's fault, which node.
func damaged(t *testing.T, path string, codes ...int) bool {
	t.Helper()
	out := filepath.Join(filepath.Dir(path), "out.onnx")
	for _, args := range [][]string{{"inspect", path}, {"run", path}, {"optimize", path, "-o", out, "--no-compare"}} {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		o := berthCtx(ctx, args...)
		cancel()
		checkPlain(t, o, args)
		assert.Contains(t, codes, o.code, "%v: %s", args, o.err)
		switch o.code {
		case exitUsage: // an input became something that has no random values
			assert.Contains(t, o.err, "give it with --input")
		case exitModel, exitFailed:
			assert.Contains(t, o.err, path)
		}
		lines := strings.Split(strings.TrimSpace(o.err), "\n")
		for i, l := range lines {
			if !strings.HasPrefix(l, "berth: warning: ") {
				assert.GreaterOrEqual(t, i+2, len(lines), "%v: %s", args, o.err)
			}
			assert.Less(t, len(l), 1000)
		}
	}
	return !t.Failed()
}
