package ssa

import (
	"encoding/base64"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/berth-onnx/berth/ndarray"
)

// ParseError is a mistake in the text form of a graph.
type ParseError struct {
	Line, Col int // 1-based
	Problem   string
}

// Error prints line, column and problem.
func (e *ParseError) Error() string {
	return fmt.Sprintf("graph text, line %d column %d: %s", e.Line, e.Col, e.Problem)
}

// maxBodyDepth bounds the nesting of bodies and types in a text.
const maxBodyDepth = 64

// ParseGraph reads the text form that [Format.Write] prints. Types and contents
// may be left out (they are then unknown), and parameters may stand between nodes.
// Constants printed by their hash are refused: only the full form can be read back.
func ParseGraph(text string) (*Graph, error) {
	return parseAll(text, "graph", (*parser).graph)
}

// ParseType reads the text of [Type.String].
func ParseType(text string) (Type, error) {
	return parseAll(text, "type", (*parser).typ)
}

// parser is a recursive-descent reader over one string. A mistake unwinds to
// parseAll by panicking with a *ParseError.
type parser struct {
	s string
	i int
}

// parseAll reads a text of which nothing may be left over.
func parseAll[T any](text, what string, read func(p *parser, depth int) T) (out T, err error) {
	defer func() {
		if r := recover(); r != nil {
			e, ok := r.(*ParseError)
			if !ok {
				panic(r)
			}
			err = e
		}
	}()
	p := &parser{s: text}
	got := read(p, 0)
	if p.space(); p.i < len(p.s) {
		p.fail("text after the %s", what)
	}
	return got, nil
}

func (p *parser) fail(format string, args ...any) {
	before := p.s[:min(p.i, len(p.s))]
	panic(&ParseError{
		Line: 1 + strings.Count(before, "\n"), Col: len(before) - strings.LastIndexByte(before, '\n'),
		Problem: fmt.Sprintf(format, args...),
	})
}

// space skips blanks and comments (// to the end of the line).
func (p *parser) space() {
	for p.i < len(p.s) {
		switch {
		case strings.ContainsRune(" \t\r\n", rune(p.s[p.i])):
			p.i++
		case strings.HasPrefix(p.s[p.i:], "//"):
			if k := strings.IndexByte(p.s[p.i:], '\n'); k >= 0 {
				p.i += k
			} else {
				p.i = len(p.s)
			}
		default:
			return
		}
	}
}

// try consumes a token if it comes next. A word must end where the token ends.
func (p *parser) try(token string) bool {
	p.space()
	if !strings.HasPrefix(p.s[p.i:], token) {
		return false
	}
	end := p.i + len(token)
	if wordByte(token[len(token)-1]) && end < len(p.s) && wordByte(p.s[end]) {
		return false
	}
	p.i = end
	return true
}

func (p *parser) want(token string) {
	if !p.try(token) {
		p.fail("want %q", token)
	}
}

func wordByte(c byte) bool {
	return c == '_' || c == '.' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}

// while returns the longest prefix of bytes that f accepts.
func (p *parser) while(f func(byte) bool) string {
	start := p.i
	for p.i < len(p.s) && f(p.s[p.i]) {
		p.i++
	}
	return p.s[start:p.i]
}

func (p *parser) quoted() string {
	p.space()
	q, err := strconv.QuotedPrefix(p.s[p.i:])
	if err != nil {
		p.fail("want a quoted string")
	}
	p.i += len(q)
	s, err := strconv.Unquote(q)
	if err != nil {
		p.fail("bad quoted string")
	}
	return s
}

func (p *parser) at(c byte) bool {
	p.space()
	return p.i < len(p.s) && p.s[p.i] == c
}

// ident reads an operator, domain or attribute name.
func (p *parser) ident() string {
	if p.at('"') {
		return p.quoted()
	}
	s := p.while(wordByte)
	if s == "" {
		p.fail("want a name")
	}
	return s
}

// scope is the graph being read and its names.
type scope struct {
	g     *Graph
	names map[string]*Value
}

