package tile

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/berth-onnx/berth/ndarray"
)

// The text form, one line for each instruction:
//
//	(float32, int32) inner 1
//	%2 = float32 Cast %1
//	%3 = float32 Constant 0.5
//	%4 = float32 HardSigmoid %2 {0.2 0.5}
//	%5 = float32 Clip %4 _ %3              an absent argument is _
//	%6 = row float32 ReduceSum %5
//	return %5 %6 dropped

// String is the text form.
func (p *Program) String() string {
	var b strings.Builder
	names := make([]string, len(p.Operands))
	for i, dt := range p.Operands {
		names[i] = dt.String()
	}
	b.WriteString("(" + strings.Join(names, ", ") + ")")
	if p.Inner > 0 {
		fmt.Fprintf(&b, " inner %d", p.Inner)
	}
	b.WriteString("\n")
	for i := range p.Instrs {
		p.Instrs[i].write(&b, len(p.Operands)+i)
	}
	b.WriteString("return")
	for _, r := range p.Results {
		fmt.Fprintf(&b, " %%%d", r.Value)
		if r.Dropped {
			b.WriteString(" dropped")
		}
	}
	b.WriteString("\n")
	return b.String()
}

func (x *Instr) write(b *strings.Builder, at int) {
	fmt.Fprintf(b, "%%%d = ", at)
	if x.Row {
		b.WriteString("row ")
	}
	op := string(x.Op)
	if x.Func != nil {
		op += " " + x.Func.Name
	}
	fmt.Fprintf(b, "%s %s", x.DType, op)
	for _, a := range x.Args {
		if a == None {
			b.WriteString(" _")
		} else {
			fmt.Fprintf(b, " %%%d", a)
		}
	}
	if x.Value != nil {
		b.WriteString(" " + numberText(x.Value))
	}
	if len(x.Params) > 0 {
		words := make([]string, len(x.Params))
		for i, v := range x.Params {
			words[i] = strconv.FormatFloat(v, 'g', -1, 64)
		}
		b.WriteString(" {" + strings.Join(words, " ") + "}")
	}
	b.WriteString("\n")
}

// numberText writes an element so that it reads back the same.
func numberText(a *ndarray.Array) string {
	if a.DType.IsFloat() {
		return strconv.FormatFloat(a.Float(0), 'g', -1, 64)
	}
	if a.DType == ndarray.Uint64 {
		return strconv.FormatUint(uint64(a.Int(0)), 10)
	}
	return strconv.FormatInt(a.Int(0), 10)
}

// Parse reads the text form and checks the program.
func Parse(text string) (_ *Program, err error) {
	p := &Program{}
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	if err := p.parseHead(lines[0]); err != nil {
		return nil, err
	}
	for i, line := range lines[1:] {
		if rest, ok := strings.CutPrefix(line, "return"); ok && i == len(lines)-2 {
			if err := p.parseResults(strings.Fields(rest)); err != nil {
				return nil, err
			}
			return p, p.Check()
		}
		x, err := parseInstr(line, len(p.Operands)+i)
		if err != nil {
			return nil, fmt.Errorf("line %d of a tile program: %w", i+2, err)
		}
		p.Instrs = append(p.Instrs, x)
	}
	return nil, fmt.Errorf("a tile program without return")
}

func (p *Program) parseHead(line string) error {
	types, rest, ok := strings.Cut(strings.TrimPrefix(line, "("), ")")
	if !ok || !strings.HasPrefix(line, "(") {
		return fmt.Errorf("a tile program begins with the types of its operands, not %q", line)
	}
	if types != "" {
		for _, name := range strings.Split(types, ", ") {
			dt, ok := ndarray.ParseDType(name)
			if !ok {
				return fmt.Errorf("there is no element type %q", name)
			}
			p.Operands = append(p.Operands, dt)
		}
	}
	if rest == "" {
		return nil
	}
	inner, ok := strings.CutPrefix(rest, " inner ")
	n, err := strconv.Atoi(inner)
	if !ok || err != nil {
		return fmt.Errorf("%q is no number of inner dimensions", rest)
	}
	p.Inner = n
	return nil
}

func (p *Program) parseResults(words []string) error {
	for _, w := range words {
		if w == "dropped" && len(p.Results) > 0 {
			p.Results[len(p.Results)-1].Dropped = true
			continue
		}
		v, err := parseRef(w)
		if err != nil {
			return err
		}
		p.Results = append(p.Results, Result{Value: v})
	}
	return nil
}

func parseRef(word string) (Ref, error) {
	if word == "_" {
		return None, nil
	}
	n, err := strconv.Atoi(strings.TrimPrefix(word, "%"))
	if err != nil || !strings.HasPrefix(word, "%") || n < 0 {
		return 0, fmt.Errorf("%q is no value", word)
	}
	return Ref(n), nil
}

func parseInstr(line string, at int) (x Instr, err error) {
	line, ok := strings.CutPrefix(line, fmt.Sprintf("%%%d = ", at))
	if !ok {
		return x, fmt.Errorf("%%%d is expected here", at)
	}
	if line, ok = strings.CutPrefix(line, "row "); ok {
		x.Row = true
	}
	body, params, hasParams := strings.Cut(line, " {")
	words := strings.Fields(body)
	if len(words) < 2 {
		return x, fmt.Errorf("%q is no instruction", line)
	}
	if x.DType, ok = ndarray.ParseDType(words[0]); !ok {
		return x, fmt.Errorf("there is no element type %q", words[0])
	}
	x.Op = Op(words[1])
	if x.Op == Constant && len(words) == 3 {
		x.Value, err = parseNumber(x.DType, words[2])
		return x, err
	}
	for _, w := range words[2:] {
		a, err := parseRef(w)
		if err != nil {
			return x, err
		}
		x.Args = append(x.Args, a)
	}
	if hasParams {
		for _, w := range strings.Fields(strings.TrimSuffix(params, "}")) {
			v, err := strconv.ParseFloat(w, 64)
			if err != nil {
				return x, err
			}
			x.Params = append(x.Params, v)
		}
	}
	return x, nil
}

func parseNumber(dt ndarray.DType, word string) (*ndarray.Array, error) {
	if !Supports(dt) {
		return nil, fmt.Errorf("a number of %s", dt)
	}
	a := ndarray.Must(dt)
	if dt.IsFloat() {
		v, err := strconv.ParseFloat(word, 64)
		a.SetFloat(0, v)
		return a, err
	}
	if dt == ndarray.Uint64 {
		v, err := strconv.ParseUint(word, 10, 64)
		a.SetInt(0, int64(v))
		return a, err
	}
	v, err := strconv.ParseInt(word, 10, 64)
	a.SetInt(0, v)
	return a, err
}
