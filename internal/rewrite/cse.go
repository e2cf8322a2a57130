package rewrite

import (
	"encoding/binary"
	"hash/crc32"
	"slices"

	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// CSE (common subexpressions) computes once what is computed twice: two nodes
// with the same operator, attributes, operands (in any order where the operator
// commutes) and bodies. Constants with equal elements become one first.
//
// The nodes are visited in execution order, so the first of equal nodes is
// defined before every reader of the others.
//
//	a = exp(x)           a = exp(x)          found in the table: b is a
//	b = exp(x)     ─▶
//	c = add(a, a)        c = add(a, a)
//	d = add(a, b)                            by now add(a, a): d is c
//
// Source: value numbering with a hash table (Cocke and Schwartz, Programming Languages
// and their Compilers, 1970); single assignment makes it valid for the whole graph.
var CSE = &Pass{
	Name: "cse", Doc: "equal nodes and equal constants -> one of them",
	before: func(c *Context, g *ssa.Graph) {
		c.numbers = newNumbering(len(g.Nodes))
		c.mergeConstants(g)
	},
	rules: []rule{{"an equal node -> the first", anyOp, mergeEqual}},
}

// cseConstBytes is up to which size constants are read only to compare them;
// larger ones are compared only where their bytes need not be unpacked.
const cseConstBytes = 1 << 12

// mergeEqual looks a node up in the table and enters it if there is no equal one.
func mergeEqual(c *Context, n *ssa.Node) bool {
	if !pure(n) || is(n, "Identity") {
		return false
	}
	hash := hashOf(n)
	for at := c.numbers.first(hash); at >= 0; at = c.numbers.all[at].next {
		if m := c.numbers.all[at].node; c.alive(m) && sameKey(m, n) && sameNode(m, n) {
			c.replaceResults(n, func(i int) *ssa.Value { return m.Out[i] })
			c.killIfUnread(n)
			return true
		}
	}
	c.numbers.add(hash, n)
	return false
}

// numbering is a table of nodes by a hash of what they compute; those of one hash are a list in the order they came in.
type numbering struct {
	lists map[uint64][2]int32 // first and last of the list
	all   []numbered
}

type numbered struct {
	node *ssa.Node
	next int32 // of the list, -1 for none
}

func newNumbering(nodes int) *numbering {
	return &numbering{make(map[uint64][2]int32, nodes), make([]numbered, 0, nodes)}
}

// first is the first node of a hash, -1 for none.
func (t *numbering) first(hash uint64) int32 {
	if l, ok := t.lists[hash]; ok {
		return l[0]
	}
	return -1
}

func (t *numbering) add(hash uint64, n *ssa.Node) {
	at := int32(len(t.all))
	t.all = append(t.all, numbered{n, -1})
	l, ok := t.lists[hash]
	if !ok {
		l[0] = at
	} else {
		t.all[l[1]].next = at
	}
	l[1] = at
	t.lists[hash] = l
}

// hashOf is equal for equal nodes: FNV-1a over operator and operands.
func hashOf(n *ssa.Node) uint64 {
	h := uint64(14695981039346656037)
	mix := func(x uint64) { h = (h ^ x) * 1099511628211 }
	for i := range len(n.Op) {
		mix(uint64(n.Op[i]))
	}
	a, b := firstTwo(n)
	mix(uint64(a))
	mix(uint64(b))
	for _, v := range n.In[min(2, len(n.In)):] {
		mix(uint64(idOf(v)))
	}
	return h ^ h>>32
}

// sameKey reports that two nodes have the same operator and operands.
func sameKey(m, n *ssa.Node) bool {
	if m.Op != n.Op || m.Domain != n.Domain || m.Overload != n.Overload || m.Captures != n.Captures || len(m.Bodies) != len(n.Bodies) || len(m.In) != len(n.In) {
		return false
	}
	a, b := firstTwo(m)
	c, d := firstTwo(n)
	return a == c && b == d && (len(n.In) < 3 || slices.Equal(m.In[2:], n.In[2:]))
}

// firstTwo are the ids of the first two operands, the smaller first where the operator commutes.
func firstTwo(n *ssa.Node) (a, b int) {
	a, b = idOf(n.Input(0)), idOf(n.Input(1))
	if o := ops.Of(n); a > b && len(n.In) > 1 && o != nil && o.Facts.Order == ops.Commutative {
		a, b = b, a
	}
	return a, b
}

// idOf is -1 for an absent operand.
func idOf(v *ssa.Value) int {
	if v == nil {
		return -1
	}
	return v.ID
}

// sameNode compares what the key leaves out: attributes, bodies, and that m gives
// every result n gives. An absent attribute is equal to its default.
func sameNode(m, n *ssa.Node) bool {
	if !ops.SameAttrs(m, n) || len(m.Out) < len(n.Out) || !slices.Equal(m.BodyAttr, n.BodyAttr) {
		return false
	}
	if o := ops.Of(n); o.MaxOut < 0 && len(m.Out) != len(n.Out) {
		return false // the number of results is part of the meaning (Split)
	}
	for i, v := range n.Out {
		if v != nil && m.Out[i] == nil {
			return false
		}
	}
	for i, b := range n.Bodies {
		if !(ssa.Compare{}).Equal(m.Bodies[i], b) {
			return false
		}
	}
	return true
}

// mergeConstants lets readers of equal constants read the first of them.
func (c *Context) mergeConstants(g *ssa.Graph) {
	type constant struct {
		v    *ssa.Value
		next int32 // with the same hash, -1 for none
	}
	read := func(v *ssa.Value) bool { return v.Const != nil && len(v.Uses()) > 0 }
	constants := 0
	for _, v := range g.Values() {
		if read(v) {
			constants++
		}
	}
	table, all := make(map[uint32]int32, constants), make([]constant, 0, constants) // last of each hash
	for _, v := range g.Values() {
		if c.ctx.Err() != nil {
			return
		}
		if !read(v) {
			continue
		}
		h, ok := constHash(v.Const)
		if !ok {
			continue
		}
		first := int32(-1)
		last, met := table[h]
		if !met {
			last = -1
		}
		for i := last; i >= 0; i = all[i].next {
			if w := all[i].v; w.Type.Equal(v.Type) && w.Const.Equal(v.Const) {
				first = i
			}
		}
		if first >= 0 {
			c.patch(v.Uses()[0].Node, "an equal constant -> the first")
			redirect(v, all[first].v)
			continue
		}
		table[h] = int32(len(all))
		all = append(all, constant{v, last})
	}
}

// constHash hashes the type and the first and last bytes of the elements: equality is decided
// by comparing. ok is false for large constants whose elements would have to be
// read or unpacked for it.
func constHash(k *ssa.Constant) (h uint32, ok bool) {
	typed := []byte{byte(k.DType())}
	for _, d := range k.Shape() {
		typed = binary.AppendUvarint(typed, uint64(d))
	}
	h = crc32.ChecksumIEEE(typed)
	data := k.Packed()
	if splat, is := k.Splat(); is { // a dense twin is rare enough to be missed
		h++
		data = splat.Data
	} else if data == nil {
		if k.StoredBytes() > cseConstBytes {
			return 0, false
		}
		a, err := k.Array()
		if err != nil {
			return 0, false
		}
		data = a.Data
		for _, s := range a.Str {
			h = crc32.Update(h, crc32.IEEETable, []byte(s))
		}
	}
	const edge = 1 << 10
	h = crc32.Update(h, crc32.IEEETable, data[:min(edge, len(data))])
	return crc32.Update(h, crc32.IEEETable, data[max(0, len(data)-edge):]), true
}
