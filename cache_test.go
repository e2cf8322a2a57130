package berth_test

import (
	"context"
	"fmt"
	"log"
	"maps"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth"
	"github.com/berth-onnx/berth/internal/program"
	"github.com/berth-onnx/berth/internal/shareddata"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
	"github.com/berth-onnx/berth/testmodels"
)

// A decoder takes the keys and values of the past as inputs. With a bound for their
// length a session keeps them: callers hand over the next token only.
func Example_caches() {
	ctx := context.Background()
	m := builtin("decoder") // ids [N,1], past_key0 [N,6,P,16], …
	p, err := m.Compile(ctx, berth.WithDim("N", 1), berth.WithBound("P", 128))
	if err != nil {
		log.Fatal(err)
	}
	s, err := p.NewSession()
	if err != nil {
		log.Fatal(err)
	}
	token := ndarray.Of([]int64{7}, 1, 1)
	for range 5 {
		out, err := s.RunValues(ctx, map[string]ndarray.Value{"ids": token})
		if err != nil {
			log.Fatal(err)
		}
		token.SetInt(0, best(out["scores"].(*ndarray.Array)))
	}
	past, err := s.Cache("past_key0")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(len(p.Caches()), "caches, each as long as", past)
	s.Reset() // another text
	// Output:
	// 8 caches, each as long as float32[1,6,5,16]
}

// best is the token with the highest score.
func best(scores *ndarray.Array) int64 {
	at := 0
	for i := range scores.Len() {
		if scores.Float(i) > scores.Float(at) {
			at = i
		}
	}
	return int64(at)
}

// decoder is a model that takes its caches as inputs and gives them back longer.
type decoder struct {
	name, token string
	rows        int // sequences
	first       int // tokens of the first run
}

var decoders = []decoder{
	{"gpt2_mini_kv", "input_ids", 1, 1},
	{"gpt2_mini_kv", "input_ids", 1, 5},
	{"builtin:decoder", "ids", 1, 1},
	{"builtin:decoder", "ids", 3, 1},
}

func (d decoder) compile(t testing.TB, threads int, bound int64) *berth.Program {
	m := openDecoder(t, d.name)
	opts := []berth.Option{berth.WithBound("P", bound), berth.WithThreads(threads)}
	if strings.HasPrefix(d.name, "builtin:") {
		opts = append(opts, berth.WithDim("N", int64(d.rows)))
	}
	p, err := m.Compile(context.Background(), opts...)
	require.NoError(t, err)
	require.NotEmpty(t, p.Caches())
	return p
}

// tokens are the inputs of run i but the caches.
func (d decoder) tokens(i int) map[string]ndarray.Value {
	n := 1
	if i == 0 {
		n = d.first
	}
	ids := ndarray.Must(ndarray.Int64, d.rows, n)
	for k := range ids.Len() {
		ids.SetInt(k, int64(i*7+k)%500)
	}
	return map[string]ndarray.Value{d.token: ids}
}

func openDecoder(t testing.TB, name string) *berth.Model {
	if builtin, ok := strings.CutPrefix(name, "builtin:"); ok {
		m, err := testmodels.Build(builtin)
		require.NoError(t, err)
		return berth.FromModule(m)
	}
	m, err := berth.Open(shareddata.Path(t, "models", name, "model.onnx"))
	require.NoError(t, err)
	t.Cleanup(func() { _ = m.Close() })
	return m
}

