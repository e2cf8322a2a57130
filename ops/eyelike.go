package ops

import (
	"fmt"

	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ssa"
)

// EyeLike makes a matrix with ones on a diagonal, of the shape of its operand:
// https://onnx.ai/onnx/operators/onnx__EyeLike.html
var EyeLike = Op{
	Name: "EyeLike", Since: 22, Doc: "Y[i,j] = j == i + k ? 1 : 0", Form: eyeLikeForm,
	MinIn: 1, MaxIn: 1, MinOut: 1, MaxOut: 1,
	Attrs: []AttrSpec{{Name: "dtype", Kind: ssa.AttrInt}, {Name: "k", Kind: ssa.AttrInt}},
	Infer: inferEyeLike, Eval: evalEyeLike,
}

func eyeLikeForm(n *ssa.Node) int {
	if usesType(n, ndarray.BFloat16) {
		return 22
	}
	return 9
}

func inferEyeLike(n *ssa.Node) ([]Inferred, error) {
	t := InType(n, 0)
	if t.Ranked && len(t.Shape) != 2 {
		return nil, fmt.Errorf("operand of rank %d, it must be a matrix", len(t.Shape))
	}
	dt, err := dtypeAttr(n, "dtype", t.DType)
	if err != nil {
		return nil, err
	}
	t.Kind, t.DType = ssa.KindTensor, dt
	if !t.Ranked {
		t = tensorOfRank(dt, 2)
	}
	return One(t), nil
}

func evalEyeLike(c *Call) error {
	a, err := needTensor(c, 0)
	if err != nil {
		return err
	}
	if len(a.Shape) != 2 {
		return fmt.Errorf("operand of rank %d, it must be a matrix", len(a.Shape))
	}
	dt, err := dtypeAttr(c.Node, "dtype", a.DType)
	if err != nil {
		return err
	}
	if dt == ndarray.String {
		return unsupportedType(dt)
	}
	out, err := c.Output(0, dt, a.Shape...)
	if err != nil {
		return err
	}
	clear(out.Data)
	rows, cols := a.Shape[0], a.Shape[1]
	k := c.Node.Int("k", 0)
	if k <= -int64(rows) || k >= int64(cols) {
		return nil
	}
	for i := range rows {
		if j := i + int(k); j >= 0 && j < cols {
			out.SetInt(i*cols+j, 1)
		}
	}
	return nil
}
