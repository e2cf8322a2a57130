package cuda

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/berth-onnx/berth/backend/cuda/internal/device"
	"github.com/berth-onnx/berth/backend/cuda/internal/kernels"
	"github.com/berth-onnx/berth/backend/cuda/internal/lower"
	"github.com/berth-onnx/berth/ops"
)

// Asking the device for the work of a segment, piece by piece: directly, or while a graph is recorded.

// asking is how the work of a segment is asked for.
type asking struct {
	ctx      context.Context
	device   device.Device
	profiler *profiler // nil but in MeasureRuns
	edges    *edges    // of a graph that is captured, else nil
	status   kernels.Operand
	launched int
	kernels  ends
}

// ends are the names of the first kernel of a segment and of the last.
type ends struct{ first, last string }

// String names one or both.
func (e ends) String() string {
	if e.first == e.last {
		return e.first
	}
	return e.first + ", " + e.last + " or one between them"
}

// each makes the launches of a segment and asks for all of its work.
func (s *segment) each(a *asking) error {
	if err := a.profiler.begin(); err != nil {
		return err
	}
	at := 0
	for i := range s.list {
		w := &s.list[i]
		var err error
		if w.what == launches {
			n := at + w.in + w.out
			call := lower.Call{In: s.operands[at : at+w.in], Out: s.operands[at+w.in : n], Scratch: s.operands[n], Status: a.status, Launch: uint32(i + 1)}
			at = n + 1
			err = a.launch(w, &call)
			a.launched += len(w.kernel.plan.Steps)
		} else {
			err = a.copy(w)
		}
		if err == nil {
			err = a.profiler.done(w)
		}
		if err != nil {
			if ended := a.ctx.Err(); !errors.Is(err, ended) {
				err = errors.Join(err, ended)
			}
			return err
		}
	}
	return nil
}

// after says what the next piece of work of a graph waits for.
func (a *asking) after() error {
	if a.edges == nil {
		return nil
	}
	return a.device.After(a.edges.next())
}

// copy asks for a copy.
func (a *asking) copy(w *work) error {
	if w.what != copiesIn {
		a.edges.read(w.from, w.bytes)
	}
	switch w.what {
	case copiesIn, copiesInside:
		a.edges.write(w.to, w.bytes)
	case copiesStatus:
		a.edges.write(w.from, w.bytes) // all that note indices only read it, as far as edges go
	}
	if err := a.after(); err != nil {
		return err
	}
	switch w.what {
	case copiesIn:
		return a.device.CopyIn(w.to, w.host)
	case copiesOut, copiesStatus:
		return a.device.CopyOut(w.host, w.from)
	}
	return a.device.Copy(w.to, w.from, w.bytes)
}

// ask asks for a launch.
func (a *asking) ask(l *device.Launch) error {
	for _, w := range l.Windows {
		if w.IsRead {
			a.edges.read(w.Base, w.Bytes)
		}
	}
	for _, w := range l.Windows {
		if w.IsWritten && !w.Commutes {
			a.edges.write(w.Base, w.Bytes)
		}
	}
	if err := a.after(); err != nil {
		return err
	}
	l.Context = a.ctx
	a.kernels.last = l.Kernel.Name()
	if a.kernels.first == "" {
		a.kernels.first = a.kernels.last
	}
	a.profiler.launched(l.Kernel.Name())
	return a.device.Launch(l)
}

// births are the results and the workspace of a node, for a device that tells what nobody has written: their values begin with the node. Of several
// launches, later ones read the operands that results lie over, so these results are left out.
func (a *asking) births(call *lower.Call, isAlone bool) (list []device.Window) {
	if _, ok := a.device.(forgetter); !ok {
		return nil
	}
	for i, o := range append(slices.Clone(call.Out), call.Scratch) {
		isOver := slices.ContainsFunc(call.In, func(in kernels.Operand) bool { return overlap(in.Base, in.Bytes, o.Base, o.Bytes) })
		if o.Base != 0 && (isAlone || !isOver) {
			list = append(list, device.Window{Name: fmt.Sprintf("result %d", i), Base: o.Base, Bytes: o.Bytes})
		}
	}
	return list
}

// overlap reports that two places have a byte in common.
func overlap(a device.Pointer, aBytes int64, b device.Pointer, bBytes int64) bool {
	return a < b+device.Pointer(bBytes) && b < a+device.Pointer(aBytes)
}

// fresh is what of a node's results begins with a launch: the windows of them that it writes and that no earlier launch of the node wrote, began. What other
// work read before lies in order before the windows that a launch writes, and no others.
func fresh(l *device.Launch, births, began []device.Window) (list []device.Window) {
	for _, w := range l.Windows {
		isBegun := slices.ContainsFunc(append(began, list...), func(o device.Window) bool { return overlap(w.Base, w.Bytes, o.Base, o.Bytes) })
		if !w.IsWritten || isBegun {
			continue
		}
		for _, r := range births {
			lo, hi := max(w.Base, r.Base), min(w.Base+device.Pointer(w.Bytes), r.Base+device.Pointer(r.Bytes))
			if lo < hi {
				list = append(list, device.Window{Name: r.Name, Base: lo, Bytes: int64(hi - lo)})
			}
		}
	}
	return list
}

// launch launches the kernels of a node.
func (a *asking) launch(w *work, call *lower.Call) error {
	ctx := a.ctx
	births, began := a.births(call, len(w.kernel.plan.Steps) == 1), []device.Window(nil)
	for _, step := range w.kernel.plan.Steps {
		l, err := step(call)
		if err == nil {
			l.Fresh = fresh(l, births, began)
			began = append(began, l.Fresh...)
			err = a.ask(l)
		}
		if lost := (*device.DeviceLostError)(nil); errors.As(err, &lost) {
			return err // the fault may be that of an earlier one
		}
		if err != nil && ctx.Err() == nil {
			return ops.AtNode("run", w.node, err)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
