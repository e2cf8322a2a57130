package program

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/berth-onnx/berth/backend"
	"github.com/berth-onnx/berth/internal/rescue"
	"github.com/berth-onnx/berth/internal/sysmem"
	"github.com/berth-onnx/berth/ndarray"
)

// Arena is memory that sessions of several programs share: it is as large as the
// largest of them needs, not the sum. A run locks it; other runs wait, until their context ends. The results of
// a run are valid until the next run of any session in the arena. A hook, observer or operator of a run can not begin another one in
// its arena, nor make a session there: that is an [ErrInUse].
type Arena struct {
	once  sync.Once
	held  chan struct{}          // has a place for who holds the arena
	owner atomic.Pointer[string] // the goroutine that holds it while it may call code of the caller's
	size  atomic.Int64
	data  []byte
	key   *byte    // what a backend knows the arena by, which keeps no session
	last  *Session // whose results are in the arena; nil while a run changes it, and if it failed
}

// ErrInUse is the error of a call on a session that serves another one.
var ErrInUse = errors.New("the session is in use: it serves one call at a time; give each goroutine a session, or use Program.RunValues")

// NewArena returns an empty arena; it grows to what its sessions need.
func NewArena() *Arena { return &Arena{} }

// Bytes is the present size.
func (a *Arena) Bytes() int64 {
	if a == nil {
		return 0
	}
	return a.size.Load()
}

// NewSessionIn makes a session that runs in a shared arena.
func (p *Program) NewSessionIn(a *Arena) (*Session, error) {
	return p.OpenSessionIn(backend.Brief(), a)
}

// OpenSessionIn is NewSessionIn within a context, which ends it.
func (p *Program) OpenSessionIn(ctx context.Context, a *Arena) (*Session, error) {
	if err := a.lock(ctx); err != nil {
		return nil, err
	}
	defer a.leave()
	if err := a.grow(ctx, p.ArenaBytes, p.memory); err != nil {
		return nil, err
	}
	if a.key == nil {
		a.key = new(byte)
	}
	return p.newSession(ctx, a.data, a)
}

// grow makes room for n bytes. Existing sessions are pointed at the new memory at their next run.
func (a *Arena) grow(ctx context.Context, n int64, memory ndarray.Budget) error {
	if int64(len(a.data)) >= n {
		return nil
	}
	data, err := newArena(ctx, n, memory)
	if err != nil {
		return err
	}
	a.data = data
	a.size.Store(n)
	return nil
}

// newArena takes n bytes of any contents for runs, until a context ends.
func newArena(ctx context.Context, n int64, memory ndarray.Budget) ([]byte, error) {
	if err := memory.AskContext(ctx, "the arena", n); err != nil {
		return nil, err
	}
	arena := sysmem.Uncleared(int(n))
	return arena, sysmem.LargePages(ctx, arena)
}

// lock waits for the arena until the context ends.
func (a *Arena) lock(ctx context.Context) error {
	a.once.Do(func() { a.held = make(chan struct{}, 1) })
	select {
	case a.held <- struct{}{}:
		return nil
	default:
	}
	if owner := a.owner.Load(); owner != nil && *owner == rescue.Goroutine() {
		return fmt.Errorf("a hook, observer or operator of a run in the same arena makes the call: %w", ErrInUse)
	}
	select {
	case a.held <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// enter locks the arena for a run of s, and points s at its memory if that has grown.
func (a *Arena) enter(ctx context.Context, s *Session) error {
	if err := a.lock(ctx); err != nil {
		return err
	}
	if s.p.hook != nil || s.p.callsBack || s.Observe != nil {
		id := rescue.Goroutine()
		a.owner.Store(&id)
	}
	if len(s.arena) != len(a.data) {
		s.arena = a.data
		s.rebase()
	}
	return nil
}

func (a *Arena) leave() {
	a.owner.Store(nil)
	<-a.held
}
