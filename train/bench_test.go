//go:build unix

package train_test

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/train"
)

// benchModels are larger nets, which internal/tools/traingolden/bench.py times in PyTorch.
var benchModels = map[string]pytorchModel{
	"mlp": {`in %x: float32[64,784] in %w1: float32[784,512] in %b1: float32[512] in %w2: float32[512,512] in %b2: float32[512] in %w3: float32[512,10] in %b3: float32[10]
		%p1 = Gemm(%x, %w1, %b1) %h1 = Relu(%p1) %p2 = Gemm(%h1, %w2, %b2) %h2 = Relu(%p2) %y = Gemm(%h2, %w3, %b3) out %y`,
		map[string]*ndarray.Array{"w1": waves(.05, 1, 784, 512), "b1": waves(.1, 2, 512), "w2": waves(.05, 3, 512, 512), "b2": waves(.1, 4, 512), "w3": waves(.05, 5, 512, 10), "b3": waves(.1, 6, 10)},
		train.CrossEntropy, []ndarray.Value{waves(1, 7, 64, 784), ndarray.Must(ndarray.Int64, 64)}},
	"cnn": {`in %x: float32[16,3,32,32] in %k1: float32[32,3,3,3] in %c1: float32[32] in %s: float32[32] in %o: float32[32] in %mean: float32[32] in %var: float32[32]
		in %k2: float32[64,32,3,3] in %c2: float32[64] in %w: float32[64,10] in %b: float32[10]
		%y1 = Conv(%x, %k1, %c1) [pads=[1,1,1,1]] %y2 = BatchNormalization(%y1, %s, %o, %mean, %var) %y3 = Relu(%y2) %y4 = MaxPool(%y3) [kernel_shape=[2,2], strides=[2,2]]
		%y5 = Conv(%y4, %k2, %c2) [pads=[1,1,1,1]] %y6 = Relu(%y5) %y7 = GlobalAveragePool(%y6) %y8 = Flatten(%y7) %y9 = Gemm(%y8, %w, %b) out %y9`,
		map[string]*ndarray.Array{"k1": waves(.2, 1, 32, 3, 3, 3), "c1": waves(.1, 2, 32), "s": around1(.2, 3, 32), "o": waves(.1, 4, 32), "mean": filled(0, 32), "var": filled(1, 32),
			"k2": waves(.1, 5, 64, 32, 3, 3), "c2": waves(.1, 6, 64), "w": waves(.2, 7, 64, 10), "b": waves(.1, 8, 10)},
		train.CrossEntropy, []ndarray.Value{waves(1, 9, 16, 3, 32, 32), ndarray.Must(ndarray.Int64, 16)}},
	"transformer": {`in %x: float32[8,64,128] in %g1: float32[128] in %h1: float32[128] in %qkv: float32[128,384] in %proj: float32[128,128]
		in %g2: float32[128] in %h2: float32[128] in %up: float32[128,512] in %down: float32[512,128]
		%n1 = LayerNormalization(%x, %g1, %h1) %p = MatMul(%n1, %qkv) %q, %k, %v = Split(%p) [axis=2, num_outputs=3]
		%a = Attention(%q, %k, %v) [is_causal=1, q_num_heads=4, kv_num_heads=4] %b = MatMul(%a, %proj) %r = Add(%x, %b)
		%n2 = LayerNormalization(%r, %g2, %h2) %m1 = MatMul(%n2, %up) %m2 = Gelu(%m1) %m3 = MatMul(%m2, %down) %y = Add(%r, %m3) out %y`,
		map[string]*ndarray.Array{"g1": around1(.1, 3, 128), "h1": waves(.1, 4, 128), "qkv": waves(.1, 5, 128, 384), "proj": waves(.1, 6, 128, 128), "g2": around1(.1, 7, 128), "h2": waves(.1, 8, 128),
			"up": waves(.1, 9, 128, 512), "down": waves(.05, 10, 512, 128)},
		train.MeanSquaredError, []ndarray.Value{waves(1, 1, 8, 64, 128), waves(.5, 2, 8, 64, 128)}},
}

