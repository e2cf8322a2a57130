package sysmem

import (
	"context"
	"errors"
	"runtime"
	"runtime/debug"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// touched is memory that is resident.
func touched(n int) []byte {
	b := make([]byte, n)
	for i := 0; i < n; i += 4096 {
		b[i] = 1
	}
	return b
}

// fresh is a budget of so many bytes more than are in use.
func fresh(t *testing.T, bytes int64) Budget {
	debug.FreeOSMemory()
	require.NoError(t, Budget(0).Check("the test"))
	return Budget(used.Load() + bytes)
}

// TestBudgetEnds: what is asked for in pieces ends at the limit, with an error that says all there is to know.
func TestBudgetEnds(t *testing.T) {
	for _, piece := range []int{1000, 1 << 16, 1 << 20, 20 << 20} {
		b, held := fresh(t, 64<<20), int64(0)
		var all [][]byte
		var err error
		for err == nil && held < 100<<20 {
			if err = b.Ask("a piece", int64(piece)); err == nil {
				all, held = append(all, touched(piece)), held+int64(piece)
			}
		}
		var full *Error
		require.ErrorAs(t, err, &full, "pieces of %d bytes", piece)
		assert.Equal(t, "a piece", full.What)
		assert.EqualValues(t, piece, full.Bytes)
		assert.Equal(t, b.Bytes(), full.Limit)
		assert.Greater(t, full.Live+full.Bytes, full.Limit)
		assert.ErrorContains(t, err, "WithMaxMemory, --max-memory of the command")
		assert.InDelta(t, 64<<20, held, 24<<20, "pieces of %d bytes", piece)
		assert.NotEmpty(t, all)
	}
}

// TestBudgetCountsGarbageOnce: what is dropped can be asked for again, however often.
func TestBudgetCountsGarbageOnce(t *testing.T) {
	b := fresh(t, 64<<20)
	for range 300 {
		require.NoError(t, b.Ask("garbage", 4<<20))
		touched(4 << 20)
		require.Less(t, resident()-atStart, b.Bytes()*11/10+8<<20)
	}
}

// TestBudgetOfConcurrentRuns: what others drop while memory is collected is no reason to refuse a request that fits beside what
// is in use.
func TestBudgetOfConcurrentRuns(t *testing.T) {
	const runs, piece = 16, 4 << 20
	b := fresh(t, runs*piece+32<<20)
	var all sync.WaitGroup
	for range runs {
		all.Go(func() {
			for range 100 {
				if !assert.NoError(t, b.Ask("garbage", piece)) {
					return
				}
				touched(piece)
			}
		})
	}
	all.Wait()
}

// TestBudgetCountsGrants: what was granted and is not yet allocated counts until it is, or until it is old.
func TestBudgetCountsGrants(t *testing.T) {
	const piece = 90 << 20
	b := fresh(t, 128<<20)
	begin := time.Now()
	for range 3 {
		require.NoError(t, b.Ask("a piece that is not taken", piece))
	}
	assert.GreaterOrEqual(t, time.Since(begin), 2*grantAge, "two of the requests wait for the one before")
	held := touched(piece)
	var full *Error
	require.ErrorAs(t, b.Ask("a piece beside one that is taken", piece), &full)
	require.NoError(t, b.Ask("what fits beside it", 24<<20))
	runtime.KeepAlive(held)
}

// TestWaitsEndWithTheContext: a request that waits, for others or for memory that was granted and is not taken, ends with its
// context, and the next one is answered.
func TestWaitsEndWithTheContext(t *testing.T) {
	const piece = 90 << 20
	b := fresh(t, 128<<20)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	require.NoError(t, b.Ask("a piece that is not taken", piece))
	require.ErrorIs(t, b.AskContext(ended, "a piece beside it", piece), context.Canceled)
	require.Positive(t, untaken, "the piece was not waited for")
	require.NoError(t, b.AskContext(t.Context(), "a piece, after waiting", piece))

	measuring <- struct{}{}
	for name, wait := range map[string]func() error{
		"a request": func() error { return b.AskContext(ended, "a piece", unmeasured+1) },
		"a check":   func() error { return b.CheckContext(ended, "the test") },
	} {
		require.ErrorIs(t, wait(), context.Canceled, name)
	}
	<-measuring
	require.NoError(t, b.Check("the test"))
}

// TestBudgetIsNotMeasuredEachTime: small requests do not look at the process.
func TestBudgetIsNotMeasuredEachTime(t *testing.T) {
	b := fresh(t, 1<<30)
	granted.Store(0)
	const mark = 12345
	used.Store(mark)
	for range 1000 {
		require.NoError(t, b.Ask("a little", 4096))
	}
	assert.EqualValues(t, mark, used.Load())
	require.NoError(t, b.Ask("much", unmeasured))
	assert.NotEqualValues(t, mark, used.Load())
}

// TestBudgetsAreValues: a budget concerns those who have it, and may be above the default.
func TestBudgetsAreValues(t *testing.T) {
	above := Budget(Default() + 2<<40)
	ctx := above.In(context.Background())
	for _, c := range []struct {
		name   string
		b      Budget
		bytes  int64
		denied bool
	}{
		{"beyond the default", 0, Default() + 1, true},
		{"above the default", above, Default() + 1, false},
		{"the default after that", 0, Default() + 1, true},
		{"of a context", BudgetOf(ctx), Default() + 1, false},
		{"of a context without one", BudgetOf(context.Background()), Default() + 1, true},
		{"of no context", BudgetOf(nil), 1, false},
		{"a small one", 1000, 1001, true},
		{"nothing", 1, 0, false},
		{"less than nothing", -1, 1, false},
	} {
		err := c.b.Ask(c.name, c.bytes)
		var full *Error
		assert.Equal(t, c.denied, errors.As(err, &full), c.name)
	}
}

// BenchmarkAsk is what a request costs that is granted without measuring, and one that is not.
func BenchmarkAsk(b *testing.B) {
	for name, bytes := range map[string]int64{"small": 1, "large": unmeasured + 1} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if err := Budget(1<<60).Ask("memory", bytes); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
