package cpu

import (
	"math"
	"slices"
	"strconv"

	"github.com/berth-onnx/berth/backend"
	"github.com/berth-onnx/berth/internal/cpu/kern/simd"
	"github.com/berth-onnx/berth/internal/cpu/kern/vec"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
)

// Reductions over any axes.
//
// Neighbouring dimensions that are both kept or both reduced merge, which leaves
// alternating groups; the reduced ones go one after the other, the last one first,
// each as a reduction of matrices:
//
//	[2 3 4 5], axes 1 and 3     K2 R3 K4 R5
//	                            └──────┴─ rows of 5   ->  K2 R3 K4     in scratch
//	                            columns of 3          ->  K2 K4        the result
//
// Sums, means, maxima and minima compose this way; absolute values and squares are
// computed in the first step, a function of the sum after the last one.

var reduceOps = []entry{
	{op: "ReduceSum", prepare: reduction(vec.ReduceSum, vec.ReduceSum, simd.Identity, opAdd), empties: true},
	{op: "ReduceMean", prepare: reduction(vec.ReduceMean, vec.ReduceMean, simd.Identity, noTyped), empties: true},
	{op: "ReduceMax", prepare: reduction(vec.ReduceMax, vec.ReduceMax, simd.Identity, opMax), empties: true},
	{op: "ReduceMin", prepare: reduction(vec.ReduceMin, vec.ReduceMin, simd.Identity, opMin), empties: true},
	{op: "ReduceProd", prepare: reduction(noReduce, noReduce, simd.Identity, opMul), empties: true},
	{op: "ReduceL1", prepare: reduction(vec.ReduceSumAbs, vec.ReduceSum, simd.Identity, noTyped), empties: true},
	{op: "ReduceL2", prepare: reduction(vec.ReduceSumSquares, vec.ReduceSum, simd.Sqrt, noTyped), empties: true},
	{op: "ReduceSumSquare", prepare: reduction(vec.ReduceSumSquares, vec.ReduceSum, simd.Identity, noTyped), empties: true},
	{op: "ReduceLogSum", prepare: reduction(vec.ReduceSum, vec.ReduceSum, simd.Log, noTyped), empties: true},
	{op: "ReduceLogSumExp", prepare: prepareLogSumExp, empties: true},
}

const (
	noReduce = vec.ReduceOp(255) // package vec has no such reduction
	noTyped  = binaryOp(255)     // there is no typed loop either
)

// group is a merged group of dimensions.
type group struct {
	n       int
	reduced bool
}

// groupsOf merges dimensions and drops those of one.
func groupsOf(shape []int, mask []bool) []group {
	var out []group
	for i, n := range shape {
		last := len(out) - 1
		switch {
		case n == 1:
		case last >= 0 && out[last].reduced == mask[i]:
			out[last].n *= n
		default:
			out = append(out, group{n, mask[i]})
		}
	}
	return out
}

// reduction prepares a reduction: first and then are the steps of package vec,
// after is what follows the sum, typed serves other types.
func reduction(first, then vec.ReduceOp, after simd.UnaryOp, typed binaryOp) func(*prep) (ops.Kernel, error) {
	return func(p *prep) (ops.Kernel, error) {
		mask, ok := ops.ReducedAxes(p.node, len(p.in[0].shape))
		if !ok || p.in[0].dt != p.out[0].dt || p.in[0].n == 0 {
			return nil, nil
		}
		if p.in[0].dt == ndarray.Float32 && first != noReduce {
			return newReduce(p, mask, first, then, after), nil
		}
		return newFold(p, mask, typed), nil
	}
}

// reduce is a reduction of float32 in steps.
type reduce struct {
	steps []reduceStep
	after simd.UnaryOp
	n     int // elements of the result
}

// reduceStep reduces n matrices of rows × cols: the columns, or, with one column
// left out, the rows of one matrix.
type reduceStep struct {
	op            vec.ReduceOp
	n, rows, cols int
	byRow         bool
	dst           int // workspace offset, -1 for the result
	size          int // elements written
}

