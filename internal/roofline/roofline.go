// Package roofline measures the limits of this machine, arithmetic and memory, and says how near to them a piece of work came.
// It knows operations, bytes and seconds, and nothing of operators or kernels.
//
// The least time in which a machine can do a piece of work is the larger of two (S. Williams, A. Waterman, D. Patterson, "Roofline",
// CACM 52(4), 2009, https://doi.org/10.1145/1498765.1498785):
//
//	operations / peak of arithmetic          bytes / speed of memory
//
// The peak is that of independent multiply-adds in registers, at the level of instructions that kernels use, on as many threads at once.
// The speed of memory depends on where the bytes come from, so it is measured for working sets from 16 KiB to 64 MiB, which are read, or
// copied from one half to the other, again and again; the faster of the two counts. Work that reads and writes n bytes is held against
// the largest working set of at most n/2, since results may lie over operands: nothing that fits a cache is held against main memory.
package roofline

import (
	"context"
	"slices"
	"time"

	"github.com/berth-onnx/berth/internal/cpu/kern/machine"
	"github.com/berth-onnx/berth/internal/cpu/kern/simd"
	"github.com/berth-onnx/berth/internal/cpu/kern/vec"
	"github.com/berth-onnx/berth/ndarray"
)

// Limits are what a number of threads reaches together.
type Limits struct {
	Threads int
	Level   string  // of instructions: generic, avx2, avx512
	Floats  float64 // operations on float32 a second; a product and a sum are two
	Bytes   float64 // operations on bytes a second, by the instructions that kernels use; 0 where there are none
	Memory  []Speed // by working set, the smallest first

	Instructions float64 // that can be issued a second; 0 where that is no limit of its own
}

// Speed is how many bytes a second are read and written within a working set.
type Speed struct {
	Set       int64 // bytes
	PerSecond float64
}

// Work is what is held against limits.
type Work struct {
	Operations int64
	OfBytes    bool  // the operations are on bytes, else on float32
	Bytes      int64 // read and written

	Instructions int64 // 0 where they are not counted
}

// sets are the working sets that are measured, in bytes.
var sets = []int64{16 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20, 16 << 20, 64 << 20}

// rounds is how often everything is measured: the best counts, so that what interrupts a round does not.
const rounds = 3

// Measure measures, on at most so many threads as the machine has, in about a tenth of a second. It asks the
// budget for 64 MiB.
func Measure(ctx context.Context, memory ndarray.Budget, threads int) (*Limits, error) {
	threads = max(1, min(threads, machine.Threads()))
	l := &Limits{Threads: threads, Level: machine.Active().String()}
	room, err := ndarray.NewIn(memory, ndarray.Float32, int(sets[len(sets)-1]/4))
	if err != nil {
		return nil, err
	}
	x := ndarray.Slice[float32](room)
	for i := 0; i < len(x); i += 1 << 10 {
		x[i] = 1 // pages that were never written to are one page of zeros
	}
	for _, n := range sets {
		l.Memory = append(l.Memory, Speed{Set: n})
	}
	for range rounds {
		l.Floats = max(l.Floats, together(threads, func() float64 { return simd.Peak(machine.Active()) }))
		l.Bytes = max(l.Bytes, together(threads, func() float64 { return simd.PeakBytes(machine.Active()) }))
		for i := range l.Memory {
			s := &l.Memory[i]
			for _, copies := range []bool{false, true} {
				if ctx.Err() != nil {
					return nil, ctx.Err()
				}
				s.PerSecond = max(s.PerSecond, speed(x[:s.Set/4], threads, copies))
			}
		}
	}
	return l, nil
}

// rates are what the threads of one measurement reached.
type rates struct {
	one func() float64
	of  []float64
}

// Run is one thread's part.
func (r *rates) Run(i, _ int) { r.of[i] = r.one() }

// together is the sum of what so many threads reach at the same time.
func together(threads int, one func() float64) (sum float64) {
	r := &rates{one, make([]float64, threads)}
	machine.Parallel(threads, threads, r)
	for _, x := range r.of {
		sum += x
	}
	return sum
}

// passTime is how long a working set is passed over for one measurement, at least once.
const passTime = 200 * time.Microsecond

// speed is how many bytes a second the threads read, or read and write, each in its part of x.
func speed(x []float32, threads int, copies bool) float64 {
	p := &passes{x: x, threads: threads, copies: copies, times: 1}
	start := time.Now()
	machine.Parallel(threads, threads, p)
	if first := time.Since(start); first < passTime {
		p.times = int(min(passTime/max(first, 1)+1, 1<<12))
		start = time.Now()
		machine.Parallel(threads, threads, p)
	}
	return float64(4*len(x)*p.times) / time.Since(start).Seconds()
}

// passes go over parts of a working set.
type passes struct {
	x       []float32
	threads int
	copies  bool
	times   int
}

// Run is one thread's part.
func (p *passes) Run(i, _ int) {
	n := len(p.x) / p.threads &^ 31
	part := p.x[i*n:][:n]
	for range p.times {
		if p.copies {
			copy(part[:n/2], part[n/2:])
		} else {
			vec.Sum(part)
		}
	}
}

// MemorySpeed is the speed of memory for a working set of so many bytes.
func (l *Limits) MemorySpeed(bytes int64) float64 {
	i, found := slices.BinarySearchFunc(l.Memory, bytes, func(s Speed, n int64) int { return int(min(max(s.Set-n, -1), 1)) })
	if !found {
		i--
	}
	return l.Memory[max(i, 0)].PerSecond
}

// The limits that bound work.
const (
	Arithmetic = "arithmetic"
	Memory     = "memory"
	Issue      = "instructions"
)

// Bound is the least time in which the work can be done, in nanoseconds, and the limit that says so; 0 and "" for no work.
func (l *Limits) Bound(w Work) (nanos float64, limit string) {
	if w.Bytes > 0 {
		nanos, limit = 1e9*float64(w.Bytes)/l.MemorySpeed(w.Bytes/2), Memory
	}
	peak := l.Floats
	if w.OfBytes {
		peak = l.Bytes
	}
	if n := 1e9 * float64(w.Operations) / peak; peak > 0 && n > nanos {
		nanos, limit = n, Arithmetic
	}
	if n := 1e9 * float64(w.Instructions) / l.Instructions; l.Instructions > 0 && n > nanos {
		nanos, limit = n, Issue
	}
	return nanos, limit
}
