package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"golang.org/x/text/unicode/norm"

	"github.com/berth-onnx/berth"
	"github.com/berth-onnx/berth/internal/npy"
	"github.com/berth-onnx/berth/internal/safefile"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ssa"
)

type runFlags struct {
	inputs    []string
	outputDir string
	images    imageFlags
	top       int
	backend   string
}

func (a *app) runCmd() *cobra.Command {
	var f runFlags
	c := modelCommand("run MODEL", "Run one inference",
		"Run takes inputs from --data, from files (.npy, .npz, .pb, .wav, .png, .jpg, .gif, .bmp) or random by --seed,\n"+
			"prints a summary of every output and, with --output-dir, writes each as .npy.\n"+
			"An image takes the input's layout (N,3,H,W or N,H,W,3, or one channel) and is resized to its height and width;\n"+
			"elements are (value from 0 to 255 * scale - mean) / std. Sound is the mean of its channels, from -1 to 1.",
		"  berth run model.onnx --input x=x.npy --output-dir out\n  berth run model.onnx --data test_data_set_0\n"+
			"  berth run classifier.onnx --image cat.png --mean 0.485,0.456,0.406 --std 0.229,0.224,0.225 --top 5",
		func(c *cobra.Command, model string) error {
			if err := f.images.check(c, f.inputs); err != nil {
				return err
			}
			if f.top < 0 || c.Flags().Changed("top") && f.top == 0 {
				return usagef("--top must be at least 1")
			}
			if err := a.checkBackend(f.backend); err != nil {
				return err
			}
			return a.runOnce(c.Context(), model, f)
		})
	inputFlag(c, &f.inputs)
	c.Flags().StringVar(&f.outputDir, "output-dir", "", "write outputs as .npy into this folder")
	c.Flags().IntVar(&f.top, "top", 0, "list the largest elements of outputs, so many along the last axis")
	f.images.add(c)
	a.backendFlags(c, &f.backend)
	a.dataFlag(c)
	return c
}

// outputJSON summarizes one output.
type outputJSON struct {
	Name  string    `json:"name"`
	Type  string    `json:"type"`
	Shape []int     `json:"shape"`
	Min   number    `json:"min"` // of the finite elements, like Max and Mean; null without any
	Max   number    `json:"max"`
	Mean  number    `json:"mean"`
	NaN   int       `json:"nan"` // elements that are NaN
	Inf   int       `json:"inf"` // elements that are infinite
	First []number  `json:"first"`
	File  string    `json:"file,omitempty"`
	Text  string    `json:"text,omitempty"` // of outputs that are no numbers: their type, or the first strings, long ones cut short
	Top   []topJSON `json:"top,omitempty"`  // with --top
}

// number is null in JSON where it is NaN or infinite.
type number float64

// MarshalJSON writes the number or null.
func (x number) MarshalJSON() ([]byte, error) {
	if math.IsNaN(float64(x)) || math.IsInf(float64(x), 0) {
		return []byte("null"), nil
	}
	return json.Marshal(float64(x))
}

func (a *app) runOnce(ctx context.Context, model string, f runFlags) error {
	m, have, opts, err := a.opened(model, false)
	if err != nil {
		return err
	}
	defer m.Close()
	if err := a.readInputs(m, f.inputs, &f.images, have); err != nil {
		return err
	}
	if err := cmp.Or(a.checkGiven(m, have), a.checkSeed(m, have), f.checkTop(m)); err != nil {
		return err
	}
	if f.outputDir != "" {
		if err := a.prepareOutputs(f.outputDir, m); err != nil {
			return err
		}
	}
	var got map[string]ndarray.Value
	err = a.withRealisticSizes(ctx, m, have, func(_ map[string][]int, in map[string]ndarray.Value) (err error) {
		got, err = m.RunValues(ctx, in, append(opts, a.on(f.backend)...)...)
		return err
	})
	if err != nil {
		return err
	}
	var outs []outputJSON
	names := fileNames(m)
	for i, p := range m.Outputs() {
		o := summarize(p.Name, got[p.Name])
		if arr, ok := got[p.Name].(*ndarray.Array); ok && f.top > 0 {
			o.Top = largest(arr, f.top)
		}
		if f.outputDir != "" {
			if o.File, err = writeOutput(f.outputDir, names[i], got[p.Name]); err != nil {
				return err
			}
		}
		outs = append(outs, o)
	}
	return a.printRun(model, outs, f.top > 0)
}

