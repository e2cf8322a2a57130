package convolve

import (
	"cmp"
	"context"
	"fmt"

	"github.com/berth-onnx/berth/internal/cpu/kern/gemm"
	"github.com/berth-onnx/berth/internal/cpu/kern/machine"
	"github.com/berth-onnx/berth/internal/cpu/kern/simd"
)

// Columns is a transposed convolution as a product, then a scattering sum.
//
//	cols[m·tap, x] = Σc W[c, m·tap] · X[c, x]         one product for each group
//	Y[m, x·stride + tap·dilation − pad] += cols[m·tap, x]
//
// Input positions are processed in slabs along the outermost spatial dimension, so that cols stays in cache. One tile sums an output
// channel of a slab; slabs and taps come one after the other, so sums have one order on any number of threads. An image of few
// positions, which would fill no panel, is the left side of the product:
//
//	cols[x, m·tap] = Σc X[c, x] · W[c, m·tap]
//
// A convolution of stride one is the transpose of another, whose kernel is turned around: with so few output channels that they do not
// fill a block of the direct kernels, their taps fill the rows of a product (Vasudevan, Anderson and Gregg, "Parallel Multi Channel Convolution
// using General Matrix Multiplication", 2017, https://arxiv.org/abs/1704.04428).
//
// A Columns is immutable.
type Columns struct {
	*geometry
	products []slabProduct
	turned   bool // a convolution as the transpose of another
	few      bool // few positions: cols has a row for each
	outer    int  // the outermost dimension with more than one position
	slab     int  // outermost positions in a slab
	line     int  // input positions of each of them
	rows     int  // of cols: output channels of a group by taps
}

// slabProduct is the product of a slab of some size.
type slabProduct struct {
	slab int
	g    *gemm.Gemm
}

const (
	slabElems   = 256 << 10 // about how many elements of cols a slab has,
	turnedElems = 64 << 10  // of a convolution
	fewColumns  = 8         // input positions up to which they are few
)

// NewColumns prepares a transposed convolution, or one of stride one and constant weights in one group, at the active level.
func NewColumns(s ConvSpec) (*Columns, error) {
	g, err := newGeometry(s)
	if err != nil {
		return nil, err
	}
	turned, elems := !g.s.Transposed, slabElems
	if turned {
		if !g.turns() {
			return nil, &machine.SpecError{Kernel: "Columns", Field: "Transposed", Why: "the convolution is not the transpose of another"}
		}
		elems = turnedElems
		if g, err = newGeometry(g.turned()); err != nil {
			return nil, err
		}
	}
	if s = g.s; g.isBlocked() || s.Shuffle {
		return nil, &machine.SpecError{Kernel: "Columns", Field: "Shuffle", Why: "images are plain"}
	}
	c := &Columns{geometry: g, turned: turned, rows: g.ocg * g.taps, outer: 2, few: g.inN <= fewColumns && s.ConstW}
	for d := 1; d >= 0; d-- {
		if s.In[d] > 1 {
			c.outer = d
		}
	}
	c.line = 1
	for d := c.outer + 1; d < 3; d++ {
		c.line *= s.In[d]
	}
	positions := s.In[c.outer]
	c.slab = min(max(1, elems/max(1, c.rows*c.line)), positions)
	if c.few {
		c.slab = positions
	}
	sizes := []int{c.slab}
	if rest := positions % max(1, c.slab); rest > 0 {
		sizes = append(sizes, rest)
	}
	for _, n := range sizes {
		p, err := gemm.NewGemm(c.spec(n))
		if err != nil {
			return nil, err
		}
		c.products = append(c.products, slabProduct{n, p})
	}
	return c, nil
}

// spec is the product of a slab.
func (c *Columns) spec(slab int) gemm.GemmSpec {
	if c.few {
		return gemm.GemmSpec{M: c.inN, N: c.rows, K: c.icg, Alpha: 1, TransA: true, ConstB: true}
	}
	return gemm.GemmSpec{M: c.rows, N: slab * c.line, K: c.icg, Alpha: 1, TransA: true, LDB: c.inN, ConstA: c.s.ConstW}
}

