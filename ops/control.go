package ops

import (
	"fmt"
	"math"

	"github.com/berth-onnx/berth/internal/rescue"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ssa"
)

// checkBodies checks that the bodies of control flow have as many parameters and
// results as the node's operands and results ask for.
func checkBodies(n *ssa.Node) (err error) {
	switch ControlOf(n) {
	case Branches:
		for i, body := range n.Bodies {
			if len(body.Results) != len(n.Out) {
				return fmt.Errorf("%s gives %d results, the node has %d", n.BodyAttr[i], len(body.Results), len(n.Out))
			}
			if len(body.Params) != n.Captures {
				return fmt.Errorf("%s has %d parameters for %d captured values", n.BodyAttr[i], len(body.Params), n.Captures)
			}
		}
	case Iterates:
		_, err = LoopOf(n)
	case Scans:
		_, err = ScanOf(n)
	}
	return err
}

// IsControl reports whether a node is an If, Loop or Scan: its bodies are laid out,
// planned and run as parts of the graph it stands in. Bodies of other operators, and
// of nodes berth does not know, are not.
func IsControl(n *ssa.Node) bool { return ControlOf(n) != Straight }

// IsLoop reports whether a node is a Loop or Scan: control flow whose body may run
// more than once.
func IsLoop(n *ssa.Node) bool { return ControlOf(n) >= Iterates }

// ControlOf is what a node does with its bodies.
func ControlOf(n *ssa.Node) Control {
	if o := Of(n); o != nil {
		return o.Facts.Control
	}
	return Straight
}

// ConstBool returns 1 or 0 for a constant boolean, -1 if it is not known.
func ConstBool(v *ssa.Value) int {
	if v == nil || v.Const == nil || v.Const.Len() != 1 || v.Const.DType() != ndarray.Bool {
		return -1
	}
	a, err := v.Const.Array()
	if err != nil {
		return -1
	}
	return int(a.Int(0))
}

// LoopShape names the parts of a Loop node.
type LoopShape struct {
	Body     *ssa.Graph
	Carried  int // carried values
	Scans    int // stacked outputs
	Captures int
}

// LoopOf checks a Loop node's counts and names its parts.
func LoopOf(n *ssa.Node) (_ LoopShape, err error) {
	defer rescue.Into(&err)
	body := n.Body("body")
	if body == nil {
		return LoopShape{}, fmt.Errorf("Loop has no body")
	}
	s := LoopShape{Body: body, Captures: n.Captures, Carried: len(n.In) - 2 - n.Captures}
	if s.Carried < 0 {
		return s, fmt.Errorf("Loop has %d operands, needs M and cond", len(n.In)-n.Captures)
	}
	s.Scans = len(body.Results) - 1 - s.Carried
	if len(body.Params) != 2+s.Carried+s.Captures || s.Scans < 0 {
		return s, fmt.Errorf("body has %d parameters and %d results for %d carried values", len(body.Params)-s.Captures, len(body.Results), s.Carried)
	}
	if len(n.Out) > s.Carried+s.Scans {
		return s, fmt.Errorf("node has %d results, the body gives %d", len(n.Out), s.Carried+s.Scans)
	}
	return s, nil
}

// Trips returns the exact number of iterations where it is known before the run:
// M, if nothing in the loop can end it early; unknown otherwise.
func (s LoopShape) Trips(n *ssa.Node) ssa.Dim {
	if c := ConstBool(n.In[1]); n.In[1] != nil && c == 0 {
		return ssa.D(0)
	} else if n.In[1] != nil && c != 1 {
		return ssa.Dim{}
	}
	if !s.staysTrue(n) {
		return ssa.Dim{}
	}
	if n.In[0] == nil || len(n.In[0].Content) != 1 {
		return ssa.Dim{}
	}
	m := n.In[0].Content[0]
	if k, ok := m.Const(); ok && k < 0 {
		return ssa.D(0)
	}
	return m
}

// Endless reports whether the loop never ends once its condition is true: there is no
// trip count, or the largest, which exporters write for none, and nothing changes the
// condition.
// certain says that it is true at first.
func (s LoopShape) Endless(n *ssa.Node) (endless, certain bool) {
	if m := n.In[0]; m != nil {
		if len(m.Content) != 1 {
			return false, false
		}
		if k, ok := m.Content[0].Const(); !ok || k != math.MaxInt64 {
			return false, false
		}
	}
	return s.staysTrue(n), n.In[1] == nil || ConstBool(n.In[1]) == 1
}

// EndlessError reports a loop that never ends.
type EndlessError struct{}

// Error says why, and what to do.
func (EndlessError) Error() string {
	return "the loop never ends: it has no trip count, and its condition stays true; give it a trip count or let the body compute the condition"
}

// ScanShape names the parts of a Scan node.
type ScanShape struct {
	Body                  *ssa.Graph
	States, Ins, Outs     int
	InAxes, OutAxes       []int64 // one per scan input / output
	InReverse, OutReverse []bool
}

// ScanOf checks a Scan node's counts and names its parts.
func ScanOf(n *ssa.Node) (_ ScanShape, err error) {
	defer rescue.Into(&err)
	body := n.Body("body")
	if body == nil {
		return ScanShape{}, fmt.Errorf("Scan has no body")
	}
	s := ScanShape{Body: body, Ins: int(Int(n, "num_scan_inputs"))}
	s.States = len(n.In) - n.Captures - s.Ins
	s.Outs = len(body.Results) - s.States
	if s.Ins < 1 || s.States < 0 || s.Outs < 0 || len(body.Params) != len(n.In) || len(n.Out) > len(body.Results) {
		return s, fmt.Errorf("Scan with %d operands and %d scan inputs does not fit a body of %d parameters and %d results",
			len(n.In)-n.Captures, s.Ins, len(body.Params)-n.Captures, len(body.Results))
	}
	if s.InAxes, s.InReverse, err = scanLists(n, "input", s.Ins); err != nil {
		return s, err
	}
	s.OutAxes, s.OutReverse, err = scanLists(n, "output", s.Outs)
	return s, err
}

func scanLists(n *ssa.Node, side string, count int) ([]int64, []bool, error) {
	axes, dirs := Ints(n, "scan_"+side+"_axes"), Ints(n, "scan_"+side+"_directions")
	if axes == nil {
		axes = make([]int64, count)
	}
	if dirs == nil {
		dirs = make([]int64, count)
	}
	if len(axes) != count || len(dirs) != count {
		return nil, nil, fmt.Errorf("scan_%s_axes or directions do not have %d elements", side, count)
	}
	rev := make([]bool, count)
	for i, d := range dirs {
		rev[i] = d == 1
	}
	return axes, rev, nil
}
