package berth

import (
	"runtime"
	"slices"
	"sync"
	"time"
	"weak"
)

// Sessions between runs. [Program.RunValues] takes the session that was used last, so the others
// stay idle; sessions beyond a limit, and those idle for too long, are dropped:
//
//	release ──▶ idle: oldest … latest ──▶ run
//	              │
//	              └ more than Sessions or Bytes: the oldest; older than After, by a timer; Trim: all

// IdleLimits bound the sessions that a program keeps for later runs. A session that is not
// kept costs the next run the allocation of an arena, nothing else.
type IdleLimits struct {
	Sessions int           // at most; 0 keeps none
	Bytes    int64         // of their arenas and other memory; the latest session is kept whatever its size
	After    time.Duration // how long a session is kept without a run; 0 is no limit
}

// defaultIdle keeps as many sessions as can run at once, for a minute.
func defaultIdle() IdleLimits {
	return IdleLimits{Sessions: runtime.GOMAXPROCS(0), Bytes: 256 << 20, After: time.Minute}
}

// idleSessions are the sessions of a program that wait for a run.
type idleSessions struct {
	limits IdleLimits
	mu     sync.Mutex
	list   []idleSession // the oldest first
	bytes  int64
	timer  *idleTimer // looks for sessions that have been idle for too long; nil until there is one
	timed  bool       // it is set

	retired bool // no later call gets the program
}

type idleSession struct {
	s     *Session
	bytes int64
	since time.Time
}

// takeIdle returns the session that was used last, nil if there is none.
func (p *Program) takeIdle() *Session {
	l := &p.idle
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.list) == 0 {
		return nil
	}
	last := l.list[len(l.list)-1]
	l.list[len(l.list)-1] = idleSession{}
	l.list = l.list[:len(l.list)-1]
	l.bytes -= last.bytes
	return last.s
}

// keepIdle takes a session back after a run.
func (p *Program) keepIdle(s *Session) {
	l := &p.idle
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.limits.Sessions <= 0 || p.life.closed() {
		p.life.forget(s.use)
		return
	}
	in := idleSession{s, s.use.bytes.Load(), time.Now()}
	l.list, l.bytes = append(l.list, in), l.bytes+in.bytes
	over := 0
	for bytes := l.bytes; len(l.list)-over > l.limits.Sessions || bytes > l.limits.Bytes && len(l.list)-over > 1; over++ {
		bytes -= l.list[over].bytes
	}
	p.drop(over)
	if l.limits.After > 0 && !l.timed {
		p.expireLater(l.limits.After)
	}
}

// drop removes the n oldest.
func (p *Program) drop(n int) {
	l := &p.idle
	for _, old := range l.list[:n] {
		l.bytes -= old.bytes
		p.life.forget(old.s.use)
	}
	l.list = slices.Delete(l.list, 0, n)
}

// expireLater looks for sessions that have been idle for too long after a while. The program has one timer, which
// does not hold it: where it is collected before, the timer ends, or a process that compiles often
// would hold those of all programs of the last minute.
func (p *Program) expireLater(d time.Duration) {
	l := &p.idle
	l.timed = true
	if l.timer != nil {
		l.timer.Reset(d)
		return
	}
	later := weak.Make(p)
	l.timer = &idleTimer{time.AfterFunc(d, func() {
		if p := later.Value(); p != nil {
			p.expire(time.Now())
		}
	})}
	runtime.SetFinalizer(l.timer, func(t *idleTimer) { t.Stop() })
}

// idleTimer is a program's timer: what only the program holds, and is in no cycle with it.
type idleTimer struct{ *time.Timer }

// expire drops the sessions that have been idle for too long.
func (p *Program) expire(now time.Time) {
	l := &p.idle
	l.mu.Lock()
	defer l.mu.Unlock()
	old := 0
	for old < len(l.list) && now.Sub(l.list[old].since) >= l.limits.After {
		old++
	}
	p.drop(old)
	if l.timed = len(l.list) > 0; l.timed {
		p.expireLater(l.limits.After - now.Sub(l.list[0].since))
	}
}

// Trim drops the sessions that the program keeps for later runs; the garbage collector
// reclaims their arenas. Sessions in use, and those of [Program.NewSession], stay.
func (p *Program) Trim() {
	if !p.made() {
		return
	}
	p.idle.mu.Lock()
	defer p.idle.mu.Unlock()
	p.drop(len(p.idle.list))
}

// retire is Trim of a program that no later call gets: what its last calls use is not kept either.
func (p *Program) retire() {
	p.idle.mu.Lock()
	defer p.idle.mu.Unlock()
	p.idle.limits.Sessions, p.idle.retired = 0, true
	p.drop(len(p.idle.list))
}

// Trim drops what is kept only to make later runs fast: the idle sessions of the
// model's programs, and the programs that [Model.RunValues] keeps.
func (m *Model) Trim() {
	if m == nil {
		return
	}
	for _, p := range m.made.alive() {
		p.Trim()
	}
	m.kept.forget()
}

// stock lists the programs of a model.
type stock struct {
	mu   sync.Mutex
	list []weak.Pointer[Program]
}

// add notes a program.
func (s *stock) add(p *Program) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.list = append(slices.DeleteFunc(s.list, func(w weak.Pointer[Program]) bool { return w.Value() == nil }), weak.Make(p))
}

// alive lists the programs that are still reachable.
func (s *stock) alive() (out []*Program) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, w := range s.list {
		if p := w.Value(); p != nil {
			out = append(out, p)
		}
	}
	return out
}
