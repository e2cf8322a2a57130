package ops

import (
	"errors"
	"fmt"
	"strings"

	"github.com/berth-onnx/berth/ssa"
)

// ErrUnsupported marks an operator, type or combination berth can not run.
var ErrUnsupported = errors.New("not supported")

// ErrInput marks an error that the inputs of the call cause: a name, type or shape that does not fit the model, or shapes and
// elements that the model can not compute with. Another call, with other inputs, may succeed.
var ErrInput = errors.New("the inputs of the call do not fit")

// UnknownOperatorError says that a node can not run because the program has no
// operator of its name. The [NodeError] around it names the node.
type UnknownOperatorError struct {
	Domain  string // "ai.onnx" for the default domain
	Op      string
	Version int    // operator-set version of the domain that the file imports; 0 if it names none
	Package string // the package of berth to import for it; "" if berth does not have it
}

// Error prints operator, domain and version, and what to import if that helps.
func (e *UnknownOperatorError) Error() string {
	version, remedy := "", ""
	if e.Version > 0 {
		version = fmt.Sprintf(", version %d", e.Version)
	}
	if e.Package != "" {
		remedy = fmt.Sprintf(" by this program; import _ %q", e.Package)
	}
	return fmt.Sprintf("operator %s of domain %s%s: %v%s", e.Op, e.Domain, version, ErrUnsupported, remedy)
}

// Unwrap returns [ErrUnsupported].
func (e *UnknownOperatorError) Unwrap() error { return ErrUnsupported }

// unknownOperator says which operator there is no kernel for.
func unknownOperator(n *ssa.Node) error {
	e := &UnknownOperatorError{Domain: n.Domain, Op: n.Op, Version: n.Version}
	if e.Domain == "" {
		e.Domain = "ai.onnx"
	}
	if Lookup(n.Domain, n.Op) == nil {
		e.Package = PackageFor(n.Domain, n.Op)
	}
	return e
}

// NodeError is a failure at one node. Path names the nodes whose bodies lead to
// it, outermost first.
type NodeError struct {
	Stage string   // "import", "shape inference", "run", a pass's name, …
	Path  []string // enclosing control-flow nodes
	Node  string   // operator and name of the node, as the model has it; several where one kernel computes them together
	Types []string // operand types
	Err   error

	// Kernel is the operator that was to compute the node, where a pass made one for execution alone; else "".
	Kernel string

	// Input says that shapes or elements of the call's inputs are the cause, where the model is otherwise valid: the error is an
	// [ErrInput], too.
	Input bool
}

// Error prints one line: stage, path, node, operand types, cause.
func (e *NodeError) Error() string {
	where := strings.Join(append(append([]string(nil), e.Path...), e.Node), " / ")
	kernel := ""
	if e.Kernel != "" {
		kernel = ", by " + e.Kernel
	}
	return fmt.Sprintf("%s: %s(%s)%s: %v", e.Stage, where, strings.Join(e.Types, ", "), kernel, e.Err)
}

// Unwrap returns the cause.
func (e *NodeError) Unwrap() error { return e.Err }

// Is reports whether the error is [ErrInput]. What the cause is says [NodeError.Unwrap].
func (e *NodeError) Is(target error) bool { return e.Input && target == ErrInput }

// AtNode wraps an error with the node it happened at; an error that already
// names a node inside one of n's bodies gets n added to its path.
func AtNode(stage string, n *ssa.Node, err error) error {
	if err == nil {
		return nil
	}
	var ne *NodeError
	if errors.As(err, &ne) && len(n.Bodies) > 0 {
		inner := *ne
		inner.Path = append([]string{n.String()}, ne.Path...)
		return &inner
	}
	e := &NodeError{Stage: stage, Node: n.String(), Err: err}
	if n.Domain == Private && len(n.Sources) > 0 {
		e.Node, e.Kernel = namesText(n.Sources), n.Domain+"."+n.Op
	}
	for _, v := range n.In {
		if v == nil {
			e.Types = append(e.Types, "-")
		} else {
			e.Types = append(e.Types, v.Type.String())
		}
	}
	return e
}

// mostNames is how many of the nodes that a kernel computes together an error names.
const mostNames = 4

func namesText(names []ssa.NodeName) string {
	var parts []string
	for _, n := range names[:min(len(names), mostNames)] {
		parts = append(parts, n.String())
	}
	text := strings.Join(parts, ", ")
	if more := len(names) - mostNames; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}
