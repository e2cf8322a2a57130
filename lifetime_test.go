package berth_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth"
	"github.com/berth-onnx/berth/internal/onnxwire"
	"github.com/berth-onnx/berth/internal/sysmem"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// weighty is a model whose file is large enough to be mapped, and which reads the mapping in
// all the ways there are: packed, gathered from, as it lies, handed on as a result. The
// elements of table are scaled, to tell models apart.
func weighty(scale float32) *ssa.Graph {
	g := ssa.NewGraph("weighty")
	noise := func(name string, shape ...int) *ssa.Value {
		a := ndarray.Must(ndarray.Float32, shape...)
		v := ndarray.Slice[float32](a)
		for i := range v {
			v[i] = scale * float32(i*7919%1009) / 1009
		}
		return g.AddConst(name, ssa.NewConstant(a))
	}
	table, w, bias := noise("table", 2000, 64), noise("w", 64, 3000), noise("bias", 3, 3000)
	ids := g.AddParam("ids", ssa.StaticTensor(ndarray.Int64, 3))
	n := g.AddParam("n", ssa.StaticTensor(ndarray.Int64, 2))
	rows := g.NewNode("Gather", []*ssa.Value{table, ids}, 1)
	product := g.NewNode("MatMul", []*ssa.Value{rows.Out[0], w}, 1)
	sum := g.NewNode("Add", []*ssa.Value{product.Out[0], bias}, 1)
	turned := g.NewNode("Reshape", []*ssa.Value{bias, n}, 1)
	squares := make([]*ssa.Value, 48) // so many that several goroutines prepare them
	for i := range squares {
		squares[i] = g.NewNode("MatMul", []*ssa.Value{rows.Out[0], noise(fmt.Sprint("square", i), 64, 64)}, 1).Out[0]
	}
	joined := g.NewNode("Concat", squares, 1, ssa.IntAttr("axis", 0))
	g.Results = []*ssa.Value{sum.Out[0], bias, turned.Out[0], rows.Out[0], joined.Out[0]}
	for i, name := range []string{"sum", "bias.out", "turned", "rows", "squares"} {
		if g.Results[i] == bias {
			g.Results[i] = g.NewNode("Identity", []*ssa.Value{bias}, 1).Out[0]
		}
		g.Results[i].Name = name
	}
	for _, n := range g.Nodes {
		if err := ops.Infer(n); err != nil {
			panic(err)
		}
	}
	return g
}

// weightyFile writes the model, with its weights in the file or beside it, and returns the
// paths of what is mapped.
func weightyFile(t testing.TB, scale float32, external bool) (path string, mapped []string) {
	path = filepath.Join(t.TempDir(), "weighty.onnx")
	o := berth.SaveOptions{}
	mapped = []string{path}
	if external {
		o.External = 1
	}
	m := berth.FromModule(&ssa.Module{Graph: weighty(scale), Opsets: []ssa.Opset{{Version: 21}}, IR: 10})
	require.NoError(t, m.Save(path, o))
	if external {
		mapped = berth.DataFiles(path)
	}
	return path, mapped
}

func weightyInputs() map[string]ndarray.Value {
	return map[string]ndarray.Value{"ids": ndarray.Of([]int64{5, 1999, 0}, 3), "n": ndarray.Of([]int64{-1, 9}, 2)}
}

// useEverything lists all ways to use a model, what was made before given.
func useEverything(m *berth.Model, p *berth.Program, s *berth.Session, g *ssa.Graph, dir string) map[string]func() error {
	ctx := context.Background()
	in := weightyInputs()
	args := []ndarray.Value{in["ids"], in["n"]}
	return map[string]func() error{
		"Model.RunValues":   func() error { _, err := m.RunValues(ctx, in); return err },
		"Model.Compile":     func() error { _, err := m.Compile(ctx, berth.WithoutPasses(), berth.WithThreads(2)); return err },
		"Model.Optimize":    func() error { _, _, err := m.Optimize(ctx); return err },
		"Model.Save":        func() error { return m.Save(filepath.Join(dir, "saved.onnx"), berth.SaveOptions{}) },
		"Model.Save data":   func() error { return m.Save(filepath.Join(dir, "other.onnx"), berth.SaveOptions{External: 1}) },
		"Model.Compare":     func() error { _, err := m.Compare(ctx, berth.CompareOptions{Workspace: true}); return err },
		"Model.Trace":       func() error { _, err := m.Trace(ctx, in); return err },
		"Model.Folded":      func() error { _, err := m.Folded(ctx); return err },
		"Model.Write":       func() error { return m.WriteInstance(ctx, io.Discard) },
		"Program.RunValues": func() error { _, err := p.RunValues(ctx, in); return err },
		"Program.Arguments": func() error { _, err := p.Arguments(in); return err },
		"NewSession":        func() error { _, err := p.NewSession(); return err },
		"NewSessionContext": func() error { _, err := p.NewSessionContext(ctx); return err },
		"NewSessionIn":      func() error { _, err := p.NewSessionIn(berth.NewArena()); return err },
		"Session.Run":       func() error { _, err := s.Run(ctx, args); return err },
		"Session.RunValues": func() error { _, err := s.RunValues(ctx, in); return err },
		"Session.Reset":     func() error { return s.Reset() },
		"Graph": func() error {
			for _, v := range g.Values() {
				if v != nil && v.Const != nil {
					if _, err := v.Const.Array(); err != nil {
						return err
					}
				}
			}
			return nil
		},
	}
}

