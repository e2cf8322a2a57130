package main

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth"
	"github.com/berth-onnx/berth/internal/conformance"
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
	assert.Regexp(t, `element \[0,0\] is \S+ in B, \S+ in A \(`, o.out)
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

// TestDiffRanking: what grows most by the scale of its tensor is first, not what differs first or by the largest number.
func TestDiffRanking(t *testing.T) {
	values := func(scale, off float64) ndarray.Value {
		a := ndarray.Must(ndarray.Float32, 2)
		a.SetFloat(0, scale)
		a.SetFloat(1, off)
		return a
	}
	trace := func(drift, jump, passed float64) *berth.Trace {
		return &berth.Trace{Steps: []berth.TraceStep{
			{Value: "large", Node: "L", Data: values(1e6, drift)}, // by 1e-3 of its scale, 1000
			{Value: "small", Node: "S", Operands: []string{"large"}, Data: values(1e-3, jump)},
			{Value: "next", Node: "N", Operands: []string{"small"}, Data: values(1, passed)},
			{Value: "equal", Node: "E", Data: values(1, 0)}}}
	}
	d := firstDifference(trace(0, 0, 0), trace(1e3, 5e-4, 0.5), conformance.Tolerance{Rtol: 1e-3, Atol: 1e-4})
	assert.Equal(t, "large", d.Value)
	var order []string
	for _, r := range d.Ranking {
		order = append(order, r.Node)
	}
	assert.Equal(t, []string{"S", "L", "N"}, order)
	assert.InDelta(t, 0.5, float64(d.Ranking[0].Relative), 1e-6)
	assert.InDelta(t, 1e-3, float64(d.Ranking[0].Operands), 1e-6)
}

// TestDiffSizes: what A leaves open takes the size that B fixes, or one that both run with.
func TestDiffSizes(t *testing.T) {
	open := saved(t, `in %x: float32[N,4] %y = Relu(%x) out %y`)
	for _, other := range []string{
		`in %x: float32[7,4] %y = Relu(%x) out %y`,
		`in %x: float32[N,4] const %s: int64[2] = [33, 4] %z = Reshape(%x, %s) %y = Relu(%z) out %y`,
	} {
		assert.Contains(t, ok(t, "diff", open, saved(t, other)), "no difference")
	}
	fails(t, exitUsage, []string{"--dim N=3", "x"}, "diff", open, saved(t, `in %x: float32[7,4] %y = Relu(%x) out %y`), "--dim", "N=3")
}

// TestDiffNotFinite: a NaN in one of the models has no number as a difference.
func TestDiffNotFinite(t *testing.T) {
	a := saved(t, `in %x: float32[2,4] const %c: float32[] = -1 %n = Mul(%x, %x) %m = Mul(%n, %c) %y = Abs(%m) out %y`)
	b := saved(t, `in %x: float32[2,4] const %c: float32[] = -1 %n = Mul(%x, %x) %m = Mul(%n, %c) %y = Sqrt(%m) out %y`)
	o := fails(t, exitDiffers, nil, "diff", a, b)
	assert.Contains(t, o.out, "no number")
	assert.NotContains(t, o.out, "e+308")
	m := object(t, fails(t, exitDiffers, nil, "diff", a, b, "--json").out)
	assert.Nil(t, m["ranking"].([]any)[0].(map[string]any)["relative"])
}

// TestDiffDim: --dim fixes a dimension of the model that has it, and agrees with a file written for its size.
func TestDiffDim(t *testing.T) {
	open, out := saved(t, `in %x: float32[N,4] %r = Relu(%x) %y = Exp(%r) out %y`), filepath.Join(t.TempDir(), "fixed.onnx")
	ok(t, "optimize", open, "--dim", "N=3", "-o", out, "--no-compare")
	for _, b := range []string{open, out} {
		assert.Contains(t, ok(t, "diff", open, b, "--dim", "N=3"), "no difference", b)
	}
	fails(t, exitUsage, []string{"--dim N=4", "dimension 0", `input "x"`, out, "is 3"}, "diff", open, out, "--dim", "N=4")
}

// TestUsageOfOptions: what the library refuses of a flag is a usage error that names the flag; a model is not read by the name -.
func TestUsageOfOptions(t *testing.T) {
	path := saved(t, `in %x: float32[N,4] %y = Relu(%x) out %y`)
	fails(t, exitUsage, []string{"--threads 99999: want"}, "run", path, "--threads", "99999")
	fails(t, exitUsage, []string{"/dev/stdin", "./-"}, "run", "-")
}
