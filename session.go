package berth

import (
	"io"

	"github.com/berth-onnx/berth/internal/report"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/program"
)

// Step is one instruction of a program, as [Session.Observe] shows it. It is valid during that call only.
type Step struct{ in *program.Instr }

// Op is the operator of the step's node.
func (s Step) Op() string { return s.in.Node.Op }

// Node names operator and node.
func (s Step) Node() string { return s.in.Node.String() }

// Choice is the algorithm that the kernel chose and why; "" where there was nothing to choose.
func (s Step) Choice() string { return s.in.Choice }

// Kernel reports whether the step ran a kernel. Views, branches and loops run none; the nodes of their bodies are steps of
// their own.
func (s Step) Kernel() bool { return s.in.Kind == program.Exec }

// Observe has f called after every step of later runs, on the goroutine that runs, with the results of the step: nil for
// absent ones, in the arena, valid during the call only. A nil f ends that.
func (s *Session) Observe(f func(step Step, results []ndarray.Value)) {
	s.s.Observe = nil
	if f != nil {
		s.s.Observe = func(in *program.Instr, results []ndarray.Value) { f(Step{in}, results) }
	}
}

// Poison has the arena filled with garbage before each later run, so that reading bytes that nothing wrote shows in the
// results.
func (s *Session) Poison(on bool) { s.s.Poison = on }

// Written is how many bytes of the arena, from its start, the last run wrote to; only with [Session.Poison].
func (s *Session) Written() int64 { return s.s.Touched() }

// WriteMemoryMap draws the memory plan as a page of HTML: time from left to right, arena bytes from bottom to top, a box for
// every block.
func (p *Program) WriteMemoryMap(w io.Writer) error { return report.HTML(w, p.prog) }