// turns reports whether a convolution is the transpose of another that is computed by columns.
func (g *geometry) turns() bool {
	s := &g.s
	return !s.Transposed && s.ConstW && s.Groups == 1 && !s.Shuffle && !g.isBlocked() && s.Stride == [3]int{1, 1, 1}
}

// turned is the transposed convolution that a convolution of stride one is.
func (g *geometry) turned() ConvSpec {
	s := g.s
	s.Transposed, s.Out = true, g.out
	for d := range 3 {
		s.PadBegin[d] = (s.Kernel[d]-1)*s.Dilation[d] - s.PadBegin[d]
		s.PadEnd[d] = 0
	}
	return s
}

// Turned reports a convolution whose weights Turn brings into the order of those of a transposed one.
func (c *Columns) Turned() bool { return c.turned }

// Turn turns the weights [M, C, taps] of a convolution around: [C, M, taps], the last tap first.
func (c *Columns) Turn(ctx context.Context, w gemm.Source) (gemm.Source, error) {
	if w.Splat {
		return w, nil
	}
	if err := cmp.Or(machine.Needs("Columns", "W", w.Data, c.weightLen()), machine.AskPacked(ctx, 4*c.weightLen())); err != nil {
		return w, err
	}
	out := make([]float32, c.weightLen())
	for ic := range c.icg {
		for m := range c.ocg {
			to, from := out[(ic*c.ocg+m)*c.taps:][:c.taps], w.Data[(m*c.icg+ic)*c.taps:][:c.taps]
			for t, v := range from {
				to[c.taps-1-t] = v
			}
		}
	}
	return gemm.Dense(out), nil
}

// Product is the product whose constant operand the weights of a group are, the right one if right.
func (c *Columns) Product() (g *gemm.Gemm, right bool) { return c.products[0].g, c.few }

// GroupWeights is how many weights a group has.
func (c *Columns) GroupWeights() int { return c.icg * c.rows }

// Workspace returns the bytes of workspace that Run needs with this many threads.
func (c *Columns) Workspace(threads int) int {
	n := 0
	for _, p := range c.products {
		n = max(n, p.g.Workspace(threads))
	}
	return machine.ScratchBytes(4*c.rows*c.slab*c.line) + n + machine.LineBytes
}

// columnsRun is the state of a run; it is the Task of the pool, a tile for each output channel of a group.
type columnsRun struct {
	c            *Columns
	a            ConvArgs
	cols         []float32
	image, group int
	from, to     int // the slab
}

var columnsRuns machine.FreeList[columnsRun]

// Run computes the convolution on at most threads threads, with the packed weights of each group, or those of the arguments where there
// are none.
func (c *Columns) Run(a ConvArgs, packed []*gemm.Packed, ws []byte, threads int) error {
	if c.s.Batch*c.s.OutC*c.outN == 0 {
		return nil
	}
	if err := c.checkArgs(&a, packed, ws, threads); err != nil {
		return err
	}
	r := columnsRuns.Get()
	defer columnsRuns.Release(r)
	s := machine.NewScratch(ws)
	*r = columnsRun{c: c, a: a, cols: s.Floats(c.rows * c.slab * c.line)}
	for r.image = range c.s.Batch {
		for r.group = range c.s.Groups {
			for r.from = 0; c.inN > 0 && r.from < c.s.In[c.outer] && !machine.Closed(a.Done); r.from = r.to {
				r.to = min(r.from+c.slab, c.s.In[c.outer])
				if err := r.product(packed, s.Rest, threads); err != nil {
					return err
				}
				machine.Parallel(c.ocg, threads, r)
			}
			if c.inN == 0 {
				r.from, r.to = 0, c.s.In[c.outer]
				machine.Parallel(c.ocg, threads, r)
			}
		}
	}
	return nil
}

