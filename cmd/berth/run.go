package main

import (
	"context"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"

	"github.com/sbinet/npyio"
	"github.com/spf13/cobra"

	"github.com/berth-onnx/berth"
	"github.com/berth-onnx/berth/ndarray"
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
	m, err := a.model(model)
	if err != nil {
		return err
	}
	defer m.Close()
	set, err := a.dataSet(model)
	if err != nil {
		return err
	}
	in := given(set)
	for _, s := range f.inputs {
		if err := a.readInput(m, s, in); err != nil {
			return err
		}
	}
	shapes, err := a.bindShapes(m, set)
	if err != nil {
		return err
	}
	for name, v := range in {
		if arr, ok := v.(*ndarray.Array); ok {
			shapes[name] = arr.Shape
		}
	}
	in, err = a.randomInputs(m, shapes, in)
	if err != nil {
		return err
	}
	got, err := m.RunValues(ctx, in, opts...)
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

// writeOutput writes one output as .npy (or .txt where NumPy has no such type).
func writeOutput(dir, name string, v ndarray.Value) (string, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	safe := strings.Map(func(r rune) rune {
		if r == '/' || r == '\\' || r == ':' || r < ' ' {
			return '_'
		}
		return r
	}, name)
	arr, ok := v.(*ndarray.Array)
	if !ok || arr.DType == ndarray.String {
		path := filepath.Join(dir, safe+".txt")
		return path, writeFile(path, func(w io.Writer) error {
			_, err := fmt.Fprintf(w, "%+v\n", v)
			return err
		})
	}
	path := filepath.Join(dir, safe+".npy")
	return path, writeFile(path, func(w io.Writer) error { return writeNPY(w, arr) })
}

// writeNPY writes a NumPy file. Types NumPy lacks are widened to float32, or to
// bytes for integers narrower than one.
func writeNPY(w io.Writer, a *ndarray.Array) error {
	descr, data := npyType(a)
	shape := make([]string, len(a.Shape))
	for i, d := range a.Shape {
		shape[i] = fmt.Sprint(d)
	}
	tuple := strings.Join(shape, ", ")
	if len(shape) == 1 {
		tuple += ","
	}
	head := fmt.Sprintf("{'descr': '%s', 'fortran_order': False, 'shape': (%s), }", descr, tuple)
	pad := 64 - (10+len(head)+1)%64
	head += strings.Repeat(" ", pad%64) + "\n"
	if _, err := fmt.Fprintf(w, "\x93NUMPY\x01\x00%c%c%s", byte(len(head)), byte(len(head)>>8), head); err != nil {
		return err
	}
	_, err := w.Write(data)
	return err
}

func npyType(a *ndarray.Array) (string, []byte) {
	names := map[ndarray.DType]string{ndarray.Float32: "<f4", ndarray.Float64: "<f8", ndarray.Float16: "<f2", ndarray.Int8: "|i1", ndarray.Int16: "<i2",
		ndarray.Int32: "<i4", ndarray.Int64: "<i8", ndarray.Uint8: "|u1", ndarray.Uint16: "<u2", ndarray.Uint32: "<u4", ndarray.Uint64: "<u8",
		ndarray.Bool: "|b1", ndarray.Complex64: "<c8", ndarray.Complex128: "<c16", ndarray.Int4: "|i1", ndarray.Uint4: "|u1", ndarray.Int2: "|i1", ndarray.Uint2: "|u1"}
	if n, ok := names[a.DType]; ok {
		return n, a.Data
	}
	return "<f4", ndarray.Bytes(a.Floats32())
}

// readNPY reads a NumPy file into an array.
func readNPY(r io.Reader) (*ndarray.Array, error) {
	nr, err := npyio.NewReader(r)
	if err != nil {
		return nil, err
	}
	if nr.Header.Descr.Fortran {
		return nil, fmt.Errorf("Fortran order is not supported: save it with numpy.ascontiguousarray")
	}
	types := map[string]ndarray.DType{"<f4": ndarray.Float32, "<f8": ndarray.Float64, "<f2": ndarray.Float16, "|i1": ndarray.Int8, "<i2": ndarray.Int16,
		"<i4": ndarray.Int32, "<i8": ndarray.Int64, "|u1": ndarray.Uint8, "<u2": ndarray.Uint16, "<u4": ndarray.Uint32, "<u8": ndarray.Uint64,
		"|b1": ndarray.Bool, "<c8": ndarray.Complex64, "<c16": ndarray.Complex128}
	dt, ok := types[nr.Header.Descr.Type]
	if !ok {
		return nil, fmt.Errorf("NumPy type %q is not supported", nr.Header.Descr.Type)
	}
	n, err := ndarray.ByteSize(dt, nr.Header.Descr.Shape)
	if err != nil || n > 1<<34 {
		return nil, fmt.Errorf("shape %v is too large", nr.Header.Descr.Shape)
	}
	a, err := ndarray.New(dt, nr.Header.Descr.Shape...)
	if err != nil {
		return nil, err
	}
	return a, readElements(nr, a)
}

// readElements fills an array from the reader's typed slices.
func readElements(nr *npyio.Reader, a *ndarray.Array) error {
	switch a.DType {
	case ndarray.Float32:
		return readTyped[float32](nr, a)
	case ndarray.Float64:
		return readTyped[float64](nr, a)
	case ndarray.Float16, ndarray.Uint16:
		return readTyped[uint16](nr, a)
	case ndarray.Int8:
		return readTyped[int8](nr, a)
	case ndarray.Int16:
		return readTyped[int16](nr, a)
	case ndarray.Int32:
		return readTyped[int32](nr, a)
	case ndarray.Int64:
		return readTyped[int64](nr, a)
	case ndarray.Uint8:
		return readTyped[uint8](nr, a)
	case ndarray.Uint32:
		return readTyped[uint32](nr, a)
	case ndarray.Uint64:
		return readTyped[uint64](nr, a)
	case ndarray.Bool:
		return readTyped[bool](nr, a)
	case ndarray.Complex64:
		return readTyped[complex64](nr, a)
	}
	return readTyped[complex128](nr, a)
}

func readTyped[T ndarray.Elem](nr *npyio.Reader, a *ndarray.Array) error {
	var s []T
	if err := nr.Read(&s); err != nil {
		return err
	}
	copy(ndarray.Slice[T](a), s)
	return nil
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
