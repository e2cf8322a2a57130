package train

import (
	"fmt"
	"math"

	"github.com/berth-onnx/berth"
	"github.com/berth-onnx/berth/ndarray"
)

// Numbers that options, optimizers, schedules and losses are given. Functions that make these return no error: they keep what is wrong, and
// [New] returns it, before anything is compiled. The ranges are PyTorch's; a momentum of 1 and more, which it takes, only grows.

// number is one of them, with the range that it is in.
type number struct {
	option string
	value  float64
	holds  func(v float64) bool // for what is finite
	want   string
}

// notNegative is a number from 0 on.
func notNegative(option string, v float64) number {
	return number{option, v, func(v float64) bool { return v >= 0 }, "a finite number from 0 on"}
}

// positive is a number above 0.
func positive(option string, v float64) number {
	return number{option, v, func(v float64) bool { return v > 0 }, "a finite number above 0"}
}

// fraction is a number of what is kept from one step to the next.
func fraction(option string, v float64) number {
	return number{option, v, func(v float64) bool { return v >= 0 && v < 1 }, "a number from 0 to below 1"}
}

// count is a number of steps or bytes.
func count(option string, n, least int64, want string) number {
	return number{option, float64(n), func(v float64) bool { return v >= float64(least) }, want}
}

// check reports a number outside of its range, which is a [*berth.OptionError].
func (n number) check() error {
	if !math.IsInf(n.value, 0) && n.holds(n.value) {
		return nil
	}
	return n.refused(n.want)
}

// fits reports a number beyond those of an element type.
func (n number) fits(dt ndarray.DType) error {
	if !dt.IsFloat() {
		return nil
	}
	a := ndarray.Must(dt)
	if a.SetFloat(0, n.value); math.IsInf(a.Float(0), 0) {
		return n.refused(fmt.Sprintf("a number that %s has, of which the weights are", dt))
	}
	return nil
}

func (n number) refused(want string) error {
	return &berth.OptionError{Option: n.option, Got: fmt.Sprint(n.value), Want: want}
}

// firstWrong is the first error that a check has.
func firstWrong(numbers []number, check func(number) error) error {
	for _, n := range numbers {
		if err := check(n); err != nil {
			return err
		}
	}
	return nil
}
