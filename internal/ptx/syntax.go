package ptx

// Module is a parsed file.
type Module struct {
	Version     string   // 8.1
	Target      []string // sm_70
	AddressSize int      // 64
	Variables   []*Variable
	Functions   []*Function // entries and device functions, in their order
}

// Variable is memory with a name: of a module, a function or a parameter list.
type Variable struct {
	Space    Space
	Type     Type
	Align    int     // bytes, 0 where nothing is declared
	Vector   int     // elements of .v2, .v4; else 1
	Dims     []int64 // of an array; a first one of 0 is left open
	Name     string
	Init     []Initializer
	IsExtern bool
	Line     int
}

// Initializer is one value of a variable: a number, or the address of a variable.
type Initializer struct {
	Bits   uint64
	Symbol string
	Offset int64
}

// Size is the variable's bytes; ok is false if they do not fit an int64.
func (v *Variable) Size() (size int64, ok bool) {
	size = int64(v.Type.Size()) * int64(v.Vector)
	for _, d := range v.Dims {
		if d < 0 || d > 0 && size > (1<<62)/d {
			return 0, false
		}
		size *= d
	}
	return size, true
}

// alignment is the declared one, or that of the type.
func (v *Variable) alignment() int64 {
	if v.Align > 0 {
		return int64(v.Align)
	}
	return int64(v.Type.Size()) * int64(v.Vector)
}

// Function is a kernel (an entry) or a device function.
type Function struct {
	Name       string
	IsEntry    bool
	Results    []*Variable
	Params     []*Variable
	MaxThreads [3]int // .maxntid or .reqntid; zeros where nothing is declared
	Body       []Statement
	HasBody    bool
	Line       int
}

// Statement is one of: a label, a declaration, an instruction, an opening or a closing brace.
type Statement struct {
	Line     int
	Label    string
	Variable *Variable
	Register *Registers
	Targets  *Targets
	Instr    *Instruction
	IsOpen   bool
	IsClose  bool
}

// Registers declares one register, or Count of them: %r<3> is %r0, %r1 and %r2.
type Registers struct {
	Type  Type
	Name  string
	Count int // 0: one register of this very name
}

// Targets is a table of branch targets with a name.
type Targets struct {
	Name   string
	Labels []string
}

// Instruction is an operation with its operands, the destination first.
type Instruction struct {
	Line      int
	Guard     string // the predicate register it depends on; empty: none
	IsNegated bool   // executed where the guard is false
	Op        []string
	Args      []Operand
}

// Name is the operation with its modifiers, ld.global.f32.
func (i *Instruction) Name() string {
	out := i.Op[0]
	for _, m := range i.Op[1:] {
		out += "." + m
	}
	return out
}

type operandKind uint8

const (
	nameOperand    operandKind = iota // a register, a variable, a label, a function
	integerOperand                    // Bits
	floatOperand                      // Bits, of a float64
	singleOperand                     // Bits, of a float32 (0f3F800000)
	memoryOperand                     // a name plus Offset, or Offset alone, in brackets
	vectorOperand                     // {Elems}
	listOperand                       // (Elems) of a call
	sinkOperand                       // _
)

// Operand is one argument of an instruction.
type Operand struct {
	Kind      operandKind
	Name      string
	Bits      uint64
	Offset    int64
	IsNegated bool      // !%p
	Elems     []Operand // of vectors and lists; the second destination of a|b
}
