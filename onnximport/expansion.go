package onnximport

import "github.com/berth-onnx/berth/internal/onnxwire"

// Calls of functions are written out, and calls in functions multiply: n functions that
// each call the one before twice stand for 2^n nodes. So the nodes are counted before
// any is made, each function once:
//
//	f0  Relu, Relu      2 nodes
//	f1  f0, f0          2 + 2·2 = 6
//	f2  f1, f1          2 + 2·6 = 14
//
// Functions that call themselves are left to the limit of the depth.

// expansion counts the nodes that functions stand for.
type expansion struct {
	imp   *importer
	total map[*onnxwire.Function]int
}

// checkExpansion reports an error if the model has too many nodes with its functions
// written out.
func (imp *importer) checkExpansion() error {
	if len(imp.functions) == 0 {
		return nil
	}
	e := expansion{imp, map[*onnxwire.Function]int{}}
	if n := e.nodes(imp.model.Graph.Nodes); n > imp.limits.Nodes {
		return fail("write it without functions, or, "+raise("Nodes", "nodes"), "the model has more than %d nodes once the calls of its functions are written out", imp.limits.Nodes)
	}
	return nil
}

// nodes is how many nodes a list stands for, at most one more than the limit.
func (e expansion) nodes(list []*onnxwire.Node) int {
	n := 0
	for _, w := range list {
		n = min(n+e.node(w), e.imp.limits.Nodes+1)
	}
	return n
}

func (e expansion) node(w *onnxwire.Node) int {
	n := 1
	for _, a := range w.Attributes {
		if a.G != nil {
			n += e.nodes(a.G.Nodes)
		}
		for _, g := range a.Graphs {
			n += e.nodes(g.Nodes)
		}
	}
	f := e.imp.functions[functionKey{cleanDomain(w.Domain), w.OpType, w.Overload}]
	if f == nil {
		return n
	}
	if _, seen := e.total[f]; !seen {
		e.total[f] = 0 // a call of itself counts nothing
		e.total[f] = e.nodes(f.Nodes)
	}
	return n + e.total[f]
}
