package trial

import (
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ssa"
)

// mostWords bounds the strings of a model that are tried, longest their length.
const mostWords, longest = 48, 256

// ordinary are strings that a model may treat each in its own way: by case, length, letters and spaces.
var ordinary = []string{"berth", "Berth", "", "two words", "GRÖSSE", "größe", "7", " a b ", "日本", "x@y.org"}

// numerals are what strings are drawn from where a model converts them to numbers.
var numerals = []string{"1", "-2.5", "0", "3e2", "7"}

// Words lists strings worth giving to a model: those that the graph and its bodies hold as constants and as lists in attributes, mixed with
// ordinary ones; numerals if strings are converted to numbers.
func Words(g *ssa.Graph) []string {
	var own []string
	seen := map[string]bool{}
	add := func(words []string) {
		for _, w := range words {
			if len(own) < mostWords && len(w) <= longest && !seen[w] {
				seen[w] = true
				own = append(own, w)
			}
		}
	}
	others := ordinary
	g.Walk(func(b *ssa.Graph) {
		for _, v := range b.Values() {
			if v != nil {
				add(texts(v.Const))
			}
		}
		for _, n := range b.Nodes {
			if n.Op == "Cast" && n.Input(0) != nil && n.In[0].Type.DType == ndarray.String {
				others = numerals
			}
			for i := range n.Attrs {
				add(n.Attrs[i].Strings)
				add(texts(n.Attrs[i].Tensor))
			}
		}
	})
	var all []string
	for i := range max(len(own), len(others)) {
		if i < len(own) {
			all = append(all, own[i])
		}
		if i < len(others) && !seen[others[i]] {
			all = append(all, others[i])
		}
	}
	return all
}

// texts are the strings of a constant; none for a constant of numbers.
func texts(k *ssa.Constant) []string {
	if k == nil || k.DType() != ndarray.String {
		return nil
	}
	a, err := k.Array()
	if err != nil {
		return nil
	}
	return a.Str[:min(len(a.Str), mostWords)]
}
