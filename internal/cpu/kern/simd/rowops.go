package simd

// Relation is a comparison.
type Relation uint8

// The comparisons.
const (
	Equal Relation = iota
	Less
	AtMost
	NumRelations
)

// IntOp is an operation on 32-bit integers, which keeps the low bits.
type IntOp uint8

// The operations.
const (
	IntAdd IntOp = iota
	IntSub
	IntMul
	NumIntOps
)

// rowOps are operations on rows of other elements than float32, nil where plain Go does it. An
// operand moves by a step of so many bytes a vector, or is one element, with step 0; n is a multiple of the
// lanes, which are half as many for int64.
type rowOps struct {
	Ints       [NumIntOps]func(dst, a, b *int32, n, stepA, stepB int)
	CompareF32 [NumRelations]func(dst *bool, a, b *float32, n, stepA, stepB int)
	CompareI32 [NumRelations]func(dst *bool, a, b *int32, n, stepA, stepB int)
	CompareI64 [NumRelations]func(dst *bool, a, b *int64, n, stepA, stepB int)
	Choose     func(dst *uint32, cond *byte, a, b *uint32, n, stepA, stepB int) // cond ? a : b
}