// opened makes what [useEverything] takes.
func opened(path string, opts ...berth.Option) (m *berth.Model, p *berth.Program, s *berth.Session, err error) {
	if m, err = berth.Open(path, opts...); err != nil {
		return nil, nil, nil, err
	}
	if p, err = m.Compile(context.Background()); err == nil {
		s, err = p.NewSession()
	}
	return m, p, s, err
}

// TestClosed: everything fails after Close, with ErrClosed, and what was delivered stays.
func TestClosed(t *testing.T) {
	for _, external := range []bool{false, true} {
		for _, opts := range [][]berth.Option{nil, {berth.WithoutMapping()}} {
			path, _ := weightyFile(t, 1, external)
			m, p, s, err := opened(path, opts...)
			require.NoError(t, err)
			args := []ndarray.Value{weightyInputs()["ids"], weightyInputs()["n"]}
			out, err := s.Run(t.Context(), args)
			require.NoError(t, err)
			fresh, err := p.RunValues(t.Context(), weightyInputs())
			require.NoError(t, err)
			require.NoError(t, m.Close())
			require.NoError(t, m.Close(), "closing twice does nothing")
			for i, name := range []string{"sum", "bias.out", "turned", "rows"} {
				assert.Equal(t, fresh[name].(*ndarray.Array).Data, out[i].(*ndarray.Array).Data, name)
			}
			for name, use := range useEverything(m, p, s, m.Graph(), t.TempDir()) {
				if err := use(); name != "Graph" || opts == nil {
					assert.ErrorIs(t, err, berth.ErrClosed, name)
				}
			}
			assert.True(t, m.Stats().Closed)
			assert.Zero(t, m.Stats().MappedBytes)
		}
	}
}

// TestClosedFirst: calls with inputs that do not fit fail with ErrClosed, too; a model that is opened in the place of the closed one may take them.
func TestClosedFirst(t *testing.T) {
	m := fromText(t, `graph "g" { in %h: float32[2] %n = Neg(%h) out %n }`)
	p, err := m.Compile(t.Context(), berth.WithState("h", "n"))
	require.NoError(t, err)
	require.NoError(t, m.Close())
	for _, in := range []map[string]ndarray.Value{nil, {"other": floats(0, 2)}, {"h": floats(0, 3)}} {
		_, err := m.RunValues(t.Context(), in)
		require.ErrorIs(t, err, berth.ErrClosed)
		_, err = p.RunValues(t.Context(), in)
		require.ErrorIs(t, err, berth.ErrClosed)
		require.ErrorIs(t, p.RunInto(t.Context(), in, nil), berth.ErrClosed)
	}
}

// TestExtendLifetime: constants of a mapped file that a change of a graph keeps can be read while the new model is open, and the
// new model reads the file itself.
func TestExtendLifetime(t *testing.T) {
	path, _ := weightyFile(t, 1, false)
	m, p, _, err := opened(path)
	require.NoError(t, err)
	want, err := p.RunValues(t.Context(), weightyInputs())
	require.NoError(t, err)
	var kept []*ssa.Constant
	extended, err := m.Extend(t.Context(), func(_ context.Context, g *ssa.Graph) error {
		for _, v := range g.Values() {
			if v.Const != nil {
				kept = append(kept, v.Const)
			}
		}
		return nil
	})
	require.NoError(t, err)
	require.NoError(t, m.Close())
	a, err := kept[0].Array()
	require.NoError(t, err)
	assert.False(t, sysmem.IsMapped(a.Data))
	got, err := extended.RunValues(t.Context(), weightyInputs())
	require.NoError(t, err)
	assert.Equal(t, want, got)
	assert.NotZero(t, extended.Stats().MappedBytes)
	require.NoError(t, extended.Close())
	for _, c := range kept[1:] {
		_, err := c.Array()
		require.ErrorIs(t, err, berth.ErrClosed)
	}
}

