package trial

import (
	"math"
	"regexp"
	"slices"
	"strconv"

	"github.com/berth-onnx/berth/ssa"
)

const (
	// mostSizes bounds what Sizes returns, largestSize what is worth a trial.
	mostSizes   = 64
	largestSize = 1 << 16

	// shortList bounds the constants whose elements may be sizes: targets of reshapes, ends of slices.
	shortList = 8
)

// Sizes lists, by size, what an open dimension of the graph may have to be: numbers from the text of an error, lengths of weights, elements of short
// integer constants, and the sides of squares of so many elements, also with one element more, as in embeddings of positions.
func Sizes(g *ssa.Graph, text string) (sizes []int) {
	add := func(n int64) {
		if n > 1 && n <= largestSize && !slices.Contains(sizes, int(n)) {
			sizes = append(sizes, int(n))
		}
	}
	for _, digits := range regexp.MustCompile(`\d+`).FindAllString(text, -1) {
		if n, err := strconv.ParseInt(digits, 10, 64); err == nil {
			add(n)
		}
	}
	named := len(sizes)
	g.Walk(func(b *ssa.Graph) {
		for _, v := range b.Values() {
			for _, n := range lengths(v.Const) {
				add(n)
			}
		}
	})
	slices.Sort(sizes[named:])
	return sizes[:min(len(sizes), named+mostSizes)]
}

// lengths are the sizes that a constant suggests.
func lengths(c *ssa.Constant) (sizes []int64) {
	if c == nil {
		return nil
	}
	sizes = c.Ints(shortList)
	if len(c.Shape()) > 1 {
		sizes = nil
		for _, n := range c.Shape() {
			sizes = append(sizes, int64(n))
		}
	}
	for _, n := range sizes {
		for _, area := range []int64{n, n - 1} {
			if side := int64(math.Sqrt(float64(area))); area > 0 && side*side == area {
				sizes = append(sizes, side)
			}
		}
	}
	return sizes
}
