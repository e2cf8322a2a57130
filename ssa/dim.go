package ssa

import (
	"fmt"
	"math"
	"slices"
	"sort"
	"strconv"
	"strings"
)

// Dim is one dimension: unknown (the zero value), a number, or an integer
// expression over symbols, kept in a canonical form so that equal expressions
// print equally.
//
// The canonical form is a polynomial with integer coefficients over atoms, terms
// sorted by their text:
//
//	2*N+1                     atoms: N
//	floor((W-3)/2)+1          atoms: floor((W-3)/2), W inside it
//	max(N,4)*M                atoms: max(N,4), M
//
// An expression that grows past a fixed size becomes unknown: shapes must never
// cost more than tensors.
type Dim struct {
	sum *sum // nil is unknown, isNumber a number
	n   int64
}

// sum is an expression that is no number.
type sum struct {
	terms []term
	text  string // canonical
}

// isNumber is the sum of numbers.
var isNumber = &sum{}

// term is coef * atoms[0] * atoms[1] * …, atoms sorted by text, repeated for powers.
type term struct {
	coef  int64
	atoms []*atom
}

// atom is a symbol or an operation that is no polynomial.
type atom struct {
	op   string // "" symbol, "floor", "mod", "max", "min"
	name string // symbol name
	a, b Dim    // operands of op
	text string
}

const (
	maxDimTerms = 64
	maxDimText  = 1024
)

// D returns a known dimension.
func D(n int64) Dim { return Dim{isNumber, n} }

// Sym returns the dimension named by a symbol; an empty name is unknown.
func Sym(name string) Dim {
	if name == "" {
		return Dim{}
	}
	return fromTerms([]term{{1, []*atom{{name: name, text: quoteSym(name)}}}})
}

func quoteSym(name string) string {
	for i, r := range name {
		ok := r == '_' || r == '.' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || i > 0 && r >= '0' && r <= '9'
		if !ok {
			return strconv.Quote(name)
		}
	}
	switch name {
	case "floor", "mod", "max", "min":
		return strconv.Quote(name)
	}
	return name
}

// Const returns the number a known dimension stands for.
func (d Dim) Const() (int64, bool) { return d.n, d.sum == isNumber }

// con reports a number.
func (d Dim) con() bool { return d.sum == isNumber }

// terms are those of an expression that is no number.
func (d Dim) terms() []term {
	if d.sum == nil {
		return nil
	}
	return d.sum.terms
}

// Known reports a number or an expression (anything but the unknown dimension).
func (d Dim) Known() bool { return d.sum != nil }

// Is reports that d is the number n.
func (d Dim) Is(n int64) bool { return d.con() && d.n == n }

// Equal reports that both are known and the same expression. Two unknown
// dimensions are never equal.
func (d Dim) Equal(e Dim) bool {
	if d.sum == e.sum {
		return d.sum != nil && d.n == e.n
	}
	return d.sum != nil && e.sum != nil && !d.con() && !e.con() && d.sum.text == e.sum.text
}

// String returns the canonical text, "?" for an unknown dimension.
func (d Dim) String() string {
	switch d.sum {
	case nil:
		return "?"
	case isNumber:
		return strconv.FormatInt(d.n, 10)
	}
	return d.sum.text
}

// SymbolName returns the name when d is exactly one symbol.
func (d Dim) SymbolName() (string, bool) {
	if !d.con() && len(d.terms()) == 1 && d.terms()[0].coef == 1 && len(d.terms()[0].atoms) == 1 && d.terms()[0].atoms[0].op == "" {
		return d.terms()[0].atoms[0].name, true
	}
	return "", false
}

// Symbols appends the names of all symbols in d to out, without repeats.
func (d Dim) Symbols(out []string) []string {
	for _, t := range d.terms() {
		for _, a := range t.atoms {
			if a.op != "" {
				out = a.b.Symbols(a.a.Symbols(out))
				continue
			}
			if !slices.Contains(out, a.name) {
				out = append(out, a.name)
			}
		}
	}
	return out
}

// polyTerms returns d as terms; the constant is a term without atoms.
func (d Dim) polyTerms() []term {
	if d.con() {
		if d.n == 0 {
			return nil
		}
		return []term{{d.n, nil}}
	}
	return d.terms()
}

func (t term) key() string {
	parts := make([]string, len(t.atoms))
	for i, a := range t.atoms {
		parts[i] = a.text
	}
	return strings.Join(parts, "*")
}

