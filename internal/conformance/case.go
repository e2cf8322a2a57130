package conformance

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/berth-onnx/berth/internal/onnxwire"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// Case is one model with recorded inputs and outputs.
type Case struct {
	Name   string // name of the folder, or of the model file for light models
	Source string // folder, model file or archive the case was found in

	dir   string // folder on disk; "" in an archive
	files fs.FS  // rooted at the case's folder
	model string // model file in files
	light bool   // one data set, by rule
}

// Named is a value with the name of the input or output it belongs to.
type Named struct {
	Name  string
	Value ndarray.Value
}

// Set is one data set of a case.
type Set struct {
	Name    string
	Inputs  []Named // in the order of the model's inputs
	Outputs []Named // in the order of the model's outputs; Value is nil where nothing was recorded
}

// Tolerance says how far a float result may be off: |got-want| <= Atol + Rtol*|want|.
type Tolerance struct {
	Rtol float64 `json:"rtol"`
	Atol float64 `json:"atol"`
	Why  string  `json:"why,omitempty"`
}

// BackendTolerance is what the ONNX backend tests allow.
var BackendTolerance = Tolerance{Rtol: 1e-3, Atol: 1e-7}

// looser lists recorded cases that need a larger tolerance, by name.
var looser = map[string]Tolerance{
	"light_densenet121":        {Rtol: 2e-3, Why: "what the ONNX backend tests allow for this model"},
	"test_dft_inverse":         {Atol: 1e-5, Why: "recorded from a float32 transform: it holds noise of 2e-6 where the exact value is 0"},
	"test_dft_inverse_opset19": {Atol: 1e-5, Why: "as test_dft_inverse"},
}

// ModelPath returns the path of the model file, "" if the case lies in an archive.
func (c *Case) ModelPath() string {
	if c.dir == "" {
		return ""
	}
	return filepath.Join(c.dir, filepath.FromSlash(c.model))
}

// ModelBytes returns the content of the model file.
func (c *Case) ModelBytes() ([]byte, error) {
	if err := checkRegular(c.files, c.model); err != nil {
		return nil, err
	}
	return fs.ReadFile(c.files, c.model)
}

// Tolerance returns the case's own tolerance (tolerance.json, or the data.json
// of the ONNX tests), def if it has none. Fields that the file leaves out are
// taken from def.
func (c *Case) Tolerance(def Tolerance) (Tolerance, error) {
	if l, ok := looser[c.Name]; ok {
		def = Tolerance{Rtol: max(def.Rtol, l.Rtol), Atol: max(def.Atol, l.Atol), Why: l.Why}
	}
	for _, name := range []string{"tolerance.json", "data.json"} {
		data, err := readText(c.files, name)
		if errors.Is(err, fs.ErrNotExist) || c.light {
			continue
		}
		out := def
		if err == nil {
			err = json.Unmarshal(data, &out)
		}
		if err != nil {
			return def, fmt.Errorf("case %s: %s: %w", c.Name, name, err)
		}
		return out, nil
	}
	return def, nil
}

// SetNames lists the data sets in order.
func (c *Case) SetNames() ([]string, error) {
	if c.light {
		return []string{"rule"}, nil
	}
	list, err := fs.ReadDir(c.files, ".")
	if err != nil {
		return nil, err
	}
	var out []string
	for _, e := range list {
		if e.IsDir() && strings.HasPrefix(e.Name(), "test_data") {
			out = append(out, e.Name())
		}
	}
	slices.SortFunc(out, func(a, b string) int {
		if d := number(a) - number(b); d != 0 {
			return d
		}
		return strings.Compare(a, b)
	})
	return out, nil
}

// number returns the number at the end of a name, -1 if there is none.
func number(name string) int {
	n, err := strconv.Atoi(name[strings.LastIndexByte(name, '_')+1:])
	if err != nil {
		return -1
	}
	return n
}

// Signature is what a model file declares: its inputs without those that have
// an initializer, and its outputs.
type Signature struct {
	Inputs, Outputs []*onnxwire.ValueInfo
	// Random says that the model draws random numbers. ONNX does not say which:
	// of such a model's outputs only element types and shapes can be compared.
	Random bool

	all []*onnxwire.ValueInfo
}

// Signature reads the model's declared inputs and outputs.
func (c *Case) Signature(ctx context.Context) (*Signature, error) {
	if path := c.ModelPath(); path != "" {
		f, err := onnxwire.OpenWith(ctx, path, onnxwire.MapFile)
		if err != nil {
			return nil, err
		}
		return signatureOf(f.Model), f.Close()
	}
	data, err := c.ModelBytes()
	if err != nil {
		return nil, err
	}
	m, err := onnxwire.ParseContext(ctx, data)
	if err != nil {
		return nil, fmt.Errorf("case %s: %w", c.Name, err)
	}
	return signatureOf(m), nil
}

