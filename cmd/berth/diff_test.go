package main

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth/internal/onnxexport"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ssa"
)

// chain writes y = tanh(relu(x + bias)).
func chain(t *testing.T, name string, bias float32, extra bool) string {
	g := ssa.NewGraph(name)
	x := g.AddParam("x", ssa.StaticTensor(ndarray.Float32, 2, 3))
	sum := g.NewNode("Add", []*ssa.Value{x, g.AddConst("bias", ssa.ScalarConst(bias))}, 1).Out[0]
	sum.Name = "sum"
	h := g.NewNode("Relu", []*ssa.Value{sum}, 1).Out[0]
	h.Name = "h"
	y := g.NewNode("Tanh", []*ssa.Value{h}, 1).Out[0]
	y.Name = "y"
	g.Results = []*ssa.Value{y}
	if extra {
		g.Results = append(g.Results, h)
	}
	path := filepath.Join(t.TempDir(), name+".onnx")
	require.NoError(t, onnxexport.Save(&ssa.Module{Graph: g, IR: 8}, path, onnxexport.Options{}))
	return path
}

func TestDiff(t *testing.T) {
	a, same, other, more := chain(t, "a", 1, false), chain(t, "same", 1, false), chain(t, "other", 1.25, false), chain(t, "more", 1, true)
	assert.Contains(t, ok(t, "diff", a, same), "no difference: ")
	m := object(t, ok(t, "diff", a, same, "--json"), "equal", "compared")
	assert.Equal(t, true, m["equal"])
	ok(t, "diff", a, a)

	o := fails(t, exitDiffers, []string{"the models differ at value"}, "diff", a, other)
	assert.Contains(t, o.out, "first difference: value ")
	m = object(t, fails(t, exitDiffers, nil, "diff", a, other, "--json").out, "equal", "compared", "value", "node", "difference", "ranking")
	assert.Equal(t, false, m["equal"])
	ok(t, "diff", a, other, "--atol", "1")

	fails(t, exitDiffers, []string{"the models have 1 and 2 outputs"}, "diff", a, more)
	m = object(t, fails(t, exitDiffers, nil, "diff", a, more, "--json").out, "equal", "compared", "difference")
	assert.Equal(t, false, m["equal"])
	fails(t, exitFailed, []string{"builtin:residual"}, "diff", a, "builtin:residual")
}

// TestDiffEvery compares the reference kernels with the compiled program, node by
// node, for every small built-in model.
func TestDiffEvery(t *testing.T) {
	for _, name := range []string{"if-nested", "loop-best", "nested-conv", "scan-sum", "inception", "heads", "flatten", "lstm", "encoder", "decoder", "unet"} {
		ok(t, "diff", "builtin:"+name, "builtin:"+name, "--atol", "1e-4")
	}
}
