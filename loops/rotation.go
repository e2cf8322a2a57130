package loops

import (
	"fmt"
	"slices"

	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// MaxRing limits how many body copies are laid out for planning. Past it the
// ring is the largest single period, which costs memory, never a copy.
const MaxRing = 24

// Carry is one value that moves from iteration to iteration.
type Carry struct {
	Param  *ssa.Value // parameter of the body
	Init   *ssa.Value // operand of the node; nil: true (an absent Loop condition)
	Result *ssa.Value // result of the body that Param becomes
	Out    *ssa.Value // result of the node, nil if unused or none
}

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
	// Made is the value that is written there: Result, or what Result shows all the
	// bytes of. Set if Window is.
	Made *ssa.Value
}

// Rotation is the movement of values around one Loop or Scan node.
type Rotation struct {
	Node     *ssa.Node
	Body     *ssa.Graph
	Iter     *ssa.Value // the iteration counter, nil for Scan
	Trip     *ssa.Value // operand with the maximal trip count, nil if none
	Carries  []Carry    // the condition first, for Loop
	ScanIns  []ScanIn
	ScanOuts []ScanOut
	// Prefix is how many first iterations read initial values; Ring is how many
	// body copies repeat after them. Ring is a multiple of every Period.
	Prefix, Ring int
	// MinTrips is 1 when the loop surely runs, else 0. Trips is the exact count
	// where it is known.
	MinTrips int
	Trips    ssa.Dim

	period map[*ssa.Value]int  // of carried results defined in the body
	sticky map[*ssa.Value]bool // results that may be an older value passed on
	index  map[*ssa.Value]int  // position in Carries by parameter
}

// Of analyses a Loop or Scan node whose body runs in the order its nodes stand in.
func Of(n *ssa.Node) (*Rotation, error) { return of(n, false) }

// OfAnyOrder analyses a Loop or Scan node whose body may run in any order its
// operands allow, independent nodes also at once: see anyorder.go.
func OfAnyOrder(n *ssa.Node) (*Rotation, error) { return of(n, true) }

