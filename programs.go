package berth

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"slices"
	"sync"

	"github.com/berth-onnx/berth/internal/rescue"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ssa"
)

// The programs that [Model.RunValues] keeps. A key says what a program was compiled for; calls with
// one key share its compilation:
//
//	options, bindings ──┐          ┌─ kept: run it
//	shapes of inputs  ──┴─▶ key ───┼─ being compiled: wait, each until its own context ends
//	                               └─ new: compile, on a goroutine that no caller owns
//
// Nothing is locked while compiling. A compilation that fails leaves nothing behind.
//
// A program for every width of a stream of pictures would be compiled for each of them and
// used once. So when as many programs are kept as may be, new shapes run in the program whose
// key has no shapes, until a set of shapes has been seen so many times that compiling it
// pays, and one of the kept programs was not used all that time:
//
//	      seen ×1  ×2  ×3  ×4 ─▶ takes the place of the least recently used
//	A  A   B   B   A   B   B         A was used since B was first seen: B starts over
//
// So at most every fourth call compiles once all places are taken, whatever shapes come.

const (
	defaultPrograms = 8
	returns         = 4  // how often shapes come before they are compiled for when all places are taken
	mostSeen        = 64 // sets of shapes that are remembered without a program
)

// programKey says what a program was compiled for.
type programKey struct {
	options  compileOptions
	bindings string
	shapes   string // of the inputs; "" leaves open what bindings do not say
}

// open is the key without the shapes of the inputs.
func (k programKey) open() programKey {
	k.shapes = ""
	return k
}

// keptProgram is a program, or its compilation.
type keptProgram struct {
	key     programKey
	used    int64         // the last call
	waiting int           // calls, until done
	waits   *keptProgram  // what its compilation waits for, guarded by compilations
	cancel  func()        // ends the compilation
	done    chan struct{} // closed when there is a program or an error
	p       *Program
	err     error
}

// isDone reports whether the compilation has ended.
func (e *keptProgram) isDone() bool {
	select {
	case <-e.done:
		return true
	default:
		return false
	}
}

// sighting is a set of shapes without a program of its own.
type sighting struct {
	key   programKey
	since int64 // the call that was the first
	times int
}

// keptPrograms are what a model keeps for [Model.RunValues].
type keptPrograms struct {
	most int // programs

	mu    sync.Mutex
	list  []*keptProgram // most recently used first
	seen  []sighting     // the latest first
	calls int64

	hits, misses, compiles, evictions int64
}

// programFor returns the program for the shapes of a set of inputs.
func (m *Model) programFor(ctx context.Context, inputs map[string]ndarray.Value, opts []Option) (*Program, error) {
	if ctx == nil {
		return nil, errNilContext
	}
	if m.lifetime() == nil {
		return nil, errUnmade
	}
	if err := cmp.Or(m.life.bad, m.life.refusal()); err != nil {
		return nil, err
	}
	c := newConfig(opts)
	if _, err := m.checkOptions(&c); err != nil {
		return nil, err
	}
	if err := m.checkInputs(ctx, &c, inputs); err != nil {
		return nil, rescue.WithCause(ctx, err)
	}
	if err := c.checkGiven(m.source().Graph.Params, inputs); err != nil {
		return nil, err
	}
	key := programKey{c.compileOptions, c.bindings.key(), m.shapesKey(inputs)}
	p, err := m.kept.get(ctx, key, func(key programKey) compilation {
		if key.shapes != "" {
			m.bindShapes(&c, inputs)
		}
		return func(ctx context.Context) (*Program, error) {
			return using(m.life, func() (*Program, error) { return m.compile(ctx, c) })
		}
	})
	return p, rescue.WithCause(ctx, err)
}

// shapesKey is the shapes of a set of inputs.
func (m *Model) shapesKey(inputs map[string]ndarray.Value) string {
	var key []byte
	for _, in := range m.source().Graph.Params {
		a, ok := inputs[in.Name].(*ndarray.Array)
		if !ok || in.Type.Kind != ssa.KindTensor {
			key = append(key, 0)
			continue
		}
		key = binary.AppendUvarint(key, uint64(len(a.Shape)+1))
		for _, d := range a.Shape {
			key = binary.AppendVarint(key, int64(d))
		}
	}
	return string(key)
}

// bindShapes fixes the shapes of a set of inputs.
func (m *Model) bindShapes(c *config, inputs map[string]ndarray.Value) {
	for _, in := range m.source().Graph.Params {
		if a, ok := inputs[in.Name].(*ndarray.Array); ok && in.Type.Kind == ssa.KindTensor {
			c.shapes[in.Name] = slices.Clone(a.Shape)
		}
	}
}

// compilation makes a program.
type compilation func(ctx context.Context) (*Program, error)

// get returns the program of a key, or the open one in its place. plan says how one is made.
func (k *keptPrograms) get(ctx context.Context, key programKey, plan func(programKey) compilation) (*Program, error) {
	for exact := false; ; exact = true {
		e := k.claim(ctx, key, exact, plan)
		p, err := k.wait(ctx, e)
		if err == nil || e.key == key || ctx.Err() != nil {
			return p, err
		}
	}
}

// claim returns the entry that serves a key, and starts its compilation if it is new. An exact
// one has that key.
func (k *keptPrograms) claim(ctx context.Context, key programKey, exact bool, plan func(programKey) compilation) *keptProgram {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.calls++
	e := k.find(key)
	if e == nil && !exact && !k.admits(key) {
		key = key.open()
		e = k.find(key)
	}
	if e != nil {
		k.hits++
	} else {
		k.misses++
		e = &keptProgram{key: key, done: make(chan struct{})}
		k.list = slices.Insert(k.list, 0, e)
		compiling, cancel := context.WithCancel(context.WithoutCancel(ctx))
		e.cancel = cancel
		compile := plan(key)
		rescue.Go(func() { k.fill(compiling, e, compile) })
	}
	e.used = k.calls
	e.waiting++
	return e
}

