package lower

import (
	"encoding/binary"

	"github.com/berth-onnx/berth/backend/cuda/internal/device"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// Functions of elements of one or two bytes, of types without arithmetic on the device: the reference kernel computes them once for all
// 256 or 65,536 elements that there are, and what comes out is a table.

// looked are the operators that compute each element of the result from one of operand 0, by domain. Other operands are constants, but for
// one whose type alone is read.
var looked = map[[2]string]bool{{"", "Cast"}: true, {"", "CastLike"}: true, {microsoft, "QLinearSigmoid"}: true, {microsoft, "QLinearLeakyRelu"}: true}

func byLooking(p *prep) (bool, error) {
	x, y := p.in[0], p.out[0]
	if !looked[[2]string{p.node.Domain, p.node.Op}] || len(p.out) != 1 || x.dt.Size() > 2 || x.dt == ndarray.Bool || !y.isMovable() {
		return false, nil
	}
	all, err := everyElement(x.dt)
	if err != nil {
		return false, err
	}
	g := ssa.NewGraph("table")
	in := []*ssa.Value{g.AddParam("every", ssa.StaticTensor(x.dt, all.Len()))}
	values := []ndarray.Value{all}
	for i := 1; i < len(p.in); i++ {
		if !p.has(i) {
			in, values = append(in, nil), append(values, nil)
			continue
		}
		a, err := p.array(i)
		if err != nil {
			return false, err
		}
		if a == nil && p.node.Op == "CastLike" {
			a = ndarray.Must(p.in[1].dt, 1)
		}
		if a == nil {
			return false, nil
		}
		in, values = append(in, g.AddConst("", ssa.NewConstant(a))), append(values, a)
	}
	n := g.NewNode(p.node.Op, in, 1, p.node.Attrs...)
	n.Domain = p.node.Domain
	n.Out[0].Type = ssa.StaticTensor(y.dt, all.Len())
	c := ops.Call{Ctx: p.ctx, Node: n, In: values, Out: []ndarray.Value{nil}, Threads: 1, Memory: ndarray.BudgetOf(p.ctx)}
	if err := ops.Eval(&c); err != nil {
		return false, p.ctx.Err() // some bits are no element: the host looks at those that there are
	}
	table, ok := c.Out[0].(*ndarray.Array)
	if !ok || table.DType != y.dt || table.Len() != all.Len() {
		return false, nil
	}
	where, err := p.host.Weight(p.ctx, ssa.NewConstant(table))
	if err != nil {
		return false, err
	}
	from, to, count := x.dt.Size(), y.dt.Size(), int64(y.n)
	p.choice = "by a table"
	p.launch(func(c *Call) (*device.Launch, error) {
		return p.host.Kernels().Look(from, to, count, c.In[0], where, c.Out[0])
	}, 0)
	return true, nil
}

// everyElement has all elements of a type of one or two bytes, in the order of their bits.
func everyElement(dt ndarray.DType) (*ndarray.Array, error) {
	a, err := ndarray.New(dt, 1<<(8*dt.Size()))
	if err != nil {
		return nil, err
	}
	for i := range a.Len() {
		if dt.Size() == 1 {
			a.Data[i] = byte(i)
		} else {
			binary.LittleEndian.PutUint16(a.Data[2*i:], uint16(i))
		}
	}
	return a, nil
}
