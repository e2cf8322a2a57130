package berth

import (
	"sync/atomic"

	"github.com/berth-onnx/berth/internal/sysmem"
)

// ProgramStats counts what a program holds now.
type ProgramStats struct {
	Sessions     int   // idle ones, those of running calls, and those of [Program.NewSession] until they are collected
	IdleSessions int   // that wait for a run; see [WithIdleLimits]
	ArenaBytes   int64 // of all sessions: arenas, caches, states and other memory between runs; no shared [Arena]
	Runs         int64 // begun so far, on whatever session
	WeightBytes  int64 // packed for kernels: by compiling, and by runs for nodes of open dimensions; programs of a model share them
}

// Stats counts sessions and memory.
func (p *Program) Stats() ProgramStats {
	if !p.made() {
		return ProgramStats{}
	}
	s := ProgramStats{WeightBytes: p.prog.PackedBytes()}
	p.life.count(p.counts, &s)
	s.IdleSessions = p.idleCount()
	return s
}

func (p *Program) idleCount() int {
	p.idle.mu.Lock()
	defer p.idle.mu.Unlock()
	return len(p.idle.list)
}

func (p *Program) isRetired() bool {
	p.idle.mu.Lock()
	defer p.idle.mu.Unlock()
	return p.idle.retired
}

// ModelStats counts what a model and its programs hold now.
type ModelStats struct {
	Programs     int   // of [Model.Compile] until they are collected, and those kept for [Model.RunValues]
	KeptPrograms int   // for [Model.RunValues]; not those that are being compiled
	Hits, Misses int64 // calls of [Model.RunValues] and the like that found a kept program, and that did not
	Compiles     int64 // of programs for such calls that succeeded
	Evictions    int64 // kept programs replaced by others
	Sessions     int   // of all programs, collected ones among them, as in [ProgramStats]; so are the next three
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
		if !p.isRetired() {
			s.Programs++
		}
		s.IdleSessions += p.idleCount()
	}
	if m.life != nil {
		var all ProgramStats
		m.life.count(nil, &all)
		s.Sessions, s.ArenaBytes, s.Runs = all.Sessions, all.ArenaBytes, all.Runs
		s.IdleSessions = min(s.IdleSessions, s.Sessions) // some may have been dropped since they were counted
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
	s.KeptPrograms, s.Hits, s.Misses, s.Compiles, s.Evictions = k.finished(), k.hits, k.misses, k.compiles, k.evictions
}

// counts are the figures of a program's sessions that were dropped or collected.
type counts struct{ runs int64 }

// use is what others may know of a session: whether a call is in progress, what it holds and how often it ran. Sessions
// share no cache line of theirs, so that runs of several do not slow each other down.
type use struct {
	of    *counts
	state atomic.Uint64 // odd while a call is in progress; the rest are the runs begun so far
	bytes atomic.Int64  // that the session holds
	reads *sysmem.Reading
	_     [32]byte
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
