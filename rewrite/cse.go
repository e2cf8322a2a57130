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
	run: runCSE,
}

// cseConstBytes is up to which size constants are read only to compare them;
// larger ones are compared where their bytes are at hand.
const cseConstBytes = 1 << 12

func runCSE(c *Context, g *ssa.Graph) error {
	c.mergeConstants(g)
	seen := map[string][]*ssa.Node{}
	for _, n := range slices.Clone(g.Nodes) {
		if !c.alive(n) || !pure(n) || is(n, "Identity") || len(n.Out) == 0 {
			continue
		}
		key := cseKey(n)
		i := slices.IndexFunc(seen[key], func(m *ssa.Node) bool { return c.alive(m) && sameNode(m, n) })
		if i < 0 {
			seen[key] = append(seen[key], n)
			continue
		}
		if m := seen[key][i]; c.patch(n, "same as %s", m) {
			c.mergeNodes(n, m)
		}
	}
	return nil
}

// mergeNodes lets the readers of n read m.
func (c *Context) mergeNodes(n, m *ssa.Node) {
	for i, v := range n.Out {
		if v != nil && c.alive(n) && !c.unreadResult(n, i) {
			c.replace(v, m.Out[i])
		}
	}
	c.killIfUnread(n)
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
	if o := ops.Of(n); o != nil && o.Facts.Commutative && len(ids) >= 2 && ids[0] > ids[1] {
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
	groups := map[string][]*ssa.Value{}
	var order []string
	for _, v := range g.Values() {
		if v.Const == nil || len(v.Uses()) == 0 {
			continue
		}
		key := v.Type.String()
		if groups[key] == nil {
			order = append(order, key)
		}
		groups[key] = append(groups[key], v)
	}
	for _, key := range order {
		if len(groups[key]) > 1 {
			c.mergeGroup(groups[key])
		}
	}
}

func (c *Context) mergeGroup(vs []*ssa.Value) {
	byHash := map[uint32][]*ssa.Value{}
	for _, v := range vs {
		h, ok := constHash(v.Const)
		if !ok {
			continue
		}
		i := slices.IndexFunc(byHash[h], func(w *ssa.Value) bool { return w.Const.Equal(v.Const) })
		if i < 0 {
			byHash[h] = append(byHash[h], v)
			continue
		}
		if w := byHash[h][i]; c.patch(v.Uses()[0].Node, "constant %s equals %s", v.Name, w.Name) {
			for len(v.Uses()) > 0 {
				u := v.Uses()[0]
				u.Node.SetInput(u.Index, w)
			}
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
