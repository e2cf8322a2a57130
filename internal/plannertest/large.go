package plannertest

import (
	"math/rand/v2"

	"github.com/berth-onnx/berth/planner"
)

// Shape is a structure of large problems. Its problems are valid by construction, of about as many buffers as asked for, and the
// same for the same seed.
type Shape struct {
	Name string
	Draw func(n int, seed uint64) *planner.Problem
}

// Shapes of programs that planners meet.
func Shapes() []Shape {
	return []Shape{
		{"training", func(n int, seed uint64) *planner.Problem { return training(n, seed, false) }},
		{"recompute", func(n int, seed uint64) *planner.Problem { return training(n, seed, true) }},
		{"inference", inference},
		{"scattered", scattered},
		{"tiles", tiles},
		{"aligned", aligned},
		{"mixed-align", mixedAlign},
		{"gaps", gaps},
	}
}

// tape is a program being written: one point per step.
type tape struct {
	r    *rand.Rand
	p    *planner.Problem
	step int
}

func newTape(seed, stream uint64) *tape {
	return &tape{r: rand.New(rand.NewPCG(seed, stream)), p: &planner.Problem{}}
}

// put adds a buffer that lives in [lo, hi).
func (t *tape) put(size int64, lo, hi int) {
	t.p.Buffers = append(t.p.Buffers, planner.Buffer{Size: max(size, 1), Lo: lo, Hi: max(hi, lo+1)})
}

// open adds a buffer born now whose end is set later, and returns its number.
func (t *tape) open(size int64) int {
	t.put(size, t.step, t.step+1)
	return len(t.p.Buffers) - 1
}

// use keeps a buffer alive through the present step.
func (t *tape) use(i int) { t.p.Buffers[i].Hi = max(t.p.Buffers[i].Hi, t.step+1) }

// training is a step of training of a transformer: forward, backward, optimizer.
//
//	bytes |  |weights and optimizer states   |      activations of a layer wait for its backward pass: the live ranges
//	      |  |   a1 |=====================|  |      are nested. Gradients of weights live from there to the
//	      |  |      a2 |===============|     |      optimizer's step, gradients of activations and scratch
//	      |  |         a3 |=========|        |      for a step or two. With recompute only a layer's input
//	      |  |              g3 |==========|  |      waits, and the rest is made again.
//	      +-----------------------------------> time
func training(n int, seed uint64, recompute bool) *planner.Problem {
	t := newTape(seed, 11)
	const ops = 14 // per layer
	layers := max(n/(ops*4+14), 1)
	hidden := int64(256+t.r.IntN(16)*64) * 512
	weights, total := make([]int64, layers*4), layers*(ops*4+10)
	for k := range weights {
		weights[k] = hidden * int64(1+t.r.IntN(8))
		t.put(weights[k], 0, total) // optimizer state
	}
	type layer struct{ input, saved []int }
	stack := make([]layer, layers)
	forward := func(l *layer, keep bool) (saved []int) {
		last := -1
		for k := range ops {
			size := hidden * int64(1+t.r.IntN(4)) / int64(1+t.r.IntN(3))
			if k == 5 || k == 6 {
				size = hidden * 4 // attention scores
			}
			a := t.open(size)
			t.put(int64(1+t.r.IntN(64))*1024, t.step, t.step+1) // scratch
			if last >= 0 {
				t.use(last)
			}
			if last = a; keep && t.r.IntN(3) > 0 {
				saved = append(saved, a)
			}
			t.step++
		}
		return append(saved, last)
	}
	for k := range stack {
		stack[k].input = []int{t.open(hidden)}
		stack[k].saved = forward(&stack[k], !recompute)
	}
	grads := make([]int, 0, len(weights))
	for k := layers - 1; k >= 0; k-- {
		l := &stack[k]
		if recompute {
			l.saved = forward(l, true)
		}
		last := -1
		for x := range ops {
			g := t.open(hidden * int64(1+t.r.IntN(4)) / int64(1+t.r.IntN(3)))
			if last >= 0 {
				t.use(last)
			}
			last = g
			for y := len(l.saved) - 1 - x; y >= 0 && y >= len(l.saved)-2-x; y-- {
				t.use(l.saved[y])
			}
			if x%4 == 3 {
				grads = append(grads, t.open(weights[len(grads)]))
			}
			t.step++
		}
		t.use(l.input[0])
	}
	for _, g := range grads { // optimizer
		t.use(g)
		t.put(t.p.Buffers[g].Size, t.step, t.step+1)
		t.step++
	}
	return t.p
}

