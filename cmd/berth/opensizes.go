package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/berth-onnx/berth"
	"github.com/berth-onnx/berth/internal/trial"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// Sizes for dimensions that the model and the command line leave open.
//
// To run a model once, one is the size tried first; many models do not run with it, because a window or a stride
// does not fit into one pixel, so larger ones are tried in turn, and then such that the model's constants name. The sizes that were guessed are told.
//
// To compare two models, sizes are those of real inputs, several of each dimension, by its name and place:
//
//	batch      first dimension, batch, N, B                             1, 2, 3
//	channels   second dimension of an image                             3, 1, 4
//	image      height, width, H, W, other dimensions of a 4-D input     64, 96, 160 and for the width 64, 128, 224: rounded up
//	                                                                    to the product of the strides, twice the largest window
//	volume     other dimensions of an input of more than four           8, 9, 16 of five, 4, 5, 6 of more but a million elements at most, rounded up likewise
//	past       past, cache                                              5, 9, 1
//	heads      last dimension of a 3-D operand of an attention          8, 12, 16 elements of each head
//	others     sequences, time                                          16, 33, 64, rounded up likewise where there are strides
//
// Beside the first of these that the model runs with, each dimension by itself also takes 1, 3, its other sizes of the list, and half as much again, made odd.

// tried are the sizes given to open dimensions, in turn, until the model runs.
var tried = []int{1, 2, 16, 32, 64, 160, 224, 512}

// mostGuessed are the elements of the largest input that guessed sizes may give: beyond it a size is not tried.
const mostGuessed = 1 << 22

// attempt is one use of a model: inputs and their shapes.
type attempt func(shapes map[string][]int, in map[string]ndarray.Value) error

// withOpenSizes calls use with inputs for the model, those given and random ones,
// with one size after the other for what stays open, until a call does not fail at
// a node. Where nothing is open it calls use once.
func (a *app) withOpenSizes(ctx context.Context, m *berth.Model, have map[string]ndarray.Value, use attempt) error {
	var first error
	use = a.telling(m, have, use)
	for try := range 2 * len(tried) {
		size, lastOnly := tried[try/2], try%2 == 1
		shapes := a.bindShapes(m, have)
		open := a.growOpen(m, shapes, have, size, lastOnly)
		if first != nil && len(open) == 0 || size == 1 && lastOnly || size > 1 && beyondGuesses(shapes, open) {
			continue
		}
		in, err := a.randomInputs(m, shapes, have)
		if err != nil {
			return err
		}
		err = use(shapes, in)
		switch {
		case err == nil:
			if len(open) > 0 {
				a.note("berth: dimensions of the inputs are open; they were taken as --shape %s", shapesText(shapes, open, " --shape "))
			}
			return nil
		case ctx.Err() != nil || !ofSizes(err, open) || errors.Is(err, ops.ErrUnsupported):
			return err
		case len(open) == 0:
			if a.withOtherDraws(ctx, m, shapes, have, use) {
				return nil
			}
			return err
		case first == nil:
			first = fmt.Errorf("%w; the sizes of %s are open and were guessed: give them with --shape or --dim", err, strings.Join(open, ", "))
		}
	}
	if err := a.withDerivedSizes(ctx, m, have, use); err == nil || ctx.Err() != nil {
		return err
	}
	shapes := a.bindShapes(m, have)
	a.growOpen(m, shapes, have, tried[2], false)
	if a.withOtherDraws(ctx, m, shapes, have, use) {
		a.noteSizes(shapes)
		return nil
	}
	return cmp.Or(ctx.Err(), first)
}

// beyondGuesses reports sizes that give one of the inputs more elements than a guess may.
func beyondGuesses(shapes map[string][]int, open []string) bool {
	return slices.ContainsFunc(open, func(name string) bool {
		n := 1.0
		for _, d := range shapes[name] {
			n *= float64(d)
		}
		return n > mostGuessed
	})
}

