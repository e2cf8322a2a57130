package berth

import (
	"io"

	"github.com/berth-onnx/berth/internal/program"
	"github.com/berth-onnx/berth/internal/report"
	"github.com/berth-onnx/berth/internal/rescue"
	"github.com/berth-onnx/berth/ndarray"
)

// Step is one instruction of a program, as [Session.Observe] shows it. It is valid during that call only.
type Step struct{ in *program.Instr }

// Op is the operator of the step's node.
func (s Step) Op() string {
	if s.in == nil {
		return ""
	}
	return s.in.Node.Op
}

// Node names operator and node.
func (s Step) Node() string {
	if s.in == nil {
		return ""
	}
	return s.in.Node.String()
}

// Choice is the algorithm that the kernel chose and why; "" where there was nothing to choose.
func (s Step) Choice() string {
	if s.in == nil {
		return ""
	}
	return s.in.Choice
}

// Kernel reports whether the step ran a kernel. Views, branches and loops run none; the nodes of their bodies are steps of
// their own.
func (s Step) Kernel() bool { return s.in != nil && s.in.Kind == program.Exec }

// Observe has f called after every step of later runs, on the goroutine that runs, with the results of the step: nil for
// absent ones, in the arena, valid during the call only. A nil f ends that.
func (s *Session) Observe(f func(step Step, results []ndarray.Value)) {
	if s == nil {
		return
	}
	if f == nil {
		s.observe.Store(nil)
		return
	}
	observe := func(in *program.Instr, results []ndarray.Value) { f(Step{in}, results) }
	s.observe.Store(&observe)
}

// Poison has the arena filled with a pattern before each later run, so that a read of bytes that nothing wrote changes
// the results.
func (s *Session) Poison(on bool) {
	if s != nil {
		s.poison.Store(on)
	}
}

// Written is how many bytes of the arena, from its start, the last run wrote to; only with [Session.Poison], and not during
// a run.
func (s *Session) Written() int64 {
	if !s.made() {
		return 0
	}
	return s.s.Touched()
}

// WriteMemoryMap draws the memory plan as a page of HTML: time from left to right, arena bytes from bottom to top, a box for
// every block.
func (p *Program) WriteMemoryMap(w io.Writer) (err error) {
	defer rescue.Into(&err)
	return report.HTML(w, p.prog)
}
