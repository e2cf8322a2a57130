package cpu

import (
	"slices"
	"unsafe"

	"github.com/berth-onnx/berth/internal/cpu/kern/gemm"
	"github.com/berth-onnx/berth/internal/cpu/kern/simd"
	"github.com/berth-onnx/berth/internal/cpu/kern/vec"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
)

var quantRecurrentOps = []entry{
	{domain: microsoft, op: "DynamicQuantizeLSTM", prepare: prepareDynamicQuantizeLSTM},
}

// quantGates are the products with 8-bit weights W [D, I, G·H] and R [D, H, G·H].
// What they are multiplied by, X once and H in every step, is quantized to bytes
// by its own range:
//
//	X·W = (quantize(X) − zx)·(W − zw) · sx·sw
type quantGates struct {
	k        *recurrent
	w, r     quantMatrix
	bias     []float32 // of all directions, nil: from operand 3
	hasBias  bool
	biasAt   int
	xAt      int // workspace: X in bytes
	dirAt    int // of each direction: H in bytes, sums
	dirBytes int
}

// quantMatrix is a stack of quantized weights, one for each direction.
type quantMatrix struct {
	rows, cols, stack int
	g                 *gemm.IntGemm
	packed            []*gemm.Packed
	at, scale         int // operand positions of the weights and their scales
	scales            int // of one direction: 1 or cols
	zeros             []int32
	ws, wsBytes       int // workspace of the product, for each direction
	za                int // workspace of the zero point, a line for each direction
}

func prepareDynamicQuantizeLSTM(p *prep) (ops.Kernel, error) {
	k := p.newRecurrent(4, 2, "Sigmoid", "Tanh", "Tanh")
	if k == nil {
		return nil, nil
	}
	k.hidden = p.in[2].shape[1]
	q, err := p.newQuantGates(k)
	if q == nil || err != nil {
		return nil, err
	}
	return p.lstm(k, q), nil
}

// newQuantGates prepares the products; nil unless the weights are constants of
// types and shapes there is code for.
func (p *prep) newQuantGates(k *recurrent) (*quantGates, error) {
	width := k.gates * k.hidden
	q := &quantGates{k: k, hasBias: p.has(3)}
	if q.hasBias && (p.in[3].dt != ndarray.Float32 || p.in[3].n != 2*k.dirs*width) {
		return nil, nil
	}
	q.w = quantMatrix{rows: k.input, cols: width, stack: k.dirs, at: 1, scale: 8}
	q.r = quantMatrix{rows: k.hidden, cols: width, stack: k.dirs, at: 2, scale: 10}
	for i, m := range []*quantMatrix{&q.w, &q.r} {
		batch, threads := k.batch, max(1, p.threads/k.dirs)
		if i == 0 {
			batch, threads = k.seq*k.batch, p.threads
		}
		if ok, err := p.quantMatrix(m, batch, threads); !ok || err != nil {
			return nil, err
		}
	}
	b, err := p.floats(3)
	if err != nil {
		return nil, err
	}
	if b != nil {
		q.bias = make([]float32, k.dirs*width)
		q.sumBias(b, q.bias)
		p.absorb(3, 4*len(q.bias))
	} else if q.hasBias {
		q.biasAt = p.workspace(4 * k.dirs * width)
	}
	q.xAt = p.workspace(p.in[0].n)
	sums := 4 * k.batch * width
	q.dirBytes = roundUp(k.batch*k.hidden, lineBytes) + roundUp(sums, lineBytes)
	q.dirAt = p.workspace(q.dirBytes*k.dirs + 4*k.seq*k.batch*width)
	return q, nil
}

// sumBias adds the input's and the recurrent bias.
func (q *quantGates) sumBias(b, sum []float32) {
	width := q.k.gates * q.k.hidden
	for d := range q.k.dirs {
		vec.Binary(simd.Add, sum[d*width:][:width], b[2*d*width:][:width], b[(2*d+1)*width:][:width])
	}
}

