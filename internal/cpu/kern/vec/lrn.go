package vec

import (
	"cmp"
	"math"

	"github.com/berth-onnx/berth/internal/cpu/kern/machine"
	"github.com/berth-onnx/berth/internal/cpu/kern/simd"
)

// Local response normalization across channels:
//
//	y[c] = x[c] · (bias + alpha/size · Σ x[c']²)^(−beta),  c' in a window of size around c
//
// A task takes a run of pixels and goes through the channels, with the squares of a
// window's channels in a ring buffer. Every channel sums its window again: a running
// sum would lose precision by cancellation.

// LRNSpec describes a normalization of an N × Channels × Spatial tensor.
type LRNSpec struct {
	Batch, Channels, Spatial int
	Size                     int
	Alpha, Beta, Bias        float32
}

const lrnPixels = 512 // pixels of a task

// LRNLargest is the largest window.
const LRNLargest = 1 << 16

// lrnStep is how many elements of windows are summed between two looks at what ends a run.
const lrnStep = 1 << 21

// lrnJob is one run; it is a Task.
type lrnJob struct {
	t    *simd.Table
	s    LRNSpec
	y, x []float32
	ws   []byte
	done <-chan struct{}
}

var lrnJobs machine.FreeList[lrnJob]

// Workspace returns the bytes of workspace that LRN needs.
func (s *LRNSpec) Workspace(threads int) int {
	return s.perWorker()*max(1, min(threads, s.tasks())) + machine.LineBytes
}

func (s *LRNSpec) perWorker() int { return machine.ScratchBytes(4 * (s.Size + 1) * lrnPixels) }

func (s *LRNSpec) tasks() int { return s.Batch * machine.CeilDiv(s.Spatial, lrnPixels) }

// LRN normalizes x into y, which may be x only if Size is 1. When done, which may be nil, is closed,
// the rest is left out.
func LRN(done <-chan struct{}, s LRNSpec, y, x []float32, ws []byte, threads int) error {
	n, ok := machine.MulAll(s.Batch, s.Channels, s.Spatial, 4)
	if !ok || s.Size < 1 || s.Size > LRNLargest {
		return &machine.SpecError{Kernel: "LRN", Field: "Size", Why: "sizes must be positive and must not overflow"}
	}
	if n == 0 {
		return nil
	}
	if err := cmp.Or(
		machine.Needs("LRN", "X", x, n/4),
		machine.Needs("LRN", "Y", y, n/4),
		machine.Needs("LRN", "workspace", ws, s.Workspace(threads)),
	); err != nil {
		return err
	}
	j := lrnJobs.Get()
	defer lrnJobs.Release(j)
	j.t, j.s, j.y, j.x, j.ws, j.done = simd.Active(), s, y, x, machine.NewScratch(ws).Rest, done
	machine.Parallel(s.tasks(), threads, j)
	return nil
}

// Run normalizes a run of pixels of one image.
func (j *lrnJob) Run(i, worker int) {
	if machine.Closed(j.done) {
		return
	}
	s := &j.s
	runs := machine.CeilDiv(s.Spatial, lrnPixels)
	p0 := i % runs * lrnPixels
	n := min(lrnPixels, s.Spatial-p0)
	base := i/runs*s.Channels*s.Spatial + p0
	row := func(v []float32, c int) []float32 { return v[base+c*s.Spatial:][:n] }
	buf := machine.NewScratch(j.ws[worker*s.perWorker():])
	ring, sum := buf.Floats(s.Size*lrnPixels), buf.Floats(lrnPixels)[:n]
	square := func(c int) []float32 { return ring[c%s.Size*lrnPixels:][:n] }
	before, after := (s.Size-1)/2, s.Size/2
	next, work := 0, 0 // the first channel not yet squared; elements summed since it was looked whether the run is to end
	for c := range s.Channels {
		lo, hi := max(0, c-before), min(s.Channels-1, c+after)
		if work += (hi - lo + 1) * n; work > lrnStep {
			if work = 0; machine.Closed(j.done) {
				return
			}
		}
		for ; next <= hi; next++ {
			x := row(j.x, next)
			j.t.BinaryRow(simd.Mul, square(next), x, x)
		}
		copy(sum, square(lo))
		for k := lo + 1; k <= hi; k++ {
			j.t.BinaryRow(simd.Add, sum, sum, square(k))
		}
		j.power(sum)
		j.t.BinaryRow(simd.Mul, row(j.y, c), row(j.x, c), sum)
	}
}

// power replaces sums by (bias + alpha/size·sum)^(−beta).
func (j *lrnJob) power(sum []float32) {
	t, s, n := j.t, &j.s, len(sum)
	p := machine.F32p(sum, 0)
	scale := s.Alpha / float32(s.Size)
	if s.Beta == 0.75 {
		t.Lrn75(p, p, n, scale, s.Bias)
		return
	}
	if t.Level == machine.LevelGeneric {
		for i, v := range sum {
			sum[i] = float32(math.Pow(float64(s.Bias)+float64(scale)*float64(v), -float64(s.Beta)))
		}
		return
	}
	t.MulAdd(p, p, n, scale, s.Bias)
	t.UnaryRow(simd.Log, sum, sum, 0, 0)
	t.BinaryScalarRow(simd.Mul, sum, sum, -s.Beta)
	t.UnaryRow(simd.Exp, sum, sum, 0, 0)
}
