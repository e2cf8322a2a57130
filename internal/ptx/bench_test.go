//go:build unix

package ptx

import (
	"math/rand/v2"
	"syscall"
	"testing"
	"time"
)

// processTime is the time of all cores that the process has used.
func processTime(tb testing.TB) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		tb.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkLaunch states lane-instructions per second of one core, by the time of all cores used, which other processes do
// not change.
func BenchmarkLaunch(b *testing.B) {
	const m, n, k = 64, 64, 256
	rng := rand.New(rand.NewPCG(1, 2))
	p := load(b, "testdata/basic.ptx")
	x, y := in(p, uniform(rng, m*k, 1)), in(p, uniform(rng, k*n, 1))
	z := out[float32](p, m*n)
	lanes, before := int64(0), processTime(b)
	for b.Loop() {
		r := p.must("matmul", [3]int{n / 16, m / 16, 1}, [3]int{16, 16, 1}, x, y, z, int32(m), int32(n), int32(k))
		lanes += r.Counts.Instructions().Lanes
	}
	b.ReportMetric(float64(lanes)/(processTime(b)-before).Seconds()/1e6, "Mlanes/core-s")
}
