package berth

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"time"
	"weak"

	"github.com/berth-onnx/berth/backend"
	"github.com/berth-onnx/berth/internal/rescue"
	"github.com/berth-onnx/berth/ndarray"
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
	if p.room != nil {
		p.room.begin() // before another run can see that there is no idle session
	}
	return last.s
}

// keepIdle takes a session back after a run.
func (p *Program) keepIdle(s *Session) {
	s.s.Forget()
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
	if p.made() {
		p.trim()
	}
}

// trim is Trim of a program that was made. It reports that there were idle sessions.
func (p *Program) trim() bool {
	p.idle.mu.Lock()
	defer p.idle.mu.Unlock()
	n := len(p.idle.list)
	p.drop(n)
	return n > 0
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

// Room on a device. A session of a device keeps memory there, so a run may find none left that another run, or an idle session of another
// program, has:
//
//	run ─▶ idle session of the program ─▶ new session ──▶ results
//	           ▲           no room, or none for operands │
//	           │                                         ▼
//	           └── a run has ended ◀── drop idle sessions of all programs on the device
//
// One session is opened at a time, so that all memory of runs that a failed attempt has met is of runs that are counted. A run is counted
// while it has a session. Where none is in progress, and none has ended since the attempt began, nothing that is waited for has the memory.

// place is a device of a backend.
type place struct {
	backend string
	device  int
}

// rooms are by place.
var rooms sync.Map

// room is what runs on a device know of each other.
type room struct {
	programs stock
	opening  chan struct{} // has a place for who opens a session

	mu    sync.Mutex
	runs  int           // in progress
	ended int64         // that have ended, but for those that had no room
	next  chan struct{} // closed when one more ends, or fails for want of room
}

func roomOn(at place) *room {
	r, _ := rooms.LoadOrStore(at, &room{opening: make(chan struct{}, 1), next: make(chan struct{})})
	return r.(*room)
}

// begin counts a run.
func (r *room) begin() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.runs++
}

// end counts a run no more.
func (r *room) end(isFull bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.runs--
	if !isFull {
		r.ended++
	}
	close(r.next)
	r.next = make(chan struct{})
}

// sinceNow is how many runs have ended.
func (r *room) sinceNow() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.ended
}

// waits returns true when a run has ended since as many had, and false when none is left, or ctx has ended.
func (r *room) waits(ctx context.Context, since int64) bool {
	for {
		r.mu.Lock()
		ended, runs, next := r.ended, r.runs, r.next
		r.mu.Unlock()
		if ended != since || runs == 0 {
			return ended != since
		}
		select {
		case <-next:
		case <-ctx.Done():
			return false
		}
	}
}

// runValues is [Program.RunValues] on the device.
func (r *room) runValues(ctx context.Context, p *Program, inputs map[string]ndarray.Value) (out map[string]ndarray.Value, err error) {
	err = r.run(ctx, p, true, func(s *Session) error {
		out, err = s.runValues(ctx, inputs, s.s.RunFresh, false)
		return err
	})
	return out, err
}

// run calls f with a session, when there is room for it; again if f itself had none and can be called again.
func (r *room) run(ctx context.Context, p *Program, again bool, f func(s *Session) error) error {
	for {
		since := r.sinceNow()
		hasBegun, err := r.attempt(ctx, p, f)
		if ctx == nil || ctx.Err() != nil || !isFull(err) || hasBegun && !again {
			return err
		}
		if r.drop() { // again and again where runs end meanwhile
			continue
		}
		if !r.waits(ctx, since) {
			if ended := ctx.Err(); ended != nil {
				err = rescue.WithCause(ctx, fmt.Errorf("%w: %w", ended, err))
			}
			return err
		}
	}
}

// isFull reports that others have the memory that a run lacks on a device.
func isFull(err error) bool {
	full := backend.Full(nil)
	return errors.As(err, &full) && full.IsFull()
}

// attempt calls f with an idle session or a new one.
func (r *room) attempt(ctx context.Context, p *Program, f func(s *Session) error) (hasBegun bool, err error) {
	s, err := r.session(ctx, p)
	if err != nil {
		return false, err
	}
	defer func() {
		if isFull(err) {
			p.life.forget(s.use)
		} else {
			p.keepIdle(s)
		}
		s = nil // the collector may look for it before this returns
		r.end(isFull(err))
	}()
	return true, f(s)
}

// session is one that a run has, which is counted.
func (r *room) session(ctx context.Context, p *Program) (*Session, error) {
	if s := p.takeIdle(); s != nil {
		return s, nil
	}
	if ctx == nil { // which the run tells
		ctx = context.Background()
	}
	select {
	case r.opening <- struct{}{}:
	case <-ctx.Done():
		return nil, rescue.WithCause(ctx, ctx.Err())
	}
	defer func() { <-r.opening }()
	if s := p.takeIdle(); s != nil {
		return s, nil
	}
	s, err := p.openSession(ctx)
	if err == nil {
		r.begin()
	}
	return s, err
}

// drop drops the idle sessions of all programs on the device, and reports that there were any.
func (r *room) drop() (dropped bool) {
	for _, p := range r.programs.alive() {
		dropped = p.trim() || dropped
	}
	return dropped
}
