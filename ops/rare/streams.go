package rare

import (
	"fmt"
	"slices"

	"github.com/berth-onnx/berth/internal/ops/contrib"
	"github.com/berth-onnx/berth/internal/ops/kit"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// Operators of the com.microsoft domain around residual streams: gates, and mixes
// of several parallel streams (hyper-connections, https://arxiv.org/abs/2409.19606).
//
// Streams are [..., C, H], or flattened [..., C*H] with the attribute num_branches.

// numBranches is how many streams a flattened dimension holds; 0 if it holds one.
var numBranches = ops.IntAttr("num_branches", 0).AtLeast(0)

// GatedAdd is X + Y*gate with one gate per row; the product is rounded to the
// element type before the sum.
var GatedAdd = ops.Op{
	Domain: contrib.Microsoft, Name: "GatedAdd", Since: 1, Doc: "output = X + Y * gate, gate [..., 1]",
	MinIn: 3, MaxIn: 3, MinOut: 1, MaxOut: 1,
	Infer: ops.SameAs, Facts: ops.Facts{Traits: ops.GeneralTraits, InPlace: kit.InPlaceFirst},
	Eval: kit.FloatKernel(func(c *ops.Call) {
		x, y, g := c.Array(0), c.Array(1), c.Array(2)
		if x.Rank() < 1 {
			kit.Failf("X is a scalar")
		}
		kit.WantShape("gate", g, append(slices.Clone(x.Shape[:x.Rank()-1]), 1)...)
		kit.WantShape("Y", y, x.Shape...)
		product := kit.Copy(c, kit.Elements[float32](c, y))
		gate, width := kit.Elements[float32](c, g), x.Shape[x.Rank()-1]
		w := kit.Watching(c)
		for i := range product {
			w.Did(1)
			product[i] *= gate[i/width]
		}
		kit.RoundTo(c, product, x.DType)
		out := kit.NewResult[float32](c, 0, x.DType, x.Shape...)
		for i, v := range kit.Elements[float32](c, x) {
			w.Did(1)
			out.V[i] = v + product[i]
		}
		out.Store()
	}, nil),
}

// ScaledSiLU is z * sigmoid(z) of z = scale*X, each rounded to the element type.
var ScaledSiLU = ops.Op{
	Domain: contrib.Microsoft, Name: "ScaledSiLU", Since: 1, Doc: "Y = Z * sigmoid(Z), Z = scale * X",
	MinIn: 1, MaxIn: 2, MinOut: 1, MaxOut: 1, Attrs: []*ops.AttrSpec{ops.FloatAttr("alpha", 1)},
	Infer: ops.SameAs, Facts: ops.Facts{Traits: ops.GeneralTraits, InPlace: kit.InPlaceFirst},
	Eval: kit.FloatKernel(func(c *ops.Call) {
		x := c.Array(0)
		scale := kit.OptionalFloat(c, 1, float64(ops.Float(c.Node, "alpha")))
		z := kit.Copy(c, kit.Elements[float32](c, x))
		w := kit.Watching(c)
		for i := range z {
			w.Did(1)
			z[i] *= float32(scale)
		}
		kit.RoundTo(c, z, x.DType)
		s := kit.Copy(c, z)
		kit.Activate(c, s, kit.Sigmoid)
		kit.RoundTo(c, s, x.DType)
		out := kit.NewResult[float32](c, 0, x.DType, x.Shape...)
		for i := range z {
			w.Did(1)
			out.V[i] = z[i] * s[i]
		}
		out.Store()
	}, nil),
}

// HyperConnectionPreMix adds up streams with a weight for each, or for each of
// its features.
var HyperConnectionPreMix = ops.Op{
	Domain: contrib.Microsoft, Name: "HyperConnectionPreMix", Since: 1, Doc: "Y[h] = reduction_scale * sum over c of X[c,h] * pre_mix[c,h]",
	MinIn: 2, MaxIn: 2, MinOut: 1, MaxOut: 1,
	Attrs: []*ops.AttrSpec{numBranches, ops.FloatAttr("reduction_scale", 1)},
	Infer: kit.Rule(func(n *ssa.Node) []ops.Inferred {
		x := ops.InType(n, 0)
		if !x.Ranked {
			return ops.One(x)
		}
		if k := ops.Int(n, "num_branches"); k > 0 && x.Rank() > 0 {
			out := slices.Clone(x.Shape)
			out[len(out)-1] = out[len(out)-1].FloorDiv(ssa.D(k))
			return ops.One(ssa.TensorOf(x.DType, out...))
		}
		if x.Rank() < 2 {
			kit.Failf("streams %s, expected [..., C, H]", x)
		}
		return ops.One(ssa.TensorOf(x.DType, slices.Delete(slices.Clone(x.Shape), x.Rank()-2, x.Rank()-1)...))
	}),
	Facts: ops.Facts{Traits: ops.GeneralTraits, Cost: kit.ReadCost}, Eval: kit.FloatKernel(evalPreMix, nil),
}

func evalPreMix(c *ops.Call) {
	x := c.Array(0)
	s := streamsOf(c.Node, x.Shape)
	gate := s.gate(c, "pre_mix", kit.Tensor(c, 1))
	out := kit.NewResult[float32](c, 0, x.DType, append(slices.Clone(s.outer), s.width)...)
	v, scale := kit.Elements[float32](c, x), ops.Float(c.Node, "reduction_scale")
	w := kit.Watching(c)
	for r := range kit.SizeOf(s.outer) {
		for h := range s.width {
			w.Did(s.branches)
			sum := float32(0)
			for b := range s.branches {
				sum += v[(r*s.branches+b)*s.width+h] * gate(r, b, h)
			}
			out.V[r*s.width+h] = sum * scale
		}
	}
	out.Store()
}

// HyperConnectionPostMix mixes streams with each other and adds a branch's output
// to each.
var HyperConnectionPostMix = ops.Op{
	Domain: contrib.Microsoft, Name: "HyperConnectionPostMix", Since: 1, Doc: "Y[k,h] = (sum over c of stream_mix[c,k] * streams[c,h]) + post_mix[k,h] * block_output[h]",
	MinIn: 3, MaxIn: 4, MinOut: 1, MaxOut: 1, Attrs: []*ops.AttrSpec{numBranches},
	Infer: ops.SameAs, Facts: ops.Facts{Traits: ops.GeneralTraits}, Eval: kit.FloatKernel(evalPostMix, nil),
}

func evalPostMix(c *ops.Call) {
	x, block := c.Array(0), c.Array(1)
	s := streamsOf(c.Node, x.Shape)
	kit.WantShape("block_output", block, append(slices.Clone(s.outer), s.width)...)
	gate := s.gate(c, "post_mix", kit.Tensor(c, 2))
	mix := c.Array(3)
	kit.WantShape("stream_mix", mix, append(slices.Clone(s.outer), s.branches, s.branches)...)
	out := kit.NewResult[float32](c, 0, x.DType, x.Shape...)
	v, add, m := kit.Elements[float32](c, x), kit.Elements[float32](c, block), kit.Elements[float32](c, mix)
	w := kit.Watching(c)
	for r := range kit.SizeOf(s.outer) {
		for k := range s.branches {
			row := out.V[(r*s.branches+k)*s.width:][:s.width]
			for h := range row {
				w.Did(s.branches)
				sum := float32(0)
				for b := range s.branches {
					switch e := v[(r*s.branches+b)*s.width+h]; {
					case m != nil:
						sum += m[(r*s.branches+b)*s.branches+k] * e
					case b == k:
						sum = e
					}
				}
				row[h] = sum + gate(r, k, h)*add[r*s.width+h]
			}
		}
	}
	out.Store()
}

// streams is the layout of parallel streams.
type streams struct {
	outer           []int
	branches, width int
	flat            bool
}

// streamsOf reads the layout of an operand.
func streamsOf(n *ssa.Node, shape []int) (s streams) {
	k := int(ops.Int(n, "num_branches"))
	switch last := len(shape) - 1; {
	case k > 0 && last >= 0 && shape[last]%k == 0:
		return streams{shape[:last], k, shape[last] / k, true}
	case k == 0 && last > 0:
		return streams{shape[:last-1], shape[last-1], shape[last], false}
	}
	panic(kit.Failure{Err: fmt.Errorf("streams have shape %v, which does not split into %d branches", shape, k)})
}

// gate reads weights of shape [..., C], [..., C, 1], [..., C, H] or, for flattened
// streams, [..., C*H].
func (s streams) gate(c *ops.Call, what string, a *ndarray.Array) func(r, b, h int) float32 {
	v, rows := kit.Elements[float32](c, a), kit.SizeOf(s.outer)
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
	panic(kit.Failure{Err: fmt.Errorf("%s has shape %v, which fits no %d streams of %d features over %v", what, a.Shape, s.branches, s.width, s.outer)})
}
