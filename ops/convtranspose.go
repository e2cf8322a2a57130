package ops

import (
	"fmt"

	"github.com/berth-onnx/berth/ssa"
)

// ConvTranspose is the transpose of convolution: every input element adds its
// weighted kernel to the output. https://onnx.ai/onnx/operators/onnx__ConvTranspose.html
//
//	Y[n,m,i*stride + k*dilation - pad] += X[n,c,i] * W[c,m,k]      then + B[m]
//
// It is computed as cols = Wᵀ·X, one column per input position, whose rows are
// then added where the windows of the corresponding convolution would read.
var ConvTranspose = Op{
	Name: "ConvTranspose", Since: 22, Form: bf16Since22(1), Doc: "Y = Wᵀ * X + B, the transpose of convolution",
	MinIn: 2, MaxIn: 3, MinOut: 1, MaxOut: 1,
	Attrs: append([]AttrSpec{intsAttr("output_padding"), intsAttr("output_shape")}, convAttrs...),
	Infer: inferConvTranspose,
	Eval:  floatKernel(evalConvTranspose[float32], evalConvTranspose[float64]),
	Facts: Facts{Traits: ignoring, Linear: convTransposeLinear, Cost: convTransposeCost},
}

// growth is the geometry of a transposed convolution: the window of the
// convolution that maps the output back to the input.
type growth struct {
	win         window
	extra, want []int // output_padding; output_shape or nil
}

func growthOf(n *ssa.Node, kernel []int) (growth, error) {
	g := growth{}
	var err error
	if g.win, err = windowOf(n, kernel); err != nil {
		return g, err
	}
	if g.extra, err = smallInts(n, "output_padding", len(kernel), 0, 0); err != nil {
		return g, err
	}
	if len(Ints(n, "output_shape")) > 0 {
		g.want, err = smallInts(n, "output_shape", len(kernel), 0, 0)
	}
	return g, err
}

// outDim is the symbolic size of output dimension i.
func (g *growth) outDim(i int, in ssa.Dim) ssa.Dim {
	w := &g.win
	same := w.auto == "SAME_UPPER" || w.auto == "SAME_LOWER"
	switch {
	case g.want != nil:
		return ssa.D(int64(g.want[i]))
	case same:
		return in.MulN(int64(w.strides[i]))
	}
	return g.full(i, in).AddN(int64(-w.begin[i] - w.end[i]))
}

// full is the size before padding is cut off.
func (g *growth) full(i int, in ssa.Dim) ssa.Dim {
	return in.AddN(-1).MulN(int64(g.win.strides[i])).AddN(int64(g.extra[i] + g.win.extent(i)))
}

// bind fixes the input's spatial sizes; the window then maps output to input.
func (g *growth) bind(in []int) {
	w := &g.win
	if len(in) != len(w.kernel) {
		failf("the input has %d spatial dimensions, the kernel %d", len(in), len(w.kernel))
	}
	w.out, w.in = in, make([]int, len(in))
	begin, end := make([]int, len(in)), make([]int, len(in))
	copy(begin, w.begin)
	copy(end, w.end)
	for i, size := range in {
		d := ssa.D(int64(size))
		o, known := g.outDim(i, d).Const()
		if !known || o < 0 {
			failf("spatial dimension %d of %d gives an output of %d elements", i, size, o)
		}
		w.in[i] = int(o)
		if g.want == nil && w.auto != "SAME_UPPER" && w.auto != "SAME_LOWER" {
			continue
		}
		f, _ := g.full(i, d).Const()
		total := max(int(f)-w.in[i], 0)
		begin[i] = total - total/2
		if w.auto == "SAME_UPPER" {
			begin[i] = total / 2
		}
		end[i] = total - begin[i]
	}
	w.begin, w.end = begin, end
}

