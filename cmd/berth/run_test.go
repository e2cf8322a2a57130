package main

import (
	"archive/zip"
	"bytes"
	"context"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth"
	"github.com/berth-onnx/berth/internal/npy"
	"github.com/berth-onnx/berth/internal/onnxexport"
	"github.com/berth-onnx/berth/internal/onnxwire"
	"github.com/berth-onnx/berth/internal/shareddata"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
	"github.com/berth-onnx/berth/testmodels"
)

func TestRunJSON(t *testing.T) {
	m := object(t, ok(t, "run", "builtin:loop-until", "--json"), "model", "outputs")
	outs := m["outputs"].([]any)
	require.Len(t, outs, 2)
	for _, o := range outs {
		hasFields(t, o.(map[string]any), "name", "type", "shape", "min", "max", "mean", "nan", "inf", "first")
	}
	y := outs[0].(map[string]any)
	assert.Equal(t, "y", y["name"])
	assert.Equal(t, "float32", y["type"])
	assert.Equal(t, []any{2.0, 8.0}, y["shape"])

	again := object(t, ok(t, "run", "builtin:loop-until", "--json"))
	assert.Equal(t, m, again)
	other := object(t, ok(t, "run", "builtin:loop-until", "--json", "--seed", "7"))
	assert.NotEqual(t, m["outputs"], other["outputs"])
}

func TestRunText(t *testing.T) {
	out := ok(t, "run", "builtin:heads", "--shape", "x=2x3x24")
	assert.Contains(t, out, "float32[2,3,24]")
	assert.Contains(t, ok(t, "run", "builtin:heads", "--dim", "N=4", "--dim", "S=2"), "float32[4,2,24]")
}

// TestRunFiles gives the same input in every form and takes the output back from
// the file written.
func TestRunFiles(t *testing.T) {
	dir := t.TempDir()
	x := ndarray.Must(ndarray.Float32, 4, 64)
	for i := range x.Len() {
		x.SetFloat(i, math.Sin(float64(i)))
	}
	mod, err := testmodels.Build("mlp")
	require.NoError(t, err)
	want, err := ops.Interpret(context.Background(), mod.Graph, []ndarray.Value{x}, nil)
	require.NoError(t, err)

	npy := writeTemp(t, dir, "x.npy", npyBytes(t, x))
	var packed bytes.Buffer
	z := zip.NewWriter(&packed)
	for _, entry := range []string{"x.npy", "unrelated.npy"} {
		w, err := z.Create(entry)
		require.NoError(t, err)
		_, err = w.Write(npyBytes(t, x))
		require.NoError(t, err)
	}
	require.NoError(t, z.Close())
	npz := writeTemp(t, dir, "x.npz", packed.Bytes())
	pb := writeTemp(t, dir, "x.pb", tensorBytes(t, "x", x))

	for _, input := range []string{"x=" + npy, "x=" + npz, npz, "x=" + pb} {
		out := filepath.Join(dir, "out")
		m := object(t, ok(t, "run", "builtin:mlp", "--input", input, "--output-dir", out, "--json"))
		file := m["outputs"].([]any)[0].(map[string]any)["file"].(string)
		assert.Equal(t, filepath.Join(out, "probabilities.npy"), file)
		data, err := os.ReadFile(file)
		require.NoError(t, err)
		got, err := readNPY(data)
		require.NoError(t, err)
		assert.Less(t, maxAbsDiff(got, want[0].(*ndarray.Array)), 1e-5, input)
	}

	short := writeTemp(t, dir, "short.npy", npyBytes(t, ndarray.Must(ndarray.Float32, 4, 63)))
	fails(t, exitFailed, []string{`input "x"`}, "run", "builtin:mlp", "--input", "x="+short)
	cut := writeTemp(t, dir, "cut.npy", npyBytes(t, x)[:300])
	fails(t, exitFailed, []string{`input "x"`, cut}, "run", "builtin:mlp", "--input", "x="+cut)
	fails(t, exitFailed, []string{`input "x"`, "no such file"}, "run", "builtin:mlp", "--input", "x=nowhere.npy")
	for _, ext := range []string{".npy", ".npz", ".pb", ".png"} {
		bad := writeTemp(t, dir, "bad"+ext, []byte("this is not what it says"))
		fails(t, exitFailed, []string{`input "x"`, bad}, "run", "builtin:mlp", "--input", "x="+bad)
	}
}

