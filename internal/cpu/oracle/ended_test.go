//go:build linux

package oracle

import (
	"context"
	"fmt"
	"math"
	"os"
	"regexp"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/berth-onnx/berth/backend"
	"github.com/berth-onnx/berth/internal/cpu"
	"github.com/berth-onnx/berth/internal/ops/fused"
	"github.com/berth-onnx/berth/internal/tile"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	_ "github.com/berth-onnx/berth/ops/all"
	"github.com/berth-onnx/berth/ssa"
)

// Every kernel of every operator ends soon after its context does. A clock on the wall says little on a busy machine, so
// the tests count work: the context that a kernel runs with reads the processor time of the kernel's thread each time it
// is looked at, and keeps the longest time between two looks. Nodes grow until that time is too long or a run is long enough to
// tell. A kernel that takes the context's channel hands it to arithmetic that looks there, unseen; it is ended at several
// moments instead, and the processor time from there to its return counts.
//
// A kernel that has looked in the middle of a short run is not run for longer, unless BERTH_ENDS says thorough: then
// all grow until the bound shows.

const (
	mostWork   = 40 * time.Millisecond // between two looks
	enoughWork = 2 * mostWork          // a run that shows it
	shortWork  = 6 * time.Millisecond  // a run in which a kernel should look
	mostBytes  = 256 << 20             // of operands and results
)

// thorough has every kernel run until the bound shows.
var thorough = os.Getenv("BERTH_ENDS") == "thorough"

// looked is a context that remembers the most work between two looks at it.
type looked struct {
	context.Context
	last, most time.Duration
	channel    bool // somebody has taken the channel
}

func newLooked(ctx context.Context) *looked { return &looked{Context: ctx, last: threadTime(0)} }

func (l *looked) look() {
	l.most = max(l.most, threadTime(0)-l.last)
	l.last = threadTime(0)
}

func (l *looked) Err() error {
	l.look()
	return l.Context.Err()
}

func (l *looked) Done() <-chan struct{} {
	l.look()
	l.channel = true
	return l.Context.Done()
}

// threadTime is the processor time of a thread, 0 for that of the caller.
func threadTime(thread int) time.Duration {
	clock := int32(unix.CLOCK_THREAD_CPUTIME_ID)
	if thread != 0 {
		clock = int32(^thread<<3 | 6) // clock_getcpuclockid(3): a thread's clock of the scheduler
	}
	var now unix.Timespec
	if err := unix.ClockGettime(clock, &now); err != nil {
		panic(err)
	}
	return time.Duration(now.Nano())
}

// largeNode is a node of one size with its operands.
type largeNode struct {
	node  *ssa.Node
	in    []ndarray.Value
	bytes int64
}

// TestEveryKernelEnds grows a node of every operator.
func TestEveryKernelEnds(t *testing.T) {
	if testing.Short() {
		t.Skip("runs every operator at a size that takes a while")
	}
	seen := map[string]bool{}
	for _, text := range largeNodes(t) {
		name, _, _ := strings.Cut(text, "(")
		name = name[strings.LastIndex(name, " ")+1:]
		seen[name] = true
		t.Run(text, func(t *testing.T) {
			runtime.LockOSThread() // so that the thread's time is that of the kernel
			defer runtime.UnlockOSThread()
			grow(t, text, "reference")
			grow(t, text, "cpu")
		})
	}
	for _, o := range ops.All() {
		name := strings.TrimPrefix(o.Domain+"."+o.Name, ".")
		if _, ok := smallWork[name]; !ok && !seen[name] {
			t.Errorf("%s has no node that shows that it ends early, and no reason why it needs none", name)
		}
		delete(smallWork, name)
	}
	require.Empty(t, smallWork)
}

// grow runs larger and larger nodes until one takes long enough.
func grow(t *testing.T, text, by string) {
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // nor swept
	for size, growth := 256, 1; ; size *= growth {
		n := parseLarge(t, text, size)
		if n == nil || n.bytes > mostBytes {
			t.Logf("%s, N=%d: too large", by, size)
			return
		}
		p, err := prepareBy(t.Context(), by, n.node)
		require.NoError(t, err)
		if p.Kernel == nil {
			return
		}
		most, total := n.work(t, p)
		for again := 0; most > mostWork && again < 2; again++ { // other work on the machine makes a thread slower: one of several runs is enough
			most, total = n.work(t, p)
		}
		require.LessOrEqual(t, most, mostWork, "%s, N=%d: of %v in all", by, size, total)
		if total >= enoughWork || !thorough && total >= shortWork && most <= total/2 {
			t.Logf("%s, N=%d: %v of %v", by, size, most, total)
			return
		}
		if n.bytes == 0 || !strings.Contains(text, "N") {
			t.Fatalf("the node is no large one: it takes %v", total)
		}
		switch {
		case total < shortWork/256:
			growth = 16
		case total < shortWork/16:
			growth = 4
		default:
			growth = 2
		}
	}
}

