package ssa

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"sync/atomic"

	"github.com/berth-onnx/berth/internal/rescue"
	"github.com/berth-onnx/berth/internal/slab"
	"github.com/berth-onnx/berth/ndarray"
)

// Module is one model: a graph and what the file says about it.
type Module struct {
	Graph   *Graph
	Opsets  []Opset // operator sets the file imports, as read
	IR      int64   // IR version of the file, as read
	Path    string  // file it came from; "" if built in memory
	Carried any     // what the exporter keeps verbatim (owned by onnximport/onnxexport)

	// Operators counts the nodes of the file, bodies included, Constant nodes left out, by operator: "domain.Name" outside
	// the default domain. It is nil if the module was not read from a file, or changed since.
	Operators map[string]int

	// OutputNames are the names of the results as callers know them, whatever
	// passes do to the result values; nil means the names of those. See
	// [Module.OutputName].
	OutputNames []string
	// Defaults holds the values of parameters that a caller may leave out, by
	// parameter name; nil if there are none.
	Defaults map[string]*Constant
	Warnings []string    // what the importer noticed and went on with
	Holds    []io.Closer // files whose mappings the constants lie in; see [Module.Close]
}

// OutputName returns the name of result i as callers know it.
func (m *Module) OutputName(i int) string {
	if len(m.OutputNames) == len(m.Graph.Results) {
		return m.OutputNames[i]
	}
	return m.Graph.Results[i].Name
}

// Close releases the mapped files. No constant of the module, nor anything that
// shares one, may be used afterwards. Closing twice does nothing.
func (m *Module) Close() (err error) {
	defer rescue.Into(&err)
	var errs []error
	for _, c := range m.Holds {
		errs = append(errs, c.Close())
	}
	m.Holds = nil
	return errors.Join(errs...)
}

// Opset is one imported operator set; the default domain is "".
type Opset struct {
	Domain  string
	Version int
}

// OpsetVersion returns the imported version of a domain, 0 if absent.
func (m *Module) OpsetVersion(domain string) int {
	for _, o := range m.Opsets {
		if o.Domain == domain {
			return o.Version
		}
	}
	return 0
}

// Graph is a function body: parameters, nodes in a legal order, results.
type Graph struct {
	Name    string
	Doc     string
	Params  []*Value
	Nodes   []*Node
	Results []*Value

	values []*Value
	nextN  int
	made   int // nodes and values so far
	mem    memory
	index  atomic.Pointer[resultIndex] // of Results, if they are many
}

// memory is what nodes and values are cut from.
type memory struct {
	values slab.Of[Value]
	nodes  slab.Of[Node]
	lists  slab.Of[*Value]
	attrs  slab.Of[Attr]
	uses   slab.Of[Use]
	at     slab.Of[int32]
}

// Value is one SSA value. It is defined by a node (Def != nil), by a constant
// (Const != nil), or is a parameter of its graph.
type Value struct {
	ID       int    // dense in its graph
	Name     string // name in the file or a generated one; unique in a checked graph
	Type     Type
	Def      *Node
	DefIndex int // position among Def.Out
	Const    *Constant
	Content  []Dim // elements of a small integer tensor (rank 0 or 1), as far as known; nil if nothing is
	Doc      string

	uses []Use
}

// Use is one operand position that reads a value.
type Use struct {
	Node  *Node
	Index int
}

// Node is one operation.
type Node struct {
	ID       int // unique in its graph, grows with creation
	Domain   string
	Op       string
	Overload string
	Name     string
	Doc      string
	Version  int  // operator-set version the node is written in; 0 = berth's newest form
	Opaque   bool // operator berth does not know: kept as it is
	Attrs    []Attr
	In       []*Value // nil for an absent optional operand
	Out      []*Value // nil for an unused optional result
	Bodies   []*Graph
	BodyAttr []string // attribute name of each body ("then_branch", "body", …)
	Captures int      // how many of the last operands are captured values
	Origin   any      // the importer's record of the node, for opaque nodes

	// Sources are the model's nodes that a node computes which was made for execution; none for others. See [Node.Names].
	Sources []NodeName

	at       []int32                  // by operand: its position among the uses of the value
	operator atomic.Pointer[Operator] // what Operator found last
}

// Operator names an operator and holds what a package above knows of it.
type Operator struct {
	Domain, Name string
	Def          any
}

// Operator returns what find says of the node's operator, nil if it knows none. The
// answer is kept for as long as Op and Domain stay the same; find must give the same
// answer every time. Safe for concurrent use.
func (n *Node) Operator(find func(domain, name string) *Operator) *Operator {
	if o := n.operator.Load(); o != nil && o.Name == n.Op && o.Domain == n.Domain {
		return o
	}
	o := find(n.Domain, n.Op)
	n.operator.Store(o)
	return o
}

