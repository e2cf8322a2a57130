package train

import (
	"math"

	"github.com/berth-onnx/berth"
)

// Schedule is the rate of a step, counted from 1: a finite number from 0 on. [New] asks for the first, too, and returns what the functions
// below find wrong with their arguments. A rate must be a number of the weights' type.
type Schedule func(step int) float64

// Constant is the same rate in every step.
func Constant(rate float64) Schedule {
	return scheduled(func(int) float64 { return rate }, notNegative("Constant rate", rate))
}

// Decay multiplies the rate with a factor, of 0 or more, after every number of steps, 1 at least.
func Decay(rate, factor float64, every int) Schedule {
	return scheduled(func(step int) float64 { return rate * math.Pow(factor, float64((step-1)/every)) },
		notNegative("Decay rate", rate), notNegative("Decay factor", factor), count("Decay every", int64(every), 1, "a number of steps, 1 at least"))
}

// Cosine falls from rate to least over a number of steps, 1 at least, and stays there.
func Cosine(rate, least float64, steps int) Schedule {
	return scheduled(func(step int) float64 {
		done := min(float64(step-1)/float64(steps), 1)
		return least + (rate-least)*(1+math.Cos(math.Pi*done))/2
	}, notNegative("Cosine rate", rate), notNegative("Cosine least", least), count("Cosine steps", int64(steps), 1, "a number of steps, 1 at least"))
}

// Warmup raises the rate of another schedule from 0 over its first steps; 0 steps are none.
func Warmup(steps int, then Schedule) Schedule {
	if then == nil {
		return refused(&berth.OptionError{Option: "Warmup then", Got: "nil", Want: "a schedule"})
	}
	return scheduled(func(step int) float64 { return then(step) * min(float64(step)/float64(max(steps, 1)), 1) },
		count("Warmup steps", int64(steps), 0, "a number of steps, or 0 for none"))
}

// scheduled is a schedule that panics with what is wrong with the numbers it was made of, if anything is.
func scheduled(s Schedule, numbers ...number) Schedule {
	if err := firstWrong(numbers, number.check); err != nil {
		return refused(err)
	}
	return s
}

// refused is a schedule that panics.
func refused(err error) Schedule {
	return func(int) float64 { panic(err) }
}
