package ndarray

import (
	"fmt"
	"reflect"

	"github.com/berth-onnx/berth/internal/rescue"
)

// Typed is a Go type that stands for an element type which Go lacks, such as a half-precision
// number in 16 bits. Its size must be that of the element type.
type Typed interface{ DType() DType }

// Element is the set of Go types of elements, strings included.
type Element interface{ Elem | string }

// TypeError reports elements asked for as a Go type that is not theirs.
type TypeError struct {
	Want string // Go type asked for
	Got  string // type of the value: "float32[1,10]", "a sequence", "nothing"
}

// Error names both types.
func (e *TypeError) Error() string {
	return fmt.Sprintf("the value is %s, its elements are not of Go type %s", e.Got, e.Want)
}

// ShapeError reports data that is not as long as its shape says.
type ShapeError struct {
	Type       string // type and shape: "float32[1,3,224,224]"
	Have, Need int    // elements; Need is -1 for a shape that is negative or too large
}

// Error says how many elements there are, and how many are needed.
func (e *ShapeError) Error() string {
	switch {
	case e.Need < 0:
		return fmt.Sprintf("%s, a shape that is negative or too large", e.Type)
	case e.Have < e.Need:
		return fmt.Sprintf("%s with too little data: have %d elements, need %d", e.Type, e.Have, e.Need)
	}
	part := ""
	if e.Have == e.Need {
		part = " and a part of one"
	}
	return fmt.Sprintf("%s with too much data: have %d elements%s, need %d", e.Type, e.Have, part, e.Need)
}

// Describe names the type of a value for messages: "float32[1,10]", "a sequence", "nothing".
func Describe(v Value) string {
	switch x := v.(type) {
	case *Array:
		if x != nil {
			return x.String()
		}
	case *Sequence:
		return "a sequence"
	case *Optional:
		return "an optional"
	case *Map:
		return "a map"
	case *Sparse:
		return "a sparse tensor"
	case nil:
	default:
		return fmt.Sprintf("a %T", v)
	}
	return "nothing"
}

// Check reports an element type that does not exist, or, with a [*ShapeError], data that is
// not as long as the shape says.
func (a *Array) Check() (err error) {
	defer rescue.Into(&err)
	if !a.DType.Valid() {
		return fmt.Errorf("element type %d does not exist", a.DType)
	}
	have := len(a.Str)
	if a.DType != String {
		have = len(a.Data) / a.DType.Size()
	}
	need, err := NumElems(a.Shape)
	if err != nil {
		return &ShapeError{Type: a.String(), Have: have, Need: -1}
	}
	if have != need || a.DType != String && len(a.Data)%a.DType.Size() != 0 {
		return &ShapeError{Type: a.String(), Have: have, Need: need}
	}
	return nil
}

// kinds are the element types that Go has.
var kinds = map[reflect.Kind]DType{
	reflect.Float32: Float32, reflect.Float64: Float64, reflect.Int8: Int8, reflect.Int16: Int16, reflect.Int32: Int32,
	reflect.Int64: Int64, reflect.Uint8: Uint8, reflect.Uint16: Uint16, reflect.Uint32: Uint32, reflect.Uint64: Uint64,
	reflect.Bool: Bool, reflect.Complex64: Complex64, reflect.Complex128: Complex128, reflect.String: String,
}

// DTypeOf returns the element type that a Go scalar stands for, or that it names itself as a
// [Typed] value; Undefined for values of other types, and for those that name an element type of another size.
func DTypeOf(v any) DType {
	switch v.(type) {
	case float32: // the usual ones without reflection
		return Float32
	case int64:
		return Int64
	case nil:
		return Undefined
	}
	dt := kinds[reflect.TypeOf(v).Kind()]
	t, ok := v.(Typed)
	if !ok || dt == Undefined {
		return dt
	}
	named := t.DType()
	if (named == String) != (dt == String) || named.Size() != dt.Size() { // memory of the one is none of the other
		return Undefined
	}
	return named
}
