package simd

import (
	"runtime"
	"time"

	"github.com/berth-onnx/berth/internal/cpu/kern/machine"
)

// Peak measures the arithmetic peak of one core at a level, in floating point
// operations a second (a fused multiply-add counts two): the best of several
// short loops of independent multiply-adds that touch no memory. Benchmarks
// print their figures as a fraction of it.
func Peak(l machine.Level) float64 {
	if l > machine.Best() {
		return 0
	}
	t := tables[l]
	rounds := 1 << 17
	if l == machine.LevelGeneric {
		rounds = 1 << 15
	}
	return fastest(t.peak, rounds, t.flops)
}

// PeakBytes is the peak of products of bytes at a level, by the instructions that the kernels there use (a product and a sum
// count two); 0 where the machine has none.
func PeakBytes(l machine.Level) float64 {
	if l > machine.Best() || tables[l].Products().Level == machine.LevelGeneric {
		return 0
	}
	loop, each := bytePeak(tables[l].Products())
	return fastest(loop, 1<<16, each)
}

// fastest is the most operations a second of several runs of a loop with so many in each round.
func fastest(loop func(rounds int), rounds, each int) float64 {
	best := 0.0
	for range 8 {
		start := time.Now()
		loop(rounds)
		best = max(best, float64(rounds*each)/time.Since(start).Seconds())
	}
	return best
}

// peakGeneric is the peak loop in plain Go: twelve independent multiply-adds.
func peakGeneric(rounds int) {
	var s0, s1, s2, s3, s4, s5, s6, s7, s8, s9, s10, s11 float32
	a, b := float32(0.5), float32(rounds)
	for range rounds {
		s0, s1, s2, s3 = s0*a+b, s1*a+b, s2*a+b, s3*a+b
		s4, s5, s6, s7 = s4*a+b, s5*a+b, s6*a+b, s7*a+b
		s8, s9, s10, s11 = s8*a+b, s9*a+b, s10*a+b, s11*a+b
	}
	runtime.KeepAlive(s0 + s1 + s2 + s3 + s4 + s5 + s6 + s7 + s8 + s9 + s10 + s11)
}
