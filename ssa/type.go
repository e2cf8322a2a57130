package ssa

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/berth-onnx/berth/ndarray"
)

// Kind says which family a type belongs to.
type Kind uint8

// The kinds of types a value can have. KindUnknown is the zero value: nothing
// is known yet (outputs of opaque nodes).
const (
	KindUnknown Kind = iota
	KindTensor
	KindSequence
	KindOptional
	KindMap
	KindSparse
)

// Type is the type of a value.
type Type struct {
	Kind   Kind
	DType  ndarray.DType // element type of a tensor or sparse tensor; key type of a map
	Ranked bool          // Shape is meaningful; false means any rank
	Shape  []Dim         // dimensions of a ranked tensor
	Elem   *Type         // member type of sequence, optional, map

	// Channels is 0 for the plain layout. Else the tensor is channel-blocked, and has so
	// many channels; see [Type.Blocked].
	Channels int
}

// TensorOf returns a ranked tensor type.
//
//go:noinline
func TensorOf(dt ndarray.DType, dims ...Dim) Type {
	return Type{Kind: KindTensor, DType: dt, Ranked: true, Shape: dims}
}

// StaticTensor returns a tensor type with known dimensions.
func StaticTensor(dt ndarray.DType, shape ...int) Type {
	return Type{Kind: KindTensor, DType: dt, Ranked: true, Shape: Dims(shape)}
}

// UnrankedTensor returns a tensor type of unknown rank.
func UnrankedTensor(dt ndarray.DType) Type { return Type{Kind: KindTensor, DType: dt} }

// SequenceOf and OptionalOf wrap a member type.
func SequenceOf(t Type) Type { return Type{Kind: KindSequence, Elem: &t} }

// OptionalOf returns optional(t).
func OptionalOf(t Type) Type { return Type{Kind: KindOptional, Elem: &t} }

// Dims turns numbers into known dimensions.
func Dims(shape []int) []Dim {
	out := make([]Dim, len(shape))
	for i, n := range shape {
		out[i] = D(int64(n))
	}
	return out
}

// Rank returns the number of dimensions, -1 if unknown.
func (t Type) Rank() int {
	if !t.Ranked {
		return -1
	}
	return len(t.Shape)
}

// Static returns the shape as numbers; ok is false unless t is a tensor with
// every dimension known to be a number.
func (t Type) Static() (shape []int, ok bool) {
	if !t.IsStatic() {
		return nil, false
	}
	shape = make([]int, len(t.Shape))
	for i, d := range t.Shape {
		shape[i] = int(d.n)
	}
	return shape, true
}

// IsStatic reports whether Static would succeed.
func (t Type) IsStatic() bool {
	if t.Kind != KindTensor || !t.Ranked {
		return false
	}
	return !slices.ContainsFunc(t.Shape, func(d Dim) bool { return !d.con() || d.n < 0 })
}

// Fits reports whether a shape has the rank and the known dimensions of t; any does if the rank is unknown.
func (t Type) Fits(shape []int) bool {
	if !t.Ranked {
		return true
	}
	if len(t.Shape) != len(shape) {
		return false
	}
	for i, d := range t.Shape {
		if n, ok := d.Const(); ok && n != int64(shape[i]) {
			return false
		}
	}
	return true
}

// NumElems returns the product of the dimensions (unknown if the rank is).
func (t Type) NumElems() Dim {
	if !t.Ranked {
		return Dim{}
	}
	n := D(1)
	for _, d := range t.Shape {
		n = n.Mul(d)
	}
	return n
}

// ByteSize returns the bytes of a static tensor in memory; ok is false when the
// type is not static or the size overflows.
func (t Type) ByteSize() (int, bool) {
	if t.DType == ndarray.String || t.Kind != KindTensor || !t.Ranked {
		return 0, false
	}
	var room [8]int // most shapes need no memory of their own
	shape := room[:0]
	for i := range t.Shape {
		d := &t.Shape[i]
		if !d.con() || d.n < 0 {
			return 0, false
		}
		shape = append(shape, int(d.n))
	}
	n, err := ndarray.ByteSize(t.DType, shape)
	return n, err == nil
}

// Equal reports that both types are the same, unknown dimensions matching
// unknown dimensions.
func (t Type) Equal(u Type) bool {
	if t.Kind == KindTensor && u.Kind == KindTensor {
		sameDim := func(d, e Dim) bool { return d.Equal(e) || !d.Known() && !e.Known() }
		return t.DType == u.DType && t.Ranked == u.Ranked && t.Channels == u.Channels && (!t.Ranked || slices.EqualFunc(t.Shape, u.Shape, sameDim))
	}
	return t.String() == u.String()
}

// isOf reports that t is the type of a constant.
func (t Type) isOf(c *Constant) bool {
	return t.Kind == KindTensor && t.Ranked && t.DType == c.dtype && t.Channels == 0 && slices.EqualFunc(t.Shape, c.shape, func(d Dim, n int) bool { return d.Is(int64(n)) })
}

// maxNesting is how deep types of sequences, optionals and maps nest at most: methods go no deeper into one that holds itself.
const maxNesting = 64

