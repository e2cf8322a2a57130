package berth_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"runtime/metrics"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth"
	"github.com/berth-onnx/berth/internal/conformance"
	"github.com/berth-onnx/berth/internal/graphgen"
	"github.com/berth-onnx/berth/internal/hostile"
	"github.com/berth-onnx/berth/internal/onnxexport"
	"github.com/berth-onnx/berth/internal/onnxwire"
	"github.com/berth-onnx/berth/internal/shareddata"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/testmodels"
)

// Limits of the watchdog: what a model may take, and what the process may hold above that.
const (
	pipelineTime   = 2 * time.Second
	pipelineGrace  = 2 * time.Second
	pipelineMemory = 256 << 20
	memoryMargin   = 512 << 20
)

// watched runs the whole pipeline on a model file: import, optimize, compile in several ways, run, save, open again. Errors
// are fine; a panic, a step that outlasts its context by two seconds, and memory above the limit are not. The result is
// the first error of any step.
func watched(t testing.TB, name string, data []byte) error {
	t.Helper()
	return watchedOpen(t, name, pipelineTime, func() (*berth.Model, error) { return berth.Parse(data) })
}

func watchedOpen(t testing.TB, name string, limit time.Duration, open func() (*berth.Model, error)) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	file := filepath.Join(t.TempDir(), "saved.onnx")
	done := make(chan error, 1)
	go func() { done <- pipeline(ctx, open, file) }()
	late, tick := time.After(limit+pipelineGrace), time.NewTicker(20*time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case err := <-done:
			var p *ops.PanicError
			if errors.As(err, &p) {
				t.Fatalf("%s: %v\n%s", name, err, p.Stack)
			}
			if err != nil && strings.Contains(err.Error(), "internal error") {
				t.Fatalf("%s: %v", name, err)
			}
			return err
		case <-late:
			t.Fatalf("%s: not done %v after its context\n%s", name, pipelineGrace, stacks())
		case <-tick.C:
			heap := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
			if metrics.Read(heap); heap[0].Value.Uint64() > pipelineMemory+memoryMargin {
				t.Fatalf("%s: %d bytes of heap, the limit is %d\n%s", name, heap[0].Value.Uint64(), pipelineMemory, stacks())
			}
		}
	}
}

// stacks are those of all goroutines.
func stacks() []byte {
	b := make([]byte, 1<<20)
	return b[:runtime.Stack(b, true)]
}

func pipeline(ctx context.Context, open func() (*berth.Model, error), file string) error {
	m, err := open()
	if err != nil {
		return err
	}
	defer m.Close()
	berth.StatsOf(m.Graph())
	limit := berth.WithMaxMemory(pipelineMemory)
	o, _, err := m.Optimize(ctx, limit)
	if err == nil {
		if err = o.Save(file, berth.SaveOptions{}); err == nil {
			err = reopened(ctx, file, limit)
		}
	}
	for _, opts := range [][]berth.Option{{limit}, {limit, berth.WithoutPasses()}, {limit, berth.WithoutPasses(), berth.WithoutInPlace(), berth.WithBackend("reference")}, {limit, berth.WithParallelSafe(), berth.WithoutViews()}} {
		err = errors.Join(err, compileAndRun(ctx, m, opts))
	}
	_, cmpErr := m.Compare(ctx, berth.CompareOptions{Planners: []string{berth.DefaultPlanner()}})
	return errors.Join(err, cmpErr)
}

func reopened(ctx context.Context, file string, opts ...berth.Option) error {
	m, err := berth.Open(file)
	if err != nil {
		return fmt.Errorf("what was saved does not open: %w", err)
	}
	defer m.Close()
	return compileAndRun(ctx, m, opts)
}

func compileAndRun(ctx context.Context, m *berth.Model, opts []berth.Option) error {
	p, err := m.Compile(ctx, opts...)
	if err != nil {
		return err
	}
	for _, in := range m.Inputs() {
		typ := &in.Type
		for typ.Elem != nil {
			typ = typ.Elem
		}
		elements := 8.0 // bytes each
		for _, d := range typ.Shape {
			if n, ok := d.Const(); ok {
				elements *= float64(n)
			}
		}
		if elements > 16<<20 {
			return errors.New("inputs too large to try")
		}
	}
	in, err := graphgen.Inputs(rand.New(rand.NewPCG(1, 1)), m.Graph(), map[string]int64{})
	if err != nil {
		return nil // of a type, or with dimensions, that are not drawn
	}
	_, err = p.RunValues(ctx, byName(m, in))
	return err
}

