package kern

import (
	"testing"
	"time"
)

// bestOf runs f as a benchmark and returns the seconds of its fastest call:
// what the kernel can do, whatever else the machine is doing meanwhile.
func bestOf(b *testing.B, f func()) float64 {
	f() // warm caches, make free lists
	start := time.Now()
	f()
	once := time.Since(start)
	calls := max(1, int(20*time.Microsecond/max(once, 1))) // a clock reading costs some 50 ns
	best := time.Hour
	for b.Loop() {
		start := time.Now()
		for range calls {
			f()
		}
		best = min(best, time.Since(start)/time.Duration(calls))
	}
	return best.Seconds()
}

// reportFLOPs prints arithmetic speed and its share of the level's peak.
func reportFLOPs(b *testing.B, flops int, sec, peak float64) {
	b.ReportMetric(float64(flops)/sec/1e9, "GFLOP/s")
	b.ReportMetric(100*float64(flops)/sec/peak, "%peak")
}

// atLevel runs a benchmark at a level and goes back to the level before.
func atLevel(b *testing.B, l Level, f func(b *testing.B)) {
	was := Active()
	defer func() { _ = Use(was) }()
	if err := Use(l); err != nil {
		b.Skip(err)
	}
	f(b)
}
