package loops

import (
	"slices"

	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// Which bytes a value shows. Many results need no memory: a reshape shows all of
// its operand, a slice along the outermost axis a part, the result of an If what
// its branch showed. Following them back leads to the values that own the bytes:
//
//	a ■■■■■■■■          made by a node: owns its bytes
//	b = Reshape(a)      the whole window of a                base: a
//	c = Slice(a)            ■■■■  from a+16 on               bases: a, c
//	e = Gather(a, i)        ■■    from a+8·i on              bases: a, e
//	d = If(b, y)        b in one branch, y in the other      bases: a, y, d

// IsPointer reports whether a value may own no memory: its bytes can be those of
// another value (a view, or a result of control flow).
func IsPointer(v *ssa.Value) bool {
	if v.Def == nil {
		return false
	}
	if ops.IsControl(v.Def) {
		return true
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
	// Moving says how far after Offset the window begins, if that is known only
	// while running: it may be anywhere in the operand.
	Moving *ops.Moving
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
			w = Window{Of: v.Def.Input(a.In), Operand: a.In, Offset: a.Offset, Moving: a.Moving}
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
		if w, ok := WindowOf(v); ok {
			visit(w.Of)
			out = append(out, v)
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
