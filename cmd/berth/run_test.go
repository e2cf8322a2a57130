package main

import (
	"archive/zip"
	"bytes"
	"context"
	"image"
	"image/color"
	"image/png"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth/internal/onnxwire"
	"github.com/berth-onnx/berth/internal/shareddata"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/onnxexport"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/testmodels"
)

func TestRunJSON(t *testing.T) {
	m := object(t, ok(t, "run", "builtin:loop-until", "--json"), "model", "outputs")
	outs := m["outputs"].([]any)
	require.Len(t, outs, 2)
	for _, o := range outs {
		hasFields(t, o.(map[string]any), "name", "type", "shape", "min", "max", "mean", "first")
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
	assert.Contains(t, out, "float32[2 3 24]")
	assert.Contains(t, ok(t, "run", "builtin:heads", "--dim", "N=4", "--dim", "S=2"), "float32[4 2 24]")
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
		got, err := readNPY(bytes.NewReader(data))
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
	require.NoError(t, writeNPY(&buf, a))
	return buf.Bytes()
}

func tensorBytes(t *testing.T, name string, a *ndarray.Array) []byte {
	tensor, err := onnxexport.TensorOf(name, a)
	require.NoError(t, err)
	data, err := onnxwire.Marshal(tensor)
	require.NoError(t, err)
	return data
}

// TestNPY writes and reads every element type that NumPy has.
func TestNPY(t *testing.T) {
	for _, dt := range []ndarray.DType{ndarray.Float32, ndarray.Float64, ndarray.Float16, ndarray.Int8, ndarray.Int16, ndarray.Int32, ndarray.Int64,
		ndarray.Uint8, ndarray.Uint16, ndarray.Uint32, ndarray.Uint64, ndarray.Bool, ndarray.Complex64, ndarray.Complex128} {
		for _, shape := range [][]int{{}, {3}, {2, 5}, {0, 4}, {1, 2, 3}} {
			a := ndarray.Must(dt, shape...)
			for i := range a.Data {
				a.Data[i] = byte(i * 37)
				if dt == ndarray.Bool {
					a.Data[i] &= 1
				}
			}
			b, err := readNPY(bytes.NewReader(npyBytes(t, a)))
			require.NoError(t, err, "%s%v", dt, shape)
			assert.Equal(t, a.DType, b.DType)
			assert.Equal(t, a.Len(), b.Len())
			assert.Equal(t, a.Data, b.Data, "%s%v", dt, shape)
		}
	}
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
	path := writeTemp(t, t.TempDir(), "x.png", buf.Bytes())
	ok(t, "run", "builtin:unet", "--input", "x="+path)

	m, err := (&app{}).open("builtin:unet")
	require.NoError(t, err)
	v, err := readImage(path, m.Inputs()[0])
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
