package berth

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/berth-onnx/berth/backend"
	"github.com/berth-onnx/berth/internal/borrow"
	"github.com/berth-onnx/berth/internal/cpu/weights"
	"github.com/berth-onnx/berth/internal/onnxexport"
	"github.com/berth-onnx/berth/internal/program"
	"github.com/berth-onnx/berth/internal/rescue"
	"github.com/berth-onnx/berth/internal/rewrite"
	"github.com/berth-onnx/berth/internal/schedule"
	"github.com/berth-onnx/berth/internal/typecheck"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/onnximport"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// Model is an ONNX model in memory. It is safe for concurrent use.
//
// What is to be computed before and behind it, as the decoding of boxes, is written as expressions by Extend of package expr, or as nodes by
// [Model.Extend], and is saved with it.
type Model struct {
	module   *ssa.Module
	life     *lifetime
	ofCaller bool         // the caller has the module, too, and may have changed it
	made     stock        // its programs
	kept     keptPrograms // those of them that [Model.RunValues] made

	// What all programs share, those of models made from this one too: packed weights, and constants that are read as they are.
	weights   func() *weights.Store
	constants *program.Constants
}

// Open maps and imports a model file. Weights stay in the file's mapping until
// they are used; call [Model.Close] when the model is no longer used. Errors name
// file, node, operator and remedy ([onnximport.ImportError]).
//
// While weights are read from them, files must not be written to, which is noticed
// ([FileChangedError]); a file that is replaced by renaming stays as it is for those who
// have it open. [WithoutMapping] reads files into memory instead.
//
// Of the options, [WithChannelBlock], [WithContext], [WithDataRoot], [WithMaxMemory], [WithPrograms] and [WithoutMapping]
// matter here.
func Open(path string, opts ...Option) (_ *Model, err error) {
	defer rescue.Into(&err)
	o, err := importOptions(false, opts)
	if err != nil {
		return nil, err
	}
	return newModel(o, opts)(onnximport.Load(path, o))
}

// newModel wraps what an import gives.
func newModel(o onnximport.Options, opts []Option) func(*ssa.Module, error) (*Model, error) {
	return func(m *ssa.Module, err error) (*Model, error) {
		if err != nil {
			return nil, rescue.WithCause(o.Context, err)
		}
		out := &Model{module: m, life: newLifetime(m, newFiles(m.Holds), true), weights: sync.OnceValue(weights.New), constants: program.NewConstants()}
		out.kept.most = newConfig(opts).programs
		out.life.share.files.discard() // what importing has read; of the graph nothing is read again
		return out, nil
	}
}

// OpenLenient opens a model for inspection: nodes that can not be imported stay
// opaque, and [Model.Warnings] says why.
func OpenLenient(path string, opts ...Option) (_ *Model, err error) {
	defer rescue.Into(&err)
	o, err := importOptions(true, opts)
	if err != nil {
		return nil, err
	}
	return newModel(o, opts)(onnximport.Load(path, o))
}

// Parse imports a serialized model, which must not change while it is in use.
// External data can not be reached, except by [WithExternalData].
func Parse(data []byte, opts ...Option) (_ *Model, err error) {
	defer rescue.Into(&err)
	o, err := importOptions(false, opts)
	if err != nil {
		return nil, err
	}
	return newModel(o, opts)(onnximport.FromBytes(data, "", o))
}

// FromModule wraps a module built or imported elsewhere. [Model.Close] closes it. If its graph
// is not sound ([ssa.Check]), or an option is not, that is the error of everything that is done with the model. Of
// the options, [WithPrograms] matters here.
func FromModule(m *ssa.Module, opts ...Option) *Model {
	if m == nil {
		return &Model{}
	}
	out := &Model{module: m, life: newLifetime(m, newFiles(m.Holds), false), ofCaller: true, weights: sync.OnceValue(weights.New), constants: program.NewConstants()}
	c := newConfig(opts)
	out.kept.most = c.programs
	if out.life.bad = cmp.Or(c.validate(), ssa.Check(m.Graph)); out.life.bad != nil {
		out.module = nil
	}
	return out
}

// lifetime is nil for a nil or zero model.
func (m *Model) lifetime() *lifetime {
	if m == nil {
		return nil
	}
	return m.life
}

// source is the module, an empty one for a nil or zero model.
func (m *Model) source() *ssa.Module {
	if m == nil || m.module == nil {
		return &ssa.Module{Graph: ssa.NewGraph("")}
	}
	return m.module
}

