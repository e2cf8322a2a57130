package tile

import (
	"fmt"
	"slices"
	"strings"

	"github.com/berth-onnx/berth/ndarray"
)

// Ref names a value of a program: an operand by its position, or an instruction by its
// position behind the operands. None stands for an absent argument.
type Ref int

// None is an absent argument.
const None Ref = -1

// BlockElems is how many elements a block has that programs run over, unless a row has more: so many
// that calls cost little, so few that the values of a block stay in the second cache.
const BlockElems = 4096

// Program is a typed program over tiles. Programs are not changed once they are checked.
type Program struct {
	Operands []ndarray.DType
	Inner    int // innermost dimensions that a row spans; 0 in a program without rows
	Instrs   []Instr
	Results  []Result
}

// Instr computes one value.
type Instr struct {
	Op     Op
	DType  ndarray.DType  // of the value
	Row    bool           // the value has one element for each row
	Args   []Ref          // operands and earlier instructions
	Params []float64      // as the operator's attributes
	Value  *ndarray.Array // the number of a Constant
	Func   *Func          // what a Call calls
}

// Func is a function of elements that the program's user brings. It gives the same result for the
// same element, whatever it is called with before.
type Func struct {
	Name    string // by which programs are told apart: no two functions have the same
	In, Out ndarray.DType
	Run     func(dst, src []byte) // computes as many elements as there are, aligned
}

// Result is a value that the program stores. Dropped says that a row value is stored
// without the dimensions of the row, not with dimensions of one in their place.
type Result struct {
	Value   Ref
	Dropped bool
}

// NumValues is how many operands and instructions there are.
func (p *Program) NumValues() int { return len(p.Operands) + len(p.Instrs) }

// Instr returns the instruction that computes a value, nil for an operand.
func (p *Program) Instr(v Ref) *Instr {
	if int(v) < len(p.Operands) {
		return nil
	}
	return &p.Instrs[int(v)-len(p.Operands)]
}

// DType is the element type of a value.
func (p *Program) DType(v Ref) ndarray.DType {
	if i := p.Instr(v); i != nil {
		return i.DType
	}
	return p.Operands[v]
}

// IsRow reports that a value is computed once for each row.
func (p *Program) IsRow(v Ref) bool {
	i := p.Instr(v)
	return i != nil && i.Row
}

// IsConstant reports that a value is a number written in the program.
func (p *Program) IsConstant(v Ref) bool {
	i := p.Instr(v)
	return i != nil && i.Op == Constant
}

// Add appends an instruction and returns its value.
func (p *Program) Add(i Instr) Ref {
	p.Instrs = append(p.Instrs, i)
	return Ref(p.NumValues() - 1)
}

// Number appends a constant of an element type.
func (p *Program) Number(dt ndarray.DType, v float64) Ref {
	a := ndarray.Must(dt)
	a.SetFloat(0, v)
	return p.Add(Instr{Op: Constant, DType: dt, Value: a})
}

// Names lists the operators of the instructions, numbers left out, with blanks between them.
func (p *Program) Names() string {
	names := ""
	for i := range p.Instrs {
		if op := p.Instrs[i].Op; op != Constant {
			names += " " + string(op)
		}
	}
	return strings.TrimPrefix(names, " ")
}

// Store appends a result.
func (p *Program) Store(v Ref) { p.Results = append(p.Results, Result{Value: v}) }

// LastReads returns, by value, the last instruction that reads it, -1 if none does. Scale and
// bias of a normalization are read again for each row, after the first results are written: they
// count as read by the instruction behind it.
func (p *Program) LastReads() []int {
	last := make([]int, p.NumValues())
	for v := range last {
		last[v] = -1
	}
	for i := range p.Instrs {
		for k, a := range p.Instrs[i].Args {
			switch {
			case a == None:
			case k > 0 && p.Instrs[i].Op.Normalizes():
				last[a] = i + 1
			default:
				last[a] = max(last[a], i)
			}
		}
	}
	return last
}

// ResultShape is the shape of result k in a program over a shape.
func (p *Program) ResultShape(k int, shape []int) []int {
	r := p.Results[k]
	if !p.IsRow(r.Value) {
		return shape
	}
	outer := len(shape) - p.Inner
	out := slices.Clone(shape[:outer])
	for range p.Inner {
		if !r.Dropped {
			out = append(out, 1)
		}
	}
	return out
}