// TestSessionKeepsCaches: every run gives what the same run with the caches handed
// over does, and no byte of the old caches is copied.
func TestSessionKeepsCaches(t *testing.T) {
	ctx := context.Background()
	const runs = 20
	for _, d := range decoders {
		for _, threads := range []int{1, 2} {
			t.Run(fmt.Sprint(d.name, " ", d.rows, " ", d.first, " ", threads), func(t *testing.T) {
				p := d.compile(t, threads, int64(runs-1+d.first))
				kept, err := p.NewSession()
				require.NoError(t, err)
				kept.Poison(true)
				past := caches(t, p, kept) // empty
				for i := range runs {
					all := d.tokens(i)
					for k, v := range past {
						all[k] = v
					}
					want, err := p.RunValues(ctx, all)
					require.NoError(t, err)
					got, err := kept.RunValues(ctx, d.tokens(i))
					require.NoError(t, err)
					assert.Zero(t, kept.Raw().Moved(), "bytes of a cache were copied in run %d", i)
					past = caches(t, p, kept)
					for _, c := range p.Caches() {
						requireClose(t, want[c.Output], past[c.Input])
						require.NotContains(t, got, c.Output)
						delete(want, c.Output)
					}
					require.Len(t, got, len(want))
					for k := range want {
						requireClose(t, want[k], got[k])
					}
				}
				_, err = kept.RunValues(ctx, d.tokens(1))
				var full *program.CacheError
				require.ErrorAs(t, err, &full, "the bound")
				assert.Equal(t, past, caches(t, p, kept), "a run that fails changes nothing")
				kept.Reset()
				_, err = kept.RunValues(ctx, d.tokens(0))
				require.NoError(t, err)
			})
		}
	}
}

// TestSessionCachesOfEndedRuns: a run that ends early leaves the caches as they were,
// wherever it ends.
func TestSessionCachesOfEndedRuns(t *testing.T) {
	d := decoders[3]
	p := d.compile(t, 1, 8)
	s, err := p.NewSession()
	require.NoError(t, err)
	want, err := p.NewSession()
	require.NoError(t, err)
	for i := range 3 {
		_, err = want.RunValues(context.Background(), d.tokens(i))
		require.NoError(t, err)
	}
	steps := 0
	s.Observe(func(berth.Step, []ndarray.Value) { steps++ })
	_, err = s.RunValues(context.Background(), d.tokens(0))
	require.NoError(t, err)
	s.Reset()
	for i := range 3 {
		for stop := 0; stop < steps-1; stop += 7 {
			ctx, cancel := context.WithCancel(context.Background())
			left := stop
			s.Observe(func(berth.Step, []ndarray.Value) {
				if left--; left < 0 {
					cancel()
				}
			})
			_, err = s.RunValues(ctx, d.tokens(i+10)) // tokens that do not come
			require.ErrorIs(t, err, context.Canceled)
			assert.Equal(t, i, s.Raw().CacheRows(0))
		}
		s.Observe(nil)
		_, err = s.RunValues(context.Background(), d.tokens(i))
		require.NoError(t, err)
	}
	assert.Equal(t, caches(t, p, want), caches(t, p, s))
}

// TestSetCache: a session goes on from the caches of another.
func TestSetCache(t *testing.T) {
	ctx := context.Background()
	d := decoders[3]
	p := d.compile(t, 1, 8)
	a, err := p.NewSession()
	require.NoError(t, err)
	_, err = a.RunValues(ctx, d.tokens(0))
	require.NoError(t, err)
	b, err := p.NewSession()
	require.NoError(t, err)
	for k, v := range caches(t, p, a) {
		require.NoError(t, b.SetCache(k, v.(*ndarray.Array)))
	}
	x, err := a.RunValues(ctx, d.tokens(1))
	require.NoError(t, err)
	y, err := b.RunValues(ctx, d.tokens(1))
	require.NoError(t, err)
	assert.Equal(t, x, y)
	require.ErrorContains(t, b.SetCache("ids", ndarray.Must(ndarray.Float32, 1)), "past_key0")
}

// TestBounds: invalid bounds are errors, and a program without a
// session keeps nothing.
func TestBounds(t *testing.T) {
	ctx := context.Background()
	m := openDecoder(t, "builtin:decoder")
	for _, c := range []struct {
		symbol string
		bound  int64
		want   string
	}{{"P", 0, `WithBound("P", 0)`}, {"P", math.MinInt64, "at least 1"}, {"Q", 4, `WithBound("Q", 4): want a dimension of an input`}} {
		_, err := m.Compile(ctx, berth.WithBound(c.symbol, c.bound))
		require.ErrorContains(t, err, c.want)
	}
	p := decoders[3].compile(t, 1, 8)
	_, err := p.RunValues(ctx, decoders[3].tokens(0))
	var missing *program.InputError
	require.ErrorAs(t, err, &missing)
	assert.Equal(t, "past_key0", missing.Name)
	open, err := m.Compile(ctx, berth.WithDim("N", 1))
	require.NoError(t, err)
	assert.Empty(t, open.Caches(), "no bound, no caches")
}