// withOtherDraws calls use with other values of what the model uses its inputs for, until it succeeds; later inputs are drawn likewise.
func (a *app) withOtherDraws(ctx context.Context, m *berth.Model, shapes map[string][]int, have map[string]ndarray.Value, use attempt) bool {
	kept := a.drawing
	for _, a.drawing = range a.otherDrawings(m, have) {
		if a.attempt(m, shapes, have, use) == nil {
			return true
		}
		if ctx.Err() != nil {
			break
		}
	}
	a.drawing = kept
	return false
}

// telling is a use that says, once it has succeeded, which inputs were drawn by what the model uses them for.
func (a *app) telling(m *berth.Model, have map[string]ndarray.Value, use attempt) attempt {
	return func(shapes map[string][]int, in map[string]ndarray.Value) error {
		err := use(shapes, in)
		if err == nil {
			a.tellDrawn(m, have, in)
		}
		return err
	}
}

// tellDrawn says once which inputs were drawn by what the model uses them for.
func (a *app) tellDrawn(m *berth.Model, have, in map[string]ndarray.Value) {
	if texts := a.drawnText(m, have, in); len(texts) > 0 && !a.told {
		a.told = true
		a.note("berth: inputs were drawn by what the model uses them for: %s", strings.Join(texts, "; "))
	}
}

// ofSizes reports an error that other sizes of the open inputs may not have: one of a node, or one that says that their sizes contradict each other.
func ofSizes(err error, open []string) bool {
	var at *ops.NodeError
	var input *berth.InputError
	return errors.As(err, &at) || errors.As(err, &input) && slices.Contains(open, input.Name)
}

// mostDerived bounds the calls of withDerivedSizes, and its errors.
const mostDerived = 200

// withDerivedSizes calls use with sizes that the model itself names ([trial.Sizes]): one open dimension after the other, or all but those of batches, takes
// the size with which the model fails later than before, until a call succeeds. Where none does it starts again from batches of more than one.
func (a *app) withDerivedSizes(ctx context.Context, m *berth.Model, have map[string]ndarray.Value, use attempt) (err error) {
	calls := 0
	for _, alike := range []bool{false, true} {
		shapes := a.bindShapes(m, have)
		a.growOpen(m, shapes, have, tried[2], false)
		for _, p := range a.openPlaces(m, have, shapes) {
			if alike {
				shapes = a.withSize(m, have, shapes, p, tried[2])
			}
		}
		if err = a.climb(ctx, m, have, shapes, use, &calls); err == nil || ctx.Err() != nil {
			return err
		}
	}
	return err
}

// climb calls use with sizes derived from those of a start and the errors of the calls before.
func (a *app) climb(ctx context.Context, m *berth.Model, have map[string]ndarray.Value, shapes map[string][]int, use attempt, calls *int) error {
	err := a.attempt(m, shapes, have, use)
	for better := true; better && err != nil; {
		better = false
		for _, next := range a.derived(m, shapes, have, err) {
			if *calls++; *calls > mostDerived || ctx.Err() != nil {
				return err
			}
			got := a.attempt(m, next, have, use)
			if better = got == nil || reached(m, got) > reached(m, err); better {
				shapes, err = next, got
				break
			}
		}
	}
	if err == nil {
		a.noteSizes(shapes)
	}
	return err
}

// attempt calls use with random inputs of some shapes.
func (a *app) attempt(m *berth.Model, shapes map[string][]int, have map[string]ndarray.Value, use attempt) error {
	in, err := a.randomInputs(m, shapes, have)
	if err != nil {
		return err
	}
	return use(shapes, in)
}

