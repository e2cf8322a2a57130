package ssa

import (
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"unsafe"

	"github.com/berth-onnx/berth/internal/rescue"
	"github.com/berth-onnx/berth/internal/sysmem"
	"github.com/berth-onnx/berth/ndarray"
)

// The text form of a graph. It is what pass tests compare and what dumps show;
// [ParseGraph] reads it back.
//
//	graph "main" {
//	  in %x: float32[N,4]
//	  in %c: bool[]
//	  const %w: float32[4,4] = #1a2b3c4d            hash of the elements (short form)
//	  const %k: int64[2] = [0, -1]                  small: the elements
//	  const %z: float32[64] = splat 0.5             one element everywhere
//	  %y: float32[N,4] = MatMul(%x, %w) @"fc1"      @ is the node's name
//	  %s: int64[2]{N,4} = Shape(%y)                 {…} is the known content
//	  %a: float32[N,2], _ = Split(%y, _) [axis=1, num_outputs=2]
//	  %r: float32[N,4] = If(%c | %y, %z) {          captures follow the bar
//	    then_branch: graph "then" {
//	      in %p: float32[N,4]
//	      in %q: float32[64]
//	      out %p
//	    }
//	    else_branch: graph "else" { … }
//	  }
//	  %o: unknown = opaque com.acme::Foo/overload@3(%r)   read as com.acme.Foo, too
//	  out %r, %o
//	}
//
// Constants stand right before the first reader; dead values do not show. Names
// with other characters than letters, digits and _ . / - are quoted. Attributes
// of kind [AttrOther] and [Node.Origin] have no text: they print as "other" and
// do not parse.

// Format says how much of a graph the text shows.
type Format struct {
	Full    bool // print every constant so that it parses, and docs
	NoTypes bool // leave out types and contents
}

// inlineElems is how many elements a constant may have to be shown.
const inlineElems = 16

// String returns the short text of the graph.
func (g *Graph) String() string { return Format{}.Text(g) }

// Text returns the text of a graph and its bodies.
func (f Format) Text(g *Graph) string {
	var sb strings.Builder
	_ = f.Write(&sb, g)
	return sb.String()
}

// Write writes the text of a graph and its bodies.
func (f Format) Write(w io.Writer, g *Graph) error {
	return f.WriteContext(context.Background(), w, g)
}

// WriteContext is Write until a context ends, whose error it then returns; nil never does. Constants that must be unpacked for it are unpacked one
// after the other, within the budget that the context carries. One that can not be read is unreadable in the text; where memory was lacking for it,
// that is the error, too.
func (f Format) WriteContext(ctx context.Context, w io.Writer, g *Graph) (err error) {
	defer rescue.Into(&err)
	if ctx == nil {
		ctx = context.Background()
	}
	p := &printer{f: f, ctx: ctx, sums: map[stretch]uint32{}}
	p.graph(g, 0)
	if err := ctx.Err(); err != nil {
		return err
	}
	_, err = io.WriteString(rescue.Writer(w), p.sb.String())
	return cmp.Or(err, p.full)
}

type printer struct {
	f    Format
	ctx  context.Context
	sb   strings.Builder
	full error              // of the first constant that does not fit into memory
	sums map[stretch]uint32 // of elements that are where they were: expanded functions repeat their constants
}

// stretch is bytes by where they lie.
type stretch struct {
	at *byte
	n  int
}

func (p *printer) line(depth int, format string, args ...any) {
	p.sb.WriteString(strings.Repeat("  ", depth))
	fmt.Fprintf(&p.sb, format, args...)
	p.sb.WriteByte('\n')
}

func (p *printer) graph(g *Graph, depth int) {
	limitDepth(g, depth)
	p.sb.WriteString("graph " + strconv.Quote(g.Name) + " {\n")
	p.doc(depth+1, g.Doc)
	for _, v := range g.Params {
		p.line(depth+1, "in %s", p.typed(v))
		p.doc(depth+2, v.Doc)
	}
	shown := make([]bool, len(g.values))
	for _, n := range g.Nodes {
		if p.ctx.Err() != nil {
			return
		}
		for _, v := range n.In {
			p.constant(shown, v, depth+1)
		}
		p.node(n, depth+1)
	}
	for _, v := range g.Results {
		p.constant(shown, v, depth+1)
	}
	p.line(depth+1, "%s", strings.TrimSpace("out "+valueList(g.Results)))
	p.sb.WriteString(strings.Repeat("  ", depth) + "}\n")
}

func (p *printer) doc(depth int, doc string) {
	if p.f.Full && doc != "" {
		p.line(depth, "doc %s", strconv.Quote(doc))
	}
}

func (p *printer) constant(shown []bool, v *Value, depth int) {
	if v == nil || v.Const == nil || v.ID >= len(shown) || shown[v.ID] {
		return
	}
	shown[v.ID] = true
	p.line(depth, "const %s: %s = %s", ValueName(v), v.Const.Type(), p.elements(v.Const))
	p.doc(depth+1, v.Doc)
}

