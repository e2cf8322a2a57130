package cpu

import (
	"errors"

	"github.com/berth-onnx/berth/internal/cpu/chain"
	"github.com/berth-onnx/berth/internal/cpu/kern/vec"
	"github.com/berth-onnx/berth/internal/tile"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
)

// frame is the state of a worker that runs a group: a call for each step, and the arrays that
// the calls read and write, of both variants.
type frame struct {
	of     *fusedGroup
	arrays [2][]ndarray.Array
	calls  [2][]ops.Call
}

// take returns a frame for the workspace of a worker.
func (g *fusedGroup) take(c *ops.Call, worker int) *frame {
	f := g.frames.Get()
	if f.of == nil {
		f.of = g
		for i, v := range g.variants {
			if v != nil {
				f.arrays[i], f.calls[i] = v.frame()
			}
		}
	}
	scratch := c.Scratch[g.ws+worker*g.perWork:][:g.perWork]
	for i, v := range g.variants {
		if v != nil {
			v.enter(f.arrays[i], f.calls[i], scratch, c)
		}
	}
	return f
}

// frame makes the arrays and calls of a variant.
func (v *variant) frame() ([]ndarray.Array, []ops.Call) {
	arrays := make([]ndarray.Array, len(v.sources))
	for i := range v.sources {
		s := &v.sources[i]
		arrays[i] = ndarray.Array{DType: s.dt, Shape: s.shape}
		if s.number != nil {
			arrays[i].Data = s.number.Data
		}
	}
	calls := make([]ops.Call, len(v.steps))
	for i := range v.steps {
		s := &v.steps[i]
		if s.binary != nil {
			continue // called without a call of its own
		}
		calls[i] = ops.Call{Node: s.node, In: make([]ndarray.Value, len(s.args), len(s.args)+1), Out: []ndarray.Value{&arrays[s.out]}, Threads: 1}
		for k, a := range s.args {
			if a >= 0 {
				calls[i].In[k] = &arrays[a]
			}
		}
		if s.axes != nil {
			calls[i].In = append(calls[i].In, s.axes)
		}
	}
	return arrays, calls
}

// enter points registers into the workspace of a worker.
func (v *variant) enter(arrays []ndarray.Array, calls []ops.Call, scratch []byte, c *ops.Call) {
	for i := range v.sources {
		if s := &v.sources[i]; s.kind == inRegister || s.kind == inCopy || s.kind == inStage {
			n := s.elems * s.dt.Size()
			arrays[i].Data = scratch[s.at : s.at+n : s.at+n]
		}
	}
	for i := range calls {
		calls[i].Ctx, calls[i].Scratch, calls[i].Memory = c.Ctx, scratch[v.scratchAt:], c.Memory
	}
}

// leave lets go of the memory of a run.
func (g *fusedGroup) leave(f *frame) {
	for i, v := range g.variants {
		if v == nil {
			continue
		}
		for k := range v.sources {
			if v.sources[k].kind != inNumber {
				f.arrays[i][k].Data = nil
			}
		}
		for k := range f.calls[i] {
			f.calls[i][k].Ctx, f.calls[i][k].Scratch = nil, nil
		}
	}
	g.frames.Put(f)
}

// tile runs the program on the blocks of a task.
func (g *fusedGroup) tile(c *ops.Call, task, worker int) {
	f := g.take(c, worker)
	defer g.leave(f)
	for i := task * g.per; i < min((task+1)*g.per, g.total); i++ {
		matrix, block := i/g.blocks, i%g.blocks
		k := 0
		if block == g.blocks-1 && g.variants[1] != nil {
			k = 1
		}
		v := g.variants[k]
		v.point(c, f.arrays[k], matrix, block*g.step)
		for _, s := range v.copies {
			v.move(c, s, f.arrays[k], matrix, block*g.step)
		}
		for s := range v.steps {
			v.steps[s].run(&f.calls[k][s], f.arrays[k])
		}
		for _, s := range v.staged {
			if s >= 0 {
				v.move(c, s, f.arrays[k], matrix, block*g.step)
			}
		}
	}
}

// elementAt is the element of an operand at a row or column of a matrix.
func (g *fusedGroup) elementAt(o, matrix, first int) int {
	strides := g.loops.Strides[o]
	at := g.bases[o]
	for d := len(g.dims) - 1; d >= 0; d-- {
		at += matrix % g.dims[d] * strides[d]
		matrix /= g.dims[d]
	}
	if k := len(g.dims); k < len(strides) {
		// Behind the outer loops is the one that blocks are cut from, if it is not 1.
		if k == len(strides)-1 && g.byRow {
			return at // one row
		}
		at += first * strides[k]
	}
	return at
}

