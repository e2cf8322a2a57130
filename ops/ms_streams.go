package ops

import (
	"fmt"

	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ssa"
)

// Operators of the com.microsoft domain around residual streams: gates, and mixes
// of several parallel streams (hyper-connections, https://arxiv.org/abs/2409.19606).
//
// Streams are [..., C, H], or flattened [..., C*H] with the attribute num_branches.

// GatedAdd is X + Y*gate with one gate per row; the product is rounded to the
// element type before the sum.
var GatedAdd = Op{
	Domain: microsoft, Name: "GatedAdd", Since: 1, Doc: "output = X + Y * gate, gate [..., 1]",
	MinIn: 3, MaxIn: 3, MinOut: 1, MaxOut: 1,
	Infer: SameAs, Facts: Facts{Traits: general, InPlace: inPlaceFirst},
	Eval: floatKernel(func(c *Call) {
		x, y, g := c.Array(0), c.Array(1), c.Array(2)
		if x.Rank() < 1 {
			failf("X is a scalar")
		}
		rows := append(append([]int{}, x.Shape[:x.Rank()-1]...), 1)
		wantShape("gate", g, rows...)
		wantShape("Y", y, x.Shape...)
		product := append([]float32{}, elements[float32](y)...)
		gate, width := elements[float32](g), x.Shape[x.Rank()-1]
		for i := range product {
			product[i] *= gate[i/width]
		}
		roundTo(product, x.DType)
		out := newResult[float32](c, 0, x.DType, x.Shape...)
		for i, v := range elements[float32](x) {
			out.V[i] = v + product[i]
		}
		out.store()
	}, nil),
}

// ScaledSiLU is z * sigmoid(z) of z = scale*X, each rounded to the element type.
var ScaledSiLU = Op{
	Domain: microsoft, Name: "ScaledSiLU", Since: 1, Doc: "Y = Z * sigmoid(Z), Z = scale * X",
	MinIn: 1, MaxIn: 2, MinOut: 1, MaxOut: 1, Attrs: []AttrSpec{floatAttr("alpha", 1)},
	Infer: SameAs, Facts: Facts{Traits: general, InPlace: inPlaceFirst},
	Eval: floatKernel(func(c *Call) {
		x := c.Array(0)
		scale := optionalFloat(c, 1, float64(Float(c.Node, "alpha")))
		z := append([]float32{}, elements[float32](x)...)
		for i := range z {
			z[i] *= float32(scale)
		}
		roundTo(z, x.DType)
		s := make([]float32, len(z))
		for i, v := range z {
			s[i] = float32(sigmoid(float64(v)))
		}
		roundTo(s, x.DType)
		out := newResult[float32](c, 0, x.DType, x.Shape...)
		for i := range z {
			out.V[i] = z[i] * s[i]
		}
		out.store()
	}, nil),
}

// HyperConnectionPreMix adds up streams with a weight for each, or for each of
// its features.
var HyperConnectionPreMix = Op{
	Domain: microsoft, Name: "HyperConnectionPreMix", Since: 1, Doc: "Y[h] = reduction_scale * sum over c of X[c,h] * pre_mix[c,h]",
	MinIn: 2, MaxIn: 2, MinOut: 1, MaxOut: 1,
	Attrs: []AttrSpec{intAttr("num_branches", 0), floatAttr("reduction_scale", 1)},
	Infer: rule(func(n *ssa.Node) []Inferred {
		x := InType(n, 0)
		if !x.Ranked {
			return One(x)
		}
		if k := Int(n, "num_branches"); k > 0 && x.Rank() > 0 {
			out := append([]ssa.Dim{}, x.Shape...)
			out[len(out)-1] = out[len(out)-1].FloorDiv(ssa.D(k))
			return One(ssa.TensorOf(x.DType, out...))
		}
		if x.Rank() < 2 {
			failf("streams %s, expected [..., C, H]", x)
		}
		out := append([]ssa.Dim{}, x.Shape[:x.Rank()-2]...)
		return One(ssa.TensorOf(x.DType, append(out, x.Shape[x.Rank()-1])...))
	}),
	Facts: Facts{Traits: general, Cost: readCost}, Eval: floatKernel(evalPreMix, nil),
}

