package ptx

import (
	"math"
	"slices"
	"strconv"
	"strings"
)

// Parse reads a module. The error is a [SyntaxError] with its line. Names are not resolved here, see [Compile].
func Parse(source string) (*Module, error) {
	tokens, err := lex(source)
	if err != nil {
		return nil, err
	}
	p := &parser{tokens: tokens}
	m := &Module{}
	for p.peek().kind != endOfText {
		if err := p.declaration(m); err != nil {
			return nil, err
		}
	}
	if m.AddressSize != 64 {
		return nil, syntaxError(1, "the module has no .address_size 64")
	}
	return m, nil
}

type parser struct {
	tokens []token
	at     int
}

func (p *parser) peek() token { return p.tokens[p.at] }

func (p *parser) take() token {
	t := p.tokens[p.at]
	if t.kind != endOfText {
		p.at++
	}
	return t
}

// is reports whether the next token is this mark or word, without taking it.
func (p *parser) is(s string) bool {
	t := p.peek()
	return t.text == s && (t.kind == mark || t.kind == word)
}

func (p *parser) accept(s string) bool {
	if p.is(s) {
		p.at++
		return true
	}
	return false
}

func (p *parser) expect(s string) error {
	if p.accept(s) {
		return nil
	}
	t := p.peek()
	return syntaxError(t.line, "%q is expected where %q stands", s, t.text)
}

func (p *parser) name() (string, error) {
	t := p.take()
	if t.kind != word || t.text[0] == '.' {
		return "", syntaxError(t.line, "a name is expected where %q stands", t.text)
	}
	return t.text, nil
}

// declaration reads one declaration of a module.
func (p *parser) declaration(m *Module) error {
	t := p.peek()
	switch t.text {
	case ".version":
		p.take()
		m.Version = p.take().text
		return nil
	case ".target":
		p.take()
		return p.targets(m)
	case ".address_size":
		p.take()
		n, err := p.integer(64)
		m.AddressSize = int(n)
		return err
	case ".file":
		p.skipLine()
		return nil
	case ".section":
		return p.section()
	}
	isExtern := false
	for slices.Contains([]string{".visible", ".extern", ".weak", ".common"}, p.peek().text) {
		isExtern = isExtern || p.take().text == ".extern"
	}
	switch t := p.peek(); t.text {
	case ".entry", ".func":
		f, err := p.function()
		if err == nil {
			m.Functions = append(m.Functions, f)
		}
		return err
	case ".global", ".const", ".shared":
		p.take()
		return p.variables(spaceNames[t.text[1:]], func(v *Variable) {
			v.IsExtern = isExtern
			m.Variables = append(m.Variables, v)
		})
	default:
		return syntaxError(t.line, "%q begins no declaration", t.text)
	}
}

func (p *parser) targets(m *Module) error {
	for {
		name, err := p.name()
		if err != nil {
			return err
		}
		m.Target = append(m.Target, name)
		if !p.accept(",") {
			return nil
		}
	}
}

// skipLine passes the rest of a line: what debuggers read.
func (p *parser) skipLine() {
	for line := p.peek().line; p.peek().kind != endOfText && p.peek().line == line; {
		p.take()
	}
}

// section passes a section of debugging data.
func (p *parser) section() error {
	for !p.is("{") {
		if t := p.take(); t.kind == endOfText {
			return syntaxError(t.line, "a section has no body")
		}
	}
	for !p.accept("}") {
		if t := p.take(); t.kind == endOfText {
			return syntaxError(t.line, "a section has no end")
		}
	}
	return nil
}

// function reads .entry or .func: results, name, parameters, directives, body.
func (p *parser) function() (*Function, error) {
	f := &Function{Line: p.peek().line, IsEntry: p.take().text == ".entry"}
	p.accept(".noreturn")
	var err error
	if p.is("(") {
		if f.Results, err = p.parameters(); err != nil {
			return nil, err
		}
	}
	if f.Name, err = p.name(); err != nil {
		return nil, err
	}
	if p.is("(") {
		if f.Params, err = p.parameters(); err != nil {
			return nil, err
		}
	}
	if err := p.directives(f); err != nil {
		return nil, err
	}
	if p.accept(";") {
		return f, nil
	}
	f.HasBody = true
	f.Body, err = p.body()
	return f, err
}

// directives reads what a function declares between its parameters and its body.
func (p *parser) directives(f *Function) error {
	for {
		t := p.peek()
		switch t.text {
		case ".noreturn":
			p.take()
		case ".maxntid", ".reqntid":
			p.take()
			f.MaxThreads = [3]int{1, 1, 1}
			for i := range f.MaxThreads {
				n, err := p.integer(1 << 20)
				if err != nil {
					return err
				}
				f.MaxThreads[i] = int(n)
				if !p.accept(",") {
					break
				}
			}
		case ".minnctapersm", ".maxnreg", ".maxnctapersm":
			p.take()
			if _, err := p.integer(1 << 20); err != nil {
				return err
			}
		case ".pragma":
			p.take()
			p.take()
			if err := p.expect(";"); err != nil {
				return err
			}
		default:
			return nil
		}
	}
}

