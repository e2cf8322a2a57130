package onnximport

import (
	"errors"
	"io"
	"path/filepath"

	"github.com/berth-onnx/berth/internal/onnxwire"
	_ "github.com/berth-onnx/berth/ops/standard" // what files hold is linked with the import
	"github.com/berth-onnx/berth/ssa"
)

// Load imports the model file at path. Weights stay in the mapped file: call
// [ssa.Module.Close] when nothing uses them any more. Errors are [*ImportError].
func Load(path string, opts Options) (*ssa.Module, error) {
	f, err := onnxwire.Open(path)
	if err != nil {
		return nil, openError(path, err)
	}
	imp := newImporter(f.Model, path, opts)
	imp.holds = []io.Closer{f}
	return imp.run()
}

// FromModel imports a parsed model. path is the file it came from: external data
// is looked for beside it; empty means that the model may not have any. The model
// must not change while the module is in use.
func FromModel(m *onnxwire.Model, path string, opts Options) (*ssa.Module, error) {
	return newImporter(m, path, opts).run()
}

// FromBytes imports a serialized model in memory, which must not change while
// the module is in use. path is as for [FromModel].
func FromBytes(data []byte, path string, opts Options) (*ssa.Module, error) {
	m, err := onnxwire.Parse(data)
	if err != nil {
		return nil, openError(path, err)
	}
	return FromModel(m, path, opts)
}

// openError gives an error of the file system or the parser this package's form.
func openError(path string, err error) error {
	e := &ImportError{File: path, Reason: err.Error(), Err: err}
	var syntax *onnxwire.SyntaxError
	var model *onnxwire.ModelError
	switch {
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

// importer is the state of one import.
type importer struct {
	model  *onnxwire.Model
	opts   Options
	limits Limits
	file   string
	dir    string // folder that locations of external data are relative to

	module    *ssa.Module
	opsets    map[string]int
	functions map[functionKey]*onnxwire.Function
	external  *externalData
	holds     []io.Closer
	nodes     int // made so far
}

func newImporter(m *onnxwire.Model, path string, opts Options) *importer {
	imp := &importer{model: m, opts: opts, limits: opts.Limits.withDefaults(), file: path}
	if path != "" {
		imp.dir = filepath.Dir(path)
	}
	imp.external = &externalData{dir: imp.dir, root: opts.DataRoot}
	return imp
}

// run imports the model. A panic on the way is a bug of ours, but a hostile file
// may be what finds it: it comes back as an error.
func (imp *importer) run() (mod *ssa.Module, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fail("please report this with the model", "internal error during import: %v", r)
		}
		if err != nil {
			mod = nil
			for _, h := range append(imp.holds, imp.external.files()...) {
				h.Close()
			}
			err = imp.complete(err)
		}
	}()
	if err := imp.header(); err != nil {
		return nil, err
	}
	if err := imp.mainGraph(); err != nil {
		return nil, err
	}
	imp.lower()
	imp.module.Holds = append(imp.holds, imp.external.files()...)
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
	if m.IRVersion > newestIR {
		imp.warn("the file has IR version %d, newer than %d, the newest known", m.IRVersion, newestIR)
	}
	mod := imp.ensureModule()
	mod.IR, mod.Path = m.IRVersion, imp.file
	imp.opsets = map[string]int{}
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
		if known := newestOpset[d]; known > 0 && imp.opsets[d] > known {
			imp.warn("the file uses version %d of operator set %q, newer than %d, the newest known: operators that changed since are taken in their older meaning", o.Version, displayDomain(d), known)
		}
	}
	if len(m.TrainingInfo) > 0 {
		imp.warn("the file holds training graphs, which are left out")
	}
	mod.Carried = carry(m)
	return imp.indexFunctions()
}

func (imp *importer) ensureModule() *ssa.Module {
	if imp.module == nil {
		imp.module = &ssa.Module{}
	}
	return imp.module
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