// point points operands and results at a block.
func (v *variant) point(c *ops.Call, arrays []ndarray.Array, matrix, first int) {
	for _, i := range v.moving {
		s := &v.sources[i]
		var data []byte
		at := 0
		if s.kind == inOperand {
			data, at = arrayOf(c.In[s.index]).Data, v.g.elementAt(s.of, matrix, first)
		} else {
			data, at = arrayOf(c.Out[s.index]).Data, v.g.resultAt(s.index, s.spread == vec.Col, matrix, first)
		}
		size := s.dt.Size()
		arrays[i].Data = data[at*size : (at+s.elems)*size : (at+s.elems)*size]
	}
}

// resultAt is the element of a full or row result at a row or column of a matrix.
func (g *fusedGroup) resultAt(result int, isRow bool, matrix, first int) int {
	switch {
	case g.placed[result] > 0:
		return g.elementAt(g.placed[result], matrix, first)
	case isRow:
		return matrix*g.rows + first
	case g.byRow:
		return (matrix*g.rows + first) * g.cols
	}
	return matrix*g.cols + first
}

// move copies an operand into the form of a source, or a staged result into its window.
func (v *variant) move(c *ops.Call, i int, arrays []ndarray.Array, matrix, first int) {
	s := &v.sources[i]
	var err error
	if s.kind == inCopy {
		err = s.moved.box(nil, &arrays[i], 0, arrayOf(c.In[s.of]), v.g.elementAt(s.of, matrix, first), 1)
	} else {
		err = s.moved.box(nil, arrayOf(c.Out[s.index]), v.g.resultAt(s.index, false, matrix, first), &arrays[i], 0, 1)
	}
	if err != nil {
		panic(err)
	}
}

// run computes one value of a block. Kernels of a block's instructions do not fail, unless the call is to end or a function of the
// user's panics: package fuse takes none that refuse elements.
func (s *groupStep) run(c *ops.Call, arrays []ndarray.Array) {
	switch {
	case s.rows != nil:
		s.rows.f(c, 0, s.rows.n)
	case s.binary != nil:
		dst, a, b := floatsOf(&arrays[s.out]), floatsOf(&arrays[s.args[0]]), floatsOf(&arrays[s.args[1]])
		switch {
		case s.ka == vec.Full && s.kb == vec.Full:
			vec.Binary(s.binary.op, dst, a, b)
		case s.ka == vec.Full && s.kb == vec.One:
			vec.BinaryScalar(s.binary.op, dst, a, b[0])
		default:
			vec.BinaryRows(s.binary.op, dst, a, s.ka, b, s.kb, s.rn, s.cn)
		}
	default:
		if err := s.kernel.Run(c); err != nil && !c.Ended() {
			fail(err)
		}
	}
}

// fail panics with an error, or the panic that it was, which says whose it is.
func fail(err error) {
	var of *ops.PanicError
	if errors.As(err, &of) {
		panic(of)
	}
	panic(err)
}

func floatsOf(a *ndarray.Array) []float32 { return ndarray.Slice[float32](a) }

// chains finds chains ([chain.Chain]): in groups that are one, whose blocks are so many times as long, and from instruction i of a variant on, of which it says how many the chain computes. Nil
// where the program has none: the linker leaves out what only chains need.
var chains struct {
	longer func(g *fusedGroup) int
	at     func(v *variant, i int) (n int)
}

// LinkChains makes groups that are prepared from now on compute chains in registers. It is called while a program starts.
func LinkChains() {
	chains.longer = (*fusedGroup).longer
	chains.at = (*variant).chain
}

// longer is how many times as long the blocks of the group are.
func (g *fusedGroup) longer() int {
	elems := sizeOf(g.loops.Shape)
	switch {
	case !chain.IsOne(g.p, g.loops, g.cols):
		return 1
	case 4*elems < chain.FarBytes:
		return chainBlocks
	case g.threads == 1:
		return mostFar
	}
	return min(max(leastFar, elems/(farPerThread*g.threads*blockElems)), mostFar)
}

// chain makes a step of the longest chain that begins with instruction i; n is 0 where none pays.
func (v *variant) chain(i int) (n int) {
	c, n := chain.Make(&chain.Block{Program: v.g.p, Rows: v.rows, Cols: v.cols, Last: v.g.last, Sources: v.values,
		Spread:    func(s int) vec.Spread { return v.sources[s].spread },
		Number:    v.number,
		Result:    v.result,
		IsInPlace: func(s int) bool { return v.sources[s].kind == inResult },
		Bytes:     4 * sizeOf(v.g.loops.Shape)}, i)
	if n > 0 {
		v.steps, v.instrs = append(v.steps, groupStep{args: c.Args, out: c.Args[0], kernel: c}), append(v.instrs, &tile.Instr{})
	}
	return n
}