// fromTerms normalizes a sum: like terms merged, zeros dropped, sorted with the
// constant last.
func fromTerms(ts []term) Dim {
	merged := make(map[string]int, len(ts))
	var out []term
	for _, t := range ts {
		k := t.key()
		if i, ok := merged[k]; ok {
			c, ok := addOK(out[i].coef, t.coef)
			if !ok {
				return Dim{}
			}
			out[i].coef = c
			continue
		}
		merged[k] = len(out)
		out = append(out, t)
	}
	kept := slices.DeleteFunc(out, func(t term) bool { return t.coef == 0 })
	if len(kept) == 0 {
		return D(0)
	}
	if len(kept) == 1 && len(kept[0].atoms) == 0 {
		return D(kept[0].coef)
	}
	if len(kept) > maxDimTerms {
		return Dim{}
	}
	sort.Slice(kept, func(i, j int) bool { // keys differ, and only the constant's is empty
		if a, b := len(kept[i].atoms), len(kept[j].atoms); a == 0 || b == 0 {
			return a > b
		}
		return kept[i].key() < kept[j].key()
	})
	text := printTerms(kept)
	if len(text) > maxDimText {
		return Dim{}
	}
	return Dim{sum: &sum{kept, text}}
}

func printTerms(ts []term) string {
	var sb strings.Builder
	for i, t := range ts {
		c := t.coef
		abs := uint64(c)
		switch {
		case c < 0:
			sb.WriteByte('-')
			abs = -abs
		case i > 0:
			sb.WriteByte('+')
		}
		switch {
		case len(t.atoms) == 0:
			fmt.Fprint(&sb, abs)
		case abs == 1:
			sb.WriteString(t.key())
		default:
			fmt.Fprintf(&sb, "%d*%s", abs, t.key())
		}
	}
	return sb.String()
}

func addOK(a, b int64) (int64, bool) {
	c := a + b
	return c, (c > a) == (b > 0) || b == 0
}

func mulOK(a, b int64) (int64, bool) {
	if a == 0 || b == 0 {
		return 0, true
	}
	c := a * b
	if c/b != a || (a == math.MinInt64 && b == -1) || (b == math.MinInt64 && a == -1) {
		return 0, false
	}
	return c, true
}

// number is a known dimension, the unknown one where computing it overflowed.
func number(n int64, ok bool) Dim {
	if !ok {
		return Dim{}
	}
	return D(n)
}

// Add returns d+e; unknown if either is.
func (d Dim) Add(e Dim) Dim {
	if !d.Known() || !e.Known() {
		return Dim{}
	}
	if d.con() && e.con() {
		return number(addOK(d.n, e.n))
	}
	return fromTerms(slices.Concat(d.polyTerms(), e.polyTerms()))
}

// AddN returns d+n.
func (d Dim) AddN(n int64) Dim { return d.Add(D(n)) }

// Sub returns d-e; unknown if either is.
func (d Dim) Sub(e Dim) Dim { return d.Add(e.MulN(-1)) }

// MulN returns n*d.
func (d Dim) MulN(n int64) Dim { return d.Mul(D(n)) }

// Mul returns d*e; 0 absorbs even an unknown factor.
func (d Dim) Mul(e Dim) Dim {
	if d.Is(0) || e.Is(0) {
		return D(0)
	}
	if !d.Known() || !e.Known() {
		return Dim{}
	}
	if d.Is(1) {
		return e
	}
	if e.Is(1) {
		return d
	}
	if d.con() && e.con() {
		return number(mulOK(d.n, e.n))
	}
	a, b := d.polyTerms(), e.polyTerms()
	if len(a)*len(b) > maxDimTerms*4 {
		return Dim{}
	}
	var out []term
	for _, s := range a {
		for _, t := range b {
			c, ok := mulOK(s.coef, t.coef)
			if !ok {
				return Dim{}
			}
			atoms := slices.Concat(s.atoms, t.atoms)
			sort.SliceStable(atoms, func(i, j int) bool { return atoms[i].text < atoms[j].text })
			out = append(out, term{c, atoms})
		}
	}
	return fromTerms(out)
}

// FloorDiv returns floor(d/e). Exact divisions of every term simplify; division
// by an expression simplifies only when d is a multiple of it term by term.
func (d Dim) FloorDiv(e Dim) Dim {
	if !d.Known() || !e.Known() || e.Is(0) {
		return Dim{}
	}
	if e.Is(1) {
		return d
	}
	if d.con() && e.con() {
		if d.n == math.MinInt64 && e.n == -1 {
			return Dim{}
		}
		return D(floorDiv(d.n, e.n))
	}
	if d.Equal(e) {
		return D(1)
	}
	if q, ok := d.exactDiv(e); ok {
		return q
	}
	if e.con() && e.n > 0 { // pull out the divisible terms: floor((4N+3)/2) = 2N + floor(3/2)
		var whole, rest []term
		for _, t := range d.terms() {
			if q := floorDiv(t.coef, e.n); q != 0 && (t.coef%e.n == 0 || len(t.atoms) == 0) {
				whole = append(whole, term{q, t.atoms})
				t.coef -= q * e.n
			}
			if t.coef != 0 {
				rest = append(rest, t)
			}
		}
		if len(whole) > 0 {
			return fromTerms(whole).Add(fromTerms(rest).FloorDiv(e))
		}
		if m, ok := d.nestedFloor(e.n); ok {
			return m
		}
	}
	return opDim("floor", d, e)
}

