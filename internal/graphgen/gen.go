package graphgen

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	_ "github.com/berth-onnx/berth/ops/standard"
	"github.com/berth-onnx/berth/ssa"
)

// Feature is a family of nodes a generated graph may have.
type Feature uint

// The features.
const (
	Elementwise Feature = 1 << iota // unary and binary arithmetic, Where, Clip
	Products                        // MatMul, Gemm, Conv with their scales and shifts
	Moves                           // Reshape, Transpose, Concat, Split, Slice, Gather, Pad, Expand
	Shapes                          // Shape and arithmetic on it, feeding Reshape, Expand, Slice
	Reductions                      // ReduceSum and the like, ArgMax
	Branches                        // If
	Loops                           // Loop
	Scans                           // Scan
	Motifs                          // rows of nodes that optimizers know: Gelu written out, double transposes …
	DTypes                          // float64, int32, int64, bool beside float32
	Symbols                         // parameters with symbolic dimensions

	All = 1<<iota - 1
)

// Extremes draws constants of any size that the element type has and of more dimensions than the operand, and parameters
// of one float type, float16 to float64, or of small integers; dimensions called N may be 0. It is not among All: results
// overflow and lose digits, so [AgreeAtExtremes] compares them.
const Extremes Feature = 1 << 20

// Config says what to draw.
type Config struct {
	Features Feature // 0 means All
	Nodes    int     // about how many nodes per graph; 0 means 12
	Depth    int     // how deep control flow may nest; 0 means 2
}

func (c Config) withDefaults() Config {
	if c.Features == 0 {
		c.Features = All
	}
	if c.Nodes == 0 {
		c.Nodes = 12
	}
	if c.Depth == 0 {
		c.Depth = 2
	}
	return c
}

// New draws a graph. The same seed and configuration always give the same graph.
// It passes ops.Check, and runs on every operand that [Inputs] draws for it. An
// error is a bug of the generator or of a type rule.
func New(seed uint64, cfg Config) (g *ssa.Graph, err error) {
	b := &builder{g: ssa.NewGraph(fmt.Sprintf("seed%d", seed)), rng: rand.New(rand.NewPCG(seed, 0xbe47)), cfg: cfg.withDefaults(), names: new(int), inexact: map[*ssa.Value]bool{}}
	defer func() {
		switch r := recover().(type) {
		case nil:
		case genError:
			err = r.err
		default:
			panic(r)
		}
	}()
	b.float = ndarray.Float32
	if b.has(Extremes) {
		b.float = extremeFloats[b.rng.IntN(len(extremeFloats))]
	}
	b.params()
	b.grow(b.cfg.Nodes)
	b.results()
	if err := ops.Check(b.g); err != nil {
		return nil, fmt.Errorf("graphgen: seed %d: %w", seed, err)
	}
	return b.g, nil
}

// genError carries an error out of the recursive builders.
type genError struct{ err error }

// builder grows one graph or body.
type builder struct {
	g     *ssa.Graph
	rng   *rand.Rand
	cfg   Config
	depth int
	names *int          // shared by all graphs of a model
	float ndarray.DType // of most parameters and constants
	pool  []*ssa.Value  // what may be read
	// inexact marks floats with rounding errors. Discontinuous operators (comparisons,
	// ArgMax, casts to integers) read exact values only.
	inexact map[*ssa.Value]bool
	// capture captures a value of the enclosing graph; nil in the outermost graph.
	capture func() *ssa.Value
}

func (b *builder) has(f Feature) bool { return b.cfg.Features&f != 0 }

// chance is true in percent of the cases.
func (b *builder) chance(percent int) bool { return b.rng.IntN(100) < percent }

func (b *builder) fresh() string {
	*b.names++
	return fmt.Sprintf("v%d", *b.names)
}

// node adds a node, infers its types and puts its results into the pool.
func (b *builder) node(op string, in []*ssa.Value, outs int, attrs ...ssa.Attr) []*ssa.Value {
	return b.finish(b.g.NewNode(op, in, outs, attrs...))
}

func (b *builder) finish(n *ssa.Node) []*ssa.Value {
	for _, v := range n.Out {
		if v != nil {
			v.Name = b.fresh()
		}
	}
	if err := ops.Infer(n); err != nil {
		panic(genError{err})
	}
	noisy := slices.ContainsFunc(n.In, func(v *ssa.Value) bool { return v != nil && b.inexact[v] }) ||
		!movesOnly[n.Op] && ops.Of(n) != nil // float arithmetic rounds
	for _, v := range n.Out {
		if v == nil {
			continue
		}
		if noisy && v.Type.DType.IsFloat() {
			b.inexact[v] = true
		}
		if small(v.Type) {
			b.pool = append(b.pool, v)
		}
	}
	return n.Out
}

