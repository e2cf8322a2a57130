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
// whose labels lie so that each class is one dimension of a matrix is read where it lies.

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

// Kernel is a prepared contraction. It is immutable.
type Kernel struct {
	steps   []step
	bytes   int
	threads int
	dims    map[int]int
}

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
	k := &Kernel{dims: dims, threads: threads}
	var arrays []*array
	for i, labels := range in {
		arrays = append(arrays, operandOf(i, labels, shapes[i]))
	}
	result := k.dense(longer(out, dims))
	result.operand = inResult
	for i := range arrays {
		if err := k.sumAlone(arrays, i, result.labels); err != nil {
			return nil, err
		}
	}
	for len(arrays) > 1 {
		i, j := k.cheapest(arrays)
		a, b := arrays[i], arrays[j]
		arrays = without(without(arrays, j), i)
		c, err := k.multiply(a, b, needed(arrays, result.labels), result, len(arrays) == 0)
		if err != nil {
			return nil, err
		}
		arrays = append(arrays, c)
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

// reserve takes workspace.
//
//go:noinline
func (k *Kernel) reserve(bytes int) (offset int) {
	const line = 64
	offset = k.bytes
	k.bytes += (bytes + line - 1) / line * line
	return offset
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

// needed are the labels that arrays and the result have.
//
//go:noinline
func needed(arrays []*array, result []int) []int {
	all := slices.Clone(result)
	for _, a := range arrays {
		all = append(all, a.labels...)
	}
	return all
}

// sumAlone sums array i over the labels that it alone has.
func (k *Kernel) sumAlone(arrays []*array, i int, result []int) error {
	others := needed(without(arrays, i), result)
	kept, alone := split(arrays[i].labels, others)
	if len(alone) == 0 {
		return nil
	}
	rows, err := k.arranged(arrays[i], joined(kept, alone))
	if err != nil {
		return err
	}
	if arrays[i], err = k.temporary(kept); err != nil {
		return err
	}
	k.steps = append(k.steps, step{out: arrays[i], a: rows, summed: k.size(alone)})
	return nil
}

// without leaves array i out.
//
//go:noinline
func without(arrays []*array, i int) []*array {
	rest := append([]*array(nil), arrays[:i]...)
	return append(rest, arrays[i+1:]...)
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
