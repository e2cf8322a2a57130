package attend

import (
	"math"

	"github.com/berth-onnx/berth/internal/cpu/kern/machine"
	"github.com/berth-onnx/berth/internal/cpu/kern/simd"
)

// steps does what is to be done to the scores of a block of rows for a chunk of keys.
func (j *job) steps(first, rows, from, keys int) {
	p := j.r.p
	scores := j.scores[:rows*keys]
	for m := range p.s.Steps {
		st := &p.s.Steps[m]
		if st.Kind == Cap {
			p.cap(scores, st.Number)
			continue
		}
		at := j.masks[m] + first*st.Mask.Row + from*st.Mask.Col
		if st.Kind == Add && st.Mask.Col == 1 && st.Mask.Row == keys {
			p.t.BinaryRow(simd.Add, scores, scores, j.r.a.Masks[m].Floats[at:])
			continue
		}
		for r := range rows {
			p.step(st, &j.r.a.Masks[m], scores[r*keys:][:keys], at+r*st.Mask.Row)
		}
	}
	if p.s.Causal || p.s.Left >= 0 || p.s.Right >= 0 || j.end < p.s.T {
		for r := range rows {
			j.window(scores[r*keys:][:keys], first+r, from)
		}
	}
}

// cap limits scores smoothly.
func (p *Plan) cap(scores []float32, limit float32) {
	p.t.BinaryScalarRow(simd.Div, scores, scores, limit)
	p.t.UnaryRow(simd.Tanh, scores, scores, 0, 0)
	p.t.BinaryScalarRow(simd.Mul, scores, scores, limit)
}

// step does a step to a row, whose mask begins at an element.
func (p *Plan) step(st *Step, mask *Mask, row []float32, at int) {
	col := st.Mask.Col
	switch {
	case st.Kind == Add && col == 1:
		p.t.BinaryRow(simd.Add, row, row, mask.Floats[at:])
	case st.Kind == Add && col == 0:
		p.t.BinaryScalarRow(simd.Add, row, row, mask.Floats[at])
	case st.Kind == Add:
		for t := range row {
			row[t] += mask.Floats[at+t*col]
		}
	default:
		for t := range row {
			if (mask.Bytes[at+t*col] == 0) == (st.Kind == Keep) {
				row[t] = st.Number
			}
		}
	}
}

// window takes the keys out that query s must not see by their position; the row begins at key from.
func (j *job) window(row []float32, s, from int) {
	first, last := j.seenBy(s)
	fill(row[:min(max(first-from, 0), len(row))], minusInf)
	fill(row[min(max(last+1-from, 0), len(row)):], minusInf)
}

// seenBy is the first and the last key that a query may see by its position.
func (j *job) seenBy(s int) (first, last int) {
	p := j.r.p
	first, last = 0, j.end-1
	at := s + j.r.a.Past
	if p.s.Causal {
		last = min(last, at)
	}
	if p.s.Left >= 0 {
		first = max(at-p.s.Left, 0)
	}
	if p.s.Right >= 0 {
		last = min(last, at+p.s.Right)
	}
	return first, last
}

// onlySeen computes rows of the result again that are not finite, from the keys that have a part in them: the
// value of one that is masked may be infinite or NaN, of which 0·v would make NaN. Of a score that is NaN, or infinite, all weights are NaN.
func (j *job) onlySeen(first, rows int) {
	p := j.r.p
	if !p.s.Seen {
		return
	}
	for s := first; s < first+rows && !machine.Closed(j.r.a.Done); s++ {
		y := j.row(s)
		if sum := p.t.SumAbs(&y[0], len(y)); sum-sum == 0 {
			continue
		}
		sink, sum := j.atFirst()
		top := sink
		for t := 0; t < p.s.T && top <= math.MaxFloat32; t++ {
			top = max(top, j.score(s, t))
		}
		if !(top <= math.MaxFloat32) {
			fill(y, float32(math.NaN()))
			continue
		}
		sums := float64(sum) * math.Exp(float64(sink)-float64(top))
		for t := range p.s.T {
			sums += math.Exp(float64(j.score(s, t)) - float64(top))
		}
		clear(y)
		for t := range p.s.T {
			w := float32(math.Exp(float64(j.score(s, t))-float64(top)) / sums)
			if w == 0 || top == minusInf {
				continue
			}
			for e, v := range j.r.a.V[j.v+t*p.s.V.Row:][:len(y)] {
				y[e] += w * v
			}
		}
	}
}

// score computes a score by itself. It overwrites the scores of the block.
func (j *job) score(s, t int) float32 {
	p, x := j.r.p, j.scores[:1]
	x[0] = 0
	for d, v := range j.r.a.Q[j.q+s*p.s.Q.Row:][:p.s.D] {
		x[0] += v * j.r.a.K[j.k+t*p.s.K.Row+d*p.s.K.Col]
	}
	x[0] *= p.s.Scale
	for m := range p.s.Steps {
		st := &p.s.Steps[m]
		if st.Kind == Cap {
			p.cap(x, st.Number)
		} else {
			p.step(st, &j.r.a.Masks[m], x, j.masks[m]+s*st.Mask.Row+t*st.Mask.Col)
		}
	}
	j.window(x, s, t)
	return x[0]
}
