package onnximport

import (
	"errors"
	"fmt"
	"strings"

	"github.com/berth-onnx/berth/ops"
)

func asNodeError(err error, target **ops.NodeError) bool { return errors.As(err, target) }

// nodeReason words a failure of shape inference for a message that names the
// node already: stage, operand types and cause, and the inner node if the cause
// lies in a body.
func nodeReason(e *ops.NodeError) string {
	inside := ""
	if len(e.Path) > 0 {
		inside = " at inner node " + strings.Join(append(append([]string(nil), e.Path[1:]...), e.Node), " / ")
	}
	return fmt.Sprintf("%s failed%s for operands (%s): %v", e.Stage, inside, strings.Join(e.Types, ", "), e.Err)
}