// spent is how long the process has run on processors, or with several threads how late it is.
func spent(b *testing.B, threads int) time.Duration {
	if threads > 1 {
		return time.Since(started)
	}
	var u syscall.Rusage
	require.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

var started = time.Now()

// resident is a line of /proc/self/status in bytes: VmRSS, VmHWM. 0 where there is no such file.
func resident(what string) float64 {
	data, _ := os.ReadFile("/proc/self/status")
	_, line, _ := strings.Cut(string(data), what+":")
	kib := 0.0
	_, _ = fmt.Sscan(line, &kib)
	return kib * 1024
}

// BenchmarkStep reports the processor's time of a step by one thread, or the time that it takes by as many as BERTH_BENCH_THREADS says, the
// least of all steps, without a budget and, in turn, with one of half the activations, or the least that was found; and the memory of a step: of its plan, and what the process holds at most above what it held before the model and
// the data. A small net takes a step before, as in bench.py: code that both load is in neither figure.
func BenchmarkStep(b *testing.B) {
	threads, err := strconv.Atoi(cmp.Or(os.Getenv("BERTH_BENCH_THREADS"), "1"))
	require.NoError(b, err)
	for name, m := range benchModels {
		b.Run(name, func(b *testing.B) {
			o := train.Options{Loss: m.loss, Optimizer: train.Momentum(0.9, 0), Rate: train.Constant(1e-4), Compile: []berth.Option{berth.WithThreads(threads)}}
			small := pytorchModels["cnn"]
			warm, err := train.New(b.Context(), parsed(b, small.text, small.weights), train.Options{Loss: small.loss, Optimizer: o.Optimizer, Compile: o.Compile})
			require.NoError(b, err)
			_, err = warm.Step(b.Context(), small.in...)
			require.NoError(b, err)
			debug.FreeOSMemory()
			before := resident("VmRSS")
			in := make([]ndarray.Value, len(m.in))
			for i, v := range m.in {
				in[i] = v.(*ndarray.Array).Clone()
			}
			free, err := train.New(b.Context(), parsed(b, m.text, m.weights), o)
			require.NoError(b, err)
			debug.FreeOSMemory()
			_ = os.WriteFile("/proc/self/clear_refs", []byte("5"), 0) // the highest from here on
			least := func(tr *train.Trainer, sofar float64) float64 {
				start := spent(b, threads)
				_, err := tr.Step(b.Context(), in...)
				require.NoError(b, err)
				return min(sofar, float64((spent(b, threads)-start).Nanoseconds())/1e3)
			}
			for range 3 {
				least(free, 0)
			}
			held := resident("VmHWM") - before
			var tight *train.Trainer
			if os.Getenv("BERTH_BENCH_BUDGET") != "" {
				o.Budget = free.Plan().ArenaBytes - free.Activations()/2
				var short *train.BudgetError
				if tight, err = train.New(b.Context(), parsed(b, m.text, m.weights), o); errors.As(err, &short) {
					b.Log(err)
					o.Budget = short.Least
					tight, err = train.New(b.Context(), parsed(b, m.text, m.weights), o)
				}
				require.NoError(b, err)
			}
			all, half := math.Inf(1), math.Inf(1)
			for b.Loop() {
				all = least(free, all)
				if tight != nil {
					half = least(tight, half)
				}
			}
			b.ReportMetric(all, "cpu-µs")
			b.ReportMetric(float64(free.Plan().ArenaBytes), "arena-B")
			b.ReportMetric(float64(free.Plan().ReferenceOps), "reference-nodes")
			b.ReportMetric(held, "held-B")
			if tight != nil {
				b.Logf("%s kept, %d of %d bytes", tight.Kept(), tight.Plan().ArenaBytes, free.Plan().ArenaBytes)
				b.ReportMetric(half/all, "half-budget")
			}
		})
	}
}
