package cpu

import (
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
)

// Permutations of dimensions.
//
// After merging, either the innermost loop is dense on both sides, and the
// permutation is a box of copies, or the dimension that is dense in the source (q)
// is another than the one dense in the result (the last). Those two then form a
// matrix to be transposed, which is done in square blocks so that the lines of
// both sides stay in cache; all other dimensions are outer loops.
//
//	source, q dense            result, last dense
//	  ┌──┬──┐ ─ q                ┌──┬──┐ ─ last
//	  │a │b │                    │aᵀ│c │
//	  ├──┼──┤ last               ├──┼──┤ q
//	  │c │  │                    │bᵀ│  │
//	  └──┴──┘                    └──┴──┘

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
	if p.node.Has("perm") {
		given := p.node.Ints("perm")
		if len(given) != rank {
			return nil, nil
		}
		for i, a := range given {
			k, err := ops.NormAxis(a, rank)
			if err != nil {
				return nil, nil
			}
			perm[i] = k
		}
	}
	return permute(x, x.shape, perm), nil
}

// prepareDepthToSpace spreads channels over blocks of pixels.
func prepareDepthToSpace(p *prep) (ops.Kernel, error) {
	x, b := p.in[0], int(p.node.Int("blocksize", 0))
	if len(x.shape) != 4 || b < 1 || x.shape[1]%(b*b) != 0 {
		return nil, nil
	}
	n, c, h, w := x.shape[0], x.shape[1]/(b*b), x.shape[2], x.shape[3]
	switch p.node.Str("mode", "DCR") {
	case "DCR":
		return permute(x, []int{n, b, b, c, h, w}, []int{0, 3, 4, 1, 5, 2}), nil
	case "CRD":
		return permute(x, []int{n, c, b, b, h, w}, []int{0, 1, 4, 2, 5, 3}), nil
	}
	return nil, nil
}

// prepareSpaceToDepth gathers blocks of pixels into channels.
func prepareSpaceToDepth(p *prep) (ops.Kernel, error) {
	x, b := p.in[0], int(p.node.Int("blocksize", 0))
	if len(x.shape) != 4 || b < 1 || x.shape[2]%b != 0 || x.shape[3]%b != 0 {
		return nil, nil
	}
	n, c, h, w := x.shape[0], x.shape[1], x.shape[2]/b, x.shape[3]/b
	if p.node.Str("mode", "DCR") == "CRD" {
		return permute(x, []int{n, c, h, b, w, b}, []int{0, 1, 3, 5, 2, 4}), nil
	}
	return permute(x, []int{n, c, h, b, w, b}, []int{0, 3, 5, 1, 2, 4}), nil
}

// permute is the kernel that permutes the dimensions of operand 0, seen under a
// shape; nil if too many loops are left.
func permute(x operand, shape, perm []int) ops.Kernel {
	dims, ss := make([]int, len(shape)), make([]int, len(shape))
	strides := ops.Strides(shape)
	for i, k := range perm {
		dims[i], ss[i] = shape[k], strides[k]
	}
	b, ok := newBox(x.dt.Size(), dims, ops.Strides(dims), ss, 0, 0)
	if !ok {
		return nil
	}
	last := len(b.dims) - 1
	if b.dense || last == 0 {
		k := &parts{}
		k.add(b, 0, 0)
		return k
	}
	return newTransposed(b)
}

// transposed moves a box whose dense dimensions differ.
type transposed struct {
	outer        box // loops around the matrix; its run is one matrix
	width        int
	rows, cols   int // dimension q and the last one
	dRow, sCol   int // stride of a row in the result, of a column in the source
	perTile, per int // rows in a tile, tiles in a matrix
}

const transposeBlock = 16

func newTransposed(b box) *transposed {
	last, q := len(b.dims)-1, 0
	for i, s := range b.ss {
		if s == 1 {
			q = i
		}
	}
	k := &transposed{width: b.width, rows: b.dims[q], cols: b.dims[last], dRow: b.ds[q], sCol: b.ss[last]}
	k.outer = box{width: b.width, dims: []int{}, ds: []int{}, ss: []int{}}
	for i := range b.dims {
		if i != q && i != last {
			k.outer.dims = append(k.outer.dims, b.dims[i])
			k.outer.ds = append(k.outer.ds, b.ds[i])
			k.outer.ss = append(k.outer.ss, b.ss[i])
		}
	}
	k.outer.dims = append(k.outer.dims, 1) // the run: one matrix
	k.outer.ds, k.outer.ss = append(k.outer.ds, 0), append(k.outer.ss, 0)
	want := max(1, tileBytes/b.width/k.cols)
	k.perTile = min(roundUp(want, transposeBlock), k.rows)
	k.per = ceilDiv(k.rows, k.perTile)
	return k
}

// Run transposes all matrices.
func (k *transposed) Run(c *ops.Call) error {
	runTiles(c, sizeOf(k.outer.dims)*k.per, k)
	return nil
}

func (k *transposed) tile(c *ops.Call, i, _ int) {
	var at place
	k.outer.seek(&at, i/k.per)
	r0 := i % k.per * k.perTile
	r1 := min(r0+k.perTile, k.rows)
	dst, src := arrayOf(c.Out[0]), arrayOf(c.In[0])
	switch k.width {
	case 1:
		transposeRows(k, dst.Data, src.Data, at.d, at.s, r0, r1)
	case 2:
		transposeRows(k, ndarray.Slice[uint16](dst), ndarray.Slice[uint16](src), at.d, at.s, r0, r1)
	case 4:
		transposeRows(k, ndarray.Slice[uint32](dst), ndarray.Slice[uint32](src), at.d, at.s, r0, r1)
	case 8:
		transposeRows(k, ndarray.Slice[uint64](dst), ndarray.Slice[uint64](src), at.d, at.s, r0, r1)
	default:
		transposeRows(k, ndarray.Slice[complex128](dst), ndarray.Slice[complex128](src), at.d, at.s, r0, r1)
	}
}

// transposeRows writes rows r0..r1 of the matrix at d, read at s, block by block.
func transposeRows[T any](k *transposed, dst, src []T, d, s, r0, r1 int) {
	for rb := r0; rb < r1; rb += transposeBlock {
		re := min(rb+transposeBlock, r1)
		for cb := 0; cb < k.cols; cb += transposeBlock {
			ce := min(cb+transposeBlock, k.cols)
			for r := rb; r < re; r++ {
				line := dst[d+r*k.dRow+cb : d+r*k.dRow+ce]
				at := s + cb*k.sCol + r
				for j := range line {
					line[j] = src[at]
					at += k.sCol
				}
			}
		}
	}
}
