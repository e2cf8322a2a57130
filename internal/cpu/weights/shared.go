package weights

import "sync"

// Shared are the newest of the objects made from keys, a few of them, which their users share.
type Shared struct {
	mu   sync.Mutex
	made map[any]any
}

// mostShared is how many are kept: more than there are kinds of convolutions in most models.
const mostShared = 64

// Get returns what was made from a comparable key, or makes it. An error is not kept.
func (s *Shared) Get(key any, make func() (any, error)) (any, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if v, found := s.made[key]; found {
		return v, nil
	}
	v, err := make()
	if err != nil {
		return nil, err
	}
	if len(s.made) == mostShared || s.made == nil {
		s.made = map[any]any{}
	}
	s.made[key] = v
	return v, nil
}
