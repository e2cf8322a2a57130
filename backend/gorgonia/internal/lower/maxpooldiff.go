package lower

import (
	"fmt"

	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// MaxPoolDiff is the gradient of MaxPool by its operand: each adjoint is added where the
// maximum of its window is, the first one of several.
//
//	x [1 5 2 4]   windows of 2: [5 4]   dy [a b]   dx [0 a 0 b]
//
// In standard ONNX this is a ScatterElements with the positions that MaxPool gives, which
// take twice the memory of float32 values; the maxima are looked for again instead.
// Operands: x [N C H W], dy [N C m n].
var MaxPoolDiff = ops.Op{
	Domain: stockDomain, Name: "MaxPoolDiff", Since: 1, Doc: "dx[argmax of window i] += dy[i]",
	MinIn: 2, MaxIn: 2, MinOut: 1, MaxOut: 1,
	Attrs: []ops.AttrSpec{ops.IntsAttr("kernel_shape").Mandatory(), ops.IntsAttr("strides").Mandatory(), ops.IntsAttr("pads").Mandatory()},
	Infer: ops.SameAs,
	Eval:  evalMaxPoolDiff,
	Facts: ops.Facts{Traits: ops.GeneralTraits},
}

func init() { ops.Register(&MaxPoolDiff) }

func evalMaxPoolDiff(c *ops.Call) error {
	x, dy := c.Array(0), c.Array(1)
	if len(x.Shape) != 4 || len(dy.Shape) != 4 {
		return fmt.Errorf("x and dy must have 4 dimensions, got %v and %v", x.Shape, dy.Shape)
	}
	dx, err := c.Output(0, x.DType, x.Shape...)
	if err != nil {
		return err
	}
	switch x.DType {
	case ndarray.Float32:
		return maxPoolDiffOf[float32](c.Node, x, dy, dx)
	case ndarray.Float64:
		return maxPoolDiffOf[float64](c.Node, x, dy, dx)
	}
	return fmt.Errorf("elements of type %s: %w", x.DType, ops.ErrUnsupported)
}

func maxPoolDiffOf[T float32 | float64](n *ssa.Node, x, dy, dx *ndarray.Array) error {
	k, s, p := ops.Ints(n, "kernel_shape"), ops.Ints(n, "strides"), ops.Ints(n, "pads")
	in, out := x.Shape[2]*x.Shape[3], dy.Shape[2]*dy.Shape[3]
	from, to, d := ndarray.Slice[T](x), ndarray.Slice[T](dx), ndarray.Slice[T](dy)
	clear(to)
	for plane := range x.Shape[0] * x.Shape[1] {
		image, sums := from[plane*in:(plane+1)*in], to[plane*in:(plane+1)*in]
		for i := range out {
			row, col := int64(i/dy.Shape[3])*s[0]-p[0], int64(i%dy.Shape[3])*s[1]-p[1]
			if at := maximum(image, x.Shape[2], x.Shape[3], row, col, k); at >= 0 {
				sums[at] += d[plane*out+i]
			}
		}
	}
	return nil
}

// maximum is where the largest element of a window lies; -1 if none of it lies in the image.
func maximum[T float32 | float64](image []T, height, width int, row, col int64, kernel []int64) int {
	at := -1
	for r := max(row, 0); r < min(row+kernel[0], int64(height)); r++ {
		for c := max(col, 0); c < min(col+kernel[1], int64(width)); c++ {
			if i := int(r)*width + int(c); at < 0 || image[i] > image[at] {
				at = i
			}
		}
	}
	return at
}
