package ops

// walk is the loop nest of a broadcast computation, reduced to as few loops as
// the shapes allow. The result is visited in row-major order, in runs inside
// which every operand moves by a fixed step:
//
//	result  [2 3 4 5]   operand 0 [2 3 4 5]   operand 1 [3 1 1]
//	merged  [2 3 20]    strides   [60 20 1]   strides   [0 1 0]
//	        └┬─┘ └─ run of 20 elements, steps 1 and 0
//	         └ outer loops
//
// Equal shapes become one run over everything, a scalar operand one run with
// step 0. A reduction walks the other way: the "result" is the input and the
// operand is the output, whose strides are 0 along the reduced axes.
type walk struct {
	run  int   // elements of one run
	step []int // of each operand inside a run, in elements

	dims    []int   // outer loops
	strides [][]int // of each operand in the outer loops
}

// newWalk plans the walk over a result shape to which the operands broadcast.
func newWalk(result []int, operands ...[]int) walk {
	strides := make([][]int, len(operands))
	for i, s := range operands {
		strides[i] = BroadcastStrides(s, result)
	}
	return stridedWalk(result, strides...)
}

// stridedWalk plans the walk over dims with any strides for the operands.
func stridedWalk(dims []int, strides ...[]int) walk {
	merged := make([]int, 0, len(dims)+1) // innermost first
	ms := make([][]int, len(strides))
	for d := len(dims) - 1; d >= 0; d-- {
		if dims[d] == 1 {
			continue
		}
		last := len(merged) - 1
		fits := last >= 0
		for k := range strides {
			fits = fits && strides[k][d] == ms[k][last]*merged[last]
		}
		if fits {
			merged[last] *= dims[d]
			continue
		}
		merged = append(merged, dims[d])
		for k := range strides {
			ms[k] = append(ms[k], strides[k][d])
		}
	}
	w := walk{run: 1, step: make([]int, len(strides)), strides: make([][]int, len(strides))}
	if len(merged) == 0 {
		return w
	}
	w.run = merged[0]
	for d := len(merged) - 1; d > 0; d-- {
		w.dims = append(w.dims, merged[d])
	}
	for k := range strides {
		w.step[k] = ms[k][0]
		for d := len(merged) - 1; d > 0; d-- {
			w.strides[k] = append(w.strides[k], ms[k][d])
		}
	}
	return w
}

// each calls f once per run with the position of its first element in the
// result and in each operand. The slice is reused.
func (w *walk) each(f func(first int, at []int)) {
	runs := 1
	for _, d := range w.dims {
		runs *= d
	}
	if w.run == 0 || runs == 0 {
		return
	}
	at := make([]int, len(w.strides))
	idx := make([]int, len(w.dims))
	for r := range runs {
		f(r*w.run, at)
		for d := len(w.dims) - 1; d >= 0; d-- {
			idx[d]++
			for k := range at {
				at[k] += w.strides[k][d]
			}
			if idx[d] < w.dims[d] {
				break
			}
			for k := range at {
				at[k] -= w.strides[k][d] * w.dims[d]
			}
			idx[d] = 0
		}
	}
}
