package ssa

// NonNegative reports that d is certainly not below zero when every symbol
// stands for a dimension (a number not below zero): all coefficients and atoms
// are non-negative. False means only that it could not be shown.
func (d Dim) NonNegative() bool {
	if d.con {
		return d.n >= 0
	}
	if !d.Known() {
		return false
	}
	for _, t := range d.terms {
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