func (p *parser) graph(depth int) *Graph {
	if depth > maxBodyDepth {
		p.fail("bodies nested deeper than %d", maxBodyDepth)
	}
	p.want("graph")
	sc := &scope{g: NewGraph(p.quoted()), names: map[string]*Value{}}
	p.want("{")
	if p.try("doc") {
		sc.g.Doc = p.quoted()
	}
	for !p.try("out") {
		switch {
		case p.try("in"):
			p.param(sc)
		case p.try("const"):
			p.constant(sc)
		default:
			p.node(sc, depth)
		}
	}
	for !p.at('}') {
		sc.g.Results = append(sc.g.Results, p.use(sc))
		if !p.try(",") {
			break
		}
	}
	p.want("}")
	return sc.g
}

func (p *parser) param(sc *scope) {
	v := sc.g.AddParam(p.newName(sc), Type{})
	sc.names[v.Name] = v
	p.typeOf(v)
	if p.try("doc") {
		v.Doc = p.quoted()
	}
}

// name reads %name or %"quoted name".
func (p *parser) name() string {
	p.want("%")
	if p.i < len(p.s) && p.s[p.i] == '"' {
		return p.quoted()
	}
	s := p.while(func(c byte) bool { return !notNameRune(rune(c)) })
	if s == "" {
		p.fail("want a value's name after %%")
	}
	return s
}

func (p *parser) newName(sc *scope) string {
	s := p.name()
	if sc.names[s] != nil {
		p.fail("value %q is defined twice", s)
	}
	return s
}

func (p *parser) use(sc *scope) *Value {
	at := p.i
	s := p.name()
	v := sc.names[s]
	if v == nil {
		p.i = at
		p.fail("value %q is not defined before this line", s)
	}
	return v
}

// typeOf reads ": type{content}" if it is there.
func (p *parser) typeOf(v *Value) {
	if !p.try(":") {
		return
	}
	v.Type = p.typ(0)
	if p.i < len(p.s) && p.s[p.i] == '{' {
		p.i++
		v.Content = p.dims('}')
	}
}

// dims reads comma-separated dimensions up to and including the closing byte.
func (p *parser) dims(closing byte) []Dim {
	out := p.dimList(closing)
	p.want(string(closing))
	return out
}

// dimList reads comma-separated dimensions up to what ends them.
func (p *parser) dimList(closing byte) []Dim {
	out := []Dim{}
	for !p.at(closing) {
		d := dimParser{s: p.s, i: p.i}
		x, err := d.sum(0)
		p.i = d.i
		if err != nil {
			p.fail("bad dimension")
		}
		out = append(out, x)
		if !p.try(",") {
			break
		}
	}
	return out
}

func (p *parser) typ(depth int) Type {
	if depth > maxBodyDepth {
		p.fail("types nested deeper than %d", maxBodyDepth)
	}
	kind := KindTensor
	switch {
	case p.try("unknown"):
		return Type{}
	case p.try("seq"):
		return SequenceOf(p.member(depth))
	case p.try("opt"):
		return OptionalOf(p.member(depth))
	case p.try("map"):
		p.want("(")
		t := Type{Kind: KindMap, DType: p.dtype()}
		p.want(",")
		e := p.typ(depth + 1)
		t.Elem = &e
		p.want(")")
		return t
	case p.try("sparse"):
		kind = KindSparse
	}
	t := Type{Kind: kind, DType: p.dtype(), Ranked: true}
	p.want("[")
	if p.try("...") {
		p.want("]")
		t.Ranked = false
		return t
	}
	t.Shape, t.Channels = p.shape()
	return t
}

// shape reads dimensions and, behind a bar, the channels of a blocked tensor.
func (p *parser) shape() (dims []Dim, channels int) {
	dims = p.dimList(']')
	if p.try("|") {
		at := p.i
		n, err := strconv.Atoi(p.while(func(c byte) bool { return c >= '0' && c <= '9' }))
		if t := (Type{Kind: KindTensor, Ranked: true, Shape: dims, Channels: n}); err != nil || n == 0 || t.layoutProblem() != "" {
			p.i = at
			p.fail("the channels do not fit the blocks")
		}
		channels = n
	}
	p.want("]")
	return dims, channels
}

func (p *parser) member(depth int) Type {
	p.want("(")
	t := p.typ(depth + 1)
	p.want(")")
	return t
}

func (p *parser) dtype() ndarray.DType {
	p.space()
	at := p.i
	dt, ok := ndarray.ParseDType(p.while(wordByte))
	if !ok {
		p.i = at
		p.fail("want an element type")
	}
	return dt
}

