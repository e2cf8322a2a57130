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

	"github.com/spf13/cobra"

	"github.com/berth-onnx/berth"
	"github.com/berth-onnx/berth/internal/conformance"
	"github.com/berth-onnx/berth/ndarray"
)

func (a *app) diffCmd() *cobra.Command {
	var tol conformance.Tolerance
	c := &cobra.Command{Use: "diff A B", Short: "Find the first node at which two models differ", Args: exactArgs(2, "two models"),
		Long: "Diff runs both models on the same inputs and compares every value that has the same name in both, in\n" +
			"the order of A, and then the outputs by position. The first divergence is named; exit code 3.\n" +
			"A difference is judged by the scale of its tensor, the largest magnitude in it: --atol is relative to\n" +
			"the scale, --rtol to the element. The nodes at which differences arise are listed, those first whose\n" +
			"results differ most, measured by what differs in their operands.\n" +
			"16-bit floats have no tolerance of their own: whether a whole model is as accurate as another is what optimize decides, while\n" +
			"diff shows where values part, by rounding too. Differences of a few units of rounding (2^-11 of the scale for float16, 2^-8\n" +
			"for bfloat16) are usual there; --atol and --rtol look past them.\n" +
			"The same model twice compares the reference kernels (A) with the compiled program (B).",
		Example: "  berth diff model.onnx model.opt.onnx\n  berth diff model.onnx model.onnx --data test_data_set_0",
		RunE:    func(c *cobra.Command, args []string) error { return a.diff(c.Context(), args[0], args[1], tol) }}
	toleranceFlags(c, &tol, 1e-4, ", by the scale of the tensor")
	a.dataFlag(c)
	return c
}

func (a *app) diff(ctx context.Context, pathA, pathB string, tol conformance.Tolerance) error {
	a.several = true
	ma, have, opts, err := a.opened(pathA, false)
	if err != nil {
		return err
	}
	defer ma.Close()
	mb, err := a.open(pathB, false)
	if err != nil {
		return err
	}
	defer mb.Close()
	if err := cmp.Or(a.checkModels([]string{pathA, pathB}, ma, mb), a.checkSeed(ma, have)); err != nil {
		return err
	}
	open, err := a.openIn(pathB, mb, ma)
	if err != nil {
		return err
	}
	shared := opts[:len(opts)-len(a.dims)] // a.options has those of dimensions last
	optsA, optsB := append(slices.Clip(opts), berth.WithBackend("reference"), berth.WithoutPasses()), append(slices.Clip(shared), exact)
	if pathA != pathB { // without passes, so that as many values as possible have their names
		optsB[len(shared)] = berth.WithoutPasses()
	}
	optsB = append(optsB, dimOptions(open)...)
	a.fixAs(ma, mb)
	var ta, tb *berth.Trace
	err = a.withRealisticSizes(ctx, ma, have, func(_ map[string][]int, in map[string]ndarray.Value) (err error) {
		if ta, err = ma.Trace(ctx, in, optsA...); err != nil {
			return fmt.Errorf("%s: %w", pathA, err)
		}
		if tb, err = mb.Trace(ctx, in, optsB...); err != nil {
			return fmt.Errorf("%s: %w", pathB, err)
		}
		return nil
	})
	if err != nil && strings.HasPrefix(err.Error(), pathB+": ") {
		return err
	} else if err != nil {
		return atModel(pathA, err)
	}
	return a.diffTraces(ta, tb, tol)
}

// openIn returns the sizes given by --dim for dimensions that a model has. Where it does not have a dimension of another model that
// takes the same inputs, it must be a file written for that size.
func (a *app) openIn(path string, m, other *berth.Model) (map[string]int64, error) {
	ports := map[string]berth.Port{}
	var symbols []string
	for _, p := range m.Inputs() {
		ports[p.Name] = p
		for _, d := range p.Type.Shape {
			symbols = d.Symbols(symbols)
		}
	}
	open := maps.Clone(a.dims)
	maps.DeleteFunc(open, func(name string, _ int64) bool { return !slices.Contains(symbols, name) })
	for _, p := range other.Inputs() {
		for axis, d := range p.Type.Shape {
			symbol, _ := d.SymbolName()
			n, given := a.dims[symbol]
			shape := ports[p.Name].Type.Shape
			if _, is := open[symbol]; !given || is || axis >= len(shape) {
				continue
			}
			if fixed, known := shape[axis].Const(); known && fixed != n {
				return nil, usagef("--dim %s=%d: dimension %d of input %q of %s is %d", symbol, n, axis, p.Name, path, fixed)
			}
		}
	}
	return open, nil
}

// fixAs gives what inputs of a model leave open the sizes that another model, which takes the same inputs, fixes.
func (a *app) fixAs(m, as *berth.Model) {
	fixed := as.Inputs()
	for _, p := range m.Inputs() {
		i := slices.IndexFunc(fixed, func(q berth.Port) bool { return q.Name == p.Name && q.Type.Rank() == p.Type.Rank() })
		if i < 0 || a.shapes[p.Name] != nil {
			continue
		}
		if shape, static := fixed[i].Type.Static(); static && fits(p, shape) {
			a.shapes[p.Name] = shape
		}
		for axis, d := range p.Type.Shape {
			symbol, named := d.SymbolName()
			n, known := fixed[i].Type.Shape[axis].Const()
			if _, given := a.dims[symbol]; named && known && !given {
				a.dims[symbol] = n
			}
		}
	}
}

// diffJSON is the object printed by diff.
type diffJSON struct {
	Equal      bool   `json:"equal"`
	Compared   int    `json:"compared"`
	Value      string `json:"value,omitempty"`
	Node       string `json:"node,omitempty"`
	Difference string `json:"difference,omitempty"`

	Ranking []nodeDifference `json:"ranking,omitempty"` // nodes at which differences arise, the largest growth first
}