// checkTop refuses --top where no output has elements that can be ranked.
func (f *runFlags) checkTop(m *berth.Model) error {
	ranks := func(p berth.Port) bool {
		t := p.Type
		return t.Kind != ssa.KindTensor || t.DType != ndarray.String && !t.DType.IsComplex() && !(t.Ranked && len(t.Shape) == 0)
	}
	if f.top == 0 || slices.ContainsFunc(m.Outputs(), ranks) {
		return nil
	}
	return usagef("--top has no effect: no output has elements to rank")
}

// inputFlag adds --input.
func inputFlag(c *cobra.Command, specs *[]string) {
	c.Flags().StringArrayVar(specs, "input", nil, "NAME=FILE, or NAME=NUMBER for every element (repeatable)")
}

// readInputs reads the files of --image and --input.
func (a *app) readInputs(m *berth.Model, specs []string, flags *imageFlags, in map[string]ndarray.Value) error {
	images, err := flags.inputs(m)
	if err != nil {
		return err
	}
	given := map[string]bool{}
	for _, spec := range append(images, specs...) {
		if name, _, ok := splitInput(m, spec); ok && given[name] {
			return usagef("input %q is given twice", name)
		}
		values, err := a.readInput(m, spec, flags)
		if err != nil {
			return err
		}
		for name, v := range values {
			if given[name] {
				return usagef("input %q is given twice", name)
			}
			if in[name] != nil {
				a.note("berth: warning: input %q is taken from %s, not from --data", name, spec)
			}
			given[name], in[name] = true, v
		}
	}
	return nil
}

// printRun prints the outputs of a run, and their largest elements.
func (a *app) printRun(model string, outs []outputJSON, top bool) error {
	if a.json {
		return a.printJSON(map[string]any{"model": model, "outputs": outs})
	}
	t := newTable(a.out, "output", "type", "min", "max", "mean", "NaN", "Inf", "first values")
	for _, o := range outs {
		t.AppendRow([]any{o.Name, o.Type + dimsText(o.Shape), o.short(o.Min), o.short(o.Max), short(o.Mean), o.NaN, o.Inf, firstText(o)})
	}
	t.Render()
	if top {
		a.printTop(outs)
	}
	return nil
}

// dimsText prints a shape as types do: [1,3,224].
func dimsText(shape []int) string { return strings.ReplaceAll(fmt.Sprint(shape), " ", ",") }

func short(v number) string { return fmt.Sprintf("%.5g", float64(v)) }

// short prints an element: integers, which may be numbers of tokens or classes, in full.
func (o outputJSON) short(v number) string {
	if v == number(math.Trunc(float64(v))) && (strings.HasPrefix(o.Type, "int") || strings.HasPrefix(o.Type, "uint")) {
		return strconv.FormatFloat(float64(v), 'f', -1, 64)
	}
	return short(v)
}

func firstText(o outputJSON) string {
	if o.Text != "" {
		return o.Text
	}
	var parts []string
	for _, v := range o.First {
		parts = append(parts, o.short(v))
	}
	return strings.Join(parts, " ")
}

// quoted is a string as a line can hold it: a long one is cut, and its length told.
func quoted(s string) string {
	const most = 80
	if len(s) <= most {
		return strconv.Quote(s)
	}
	return fmt.Sprintf("%q… of %d bytes", strings.ToValidUTF8(s[:most], ""), len(s))
}

