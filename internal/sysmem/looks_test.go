package sysmem

import (
	"context"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestLooksEndWhatGrows: an operation that asks for nothing, and looks at its context, ends at the limit: with the same error at each
// look from then on. The next operation begins anew, also within the context of the first.
func TestLooksEndWhatGrows(t *testing.T) {
	const room = 32 << 20
	b := fresh(t, room)
	ctx := b.In(context.Background())
	var kept [][]byte
	for range 64 {
		kept = append(kept, touched(1<<20))
		for start := time.Now(); time.Since(start) < 2*lookInterval; { // so that it measures
			_ = ctx.Err()
		}
		if ctx.Err() != nil {
			break
		}
	}
	taken := len(kept) << 20
	runtime.KeepAlive(kept)
	full := (*Error)(nil)
	require.ErrorAs(t, ctx.Err(), &full)
	require.Less(t, taken, room+int(b)/lookSlack+16<<20)
	require.Same(t, full, ctx.Err())
	require.NoError(t, b.In(ctx).Err())
}

// TestLooksCollect: garbage is no reason to end.
func TestLooksCollect(t *testing.T) {
	ctx := fresh(t, 64<<20).In(context.Background())
	for range 128 {
		runtime.KeepAlive(touched(2 << 20))
		for range 1_000 {
			require.NoError(t, ctx.Err())
		}
	}
}

// TestLooksOfOperationsWithin: an operation within the context of another one, which is beyond its budget, has its own budget alone, however
// many contexts are between; the end of a context around it is its end, too.
func TestLooksOfOperationsWithin(t *testing.T) {
	type key struct{}
	parent, end := context.WithCancel(t.Context())
	defer end()
	around := Budget(1).In(parent)
	around.(*bounded).full.Store(&Error{What: "another operation"})
	within := fresh(t, 64<<20).In(context.WithValue(around, key{}, 1))
	require.Error(t, around.Err())
	require.NoError(t, within.Err())
	end()
	require.Error(t, within.Err())
}