// seedModels are small serialized models: those built in, the cases of testdata/regress, and the ONNX node tests where they
// are at hand.
func seedModels(t testing.TB) map[string][]byte {
	out := map[string][]byte{}
	for _, b := range testmodels.List() {
		w, err := onnxexport.Model(b.Build(), onnxexport.Options{})
		require.NoError(t, err)
		data, err := onnxwire.Marshal(w)
		require.NoError(t, err)
		if len(data) < 20_000 {
			out[b.Name] = data
		}
	}
	files, err := filepath.Glob("testdata/regress/*.onnx")
	require.NoError(t, err)
	for _, f := range files {
		data, err := os.ReadFile(f)
		require.NoError(t, err)
		out[filepath.Base(f)] = data
	}
	cases, err := conformance.Open(filepath.Join(shareddata.Root(), "onnx-conformance", "node.tar.gz"))
	if err != nil {
		return out
	}
	for _, c := range cases {
		if data, err := c.ModelBytes(); err == nil && len(data) < 20_000 {
			out[c.Name] = data
		}
	}
	return out
}

// TestRegressModels runs the pipeline on models that once brought it down.
func TestRegressModels(t *testing.T) {
	files, err := filepath.Glob("testdata/regress/*.onnx")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, f := range files {
		data, err := os.ReadFile(f)
		require.NoError(t, err)
		t.Run(filepath.Base(f), func(t *testing.T) { _ = watched(t, f, data) })
	}
}

// FuzzPipeline runs the pipeline on models changed field by field: one seed for every operator that a model begins with.
func FuzzPipeline(f *testing.F) {
	seeds, has := seedModels(f), map[string]bool{}
	for _, name := range slices.Sorted(maps.Keys(seeds)) {
		data := seeds[name]
		if w, err := onnxwire.Parse(data); err != nil || len(w.Graph.Nodes) == 0 || has[w.Graph.Nodes[0].OpType] {
			continue
		} else {
			has[w.Graph.Nodes[0].OpType] = true
		}
		f.Add(data, uint64(len(name)))
	}
	f.Fuzz(func(t *testing.T, data []byte, seed uint64) {
		if len(data) > 1<<16 {
			return
		}
		if seed != 0 {
			data = hostile.Mutate(rand.New(rand.NewPCG(seed, 0)), data)
		}
		_ = watched(t, fmt.Sprintf("seed %d", seed), data)
	})
}

// TestMutated runs the pipeline on seed models changed field by field, as many as BERTH_FUZZ says, from the seed
// BERTH_FUZZ_SEED on: the same models on every machine. It tries many more than FuzzPipeline does in the same time, as it
// follows no coverage.
func TestMutated(t *testing.T) {
	seeds := seedModels(t)
	names := slices.Sorted(maps.Keys(seeds))
	first, models := numberFrom(t, "BERTH_FUZZ_SEED", 1), numberFrom(t, "BERTH_FUZZ", 800)
	tried, opened := 0, 0
	for seed := first; seed < first+models; seed++ {
		rng := rand.New(rand.NewPCG(seed, 0))
		name := names[rng.IntN(len(names))]
		if err := watched(t, fmt.Sprintf("%s, BERTH_FUZZ_SEED=%d", name, seed), hostile.Mutate(rng, seeds[name])); err == nil {
			opened++
		}
		tried++
	}
	t.Logf("%d models, %d went through", tried, opened)
}

// numberFrom is the number in a variable of the environment, or a default.
func numberFrom(t testing.TB, variable string, otherwise uint64) uint64 {
	n, err := strconv.ParseUint(cmp.Or(os.Getenv(variable), strconv.FormatUint(otherwise, 10)), 10, 64)
	require.NoError(t, err)
	return n
}

