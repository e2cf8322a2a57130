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
// Functions that call themselves are left to the limit of the depth, which bounds the recursion here, too.

// expansion counts the nodes that functions stand for.
type expansion struct {
	imp   *importer
	total map[*onnxwire.Function]int
	calls int // of functions, around the list that is counted
}

// checkExpansion reports an error if the model has too many nodes with its functions
// written out.
func (imp *importer) checkExpansion() error {
	if len(imp.functions) == 0 {
		return nil
	}
	e := expansion{imp: imp, total: map[*onnxwire.Function]int{}}
	n, err := e.nodes(imp.model.Graph.Nodes)
	if err != nil {
		return err
	}
	if n > imp.limits.Nodes {
		return fail("write it without functions, or, "+raise("Nodes", "nodes"), "the model has more than %d nodes once the calls of its functions are written out", imp.limits.Nodes)
	}
	return nil
}

// nodes is how many nodes a list stands for, at most one more than the limit.
func (e *expansion) nodes(list []*onnxwire.Node) (n int, err error) {
	for _, w := range list {
		of, err := e.node(w)
		if err != nil {
			return 0, err
		}
		n = min(n+of, e.imp.limits.Nodes+1)
	}
	return n, nil
}

func (e *expansion) node(w *onnxwire.Node) (int, error) {
	n := 1
	for _, a := range w.Attributes {
		for _, g := range append(a.Graphs[:len(a.Graphs):len(a.Graphs)], a.G) {
			if g == nil {
				continue
			}
			of, err := e.nodes(g.Nodes)
			if err != nil {
				return 0, err
			}
			n += of
		}
	}
	f := e.imp.functions[functionKey{cleanDomain(w.Domain), w.OpType, w.Overload}]
	if f == nil {
		return n, nil
	}
	of, err := e.function(f)
	return n + of, err
}

// function counts the nodes of a function when it is first called.
func (e *expansion) function(f *onnxwire.Function) (int, error) {
	if n, seen := e.total[f]; seen {
		return n, nil
	}
	if e.calls == e.imp.limits.CallDepth {
		return 0, e.imp.tooDeep()
	}
	if err := e.imp.ctx.Err(); err != nil {
		return 0, err
	}
	e.total[f] = 0 // a call of itself counts nothing
	e.calls++
	n, err := e.nodes(f.Nodes)
	e.calls--
	e.total[f] = n
	return n, err
}

// tooDeep is the error of calls of functions in functions beyond the limit.
func (imp *importer) tooDeep() error {
	return fail("functions must not call themselves; "+raise("CallDepth", "call-depth"), "calls of functions nest deeper than %d", imp.limits.CallDepth)
}