// small reports a type that later nodes may read: no unknown dimension, because two
// unknown ones are not distinguished, and few elements, so that nested stacks stay quick to
// compute. Symbols count as their maximum, 4.
func small(t ssa.Type) bool {
	n := int64(1)
	for _, d := range t.Shape {
		k, ok := d.Bind(map[string]int64{"N": 4, "M": 4}).Const()
		if n *= max(k, 1); !ok || n > 256 {
			return false
		}
	}
	return true
}

// movesOnly are operators that compute nothing: their results are as exact as
// their operands.
var movesOnly = map[string]bool{
	"Identity": true, "Reshape": true, "Transpose": true, "Concat": true, "Split": true, "Slice": true, "Gather": true, "Pad": true,
	"Expand": true, "Squeeze": true, "Unsqueeze": true, "Flatten": true, "Neg": true, "Abs": true, "Relu": true, "Where": true,
	"ReduceMax": true, "ReduceMin": true, "Max": true, "Min": true, "Clip": true,
}

// one is node for a single result.
func (b *builder) one(op string, in []*ssa.Value, attrs ...ssa.Attr) *ssa.Value {
	return b.node(op, in, 1, attrs...)[0]
}

func (b *builder) constant(c *ssa.Constant) *ssa.Value { return b.g.AddConst(b.fresh(), c) }

func (b *builder) ints(v ...int64) *ssa.Value { return b.constant(ssa.Int64s(v...)) }

// weights draws a constant, now and then a splat.
func (b *builder) weights(dt ndarray.DType, shape ...int) *ssa.Value {
	if b.chance(15) {
		return b.constant(ssa.NewSplat(b.array(dt), shape...))
	}
	return b.constant(ssa.NewConstant(b.array(dt, shape...)))
}

func (b *builder) array(dt ndarray.DType, shape ...int) *ndarray.Array {
	a, err := Array(b.rng, dt, shape...)
	if err != nil {
		panic(genError{err})
	}
	if b.has(Extremes) && dt.IsFloat() && b.chance(50) {
		scale := b.magnitude(dt)
		for i := range a.Len() {
			if v := a.Float(i) * scale; math.Abs(v) <= dt.MaxFinite() {
				a.SetFloat(i, v)
			}
		}
	}
	return a
}

// scalar draws a constant of one element, often one that optimizers know.
func (b *builder) scalar(dt ndarray.DType) *ssa.Value {
	a := ndarray.Must(dt)
	if b.has(Extremes) && b.chance(60) {
		return b.extreme(dt)
	}
	special := []float64{0, 1, 2, -1, 0.5, 3, 6}
	a.SetFloat(0, special[b.rng.IntN(len(special))])
	if b.chance(30) {
		a.SetFloat(0, float64(b.rng.IntN(9)-4)/4)
	}
	if b.chance(20) {
		return b.constant(ssa.NewConstant(a.Reshaped(1)))
	}
	return b.constant(ssa.NewConstant(a))
}

// params draws the graph's parameters, and constants to be read like them.
func (b *builder) params() {
	for range 2 + b.rng.IntN(3) {
		dt := b.float
		if b.has(Extremes) && b.chance(20) {
			dt = []ndarray.DType{ndarray.Int8, ndarray.Uint8, ndarray.Int32, ndarray.Int64}[b.rng.IntN(4)]
		} else if b.has(DTypes) && b.chance(30) {
			dt = []ndarray.DType{ndarray.Float64, ndarray.Int32, ndarray.Int64, ndarray.Bool}[b.rng.IntN(4)]
		}
		dims := make([]ssa.Dim, b.rng.IntN(5))
		for i := range dims {
			dims[i] = ssa.D(int64(1 + b.rng.IntN(4)))
			if b.has(Symbols) && i == 0 && b.chance(40) {
				dims[i] = ssa.Sym([]string{"N", "M"}[b.rng.IntN(2)])
			}
		}
		b.pool = append(b.pool, b.g.AddParam(b.fresh(), ssa.TensorOf(dt, dims...)))
	}
	b.pool = append(b.pool, b.g.AddParam(b.fresh(), ssa.StaticTensor(ndarray.Bool)))
	b.pool = append(b.pool, b.weights(b.float, 1+b.rng.IntN(4)), b.weights(b.float, 2, 1+b.rng.IntN(3)))
}

// grow adds about n nodes.
func (b *builder) grow(n int) {
	makers := b.makers()
	for limit := len(b.g.Nodes) + n; len(b.g.Nodes) < limit; {
		before := len(b.g.Nodes)
		for tries := 0; len(b.g.Nodes) == before; tries++ {
			makers[b.rng.IntN(len(makers))](b)
			if tries == 50 {
				return
			}
		}
	}
}

// predicate says which values a maker takes as its first operand.
type predicate func(*ssa.Value) bool

func (p predicate) and(q predicate) predicate {
	return func(v *ssa.Value) bool { return p(v) && q(v) }
}

