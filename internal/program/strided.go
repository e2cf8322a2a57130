package program

import (
	"context"
	"fmt"
	"slices"

	"github.com/berth-onnx/berth/internal/sysmem"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// Strided windows of kept caches (see cache.go). Decoders compute with a cache
//
//	scores  = MatMul(query, Transpose(keys))     [N,H,S,D] × [N,H,D,P]
//	context = MatMul(weights, values)            [N,H,S,P] × [N,H,P,D]
//
// Each slice of a window is an ordinary matrix, so such products run slice by slice,
// and a transposition of the last two axes is a flag of the window. Shape and Size read
// the shape. All other readers get a copy, which counts as moved.

// strided is the first rows of a cache. The array has type and shape, but no
// elements.
type strided struct {
	*ndarray.Array
	of         *Cache
	data       []byte
	transposed bool // the last two axes are exchanged
}

func (v *strided) rows() int {
	if v.transposed {
		return v.Shape[len(v.Shape)-1]
	}
	return v.Shape[v.of.Axis]
}

// slice is slice i, with contiguous rows.
func (v *strided) slice(i int) []byte {
	row := v.of.rowBytes()
	at := i * int(v.of.Bound) * row
	return v.data[at : at+v.rows()*row : at+v.rows()*row]
}

// lookSlices is how many slices of a cache, or rows of one, are copied between two looks at the context of a run.
const lookSlices = 64

// copySlice copies slice i of a cache.
func (s *Session) copySlice(dst, src []byte, i int) error {
	if i%lookSlices == 0 && s.ctx != nil && s.ctx.Err() != nil {
		return s.ctx.Err()
	}
	return sysmem.Copy(s.ctx, dst, src)
}

// transposeInto writes a matrix of some rows, transposed.
func (s *Session) transposeInto(dst, src []byte, rows, size int) error {
	cols := len(src) / max(1, rows*size)
	for r := range rows {
		if r%lookSlices == 0 && s.ctx != nil && s.ctx.Err() != nil {
			return s.ctx.Err()
		}
		for c := range cols {
			copy(dst[(c*rows+r)*size:][:size], src[(r*cols+c)*size:])
		}
	}
	return nil
}

// contiguous returns the array in a slot, a copy of a strided one.
func (s *Session) contiguous(slot int) (*ndarray.Array, error) {
	if slot >= 0 {
		switch v := s.vals[slot].(type) {
		case *ndarray.Array:
			return v, nil
		case *strided:
			a, err := s.whole(v)
			if err == nil {
				s.vals[slot] = a
				s.moved += int64(len(a.Data))
			}
			return a, err
		}
	}
	return nil, fmt.Errorf("an operand is no tensor")
}

// whole is a copy of a strided array in one piece.
func (s *Session) whole(v *strided) (*ndarray.Array, error) {
	slice, n := v.rows()*v.of.rowBytes(), v.of.slices()
	data, err := newBytes("a cache in one piece", n*slice, s.p.memory)
	for i := 0; i < n && err == nil; i++ {
		if dst := data[i*slice : (i+1)*slice]; v.transposed {
			err = s.transposeInto(dst, v.slice(i), v.rows(), v.DType.Size())
		} else {
			err = s.copySlice(dst, v.slice(i), i)
		}
	}
	if err != nil {
		return nil, err
	}
	return &ndarray.Array{DType: v.DType, Shape: slices.Clone(v.Shape), Data: data}, nil
}

func (s *Session) isStrided(slot int) bool {
	if slot < 0 {
		return false
	}
	_, is := s.vals[slot].(*strided)
	return is
}

// onStrided runs an instruction with strided operands if it can take them; else it makes
// the operands contiguous.
func (s *Session) onStrided(in *Instr) (done bool, err error) {
	if !slices.ContainsFunc(in.In, s.isStrided) {
		return false, nil
	}
	if in.Kind == Exec && in.Node.Domain == "" {
		if done, err := s.readStrided(in); done || err != nil {
			return done, err
		}
	}
	for _, slot := range in.In {
		if s.isStrided(slot) {
			if _, err := s.contiguous(slot); err != nil {
				return false, err
			}
		}
	}
	return false, nil
}

// readStrided runs instructions that can read a window without a copy.
func (s *Session) readStrided(in *Instr) (done bool, err error) {
	if o := ops.Of(in.Node); o != nil && o.Facts.Access == ops.Measures {
		of := s.vals[in.In[0]].(*strided).Array
		c := &ops.Call{Ctx: s.ctx, Node: in.Node, In: []ndarray.Value{of}, Out: []ndarray.Value{nil}, Threads: 1, Memory: s.p.memory}
		if err := ops.Eval(c); err != nil {
			return false, err
		}
		return true, s.store(in.Out[0], c.Out[0].(*ndarray.Array))
	}
	switch in.Node.Op {
	case "Identity":
		s.vals[in.Out[0]] = s.vals[in.In[0]]
		return true, nil
	case "Transpose":
		return s.transpose(in), nil
	case "MatMul":
		return s.multiply(in)
	}
	return false, nil
}

// transpose exchanges the last two axes of a cache along the last but one.
func (s *Session) transpose(in *Instr) bool {
	v := s.vals[in.In[0]].(*strided)
	r := len(v.Shape)
	perm := ops.Ints(in.Node, "perm")
	if v.transposed || v.of.Axis != r-2 || len(perm) != r || s.p.Slots[in.Out[0]].Static {
		return false
	}
	for i, p := range perm {
		if i >= r-2 {
			i = 2*r - 3 - i
		}
		if int(p) != i {
			return false
		}
	}
	a := &ndarray.Array{DType: v.DType, Shape: slices.Clone(v.Shape)}
	a.Shape[r-2], a.Shape[r-1] = a.Shape[r-1], a.Shape[r-2]
	s.vals[in.Out[0]] = &strided{Array: a, of: v.of, data: v.data, transposed: true}
	return true
}

// products are the kernels that multiply one slice at a time.
type products struct{ plain, transposed ops.Kernel }

func newProducts(ctx context.Context, k *kernels) *products {
	node := func(transposed int64) *ssa.Node {
		g := ssa.NewGraph("product")
		t := ssa.UnrankedTensor(ndarray.Float32)
		return g.NewNode("Gemm", []*ssa.Value{g.AddParam("a", t), g.AddParam("b", t)}, 1, ssa.IntAttr("transB", transposed))
	}
	return &products{newDynamicKernel(ctx, node(0), k), newDynamicKernel(ctx, node(1), k)}
}

// multiply runs a product whose second factor is a cache along the last but one
// axis, the first an array with the same slices.
func (s *Session) multiply(in *Instr) (done bool, err error) {
	b, ok := s.vals[in.In[1]].(*strided)
	if !ok {
		return false, nil
	}
	a, ok := s.vals[in.In[0]].(*ndarray.Array)
	r := len(b.Shape)
	if !ok || b.of.Axis != r-2 || len(a.Shape) != r || a.DType != ndarray.Float32 || b.DType != a.DType ||
		!slices.Equal(a.Shape[:r-2], b.Shape[:r-2]) || a.Shape[r-1] != b.Shape[r-2] {
		return false, nil
	}
	out, err := s.productOf(in.Out[0], a, b)
	if err != nil {
		return false, err
	}
	if err := s.multiplySlices(out, a, b); err != nil {
		return false, err
	}
	s.vals[in.Out[0]] = out
	return true, nil
}

// productOf is the array that takes a product.
func (s *Session) productOf(slot int, a *ndarray.Array, b *strided) (*ndarray.Array, error) {
	if s.p.Slots[slot].Static {
		return s.vals[slot].(*ndarray.Array), nil
	}
	r := len(a.Shape)
	shape := append(slices.Clone(a.Shape[:r-1]), b.Shape[r-1])
	size, err := ndarray.NumElems(append(slices.Clone(shape), a.DType.Size()))
	if err != nil {
		return nil, err
	}
	data, err := newBytes("a product", size, s.p.memory)
	if err != nil {
		return nil, err
	}
	return &ndarray.Array{DType: a.DType, Shape: shape, Data: data}, nil
}

// multiplySlices multiplies slice by slice; a transposed window is the transposed factor
// of the product.
func (s *Session) multiplySlices(out, a *ndarray.Array, b *strided) error {
	r := len(a.Shape)
	m, k, n := a.Shape[r-2], a.Shape[r-1], b.Shape[r-1]
	kernel, rows, cols := s.p.products.plain, k, n
	if b.transposed {
		kernel, rows, cols = s.p.products.transposed, n, k
	}
	x := &ndarray.Array{DType: a.DType, Shape: []int{m, k}}
	y := &ndarray.Array{DType: a.DType, Shape: []int{rows, cols}}
	z := &ndarray.Array{DType: a.DType, Shape: []int{m, n}}
	c := &ops.Call{Ctx: s.ctx, Node: kernel.(*dynamicKernel).node, Threads: s.p.threads, Memory: s.p.memory,
		In: []ndarray.Value{x, y}, Out: []ndarray.Value{z}}
	nx, nz := m*k*a.DType.Size(), m*n*a.DType.Size()
	for i := range b.of.slices() {
		x.Data, y.Data, z.Data = a.Data[i*nx:(i+1)*nx], b.slice(i), out.Data[i*nz:(i+1)*nz]
		if err := kernel.Run(c); err != nil {
			return err
		}
	}
	return nil
}
