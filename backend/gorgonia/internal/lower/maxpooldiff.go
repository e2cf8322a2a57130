package lower

import (
	"fmt"

	"github.com/berth-onnx/berth/internal/cpu/kern/machine"
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
	Attrs: []*ops.AttrSpec{ops.IntsAttr("kernel_shape").Mandatory(), ops.IntsAttr("strides").Mandatory(), ops.IntsAttr("pads").Mandatory()},
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
	if x.DType != ndarray.Float32 && x.DType != ndarray.Float64 {
		return fmt.Errorf("elements of type %s: %w", x.DType, ops.ErrUnsupported)
	}
	p := poolings.Get()
	defer poolings.Release(p)
	p.x, p.dy, p.dx = x, dy, dx
	p.kernel, p.strides, p.pads = pairOf(c.Node, "kernel_shape"), pairOf(c.Node, "strides"), pairOf(c.Node, "pads")
	planes := x.Shape[0] * x.Shape[1]
	p.perTask = max(planeElems/max(x.Shape[2]*x.Shape[3], 1), 1)
	machine.Parallel((planes+p.perTask-1)/p.perTask, c.Threads, p)
	return nil
}

// planeElems is how many elements of x a task takes at least, if there are so many.
const planeElems = 16 << 10

// pooling is one call of MaxPoolDiff. Task i takes perTask planes, a channel of an image each.
type pooling struct {
	x, dy, dx             *ndarray.Array
	kernel, strides, pads [2]int
	perTask               int
}

var poolings machine.FreeList[pooling]

// pairOf reads the first two numbers of an attribute, those of rows and columns.
func pairOf(n *ssa.Node, name string) [2]int {
	v := ops.Ints(n, name)
	return [2]int{int(v[0]), int(v[1])}
}

// Run computes the planes of a task.
func (p *pooling) Run(task, _ int) {
	for plane := task * p.perTask; plane < min((task+1)*p.perTask, p.x.Shape[0]*p.x.Shape[1]); plane++ {
		if p.x.DType == ndarray.Float32 {
			spread[float32](p, plane)
		} else {
			spread[float64](p, plane)
		}
	}
}

// spread computes one plane.
func spread[T float32 | float64](p *pooling, plane int) {
	height, width, rows, cols := p.x.Shape[2], p.x.Shape[3], p.dy.Shape[2], p.dy.Shape[3]
	in, out := height*width, rows*cols
	image, sums := ndarray.Slice[T](p.x)[plane*in:(plane+1)*in], ndarray.Slice[T](p.dx)[plane*in:(plane+1)*in]
	adjoints := ndarray.Slice[T](p.dy)[plane*out : (plane+1)*out]
	clear(sums)
	for r := range rows {
		top := r*p.strides[0] - p.pads[0]
		first, last := max(top, 0), min(top+p.kernel[0], height)
		for c := range cols {
			left := c*p.strides[1] - p.pads[1]
			if at := maximum(image, width, first, last, max(left, 0), min(left+p.kernel[1], width)); at >= 0 {
				sums[at] += adjoints[r*cols+c]
			}
		}
	}
}

// maximum is where the largest element of rows first to last and columns left to right, both
// excluded, lies; -1 if there is none.
func maximum[T float32 | float64](image []T, width, first, last, left, right int) int {
	if first >= last || left >= right {
		return -1
	}
	at := first*width + left
	best := image[at]
	for r := first; r < last; r++ {
		for c, v := range image[r*width+left : r*width+right] {
			if v > best {
				best, at = v, r*width+left+c
			}
		}
	}
	return at
}