// nodeDifference is how far the results of a node differ.
type nodeDifference struct {
	Node     string `json:"node"`
	Value    string `json:"value"`
	Relative number `json:"relative"` // largest difference by the scale of the tensor; null where one model gives NaN, infinity or another shape
	Operands number `json:"operands"` // the most of its operands that were compared
}

func (a *app) diffTraces(ta, tb *berth.Trace, tol conformance.Tolerance) error {
	res := firstDifference(ta, tb, tol)
	switch {
	case a.json:
		if err := a.printJSON(res); err != nil {
			return err
		}
	case res.Equal:
		a.printf("no difference: %d values and %d outputs compared\n", res.Compared, len(ta.Outputs))
	case res.Value != "":
		a.printf("first difference: value %q of %s: %s\n", res.Value, res.Node, res.Difference)
		a.printRanking(res.Ranking)
	}
	switch {
	case res.Equal:
		return nil
	case res.Value != "":
		return differs(fmt.Errorf("the models differ at value %q", res.Value))
	}
	return differs(errors.New(res.Difference))
}

func (a *app) printRanking(rows []nodeDifference) {
	if len(rows) == 0 {
		return
	}
	a.printf("\nwhere differences arise, by the scale of the tensors:\n")
	t := newTable(a.out, "node", "value", "difference", "of its operands")
	alignRight(t, 3, 4)
	for _, r := range rows {
		t.AppendRow([]any{r.Node, r.Value, differenceText(r.Relative), differenceText(r.Operands)})
	}
	t.Render()
}

// differenceText prints a difference, which has no number where one model gives NaN, infinity or another shape.
func differenceText(x number) string {
	if math.IsInf(float64(x), 0) {
		return "no number"
	}
	return fmt.Sprintf("%.3g", float64(x))
}

// ranked is how many nodes the ranking lists.
const ranked = 10

// firstDifference compares values of the same name in the order of the first
// model, then outputs by position.
func firstDifference(ta, tb *berth.Trace, tol conformance.Tolerance) diffJSON {
	res := diffJSON{}
	other, relative := map[string]ndarray.Value{}, map[string]number{}
	for _, s := range tb.Steps {
		other[s.Value] = s.Data
	}
	for _, s := range ta.Steps {
		v, ok := other[s.Value]
		if !ok {
			for _, in := range s.Operands { // what is not compared passes on what differs before it
				relative[s.Value] = max(relative[s.Value], relative[in])
			}
			continue
		}
		res.Compared++
		row := nodeDifference{Node: s.Node, Value: s.Value, Relative: relativeDifference(v, s.Data)}
		for _, in := range s.Operands {
			row.Operands = max(row.Operands, relative[in])
		}
		relative[s.Value] = row.Relative
		d := compareModels(s.Data, v, tol)
		if d != nil {
			res.Ranking = append(res.Ranking, row)
		}
		if d != nil && res.Value == "" {
			res.Value, res.Node, res.Difference = s.Value, s.Node, d.Error()
		}
	}
	finite := func(x number) float64 { return min(float64(x), math.MaxFloat64/2) }
	growth := func(r nodeDifference) float64 {
		return finite(r.Relative) / (finite(r.Operands) + max(tol.Atol, 1e-12))
	}
	slices.SortStableFunc(res.Ranking, func(x, y nodeDifference) int { return cmp.Compare(growth(y), growth(x)) })
	res.Ranking = res.Ranking[:min(len(res.Ranking), ranked)]
	if res.Value != "" {
		return res
	}
	if len(ta.Outputs) != len(tb.Outputs) {
		res.Difference = fmt.Sprintf("the models have %d and %d outputs", len(ta.Outputs), len(tb.Outputs))
		return res
	}
	for i, o := range ta.Outputs {
		v := tb.Outputs[i].Data
		if d := compareModels(o.Data, v, tol); d != nil {
			res.Value, res.Node, res.Difference = o.Value, "the outputs", d.Error()
			return res
		}
	}
	res.Equal = true
	return res
}

// compareModels compares a value of both models. The difference says which model has what.
func compareModels(inA, inB ndarray.Value, tol conformance.Tolerance) *conformance.Diff {
	d := conformance.Compare(inB, inA, byScale(tol, inA, inB))
	if d != nil {
		d.Whose = [2]string{"in B", "in A"}
	}
	return d
}

// byScale makes the absolute tolerance relative to the largest finite magnitude in two values. Where both are zero it stays.
func byScale(tol conformance.Tolerance, x, y ndarray.Value) conformance.Tolerance {
	if s := max(scaleOf(x), scaleOf(y)); s > 0 {
		tol.Atol *= s
	}
	return tol
}

// scaleOf is the largest finite magnitude in a tensor of floats, 0 for other values.
func scaleOf(v ndarray.Value) (most float64) {
	a, ok := v.(*ndarray.Array)
	if !ok || !a.DType.IsFloat() {
		return 0
	}
	for i := range a.Len() {
		if x := math.Abs(a.Float(i)); x <= math.MaxFloat64 {
			most = max(most, x)
		}
	}
	return most
}

// relativeDifference is the largest difference of two tensors by their scale.
func relativeDifference(x, y ndarray.Value) number {
	a, ok1 := x.(*ndarray.Array)
	b, ok2 := y.(*ndarray.Array)
	if !ok1 || !ok2 || a.DType != b.DType || a.DType == ndarray.String || a.DType.IsComplex() {
		return 0
	}
	d := maxAbsDiff(a, b)
	if s := max(scaleOf(x), scaleOf(y)); s > 0 {
		d /= s
	}
	return number(d)
}