// summarize describes an output in a line.
func summarize(name string, v ndarray.Value) outputJSON {
	none := number(math.NaN())
	o := outputJSON{Name: name, Shape: []int{}, First: []number{}, Min: none, Max: none, Mean: none}
	arr, ok := v.(*ndarray.Array)
	if !ok {
		o.Type, o.Text = "value", fmt.Sprintf("%T", v)
		return o
	}
	o.Type, o.Shape = arr.DType.String(), append(o.Shape, arr.Shape...)
	if arr.DType == ndarray.String {
		var first []string
		for _, s := range arr.Str[:min(len(arr.Str), 4)] {
			first = append(first, quoted(s))
		}
		o.Text = "[" + strings.Join(first, " ") + "]"
		return o
	}
	o.NaN, o.Inf = nonFinite(arr)
	n, sum := 0, 0.0
	for i := range arr.Len() {
		x := arr.Float(i)
		if len(o.First) < 6 {
			o.First = append(o.First, number(x))
		}
		if math.IsNaN(x) || math.IsInf(x, 0) {
			continue
		}
		if n == 0 {
			o.Min, o.Max = number(x), number(x)
		}
		o.Min, o.Max = min(o.Min, number(x)), max(o.Max, number(x))
		sum += x
		n++
	}
	if n > 0 {
		o.Mean = number(sum / float64(n))
	}
	return o
}

// prepareOutputs makes the folder and reports what would keep an output from being written.
func (a *app) prepareOutputs(dir string, m *berth.Model) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	names := fileNames(m)
	for i, p := range m.Outputs() {
		file := outputFile(dir, names[i], p.Type.Kind == ssa.KindTensor && p.Type.DType != ndarray.String)
		if err := safefile.Check(file); err != nil {
			return err
		}
		if slices.ContainsFunc(a.read, func(read string) bool { return samePath(read, file) }) {
			return isRead(file)
		}
	}
	return nil
}

// outputFile is the file of an output: .npy, or .txt where NumPy has no such type.
func outputFile(dir, name string, numbers bool) string {
	return filepath.Join(dir, name+word(numbers, ".npy", ".txt"))
}

// fileNames are the outputs' names as files can have them, all different, also where case does not count, nor the form of accents.
func fileNames(m *berth.Model) []string {
	taken := map[string]bool{}
	key := func(name string) string { return strings.ToLower(norm.NFKC.String(strings.ToUpper(name))) }
	var out []string
	for _, p := range m.Outputs() {
		safe := fileName(p.Name)
		name := safe
		for n := 2; taken[key(name)]; n++ {
			name = fmt.Sprintf("%s_%d", safe, n)
		}
		taken[key(name)] = true
		out = append(out, name)
	}
	return out
}

const (
	// mostFileName leaves room for a number and an ending within the 255 bytes that file systems allow.
	mostFileName = 200

	// separators mean something in a path on some system.
	separators = "/\\:*?\"<>|"
)

// devices are names that Windows takes for devices, with any ending.
var devices = regexp.MustCompile(`(?i)^(con|prn|aux|nul|conin\$|conout\$|(com|lpt)[0-9¹²³])\s*(\.|$)`)

// fileName is a name with _ for what a file name can not have on some system: separators, what can not be shown, dots and blanks at
// an end; cut off where it is too long.
func fileName(name string) string {
	safe := strings.Map(func(r rune) rune {
		if strings.ContainsRune(separators, r) || r == utf8.RuneError || !unicode.IsPrint(r) {
			return '_'
		}
		return r
	}, name)
	for len(safe) > mostFileName {
		_, n := utf8.DecodeLastRuneInString(safe)
		safe = safe[:len(safe)-n]
	}
	if bare := strings.TrimLeft(safe, ". "); bare != safe || bare == "" {
		safe = "_" + bare
	}
	if bare := strings.TrimRight(safe, ". "); bare != safe {
		safe = bare + "_"
	}
	if devices.MatchString(safe) {
		safe = "_" + safe
	}
	return safe
}

// writeOutput writes one output.
func writeOutput(dir, name string, v ndarray.Value) (string, error) {
	arr, ok := v.(*ndarray.Array)
	numbers := ok && arr.DType != ndarray.String
	path := outputFile(dir, name, numbers)
	return path, safefile.Write(path, func(w io.Writer) error {
		if numbers {
			return npy.Write(w, arr)
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
	return berth.Port{}, usagef("there is no input %q%s; the inputs are %s", name, didYouMean(name, names), strings.Join(names, ", "))
}
