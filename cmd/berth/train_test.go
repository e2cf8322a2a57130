package main

import (
	"archive/zip"
	"bytes"
	"context"
	"encoding/gob"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth"
	"github.com/berth-onnx/berth/ndarray"
)

// npzBytes is an archive of arrays.
func npzBytes(t *testing.T, arrays map[string]*ndarray.Array) []byte {
	var packed bytes.Buffer
	z := zip.NewWriter(&packed)
	for name, a := range arrays {
		w, err := z.Create(name + ".npy")
		require.NoError(t, err)
		_, err = w.Write(npyBytes(t, a))
		require.NoError(t, err)
	}
	require.NoError(t, z.Close())
	return packed.Bytes()
}

// trainData is 40 examples for builtin:mlp, whose class is that of the largest of the first ten numbers.
func trainData(t *testing.T, dir string) string {
	x, target := ndarray.Must(ndarray.Float32, 40, 64), ndarray.Must(ndarray.Float32, 40, 10)
	for i := range x.Len() {
		x.SetFloat(i, math.Sin(float64(i)*1.3))
	}
	for i := range 40 {
		best := 0
		for k := range 10 {
			if x.Float(i*64+k) > x.Float(i*64+best) {
				best = k
			}
		}
		target.SetFloat(i*10+best, 1)
	}
	return writeTemp(t, dir, "data.npz", npzBytes(t, map[string]*ndarray.Array{"x": x, "target": target, "unrelated": x}))
}

// TestTrain: the loss falls, the same flags give the same losses, within a budget too, and the model that is written computes what was learned.
func TestTrain(t *testing.T) {
	dir := t.TempDir()
	data, out, curve := trainData(t, dir), filepath.Join(dir, "out.onnx"), filepath.Join(dir, "curve.html")
	args := []string{"train", "builtin:mlp", "--data", data, "--loss", "mean-squared-error", "--optimizer", "adam", "--rate", "0.005", "--epochs", "20"}
	fields := []string{"model", "output", "learned", "examples", "batch", "steps", "losses", "arena_bytes", "step_ns"}
	res := object(t, ok(t, append(args, "-o", out, "--curve", curve, "--json")...), fields...)
	assert.EqualValues(t, 200, res["steps"])
	assert.EqualValues(t, 4, res["batch"])
	assert.Len(t, res["learned"], 6)
	losses := res["losses"].([]any)
	require.Len(t, losses, 200)
	assert.Less(t, losses[199], 0.2*losses[0].(float64))
	page, err := os.ReadFile(curve)
	require.NoError(t, err)
	assert.Contains(t, string(page), "200 steps, loss from")
	assert.Contains(t, string(page), "<polyline")

	again := object(t, ok(t, append(args, "-o", filepath.Join(dir, "again.onnx"), "--json", "--budget", "1GB", "--threads", "2")...), append(fields, "kept")...)
	assert.Equal(t, losses, again["losses"])
	further := object(t, ok(t, "train", out, "--data", data, "--loss", "mean-squared-error", "--steps", "1", "-o", filepath.Join(dir, "further.onnx"), "--json"), fields...)
	assert.Less(t, further["losses"].([]any)[0], 0.3*losses[0].(float64))
	head := object(t, ok(t, append(args, "-o", filepath.Join(dir, "head.onnx"), "--json", "--learn", res["learned"].([]any)[5].(string), "--steps", "3")...), fields...)
	assert.Len(t, head["learned"], 1)
	open := saved(t, `in %x: float32[N,64] const %b: float32[10] = [0,1,2,3,4,5,6,7,8,9] const %a: int64[1] = [1] %s = ReduceMean(%x, %a) [keepdims=1] %y = Add(%s, %b) out %y`)
	bound := object(t, ok(t, "train", open, "--data", data, "--loss", "mean-squared-error", "--dim", "N=8", "-o", filepath.Join(dir, "bound.onnx"), "--json"), fields...)
	assert.EqualValues(t, 8, bound["batch"])
	text := ok(t, append(args, "-o", filepath.Join(dir, "text.onnx"), "--steps", "2", "--cosine", "--warmup", "1", "--clip", "1")...)
	assert.Contains(t, text, "loss of the last step")
	ok(t, append(args, "-o", filepath.Join(dir, "short.onnx"), "--steps", "2", "--cosine", "--accumulate", "3")...)
	ok(t, append(args[:8:8], "-o", filepath.Join(dir, "long.onnx"), "--steps", "2", "--epochs", strconv.Itoa(math.MaxInt))...) // more steps than can be counted
	none := npzBytes(t, map[string]*ndarray.Array{"x": ndarray.Must(ndarray.Float32, 0, 64), "target": ndarray.Must(ndarray.Float32, 0, 10)})
	fails(t, exitFailed, []string{"has no examples"}, "train", open, "--data", writeTemp(t, dir, "none.npz", none), "--loss", "mean-squared-error", "-o", filepath.Join(dir, "none.onnx"))
}