// derived lists shapes to try after an error: of the sizes that the model names, and as many times the product of its strides.
func (a *app) derived(m *berth.Model, shapes map[string][]int, have map[string]ndarray.Value, err error) (all []map[string][]int) {
	places := a.openPlaces(m, have, shapes)
	sizes := read(m, func(g *ssa.Graph) []int { return trial.Sizes(g, err.Error()) })
	if multiple := read(m, spanOf).multiple; multiple > 1 {
		for _, n := range sizes {
			sizes = append(sizes, n*multiple)
		}
	}
	for _, n := range sizes {
		for _, p := range places {
			if shapes[p.input][p.axis] != n {
				all = append(all, a.withSize(m, have, shapes, p, n))
			}
		}
		together := shapes
		for _, p := range places {
			if p.axis > 0 {
				together = a.withSize(m, have, together, p, n)
			}
		}
		all = append(all, together)
	}
	return all
}

// reached is the position of the node that an error names, among all nodes of the model.
func reached(m *berth.Model, err error) (at int) {
	var ne *ops.NodeError
	if !errors.As(err, &ne) {
		return -1
	}
	place := append(slices.Clone(ne.Path), ne.Node)[0]
	return read(m, func(g *ssa.Graph) (at int) {
		for i, n := range g.Nodes {
			if n.String() == place {
				at = i
			}
		}
		return at
	})
}

// openPlace is an open dimension: its symbol, or an axis of an input.
type openPlace struct {
	input string
	axis  int
	dim   ssa.Dim
	name  string
}

// openPlaces lists the open dimensions of inputs with shapes, each symbol once.
func (a *app) openPlaces(m *berth.Model, have map[string]ndarray.Value, of map[string][]int) (places []openPlace) {
	dims, done := a.boundDims(m, have), map[string]bool{}
	for _, in := range m.Inputs() {
		if have[in.Name] != nil || a.shapes[in.Name] != nil || in.Type.Rank() != len(of[in.Name]) {
			continue
		}
		for i, d := range in.Type.Bind(dims).Shape {
			name := fmt.Sprintf("%s[%d]", in.Name, i)
			if d.Known() {
				name = d.String()
			}
			if _, fixed := d.Const(); !fixed && !done[name] {
				done[name] = true
				places = append(places, openPlace{in.Name, i, d, name})
			}
		}
	}
	return places
}

// withSize gives a dimension a size, wherever its symbol stands.
func (a *app) withSize(m *berth.Model, have map[string]ndarray.Value, of map[string][]int, p openPlace, n int) map[string][]int {
	shapes := map[string][]int{}
	for name, s := range of {
		shapes[name] = slices.Clone(s)
	}
	shapes[p.input][p.axis] = n
	a.agree(m, have, shapes, map[string]int64{sizeKey(p.dim): int64(n)})
	return shapes
}

// sizeKey is what sizes are kept by: the name of a symbol, the text of another dimension.
func sizeKey(d ssa.Dim) string {
	if s, ok := d.SymbolName(); ok {
		return s
	}
	return d.String()
}

// agree gives open dimensions the sizes that are listed, wherever they stand, and those computed from symbols what the symbols
// make of them. A symbol that is not listed has the size of the first place where it stands.
func (a *app) agree(m *berth.Model, have map[string]ndarray.Value, shapes map[string][]int, sizes map[string]int64) {
	dims := a.boundDims(m, have)
	for _, assign := range []bool{false, true} {
		for _, in := range m.Inputs() {
			s := shapes[in.Name]
			if have[in.Name] != nil || a.shapes[in.Name] != nil || in.Type.Rank() != len(s) {
				continue
			}
			for i, d := range in.Type.Bind(dims).Shape {
				n, listed := sizes[sizeKey(d)]
				if !listed {
					n, listed = d.Bind(sizes).Const()
				}
				_, symbol := d.SymbolName()
				switch {
				case !d.Known():
				case assign && listed && n >= 0:
					s[i] = int(n)
				case !assign && !listed && symbol:
					sizes[sizeKey(d)] = int64(s[i])
				}
			}
		}
	}
}

