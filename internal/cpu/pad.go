package cpu

import (
	"github.com/berth-onnx/berth/ops"
)

// Pad, all modes.
//
// For every dimension a table has the source index of each result index, -1 for the
// fill (see remap):
//
//	result index   0  1  2  3  4  5  6
//	constant      -1 -1  0  1  2  3 -1
//	edge           0  0  0  1  2  3  3
//	reflect        2  1  0  1  2  3  2
//	wrap           2  3  0  1  2  3  0
//	                    └─ body ─┘

var padOps = []entry{
	{op: "Pad", prepare: preparePad},
}

func preparePad(p *prep) (ops.Kernel, error) {
	x, out := p.in[0], p.out[0]
	begin, ok := padBegin(p, len(x.shape))
	mode := ops.Str(p.node, "mode")
	if !ok || p.has(2) && (p.in[2].n != 1 || p.in[2].dt != x.dt) {
		return nil, nil
	}
	last := 0
	for i := range x.shape {
		if begin[i] != 0 || out.shape[i] != x.shape[i] {
			last = i
		}
	}
	maps := make([][]int32, last+1)
	for i := range maps {
		if err := p.table(indices, 4*int64(out.shape[i])); err != nil {
			return nil, err
		}
		if maps[i] = padMap(mode, x.shape[i], out.shape[i], begin[i]); maps[i] == nil {
			return nil, nil
		}
	}
	return newRemap(p, maps, p.has(2)), nil
}

// padBegin returns the pad before every dimension.
func padBegin(p *prep, rank int) ([]int, bool) {
	pads, ok := p.ints(1)
	if !ok {
		return nil, false
	}
	axes := make([]int64, rank)
	for i := range axes {
		axes[i] = int64(i)
	}
	if p.has(3) {
		if axes, ok = p.ints(3); !ok {
			return nil, false
		}
	}
	if len(pads) != 2*len(axes) {
		return nil, false
	}
	begin := make([]int, rank)
	for i, a := range axes {
		axis, err := ops.NormAxis(a, rank)
		if err != nil {
			return nil, false
		}
		begin[axis] = int(pads[i])
	}
	return begin, true
}

// padMap returns the source index of every result index, nil if there is none to
// repeat.
func padMap(mode string, in, out, begin int) []int32 {
	end := out - in - begin
	from := max(-begin, 0)                   // first source index that stays
	left := in + min(begin, 0) + min(end, 0) // how many stay
	if mode != "constant" && left <= 0 {
		return nil
	}
	m := make([]int32, out)
	for o := range m {
		i := o - max(begin, 0)
		switch inside := 0 <= i && i < left; {
		case inside:
		case mode == "constant":
			m[o] = -1
			continue
		case mode == "edge":
			i = min(max(i, 0), left-1)
		case mode == "wrap":
			i = (i%left + left) % left
		case mode == "reflect":
			i = reflected(i, left)
		}
		m[o] = int32(from + i)
	}
	return m
}

// reflected bounces a position off both ends of [0, n).
func reflected(i, n int) int {
	if n == 1 {
		return 0
	}
	period := 2 * (n - 1)
	i = (i%period + period) % period
	return min(i, period-i)
}