// find returns the entry of a key, and makes it the most recently used.
func (k *keptPrograms) find(key programKey) *keptProgram {
	i := slices.IndexFunc(k.list, func(e *keptProgram) bool { return e.key == key })
	if i < 0 {
		return nil
	}
	e := k.list[i]
	copy(k.list[1:i+1], k.list[:i])
	k.list[0] = e
	return e
}

// admits reports whether a key that is not there gets a program of its own; see above.
func (k *keptPrograms) admits(key programKey) bool {
	like := func(e *keptProgram) bool { return e.key.open() == key.open() }
	if k.most <= 0 || len(k.list) < k.most || key.shapes == "" || !slices.ContainsFunc(k.list, like) {
		return true
	}
	s := sighting{key: key, since: k.calls}
	if i := slices.IndexFunc(k.seen, func(s sighting) bool { return s.key == key }); i >= 0 {
		s = k.seen[i]
		k.seen = slices.Delete(k.seen, i, i+1)
	}
	if s.times++; s.times == returns {
		return k.list[len(k.list)-1].used < s.since
	}
	k.seen = slices.Insert(k.seen, 0, s)
	k.seen = k.seen[:min(len(k.seen), mostSeen)]
	return false
}

// fill compiles, and keeps the result if it is a program.
func (k *keptPrograms) fill(ctx context.Context, e *keptProgram, compile compilation) {
	defer e.cancel()
	id := rescue.Goroutine()
	compilations.Lock()
	compilations.by[id] = e
	compilations.Unlock()
	p, err := (*Program)(nil), errEnded
	defer func() {
		compilations.Lock()
		delete(compilations.by, id)
		compilations.Unlock()
		k.settle(e, p, err)
	}()
	p, err = compile(ctx)
}

// errEnded is the error of a compilation that returns none.
var errEnded = errors.New("an operator's type rule ended the goroutine that compiles, as runtime.Goexit and testing.T.FailNow do")

// settle notes what a compilation gave.
func (k *keptPrograms) settle(e *keptProgram, p *Program, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	e.p, e.err = p, err
	close(e.done)
	if err != nil {
		k.remove(e)
		return
	}
	k.compiles++
	k.trim()
}

// trim drops the least recently used programs beyond the most.
func (k *keptPrograms) trim() {
	over := k.finished() - k.most
	for i := len(k.list) - 1; i >= 0 && over > 0; i-- {
		if k.list[i].isDone() {
			k.list[i].p.retire()
			k.list = slices.Delete(k.list, i, i+1)
			k.evictions++
			over--
		}
	}
}

// finished counts the programs, without those that are being compiled.
func (k *keptPrograms) finished() (n int) {
	for _, e := range k.list {
		if e.isDone() {
			n++
		}
	}
	return n
}

func (k *keptPrograms) remove(e *keptProgram) {
	k.list = slices.DeleteFunc(k.list, func(x *keptProgram) bool { return x == e })
}

// drop forgets the programs that were compiled with the options of one whose device is lost: for them it is lost, too.
func (k *keptPrograms) drop(lost *Program) {
	k.mu.Lock()
	defer k.mu.Unlock()
	i := slices.IndexFunc(k.list, func(e *keptProgram) bool { return e.isDone() && e.p == lost })
	if i < 0 {
		return // by another call
	}
	options := k.list[i].key.options
	k.list = slices.DeleteFunc(k.list, func(e *keptProgram) bool {
		isOn := e.isDone() && e.key.options.backend == options.backend && e.key.options.device == options.device
		if isOn {
			e.p.retire()
		}
		return isOn
	})
}

// wait waits for a program until the context ends. The last to leave ends the compilation, and
// returns when it has ended.
func (k *keptPrograms) wait(ctx context.Context, e *keptProgram) (*Program, error) {
	leave, within := e.enter()
	defer leave()
	if !within {
		select {
		case <-e.done:
		case <-ctx.Done():
		}
	}
	k.mu.Lock()
	e.waiting--
	last := e.waiting == 0 && !e.isDone()
	if last {
		k.remove(e)
		e.cancel()
	}
	k.mu.Unlock()
	if within {
		return nil, errWithin
	}
	if last {
		<-e.done
	}
	if e.isDone() && e.err == nil {
		return e.p, nil
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return nil, e.err
}

// errWithin is the error of a call that would wait for itself.
var errWithin = errors.New("an operator runs the model that is being compiled with it: type rules and kernels must not")

// compilations are those that run, of all models, by the goroutines that compile.
var compilations = struct {
	sync.Mutex
	by map[string]*keptProgram
}{by: map[string]*keptProgram{}}

// enter notes that the present goroutine waits for a program until leave is called, and reports whether that one's compilation
// waits for the present goroutine's, itself or through others.
func (e *keptProgram) enter() (leave func(), within bool) {
	if e.isDone() {
		return func() {}, false
	}
	id := rescue.Goroutine()
	compilations.Lock()
	defer compilations.Unlock()
	own := compilations.by[id]
	if own == nil {
		return func() {}, false
	}
	for next := e; next != nil; next = next.waits {
		if next == own {
			return func() {}, true
		}
	}
	own.waits = e
	return func() {
		compilations.Lock()
		defer compilations.Unlock()
		own.waits = nil
	}, false
}

// forget drops all programs.
func (k *keptPrograms) forget() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.seen = nil
	for _, e := range k.list {
		if e.isDone() {
			e.p.retire()
		}
	}
	k.list = slices.DeleteFunc(k.list, (*keptProgram).isDone)
}
