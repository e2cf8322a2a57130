// Package batch writes a graph over a batch as the same graph over parts of the batch, one part after the other, with the same results but
// for roundings: what the nodes between inputs and sums over the batch hold is as large as a part.
//
//	x ─ f ─ g ─ Σ        x₀ ─ f ─ g ─ Σ ┐
//	                     x₁ ─ f ─ g ─ Σ ┴ +
//
// A rule for each operator says in which form its results are, given the forms of its operands (form.go). An operator without a rule,
// or whose rule does not hold for a node, reads whole operands: parts are joined ahead of it, and its results are whole. Which dimension of which input is
// the batch is found by trying: the choice is taken in which the values of the graph have the least bytes.
//
// A sum over the batch is complete behind the last part. What reads it and is in parts itself, as what follows the statistics of a batch normalization in
// training form, is computed when all parts have passed (levels in write.go).
//
// This is the accumulation of derivatives over parts of a batch, made from the graph of a step and not by its user. Source for the idea:
// Huang et al., "GPipe", https://arxiv.org/abs/1811.06965, whose micro-batches it runs on one machine.
package batch

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ssa"
)

// ErrWhole says that a graph has no dimension that can be cut, or not into this many parts.
var ErrWhole = errors.New("the graph has no batch of as many parts")

// Axes are the dimensions of parameters that are the batch, by name.
type Axes struct {
	Size int // of the dimension
	of   map[string]int
}

// Parts lists into how many equal parts the batch can be cut, in ascending order.
func (a *Axes) Parts() (list []int) {
	for k := 2; a != nil && k <= a.Size; k++ {
		if a.Size%k == 0 {
			list = append(list, k)
		}
	}
	return list
}

// choices is how many assignments of axes are tried.
const choices = 256

// Find chooses the dimensions of some of a graph's parameters, nil if none makes values smaller. It looks at the graph as [Split] cuts it, and takes
// no choice that Split refuses.
func Find(ctx context.Context, g *ssa.Graph, of []string) (best *Axes, err error) {
	least, left := totalBytes(g), choices
	g, _ = g.Clone()
	if err := normsInParts(g); err != nil {
		return nil, err
	}
	var params []*ssa.Value
	for _, p := range g.Params {
		if slices.Contains(of, p.Name) {
			params = append(params, p)
		}
	}
	var sizes []int
	for _, p := range params {
		shape, _ := p.Type.Static()
		for _, d := range shape {
			if d > 1 && !slices.Contains(sizes, d) {
				sizes = append(sizes, d)
			}
		}
	}
	for _, size := range sizes {
		for a := range assignments(params, size) {
			if left--; left < 0 || ctx.Err() != nil {
				return best, ctx.Err()
			}
			sum := newAnalysis(g, a, smallestPart(size)).cost()
			if sum >= least {
				continue
			}
			trial, _ := g.Clone()
			if err := Split(ctx, trial, a, smallestPart(size)); err == nil {
				best, least = a, sum
			} else if !errors.Is(err, ErrWhole) {
				return best, err
			}
		}
	}
	return best, nil
}

// smallestPart is the least number of equal parts of a dimension.
func smallestPart(size int) int {
	for k := 2; k < size; k++ {
		if size%k == 0 {
			return k
		}
	}
	return size
}

// assignments goes through the choices of one axis of a size, or none, for each parameter, the first axes first.
func assignments(params []*ssa.Value, size int) func(yield func(*Axes) bool) {
	return func(yield func(*Axes) bool) {
		var next func(i int, of map[string]int) bool
		next = func(i int, of map[string]int) bool {
			if i == len(params) {
				return len(of) == 0 || yield(&Axes{size, cloned(of)})
			}
			shape, _ := params[i].Type.Static()
			for axis, d := range shape {
				if d != size {
					continue
				}
				of[params[i].Name] = axis
				if !next(i+1, of) {
					return false
				}
				delete(of, params[i].Name)
			}
			return next(i+1, of)
		}
		next(0, map[string]int{})
	}
}

func cloned(m map[string]int) map[string]int {
	out := make(map[string]int, len(m))
	for k, v := range m {
		out[k] = v
	}
	return out
}

// totalBytes are those of all results of nodes.
func totalBytes(g *ssa.Graph) (sum int64) {
	for _, n := range g.Nodes {
		for _, v := range n.Out {
			sum += bytesOf(v)
		}
	}
	return sum
}

func bytesOf(v *ssa.Value) int64 {
	if v == nil {
		return 0
	}
	n, _ := v.Type.ByteSize()
	return int64(n)
}

// Split rewrites a graph, in place. After an error the graph is of no use.
func Split(ctx context.Context, g *ssa.Graph, axes *Axes, parts int) error {
	if axes == nil || parts < 2 || axes.Size%parts != 0 {
		return ErrWhole
	}
	if err := normsInParts(g); err != nil {
		return err
	}
	a := newAnalysis(g, axes, parts)
	a.run()
	if a.err != nil {
		return a.err
	}
	w := newWriter(a)
	if err := w.main(ctx); err != nil {
		return fmt.Errorf("%d parts of the batch: %w", parts, err)
	}
	return nil
}

// ints makes a constant of int64.
func ints(v ...int64) *ssa.Constant { return ssa.NewConstant(ndarray.Of(v, len(v))) }
