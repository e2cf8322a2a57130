package main

import (
	"context"
	"errors"
	"fmt"

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
			"The same model twice compares the reference kernels (A) with the compiled program (B).",
		Example: "  berth diff model.onnx model.opt.onnx\n  berth diff model.onnx model.onnx --data test_data_set_0",
		RunE:    func(c *cobra.Command, args []string) error { return a.diff(c.Context(), args[0], args[1], tol) }}
	toleranceFlags(c, &tol, 1e-5, "")
	a.dataFlag(c)
	return c
}

func (a *app) diff(ctx context.Context, pathA, pathB string, tol conformance.Tolerance) error {
	opts, err := a.options()
	if err != nil {
		return err
	}
	ma, err := a.model(pathA)
	if err != nil {
		return err
	}
	defer ma.Close()
	mb, err := a.open(pathB)
	if err != nil {
		return err
	}
	defer mb.Close()
	have, err := a.inputsOf(pathA)
	if err != nil {
		return err
	}
	var ta *berth.Trace
	var in map[string]ndarray.Value
	err = a.withOpenSizes(ctx, ma, have, func(_ map[string][]int, values map[string]ndarray.Value) (err error) {
		in = values
		ta, err = ma.Trace(ctx, in, append(opts, berth.WithBackend("reference"), berth.WithoutPasses())...)
		return err
	})
	if err != nil {
		return fmt.Errorf("%s: %w", pathA, err)
	}
	tb, err := mb.Trace(ctx, in, append(opts, exact)...)
	if err != nil {
		return fmt.Errorf("%s: %w", pathB, err)
	}
	return a.diffTraces(ta, tb, tol)
}

// diffJSON is the object printed by diff.
type diffJSON struct {
	Equal      bool   `json:"equal"`
	Compared   int    `json:"compared"`
	Value      string `json:"value,omitempty"`
	Node       string `json:"node,omitempty"`
	Difference string `json:"difference,omitempty"`
}

func (a *app) diffTraces(ta, tb *berth.Trace, tol conformance.Tolerance) error {
	res := firstDifference(ta, tb, tol)
	switch {
	case a.json:
		if err := a.printJSON(res); err != nil {
			return err
		}
	case res.Equal:
		fmt.Fprintf(a.out, "no difference: %d values and %d outputs compared\n", res.Compared, len(ta.Outputs))
	case res.Value != "":
		fmt.Fprintf(a.out, "first difference: value %q of %s: %s\n", res.Value, res.Node, res.Difference)
	}
	switch {
	case res.Equal:
		return nil
	case res.Value != "":
		return differs(fmt.Errorf("the models differ at value %q", res.Value))
	}
	return differs(errors.New(res.Difference))
}

// firstDifference compares values of the same name in the order of the first
// model, then outputs by position.
func firstDifference(ta, tb *berth.Trace, tol conformance.Tolerance) diffJSON {
	res := diffJSON{}
	other := map[string]ndarray.Value{}
	for _, s := range tb.Steps {
		other[s.Value] = s.Data
	}
	for _, s := range ta.Steps {
		v, ok := other[s.Value]
		if !ok {
			continue
		}
		res.Compared++
		if d := conformance.Compare(v, s.Data, tol); d != nil {
			res.Value, res.Node, res.Difference = s.Value, s.Node, d.Error()
			return res
		}
	}
	if len(ta.Outputs) != len(tb.Outputs) {
		res.Difference = fmt.Sprintf("the models have %d and %d outputs", len(ta.Outputs), len(tb.Outputs))
		return res
	}
	for i, o := range ta.Outputs {
		if d := conformance.Compare(tb.Outputs[i].Data, o.Data, tol); d != nil {
			res.Value, res.Node, res.Difference = o.Value, "the outputs", d.Error()
			return res
		}
	}
	res.Equal = true
	return res
}