// parameters reads a list of parameters in parentheses, in parameter memory or (device functions) in registers.
func (p *parser) parameters() (out []*Variable, err error) {
	p.take()
	for !p.accept(")") {
		if t := p.take(); t.text != ".param" {
			return nil, syntaxError(t.line, ".param is expected where %q stands", t.text)
		}
		v, err := p.variable(Param)
		if err != nil {
			return nil, err
		}
		out = append(out, v)
		if !p.accept(",") && !p.is(")") {
			return nil, syntaxError(p.peek().line, "a parameter list goes on with %q", p.peek().text)
		}
	}
	return out, nil
}

// variables reads a declaration behind its space, to the semicolon.
func (p *parser) variables(space Space, add func(*Variable)) error {
	for {
		v, err := p.variable(space)
		if err != nil {
			return err
		}
		add(v)
		if p.accept(";") {
			return nil
		}
		if err := p.expect(","); err != nil {
			return err
		}
	}
}

// variable reads one declaration behind its space: .align 4 .v4 .f32 name[2][3] = {…}.
func (p *parser) variable(space Space) (*Variable, error) {
	v := &Variable{Space: space, Vector: 1, Line: p.peek().line}
	for p.peek().kind == word && p.peek().text[0] == '.' {
		t := p.take()
		switch name := t.text[1:]; {
		case name == "align":
			n, err := p.integer(1 << 16)
			if err != nil {
				return nil, err
			}
			if n == 0 || n&(n-1) != 0 {
				return nil, syntaxError(t.line, "an alignment of %d is no power of two", n)
			}
			v.Align = int(n)
		case name == "v2", name == "v4":
			v.Vector = int(name[1] - '0')
		case name == "ptr", spaceNames[name] != Generic: // what a pointer parameter points to
		case typeNames[name] != NoType:
			v.Type = typeNames[name]
		default:
			return nil, syntaxError(t.line, "%q is no type", t.text)
		}
	}
	var err error
	if v.Name, err = p.name(); err != nil {
		return nil, err
	}
	if v.Type == NoType {
		return nil, syntaxError(v.Line, "%s has no type", v.Name)
	}
	for p.accept("[") {
		n := uint64(0)
		if !p.is("]") {
			if n, err = p.integer(1 << 40); err != nil {
				return nil, err
			}
		}
		v.Dims = append(v.Dims, int64(n))
		if err := p.expect("]"); err != nil {
			return nil, err
		}
	}
	if p.accept("=") {
		v.Init, err = p.initializers(nil, 0)
	}
	return v, err
}

// mostNested bounds the depth of braces, which the parser and the compiler follow.
const mostNested = 100

// initializers reads a value, or values in braces, in the order of memory.
func (p *parser) initializers(out []Initializer, depth int) ([]Initializer, error) {
	if !p.accept("{") {
		one, err := p.initializer()
		return append(out, one), err
	}
	if depth > mostNested {
		return nil, syntaxError(p.peek().line, "braces are nested deeper than %d", mostNested)
	}
	for !p.accept("}") {
		var err error
		if out, err = p.initializers(out, depth+1); err != nil {
			return nil, err
		}
		if !p.accept(",") && !p.is("}") {
			return nil, syntaxError(p.peek().line, "a list of values goes on with %q", p.peek().text)
		}
	}
	return out, nil
}

func (p *parser) initializer() (Initializer, error) {
	t := p.peek()
	if t.kind != word {
		o, err := p.operand()
		return Initializer{Bits: o.Bits}, err
	}
	p.take()
	if t.text == "generic" && p.accept("(") {
		t = p.take()
		if err := p.expect(")"); err != nil {
			return Initializer{}, err
		}
	}
	offset, err := p.offset()
	return Initializer{Symbol: t.text, Offset: offset}, err
}

// integer reads a number from 0 to most.
func (p *parser) integer(most uint64) (uint64, error) {
	t := p.take()
	n, err := parseInteger(t.text)
	if t.kind != number || err != nil || n > most {
		return 0, syntaxError(t.line, "a number up to %d is expected where %q stands", most, t.text)
	}
	return n, nil
}

func parseInteger(s string) (uint64, error) {
	return strconv.ParseUint(strings.TrimSuffix(s, "U"), 0, 64)
}

// literal is a number as an operand: an integer, a decimal float, or the bits of a float in hexadecimal.
func literal(t token) (Operand, error) {
	s := t.text
	if len(s) > 2 && (s[1] == 'f' || s[1] == 'F') && s[0] == '0' {
		v, err := strconv.ParseUint(s[2:], 16, 32)
		if err != nil || len(s) != 10 {
			return Operand{}, syntaxError(t.line, "%q is no float of 32 bits", s)
		}
		return Operand{Kind: singleOperand, Bits: v}, nil
	}
	if len(s) > 2 && (s[1] == 'd' || s[1] == 'D') && s[0] == '0' {
		v, err := strconv.ParseUint(s[2:], 16, 64)
		if err != nil || len(s) != 18 {
			return Operand{}, syntaxError(t.line, "%q is no float of 64 bits", s)
		}
		return Operand{Kind: floatOperand, Bits: v}, nil
	}
	if v, err := parseInteger(s); err == nil {
		return Operand{Kind: integerOperand, Bits: v}, nil
	}
	f, err := strconv.ParseFloat(s, 64)
	if err != nil {
		return Operand{}, syntaxError(t.line, "%q is no number", s)
	}
	return Operand{Kind: floatOperand, Bits: math.Float64bits(f)}, nil
}