// nestedFloor merges two divisions by numbers, as strided layers stack them:
// floor((floor(a/b)+r)/e) = floor((a+r*b)/(b*e)).
func (d Dim) nestedFloor(e int64) (Dim, bool) {
	ts := d.terms()
	if len(ts) == 0 || len(ts) > 2 || ts[0].coef != 1 || len(ts[0].atoms) != 1 || ts[0].atoms[0].op != "floor" {
		return Dim{}, false
	}
	in := ts[0].atoms[0]
	r := D(0)
	if len(ts) == 2 {
		if len(ts[1].atoms) > 0 {
			return Dim{}, false
		}
		r = D(ts[1].coef)
	}
	if b, ok := in.b.Const(); !ok || b <= 0 {
		return Dim{}, false
	}
	m := in.a.Add(r.Mul(in.b)).FloorDiv(in.b.MulN(e))
	return m, m.Known()
}

// exactDiv divides term by term; ok only when nothing remains.
func (d Dim) exactDiv(e Dim) (Dim, bool) {
	et := e.polyTerms()
	if len(et) != 1 {
		return Dim{}, false
	}
	var out []term
	for _, t := range d.polyTerms() {
		if et[0].coef == 0 || t.coef%et[0].coef != 0 {
			return Dim{}, false
		}
		rest := slices.Clone(t.atoms)
		for _, a := range et[0].atoms {
			i := slices.IndexFunc(rest, func(b *atom) bool { return b.text == a.text })
			if i < 0 {
				return Dim{}, false
			}
			rest = slices.Delete(rest, i, i+1)
		}
		out = append(out, term{t.coef / et[0].coef, rest})
	}
	return fromTerms(out), true
}

// CeilDiv returns ceil(d/e). A divisor that is no number must stand for a
// positive one.
func (d Dim) CeilDiv(e Dim) Dim {
	if e.con() && e.n < 0 {
		return d.MulN(-1).CeilDiv(e.MulN(-1))
	}
	if e.con() {
		return d.AddN(e.n - 1).FloorDiv(e)
	}
	return d.Add(e).AddN(-1).FloorDiv(e)
}

// Mod returns d - e*floor(d/e).
func (d Dim) Mod(e Dim) Dim { return d.Sub(e.Mul(d.FloorDiv(e))) }

// Max returns the larger; simplified when the difference is a known number.
func (d Dim) Max(e Dim) Dim {
	if diff := d.Sub(e); diff.con() {
		if diff.n >= 0 {
			return d
		}
		return e
	}
	return opDim("max", d, e)
}

// Min returns the smaller; simplified when the difference is a known number.
func (d Dim) Min(e Dim) Dim {
	if diff := d.Sub(e); diff.con() {
		if diff.n <= 0 {
			return d
		}
		return e
	}
	return opDim("min", d, e)
}

// CapOf reports that d is min(e, n) with a number n of at least 1: e, but no more
// than n. Where such a d must equal e or be 1, as in broadcasting, it is e.
func (d Dim) CapOf(e Dim) bool {
	if d.con() || len(d.terms()) != 1 || d.terms()[0].coef != 1 || len(d.terms()[0].atoms) != 1 {
		return false
	}
	m := d.terms()[0].atoms[0]
	return m.op == "min" && (m.a.con() && m.a.n >= 1 && m.b.Equal(e) || m.b.con() && m.b.n >= 1 && m.a.Equal(e))
}

func opDim(op string, a, b Dim) Dim {
	if !a.Known() || !b.Known() {
		return Dim{}
	}
	if (op == "max" || op == "min") && a.String() > b.String() {
		a, b = b, a
	}
	at := &atom{op: op, a: a, b: b, text: op + "(" + a.String() + "," + b.String() + ")"}
	if op == "floor" {
		at.text = "floor(" + paren(a) + "/" + paren(b) + ")"
	}
	return fromTerms([]term{{1, []*atom{at}}})
}

func paren(d Dim) string {
	if d.con() && d.n >= 0 || len(d.terms()) == 1 && d.terms()[0].coef == 1 && len(d.terms()[0].atoms) == 1 {
		return d.String()
	}
	return "(" + d.String() + ")"
}

func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b != 0 && (a < 0) != (b < 0) {
		q--
	}
	return q
}

// Bind replaces symbols by numbers; symbols without a binding stay.
func (d Dim) Bind(bind map[string]int64) Dim {
	if d.con() || !d.Known() || len(bind) == 0 {
		return d
	}
	sum := D(0)
	for _, t := range d.terms() {
		p := D(t.coef)
		for _, a := range t.atoms {
			p = p.Mul(a.bind(bind))
		}
		sum = sum.Add(p)
	}
	return sum
}

func (a *atom) bind(bind map[string]int64) Dim {
	switch a.op {
	case "":
		if n, ok := bind[a.name]; ok {
			return D(n)
		}
		return fromTerms([]term{{1, []*atom{a}}})
	case "floor":
		return a.a.Bind(bind).FloorDiv(a.b.Bind(bind))
	case "max":
		return a.a.Bind(bind).Max(a.b.Bind(bind))
	}
	return a.a.Bind(bind).Min(a.b.Bind(bind))
}
