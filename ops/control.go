package ops

import "github.com/berth-onnx/berth/ssa"

// IsControl reports whether a node is an If, Loop or Scan: its bodies are laid out,
// planned and run as parts of the graph it stands in. Bodies of other operators, and
// of nodes berth does not know, are not.
func IsControl(n *ssa.Node) bool { return isOf(n, "If") || IsLoop(n) }

// IsLoop reports whether a node is a Loop or Scan: control flow whose body may run
// more than once.
func IsLoop(n *ssa.Node) bool { return isOf(n, "Loop") || isOf(n, "Scan") }

// isOf reports a node of the default domain that berth knows.
func isOf(n *ssa.Node, op string) bool { return n.Op == op && n.Domain == "" && !n.Opaque }
