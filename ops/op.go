package ops

import (
	"fmt"

	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ssa"
)

// Op describes one operator in its newest form.
type Op struct {
	Domain string // "" is the default ONNX domain
	Name   string // exact ONNX name
	Since  int    // operator-set version that introduced the newest form
	// Form returns the oldest operator-set version in which the node, as it
	// stands, can be written; nil means Since. The exporter takes the maximum.
	Form func(n *ssa.Node) int
	Doc  string // the formula in one line

	MinIn, MaxIn   int // operands without captures; MaxIn -1 = any number
	MinOut, MaxOut int // results; MaxOut -1 = any number
	Attrs          []AttrSpec

	// Infer is the type and shape rule: what is known of each result.
	Infer func(n *ssa.Node) ([]Inferred, error)
	// Eval is the reference kernel.
	Eval func(c *Call) error
	// Prepare reads what attributes say once for many runs, for operators whose
	// attributes are tables; nil for others. Eval then is Prepare and Run. Results of
	// such an operator share no bytes with operands.
	Prepare func(n *ssa.Node) (Kernel, error)
	Facts   Facts
	// Upgrades bring older nodes to the newest form, in ascending order of Below.
	Upgrades []Upgrade
}

// AttrSpec is one attribute of a schema.
type AttrSpec struct {
	Name     string
	Kind     ssa.AttrKind
	Required bool
	Graph    bool // a body; Kind is ignored
}

// Inferred is what a rule knows of one result. Content holds the elements of a small
// integer tensor where they can be computed (unknown elements are unknown dims).
type Inferred struct {
	Type    ssa.Type
	Content []ssa.Dim
}

// Facts is what passes and planners ask of an operator.
type Facts struct {
	Elementwise bool // out[i] depends on the inputs at (broadcast) position i only
	Commutative bool // the first two operands may change places
	Random      bool // two runs differ: never folded, merged or moved
	// InPlace lists operand/result pairs that may share their bytes exactly: the
	// kernel reads element i of the operand no later than it writes element i of
	// the result. nil: for elementwise operators every operand of the result's
	// element width and shape, for others none.
	InPlace func(n *ssa.Node) []Pair
	// Smaller lists pairs whose result is smaller than the operand and may begin at
	// the operand's first byte: whatever kernel runs, on any number of threads,
	// nothing is overwritten before it is read for the last time. nil: for
	// elementwise operators every operand of the result's shape with elements at
	// least twice as wide, for others none. Asked only when the types are static.
	Smaller func(n *ssa.Node) []Pair
	// Alias lists results that hold the same bytes as (a part of) an operand, or
	// operands that hold the same bytes as a part of a result. Asked only when
	// the types are static.
	Alias func(n *ssa.Node) []Alias
	// Cost counts the work of a node whose types are static; nil for operators
	// that do one operation per result element.
	Cost func(n *ssa.Node) Cost
}

// Pair is an operand and a result by position.
type Pair struct{ In, Out int }

// Alias says that bytes are shared: with Concat false, result Out is the window
// of operand In that starts at byte Offset; with Concat true, operand In is the
// window of result Out that starts at byte Offset. A window whose place an index
// decides while running begins Moving bytes after Offset.
type Alias struct {
	In, Out int
	Offset  int64
	Concat  bool
	Moving  *Moving
}

// Moving is the distance that an operand of one index tuple says: the sum of
// index times Steps over the leading dimensions Dims. Negative indices count from
// the back.
type Moving struct {
	Operand int     // the index tuple
	Dims    []int   // indices are below these
	Steps   []int64 // bytes
}

// Offset is the distance in bytes for an index tuple.
func (m *Moving) Offset(tuple *ndarray.Array) (int64, error) {
	if tuple == nil || tuple.Len() != len(m.Dims) || !tuple.DType.IsInteger() {
		return 0, fmt.Errorf("%s is no tuple of %d indices", tuple, len(m.Dims))
	}
	var off int64
	for i, d := range m.Dims {
		k, err := wrapIndex(tuple.Int(i), d)
		if err != nil {
			return 0, err
		}
		off += int64(k) * m.Steps[i]
	}
	return off, nil
}

// Cost is the work of one node.
type Cost struct {
	FLOPs int64 // multiply and add count as two
	Bytes int64 // read and written once
}

