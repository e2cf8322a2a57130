package berth

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"gorgonia.org/tensor"

	"github.com/berth-onnx/berth/backend/cpu"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/onnxexport"
	"github.com/berth-onnx/berth/onnximport"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/rewrite"
	"github.com/berth-onnx/berth/schedule"
	"github.com/berth-onnx/berth/ssa"
)

// Model is an ONNX model in memory. It is safe for concurrent use.
type Model struct {
	module *ssa.Module
	root   *Model // the model whose file mapping this one's constants lie in; nil for itself

	weights func() *cpu.Weights // the packed weights of all programs, of the root's

	mu       sync.Mutex
	programs []boundProgram // most recently used first
}

// keptPrograms is how many programs a model keeps for [Model.Run].
const keptPrograms = 8

type boundProgram struct {
	key string
	p   *Program
}

// Open maps and imports a model file. Weights stay in the file's mapping until
// they are used; call [Model.Close] when the model and everything made from it
// is no longer used. Errors name file, node, operator and remedy
// ([onnximport.ImportError]).
//
// Of the options, [WithChannelBlock] matters here.
func Open(path string, opts ...Option) (*Model, error) {
	return newModel(onnximport.Load(path, importOptions(false, opts)))
}

func newModel(m *ssa.Module, err error) (*Model, error) {
	if err != nil {
		return nil, err
	}
	return FromModule(m), nil
}

// OpenLenient opens a model for looking at: nodes that can not be understood
// stay opaque, and [Model.Warnings] says why.
func OpenLenient(path string, opts ...Option) (*Model, error) {
	return newModel(onnximport.Load(path, importOptions(true, opts)))
}

// Parse imports a serialized model, which must not change while it is in use.
// External data can not be reached.
func Parse(data []byte, opts ...Option) (*Model, error) {
	return newModel(onnximport.FromBytes(data, "", importOptions(false, opts)))
}

// FromModule wraps a module built or imported elsewhere.
func FromModule(m *ssa.Module) *Model {
	return &Model{module: m, weights: sync.OnceValue(cpu.NewWeights)}
}

// Graph returns a copy of the model's graph; constants are shared and must not be changed.
func (m *Model) Graph() *ssa.Graph {
	g, _ := m.module.Graph.Clone()
	return g
}

// Opsets lists the operator sets that the model imports, as it was read.
func (m *Model) Opsets() []ssa.Opset { return slices.Clone(m.module.Opsets) }

// Warnings lists what the importer noticed and went on with.
func (m *Model) Warnings() []string { return m.module.Warnings }

// Close releases the model's file mapping. Models made from it by
// [Model.Optimize] and programs share the mapping: close the first one last.
func (m *Model) Close() error {
	if m.root != nil {
		return nil
	}
	return m.module.Close()
}

// Port describes an input or output.
type Port struct {
	Name     string
	Type     ssa.Type
	Optional bool // an input with a default value
}

// Inputs lists the inputs in order.
func (m *Model) Inputs() []Port {
	out := make([]Port, len(m.module.Graph.Params))
	for i, v := range m.module.Graph.Params {
		out[i] = Port{v.Name, v.Type, m.module.Defaults[v.Name] != nil}
	}
	return out
}

// Outputs lists the outputs in order.
func (m *Model) Outputs() []Port {
	out := make([]Port, len(m.module.Graph.Results))
	for i, v := range m.module.Graph.Results {
		out[i] = Port{Name: m.module.OutputName(i), Type: v.Type}
	}
	return out
}

// OptimizeReport says what optimizing did.
type OptimizeReport struct {
	Before, After Stats
	Passes        []PassStat
}

