package expr

import (
	"context"
	"encoding/binary"
	"errors"
	"runtime"
	"slices"
	"sync"
	"unsafe"

	"github.com/berth-onnx/berth/internal/cpu"
	"github.com/berth-onnx/berth/internal/rescue"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	_ "github.com/berth-onnx/berth/ops/standard" // the operators
)

// What was compiled is found again by what it was compiled from: operators with their attributes, element types,
// numbers, and of tensors their shapes and strides, which of them are the same, and how they meet the
// destinations in memory. Addresses and elements are no part of it. A key is exact and no beginning of another
// one, since each part of it says what it is and how long, so there are no collisions:
//
//	key        node by node, each once, operands before their readers
//	           leaf  its number among the sources; type, shape, strides when it is new
//	           op    name, attributes, how many operands, and these by their numbers
//	           dst   type, shape, strides, and for each source: apart, same or overlapping

func init() { cpu.LinkChains() }

// Options are those of an [Engine]; zero values are defaults.
type Options struct {
	Threads   int   // of one assignment; 0: as many as [runtime.GOMAXPROCS]
	Plans     int   // compiled assignments that are kept; 0: 256
	MaxMemory int64 // bytes, as of berth.WithMaxMemory; 0: its default
}

// Engine compiles assignments and keeps what it has compiled. It is safe for concurrent use.
type Engine struct {
	backend *cpu.Backend
	threads int
	most    int
	memory  ndarray.Budget

	mu    sync.Mutex
	plans map[string]*kept
	clock uint64
}

// kept is a compiled stage with the time of its last use.
type kept struct {
	*stage
	used uint64
}

// NewEngine makes an engine; programs usually need none beside that of [Assign].
func NewEngine(o Options) *Engine {
	e := &Engine{backend: cpu.New(), threads: o.Threads, most: o.Plans, memory: ndarray.Budget(o.MaxMemory), plans: map[string]*kept{}}
	if e.threads <= 0 {
		e.threads = runtime.GOMAXPROCS(0)
	}
	if e.most <= 0 {
		e.most = 256
	}
	return e
}

var standard = sync.OnceValue(func() *Engine { return NewEngine(Options{}) })