func writeTemp(t *testing.T, dir, name string, data []byte) string {
	path := filepath.Join(dir, name)
	require.NoError(t, os.WriteFile(path, data, 0o644))
	return path
}

func npyBytes(t *testing.T, a *ndarray.Array) []byte {
	var buf bytes.Buffer
	require.NoError(t, npy.Write(&buf, a))
	return buf.Bytes()
}

func readNPY(data []byte) (*ndarray.Array, error) {
	return npy.Read(context.Background(), bytes.NewReader(data), int64(len(data)), nil)
}

func tensorBytes(t *testing.T, name string, a *ndarray.Array) []byte {
	tensor, err := onnxexport.TensorOf(name, a)
	require.NoError(t, err)
	data, err := onnxwire.Marshal(tensor)
	require.NoError(t, err)
	return data
}

// TestRunImage draws a picture and expects its colours in the input's layout.
func TestRunImage(t *testing.T) {
	img := image.NewNRGBA(image.Rect(0, 0, 8, 8))
	for y := range 8 {
		for x := range 8 {
			img.Set(x, y, color.NRGBA{255, 51, 0, 255})
		}
	}
	var buf bytes.Buffer
	require.NoError(t, png.Encode(&buf, img))
	ok(t, "run", "builtin:unet", "--input", "x="+writeTemp(t, t.TempDir(), "x.png", buf.Bytes()))

	m, err := (&app{}).open("builtin:unet", false)
	require.NoError(t, err)
	v, err := new(imageFlags).readImage(bytes.NewReader(buf.Bytes()), m.Inputs()[0].Type, 0)
	require.NoError(t, err)
	arr := v.(*ndarray.Array)
	assert.Equal(t, []int{1, 3, 64, 64}, arr.Shape)
	for channel, want := range []float64{1, 0.2, 0} {
		assert.InDelta(t, want, arr.Float(channel*64*64), 1e-3)
	}
}

// TestRunData takes inputs from a recorded set.
func TestRunData(t *testing.T) {
	dir := shareddata.Path(t, "models", "wakeword")
	model, set := filepath.Join(dir, "model.onnx"), filepath.Join(dir, "test_data_set_0")
	for _, args := range [][]string{{"run", model}, {"bench", model, "--seconds", "0.01"}, {"compare", model, "--planner", "greedy-size"}, {"inspect", model},
		{"optimize", model, "-o", filepath.Join(t.TempDir(), "o.onnx"), "--no-compare"}} {
		ok(t, append(args, "--data", set)...)
	}
	fails(t, exitFailed, []string{"no such file"}, "run", model, "--data", filepath.Join(dir, "nothing"))
}

// picture writes an image whose pixels all have one colour.
func picture(t *testing.T, w, h int, c color.Color) string {
	t.Helper()
	img := image.NewNRGBA(image.Rect(0, 0, w, h))
	for i := range w * h {
		img.Set(i%w, i/w, c)
	}
	var buf bytes.Buffer
	require.NoError(t, png.Encode(&buf, img))
	return writeTemp(t, t.TempDir(), "x.png", buf.Bytes())
}

// passing writes a model that gives its inputs back.
func passing(t *testing.T, inputs ...string) string {
	t.Helper()
	text, outs := "", ""
	for i, in := range inputs {
		text += fmt.Sprintf("in %%x%d: %s %%y%d = Identity(%%x%d) ", i, in, i, i)
		outs += fmt.Sprintf(", %%y%d", i)
	}
	g, err := ssa.ParseGraph(`graph "g" { ` + text + " out " + outs[2:] + " }")
	require.NoError(t, err)
	require.NoError(t, ops.InferGraph(g))
	path := filepath.Join(t.TempDir(), "m.onnx")
	require.NoError(t, berth.FromModule(&ssa.Module{Graph: g, Opsets: []ssa.Opset{{Version: 20}}, IR: 9}).Save(path, berth.SaveOptions{}))
	return path
}

// first is the first elements of the first output of a run.
func first(t *testing.T, args ...string) []any {
	t.Helper()
	return object(t, ok(t, append([]string{"run", "--json"}, args...)...), "model", "outputs")["outputs"].([]any)[0].(map[string]any)["first"].([]any)
}

