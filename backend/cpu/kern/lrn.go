package kern

import "math"

// Local response normalization across channels:
//
//	y[c] = x[c] · (bias + alpha/size · Σ x[c']²)^(−beta),  c' in a window of size around c
//
// A task takes a run of pixels and goes through the channels, keeping the
// squares of a window's channels in a ring. The sums are formed anew for every
// channel: a running sum would cancel.

// LRNSpec describes a normalization of an N × Channels × Spatial tensor.
type LRNSpec struct {
	Batch, Channels, Spatial int
	Size                     int
	Alpha, Beta, Bias        float32
}

const lrnPixels = 512 // pixels of a task

// lrnJob is one run; it is a Task.
type lrnJob struct {
	t    *table
	s    LRNSpec
	y, x []float32
	ws   []byte
}

var lrnJobs freeList[lrnJob]

// Workspace returns the bytes of workspace that LRN needs.
func (s *LRNSpec) Workspace(threads int) int {
	return s.perWorker()*max(1, min(threads, s.tasks())) + lineBytes
}

func (s *LRNSpec) perWorker() int { return scratchBytes(4 * (s.Size + 1) * lrnPixels) }

func (s *LRNSpec) tasks() int { return s.Batch * ceilDiv(s.Spatial, lrnPixels) }

// LRN normalizes x into y, which may be x only if Size is 1.
func LRN(s LRNSpec, y, x []float32, ws []byte, threads int) error {
	n, ok := mulAll(s.Batch, s.Channels, s.Spatial, 4)
	if !ok || s.Size < 1 || s.Size > 1<<16 {
		return &SpecError{"LRN", "Size", "sizes must be positive and must not overflow"}
	}
	if n == 0 {
		return nil
	}
	if err := needs("LRN", "X", x, n/4); err != nil {
		return err
	}
	if err := needs("LRN", "Y", y, n/4); err != nil {
		return err
	}
	if err := needs("LRN", "workspace", ws, s.Workspace(threads)); err != nil {
		return err
	}
	j := lrnJobs.get()
	defer func() {
		*j = lrnJob{}
		lrnJobs.put(j)
	}()
	j.t, j.s, j.y, j.x, j.ws = active.Load(), s, y, x, newScratch(ws).rest
	Parallel(s.tasks(), threads, j)
	return nil
}

// Run normalizes a run of pixels of one image.
func (j *lrnJob) Run(i, worker int) {
	s := &j.s
	runs := ceilDiv(s.Spatial, lrnPixels)
	p0 := i % runs * lrnPixels
	n := min(lrnPixels, s.Spatial-p0)
	base := i/runs*s.Channels*s.Spatial + p0
	row := func(v []float32, c int) []float32 { return v[base+c*s.Spatial:][:n] }
	buf := newScratch(j.ws[worker*s.perWorker():])
	ring, sum := buf.floats(s.Size*lrnPixels), buf.floats(lrnPixels)[:n]
	square := func(c int) []float32 { return ring[c%s.Size*lrnPixels:][:n] }
	before, after := (s.Size-1)/2, s.Size/2
	next := 0 // first channel not yet squared
	for c := range s.Channels {
		lo, hi := max(0, c-before), min(s.Channels-1, c+after)
		for ; next <= hi; next++ {
			x := row(j.x, next)
			j.t.binaryRow(Mul, square(next), x, x)
		}
		copy(sum, square(lo))
		for k := lo + 1; k <= hi; k++ {
			j.t.binaryRow(Add, sum, sum, square(k))
		}
		j.power(sum)
		j.t.binaryRow(Mul, row(j.y, c), row(j.x, c), sum)
	}
}

// power replaces sums by (bias + alpha/size·sum)^(−beta).
func (j *lrnJob) power(sum []float32) {
	t, s, n := j.t, &j.s, len(sum)
	p := f32p(sum, 0)
	scale := s.Alpha / float32(s.Size)
	if s.Beta == 0.75 {
		t.lrn75(p, p, n, scale, s.Bias)
		return
	}
	if t.level == LevelGeneric {
		for i, v := range sum {
			sum[i] = float32(math.Pow(float64(s.Bias)+float64(scale)*float64(v), -float64(s.Beta)))
		}
		return
	}
	t.mulAdd(p, p, n, scale, s.Bias)
	t.unaryRow(Log, sum, sum, 0, 0)
	t.binaryScalarRow(Mul, sum, sum, -s.Beta)
	t.unaryRow(Exp, sum, sum, 0, 0)
}
