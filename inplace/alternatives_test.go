package inplace

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/berth-onnx/berth/internal/looktest"
	"github.com/berth-onnx/berth/liveness"
)

// nests are loops around loops in a row, each of which may run not at all: a result may be that of any before it.
func nests(many int) string {
	var b strings.Builder
	b.WriteString("in %x: float32[8]\nin %n: int64[]\nconst %yes: bool[] = true\n")
	last := "x"
	for k := range many {
		fmt.Fprintf(&b, `%%o%[1]d = Loop(%%n, %%yes, %%%[2]s | %%n) {
body: graph "b%[1]d" {
in %%i%[1]d: int64[]
in %%c%[1]d: bool[]
in %%v%[1]d: float32[8]
in %%n: int64[]
%%m%[1]d = Loop(%%n, %%c%[1]d, %%v%[1]d) {
body: graph "d%[1]d" {
in %%j%[1]d: int64[]
in %%e%[1]d: bool[]
in %%w%[1]d: float32[8]
%%s%[1]d = Sin(%%w%[1]d)
out %%e%[1]d, %%s%[1]d
}
}
out %%c%[1]d, %%m%[1]d
}
}
`, k, last)
		last = fmt.Sprintf("o%d", k)
	}
	return b.String() + "out %" + last + "\n"
}

func TestWorkInARowOfNests(t *testing.T) {
	for _, many := range []int{10, 40} {
		tl := lay(t, parse(t, nests(many)))
		f := foldingOf(context.Background(), tl)
		f.mergeAlternatives(context.Background(), func(a, b int) bool { return true })
		assert.LessOrEqual(t, f.tries, 4*many, "pairs tried")
		assert.LessOrEqual(t, len(overs(context.Background(), &tl.Layout, vain(context.Background(), tl))), 20*many, "results over operands")
		lists := map[*int]bool{}
		for v := range tl.Vars {
			if r := tl.Roots(v); len(r) > 1 {
				lists[&r[0]] = true
			}
		}
		assert.LessOrEqual(t, len(lists), 3*many, "lists of roots")
		for v, x := range tl.Vars {
			if x.Kind == liveness.Pointer {
				assert.IsIncreasing(t, append([]int{-1}, tl.Roots(v)...))
			}
		}
	}
}

// TestAlternativesLook: a context ends the trying of the pairs of one list.
func TestAlternativesLook(t *testing.T) {
	tl := lay(t, parse(t, branches(40)))
	var roots []int
	for v := range tl.Vars {
		if r := tl.Roots(v); len(r) > len(roots) {
			roots = r
		}
	}
	f := foldingOf(context.Background(), tl)
	f.mergeRoots(&looktest.Context{Left: len(roots)}, roots, nil, func(a, b int) bool { return true })
	assert.Zero(t, f.tries, "ended before the first pair")
	ctx := &looktest.Context{Left: 1 << 30}
	f.mergeRoots(ctx, roots, nil, func(a, b int) bool { return true })
	assert.NotZero(t, f.tries)
	assert.GreaterOrEqual(t, 1<<30-ctx.Left, 2*len(roots))
}

// A pair that was left out would have been tried in vain.
func TestPairsLeftOutClash(t *testing.T) {
	for _, text := range []string{nests(1), nests(2), nests(5), branches(3)} {
		tl := lay(t, parse(t, text))
		ctx, yes := context.Background(), func(a, b int) bool { return true }
		f := foldingOf(ctx, tl)
		f.mergeAlternatives(ctx, yes)
		for v, x := range tl.Vars {
			if !x.Phi || len(x.Sources) < 2 {
				continue
			}
			for i, a := range tl.Roots(v) {
				for _, b := range tl.Roots(v)[i+1:] {
					assert.False(t, tl.Vars[a].Bytes == tl.Vars[b].Bytes && f.try(a, b, 0, nil), "%s and %s", tl.String(a), tl.String(b))
				}
			}
		}
	}
}

// TestVainOversClash: a result that is not tried over the blocks of a long list would have been tried in vain.
func TestVainOversClash(t *testing.T) {
	tl := lay(t, parse(t, nests(20)))
	ctx := context.Background()
	f := foldingOf(ctx, tl)
	kept := overs(ctx, &tl.Layout, vain(ctx, tl))
	all := overs(ctx, &tl.Layout, nil)
	assert.Less(t, len(kept), len(all))
	for _, p := range all {
		if !slices.ContainsFunc(kept, func(k over) bool { return k.in == p.in && k.out == p.out }) {
			assert.False(t, f.try(p.in, p.out, 0, p.points), "%s over %s", tl.String(p.out), tl.String(p.in))
		}
	}
}

// branches are chains of choices, whose alternatives do fold.
func branches(many int) string {
	var b strings.Builder
	b.WriteString("in %x: float32[8]\nin %c: bool[]\n%v0 = Sin(%x)\n")
	for k := range many {
		fmt.Fprintf(&b, `%%v%[2]d = If(%%c | %%v%[1]d) {
then_branch: graph "t%[1]d" {
in %%p%[1]d: float32[8]
%%s%[1]d = Exp(%%p%[1]d)
out %%s%[1]d
}
else_branch: graph "e%[1]d" {
in %%q%[1]d: float32[8]
%%r%[1]d = Cos(%%q%[1]d)
out %%r%[1]d
}
}
`, k, k+1)
	}
	return b.String() + fmt.Sprintf("out %%v%d\n", many)
}