// copyTo makes m the node without operands, results and bodies, with attributes that are a copy already.
func (n *Node) copyTo(m *Node, attrs []Attr) {
	m.ID, m.Domain, m.Op, m.Overload, m.Name, m.Doc, m.Version, m.Opaque = n.ID, n.Domain, n.Op, n.Overload, n.Name, n.Doc, n.Version, n.Opaque
	m.Attrs, m.BodyAttr, m.Captures, m.Origin, m.Sources = attrs, slices.Clone(n.BodyAttr), n.Captures, n.Origin, n.Sources
	m.operator.Store(n.operator.Load())
}

// NewGraph returns an empty graph.
func NewGraph(name string) *Graph { return &Graph{Name: name} }

// NumValues is one more than the largest value id: the length of a side table.
func (g *Graph) NumValues() int { return len(g.values) }

// NumNodeIDs is one more than the largest node id.
func (g *Graph) NumNodeIDs() int { return g.nextN }

// Value returns the value with an id.
func (g *Graph) Value(id int) *Value { return g.values[id] }

// Values returns all values ever made in the graph, dead ones included; index =
// id. Do not change the slice.
func (g *Graph) Values() []*Value { return g.values }

func (g *Graph) newValue(name string, t Type) *Value {
	v := g.mem.values.New()
	g.made++
	v.ID, v.Name, v.Type = len(g.values), name, t
	g.values = append(g.values, v)
	return v
}

// AddParam appends a parameter.
func (g *Graph) AddParam(name string, t Type) *Value {
	v := g.newValue(name, t)
	g.Params = append(g.Params, v)
	return v
}

// AddConst adds a constant value. The content of small integers is filled in.
func (g *Graph) AddConst(name string, c *Constant) *Value {
	v := g.newValue(name, c.Type())
	v.Const = c
	v.Content = constContent(c)
	return v
}

// MaxContent is the largest number of elements whose values are tracked.
const MaxContent = 64

func constContent(c *Constant) []Dim {
	if len(c.shape) > 1 || c.dtype != ndarray.Int64 && c.dtype != ndarray.Int32 {
		return nil
	}
	ints := c.Ints(MaxContent)
	if ints == nil {
		return nil
	}
	out := make([]Dim, len(ints))
	for i, n := range ints {
		out[i] = D(n)
	}
	return out
}

// NewNode makes a node with fresh unnamed results and appends it to the graph.
func (g *Graph) NewNode(op string, in []*Value, numOut int, attrs ...Attr) *Node {
	n := g.makeNode(op, in, numOut, attrs)
	g.Nodes = append(g.Nodes, n)
	return n
}

// InsertBefore makes a node like NewNode does and places it right before mark. The time it takes grows with the number of
// nodes from mark on.
func (g *Graph) InsertBefore(mark *Node, op string, in []*Value, numOut int, attrs ...Attr) *Node {
	n := g.makeNode(op, in, numOut, attrs)
	i := len(g.Nodes) - 1
	for i >= 0 && g.Nodes[i] != mark {
		i--
	}
	if i < 0 {
		panic("ssa: InsertBefore: the mark is not in the graph")
	}
	g.Nodes = slices.Insert(g.Nodes, i, n)
	return n
}

func (g *Graph) makeNode(op string, in []*Value, numOut int, attrs []Attr) *Node {
	n := g.mem.nodes.New()
	n.ID, n.Op, n.Attrs = g.nextN, op, g.mem.attrs.Copy(attrs)
	n.In, n.at, n.Out = g.mem.lists.Make(len(in))[:0], g.mem.at.Make(len(in))[:0], g.mem.lists.Make(max(numOut, 1))[:0]
	g.nextN++
	g.made++
	for _, v := range in {
		if v != nil && v.uses == nil {
			v.uses = g.mem.uses.Make(1)[:0]
		}
		n.AddInput(v)
	}
	for i := range numOut {
		g.AddOutput(n, op+"_"+strconv.Itoa(n.ID)+"_"+strconv.Itoa(i))
	}
	return n
}

// AddOutput appends a result to a node; an empty name means the result is absent.
func (g *Graph) AddOutput(n *Node, name string) *Value {
	if name == "" {
		n.Out = append(n.Out, nil)
		return nil
	}
	v := g.newValue(name, Type{})
	v.Def, v.DefIndex = n, len(n.Out)
	n.Out = append(n.Out, v)
	return v
}

