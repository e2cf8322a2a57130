package train

import (
	"math"

	"github.com/berth-onnx/berth/ssa"
)

// Optimizer says how derivatives change weights. The formulas are PyTorch's; g is the derivative, r the rate of the step, which
// is counted from 1. Momentum and the betas are from 0 to below 1, epsilons and decays finite from 0 on: [New] refuses others.
type Optimizer struct {
	numbers []number // that it was made of
	moments int      // tensors like the weight that are kept
	scalars int      // that the formula needs besides the rate
	// scalar is one of them, for a step.
	scalar func(i, step int) float64
	// update writes the new weight and the new moments.
	update func(b *Builder, w, g *ssa.Value, moments []*ssa.Value, rate *ssa.Value, scalars []*ssa.Value) (*ssa.Value, []*ssa.Value)
}

// decayed is g + decay·w.
func decayed(b *Builder, w, g *ssa.Value, decay float64) *ssa.Value {
	if decay == 0 {
		return g
	}
	return b.add(g, b.times(w, decay))
}

// SGD is w - r·(g + decay·w).
func SGD(decay float64) Optimizer {
	return Optimizer{numbers: []number{notNegative("SGD decay", decay)}, update: func(b *Builder, w, g *ssa.Value, _ []*ssa.Value, rate *ssa.Value, _ []*ssa.Value) (*ssa.Value, []*ssa.Value) {
		return b.sub(w, b.mul(decayed(b, w, g, decay), rate)), nil
	}}
}

// Momentum keeps v = momentum·v + g + decay·w and takes w - r·v.
func Momentum(momentum, decay float64) Optimizer {
	return withMomentum("Momentum", momentum, decay, false)
}

// Nesterov keeps the same v and takes w - r·(g + decay·w + momentum·v).
func Nesterov(momentum, decay float64) Optimizer {
	return withMomentum("Nesterov", momentum, decay, true)
}

func withMomentum(name string, momentum, decay float64, ahead bool) Optimizer {
	numbers := []number{fraction(name+" momentum", momentum), notNegative(name+" decay", decay)}
	return Optimizer{numbers: numbers, moments: 1, update: func(b *Builder, w, g *ssa.Value, m []*ssa.Value, rate *ssa.Value, _ []*ssa.Value) (*ssa.Value, []*ssa.Value) {
		g = decayed(b, w, g, decay)
		v := b.add(b.times(m[0], momentum), g)
		way := v
		if ahead {
			way = b.add(g, b.times(v, momentum))
		}
		return b.sub(w, b.mul(way, rate)), []*ssa.Value{v}
	}}
}

// Adam keeps m = β₁·m + (1-β₁)·g and v = β₂·v + (1-β₂)·g² and takes w - r/(1-β₁ᵗ)·m/(√v/√(1-β₂ᵗ) + ε) in step t. The decay is added
// to g.
func Adam(beta1, beta2, epsilon, decay float64) Optimizer {
	return adam("Adam", beta1, beta2, epsilon, decay, false)
}

// AdamW is Adam whose decay shrinks the weight itself, by r·decay.
func AdamW(beta1, beta2, epsilon, decay float64) Optimizer {
	return adam("AdamW", beta1, beta2, epsilon, decay, true)
}

func adam(name string, beta1, beta2, epsilon, decay float64, apart bool) Optimizer {
	return Optimizer{moments: 2,
		numbers: []number{fraction(name+" beta1", beta1), fraction(name+" beta2", beta2), notNegative(name+" epsilon", epsilon), notNegative(name+" decay", decay)},
		scalars: 2,
		scalar: func(i, step int) float64 {
			if i == 0 {
				return 1 / (1 - math.Pow(beta1, float64(step)))
			}
			return 1 / math.Sqrt(1-math.Pow(beta2, float64(step)))
		},
		update: func(b *Builder, w, g *ssa.Value, m []*ssa.Value, rate *ssa.Value, s []*ssa.Value) (*ssa.Value, []*ssa.Value) {
			if apart && decay != 0 {
				w = b.sub(w, b.mul(b.times(w, decay), rate))
			} else {
				g = decayed(b, w, g, decay)
			}
			first := b.add(b.times(m[0], beta1), b.times(g, 1-beta1))
			second := b.add(b.times(m[1], beta2), b.times(b.mul(g, g), 1-beta2))
			spread := b.mul(b.sqrt(second), s[1])
			way := b.div(b.mul(first, b.mul(rate, s[0])), b.add(spread, b.Number(w, epsilon)))
			return b.sub(w, way), []*ssa.Value{first, second}
		}}
}

// Adagrad keeps h = h + g² and takes w - r·g/(√h + ε).
func Adagrad(epsilon, decay float64) Optimizer {
	numbers := []number{notNegative("Adagrad epsilon", epsilon), notNegative("Adagrad decay", decay)}
	return Optimizer{numbers: numbers, moments: 1, update: func(b *Builder, w, g *ssa.Value, m []*ssa.Value, rate *ssa.Value, _ []*ssa.Value) (*ssa.Value, []*ssa.Value) {
		g = decayed(b, w, g, decay)
		h := b.add(m[0], b.mul(g, g))
		return b.sub(w, b.div(b.mul(g, rate), b.add(b.sqrt(h), b.Number(w, epsilon)))), []*ssa.Value{h}
	}}
}
