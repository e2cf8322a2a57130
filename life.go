package berth

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/berth-onnx/berth/internal/rescue"
	"github.com/berth-onnx/berth/internal/sysmem"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ssa"
)

// The life of a model's files. Weights are read where they lie in mapped files, so a
// mapping must outlive whatever reads it:
//
//	models made of one file ──┐ count: not closed, or an operation in progress
//	                          ▼
//	lifetime ──▶ lifetime ──▶ files ──▶ unmapped by the last
//	  ▲
//	  ├ compiling, optimizing, saving: two atomic additions each
//	  └ calls on sessions: the claim of the session
//
// Close does not wait: it lets no operation begin any more, and the last one in progress
// unmaps. Runs write nothing that others write: a run claims its session, then looks whether
// the model is closed; Close says that it is, then looks for claimed sessions. Atomic
// operations have one order, so at least one of the two sees the other. Who finds the model closed and nothing in
// progress releases the files: Close, or whoever ends a call later. A lifetime that is collected unclosed releases them, too. Mapped bytes do
// not leave the package: results are copies, and so are the constants of graphs that callers get and change.

// ErrClosed is the error of an operation on a closed [Model], or on a [Program] or [Session]
// of one.
var ErrClosed = errors.New("the model is closed")

// errUnmade is the error of methods of a nil or zero [Model], [Program] or [Session].
var errUnmade = errors.New("the receiver is nil or a zero value: Open, Parse and FromModule make models, Model.Compile programs, Program.NewSession sessions")

// errNilContext is the error of calls without a context.
var errNilContext = errors.New("the context is nil; context.Background() is one that is never cancelled")

// FileChangedError reports a model file, or a file of external data, that was written to or
// cut short while weights were read from it: its size or time of modification is another.
// Replace files by renaming, which leaves open models what they read, or open them
// [WithoutMapping].
type FileChangedError = sysmem.FileChangedError

// files are the mapped files that models have in common.
type files struct {
	held   []io.Closer
	mapped int64        // bytes of the mappings
	users  atomic.Int64 // lifetimes that hold them
}

// watched is a file that can tell whether it was written to.
type watched interface {
	Check() error
	MappedBytes() int64
}

// check returns a [*FileChangedError] if a file was written to.
func (f *files) check() error {
	for _, h := range f.held {
		if w, ok := h.(watched); ok {
			if err := w.Check(); err != nil {
				return err
			}
		}
	}
	return nil
}

// discard gives the pages of the mappings back that no session reads; reading them again brings them back.
func (f *files) discard() {
	for _, h := range f.held {
		if m, ok := h.(interface{ Bytes() []byte }); ok {
			sysmem.Discard(m.Bytes())
		}
	}
}

func newFiles(held []io.Closer) *files {
	f := &files{held: held}
	for _, h := range held {
		if w, ok := h.(watched); ok {
			f.mapped += w.MappedBytes()
		}
	}
	return f
}

// share is one lifetime's hold of the files.
type share struct {
	once  sync.Once
	files *files
}

// release ends the hold; the last one closes the files.
func (s *share) release() (err error) {
	s.once.Do(func() {
		if s.files.users.Add(-1) > 0 {
			return
		}
		for _, h := range s.files.held {
			err = errors.Join(err, h.Close())
		}
	})
	return err
}

// lifetime tells whether a model may be used, and holds its files while it is.
type lifetime struct {
	name  string       // of the model file, for errors
	bad   error        // why nothing can begin: the graph is not sound
	users atomic.Int64 // twice the operations in progress, calls on sessions aside; odd when closed
	share *share

	mu       sync.Mutex
	sessions map[*use]struct{} // of its programs, until they are dropped or collected
	runs     int64             // of those that are gone
}

// newLifetime begins the life of a model whose constants lie in files. A model that is
// collected before it was closed releases them if collected is set.
func newLifetime(m *ssa.Module, f *files, collected bool) *lifetime {
	f.users.Add(1)
	l := &lifetime{name: m.Path, share: &share{files: f}, sessions: map[*use]struct{}{}}
	if collected {
		runtime.AddCleanup(l, func(s *share) { _ = s.release() }, l.share)
	}
	return l
}

// enter begins an operation; every one that began must leave.
func (l *lifetime) enter() error {
	if l == nil {
		return errUnmade
	}
	if l.bad != nil {
		return l.bad
	}
	if l.users.Add(2)&1 == 0 {
		return nil
	}
	l.leave()
	return l.refusal()
}

// refusal is the error of what begins on a closed model, nil if it is open.
func (l *lifetime) refusal() error {
	switch {
	case !l.closed():
		return nil
	case l.name != "":
		return fmt.Errorf("%s: %w", l.name, ErrClosed)
	}
	return ErrClosed
}

// leave ends an operation.
func (l *lifetime) leave() {
	if l.users.Add(-2) == 1 {
		_ = l.releaseUnused() // no caller is left to take the error
	}
}

// close lets no operation begin any more. The error is that of unmapping, if that happens now.
func (l *lifetime) close() error {
	if l == nil {
		return nil
	}
	l.users.Or(1)
	return l.releaseUnused()
}

// releaseUnused releases the files of a closed model if nothing is in progress.
func (l *lifetime) releaseUnused() error {
	if l.users.Load() != 1 || l.inCall() {
		return nil
	}
	return l.share.release()
}