func (c *Columns) checkArgs(a *ConvArgs, packed []*gemm.Packed, ws []byte, threads int) error {
	s := &c.s
	var weights error
	if !s.ConstW {
		weights = machine.Needs("Columns", "W", a.W, c.weightLen())
	} else if len(packed) != s.Groups {
		weights = &machine.SpecError{Kernel: "Columns", Field: "packed", Why: "weights of another number of groups"}
	}
	return cmp.Or(
		weights,
		machine.Needs("Columns", "X", a.X, s.Batch*s.InC*c.inN),
		machine.Needs("Columns", "Y", a.Y, s.Batch*s.OutC*c.outN),
		machine.Needs("Columns", "bias", a.Bias, s.Epilogue.BiasLen(s.OutC, 0)),
		machine.Needs("Columns", "residual", a.Residual, s.Epilogue.ResidualLen(s.Batch*s.OutC*c.outN)),
		machine.Needs("Columns", "workspace", ws, c.Workspace(threads)),
	)
}

// product computes the columns of the slab.
func (r *columnsRun) product(packed []*gemm.Packed, ws []byte, threads int) error {
	c := r.c
	x := r.a.X[(r.image*c.s.InC+r.group*c.icg)*c.inN:]
	args := gemm.GemmArgs{Done: r.a.Done, C: r.cols}
	switch {
	case c.few:
		args.A, args.PackedB = x, packed[r.group]
	case packed != nil:
		args.B, args.PackedA = x[r.from*c.line:], packed[r.group]
	default:
		args.B, args.A = x[r.from*c.line:], r.a.W[r.group*c.GroupWeights():]
	}
	p := &c.products[0]
	if r.to-r.from != p.slab {
		p = &c.products[1]
	}
	return p.g.Run(args, ws, threads)
}

// Run adds the columns of the slab to output channel m of the group; the first slab starts from the bias, the last one ends with
// the activation.
func (r *columnsRun) Run(m, _ int) {
	c, s := r.c, &r.c.s
	if machine.Closed(r.a.Done) {
		return
	}
	channel := r.group*c.ocg + m
	y := r.a.Y[(r.image*s.OutC+channel)*c.outN:][:c.outN]
	if r.from == 0 {
		r.start(y, channel)
	}
	switch {
	case c.inN == 0:
	case c.few:
		r.addRows(y, m)
	default:
		r.addTaps(y, m)
	}
	if e := &s.Epilogue; r.to == s.In[c.outer] && e.Act != simd.Identity {
		c.t.UnaryRow(e.Act, y, y, e.P0, e.P1)
	}
}

// start sets a channel of the result to the bias, and the residual, which may be the result.
func (r *columnsRun) start(y []float32, channel int) {
	e, bias := &r.c.s.Epilogue, float32(0)
	if e.Bias != simd.NoBias {
		bias = r.a.Bias[channel]
	}
	if e.Residual {
		r.c.t.ScalarBinaryRow(simd.Add, y, bias, r.a.Residual[(r.image*r.c.s.OutC+channel)*r.c.outN:][:len(y)])
		return
	}
	for i := range y {
		y[i] = bias
	}
}

// addTaps adds the columns of channel m, which lie by taps.
func (r *columnsRun) addTaps(y []float32, m int) {
	c := r.c
	width := (r.to - r.from) * c.line
	lo, hi := [3]int{}, c.s.In
	lo[c.outer], hi[c.outer] = r.from, r.to
	k := &c.s.Kernel
	for t := range c.taps {
		part := r.cols[(m*c.taps+t)*width:][:width]
		c.scatter(y, part, [3]int{t / (k[1] * k[2]), t / k[2] % k[1], t % k[2]}, lo, hi)
	}
}

// addRows adds the columns of channel m, which lie by positions.
func (r *columnsRun) addRows(y []float32, m int) {
	c, s := r.c, &r.c.s
	k := &s.Kernel
	for i := range c.inN {
		part := r.cols[i*c.rows+m*c.taps:][:c.taps]
		at := [3]int{i / (s.In[1] * s.In[2]), i / s.In[2] % s.In[1], i % s.In[2]}
		for a := range k[0] {
			z := c.place(0, at[0], a)
			for b := range k[1] {
				v := c.place(1, at[1], b)
				row := part[:k[2]]
				part = part[k[2]:]
				if z < 0 || z >= c.out[0] || v < 0 || v >= c.out[1] {
					continue
				}
				dst := y[(z*c.out[1]+v)*c.out[2]:][:c.out[2]]
				for e, w := range row {
					if x := c.place(2, at[2], e); x >= 0 && x < len(dst) {
						dst[x] += w
					}
				}
			}
		}
	}
}