func newReduce(p *prep, mask []bool, first, then vec.ReduceOp, after simd.UnaryOp) *reduce {
	k := &reduce{after: after, n: p.out[0].n}
	g := groupsOf(p.in[0].shape, mask)
	if len(g) == 0 || len(g) == 1 && !g[0].reduced {
		g = append(g, group{1, true}) // a step for what is computed per element
	}
	op := first
	for i := len(g) - 1; i >= 0; i-- {
		if !g[i].reduced {
			continue
		}
		s := reduceStep{op: op, n: 1, rows: g[i].n, cols: 1, dst: -1}
		for _, x := range g[:i] {
			s.n *= x.n
		}
		if i+1 < len(g) {
			s.cols = g[i+1].n // behind the last reduced group there is one group at most
		}
		if s.size = s.n * s.cols; s.cols == 1 {
			s.byRow, s.rows, s.cols = true, s.n, g[i].n
		}
		k.steps = append(k.steps, s)
		g = mergedWithout(g, i)
		op = then
	}
	for i := range k.steps[:len(k.steps)-1] {
		k.steps[i].dst = p.workspace(4 * k.steps[i].size)
	}
	return k
}

// mergedWithout drops group i; what is before and behind it becomes one.
func mergedWithout(g []group, i int) []group {
	rest := append([]group(nil), g[:i]...)
	if i+1 < len(g) {
		if i > 0 {
			rest[i-1].n *= g[i+1].n
		} else {
			rest = append(rest, g[i+1])
		}
	}
	return rest
}

// Run goes through the steps.
func (k *reduce) Run(c *ops.Call) error {
	src := f32(c.In[0])
	for i := range k.steps {
		s := &k.steps[i]
		dst := f32(c.Out[0])
		if s.dst >= 0 {
			dst = scratchOf[float32](c, s.dst, s.size)
		}
		if s.byRow {
			vec.ReduceRows(c.Done(), s.op, dst, src, s.rows, s.cols, c.Threads)
		} else {
			vec.ReduceCols(c.Done(), s.op, dst, src, s.n, s.rows, s.cols, c.Threads)
		}
		src = dst
	}
	if k.after != simd.Identity {
		pieces(c, k.n, func(lo, hi int) { vec.UnaryN(k.after, src[lo:hi], src[lo:hi], 0, 0, c.Threads) })
	}
	return nil
}

// Choice says how it is computed.
func (k *reduce) Choice() backend.Choice {
	if k.steps[0].byRow {
		return backend.Choice{Algorithm: "reduction of rows", Reason: strconv.Itoa(len(k.steps)) + " passes of vectors"}
	}
	return backend.Choice{Algorithm: "reduction of columns", Reason: strconv.Itoa(len(k.steps)) + " passes of vectors"}
}

// logSumExp is max + ln Σ exp(x − max) over rows.
type logSumExp struct{ cols, ws int }

// logSumExpStrip is how many exponentials are summed at a time.
const logSumExpStrip = 1024

func prepareLogSumExp(p *prep) (ops.Kernel, error) {
	mask, ok := ops.ReducedAxes(p.node, len(p.in[0].shape))
	if !ok || p.in[0].dt != ndarray.Float32 || p.in[0].n == 0 {
		return nil, nil
	}
	g := groupsOf(p.in[0].shape, mask)
	if len(g) == 0 || len(g) > 2 || !g[len(g)-1].reduced {
		return nil, nil
	}
	cols := g[len(g)-1].n
	k := &logSumExp{cols, p.perWorker(logSumExpStrip*4, p.in[0].n/cols)}
	return smallTiles(p.in[0].n/cols, cols, p.threads, k), nil
}

func (k *logSumExp) tile(c *ops.Call, r, worker int) {
	row := f32(c.In[0])[r*k.cols : (r+1)*k.cols]
	top := float32(math.Inf(-1))
	pieces(c, len(row), func(lo, hi int) { top = max(top, vec.MaxOf(row[lo:hi])) })
	if math.IsInf(float64(top), 0) || top != top {
		f32(c.Out[0])[r] = top
		return
	}
	tmp := scratchOf[float32](c, k.ws+worker*logSumExpStrip*4, logSumExpStrip)
	sum := float32(0)
	for len(row) > 0 {
		if len(row)%lookStep < logSumExpStrip && c.Ended() {
			return
		}
		n := min(len(row), logSumExpStrip)
		vec.BinaryScalar(simd.Sub, tmp[:n], row[:n], top)
		vec.Unary(simd.Exp, tmp[:n], tmp[:n], 0, 0)
		sum += vec.Sum(tmp[:n])
		row = row[n:]
	}
	f32(c.Out[0])[r] = top + float32(math.Log(float64(sum)))
}