// quantMatrix packs the weights of a matrix; ok is false if they are no constants,
// or their shapes do not fit.
func (p *prep) quantMatrix(m *quantMatrix, batch, threads int) (ok bool, err error) {
	w := p.in[m.at]
	zero := m.scale + 1
	if !w.dt.IsByte() || !slices.Equal(w.shape, []int{m.stack, m.rows, m.cols}) || !p.has(m.scale) || !p.isConst(zero) ||
		!p.isConst(m.at) || p.in[m.scale].dt != ndarray.Float32 || p.in[zero].dt != w.dt || p.in[zero].n != p.in[m.scale].n {
		return false, nil
	}
	switch p.in[m.scale].n {
	case m.stack:
		m.scales = 1
	case m.stack * m.cols:
		m.scales = m.cols
	default:
		return false, nil
	}
	z, err := p.constant(zero)
	if err != nil {
		return false, err
	}
	m.zeros = make([]int32, z.Len())
	widen(m.zeros, z)
	m.g, err = gemm.NewIntGemm(gemm.IntGemmSpec{M: batch, N: m.cols, K: m.rows, BSigned: w.dt == ndarray.Int8, ConstB: true})
	if err != nil {
		return false, err
	}
	for d := range m.stack {
		packed, err := p.packBytes(m.g, m.at, d*m.rows*m.cols, m.rows*m.cols)
		if err != nil {
			return false, err
		}
		m.packed = append(m.packed, packed)
	}
	m.wsBytes = roundUp(m.g.Workspace(threads), lineBytes)
	m.ws, m.za = p.workspace(m.wsBytes*m.stack), p.workspace(lineBytes*m.stack)
	return true, nil
}

// quantizeByRange quantizes x by its own range.
func quantizeByRange(dst []byte, x []float32) (scale float32, zero byte) {
	lo, hi := rangeOf(x)
	pair := [2]float32{lo, hi}
	scale, zero = rangeScale(pair[:])
	vec.Quantize(dst, x, false, scale, int32(zero))
	return scale, zero
}

// product writes the sums of the products of rows of bytes, whose zero point is zero,
// with matrix d.
func (m *quantMatrix) product(c *ops.Call, d int, bytes []byte, zero byte, acc []int32, threads int) {
	za := scratchOf[int32](c, m.za+d*lineBytes, 1)
	za[0] = int32(zero)
	args := gemm.IntGemmArgs{Done: c.Done(), A: bytes, PackedB: m.packed[d], C: acc, ZA: za, ZB: m.zeros[d*m.scales:][:m.scales]}
	// The sizes were checked when the product was prepared; it cannot fail.
	_ = m.g.Run(args, c.Scratch[m.ws+d*m.wsBytes:][:m.wsBytes], threads)
}

// rescale writes a row of sums as floats, plus a bias or nothing. It uses the sums
// up.
func (m *quantMatrix) rescale(c *ops.Call, d int, dst []float32, acc []int32, scale float32, bias []float32) {
	s := f32(c.In[m.scale])[d*m.scales:][:m.scales]
	if acc = acc[:len(dst)]; m.scales == 1 {
		vec.IntToFloat(dst, acc, scale*s[0])
	} else {
		sums := unsafe.Slice((*float32)(unsafe.Pointer(unsafe.SliceData(acc))), len(acc))
		vec.IntToFloat(sums, acc, 1)
		vec.BinaryScalar(simd.Mul, dst, s, scale)
		vec.Binary(simd.Mul, dst, dst, sums)
	}
	if bias != nil {
		vec.Binary(simd.Add, dst, dst, bias)
	}
}

func (q *quantGates) input(c *ops.Call, gates []float32) error {
	k := q.k
	width, rows := k.gates*k.hidden, k.seq*k.batch
	bias := q.bias
	if q.hasBias && bias == nil {
		bias = scratchOf[float32](c, q.biasAt, k.dirs*width)
		q.sumBias(f32(c.In[3]), bias)
	}
	x := f32(c.In[0])
	bytes := scratchOf[byte](c, q.xAt, len(x))
	scale, zero := quantizeByRange(bytes, x)
	acc := scratchOf[int32](c, q.dirAt+q.dirBytes*k.dirs, rows*width)
	for d := range k.dirs {
		q.w.product(c, d, bytes, zero, acc, min(k.threads, c.Threads))
		for r := range rows {
			var b []float32
			if bias != nil {
				b = bias[d*width:][:width]
			}
			q.w.rescale(c, d, gates[(r*k.dirs+d)*width:][:width], acc[r*width:], scale, b)
		}
	}
	return nil
}

func (q *quantGates) hidden(c *ops.Call, d, _ int, h, rec []float32, st dirState) {
	k := q.k
	at, width := q.dirAt+d*q.dirBytes, k.gates*k.hidden
	bytes := scratchOf[byte](c, at, len(h))
	acc := scratchOf[int32](c, at+roundUp(len(h), lineBytes), k.batch*width)
	scale, zero := quantizeByRange(bytes, h)
	q.r.product(c, d, bytes, zero, acc, st.threads)
	for b := range k.batch {
		q.r.rescale(c, d, rec[b*width:][:width], acc[b*width:], scale, nil)
	}
}
