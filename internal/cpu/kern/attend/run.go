package attend

import (
	"math"

	"github.com/berth-onnx/berth/internal/cpu/kern/gemm"
	"github.com/berth-onnx/berth/internal/cpu/kern/machine"
	"github.com/berth-onnx/berth/internal/cpu/kern/simd"
	"github.com/berth-onnx/berth/internal/cpu/kern/vec"
)

// run is the state of one run; it is the Task of the pool. A task is some blocks of the queries of one
// matrix of the batch.
type run struct {
	p      *Plan
	a      Args
	ws     []byte
	blocks gemm.Split // of queries, into tasks
	held   []held     // by worker
}

// held is what a worker has packed: the keys and values that begin at some elements.
type held struct {
	filled bool
	k, v   int
	keys   gemm.Packed // points at one chunk after the other
	values gemm.Packed
}

var runs machine.FreeList[run]

// job is what a task computes: a matrix of the batch, and the memory of its worker.
type job struct {
	r          *run
	q, k, v, y int
	masks      [MaxSteps]int
	end        int // keys from here on do not count
	sink       int // the matrix's among all
	scores     []float32
	tops, sums []float32 // of the rows of a block: the largest score, and with several chunks the sum
	packed     []float32
	held       *held
	ws         []byte
}

var minusInf = float32(math.Inf(-1))

// Run computes the attention on at most threads threads. The workspace must have Workspace(threads) bytes.
func (p *Plan) Run(a *Args, ws []byte, threads int) {
	r := runs.Get()
	defer r.release()
	r.p, r.a, r.ws = p, *a, ws
	// A matrix is cut into tasks where there are few of them. Whoever computes a part of one packs its keys.
	tasks := 1
	if threads > 1 {
		tasks = min(p.queries.P, machine.CeilDiv(2*threads, p.batches))
	}
	r.blocks = gemm.NewSplit(p.queries.P, machine.CeilDiv(p.queries.P, tasks))
	for len(r.held) < threads {
		r.held = append(r.held, held{})
	}
	machine.Parallel(p.batches*r.blocks.P, threads, r)
}

// release keeps the memory of a run for the next one, and nothing that it points to.
func (r *run) release() {
	clear(r.held)
	r.p, r.a, r.ws = nil, Args{}, nil
	runs.Put(r)
}

// Run does task i.
func (r *run) Run(i, worker int) {
	p := r.p
	j := job{r: r, held: &r.held[worker], q: p.s.Q.At, k: p.s.K.At, v: p.s.V.At, y: p.s.Y.At, end: p.s.T}
	if r.a.Keys > 0 {
		j.end = min(j.end, r.a.Keys)
	}
	j.place(i / r.blocks.P)
	s := machine.NewScratch(r.ws[worker*p.per : (worker+1)*p.per])
	from, n := r.blocks.Part(i % r.blocks.P)
	if p.cols != nil {
		j.panels(&s, from, n)
		return
	}
	j.scores = s.Floats(p.ws[0] / 4)
	stats := s.Floats(p.ws[1] / 4)
	j.tops, j.sums = stats[:len(stats)/2], stats[len(stats)/2:]
	j.packed = s.Floats(p.ws[2] / 4)
	j.ws = s.Rest
	if p.packed {
		j.pack()
	}
	for b := from; b < from+n && !machine.Closed(r.a.Done); b++ {
		if p.keys.P == 1 && !p.s.Sunk {
			j.whole(b)
		} else {
			j.chunks(b)
		}
	}
}

// place finds where the operands of a matrix of the batch begin.
func (j *job) place(batch int) {
	s := &j.r.p.s
	for m := range s.Steps {
		j.masks[m] = s.Steps[m].Mask.At
	}
	for d := len(s.Batch) - 1; d >= 0; d-- {
		x := batch % s.Batch[d]
		batch /= s.Batch[d]
		j.q, j.k, j.v, j.y = j.q+x*s.Q.Batch[d], j.k+x*s.K.Batch[d], j.v+x*s.V.Batch[d], j.y+x*s.Y.Batch[d]
		for m := range s.Steps {
			if s.Steps[m].Kind != Cap {
				j.masks[m] += x * s.Steps[m].Mask.Batch[d]
			}
		}
		if s.Sunk {
			j.sink += x * s.Sink[d]
		}
	}
}

// pack lays keys and values out, unless the worker has just done so.
func (j *job) pack() {
	p, h := j.r.p, j.held
	if h.filled && h.k == j.k && h.v == j.v {
		return
	}
	h.filled, h.k, h.v = true, j.k, j.v
	for c := range p.keys.P {
		from, _, kind := part(p.keys, c)
		if from >= j.end {
			break
		}
		x := &p.pairs[0][kind]
		keys, values := j.chunk(c)
		x.keys.PackInOrder(keys, j.r.a.K[j.k+from*p.s.K.Row:])
		x.values.PackInOrder(values, j.r.a.V[j.v+from*p.s.V.Row:])
	}
}

// chunk is the memory of the packed keys and values of chunk c.
func (j *job) chunk(c int) (keys, values []float32) {
	p := j.r.p
	_, _, kind := part(p.keys, c)
	x := j.packed[c*(p.keySize[0]+p.valueSize[0]):]
	return x[:p.keySize[kind]], x[p.keySize[kind]:][:p.valueSize[kind]]
}

