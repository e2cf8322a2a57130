package cpu

import (
	"slices"

	"github.com/berth-onnx/berth/internal/cpu/kern/gemm"
	"github.com/berth-onnx/berth/internal/cpu/kern/simd"
	"github.com/berth-onnx/berth/internal/cpu/kern/vec"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
)

// floatGates are the products with plain float weights W [D, G·H, I] and
// R [D, G·H, H]. Constant weights are packed; others are read where they are for
// the one input product, and transposed once a run for the recurrent ones.
type floatGates struct {
	k      *recurrent
	w      *gemm.Gemm
	packed *gemm.Packed // W of all directions
	parts  []gatePart

	hasBias       bool
	bias, recBias []float32 // of all directions, nil: from operand 3
	biasAt, recAt int       // workspace of those
	separate      int       // gates from here on have their recurrent bias in the product
	wsAt, rwsAt   int       // workspace of the products; the latter for each direction
	rws           int
	constR        bool
	dots          bool      // R is read row by row, as it is: few steps of a small batch
	transposedAt  int       // workspace: R as [D, H, G·H], if it is no constant
	transpose     *vec.Copy // to that
}

// fewSteps is up to how many steps transposing R costs more than it saves.
const fewSteps = 8

// gatePart is the product with some of the gates of R.
type gatePart struct {
	from, to int
	g        *gemm.Gemm
	packed   []*gemm.Packed // for each direction
}

// newFloatGates prepares the products. cuts splits the gates of R into parts; gates
// from separate on keep their recurrent bias separate from the input's.
func (p *prep) newFloatGates(k *recurrent, separate int, cuts ...int) (*floatGates, error) {
	width := k.gates * k.hidden
	if !p.gateShapes(k, width) {
		return nil, nil
	}
	f := &floatGates{k: k, hasBias: p.has(3), separate: separate, constR: p.isConst(2)}
	f.dots = !f.constR && k.batch <= maxFew && k.seq <= fewSteps
	k.adds = k.states == 2 && !f.dots && !k.lens && (k.batch == 1 || !k.batchFirst)
	if err := p.gateBias(f, width); err != nil {
		return nil, err
	}
	s := gemm.GemmSpec{M: k.seq * k.batch, N: k.dirs * width, K: k.input, TransB: true, Alpha: 1, ConstB: p.isConst(1), Shared: p.threads > 1}
	if f.hasBias {
		s.Epilogue.Bias = simd.BiasPerCol
	}
	var err error
	if f.w, err = gemm.NewGemm(s); err != nil {
		return nil, err
	}
	if s.ConstB {
		if f.packed, err = p.packB(f.w, 1, 0); err != nil {
			return nil, err
		}
	}
	f.wsAt = p.workspace(f.w.Workspace(p.threads))
	return f, f.prepareParts(p, cuts)
}

// gateShapes checks the weights and the bias.
func (p *prep) gateShapes(k *recurrent, width int) bool {
	return p.in[1].dt == ndarray.Float32 && p.in[2].dt == ndarray.Float32 &&
		slices.Equal(p.in[1].shape, []int{k.dirs, width, k.input}) &&
		slices.Equal(p.in[2].shape, []int{k.dirs, width, k.hidden}) &&
		(!p.has(3) || p.in[3].dt == ndarray.Float32 && p.in[3].n == k.dirs*2*width)
}

// gateBias computes the bias if it is a constant, else reserves workspace for it.
func (p *prep) gateBias(f *floatGates, width int) error {
	if !f.hasBias {
		return nil
	}
	b, err := p.floats(3)
	if err != nil {
		return err
	}
	n := f.k.dirs * width
	if b == nil {
		f.biasAt, f.recAt = p.workspace(4*n), p.workspace(4*n)
		return nil
	}
	f.bias, f.recBias = make([]float32, n), make([]float32, n)
	f.splitBias(b, f.bias, f.recBias)
	p.absorb(3, 8*n)
	return nil
}

// splitBias sums the input's and the recurrent bias of each direction; the
// recurrent bias of gates from separate on goes to rec.
func (f *floatGates) splitBias(b, bias, rec []float32) {
	width, first := f.k.gates*f.k.hidden, f.separate*f.k.hidden
	clear(rec)
	for d := range f.k.dirs {
		in, r := b[2*d*width:][:width], b[(2*d+1)*width:][:width]
		for i := range width {
			bias[d*width+i] = in[i]
			if i < first {
				bias[d*width+i] += r[i]
			} else {
				rec[d*width+i] = r[i]
			}
		}
	}
}

