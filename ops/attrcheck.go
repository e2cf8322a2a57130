package ops

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/berth-onnx/berth/internal/rescue"
	"github.com/berth-onnx/berth/ssa"
)

// AttrError is an attribute that does not keep to the schema of its operator.
type AttrError struct {
	Attr   string // name of the attribute
	Reason string // what is wrong, naming the attribute
	Remedy string // what to do
}

// Error prints reason and remedy.
func (e *AttrError) Error() string { return e.Reason + "; " + e.Remedy }

// tolerated is the one rule for attributes that a schema does not know: a name that
// begins with two underscores belongs to the tool that wrote it and means nothing to
// the operator. ONNX's checker and ONNX Runtime have the same rule and no other:
// both refuse unknown names, names of other versions, and other kinds (an int for a
// float). Import drops what is tolerated.
func tolerated(name string) bool { return strings.HasPrefix(name, "__") }

// CheckAttrs compares the attributes and bodies of a node with the schema of its
// operator in the node's version: names, kinds, values, and that nothing required
// is missing. The error is an [*AttrError].
func (o *Op) CheckAttrs(n *ssa.Node) (err error) {
	defer rescue.Into(&err)
	for i := range n.Attrs {
		a := &n.Attrs[i]
		if n.Attr(a.Name) != a {
			return &AttrError{a.Name, fmt.Sprintf("attribute %q is given twice", a.Name), "keep one of them"}
		}
		if err := o.CheckAttr(a, n.Version); err != nil {
			return err
		}
	}
	for _, name := range n.BodyAttr {
		if err := o.CheckAttr(&ssa.Attr{Name: name, Kind: ssa.AttrGraph}, n.Version); err != nil {
			return err
		}
	}
	for i := range o.Attrs {
		s := o.Attrs[i]
		if s.Required && !s.Ignored && s.at(n.Version) && !n.Has(s.Name) && n.Body(s.Name) == nil {
			return &AttrError{s.Name, fmt.Sprintf("required attribute %q is missing", s.Name), "set it"}
		}
	}
	return nil
}

// CheckAttr compares one attribute with the schema of an operator-set version; 0 is
// the newest. The error is an [*AttrError].
func (o *Op) CheckAttr(a *ssa.Attr, version int) (err error) {
	defer rescue.Into(&err)
	s := o.Attr(a.Name, version)
	switch {
	case s == nil && tolerated(a.Name):
		return nil
	case s == nil:
		return &AttrError{a.Name, fmt.Sprintf("%s has no attribute %q", o.inVersion(version), a.Name), o.unknownRemedy(a.Name, version)}
	case s.Kind != a.Kind:
		return &AttrError{a.Name, fmt.Sprintf("attribute %q is of type %s, the operator takes %s", a.Name, a.Kind, s.Kind), "write it with that type"}
	case s.OneOf != nil && !slices.Contains(s.OneOf, a.S):
		return &AttrError{a.Name, fmt.Sprintf("attribute %q is %q", a.Name, a.S), fmt.Sprintf("set it to one of %q", s.OneOf)}
	}
	for _, v := range attrNumbers(a) {
		if (s.Min != 0 || s.Max != 0) && !(s.Min <= v && v <= s.Max) {
			return &AttrError{a.Name, fmt.Sprintf("attribute %q holds %g", a.Name, v), s.rangeRemedy()}
		}
	}
	return nil
}

// inVersion names the operator, and the version if it is not the newest.
func (o *Op) inVersion(version int) string {
	if version == 0 {
		return o.Name
	}
	return fmt.Sprintf("%s of operator set %d", o.Name, version)
}

// unknownRemedy says what an unknown name may have been meant for.
func (o *Op) unknownRemedy(name string, version int) string {
	near, best := "", 3 // more than two edits apart is another name
	for i := range o.Attrs {
		s := o.Attrs[i]
		switch {
		case s.Name == name && s.Since > version && version > 0:
			return fmt.Sprintf("import operator set %d, which has it, or remove it", s.Since)
		case s.Name == name:
			return fmt.Sprintf("remove it: operator set %d did so", s.Until)
		}
		if d := editDistance(s.Name, name); s.at(version) && d < best {
			near, best = s.Name, d
		}
	}
	if near != "" {
		return fmt.Sprintf("did you mean %q?", near)
	}
	return "remove it"
}

func (s *AttrSpec) rangeRemedy() string {
	if math.IsInf(s.Max, 1) {
		return fmt.Sprintf("set it to at least %g", s.Min)
	}
	return fmt.Sprintf("set it to %g up to %g", s.Min, s.Max)
}

// attrNumbers returns what an attribute holds as numbers.
func attrNumbers(a *ssa.Attr) (out []float64) {
	switch a.Kind {
	case ssa.AttrInt:
		return []float64{float64(a.I)}
	case ssa.AttrFloat:
		return []float64{float64(a.F)}
	}
	for _, v := range a.Ints {
		out = append(out, float64(v))
	}
	for _, v := range a.Floats {
		out = append(out, float64(v))
	}
	return out
}

// editDistance counts the insertions, deletions and replacements of bytes that turn
// one string into the other (Levenshtein, 1966), row by row.
func editDistance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost = 1 + min(diagonal, row[j], row[j+1])
			}
			diagonal, row[j+1] = row[j+1], cost
		}
	}
	return row[len(b)]
}
