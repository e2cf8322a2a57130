package oracle

import (
	"math/rand"

	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ssa"
)

func axisAttr(a int64) []ssa.Attr { return []ssa.Attr{ssa.IntAttr("axis", a)} }

var moveDrawers = []drawer{
	{"Identity", func(d *dice, _ string) opCase { return opCase{in: []arg{tensor(d.anything(), d.shape(0, 5)...)}} }},
	{"Reshape", func(d *dice, _ string) opCase {
		s := d.full(0, 4)
		n := 1
		for _, k := range s {
			n *= k
		}
		target := pick(d.Rand, []int64{int64(n)}, []int64{1, -1}, []int64{-1}, ints64(s), []int64{int64(n), 1, 1})
		return opCase{in: []arg{tensor(d.anything(), s...), ints(target...)}}
	}},
	{"Flatten", func(d *dice, _ string) opCase {
		s := d.shape(1, 4)
		return opCase{in: []arg{tensor(d.anything(), s...)}, attrs: d.some(axisAttr(d.axis(len(s)))...)}
	}},
	{"Squeeze", func(d *dice, _ string) opCase {
		s := d.shape(1, 4)
		at := d.Intn(len(s))
		s[at] = 1
		return opCase{in: []arg{tensor(d.anything(), s...), ints(pick(d.Rand, int64(at), int64(at-len(s))))}}
	}},
	{"Unsqueeze", func(d *dice, _ string) opCase {
		s := d.shape(0, 4)
		return opCase{in: []arg{tensor(d.anything(), s...), ints(d.axis(len(s) + 1))}}
	}},
	{"Dropout", func(d *dice, _ string) opCase {
		return opCase{in: []arg{f32s(d.shape(0, 3)...), scalarOf(ndarray.Float32, 0.5), scalarOf(ndarray.Bool, 0)}, outs: d.to(1, 2)}
	}},
	{"Concat", func(d *dice, _ string) opCase {
		s := d.shape(1, 4)
		at, dt := d.axis(len(s)), d.anything()
		k := opCase{attrs: axisAttr(at)}
		for range d.to(1, 4) {
			part := append([]int{}, s...)
			part[(int(at)+len(s))%len(s)] = pick(d.Rand, 0, 1, 2, 5, 17)
			k.in = append(k.in, d.fixed(tensor(dt, part...)))
		}
		return k
	}},
	{"Split", func(d *dice, _ string) opCase {
		s := d.shape(1, 4)
		at := d.axis(len(s))
		sizes, sum := make([]int64, d.to(1, 4)), 0
		for i := range sizes {
			sizes[i] = pick[int64](d.Rand, 0, 1, 2, 5)
			sum += int(sizes[i])
		}
		s[(int(at)+len(s))%len(s)] = sum
		return opCase{in: []arg{tensor(d.anything(), s...), ints(sizes...)}, outs: len(sizes), attrs: axisAttr(at)}
	}},
	{"Slice", func(d *dice, _ string) opCase {
		s := d.shape(1, 4)
		var starts, ends, axes, steps []int64
		for _, a := range d.Perm(len(s))[:d.to(1, len(s))] {
			bound := func() int64 { return pick(d.Rand, 0, 1, -1, -2, 3, 1<<62, -1<<62, int64(s[a])) }
			starts, ends = append(starts, bound()), append(ends, bound())
			axes = append(axes, int64(a-len(s)*d.Intn(2)))
			steps = append(steps, pick[int64](d.Rand, 1, 1, 2, 3, -1, -2))
		}
		return opCase{in: []arg{tensor(d.anything(), s...), ints(starts...), ints(ends...), ints(axes...), ints(steps...)}}
	}},
	{"Expand", func(d *dice, _ string) opCase {
		a, b := d.pair()
		return opCase{in: []arg{tensor(d.anything(), a...), ints(ints64(b)...)}}
	}},
	{"Tile", func(d *dice, _ string) opCase {
		s := d.shape(1, 4)
		times := make([]int64, len(s))
		for i := range times {
			times[i] = int64(d.Intn(4))
		}
		return opCase{in: []arg{tensor(d.anything(), s...), ints(times...)}}
	}},
	{"Transpose", func(d *dice, _ string) opCase {
		s := d.shape(0, 5)
		perm := make([]int, len(s))
		copy(perm, d.Perm(len(s)))
		return opCase{in: []arg{tensor(d.anything(), s...)}, attrs: d.some(ssa.IntsAttr("perm", ints64(perm)...))}
	}},
	{"DepthToSpace SpaceToDepth", func(d *dice, op string) opCase {
		b, h, w := d.to(1, 3), d.to(1, 4), d.to(1, 4)
		k := opCase{attrs: []ssa.Attr{ssa.IntAttr("blocksize", int64(b))}}
		if op == "DepthToSpace" {
			k.attrs = append(k.attrs, d.some(ssa.StringAttr("mode", pick(d.Rand, "DCR", "CRD")))...)
			k.in = []arg{tensor(d.anything(), d.to(1, 2), b*b*d.to(1, 2), h, w)}
			return k
		}
		k.in = []arg{tensor(d.anything(), d.to(1, 2), d.to(1, 3), h*b, w*b)}
		return k
	}},
	{"Gather", func(d *dice, _ string) opCase {
		s := d.full(1, 3)
		a := d.axis(len(s))
		return opCase{in: []arg{tensor(d.anything(), s...), d.fixed(indices(d.index(), at(s, a), d.shape(0, 2)...))}, attrs: axisAttr(a)}
	}},
	{"GatherElements", func(d *dice, _ string) opCase {
		s := d.full(1, 3)
		a := d.axis(len(s))
		return opCase{in: []arg{tensor(d.anything(), s...), d.fixed(indices(d.index(), at(s, a), d.within(s)...))}, attrs: axisAttr(a)}
	}},
	{"GatherND", func(d *dice, _ string) opCase {
		s := d.full(1, 4)
		n := d.to(1, len(s))
		for i := range n {
			s[i] = s[0] // one range for all columns
		}
		return opCase{in: []arg{tensor(d.anything(), s...), indices(ndarray.Int64, s[0], append(d.shape(0, 2), n)...)}}
	}},
	{"ScatterElements", func(d *dice, _ string) opCase {
		s := d.full(1, 3)
		a, dt := d.axis(len(s)), pick(d.Rand, ndarray.Float32, ndarray.Int64, ndarray.Int32)
		u := d.within(s)
		return opCase{in: []arg{tensor(dt, s...), indices(d.index(), at(s, a), u...), tensor(dt, u...)}, tol: 1e-5,
			attrs: append(axisAttr(a), strs("reduction", pick(d.Rand, "none", "add", "mul", "max", "min"))...)}
	}},
	{"ScatterND", func(d *dice, _ string) opCase {
		s := d.full(1, 4)
		n, rows, dt := d.to(1, len(s)), d.Intn(4), pick(d.Rand, ndarray.Float32, ndarray.Int64, ndarray.Int32)
		for i := range n {
			s[i] = s[0]
		}
		return opCase{in: []arg{tensor(dt, s...), indices(ndarray.Int64, s[0], rows, n), tensor(dt, append([]int{rows}, s[n:]...)...)}, tol: 1e-5,
			attrs: strs("reduction", pick(d.Rand, "none", "add", "mul", "max", "min"))}
	}},
	{"TensorScatter", func(d *dice, _ string) opCase {
		b, n, room := d.to(1, 3), d.to(1, 3), d.to(1, 6)
		s := []int{b, d.to(1, 3), room + n, d.to(1, 9)}
		u := []int{b, s[1], n, s[3]}
		dt := d.anything()
		return opCase{in: []arg{tensor(dt, s...), tensor(dt, u...), arg{dt: ndarray.Int64, shape: []int{b}}.between(0, float64(room))},
			attrs: strs("mode", pick(d.Rand, "linear", "circular"))}
	}},
	{"Pad", func(d *dice, _ string) opCase {
		s := d.full(1, 4)
		mode := pick(d.Rand, "constant", "reflect", "edge", "wrap")
		pads := make([]int64, 2*len(s))
		for i := range pads {
			if n := s[i%len(s)]; mode == "reflect" {
				pads[i] = int64(d.Intn(n))
			} else {
				pads[i] = int64(d.Intn(min(n, 4) + 1))
			}
		}
		return opCase{in: []arg{tensor(d.anything(), s...), ints(pads...)}, attrs: strs("mode", mode)}
	}},
	{"Shape Size", func(d *dice, op string) opCase {
		k := opCase{in: []arg{tensor(d.anything(), d.shape(0, 4)...)}}
		if op == "Shape" {
			k.attrs = d.some(ssa.IntAttr("start", int64(d.to(-5, 5))), ssa.IntAttr("end", int64(d.to(-5, 5))))
		}
		return k
	}},
	{"ConstantOfShape", func(d *dice, _ string) opCase { return opCase{in: []arg{ints(ints64(d.shape(0, 3))...)}} }},
	{"Range", func(d *dice, _ string) opCase {
		dt, step := pick(d.Rand, ndarray.Int64, ndarray.Int32, ndarray.Float32, ndarray.Float64), pick(d.Rand, 1.0, 2, -1, -3)
		return opCase{in: []arg{scalarOf(dt, 3), scalarOf(dt, 3+step*float64(d.to(-1, 9))), scalarOf(dt, step)}}
	}},
	{"Trilu", func(d *dice, _ string) opCase {
		return opCase{in: []arg{tensor(d.anything(), d.shape(2, 4)...), scalarOf(ndarray.Int64, float64(d.to(-6, 6)))}, attrs: d.some(d.flag("upper"))}
	}},
	{"OneHot", func(d *dice, _ string) opCase {
		s := d.shape(1, 3)
		values := tensor(pick(d.Rand, ndarray.Float32, ndarray.Int64, ndarray.Bool), 2)
		return opCase{in: []arg{indices(d.index(), 6, s...), scalarOf(ndarray.Int64, 5), values}, attrs: d.some(axisAttr(d.axis(len(s) + 1))...)}
	}},
	{"Resize", func(d *dice, _ string) opCase {
		s, f := append(d.full(2, 2), d.full(1, 2)...), []float64{1, 1}
		for range s[2:] {
			f = append(f, pick(d.Rand, 0.5, 0.6, 1, 1.5, 2, 2.7))
		}
		mode := pick(d.Rand, "nearest", "linear", "cubic")
		for i, n := range s[2:] {
			s[2+i] = max(n, 2)
		}
		return opCase{in: []arg{f32s(s...), absent, factors(f...)}, tol: 1e-5, attrs: append(strs("mode", mode),
			d.some(strs("coordinate_transformation_mode", pick(d.Rand, "half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric"),
				"nearest_mode", pick(d.Rand, "floor", "ceil", "round_prefer_floor", "round_prefer_ceil"))...)...)}
	}},
	{"GridSample", func(d *dice, _ string) opCase {
		n := d.to(1, 2)
		return opCase{in: []arg{f32s(n, d.to(1, 3), d.to(1, 6), d.to(1, 6)), f32s(n, d.to(1, 5), d.to(1, 5), 2).between(-1.6, 1.6)}, tol: 1e-5,
			attrs: append(strs("mode", pick(d.Rand, "linear", "nearest", "cubic"), "padding_mode", pick(d.Rand, "zeros", "border", "reflection")), d.flag("align_corners"))}
	}},
	{"RoiAlign", func(d *dice, _ string) opCase {
		n, regions := d.to(1, 3), d.to(0, 9)
		return opCase{in: []arg{f32s(n, d.size(), d.to(1, 12), d.to(1, 12)), f32s(regions, 4).between(-5, 20), indices(ndarray.Int64, n, regions)}, tol: 1e-5,
			attrs: d.some(append(strs("mode", pick(d.Rand, "avg", "avg", "max"), "coordinate_transformation_mode", pick(d.Rand, "half_pixel", "output_half_pixel")),
				ssa.IntAttr("output_height", int64(d.to(1, 4))), ssa.IntAttr("output_width", int64(d.to(1, 4))),
				ssa.IntAttr("sampling_ratio", int64(d.to(0, 3))), ssa.FloatAttr("spatial_scale", pick[float32](d.Rand, 0.25, 1.5)))...)}
	}},
}

// at is the dimension of an axis that may count from the end.
func at(s []int, axis int64) int { return s[(int(axis)+len(s))%len(s)] }

// within is a shape that fits into s.
func (d *dice) within(s []int) []int {
	out := make([]int, len(s))
	for i, n := range s {
		out[i] = d.to(1, n)
	}
	return out
}

func (d *dice) index() ndarray.DType { return pick(d.Rand, ndarray.Int64, ndarray.Int32) }

// lengths are per sequence, from 0 to most.
func lengths(batch, most int) arg {
	return arg{dt: ndarray.Int32, shape: []int{batch}}.from(func(r *rand.Rand) float64 { return float64(r.Intn(most + 1)) })
}