func (p *printer) node(n *Node, depth int) {
	p.sb.WriteString(strings.Repeat("  ", depth))
	p.sb.WriteString(p.results(n) + " = " + opText(n) + "(" + valueList(n.Formals()))
	if n.Captures > 0 {
		p.sb.WriteString(" | " + valueList(n.Captured()))
	}
	p.sb.WriteString(")")
	p.attrs(n.Attrs)
	if n.Name != "" {
		p.sb.WriteString(" @" + strconv.Quote(n.Name))
	}
	if len(n.Bodies) > 0 {
		p.sb.WriteString(" {\n")
		for i, b := range n.Bodies {
			p.sb.WriteString(strings.Repeat("  ", depth+1) + identText(n.BodyAttr[i]) + ": ")
			p.graph(b, depth+1)
		}
		p.sb.WriteString(strings.Repeat("  ", depth) + "}")
	}
	p.sb.WriteByte('\n')
	p.doc(depth+1, n.Doc)
	for _, v := range n.Out {
		if v != nil && v.Doc != "" && p.f.Full {
			p.line(depth+1, "doc %s %s", ValueName(v), strconv.Quote(v.Doc))
		}
	}
}

func (p *printer) results(n *Node) string {
	if len(n.Out) == 0 {
		return "()"
	}
	parts := make([]string, len(n.Out))
	for i, v := range n.Out {
		parts[i] = "_"
		if v != nil {
			parts[i] = p.typed(v)
		}
	}
	return strings.Join(parts, ", ")
}

func (p *printer) typed(v *Value) string {
	if p.f.NoTypes {
		return ValueName(v)
	}
	return ValueName(v) + ": " + v.Type.String() + contentText(v.Content)
}

func contentText(content []Dim) string {
	if content == nil {
		return ""
	}
	parts := make([]string, len(content))
	for i, d := range content {
		parts[i] = d.String()
	}
	return "{" + strings.Join(parts, ",") + "}"
}

func (p *printer) attrs(attrs []Attr) {
	if len(attrs) == 0 {
		return
	}
	p.sb.WriteString(" [")
	for i, a := range attrs {
		if i > 0 {
			p.sb.WriteString(", ")
		}
		p.sb.WriteString(identText(a.Name) + "=" + p.attrValue(a))
	}
	p.sb.WriteString("]")
}

func (p *printer) attrValue(a Attr) string {
	switch a.Kind {
	case AttrInt:
		return strconv.FormatInt(a.I, 10)
	case AttrFloat:
		return floatText(a.F)
	case AttrString:
		return strconv.Quote(a.S)
	case AttrInts:
		return listText("ints", a.Ints, func(x int64) string { return strconv.FormatInt(x, 10) })
	case AttrFloats:
		return listText("floats", a.Floats, floatText)
	case AttrStrings:
		return listText("strings", a.Strings, strconv.Quote)
	case AttrTensor:
		return p.tensor(a.Tensor)
	case AttrTensors:
		return listText("tensors", a.Tensors, p.tensor)
	case AttrType:
		return "type(" + a.Type.String() + ")"
	}
	return "other"
}

func (p *printer) tensor(c *Constant) string {
	return "tensor(" + c.Type().String() + " = " + p.elements(c) + ")"
}

// listText prints [a, b]; an empty list says what it is a list of: ints[].
func listText[T any](kind string, xs []T, one func(T) string) string {
	if len(xs) == 0 {
		return kind + "[]"
	}
	parts := make([]string, len(xs))
	for i, x := range xs {
		parts[i] = one(x)
	}
	return "[" + strings.Join(parts, ", ") + "]"
}

// floatText prints a float attribute so that it can not be taken for an integer;
// a NaN with a payload prints its bits.
func floatText(f float32) string {
	if f != f && math.Float32bits(f) != math.Float32bits(float32(math.NaN())) {
		return fmt.Sprintf("nan:%08x", math.Float32bits(f))
	}
	s := strconv.FormatFloat(float64(f), 'g', -1, 32)
	if strings.ContainsAny(s, ".eIN") {
		return s
	}
	return s + ".0"
}

// elements prints what follows the "=" of a constant.
func (p *printer) elements(c *Constant) string {
	if s, ok := c.Splat(); ok && len(c.shape) > 0 && c.Len() > 0 {
		if text, ok := scalarText(s); ok {
			return "splat " + text
		}
		return "splat base64 " + strconv.Quote(base64.StdEncoding.EncodeToString(s.Data))
	}
	show := c.Len() <= inlineElems
	if !show && !p.f.Full {
		return "#" + p.hash(c)
	}
	defer c.releaseMade()()
	a, err := c.ArrayContext(p.ctx, sysmem.BudgetOf(p.ctx))
	if err != nil {
		return p.unreadable(err) + " " + strconv.Quote(err.Error())
	}
	if show || c.dtype == ndarray.String {
		if text, ok := scalarText(a); ok {
			return text
		}
	}
	if err := sysmem.BudgetOf(p.ctx).AskContext(p.ctx, "the text of a constant", textBytes*int64(len(a.Data))); err != nil {
		return p.unreadable(err)
	}
	return "base64 " + strconv.Quote(base64.StdEncoding.EncodeToString(a.Data))
}

