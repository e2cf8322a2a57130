package testmodels

import (
	"fmt"
	"slices"
	"strings"

	"github.com/berth-onnx/berth/ops"
	_ "github.com/berth-onnx/berth/ops/standard"
	"github.com/berth-onnx/berth/ssa"
)

// Builtin is a model that can be built by name.
type Builtin struct {
	Name  string
	Doc   string
	Build func() *ssa.Module

	// small, if set, builds the same architecture at a size that the reference
	// interpreter gets through quickly.
	small func() *ssa.Module
}

// families holds the built-in models, one list per file, small ones first.
var families = [][]Builtin{branchModels, captureModels, loopModels, nestedModels, scanModels, convModels, dynamicModels,
	mlpModels, recurrentModels, transformerModels, unetModels, mobilenetModels, resnetModels}

// List returns the built-in models, small ones first.
func List() []Builtin { return slices.Concat(families...) }

// Build builds a model by name, with all types inferred.
func Build(name string) (*ssa.Module, error) {
	all := List()
	for _, b := range all {
		if b.Name == name {
			return inferred(b.Name, b.Build())
		}
	}
	names := make([]string, len(all))
	for i, b := range all {
		names[i] = b.Name
	}
	return nil, fmt.Errorf("there is no built-in model %q; there are %s", name, strings.Join(names, ", "))
}

func inferred(name string, m *ssa.Module) (*ssa.Module, error) {
	if err := ops.InferGraph(m.Graph); err != nil {
		return nil, fmt.Errorf("builtin %s: %w", name, err)
	}
	return m, nil
}
