package cpu

import "github.com/berth-onnx/berth/ops"

// Permutations of dimensions.

var transposeOps = []entry{
	{op: "Transpose", prepare: prepareTranspose},
	{op: "DepthToSpace", prepare: prepareDepthToSpace},
	{op: "SpaceToDepth", prepare: prepareSpaceToDepth},
}

func prepareTranspose(p *prep) (ops.Kernel, error) {
	x := p.in[0]
	rank := len(x.shape)
	perm := make([]int, rank)
	for i := range perm {
		perm[i] = rank - 1 - i
	}
	for i, a := range ops.Ints(p.node, "perm") {
		perm[i], _ = ops.NormAxis(a, rank) // checked by inference
	}
	return permute(x, x.shape, perm)
}

// prepareDepthToSpace spreads channels over blocks of pixels.
func prepareDepthToSpace(p *prep) (ops.Kernel, error) {
	x, b := p.in[0], int(ops.Int(p.node, "blocksize"))
	if x.shape[1]%(b*b) != 0 {
		return nil, nil
	}
	n, c, h, w := x.shape[0], x.shape[1]/(b*b), x.shape[2], x.shape[3]
	if ops.Str(p.node, "mode") == "CRD" {
		return permute(x, []int{n, c, b, b, h, w}, []int{0, 1, 4, 2, 5, 3})
	}
	return permute(x, []int{n, b, b, c, h, w}, []int{0, 3, 4, 1, 5, 2})
}

// prepareSpaceToDepth gathers blocks of pixels into channels.
func prepareSpaceToDepth(p *prep) (ops.Kernel, error) {
	x, b := p.in[0], int(ops.Int(p.node, "blocksize"))
	if x.shape[2]%b != 0 || x.shape[3]%b != 0 {
		return nil, nil
	}
	n, c, h, w := x.shape[0], x.shape[1], x.shape[2]/b, x.shape[3]/b
	if ops.Str(p.node, "mode") == "CRD" {
		return permute(x, []int{n, c, h, b, w, b}, []int{0, 1, 3, 5, 2, 4})
	}
	return permute(x, []int{n, c, h, b, w, b}, []int{0, 3, 5, 1, 2, 4})
}

// permute is the kernel that permutes the dimensions of operand 0, seen under a
// shape.
func permute(x operand, shape, perm []int) (ops.Kernel, error) {
	dims, ss := make([]int, len(shape)), make([]int, len(shape))
	strides := ops.Strides(shape)
	for i, k := range perm {
		dims[i], ss[i] = shape[k], strides[k]
	}
	return oneBox(x.dt.Size(), dims, ops.Strides(dims), ss)
}
