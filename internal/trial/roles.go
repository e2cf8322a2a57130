package trial

import (
	"slices"
	"strings"

	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ssa"
)

// Roles of inputs. A number of iterations that is drawn like any other integer is 0 or 1, and what the loop computes is not compared; an index below 2 meets two rows of
// a table; a negative scale is refused. So inputs are followed to the operands that give their elements a meaning:
//
//	n ──▶ Cast ──▶ Loop          a count
//	h ──▶ Concat(h, w) ──▶ Resize    a size
//	ids ──▶ Gather(table[50,8], ids)     an index below 50
//
// through nodes that keep elements, into bodies and along the values that loops carry. Counts and sizes are also followed through arithmetic, which keeps them positive
// as a rule. Where elements of an input have several meanings the first one counts, and an index bounds the others.

// Kind is the meaning of elements.
type Kind int

const (
	Plain    Kind = iota
	Count         // of iterations, elements, boxes
	Size          // element of a shape
	Index         // below a limit
	Length        // of a sequence: 1 … limit
	Axis          // each another one
	Start         // where a range begins
	Step          // of a range, or what is divided by
	Truth         // the condition that a loop begins with
	Scale         // of an axis of an image
	Part          // of an axis that is split
	Repeat        // of an axis
	Positive      // a scale of quantization, a variance
	Fraction      // a threshold, a ratio
	Least         // a lower bound
	Most          // an upper bound
)

// kinds are the operands with a meaning, by operator.
var kinds = map[string]map[int]Kind{
	"Loop": {0: Count, 1: Truth}, "Range": {0: Start, 1: Count, 2: Step}, "TopK": {1: Count}, "NonMaxSuppression": {2: Count, 3: Fraction, 4: Fraction},
	"ConstantOfShape": {0: Count}, "BlackmanWindow": {0: Count}, "HammingWindow": {0: Count}, "HannWindow": {0: Count}, "OneHot": {0: Index, 1: Count},
	"Expand": {1: Size}, "Reshape": {1: Size}, "Resize": {2: Scale, 3: Size}, "Upsample": {1: Scale}, "CenterCropPad": {1: Size}, "AffineGrid": {1: Size},
	"Tile": {1: Repeat}, "Split": {1: Part}, "SplitToSequence": {1: Part}, "Slice": {1: Start, 2: Count, 3: Axis, 4: Step}, "Pad": {3: Axis},
	"Squeeze": {1: Axis}, "Unsqueeze": {1: Axis}, "CumSum": {1: Start}, "Div": {1: Step}, "Mod": {1: Step},
	"Gather": {1: Index}, "GatherElements": {1: Index}, "GatherND": {1: Index}, "ScatterElements": {1: Index}, "ScatterND": {1: Index}, "ArrayFeatureExtractor": {1: Index},
	"RoiAlign": {2: Index}, "STFT": {1: Step, 3: Count}, "DFT": {1: Count, 2: Step}, "Col2Im": {1: Size, 2: Step}, "MaxUnpool": {2: Size},
	"LSTM": {4: Length}, "GRU": {4: Length}, "RNN": {4: Length}, "ReverseSequence": {1: Length},
	"Dropout": {1: Fraction}, "BatchNormalization": {4: Positive}, "QuantizeLinear": {1: Positive}, "DequantizeLinear": {1: Positive},
	"QLinearConv": {1: Positive, 4: Positive, 6: Positive}, "QLinearMatMul": {1: Positive, 4: Positive, 6: Positive}, "Clip": {1: Least, 2: Most},
}

// Role is what a model uses the elements of an input for.
type Role struct {
	Kind   Kind
	Op     string    // the operator
	whole  bool      // the input is the operand, not only part of it
	limits []ssa.Dim // of indices and lengths
	of     []ssa.Dim // the shape that sizes and parts are for; nil if it is not known
	axis   int       // that is split
}

// RolesOf lists the roles of the parameters of a graph by name.
func RolesOf(g *ssa.Graph) map[string]Role {
	r := roles{from: map[*ssa.Value][]carrier{}, found: map[string]Role{}, first: map[*ssa.Value]*ssa.Node{}}
	for _, p := range g.Params {
		if p.Type.Kind == ssa.KindTensor && (p.Type.DType.IsInteger() || p.Type.DType.IsFloat() || p.Type.DType == ndarray.Bool) {
			r.from[p] = []carrier{{p, true, true}}
		}
	}
	r.graph(g)
	return r.found
}

// carrier says that a value has elements of a parameter: all of them, themselves or what arithmetic makes of them.
type carrier struct {
	param        *ssa.Value
	whole, exact bool
}

// mostCarriers bounds the parameters that one value is followed for.
const mostCarriers = 4

type roles struct {
	from  map[*ssa.Value][]carrier
	found map[string]Role
	first map[*ssa.Value]*ssa.Node // that gives a parameter its meaning
}

// keepsAll are the operators whose results have all elements of the first operand, keepsSome those whose results have elements of some operands, and
// calculates those whose results are positive for positive operands, as a rule.
var (
	keepsAll   = []string{"Identity", "Cast", "Squeeze", "Unsqueeze", "Reshape", "Flatten"}
	keepsSome  = map[string]int{"Expand": 1, "Gather": 1, "Slice": 1, "Split": 1, "Where": 3, "Concat": 1 << 16}
	calculates = map[string]int{"Add": 2, "Sub": 1, "Mul": 2, "Div": 1, "Min": 8, "Max": 8, "Floor": 1, "Ceil": 1}
)

