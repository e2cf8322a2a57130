package rewrite

import (
	"encoding/binary"
	"hash/maphash"
	"math/bits"
	"runtime"
	"slices"
	"sync/atomic"

	"github.com/berth-onnx/berth/internal/rescue"
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
	for at := c.numbers.lists.first(hash); at >= 0; at = c.numbers.lists.behind(at) {
		if m := c.numbers.all[at]; c.alive(m) && sameKey(m, n) && sameNode(m, n) {
			c.replaceResults(n, func(i int) *ssa.Value { return m.Out[i] })
			c.killIfUnread(n)
			return true
		}
	}
	c.numbers.add(hash, n)
	return false
}

// numbering is a table of nodes by a hash of what they compute.
type numbering struct {
	lists hashLists
	all   []*ssa.Node
}

func newNumbering(nodes int) *numbering {
	return &numbering{newHashLists(nodes), make([]*ssa.Node, 0, nodes)}
}

func (t *numbering) add(hash uint64, n *ssa.Node) {
	t.lists.add(hash)
	t.all = append(t.all, n)
}

// hashLists finds items, numbered from 0 in the order they come in, by their hashes.
type hashLists struct {
	ends  []hashList // as many as a power of two; items whose hashes end in the same bits are in one list
	items []hashItem
}

// hashList is the numbers of the first and last items plus one; 0 for an empty list.
type hashList struct{ first, last int32 }

// hashItem is the hash of an item and the number of the one behind it in its list plus one.
type hashItem struct {
	hash uint64
	next int32
}

// newHashLists has room for so many items; more make the lists longer.
func newHashLists(items int) hashLists {
	return hashLists{make([]hashList, 1<<bits.Len(uint(items))), make([]hashItem, 0, items)}
}

func (t *hashLists) of(hash uint64) *hashList { return &t.ends[hash&uint64(len(t.ends)-1)] }

// first is the first item of a hash, -1 for none.
func (t *hashLists) first(hash uint64) int32 { return t.find(t.of(hash).first, hash) }

// behind is the next item of the same hash, -1 for none.
func (t *hashLists) behind(item int32) int32 {
	return t.find(t.items[item].next, t.items[item].hash)
}

func (t *hashLists) find(at int32, hash uint64) int32 {
	for at > 0 && t.items[at-1].hash != hash {
		at = t.items[at-1].next
	}
	return at - 1
}

// add enters the next item.
func (t *hashLists) add(hash uint64) {
	list := t.of(hash)
	t.items = append(t.items, hashItem{hash: hash})
	number := int32(len(t.items))
	if list.first == 0 {
		list.first = number
	} else {
		t.items[list.last-1].next = number
	}
	list.last = number
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
	read := func(v *ssa.Value) bool { return v.Const != nil && len(v.Uses()) > 0 }
	constants := make([]*ssa.Value, 0, max(0, g.NumValues()-len(g.Nodes))) // about
	for _, v := range g.Values() {
		if read(v) {
			constants = append(constants, v)
		}
	}
	hashes, err := c.constHashes(constants)
	if err != nil {
		c.fail(err)
		return
	}
	table, all := newHashLists(len(constants)), make([]*ssa.Value, 0, len(constants))
	for i, v := range constants {
		if c.ctx.Err() != nil {
			return
		}
		if !read(v) || !hashes[i].ok {
			continue
		}
		h := hashes[i].hash
		first := table.first(h)
		for first >= 0 && !(all[first].Type.Equal(v.Type) && all[first].Const.EqualContext(c.ctx, v.Const)) {
			first = table.behind(first)
		}
		if first >= 0 {
			c.patch(v.Uses()[0].Node, "an equal constant -> the first")
			redirect(v, all[first])
			continue
		}
		table.add(h)
		all = append(all, v)
	}
}

// constHashed is what constHash says of a constant.
type constHashed struct {
	hash uint64
	ok   bool
}

// constHashes hashes constants, many of them by several goroutines: most of the time passes with pages of the file that are brought in.
func (c *Context) constHashes(constants []*ssa.Value) ([]constHashed, error) {
	const piece = 1024
	out := make([]constHashed, len(constants))
	var next atomic.Int64
	err := rescue.Share(min(runtime.GOMAXPROCS(0), 1+len(constants)/(2*piece)), func() error {
		for lo := int(next.Add(piece)) - piece; lo < len(constants) && c.ctx.Err() == nil; lo = int(next.Add(piece)) - piece {
			for i := lo; i < min(lo+piece, len(constants)); i++ {
				k := constants[i].Const
				if k.StoredBytes() > cseConstBytes && c.ctx.Err() != nil { // a file that is not in memory takes 10 ms for each
					break
				}
				out[i].hash, out[i].ok = constHash(k)
			}
		}
		return nil
	})
	return out, err
}

// constSeed makes hashes that hold within a process.
var constSeed = maphash.MakeSeed()

// constHash hashes the type and the first and last bytes of the elements: equality is decided
// by comparing. ok is false for large constants whose elements would have to be
// read or unpacked for it.
func constHash(k *ssa.Constant) (h uint64, ok bool) {
	typed := append(make([]byte, 0, 64), byte(k.DType()))
	for _, d := range k.Shape() {
		typed = binary.AppendUvarint(typed, uint64(d))
	}
	h = maphash.Bytes(constSeed, typed)
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
			h = h<<1 ^ maphash.String(constSeed, s)
		}
	}
	const edge = 1 << 10
	h ^= maphash.Bytes(constSeed, data[:min(edge, len(data))])
	if len(data) > edge {
		h ^= 3 * maphash.Bytes(constSeed, data[len(data)-edge:])
	}
	return h, true
}
