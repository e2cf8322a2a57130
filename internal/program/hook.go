package program

import (
	"cmp"
	"context"
	"errors"
	"strings"
	"time"

	"github.com/berth-onnx/berth/internal/rescue"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ssa"
)

// Hook is told when the nodes of a run begin and end. Its functions, nil for those not wanted,
// are called on the goroutine that runs, with the run's context, and by several goroutines at
// once where runs are concurrent. Nodes of the bodies of branches and loops are told of, too,
// between begin and end of the node that they belong to.
type Hook struct {
	Before func(ctx context.Context, e Event) // Duration, Bytes and Err are zero
	After  func(ctx context.Context, e Event) // for every Before, also when the node fails
}

// Event is one node of a run.
type Event struct {
	Domain   string // of the operator that runs; "" for the default one, [ops.Private] for one that computes what the model has otherwise
	Op       string
	Node     string // name of the model's node that it computes, or of its first result if it has none; of several, separated by commas
	Start    time.Time
	Duration time.Duration
	Bytes    int64 // of its results; views, which take none, included
	Err      error // why the node failed
}

// errPanic is the error of an event whose node ended by a panic; the run's error has the rest.
var errPanic = errors.New("the kernel panicked")

// hooked runs an instruction between the calls of the hook.
func (s *Session) hooked(h *Hook, in *Instr) (err error) {
	e := Event{Domain: in.Node.Domain, Op: in.Node.Op, Node: nameOf(in.Node), Start: time.Now()}
	err = errPanic
	if h.After != nil {
		defer func() {
			if e.Duration, e.Err = time.Since(e.Start), err; err == nil {
				e.Bytes = s.resultBytes(in)
			}
			s.tell(h.After, e)
		}()
	}
	if h.Before != nil {
		s.tell(h.Before, e)
		e.Start = time.Now()
	}
	err = s.step(in)
	return err
}

// tell calls a function of a hook.
func (s *Session) tell(f func(context.Context, Event), e Event) {
	rescue.Call("the hook", func() { f(s.ctx, e) })
}

// nameOf names the model's nodes that a node computes.
func nameOf(n *ssa.Node) string {
	var names []string
	for _, of := range n.Names() {
		names = append(names, cmp.Or(of.Name, of.Result))
	}
	return strings.Join(names, ", ")
}

// resultBytes is the size of what an instruction has computed.
func (s *Session) resultBytes(in *Instr) (n int64) {
	for _, slot := range in.Out {
		if slot >= 0 {
			n += valueBytes(s.vals[slot])
		}
	}
	return n
}

// valueBytes is the size of the elements in a value; strings count by their headers and characters.
func valueBytes(v ndarray.Value) (n int64) {
	switch x := v.(type) {
	case *strided:
		return int64(x.Len() * x.DType.Size())
	case *ndarray.Array:
		if x == nil {
			return 0
		}
		for _, str := range x.Str {
			n += int64(ndarray.String.Size() + len(str))
		}
		return n + int64(len(x.Data))
	case *ndarray.Sequence:
		for _, item := range x.Items {
			n += valueBytes(item)
		}
	case *ndarray.Optional:
		return valueBytes(x.Value)
	case *ndarray.Map:
		return valueBytes(x.Keys) + valueBytes(x.Values)
	case *ndarray.Sparse:
		return valueBytes(x.Values) + valueBytes(x.Indices)
	}
	return n
}