// Optimize returns a rewritten model of standard ONNX operators. Shapes and
// dimensions given as options are frozen into it. The receiver is unchanged;
// weights are shared.
func (m *Model) Optimize(ctx context.Context, opts ...Option) (*Model, *OptimizeReport, error) {
	c := newConfig(opts)
	bound, err := m.bind(&c)
	if err != nil {
		return nil, nil, err
	}
	r := &OptimizeReport{Before: StatsOf(m.module.Graph)}
	did, err := rewrite.Run(ctx, bound, rewrite.Options{List: &rewrite.Portable, Check: c.check, Shuffle: c.check,
		Dump: c.dump, Off: c.off, MaxOpset: c.maxOpset, Unroll: c.unroll})
	if err != nil {
		return nil, nil, err
	}
	if _, err := schedule.Apply(ctx, bound.Graph, c.schedule); err != nil {
		return nil, nil, err
	}
	r.Passes, r.After = did.Passes, StatsOf(bound.Graph)
	return &Model{module: bound, root: m.base(), weights: m.weights}, r, nil
}

func (m *Model) base() *Model {
	if m.root != nil {
		return m.root
	}
	return m
}

// bind copies the module with shapes and symbols fixed.
func (m *Model) bind(c *config) (*ssa.Module, error) {
	g, err := ops.Bind(m.module.Graph, ops.Binding{Shapes: c.shapes, Dims: c.dims})
	if err != nil {
		return nil, err
	}
	bound := *m.module
	bound.Graph, bound.Holds = g, nil
	return &bound, nil
}

// SaveOptions change how a model is written.
type SaveOptions struct {
	// External is the size in bytes from which weights go to a data file beside
	// the model; 0 keeps them in the model up to the format's 2 GiB.
	External int64
	// Metadata is added to the model's metadata.
	Metadata map[string]string
}

// DataFiles lists the names that [Model.Save] can give the data file of a model file.
func DataFiles(path string) []string { return onnxexport.DataFiles(path) }

// Save writes the model as an ONNX file, and weights to one of [DataFiles] if there is need. A file or the target of a link
// that is there is replaced when all is complete, and keeps its permissions; folders, devices and pipes are refused.
func (m *Model) Save(path string, o SaveOptions) error {
	return onnxexport.Save(m.module, path, onnxexport.Options{External: o.External, Metadata: o.Metadata})
}

// Run compiles the model for the shapes of the inputs, unless it did before, and
// runs it once. The results are fresh tensors. A few programs are kept, the
// least recently used one is dropped.
func (m *Model) Run(ctx context.Context, inputs map[string]*tensor.Dense, opts ...Option) (map[string]*tensor.Dense, error) {
	values, err := valuesOf(inputs)
	if err != nil {
		return nil, err
	}
	p, err := m.programFor(ctx, values, opts)
	if err != nil {
		return nil, err
	}
	return p.Run(ctx, inputs)
}

// RunValues is Run for values of any ONNX type.
func (m *Model) RunValues(ctx context.Context, inputs map[string]ndarray.Value, opts ...Option) (map[string]ndarray.Value, error) {
	p, err := m.programFor(ctx, inputs, opts)
	if err != nil {
		return nil, err
	}
	return p.RunValues(ctx, inputs)
}

// programFor returns the program for the shapes of a set of inputs.
func (m *Model) programFor(ctx context.Context, inputs map[string]ndarray.Value, opts []Option) (*Program, error) {
	c := newConfig(opts)
	key := fmt.Sprint(c.threads, c.planner, c.schedule, c.backend, c.optimizeFor, c.noPasses, c.noInPlace, c.copyViews, c.bounds)
	for _, in := range m.module.Graph.Params {
		if a, ok := inputs[in.Name].(*ndarray.Array); ok {
			c.shapes[in.Name] = a.Shape
			key += fmt.Sprint(in.Name, a.Shape)
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for i, b := range m.programs {
		if b.key == key {
			copy(m.programs[1:i+1], m.programs[:i])
			m.programs[0] = b
			return b.p, nil
		}
	}
	p, err := m.compile(ctx, c)
	if err != nil {
		return nil, err
	}
	m.programs = append([]boundProgram{{key, p}}, m.programs[:min(len(m.programs), keptPrograms-1)]...)
	return p, nil
}
