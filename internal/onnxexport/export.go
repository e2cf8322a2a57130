package onnxexport

import (
	"cmp"
	"context"
	"maps"
	"slices"

	"github.com/berth-onnx/berth/internal/onnxwire"
	"github.com/berth-onnx/berth/ssa"
)

// Options steer an export. The zero value is right for most uses.
type Options struct {
	// Metadata is added to the model's metadata, new keys in sorted order; a key
	// that is there gets the new value.
	Metadata map[string]string
	// External is the size in bytes from which a constant goes to the data file
	// beside the model; 0 keeps everything in the model, unless that would pass
	// the 2 GiB a protobuf file can hold. Used by [Save] only.
	External int64
	// Check, if set, is asked by [Save] when all is written and before the files take
	// their names: an error leaves the old files.
	Check func() error
	// Splat is the size in bytes from which a splat is written as a node; 0 means
	// 1 KiB and 1/1024 of the model's constants, which is what one folded node may add; negative never.
	Splat int64
	// ValueInfo writes the inferred types of all values, not only of inputs,
	// outputs and results of opaque nodes.
	ValueInfo bool
	// Temporary files need not outlive a failure of the system. Used by [Save] only.
	Temporary bool
	// Context ends [Save] and [Model]; nil never does.
	Context context.Context
}

const defaultSplat = 1 << 10

// exporter is the state of one export.
type exporter struct {
	mod     *ssa.Module
	opts    Options
	carried *onnxwire.Model // what the file said about itself; never nil
	model   *onnxwire.Model

	names   map[*ssa.Value]string // of values that have been named
	consts  map[*ssa.Constant]*placement
	shapes  map[string]string // initializers that hold shapes of splats
	opsets  *opsetChoice
	nodes   *names              // names of nodes: runtimes refuse repeated ones
	path    []string            // enclosing nodes, for messages
	open    map[*ssa.Value]bool // values whose lengths are not written; see disputed.go
	tensors []*onnxwire.Tensor  // that may move to a data file

	inferred map[*ssa.Constant]bool // constants that shapes are inferred from
	literals map[*ssa.Constant]bool // constants that are written as Constant nodes
}

// Model turns a module into an ONNX model. Constants are shared, not copied: the
// module must stay open until the model is written. Errors are [*ExportError].
func Model(m *ssa.Module, opts Options) (*onnxwire.Model, error) {
	x, err := prepare(m, opts)
	if err != nil {
		return nil, err
	}
	return x.model, nil
}

// prepare builds the model and keeps the exporter, which knows the tensors.
func prepare(m *ssa.Module, opts Options) (*exporter, error) {
	opts.Context = cmp.Or(opts.Context, context.Background())
	x := &exporter{mod: m, opts: opts, names: map[*ssa.Value]string{}, consts: map[*ssa.Constant]*placement{}, shapes: map[string]string{}, nodes: newNames(nil)}
	if x.opts.Splat == 0 {
		x.opts.Splat = defaultSplat + storedBytes(opts.Context, m.Graph)/1024
	}
	if x.carried, _ = m.Carried.(*onnxwire.Model); x.carried == nil {
		x.carried = &onnxwire.Model{ProducerName: "berth", Graph: &onnxwire.Graph{Name: m.Graph.Name, DocString: m.Graph.Doc}}
	}
	return x, x.run()
}

// storedBytes is the size of all constants, a splat being one element, or of some once the context has ended.
func storedBytes(ctx context.Context, g *ssa.Graph) (sum int64) {
	seen := map[*ssa.Constant]bool{}
	g.Walk(func(b *ssa.Graph) {
		if ctx.Err() != nil {
			return
		}
		for i, v := range b.Values() {
			if ended(ctx, i) {
				return
			}
			if v != nil && v.Const != nil && !seen[v.Const] {
				seen[v.Const] = true
				sum += v.Const.StoredBytes()
			}
		}
	})
	return sum
}

func (x *exporter) run() error {
	c := x.carried
	x.model = &onnxwire.Model{
		ProducerName: c.ProducerName, ProducerVersion: c.ProducerVersion, Domain: c.Domain, ModelVersion: c.ModelVersion,
		DocString: c.DocString, MetadataProps: x.metadata(), Extra: c.Extra,
	}
	var err error
	if x.mod, x.opsets, err = chooseOpsets(x.opts.Context, x.mod); err != nil {
		return err
	}
	for _, prepare := range []func(){
		func() { x.inferred = inferredFrom(x.opts.Context, x.mod.Graph) },
		func() { x.literals = literals(x.opts.Context, x.mod.Graph) },
		x.place,
		func() { x.open = disputed(x.opts.Context, x.mod.Graph) },
	} {
		if err := x.opts.Context.Err(); err != nil {
			return err
		}
		prepare()
	}
	if x.model.Graph, err = x.mainGraph(); err != nil {
		return err
	}
	if err := x.opts.Context.Err(); err != nil {
		return err
	}
	x.model.OpsetImports = x.opsets.imports()
	x.model.IRVersion = x.irVersion()
	return nil
}

// metadata returns the carried properties with those of the options merged in.
func (x *exporter) metadata() []*onnxwire.StringEntry {
	var out []*onnxwire.StringEntry
	seen := map[string]bool{}
	for _, p := range x.carried.MetadataProps {
		seen[p.Key] = true
		if v, ok := x.opts.Metadata[p.Key]; ok {
			p = &onnxwire.StringEntry{Key: p.Key, Value: v}
		}
		out = append(out, p)
	}
	for _, k := range slices.Sorted(maps.Keys(x.opts.Metadata)) {
		if !seen[k] {
			out = append(out, &onnxwire.StringEntry{Key: k, Value: x.opts.Metadata[k]})
		}
	}
	return out
}