// inference is a network with branches and skips: short live ranges, sizes that shrink and grow again, a few states that live throughout.
func inference(n int, seed uint64) *planner.Problem {
	t := newTape(seed, 12)
	size := int64(1<<20 + t.r.IntN(1<<20))
	for range n / 200 {
		t.put(size/4, 0, n)
	}
	var waiting []int
	last := t.open(size)
	for len(t.p.Buffers) < n {
		t.step++
		if t.r.IntN(16) == 0 {
			size = max(size*int64(1+t.r.IntN(4))/int64(1+t.r.IntN(4)), 4096)
			size = min(size, 16<<20)
		}
		a := t.open(size / int64(1+t.r.IntN(3)))
		t.use(last)
		if t.r.IntN(2) == 0 {
			t.put(int64(1+t.r.IntN(1<<16)), t.step, t.step+1)
		}
		if len(waiting) > 0 && t.r.IntN(3) == 0 {
			k := t.r.IntN(len(waiting))
			t.use(waiting[k])
			waiting = append(waiting[:k], waiting[k+1:]...)
		}
		if t.r.IntN(4) == 0 && len(waiting) < 12 {
			waiting = append(waiting, a)
		}
		last = a
	}
	return t.p
}

// scattered has live ranges of all lengths anywhere, long ones seldom, and sizes over several orders.
func scattered(n int, seed uint64) *planner.Problem {
	t := newTape(seed, 13)
	for range n {
		lo := t.r.IntN(n)
		t.put(int64(1+t.r.IntN(1<<t.r.IntN(12)))*64, lo, lo+1+t.r.IntN(1+n>>(1+t.r.IntN(12))))
	}
	return t.p
}

// tiles is a program for a chip with memory of its own: boxes of points and bytes side by side in time, each cut into
// buffers that fill it, a few of which are missing.
func tiles(n int, seed uint64) *planner.Problem {
	t := newTape(seed, 14)
	for base := 0; len(t.p.Buffers) < n; base += 40 {
		c := drawBox(t.r, min(n-len(t.p.Buffers)+1, 40+t.r.IntN(200)))
		for _, b := range c.Problem.Buffers {
			if t.r.IntN(20) > 0 {
				t.put(b.Size*1024, base+b.Lo, base+b.Hi)
			}
		}
	}
	return t.p
}

// aligned is training with one alignment and sizes that are not multiples of it.
func aligned(n int, seed uint64) *planner.Problem {
	p := training(n, seed, false)
	r := rand.New(rand.NewPCG(seed, 15))
	p.Align = 512
	for i := range p.Buffers {
		p.Buffers[i].Size += int64(r.IntN(2000))
	}
	return p
}

// mixedAlign is inference with several alignments.
func mixedAlign(n int, seed uint64) *planner.Problem {
	p := inference(n, seed)
	r := rand.New(rand.NewPCG(seed, 16))
	for i := range p.Buffers {
		p.Buffers[i].Align = 64 << (3 * r.IntN(3))
	}
	return p
}

// gaps is scattered with runs in which a buffer holds nothing.
func gaps(n int, seed uint64) *planner.Problem {
	p := scattered(n, seed)
	r := rand.New(rand.NewPCG(seed, 17))
	for i := range p.Buffers {
		b := &p.Buffers[i]
		if span := b.Hi - b.Lo; span > 4 && r.IntN(3) == 0 {
			lo := b.Lo + 1 + r.IntN(span-3)
			b.Holes = []planner.Range{{Lo: lo, Hi: lo + 1 + r.IntN(b.Hi-lo-1)}}
		}
	}
	return p
}
