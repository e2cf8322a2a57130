package simd

import (
	"testing"

	"github.com/berth-onnx/berth/internal/cpu/kern/machine"
)

func BenchmarkPeak(b *testing.B) {
	for _, l := range machine.Levels() {
		b.Run(l.String(), func(b *testing.B) {
			best := 0.0
			for b.Loop() {
				best = max(best, Peak(l))
			}
			b.ReportMetric(best/1e9, "GFLOP/s")
		})
	}
}
