package loops

import (
	"fmt"

	"github.com/berth-onnx/berth/alias"
	"github.com/berth-onnx/berth/internal/rescue"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// MaxRing limits how many body copies are laid out for planning. Past it the
// ring is the largest single period, which costs memory, never a copy.
const MaxRing = 24

// MaxSteps is up to how many steps the copies of a loop's body are laid out as, loops
// inside it included, whatever its size; see compact.go.
const MaxSteps = 1 << 12

// ScanIn is a parameter that holds one slice of an operand per iteration.
type ScanIn struct {
	Param   *ssa.Value
	Of      *ssa.Value
	Axis    int
	Reverse bool
}

// ScanOut is a result of the body that is stacked into a result of the node.
type ScanOut struct {
	Result  *ssa.Value
	Out     *ssa.Value // nil if unused
	Axis    int
	Reverse bool
	// Window: the body writes the slice straight into the stacked output;
	// otherwise it is copied once per iteration.
	Window bool
	// Made is the value that is written there: Result, or the value all of whose bytes Result is a
	// view of. Set if Window is.
	Made *ssa.Value
}

// Rotation is the movement of values around one Loop or Scan node.
type Rotation struct {
	Node     *ssa.Node
	Body     *ssa.Graph
	Iter     *ssa.Value    // the iteration counter, nil for Scan
	Trip     *ssa.Value    // operand with the maximal trip count, nil if none
	Carries  []alias.Carry // the condition first, for Loop
	ScanIns  []ScanIn
	ScanOuts []ScanOut
	// Prefix is how many first iterations read initial values; Ring is how many
	// body copies repeat after them. Ring is a multiple of every Period.
	Prefix, Ring int
	// MinTrips is 1 when the loop surely runs, else 0. Trips is the exact count
	// where it is known.
	MinTrips int
	Trips    ssa.Dim
	// Compact: the body is laid out once, and carried values are copied; see compact.go.
	Compact bool

	period map[*ssa.Value]int  // of carried results defined in the body
	sticky map[*ssa.Value]bool // results that may be an older value passed on
	index  map[*ssa.Value]int  // position in Carries by parameter
	stacks map[*ssa.Value]int  // position in ScanOuts by the value written there
	// becomes lists, by carry, the values of the body that its parameter may hold next.
	becomes [][]*ssa.Value
	extent  extent
}

// Of analyses a Loop or Scan node whose body runs in the order its nodes stand in.
func Of(n *ssa.Node) (_ *Rotation, err error) {
	defer rescue.Into(&err)
	return of(n, false)
}

// OfAnyOrder analyses a Loop or Scan node whose body may run in any order its
// operands allow, independent nodes also at once: see anyorder.go.
func OfAnyOrder(n *ssa.Node) (_ *Rotation, err error) {
	defer rescue.Into(&err)
	return of(n, true)
}

func of(n *ssa.Node, anyOrder bool) (*Rotation, error) {
	var r *Rotation
	var err error
	switch ops.ControlOf(n) {
	case ops.Iterates:
		r, err = ofLoop(n)
	case ops.Scans:
		r, err = ofScan(n)
	default:
		return nil, fmt.Errorf("%s is no loop", n)
	}
	if err == nil {
		_, r.Carries, err = alias.Carries(n)
	}
	if err != nil {
		return nil, ops.AtNode("loops", n, err)
	}
	r.index = make(map[*ssa.Value]int, len(r.Carries))
	for i, c := range r.Carries {
		r.index[c.Param] = i
	}
	r.markWindows()
	r.setPeriods(anyOrder)
	r.extent, err = r.measure(anyOrder)
	return r, err
}

func ofLoop(n *ssa.Node) (*Rotation, error) {
	s, err := ops.LoopOf(n)
	if err != nil {
		return nil, err
	}
	r := &Rotation{Node: n, Body: s.Body, Iter: s.Body.Params[0], Trip: n.In[0], Trips: s.Trips(n)}
	for k := range s.Scans {
		r.ScanOuts = append(r.ScanOuts, ScanOut{Result: s.Body.Results[1+s.Carried+k], Out: n.Output(s.Carried + k)})
	}
	if k, ok := r.Trips.Const(); ok && k > 0 {
		r.MinTrips = 1
	}
	return r, nil
}

func ofScan(n *ssa.Node) (*Rotation, error) {
	s, err := ops.ScanOf(n)
	if err != nil {
		return nil, err
	}
	r := &Rotation{Node: n, Body: s.Body}
	for k := range s.Ins {
		of := n.In[s.States+k]
		axis, err := ops.NormAxis(s.InAxes[k], max(of.Type.Rank(), 1))
		if err != nil {
			return nil, err
		}
		r.ScanIns = append(r.ScanIns, ScanIn{s.Body.Params[s.States+k], of, axis, s.InReverse[k]})
		if of.Type.Ranked && len(of.Type.Shape) > axis && of.Type.Shape[axis].Known() {
			r.Trips = of.Type.Shape[axis]
		}
	}
	for k := range s.Outs {
		res := s.Body.Results[s.States+k]
		axis, err := ops.NormAxis(s.OutAxes[k], max(res.Type.Rank(), 0)+1)
		if err != nil {
			return nil, err
		}
		r.ScanOuts = append(r.ScanOuts, ScanOut{Result: res, Out: n.Output(s.States + k), Axis: axis, Reverse: s.OutReverse[k]})
	}
	if k, ok := r.Trips.Const(); ok && k > 0 {
		r.MinTrips = 1
	}
	return r, nil
}

// markWindows decides which scan outputs the body writes in place: the stacking
// axis is outermost, slices are static, and the slice is made by a node of the
// body that writes fresh memory, for this one stack only, or is a view of such a
// value.
func (r *Rotation) markWindows() {
	r.stacks = map[*ssa.Value]int{}
	for k := range r.ScanOuts {
		s := &r.ScanOuts[k]
		if s.Out == nil || s.Axis != 0 || !s.Result.Type.IsStatic() {
			continue
		}
		v := alias.Shown(s.Result)
		if _, taken := r.stacks[v]; taken || v.Def == nil || alias.IsPointer(v) {
			continue
		}
		if _, ok := v.Type.ByteSize(); !ok {
			continue
		}
		s.Window, s.Made, r.stacks[v] = true, v, k
	}
}

// StackOf returns the scan output that a body value is written into, nil if none.
func (r *Rotation) StackOf(v *ssa.Value) *ScanOut {
	if k, ok := r.stacks[v]; ok {
		return &r.ScanOuts[k]
	}
	return nil
}

// Period is how many slots a value of the body needs: copy t of the body uses
// place t mod Period.
func (r *Rotation) Period(v *ssa.Value) int {
	if p, ok := r.period[v]; ok {
		return p
	}
	if r.Compact {
		return 1
	}
	return r.Ring
}

// Copies is the number of body copies laid out for planning.
func (r *Rotation) Copies() int {
	if r.Compact {
		return 1
	}
	return r.Prefix + r.Ring
}

// Next is the copy that follows copy t: the ring closes on its first copy.
func (r *Rotation) Next(t int) int {
	if t+1 == r.Copies() {
		return r.Prefix
	}
	return t + 1
}

// CopyBytes is how many bytes one iteration copies: slices stacked or taken
// along an axis that is not outermost, results that go to a stack and
// somewhere else, and the carried values of a compact loop.
func (r *Rotation) CopyBytes() int64 {
	var n int64
	for _, c := range r.Carries {
		if r.Copied(c) {
			b, _ := c.Param.Type.ByteSize()
			n += int64(b)
		}
	}
	for _, s := range r.ScanOuts {
		if b, ok := s.Result.Type.ByteSize(); ok && s.Out != nil && !s.Window {
			n += int64(b)
		}
	}
	for _, s := range r.ScanIns {
		if b, ok := s.Param.Type.ByteSize(); ok && s.Axis != 0 {
			n += int64(b)
		}
	}
	return n
}