func (p *parser) constant(sc *scope) {
	name := p.newName(sc)
	p.want(":")
	c := p.elements()
	v := sc.g.AddConst(name, c)
	sc.names[name] = v
	if p.try("doc") {
		v.Doc = p.quoted()
	}
}

// elements reads "float32[2] = [1, 2]": a static tensor type and its elements.
func (p *parser) elements() *Constant {
	t := p.typ(0)
	shape, ok := t.Static()
	if !ok {
		p.fail("a constant needs a static tensor type")
	}
	size, err := ndarray.ByteSize(t.DType, shape)
	if err != nil {
		p.fail("%v", err)
	}
	p.want("=")
	switch {
	case p.try("#"):
		p.fail("the elements of a constant are not in the text (short form); print it in full form")
	case p.try("splat"):
		return NewSplat(p.payload(t.DType, nil, t.DType.Size()), shape...)
	}
	return NewConstant(p.payload(t.DType, shape, size))
}

// payload reads base64 bytes, a list, or one bare element.
func (p *parser) payload(dt ndarray.DType, shape []int, size int) *ndarray.Array {
	if p.try("base64") {
		b, err := base64.StdEncoding.DecodeString(p.quoted())
		if err != nil || dt == ndarray.String || len(b) != size {
			p.fail("want %d bytes in base64", size)
		}
		a := &ndarray.Array{DType: dt, Shape: slices.Clone(shape), Data: b}
		return a.Clone()
	}
	var parts []string
	if p.try("[") {
		for !p.at(']') {
			parts = append(parts, p.element())
			if !p.try(",") {
				break
			}
		}
		p.want("]")
	} else {
		parts = []string{p.element()}
	}
	a, err := parseElems(dt, shape, parts)
	if err != nil {
		p.fail("%v", err)
	}
	return a
}

// element reads the text of one element: a quoted string, a complex number in
// parentheses, a number or a boolean.
func (p *parser) element() string {
	p.space()
	start := p.i
	switch {
	case p.at('"'):
		p.quoted()
	case p.at('('):
		p.while(func(c byte) bool { return c != ')' })
		p.want(")")
	default:
		p.while(func(c byte) bool { return wordByte(c) || c == '-' || c == '+' })
	}
	if start == p.i {
		p.fail("want an element")
	}
	return p.s[start:p.i]
}

// parseElems makes an array from the texts of its elements.
func parseElems(dt ndarray.DType, shape []int, parts []string) (*ndarray.Array, error) {
	n, err := ndarray.NumElems(shape)
	if err != nil || n != len(parts) {
		return nil, fmt.Errorf("%d elements for shape %v", len(parts), shape)
	}
	a, err := ndarray.New(dt, shape...)
	if err != nil {
		return nil, err
	}
	for i, s := range parts {
		if err := setElem(a, i, s); err != nil {
			return nil, fmt.Errorf("element %d: %q is no %s", i, s, dt)
		}
	}
	return a, nil
}

func setElem(a *ndarray.Array, i int, s string) (err error) {
	switch dt := a.DType; {
	case dt == ndarray.String:
		a.Str[i], err = strconv.Unquote(s)
	case dt == ndarray.Bool:
		var b bool
		b, err = strconv.ParseBool(s)
		if b {
			a.Data[i] = 1
		}
	case dt.IsFloat():
		bits := 32
		if dt == ndarray.Float64 {
			bits = 64
		}
		var f float64
		f, err = strconv.ParseFloat(s, bits)
		a.SetFloat(i, f)
	case dt == ndarray.Complex64:
		var c complex128
		c, err = strconv.ParseComplex(s, 64)
		ndarray.Slice[complex64](a)[i] = complex64(c)
	case dt == ndarray.Complex128:
		ndarray.Slice[complex128](a)[i], err = strconv.ParseComplex(s, 128)
	case dt == ndarray.Uint64:
		ndarray.Slice[uint64](a)[i], err = strconv.ParseUint(s, 10, 64)
	default:
		return setInt(a, i, s)
	}
	return err
}

func setInt(a *ndarray.Array, i int, s string) error {
	k, err := strconv.ParseInt(s, 10, 64)
	a.SetInt(i, k)
	if err == nil && a.Int(i) != k {
		err = strconv.ErrRange
	}
	return err
}