// TestCheckpointMemory: zeros take a byte each in the file and eight in memory. That is asked for before they are read.
func TestCheckpointMemory(t *testing.T) {
	var b bytes.Buffer
	said := training{Examples: 40, Batch: 4, Losses: make([]float64, 4<<20)}
	require.NoError(t, gob.NewEncoder(&b).Encode(said))
	c := checkpoint{path: writeTemp(t, t.TempDir(), "losses", b.Bytes()), of: training{Examples: 40, Batch: 4}}
	_, err := c.restore(ndarray.Budget(64<<20).In(context.Background()), nil)
	var memory *berth.MemoryError
	require.ErrorAs(t, err, &memory)
	assert.Greater(t, memory.Bytes, int64(64<<20))
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	_, err = c.restore(ended, nil)
	require.ErrorIs(t, err, context.Canceled)
}

// TestTrainCheckpoint: training that goes on from a file takes the steps and gives the model of one that ran through, also where a signal
// ended it; a file that does not fit is told, and stays.
func TestTrainCheckpoint(t *testing.T) {
	dir := t.TempDir()
	data, state := trainData(t, dir), filepath.Join(dir, "state")
	args := func(out string, more ...string) []string {
		return append([]string{"train", "builtin:mlp", "--data", data, "--loss", "mean-squared-error", "--json", "-o", filepath.Join(dir, out)}, more...)
	}
	losses := func(args []string) []any { return object(t, ok(t, args...))["losses"].([]any) }
	whole := losses(args("whole.onnx", "--optimizer", "adam", "--epochs", "6"))
	first := losses(args("parts.onnx", "--optimizer", "adam", "--epochs", "6", "--steps", "33", "--checkpoint", state))
	require.Len(t, first, 33)
	assert.Equal(t, whole, losses(args("parts.onnx", "--optimizer", "adam", "--epochs", "6", "--checkpoint", state)))
	want, err := os.ReadFile(filepath.Join(dir, "whole.onnx"))
	require.NoError(t, err)
	got, err := os.ReadFile(filepath.Join(dir, "parts.onnx"))
	require.NoError(t, err)
	assert.Equal(t, want, got)

	ended := filepath.Join(dir, "ended")
	for after := 200 * time.Millisecond; ; after *= 2 { // until it is long enough for a step
		ctx, cancel := context.WithTimeout(context.Background(), after)
		defer cancel()
		o := berthCtx(ctx, args("ended.onnx", "--optimizer", "adam", "--epochs", "100000000", "--checkpoint", ended)...)
		require.Equal(t, exitFailed, o.code)
		require.Contains(t, o.err, ": interrupted\n")
		if _, err := os.Stat(ended); err == nil {
			break
		}
	}
	absent(t, filepath.Join(dir, "ended.onnx"))
	taken := losses(args("ended.onnx", "--optimizer", "adam", "--steps", "1", "--checkpoint", ended)) // fewer than were taken: none
	both := min(len(taken), len(whole))
	assert.Equal(t, whole[:both], taken[:both])

	kept, err := os.ReadFile(state)
	require.NoError(t, err)
	flipped := bytes.Clone(kept)
	flipped[len(flipped)/2] ^= 1 // in a weight
	for _, c := range []struct {
		name, want string
		args       []string
	}{
		{"another seed", "--seed 0", []string{"--checkpoint", state, "--optimizer", "adam", "--seed", "1"}},
		{"another optimizer", "--optimizer adam", []string{"--checkpoint", state, "--optimizer", "sgd"}},
		{"no state", "no state of training", []string{"--checkpoint", writeTemp(t, dir, "garbage", []byte("garbage"))}},
		{"cut short", "cut short", []string{"--checkpoint", writeTemp(t, dir, "short", kept[:len(kept)-9]), "--optimizer", "adam"}},
		{"without a checksum", "cut short", []string{"--checkpoint", writeTemp(t, dir, "unsummed", kept[:len(kept)-7]), "--optimizer", "adam"}},
		{"another weight", "is damaged", []string{"--checkpoint", writeTemp(t, dir, "flipped", flipped), "--optimizer", "adam"}},
		{"without content", "cut short", []string{"--checkpoint", writeTemp(t, dir, "none", nil)}},
	} {
		fails(t, exitFailed, []string{"--checkpoint " + c.args[1], c.want}, args("other.onnx", c.args...)...)
	}
	huber := args("other.onnx", "--checkpoint", state, "--optimizer", "adam")
	huber[slices.Index(huber, "mean-squared-error")] = "huber"
	fails(t, exitFailed, []string{"--checkpoint " + state + " is of --loss mean-squared-error"}, huber...)
	now, err := os.ReadFile(state)
	require.NoError(t, err)
	assert.Equal(t, kept, now)
	m, err := berth.Open(filepath.Join(dir, "whole.onnx"))
	require.NoError(t, err)
	assert.Equal(t, whole, losses(args("parts.onnx", "--optimizer", "adam", "--epochs", "6", "--checkpoint", state, "--of", m.Outputs()[0].Name)), "the output that is the default")
	fails(t, exitFailed, []string{"-Inf after step 1: lower --rate"}, args("diverged.onnx", "--optimizer", "adamw", "--rate", "3.4e38", "--decay", "3", "--steps", "1")...)
	absent(t, filepath.Join(dir, "diverged.onnx"))
}