// lengthFrom is how long a test lasts: what a variable of the environment says, or 3 seconds.
func lengthFrom(t testing.TB, variable string) time.Duration {
	length, err := time.ParseDuration(cmp.Or(os.Getenv(variable), "3s"))
	require.NoError(t, err)
	return length
}

// TestAbsent takes each operand and each result of every node of the seed models away, one at a time: the import refuses
// those that are required and names them; all others go through the whole pipeline.
func TestAbsent(t *testing.T) {
	perOperator := map[string]int{}
	refused, through := 0, 0
	seeds := seedModels(t)
	for _, name := range slices.Sorted(maps.Keys(seeds)) {
		data := seeds[name]
		w, err := onnxwire.Parse(data)
		require.NoError(t, err)
		for _, n := range w.Graph.Nodes {
			o := ops.Lookup(n.Domain, n.OpType)
			if key := n.Domain + n.OpType; o == nil || perOperator[key] >= absentModels {
				continue
			} else {
				perOperator[key]++
			}
			for _, side := range []struct {
				kind  string
				names []string
			}{{"operand", n.Inputs}, {"result", n.Outputs}} {
				for i, old := range side.names {
					outputs := w.Graph.Outputs
					others := slices.DeleteFunc(slices.Clone(outputs), func(v *onnxwire.ValueInfo) bool { return side.kind == "result" && v.Name == old })
					if old == "" || len(others) == 0 {
						continue
					}
					side.names[i], w.Graph.Outputs = "", others
					changed, err := onnxwire.Marshal(w)
					side.names[i], w.Graph.Outputs = old, outputs
					require.NoError(t, err)
					what := fmt.Sprintf("%s: %s, %s %d absent", name, n.OpType, side.kind, i)
					err = watched(t, what, changed)
					required := i < o.MinIn
					if side.kind == "result" {
						required = i < o.MinOut
					}
					switch {
					case err == nil:
						through++
					case required && strings.Contains(err.Error(), fmt.Sprintf("%s %d is required and absent", side.kind, i)):
						refused++
					case !required:
						t.Logf("%s: %v", what, err)
					}
				}
			}
		}
	}
	t.Logf("%d operators, %d refused, %d went through", len(perOperator), refused, through)
	require.Positive(t, refused)
	require.Positive(t, through)
}

// absentModels is how many nodes of an operator are tried.
const absentModels = 2

// TestRequiredOperands has the import refuse every operator without each of its required operands and results.
func TestRequiredOperands(t *testing.T) {
	for _, o := range ops.All() {
		if o.Domain == ops.Private {
			continue // files hold none: there they are unknown operators
		}
		w := &onnxwire.Model{IRVersion: 10, OpsetImports: []*onnxwire.OperatorSetID{{Domain: o.Domain, Version: int64(o.Since)}}, Graph: &onnxwire.Graph{Name: "g"}}
		if o.Domain != "" {
			w.OpsetImports = append(w.OpsetImports, &onnxwire.OperatorSetID{Version: 23})
		}
		n := &onnxwire.Node{Name: "node", OpType: o.Name, Domain: o.Domain}
		w.Graph.Nodes = []*onnxwire.Node{n}
		for i := range max(o.MinIn, o.OptionalIn+1) {
			if i >= o.MinIn && o.MaxIn >= 0 {
				break
			}
			name := fmt.Sprint("x", i)
			n.Inputs = append(n.Inputs, name)
			w.Graph.Inputs = append(w.Graph.Inputs, &onnxwire.ValueInfo{Name: name, Type: &onnxwire.Type{Tensor: &onnxwire.TensorType{ElemType: onnxwire.TypeFloat}}})
		}
		for i := range o.MinOut {
			n.Outputs = append(n.Outputs, fmt.Sprint("y", i))
		}
		try := func(kind string, names []string, i int) {
			old := names[i]
			names[i] = ""
			data, err := onnxwire.Marshal(w)
			names[i] = old
			require.NoError(t, err)
			_, err = berth.Parse(data)
			require.Error(t, err, "%s without %s %d", o.Name, kind, i)
			require.NotContains(t, err.Error(), "internal error")
			require.Contains(t, err.Error(), o.Name, "%s without %s %d", o.Name, kind, i)
		}
		for i := range n.Inputs {
			if i >= o.OptionalIn {
				try("operand", n.Inputs, i)
			}
		}
		if o.MaxOut >= 0 {
			for i := range n.Outputs {
				try("result", n.Outputs, i)
			}
		}
	}
}