// inCall reports whether a call on a session is in progress.
func (l *lifetime) inCall() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for u := range l.sessions {
		if u.inProgress() {
			return true
		}
	}
	return false
}

// open notes a new session of a program until it is dropped or collected.
func (l *lifetime) open(s *Session, of *counts) *use {
	u := &use{of: of, reads: s.p.reads}
	u.reads.Begin()
	u.hold(s.s.Bytes())
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sessions[u] = struct{}{}
	runtime.AddCleanup(s, l.forget, u)
	return u
}

// forget keeps the runs of a session that its program dropped or that was collected, mostly both, and nothing else.
func (l *lifetime) forget(u *use) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, ok := l.sessions[u]; !ok {
		return
	}
	delete(l.sessions, u)
	u.reads.End()
	l.runs += u.runs()
	u.of.runs += u.runs()
}

// count adds the figures of the sessions of a program, of all programs if it is nil.
func (l *lifetime) count(c *counts, s *ProgramStats) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if s.Runs = l.runs; c != nil {
		s.Runs = c.runs
	}
	for u := range l.sessions {
		if c == nil || u.of == c {
			s.Sessions++
			s.ArenaBytes += u.bytes.Load()
			s.Runs += u.runs()
		}
	}
}

// closed reports whether close was called.
func (l *lifetime) closed() bool { return l != nil && l.users.Load()&1 == 1 }

// using runs f while the model is open and its files are mapped. A file that was changed
// meanwhile is the error, whatever else happened.
func using[T any](l *lifetime, f func() (T, error)) (out T, err error) {
	if err := l.enter(); err != nil {
		return out, err
	}
	defer l.leave()
	defer func() {
		if err != nil {
			var none T
			out = none
		}
	}()
	defer l.guard(debug.SetPanicOnFault(true), &err)
	return f()
}

// usingContext is using for what a context ends; the cause of that is in the error.
func usingContext[T any](ctx context.Context, l *lifetime, f func() (T, error)) (out T, err error) {
	if ctx == nil {
		return out, errNilContext
	}
	out, err = using(l, f)
	return out, rescue.WithCause(ctx, err)
}

// guard ends what began with [debug.SetPanicOnFault]: it makes a panic an error, and looks at
// the files.
func (l *lifetime) guard(old bool, err *error) {
	debug.SetPanicOnFault(old)
	if r := recover(); r != nil {
		*err = rescue.Caught(r)
	}
	if changed := l.share.files.check(); changed != nil {
		*err = changed
	}
}

// isolated replaces the constants of a graph that a caller gets by others, which copy what
// lies in a mapped file when they are read.
func (l *lifetime) isolated(g *ssa.Graph) *ssa.Graph {
	if l == nil || l.share.files.mapped == 0 {
		return g
	}
	replaceConstants(g, l.copied)
	return g
}

// replaceConstants replaces each constant of a graph, nil where there is none; values that share one go on to do so.
func replaceConstants(g *ssa.Graph, replacement func(*ssa.Constant) *ssa.Constant) {
	made := map[*ssa.Constant]*ssa.Constant{}
	by := func(c *ssa.Constant) *ssa.Constant {
		if _, is := made[c]; !is {
			made[c] = replacement(c)
		}
		return made[c]
	}
	g.Walk(func(b *ssa.Graph) {
		for _, v := range b.Values() {
			if v != nil {
				v.Const = by(v.Const)
			}
		}
		for _, n := range b.Nodes {
			for i := range n.Attrs {
				a := &n.Attrs[i]
				a.Tensor, a.Tensors = by(a.Tensor), slices.Clone(a.Tensors)
				for k, c := range a.Tensors {
					a.Tensors[k] = by(c)
				}
			}
		}
	})
}

// lend is isolated for a graph that is changed and used. back undoes it, for the constants that are still there.
func (l *lifetime) lend(g *ssa.Graph) (back func()) {
	if l.share.files.mapped == 0 {
		return func() {}
	}
	own := map[*ssa.Constant]*ssa.Constant{}
	replaceConstants(g, func(c *ssa.Constant) *ssa.Constant {
		copied := l.copied(c)
		own[copied] = c
		return copied
	})
	return func() {
		replaceConstants(g, func(c *ssa.Constant) *ssa.Constant {
			if o, ok := own[c]; ok {
				return o
			}
			return c
		})
	}
}

// copied is a constant that does not lie in a mapped file. Reading it is an error once the
// model is closed.
func (l *lifetime) copied(c *ssa.Constant) *ssa.Constant {
	if c == nil {
		return nil
	}
	if _, splat := c.Splat(); splat {
		return c
	}
	out := ssa.NewLazyContext(c.DType(), c.Shape(), func(ctx context.Context, memory ndarray.Budget) (*ndarray.Array, error) {
		return using(l, func() (*ndarray.Array, error) {
			data, err := c.BytesContext(ctx, memory) // not the array, which the constant would keep where they are not aligned
			if err != nil || !sysmem.IsMapped(data) {
				return c.ArrayContext(ctx, memory)
			}
			out := &ndarray.Array{DType: c.DType(), Shape: slices.Clone(c.Shape()), Data: sysmem.Uncleared(len(data))} // whoever asks for it has asked for its memory
			return out, sysmem.Copy(ctx, out.Data, data)
		})
	})
	if c.Literal() {
		out.SetLiteral()
	}
	return out
}
