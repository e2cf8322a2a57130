package program

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// InputError reports an input that does not fit the model.
type InputError struct {
	Name string // "" where the number of inputs is wrong
	Want string
	Got  string
}

// Error names the input, what it must be and what it is.
func (e *InputError) Error() string {
	if e.Name == "" {
		return fmt.Sprintf("the inputs must be %s, got %s", e.Want, e.Got)
	}
	return fmt.Sprintf("input %q must be %s, got %s", e.Name, e.Want, e.Got)
}

// Is makes the error an [ops.ErrInput].
func (e *InputError) Is(target error) bool { return target == ops.ErrInput }

// OfInputs marks an error at a node as one of the call's inputs, unless the cause is another one: lack of memory, the end of a
// context, a defect of the model or of berth.
func OfInputs(err error) error {
	var at *ops.NodeError
	if !errors.As(err, &at) {
		return err
	}
	var full *ops.MemoryError
	var crash *ops.PanicError
	var defect *ops.StructureError
	other := errors.As(at.Err, &full) || errors.As(at.Err, &crash) || errors.As(at.Err, &defect)
	for _, of := range []error{ops.ErrUnsupported, ErrInUse, context.Canceled, context.DeadlineExceeded} {
		other = other || errors.Is(at.Err, of)
	}
	at.Input = !other
	return err
}

// readsParam reports whether what a node computes depends on a parameter of its graph.
func readsParam(n *ssa.Node) bool {
	seen := map[*ssa.Node]bool{}
	for next := []*ssa.Node{n}; len(next) > 0; {
		n, next = next[len(next)-1], next[:len(next)-1]
		for _, v := range n.In {
			switch {
			case v == nil:
			case v.IsParam():
				return true
			case v.Def != nil && !seen[v.Def]:
				seen[v.Def] = true
				next = append(next, v.Def)
			}
		}
	}
	return false
}

// wrongCount reports that a run was not given one value for each input.
func (p *Program) wrongCount(n int) error {
	var ports []*ssa.Value
	for _, slot := range p.Main.Params {
		ports = append(ports, p.Slots[slot].Value)
	}
	return &InputError{Want: fmt.Sprintf("%d values (%s)", len(ports), Ports(ports)), Got: strconv.Itoa(n)}
}

// Ports lists inputs or outputs with their types for a message; see [Listed].
func Ports(vs []*ssa.Value) string {
	ports := make([]string, 0, len(vs))
	for _, v := range vs {
		ports = append(ports, v.Name+" "+v.Type.String())
	}
	return Listed(ports)
}

// mostListed is after how many bytes a list in a message ends.
const mostListed = 1000

// Listed is a list for a message: a model may have thousands of inputs.
func Listed(names []string) string {
	n := 0
	for size := 0; n < len(names) && size < mostListed; n++ {
		size += len(names[n]) + len(", ")
	}
	text := strings.Join(names[:n], ", ")
	if n < len(names) {
		text += fmt.Sprintf(" and %d more", len(names)-n)
	}
	return text
}

// CheckInput compares a value with the type of a parameter: kind, element type, rank, known
// dimensions, and that it is sound in itself ([ssa.Type.CheckValue]). The error is an [*InputError], or that of the context.
func CheckInput(ctx context.Context, name string, t ssa.Type, v ndarray.Value) error {
	err := t.CheckValue(ctx, v)
	if err == nil {
		return nil
	}
	if bad := (*ndarray.ValueError)(nil); errors.As(err, &bad) {
		return &InputError{Name: name, Want: t.String(), Got: bad.Got}
	}
	return err
}

// CheckBounds reports an axis of an input that is longer than [Options.Bounds] says of its symbolic dimension.
func CheckBounds(name string, t ssa.Type, a *ndarray.Array, bounds map[string]int64) error {
	for axis, d := range t.Shape {
		symbol, _ := d.SymbolName()
		if most, bounded := bounds[symbol]; bounded && axis < len(a.Shape) && int64(a.Shape[axis]) > most {
			return &InputError{name, fmt.Sprintf("%s with %s (axis %d) at most %d, the bound that was declared for it; pass less or declare a larger one", t, symbol, axis, most), a.String()}
		}
	}
	return nil
}

// checkInput checks input i, and that its symbolic dimensions are within their bounds and as long as those of the
// inputs before it.
func (s *Session) checkInput(i int, inputs []ndarray.Value) error {
	v := s.p.Slots[s.p.Main.Params[i]].Value
	if inputs[i] == nil && s.p.isCache(i) {
		return nil
	}
	if err := CheckInput(s.ctx, v.Name, v.Type, inputs[i]); err != nil {
		return err
	}
	a, ok := inputs[i].(*ndarray.Array)
	if !ok || !v.Type.Ranked || v.Type.IsStatic() {
		return nil
	}
	if err := CheckBounds(v.Name, v.Type, a, s.p.bounds); err != nil {
		return err
	}
	for k, d := range v.Type.Shape {
		symbol, ok := d.SymbolName()
		if !ok {
			continue
		}
		if other, n := s.lengthOf(symbol, i, inputs); n >= 0 && n != a.Shape[k] {
			return &InputError{Name: v.Name, Want: fmt.Sprintf("%s with %s = %d as in input %q", v.Type, symbol, n, other), Got: a.String()}
		}
	}
	return nil
}

// lengthOf is the length along a symbolic dimension of the first of some inputs that has it; -1
// if none does.
func (s *Session) lengthOf(symbol string, before int, inputs []ndarray.Value) (input string, n int) {
	for i := range before {
		v := s.p.Slots[s.p.Main.Params[i]].Value
		a, ok := inputs[i].(*ndarray.Array)
		if !ok || !v.Type.Ranked || len(a.Shape) != len(v.Type.Shape) {
			continue
		}
		for k, d := range v.Type.Shape {
			if other, ok := d.SymbolName(); ok && other == symbol {
				return v.Name, a.Shape[k]
			}
		}
	}
	return "", -1
}

// isCache reports whether a parameter is one that sessions can keep.
func (p *Program) isCache(param int) bool {
	for i := range p.caches {
		if p.caches[i].Param == param {
			return true
		}
	}
	return false
}