func minRank(least int) predicate {
	return func(v *ssa.Value) bool { return v.Type.Rank() >= least }
}

func rankOf(rank int) predicate {
	return func(v *ssa.Value) bool { return v.Type.Rank() == rank }
}

func below(rank int) predicate {
	return func(v *ssa.Value) bool { return v.Type.Rank() < rank }
}

func minLast(least int) predicate {
	return func(v *ssa.Value) bool { return v.Type.Rank() > 0 && lastDim(v) >= least }
}

// on is a maker with a first operand; where none is found it adds nothing.
func on(p predicate, f func(b *builder, v *ssa.Value)) func(*builder) {
	return func(b *builder) {
		if v := b.pick(p); v != nil {
			f(b, v)
		}
	}
}

// makers lists what may be drawn.
func (b *builder) makers() []func(*builder) {
	tensor, float, number := predicate(isTensor), predicate(isFloat), predicate(isNumber)
	exact := func(v *ssa.Value) bool { return !b.inexact[v] }
	single := func(v *ssa.Value) bool { return v.Type.DType == b.float }
	table := []struct {
		need   Feature
		weight int
		make   func(*builder)
	}{
		{Elementwise, 4, on(tensor, unary)}, {Elementwise, 5, on(tensor, binary)}, {Elementwise, 1, on(float, clip)},
		{Elementwise, 1, where}, {Elementwise | DTypes, 1, on(tensor.and(exact), cast)},
		{Products, 2, on(float.and(minRank(2)).and(minLast(1)), matMul)}, {Products, 2, conv}, {Products, 2, affine},
		{Moves, 2, on(tensor.and(noZero), reshape)}, {Moves, 2, on(tensor.and(minRank(2)), transpose)},
		{Moves, 1, on(tensor.and(minRank(1)), concat)}, {Moves, 1, on(tensor.and(minLast(2)), split)},
		{Moves, 1, on(tensor.and(minLast(1)), slice)}, {Moves, 1, on(tensor.and(minLast(1)), gather)},
		{Moves, 1, on(number.and(minRank(1)), pad)}, {Moves, 1, on(tensor.and(below(5)), unsqueeze)},
		{Shapes, 2, on(tensor.and(minRank(2)).and(noZero), shapeChain)}, {Shapes, 1, on(number.and(minRank(1)), expandLike)},
		{Shapes, 1, on(tensor.and(minRank(1)).and(noZero), sliceToEnd)},
		{Reductions, 2, on(number.and(minRank(1)).and(noZero), reduce)}, {Motifs, 4, on(float.and(single), motif)}, {Motifs, 1, repeat},
		{Extremes, 4, on(number, chain)}, {Extremes, 4, on(float.and(rankOf(2)).and(minLast(1)), scaledProduct)}, {Extremes, 6, on(single, motif)},
		{Branches, 2, branch}, {Loops, 2, loop}, {Scans, 2, scan},
	}
	var out []func(*builder)
	for _, m := range table {
		if b.cfg.Features&m.need == m.need {
			for range m.weight {
				out = append(out, m.make)
			}
		}
	}
	if len(out) == 0 {
		out = append(out, on(tensor, unary))
	}
	return out
}

// pick returns a readable value for which ok holds, nil if there is none. Inside
// a body it may capture one. Late values are more probable, so that graphs become deep.
func (b *builder) pick(ok predicate) *ssa.Value {
	if b.capture != nil && b.chance(20) {
		if v := b.capture(); v != nil && ok(v) {
			return v
		}
	}
	var fit []*ssa.Value
	for _, v := range b.pool {
		if ok(v) {
			fit = append(fit, v)
		}
	}
	if len(fit) == 0 {
		return nil
	}
	i := max(b.rng.IntN(len(fit)), b.rng.IntN(len(fit)))
	return fit[i]
}

func isFloat(v *ssa.Value) bool {
	return v.Type.Kind == ssa.KindTensor && v.Type.Ranked && v.Type.DType.IsFloat()
}

func isNumber(v *ssa.Value) bool {
	return v.Type.Kind == ssa.KindTensor && v.Type.Ranked && v.Type.DType != ndarray.Bool
}

func isTensor(v *ssa.Value) bool { return v.Type.Kind == ssa.KindTensor && v.Type.Ranked }

// results chooses what leaves the graph: the last value and a few others.
func (b *builder) results() {
	var made []*ssa.Value
	for _, v := range b.pool {
		if v.Def != nil {
			made = append(made, v)
		}
	}
	if len(made) == 0 {
		made = append(made, b.one("Identity", b.pool[:1]))
	}
	chosen := []*ssa.Value{made[len(made)-1]}
	for range 1 + b.rng.IntN(3) {
		if v := made[b.rng.IntN(len(made))]; !slices.Contains(chosen, v) {
			chosen = append(chosen, v)
		}
	}
	b.g.Results = chosen
}
