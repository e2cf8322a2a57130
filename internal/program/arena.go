package program

import (
	"sync"

	"github.com/berth-onnx/berth/ndarray"
)

// Arena is memory that sessions of several programs share: it is as large as the
// largest of them needs, not the sum. A run locks it; other runs wait. The results of
// a run are valid until the next run of any session in the arena.
type Arena struct {
	mu   sync.Mutex
	data []byte
	last *Session // whose results are in the arena; nil while a run changes it, and if it failed
}

// NewArena returns an empty arena; it grows to what its sessions need.
func NewArena() *Arena { return &Arena{} }

// Bytes is the present size.
func (a *Arena) Bytes() int64 {
	if a == nil {
		return 0
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return int64(len(a.data))
}

// NewSessionIn makes a session that runs in a shared arena.
func (p *Program) NewSessionIn(a *Arena) (*Session, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if err := a.grow(p.ArenaBytes, p.memory); err != nil {
		return nil, err
	}
	s, err := p.newSession(a.data)
	if err != nil {
		return nil, err
	}
	s.from = a
	return s, nil
}

// grow makes room for n bytes. Existing sessions are pointed at the new memory at their next run.
func (a *Arena) grow(n int64, memory ndarray.Budget) error {
	if int64(len(a.data)) >= n {
		return nil
	}
	if err := memory.Ask("the arena", n); err != nil {
		return err
	}
	a.data = ndarray.AlignedBytes(int(n))
	return nil
}

// enter locks the arena for a run of s, and points s at its memory if that has grown.
func (a *Arena) enter(s *Session) {
	a.mu.Lock()
	if len(s.arena) != len(a.data) {
		s.arena = a.data
		s.rebase()
	}
}

func (a *Arena) leave() { a.mu.Unlock() }