// AddInput appends an operand (nil = absent).
func (n *Node) AddInput(v *Value) {
	n.In, n.at = append(n.In, v), append(n.at, 0)
	v.addUse(n, len(n.In)-1)
}

// SetInput replaces operand i (nil = absent).
func (n *Node) SetInput(i int, v *Value) {
	n.In[i].dropUse(n, i)
	n.In[i] = v
	v.addUse(n, i)
}

// TruncateInputs drops operands from the end, to k of them.
func (n *Node) TruncateInputs(k int) {
	for i := k; i < len(n.In); i++ {
		n.In[i].dropUse(n, i)
	}
	clear(n.In[k:]) // the memory may be part of a larger piece, which keeps what it points to alive
	n.In, n.at = n.In[:k], n.at[:k]
}

// SetInputs replaces all operands.
func (n *Node) SetInputs(in []*Value) {
	in = slices.Clone(in)
	n.TruncateInputs(0)
	for _, v := range in {
		n.AddInput(v)
	}
}

func (v *Value) addUse(n *Node, i int) {
	if v != nil {
		n.at[i] = int32(len(v.uses))
		v.uses = append(v.uses, Use{n, i})
	}
}

// dropUse puts the last use in the place of one that ends, so that a value of many readers loses them in a time
// that grows with their number.
func (v *Value) dropUse(n *Node, i int) {
	if v == nil {
		return
	}
	k, last := n.at[i], len(v.uses)-1
	moved := v.uses[last]
	v.uses[k], moved.Node.at[moved.Index] = moved, k
	v.uses[last] = Use{}
	v.uses = v.uses[:last]
}

// Uses returns the operand positions that read v, in no promised order. Results
// of the graph are not among them; see [Graph.IsResult].
func (v *Value) Uses() []Use { return v.uses }

// IsResult reports whether v leaves the graph.
func (g *Graph) IsResult(v *Value) bool {
	if len(g.Results) < manyResults {
		return slices.Contains(g.Results, v)
	}
	_, is := g.results().first[v]
	return is
}

// manyResults is from how many results on a graph keeps an index of them.
const manyResults = 64

// resultIndex tells where in the list of a graph's results a value is: at its first place and, from each, at the next. It
// is made again when the list is another or has another length; who replaces elements of the list calls
// [Graph.ReplaceResult].
type resultIndex struct {
	list  []*Value
	first map[*Value]int
	next  []int // -1 behind the last
}

// results is the index of a list that is not empty.
func (g *Graph) results() *resultIndex {
	x, list := g.index.Load(), g.Results
	if x != nil && len(x.list) == len(list) && &x.list[0] == &list[0] {
		return x
	}
	x = &resultIndex{list, make(map[*Value]int, len(list)), make([]int, len(list))}
	for i, v := range slices.Backward(list) {
		x.put(i, v)
	}
	g.index.Store(x)
	return x
}

// put makes i the first place of a value.
func (x *resultIndex) put(i int, v *Value) {
	if k, is := x.first[v]; is {
		x.next[i] = k
	} else {
		x.next[i] = -1
	}
	x.first[v] = i
}

// ReplaceResult makes v the result wherever old is.
func (g *Graph) ReplaceResult(old, v *Value) {
	if len(g.Results) < manyResults {
		for i, r := range g.Results {
			if r == old {
				g.Results[i] = v
			}
		}
		g.index.Store(nil)
		return
	}
	x := g.results()
	i, is := x.first[old]
	if !is || old == v {
		return
	}
	delete(x.first, old)
	for i >= 0 {
		following := x.next[i]
		g.Results[i] = v
		x.put(i, v)
		i = following
	}
}

// IsParam reports whether v is a parameter (defined by nothing inside).
func (v *Value) IsParam() bool { return v.Def == nil && v.Const == nil }

// ReplaceUses makes every reader of old, and the graph's results, read v.
func (g *Graph) ReplaceUses(old, v *Value) {
	for _, u := range slices.Clone(old.uses) {
		u.Node.SetInput(u.Index, v)
	}
	g.ReplaceResult(old, v)
}

// RemoveNodes deletes every node for which dead returns true, dropping its uses.
// Their results must have no readers left outside the removed set.
func (g *Graph) RemoveNodes(dead func(*Node) bool) int {
	before := len(g.Nodes)
	g.Nodes = slices.DeleteFunc(g.Nodes, func(n *Node) bool {
		drop := dead(n)
		if drop {
			n.TruncateInputs(0)
		}
		return drop
	})
	return before - len(g.Nodes)
}