// work runs a kernel; it returns the most work between two looks, or after the end of the context, and all work.
func (n *largeNode) work(t *testing.T, p backend.Prepared) (most, total time.Duration) {
	c := n.call(p)
	debug.FreeOSMemory() // what a kernel allocates is fresh, then: it need not be cleared
	ctx := newLooked(t.Context())
	start := ctx.last
	c.Ctx = ctx
	require.NoError(t, p.Kernel.Run(c))
	ctx.look()
	if total = ctx.last - start; ctx.channel && ctx.most > mostWork {
		return n.endedAnywhere(t, p, total), total
	}
	return ctx.most, total
}

// prepareBy is the kernel of a backend; none if it leaves the node to the reference kernel.
func prepareBy(ctx context.Context, by string, n *ssa.Node) (backend.Prepared, error) {
	if by == "reference" {
		return backend.Prepared{Kernel: ops.KernelFunc(ops.Eval)}, nil
	}
	return cpu.New().Prepare(ctx, n, 1)
}

func (n *largeNode) call(p backend.Prepared) *ops.Call {
	c := &ops.Call{Node: n.node, In: append([]ndarray.Value(nil), n.in...), Threads: 1, Memory: 2 << 30, Scratch: ndarray.AlignedBytes(int(p.Scratch))}
	for _, i := range p.Absorbed {
		c.In[i] = nil
	}
	for _, v := range n.node.Out {
		shape, ok := v.Type.Static()
		if !ok || v.Type.Kind != ssa.KindTensor {
			c.Out = append(c.Out, nil)
			continue
		}
		c.Out = append(c.Out, ndarray.Must(v.Type.DType, shape...))
	}
	return c
}

// endedAnywhere ends runs of about so much work at several moments; it returns the most work after that.
func (n *largeNode) endedAnywhere(t *testing.T, p backend.Prepared, total time.Duration) (most time.Duration) {
	for _, part := range []time.Duration{1, 3, 5, 7} {
		most = max(most, n.endedAt(t, p, total*part/8))
	}
	return most
}

// endedAt ends a run after a time; it returns the work after that, 0 if the run was over before. The thread that ends the
// context reads the processor time of the kernel's thread before and after. If it was itself interrupted there, the work
// that the kernel did meanwhile is not known, and the run is repeated.
func (n *largeNode) endedAt(t *testing.T, p backend.Prepared, after time.Duration) time.Duration {
	const mostUnknown = mostWork / 20
	thread := unix.Gettid()
	for range 100 {
		ctx, cancel := context.WithCancel(t.Context())
		var from, to time.Duration // the context ended between them
		ended := make(chan struct{})
		c := n.call(p)
		c.Ctx = ctx
		timer := time.AfterFunc(after, func() {
			from = threadTime(thread)
			cancel()
			to = threadTime(thread)
			close(ended)
		})
		_ = p.Kernel.Run(c)
		if timer.Stop() {
			cancel()
			return 0
		}
		<-ended
		if to-from <= mostUnknown {
			return threadTime(0) - from
		}
	}
	t.Fatal("the machine is too busy to end a run at a known time")
	return 0
}

// A large node is written as
//
//	RESULTS= DOMAIN.NAME(OPERANDS) ATTRIBUTES
//
//	float16[8,N]       an operand; N is the size that grows; elements are small
//	int64[N]<N         indices below a bound
//	float32[N,N]!      a matrix that has an inverse
//	int64=3,N          a constant vector, int64:3 a constant scalar
//	seq float32[64]*N  a sequence of N of them
//	_                  an operand that is absent
//
// The attribute program lists the functions of a tile program, which begins with the product or the first operand; Add adds the
// operand that is next. The attribute form=rows is that of an attention over stacks of queries, keys and values, [stack, rows, size],
// and masks [queries, keys] to be added.
var (
	largeForm   = regexp.MustCompile(`^(?:(\d+)= )?(?:([\w.]+)\.)?(\w+)\((.*)\)((?: \w+=\S+)*)$`)
	operandForm = regexp.MustCompile(`^(seq )?(\w+)(?:\[([\w,]*)\](!)?(?:<(\w+))?(?:\*(\w+))?|=([\w,.-]+)|:([\w.-]+))$`)
)