// growOpen sets open dimensions to size and lists the inputs that have any. Batch
// dimensions stay 1: those that come first, and their symbol wherever it stands.
// What is given stays. With lastOnly, only the last dimension of each input grows, and its symbol.
func (a *app) growOpen(m *berth.Model, shapes map[string][]int, have map[string]ndarray.Value, size int, lastOnly bool) (open []string) {
	batch, dims, sizes := map[string]bool{}, a.boundDims(m, have), map[string]int64{}
	for _, in := range m.Inputs() {
		if len(in.Type.Shape) > 1 {
			if s, ok := in.Type.Shape[0].SymbolName(); ok {
				batch[s] = true
			}
		}
	}
	for _, in := range m.Inputs() {
		shape := shapes[in.Name]
		if have[in.Name] != nil || a.shapes[in.Name] != nil || in.Type.Rank() != len(shape) {
			continue
		}
		t := in.Type.Bind(dims)
		for i, d := range t.Shape {
			if _, ok := d.Const(); ok {
				continue
			}
			if !slices.Contains(open, in.Name) {
				open = append(open, in.Name)
			}
			s, _ := d.SymbolName()
			if (i > 0 || len(shape) == 1) && !batch[s] && (!lastOnly || i == len(shape)-1) {
				shape[i], sizes[sizeKey(d)] = size, int64(size)
			}
		}
	}
	a.agree(m, have, shapes, sizes)
	return open
}

// shapesText prints shapes as --shape takes them, those of the named inputs.
func shapesText(shapes map[string][]int, names []string, between string) string {
	var parts []string
	for _, name := range names {
		shape := "[]" // of a scalar
		if len(shapes[name]) > 0 {
			shape = strings.ReplaceAll(strings.Trim(fmt.Sprint(shapes[name]), "[]"), " ", "x")
		}
		parts = append(parts, name+"="+shape)
	}
	return strings.Join(parts, between)
}

// allShapesText prints all shapes in the order of the names.
func allShapesText(shapes map[string][]int) string {
	return shapesText(shapes, slices.Sorted(maps.Keys(shapes)), " ")
}

// sizeCase is one choice of sizes for what is open, with inputs.
type sizeCase struct {
	shapes map[string][]int
	in     map[string]ndarray.Value
}

// withRealisticSizes calls use with the sizes of real inputs, the first that do not fail at a node, and says which; where all
// fail it goes on as withOpenSizes.
func (a *app) withRealisticSizes(ctx context.Context, m *berth.Model, have map[string]ndarray.Value, use attempt) error {
	cases := a.realisticSizes(m, have)
	use = a.telling(m, have, use)
	for _, c := range cases {
		var at *ops.NodeError
		err := use(c.shapes, c.in)
		if err == nil && len(cases) > 1 {
			a.noteSizes(c.shapes)
		}
		if err == nil || ctx.Err() != nil || !errors.As(err, &at) || errors.Is(err, ops.ErrUnsupported) {
			return err
		}
		if len(cases) == 1 {
			if a.withOtherDraws(ctx, m, c.shapes, have, use) {
				return nil
			}
			return err
		}
	}
	return a.withOpenSizes(ctx, m, have, use)
}

// noteSizes says which sizes open dimensions were given.
func (a *app) noteSizes(shapes map[string][]int) {
	a.note("berth: dimensions of the inputs are open; they were taken as --shape %s", shapesText(shapes, slices.Sorted(maps.Keys(shapes)), " --shape "))
}

