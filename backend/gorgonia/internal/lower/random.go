package lower

import (
	"fmt"
	"math/rand/v2"

	"gorgonia.org/gorgonia"

	"github.com/berth-onnx/berth/backend/gorgonia/internal/values"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// Draw fills a tensor with random numbers: booleans for dropout, and those of Gorgonia's random nodes. Its attribute holds the
// generator: every run continues the sequence of its seed.
var Draw = ops.Op{
	Domain: stockDomain, Name: "Draw", Since: 1, Doc: "numbers of a distribution",
	MinOut: 1, MaxOut: 1,
	Attrs: []*ops.AttrSpec{{Name: "distribution", Kind: ssa.AttrOther}},
	Infer: func(n *ssa.Node) ([]ops.Inferred, error) {
		d, err := drawnBy(n)
		if err != nil {
			return nil, err
		}
		return ops.One(ssa.StaticTensor(d.dtype, d.shape...)), nil
	},
	Eval:  evalDraw,
	Facts: ops.Facts{Traits: ops.RandomTraits},
}

func init() { ops.Register(&Draw) }

// distribution is the attribute of a Draw.
type distribution struct {
	dtype ndarray.DType
	shape []int
	next  func(*source) float64
	rng   *rand.Rand
}

// source is the generator of one call, which looks at the context between numbers: an element may take any number of them.
type source struct {
	*rand.Rand
	call  *ops.Call
	drawn int
	ended bool // and what is drawn does not count any more
}

// more counts a number that is drawn, just before or just after, and is false once the context has ended.
func (s *source) more() bool {
	if s.drawn++; s.drawn%numbersPerLook == 0 && s.call.Ended() {
		s.ended = true
	}
	return !s.ended
}

// numbersPerLook is how many numbers are drawn between two looks at the context.
const numbersPerLook = 1 << 14

func drawnBy(n *ssa.Node) (*distribution, error) {
	if a := n.Attr("distribution"); a != nil {
		if d, ok := a.Other.(*distribution); ok {
			return d, nil
		}
	}
	return nil, fmt.Errorf("%s has no generator", n)
}

func evalDraw(c *ops.Call) error {
	d, err := drawnBy(c.Node)
	if err != nil {
		return err
	}
	out, err := c.Output(0, d.dtype, d.shape...)
	if err != nil {
		return err
	}
	s := source{Rand: d.rng, call: c}
	for i := range out.Len() {
		out.SetFloat(i, d.next(&s))
		if !s.more() {
			return c.Ctx.Err()
		}
	}
	return nil
}

// draw adds a node that fills a tensor; every one has a sequence of its own.
func (b *builder) draw(dt ndarray.DType, shape []int, next func(*source) float64) *ssa.Value {
	b.draws++
	d := &distribution{dt, shape, next, rand.New(rand.NewPCG(b.options.Seed, b.draws))}
	n := b.out.SSA.NewNode(Draw.Name, nil, 1, ssa.Attr{Name: "distribution", Kind: ssa.AttrOther, Other: d})
	n.Domain = stockDomain
	b.infer(n)
	return n.Out[0]
}

// Gorgonia's distributions in the order of its constants.
const (
	uniform = iota
	gaussian
	binomial
)

// random is a node of numbers from low to high, around a mean with a deviation, or of successes in a number of trials; nil for
// the last in standard ONNX, which lacks it.
func random(b *builder, n *gorgonia.Node, _ []*ssa.Value) *ssa.Value {
	which, err := selector(n.Op(), "which")
	if err != nil {
		b.fail(err)
	}
	x, y := get[float64](b, n, "a"), get[float64](b, n, "b")
	dt, ok := values.DType(n.Dtype())
	if b.err != nil || !ok || which > binomial {
		b.fail(fmt.Errorf("unknown distribution %d of %v", which, n.Dtype()))
		return nil
	}
	if !dt.IsFloat() {
		b.fail(fmt.Errorf("numbers of a distribution are floats, and these elements are %s; convert them with gorgonia.ConvType", dt))
		return nil
	}
	if b.options.Portable {
		return b.portableRandom(n, which, dt, x, y)
	}
	if which == binomial {
		return b.binomial(n, dt, x, y)
	}
	return b.draw(dt, n.Shape(), func(s *source) float64 {
		if which == uniform {
			return x + (y-x)*s.Float64()
		}
		return x + y*s.NormFloat64()
	})
}

// maxTrials is how many trials a binomial node may have: their number is exact in float64.
const maxTrials = 1 << 53

// binomial counts the successes of trials, each of which has a probability p.
func (b *builder) binomial(n *gorgonia.Node, dt ndarray.DType, trials, p float64) *ssa.Value {
	if !(trials >= 0 && trials <= maxTrials) {
		b.fail(fmt.Errorf("%g trials; give a number from 0 to 2^53", trials))
		return nil
	}
	if !(p >= 0 && p <= 1) {
		b.fail(fmt.Errorf("a probability of %g; give one from 0 to 1", p))
		return nil
	}
	return b.draw(dt, n.Shape(), func(s *source) float64 {
		hits := 0.0
		for k := int64(0); k < int64(trials) && s.more(); k++ {
			if s.Float64() < p {
				hits++
			}
		}
		return hits
	})
}

// portableRandom is the standard operator, nil for a binomial distribution.
func (b *builder) portableRandom(n *gorgonia.Node, which int, dt ndarray.DType, x, y float64) *ssa.Value {
	attrs := []ssa.Attr{ssa.IntAttr("dtype", int64(dt)), ssa.IntsAttr("shape", wide(n.Shape())...)}
	switch which {
	case uniform:
		return b.with("RandomUniform", nil, append(attrs, ssa.FloatAttr("low", float32(x)), ssa.FloatAttr("high", float32(y)))...)
	case gaussian:
		return b.with("RandomNormal", nil, append(attrs, ssa.FloatAttr("mean", float32(x)), ssa.FloatAttr("scale", float32(y)))...)
	}
	return nil
}