// TestRunImageFlags compares the first elements of an input with the formula.
func TestRunImageFlags(t *testing.T) {
	file := picture(t, 8, 4, color.NRGBA{255, 51, 0, 255})
	chw, hwc := passing(t, "float32[1,3,8,8]"), passing(t, "uint8[N,4,8,3]")
	assert.InDeltaSlice(t, []any{1.0, 1.0}, first(t, chw, "--image", file)[:2], 1e-6)
	assert.InDelta(t, 0.0, first(t, chw, "--image", file, "--bgr")[0], 1e-6)
	assert.InDelta(t, (1-0.485)/0.229, first(t, chw, "--image", "x0="+file, "--mean", "0.485,0.456,0.406", "--std", "0.229, 0.224, 0.225")[0], 1e-6)
	assert.InDelta(t, (255-100)/2.0, first(t, chw, "--input", "x0="+file, "--scale", "1", "--mean", "100", "--std", "2")[0], 1e-6)
	assert.InDelta(t, 114.0/255, first(t, chw, "--image", file, "--letterbox")[0], 1e-6)
	assert.InDelta(t, 1.0, first(t, chw, "--image", file, "--crop")[0], 1e-6)
	assert.Equal(t, []any{255.0, 51.0, 0.0}, first(t, hwc, "--image", file)[:3])
	open := passing(t, "float32[1,3,H,W]")
	assert.Contains(t, ok(t, "run", open, "--image", file), "float32[1,3,4,8]")
	assert.Contains(t, ok(t, "run", open, "--image", file, "--shape", "x0=1x3x16x24"), "float32[1,3,16,24]")

	two := passing(t, "float32[1,3,8,8]", "float32[1,3,8,8]")
	assert.InDelta(t, 1.0, first(t, two, "--image", "x1="+file, "--image", "x0="+file)[0], 1e-6)
	npy := writeTemp(t, t.TempDir(), "x.npy", npyBytes(t, ndarray.Must(ndarray.Float32, 1, 3, 8, 8)))
	sound := passing(t, "float32[1,43844,1]")
	for _, c := range []struct {
		want []string
		args []string
		code int
	}{
		{[]string{"--mean", "--image FILE"}, []string{chw, "--mean", "0.5"}, exitUsage},
		{[]string{"--letterbox"}, []string{chw, "--input", "x0=" + npy, "--letterbox"}, exitUsage},
		{[]string{"--std", "numbers"}, []string{chw, "--image", file, "--std", "a,b"}, exitUsage},
		{[]string{"2 numbers for 3 channels"}, []string{chw, "--image", file, "--std", "1,2"}, exitFailed},
		{[]string{"--scale 0", "finite"}, []string{chw, "--image", file, "--scale", "0"}, exitUsage},
		{[]string{"--scale NaN", "finite"}, []string{chw, "--image", file, "--scale", "NaN"}, exitUsage},
		{[]string{"--scale 1e+300", "finite"}, []string{chw, "--image", file, "--scale", "1e300"}, exitUsage},
		{[]string{"--mean", "finite"}, []string{chw, "--image", file, "--mean", "nan"}, exitUsage},
		{[]string{"not above 0"}, []string{chw, "--image", file, "--std", "0"}, exitFailed},
		{[]string{"floating-point", "uint8"}, []string{hwc, "--image", file, "--mean", "1"}, exitFailed},
		{[]string{"letterbox", "crop"}, []string{chw, "--image", file, "--letterbox", "--crop"}, exitUsage},
		{[]string{"x0, x1", "NAME=FILE"}, []string{two, "--image", file}, exitUsage},
		{[]string{`"x0"`, "twice"}, []string{chw, "--image", file, "--input", "x0=" + npy}, exitUsage},
		{[]string{"no input takes an image", "float32[1,43844,1]"}, []string{sound, "--image", file}, exitUsage},
		{[]string{`"x0"`, "does not fit float32[1,43844,1]"}, []string{sound, "--input", "x0=" + file}, exitFailed},
		{[]string{"does not fit float32[4,64]"}, []string{"builtin:mlp", "--input", "x=" + file}, exitFailed},
		{[]string{"--top"}, []string{chw, "--top", "0"}, exitUsage},
		{[]string{"no such file"}, []string{chw, "--image", "nowhere.png"}, exitFailed},
	} {
		fails(t, c.code, c.want, append([]string{"run"}, c.args...)...)
	}
}