// Output returns result i, nil if absent.
func (n *Node) Output(i int) *Value {
	if i < len(n.Out) {
		return n.Out[i]
	}
	return nil
}

// Input returns operand i, nil if absent. It stands once in a program rather than at each of two hundred calls.
//
//go:noinline
func (n *Node) Input(i int) *Value {
	if i < len(n.In) {
		return n.In[i]
	}
	return nil
}

// IsStatic reports whether all operands and results are tensors whose size in bytes
// is known.
func (n *Node) IsStatic() bool {
	unsized := func(v *Value) bool {
		if v == nil {
			return false
		}
		_, ok := v.Type.ByteSize()
		return !ok
	}
	return !slices.ContainsFunc(n.In, unsized) && !slices.ContainsFunc(n.Out, unsized)
}

// Formals returns the operands without the captured ones.
func (n *Node) Formals() []*Value { return n.In[:len(n.In)-n.Captures] }

// Captured returns the captured operands.
func (n *Node) Captured() []*Value { return n.In[len(n.In)-n.Captures:] }

// Body returns the body stored under an attribute name, nil if there is none.
func (n *Node) Body(attr string) *Graph {
	if i := slices.Index(n.BodyAttr, attr); i >= 0 {
		return n.Bodies[i]
	}
	return nil
}

// AddBody attaches a body under an attribute name.
func (n *Node) AddBody(attr string, g *Graph) {
	n.Bodies = append(n.Bodies, g)
	n.BodyAttr = append(n.BodyAttr, attr)
}

// NodeName is what tells a node from others.
type NodeName struct {
	Domain, Op string
	Name       string
	Result     string // the first one's name, for a node without one of its own
}

// String names the node in messages: op, name, and domain if it is not the default.
func (n NodeName) String() string {
	s := n.Op
	if n.Domain != "" {
		s = n.Domain + "." + s
	}
	name := n.Name
	if name == "" && n.Result != "" {
		name = "-> " + n.Result
	}
	return fmt.Sprintf("%s %q", s, name)
}

// ownName is the node's, whatever it computes.
func (n *Node) ownName() NodeName {
	out := NodeName{Domain: n.Domain, Op: n.Op, Name: n.Name}
	for _, o := range n.Out {
		if o != nil {
			out.Result = o.Name
			break
		}
	}
	return out
}

// Names are the model's nodes that a node computes: the node itself, or its Sources.
func (n *Node) Names() []NodeName {
	if len(n.Sources) > 0 {
		return n.Sources
	}
	return []NodeName{n.ownName()}
}

// String names a node in messages: op, name, and domain if it is not the default.
func (n *Node) String() string { return n.ownName().String() }

// Walk calls f for the graph and every body inside it, outermost first. A graph that is not sound, whose bodies hold
// themselves or nest deeper than 1000 levels, makes it panic with a [*CheckError].
func (g *Graph) Walk(f func(*Graph)) { g.walk(f, 0) }

func (g *Graph) walk(f func(*Graph), depth int) {
	limitDepth(g, depth)
	f(g)
	for _, n := range g.Nodes {
		for _, b := range n.Bodies {
			b.walk(f, depth+1)
		}
	}
}

// limitDepth panics in a graph whose bodies nest too deep.
func limitDepth(g *Graph, depth int) {
	if depth > maxBodies {
		panic(&CheckError{Graph: []string{g.Name}, Problem: tooDeep})
	}
}

// Sort puts the nodes into a legal order, keeping the present order where it is
// legal already (stable topological sort). It fails on a cycle.
func (g *Graph) Sort() (err error) {
	defer rescue.Into(&err)
	rank := make([]int, g.nextN) // 1 + the place of a node of g
	for i, n := range g.Nodes {
		rank[n.ID] = i + 1
	}
	pending := make([]int, len(g.Nodes))
	for i, n := range g.Nodes {
		for _, v := range n.In {
			if v != nil && v.Def != nil && rank[v.Def.ID] > 0 {
				pending[i]++
			}
		}
	}
	order := StableOrder(pending, func(i int, f func(int)) {
		for _, v := range g.Nodes[i].Out {
			if v == nil {
				continue
			}
			for _, u := range v.uses {
				if r := rank[u.Node.ID]; r > 0 {
					f(r - 1)
				}
			}
		}
	})
	if len(order) != len(g.Nodes) {
		return fmt.Errorf("graph %q has a cycle", g.Name)
	}
	out := make([]*Node, len(order))
	for i, k := range order {
		out[i] = g.Nodes[k]
	}
	g.Nodes = out
	return nil
}