// TestTrainErrors: what is missing or does not fit is told by name, and no file is written.
func TestTrainErrors(t *testing.T) {
	dir := t.TempDir()
	data, out := trainData(t, dir), filepath.Join(dir, "out.onnx")
	short := writeTemp(t, dir, "short.npz", npzBytes(t, map[string]*ndarray.Array{"x": ndarray.Must(ndarray.Float32, 2, 64), "target": ndarray.Must(ndarray.Float32, 2, 10)}))
	uneven := writeTemp(t, dir, "uneven.npz", npzBytes(t, map[string]*ndarray.Array{"x": ndarray.Must(ndarray.Float32, 8, 64), "target": ndarray.Must(ndarray.Float32, 9, 10)}))
	alone := writeTemp(t, dir, "alone.npz", npzBytes(t, map[string]*ndarray.Array{"x": ndarray.Must(ndarray.Float32, 8, 64)}))
	integers := writeTemp(t, dir, "integers.npz", npzBytes(t, map[string]*ndarray.Array{"x": ndarray.Must(ndarray.Float32, 8, 64), "target": ndarray.Must(ndarray.Int64, 8)}))
	labels := func(of int64) string {
		target := ndarray.Must(ndarray.Int64, 8)
		target.SetInt(5, of)
		return writeTemp(t, dir, fmt.Sprintf("labels%d.npz", of), npzBytes(t, map[string]*ndarray.Array{"x": ndarray.Must(ndarray.Float32, 8, 64), "target": target}))
	}
	ok(t, "train", "builtin:mlp", "--data", labels(-100), "--of", "Gemm_4_0", "--ignore-label", "-100", "-o", filepath.Join(dir, "ignored.onnx"))
	for _, c := range []struct {
		name string
		code int
		want string
		args []string
	}{
		{"no data", exitUsage, "--data", []string{"-o", out}},
		{"no output", exitUsage, "-o", []string{"--data", data}},
		{"an unknown loss", exitUsage, "cross-entropy", []string{"--data", data, "-o", out, "--loss", "cross-entropi"}},
		{"a loss like no other", exitUsage, "--loss mse is unknown: want one of binary-cross-entropy, cross-entropy", []string{"--data", data, "-o", out, "--loss", "mse"}},
		{"an unknown weight", exitUsage, `builtin:mlp: --learn head: want a weight`, []string{"--data", data, "-o", out, "--loss", "mean-squared-error", "--learn", "head"}},
		{"two sizes of a batch", exitUsage, "--batch 8: --shape x gives a step 4 examples", []string{"--data", data, "-o", out, "--batch", "8", "--shape", "x=4x64"}},
		{"an unknown optimizer", exitUsage, "adam", []string{"--data", data, "-o", out, "--optimizer", "adams"}},
		{"a rate of 0", exitUsage, "--rate 0", []string{"--data", data, "-o", out, "--rate", "0"}},
		{"a rate that is no number", exitUsage, "--rate NaN", []string{"--data", data, "-o", out, "--rate", "NaN"}},
		{"a rate beyond the weights' type", exitUsage, "--rate 1e+39: want a number that float32 has", []string{"--data", data, "-o", out, "--loss", "mean-squared-error", "--rate", "1e39"}},
		{"an infinite decay", exitUsage, "--decay +Inf: want a finite number from 0 on", []string{"--data", data, "-o", out, "--decay", "Inf"}},
		{"a negative decay", exitUsage, "--decay -1", []string{"--data", data, "-o", out, "--decay", "-1"}},
		{"a decay beyond the weights' type", exitUsage, "--decay 1e+39: want a number that float32 has", []string{"--data", data, "-o", out, "--loss", "mean-squared-error", "--optimizer", "adamw", "--decay", "1e39"}},
		{"an infinite length", exitUsage, "--clip +Inf: want a finite length", []string{"--data", data, "-o", out, "--clip", "Inf"}},
		{"a length beyond the weights' type", exitUsage, "--clip 1e+39", []string{"--data", data, "-o", out, "--loss", "mean-squared-error", "--clip", "1e39"}},
		{"a negative batch", exitUsage, "--batch -1", []string{"--data", data, "-o", out, "--batch", "-1"}},
		{"an empty batch", exitUsage, "--batch 0: want a number of examples", []string{"--data", data, "-o", out, "--batch", "0"}},
		{"negative steps", exitUsage, "--steps -1", []string{"--data", data, "-o", out, "--steps", "-1"}},
		{"a negative warmup", exitUsage, "--warmup -1", []string{"--data", data, "-o", out, "--warmup", "-1"}},
		{"no accumulation", exitUsage, "--accumulate 0", []string{"--data", data, "-o", out, "--accumulate", "0"}},
		{"no passes", exitUsage, "--epochs 0", []string{"--data", data, "-o", out, "--epochs", "0"}},
		{"a budget of words", exitUsage, "--budget", []string{"--data", data, "-o", out, "--budget", "much"}},
		{"a file that is none", exitFailed, "nothing.npz", []string{"--data", filepath.Join(dir, "nothing.npz"), "-o", out}},
		{"too few examples", exitFailed, "2 examples, fewer than the 4 of a step; give more, or a smaller --batch", []string{"--data", short, "-o", out, "--loss", "mean-squared-error"}},
		{"arrays of other lengths", exitFailed, "same examples", []string{"--data", uneven, "-o", out}},
		{"no target", exitFailed, `"target"`, []string{"--data", alone, "-o", out, "--loss", "mean-squared-error"}},
		{"probabilities as scores", exitFailed, `(--of) must name "Gemm_4_0"`, []string{"--data", integers, "-o", out}},
		{"a label that is no class", exitFailed, `label 10 at [5] of "target" is none of the 10 classes, 0 to 9: `, []string{"--data", labels(10), "-o", out, "--of", "Gemm_4_0"}},
		{"a negative label", exitFailed, `label -1 at [5] of "target" is none of the 10 classes, 0 to 9, nor -100, which is ignored: `, []string{"--data", labels(-1), "-o", out, "--of", "Gemm_4_0", "--ignore-label", "-100"}},
		{"a value that is none", exitUsage, "--of scores", []string{"--data", integers, "-o", out, "--of", "scores"}},
		{"a target of another type", exitFailed, `"target" is int64`, []string{"--data", integers, "-o", out, "--loss", "mean-squared-error"}},
		{"a weight that is none", exitUsage, "--learn w99", []string{"--data", data, "-o", out, "--learn", "w99"}},
		{"a budget too small", exitFailed, "budget", []string{"--data", data, "-o", out, "--loss", "mean-squared-error", "--budget", "100"}},
	} {
		o := cli(t, append([]string{"train", "builtin:mlp"}, c.args...)...)
		assert.Equal(t, c.code, o.code, "%s: %s", c.name, o.err)
		assert.Contains(t, o.err, c.want, c.name)
		assert.NoFileExists(t, out)
	}
}

