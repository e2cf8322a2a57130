package ssa

// NonNegative reports that d is certainly not below zero when every symbol
// stands for a dimension (a number not below zero): all coefficients and atoms
// are non-negative, or become so when min, max and floor are replaced by what
// bounds them. False means only that it could not be shown.
//
//	N - min(N,4)             ≥  N - N
//	min(9,P+S) - min(9,P)    ≥  0 for either value of the first, then of the second
//	2*(N - floor(N/2))       ≥  2*N - N
func (d Dim) NonNegative() bool { return d.atLeastZero(maxSignSteps) }

// maxSignSteps bounds how many atoms one proof of a sign replaces.
const maxSignSteps = 3

func (d Dim) atLeastZero(steps int) bool {
	if d.con() {
		return d.n >= 0
	}
	if !d.Known() {
		return false
	}
	if d.plainlyNonNegative() {
		return true
	}
	for _, t := range d.terms() {
		if steps > 0 && len(t.atoms) == 1 && t.atoms[0].op != "" && d.boundedBy(t, steps-1) {
			return true
		}
	}
	return false
}

// boundedBy replaces the atom of one term by what bounds it from the side that
// matters and asks for the sign of that.
func (d Dim) boundedBy(t term, steps int) bool {
	in := t.atoms[0]
	rest := d.Sub(fromTerms([]term{t}))
	a, b := rest.Add(in.a.MulN(t.coef)), rest.Add(in.b.MulN(t.coef))
	k, number := in.b.Const()
	switch {
	case in.op == "min" && t.coef < 0, in.op == "max" && t.coef > 0: // the larger of both
		return a.atLeastZero(steps) || b.atLeastZero(steps)
	case in.op == "min", in.op == "max": // the smaller of both
		return a.atLeastZero(steps) && b.atLeastZero(steps)
	case in.op == "floor" && number && k > 0: // (a-k+1)/k <= floor(a/k) <= a/k
		bound := in.a
		if t.coef > 0 {
			bound = bound.AddN(1 - k)
		}
		return rest.MulN(k).Add(bound.MulN(t.coef)).atLeastZero(steps)
	}
	return false
}

// plainlyNonNegative reports that no coefficient and no atom is negative.
func (d Dim) plainlyNonNegative() bool {
	for _, t := range d.terms() {
		if t.coef < 0 {
			return false
		}
		for _, a := range t.atoms {
			if !a.nonNegative() {
				return false
			}
		}
	}
	return true
}

func (a *atom) nonNegative() bool {
	switch a.op {
	case "":
		return true
	case "max":
		return a.a.NonNegative() || a.b.NonNegative()
	}
	return a.a.NonNegative() && a.b.NonNegative() // min; floor of a quotient
}