// multiply computes the scores of a block for chunk c.
func (j *job) multiply(x *pair, first, c int) {
	p, a := j.r.p, &j.r.a
	args := gemm.GemmArgs{Done: a.Done, A: a.Q[j.q+first*p.s.Q.Row:], C: j.scores}
	from, keys := p.keys.Part(c)
	if p.s.S == 1 && p.s.K.Col == 1 {
		vec.DotRows(j.scores, args.A[:p.s.D], a.K[j.k+from*p.s.K.Row:], keys, p.s.K.Row, 1)
		p.t.BinaryScalarRow(simd.Mul, j.scores[:keys], j.scores[:keys], p.s.Scale)
		return
	}
	if p.packed {
		j.held.keys.Order = x.keys.Layout
		j.held.keys.Data, _ = j.chunk(c)
		args.PackedB = &j.held.keys
	} else {
		args.B = a.K[j.k+from*p.s.K.Row:]
	}
	_ = x.scores.Run(args, j.ws, 1) // the sizes were checked when it was prepared
}

// apply multiplies the weights of a block for chunk c by the values.
func (j *job) apply(x *pair, first, c int, more bool) {
	p, a := j.r.p, &j.r.a
	args := gemm.GemmArgs{Done: a.Done, A: j.scores, C: a.Y[j.y+first*p.s.Y.Row:]}
	from, _ := p.keys.Part(c)
	if p.packed {
		j.held.values.Order = x.values.Layout
		_, j.held.values.Data = j.chunk(c)
		args.PackedB = &j.held.values
	} else {
		args.B = a.V[j.v+from*p.s.V.Row:]
	}
	g := x.apply
	if more {
		g = x.more
	}
	_ = g.Run(args, j.ws, 1)
}

// whole computes block b over all keys at once.
func (j *job) whole(b int) {
	p := j.r.p
	first, rows, kind := part(p.queries, b)
	x, keys := &p.pairs[kind][0], p.s.T
	j.multiply(x, first, 0)
	j.steps(first, rows, 0, keys)
	scores := j.scores[:rows*keys]
	if p.s.Seen {
		for r := range rows {
			j.tops[r] = vec.MaxOf(scores[r*keys:][:keys])
		}
	}
	vec.Softmax(j.r.a.Done, scores, scores, rows, keys, 1)
	for r := 0; r < rows && (p.s.Seen || p.s.NaNToZero); r++ {
		if row := scores[r*keys:][:keys]; p.s.NaNToZero && row[0] != row[0] || p.s.Seen && j.tops[r] == minusInf {
			clear(row)
		}
	}
	j.apply(x, first, 0, false)
	j.onlySeen(first, rows)
}

// chunks computes block b a chunk of keys at a time.
func (j *job) chunks(b int) {
	p := j.r.p
	s := &p.s
	first, rows, kind := part(p.queries, b)
	top, sum := j.atFirst()
	fill(j.tops[:rows], top)
	fill(j.sums[:rows], sum)
	more := false
	for c := range p.keys.P {
		from, keys, short := part(p.keys, c)
		begin, _ := j.seenBy(first)
		_, last := j.seenBy(first + rows - 1)
		if from >= j.end || more && (from > last || machine.Closed(j.r.a.Done)) {
			break
		}
		if from+keys <= min(begin, j.end-1) {
			continue
		}
		x := &p.pairs[kind][short]
		j.multiply(x, first, c)
		j.steps(first, rows, from, keys)
		for r := range rows {
			j.weigh(j.scores[r*keys:][:keys], j.row(first+r), r, more)
		}
		j.apply(x, first, c, more)
		more = true
	}
	for r := range rows {
		switch top := j.tops[r]; {
		case s.NaNToZero && (top != top || j.sums[r] != j.sums[r]):
			j.weightless(j.row(first + r))
		case s.NaNToZero:
		case top == minusInf && s.Seen:
			clear(j.row(first + r))
		case top == minusInf:
			fill(j.row(first+r), float32(math.NaN()))
		}
	}
	j.onlySeen(first, rows)
}

// atFirst is the largest score and the sum of a row before its keys: those of the sink, if there is one.
func (j *job) atFirst() (top, sum float32) {
	switch a := &j.r.a; {
	case !j.r.p.s.Sunk:
		return minusInf, 0
	case a.Sinks == nil:
		return 0, 1
	default:
		return a.Sinks[j.sink], 1
	}
}

// row is the result of a query.
func (j *job) row(s int) []float32 { return j.r.a.Y[j.y+s*j.r.p.s.Y.Row:][:j.r.p.s.E] }

// weigh makes weights of the scores of row r for a chunk, and scales y, the mean of the values so far, if
// there is one.
func (j *job) weigh(row, y []float32, r int, more bool) {
	t, old := j.r.p.t, j.tops[r]
	top := max(old, t.Max(&row[0], len(row)))
	if top == minusInf {
		clear(row)
		return
	}
	t.BinaryScalarRow(simd.Sub, row, row, top)
	t.UnaryRow(simd.Exp, row, row, 0, 0)
	kept := j.sums[r] * float32(math.Exp(float64(old-top)))
	sum := kept + t.Sum(&row[0], len(row))
	t.BinaryScalarRow(simd.Mul, row, row, 1/sum)
	if more && kept != sum {
		t.BinaryScalarRow(simd.Mul, y, y, kept/sum)
	}
	j.tops[r], j.sums[r] = top, sum
}

// weightless computes a row of the result whose weights are all 0: only values that are not finite show.
func (j *job) weightless(y []float32) {
	clear(y)
	for t := range j.r.p.s.T {
		for e, v := range j.r.a.V[j.v+t*j.r.p.s.V.Row:][:len(y)] {
			y[e] += 0 * v
		}
	}
}

func fill(x []float32, v float32) {
	for i := range x {
		x[i] = v
	}
}
