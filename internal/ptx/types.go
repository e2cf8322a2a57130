package ptx

// Type is the type of a register, variable or operation.
type Type uint8

// The types of PTX. F16x2 and BF16x2 are two halves in 32 bits; TF32 is float32 with 10 bits of mantissa.
const (
	NoType Type = iota
	Pred
	B8
	B16
	B32
	B64
	U8
	U16
	U32
	U64
	S8
	S16
	S32
	S64
	F16
	BF16
	F32
	F64
	F16x2
	BF16x2
	TF32
)

var typeNames = map[string]Type{
	"pred": Pred, "b8": B8, "b16": B16, "b32": B32, "b64": B64, "u8": U8, "u16": U16, "u32": U32, "u64": U64,
	"s8": S8, "s16": S16, "s32": S32, "s64": S64, "f16": F16, "bf16": BF16, "f32": F32, "f64": F64,
	"f16x2": F16x2, "bf16x2": BF16x2, "tf32": TF32,
}

// String is the name without its point.
func (t Type) String() string {
	for name, u := range typeNames {
		if u == t {
			return name
		}
	}
	return "untyped"
}

// Size is how many bytes a value of the type takes in memory; 1 for predicates, which memory never holds.
func (t Type) Size() int {
	switch t {
	case B16, U16, S16, F16, BF16:
		return 2
	case B32, U32, S32, F32, F16x2, BF16x2, TF32:
		return 4
	case B64, U64, S64, F64:
		return 8
	}
	return 1
}

func (t Type) isSigned() bool { return t >= S8 && t <= S64 }

func (t Type) isFloat() bool { return t >= F16 && t <= TF32 }

// extended widens the low bits of a register to 64 as the type says: with its sign, or with zeros.
func (t Type) extended(v uint64) uint64 {
	shift := 64 - 8*uint(t.Size())
	if t.isSigned() {
		return uint64(int64(v<<shift) >> shift)
	}
	return v << shift >> shift
}

// Space is where a variable or the target of an access lies.
type Space uint8

// The state spaces of PTX. Generic addresses stand for one of the others.
const (
	Generic Space = iota
	Global
	Shared
	Local
	Param
	Const
)

var spaceNames = map[string]Space{"global": Global, "shared": Shared, "local": Local, "param": Param, "const": Const}

// String is the name without its point.
func (s Space) String() string {
	for name, t := range spaceNames {
		if s == t {
			return name
		}
	}
	return "generic"
}
