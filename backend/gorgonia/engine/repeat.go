package engine

import (
	"fmt"
	"math/bits"
	"slices"

	"gorgonia.org/tensor"

	"github.com/berth-onnx/berth/ndarray"
)

// Repeat is [Engine.Repeat].
func (o *operations) Repeat(t tensor.Tensor, axis int, repeats ...int) (tensor.Tensor, error) {
	return guarded(o, "Repeat", func() (tensor.Tensor, error) { return o.repeat(t, axis, repeats, nil) })
}

// RepeatReuse is [Engine.RepeatReuse].
func (o *operations) RepeatReuse(t, reuse tensor.Tensor, axis int, repeats ...int) (tensor.Tensor, error) {
	return guarded(o, "RepeatReuse", func() (tensor.Tensor, error) {
		if _, err := denseOf(reuse); err != nil {
			return nil, err
		}
		return o.repeat(t, axis, repeats, []tensor.FuncOpt{tensor.WithReuse(reuse)})
	})
}

func (o *operations) repeat(t tensor.Tensor, axis int, repeats []int, opts []tensor.FuncOpt) (tensor.Tensor, error) {
	a, err := arrayOf(t)
	if err != nil {
		return nil, err
	}
	shape, along, err := repeatable(a.Shape, axis)
	if err != nil {
		return nil, err
	}
	total, err := countOf(repeats, shape[along])
	if err != nil {
		return nil, fmt.Errorf("repeating %s along axis %d: %w", a, axis, err)
	}
	inner := ndarray.Product(shape[along+1:])
	size := shape[along]
	shape[along] = total
	return o.result(t.(*tensor.Dense), t.Dtype(), shape, func(out *ndarray.Array) error {
		if !isApart(out, a, false) {
			return elsewhere(out, func(to *ndarray.Array) error { return repeatInto(to, a, repeats, size, inner) })
		}
		return repeatInto(out, a, repeats, size, inner)
	}, opts)
}

// repeatable is the shape of a tensor in which its elements are repeated, and the axis there.
func repeatable(of []int, axis int) (shape []int, along int, err error) {
	shape = slices.Clone(of)
	switch {
	case axis == tensor.AllAxes:
		return []int{ndarray.Product(of)}, 0, nil
	case len(of) == 0 && axis == 0:
		return []int{1}, 0, nil
	case len(of) == 0 && axis == 1:
		return []int{1, 1}, 1, nil
	case len(of) == 1 && axis == 1:
		return append(shape, 1), 1, nil
	case axis < 0 || axis >= len(of):
		return nil, 0, fmt.Errorf("a tensor of shape %v has no axis %d", of, axis)
	}
	return shape, axis, nil
}

// countOf is how often the elements of an axis of some size are repeated, all together.
func countOf(repeats []int, size int) (total int, err error) {
	if len(repeats) != 1 && len(repeats) != size {
		return 0, fmt.Errorf("%d counts are given for %d elements", len(repeats), size)
	}
	for _, n := range repeats {
		if n < 0 {
			return 0, fmt.Errorf("a count of %d", n)
		}
	}
	if len(repeats) == 1 {
		return ndarray.NumElems([]int{repeats[0], size})
	}
	for _, n := range repeats {
		sum, _ := bits.Add(uint(total), uint(n), 0)
		if int(sum) < 0 {
			return 0, ndarray.ErrSize
		}
		total = int(sum)
	}
	return total, nil
}

// repeatInto writes blocks of inner elements, size of which are along the axis, as often as their counts say.
func repeatInto(out, a *ndarray.Array, repeats []int, size, inner int) error {
	if out.Len() == 0 {
		return nil
	}
	to := 0
	for block := range a.Len() / inner {
		times := repeats[0]
		if len(repeats) > 1 {
			times = repeats[block%size]
		}
		for range times {
			copyBlock(out, to*inner, a, block*inner, inner)
			to++
		}
	}
	return nil
}

// copyBlock copies n elements.
func copyBlock(to *ndarray.Array, at int, from *ndarray.Array, begin, n int) {
	if to.DType == ndarray.String {
		copy(to.Str[at:at+n], from.Str[begin:])
		return
	}
	size := to.DType.Size()
	copy(to.Data[at*size:(at+n)*size], from.Data[begin*size:])
}
