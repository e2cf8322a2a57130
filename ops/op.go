package ops

import (
	"context"
	"fmt"

	"github.com/berth-onnx/berth/internal/rescue"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ssa"
)

// Op describes one operator in its newest form.
type Op struct {
	Domain string // "" is the default ONNX domain
	Name   string // exact ONNX name
	Since  int    // operator-set version that introduced the newest form
	// Form returns the oldest operator-set version that has the node's operands,
	// results, types and attribute values; nil means Since. In which version
	// attributes came stands in Attrs. See [Op.Oldest].
	Form func(n *ssa.Node) int
	Doc  string // the formula in one line

	MinIn, MaxIn   int // operands without captures; MaxIn -1 = any number, of which none may be absent
	OptionalIn     int // of any number of operands, how many of the first may be absent
	MinOut, MaxOut int // results; MaxOut -1 = any number
	Attrs          []*AttrSpec

	// Infer is the type and shape rule: what is known of each result.
	Infer func(n *ssa.Node) ([]Inferred, error)
	// InferBodies takes the place of Infer in operators that infer their bodies, which takes long where these are large: the
	// context ends it.
	InferBodies func(ctx context.Context, n *ssa.Node) ([]Inferred, error)
	// Eval is the reference kernel.
	Eval func(c *Call) error
	// Prepare reads what attributes say once for many runs, for operators whose
	// attributes are tables; nil for others. Eval then is Prepare and Run. Results of
	// such an operator share no bytes with operands.
	Prepare func(n *ssa.Node) (Kernel, error)
	Facts   Facts
	// Upgrades bring older nodes to the newest form, in ascending order of Below.
	Upgrades []Upgrade
	// Downgrades bring nodes in newest form to older ones, in descending order of Below.
	Downgrades []Downgrade

	foreign bool
}

// Foreign reports whether a package outside berth registered the operator. Its results are checked, and it may call berth.
func (o *Op) Foreign() bool { return o.foreign }

// But returns the operator with some traits changed.
//
//go:noinline
func (o Op) But(changes ...Trait) Op {
	o.Facts.Traits = o.Facts.Traits.But(changes...)
	return o
}

// Inferred is what a rule knows of one result. Content holds the elements of a small
// integer tensor where they can be computed (unknown elements are unknown dims).
type Inferred struct {
	Type    ssa.Type
	Content []ssa.Dim
}

// Facts is what passes and planners ask of an operator.
type Facts struct {
	Traits
	// Whole says that a node that lists more than its first result must list all of them,
	// whether anything reads them or not, to berth or to other tools.
	Whole bool
	// Linear says where constant weights of the shape given keep their channels; nil
	// for operators that no factor or offset per channel folds into.
	Linear func(n *ssa.Node, weight []int) *Linear
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
	// Disputed reports that onnx infers other lengths of the results than Infer,
	// which are those that runtimes compute; nil for never.
	Disputed func(n *ssa.Node) bool
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

// Moving is a distance given by an operand that holds one index tuple: the sum of
// index times Steps over the leading dimensions Dims. Negative indices count from
// the back.
type Moving struct {
	Operand int     // the index tuple
	Dims    []int   // indices are below these
	Steps   []int64 // bytes
}

// Offset is the distance in bytes for an index tuple.
func (m *Moving) Offset(tuple *ndarray.Array) (_ int64, err error) {
	defer rescue.Into(&err)
	if tuple == nil || tuple.Len() != len(m.Dims) || !tuple.DType.IsInteger() {
		return 0, fmt.Errorf("%s is no tuple of %d indices", tuple, len(m.Dims))
	}
	var off int64
	for i, d := range m.Dims {
		k, err := WrapIndex(tuple.Int(i), d)
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

// Lookup returns the operator, nil if berth does not know it.
func Lookup(domain, name string) *Op { return opOf(find(domain, name)) }

func find(domain, name string) *ssa.Operator { return table[Key{domain, name}] }

func opOf(o *ssa.Operator) *Op {
	if o == nil {
		return nil
	}
	return o.Def.(*Op)
}

// Of returns the operator of a node, nil if it is opaque.
func Of(n *ssa.Node) *Op {
	if n.Opaque {
		return nil
	}
	return opOf(n.Operator(find))
}

// SameLayout reports whether tensors of two types have the same shape and elements of the same width.
func SameLayout(a, b ssa.Type) bool {
	if a.Kind != ssa.KindTensor || b.Kind != ssa.KindTensor || !a.Ranked || !b.Ranked || len(a.Shape) != len(b.Shape) {
		return false
	}
	for i := range a.Shape {
		if !a.Shape[i].Equal(b.Shape[i]) {
			return false
		}
	}
	return a.DType.Size() == b.DType.Size() && a.DType != ndarray.String && b.DType != ndarray.String
}

// InPlacePairs returns the operand/result pairs of a node that may share bytes.
func InPlacePairs(n *ssa.Node) []Pair {
	o := Of(n)
	switch {
	case o == nil:
		return nil
	case o.Facts.InPlace != nil:
		return o.Facts.InPlace(n)
	case !o.Facts.IsElementwise() || n.Output(0) == nil:
		return nil
	}
	var out []Pair
	for i, v := range n.In {
		if v != nil && SameLayout(v.Type, n.Out[0].Type) {
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
	case o == nil || !n.IsStatic():
		return nil
	case o.Facts.Smaller != nil:
		return o.Facts.Smaller(n)
	case !o.Facts.IsElementwise() || n.Output(0) == nil:
		return nil
	}
	return Narrowing(n)
}

// Aliases returns the byte-sharing facts of a node with static types.
func Aliases(n *ssa.Node) []Alias {
	if o := Of(n); o != nil && o.Facts.Alias != nil {
		return o.Facts.Alias(n)
	}
	return nil
}

// CostOf returns the work of a node with static types; operators berth does not
// know count one operation per result element. A node that lacks what the operator requires, as a lenient import keeps it,
// has none.
func CostOf(n *ssa.Node) Cost {
	switch o := Of(n); {
	case o == nil:
		return elementCost(n)
	case n.Output(0) == nil || o.CheckArity(n) != nil:
		return Cost{}
	case o.Facts.Cost != nil:
		return o.Facts.Cost(n)
	}
	return elementCost(n)
}
