package program

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth/internal/looktest"
	"github.com/berth-onnx/berth/ssa"
)

// TestStepsLook: the steps of compiling that pass over all instructions or slots look at their context on the way.
func TestStepsLook(t *testing.T) {
	const many = 2 * lookEvery
	var text strings.Builder
	text.WriteString("graph \"g\" { in %v0: float32[4]\n")
	for i := range many {
		fmt.Fprintf(&text, "%%v%d = Exp(%%v%d)\n", i+1, i)
	}
	fmt.Fprintf(&text, "out %%v%d }", many)
	p, err := Compile(t.Context(), parsed(t, text.String()), Options{})
	require.NoError(t, err)
	for name, c := range map[string]struct {
		least int
		step  func(ctx context.Context)
	}{
		"instructions":   {2, func(ctx context.Context) { p.Main.each(ctx, func(*Instr) {}) }},
		"borrowed slots": {2, p.findBorrowed},
		"constants":      {2, func(ctx context.Context) { p.Constants(ctx) }},
		"slots": {2, func(ctx context.Context) {
			newCompiler(ctx, p.Graph, Options{}).slotsOf(make([]*ssa.Value, many), nil)
		}},
		"report":      {3, func(ctx context.Context) { (&compiler{ctx: ctx, p: p, kernels: newKernels(Options{})}).countReport() }},
		"trip counts": {600, func(ctx context.Context) { countsOf(ctx, &Program{Main: nests(300)}) }},
	} {
		t.Run(name, func(t *testing.T) {
			ctx := &looktest.Context{Context: t.Context(), Left: 1 << 30}
			c.step(ctx)
			require.GreaterOrEqual(t, 1<<30-ctx.Left, c.least)
		})
	}
}

// nests are so many loops around one of two instructions each.
func nests(n int) *Block {
	out := &Block{}
	for range n {
		inner := Instr{Kind: Iterate, Loop: &Loop{Ring: 2, MaxTrips: 1 << 20}, Bodies: []*Block{{Instrs: make([]Instr, 2)}}}
		out.Instrs = append(out.Instrs, Instr{Kind: Iterate, Loop: &Loop{Ring: 2, MaxTrips: 1 << 20}, Bodies: []*Block{{Instrs: []Instr{inner}}}})
	}
	return out
}