func evalPreMix(c *Call) {
	x := c.Array(0)
	s := streamsOf(c.Node, x.Shape)
	gate := s.gate("pre_mix", c.Array(1))
	out := newResult[float32](c, 0, x.DType, append(append([]int{}, s.outer...), s.width)...)
	v, scale := elements[float32](x), Float(c.Node, "reduction_scale")
	for r := range sizeOf(s.outer) {
		for h := range s.width {
			sum := float32(0)
			for b := range s.branches {
				sum += v[(r*s.branches+b)*s.width+h] * gate(r, b, h)
			}
			out.V[r*s.width+h] = sum * scale
		}
	}
	out.store()
}

// HyperConnectionPostMix mixes streams with each other and adds a branch's output
// to each.
var HyperConnectionPostMix = Op{
	Domain: microsoft, Name: "HyperConnectionPostMix", Since: 1, Doc: "Y[k,h] = (sum over c of stream_mix[c,k] * streams[c,h]) + post_mix[k,h] * block_output[h]",
	MinIn: 3, MaxIn: 4, MinOut: 1, MaxOut: 1, Attrs: []AttrSpec{intAttr("num_branches", 0)},
	Infer: SameAs, Facts: Facts{Traits: general}, Eval: floatKernel(evalPostMix, nil),
}

func evalPostMix(c *Call) {
	x, block := c.Array(0), c.Array(1)
	s := streamsOf(c.Node, x.Shape)
	wantShape("block_output", block, append(append([]int{}, s.outer...), s.width)...)
	gate := s.gate("post_mix", c.Array(2))
	mix := c.Array(3)
	wantShape("stream_mix", mix, append(append([]int{}, s.outer...), s.branches, s.branches)...)
	out := newResult[float32](c, 0, x.DType, x.Shape...)
	v, add, m := elements[float32](x), elements[float32](block), elements[float32](mix)
	for r := range sizeOf(s.outer) {
		for k := range s.branches {
			row := out.V[(r*s.branches+k)*s.width:][:s.width]
			for h := range row {
				sum := float32(0)
				if m == nil {
					sum = v[(r*s.branches+k)*s.width+h]
				} else {
					for b := range s.branches {
						sum += m[(r*s.branches+b)*s.branches+k] * v[(r*s.branches+b)*s.width+h]
					}
				}
				row[h] = sum + gate(r, k, h)*add[r*s.width+h]
			}
		}
	}
	out.store()
}

// streams is the layout of parallel streams.
type streams struct {
	outer           []int
	branches, width int
	flat            bool
}

// streamsOf reads the layout of an operand.
func streamsOf(n *ssa.Node, shape []int) (s streams) {
	k := int(Int(n, "num_branches"))
	switch {
	case k < 0:
		failf("num_branches=%d", k)
	case k > 0 && len(shape) > 0 && shape[len(shape)-1]%k == 0:
		last := len(shape) - 1
		return streams{shape[:last], k, shape[last] / k, true}
	case k == 0 && len(shape) > 1:
		last := len(shape) - 1
		return streams{shape[:last-1], shape[last-1], shape[last], false}
	}
	panic(failure{fmt.Errorf("streams have shape %v, which does not split into %d branches", shape, k)})
}

// gate reads weights of shape [..., C], [..., C, 1], [..., C, H] or, for flattened
// streams, [..., C*H].
func (s streams) gate(what string, a *ndarray.Array) func(r, b, h int) float32 {
	if a == nil {
		failf("%s is not a tensor", what)
	}
	v, rows := elements[float32](a), sizeOf(s.outer)
	perBranch := a.Len() == rows*s.branches && a.Rank() >= len(s.outer)+1
	perFeature := a.Len() == rows*s.branches*s.width && (a.Rank() == len(s.outer)+2 || s.flat && a.Rank() == len(s.outer)+1)
	for i, d := range s.outer {
		if a.Rank() <= i || a.Shape[i] != d {
			perBranch, perFeature = false, false
		}
	}
	switch {
	case perFeature && (s.width > 1 || a.Rank() == len(s.outer)+2):
		return func(r, b, h int) float32 { return v[(r*s.branches+b)*s.width+h] }
	case perBranch:
		return func(r, b, _ int) float32 { return v[r*s.branches+b] }
	}
	panic(failure{fmt.Errorf("%s has shape %v, which fits no %d streams of %d features over %v", what, a.Shape, s.branches, s.width, s.outer)})
}