// caches copies what a session keeps.
func caches(t testing.TB, p *berth.Program, s *berth.Session) map[string]ndarray.Value {
	out := map[string]ndarray.Value{}
	for _, c := range p.Caches() {
		a, err := s.Cache(c.Input)
		require.NoError(t, err)
		out[c.Input] = a
	}
	return out
}

func requireClose(t *testing.T, want, got ndarray.Value) {
	t.Helper()
	a, b := want.(*ndarray.Array), got.(*ndarray.Array)
	require.Equal(t, a.Shape, b.Shape)
	for i := range a.Len() {
		require.InDelta(t, a.Float(i), b.Float(i), 1e-4)
	}
}

// TestCompareCarriedCaches: a loop that updates rows of a cache it carries copies
// none of it from one iteration to the next.
func TestCompareCarriedCaches(t *testing.T) {
	for _, update := range []string{
		`const %one: int64[1] = [1] const %both: int64[4] = [1, 2, 1, 8] %row = Expand(%r, %both) %at = Reshape(%i, %one) %n = TensorScatter(%c, %row, %at)`,
		`const %zero: int64[1] = [0] const %two: int64[2] = [0, 0] const %shape: int64[2] = [1, 3] const %eight: int64[2] = [1, 8]
			%a = Unsqueeze(%i, %zero) %at = Concat(%two, %a) [axis=0] %ix = Reshape(%at, %shape) %flat = Reshape(%r, %eight) %n = ScatterND(%c, %ix, %flat)`,
	} {
		g, err := ssa.ParseGraph(`graph "g" { in %m: int64[] in %x: float32[1,2,64,8] in %y: float32[1,1,1,8] const %true: bool[] = true
			%c2, %last = Loop(%m, %true, %x, %y) { body: graph "b" {
				in %i: int64[] in %go: bool[] in %c: float32[1,2,64,8] in %r: float32[1,1,1,8]
				` + update + ` %s = Tanh(%r) out %go, %n, %s } } out %c2, %last }`)
		require.NoError(t, err)
		require.NoError(t, ops.InferGraph(g))
		m := berth.FromModule(&ssa.Module{Graph: g})
		rows, err := m.Compare(context.Background(), berth.CompareOptions{})
		require.NoError(t, err)
		for _, r := range rows {
			require.NoError(t, r.Err)
			assert.Zero(t, r.LoopCopyBytes, r.Planner)
			if r.Planner != "naive" {
				assert.Less(t, r.ArenaBytes, int64(2*2*64*8*4), "%s: the cache has one place", r.Planner)
			}
		}
	}
}

// BenchmarkDecoder times 200 tokens one after the other, and reports the time of one:
// with caches that the session keeps, and with caches that are handed over and back
// (between two sessions, as results are valid until the next run).
func BenchmarkDecoder(b *testing.B) {
	ctx := context.Background()
	const tokens = 200
	for _, d := range []decoder{decoders[0], decoders[2]} {
		p := d.compile(b, 1, tokens)
		var turns [2]*berth.Session
		for i := range turns {
			var err error
			turns[i], err = p.NewSession()
			require.NoError(b, err)
		}
		b.Run(d.name+"/kept", func(b *testing.B) {
			for b.Loop() {
				turns[0].Reset()
				for i := range tokens {
					_, err := turns[0].RunValues(ctx, d.tokens(i))
					require.NoError(b, err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N*tokens), "µs/token")
		})
		turns[0].Reset()
		empty := caches(b, p, turns[0])
		b.Run(d.name+"/handed over", func(b *testing.B) {
			for b.Loop() {
				past := empty
				for i := range tokens {
					all := d.tokens(i)
					maps.Copy(all, past)
					out, err := turns[i%2].RunValues(ctx, all)
					require.NoError(b, err)
					past = map[string]ndarray.Value{}
					for _, c := range p.Caches() {
						past[c.Input] = out[c.Output]
					}
				}
			}
			b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N*tokens), "µs/token")
		})
	}
}
