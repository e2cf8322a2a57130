package berth

import "sync/atomic"

// ProgramStats counts what a program holds now.
type ProgramStats struct {
	Sessions     int   // that exist: idle ones, those of running calls, and those that callers hold
	IdleSessions int   // that wait for a run; see [WithIdleLimits]
	ArenaBytes   int64 // of all sessions: arenas, caches, states and other memory between runs; no shared [Arena]
	Runs         int64 // begun so far
	WeightBytes  int64 // packed for kernels; programs of a model share them
}

// Stats counts sessions and memory.
func (p *Program) Stats() ProgramStats {
	if !p.made() {
		return ProgramStats{}
	}
	s := ProgramStats{WeightBytes: p.prog.Report.PackedBytes}
	p.life.count(p.counts, &s)
	p.idle.mu.Lock()
	defer p.idle.mu.Unlock()
	s.IdleSessions = len(p.idle.list)
	return s
}

// ModelStats counts what a model and its programs hold now.
type ModelStats struct {
	Programs     int   // that are reachable, those kept for [Model.RunValues] among them
	KeptPrograms int   // for [Model.RunValues]
	Hits, Misses int64 // calls of [Model.RunValues] and the like that found a kept program, and that did not
	Compiles     int64 // of programs for such calls that succeeded
	Evictions    int64 // kept programs replaced by others
	Sessions     int   // of all programs, as in [ProgramStats]; so are the next three
	IdleSessions int
	ArenaBytes   int64
	Runs         int64
	MappedBytes  int64 // of files; shared with models made from this one
	PackedBytes  int64 // weights in kernels' own layouts; shared likewise
	Closed       bool
}

// Stats counts programs, sessions and memory.
func (m *Model) Stats() ModelStats {
	if m == nil {
		return ModelStats{}
	}
	s := ModelStats{Closed: m.life.closed()}
	m.kept.count(&s)
	for _, p := range m.made.alive() {
		t := p.Stats()
		s.Programs++
		s.Sessions += t.Sessions
		s.IdleSessions += t.IdleSessions
		s.ArenaBytes += t.ArenaBytes
		s.Runs += t.Runs
	}
	for _, b := range m.PackedBytes() {
		s.PackedBytes += b
	}
	if m.life != nil && m.life.enter() == nil {
		s.MappedBytes = m.life.share.files.mapped
		m.life.leave()
	}
	return s
}

// count adds the figures of the kept programs.
func (k *keptPrograms) count(s *ModelStats) {
	k.mu.Lock()
	defer k.mu.Unlock()
	s.KeptPrograms, s.Hits, s.Misses, s.Compiles, s.Evictions = len(k.list), k.hits, k.misses, k.compiles, k.evictions
}

// counts are the figures of a program's sessions that were collected.
type counts struct{ runs int64 }

// use is what others may know of a session: whether a call is in progress, what it holds and how often it ran. Sessions
// share no cache line of theirs, so that runs of several do not slow each other down.
type use struct {
	of    *counts
	state atomic.Uint64 // odd while a call is in progress; the rest are the runs begun so far
	bytes atomic.Int64  // that the session holds
	_     [40]byte
}

// claim begins a call, one more run or not, unless one is in progress.
func (u *use) claim(runs uint64) bool {
	for {
		v := u.state.Load()
		if v&1 != 0 {
			return false
		}
		if u.state.CompareAndSwap(v, v+runs<<1+1) {
			return true
		}
	}
}

// release ends the call that claimed the session.
func (u *use) release() { u.state.Store(u.state.Load() - 1) }

func (u *use) inProgress() bool { return u.state.Load()&1 != 0 }

func (u *use) runs() int64 { return int64(u.state.Load() >> 1) }

// hold says what the session holds now.
func (u *use) hold(n int64) {
	if n != u.bytes.Load() {
		u.bytes.Store(n)
	}
}
