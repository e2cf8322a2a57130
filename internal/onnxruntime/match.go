package onnxruntime

import (
	"cmp"
	"slices"
	"strings"
	"unicode"
)

// Which nodes of two optimized graphs compute the same.
//
// Both runtimes fuse, rename and add nodes, so neither is compared with the other, but each with the graph of the file. A node
// covers the nodes of the file that its results depend on, up to values that other nodes of the same side make:
//
//	file     Conv ──c──▶ Add ──a──▶ Relu ──r──▶        covers
//	one      Conv ──c──▶ Fused ───────────r──▶         {Conv}  {Add, Relu}
//	other    FusedConv ─────────a──▶ Relu ──r──▶       {Conv, Add}  {Relu}
//
// What several nodes of a side depend on so, sizes that both have folded for one, is covered by none of them.
//
// A value that is not in the file stands for the one whose name its own contains, and a node none of whose values are found so for the
// value or node that its name contains: runtimes derive names from those they replace. Nodes of both sides that cover a common node
// belong to one row, and so do those that share nodes with them: above, all. What covers nothing, a conversion of an input's layout
// for one, is a row of its own.

// Node is a node of a graph.
type Node struct {
	Name    string
	Op      string
	Nanos   int64    // that it took in a run
	In, Out []string // names of values, "" for absent ones
}

// Row is what nodes of both sides compute together, by their indices.
type Row struct{ File, One, Other []int }

// Matched reports that both sides have nodes in the row.
func (r Row) Matched() bool { return len(r.One) > 0 && len(r.Other) > 0 }

// Match finds the rows, in the order of the file; those without nodes of the file come last.
func Match(file, one, other []Node) []Row {
	m := newMatcher(file)
	sets := newSets(len(file) + len(one) + len(other))
	for i, covered := range m.cover(one) {
		for _, f := range covered {
			sets.join(f, len(file)+i)
		}
	}
	for i, covered := range m.cover(other) {
		for _, f := range covered {
			sets.join(f, len(file)+len(one)+i)
		}
	}
	at := map[int]int{}
	var rows []Row
	for i := range sets {
		root := sets.root(i)
		k, seen := at[root]
		if !seen {
			k = len(rows)
			at[root] = k
			rows = append(rows, Row{})
		}
		r := &rows[k]
		switch {
		case i < len(file):
			r.File = append(r.File, i)
		case i < len(file)+len(one):
			r.One = append(r.One, i-len(file))
		default:
			r.Other = append(r.Other, i-len(file)-len(one))
		}
	}
	return slices.DeleteFunc(rows, func(r Row) bool { return len(r.One)+len(r.Other) == 0 })
}

// matcher finds nodes of the file.
type matcher struct {
	file  []Node
	makes map[string]int // the node that makes a value
	known []string       // names of values and nodes, the longest first
	node  map[string]int // the node that makes a value of the name, or has it
}

func newMatcher(file []Node) *matcher {
	m := &matcher{file: file, makes: map[string]int{}, node: map[string]int{}}
	for i, n := range file {
		for _, v := range n.Out {
			if v != "" {
				m.makes[v] = i
			}
		}
	}
	for i, n := range file {
		for _, name := range append([]string{n.Name}, n.Out...) {
			if _, twice := m.node[name]; !twice && name != "" {
				m.node[name] = i
				m.known = append(m.known, name)
			}
		}
	}
	slices.SortStableFunc(m.known, func(a, b string) int { return cmp.Compare(len(b), len(a)) })
	return m
}

// cover lists, for each node of a side, the nodes of the file that it covers.
func (m *matcher) cover(side []Node) [][]int {
	starts, made := make([][]int, len(side)), map[int]bool{}
	for i, n := range side {
		starts[i] = m.starts(n)
		for _, f := range starts[i] {
			made[f] = true
		}
	}
	out, times := make([][]int, len(side)), make([]int, len(m.file))
	followed := map[int]bool{} // several nodes may stand for one value: the first covers what it depends on
	for i := range side {
		first := slices.DeleteFunc(slices.Clone(starts[i]), func(f int) bool { return followed[f] })
		for _, f := range first {
			followed[f] = true
		}
		out[i] = m.depends(first, made)
		for _, f := range starts[i] {
			if !slices.Contains(out[i], f) {
				out[i] = append(out[i], f)
			}
		}
		for _, f := range out[i] {
			times[f]++
		}
	}
	for i := range side {
		out[i] = slices.DeleteFunc(out[i], func(f int) bool { return times[f] > 1 && !slices.Contains(starts[i], f) })
	}
	return out
}

// starts are the nodes of the file that make a node's results.
func (m *matcher) starts(n Node) (list []int) {
	for _, v := range n.Out {
		if f, found := m.makes[v]; found {
			list = append(list, f)
		}
	}
	for _, name := range append(slices.Clone(n.Out), n.Name) {
		if len(list) > 0 {
			break
		}
		if f, found := m.named(name); found {
			list = append(list, f)
		}
	}
	return list
}

// depends lists nodes and those they depend on, up to values that are made by nodes of the side.
func (m *matcher) depends(starts []int, made map[int]bool) (list []int) {
	seen := map[int]bool{}
	for wait := slices.Clone(starts); len(wait) > 0; {
		f := wait[len(wait)-1]
		wait = wait[:len(wait)-1]
		if seen[f] {
			continue
		}
		seen[f] = true
		list = append(list, f)
		for _, v := range m.file[f].In {
			if p, found := m.makes[v]; found && !made[p] {
				wait = append(wait, p)
			}
		}
	}
	return list
}

// named finds the longest known name that a name contains as a whole: Conv_1 in Conv_1_nchwc, but not in Conv_12. Short names and
// numbers count at the beginning alone.
func (m *matcher) named(name string) (int, bool) {
	for _, n := range m.known {
		if len(n) > len(name) {
			continue
		}
		short := len(n) < 3 || !strings.ContainsFunc(n, unicode.IsLetter)
		for at := 0; at+len(n) <= len(name); at++ {
			i := strings.Index(name[at:], n)
			if i < 0 {
				break
			}
			if at += i; !isWord(name, at-1) && !isWord(name, at+len(n)) && (at == 0 || !short) {
				return m.node[n], true
			}
		}
	}
	return 0, false
}

// isWord reports a letter or digit.
func isWord(s string, i int) bool {
	if i < 0 || i >= len(s) {
		return false
	}
	c := s[i]
	return c >= '0' && c <= '9' || c|0x20 >= 'a' && c|0x20 <= 'z'
}

// sets are disjoint sets of numbers, by the root of each.
type sets []int

func newSets(n int) sets {
	s := make(sets, n)
	for i := range s {
		s[i] = i
	}
	return s
}

// root names the set of i: its smallest number.
func (s sets) root(i int) int {
	for s[i] != i {
		s[i] = s[s[i]]
		i = s[i]
	}
	return i
}

// join makes one of two sets.
func (s sets) join(i, j int) {
	a, b := s.root(i), s.root(j)
	s[max(a, b)] = min(a, b)
}