// Check reports a type that no value has: of a kind or element type that does not exist, with a negative dimension, or nested
// too deep, as one is that holds itself.
func (t Type) Check() error {
	e := t // not its address, which would put it on the heap: every value's type is checked
	for depth := 0; ; depth++ {
		switch {
		case depth > maxNesting:
			return fmt.Errorf("a type nested deeper than %d levels; it may hold itself", maxNesting)
		case e.Kind > KindSparse:
			return fmt.Errorf("a type of kind %d, which does not exist", e.Kind)
		case e.DType >= ndarray.NumDTypes:
			return fmt.Errorf("element type %d does not exist", e.DType)
		case slices.ContainsFunc(e.Shape, func(d Dim) bool { return d.con() && d.n < 0 }):
			return fmt.Errorf("a shape with a negative dimension, %s", e.String())
		case e.Elem == nil:
			return nil
		}
		e = *e.Elem
	}
}

// Bind replaces symbols by numbers everywhere in the type.
func (t Type) Bind(bind map[string]int64) Type { return t.bind(bind, 0) }

func (t Type) bind(bind map[string]int64, depth int) Type {
	if len(t.Shape) > 0 {
		shape := make([]Dim, len(t.Shape))
		for i, d := range t.Shape {
			shape[i] = d.Bind(bind)
		}
		t.Shape = shape
	}
	if t.Elem != nil && depth < maxNesting {
		e := t.Elem.bind(bind, depth+1)
		t.Elem = &e
	}
	return t
}

// String prints "float32[N,3,224,224]", "float32[N,1,224,224,8|3]" for the same
// channel-blocked by 8, "float32[...]" for an unknown rank,
// "seq(…)", "opt(…)", "map(int64,…)", "sparse float32[…]" or "unknown".
func (t Type) String() string { return t.text(0) }

func (t Type) text(depth int) string {
	switch t.Kind {
	case KindTensor:
		return t.DType.String() + t.dimText()
	case KindSparse:
		return "sparse " + t.DType.String() + t.dimText()
	case KindSequence:
		return "seq(" + t.elemText(depth) + ")"
	case KindOptional:
		return "opt(" + t.elemText(depth) + ")"
	case KindMap:
		return "map(" + t.DType.String() + "," + t.elemText(depth) + ")"
	}
	return "unknown"
}

func (t Type) elemText(depth int) string {
	switch {
	case t.Elem == nil:
		return "unknown"
	case depth == maxNesting:
		return "…"
	}
	return t.Elem.text(depth + 1)
}

func (t Type) dimText() string {
	if !t.Ranked {
		return "[...]"
	}
	parts := make([]string, len(t.Shape))
	for i, d := range t.Shape {
		parts[i] = d.String()
	}
	text := strings.Join(parts, ",")
	if t.Channels != 0 {
		text += "|" + strconv.Itoa(t.Channels)
	}
	return "[" + text + "]"
}

// Refine merges two descriptions of the same value, keeping what either knows;
// ok is false where they contradict each other (the first then wins).
func (t Type) Refine(u Type) (Type, bool) { return t.refine(u, 0) }

func (t Type) refine(u Type, depth int) (Type, bool) {
	switch {
	case t.Kind == KindUnknown:
		return u, true
	case u.Kind == KindUnknown:
		return t, true
	case t.Kind != u.Kind:
		return t, false
	}
	ok := true
	if t.DType == ndarray.Undefined {
		t.DType = u.DType
	} else if u.DType != ndarray.Undefined && u.DType != t.DType {
		ok = false
	}
	if t.Elem != nil && u.Elem != nil && depth < maxNesting {
		e, o := t.Elem.refine(*u.Elem, depth+1)
		t.Elem, ok = &e, ok && o
	} else if t.Elem == nil {
		t.Elem = u.Elem
	}
	if t.Channels == 0 {
		t.Channels = u.Channels
	} else if u.Channels != 0 && u.Channels != t.Channels {
		ok = false
	}
	switch {
	case !u.Ranked:
	case !t.Ranked:
		t.Ranked, t.Shape = true, u.Shape
	case len(t.Shape) != len(u.Shape):
		ok = false
	default:
		var o bool
		t.Shape, o = refineShape(t.Shape, u.Shape)
		ok = ok && o
	}
	return t, ok
}

// refineShape refines the dimensions of a shape by those of another; the shape itself is the
// answer where that tells nothing new.
func refineShape(a, b []Dim) (out []Dim, ok bool) {
	ok, out = true, a
	for i, d := range a {
		r, o := refineDim(d, b[i])
		ok = ok && o
		if r.Equal(d) || !r.Known() && !d.Known() {
			continue
		}
		if &out[0] == &a[0] {
			out = slices.Clone(a)
		}
		out[i] = r
	}
	return out, ok
}

func refineDim(a, b Dim) (Dim, bool) {
	switch {
	case !a.Known():
		return b, true
	case !b.Known():
		return a, true
	case a.con() && b.con():
		return a, a.n == b.n
	case b.con():
		return b, true
	}
	return a, true
}
