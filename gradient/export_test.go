package gradient

import (
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// Differentiable lists the operators that have a rule, "domain.Name" outside the default domain.
func Differentiable(all []*ops.Op) (names []string) {
	for _, o := range all {
		if HasAdjoints(&ssa.Node{Domain: o.Domain, Op: o.Name}) {
			name := o.Name
			if o.Domain != "" {
				name = o.Domain + "." + name
			}
			names = append(names, name)
		}
	}
	return names
}