// Graph returns a copy of the model's graph; constants are shared and must not be changed.
// Those in a mapped file are copied when they are read, and can not be read any more once
// the model is closed.
func (m *Model) Graph() *ssa.Graph {
	g, _ := m.source().Graph.Clone()
	_ = ownPayloads(context.Background(), g) // which does not end
	return m.lifetime().isolated(g)
}

func init() {
	borrow.State = borrowState
	borrow.Graph = func(model any, f func(*ssa.Graph)) error {
		m := model.(*Model)
		_, err := using(m.lifetime(), func() (struct{}, error) { f(m.source().Graph); return struct{}{}, nil })
		return err
	}
}

// Warnings lists what the importer noticed without refusing the model.
func (m *Model) Warnings() []string { return slices.Clone(m.source().Warnings) }

// Close ends the use of the model, of its programs and of their sessions: what begins
// later fails with [ErrClosed]. It does not wait. Operations in progress, runs among them,
// complete normally, but for a [Model.RunValues] that still compiles, whose run begins later; the last one releases the memory of the model's files. Models made by
// [Model.Optimize] share the files and are closed separately, in any order. Results
// stay valid. Closing twice does nothing.
func (m *Model) Close() error {
	if m == nil {
		return nil
	}
	err := m.life.close()
	for _, p := range m.made.alive() {
		p.Trim()
	}
	return err
}

// Port describes an input or output.
type Port struct {
	Name     string
	Type     ssa.Type
	Optional bool // an input with a default value
}

// Inputs lists the inputs in order.
func (m *Model) Inputs() []Port {
	module := m.source()
	out := make([]Port, len(module.Graph.Params))
	for i, v := range module.Graph.Params {
		out[i] = Port{v.Name, ownType(v.Type), module.Defaults[v.Name] != nil}
	}
	return out
}

// Outputs lists the outputs in order.
func (m *Model) Outputs() []Port {
	module := m.source()
	out := make([]Port, len(module.Graph.Results))
	for i, v := range module.Graph.Results {
		out[i] = Port{Name: module.OutputName(i), Type: ownType(v.Type)}
	}
	return out
}

// OptimizeReport says what optimizing did.
type OptimizeReport struct {
	Before, After Stats
	Passes        []PassStat
	// Raised names the node for which the default operator set is newer than the model's own,
	// and why; "" if it is not.
	Raised string
	// Withheld lists what [WithMaxOpset] would allow to fuse.
	Withheld []Withheld
}

// Withheld counts patterns that are one operator in an operator set newer than the model may use.
type Withheld = rewrite.Withheld

// Optimize returns a rewritten model of standard ONNX operators. Shapes and
// dimensions given as options are frozen into it. The receiver is unchanged;
// weights are shared. A model without outputs is an [*ExportError]: nothing of it would be left, and
// other tools do not open a model of nothing.
func (m *Model) Optimize(ctx context.Context, opts ...Option) (*Model, *OptimizeReport, error) {
	r := &OptimizeReport{}
	o, err := usingContext(ctx, m.lifetime(), func() (*Model, error) { return m.optimize(ctx, newConfig(opts), r) })
	if err != nil {
		return nil, nil, err
	}
	return o, r, nil
}

func (m *Model) optimize(ctx context.Context, c config, r *OptimizeReport) (*Model, error) {
	ctx = c.memory.In(ctx)
	if len(m.module.Graph.Results) == 0 {
		return nil, &ExportError{Reason: "the model has no outputs, so that nothing it computes can be asked for", Remedy: "name what it is to give as outputs of its graph"}
	}
	bound, err := m.bind(ctx, &c)
	if err != nil {
		return nil, err
	}
	r.Before = contents(ctx, m.module)
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	limit, err := limitOpset(ctx, bound, c.maxOpset)
	if err != nil {
		return nil, err
	}
	did, err := rewrite.Run(ctx, bound, rewrite.Options{List: &rewrite.Portable, Inferred: true, Check: c.check, Shuffle: c.check,
		Dump: c.dump, Off: c.rewritesOff(), MaxOpset: limit, Unroll: c.unroll})
	if err != nil {
		return nil, err
	}
	if _, err := schedule.Order(ctx, bound.Graph, c.schedule); err != nil {
		return nil, err
	}
	written, err := onnxexport.Opset(ctx, bound)
	if err == nil && c.maxOpset > 0 && written.Version > c.maxOpset {
		err = refuseOpset(ctx, bound, c.maxOpset, written)
	}
	if err != nil {
		return nil, err
	}
	if own := m.module.OpsetVersion(""); own > 0 && own < written.Version && c.maxOpset == 0 {
		r.Raised = raisedBy(written)
	}
	setOpset(bound, written.Version)
	r.Passes, r.After, r.Withheld = did.Passes, statsOf(ctx, bound.Graph), did.Withheld
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return m.of(bound), nil
}

