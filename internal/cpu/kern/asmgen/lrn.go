package main

// emitLRN writes the power that most local response normalizations use.
func emitLRN(g *gen) {
	g.both(func() {
		g.unary("Lrn75", "is (p1 + p0·x)^(−3/4).", 1, func() fun {
			a, b, one := g.argVec("p0"), g.argVec("p1"), g.splat(oneBits)
			return func(x vec) vec {
				g.horner(x, a, b)
				r, q := g.v(), g.v()
				g.VSQRTPS(x, r)
				g.VSQRTPS(r, q)
				g.mul(r, r, q)
				g.div(r, one, r)
				return r
			}
		})
	})
}
