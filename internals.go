package berth

import (
	"io"

	"github.com/berth-onnx/berth/internal/onnxexport"
	"github.com/berth-onnx/berth/internal/program"
	"github.com/berth-onnx/berth/internal/rescue"
	"github.com/berth-onnx/berth/internal/rewrite"
	"github.com/berth-onnx/berth/internal/safefile"
	"github.com/berth-onnx/berth/internal/typecheck"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/onnximport"
	"github.com/berth-onnx/berth/ops"
)

// Errors that callers may want to tell apart; the comment of the package lists all.
type (
	// InputError reports an input that does not fit the model. Its fields:
	//
	//	Name string // of the input; "" where the number of inputs is wrong
	//	Want string // what it must be: a type, with shape
	//	Got  string // what it is
	InputError = program.InputError
	// OutputError reports a buffer that can not take a result; see [Program.RunInto]. Its fields:
	//
	//	Name string // of the output
	//	Want string // what its buffer must be
	//	Got  string // what it is
	OutputError = program.OutputError
	// CacheError reports a cache without room for the rows of a run. Its fields:
	//
	//	Name  string // of the input
	//	Rows  int    // that it would hold
	//	Bound int    // the most, as declared by [WithBound]
	CacheError = program.CacheError
	// TornError is the error of runs whose session holds a state that a failed run or reset has partly overwritten, and of reading that.
	TornError = program.TornError
	// StateError reports a state whose next value does not fit it; see [WithState]. Its fields:
	//
	//	Name   string // of the input
	//	Reason string // what does not fit
	StateError = program.StateError
	// TypeError reports elements asked for as a Go type that is not theirs; see [As].
	TypeError = ndarray.TypeError
	// ShapeError reports data that is not as long as its shape says.
	ShapeError = ndarray.ShapeError
	// ImportError says why a file is not a model that berth can take.
	ImportError = onnximport.ImportError
	// ExportError says why a model can not be written as ONNX.
	ExportError = onnxexport.ExportError
	// NodeError names the node that failed, its operator and the types of its operands.
	NodeError = ops.NodeError
	// MemoryError reports that a run, or a step before it, needs more memory than it may use.
	MemoryError = ops.MemoryError
	// PanicError is a panic with its stack: a bug of berth or, where Of names it, of a function of the caller's, such as a [Hook]. Its fields:
	//
	//	Of    string // "the hook"; "" for berth
	//	Value any    // of the panic
	//	Stack []byte
	PanicError = ops.PanicError
)

// Hook is told when the nodes of a run begin and end; see [WithHook]. Its functions, nil for those
// not wanted, are called on the goroutine that runs, with the run's context, and by several
// goroutines at once where runs are concurrent. Nodes of the bodies of branches and loops are told
// of, too, between begin and end of the node that they belong to. Its fields:
//
//	Before func(ctx context.Context, e Event) // Duration, Bytes and Err are zero
//	After  func(ctx context.Context, e Event) // for every Before, also when the node fails
type Hook = program.Hook

// Event is one node of a run, as a [Hook] is told of it. Its fields:
//
//	Domain   string        // of the operator; "" for the default one
//	Op       string        // name of the operator
//	Node     string        // name of the node, or of its first result if it has none
//	Start    time.Time
//	Duration time.Duration
//	Bytes    int64         // of its results; views, which take none, included
//	Err      error         // why the node failed
type Event = program.Event

// TargetError says why a path can not be written to.
type TargetError = safefile.TargetError

// TypeViolation is an operand or a result of a type that its operator does not allow in standard ONNX; see
// [Model.TypeViolations]. Its fields:
//
//	Node      string // operator and name
//	Operator  string // with its domain, as in ".Conv" and "ai.onnx.ml.Scaler"
//	Parameter string // operand or result, by the name that the standard gives it
//	Type      string // as the standard names it: int32, seq(tensor(float))
//	Reason    string // what is allowed
type TypeViolation = typecheck.Violation

// PassStat is one run of one rewriting pass over a whole model.
type PassStat = rewrite.PassStat

// Dump records the graph after every pass; see [WithDump]. The zero value is ready to use.
type Dump struct{ d rewrite.Dump }

// WriteHTML writes one self-contained page: a column per pass, those that changed nothing folded to a narrow strip, lines
// that are new against the last change marked.
func (d *Dump) WriteHTML(w io.Writer) (err error) {
	defer rescue.Into(&err)
	if d == nil {
		return &OptionError{Option: "WriteHTML", Got: "nil", Want: "the Dump that WithDump was given"}
	}
	return d.d.WriteHTML(rescue.Writer(w))
}