func (r *roles) graph(g *ssa.Graph) {
	for _, n := range g.Nodes {
		if n.Domain == "" || len(n.Bodies) > 0 {
			r.node(n)
		}
		for _, b := range n.Bodies {
			for i, v := range n.In {
				if p := bodyParam(n, b, i); p != nil {
					r.add(p, v, true, true)
				}
			}
			r.graph(b)
		}
	}
}

// bodyParam is the parameter of a body that begins as operand i of its node, nil if there is none.
func bodyParam(n *ssa.Node, b *ssa.Graph, i int) *ssa.Value {
	k := len(b.Params) - len(n.In) + i
	if i < len(n.In)-n.Captures && n.Op != "Loop" || k < 0 || k >= len(b.Params) || n.Op == "Loop" && k < 2 {
		return nil
	}
	return b.Params[k]
}

// add notes that a value has the elements of another one.
func (r *roles) add(v, of *ssa.Value, whole, exact bool) {
	if v == nil || of == nil {
		return
	}
	for _, c := range r.from[of] {
		if integer := !c.param.Type.DType.IsFloat(); len(r.from[v]) < mostCarriers && (exact || integer) {
			r.from[v] = append(r.from[v], carrier{c.param, c.whole && whole, c.exact && exact})
		}
	}
}

func (r *roles) node(n *ssa.Node) {
	for i, v := range n.In {
		for _, c := range r.from[v] {
			if k := kindOf(n, i); k != Plain {
				r.note(n, i, k, c)
			}
		}
	}
	if len(n.Out) == 0 {
		return
	}
	for i, v := range n.In {
		switch {
		case i == 0 && slices.Contains(keepsAll, n.Op):
			r.add(n.Out[0], v, true, true)
		case i < keepsSome[n.Op] && !(n.Op == "Where" && i == 0):
			for _, o := range n.Out {
				r.add(o, v, false, true)
			}
		case i < calculates[n.Op]:
			r.add(n.Out[0], v, true, false)
		}
	}
}

// kindOf is the meaning of an operand of a node. What computed numbers are compared with, as those that a loop counts, is a count if nothing says more.
func kindOf(n *ssa.Node, i int) Kind {
	if strings.HasPrefix(n.Op, "Reduce") && i == 1 {
		return Axis
	}
	if _, constant := one(n.Input(1 - i&1)); isOrder(n) && !constant {
		return Count
	}
	return kinds[n.Op][i]
}

// isOrder reports a comparison of integers by order.
func isOrder(n *ssa.Node) bool {
	return slices.Contains([]string{"Less", "LessOrEqual", "Greater", "GreaterOrEqual"}, n.Op) && len(n.In) == 2
}

// note records the meaning of operand i for the elements of a parameter.
func (r *roles) note(n *ssa.Node, i int, k Kind, c carrier) {
	if !c.exact && k != Count && k != Size && k != Repeat || !k.isFor(c.param.Type.DType) { // arithmetic makes other indices
		return
	}
	if isOrder(n) && c.param.Type.DType.IsFloat() {
		return
	}
	if k == Step && (n.Op == "Div" || n.Op == "Mod") && !n.In[i].Type.DType.IsInteger() {
		return
	}
	limits := limitsOf(n, k)
	role, seen := r.found[c.param.Name]
	switch {
	case !seen || isOrder(r.first[c.param]) && !isOrder(n):
		r.first[c.param] = n
		role = Role{Kind: k, Op: n.Op, whole: c.whole, limits: limits, of: shapeOf(n), axis: axisOf(n, "axis")}
	case k == Index:
		role.limits = append(slices.Clone(role.limits), limits...)
	}
	r.found[c.param.Name] = role
}

// isFor reports that elements of a type may have the meaning.
func (k Kind) isFor(dt ndarray.DType) bool {
	switch k {
	case Truth:
		return dt == ndarray.Bool
	case Positive, Fraction, Scale:
		return dt.IsFloat()
	}
	return dt != ndarray.Bool
}

// limitsOf are what indices are below, or lengths at most.
func limitsOf(n *ssa.Node, k Kind) []ssa.Dim {
	of, axis := shapeOf(n), 0
	switch {
	case k == Index && n.Op == "OneHot":
		if depth, ok := one(n.Input(1)); ok {
			return []ssa.Dim{ssa.D(depth)}
		}
		return nil
	case k == Index && (n.Op == "GatherND" || n.Op == "ScatterND" || n.Op == "ArrayFeatureExtractor"):
		return of
	case k == Index:
		axis = axisOf(n, "axis")
	case k == Length && n.Op == "ReverseSequence":
		axis = axisOf(n, "time_axis")
	case k != Length:
		return nil
	}
	if axis < 0 {
		axis += len(of)
	}
	if axis < 0 || axis >= len(of) {
		return nil
	}
	return of[axis : axis+1]
}

func axisOf(n *ssa.Node, name string) int {
	if a := n.Attr(name); a != nil {
		return int(a.I)
	}
	return 0
}

// shapeOf is the shape of the first operand.
func shapeOf(n *ssa.Node) []ssa.Dim {
	if x := n.Input(0); x != nil && x.Type.Kind == ssa.KindTensor && x.Type.Ranked {
		return x.Type.Shape
	}
	return nil
}