// of is a model of a changed module, which shares files and weights.
func (m *Model) of(changed *ssa.Module) *Model {
	out := &Model{module: changed, life: newLifetime(changed, m.life.share.files, true), weights: m.weights, constants: m.constants}
	out.kept.most = m.kept.most
	return out
}

// limitOpset lowers the version of the default operator set that a file is to import, if it is above most, unless that is 0.
// It returns the version that rewriting may use: most, or by default that in which the model can be written. 0 is any.
func limitOpset(ctx context.Context, m *ssa.Module, most int) (int, error) {
	own := m.OpsetVersion("")
	if most > 0 {
		setOpset(m, min(own, most))
		return most, nil
	}
	if own == 0 {
		return 0, nil
	}
	written, err := onnxexport.Opset(ctx, m)
	return written.Version, err
}

// refuseOpset is the error of a model that is written in an operator set above most. It names the first one in which it can be written.
func refuseOpset(ctx context.Context, m *ssa.Module, most int, written onnxexport.Raised) error {
	tried := *m
	for v := most + 1; v < written.Version; v++ {
		var err error
		if tried.Graph, _, err = m.Graph.CloneContext(ctx); err != nil {
			return err
		}
		setOpset(&tried, v)
		if _, err := rewrite.Run(ctx, &tried, rewrite.Options{Only: []string{rewrite.Older.Name}, MaxOpset: v}); err != nil {
			return err
		}
		if w, err := onnxexport.Opset(ctx, &tried); err != nil || w.Version <= v {
			written.Version = v
			break
		}
	}
	return cmp.Or(ctx.Err(), written.Above(most))
}

// setOpset changes the version of the default operator set that a module imports.
func setOpset(m *ssa.Module, version int) {
	m.Opsets = slices.Clone(m.Opsets)
	for i := range m.Opsets {
		if m.Opsets[i].Domain == "" {
			m.Opsets[i].Version = version
		}
	}
}

// raisedBy names the node that needs a newer operator set, and why.
func raisedBy(r onnxexport.Raised) string {
	if r.Why == nil {
		return r.Node
	}
	return fmt.Sprintf("%s: %v", r.Node, r.Why)
}

// CheckPortable reports what makes other tools refuse a model that berth runs: a node in a branch of an If whose operands
// the operator does not accept. berth runs the other branch; onnx.checker and ONNX Runtime infer both, and ONNX Runtime infers
// again when it has folded constants and shapes in both. The error is an [*ops.NodeError] of stage "branches", or "folded
// branches" where folding shows it. What is folded takes memory of the context's budget ([ndarray.BudgetOf]).
func (m *Model) CheckPortable(ctx context.Context) (err error) {
	defer rescue.Into(&err)
	_, err = usingContext(ctx, m.lifetime(), func() (struct{}, error) {
		err := ops.CheckBranches(ctx, m.module.Graph)
		if err == nil {
			err = checkFolded(ctx, *m.module)
		}
		return struct{}{}, err
	})
	return err
}

// checkFolded is [ops.CheckBranches] for a copy in which all branches are folded, and those of a known condition inlined. What
// tells shapes and conditions is small, so little may be computed.
func checkFolded(ctx context.Context, m ssa.Module) (err error) {
	if !slices.ContainsFunc(m.Graph.Nodes, func(n *ssa.Node) bool { return len(n.Bodies) > 0 }) {
		return nil
	}
	if m.Graph, _, err = m.Graph.CloneContext(ctx); err != nil {
		return err
	}
	list := rewrite.Portable
	list.KeepUnfit = false
	if _, err = rewrite.Run(ctx, &m, rewrite.Options{List: &list, Only: append([]string{"inline"}, foldingOnly...), MaxOpset: -1,
		Growth: rewrite.Growth{PerNode: 1 << 20, Total: 16 << 20, Ops: 1e7}}); err == nil {
		err = ops.CheckBranches(ctx, m.Graph)
	}
	if ne := (*ops.NodeError)(nil); errors.As(err, &ne) {
		ne.Stage = "folded branches"
	}
	return err
}