// TestCloseMeanwhile closes a model while all that can be done with it is being done: each
// call ends as ever, or with ErrClosed.
func TestCloseMeanwhile(t *testing.T) {
	for round := range 4 {
		path, _ := weightyFile(t, 1, round%2 == 1)
		m, p, s, err := opened(path)
		require.NoError(t, err)
		var wg sync.WaitGroup
		var begun atomic.Int64
		for name, use := range useEverything(m, p, s, m.Graph(), t.TempDir()) {
			wg.Go(func() {
				for {
					begun.Add(1)
					if err := use(); err != nil && !errors.Is(err, berth.ErrSessionInUse) {
						assert.ErrorIs(t, err, berth.ErrClosed, name)
						return
					} else if name == "Graph" { // constants are copied once
						return
					}
				}
			})
		}
		for begun.Load() < 40 {
			time.Sleep(time.Millisecond)
		}
		require.NoError(t, m.Close())
		wg.Wait()
	}
}

// TestModelsShareFiles: a model and the one optimized from it are closed in any order.
func TestModelsShareFiles(t *testing.T) {
	for _, first := range []int{0, 1} {
		path, _ := weightyFile(t, 1, false)
		a, err := berth.Open(path)
		require.NoError(t, err)
		b, _, err := a.Optimize(t.Context())
		require.NoError(t, err)
		models := []*berth.Model{a, b}
		want, err := a.RunValues(t.Context(), weightyInputs())
		require.NoError(t, err)
		require.NoError(t, models[first].Close())
		got, err := models[1-first].RunValues(t.Context(), weightyInputs())
		require.NoError(t, err)
		assert.Equal(t, want, got)
		_, err = models[first].RunValues(t.Context(), weightyInputs())
		assert.ErrorIs(t, err, berth.ErrClosed)
		require.NoError(t, models[1-first].Close())
	}
}

// TestHotReload swaps the model that eight goroutines run, as a server does; README has the recipe. Each
// answer is that of one model as a whole.
func TestHotReload(t *testing.T) {
	var paths []string
	var want [][]byte
	for v := range 2 {
		path, _ := weightyFile(t, float32(v+1), v == 1)
		m, p, _, err := opened(path)
		require.NoError(t, err)
		out, err := p.RunValues(t.Context(), weightyInputs())
		require.NoError(t, err)
		paths, want = append(paths, path), append(want, out["sum"].(*ndarray.Array).Data)
		require.NoError(t, m.Close())
	}
	type version struct {
		n int
		m *berth.Model
		p *berth.Program
	}
	load := func(n int) *version {
		m, p, _, err := opened(paths[n])
		require.NoError(t, err)
		return &version{n, m, p}
	}
	var now atomic.Pointer[version]
	now.Store(load(0))
	done := make(chan struct{})
	var ran, late atomic.Int64
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				v := now.Load()
				out, err := v.p.RunValues(t.Context(), weightyInputs())
				if errors.Is(err, berth.ErrClosed) {
					late.Add(1)
					continue // the next try gets the new model
				}
				if assert.NoError(t, err) && assert.Equal(t, want[v.n], out["sum"].(*ndarray.Array).Data) {
					ran.Add(1)
				}
			}
		})
	}
	for i := range 12 {
		old := now.Swap(load((i + 1) % 2))
		require.NoError(t, old.m.Close())
	}
	for ran.Load() < 8 {
		time.Sleep(time.Millisecond)
	}
	close(done)
	wg.Wait()
	t.Logf("%d runs, %d met a closed model", ran.Load(), late.Load())
}

