package cpu

import (
	"slices"
	"sort"
	"strings"

	"github.com/berth-onnx/berth/internal/cpu/contraction"
	"github.com/berth-onnx/berth/internal/cpu/kern/gemm"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
)

// Einsum, where it is one permutation or one product of matrices where the operands lie; package contraction has the rest.
//
// The labels of two operands fall into four classes:
//
//	        in A   in B   in the result
//	batch    x      x       x
//	M        x              x
//	N               x       x
//	K        x      x
//
// Labels of a class that are neighbours in both places where they occur merge into one
// dimension of the product; those of M and N that do not merge become batch. Strides
// give the rest: a matrix whose rows are dense is transposed.

var einsumOps = []entry{
	{op: "Einsum", prepare: prepareEinsum},
}

// term is an operand or the result: its labels with their strides.
type term struct {
	labels string
	stride map[byte]int
}

func newTerm(labels string, shape []int, dims map[byte]int) (t term, ok bool) {
	t = term{labels, map[byte]int{}}
	if len(labels) != len(shape) {
		return t, false
	}
	strides := ops.Strides(shape)
	for i := range labels {
		l := labels[i]
		if _, twice := t.stride[l]; twice {
			return t, false
		}
		if n, known := dims[l]; known && n != shape[i] {
			return t, false
		}
		dims[l], t.stride[l] = shape[i], strides[i]
	}
	return t, true
}

func (t *term) has(l byte) bool { return strings.IndexByte(t.labels, l) >= 0 }

func prepareEinsum(p *prep) (ops.Kernel, error) {
	if k, err := p.einsumInPlace(); k != nil || err != nil || !p.allF32() {
		return k, err
	}
	k, err := contraction.New(p.node, p.threads)
	if err == nil {
		p.workspace(k.Workspace())
	}
	return k, err
}

// einsumInPlace serves what one permutation or one product does; nil if neither.
func (p *prep) einsumInPlace() (ops.Kernel, error) {
	text := strings.ReplaceAll(ops.Str(p.node, "equation"), " ", "")
	left, right, explicit := strings.Cut(text, "->")
	terms := strings.Split(left, ",")
	if !explicit || strings.Contains(text, ".") || len(terms) != len(p.in) || len(terms) > 2 {
		return nil, nil
	}
	dims := map[byte]int{}
	var in []term
	for i, labels := range terms {
		t, ok := newTerm(labels, p.in[i].shape, dims)
		if !ok {
			return nil, nil
		}
		in = append(in, t)
	}
	out, ok := newTerm(right, p.out[0].shape, dims)
	if !ok {
		return nil, nil
	}
	if len(in) == 1 {
		return p.einsumPermute(in[0], out)
	}
	if !p.all(ndarray.Float32) {
		return nil, nil
	}
	return p.einsumProduct(in[0], in[1], out, dims)
}

// einsumPermute serves one operand all of whose labels are in the result.
func (p *prep) einsumPermute(in, out term) (ops.Kernel, error) {
	if len(in.labels) != len(out.labels) {
		return nil, nil
	}
	perm := make([]int, len(out.labels))
	for i := range perm {
		if perm[i] = strings.IndexByte(in.labels, out.labels[i]); perm[i] < 0 {
			return nil, nil
		}
	}
	return permute(p.in[0], p.in[0].shape, perm)
}

// side is one dimension of the product: its size and its stride in two places.
type side struct{ n, x, y int }

// mergedSide merges labels of one class from the inside of x outwards; rest are
// those that do not fit.
func mergedSide(labels []byte, x, y term, dims map[byte]int) (s side, rest []byte) {
	s.n = 1
	sort.Slice(labels, func(i, j int) bool { return x.stride[labels[i]] < x.stride[labels[j]] })
	for _, l := range labels {
		switch {
		case dims[l] == 1:
		case s.n == 1:
			s = side{dims[l], x.stride[l], y.stride[l]}
		case x.stride[l] == s.x*s.n && y.stride[l] == s.y*s.n:
			s.n *= dims[l]
		default:
			rest = append(rest, l)
		}
	}
	return s, rest
}

func (p *prep) einsumProduct(a, b, out term, dims map[byte]int) (ops.Kernel, error) {
	ia, ib := 0, 1
	if last := out.labels; last != "" && !b.has(last[len(last)-1]) {
		a, b, ia, ib = b, a, ib, ia // the result's columns are B's
	}
	var batch, ms, ns, ks []byte
	for _, l := range []byte(a.labels) {
		switch {
		case b.has(l) && out.has(l):
			batch = append(batch, l)
		case b.has(l):
			ks = append(ks, l)
		case out.has(l):
			ms = append(ms, l)
		default:
			return nil, nil // summed over one operand alone
		}
	}
	for _, l := range []byte(b.labels) {
		switch {
		case a.has(l):
		case out.has(l):
			ns = append(ns, l)
		default:
			return nil, nil
		}
	}
	k, left := mergedSide(ks, a, b, dims)
	m, moreM := mergedSide(ms, out, a, dims)
	n, moreN := mergedSide(ns, out, b, dims)
	if len(left) > 0 || n.n > 1 && n.x != 1 || m.n*n.n*k.n == 1 {
		return nil, nil
	}
	s := gemm.GemmSpec{M: m.n, N: n.n, K: k.n, Alpha: 1}
	var okA, okB bool
	s.TransA, s.LDA, okA = layout(side{n: m.n, x: m.y}, side{n: k.n, x: k.x})
	s.TransB, s.LDB, okB = layout(side{n: k.n, x: k.y}, side{n: n.n, x: n.y})
	if m.n > 1 {
		s.LDC = m.x
	}
	var ok bool
	if s.Batch, ok = einsumBatch(slices.Concat(batch, moreM, moreN), a, b, out, dims); !ok || !okA || !okB {
		return nil, nil
	}
	kernel, err := p.newProduct(s, ia, ib)
	if err != nil {
		return nil, err
	}
	return kernel, nil
}

// layout returns whether a matrix of rows and cols is transposed, that is, its rows are
// dense, and its leading dimension; ok is false if neither is dense.
func layout(rows, cols side) (trans bool, ld int, ok bool) {
	switch {
	case cols.n == 1 || cols.x == 1:
		if rows.n > 1 {
			ld = rows.x
		}
		return false, ld, rows.n == 1 || ld >= cols.n
	case rows.n == 1 || rows.x == 1:
		return true, cols.x, cols.x >= rows.n
	}
	return false, 0, false
}

// einsumBatch orders batch labels by the result's strides, see [mergeBatch].
func einsumBatch(labels []byte, a, b, out term, dims map[byte]int) ([]gemm.BatchDim, bool) {
	sort.Slice(labels, func(i, j int) bool { return out.stride[labels[i]] > out.stride[labels[j]] })
	batch := make([]gemm.BatchDim, len(labels))
	for i, l := range labels {
		batch[i] = gemm.BatchDim{N: dims[l], A: a.stride[l], B: b.stride[l], C: out.stride[l], R: out.stride[l]}
	}
	return mergeBatch(batch)
}
