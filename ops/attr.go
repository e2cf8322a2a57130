package ops

import (
	"math"
	"slices"

	"github.com/berth-onnx/berth/ssa"
)

// AttrSpec is one attribute of an operator's schema, as one or more consecutive
// versions of the operator have it. Where versions differ (another default,
// another kind, optional at first and required later) the schema holds one entry
// for each form, with disjoint version ranges:
//
//	IntAttr("axis", 1).Before(13), IntAttr("axis", -1).From(13)
type AttrSpec struct {
	Name     string
	Kind     ssa.AttrKind // ssa.AttrGraph: a body, kept in [ssa.Node.Bodies]
	Required bool
	// Default is the value that an absent attribute has. Its Kind is AttrNone where
	// absence has a meaning of its own, or where the value depends on the operands.
	Default ssa.Attr
	OneOf   []string // the strings allowed; nil means any
	// Min and Max bound numbers and the elements of lists, both inclusive; both 0
	// means any number.
	Min, Max float64
	Ignored  bool // without effect: import drops it
	Since    int  // first operator-set version with this entry; 0 means the operator's first
	Until    int  // first operator-set version without this entry; 0 means still valid
}

func attrOf(a ssa.Attr, hasDefault bool) *AttrSpec {
	s := &AttrSpec{Name: a.Name, Kind: a.Kind}
	if hasDefault {
		s.Default = a
	}
	return s
}

// Tables of operators call these functions hundreds of times while packages are initialized, as tables of passes and kernels call theirs. Inlined, their copies of
// structures would make every program 600 KB larger, and structures instead of pointers half as much.

// IntAttr declares an integer attribute with at most one default.
//
//go:noinline
func IntAttr(name string, def ...int64) *AttrSpec {
	return attrOf(ssa.IntAttr(name, defaultOf(def)), len(def) > 0)
}

// FloatAttr declares a float attribute with at most one default.
//
//go:noinline
func FloatAttr(name string, def ...float32) *AttrSpec {
	return attrOf(ssa.FloatAttr(name, defaultOf(def)), len(def) > 0)
}

// defaultOf returns the default of a list with at most one, or 0.
func defaultOf[T int64 | float32](def []T) (v T) {
	for _, v = range def {
	}
	return v
}

// StrAttr declares a string attribute. The first value is the default; where more
// follow, no other values are allowed.
//
//go:noinline
func StrAttr(name string, values ...string) *AttrSpec {
	if len(values) == 0 {
		return &AttrSpec{Name: name, Kind: ssa.AttrString}
	}
	s := attrOf(ssa.StringAttr(name, values[0]), true)
	if len(values) > 1 {
		s.OneOf = values
	}
	return s
}

// IntsAttr declares an integer list; without values it has no default.
//
//go:noinline
func IntsAttr(name string, def ...int64) *AttrSpec {
	return attrOf(ssa.IntsAttr(name, def...), len(def) > 0)
}

// FloatsAttr declares a float list without a default.
//
//go:noinline
func FloatsAttr(name string) *AttrSpec { return &AttrSpec{Name: name, Kind: ssa.AttrFloats} }

// StringsAttr declares a string list; without values it has no default.
//
//go:noinline
func StringsAttr(name string, def ...string) *AttrSpec {
	return attrOf(ssa.StringsAttr(name, def...), len(def) > 0)
}

// TensorAttr declares a tensor attribute.
//
//go:noinline
func TensorAttr(name string) *AttrSpec { return &AttrSpec{Name: name, Kind: ssa.AttrTensor} }

// GraphAttr declares a body.
//
//go:noinline
func GraphAttr(name string) *AttrSpec { return &AttrSpec{Name: name, Kind: ssa.AttrGraph} }

// Mandatory makes an attribute required.
//
//go:noinline
func (s *AttrSpec) Mandatory() *AttrSpec {
	c := *s
	c.Required = true
	return &c
}

// WithoutEffect marks an attribute that changes nothing.
//
//go:noinline
func (s *AttrSpec) WithoutEffect() *AttrSpec {
	c := *s
	c.Ignored = true
	return &c
}

// From declares the first operator-set version that has the attribute in this form.
//
//go:noinline
func (s *AttrSpec) From(version int) *AttrSpec {
	c := *s
	c.Since = version
	return &c
}

// Before declares the first operator-set version without this form.
//
//go:noinline
func (s *AttrSpec) Before(version int) *AttrSpec {
	c := *s
	c.Until = version
	return &c
}

// Among lists the strings allowed where there is no default.
//
//go:noinline
func (s *AttrSpec) Among(values ...string) *AttrSpec {
	c := *s
	c.OneOf = values
	return &c
}

