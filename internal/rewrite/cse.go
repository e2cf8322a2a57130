package rewrite

import (
	"fmt"
	"hash/crc32"
	"slices"
	"strings"

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
		c.numbers = map[string][]*ssa.Node{}
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
	key := cseKey(n)
	for _, m := range c.numbers[key] {
		if c.alive(m) && sameNode(m, n) {
			c.replaceResults(n, func(i int) *ssa.Value { return m.Out[i] })
			c.killIfUnread(n)
			return true
		}
	}
	c.numbers[key] = append(c.numbers[key], n)
	return false
}

// cseKey is equal for equal nodes.
func cseKey(n *ssa.Node) string {
	var sb strings.Builder
	fmt.Fprintf(&sb, "%s\x00%s\x00%s\x00%d %d", n.Domain, n.Op, n.Overload, n.Captures, len(n.Bodies))
	for _, id := range operandIDs(n) {
		fmt.Fprintf(&sb, " %d", id)
	}
	return sb.String()
}

func operandIDs(n *ssa.Node) []int {
	ids := make([]int, len(n.In))
	for i, v := range n.In {
		ids[i] = -1
		if v != nil {
			ids[i] = v.ID
		}
	}
	if o := ops.Of(n); o != nil && o.Facts.Order == ops.Commutative && len(ids) >= 2 && ids[0] > ids[1] {
		ids[0], ids[1] = ids[1], ids[0]
	}
	return ids
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
	type key struct {
		of   string
		hash uint32
	}
	table := map[key][]*ssa.Value{}
	for _, v := range g.Values() {
		if v.Const == nil || len(v.Uses()) == 0 {
			continue
		}
		h, ok := constHash(v.Const)
		if !ok {
			continue
		}
		k := key{v.Type.String(), h}
		if i := slices.IndexFunc(table[k], func(w *ssa.Value) bool { return w.Const.Equal(v.Const) }); i >= 0 {
			c.patch(v.Uses()[0].Node, "an equal constant -> the first")
			redirect(v, table[k][i])
		} else {
			table[k] = append(table[k], v)
		}
	}
}

// constHash hashes the first and last bytes of the elements: equality is decided
// by comparing. ok is false for large constants whose elements would have to be
// read or unpacked for it.
func constHash(k *ssa.Constant) (h uint32, ok bool) {
	if _, splat := k.Splat(); splat {
		return uint32(len(k.Shape())), true // a dense twin is rare enough to be missed
	}
	data := k.Packed()
	if data == nil {
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
