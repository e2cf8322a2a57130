package ptx

import (
	"math"
	"strings"
)

// body reads a function's statements, from its opening to its closing brace. Inner braces stay as statements.
func (p *parser) body() ([]Statement, error) {
	if err := p.expect("{"); err != nil {
		return nil, err
	}
	var out []Statement
	for depth := 1; ; {
		t := p.peek()
		switch {
		case t.kind == endOfText:
			return nil, syntaxError(t.line, "a body has no closing brace")
		case p.accept("{"):
			if depth++; depth > mostNested {
				return nil, syntaxError(t.line, "braces are nested deeper than %d", mostNested)
			}
			out = append(out, Statement{Line: t.line, IsOpen: true})
		case p.accept("}"):
			if depth--; depth == 0 {
				return out, nil
			}
			out = append(out, Statement{Line: t.line, IsClose: true})
		case p.accept(";"):
		default:
			var err error
			if out, err = p.statement(out); err != nil {
				return nil, err
			}
		}
	}
}

// statement reads a declaration, a label or an instruction.
func (p *parser) statement(out []Statement) ([]Statement, error) {
	t := p.peek()
	if t.kind == word && t.text[0] == '.' {
		return p.local(out)
	}
	if t.kind == word && p.tokens[p.at+1].text == ":" {
		p.at += 2
		if p.accept(".branchtargets") {
			labels, err := p.labels()
			return append(out, Statement{Line: t.line, Targets: &Targets{Name: t.text, Labels: labels}}), err
		}
		if p.is(".callprototype") || p.is(".calltargets") {
			return out, p.skipStatement()
		}
		return append(out, Statement{Line: t.line, Label: t.text}), nil
	}
	i, err := p.instruction()
	return append(out, Statement{Line: t.line, Instr: i}), err
}

// local reads a declaration inside a body.
func (p *parser) local(out []Statement) ([]Statement, error) {
	t := p.take()
	switch t.text {
	case ".reg":
		return p.registers(out)
	case ".local", ".shared", ".param":
		err := p.variables(spaceNames[t.text[1:]], func(v *Variable) {
			out = append(out, Statement{Line: t.line, Variable: v})
		})
		return out, err
	case ".loc":
		p.skipLine()
		return out, nil
	case ".pragma":
		return out, p.skipStatement()
	}
	return nil, syntaxError(t.line, "%q begins no statement", t.text)
}

func (p *parser) skipStatement() error {
	for !p.accept(";") {
		if t := p.take(); t.kind == endOfText {
			return syntaxError(t.line, "a statement has no end")
		}
	}
	return nil
}

// mostRegisters bounds what one declaration may ask for.
const mostRegisters = 1 << 16

func (p *parser) registers(out []Statement) ([]Statement, error) {
	t := p.take()
	typ := typeNames[strings.TrimPrefix(t.text, ".")]
	if typ == NoType {
		return nil, syntaxError(t.line, "%q is no type of registers", t.text)
	}
	for {
		name, err := p.name()
		if err != nil {
			return nil, err
		}
		r := &Registers{Type: typ, Name: name}
		if p.accept("<") {
			n, err := p.integer(mostRegisters)
			if err != nil {
				return nil, err
			}
			r.Count = int(n)
			if err := p.expect(">"); err != nil {
				return nil, err
			}
			if n == 0 {
				r = nil
			}
		}
		if r != nil {
			out = append(out, Statement{Line: t.line, Register: r})
		}
		if p.accept(";") {
			return out, nil
		}
		if err := p.expect(","); err != nil {
			return nil, err
		}
	}
}

func (p *parser) labels() (out []string, err error) {
	for {
		name, err := p.name()
		if err != nil {
			return nil, err
		}
		out = append(out, name)
		if p.accept(";") {
			return out, nil
		}
		if err := p.expect(","); err != nil {
			return nil, err
		}
	}
}

// instruction reads guard, operation and operands, to the semicolon.
func (p *parser) instruction() (*Instruction, error) {
	i := &Instruction{Line: p.peek().line}
	if p.accept("@") {
		i.IsNegated = p.accept("!")
		var err error
		if i.Guard, err = p.name(); err != nil {
			return nil, err
		}
	}
	op, err := p.name()
	if err != nil {
		return nil, err
	}
	i.Op = strings.Split(op, ".")
	for !p.accept(";") {
		if len(i.Args) > 0 && !p.accept(",") {
			return nil, syntaxError(p.peek().line, "an operand of %s is followed by %q", op, p.peek().text)
		}
		arg, err := p.operand()
		if err != nil {
			return nil, err
		}
		i.Args = append(i.Args, arg)
	}
	return i, nil
}

// operand reads one argument, or a|b.
func (p *parser) operand() (Operand, error) {
	switch {
	case p.accept("["):
		return p.address()
	case p.accept("{"):
		elems, err := p.elements("}")
		return Operand{Kind: vectorOperand, Elems: elems}, err
	case p.accept("("):
		elems, err := p.elements(")")
		return Operand{Kind: listOperand, Elems: elems}, err
	}
	o, err := p.simple()
	if err == nil && p.accept("|") {
		var second Operand
		second, err = p.simple()
		o.Elems = []Operand{second}
	}
	return o, err
}

// simple reads a name, a negated predicate, a number or the sink.
func (p *parser) simple() (Operand, error) {
	if p.accept("!") {
		name, err := p.name()
		return Operand{Name: name, IsNegated: true}, err
	}
	if p.accept("-") {
		o, err := literal(p.take())
		switch o.Kind {
		case integerOperand:
			o.Bits = -o.Bits
		case floatOperand:
			o.Bits = math.Float64bits(-math.Float64frombits(o.Bits))
		case singleOperand:
			o.Bits ^= 1 << 31
		}
		return o, err
	}
	if t := p.peek(); t.kind == number {
		return literal(p.take())
	}
	if p.accept("_") {
		return Operand{Kind: sinkOperand}, nil
	}
	name, err := p.name()
	if err != nil {
		return Operand{}, err
	}
	offset := int64(0)
	if p.is("+") {
		offset, err = p.offset()
	}
	return Operand{Name: name, Offset: offset}, err
}

// elements reads arguments up to a closing mark. None of them has elements itself.
func (p *parser) elements(closing string) (out []Operand, err error) {
	for !p.accept(closing) {
		o, err := p.simple()
		if err != nil {
			return nil, err
		}
		out = append(out, o)
		if !p.accept(",") && !p.is(closing) {
			return nil, syntaxError(p.peek().line, "a list of operands goes on with %q", p.peek().text)
		}
	}
	return out, nil
}

// address reads what stands between brackets.
func (p *parser) address() (Operand, error) {
	o := Operand{Kind: memoryOperand}
	if p.peek().kind == number || p.is("-") {
		n, err := p.simple()
		o.Offset = int64(n.Bits)
		if err == nil {
			err = p.expect("]")
		}
		return o, err
	}
	var err error
	if o.Name, err = p.name(); err != nil {
		return o, err
	}
	if o.Offset, err = p.offset(); err != nil {
		return o, err
	}
	return o, p.expect("]")
}

// offset reads +4, +-4 or -4; 0 if none of them stands there.
func (p *parser) offset() (int64, error) {
	sign := int64(1)
	if p.accept("-") {
		sign = -1
	} else if !p.accept("+") {
		return 0, nil
	} else if p.accept("-") {
		sign = -1
	}
	n, err := p.integer(math.MaxInt64)
	return sign * int64(n), err
}
