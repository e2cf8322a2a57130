package onnximport

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"runtime/debug"

	"github.com/berth-onnx/berth/internal/onnxwire"
	"github.com/berth-onnx/berth/internal/rescue"
	"github.com/berth-onnx/berth/ops"
	_ "github.com/berth-onnx/berth/ops/standard" // what files hold is linked with the import
	"github.com/berth-onnx/berth/ssa"
)

// Load imports the model file at path. Weights stay in the mapped file: call
// [ssa.Module.Close] when nothing uses them any more. Who reads them sets
// [debug.SetPanicOnFault]: pages are gone when the file is cut short. Errors are [*ImportError].
func Load(path string, opts Options) (_ *ssa.Module, err error) {
	defer rescue.Into(&err)
	for range loadTries - 1 {
		before, _ := os.Stat(path)
		m, err := loadOnce(path, opts)
		if after, _ := os.Stat(path); err == nil || !errors.Is(err, fs.ErrNotExist) || !replaced(before, after) {
			return m, err
		}
	}
	return loadOnce(path, opts)
}

// loadTries is how often a model is opened that is replaced each time between reading it and opening its external data.
const loadTries = 10

// replaced reports that a path names another file than before: the data file that the old one refers to may be gone.
func replaced(before, after fs.FileInfo) bool {
	return before != nil && after != nil && !(os.SameFile(before, after) && before.ModTime().Equal(after.ModTime()))
}

func loadOnce(path string, opts Options) (*ssa.Module, error) {
	f, err := onnxwire.OpenWith(opts.context(), path, opts.open())
	if err != nil {
		return nil, openError(path, err)
	}
	imp := newImporter(f.Model, path, opts)
	imp.holds, imp.own = []io.Closer{f}, true
	f.Model = nil // the module holds the file
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	return imp.run()
}

// FromBytes imports a serialized model in memory, which must not change while the module is in use. path is the file it
// came from: external data is looked for beside it; empty means that the model may not have any. Errors are [*ImportError].
func FromBytes(data []byte, path string, opts Options) (_ *ssa.Module, err error) {
	defer rescue.Into(&err)
	m, err := onnxwire.ParseContext(opts.context(), data)
	if err != nil {
		return nil, openError(path, err)
	}
	imp := newImporter(m, path, opts)
	imp.own = true
	return imp.run()
}

// FromModel imports the message of a model, read or built in memory, whose tensors share their elements with the module. path
// is that of [FromBytes]. Errors are [*ImportError].
func FromModel(m *onnxwire.Model, path string, opts Options) (_ *ssa.Module, err error) {
	defer rescue.Into(&err)
	return newImporter(m, path, opts).run()
}

// open is how the content of files is had.
func (o *Options) open() func(ctx context.Context, path string) (*onnxwire.Mapping, error) {
	if o.NoMapping {
		return onnxwire.ReadFile
	}
	return onnxwire.MapFile
}

// openError gives an error of the file system or the parser this package's form.
func openError(path string, err error) error {
	e := &ImportError{File: path, Reason: err.Error(), Err: err}
	var syntax *onnxwire.SyntaxError
	var model *onnxwire.ModelError
	var full *ops.MemoryError
	switch {
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return endedError(path, err)
	case errors.As(err, &full):
	case errors.As(err, &syntax):
		at := *syntax
		at.File = ""
		e.Reason, e.Remedy = "not an ONNX file, or a damaged one: "+at.Error(), "check that the file is complete"
	case errors.As(err, &model):
		e.Reason = model.Reason
	default:
		e.File = "" // the file system's error names it
	}
	return e
}

// endedError says that the context ended before the import.
func endedError(path string, err error) error {
	return fmt.Errorf("import of %q: %w", path, err)
}

// importer is the state of one import.
type importer struct {
	ctx    context.Context
	model  *onnxwire.Model
	opts   Options
	limits Limits
	file   string

	module    *ssa.Module
	opsets    map[string]int
	functions map[functionKey]*onnxwire.Function
	external  *externalData
	holds     []io.Closer
	nodes     int  // made so far
	own       bool // nobody else has the model: its nodes may go when they are built
}

// lookEvery is how many names or values a loop passes between two looks at the context.
const lookEvery = 4096

// look is the context's error, as far as it is looked at in a step of a loop.
func (imp *importer) look(step int) error {
	if step%lookEvery == lookEvery-1 {
		return imp.ctx.Err()
	}
	return nil
}