// TestCompareTrain: every planner has rows within its budgets, and the budgets are kept.
func TestCompareTrain(t *testing.T) {
	m := object(t, ok(t, "compare", "builtin:mlp", "--train", "mean-squared-error", "--json", "--planner", "greedy-size"), "model", "loss", "training")
	rows := m["training"].([]any)
	require.GreaterOrEqual(t, len(rows), 3)
	free := rows[0].(map[string]any)["arena_bytes"].(float64)
	least := free
	for i, r := range rows {
		row := r.(map[string]any)
		hasFields(t, row, "planner", "budget_bytes", "arena_bytes", "activation_bytes", "lower_bound_bytes", "proven", "kept", "error")
		if i > 0 && row["error"] == "" {
			assert.LessOrEqual(t, row["arena_bytes"], row["budget_bytes"])
			least = min(least, row["arena_bytes"].(float64))
		}
	}
	assert.LessOrEqual(t, least, free)
	assert.Contains(t, ok(t, "compare", "builtin:mlp", "--train", "huber", "--planner", "best-fit"), "kept")
	scores := object(t, ok(t, "compare", "builtin:mlp", "--train", "cross-entropy", "--of", "Gemm_4_0", "--json", "--planner", "greedy-size"), "model", "loss", "of", "training")
	assert.Equal(t, "Gemm_4_0", scores["of"])
	fails(t, exitFailed, []string{`(--of) must name "Gemm_4_0"`}, "compare", "builtin:mlp", "--train", "cross-entropy")
	fails(t, exitUsage, []string{`--of scores: want an output`}, "compare", "builtin:mlp", "--train", "cross-entropy", "--of", "scores")
	fails(t, exitUsage, []string{"--train"}, "compare", "builtin:mlp", "--train", "cross-entropy", "--csv")
	fails(t, exitUsage, []string{"--train cros-entropy is unknown (did you mean cross-entropy?)"}, "compare", "builtin:mlp", "--train", "cros-entropy")
}
