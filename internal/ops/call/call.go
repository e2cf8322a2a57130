// Package call holds the operator that computes a function of the program's user.
package call

import (
	"errors"
	"fmt"
	"time"

	"github.com/berth-onnx/berth/internal/ops/fused"
	"github.com/berth-onnx/berth/internal/ops/kit"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// Call computes a function of the program's user, element by element. The attribute function
// holds it and its name; no file can.
var Call = ops.Op{
	Domain: fused.Domain, Name: fused.CallName, Since: 1, Doc: "Y = f(X)",
	MinIn: 1, MaxIn: 1, MinOut: 1, MaxOut: 1,
	Attrs: []*ops.AttrSpec{ops.StrAttr("function").Mandatory()},
	Infer: inferCall,
	Eval:  kit.Kernel(evalCall),
	Facts: ops.Facts{Traits: ops.ElementwiseTraits},
}

func init() { ops.Register(&Call) }

// errNoFunc is the error of a node that a file made up.
var errNoFunc = errors.New("the node has no function: the operator is none of files")

func inferCall(n *ssa.Node) ([]ops.Inferred, error) {
	f, t := fused.FuncOf(n), ops.InType(n, 0)
	switch {
	case f == nil:
		return nil, errNoFunc
	case t.DType != f.In:
		return nil, fmt.Errorf("the operand is of type %s, the function takes %s", t.DType, f.In)
	}
	t.DType = f.Out
	return []ops.Inferred{{Type: t}}, nil
}

func evalCall(c *ops.Call) {
	f, x := fused.FuncOf(c.Node), kit.Tensor(c, 0)
	if f == nil {
		kit.Check(errNoFunc)
	}
	y := kit.Try(c.Output(0, f.Out, x.Shape...))
	in, out := f.In.Size(), f.Out.Size()
	for at, piece := 0, 1; at < x.Len(); {
		kit.CheckEnded(c)
		end := min(at+piece, x.Len())
		start := begin(piece)
		f.Run(y.Data[at*out:end*out], x.Data[at*in:end*in])
		piece = grown(piece, start)
		at = end
	}
}

// Between two looks at the context are as many elements as take shortPiece, a power of two, and mostElems at most: the function may
// take any time, and a look takes as long as some quick elements.
const (
	shortPiece = 50 * time.Microsecond
	mostElems  = 64
)

// begin is the time, where the next piece may be longer.
func begin(piece int) (start time.Time) {
	if piece < mostElems {
		start = time.Now()
	}
	return start
}

// grown is how long the next piece is.
func grown(piece int, start time.Time) int {
	if piece < mostElems && time.Since(start) < shortPiece {
		return 2 * piece
	}
	return piece
}
