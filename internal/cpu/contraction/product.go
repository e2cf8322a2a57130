package contraction

import (
	"slices"
	"strconv"

	"github.com/berth-onnx/berth/backend"
	"github.com/berth-onnx/berth/internal/cpu/kern/gemm"
	"github.com/berth-onnx/berth/internal/cpu/kern/simd"
	"github.com/berth-onnx/berth/internal/cpu/kern/vec"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
)

// multiply appends the product of two arrays, with the labels that are needed; the last one goes into the result if that has the
// order of the product.
func (k *Kernel) multiply(a, b, result *array, last bool) (*array, error) {
	if n := len(result.labels); n > 0 && index(b.labels, result.labels[n-1]) < 0 {
		a, b = b, a // the result's columns are those of b
	}
	both, ms := split(a.labels, b.labels)
	_, ns := split(b.labels, a.labels)
	k.count(a.labels, -1)
	k.count(b.labels, -1)
	batch, sums := k.needed(both)
	for _, labels := range [][]int{batch, ms, ns} {
		sortLike(labels, result.labels)
	}
	sortLike(sums, b.labels)
	s := step{out: result}
	var err error
	order := joined(batch, ms, ns)
	if !last || !slices.Equal(order, result.labels) {
		s.out, err = k.temporary(order)
	}
	if err == nil && len(ms)+len(ns)+len(sums) == 0 {
		if s.a, err = k.arranged(a, batch); err == nil {
			s.b, err = k.arranged(b, batch)
		}
	} else if err == nil {
		err = k.matrices(&s, a, b, [4][]int{batch, ms, ns, sums})
	}
	if err != nil {
		return nil, err
	}
	k.steps = append(k.steps, s)
	if s.product != nil {
		k.release(s.ws, s.product.Workspace(k.threads))
	}
	k.done(a, b, s.a, s.b)
	k.count(order, 1)
	return s.out, nil
}

// sortLike sorts labels by where others have them.
func sortLike(labels, others []int) {
	for i := range labels {
		for j := i; j > 0 && index(others, labels[j]) < index(others, labels[j-1]); j-- {
			labels[j], labels[j-1] = labels[j-1], labels[j]
		}
	}
}

// matrices makes a step a product of matrices; labels are those of the batch, the rows, the columns, and those summed over.
func (k *Kernel) matrices(s *step, a, b *array, labels [4][]int) (err error) {
	batch, ms, ns, sums := labels[0], labels[1], labels[2], labels[3]
	g := gemm.GemmSpec{M: k.size(ms), N: k.size(ns), K: k.size(sums), Alpha: 1}
	d := gemm.BatchDim{N: k.size(batch), C: g.M * g.N}
	if s.a, err = k.matrix(a, batch, ms, sums, &g.TransA, &g.LDA, &d.A); err != nil {
		return err
	}
	if s.b, err = k.matrix(b, batch, sums, ns, &g.TransB, &g.LDB, &d.B); err != nil {
		return err
	}
	if d.N > 1 {
		g.Batch = []gemm.BatchDim{d}
	}
	if s.product, err = gemm.NewGemm(g); err != nil {
		return err
	}
	s.ws = k.reserve(s.product.Workspace(k.threads))
	return nil
}

// matrix brings an array into the form of a batch of matrices, in place if each class of labels is one dimension there.
func (k *Kernel) matrix(a *array, batch, rows, cols []int, trans *bool, ld, next *int) (*array, error) {
	r, okR := k.merged(a, rows)
	c, okC := k.merged(a, cols)
	n, okN := k.merged(a, batch)
	m, w := k.size(rows), k.size(cols)
	if okR && okC && okN {
		switch {
		case (w == 1 || c == 1) && (m == 1 || r >= w):
			*ld, *next = max(r, w), n
			return a, nil
		case (m == 1 || r == 1) && (w == 1 || c >= m):
			*trans, *ld, *next = true, max(c, m), n
			return a, nil
		}
	}
	*ld, *next = w, m*w
	return k.arranged(a, joined(batch, rows, cols))
}

// merged is the stride of labels, outermost first, as one dimension; 0 for none.
func (k *Kernel) merged(a *array, labels []int) (stride int, ok bool) {
	for i, l := range labels {
		if i == 0 {
			stride = a.stride(labels[len(labels)-1])
		} else if a.stride(labels[i-1]) != a.stride(l)*k.dims[l] {
			return 0, false
		}
	}
	return stride, true
}

// Run computes the result.
func (k *Kernel) Run(c *ops.Call) error {
	threads := min(k.threads, c.Threads)
	for i := range k.steps {
		s := &k.steps[i]
		out, a := k.floats(c, s.out), k.floats(c, s.a)
		var err error
		switch {
		case s.copied != nil:
			err = vec.RunCopy(c.Done(), s.copied, out, 0, a, 0, threads)
		case s.product != nil:
			args := gemm.GemmArgs{Done: c.Done(), A: a, B: k.floats(c, s.b), C: out}
			err = s.product.Run(args, c.Scratch[s.ws:], threads)
		case s.summed == 0:
			vec.Binary(simd.Mul, out, a, k.floats(c, s.b))
		default:
			vec.ReduceRows(c.Done(), vec.ReduceSum, out, a, len(out), s.summed, threads)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Choice says how it is computed.
func (k *Kernel) Choice() backend.Choice {
	return backend.Choice{Algorithm: "copies, sums and products", Reason: strconv.Itoa(len(k.steps)) + " of them: the labels are not those of one product"}
}

// floats are the elements of an array in a call.
//
//go:noinline
func (k *Kernel) floats(c *ops.Call, a *array) []float32 {
	switch a.operand {
	case inWorkspace:
		n := 4 * k.size(a.labels)
		return ndarray.Slice[float32](&ndarray.Array{DType: ndarray.Float32, Data: c.Scratch[a.offset:][:n:n]})
	case inResult:
		return ndarray.Slice[float32](c.Out[0].(*ndarray.Array))
	}
	return ndarray.Slice[float32](c.In[a.operand].(*ndarray.Array))
}