// AtLeast bounds numbers from below.
//
//go:noinline
func (s *AttrSpec) AtLeast(least float64) *AttrSpec { return s.Between(least, math.Inf(1)) }

// Between bounds numbers, both ends included.
//
//go:noinline
func (s *AttrSpec) Between(least, most float64) *AttrSpec {
	c := *s
	c.Min, c.Max = least, most
	return &c
}

// Newest returns the newest forms in a list, for a domain that has no other.
func Newest(list []*AttrSpec) (out []*AttrSpec) {
	for _, s := range list {
		if s.at(0) {
			out = append(out, s.From(0))
		}
	}
	return out
}

// at reports whether the entry is valid in an operator-set version; 0 is the newest.
func (s *AttrSpec) at(version int) bool {
	if version == 0 {
		return s.Until == 0
	}
	return s.Since <= version && (s.Until == 0 || version < s.Until)
}

// Attr returns the schema of an attribute in an operator-set version (0 is the
// newest), nil if that version has no such attribute.
func (o *Op) Attr(name string, version int) *AttrSpec {
	for i := range o.Attrs {
		if s := o.Attrs[i]; s.Name == name && s.at(version) {
			return s
		}
	}
	return nil
}

// absent is the value of an attribute without value and default.
var absent ssa.Attr

// valueOf returns the attribute of a node, or the default that the schema of the
// node's version declares, or absent. What the schema does not declare is not read;
// operators without a schema have what the node has.
func valueOf(n *ssa.Node, name string, kind ssa.AttrKind) *ssa.Attr {
	var s *AttrSpec
	if o := Of(n); o != nil {
		if s = o.Attr(name, n.Version); s == nil {
			return &absent
		}
	}
	if a := n.Attr(name); a != nil && a.Kind == kind {
		return a
	}
	if s != nil && s.Default.Kind == kind {
		return &s.Default
	}
	return &absent
}

// given reports whether a node has an attribute whose value is not the default, as dilations of 1 are.
func given(n *ssa.Node, name string) bool {
	a := n.Attr(name)
	o := Of(n)
	if a == nil || o == nil {
		return a != nil
	}
	s := o.Attr(name, n.Version)
	return s != nil && !a.EqualValue(s.Default) && !(name == "dilations" && !slices.ContainsFunc(a.Ints, func(k int64) bool { return k != 1 }))
}

// SameAttrs reports whether two nodes of one operator have equal attributes, where an
// absent one is equal to its default.
func SameAttrs(m, n *ssa.Node) bool {
	covers := func(m, n *ssa.Node) bool {
		for i := range m.Attrs {
			a, b := &m.Attrs[i], n.Attr(m.Attrs[i].Name)
			if b == nil && given(m, a.Name) || b != nil && !a.EqualValue(*b) {
				return false
			}
		}
		return true
	}
	return covers(m, n) && covers(n, m)
}

// Int returns an integer attribute of a node or its default by the schema; 0 if it
// has neither. It and those below are called in hundreds of places, and are not inlined: programs are smaller.
//
//go:noinline
func Int(n *ssa.Node, name string) int64 { return valueOf(n, name, ssa.AttrInt).I }

// Float returns a float attribute of a node or its default by the schema; 0 if it
// has neither.
//
//go:noinline
func Float(n *ssa.Node, name string) float32 { return valueOf(n, name, ssa.AttrFloat).F }

// Str returns a string attribute of a node or its default by the schema; "" if it
// has neither.
//
//go:noinline
func Str(n *ssa.Node, name string) string { return valueOf(n, name, ssa.AttrString).S }

// Ints returns an integer list of a node or its default by the schema; nil if it
// has neither.
func Ints(n *ssa.Node, name string) []int64 { return valueOf(n, name, ssa.AttrInts).Ints }

// Floats returns a float list of a node; nil if absent.
func Floats(n *ssa.Node, name string) []float32 { return valueOf(n, name, ssa.AttrFloats).Floats }

// Strings returns a string list of a node or its default by the schema; nil if it
// has neither.
func Strings(n *ssa.Node, name string) []string { return valueOf(n, name, ssa.AttrStrings).Strings }

// IntOr returns an integer attribute, or another value where it is absent or equal to
// its default: one computed from the operands, or the value for those operators of a
// kernel that have no such attribute.
func IntOr(n *ssa.Node, name string, computed int64) int64 {
	if !given(n, name) {
		return computed
	}
	return Int(n, name)
}

// FloatOr is [IntOr] for a float attribute.
func FloatOr(n *ssa.Node, name string, computed float32) float32 {
	if !given(n, name) {
		return computed
	}
	return Float(n, name)
}