// fold is a reduction over a Go type, one element after the other in memory order.
// It walks the input; the result does not move along reduced axes.
type fold[T number] struct {
	op   binaryOp
	init T
	n    *nest // over the input; the result is its operand
}

// newFold chooses the Go type; nil if there is none.
func newFold(p *prep, mask []bool, op binaryOp) ops.Kernel {
	if op == noTyped {
		return nil
	}
	x := p.in[0]
	kept := slices.Clone(x.shape)
	for i := range kept {
		if mask[i] {
			kept[i] = 1
		}
	}
	n, ok := newNest(x.shape, kept)
	if !ok {
		return nil
	}
	switch x.dt {
	case ndarray.Float32:
		return newFoldOf[float32](op, n, float32(math.Inf(-1)), float32(math.Inf(1)))
	case ndarray.Float64:
		return newFoldOf(op, n, math.Inf(-1), math.Inf(1))
	case ndarray.Int64:
		return newFoldOf[int64](op, n, math.MinInt64, math.MaxInt64)
	case ndarray.Int32:
		return newFoldOf[int32](op, n, math.MinInt32, math.MaxInt32)
	case ndarray.Int8:
		return newFoldOf[int8](op, n, math.MinInt8, math.MaxInt8)
	case ndarray.Uint8, ndarray.Bool:
		if x.dt == ndarray.Bool && op != opMax && op != opMin {
			return nil
		}
		return newFoldOf[uint8](op, n, 0, math.MaxUint8)
	}
	return nil
}

func newFoldOf[T number](op binaryOp, n *nest, least, most T) *fold[T] {
	k := &fold[T]{op: op, n: n}
	switch op {
	case opMul:
		k.init = 1
	case opMax:
		k.init = least
	case opMin:
		k.init = most
	}
	return k
}

// Run folds all elements in.
func (k *fold[T]) Run(c *ops.Call) error {
	dst, src := elems[T](c.Out[0]), elems[T](c.In[0])
	n := k.n
	step, cols := n.step[0], n.cols
	if len(dst)*cols == len(src) && step == 0 { // one row each, front to back: dst may lie over src
		if cols > lookStep {
			k.longRows(c, dst, src)
			return nil
		}
		per := max(1, lookStep/max(1, cols))
		for i := range dst {
			if i%per == 0 && c.Ended() {
				return nil
			}
			dst[i] = foldRow(k.op, k.init, src[i*cols:][:cols])
		}
		return nil
	}
	pieces(c, len(dst), func(lo, hi int) { fill(dst[lo:hi], k.init) })
	for i := range n.tiles {
		if c.Ended() {
			return nil
		}
		for w := n.walk(i); w.next(); {
			for r := range w.rows {
				d, row := dst[w.at[0]+r*n.row[0]:], src[w.out+r*w.cols:][:w.cols]
				if step == 0 {
					d[0] = foldRow(k.op, d[0], row)
				} else {
					binaryRow(k.op, d[:w.cols], d, 1, row, 1)
				}
			}
		}
	}
	return nil
}

// Choice says how it is computed.
func (k *fold[T]) Choice() backend.Choice {
	return backend.Choice{Algorithm: "element by element", Reason: "no vectors for the type or the operation"}
}

// longRows folds rows piece by piece.
func (k *fold[T]) longRows(c *ops.Call, dst, src []T) {
	cols := k.n.cols
	for i := range dst {
		acc, row := k.init, src[i*cols:][:cols]
		pieces(c, cols, func(lo, hi int) { acc = foldRow(k.op, acc, row[lo:hi]) })
		dst[i] = acc
	}
}

func foldRow[T number](op binaryOp, acc T, row []T) T {
	switch op {
	case opAdd:
		for _, x := range row {
			acc += x
		}
	case opMul:
		for _, x := range row {
			acc *= x
		}
	case opMax:
		for _, x := range row {
			acc = max(acc, x)
		}
	case opMin:
		for _, x := range row {
			acc = min(acc, x)
		}
	}
	return acc
}
