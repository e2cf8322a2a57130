package rewrite

import (
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// Tables multiplies a table of vectors by the weights that the rows picked from it meet, once, so that a run picks
// rows of the product. The first product of a recurrent cell whose input is an embedding goes:
//
//	E ─▶ Gather ─▶ Gemm W, b        E·W + b ─▶ Gather
//	i ─────▲                   ─▶          i ─────▲
//
// The product is computed by the kernel of the program ([Options.Compute]), since reference kernels would take longer than
// loading the model. It is kept where it takes at most twice the memory of table and weights, and tableBytes.
var Tables = &Pass{
	Name: "tables", Doc: "Gather of a constant, then a product with constants -> Gather of their product",
	rules: []rule{{"rows of a constant times constants -> rows of the product", named("Gemm", "MatMul"), multiplyTable}},
}

const tableBytes = 4 << 20

func multiplyTable(c *Context, n *ssa.Node) bool {
	rows := def(n.In[0], "Gather")
	if c.opts.Compute == nil || rows == nil || !c.only(n.In[0], n) || !ofTable(n, rows) {
		return false
	}
	k := c.tableProduct(n, rows.In[0])
	if k == nil {
		return false
	}
	in := []*ssa.Value{c.constant(n.Out[0].Name+"_table", k), rows.In[1]}
	return c.become(n, "Gather", in, ssa.IntAttr("axis", 0))
}

// ofTable reports that n multiplies rows of a constant matrix by a constant one, and adds the same to each row.
func ofTable(n, rows *ssa.Node) bool {
	table, w, bias := rows.In[0], n.In[1], n.Input(2)
	if ops.Int(rows, "axis") != 0 && ops.Int(rows, "axis") != -2 || is(n, "Gemm") && ops.Int(n, "transA") != 0 {
		return false
	}
	for _, v := range []*ssa.Value{table, w} {
		if v.Const == nil || v.Type.DType != ndarray.Float32 || len(v.Const.Shape()) != 2 {
			return false
		}
	}
	if bias == nil {
		return true
	}
	if bias.Const == nil {
		return false
	}
	shape := bias.Const.Shape()
	return len(shape) < 2 || shape[0] == 1
}

// tableProduct computes n of the whole table; nil where that is not possible within the limits.
func (c *Context) tableProduct(n *ssa.Node, table *ssa.Value) *ssa.Constant {
	g := ssa.NewGraph("table")
	operands := append([]*ssa.Value{table}, n.In[1:]...)
	in := make([]*ssa.Value, len(operands))
	before := int64(0)
	for i, v := range operands {
		if v != nil {
			in[i] = g.AddParam(v.Name, v.Type)
			before += v.Const.StoredBytes()
		}
	}
	m := g.NewNode(n.Op, in, 1, n.Attrs...)
	if ops.Infer(m) != nil {
		return nil
	}
	shape, ok := m.Out[0].Type.Static()
	size, _ := m.Out[0].Type.ByteSize()
	if !ok || int64(size) > min(2*before, tableBytes) || ops.CostOf(m).FLOPs > c.opts.Growth.Ops {
		return nil
	}
	call := &ops.Call{Ctx: c.ctx, Node: m, Threads: 1, Memory: ndarray.BudgetOf(c.ctx), In: make([]ndarray.Value, len(in)), Out: make([]ndarray.Value, 1)}
	for i, v := range operands {
		if v == nil {
			continue
		}
		a, err := c.elements(v.Const)
		if err != nil {
			return nil
		}
		call.In[i] = a
	}
	y, err := c.array(ndarray.Float32, shape...)
	if err != nil {
		return nil
	}
	call.Out[0] = y
	if err := c.opts.Compute(call); err != nil || !c.fits(int64(size)-before) {
		c.failIfFull(err)
		return nil
	}
	return packed(call.Out[0].(*ndarray.Array))
}