func of(n *ssa.Node, anyOrder bool) (*Rotation, error) {
	var r *Rotation
	var err error
	switch n.Op {
	case "Loop":
		r, err = ofLoop(n)
	case "Scan":
		r, err = ofScan(n)
	default:
		return nil, fmt.Errorf("%s is no loop", n)
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
	return r, nil
}

func ofLoop(n *ssa.Node) (*Rotation, error) {
	s, err := ops.LoopOf(n)
	if err != nil {
		return nil, err
	}
	p := s.Body.Params
	r := &Rotation{Node: n, Body: s.Body, Iter: p[0], Trip: n.In[0], Trips: s.Trips(n)}
	r.Carries = append(r.Carries, Carry{Param: p[1], Init: n.In[1], Result: s.Body.Results[0]})
	for i := range s.Carried {
		r.Carries = append(r.Carries, Carry{p[2+i], n.In[2+i], s.Body.Results[1+i], n.Output(i)})
	}
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
	for i := range s.States {
		r.Carries = append(r.Carries, Carry{s.Body.Params[i], n.In[i], s.Body.Results[i], n.Output(i)})
	}
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
	taken := map[*ssa.Value]bool{}
	for k := range r.ScanOuts {
		s := &r.ScanOuts[k]
		if s.Out == nil || s.Axis != 0 || !s.Result.Type.IsStatic() {
			continue
		}
		v := throughViews(s.Result)
		if v.Def == nil || taken[v] || IsPointer(v) {
			continue
		}
		if _, ok := v.Type.ByteSize(); !ok {
			continue
		}
		s.Window, s.Made, taken[v] = true, v, true
	}
}

// IsPointer reports whether a value may own no memory: its bytes can be those of
// another value (a view, or a result of control flow).
func IsPointer(v *ssa.Value) bool {
	if v.Def == nil {
		return false
	}
	switch v.Def.Op {
	case "If", "Loop", "Scan":
		return v.Def.Domain == ""
	}
	_, ok := WindowOf(v)
	return ok
}

// Window is the contiguous part of an operand that a result shows.
type Window struct {
	Of      *ssa.Value
	Operand int
	Offset  int64 // bytes from the operand's start
	Whole   bool  // the operand's bytes, all of them
}

// WindowOf returns what a value is a window of. ok is false unless every used
// result of its node is one: then there is nothing to compute.
func WindowOf(v *ssa.Value) (w Window, ok bool) {
	if v.Def == nil {
		return w, false
	}
	for _, o := range v.Def.Out {
		if o != nil && !o.Type.IsStatic() {
			return w, false
		}
	}
	for _, in := range v.Def.In {
		if in != nil && !in.Type.IsStatic() {
			return w, false
		}
	}
	found := 0
	for _, a := range ops.Aliases(v.Def) {
		if a.Concat || v.Def.Output(a.Out) == nil {
			continue
		}
		found++
		if a.Out == v.DefIndex {
			w = Window{Of: v.Def.Input(a.In), Operand: a.In, Offset: a.Offset}
		}
	}
	used := 0
	for _, o := range v.Def.Out {
		if o != nil {
			used++
		}
	}
	if w.Of == nil || found != used {
		return w, false
	}
	n, ok1 := v.Type.ByteSize()
	m, ok2 := w.Of.Type.ByteSize()
	w.Whole = n == m && w.Offset == 0
	return w, ok1 && ok2 && w.Offset+int64(n) <= int64(m)
}

// ViewOf returns the operand a value shows all the bytes of.
func ViewOf(v *ssa.Value) (of *ssa.Value, operand int, ok bool) {
	w, ok := WindowOf(v)
	return w.Of, w.Operand, ok && w.Whole
}

// StackOf returns the scan output that a body value is written into, nil if none.
func (r *Rotation) StackOf(v *ssa.Value) *ScanOut {
	for k := range r.ScanOuts {
		if s := &r.ScanOuts[k]; s.Window && s.Made == v {
			return s
		}
	}
	return nil
}

// Period is how many places a value of the body needs: copy t of the body uses
// place t mod Period.
func (r *Rotation) Period(v *ssa.Value) int {
	if p, ok := r.period[v]; ok {
		return p
	}
	return r.Ring
}

// Copies is the number of body copies laid out for planning.
func (r *Rotation) Copies() int { return r.Prefix + r.Ring }

// Next is the copy that follows copy t: the ring closes on its first copy.
func (r *Rotation) Next(t int) int {
	if t+1 == r.Copies() {
		return r.Prefix
	}
	return t + 1
}

// setPeriods finds the period of every carried value made in the body, the
// prefix, and the ring that all of them divide.
func (r *Rotation) setPeriods(anyOrder bool) {
	r.period, r.sticky = map[*ssa.Value]int{}, map[*ssa.Value]bool{}
	life := newLifetimes(r.Body, r.Body.Nodes)
	life.anyOrder = anyOrder
	flow := r.flows()
	if len(r.Carries) > 0 {
		r.Prefix = 1
	}
	var made []*ssa.Value // values of the body that parameters may hold, in order
	for _, c := range r.Carries {
		for _, v := range append(Bases(c.Result), throughViews(c.Result)) {
			if r.followValue(v, flow, life) {
				made = append(made, v)
			}
		}
	}
	for i := range r.Carries {
		if depth, bounded := flow.depths([]int{i}); bounded {
			for _, d := range depth {
				r.Prefix = max(r.Prefix, d)
			}
		}
	}
	r.Ring = 1
	most := 1
	for _, v := range made {
		most = max(most, r.period[v])
		r.Ring = min(lcm(r.Ring, r.period[v]), MaxRing+1)
	}
	if r.Ring > MaxRing {
		r.Ring = most
		for v := range r.period {
			r.period[v] = most
		}
	}
	for v := range r.period {
		if IsPointer(v) {
			delete(r.period, v) // its memory belongs to values that take the whole ring
		}
	}
}

// flow says which parameters' values may become which parameters' next values:
// next[j] lists the carries whose result may be the parameter of carry j.
//
//	x4<=x3, x3<=x2       x2 ─▶ x3 ─▶ x4
//	h <= if c then y else h      h ─▶ h (a cycle: a value may stay for ever)
type flow struct{ next [][]int }

func (r *Rotation) flows() flow {
	f := flow{make([][]int, len(r.Carries))}
	for i, c := range r.Carries {
		for _, b := range Bases(c.Result) {
			if j, ok := r.index[b]; ok {
				f.next[j] = append(f.next[j], i)
			}
		}
	}
	return f
}

// depths follows values that the given carries receive: by carry, the largest
// number of iterations after which its parameter may hold such a value (0 =
// never). bounded is false if a value may go round in a cycle.
func (f flow) depths(start []int) (depth []int, bounded bool) {
	depth = make([]int, len(f.next))
	at := start
	for d := 1; len(at) > 0; d++ {
		if d > len(f.next)+1 {
			return depth, false
		}
		var then []int
		for _, i := range at {
			depth[i] = d
			for _, j := range f.next[i] {
				if !slices.Contains(then, j) {
					then = append(then, j)
				}
			}
		}
		at = then
	}
	return depth, true
}

// followValue finds the period of a value made in the body that parameters
// receive: it must survive until the last use of the last parameter that may
// hold it. Where a value may go round for ever, through a branch that keeps the
// old one, no fixed rotation is right: the value gets one place more than there
// are parameters to hold it, and the program picks a free one each time.
func (r *Rotation) followValue(v *ssa.Value, flow flow, life *lifetimes) (found bool) {
	if _, isParam := r.index[v]; isParam || v.Def == nil && !r.writtenAtStart(v) || !v.Type.IsStatic() || r.StackOf(v) != nil {
		return false // passed on; a constant or captured value; memory of its own; a slice that stays
	}
	if _, done := r.period[v]; done {
		return false
	}
	var start []int
	for i, c := range r.Carries {
		if throughViews(c.Result) == v || slices.Contains(Bases(c.Result), v) {
			start = append(start, i)
		}
	}
	depth, bounded := flow.depths(start)
	holders, period := 0, 1
	for i, d := range depth {
		if d > 0 {
			holders++
			period = max(period, life.periodFor(r.Carries[i].Param, v, d))
		}
	}
	if !bounded {
		r.sticky[v] = true
		period = holders + 1
	}
	r.period[v] = period
	return true
}

// writtenAtStart reports whether v is a parameter with memory of its own, filled
// before each iteration: the iteration counter, or a slice that must be copied.
func (r *Rotation) writtenAtStart(v *ssa.Value) bool {
	return v == r.Iter || slices.ContainsFunc(r.ScanIns, func(s ScanIn) bool { return s.Param == v && s.Axis != 0 })
}

// Sticky reports whether a carry's value may stay for any number of iterations;
// see followValue.
func (r *Rotation) Sticky(c Carry) bool {
	return slices.ContainsFunc(append(Bases(c.Result), throughViews(c.Result)), func(v *ssa.Value) bool { return r.sticky[v] })
}

// throughViews follows whole views to the value they show.
func throughViews(v *ssa.Value) *ssa.Value {
	for {
		src, _, ok := ViewOf(v)
		if !ok {
			return v
		}
		v = src
	}
}

// Bases returns the values of v's own graph whose bytes v may show: itself, or
// through views and control flow the operands that are passed on.
func Bases(v *ssa.Value) []*ssa.Value {
	var out []*ssa.Value
	seen := map[*ssa.Value]bool{}
	var visit func(v *ssa.Value)
	visit = func(v *ssa.Value) {
		if v == nil || seen[v] {
			return
		}
		seen[v] = true
		if !IsPointer(v) {
			out = append(out, v)
			return
		}
		if src, _, ok := ViewOf(v); ok {
			visit(src)
			return
		}
		for _, src := range passedOn(v) {
			visit(src)
		}
		out = append(out, v)
	}
	visit(v)
	return out
}

// passedOn lists the operands of a control-flow node that result v may be.
func passedOn(v *ssa.Value) []*ssa.Value {
	if v.Def.Op == "If" {
		var out []*ssa.Value
		for _, body := range v.Def.Bodies {
			if v.DefIndex < len(body.Results) {
				out = append(out, outside(v.Def, body, body.Results[v.DefIndex])...)
			}
		}
		return out
	}
	return passedThrough(v)
}

// outside lists the captured operands that a value of a body may be.
func outside(n *ssa.Node, body *ssa.Graph, v *ssa.Value) []*ssa.Value {
	var out []*ssa.Value
	captured := body.Params[len(body.Params)-n.Captures:]
	for _, b := range Bases(v) {
		if i := slices.Index(captured, b); i >= 0 {
			out = append(out, n.Captured()[i])
		}
	}
	return out
}

// passedThrough lists the operands that a loop's result may be: its own initial
// value (no trips), captured values, and the initial values of parameters that
// become its next value.
func passedThrough(v *ssa.Value) []*ssa.Value {
	n := v.Def
	shape, err := carriesOf(n)
	if err != nil {
		return n.In
	}
	first := -1
	for i, c := range shape.Carries {
		if c.Out == v {
			first = i
		}
	}
	if first < 0 {
		return nil // a stacked output has memory of its own
	}
	var out []*ssa.Value
	work, seen := []int{first}, map[int]bool{first: true}
	for len(work) > 0 {
		c := shape.Carries[work[0]]
		work = work[1:]
		out = append(out, c.Init)
		out = append(out, outside(n, shape.Body, c.Result)...)
		for _, b := range Bases(c.Result) {
			for j, d := range shape.Carries {
				if d.Param == b && !seen[j] {
					seen[j] = true
					work = append(work, j)
				}
			}
		}
	}
	return out
}

// carriesOf names the parts of a loop without analysing them.
func carriesOf(n *ssa.Node) (*Rotation, error) {
	if n.Op == "Loop" {
		return ofLoop(n)
	}
	return ofScan(n)
}

func gcd(a, b int) int {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

func lcm(a, b int) int { return a / gcd(a, b) * b }

// lifetimes answers positions inside one body: a node's position is its index,
// the end of the body is one past the last.
type lifetimes struct {
	body     *ssa.Graph
	pos      map[*ssa.Node]int
	first    map[*ssa.Value]int // memo of firstWrite
	anyOrder bool               // answers must hold for every order
}

// newLifetimes takes the nodes of a body in one of its orders.
func newLifetimes(body *ssa.Graph, order []*ssa.Node) *lifetimes {
	l := &lifetimes{body: body, pos: make(map[*ssa.Node]int, len(order)), first: map[*ssa.Value]int{}}
	for i, n := range order {
		l.pos[n] = i
	}
	return l
}

// periodFor is the smallest number of places for q such that the q of one
// iteration is intact when p, which holds it depth iterations later, is last read.
func (l *lifetimes) periodFor(p, q *ssa.Value, depth int) int {
	if l.anyOrder && q.Def != nil {
		l = newLifetimes(l.body, earliest(l.body.Nodes, q.Def))
	}
	last, at := l.lastUse(p, map[*ssa.Value]bool{})
	def := -1 // a parameter that is filled before the body runs
	if q.Def != nil {
		def = l.firstWrite(q)
	}
	switch {
	case last < def:
		return depth
	case last == def && at != nil && !IsPointer(q) && overwrites(at, p, q):
		return depth
	}
	return depth + 1
}

// overwrites reports whether node n may write q over p: every operand that is p
// forms an in-place pair with q.
func overwrites(n *ssa.Node, p, q *ssa.Value) bool {
	pairs := ops.InPlacePairs(n)
	for i, v := range n.In {
		if v != p {
			continue
		}
		ok := false
		for _, pr := range pairs {
			ok = ok || pr.In == i && n.Output(pr.Out) == q
		}
		if !ok {
			return false
		}
	}
	return true
}

// lastUse is the position of the last reader of v's bytes, through views and
// control flow that pass the bytes on; node is that reader when it reads v itself.
func (l *lifetimes) lastUse(v *ssa.Value, seen map[*ssa.Value]bool) (pos int, node *ssa.Node) {
	if l.body.IsResult(v) {
		return len(l.body.Nodes), nil
	}
	pos = -1
	for _, u := range v.Uses() {
		p, n := l.pos[u.Node], u.Node
		for _, o := range u.Node.Out {
			if o == nil || seen[o] || !IsPointer(o) {
				continue
			}
			seen[o] = true
			if q, _ := l.lastUse(o, seen); q > p {
				p, n = q, nil
			}
		}
		if p > pos {
			pos, node = p, n
		} else if p == pos && node != n {
			node = nil
		}
	}
	return pos, node
}

// firstWrite is the earliest position at which bytes that v may point to are written.
func (l *lifetimes) firstWrite(v *ssa.Value) int {
	if v.Def == nil {
		return len(l.body.Nodes)
	}
	if p, ok := l.first[v]; ok {
		return p
	}
	pos := l.pos[v.Def]
	if IsPointer(v) {
		for _, src := range v.Def.In {
			if src != nil && src.Def != nil {
				pos = min(pos, l.firstWrite(src))
			}
		}
	}
	l.first[v] = pos
	return pos
}

// CopyBytes is how many bytes one iteration copies: slices stacked or taken
// along an axis that is not outermost, and results that go to a stack and
// somewhere else. Carried values never cost a copy.
func (r *Rotation) CopyBytes() int64 {
	var n int64
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
