package onnxwire

import (
	"fmt"
	"reflect"
)

// A filler sets every field of a message to something that is not its default, each time something else, so that a field
// which is not read or not written, or is written in another's place, shows.
type filler struct {
	next int
	dims int
}

// filled returns a message of type T with every field set, nested messages down to the given depth too.
func filled[T any](depth int) *T {
	m := new(T)
	(&filler{}).fill(reflect.ValueOf(m).Elem(), depth)
	return m
}

func (f *filler) count() int {
	f.next++
	return f.next
}

func (f *filler) fill(v reflect.Value, depth int) {
	switch m := v.Addr().Interface().(type) {
	case *AttributeType: // of the enumerations some readers accept only what they know
		*m = AttributeType(f.count()%14 + 1)
		return
	case *DataLocation:
		*m = DataExternal
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		f.fillStruct(v, depth)
	case reflect.Pointer:
		if depth > 0 {
			v.Set(reflect.New(v.Type().Elem()))
			f.fill(v.Elem(), depth-1)
		}
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Pointer && depth == 0 {
			return
		}
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		for i := range 2 {
			f.fill(v.Index(i), depth)
		}
	case reflect.String:
		v.SetString(fmt.Sprintf("text %d", f.count()))
	case reflect.Float32, reflect.Float64:
		v.SetFloat(float64(f.count()) / 2)
	case reflect.Int32, reflect.Int64:
		v.SetInt(int64(f.count()) * 7919)
	case reflect.Uint8, reflect.Uint64:
		v.SetUint(uint64(f.count()) & 0x7f)
	default:
		panic("no rule for " + v.Type().String())
	}
}

func (f *filler) fillStruct(v reflect.Value, depth int) {
	switch m := v.Addr().Interface().(type) {
	case *Extra:
		m.Unknown = append([]byte{0xd2, 0x3e, 2}, byte(f.count()), 0) // field 1002, two bytes
		return
	case *Type: // only one of its pointers may be set
		m.Denotation = fmt.Sprintf("text %d", f.count())
		if depth > 0 {
			f.fill(v.Field(f.count()%5), depth)
		}
		return
	case *Dim:
		*m = Dim{Kind: DimValue, Value: int64(f.count()), Denotation: "axis"}
		if f.dims++; f.dims%2 == 0 {
			m.Kind, m.Value, m.Param = DimParam, 0, fmt.Sprintf("n%d", f.count())
		}
		return
	}
	for i := range v.NumField() {
		f.fill(v.Field(i), depth)
	}
}
