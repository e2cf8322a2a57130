package cpu

import (
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
)

// topK keeps the best elements of a line in a heap whose root is the worst of
// them: an element that is better than the root takes its place. At the end the
// heap is emptied from the worst to the best.
//
//	K = 3    5 9 2 | 7 …      heap 2          7 is better than 2:   5
//	                              ├ 9                               ├ 9
//	                              └ 5                               └ 7
//
// Positions are kept, elements are looked up; of equal elements the one that comes
// first is the better, and NaN ranks above everything.
type topK[T number] struct {
	lines
	k       int
	largest bool
	ws      int
}

func prepareTopK(p *prep) (ops.Kernel, error) {
	x := p.in[0]
	axis, _ := p.axis(len(x.shape)) // checked by inference
	if !p.wants(0) && !p.wants(1) {
		return nil, nil
	}
	outer, size, inner := around(x.shape, axis)
	out := p.out[0]
	if !out.present {
		out = p.out[1]
	}
	l, k, largest := lines{outer, size, inner}, out.shape[axis], ops.Int(p.node, "largest") != 0
	if given, known := p.ints(1); !known || len(given) != 1 || int(given[0]) != k || k > size || k < 1 {
		return nil, nil
	}
	ws := p.perWorker(roundUp(8*k, lineBytes), outer*inner)
	t := byNumber(x.dt,
		func() tiler { return &topK[float32]{l, k, largest, ws} },
		func() tiler { return &topK[float64]{l, k, largest, ws} },
		func() tiler { return &topK[int64]{l, k, largest, ws} },
		func() tiler { return &topK[int32]{l, k, largest, ws} },
		func() tiler { return &topK[int8]{l, k, largest, ws} },
		func() tiler { return &topK[uint8]{l, k, largest, ws} })
	if t == nil {
		return nil, nil
	}
	return smallTiles(outer*inner, size, p.threads, t), nil
}

// topKStep is how many elements are looked at between two looks at the context.
const topKStep = 1 << 15

func (k *topK[T]) tile(c *ops.Call, i, worker int) {
	heap := scratchOf[int64](c, k.ws+worker*roundUp(8*k.k, lineBytes), k.k)
	x := elems[T](c.In[0])[i/k.inner*k.size*k.inner+i%k.inner:]
	for j := range heap {
		heap[j] = int64(j)
	}
	for j := k.k/2 - 1; j >= 0; j-- {
		if j%topKStep == topKStep-1 && c.Ended() {
			return
		}
		k.sink(x, heap, j)
	}
	for j := k.k; j < k.size; j++ {
		if j%topKStep == topKStep-1 && c.Ended() {
			return
		}
		if k.better(x, int64(j), heap[0]) {
			heap[0] = int64(j)
			k.sink(x, heap, 0)
		}
	}
	for n := k.k - 1; n > 0; n-- { // the worst is moved behind the others
		if n%topKStep == topKStep-1 && c.Ended() {
			return
		}
		heap[0], heap[n] = heap[n], heap[0]
		k.sink(x, heap[:n], 0)
	}
	var values []T
	var at []int64
	if v, ok := c.Out[0].(*ndarray.Array); ok {
		values = ndarray.Slice[T](v)
	}
	if v, ok := c.Out[1].(*ndarray.Array); ok {
		at = ndarray.Slice[int64](v)
	}
	to := i/k.inner*k.k*k.inner + i%k.inner
	for _, p := range heap {
		if values != nil {
			values[to] = x[int(p)*k.inner]
		}
		if at != nil {
			at[to] = p
		}
		to += k.inner
	}
}

// better reports that the element at position p ranks before the one at q.
func (k *topK[T]) better(x []T, p, q int64) bool {
	a, b := x[int(p)*k.inner], x[int(q)*k.inner]
	aNaN, bNaN := a != a, b != b
	switch {
	case aNaN && bNaN || a == b:
		return p < q
	case aNaN || bNaN:
		return aNaN == k.largest
	}
	return (a > b) == k.largest
}

// sink restores the heap order below position i: the worse of two is above.
func (k *topK[T]) sink(x []T, heap []int64, i int) {
	for {
		c := 2*i + 1
		if c >= len(heap) {
			return
		}
		if c+1 < len(heap) && k.better(x, heap[c], heap[c+1]) {
			c++
		}
		if k.better(x, heap[c], heap[i]) {
			return
		}
		heap[i], heap[c] = heap[c], heap[i]
		i = c
	}
}