func newImporter(m *onnxwire.Model, path string, opts Options) *importer {
	imp := &importer{ctx: opts.context(), model: m, opts: opts, limits: opts.Limits.withDefaults(), file: path,
		module: &ssa.Module{Path: path}, opsets: map[string]int{}}
	imp.external = &externalData{model: path, root: opts.DataRoot, data: opts.Data, read: func(path string) (*onnxwire.Mapping, error) { return opts.open()(opts.context(), path) }, open: map[string]*onnxwire.Mapping{}}
	return imp
}

// run imports the model. A panic during import is a bug, which a hostile file may trigger; it is returned as an error.
func (imp *importer) run() (mod *ssa.Module, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fail("please report this with the model", "internal error during import: %v", r)
		}
		ended := imp.ctx.Err()
		err = cmp.Or(ended, err)
		if err != nil {
			mod = nil
			for _, h := range append(imp.holds, imp.external.files...) {
				if f, ok := h.(interface{ Check() error }); ok && f.Check() != nil {
					err = f.Check()
				}
				h.Close()
			}
			if full := (*ops.MemoryError)(nil); ended != nil && errors.Is(err, ended) && !errors.As(ended, &full) {
				err = endedError(imp.file, err)
			} else {
				err = imp.complete(err)
			}
		}
	}()
	if err := imp.header(); err != nil {
		return nil, err
	}
	if err := cmp.Or(imp.ctx.Err(), imp.checkExpansion()); err != nil {
		return nil, err
	}
	if err := imp.mainGraph(); err != nil {
		return nil, err
	}
	if err := cmp.Or(imp.lower(), imp.ctx.Err()); err != nil {
		return nil, err
	}
	imp.module.Holds = append(imp.holds, imp.external.files...)
	return imp.module, nil
}

// complete turns any error into an *ImportError that names the file.
func (imp *importer) complete(err error) error {
	var e *ImportError
	if !errors.As(err, &e) {
		e = &ImportError{Reason: err.Error(), Err: err}
	}
	if e.File == "" {
		e.File = imp.file
	}
	return e
}

// header reads what the file says about itself.
func (imp *importer) header() error {
	m := imp.model
	if m == nil || m.Graph == nil {
		return fail("", "the model has no graph")
	}
	mod := imp.module
	mod.IR = m.IRVersion
	for _, o := range m.OpsetImports {
		d := cleanDomain(o.Domain)
		if o.Version < 0 || o.Version > 1<<30 {
			return fail("", "operator set %q has version %d", o.Domain, o.Version)
		}
		if old, twice := imp.opsets[d]; twice && old != int(o.Version) {
			return fail("", "the file imports operator set %q twice, versions %d and %d", d, old, o.Version)
		} else if twice {
			continue
		}
		imp.opsets[d] = int(max(o.Version, 1))
		mod.Opsets = append(mod.Opsets, ssa.Opset{Domain: d, Version: imp.opsets[d]})
	}
	for _, v := range UnknownVersions(mod.IR, mod.Opsets) {
		imp.warn("%s", v)
	}
	if len(m.TrainingInfo) > 0 {
		imp.warn("the file holds training graphs, which are left out")
	}
	mod.Carried = carry(m)
	mod.Operators = map[string]int{}
	countNodes(m.Graph, mod.Operators)
	return imp.indexFunctions()
}

// countNodes adds the nodes of a graph and its bodies to [ssa.Module.Operators].
func countNodes(g *onnxwire.Graph, count map[string]int) {
	for _, n := range g.Nodes {
		name := n.OpType
		if d := cleanDomain(n.Domain); d != "" {
			name = d + "." + name
		}
		if name != "Constant" {
			count[name]++
		}
		for _, a := range n.Attributes {
			for _, b := range a.Graphs {
				countNodes(b, count)
			}
			if a.G != nil {
				countNodes(a.G, count)
			}
		}
	}
}

// carry keeps what the exporter writes back and no pass needs: who made the file,
// its documentation and metadata, the declared inputs and outputs.
func carry(m *onnxwire.Model) *onnxwire.Model {
	g := m.Graph
	return &onnxwire.Model{
		IRVersion: m.IRVersion, ProducerName: m.ProducerName, ProducerVersion: m.ProducerVersion, Domain: m.Domain,
		ModelVersion: m.ModelVersion, DocString: m.DocString, MetadataProps: m.MetadataProps,
		Extra: m.Extra,
		Graph: &onnxwire.Graph{Name: g.Name, DocString: g.DocString, Inputs: g.Inputs, Outputs: g.Outputs,
			QuantizationAnnotations: g.QuantizationAnnotations, MetadataProps: g.MetadataProps, Extra: g.Extra},
	}
}