// TestHostileFiles opens files of every hostile kind and takes those that open through the pipeline: nothing crashes, lasts
// longer than its context allows, or takes more memory than its limit. What lies out of the model's folder is not read.
func TestHostileFiles(t *testing.T) {
	top := t.TempDir()
	dir := filepath.Join(top, "models")
	layTraps(t, top, dir)
	path := filepath.Join(dir, "model.onnx")
	opened := 0
	all := hostile.Kinds()
	for _, k := range all {
		require.NoError(t, os.WriteFile(path, k.Data, 0o644))
		for _, lenient := range []bool{false, true} {
			open := berth.Open
			if lenient {
				open = berth.OpenLenient
			}
			start := time.Now()
			err := watchedOpen(t, k.Name, time.Second, func() (*berth.Model, error) {
				m, err := open(path)
				if err == nil {
					m.Contents()
					opened++
				}
				return m, err
			})
			if d := time.Since(start); d > 2*time.Second {
				t.Logf("%s: %v: %.100v", k.Name, d, err)
			}
			if slices.Contains([]string{"twice/output", `external/length "-1"`, `external/path "hardlink-out"`, "attribute/unknown", "name/input empty"}, k.Name) && !lenient {
				require.Error(t, err, k.Name)
			}
			if refused := strings.HasPrefix(k.Name, "external/") && !strings.Contains(k.Name, `"weights.bin"`) && !strings.Contains(k.Name, `"model.onnx"`) && !strings.HasPrefix(k.Name, "external/offset") && !strings.HasPrefix(k.Name, "external/length"); refused {
				require.Error(t, err, k.Name)
			}
		}
	}
	t.Logf("%d kinds, %d opened", len(all), opened)
}

// layTraps makes the files that hostile external data names.
func layTraps(t *testing.T, top, dir string) {
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "folder"), 0o755))
	secret := filepath.Join(top, "secret")
	require.NoError(t, os.WriteFile(secret, make([]byte, 64), 0o644))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "weights.bin"), make([]byte, 12), 0o644))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "short.bin"), make([]byte, 3), 0o644))
	for _, err := range []error{os.Symlink(secret, filepath.Join(dir, "symlink-out")), os.Link(secret, filepath.Join(dir, "hardlink-out")), makePipe(filepath.Join(dir, "pipe"))} {
		if err != nil {
			t.Logf("not here: %v", err)
		}
	}
}

// TestLiterals: what a file holds as a Constant node stays a literal, also where the file is mapped.
func TestLiterals(t *testing.T) {
	tensor := func(name string, n int) *onnxwire.Tensor {
		return &onnxwire.Tensor{Name: name, DataType: onnxwire.TypeFloat, Dims: []int64{int64(n)}, RawData: make([]byte, 4*n)}
	}
	const length = 1 << 18
	w := &onnxwire.Model{IRVersion: 10, OpsetImports: []*onnxwire.OperatorSetID{{Version: 20}}, Graph: &onnxwire.Graph{Name: "g",
		Nodes: []*onnxwire.Node{{OpType: "Constant", Outputs: []string{"k"}, Attributes: []*onnxwire.Attribute{{Name: "value", Type: onnxwire.AttrTensor, T: tensor("", length)}}},
			{OpType: "Add", Inputs: []string{"k", "w"}, Outputs: []string{"y"}}},
		Initializers: []*onnxwire.Tensor{tensor("w", length)},
		Outputs:      []*onnxwire.ValueInfo{{Name: "y", Type: &onnxwire.Type{Tensor: &onnxwire.TensorType{ElemType: onnxwire.TypeFloat}}}}}}
	data, err := onnxwire.Marshal(w)
	require.NoError(t, err)
	path := filepath.Join(t.TempDir(), "literals.onnx")
	require.NoError(t, os.WriteFile(path, data, 0o600))
	m, err := berth.Open(path)
	require.NoError(t, err)
	defer m.Close()
	for _, v := range m.Graph().Nodes[0].In {
		require.Equal(t, v.Name == "k", v.Const.Literal(), v.Name)
	}
}
