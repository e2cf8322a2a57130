package train_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/train"
)

// drawnOptions are options in any combination.
func drawnOptions(r *rand.Rand, m pytorchModel) train.Options {
	names := slices.Sorted(maps.Keys(optimizers))
	rates := []train.Schedule{nil, train.Constant(1e-3), train.Decay(1e-2, 0.5, 2), train.Cosine(1e-2, 1e-4, 5), train.Warmup(3, train.Constant(1e-3))}
	o := train.Options{Loss: m.loss, Optimizer: optimizers[names[r.IntN(len(names))]], Rate: rates[r.IntN(len(rates))], Accumulate: r.IntN(4), Seed: int64(r.IntN(3)),
		WithoutDropout: r.IntN(2) == 0, Compile: []berth.Option{berth.WithThreads(1)}}
	if r.IntN(2) == 0 {
		o.ClipNorm = 0.1 + r.Float64()
	}
	return o
}

// losses are those of a number of steps over the data of the model.
func losses(t *testing.T, tr *train.Trainer, m pytorchModel, steps int) (list []float64) {
	for range steps {
		loss, err := tr.Step(t.Context(), m.in...)
		require.NoError(t, err)
		list = append(list, loss)
	}
	return list
}

// TestRandomOptions: with drawn options, steps give the same numbers by two threads, within a budget, by weights that are named, and from a
// checkpoint on. BERTH_RANDOM says how many are drawn.
func TestRandomOptions(t *testing.T) {
	count := 6
	if n, err := strconv.Atoi(os.Getenv("BERTH_RANDOM")); err == nil {
		count = n
	}
	names := slices.Sorted(maps.Keys(pytorchModels))
	for seed := range uint64(count) {
		r := rand.New(rand.NewPCG(seed, 11))
		m := pytorchModels[names[r.IntN(len(names))]]
		o := drawnOptions(r, m)
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			made := func(change func(o *train.Options)) *train.Trainer {
				o := o
				change(&o)
				tr, err := train.New(t.Context(), parsed(t, m.text, m.weights), o)
				require.NoError(t, err)
				return tr
			}
			tr := made(func(*train.Options) {})
			want := losses(t, tr, m, 4)
			kept, err := tr.Checkpoint()
			require.NoError(t, err)
			want = append(want, losses(t, tr, m, 4)...)
			for name, change := range map[string]func(o *train.Options){
				"two threads": func(o *train.Options) { o.Compile = []berth.Option{berth.WithThreads(2)} },
				"a budget":    func(o *train.Options) { o.Budget = tr.Plan().ArenaBytes },
				"named":       func(o *train.Options) { o.Learn = tr.Learned() },
			} {
				assert.Equal(t, want, losses(t, made(change), m, 8), name)
			}
			again := made(func(*train.Options) {})
			require.NoError(t, again.Restore(kept))
			assert.Equal(t, want[4:], losses(t, again, m, 4), "restored")
			model, err := tr.Model()
			require.NoError(t, err)
			in := map[string]ndarray.Value{}
			for i, x := range model.Inputs() {
				in[x.Name] = m.in[i]
			}
			p, err := model.Compile(t.Context())
			require.NoError(t, err)
			_, err = p.RunValues(t.Context(), in)
			require.NoError(t, err)
		})
	}
}
