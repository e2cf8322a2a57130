package convolve

import (
	"context"
	"fmt"

	"github.com/berth-onnx/berth/internal/cpu/kern/gemm"
	"github.com/berth-onnx/berth/internal/cpu/kern/machine"
	"github.com/berth-onnx/berth/internal/cpu/kern/vec"
)

// Convolution of volumes, a plane of the result at a time, as a convolution of images. With the planes of the volume outermost,
// and planes of zeros for the padding, the planes that one plane of the result depends on are the channels of one image:
//
//	X [C, D, H·W]  ──▶  [pad+D+pad, C, H·W]        plane z of the result: Kd·C channels from plane z·stride on
//	W [M, C, Kd, Kh·Kw]  ──▶  [M, Kd·C, Kh·Kw]
//
//	0 │ x0 │ x1 │ x2 │ 0
//	└── y0 ─┘
//	    └── y1 ──┘
//
// The images are convolved directly or by Winograd's algorithm, which leave out the products that patches of a volume take: a
// plane is transformed Kd times, as often as its channels are channels of an image.
type planesConv struct {
	*geometry
	image           *Conv
	gather, scatter *vec.Copy // planes outermost; a plane of the result to its channels
	take            *vec.Copy // a plane of the residual from its channels
	plane, planes   int       // elements of a plane of all channels, planes with the padding
	result          int       // elements of a plane of the result
}

// planeSpec is the convolution of images for planes of a volume.
func (g *geometry) planeSpec() ConvSpec {
	s := g.s
	s.Batch, s.InC = 1, s.InC*s.Kernel[0]
	s.In[0], s.Kernel[0], s.Stride[0], s.PadBegin[0], s.PadEnd[0] = 1, 1, 1, 0, 0
	return s
}

// planPlanes plans a convolution of a volume by planes, where images are convolved faster than patches. Planes of the padding lie in
// the workspace: there are no more than the kernel reaches.
func (g *geometry) planPlanes(o ConvPolicy) (ConvPlan, bool) {
	s := &g.s
	begin, end := s.PadBegin[0], s.PadEnd[0]
	if s.In[0] == 1 || !s.ConstW || o.Memory || s.Groups != 1 || s.Shuffle || s.Dilation[0] != 1 || min(begin, end) < 0 || max(begin, end) >= s.Kernel[0] || g.isPointwise() {
		return ConvPlan{}, false
	}
	if _, ok := machine.MulAll(begin+s.In[0]+end, s.InC, s.In[1]*s.In[2], 4); !ok {
		return ConvPlan{}, false
	}
	plan, err := PlanConv(g.planeSpec(), o)
	if err != nil || plan.Algorithm != ConvDirect && plan.Algorithm != ConvWinograd2 && plan.Algorithm != ConvWinograd4 {
		return ConvPlan{}, false
	}
	return ConvPlan{Algorithm: ConvPlanes, Reason: fmt.Sprintf("%d planes as images: %s, %s", g.out[0], plan.Algorithm, plan.Reason), winograd: o.Winograd}, true
}

// newPlanesConv prepares a convolution by planes; the policy is the one that the plan was made with.
func newPlanesConv(g *geometry, winograd Winograd) (*planesConv, error) {
	if !g.s.ConstW {
		return nil, &machine.SpecError{Kernel: "Conv", Field: "ConstW", Why: "planes take packed weights only"}
	}
	spec := g.planeSpec()
	plan, err := PlanConv(spec, ConvPolicy{Winograd: winograd})
	if err != nil {
		return nil, err
	}
	s, in := &g.s, g.s.In[1]*g.s.In[2]
	c := &planesConv{geometry: g, plane: s.InC * in, planes: s.PadBegin[0] + s.In[0] + s.PadEnd[0]}
	if c.image, err = NewConv(spec, plan); err != nil {
		return nil, err
	}
	c.image.weights.Layout.Dims[7] = s.Kernel[0] // the same weights as those of an image are in another order
	out := c.image.outN
	c.result = s.OutC * out
	if c.gather, err = vec.NewCopy([]int{s.In[0], s.InC, in}, []int{c.plane, in, 1}, []int{in, s.In[0] * in, 1}); err != nil {
		return nil, err
	}
	if c.scatter, err = vec.NewCopy([]int{s.OutC, out}, []int{g.outN, 1}, []int{out, 1}); err != nil {
		return nil, err
	}
	c.take, err = vec.NewCopy([]int{s.OutC, out}, []int{out, 1}, []int{g.outN, 1})
	return c, err
}

func (c *planesConv) packing() *gemm.Packing { return c.image.weights }

// pack packs weights [M, C, Kd, …] in the order [M, Kd, C, …].
func (c *planesConv) pack(ctx context.Context, w gemm.Source) (*gemm.Packed, error) {
	s := &c.s
	if kd, kernel := s.Kernel[0], s.Kernel[1]*s.Kernel[2]; !w.Splat && kd > 1 {
		order, err := vec.NewTranspose([]int{s.OutC, s.InC, kd, kernel}, []int{0, 2, 1, 3})
		if err == nil {
			err = machine.AskPacked(ctx, 4*len(w.Data))
		}
		if err != nil {
			return nil, err
		}
		all := make([]float32, len(w.Data))
		if err := vec.RunCopy(nil, order, all, 0, w.Data, 0, machine.Threads()); err != nil {
			return nil, err
		}
		w.Data = all
	}
	return c.image.PackW(ctx, w)
}

func (c *planesConv) workspace(threads int) int {
	return machine.ScratchBytes(4*c.planes*c.plane) + machine.ScratchBytes(4*c.result) + c.image.Workspace(threads)
}

// run convolves image after image.
func (c *planesConv) run(r *convRun, threads int) {
	s, a := &c.s, r.args
	buf := machine.NewScratch(r.ws)
	planes, result := buf.Floats(c.planes*c.plane), buf.Floats(c.result)
	clear(planes[:s.PadBegin[0]*c.plane])
	clear(planes[(s.PadBegin[0]+s.In[0])*c.plane:])
	args := ConvArgs{Done: a.Done, Y: result, Packed: a.Packed, Bias: a.Bias}
	if s.Epilogue.Residual {
		args.Residual = result
	}
	for n := range s.Batch {
		err := vec.RunCopy(a.Done, c.gather, planes, s.PadBegin[0]*c.plane, a.X, n*s.In[0]*c.plane, threads)
		for z := 0; z < c.out[0] && err == nil && !machine.Closed(a.Done); z++ {
			at := n*s.OutC*c.outN + z*c.image.outN
			if s.Epilogue.Residual {
				err = vec.RunCopy(a.Done, c.take, result, 0, a.Residual, at, threads)
			}
			if err == nil {
				args.X = planes[z*s.Stride[0]*c.plane:][:s.Kernel[0]*c.plane]
				err = c.image.Run(args, buf.Rest, threads)
			}
			if err == nil {
				err = vec.RunCopy(a.Done, c.scatter, a.Y, at, result, 0, threads)
			}
		}
		if err != nil {
			panic(err) // sizes were checked
		}
	}
}

func (c *planesConv) task(*convRun, int, int) {}