// TypeViolations lists the operands and results of types that ONNX does not allow in the operator sets in which [Model.Save]
// writes the model: berth runs such nodes, other tools refuse the file. The error is that of Save.
func (m *Model) TypeViolations(ctx context.Context) ([]TypeViolation, error) {
	return usingContext(ctx, m.lifetime(), func() ([]TypeViolation, error) {
		w, err := onnxexport.Model(m.module, onnxexport.Options{Context: ctx, ValueInfo: true})
		if err != nil {
			return nil, err
		}
		return typecheck.Check(ctx, w)
	})
}

// bind copies the module with shapes and symbols fixed.
func (m *Model) bind(ctx context.Context, c *config) (*ssa.Module, error) {
	if err := c.validateFor(m.module.Graph.Params); err != nil {
		return nil, err
	}
	g, err := ops.Bind(ctx, m.module.Graph, ops.Binding{Shapes: c.shapes, Dims: c.dims})
	if err != nil {
		return nil, c.atInput(err)
	}
	bound := *m.module
	bound.Graph, bound.Holds, bound.Operators = g, nil, nil
	return &bound, nil
}

// SaveOptions change how a model is written.
type SaveOptions struct {
	// External is the size in bytes from which weights go to a data file beside
	// the model; 0 keeps them in the model up to the format's 2 GiB.
	External int64
	// Metadata is added to the model's metadata.
	Metadata map[string]string
	// Context ends saving, which then leaves the files as they were. Nil never does.
	Context context.Context
	// MaxMemory limits the memory of the process while the model is written, as [WithMaxMemory] does for other operations;
	// 0 is the default.
	MaxMemory int64
	// Temporary files are for this process or the next, not brought to the disk: a failure of the system may leave them broken.
	// That is most of the time in which a large model is written.
	Temporary bool
}

// DataFiles lists the files beside the model file at path in which it keeps weights; none if path is no model file.
func DataFiles(path string) []string {
	files, _ := onnxexport.DataFiles(context.Background(), path)
	return files
}

// Save writes the model as an ONNX file and, if necessary, weights to a file PATH.HASH.data beside it, named by a hash of
// its content. An existing file, or the target of a link, is replaced when all is complete, and keeps its permissions; a
// process that ends at any moment leaves the old model and its weights or the new ones. Data files of the model that was
// replaced are removed last, if they are named after it and every file in the folder is known not to refer to them: it is read and is another model or
// none. Models in other folders are not looked for. What is no regular file or is read-only, and
// a missing folder, is refused with a [*TargetError] before anything is written.
func (m *Model) Save(path string, o SaveOptions) error {
	_, err := using(m.lifetime(), func() (struct{}, error) {
		ctx := o.Context
		switch {
		case o.MaxMemory < 0:
			return struct{}{}, &OptionError{Option: "SaveOptions.MaxMemory", Got: fmt.Sprint(o.MaxMemory), Want: "a number of bytes, or 0 for the default"}
		case o.MaxMemory > 0:
			ctx = ndarray.Budget(o.MaxMemory).In(ctx)
		}
		return struct{}{}, onnxexport.Save(m.module, path, onnxexport.Options{Context: ctx, External: o.External, Metadata: o.Metadata, Temporary: o.Temporary, Check: m.life.share.files.check})
	})
	return rescue.WithCause(o.Context, err)
}

// RunValues compiles the model for the shapes of the inputs, unless it did before, and runs it once.
// The results are fresh memory. Options of compiling tell programs apart; see [WithPrograms]
// for how many are kept, and programs.go for which:
//
// While fewer are kept, each set of input shapes gets a program of its own. Further ones run in
// one program whose dimensions are open, which is not compiled again, but may be slower and
// round differently. A set that recurs while a kept program is not used replaces that program.
//
// Calls that need the same program wait for one compilation; it ends early when none of them
// waits any more. Other calls do not wait. Where a device is lost, the programs for it are compiled again by later calls.
func (m *Model) RunValues(ctx context.Context, inputs map[string]ndarray.Value, opts ...Option) (_ map[string]ndarray.Value, err error) {
	defer rescue.Into(&err)
	p, err := m.programFor(ctx, inputs, opts)
	if err != nil {
		return nil, err
	}
	out, err := p.RunValues(ctx, inputs)
	if lost := backend.Lost(nil); errors.As(err, &lost) && lost.IsLost() {
		m.kept.drop(p)
	}
	return out, err
}
