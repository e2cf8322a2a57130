package lower

import (
	"math"

	"github.com/berth-onnx/berth/backend/cuda/internal/device"
	"github.com/berth-onnx/berth/backend/cuda/internal/kernels"
	"github.com/berth-onnx/berth/internal/ops/kit"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// Resizing by weights, linear and cubic: one axis after the other, a launch for each. What an element along an axis is made of is seen
// in what the reference kernel makes of the unit vectors, so that no rule of Resize is written twice:
//
//	unit vectors [from, from]  ──Resize of axis 1──▶  weights [from, to]
//
// Nearest elements are moved by a table (move.go).

func init() { add("", resize, "Resize") }

// mostWeights bounds the matrix of weights of an axis, almost all of them zeros.
const mostWeights = 1 << 23

// resized is an axis that changes, with the factor or the length that the node gives.
type resized struct {
	axis  int
	scale *ndarray.Array // of one element; nil: the length is given
}

func resize(p *prep) (bool, error) {
	n, x, y := p.node, p.in[0], p.out[0]
	f, isFloat := floatTypes[x.dt]
	if ops.Str(n, "mode") == "nearest" || ops.Str(n, "coordinate_transformation_mode") == "tf_crop_and_resize" ||
		ops.Str(n, "keep_aspect_ratio_policy") != "stretch" || !isFloat || y.dt != x.dt || x.n == 0 || len(p.out) != 1 {
		return false, nil
	}
	axes, ok, err := p.resizedAxes()
	if !ok || err != nil {
		return false, err
	}
	if len(axes) == 0 {
		return copyBytes(p)
	}
	shape := append([]int{}, x.shape...)
	var from *int64 // where in the workspace the operand lies, nil for the node's; in it are float32s
	for i, r := range axes {
		var to *int64
		outer, dim, inner := around(shape, r.axis)
		shape[r.axis] = y.shape[r.axis]
		bytes := int64(ndarray.Product(shape)) * 4
		if i < len(axes)-1 {
			at := p.workspace(bytes)
			to = &at
		}
		done, err := p.resample(f, r, [3]int{outer, dim, inner}, from, to, bytes)
		if !done || err != nil {
			return false, err
		}
		from = to
	}
	return true, nil
}

// resizedAxes reads which axes change; false if that is not known.
func (p *prep) resizedAxes() (out []resized, ok bool, err error) {
	x, y := p.in[0].shape, p.out[0].shape
	listed := kit.ListedAxes(p.node, len(x))
	scales, err := p.array(2)
	if err != nil {
		return nil, false, err
	}
	hasScales := p.has(2) && p.in[2].n > 0
	if hasScales && (scales == nil || scales.DType != ndarray.Float32 || scales.Len() != len(listed)) {
		return nil, false, nil
	}
	for i, axis := range listed {
		r := resized{axis: axis}
		if hasScales {
			r.scale = ndarray.Of([]float32{float32(scales.Float(i))}, 1)
			if r.scale.Float(0) == 1 {
				continue
			}
		} else if x[axis] == y[axis] {
			continue
		}
		out = append(out, r)
	}
	return out, true, nil
}

// resample adds the launch for one axis. Operand and result lie in the workspace where a place there is given.
func (p *prep) resample(f kernels.Floats, r resized, around [3]int, from, to *int64, bytes int64) (bool, error) {
	outer, dim, inner := around[0], around[1], around[2]
	length := p.out[0].shape[r.axis]
	weights, err := p.weights(r, dim, length)
	if weights == nil || err != nil {
		return false, err
	}
	places, values, taps := tapsOf(weights, dim, length)
	atOf, err := p.host.Weight(p.ctx, ssa.NewConstant(places))
	if err != nil {
		return false, err
	}
	valuesOf, err := p.host.Weight(p.ctx, ssa.NewConstant(values))
	if err != nil {
		return false, err
	}
	size := int64(outer) * int64(dim) * int64(inner) * 4
	p.launch(func(c *Call) (*device.Launch, error) {
		x, y := c.In[0], c.Out[0]
		if from != nil {
			x = part(c.Scratch, *from, size)
		}
		if to != nil {
			y = part(c.Scratch, *to, bytes)
		}
		return p.host.Kernels().Of(f).Resample(int64(outer), int32(dim), int32(length), int32(inner), int32(taps), from == nil, to == nil, x, atOf, valuesOf, y)
	}, 0)
	return true, nil
}

// weights is what the reference kernel makes of unit vectors along an axis, [from, to]; nil if that is left to the host.
func (p *prep) weights(r resized, from, to int) ([]float32, error) {
	if int64(from)*int64(max(from, to)) > mostWeights || to > math.MaxInt32 {
		return nil, nil
	}
	unit, err := ndarray.NewContext(p.ctx, ndarray.BudgetOf(p.ctx), ndarray.Float32, from, from)
	if err != nil {
		return nil, err
	}
	for i, v := 0, ndarray.Slice[float32](unit); i < from; i++ {
		v[i*from+i] = 1
	}
	g := ssa.NewGraph("weights")
	in, values := make([]*ssa.Value, 4), []ndarray.Value{unit, nil, nil, nil}
	in[0] = g.AddParam("unit", ssa.StaticTensor(ndarray.Float32, from, from))
	if r.scale != nil {
		in[2], values[2] = g.AddConst("scale", ssa.NewConstant(r.scale)), r.scale
	} else {
		size := ndarray.Of([]int64{int64(to)}, 1)
		in[3], values[3] = g.AddConst("size", ssa.NewConstant(size)), size
	}
	attrs := []ssa.Attr{ssa.IntsAttr("axes", 1)}
	for _, a := range p.node.Attrs {
		if a.Name != "axes" {
			attrs = append(attrs, a)
		}
	}
	n := g.NewNode("Resize", in, 1, attrs...)
	n.Out[0].Type = ssa.StaticTensor(ndarray.Float32, from, to)
	c := ops.Call{Ctx: p.ctx, Node: n, In: values, Out: []ndarray.Value{nil}, Threads: 1, Memory: ndarray.BudgetOf(p.ctx)}
	if err := ops.Eval(&c); err != nil {
		return nil, p.ctx.Err() // the host says so when it runs
	}
	if w, ok := c.Out[0].(*ndarray.Array); ok && w.DType == ndarray.Float32 && w.Len() == from*to {
		return ndarray.Slice[float32](w), nil
	}
	return nil, nil
}

// tapsOf lists the weights that are not zero, by place along the axis.
func tapsOf(weights []float32, from, to int) (places, values *ndarray.Array, taps int) {
	taps = 1
	lists := make([][]int, to)
	for j := range lists {
		for k := range from {
			if weights[k*to+j] != 0 {
				lists[j] = append(lists[j], k)
			}
		}
		taps = max(taps, len(lists[j]))
	}
	at, w := make([]int32, to*taps), make([]float32, to*taps)
	for j, list := range lists {
		for t := range taps {
			if at[j*taps+t] = -1; t < len(list) {
				at[j*taps+t], w[j*taps+t] = int32(list[t]), weights[list[t]*to+j]
			}
		}
	}
	return ndarray.Of(at, to, taps), ndarray.Of(w, to, taps), taps
}