// changes are what may happen to a file that is mapped.
var changes = map[string]func(path string) error{
	"emptied":     func(path string) error { return os.Truncate(path, 0) },
	"halved":      func(path string) error { return resize(path, func(n int64) int64 { return n / 2 }) },
	"cut by one":  func(path string) error { return resize(path, func(n int64) int64 { return n - 1 }) },
	"longer":      func(path string) error { return resize(path, func(n int64) int64 { return n + 1 }) },
	"overwritten": overwrite,
	"rewritten": func(path string) error {
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		clear(data[len(data)/3:])
		return os.WriteFile(path, data, 0o600)
	},
}

func resize(path string, size func(int64) int64) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	return os.Truncate(path, size(info.Size()))
}

// overwrite changes bytes without changing the size.
func overwrite(path string) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	for at := int64(1 << 16); at < 1<<20; at += 1 << 12 {
		if _, err := f.WriteAt([]byte("changed."), at); err != nil {
			return err
		}
	}
	return nil
}

// isChild reports a child process of a test, which runs that test alone; it starts one in the test's own process.
func isChild(t *testing.T) bool {
	if os.Getenv("BERTH_TEST_CHILD") != "" {
		return true
	}
	cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
	cmd.Env = append(os.Environ(), "BERTH_TEST_CHILD=1")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	return false
}

// TestFileChanged: a file that is changed after it was opened ends no process. Every use is a
// FileChangedError or gives what the file held. A child process does it: a fault would end
// this one, and no recover stops it.
func TestFileChanged(t *testing.T) {
	if !isChild(t) {
		return
	}
	for _, external := range []bool{false, true} {
		for name, change := range changes {
			t.Run(fmt.Sprint(name, " external ", external), func(t *testing.T) { usesOfChanged(t, change, external) })
		}
	}
}

func usesOfChanged(t *testing.T, change func(string) error, external bool) {
	for _, mapping := range []bool{true, false} {
		path, mapped := weightyFile(t, 1, external)
		var opts []berth.Option
		if !mapping {
			opts = append(opts, berth.WithoutMapping())
		}
		m, p, s, err := opened(path, opts...)
		require.NoError(t, err)
		want, err := p.RunValues(t.Context(), weightyInputs())
		require.NoError(t, err)
		g := m.Graph()
		require.NoError(t, change(mapped[0]))
		time.Sleep(time.Millisecond)
		for name, use := range useEverything(m, p, s, g, t.TempDir()) {
			err := use()
			var changed *berth.FileChangedError
			if mapping && name != "Session.Reset" {
				require.ErrorAs(t, err, &changed, name)
				assert.Equal(t, mapped[0], changed.Path)
			} else if !mapping {
				require.NoError(t, err, name)
			}
		}
		if !mapping {
			got, err := p.RunValues(t.Context(), weightyInputs())
			require.NoError(t, err)
			require.Equal(t, want, got)
		}
		require.NoError(t, m.Close())
	}
}

// TestGraphsKeepNoCopies: the model keeps no copy of elements that a caller reads in its graph, however they lie in the file.
func TestGraphsKeepNoCopies(t *testing.T) {
	for n := range 4 {
		w := &onnxwire.Model{IRVersion: 10, ProducerName: strings.Repeat("p", n), OpsetImports: []*onnxwire.OperatorSetID{{Version: 20}}, Graph: &onnxwire.Graph{Name: "g",
			Nodes:        []*onnxwire.Node{{OpType: "Neg", Inputs: []string{"w"}, Outputs: []string{"y"}}},
			Initializers: []*onnxwire.Tensor{{Name: "w", DataType: onnxwire.TypeFloat, Dims: []int64{1 << 18}, RawData: bytes.Repeat([]byte{0, 1, 2, 3}, 1<<18)}},
			Outputs:      []*onnxwire.ValueInfo{{Name: "y", Type: &onnxwire.Type{Tensor: &onnxwire.TensorType{ElemType: onnxwire.TypeFloat}}}}}}
		data, err := onnxwire.Marshal(w)
		require.NoError(t, err)
		path := filepath.Join(t.TempDir(), "plain.onnx")
		require.NoError(t, os.WriteFile(path, data, 0o600))
		m, err := berth.Open(path)
		require.NoError(t, err)
		defer m.Close()
		read := func() *byte {
			a, err := m.Graph().Nodes[0].In[0].Const.Array()
			require.NoError(t, err)
			require.Equal(t, w.Graph.Initializers[0].RawData, a.Data)
			return &a.Data[0]
		}
		require.NotSame(t, read(), read(), "%d bytes more before them", n)
	}
}