// parseLarge makes the node of a size, nil if it is too large.
func parseLarge(t *testing.T, text string, size int) *largeNode {
	m := largeForm.FindStringSubmatch(text)
	require.NotNil(t, m, text)
	g, n := ssa.NewGraph("large"), &largeNode{}
	var in []*ssa.Value
	for i, s := range splitOperands(m[4]) {
		if s == "_" {
			in, n.in = append(in, nil), append(n.in, nil)
			continue
		}
		v, konst := parseOperand(t, s, size, n)
		if n.bytes > mostBytes {
			return nil
		}
		name := fmt.Sprint("in", i)
		n.in = append(n.in, v)
		a, isArray := v.(*ndarray.Array)
		switch {
		case konst:
			in = append(in, g.AddConst(name, ssa.NewConstant(a)))
		case isArray:
			in = append(in, g.AddParam(name, x2type(a)))
		default:
			in = append(in, g.AddParam(name, ssa.SequenceOf(x2type(v.(*ndarray.Sequence).Items[0].(*ndarray.Array)))))
		}
	}
	results, _ := strconv.Atoi(m[1])
	n.node = g.NewNode(m[3], in, max(results, 1), parseAttrs(t, m[5], size)...)
	n.node.Domain = m[2]
	if a := n.node.Attr("program"); a != nil {
		*a = fused.Attr(tileProgram(strings.Split(a.S, ","), in[0].Type.DType))
	}
	if a := n.node.Attr("form"); a != nil {
		*a = fused.FormAttr(stackedAttention(in))
	}
	require.NoError(t, ops.Infer(n.node), "%s, N=%d", text, size)
	for _, v := range n.node.Out {
		if b, ok := v.Type.ByteSize(); ok {
			n.bytes += int64(b)
		}
	}
	return n
}

// stackedAttention is the form of an attention over contiguous operands.
func stackedAttention(in []*ssa.Value) *fused.AttentionForm {
	var shapes [3][]int
	var lies [3]fused.Strided
	for i := range shapes {
		s, _ := in[i].Type.Static()
		shapes[i], lies[i] = s, fused.Strided{Batch: []int{s[1] * s[2]}, Row: s[2], Col: 1}
	}
	stack, queries, keys, size := shapes[0][0], shapes[0][1], shapes[1][1], shapes[2][2]
	f := &fused.AttentionForm{Batch: []int{stack}, S: queries, T: keys, D: shapes[0][2], E: size, Result: []int{stack, queries, size},
		Q: lies[0], K: lies[1], V: lies[2], Y: fused.Strided{Batch: []int{queries * size}, Row: size, Col: 1}, Scale: 0.125}
	for range in[3:] {
		f.Masks = append(f.Masks, fused.AttentionMask{Kind: fused.AddMask, Lies: fused.Strided{Batch: []int{0}, Row: keys, Col: 1}})
	}
	return f
}

// tileProgram is the program of some functions, each of the result of the one before.
func tileProgram(functions []string, dt ndarray.DType) *tile.Program {
	p := &tile.Program{Operands: []ndarray.DType{dt}}
	for _, f := range functions {
		if f == "Add" {
			p.Operands = append(p.Operands, dt)
		}
	}
	acc, next := tile.Ref(0), tile.Ref(1)
	for _, f := range functions {
		args := []tile.Ref{acc}
		if f == "Add" {
			args = append(args, next)
			next++
		}
		acc = p.Add(tile.Instr{Op: tile.Op(f), DType: dt, Args: args})
	}
	p.Store(acc)
	return p
}

// splitOperands cuts a list at commas followed by blanks.
func splitOperands(s string) []string {
	if s == "" {
		return nil
	}
	return strings.Split(s, ", ")
}

// sized reads a number or N, times or divided by one.
func sized(t *testing.T, s string, size int) float64 {
	if rest, ok := strings.CutPrefix(s, "N"); ok && s != "N-1" {
		if by, err := strconv.Atoi(strings.TrimPrefix(rest, "d")); err == nil {
			return float64(max(size/by, 1))
		}
		require.Empty(t, rest, s)
		return float64(size)
	}
	if s == "N-1" {
		return float64(size - 1)
	}
	if k, ok := strings.CutSuffix(s, "N"); ok {
		f, err := strconv.Atoi(k)
		require.NoError(t, err, s)
		return float64(f * size)
	}
	v, err := strconv.ParseFloat(s, 64)
	require.NoError(t, err, s)
	return v
}