// Upgrade turns a node written for an operator set below a version into the
// form of that version.
type Upgrade struct {
	Below  int
	Source string // the operator's changelog entry the rule comes from
	Apply  func(u *Upgrader, n *ssa.Node) error
}

// Upgrader gives upgrade rules what they may do to the graph around a node.
type Upgrader struct {
	Graph *ssa.Graph
}

// Const adds a constant operand source.
func (u *Upgrader) Const(hint string, c *ssa.Constant) *ssa.Value {
	return u.Graph.AddConst(fmt.Sprintf("%s_const_%d", hint, u.Graph.NumValues()), c)
}

// Before inserts a node in newest form ahead of n.
func (u *Upgrader) Before(n *ssa.Node, op string, in []*ssa.Value, numOut int, attrs ...ssa.Attr) *ssa.Node {
	return u.Graph.InsertBefore(n, op, in, numOut, attrs...)
}

// AttrToInput moves an integer-list (or single integer) attribute into operand i
// as an int64 constant of rank 1, padding absent operands before it.
func (u *Upgrader) AttrToInput(n *ssa.Node, attr string, i int) {
	a := n.Attr(attr)
	if a == nil {
		return
	}
	ints := a.Ints
	if a.Kind == ssa.AttrInt {
		ints = []int64{a.I}
	}
	v := u.Const(attr, ssa.Int64s(ints...))
	n.DropAttr(attr)
	for len(n.In) <= i {
		n.AddInput(nil)
	}
	n.SetInput(i, v)
}

// Key identifies an operator in the table.
type Key struct{ Domain, Name string }

// table is filled at start, not by an initializer: operators with bodies refer to
// it through shape inference.
var table = map[Key]*Op{}

func init() {
	for _, family := range families {
		for _, o := range family {
			k := Key{o.Domain, o.Name}
			if table[k] != nil {
				panic("ops: " + o.Name + " is in the table twice")
			}
			table[k] = o
		}
	}
}

// Lookup returns the operator, nil if berth does not know it.
func Lookup(domain, name string) *Op { return table[Key{domain, name}] }

// Of returns the operator of a node, nil if it is opaque.
func Of(n *ssa.Node) *Op {
	if n.Opaque {
		return nil
	}
	return table[Key{n.Domain, n.Op}]
}

// All returns every operator, families in table order.
func All() []*Op {
	var out []*Op
	for _, f := range families {
		out = append(out, f...)
	}
	return out
}

// InPlacePairs returns the operand/result pairs of a node that may share bytes.
func InPlacePairs(n *ssa.Node) []Pair {
	o := Of(n)
	switch {
	case o == nil:
		return nil
	case o.Facts.InPlace != nil:
		return o.Facts.InPlace(n)
	case !o.Facts.Elementwise || n.Output(0) == nil:
		return nil
	}
	var out []Pair
	for i, v := range n.In {
		if v != nil && sameLayout(v.Type, n.Out[0].Type) {
			out = append(out, Pair{i, 0})
		}
	}
	return out
}

// SmallerPairs returns the pairs of a node whose result may be written from the
// first byte of the operand on, though it is smaller; none unless all types are
// static.
func SmallerPairs(n *ssa.Node) []Pair {
	o := Of(n)
	switch {
	case o == nil || !staticTypes(n):
		return nil
	case o.Facts.Smaller != nil:
		return o.Facts.Smaller(n)
	case !o.Facts.Elementwise || n.Output(0) == nil:
		return nil
	}
	return narrowing(n)
}

func staticTypes(n *ssa.Node) bool {
	for _, vs := range [2][]*ssa.Value{n.In, n.Out} {
		for _, v := range vs {
			if v != nil && !v.Type.IsStatic() {
				return false
			}
		}
	}
	return true
}

// Aliases returns the byte-sharing facts of a node with static types.
func Aliases(n *ssa.Node) []Alias {
	if o := Of(n); o != nil && o.Facts.Alias != nil {
		return o.Facts.Alias(n)
	}
	return nil
}

// CostOf returns the work of a node with static types; operators berth does not
// know count one operation per result element.
func CostOf(n *ssa.Node) Cost {
	if o := Of(n); o != nil && o.Facts.Cost != nil {
		return o.Facts.Cost(n)
	}
	return elementCost(n)
}
