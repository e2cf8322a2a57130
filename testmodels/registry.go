package testmodels

import (
	"fmt"
	"strings"

	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// Builtin is a model that can be built by name.
type Builtin struct {
	Name  string
	Doc   string
	Build func() *ssa.Module
}

// List returns the built-in models, small ones first.
func List() []Builtin { return builtins }

// Build builds a model by name, with all types inferred.
func Build(name string) (*ssa.Module, error) {
	for _, b := range builtins {
		if b.Name != name {
			continue
		}
		m := b.Build()
		if err := ops.InferGraph(m.Graph); err != nil {
			return nil, fmt.Errorf("builtin %s: %w", name, err)
		}
		return m, nil
	}
	names := make([]string, len(builtins))
	for i, b := range builtins {
		names[i] = b.Name
	}
	return nil, fmt.Errorf("there is no built-in model %q; there are %s", name, strings.Join(names, ", "))
}
