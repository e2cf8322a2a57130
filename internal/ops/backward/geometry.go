// Package backward holds operators of the backward pass of training steps, where nodes of ordinary operators would hold several tensors as
// large as an image. They have no derivatives themselves.
package backward

import (
	"github.com/berth-onnx/berth/internal/ops/kit"
	"github.com/berth-onnx/berth/ops"
)

// windowAttrs are the attributes of the derivatives: a window over one or two dimensions, padding resolved.
func windowAttrs(more ...*ops.AttrSpec) []*ops.AttrSpec {
	return append(more, ops.IntsAttr("kernel_shape").AtLeast(1).Mandatory(), ops.IntsAttr("strides").AtLeast(1).Mandatory(),
		ops.IntsAttr("dilations").AtLeast(1).Mandatory(), ops.IntsAttr("pads").Mandatory())
}

// geometry is a window over two dimensions, of which the first has one position for one-dimensional data.
type geometry struct {
	in, out, kernel, strides, dilations, begin [2]int
}

// geometryOf reads the attributes of a node for the spatial sizes on both sides.
func geometryOf(c *ops.Call, in, out []int) (g geometry) {
	for i := range 2 {
		g.in[i], g.out[i], g.kernel[i], g.strides[i], g.dilations[i] = 1, 1, 1, 1, 1
	}
	kernel, strides, dilations, pads := ops.Ints(c.Node, "kernel_shape"), ops.Ints(c.Node, "strides"), ops.Ints(c.Node, "dilations"), ops.Ints(c.Node, "pads")
	r := len(kernel)
	if r < 1 || r > 2 || len(in) != r || len(out) != r || len(strides) != r || len(dilations) != r || len(pads) != 2*r {
		kit.Failf("a window of %d dimensions over %v and %v", r, in, out)
	}
	for i := range r {
		d := 2 - r + i
		g.in[d], g.out[d], g.kernel[d] = in[i], out[i], int(kernel[i])
		g.strides[d], g.dilations[d], g.begin[d] = int(strides[i]), int(dilations[i]), int(pads[i])
	}
	return g
}

// at is the position in a plane of the input that a tap of a window reads; ok is false in the padding.
func (g *geometry) at(y, x, ky, kx int) (at int, ok bool) {
	row, col := y*g.strides[0]+ky*g.dilations[0]-g.begin[0], x*g.strides[1]+kx*g.dilations[1]-g.begin[1]
	return row*g.in[1] + col, row >= 0 && row < g.in[0] && col >= 0 && col < g.in[1]
}

// line is the range of windows in a row of them whose tap reads the image, and the position in its plane that the first of these reads.
func (g *geometry) line(y, ky, kx int) (lo, hi, at int) {
	row, column := y*g.strides[0]+ky*g.dilations[0]-g.begin[0], kx*g.dilations[1]-g.begin[1]
	if row < 0 || row >= g.in[0] {
		return 0, 0, 0
	}
	lo = max(0, (g.strides[1]-1-column)/g.strides[1])
	if hi = 0; column < g.in[1] {
		hi = min(g.out[1], (g.in[1]-1-column)/g.strides[1]+1)
	}
	return lo, hi, row*g.in[1] + lo*g.strides[1] + column
}
