package berth

import (
	"fmt"
	"io"
	"slices"

	"github.com/berth-onnx/berth/backend"
	"github.com/berth-onnx/berth/internal/program"
	"github.com/berth-onnx/berth/internal/report"
	"github.com/berth-onnx/berth/internal/rescue"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
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

// Choice is what the kernel says about how it computes the node: its algorithm and the reason for it.
func (s Step) Choice() backend.Choice {
	if s.in == nil {
		return backend.Choice{}
	}
	return backend.ChoiceOf(s.in.Kernel)
}

// Cost is the work of one execution, by the operator's facts: operations as its formula is written (a product and a sum are
// two), and the bytes of operands and results. Both are zero where sizes are known only while running.
func (s Step) Cost() ops.Cost {
	if s.in == nil || !s.in.Node.IsStatic() {
		return ops.Cost{}
	}
	return ops.CostOf(s.in.Node)
}

// Layout is how the tensors of the node lie in memory: "plain", "blocked 16c" for images in blocks of 16 channels, or
// "plain -> blocked 16c" where the node changes it.
func (s Step) Layout() string {
	if s.in == nil {
		return ""
	}
	in, out := layoutOf(s.in.Node.In), layoutOf(s.in.Node.Out)
	if in == out || len(s.in.Node.In) == 0 {
		return out
	}
	return in + " -> " + out
}

// layoutOf is the layout of a node's first operand or result.
func layoutOf(values []*ssa.Value) string {
	if len(values) == 0 || values[0] == nil || !values[0].Type.IsBlocked() {
		return "plain"
	}
	return fmt.Sprintf("blocked %dc", values[0].Type.Block())
}

// Element is the element type that the node reads: that of its first operand, or of its first result if it has none.
func (s Step) Element() ndarray.DType {
	if s.in == nil {
		return ndarray.Undefined
	}
	for _, v := range slices.Concat(s.in.Node.In, s.in.Node.Out) {
		if v != nil {
			return v.Type.DType
		}
	}
	return ndarray.Undefined
}

// IsOpen reports that sizes of operands or results are known only while running, so that a kernel is chosen then.
func (s Step) IsOpen() bool { return s.in != nil && !s.in.Node.IsStatic() }

// Threads is how many threads a run of the kernel may use.
func (s Step) Threads() int {
	if s.in == nil {
		return 0
	}
	return max(1, s.in.Threads)
}

// Operands lists the names of the values that the node reads, "" for absent ones.
func (s Step) Operands() []string {
	if s.in == nil {
		return nil
	}
	return namesOf(s.in.Node.In)
}

// Results lists the names of the values that the node makes, "" for absent ones.
func (s Step) Results() []string {
	if s.in == nil {
		return nil
	}
	return namesOf(s.in.Node.Out)
}

func namesOf(values []*ssa.Value) []string {
	names := make([]string, len(values))
	for i, v := range values {
		if v != nil {
			names[i] = v.Name
		}
	}
	return names
}

// DeviceMemory is the session's memory on a device, for the package of the backend that made it; nil for other backends.
func (s *Session) DeviceMemory() backend.Memory {
	if !s.made() {
		return nil
	}
	return s.s.DeviceMemory()
}

// ResultBytes is how many bytes each result takes, -1 where that is known only while running or the result is no tensor.
func (s Step) ResultBytes() []int64 {
	if s.in == nil {
		return nil
	}
	out := make([]int64, len(s.in.Node.Out))
	for i, v := range s.in.Node.Out {
		out[i] = -1
		if v == nil {
			continue
		}
		if n, ok := v.Type.NumElems().Const(); ok && v.Type.Kind == ssa.KindTensor && v.Type.DType != ndarray.String {
			out[i] = n * int64(v.Type.DType.Size())
		}
	}
	return out
}

// IsJoin reports whether the step copies operands to their places in a concatenation, which a device does by itself.
func (s Step) IsJoin() bool {
	if s.in == nil {
		return false
	}
	_, ok := s.in.Kernel.(backend.Join)
	return ok
}

// Steps calls f, unless it is nil, for every instruction of the program, in their order; those of the bodies of loops and branches follow the instruction.
func (p *Program) Steps(f func(Step)) {
	if !p.made() || f == nil {
		return
	}
	var walk func(b *program.Block)
	walk = func(b *program.Block) {
		for i := range b.Instrs {
			f(Step{&b.Instrs[i]})
			for _, body := range b.Instrs[i].Bodies {
				walk(body)
			}
		}
	}
	walk(p.prog.Main)
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
	observe := func(in *program.Instr, results []ndarray.Value) {
		rescue.Call("the observer", func() { f(Step{in}, results) })
	}
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
	if !p.made() {
		return errUnmade
	}
	return report.HTML(rescue.Writer(w), p.prog)
}
