package train

import "math"

// Schedule is the rate of a step, counted from 1.
type Schedule func(step int) float64

// Constant is the same rate in every step.
func Constant(rate float64) Schedule { return func(int) float64 { return rate } }

// Decay multiplies the rate with a factor after every number of steps.
func Decay(rate, factor float64, every int) Schedule {
	return func(step int) float64 { return rate * math.Pow(factor, float64((step-1)/max(every, 1))) }
}

// Cosine falls from rate to least over a number of steps, and stays there.
func Cosine(rate, least float64, steps int) Schedule {
	return func(step int) float64 {
		done := min(float64(step-1)/float64(max(steps, 1)), 1)
		return least + (rate-least)*(1+math.Cos(math.Pi*done))/2
	}
}

// Warmup raises the rate of another schedule from 0 over its first steps.
func Warmup(steps int, then Schedule) Schedule {
	return func(step int) float64 { return then(step) * min(float64(step)/float64(max(steps, 1)), 1) }
}
