package cpu

import (
	"sort"

	"github.com/berth-onnx/berth/ops"
)

// Operators that move blocks of elements: each is one box, or one per part.

var moveOps = []entry{
	{op: "Concat", prepare: prepareConcat, empties: true},
	{op: "Split", prepare: prepareSplit},
	{op: "Slice", prepare: prepareSlice},
	{op: "Expand", prepare: prepareExpand},
	{op: "Tile", prepare: prepareTile},
}

// parts copies boxes between operands and results, each its own pair. Tiles are
// numbered through all of them.
type parts struct {
	list  []part
	first []int // tile at which each part begins
	tiles int
}

type part struct {
	b       box
	in, out int
}

func (k *parts) add(b box, in, out int) {
	if b.tiles == 0 {
		return
	}
	k.list = append(k.list, part{b, in, out})
	k.first = append(k.first, k.tiles)
	k.tiles += b.tiles
}

// Run copies every part that is not in place already.
func (k *parts) Run(c *ops.Call) error {
	runTiles(c, k.tiles, k)
	return nil
}

func (k *parts) tile(c *ops.Call, i, _ int) {
	q := sort.SearchInts(k.first, i+1) - 1
	e := &k.list[q]
	dst, src := arrayOf(c.Out[e.out]), arrayOf(c.In[e.in])
	if !e.b.inPlace(dst, src) {
		e.b.move(dst, src, i-k.first[q])
	}
}

// prepareConcat lays every operand into the result behind the one before.
func prepareConcat(p *prep) (ops.Kernel, error) {
	out := p.out[0]
	axis, ok := p.axis("axis", 0, len(out.shape))
	if !ok {
		return nil, nil
	}
	outer, dim, inner := around(out.shape, axis)
	k, at := &parts{}, 0
	for i, x := range p.in {
		if !x.present || x.dt != out.dt || len(x.shape) != len(out.shape) {
			return nil, nil
		}
		run := x.shape[axis] * inner
		b, _ := newBox(out.dt.Size(), []int{outer, run}, []int{dim * inner, 1}, []int{run, 1}, at, 0)
		k.add(b, i, 0)
		at += run
	}
	return k, nil
}

// prepareSplit is the reverse of Concat.
func prepareSplit(p *prep) (ops.Kernel, error) {
	x := p.in[0]
	axis, ok := p.axis("axis", 0, len(x.shape))
	if !ok {
		return nil, nil
	}
	lengths, ok := splitLengths(p, x.shape[axis])
	if !ok {
		return nil, nil
	}
	outer, dim, inner := around(x.shape, axis)
	k, at := &parts{}, 0
	for i, n := range lengths {
		if p.wants(i) {
			run := n * inner
			b, _ := newBox(x.dt.Size(), []int{outer, run}, []int{run, 1}, []int{dim * inner, 1}, 0, at)
			k.add(b, 0, i)
		}
		at += n * inner
	}
	return k, nil
}

// splitLengths gives the length of every part, unused ones included.
func splitLengths(p *prep, dim int) ([]int, bool) {
	n := len(p.out)
	out := make([]int, n)
	if p.has(1) {
		given, ok := p.ints(1)
		if !ok || len(given) != n {
			return nil, false
		}
		for i, v := range given {
			out[i] = int(v)
		}
	} else {
		// Equal parts; the last is smaller if they do not come out even.
		each := ceilDiv(dim, n)
		for i := range out {
			out[i] = min(each, max(dim-i*each, 0))
		}
	}
	axis, _ := p.axis("axis", 0, len(p.in[0].shape))
	for i, o := range p.out {
		if o.present && o.shape[axis] != out[i] {
			return nil, false
		}
	}
	return out, true
}

// prepareSlice walks the operand from the first index with the steps' strides.
func prepareSlice(p *prep) (ops.Kernel, error) {
	x, out := p.in[0], p.out[0]
	starts, ok := p.ints(1)
	rank := len(x.shape)
	axes, steps := make([]int64, len(starts)), make([]int64, len(starts))
	for i := range axes {
		axes[i], steps[i] = int64(i), 1
	}
	if p.has(3) && ok {
		axes, ok = p.ints(3)
	}
	if p.has(4) && ok {
		steps, ok = p.ints(4)
	}
	if !ok || len(axes) != len(starts) || len(steps) != len(starts) || len(out.shape) != rank {
		return nil, nil
	}
	ds, ss, s0 := ops.Strides(out.shape), ops.Strides(x.shape), 0
	for i, a := range axes {
		axis, err := ops.NormAxis(a, rank)
		if err != nil || steps[i] == 0 {
			return nil, nil
		}
		s0 += sliceStart(starts[i], steps[i], x.shape[axis]) * ss[axis]
		if out.shape[axis] > 1 { // else any step is legal, and may overflow the stride
			ss[axis] *= int(steps[i])
		}
	}
	b, ok := newBox(x.dt.Size(), out.shape, ds, ss, 0, s0)
	if !ok {
		return nil, nil
	}
	k := &parts{}
	k.add(b, 0, 0)
	return k, nil
}

// sliceStart is the first index a range selects; negative starts count from the
// back, and all are clamped to the axis.
func sliceStart(start, step int64, dim int) int {
	d := int64(dim)
	if start < 0 {
		start += d
	}
	if step > 0 {
		return int(min(max(start, 0), d))
	}
	return int(min(max(start, 0), d-1))
}

// prepareExpand repeats the operand along broadcast dimensions.
func prepareExpand(p *prep) (ops.Kernel, error) {
	x, out := p.in[0], p.out[0]
	return oneBox(x.dt.Size(), out.shape, ops.Strides(out.shape), ops.BroadcastStrides(x.shape, out.shape)), nil
}

// prepareTile walks two dimensions per axis: the repeat, along which the source
// does not move, and the index.
func prepareTile(p *prep) (ops.Kernel, error) {
	x, out := p.in[0], p.out[0]
	if len(x.shape) != len(out.shape) {
		return nil, nil
	}
	os, xs := ops.Strides(out.shape), ops.Strides(x.shape)
	var dims, ds, ss []int
	for i, d := range x.shape {
		if d == 0 || out.shape[i]%d != 0 {
			return nil, nil
		}
		dims = append(dims, out.shape[i]/d, d)
		ds = append(ds, os[i]*d, os[i])
		ss = append(ss, 0, xs[i])
	}
	return oneBox(x.dt.Size(), dims, ds, ss), nil
}

// oneBox is the kernel that moves one box from operand 0 to result 0; nil if it
// has too many loops.
func oneBox(width int, dims, ds, ss []int) ops.Kernel {
	b, ok := newBox(width, dims, ds, ss, 0, 0)
	if !ok {
		return nil
	}
	k := &parts{}
	k.add(b, 0, 0)
	return k
}
