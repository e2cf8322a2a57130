package lower

import (
	"fmt"
	"reflect"
	"strings"
	"unsafe"

	"gorgonia.org/gorgonia"
)

// Gorgonia's ops are unexported structs, and what they were made with can be read in no
// other way than by reflection. The names of types and fields are those of v0.9.18; a field
// that is missing or of another type is an error that says so.

// gorgoniaPackage is where the ops with rules are defined.
var gorgoniaPackage = reflect.TypeFor[gorgonia.Node]().PkgPath()

// kindOf is the name of the type of a node's op in Gorgonia; "" for inputs and for ops
// that are defined elsewhere.
func kindOf(n *gorgonia.Node) string {
	if n.Op() == nil {
		return ""
	}
	t := reflect.TypeOf(n.Op())
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t.PkgPath() != gorgoniaPackage {
		return ""
	}
	return t.Name()
}

func isConstant(n *gorgonia.Node) bool { return strings.HasPrefix(kindOf(n), "constant") }

// field reads a field of an op, through embedded structs.
func field[T any](op any, name string) (out T, err error) {
	p, err := fieldAt[T](op, name)
	if err != nil {
		return out, err
	}
	return *p, nil
}

// fieldAt is where a field of an op lies; of an op that is no pointer, where that of a copy does.
func fieldAt[T any](op any, name string) (*T, error) {
	v := reflect.ValueOf(op)
	if v.Kind() != reflect.Pointer {
		p := reflect.New(v.Type())
		p.Elem().Set(v)
		v = p
	}
	if v.IsNil() {
		return nil, fmt.Errorf("the op is a nil %T", op)
	}
	f := v.Elem().FieldByName(name)
	want := reflect.TypeFor[T]()
	if !f.IsValid() || !f.CanAddr() || f.Kind() != want.Kind() || !f.Type().ConvertibleTo(want) {
		return nil, fmt.Errorf("%T has no field %s of type %s: another version of Gorgonia?", op, name, want)
	}
	return (*T)(unsafe.Pointer(f.UnsafeAddr())), nil
}

// get reads a field of a node's op and keeps the first failure.
func get[T any](b *builder, n *gorgonia.Node, name string) T {
	v, err := field[T](n.Op(), name)
	if err != nil {
		b.fail(err)
	}
	return v
}

// selector reads the small integer by which ops of one family are told apart, through an
// interface where there is one.
func selector(op any, names ...string) (int, error) {
	v := reflect.ValueOf(op)
	for _, name := range names {
		for v.Kind() == reflect.Pointer || v.Kind() == reflect.Interface {
			v = v.Elem()
		}
		if v.Kind() == reflect.Struct {
			v = v.FieldByName(name)
		}
	}
	if v.Kind() != reflect.Uint8 {
		return 0, fmt.Errorf("%T has no selector: another version of Gorgonia?", op)
	}
	return int(v.Uint()), nil
}

// embedded returns the op that an op embeds by a pointer.
func embedded(op any, name string) (any, error) {
	v := reflect.ValueOf(op)
	if v.Kind() == reflect.Pointer {
		if f := v.Elem().FieldByName(name); f.IsValid() && f.Kind() == reflect.Pointer {
			return reflect.NewAt(f.Type().Elem(), f.UnsafePointer()).Interface(), nil
		}
	}
	return nil, fmt.Errorf("%T embeds no %s: another version of Gorgonia?", op, name)
}

// embeddedPointers are the pointers that an op embeds.
func embeddedPointers(op any) (list []unsafe.Pointer) {
	v := reflect.ValueOf(op)
	if v.Kind() == reflect.Pointer {
		v = v.Elem()
	}
	if v.Kind() != reflect.Struct {
		return nil
	}
	for i := range v.NumField() {
		if f := v.Field(i); v.Type().Field(i).Anonymous && f.Kind() == reflect.Pointer {
			list = append(list, f.UnsafePointer())
		}
	}
	return list
}