func inferConvTranspose(n *ssa.Node) ([]Inferred, error) {
	x, w := InType(n, 0), InType(n, 1)
	rank := max(x.Rank(), w.Rank())
	if rank < 0 {
		return One(ssa.UnrankedTensor(x.DType)), nil
	}
	if rank < 3 || x.Ranked && w.Ranked && x.Rank() != w.Rank() {
		return nil, fmt.Errorf("data %s and weights %s; both must have batch, channel and the same number of spatial dimensions", x, w)
	}
	out := make([]ssa.Dim, rank)
	if w.Ranked {
		out[1] = w.Shape[1].MulN(Int(n, "group"))
	}
	if !x.Ranked {
		return One(ssa.TensorOf(x.DType, out...)), nil
	}
	out[0] = x.Shape[0]
	kernel, err := inferKernel(n, w, rank-2)
	if err != nil || kernel == nil {
		return One(ssa.TensorOf(x.DType, out...)), err
	}
	g, err := growthOf(n, kernel)
	if err != nil {
		return nil, err
	}
	for i := range kernel {
		out[2+i] = g.outDim(i, x.Shape[2+i])
	}
	return One(ssa.TensorOf(x.DType, out...)), nil
}

func evalConvTranspose[T float32 | float64](c *Call) {
	x, w, b := tensor(c, 0), tensor(c, 1), c.Array(2)
	group := int(Int(c.Node, "group"))
	if x.Rank() < 3 || w.Rank() != x.Rank() || group < 1 || x.Shape[1] != w.Shape[0] || w.Shape[0]%group != 0 {
		failf("data %v and weights %v with group=%d do not fit", x.Shape, w.Shape, group)
	}
	checkKernel(c.Node, w.Shape[2:])
	g := try(growthOf(c.Node, w.Shape[2:]))
	g.bind(x.Shape[2:])
	s := convShape{win: g.win, group: group, n: x.Shape[0], c: x.Shape[1], m: w.Shape[1] * group}
	wantLen("bias", b, s.m)
	y := newResult[T](c, 0, x.DType, append([]int{s.n, s.m}, s.win.in...)...)
	fillBias(y.V, elements[T](b), s.m, sizeOf(s.win.in))
	convolveBack(&s, elements[T](x), elements[T](w), y.V)
	y.store()
}

// convolveBack adds the transposed convolution of X to Y. The window's in is Y's
// spatial shape, its out X's.
func convolveBack[T productNum](s *convShape, x, w, y []T) {
	yPlane, xPlane := sizeOf(s.win.in), sizeOf(s.win.out)
	cg, mg := s.c/s.group, s.m/s.group
	rows := mg * s.win.taps()
	if len(y) == 0 || len(x) == 0 || rows == 0 {
		return
	}
	step := max(1, min(s.win.lines(), colBudget/(rows*s.win.lineLen())))
	cols := make([]T, rows*step*s.win.lineLen())
	for g := range s.group {
		wt := transposed(cg, rows, w[g*cg*rows:][:cg*rows])
		for i := range s.n {
			xg := x[(i*s.c+g*cg)*xPlane:][:cg*xPlane]
			yg := y[(i*s.m+g*mg)*yPlane:][:mg*yPlane]
			for from := 0; from < s.win.lines(); from += step {
				to := min(from+step, s.win.lines())
				width := (to - from) * s.win.lineLen()
				part := cols[:rows*width]
				clear(part)
				matMulAdd(rows, width, cg, wt, cg, xg[from*s.win.lineLen():], xPlane, part, width)
				rollUp(&s.win, part, mg, from, to, yg)
			}
		}
	}
}

// rollUp adds cols, laid out like unroll writes them, to m planes of y.
func rollUp[T productNum](w *window, cols []T, m, from, to int, y []T) {
	taps, plane, stride := w.taps(), sizeOf(w.in), w.strides[len(w.strides)-1]
	width := (to - from) * w.lineLen()
	w.eachRun(from, to, func(tap, o, at, n int) {
		for ch := range m {
			src := cols[(ch*taps+tap)*width+o:][:n]
			dst := y[ch*plane+at:]
			for j, v := range src {
				dst[j*stride] += v
			}
		}
	})
}