// TestFileReplaced: a file that another one replaces by renaming stays what it was for who
// has it open.
func TestFileReplaced(t *testing.T) {
	path, _ := weightyFile(t, 1, false)
	other, _ := weightyFile(t, 2, false)
	m, p, _, err := opened(path)
	require.NoError(t, err)
	defer m.Close()
	want, err := p.RunValues(t.Context(), weightyInputs())
	require.NoError(t, err)
	require.NoError(t, os.Rename(other, path))
	time.Sleep(time.Millisecond)
	got, err := p.RunValues(t.Context(), weightyInputs())
	require.NoError(t, err)
	assert.Equal(t, want, got)
}

// TestDataChangedMeanwhile: what happens to a file of external data while goroutines run, compile, optimize and save ends in an error or in what was opened, whole.
// A child process does it, as in TestFileChanged.
func TestDataChangedMeanwhile(t *testing.T) {
	if !isChild(t) {
		return
	}
	_, other := weightyFile(t, 2, true)
	next, err := os.ReadFile(other[0])
	require.NoError(t, err)
	written := func(path string) error { // in pieces, as a copy by another process
		f, err := os.OpenFile(path, os.O_WRONLY, 0)
		if err != nil {
			return err
		}
		for at := 0; err == nil && at < len(next); at += 1 << 16 {
			_, err = f.WriteAt(next[at:min(at+1<<16, len(next))], int64(at))
		}
		return errors.Join(err, f.Close())
	}
	kept := map[string]func(string) error{ // the mapping stays what it was
		"removed": os.Remove,
		"replaced": func(path string) error {
			return errors.Join(os.WriteFile(path+".new", next, 0o600), os.Rename(path+".new", path))
		},
		"replaced by a shorter one": func(path string) error {
			return errors.Join(os.WriteFile(path+".new", next[:99], 0o600), os.Rename(path+".new", path))
		},
	}
	for name, change := range changes {
		t.Run(name, func(t *testing.T) { changedMeanwhile(t, change, false) })
	}
	t.Run("the next version", func(t *testing.T) { changedMeanwhile(t, written, false) })
	for name, change := range kept {
		t.Run(name, func(t *testing.T) { changedMeanwhile(t, change, true) })
	}
}

func changedMeanwhile(t *testing.T, change func(string) error, works bool) {
	path, data := weightyFile(t, 1, true)
	m, p, _, err := opened(path)
	require.NoError(t, err)
	want, err := p.RunValues(t.Context(), weightyInputs())
	require.NoError(t, err)
	plain, err := compiledAndRun(m, berth.WithoutPasses())
	require.NoError(t, err)
	wants := [...]map[string]ndarray.Value{want, want, nil, nil, want, plain}
	dir := t.TempDir()
	var changed atomic.Bool
	var wg sync.WaitGroup
	for i := range 6 {
		s, err := p.NewSession()
		require.NoError(t, err)
		wg.Go(func() {
			for after := 0; after < 3; {
				if changed.Load() {
					after++
				}
				var got map[string]ndarray.Value
				use := [...]func() error{
					func() (err error) { got, err = p.RunValues(context.Background(), weightyInputs()); return err },
					func() (err error) { got, err = s.RunValues(context.Background(), weightyInputs()); return err },
					func() (err error) { _, _, err = m.Optimize(context.Background()); return err },
					func() error { return m.Save(filepath.Join(dir, "saved.onnx"), berth.SaveOptions{}) },
					func() (err error) { got, err = compiledAndRun(m); return err },
					func() (err error) { got, err = compiledAndRun(m, berth.WithoutPasses()); return err },
				}[i]
				err := use()
				if now := new(berth.FileChangedError); errors.As(err, &now) && !works {
					continue
				}
				if !assert.NoError(t, err, "use %d", i) || got != nil && !assert.Equal(t, wants[i], got, "use %d", i) {
					return
				}
				if after > 0 && !works {
					assert.Fail(t, "no error", "use %d", i)
				}
			}
		})
	}
	time.Sleep(5 * time.Millisecond)
	assert.NoError(t, change(data[0]))
	time.Sleep(time.Millisecond)
	changed.Store(true)
	wg.Wait()
	assert.NoError(t, m.Close())
}

func compiledAndRun(m *berth.Model, opts ...berth.Option) (map[string]ndarray.Value, error) {
	p, err := m.Compile(context.Background(), opts...)
	if err != nil {
		return nil, err
	}
	return p.RunValues(context.Background(), weightyInputs())
}