// prepareParts prepares the recurrent products.
func (f *floatGates) prepareParts(p *prep, cuts []int) error {
	k := f.k
	inner := max(1, p.threads/k.dirs)
	cuts = append(cuts, k.gates)
	from := 0
	for _, to := range cuts {
		s := gemm.GemmSpec{M: k.batch, N: (to - from) * k.hidden, K: k.hidden, TransB: f.constR, Alpha: 1, ConstB: f.constR, Shared: inner > 1}
		if !f.constR {
			s.LDB = k.gates * k.hidden
		}
		if k.adds {
			s.Beta, s.LDC = 1, k.dirs*k.gates*k.hidden
		}
		if f.hasBias && to > f.separate {
			s.Epilogue.Bias = simd.BiasPerCol
		}
		g, err := gemm.NewGemm(s)
		if err != nil {
			return err
		}
		part := gatePart{from: from, to: to, g: g}
		if f.constR {
			if part.packed, err = f.packParts(p, g, from); err != nil {
				return err
			}
		}
		f.parts = append(f.parts, part)
		f.rws = max(f.rws, g.Workspace(inner))
		from = to
	}
	if !f.constR && !f.dots {
		var err error
		if f.transpose, err = swapLast(k.dirs, k.gates*k.hidden, k.hidden); err != nil {
			return err
		}
		f.transposedAt = p.workspace(4 * k.dirs * k.gates * k.hidden * k.hidden)
	}
	f.rws = roundUp(f.rws, lineBytes)
	f.rwsAt = p.workspace(f.rws * k.dirs)
	return nil
}

// packParts packs the rows of R from a gate on, for every direction.
func (f *floatGates) packParts(p *prep, g *gemm.Gemm, from int) (out []*gemm.Packed, err error) {
	for d := range f.k.dirs {
		packed, err := p.packB(g, 2, (d*f.k.gates+from)*f.k.hidden*f.k.hidden)
		if err != nil {
			return nil, err
		}
		out = append(out, packed)
	}
	return out, nil
}

func (f *floatGates) input(c *ops.Call, gates []float32) error {
	n := f.k.dirs * f.k.gates * f.k.hidden
	args := gemm.GemmArgs{Done: c.Done(), A: f32(c.In[0]), C: gates, PackedB: f.packed, Bias: f.bias}
	if f.packed == nil {
		args.B = f32(c.In[1])
	}
	if f.hasBias && f.bias == nil {
		args.Bias = scratchOf[float32](c, f.biasAt, n)
		f.splitBias(f32(c.In[3]), args.Bias, scratchOf[float32](c, f.recAt, n))
	}
	if f.transpose != nil {
		if err := vec.RunCopy(c.Done(), f.transpose, scratchOf[float32](c, f.transposedAt, n*f.k.hidden), 0, f32(c.In[2]), 0, c.Threads); err != nil {
			return err
		}
	}
	if rows := f.k.seq * f.k.batch; f.packed == nil && rows <= maxFew {
		dotRows(gates, args.A, args.B, rows, 0, n, f.k.input, n, 1)
		f.addBias(gates, args.Bias, rows, n)
		return nil
	}
	return f.w.Run(args, c.Scratch[f.wsAt:], min(f.k.threads, c.Threads))
}

// addBias adds a bias, if there is one, to rows of n.
func (f *floatGates) addBias(dst, bias []float32, rows, n int) {
	for r := range rows {
		if f.hasBias {
			vec.Binary(simd.Add, dst[r*n:(r+1)*n], dst[r*n:(r+1)*n], bias)
		}
	}
}

func (f *floatGates) hidden(c *ops.Call, d, part int, h, rec []float32, st dirState) {
	p, k := &f.parts[part], f.k
	width := k.gates * k.hidden
	args := gemm.GemmArgs{Done: c.Done(), A: h, C: rec, Backwards: st.odd}
	n := (p.to - p.from) * k.hidden
	switch {
	case p.packed != nil:
		args.PackedB = p.packed[d]
	case f.dots:
		args.B = f32(c.In[2])[(d*width+p.from*k.hidden)*k.hidden:]
		dotRows(rec, h, args.B, k.batch, 0, n, k.hidden, n, 1)
	default:
		args.B = scratchOf[float32](c, f.transposedAt, k.dirs*width*k.hidden)[d*width*k.hidden+p.from*k.hidden:]
	}
	if f.hasBias && p.to > f.separate {
		bias := f.recBias
		if bias == nil {
			bias = scratchOf[float32](c, f.recAt, k.dirs*width)
		}
		args.Bias = bias[d*width+p.from*k.hidden:][:n]
		if f.dots {
			f.addBias(rec, args.Bias, k.batch, n)
		}
	}
	if f.dots {
		return
	}
	// The sizes were checked when the product was prepared; it cannot fail.
	_ = p.g.Run(args, c.Scratch[f.rwsAt+d*f.rws:][:f.rws], st.threads)
}
