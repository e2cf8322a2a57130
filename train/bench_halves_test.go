//go:build unix

package train_test

import (
	"cmp"
	"math"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/train"
)

// inType is a net with floats of another type.
func inType(m pytorchModel, dt ndarray.DType) pytorchModel {
	as := func(a *ndarray.Array) *ndarray.Array {
		if a.DType == ndarray.Float32 {
			return in(dt, a)
		}
		return a
	}
	out := pytorchModel{strings.ReplaceAll(m.text, "float32[", dt.String()+"["), map[string]*ndarray.Array{}, m.loss, nil}
	for name, w := range m.weights {
		out.weights[name] = as(w)
	}
	for _, v := range m.in {
		out.in = append(out.in, as(v.(*ndarray.Array)))
	}
	return out
}

// BenchmarkHalves reports the least times of steps in half types by those in float32, taken in turn, and their arenas.
func BenchmarkHalves(b *testing.B) {
	threads, err := strconv.Atoi(cmp.Or(os.Getenv("BERTH_BENCH_THREADS"), "1"))
	require.NoError(b, err)
	for name, m := range benchModels {
		b.Run(name, func(b *testing.B) {
			types := []ndarray.DType{ndarray.Float32, ndarray.Float16, ndarray.BFloat16}
			var steps []func()
			least := make([]float64, len(types))
			for i, dt := range types {
				n := inType(m, dt)
				tr, err := train.New(b.Context(), parsed(b, n.text, n.weights), train.Options{Loss: n.loss, Optimizer: train.Momentum(0.9, 0), Rate: train.Constant(1e-4), Compile: []berth.Option{berth.WithThreads(threads)}})
				require.NoError(b, err)
				least[i] = math.Inf(1)
				b.Logf("%s: an arena of %d bytes", dt, tr.Plan().ArenaBytes)
				steps = append(steps, func() {
					start := spent(b, threads)
					_, err := tr.Step(b.Context(), n.in...)
					require.NoError(b, err)
					least[i] = min(least[i], float64((spent(b, threads)-start).Nanoseconds())/1e3)
				})
			}
			for b.Loop() {
				for _, step := range steps {
					step()
				}
			}
			b.ReportMetric(least[0], "float32-µs")
			for i := 1; i < len(types); i++ {
				b.ReportMetric(least[i]/least[0], types[i].String()+"-by-float32")
			}
		})
	}
}