func parseOperand(t *testing.T, s string, size int, n *largeNode) (v ndarray.Value, konst bool) {
	m := operandForm.FindStringSubmatch(s)
	require.NotNil(t, m, s)
	dt, ok := ndarray.ParseDType(m[2])
	require.True(t, ok, s)
	if list := m[7] + m[8]; list != "" {
		parts := strings.Split(list, ",")
		a := ndarray.Must(dt, len(parts))
		for i, p := range parts {
			a.SetFloat(i, sized(t, p, size))
		}
		if m[8] != "" {
			a = a.Reshaped()
		}
		return a, true
	}
	shape := []int{}
	for _, p := range strings.FieldsFunc(m[3], func(r rune) bool { return r == ',' }) {
		shape = append(shape, int(sized(t, p, size)))
	}
	bound := 0.0
	if m[5] != "" {
		bound = sized(t, m[5], size)
	}
	count := 1
	if m[6] != "" {
		count = int(sized(t, m[6], size))
	}
	elems := 1.0
	for _, d := range shape {
		elems *= float64(d)
	}
	n.bytes += int64(math.Min(elems*float64(max(dt.Size(), 1)*count), 1<<40))
	if n.bytes > mostBytes {
		return ndarray.Must(dt), false // the node is not run
	}
	a := ndarray.Must(dt, shape...)
	fillLarge(a, int(bound))
	for i := 0; m[4] != "" && i < a.Len(); i += shape[1] + 1 {
		a.SetFloat(i, float64(size)) // above the sum of the rest of its row
	}
	if m[1] == "" {
		return a, false
	}
	q := &ndarray.Sequence{Elem: dt}
	for range count {
		q.Items = append(q.Items, a)
	}
	return q, false
}

// fillLarge stores small numbers, or indices below a bound; they are repeated after a while.
func fillLarge(a *ndarray.Array, bound int) {
	const period = 1 << 16
	for i := range min(a.Len(), period) {
		switch {
		case a.DType == ndarray.String:
			a.Str[i] = "word " + strconv.Itoa(i%1000)
		case bound > 0:
			a.SetInt(i, int64(uint32(i)*2654435761>>3)%int64(bound))
		case a.DType.IsFloat():
			a.SetFloat(i, float64(1+uint32(i)*2654435761>>22)/1025)
		case a.DType.IsComplex():
			a.Data[i] = byte(i) & 3
		default:
			a.SetInt(i, int64(i*7919%2+1))
		}
		if a.DType == ndarray.Bool && bound == 0 {
			a.Data[i] = byte(i) & 1
		}
	}
	if a.Len() > period {
		for n := len(a.Data) / a.Len() * period; n < len(a.Data); {
			n += copy(a.Data[n:], a.Data[:n])
		}
		for n := period; n < len(a.Str); {
			n += copy(a.Str[n:], a.Str[:n])
		}
	}
}

// parseAttrs reads NAME=VALUE: an integer, a float with a point, a list in brackets, or a string.
func parseAttrs(t *testing.T, text string, size int) (out []ssa.Attr) {
	for _, f := range strings.Fields(text) {
		name, v, _ := strings.Cut(f, "=")
		if list, ok := strings.CutPrefix(v, "["); ok {
			parts := strings.Split(strings.TrimSuffix(list, "]"), ",")
			switch {
			case strings.Contains(list, "."):
				var floats []float32
				for _, p := range parts {
					p, times, _ := strings.Cut(p, "*")
					for range repeat(t, times, size) {
						floats = append(floats, float32(sized(t, p, size)))
					}
				}
				out = append(out, ssa.FloatsAttr(name, floats...))
			case strings.HasPrefix(list, "'"):
				var words []string
				for _, p := range parts {
					words = append(words, strings.Trim(p, "'"))
				}
				out = append(out, ssa.StringsAttr(name, words...))
			default:
				var ints []int64
				for _, p := range parts {
					p, times, _ := strings.Cut(p, "*")
					for range repeat(t, times, size) {
						ints = append(ints, int64(sized(t, p, size)))
					}
				}
				out = append(out, ssa.IntsAttr(name, ints...))
			}
			continue
		}
		k, err := strconv.ParseInt(v, 10, 64)
		x, err2 := strconv.ParseFloat(v, 32)
		switch {
		case v == "N":
			out = append(out, ssa.IntAttr(name, int64(size)))
		case err == nil:
			out = append(out, ssa.IntAttr(name, k))
		case err2 == nil:
			out = append(out, ssa.FloatAttr(name, float32(x)))
		default:
			out = append(out, ssa.StringAttr(name, v))
		}
	}
	return out
}

func repeat(t *testing.T, s string, size int) int {
	if s == "" {
		return 1
	}
	return int(sized(t, s, size))
}
