package main

import "github.com/mmcloughlin/avo/operand"

// The softmax of columns: rows of two vectors lie one after the other, and columns are what is summed up over. So no lanes
// are combined, and rows need no masks.
//
//	       ┌────────┬────────┐
//	x rows │   v0   │   v1   │   vectors: 1 where only the first has columns that count
//	       └────────┴────────┘

func emitColumns(g *gen) {
	g.isa = avx512
	g.columns("colMax", "top", "joins a vector of maxima with those of columns.", func(x, top gp) {
		acc := [2]vec{g.ld(at(top, 0)), g.splat(konst(0xff800000))}
		g.eachRow(func(i, off int) { g.max(acc[i], acc[i], g.ld(at(x, off))) }, x)
		g.max(acc[0], acc[0], acc[1])
		g.st(acc[0], at(top, 0))
	})
	g.columns("colMul", "factor", "multiplies columns by factors.", func(x, factor gp) {
		f := g.ld(at(factor, 0))
		g.eachRow(func(_, off int) { g.st(g.set(g.mul, f, g.ld(at(x, off))), at(x, off)) }, x)
	})
	g.columnsExp()
}

// columns emits a function of columns and of one number for each; body emits what is done with the columns of a vector.
func (g *gen) columns(name, other, doc string, body func(x, other gp)) {
	g.fn(name, "("+other+", x *float32, rows, vectors int)", doc)
	o, first, left := g.arg(other), g.arg("x"), g.arg("vectors")
	g.eachVector(first, left, []gp{o}, func(x gp) { body(x, o) })
}

// eachVector emits body for each vector of a row; pointers go on by a vector, and x begins at the first row.
func (g *gen) eachVector(first, left gp, others []gp, body func(x gp)) {
	x := g.GP64()
	g.Label("vector")
	g.MOVQ(first, x)
	body(x)
	g.advance(g.bytes(), append(others, first)...)
	g.DECQ(left)
	g.JNZ(operand.LabelRef("vector"))
	g.ret()
}

// eachRow visits the rows of a vector, two at a time.
func (g *gen) eachRow(body func(i, off int), x gp) {
	n, row := g.arg("rows"), 2*g.bytes()
	for _, u := range []int{2, 1} {
		g.loop([]string{"one", "two"}[u-1], n, u, func() {
			for i := range u {
				body(i, i*row)
			}
			g.advance(u*row, x)
		})
	}
}

// columnsExp emits x = e^(x−top), and adds the sums of columns to sum.
func (g *gen) columnsExp() {
	g.fn("colExp", "(sum, top, x *float32, rows, vectors int)", "is e^(x−top), whose sums by columns it adds to sum.")
	sum, top, first, left := g.arg("sum"), g.arg("top"), g.arg("x"), g.arg("vectors")
	g.eachVector(first, left, []gp{sum, top}, func(x gp) {
		t, acc := g.ld(at(top, 0)), [2]vec{g.zeroed(), g.zeroed()}
		g.eachRow(func(i, off int) {
			e := g.expNeg(g.set(g.sub, g.ld(at(x, off)), t))
			g.st(e, at(x, off))
			g.add(acc[i], acc[i], e)
		}, x)
		g.add(acc[0], acc[0], acc[1])
		g.add(acc[0], acc[0], at(sum, 0))
		g.st(acc[0], at(sum, 0))
	})
}