// Check reports what is wrong with a program: unknown operators, element types that an
// operator does not take, arguments that come later, row values made of full ones.
func (p *Program) Check() error {
	if len(p.Operands) > maxValues || len(p.Instrs) > maxValues || len(p.Results) > maxValues {
		return fmt.Errorf("a tile program of %d operands, %d instructions and %d results is too large", len(p.Operands), len(p.Instrs), len(p.Results))
	}
	if p.Inner < 0 || p.Inner > maxInner {
		return fmt.Errorf("rows of %d dimensions", p.Inner)
	}
	for i, dt := range p.Operands {
		if !Supports(dt) {
			return fmt.Errorf("operand %d is of %s", i, dt)
		}
	}
	for i := range p.Instrs {
		if err := p.checkInstr(i); err != nil {
			return fmt.Errorf("%%%d = %s: %w", len(p.Operands)+i, p.Instrs[i].Op, err)
		}
	}
	if len(p.Results) == 0 {
		return fmt.Errorf("the program has no result")
	}
	for _, r := range p.Results {
		if r.Value < Ref(len(p.Operands)) || int(r.Value) >= p.NumValues() || p.IsConstant(r.Value) {
			return fmt.Errorf("%%%d is no computed value", r.Value)
		}
		if r.Dropped && !p.IsRow(r.Value) {
			return fmt.Errorf("%%%d is no row value", r.Value)
		}
	}
	return nil
}

// Limits on programs that come from outside.
const (
	maxValues = 1 << 12
	maxInner  = 64
)

func (p *Program) checkInstr(i int) error {
	x := &p.Instrs[i]
	s, known := specs[x.Op]
	if !known {
		return fmt.Errorf("no such operator")
	}
	if len(x.Args) < s.args || len(x.Args) > s.args+s.optional || len(x.Params) != len(s.params) {
		return fmt.Errorf("%d arguments, %d parameters", len(x.Args), len(x.Params))
	}
	if !Supports(x.DType) || (x.Op == Constant) != (x.Value != nil) || (x.Op == Call) != (x.Func != nil) {
		return fmt.Errorf("a value of %s", x.DType)
	}
	if x.Value != nil && (x.Value.DType != x.DType || x.Value.Len() != 1) {
		return fmt.Errorf("a number of %s", x.Value)
	}
	if (x.Row || s.scope != perElement) && p.Inner == 0 {
		return fmt.Errorf("the program has no rows")
	}
	if s.scope == perRow && !x.Row || s.scope == wholeRow && x.Row {
		return fmt.Errorf("row is %v", x.Row)
	}
	for k, a := range x.Args {
		if a == None && k >= s.args {
			continue
		}
		if a < 0 || int(a) >= len(p.Operands)+i {
			return fmt.Errorf("argument %%%d does not come before", a)
		}
		if k == 0 && s.alone() && p.IsConstant(a) {
			return fmt.Errorf("argument %%%d is a number", a)
		}
		if s.scope != perElement && k == 0 && p.IsRow(a) {
			return fmt.Errorf("argument %%%d is a row value", a)
		}
		if s.scope == perElement && x.Row && p.Instr(a) != nil && !p.IsRow(a) && !p.IsConstant(a) {
			return fmt.Errorf("argument %%%d is no row value", a)
		}
	}
	return p.checkTypes(x, s)
}

// checkTypes compares element types with what the operator's class takes.
func (p *Program) checkTypes(x *Instr, s *spec) error {
	var in []ndarray.DType
	for _, a := range x.Args {
		if a != None {
			in = append(in, p.DType(a))
		}
	}
	if !s.class.accepts(in, x.DType) {
		return fmt.Errorf("%v -> %s is not defined", in, x.DType)
	}
	return nil
}

// Supports reports the element types of values: floats of 16 to 64 bits, integers of 8 to
// 64, and booleans.
func Supports(dt ndarray.DType) bool {
	switch dt {
	case ndarray.Float16, ndarray.BFloat16, ndarray.Float32, ndarray.Float64, ndarray.Bool,
		ndarray.Int8, ndarray.Int16, ndarray.Int32, ndarray.Int64,
		ndarray.Uint8, ndarray.Uint16, ndarray.Uint32, ndarray.Uint64:
		return true
	}
	return false
}
