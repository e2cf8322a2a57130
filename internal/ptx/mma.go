package ptx

import (
	"encoding/binary"
	"strings"
)

// Products of small matrices by a whole warp: mma.sync.m16n8kK. Each lane holds a few elements of every matrix. With g = lane/4 and
// t = lane%4, and p elements in a register of 32 bits (1 tf32, 2 halves, 4 bytes):
//
//	A, 16×K  register r, element i:   row g + 8(r%2),  column p·t + i + 4p(r/2)
//	B, K×8   register r, element i:   row p·t + i + 4p·r,  column g
//	C, 16×8  element e of a row's 2:  row g + 8(e/2),  column 2t + e%2
//
// which is one rule for all the figures of https://docs.nvidia.com/cuda/archive/12.1.1/parallel-thread-execution/index.html (Matrix
// Fragments for mma). PTX leaves open how the products of floats are summed; here in float64, rounded once.

// matrixShape is a shape of mma with its types.
type matrixShape struct {
	k             int
	a, b, sum     Type
	perRegister   int
	isSaturated   bool
	d, ra, rb, rc []int32
}

// compileMatrixProduct compiles mma.sync.
func compileMatrixProduct(o *operation) {
	o.flag("sync")
	o.flag("aligned")
	shape := o.one("m16n8k4", "m16n8k8", "m16n8k16", "m16n8k32")
	if shape == "" {
		o.fail("the shape is not executed here")
		return
	}
	o.flag("row")
	o.flag("col")
	x := &matrixShape{k: map[string]int{"k4": 4, "k8": 8, "k16": 16, "k32": 32}[shape[strings.LastIndexByte(shape, 'k'):]]}
	x.isSaturated = o.flag("satfinite")
	x.sum = o.typ()
	x.a, x.b = o.typ(), o.typ()
	if c := o.typ(); c != x.sum {
		o.fail("sums of type .%s and .%s", x.sum, c)
	}
	o.only(x.a, TF32, F16, BF16, U8, S8)
	o.only(x.sum, F32, F16, S32)
	if o.err != nil {
		return
	}
	x.perRegister = 4 / x.a.Size()
	if x.a.Size() != x.b.Size() || x.k != 4*x.perRegister && x.k != 8*x.perRegister || x.a.isFloat() != x.sum.isFloat() {
		o.fail("the shape does not go with the types")
	}
	if o.want(4); o.err != nil { // the numbers of registers follow from shape and types
		return
	}
	sums := 4
	if x.sum == F16 {
		sums = 2
	}
	x.d = o.fragment(0, sums, true)
	x.ra = o.fragment(1, x.k/x.perRegister/2, false)
	x.rb = o.fragment(2, x.k/x.perRegister/4, false)
	x.rc = o.fragment(3, sums, false)
	o.step.class = TensorClass
	o.step.flops = 2 * 16 * 8 * x.k / 32
	o.step.exec = x.run
}

// fragment lists the n registers of an operand.
func (o *operation) fragment(i, n int, isResult bool) (out []int32) {
	a := o.arg(i)
	elems := a.Elems
	if a.Kind != vectorOperand {
		elems = []Operand{a}
	}
	if len(elems) != n {
		o.fail("operand %d has %d registers, %d are expected", i+1, len(elems), n)
	}
	for _, e := range elems {
		if isResult {
			out = append(out, o.dstOf(e, B32, false))
		} else {
			out = append(out, o.srcOf(e, B32, false))
		}
	}
	return out
}

func (x *matrixShape) run(w *warp, f *frame, m uint32) {
	if m != allLanes {
		w.report(Divergence, firstLane(m), "%d lanes take part in a product of a whole warp", lanesOf(m))
		return
	}
	var a [16][32]float64
	var b [32][8]float64
	p := x.perRegister
	for l := range 32 {
		g, t := l/4, l%4
		for r, k := range x.ra {
			for i := range p {
				a[g+8*(r%2)][p*t+i+4*p*(r/2)] = element(x.a, f.v[k][l], i)
			}
		}
		for r, k := range x.rb {
			for i := range p {
				b[p*t+i+4*p*r][g] = element(x.b, f.v[k][l], i)
			}
		}
	}
	for l := range 32 {
		g, t := l/4, l%4
		for e := range 4 {
			row, col := g+8*(e/2), 2*t+e%2
			s := 0.0
			for k := range x.k {
				s += a[row][k] * b[k][col]
			}
			x.add(f, l, e, s)
		}
	}
}

// element decodes element i of a register. Whole numbers of 8 bits are exact as floats.
func element(t Type, u uint64, i int) float64 {
	switch t {
	case TF32:
		return single.decode(u &^ (1<<13 - 1))
	case S8:
		return float64(int8(u >> (8 * i)))
	case U8:
		return float64(uint8(u >> (8 * i)))
	}
	return formats[t].decode(u >> (16 * i) & (1<<16 - 1))
}

// add adds a product to the lane's element e of C, and stores it in D.
func (x *matrixShape) add(f *frame, l, e int, s float64) {
	nearest := style{mode: toNearest}
	switch x.sum {
	case F32:
		f.v[x.d[e]][l] = nearest.finish(F32, s+single.decode(f.v[x.rc[e]][l]))
	case F16:
		shift := 16 * (e % 2)
		old := f.v[x.rc[e/2]][l]
		v := nearest.finish(F16, s+half.decode(old>>shift&(1<<16-1)))
		d := f.v[x.d[e/2]]
		d[l] = d[l]&^(uint64(1<<16-1)<<shift) | v<<shift
	default:
		v := int64(s) + int64(int32(f.v[x.rc[e]][l]))
		if x.isSaturated {
			v = min(max(v, -1<<31), 1<<31-1)
		}
		f.v[x.d[e]][l] = uint64(uint32(v))
	}
}

// compileMatrixLoad compiles ldmatrix: 8×8 matrices of 16-bit elements from shared memory, the rows of matrix i at the addresses
// of lanes 8i to 8i+7; every lane gets two neighbours of row lane/4, or of column lane/4.
func compileMatrixLoad(o *operation) {
	for _, name := range []string{"sync", "aligned", "m8n8", "b16", "cta"} {
		o.flag(name)
	}
	count := o.one("x1", "x2", "x4")
	isTransposed := o.flag("trans")
	space := o.space()
	if count == "" {
		o.fail("the number of matrices is missing")
		return
	}
	o.want(2)
	n := int(count[1] - '0')
	d := o.fragment(0, n, true)
	access := accessTo(space, 16, Read)
	p := o.pointer(1, &access)
	o.step.class = MemoryClass
	o.step.exec = func(w *warp, f *frame, m uint32) {
		if m != allLanes {
			w.report(Divergence, firstLane(m), "%d lanes take part in a load by a whole warp", lanesOf(m))
			return
		}
		base := p.base(w, f)
		for i, k := range d {
			var rows [8][8]uint16
			for r := range rows {
				if from := w.at(f, access, 8*i+r, p.of(base, f, 8*i+r)); from != nil {
					for c := range rows[r] {
						rows[r][c] = binary.LittleEndian.Uint16(from[2*c:])
					}
				}
			}
			for l := range 32 {
				r, c := l/4, l%4*2
				if isTransposed {
					f.v[k][l] = uint64(rows[c][r]) | uint64(rows[c+1][r])<<16
				} else {
					f.v[k][l] = uint64(rows[r][c]) | uint64(rows[r][c+1])<<16
				}
			}
		}
	}
}
