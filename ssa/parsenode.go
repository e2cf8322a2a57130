package ssa

import (
	"math"
	"strconv"
	"strings"
)

// result is the left side of one node result.
type result struct {
	absent bool
	v      Value // name, type and content
}

// node reads "results = Op(operands | captures) [attrs] @name { bodies }".
func (p *parser) node(sc *scope, depth int) {
	outs := p.results(sc)
	p.want("=")
	n := &Node{ID: sc.g.nextN}
	sc.g.nextN++
	sc.g.made++
	n.Opaque = p.try("opaque")
	p.operator(n)
	p.want("(")
	p.operands(sc, n)
	if p.try("|") {
		before := len(n.In)
		p.operands(sc, n)
		n.Captures = len(n.In) - before
	}
	p.want(")")
	if p.try("[") {
		p.attrs(n)
	}
	if p.try("@") {
		n.Name = p.quoted()
	}
	if p.try("{") {
		for !p.try("}") {
			attr := p.ident()
			p.want(":")
			n.AddBody(attr, p.graph(depth+1))
		}
	}
	sc.g.Nodes = append(sc.g.Nodes, n)
	for _, r := range outs {
		if r.absent {
			n.Out = append(n.Out, nil)
			continue
		}
		if sc.names[r.v.Name] != nil {
			p.fail("value %q is defined twice", r.v.Name)
		}
		v := sc.g.AddOutput(n, r.v.Name)
		if v == nil {
			p.fail("a result has no name")
		}
		v.Type, v.Content = r.v.Type, r.v.Content
		sc.names[v.Name] = v
	}
	p.nodeDocs(sc, n)
}

func (p *parser) nodeDocs(sc *scope, n *Node) {
	for p.try("doc") {
		if p.at('%') {
			v := p.use(sc)
			v.Doc = p.quoted()
		} else {
			n.Doc = p.quoted()
		}
	}
}

func (p *parser) results(sc *scope) []result {
	if p.try("()") {
		return nil
	}
	var out []result
	for {
		var r result
		if p.try("_") {
			r.absent = true
		} else {
			r.v.Name = p.newName(sc)
			p.typeOf(&r.v)
		}
		out = append(out, r)
		if !p.try(",") {
			return out
		}
	}
}

// operator reads domain::Op/"overload"@version. The domain may also be written with a dot, as in [SplitName]; a name with dots of its own is quoted.
func (p *parser) operator(n *Node) {
	quoted := p.at('"')
	n.Op = p.ident()
	switch {
	case p.try("::"):
		n.Domain, n.Op = n.Op, p.ident()
	case !quoted:
		n.Domain, n.Op = SplitName(n.Op)
	}
	if p.try("/") {
		n.Overload = p.quoted()
	}
	if p.try("@") {
		v, err := strconv.Atoi(p.while(wordByte))
		if err != nil {
			p.fail("want a version")
		}
		n.Version = v
	}
}

func (p *parser) operands(sc *scope, n *Node) {
	for !p.at(')') && !p.at('|') {
		if p.try("_") {
			n.AddInput(nil)
		} else {
			n.AddInput(p.use(sc))
		}
		if !p.try(",") {
			return
		}
	}
}

func (p *parser) attrs(n *Node) {
	for !p.at(']') {
		a := Attr{Name: p.ident()}
		p.want("=")
		p.attrValue(&a)
		n.Attrs = append(n.Attrs, a)
		if !p.try(",") {
			break
		}
	}
	p.want("]")
}

func (p *parser) attrValue(a *Attr) {
	switch {
	case p.at('"'):
		a.Kind, a.S = AttrString, p.quoted()
	case p.try("tensor"):
		a.Kind, a.Tensor = AttrTensor, p.tensor()
	case p.try("type"):
		a.Kind, a.Type = AttrType, p.member(0)
	case p.try("ints"):
		a.Kind, a.Ints = AttrInts, []int64{}
		p.want("[]")
	case p.try("floats"):
		a.Kind, a.Floats = AttrFloats, []float32{}
		p.want("[]")
	case p.try("strings"):
		a.Kind, a.Strings = AttrStrings, []string{}
		p.want("[]")
	case p.try("tensors"):
		a.Kind, a.Tensors = AttrTensors, []*Constant{}
		p.want("[]")
	case p.try("other"):
		p.fail("attribute %q has no text form", a.Name)
	case p.try("["):
		p.attrList(a)
	default:
		a.Kind, a.I, a.F = p.number()
	}
}

func (p *parser) tensor() *Constant {
	p.want("(")
	c := p.elements()
	p.want(")")
	return c
}

// attrList reads a list that is not empty; its first member decides the kind.
func (p *parser) attrList(a *Attr) {
	for {
		var one Attr
		p.attrValue(&one)
		kind := map[AttrKind]AttrKind{AttrInt: AttrInts, AttrFloat: AttrFloats, AttrString: AttrStrings, AttrTensor: AttrTensors}[one.Kind]
		if kind == AttrNone || a.Kind != AttrNone && a.Kind != kind {
			p.fail("attribute %q mixes kinds in a list", a.Name)
		}
		a.Kind = kind
		switch kind {
		case AttrInts:
			a.Ints = append(a.Ints, one.I)
		case AttrFloats:
			a.Floats = append(a.Floats, one.F)
		case AttrStrings:
			a.Strings = append(a.Strings, one.S)
		default:
			a.Tensors = append(a.Tensors, one.Tensor)
		}
		if !p.try(",") {
			break
		}
	}
	p.want("]")
}

// number reads an integer or, with a point, exponent or name, a float.
func (p *parser) number() (AttrKind, int64, float32) {
	p.space()
	s := p.while(func(c byte) bool { return wordByte(c) || c == '-' || c == '+' || c == ':' })
	if bits, ok := strings.CutPrefix(s, "nan:"); ok {
		u, err := strconv.ParseUint(bits, 16, 32)
		if err != nil {
			p.fail("bad NaN bits")
		}
		return AttrFloat, 0, math.Float32frombits(uint32(u))
	}
	if i, err := strconv.ParseInt(s, 10, 64); err == nil {
		return AttrInt, i, 0
	}
	f, err := strconv.ParseFloat(s, 32)
	if err != nil {
		p.fail("want an attribute value")
	}
	return AttrFloat, 0, float32(f)
}
