package ndarray

import "math"

// Float returns element i as a float64 (bool as 0/1, complex by its real part); 0 of a type that does not exist.
func (a *Array) Float(i int) float64 {
	switch a.DType {
	case Float32:
		return float64(Slice[float32](a)[i])
	case Float64:
		return Slice[float64](a)[i]
	case Float16:
		return float64(F16ToF32(Slice[uint16](a)[i]))
	case BFloat16:
		return float64(BF16ToF32(Slice[uint16](a)[i]))
	case Float8E4M3FN, Float8E4M3FNUZ, Float8E5M2, Float8E5M2FNUZ, Float8E8M0, Float4E2M1, Float6E2M3, Float6E3M2:
		return float64(F8ToF32(a.DType, a.Data[i]))
	case Uint64:
		return float64(Slice[uint64](a)[i])
	case Complex64:
		return float64(real(Slice[complex64](a)[i]))
	case Complex128:
		return real(Slice[complex128](a)[i])
	}
	return float64(a.Int(i))
}

// SetFloat stores v rounded to the element type; integers are as [Truncated] says.
func (a *Array) SetFloat(i int, v float64) {
	switch a.DType {
	case Float32:
		Slice[float32](a)[i] = float32(v)
	case Float64:
		Slice[float64](a)[i] = v
	case Float16:
		Slice[uint16](a)[i] = F32ToF16(float32(v))
	case BFloat16:
		Slice[uint16](a)[i] = F32ToBF16(float32(v))
	case Float8E4M3FN, Float8E4M3FNUZ, Float8E5M2, Float8E5M2FNUZ, Float8E8M0, Float4E2M1, Float6E2M3, Float6E3M2:
		a.Data[i] = F32ToF8(a.DType, float32(v), true)
	case Complex64:
		Slice[complex64](a)[i] = complex(float32(v), 0)
	case Complex128:
		Slice[complex128](a)[i] = complex(v, 0)
	case Bool:
		a.Data[i] = bit(v != 0)
	default:
		a.SetInt(i, Truncated(v, a.DType))
	}
}

// Int returns element i as an int64 (floats truncate, uint64 wraps).
func (a *Array) Int(i int) int64 {
	switch a.DType {
	case Int8, Int4, Int2:
		return int64(int8(a.Data[i]))
	case Uint8, Uint4, Uint2, Bool:
		return int64(a.Data[i])
	case Int16:
		return int64(Slice[int16](a)[i])
	case Uint16:
		return int64(Slice[uint16](a)[i])
	case Int32:
		return int64(Slice[int32](a)[i])
	case Uint32:
		return int64(Slice[uint32](a)[i])
	case Int64:
		return Slice[int64](a)[i]
	case Uint64:
		return int64(Slice[uint64](a)[i])
	case String, Undefined:
		return 0
	}
	if a.DType >= NumDTypes {
		return 0 // Float knows no more of it
	}
	return Truncated(a.Float(i), Int64)
}

// Truncated is v cut off towards 0 as an integer of a type, the same on every machine. What that can not hold is as in ONNX
// Runtime on x86, whose instructions give the least integer of 32 or of 64 bits for it:
//
//	int32, int64           NaN, infinities and numbers beyond the type are the least number of the type
//	types of up to 16 bits low bits of the int32: 0 for NaN, 44 for 300 as int8
//	uint32                 low bits of the int64: 0 for NaN, 2³²−1 for −1
//	uint64                 below 2⁶³ the bits of the int64, 2⁶³ for NaN; above 2⁶⁴ 0
//
// Low bits are taken where it is stored: the result for a narrow type is the wider number.
func Truncated(v float64, dt DType) int64 {
	limit := float64(1 << 63)
	switch {
	case dt == Uint64 && v >= limit:
		return math.MinInt64 ^ Truncated(v-limit, Int64)
	case dt == Int32 || dt.Size() < 4:
		limit = 1 << 31
	}
	if !(math.Abs(v) < limit) {
		v = -limit
	}
	return int64(v)
}

// SetInt stores v, wrapped to the element type's width.
func (a *Array) SetInt(i int, v int64) {
	switch a.DType {
	case Int8, Uint8:
		a.Data[i] = byte(v)
	case Int4:
		a.Data[i] = byte(int8(v<<4) >> 4)
	case Uint4:
		a.Data[i] = byte(v) & 15
	case Int2:
		a.Data[i] = byte(int8(v<<6) >> 6)
	case Uint2:
		a.Data[i] = byte(v) & 3
	case Bool:
		a.Data[i] = bit(v != 0)
	case Int16, Uint16:
		Slice[uint16](a)[i] = uint16(v)
	case Int32, Uint32:
		Slice[uint32](a)[i] = uint32(v)
	case Int64, Uint64:
		Slice[uint64](a)[i] = uint64(v)
	case String, Undefined:
	default:
		if a.DType < NumDTypes {
			a.SetFloat(i, float64(v))
		}
	}
}

func bit(set bool) byte {
	if set {
		return 1
	}
	return 0
}

// Ints returns all elements as int64 (for shapes, axes and the like).
func (a *Array) Ints() []int64 {
	out := make([]int64, a.Len())
	for i := range out {
		out[i] = a.Int(i)
	}
	return out
}

// Floats32 returns all elements converted to float32; the data itself, not a
// copy, when it already is float32.
func (a *Array) Floats32() []float32 {
	if a.DType == Float32 {
		return Slice[float32](a)
	}
	out := make([]float32, a.Len())
	for i := range out {
		out[i] = float32(a.Float(i))
	}
	return out
}
