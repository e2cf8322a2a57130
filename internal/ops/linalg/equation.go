package linalg

import (
	"fmt"
	"slices"
	"strings"
)

// einsum is a parsed equation for operands of known rank. Labels are the letters'
// character codes; the dimensions of an ellipsis are -1, -2, … from its right end.
type einsum struct {
	in   [][]int
	out  []int
	last map[int]int // the last term with a label; behind all of them for those of the result
}

// Equation reads the equation of an Einsum for operands of some shapes: the labels of the operands and of the result, and how long
// they are.
func Equation(equation string, shapes [][]int) (in [][]int, out []int, dims map[int]int, err error) {
	eq, dims, err := parsed(equation, shapes)
	return eq.in, eq.out, dims, err
}

// parsed is an equation for operands of some shapes, and how long labels are.
func parsed(equation string, shapes [][]int) (eq einsum, dims map[int]int, err error) {
	ranks := make([]int, len(shapes))
	for i, s := range shapes {
		ranks[i] = len(s)
	}
	if eq, err = parseEinsum(equation, ranks); err == nil {
		dims, err = eq.dims(shapes)
	}
	return eq, dims, err
}

// parseEinsum reads "ij,jk->ik", "ij,jk" (implicit result: the labels that occur
// once, in ASCII order, behind the ellipsis) and the like.
func parseEinsum(equation string, ranks []int) (eq einsum, err error) {
	text := strings.ReplaceAll(equation, " ", "")
	left, right, explicit := strings.Cut(text, "->")
	terms := strings.Split(left, ",")
	if len(terms) != len(ranks) {
		return eq, fmt.Errorf("equation %q has %d terms for %d operands", equation, len(terms), len(ranks))
	}
	widest := 0 // dimensions of the ellipsis
	for i, term := range terms {
		letters := strings.Replace(term, "...", "", 1)
		extra := ranks[i] - len(letters)
		dots := len(letters) != len(term)
		if extra < 0 || extra > 0 && !dots {
			return eq, fmt.Errorf("term %q of equation %q does not fit rank %d", term, equation, ranks[i])
		}
		labels, err := einsumLabels(term, extra)
		if err != nil {
			return eq, fmt.Errorf("equation %q: %w", equation, err)
		}
		eq.in = append(eq.in, labels)
		widest = max(widest, extra)
	}
	eq.last = map[int]int{}
	for i, labels := range eq.in {
		for _, l := range labels {
			eq.last[l] = i
		}
	}
	if !explicit {
		eq.out = eq.implicit(widest)
	} else if eq.out, err = einsumLabels(right, widest); err != nil {
		return eq, fmt.Errorf("equation %q: %w", equation, err)
	}
	for _, l := range eq.out {
		if at, used := eq.last[l]; explicit && (!used || at == len(eq.in)) {
			return eq, fmt.Errorf("equation %q: label %s on the right must be on the left and occur once", equation, labelName(l))
		}
		eq.last[l] = len(eq.in)
	}
	return eq, nil
}

// einsumLabels reads one term; an ellipsis stands for extra dimensions.
func einsumLabels(term string, extra int) ([]int, error) {
	var out []int
	before, after, dots := strings.Cut(term, "...")
	for i, part := range []string{before, after} {
		if i == 1 && dots {
			for d := extra; d > 0; d-- {
				out = append(out, -d)
			}
		}
		for _, r := range part {
			if (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') {
				return nil, fmt.Errorf("%q in term %q is no label", r, term)
			}
			out = append(out, int(r))
		}
	}
	return out, nil
}

func labelName(l int) string {
	if l < 0 {
		return "..."
	}
	return string(rune(l))
}

// implicit is the result of an equation without a right side.
func (eq einsum) implicit(ellipsis int) []int {
	count := map[int]int{}
	for _, labels := range eq.in {
		for _, l := range labels {
			count[l]++
		}
	}
	var out []int
	for d := ellipsis; d > 0; d-- {
		out = append(out, -d)
	}
	for l := int('A'); l <= 'z'; l++ {
		if count[l] == 1 {
			out = append(out, l)
		}
	}
	return out
}

// union lists the labels of a, then those of b that a lacks.
func union(a, b []int) []int {
	out := slices.Clone(a)
	for _, l := range b {
		if !slices.Contains(out, l) {
			out = append(out, l)
		}
	}
	return out
}

// neededAfter lists the labels of two factors that the result or one of the
// terms from next on still needs.
func (eq einsum) neededAfter(a, b []int, next int) []int {
	return slices.DeleteFunc(union(union(nil, a), b), func(l int) bool { return eq.last[l] < next })
}

// dims gives every label its length; lengths of 1 broadcast.
func (eq einsum) dims(shapes [][]int) (map[int]int, error) {
	dims := map[int]int{}
	for i, labels := range eq.in {
		for k, l := range labels {
			d := shapes[i][k]
			switch old, ok := dims[l]; {
			case !ok || old == 1:
				dims[l] = d
			case d != old && d != 1:
				return nil, fmt.Errorf("label %s is %d and %d long", labelName(l), old, d)
			}
		}
	}
	return dims, nil
}