// textBytes is about what the text of a byte takes: it is made, quoted, and added to a text that may have to grow for it.
const textBytes = 5

// unreadable stands for elements that can not be read, and notes the error if they do not fit into memory.
func (p *printer) unreadable(err error) string {
	if full := (*sysmem.Error)(nil); p.full == nil && errors.As(err, &full) {
		p.full = err
	}
	return "unreadable"
}

// hash returns 8 hex digits over the elements.
func (p *printer) hash(c *Constant) string {
	defer c.releaseMade()()
	data, a, err := c.bytes(p.ctx, sysmem.BudgetOf(p.ctx))
	if err != nil {
		return p.unreadable(err)
	}
	var sum uint32
	if a == nil {
		at := stretch{unsafe.SliceData(data), len(data)}
		known, ok := p.sums[at]
		if !ok {
			known = checksum(p.ctx, data)
			p.sums[at] = known
		}
		sum = known
	} else {
		sum = checksum(p.ctx, data)
		for _, s := range a.Str {
			sum = crc32.Update(sum, crc32.IEEETable, []byte(strconv.Quote(s)))
		}
	}
	return fmt.Sprintf("%08x", sum)
}

// checksum is that of bytes, or of the first of them if the context ends.
func checksum(ctx context.Context, data []byte) (sum uint32) {
	const piece = 1 << 20 // between two looks at the context
	for part := range slices.Chunk(data, piece) {
		if ctx.Err() != nil {
			break
		}
		sum = crc32.Update(sum, crc32.MakeTable(crc32.Castagnoli), part)
	}
	return sum
}

// scalarText prints elements as a list (rank 0: bare); ok is false when reading
// the text back would not give the same bits (NaN payloads).
func scalarText(a *ndarray.Array) (string, bool) {
	parts := make([]string, a.Len())
	for i := range parts {
		parts[i] = elemText(a, i)
	}
	b, err := parseElems(a.DType, a.Shape, parts)
	if err != nil || !sameElems(context.Background(), a, b) {
		return "", false
	}
	if len(a.Shape) == 0 {
		return parts[0], true
	}
	return "[" + strings.Join(parts, ", ") + "]", true
}

func elemText(a *ndarray.Array, i int) string {
	switch dt := a.DType; {
	case dt == ndarray.String:
		return strconv.Quote(a.Str[i])
	case dt == ndarray.Bool:
		return strconv.FormatBool(a.Data[i] != 0)
	case dt == ndarray.Float64:
		return strconv.FormatFloat(a.Float(i), 'g', -1, 64)
	case dt.IsFloat():
		return strconv.FormatFloat(a.Float(i), 'g', -1, 32)
	case dt == ndarray.Complex64:
		return strconv.FormatComplex(complex128(ndarray.Slice[complex64](a)[i]), 'g', -1, 64)
	case dt == ndarray.Complex128:
		return strconv.FormatComplex(ndarray.Slice[complex128](a)[i], 'g', -1, 128)
	case dt == ndarray.Uint64:
		return strconv.FormatUint(ndarray.Slice[uint64](a)[i], 10)
	}
	return strconv.FormatInt(a.Int(i), 10)
}

// SplitName is the domain and the name of an operator written "domain.Name", "domain::Name" or, in the default domain, "Name".
func SplitName(s string) (domain, name string) {
	if domain, name, ok := strings.Cut(s, "::"); ok {
		return domain, name
	}
	if at := strings.LastIndexByte(s, '.'); at > 0 && at < len(s)-1 {
		return s[:at], s[at+1:]
	}
	return "", s
}

// opText prints operator, domain, overload and version.
func opText(n *Node) string {
	s := identText(n.Op)
	switch {
	case n.Domain != "":
		s = identText(n.Domain) + "::" + s
	case strings.Contains(n.Op, "."):
		s = strconv.Quote(n.Op)
	}
	if n.Overload != "" {
		s += "/" + strconv.Quote(n.Overload)
	}
	if n.Version != 0 {
		s += "@" + strconv.Itoa(n.Version)
	}
	if n.Opaque {
		s = "opaque " + s
	}
	return s
}

func valueList(vs []*Value) string {
	parts := make([]string, len(vs))
	for i, v := range vs {
		parts[i] = "_"
		if v != nil {
			parts[i] = ValueName(v)
		}
	}
	return strings.Join(parts, ", ")
}

// ValueName prints a value's name as the text form does: %name, quoted if needed.
func ValueName(v *Value) string {
	if v.Name != "" && strings.IndexFunc(v.Name, notNameRune) < 0 {
		return "%" + v.Name
	}
	return "%" + strconv.Quote(v.Name)
}

func notNameRune(r rune) bool {
	return !(r == '_' || r == '.' || r == '/' || r == '-' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z')
}

// identText prints an operator, domain or attribute name, quoted if it is no
// plain identifier (dots allowed).
func identText(s string) string {
	plain := s != "" && s != "opaque" && s != "_"
	for i, r := range s {
		plain = plain && (r == '_' || r == '.' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || i > 0 && r >= '0' && r <= '9')
	}
	if plain {
		return s
	}
	return strconv.Quote(s)
}
