package oracle

import (
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ssa"
)

var sumDrawers = []drawer{
	{"MatMul", func(d *dice, _ string) opCase {
		m, k, n := d.size(), d.size(), d.size()
		batch := d.full(0, 2)
		a, b := append(append([]int{}, batch...), m, k), append(d.partner(batch), k, n)
		if d.chance(0.15) {
			a = []int{k}
		}
		if d.chance(0.15) {
			b = []int{k}
		}
		return opCase{in: []arg{f32s(a...), d.fixed(f32s(b...))}, tol: 1e-5}
	}},
	{"Gemm ms:FusedGemm", func(d *dice, op string) opCase {
		m, k, n := d.size(), d.size(), d.size()
		ta, tb := d.Intn(2), d.Intn(2)
		kase := opCase{in: []arg{turned(m, k, ta), d.fixed(turned(k, n, tb))}, tol: 1e-5, attrs: append(
			d.some(ssa.FloatAttr("alpha", 0.5), ssa.FloatAttr("beta", 1.5)), ssa.IntAttr("transA", int64(ta)), ssa.IntAttr("transB", int64(tb)))}
		if d.chance(0.7) {
			kase.in = append(kase.in, d.fixed(f32s(pick(d.Rand, []int{m, n}, []int{n}, []int{1, n}, []int{m, 1}, []int{1}, []int{})...)))
		}
		if op == "FusedGemm" {
			kase.attrs = append(kase.attrs, strs("activation", pick(d.Rand, "Relu", "Sigmoid", "Tanh", "LeakyRelu"))...)
		}
		return kase
	}},
	{"ms:FusedMatMul ms:TransposeMatMul ms:FusedMatMulActivation", func(d *dice, op string) opCase {
		m, k, n := d.size(), d.size(), d.size()
		ta, tb := d.Intn(2), d.Intn(2)
		kase := opCase{in: []arg{turned(m, k, ta), d.fixed(turned(k, n, tb))}, tol: 1e-5, attrs: append(
			d.some(ssa.FloatAttr("alpha", 0.5)), ssa.IntAttr("transA", int64(ta)), ssa.IntAttr("transB", int64(tb)))}
		if op == "FusedMatMulActivation" {
			kase.attrs = append(kase.attrs, strs("activation", pick(d.Rand, "Relu", "Sigmoid", "Tanh"))...)
		}
		return kase
	}},
	{"ms:GemmFastGelu", func(d *dice, _ string) opCase {
		m, k, n := d.size(), d.size(), d.size()
		kase := opCase{in: []arg{f32s(m, k), d.fixed(f32s(k, n))}, tol: 1e-5}
		if d.chance(0.5) {
			kase.in = append(kase.in, d.fixed(f32s(n)))
		}
		return kase
	}},
	{"Einsum", func(d *dice, _ string) opCase {
		return einsumCase(pick(d.Rand, "ij->ji", "abci->caib", "ik,kj->ij", "ki,kj->ij", "ik,kj->ji", "bik,bkj->bij", "aibk,ajbk->abij", "i,j->ij", "ik,k->i", "bi,bi->b", "abk,k->ab", "ij,ij->ij"), d.chance(0.5))
	}},
	{"ReduceSum ReduceMean ReduceMax ReduceMin ReduceProd ReduceL1 ReduceL2 ReduceSumSquare ReduceLogSum ReduceLogSumExp", func(d *dice, op string) opCase {
		s := d.shape(0, 4)
		var axes []int64
		for _, a := range d.Perm(len(s))[:d.Intn(len(s)+1)] {
			axes = append(axes, int64(a-len(s)*d.Intn(2)))
		}
		x := tensor(d.float(), s...).between(0.1, 2)
		if (op == "ReduceMax" || op == "ReduceMin") && d.chance(0.3) {
			x = tensor(pick(d.Rand, ndarray.Int64, ndarray.Int32, ndarray.Uint8), s...)
		}
		return opCase{in: []arg{x, ints(axes...)}, attrs: d.some(d.flag("keepdims"), d.flag("noop_with_empty_axes")), tol: 2e-5}
	}},
	{"Softmax LogSoftmax", func(d *dice, _ string) opCase {
		s := d.shape(1, 4)
		x := f32s(s...).between(-9, 9)
		if d.chance(0.3) {
			x = x.odd()
		}
		return opCase{in: []arg{x}, attrs: d.some(axisAttr(d.axis(len(s)))...), tol: 2e-6}
	}},
	{"ArgMax ArgMin", func(d *dice, _ string) opCase {
		s := d.full(1, 4)
		return opCase{in: []arg{d.ties(s)}, attrs: d.some(ssa.IntAttr("axis", d.axis(len(s))), d.flag("keepdims"), d.flag("select_last_index"))}
	}},
	{"TopK", func(d *dice, _ string) opCase {
		s := d.full(1, 3)
		a := d.axis(len(s))
		return opCase{in: []arg{d.ties(s), ints(int64(d.Intn(at(s, a) + 1)))}, outs: 2, attrs: append(axisAttr(a), d.some(d.flag("largest"))...)}
	}},
	{"CumSum", func(d *dice, _ string) opCase {
		s := d.shape(1, 4)
		return opCase{in: []arg{tensor(pick(d.Rand, ndarray.Float32, ndarray.Float64, ndarray.Int64, ndarray.Int32), s...), scalarOf(ndarray.Int64, float64(d.axis(len(s))))},
			attrs: d.some(d.flag("exclusive"), d.flag("reverse")), tol: 1e-5}
	}},
	{"QuantizeLinear DequantizeLinear", func(d *dice, op string) opCase {
		s := d.shape(1, 4)
		a, dt := d.axis(len(s)), pick(d.Rand, u8, i8, ndarray.Uint16, ndarray.Int16)
		per := []int{}
		if d.chance(0.5) {
			per = []int{at(s, a)}
		}
		x := f32s(s...).between(-5, 5)
		if op == "DequantizeLinear" {
			x = tensor(dt, s...)
		}
		return opCase{in: []arg{x, d.fixed(scaleOf(per...)), d.fixed(tensor(dt, per...).between(0, 50))}, attrs: axisAttr(a)}
	}},
	{"DynamicQuantizeLinear", func(d *dice, _ string) opCase { return opCase{in: []arg{f32s(d.full(0, 3)...)}, outs: 3} }},
	{"MatMulInteger", func(d *dice, _ string) opCase {
		m, k, n, a, b := d.size(), d.size(), d.size(), pick(d.Rand, u8, i8), pick(d.Rand, u8, i8)
		kase := opCase{in: []arg{tensor(a, m, k), d.fixed(tensor(b, k, n))}}
		if d.chance(0.6) {
			kase.in = append(kase.in, tensor(a, pick(d.Rand, []int{}, []int{m})...), tensor(b, pick(d.Rand, []int{}, []int{n})...))
		}
		return kase
	}},
	{"ms:MatMulNBits", func(d *dice, _ string) opCase {
		m, k, n, bits, block := d.size(), d.size(), d.size(), pick(d.Rand, 2, 4, 8), pick(d.Rand, 16, 32)
		blocks := (k + block - 1) / block
		kase := opCase{in: []arg{f32s(m, k), d.fixed(tensor(u8, n, blocks, block*bits/8).between(0, 256)), f32s(n*blocks).between(0.01, 0.1).c()}, tol: 1e-3,
			attrs: []ssa.Attr{ssa.IntAttr("N", int64(n)), ssa.IntAttr("K", int64(k)), ssa.IntAttr("bits", int64(bits)), ssa.IntAttr("block_size", int64(block))}}
		if d.chance(0.5) {
			kase.in = append(kase.in, pick(d.Rand, f32s(n*blocks).c(), tensor(u8, n*((blocks*bits+7)/8)).between(0, 256).c()))
		}
		return kase
	}},
	{"QLinearMatMul", func(d *dice, _ string) opCase {
		m, k, n, a, b := d.size(), d.size(), d.size(), pick(d.Rand, u8, i8), pick(d.Rand, u8, i8)
		return opCase{in: []arg{tensor(a, m, k), scaleOf(), tensor(a), d.fixed(tensor(b, k, n)), scaleOf(), tensor(b), scaleOf().between(1, 9), tensor(a)}}
	}},
	{"ms:QLinearAdd", func(d *dice, _ string) opCase { // scales are powers of two: factors are exact
		a, b := d.pair()
		if d.chance(0.7) {
			b = a
		}
		dt, scale := pick(d.Rand, u8, i8), func() arg { return scalarOf(ndarray.Float32, pick(d.Rand, 0.125, 0.5, 1, 2)) }
		return opCase{in: []arg{tensor(dt, a...), scale(), tensor(dt), tensor(dt, b...), scale(), pick(d.Rand, absent, tensor(dt)), scale(), tensor(dt)}}
	}},
}

// size is a dimension of a product, with vectors and tails.
func (d *dice) size() int { return pick(d.Rand, 1, 2, 3, 7, 16, 17, 33, 40) }

// turned is a matrix of m rows, transposed if trans is not 0.
func turned(m, n, trans int) arg {
	if trans != 0 {
		m, n = n, m
	}
	return f32s(m, n)
}

// ties is a tensor of few different elements.
func (d *dice) ties(s []int) arg {
	dt := pick(d.Rand, ndarray.Float32, ndarray.Float64, ndarray.Int64, ndarray.Int32)
	k := tensor(dt, s...)
	if dt.IsFloat() {
		return k.odd()
	}
	return k.between(0, 5)
}