func signatureOf(m *onnxwire.Model) *Signature {
	has := m.Graph.InitializerNames()
	s := &Signature{Outputs: m.Graph.Outputs, all: m.Graph.Inputs, Random: drawsRandom(m.Graph)}
	for _, in := range m.Graph.Inputs {
		if !has[in.Name] {
			s.Inputs = append(s.Inputs, in)
		}
	}
	return s
}

// drawsRandom reports that a graph, or a body in it, has a node whose results
// differ from one runtime to the next.
func drawsRandom(g *onnxwire.Graph) bool {
	for _, n := range g.Nodes {
		domain := n.Domain
		if domain == "ai.onnx" {
			domain = ""
		}
		if o := ops.Lookup(domain, n.OpType); o != nil && o.Facts.Randomness == ops.Random {
			return true
		}
		for _, a := range n.Attributes {
			if a.G != nil && drawsRandom(a.G) {
				return true
			}
		}
	}
	return false
}

// LoadSet reads one data set, within the budget of the context.
func (c *Case) LoadSet(ctx context.Context, sig *Signature, name string) (*Set, error) {
	if c.light {
		return c.lightSet(ctx, sig)
	}
	files, err := c.setFiles(name)
	if err != nil {
		return nil, err
	}
	set := &Set{Name: name}
	if set.Inputs, err = c.inputs(ctx, sig, files["input"]); err != nil {
		return nil, err
	}
	if i := slices.Max(append(slices.Collect(maps.Keys(files["output"])), -1)); i >= len(sig.Outputs) {
		return nil, fmt.Errorf("case %s: %s: the model has %d outputs", c.Name, files["output"][i], len(sig.Outputs))
	}
	set.Outputs, err = c.values(ctx, sig.Outputs, files["output"])
	return set, err
}

// setFiles finds the files of a data set by kind, "input" or "output", and number.
func (c *Case) setFiles(name string) (map[string]map[int]string, error) {
	list, err := fs.ReadDir(c.files, name)
	if err != nil {
		return nil, err
	}
	byKind := map[string]map[int]string{"input": {}, "output": {}}
	for _, e := range list {
		kind, rest, _ := strings.Cut(strings.TrimSuffix(e.Name(), ".pb"), "_")
		if byKind[kind] == nil || path.Ext(e.Name()) != ".pb" {
			continue
		}
		i, err := strconv.Atoi(rest)
		if err != nil || i < 0 || strconv.Itoa(i) != rest {
			return nil, fmt.Errorf("%s: files of a data set are named %s_0.pb, %s_1.pb and so on", path.Join(name, e.Name()), kind, kind)
		}
		byKind[kind][i] = path.Join(name, e.Name())
	}
	return byKind, nil
}

// inputs reads the inputs that there are files of.
func (c *Case) inputs(ctx context.Context, sig *Signature, files map[int]string) ([]Named, error) {
	infos := sig.Inputs
	if len(files) > len(infos) {
		infos = sig.all // initializers are given too
	}
	all, err := c.values(ctx, infos, files)
	return slices.DeleteFunc(all, func(n Named) bool { return n.Value == nil }), err
}

func (c *Case) values(ctx context.Context, infos []*onnxwire.ValueInfo, files map[int]string) ([]Named, error) {
	for _, i := range slices.Sorted(maps.Keys(files)) {
		if i >= len(infos) {
			return nil, fmt.Errorf("case %s: %s: the model has no input or output of that number, there are %d; remove the file", c.Name, files[i], len(infos))
		}
	}
	out := make([]Named, len(infos))
	for i, info := range infos {
		out[i].Name = info.Name
		file, ok := files[i]
		if !ok {
			continue
		}
		v, err := c.value(ctx, file, info.Type)
		if err != nil {
			return nil, fmt.Errorf("case %s: %s: %w", c.Name, file, err)
		}
		out[i].Value = v
	}
	return out, nil
}

func (c *Case) value(ctx context.Context, file string, t *onnxwire.Type) (ndarray.Value, error) {
	if err := checkRegular(c.files, file); err != nil {
		return nil, err
	}
	kind := declaredKind(t)
	if m, ok := c.files.(memFS); ok {
		return alignedValue(ctx, m.files[file], kind)
	}
	f, err := c.files.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	r, ok := f.(io.ReaderAt)
	switch {
	case err != nil:
		return nil, err
	case ok && kind == ssa.KindTensor:
		return ReadTensor(ctx, r, info.Size(), nil)
	case ok:
		return readValue(ctx, r, info.Size(), kind)
	}
	data, err := onnxwire.ReadAll(ctx, ndarray.BudgetOf(ctx), f, file, info.Size(), math.MaxInt64)
	if err != nil {
		return nil, err
	}
	return alignedValue(ctx, data, kind)
}

// declaredKind is the kind of values of a declared type, a tensor where nothing is declared.
func declaredKind(t *onnxwire.Type) ssa.Kind {
	switch {
	case t == nil:
	case t.Sequence != nil:
		return ssa.KindSequence
	case t.Map != nil:
		return ssa.KindMap
	case t.Optional != nil:
		return ssa.KindOptional
	case t.SparseTensor != nil:
		return ssa.KindSparse
	}
	return ssa.KindTensor
}