// find returns the stage of a key, or compiles the task.
func (e *Engine) find(ctx context.Context, key []byte, t *task) (*stage, error) {
	e.mu.Lock()
	e.clock++
	if k := e.plans[string(key)]; k != nil {
		k.used = e.clock
		e.mu.Unlock()
		return k.stage, nil
	}
	e.mu.Unlock()
	s, err := e.compile(ctx, t)
	if err != nil {
		return nil, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.plans[string(key)] = &kept{s, e.clock}
	for len(e.plans) > e.most {
		e.dropOldest()
	}
	return s, nil
}

// dropOldest forgets the stage that was not used for longest.
func (e *Engine) dropOldest() {
	var oldest string
	first := true
	for key, k := range e.plans {
		if first || k.used < e.plans[oldest].used {
			oldest, first = key, false
		}
	}
	delete(e.plans, oldest)
}

// Plans is how many compiled assignments the engine keeps.
func (e *Engine) Plans() int {
	if e == nil {
		return 0
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.plans)
}

// encoder writes the key of a task and collects its sources.
type encoder struct {
	t     task
	index map[*node]int
	key   []byte
	err   error
}

var encoders = sync.Pool{New: func() any {
	return &encoder{index: map[*node]int{}, t: task{indexOf: map[*node]int{}}}
}}

func (c *encoder) reset() {
	clear(c.index)
	clear(c.t.indexOf)
	clear(c.t.jobs)
	clear(c.t.sources)
	c.t.jobs, c.t.sources, c.t.meets, c.key = c.t.jobs[:0], c.t.sources[:0], c.t.meets[:0], c.key[:0]
	c.err = nil
}

// add appends a job.
func (c *encoder) add(j job) {
	c.node(j.src)
	c.number('=', c.index[j.src])
	c.t.jobs = append(c.t.jobs, j)
}

// finish writes the destinations, which all sources are compared with.
func (c *encoder) finish() {
	for _, j := range c.t.jobs {
		c.layout('d', j.dst)
		m := make([]meeting, len(c.t.sources))
		for i, s := range c.t.sources {
			m[i] = met(s, j.dst)
			c.key = append(c.key, byte(m[i]))
		}
		c.t.meets = append(c.t.meets, m)
	}
}

func (c *encoder) number(tag byte, n int) {
	c.key = binary.AppendVarint(append(c.key, tag), int64(n))
}

func (c *encoder) text(s string) {
	c.number('s', len(s))
	c.key = append(c.key, s...)
}

func (c *encoder) numbers(list []int) {
	c.number('[', len(list))
	for _, n := range list {
		c.key = binary.AppendVarint(c.key, int64(n))
	}
}

// layout writes the type, shape and strides of memory.
func (c *encoder) layout(tag byte, n *node) {
	c.key = append(c.key, tag, byte(n.dt))
	c.numbers(n.shape)
	if w := n.place.window; w != nil {
		c.numbers(w.Strides)
	}
}

// node writes a node and all that it reads.
func (c *encoder) node(n *node) {
	if _, known := c.index[n]; known {
		return
	}
	for _, x := range n.in {
		if x != nil {
			c.node(x)
		}
	}
	c.index[n] = len(c.index)
	switch n.kind {
	case leaf:
		c.source(n)
		return
	case end:
		c.err = errOtherModel
		return
	case number:
		c.key = append(c.key, 'n', byte(n.dt))
		c.numbers(n.shape)
		c.key = append(c.key, n.value.Data...)
		return
	case looked:
		c.key = append(c.key, 'v')
		for _, list := range [...][]int{n.view.shape, n.view.start, n.view.of, n.view.step} {
			c.numbers(list)
		}
	case applied:
		c.key = append(c.key, 'o', byte(n.dt))
		c.text(n.op.name)
		c.text(n.op.text)
		c.number('(', len(n.in))
	}
	for _, x := range n.in {
		at := -1
		if x != nil {
			at = c.index[x]
		}
		c.key = binary.AppendVarint(c.key, int64(at))
	}
}

// source writes a tensor; tensors of the same elements in the same places are one source.
func (c *encoder) source(n *node) {
	for i, s := range c.t.sources {
		if met(s, n) == same && s.dt == n.dt {
			c.t.indexOf[n] = i
			c.number('r', i)
			return
		}
	}
	c.t.indexOf[n] = len(c.t.sources)
	c.t.sources = append(c.t.sources, n)
	c.layout('l', n)
}

// met compares the memory of two tensors.
func met(a, b *node) meeting {
	x, y := a.place.array.Data, b.place.array.Data
	if len(x) == 0 || len(y) == 0 {
		return apart
	}
	p, q := uintptr(unsafe.Pointer(&x[0])), uintptr(unsafe.Pointer(&y[0]))
	if p >= q+uintptr(len(y)) || q >= p+uintptr(len(x)) {
		return apart
	}
	v, w := a.place.window, b.place.window
	if p != q || len(x) != len(y) || !slices.Equal(a.shape, b.shape) || (v == nil) != (w == nil) || a.dt.Size() != b.dt.Size() {
		return overlaps
	}
	if v != nil && !slices.Equal(v.Strides, w.Strides) {
		return overlaps
	}
	return same
}

// Assignment is a destination with what it is assigned; [Into] makes one.
type Assignment struct{ job }

// Into is the assignment of a value to a tensor. The value is broadcast to the tensor's shape.
func Into[T Elem](dst *Tensor[T], e Value[T]) Assignment {
	return Assignment{job{dst.operand(*new(T)), nodeOf(e)}}
}

// check looks at what can be told of an assignment by itself.
func (j job) check() error {
	if j.dst == nil || j.src == nil {
		return errNilValue
	}
	if _, err := above(j.dst, j.src); err != nil {
		return err
	}
	if _, err := broadcast(j.src.shape, j.dst.shape); err != nil {
		return &ShapeError{"Assign", [][]int{j.src.shape, j.dst.shape}, "the expression does not broadcast to the destination"}
	}
	if w := j.dst.place.window; w != nil && sharesElements(w.Shape, w.Strides) {
		return &AliasError{slices.Clone(w.Shape), slices.Clone(w.Strides)}
	}
	return nil
}

// sharesElements reports that two indices of a window may be the same element: that it does not
// consist of pieces in pieces.
func sharesElements(shape, strides []int) bool {
	type loop struct{ n, step int }
	var loops []loop
	for d, n := range shape {
		if n == 0 {
			return false
		}
		if n > 1 {
			loops = append(loops, loop{n, max(strides[d], -strides[d])})
		}
	}
	slices.SortFunc(loops, func(a, b loop) int { return a.step - b.step })
	reach := 0
	for _, l := range loops {
		if l.step <= reach {
			return true
		}
		reach += (l.n - 1) * l.step
	}
	return false
}

// bound is an assignment compiled, with the memory that it reads and writes.
type bound struct {
	engine *Engine
	dst    *node
	*Prepared
}

// Prepared is a list of assignments that are compiled, over the memory of their tensors: what
// the first walk of an assignment makes. Executing it reads and writes what the tensors hold then. It is
// safe for concurrent use as far as the tensors are.
type Prepared struct{ steps []step }

// step is a stage with its memory.
type step struct {
	*stage
	inputs []ndarray.Value
	places [][]byte
}

// Prepare compiles assignments, one after the other, without computing anything. The error is a
// [*ShapeError], [*TypeError] or [*AliasError] if they are not right.
func (e *Engine) Prepare(ctx context.Context, list ...Assignment) (_ *Prepared, err error) {
	defer rescue.Into(&err)
	switch {
	case ctx == nil:
		return nil, errNilContext
	case e == nil:
		e = standard()
	case e.plans == nil:
		return nil, errors.New("the engine was not made by NewEngine")
	}
	out := &Prepared{}
	for len(list) > 0 {
		n, err := e.prepare(ctx, list, out)
		if err != nil {
			return nil, err
		}
		list = list[n:]
	}
	return out, nil
}

// prepare appends the step of the first assignments that can be one, and returns how many they are.
func (e *Engine) prepare(ctx context.Context, list []Assignment, out *Prepared) (n int, err error) {
	c := encoders.Get().(*encoder)
	defer func() {
		c.reset()
		encoders.Put(c)
	}()
	for _, a := range list {
		if err := a.check(); err != nil {
			return 0, err
		}
		if n > 0 && c.separate(a.job) {
			break
		}
		if n++; len(a.dst.place.array.Data) > 0 {
			c.add(a.job)
		}
	}
	if c.err != nil {
		return 0, c.err
	}
	if len(c.t.jobs) == 0 {
		return n, nil
	}
	c.finish()
	s, err := e.find(ctx, c.key, &c.t)
	if err != nil {
		return 0, err
	}
	x := step{stage: s}
	for _, n := range c.t.sources {
		x.inputs = append(x.inputs, &n.place.array)
	}
	for _, j := range c.t.jobs {
		x.places = append(x.places, j.dst.place.array.Data)
	}
	out.steps = append(out.steps, x)
	return n, nil
}

// separate reports that an assignment can not be in one step with those before it: that it writes
// memory which they write, or reads a part of it other than what they wrote as a whole.
func (c *encoder) separate(j job) bool {
	for _, before := range c.t.jobs {
		if met(before.dst, j.dst) != apart || readsPart(j.src, before.dst, map[*node]bool{}) {
			return true
		}
	}
	return false
}

// readsPart reports that a node reads memory of a destination other than as the whole of it.
func readsPart(n, dst *node, seen map[*node]bool) bool {
	if n == nil || seen[n] {
		return false
	}
	seen[n] = true
	if n.kind == leaf {
		m := met(n, dst)
		return m == overlaps || m == same && n.dt != dst.dt
	}
	return slices.ContainsFunc(n.in, func(x *node) bool { return readsPart(x, dst, seen) })
}

// Execute computes what was prepared. A run that fails, or whose context ends, leaves destinations
// partly written.
func (p *Prepared) Execute(ctx context.Context) (err error) {
	defer rescue.Into(&err)
	if ctx == nil {
		return errNilContext
	}
	if p == nil {
		return nil
	}
	for i := range p.steps {
		s := &p.steps[i]
		if err := s.run(ctx, s.inputs, s.places); err != nil {
			return typed(err)
		}
	}
	return nil
}

// typed makes the error of a kernel that does not take its element types a [*TypeError].
func typed(err error) error {
	var at *ops.NodeError
	if errors.Is(err, ops.ErrUnsupported) && errors.As(err, &at) {
		return &TypeError{at.Node, "", err}
	}
	return err
}

// Kernels names the kernels that are run, in their order: a group by its instructions, "Exp Add Div", a product by itself and those
// that follow in its kernel, "MatMul Add Relu".
func (p *Prepared) Kernels() (out []string) {
	if p == nil {
		return nil
	}
	for i := range p.steps {
		out = append(out, p.steps[i].kernels()...)
	}
	return out
}

// ArenaBytes is the memory that is planned for intermediate values and workspace: that of the
// largest step.
func (p *Prepared) ArenaBytes() (n int64) {
	if p == nil {
		return 0
	}
	for i := range p.steps {
		n = max(n, p.steps[i].prog.ArenaBytes)
	}
	return n
}

// Assign computes assignments, as if one after the other. Those that do not write what others read in
// parts share kernels and one arena. The second time that the same assignments are made, of the same
// structure, types, shapes and strides, nothing is compiled.
func (e *Engine) Assign(ctx context.Context, list ...Assignment) error {
	if e == nil {
		e = standard()
	}
	if len(list) == 1 {
		return e.assign(ctx, list[0].job)
	}
	p, err := e.Prepare(ctx, list...)
	if err != nil {
		return err
	}
	return p.Execute(ctx)
}

// assign computes one assignment; a node remembers what it was compiled to.
func (e *Engine) assign(ctx context.Context, j job) error {
	if j.src != nil {
		if b := j.src.bound.Load(); b != nil && b.engine == e && b.dst == j.dst {
			return b.Execute(ctx)
		}
	}
	p, err := e.Prepare(ctx, Assignment{j})
	if err != nil {
		return err
	}
	j.src.bound.Store(&bound{e, j.dst, p})
	return p.Execute(ctx)
}

// Assign computes an expression and writes it to a tensor, which it is broadcast to. What of the expression
// lies in the memory that is written is read as it was before. The first time an assignment is
// compiled; the second time it allocates nothing if the expression is the same one, and
// compiles nothing if another one has the same structure. The error is a [*ShapeError], [*TypeError] or
// [*AliasError] if they do not fit, and that of the context when it ends the run.
func Assign[T Elem](ctx context.Context, dst *Tensor[T], e Value[T]) error {
	return standard().assign(ctx, Into(dst, e).job)
}

// Batch computes assignments as if one after the other: see [Engine.Assign].
func Batch(ctx context.Context, list ...Assignment) error { return standard().Assign(ctx, list...) }

// Prepare compiles assignments without computing anything: see [Engine.Prepare].
func Prepare(ctx context.Context, list ...Assignment) (*Prepared, error) {
	return standard().Prepare(ctx, list...)
}