// realisticSizes lists the cases that two models are compared with: one if nothing is open. Inputs that can not be made
// leave a case out.
func (a *app) realisticSizes(m *berth.Model, have map[string]ndarray.Value) (cases []sizeCase) {
	of := read(m, spanOf)
	dims := a.boundDims(m, have)
	for k := range 3 {
		shapes := a.bindShapes(m, have)
		symbols := map[string]int{}
		open := false
		for _, in := range m.Inputs() {
			if have[in.Name] != nil || a.shapes[in.Name] != nil || in.Type.Rank() != len(shapes[in.Name]) {
				continue
			}
			t := in.Type.Bind(dims)
			for i, d := range t.Shape {
				if _, known := d.Const(); known {
					continue
				}
				open = true
				s, named := d.SymbolName()
				n := realisticSize(in, s, i, k, of)
				if old, seen := symbols[s]; named && seen {
					n = old
				}
				shapes[in.Name][i], symbols[s] = n, n
			}
		}
		in, err := a.randomInputs(m, shapes, have)
		if err != nil {
			continue
		}
		if cases = append(cases, sizeCase{shapes, in}); !open {
			break
		}
	}
	return cases
}

// realisticSize is the size of dimension i of an input, called s, in case k.
func realisticSize(in berth.Port, s string, i, k int, of span) int {
	has := func(parts ...string) bool {
		return slices.ContainsFunc(parts, func(p string) bool { return strings.Contains(strings.ToLower(s), p) })
	}
	up := func(n int) int { return (max(n, 2*of.window) + of.multiple - 1) / of.multiple * of.multiple }
	rank := in.Type.Rank()
	image := rank == 4 && !has("seq", "time", "len", "past", "cache")
	switch {
	case has("past", "cache"):
		return []int{5, 9, 1}[k]
	case has("batch") || i == 0 && rank > 1 || slices.Contains([]string{"n", "b"}, strings.ToLower(s)):
		return []int{1, 2, 3}[k]
	case rank == 3 && i == 2 && of.heads[in.Name] > 0:
		return []int{8, 12, 16}[k] * of.heads[in.Name]
	case (image || rank == 5) && i == 1 && !has("height", "width"):
		return []int{3, 1, 4}[k]
	case image && i == 3 || has("width"):
		return up([]int{64, 128, 224}[k])
	case image || has("height"):
		return up([]int{64, 96, 160}[k])
	case rank == 5:
		return up([]int{8, 9, 16}[k])
	case rank > 5:
		return up(min([]int{4, 5, 6}[k], int(math.Pow(1<<20, 1/float64(rank-1)))))
	}
	return up([]int{16, 33, 64}[k])
}

// span is what nodes say of the sizes of inputs: the largest product of strides along a path, at most 64, and the largest window with its dilation,
// of convolutions and pools, and the heads into which attentions split inputs, by name.
type span struct {
	multiple, window int
	heads            map[string]int
}

// maxHeads are the most heads of an attention that a size is made for.
const maxHeads = 256

// headsOf counts the heads of inputs that are three-dimensional operands of attentions.
func headsOf(g *ssa.Graph) map[string]int {
	heads := map[string]int{}
	for _, n := range g.Nodes {
		if n.Op != "Attention" || n.Domain != "" {
			continue
		}
		for i, attr := range []string{"q_num_heads", "kv_num_heads", "kv_num_heads"} {
			if h := ops.Int(n, attr); i < len(n.In) && n.In[i] != nil && h > 0 && h <= maxHeads {
				heads[n.In[i].Name] = int(h)
			}
		}
	}
	return heads
}

func spanOf(g *ssa.Graph) span {
	multiple, window := 1, 1
	strides := map[*ssa.Value]int{}
	for _, n := range g.Nodes {
		most := 1
		for _, v := range n.In {
			most = max(most, strides[v])
		}
		if n.Op == "Conv" || strings.HasSuffix(n.Op, "Pool") {
			most *= int(slices.Max(append(slices.Clone(ops.Ints(n, "strides")), 1)))
			dilations := ops.Ints(n, "dilations")
			for i, k := range ops.Ints(n, "kernel_shape") {
				apart := 1
				if i < len(dilations) {
					apart = int(dilations[i])
				}
				window = max(window, (int(k)-1)*apart+1)
			}
		}
		for _, v := range n.Out {
			strides[v] = min(most, 64)
		}
		multiple = max(multiple, min(most, 64))
	}
	return span{multiple, window, headsOf(g)}
}
