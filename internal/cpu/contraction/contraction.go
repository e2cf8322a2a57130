// Package contraction computes sums of products over named dimensions (Einsum) for any equation of float32 operands: by copies that
// bring operands into the order of a matrix product, products, and a copy into the result's order. How equations are
// written is package linalg's.
package contraction

import (
	"math"
	"slices"

	"github.com/berth-onnx/berth/internal/cpu/kern/gemm"
	"github.com/berth-onnx/berth/internal/cpu/kern/machine"
	"github.com/berth-onnx/berth/internal/cpu/kern/vec"
	"github.com/berth-onnx/berth/internal/ops/linalg"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// Operands are reduced first over the labels that only they have; then two at a time are multiplied, the cheapest product
// first, until one is left:
//
//	ab, bcdd, ce -> ea     sum over d of the diagonal of bcdd     bc
//	                       ab · bc, the cheapest                  ac
//	                       ac · ce                                ae
//	                       copy                                   ea
//
// In a product the labels of both that later steps need are the batch, the others of both are summed over. An operand
// whose labels lie so that each class is one dimension of a matrix is read where it lies. Of many operands the first few are compared
// with each other, so that preparing takes time in their number. Memory of what has been read takes later intermediates. Products of three
// operands and more are factored: an infinite element gives an infinite sum where the terms, infinite of both signs, would give NaN.

// array is an operand, an intermediate or the result: the labels longer than 1 with their strides.
type array struct {
	labels  []int
	strides []int
	operand int // position, or one of the places below
	offset  int // in the workspace, in bytes
}

const (
	inWorkspace = -1 - iota
	inResult
)

// mostCompared is how many arrays are compared for the cheapest product.
const mostCompared = 16

// Kernel is a prepared contraction. It is immutable.
type Kernel struct {
	steps   []step
	bytes   int
	free    []place // below bytes, in order, none beside another
	threads int
	dims    map[int]int
	uses    map[int]int // of a label: the arrays that are still to be multiplied, and the result
}

// place is a part of the workspace, in bytes.
type place struct{ at, size int }

// step computes one array from one or two. One of copied, summed and product is set, or none where a and b are multiplied element by
// element.
type step struct {
	out, a, b *array
	copied    *vec.Copy
	summed    int // over so many elements of every row
	product   *gemm.Gemm
	ws        int // of the product
}

// New prepares the kernel of an Einsum whose operands have static shapes. An operand whose dimension is 1 where the label is longer is
// repeated along it.
func New(n *ssa.Node, threads int) (*Kernel, error) {
	shapes := make([][]int, len(n.In))
	for i, v := range n.In {
		shapes[i], _ = v.Type.Static()
	}
	in, out, dims, err := linalg.Equation(ops.Str(n, "equation"), shapes)
	if err != nil {
		return nil, &machine.SpecError{Kernel: "Einsum", Field: "equation", Why: err.Error()}
	}
	k := &Kernel{dims: dims, threads: threads, uses: map[int]int{}}
	var arrays []*array
	for i, labels := range in {
		arrays = append(arrays, operandOf(i, labels, shapes[i]))
		k.count(arrays[i].labels, 1)
	}
	result := k.dense(longer(out, dims))
	result.operand = inResult
	k.count(result.labels, 1)
	for i := range arrays {
		if err := k.sumAlone(&arrays[i]); err != nil {
			return nil, err
		}
	}
	for len(arrays) > 1 {
		few := arrays[:min(len(arrays), mostCompared)]
		i, j := k.cheapest(few)
		c, err := k.multiply(few[i], few[j], result, len(arrays) == 2)
		if err != nil {
			return nil, err
		}
		few[j], few[i] = c, few[0]
		arrays = arrays[1:]
	}
	if arrays[0].operand == inResult {
		return k, nil
	}
	return k, k.copyInto(result, arrays[0])
}

// longer lists the labels that are longer than 1.
func longer(labels []int, dims map[int]int) (out []int) {
	for _, l := range labels {
		if dims[l] > 1 {
			out = append(out, l)
		}
	}
	return out
}

// Workspace is how many bytes of workspace a run takes.
func (k *Kernel) Workspace() int { return k.bytes }

// operandOf leaves out dimensions of 1; a label that occurs twice has the sum of its strides, a diagonal.
//
//go:noinline
func operandOf(i int, labels, shape []int) *array {
	a := &array{operand: i}
	for d, s := range ops.Strides(shape) {
		at := index(a.labels, labels[d])
		switch {
		case shape[d] == 1:
		case at >= 0:
			a.strides[at] += s
		default:
			a.labels, a.strides = append(a.labels, labels[d]), append(a.strides, s)
		}
	}
	return a
}

// dense is an array of labels without a place.
//
//go:noinline
func (k *Kernel) dense(labels []int) *array {
	return &array{labels: labels, strides: ops.Strides(k.shape(labels))}
}

//go:noinline
func (k *Kernel) shape(labels []int) []int {
	shape := make([]int, len(labels))
	for i, l := range labels {
		shape[i] = k.dims[l]
	}
	return shape
}

//go:noinline
func (k *Kernel) size(labels []int) int {
	n := 1
	for _, l := range labels {
		n *= k.dims[l]
	}
	return n
}

// reserve takes workspace, of what is free if there is as much in one place.
//
//go:noinline
func (k *Kernel) reserve(bytes int) (offset int) {
	bytes = machine.RoundUp(bytes, machine.LineBytes)
	for i, f := range k.free {
		switch {
		case f.size == bytes:
			k.free = slices.Delete(k.free, i, i+1)
			return f.at
		case f.size > bytes:
			k.free[i] = place{f.at + bytes, f.size - bytes}
			return f.at
		}
	}
	offset = k.bytes
	if i := len(k.free) - 1; i >= 0 && k.free[i].at+k.free[i].size == k.bytes {
		offset, k.free = k.free[i].at, k.free[:i] // it ends where the workspace does
	}
	k.bytes = offset + bytes
	return offset
}

// release gives workspace back.
//
//go:noinline
func (k *Kernel) release(offset, bytes int) {
	if bytes == 0 {
		return
	}
	i := 0
	for i < len(k.free) && k.free[i].at < offset {
		i++
	}
	k.free = slices.Insert(k.free, i, place{offset, machine.RoundUp(bytes, machine.LineBytes)})
	for i = len(k.free) - 1; i > 0; i-- {
		if last := &k.free[i-1]; last.at+last.size == k.free[i].at {
			last.size += k.free[i].size
			k.free = slices.Delete(k.free, i, i+1)
		}
	}
}

// done gives the memory of arrays back that later steps do not read, each of them once.
//
//go:noinline
func (k *Kernel) done(arrays ...*array) {
	for i, a := range arrays {
		if a != nil && a.operand == inWorkspace && !slices.Contains(arrays[:i], a) {
			k.release(a.offset, 4*k.size(a.labels))
		}
	}
}

// temporary is a dense array in the workspace.
//
//go:noinline
func (k *Kernel) temporary(labels []int) (*array, error) {
	const most = 1 << 40
	a := k.dense(labels)
	bytes, err := ndarray.ByteSize(ndarray.Float32, k.shape(labels))
	if err != nil || int64(bytes) > most || int(bytes) > math.MaxInt/2-k.bytes {
		return a, &machine.SpecError{Kernel: "Einsum", Field: "dims", Why: "an intermediate takes more than a terabyte, or than addresses reach"}
	}
	a.operand, a.offset = inWorkspace, k.reserve(int(bytes))
	return a, nil
}

// stride is the distance between neighbours along a label, 0 if the array lacks it.
//
//go:noinline
func (a *array) stride(label int) int {
	if i := index(a.labels, label); i >= 0 {
		return a.strides[i]
	}
	return 0
}

// copyInto copies an array into another of the same labels.
//
//go:noinline
func (k *Kernel) copyInto(to, from *array) error {
	strides := make([]int, len(to.labels))
	for i, l := range to.labels {
		strides[i] = from.stride(l)
	}
	c, err := vec.NewCopy(k.shape(to.labels), to.strides, strides)
	k.steps = append(k.steps, step{out: to, a: from, copied: c})
	return err
}

// arranged is an array with its labels in an order, the same one if they are.
//
//go:noinline
func (k *Kernel) arranged(a *array, labels []int) (*array, error) {
	if d := k.dense(labels); slices.Equal(d.labels, a.labels) && slices.Equal(d.strides, a.strides) {
		return a, nil
	}
	t, err := k.temporary(labels)
	if err != nil {
		return t, err
	}
	return t, k.copyInto(t, a)
}

// count adds an array to those that use labels, or takes it away.
//
//go:noinline
func (k *Kernel) count(labels []int, by int) {
	for _, l := range labels {
		k.uses[l] += by
	}
}

// needed tells labels that other arrays or the result use from those that none does.
//
//go:noinline
func (k *Kernel) needed(labels []int) (needed, others []int) {
	for _, l := range labels {
		if k.uses[l] > 0 {
			needed = append(needed, l)
		} else {
			others = append(others, l)
		}
	}
	return needed, others
}

// sumAlone sums an operand over the labels that it alone has.
func (k *Kernel) sumAlone(a **array) error {
	k.count((*a).labels, -1)
	kept, alone := k.needed((*a).labels)
	k.count(kept, 1)
	if len(alone) == 0 {
		return nil
	}
	rows, err := k.arranged(*a, joined(kept, alone))
	if err != nil {
		return err
	}
	if *a, err = k.temporary(kept); err != nil {
		return err
	}
	k.steps = append(k.steps, step{out: *a, a: rows, summed: k.size(alone)})
	k.done(rows)
	return nil
}

// index is where a label is, -1 if nowhere.
//
//go:noinline
func index(labels []int, label int) int { return slices.Index(labels, label) }

// joined lists the labels of lists.
//
//go:noinline
func joined(lists ...[]int) []int { return slices.Concat(lists...) }

// split tells the labels that others have from those that they do not.
//
//go:noinline
func split(labels, others []int) (shared, own []int) {
	for _, l := range labels {
		if index(others, l) >= 0 {
			shared = append(shared, l)
		} else {
			own = append(own, l)
		}
	}
	return shared, own
}

// cheapest finds the two arrays, i before j, whose product takes the fewest multiplications.
func (k *Kernel) cheapest(arrays []*array) (i, j int) {
	least := -1.0
	for b := range arrays {
		for a := range b {
			_, own := split(arrays[b].labels, arrays[a].labels)
			cost := float64(k.size(arrays[a].labels)) * float64(k.size(own))
			if least < 0 || cost < least {
				least, i, j = cost, a, b
			}
		}
	}
	return i, j
}
