//go:build unix

package kernels

import (
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

// BenchmarkGemm states how fast the interpreter runs a product of 128×128×128, per second of one core.
func BenchmarkGemm(b *testing.B) {
	t := newBench(b)
	const n = 128
	g := Gemm{M: n, N: n, K: n, ARow: n, AColumn: 1, BRow: n, BColumn: 1, Alpha: 1}
	x, y, c := in(t, t.floats(n*n)), in(t, t.floats(n*n)), t.alloc(4*n*n)
	before := processTime(b)
	for b.Loop() {
		l, err := t.Gemm(g, 1, x, y, Operand{}, c)
		if err != nil {
			b.Fatal(err)
		}
		if err := t.d.Launch(l); err != nil {
			b.Fatal(err)
		}
	}
	counts := t.d.Counts()["gemm"]
	spent := (processTime(b) - before).Seconds()
	b.ReportMetric(float64(counts.Instructions().Lanes)/spent/1e6, "Mlanes/core-s")
	b.ReportMetric(float64(counts.Flops)/spent/1e6, "Mflop/core-s")
}
