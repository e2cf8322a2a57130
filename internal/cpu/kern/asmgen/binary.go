package main

import "github.com/mmcloughlin/avo/operand"

// Binary kernels in three forms: row by row, row by scalar, scalar by row.

type fun2 func(a, b vec) vec

func emitBinary(g *gen) {
	g.both(func() {
		op := func(emit func(d, a vec, b any)) fun2 {
			return func(a, b vec) vec { return g.set(emit, a, b) }
		}
		g.binary("Add", op(g.add))
		g.binary("Sub", op(g.sub))
		g.binary("Mul", op(g.mul))
		g.binary("Div", op(g.div))
		// The second operand wins when either is NaN; put a NaN first operand back.
		nan := func(emit func(d, a vec, b any)) fun2 {
			return func(a, b vec) vec {
				d := g.set(emit, a, b)
				return g.pick(g.cmp(cmpUnord, a, a), a, d)
			}
		}
		g.binary("Max", nan(g.max))
		g.binary("Min", nan(g.min))
		g.binary("PRelu", func(a, b vec) vec {
			d := g.set(g.mul, a, b)
			return g.pick(g.cmp(cmpLT, a, g.splat(0)), d, a)
		})
		g.ternary("MulAddRows", "is a·b + c.", func(a, b, c vec) vec {
			g.horner(a, b, c)
			return a
		})
		g.repeatEach()
		g.mulColumn()
	})
}

// mulColumn emits the product of a column and short rows, or one row: as many vectors for each number.
func (g *gen) mulColumn() {
	g.fn("rMulColumn", "(dst, column, x *float32, n, vectors, step int)", "multiplies each of n numbers by so many vectors of x, step bytes apart.")
	dst, column, x, n, vectors, step := g.arg("dst"), g.arg("column"), g.arg("x"), g.arg("n"), g.arg("vectors"), g.arg("step")
	product := func(p gp, i, off int) {
		s := g.to(g.VBROADCASTSS, at(column, 4*i))
		g.st(g.set(g.mul, s, at(p, 0)), at(dst, off))
	}
	g.CMPQ(vectors, operand.I32(1))
	g.JNE(operand.LabelRef("other"))
	g.loop("four", n, 4, func() {
		for i := range 4 {
			product(x, i, i*g.bytes())
			g.ADDQ(step, x)
		}
		g.advance(16, column)
		g.advance(4*g.bytes(), dst)
	})
	g.Label("other")
	left, p := g.GP64(), g.GP64()
	g.loop("number", n, 1, func() {
		g.MOVQ(vectors, left)
		g.MOVQ(x, p)
		g.loop("vector", left, 1, func() {
			product(p, 0, 0)
			g.advance(g.bytes(), p, dst)
		})
		g.advance(4, column)
		g.ADDQ(step, x)
	})
	g.ret()
}

// repeatEach emits the column of a broadcast over short rows, written out.
func (g *gen) repeatEach() {
	g.fn("rRepeatEach", "(dst, src *float32, n, times int)", "writes each of n numbers so many times.")
	dst, src, n, times := g.arg("dst"), g.arg("src"), g.arg("n"), g.arg("times")
	rest := g.GP64()
	g.CMPQ(times, operand.I32(g.isa.w))
	g.JNE(operand.LabelRef("other"))
	for i, u := range []int{4, 1} {
		g.loop([]string{"vectors", "vector"}[i], n, u, func() {
			for j := range u {
				v := g.v()
				g.VBROADCASTSS(at(src, 4*j), v)
				g.st(v, at(dst, j*g.bytes()))
			}
			g.advance(4*u, src)
			g.advance(u*g.bytes(), dst)
		})
	}
	g.Label("other") // of a vector each, none are left
	g.MOVQ(times, rest)
	g.ANDQ(operand.I32(g.isa.w-1), rest)
	m := g.tailOf(rest)
	left := g.GP64()
	g.loop("number", n, 1, func() {
		v := g.v()
		g.VBROADCASTSS(at(src, 0), v)
		g.MOVQ(times, left)
		g.loop("one", left, g.isa.w, func() {
			g.st(v, at(dst, 0))
			g.advance(g.bytes(), dst)
		})
		g.TESTQ(rest, rest)
		g.JZ(operand.LabelRef("whole"))
		g.stTail(v, at(dst, 0), m)
		g.LEAQ(indexed(dst, rest, 4), dst)
		g.Label("whole")
		g.advance(4, src)
	})
	g.ret()
}

func (g *gen) binary(name string, f fun2) {
	g.fn("vv"+name, "(dst, a, b *float32, n int)", "combines two rows.")
	dst, a, b, n := g.arg("dst"), g.arg("a"), g.arg("b"), g.arg("n")
	g.over(n, []gp{dst, a, b}, func(off int, m *mask) {
		g.put(f(g.get(a, off, m), g.get(b, off, m)), dst, off, m)
	})
	g.ret()
	g.fn("vs"+name, "(dst, a *float32, s float32, n int)", "combines a row with a scalar.")
	dst, a, n = g.arg("dst"), g.arg("a"), g.arg("n")
	s := g.argVec("s")
	g.over(n, []gp{dst, a}, func(off int, m *mask) { g.put(f(g.get(a, off, m), s), dst, off, m) })
	g.ret()
	g.fn("sv"+name, "(dst *float32, s float32, b *float32, n int)", "combines a scalar with a row.")
	dst, b, n = g.arg("dst"), g.arg("b"), g.arg("n")
	s = g.argVec("s")
	g.over(n, []gp{dst, b}, func(off int, m *mask) { g.put(f(s, g.get(b, off, m)), dst, off, m) })
	g.ret()
}

func (g *gen) ternary(name, doc string, f func(a, b, c vec) vec) {
	g.fn("v"+name, "(dst, a, b, c *float32, n int)", doc)
	dst, a, b, c, n := g.arg("dst"), g.arg("a"), g.arg("b"), g.arg("c"), g.arg("n")
	g.over(n, []gp{dst, a, b, c}, func(off int, m *mask) {
		g.put(f(g.get(a, off, m), g.get(b, off, m), g.get(c, off, m)), dst, off, m)
	})
	g.ret()
}

// over runs body over n lanes: four vectors a round, then one, then the rest
// masked. The pointers advance with it.
func (g *gen) over(n gp, ps []gp, body func(off int, m *mask)) {
	for i, u := range []int{4, 1} {
		g.loop([]string{"wide", "one"}[i], n, u*g.isa.w, func() {
			for j := range u {
				body(j*g.bytes(), nil)
			}
			g.advance(u*g.bytes(), ps...)
		})
	}
	g.rest(n, func(m *mask) { body(0, m) })
}

// rest runs body for the last n lanes, n below a vector, unless there are none.
func (g *gen) rest(n gp, body func(m *mask)) {
	g.TESTQ(n, n)
	g.JZ(operand.LabelRef("done"))
	m := g.tailOf(n)
	body(&m)
	g.Label("done")
}

func (g *gen) get(p gp, off int, m *mask) vec {
	if m != nil {
		return g.ldTail(at(p, off), *m)
	}
	return g.ld(at(p, off))
}

func (g *gen) put(v vec, p gp, off int, m *mask) {
	if m != nil {
		g.stTail(v, at(p, off), *m)
		return
	}
	g.st(v, at(p, off))
}