func TestRunTop(t *testing.T) {
	x := ndarray.Of([]float32{1, 9, 3, 7, 5, 6}, 2, 3)
	file := writeTemp(t, t.TempDir(), "x.npy", npyBytes(t, x))
	m := passing(t, "float32[2,3]")
	out := object(t, ok(t, "run", m, "--input", "x0="+file, "--top", "2", "--json"), "model", "outputs")["outputs"].([]any)[0].(map[string]any)
	rank := func(i, v float64) any { return map[string]any{"index": i, "value": v} }
	assert.Equal(t, []any{map[string]any{"row": 0.0, "largest": []any{rank(1, 9), rank(2, 3)}}, map[string]any{"row": 1.0, "largest": []any{rank(0, 7), rank(2, 6)}}}, out["top"])
	assert.Contains(t, ok(t, "run", m, "--input", "x0="+file, "--top", "1"), "index")
	assert.Contains(t, ok(t, "run", passing(t, "float32[4,5,6]"), "--top", "1"), "the first 10 of 20 rows")
}

// TestRunIntegers: integers are printed in full.
func TestRunIntegers(t *testing.T) {
	file := writeTemp(t, t.TempDir(), "x.npy", npyBytes(t, ndarray.Of([]int64{128256, -1234567}, 2)))
	text := ok(t, "run", passing(t, "int64[2]"), "--input", "x0="+file, "--top", "1")
	assert.Regexp(t, `int64\[2\] +-1234567 +128256 +-5.5316e\+05 +0 +0 +128256 -1234567 `, text)
	assert.Regexp(t, ` 0 +1 +0 +128256 `, text)
}

// TestLargest: elements are ordered as they are, also those that float32 would make equal; NaN and infinities are left out.
func TestLargest(t *testing.T) {
	for _, c := range []struct {
		name string
		a    *ndarray.Array
		want []rankJSON
	}{
		{"int64", ndarray.Of([]int64{16777216, 16777217}, 2), []rankJSON{{1, 16777217}, {0, 16777216}}},
		{"float64", ndarray.Of([]float64{1, 1 + 1e-12, 1}, 3), []rankJSON{{1, 1 + 1e-12}, {0, 1}}},
		{"not finite", ndarray.Of([]float32{float32(math.NaN()), 1, float32(math.Inf(1)), 2}, 4), []rankJSON{{3, 2}}},
		{"fewer", ndarray.Of([]float32{3}, 1), []rankJSON{{0, 3}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			assert.Equal(t, []topJSON{{0, c.want}}, largest(c.a, 2))
		})
	}
}

// TestRunSound reads a WAVE file of two samples.
func TestRunSound(t *testing.T) {
	file := writeTemp(t, t.TempDir(), "x.wav", []byte("RIFF\x28\x00\x00\x00WAVEfmt \x10\x00\x00\x00\x01\x00\x01\x00\x80\x3e\x00\x00\x00\x7d\x00\x00\x02\x00\x10\x00data\x04\x00\x00\x00\x00\x40\x00\xc0"))
	assert.Equal(t, []any{0.5, -0.5}, first(t, passing(t, "float32[N,S]"), "--input", "x0="+file))
	fails(t, exitFailed, []string{"2 samples, 16000 a second, it takes 512"}, "run", passing(t, "float32[1,512]"), "--input", "x0="+file)
	fails(t, exitFailed, []string{"the WAVE file does not begin with RIFF"}, "run", passing(t, "float32[1,512]"), "--input", "x0="+writeTemp(t, t.TempDir(), "y.wav", []byte("no sound at all")))
}

// TestLongStringsAreCut: an output of strings is told of in a line, whatever its length.
func TestLongStringsAreCut(t *testing.T) {
	o := summarize("y", ndarray.Strings([]string{"a\nb", strings.Repeat("ä", 1<<20)}, 2))
	assert.True(t, strings.HasPrefix(o.Text, `["a\nb" "ää`), o.Text)
	assert.True(t, strings.HasSuffix(o.Text, `ä"… of 2097152 bytes]`), o.Text)
	assert.Less(t, len(o.Text), 200)
}
