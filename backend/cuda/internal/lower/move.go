package lower

import (
	"github.com/berth-onnx/berth/backend/cuda/internal/device"
	"github.com/berth-onnx/berth/internal/ops/kit"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// Movement of elements. What walks its operand with strides is a view; joined operands are placed in the result; any other movement that
// constants decide goes by a table, which the reference kernel makes from the numbers of the elements.

func init() {
	add("", copyBytes, "Identity", "Reshape", "Flatten", "Squeeze", "Unsqueeze", "BitCast")
	add("", dropout, "Dropout")
	add("", transpose, "Transpose")
	add("", expand, "Expand")
	add("", concat, "Concat")
	add("", split, "Split")
	add("", gather, "Gather")
}

// moves are the operators that programs may compute without a kernel: as windows, or as copies into their place.
var moves = map[string]bool{
	"Identity": true, "Reshape": true, "Flatten": true, "Squeeze": true, "Unsqueeze": true, "BitCast": true, "Dropout": true, "Transpose": true,
	"Expand": true, "Concat": true, "Split": true, "Gather": true, "Slice": true,
}

// copyView is one launch.
func (p *prep) copyView(start int, dims, strides []int, out int) bool {
	v, ok := viewOf(start, dims, strides)
	size := p.in[0].dt.Size()
	if !ok || !p.in[0].isMovable() {
		return false
	}
	p.launch(func(c *Call) (*device.Launch, error) { return p.host.Kernels().Copy(size, v, c.In[0], c.Out[out]) }, 0)
	return true
}

// copyBytes is for views that got memory of their own.
func copyBytes(p *prep) (bool, error) {
	if len(p.out) != 1 || !ops.TargetKnown(p.node) || p.in[0].bytes() != p.out[0].bytes() || !p.in[0].isMovable() {
		return false, nil
	}
	return p.copyView(0, []int{p.in[0].n}, []int{1}, 0), nil
}

// dropout passes its operand on.
func dropout(p *prep) (bool, error) {
	mode, err := p.array(2)
	if err != nil || p.has(2) && (mode == nil || mode.Len() != 1 || mode.Int(0) != 0) || p.wants(1) || p.in[0].dt != p.out[0].dt {
		return false, err
	}
	return p.copyView(0, []int{p.in[0].n}, []int{1}, 0), nil
}

func transpose(p *prep) (bool, error) {
	x := p.in[0]
	perm, err := kit.TransposePerm(p.node, len(x.shape))
	if err != nil {
		return false, nil
	}
	strides, out := ops.Strides(x.shape), make([]int, len(perm))
	for i, k := range perm {
		out[i] = strides[k]
	}
	v, ok := viewOf(0, p.out[0].shape, out)
	if ok && x.dt.Size() == 4 && v.Rank >= 2 && v.Rank <= 3 && v.Strides[v.Rank-1] > 1 && v.Strides[v.Rank-2] == 1 {
		rows, columns, batch := v.Dims[v.Rank-1], v.Dims[v.Rank-2], int32(1)
		if v.Rank == 3 {
			batch = v.Dims[0]
		}
		if (v.Rank == 2 || v.Strides[0] == rows*columns) && v.Strides[v.Rank-1] == columns {
			p.launch(func(c *Call) (*device.Launch, error) {
				return p.host.Kernels().Transpose(int64(batch), rows, columns, c.In[0], c.Out[0])
			}, 0)
			return true, nil
		}
	}
	return p.copyView(0, p.out[0].shape, out, 0), nil
}

func expand(p *prep) (bool, error) {
	if !ops.TargetKnown(p.node) {
		return false, nil
	}
	return p.copyView(0, p.out[0].shape, ops.BroadcastStrides(p.in[0].shape, p.out[0].shape), 0), nil
}

func concat(p *prep) (bool, error) {
	y := p.out[0]
	axis, ok := p.axis(len(y.shape))
	if !ok || !y.isMovable() {
		return false, nil
	}
	outer, dim, inner := around(y.shape, axis)
	start, size := 0, y.dt.Size()
	for i, x := range p.in {
		run := x.shape[axis] * inner
		if x.n == 0 {
			continue
		}
		v, _ := viewOf(start, []int{outer, run}, []int{dim * inner, 1})
		p.launch(func(c *Call) (*device.Launch, error) { return p.host.Kernels().Place(size, v, c.In[i], c.Out[0]) }, i)
		start += run
	}
	return true, nil
}

func split(p *prep) (bool, error) {
	x := p.in[0]
	axis, ok := p.axis(len(x.shape))
	if !ok || !x.isMovable() {
		return false, nil
	}
	outer, dim, inner := around(x.shape, axis)
	lengths, given := p.ints(1)
	start := 0
	for i := range p.out {
		each := (dim + len(p.out) - 1) / len(p.out)
		n := min(each, dim-start/inner)
		if given && i < len(lengths) {
			n = int(lengths[i])
		} else if p.has(1) {
			return false, nil
		}
		if p.wants(i) {
			p.copyView(start, []int{outer, n * inner}, []int{dim * inner, 1}, i)
		}
		start += n * inner
	}
	return true, nil
}

func gather(p *prep) (bool, error) {
	x, index := p.in[0], p.in[1]
	axis, ok := p.axis(len(x.shape))
	isWide := index.dt == ndarray.Int64
	if !ok || !x.isMovable() || x.n == 0 || !isWide && index.dt != ndarray.Int32 {
		return false, nil
	}
	outer, dim, inner := around(x.shape, axis)
	size := x.dt.Size()
	p.outside = func(index int64) error {
		_, err := ops.WrapIndex(index, dim)
		return err
	}
	p.launch(func(c *Call) (*device.Launch, error) {
		return p.host.Kernels().Gather(size, isWide, int64(outer), int32(dim), int32(index.n), int32(inner), c.In[0], c.In[1], c.Out[0], c.Status, c.Launch)
	}, 0, 1)
	return true, nil
}

// tabled are the operators that move elements of operand 0 as their other operands, constants, say.
var tabled = map[string]bool{
	"Slice": true, "Tile": true, "Pad": true, "DepthToSpace": true, "SpaceToDepth": true, "ReverseSequence": true, "CenterCropPad": true,
	"Trilu": true, "GatherElements": true, "GatherND": true, "Compress": true, "Resize": true, "Upsample": true,
}

// byTable runs the reference kernel once, on the numbers of the elements from 1 on: 0 in its result is no element.
func byTable(p *prep) (bool, error) {
	n, x, y := p.node, p.in[0], p.out[0]
	if n.Domain != "" || !tabled[n.Op] || len(p.out) != 1 || !x.isMovable() || x.dt != y.dt || x.n == 0 ||
		n.Op == "Resize" && (ops.Str(n, "mode") != "nearest" || ops.Str(n, "coordinate_transformation_mode") == "tf_crop_and_resize") {
		return false, nil
	}
	numbers, err := ndarray.NewContext(p.ctx, ndarray.BudgetOf(p.ctx), ndarray.Int32, x.shape...)
	if err != nil {
		return false, err
	}
	for i, v := 0, ndarray.Slice[int32](numbers); i < len(v); i++ {
		v[i] = int32(i + 1)
	}
	fill, in := uint64(0), []ndarray.Value{numbers}
	for i := 1; i < len(p.in); i++ {
		a, err := p.array(i)
		if list, ok := p.ints(i); ok && a == nil && p.in[i].dt == ndarray.Int64 && len(list) == p.in[i].n { // known, but no constant
			a = ndarray.Of(list, p.in[i].shape...)
		}
		if err != nil || p.has(i) && a == nil {
			return false, err
		}
		switch {
		case a == nil:
			in = append(in, nil)
		case n.Op == "Pad" && i == 2:
			if a.Len() != 1 {
				return false, nil
			}
			for k, b := range a.Data {
				fill |= uint64(b) << (8 * k)
			}
			in = append(in, nil)
		default:
			in = append(in, a)
		}
	}
	return p.take(in, fill)
}

// take makes the table and the launch.
func (p *prep) take(in []ndarray.Value, fill uint64) (bool, error) {
	n, y := p.numbered(in), p.out[0]
	c := ops.Call{Ctx: p.ctx, Node: n, In: in, Out: []ndarray.Value{nil}, Threads: 1, Memory: ndarray.BudgetOf(p.ctx)}
	if err := ops.Eval(&c); err != nil {
		return false, p.ctx.Err() // the host says so when it runs
	}
	table, ok := c.Out[0].(*ndarray.Array)
	if !ok || table.Len() != y.n {
		return false, nil
	}
	for i, v := 0, ndarray.Slice[int32](table); i < len(v); i++ {
		v[i]--
	}
	where, err := p.host.Weight(p.ctx, ssa.NewConstant(table))
	if err != nil {
		return false, err
	}
	size, count := y.dt.Size(), int64(y.n)
	p.launch(func(c *Call) (*device.Launch, error) {
		return p.host.Kernels().Take(size, count, fill, c.In[0], where, c.Out[0])
	}, 0)
	return true, nil
}

// numbered is the node over numbers in the place of elements.
func (p *prep) numbered(in []ndarray.Value) *ssa.Node {
	g := ssa.NewGraph("table")
	args := make([]*ssa.Value, len(in))
	for i, v := range in {
		if a, ok := v.(*ndarray.Array); ok {
			args[i] = g.AddConst("", ssa.NewConstant(a))
		}
	}
	args[0] = g.AddParam("numbers", ssa.StaticTensor(ndarray.Int32, p.in[0].shape...))
	n := g.NewNode(p.node.Op, args, 1, p.node.Attrs...)
	n.Domain, n.Overload = p.node.Domain, p.node.Overload
	n.Out[0].Type = ssa.StaticTensor(ndarray.Int32, p.out[0].shape...)
	return n
}
