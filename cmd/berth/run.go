package main

import (
	"context"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/berth-onnx/berth"
	"github.com/berth-onnx/berth/internal/safefile"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ssa"
)

type runFlags struct {
	inputs    []string
	outputDir string
}

func (a *app) runCmd() *cobra.Command {
	var f runFlags
	c := &cobra.Command{Use: "run MODEL", Short: "Run one inference", Args: exactArgs(1, "one model"),
		Long: "Run takes inputs from --data, from files (.npy, .npz, .pb, .png, .jpg, .gif, .bmp) or random by --seed,\n" +
			"prints a summary of every output and, with --output-dir, writes each as .npy.\n" +
			"An image becomes float32 in the input's layout (N,3,H,W or N,H,W,3, or one channel), scaled to 0…1 and\nresized to the input's height and width.",
		Example: "  berth run model.onnx --input x=cat.png --output-dir out\n  berth run model.onnx --data test_data_set_0",
		RunE:    func(c *cobra.Command, args []string) error { return about(args[0], a.runOnce(c.Context(), args[0], f)) }}
	c.Flags().StringArrayVar(&f.inputs, "input", nil, "NAME=FILE (repeatable)")
	c.Flags().StringVar(&f.outputDir, "output-dir", "", "write outputs as .npy into this folder")
	a.dataFlag(c)
	return c
}

// outputJSON summarizes one output.
type outputJSON struct {
	Name  string    `json:"name"`
	Type  string    `json:"type"`
	Shape []int     `json:"shape"`
	Min   float64   `json:"min"`
	Max   float64   `json:"max"`
	Mean  float64   `json:"mean"`
	First []float64 `json:"first"`
	File  string    `json:"file,omitempty"`
	Text  string    `json:"text,omitempty"` // of outputs that are no numbers
}

func (a *app) runOnce(ctx context.Context, model string, f runFlags) error {
	opts, err := a.options()
	if err != nil {
		return err
	}
	m, have, err := a.load(model)
	if err != nil {
		return err
	}
	defer m.Close()
	for _, s := range f.inputs {
		if err := a.readInput(m, s, have); err != nil {
			return err
		}
	}
	if f.outputDir != "" {
		if err := checkOutputs(f.outputDir, m); err != nil {
			return err
		}
	}
	var got map[string]ndarray.Value
	err = a.withOpenSizes(ctx, m, have, func(_ map[string][]int, in map[string]ndarray.Value) (err error) {
		got, err = m.RunValues(ctx, in, opts...)
		return err
	})
	if err != nil {
		return err
	}
	var outs []outputJSON
	for _, p := range m.Outputs() {
		o := summarize(p.Name, got[p.Name])
		if f.outputDir != "" {
			if o.File, err = writeOutput(f.outputDir, p.Name, got[p.Name]); err != nil {
				return err
			}
		}
		outs = append(outs, o)
	}
	if a.json {
		return a.printJSON(map[string]any{"model": model, "outputs": outs})
	}
	t := newTable(a.out, "output", "type", "min", "max", "mean", "first values")
	for _, o := range outs {
		t.AppendRow([]any{o.Name, fmt.Sprintf("%s%v", o.Type, o.Shape), short(o.Min), short(o.Max), short(o.Mean), firstText(o)})
	}
	t.Render()
	return nil
}

func short(v float64) string { return fmt.Sprintf("%.5g", v) }

func firstText(o outputJSON) string {
	if o.Text != "" {
		return o.Text
	}
	var parts []string
	for _, v := range o.First {
		parts = append(parts, short(v))
	}
	return strings.Join(parts, " ")
}

// summarize describes an output in a line. Infinities and NaN are left out of
// the JSON figures, which can not hold them.
func summarize(name string, v ndarray.Value) outputJSON {
	o := outputJSON{Name: name, Shape: []int{}, First: []float64{}}
	arr, ok := v.(*ndarray.Array)
	if !ok {
		o.Type, o.Text = "value", fmt.Sprintf("%T", v)
		return o
	}
	o.Type, o.Shape = arr.DType.String(), append(o.Shape, arr.Shape...)
	if arr.DType == ndarray.String {
		o.Text = fmt.Sprintf("%q", arr.Str[:min(len(arr.Str), 4)])
		return o
	}
	n, sum := 0, 0.0
	for i := range arr.Len() {
		x := arr.Float(i)
		if math.IsNaN(x) || math.IsInf(x, 0) {
			continue
		}
		if n == 0 {
			o.Min, o.Max = x, x
		}
		o.Min, o.Max = min(o.Min, x), max(o.Max, x)
		sum += x
		n++
		if len(o.First) < 6 {
			o.First = append(o.First, x)
		}
	}
	if n > 0 {
		o.Mean = sum / float64(n)
	}
	return o
}

// checkOutputs makes the folder and reports what would keep an output from being written.
func checkOutputs(dir string, m *berth.Model) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for _, p := range m.Outputs() {
		if err := safefile.Check(outputFile(dir, p.Name, p.Type.Kind == ssa.KindTensor && p.Type.DType != ndarray.String)); err != nil {
			return err
		}
	}
	return nil
}

// outputFile is the file of an output: .npy, or .txt where NumPy has no such type.
func outputFile(dir, name string, numbers bool) string {
	safe := strings.Map(func(r rune) rune {
		if r == '/' || r == '\\' || r == ':' || r < ' ' {
			return '_'
		}
		return r
	}, name)
	return filepath.Join(dir, safe+word(numbers, ".npy", ".txt"))
}

// writeOutput writes one output.
func writeOutput(dir, name string, v ndarray.Value) (string, error) {
	arr, ok := v.(*ndarray.Array)
	numbers := ok && arr.DType != ndarray.String
	path := outputFile(dir, name, numbers)
	return path, safefile.Write(path, func(w io.Writer) error {
		if numbers {
			return writeNPY(w, arr)
		}
		_, err := fmt.Fprintf(w, "%+v\n", v)
		return err
	})
}

func inputPort(m *berth.Model, name string) (berth.Port, error) {
	var names []string
	for _, p := range m.Inputs() {
		if p.Name == name {
			return p, nil
		}
		names = append(names, p.Name)
	}
	return berth.Port{}, usagef("there is no input %q; the inputs are %s", name, strings.Join(names, ", "))
}