// place is where along dimension d input position x adds to through a tap; where the convolution is not transposed, what output position x reads.
func (g *geometry) place(d, x, tap int) int {
	return x*g.s.Stride[d] + tap*g.s.Dilation[d] - g.s.PadBegin[d]
}

// inside is the range of n places, of which the first and the distance to the next are given, that lie on an axis of some length.
func inside(first, step, n, length int) (lo, hi int) {
	lo = min(machine.CeilDiv(max(0, -first), step), n)
	hi = min(machine.CeilDiv(max(0, length-first), step), n)
	return lo, max(lo, hi)
}

// scatter adds one tap's columns for input positions lo..hi.
func (g *geometry) scatter(y, part []float32, tap, lo, hi [3]int) {
	x0, x1 := g.reach(2, tap[2])
	x0, x1 = max(x0, lo[2]), min(x1, hi[2])
	line := hi[2] - lo[2]
	for z := lo[0]; z < hi[0]; z++ {
		pz := g.place(0, z, tap[0])
		for v := lo[1]; v < hi[1]; v++ {
			pv := g.place(1, v, tap[1])
			src := part[:line]
			part = part[line:]
			if pz < 0 || pz >= g.out[0] || pv < 0 || pv >= g.out[1] || x0 >= x1 {
				continue
			}
			dst := y[(pz*g.out[1]+pv)*g.out[2]+g.place(2, x0, tap[2]):]
			addStrided(g.t, dst, src[x0-lo[2]:x1-lo[2]], g.s.Stride[2])
		}
	}
}

// reach returns the input positions lo..hi along d that add through a tap to a result.
func (g *geometry) reach(d, tap int) (lo, hi int) {
	return inside(g.place(d, 0, tap), g.s.Stride[d], g.s.In[d], g.out[d])
}

// addStrided is dst[i·stride] += src[i].
func addStrided(t *simd.Table, dst, src []float32, stride int) {
	if stride == 1 {
		dst = dst[:len(src)]
		t.BinaryRow(simd.Add, dst, dst, src)
		return
	}
	for i, v := range src {
		dst[i*stride] += v
	}
}

// planColumns plans a convolution by columns, where output channels fill neither blocks nor panels but their taps do.
func (g *geometry) planColumns() (ConvPlan, bool) {
	const few = 8 // output channels: more fill the direct kernels well enough
	if !g.turns() || g.ocg > few || g.taps < 4 || g.outN <= FewPositions {
		return ConvPlan{}, false
	}
	share := g.productShare()
	if g.directFits() {
		share = max(share, g.directShare())
	}
	if g.columnsCost()*1.25 > g.work()/share {
		return ConvPlan{}, false
	}
	return ConvPlan{Algorithm: ConvColumns, Reason: fmt.Sprintf("%d output channels do not fill a block, their %d taps are rows of a product", g.ocg, g.taps)}, true
}

// columnsCost is what products and sums into the image take, in multiply-adds at the peak.
func (g *geometry) columnsCost() float64 {
	s := &g.s
	sum := 20.0 // of an element into the image
	if s.Stride[2] == 1 {
		sum = 6 // of a row
	}
	columns := float64(s.Batch*s.OutC*g.taps) * float64(g.inN)
	return columns*float64(g.icg)/0.85/g.inFill() + sum*columns
}

// inFill is the share of the lanes of panels that hold input pixels; few are rows, each of which takes its part of the time in which weights
// come from the cache.
func (g *geometry) inFill() float64 {
	const hidden = 6 // rows that take as long as weights do
	if g.inN <= fewColumns {
		return min(1, float64(max(g.inN, 1))/hidden)
	}
	return float64(g.inN) / float64(machine.RoundUp(g.inN, g.t.Nr/2))
}
