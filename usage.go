package berth

import (
	"runtime"
	"sync/atomic"
)

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
	p.idle.mu.Lock()
	defer p.idle.mu.Unlock()
	return ProgramStats{Sessions: int(p.counts.sessions.Load()), IdleSessions: len(p.idle.list), ArenaBytes: p.counts.bytes.Load(),
		Runs: p.counts.runs.Load(), WeightBytes: p.prog.Report.PackedBytes}
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

// counts are the figures of a program; sessions that are collected leave them.
type counts struct{ sessions, bytes, runs atomic.Int64 }

// open counts a new session until it is collected.
func (c *counts) open(s *Session) {
	s.size = &sessionSize{of: c}
	s.size.set(s.s.Bytes())
	c.sessions.Add(1)
	runtime.AddCleanup(s, func(z *sessionSize) {
		z.set(0)
		z.of.sessions.Add(-1)
	}, s.size)
}

// sessionSize is a session's part of the bytes.
type sessionSize struct {
	of    *counts
	bytes atomic.Int64
}

// set says what the session holds now.
func (z *sessionSize) set(n int64) {
	if n == z.bytes.Load() {
		return
	}
	z.of.bytes.Add(n - z.bytes.Swap(n))
}
