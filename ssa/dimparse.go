package ssa

import (
	"fmt"
	"strconv"
)

// ParseDim reads the canonical text of a dimension (the inverse of
// [Dim.String]); it also accepts spaces and any sum, product, floor(a/b),
// max(a,b), min(a,b) written by hand.
func ParseDim(s string) (Dim, error) {
	p := &dimParser{s: s}
	d, err := p.sum(0)
	if err == nil && p.peek() != 0 {
		err = p.fail("end of text")
	}
	return d, err
}

type dimParser struct {
	s string
	i int
}

const maxDimDepth = 64

func (p *dimParser) peek() byte {
	for p.i < len(p.s) && p.s[p.i] == ' ' {
		p.i++
	}
	if p.i == len(p.s) {
		return 0
	}
	return p.s[p.i]
}

func (p *dimParser) fail(want string) error {
	return fmt.Errorf("dimension %q: want %s at offset %d", p.s, want, p.i)
}

func (p *dimParser) sum(depth int) (Dim, error) {
	if depth > maxDimDepth {
		return Dim{}, p.fail("less nesting")
	}
	neg := p.peek() == '-'
	if neg {
		p.i++
	}
	acc, err := p.product(depth, neg)
	for err == nil && (p.peek() == '+' || p.peek() == '-') {
		minus := p.peek() == '-'
		p.i++
		var t Dim
		t, err = p.product(depth, minus)
		acc = acc.Add(t)
	}
	return acc, err
}

// product reads factors; with neg the minus before the first one is already
// read, and belongs to it: -9223372036854775808 is a number, its negation is none.
func (p *dimParser) product(depth int, neg bool) (Dim, error) {
	acc, err := p.signed(depth, neg)
	for err == nil && p.peek() == '*' {
		p.i++
		var f Dim
		f, err = p.factor(depth)
		acc = acc.Mul(f)
	}
	return acc, err
}

func (p *dimParser) signed(depth int, neg bool) (Dim, error) {
	if !neg {
		return p.factor(depth)
	}
	if c := p.peek(); c >= '0' && c <= '9' {
		n, err := strconv.ParseInt("-"+p.digits(), 10, 64)
		return D(n), err
	}
	d, err := p.factor(depth)
	return d.MulN(-1), err
}

func (p *dimParser) digits() string {
	start := p.i
	for p.i < len(p.s) && p.s[p.i] >= '0' && p.s[p.i] <= '9' {
		p.i++
	}
	return p.s[start:p.i]
}

func (p *dimParser) factor(depth int) (Dim, error) {
	switch c := p.peek(); {
	case c == '?':
		p.i++
		return Dim{}, nil
	case c == '(':
		p.i++
		d, err := p.sum(depth + 1)
		if err == nil {
			err = p.eat(')')
		}
		return d, err
	case c == '"':
		return p.quoted()
	case c >= '0' && c <= '9':
		n, err := strconv.ParseInt(p.digits(), 10, 64)
		return D(n), err
	case isIdent(c):
		start := p.i
		for p.i < len(p.s) && (isIdent(p.s[p.i]) || p.s[p.i] >= '0' && p.s[p.i] <= '9') {
			p.i++
		}
		return p.named(p.s[start:p.i], depth)
	}
	return Dim{}, p.fail("a number, symbol or '('")
}

func isIdent(c byte) bool {
	return c == '_' || c == '.' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}

func (p *dimParser) quoted() (Dim, error) {
	q, err := strconv.QuotedPrefix(p.s[p.i:])
	if err != nil {
		return Dim{}, p.fail("a closing quote")
	}
	p.i += len(q)
	name, err := strconv.Unquote(q)
	return Sym(name), err
}

func (p *dimParser) named(name string, depth int) (Dim, error) {
	sep := byte(',')
	switch name {
	case "floor":
		sep = '/'
	case "max", "min":
	default:
		return Sym(name), nil
	}
	if err := p.eat('('); err != nil {
		return Dim{}, err
	}
	a, err := p.sum(depth + 1)
	if err == nil {
		err = p.eat(sep)
	}
	if err != nil {
		return Dim{}, err
	}
	b, err := p.sum(depth + 1)
	if err == nil {
		err = p.eat(')')
	}
	switch name {
	case "floor":
		return a.FloorDiv(b), err
	case "max":
		return a.Max(b), err
	}
	return a.Min(b), err
}

func (p *dimParser) eat(c byte) error {
	if p.peek() != c {
		return p.fail(strconv.QuoteRune(rune(c)))
	}
	p.i++
	return nil
}
