package main

import (
	"io"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth"
	"github.com/berth-onnx/berth/internal/conformance"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ssa"
)

// TestWithinRounding has a product of which the last bits depend on the order of
// its sums, and steps that are finer than those bits.
func TestWithinRounding(t *testing.T) {
	const product = `in %x: float32[100,999] in %w: float32[999,100] %p = MatMul(%x, %w) `
	const steps = `const %s: float32[] = 0.000001 const %z: uint16[] = 32768 %q = QuantizeLinear(%p, %s, %z) %y = DequantizeLinear(%q, %s, %z) out %y`
	for _, c := range []struct {
		name, graph string
		times       float64 // what is seen, in multiples of what the order of sums makes
		want        bool
	}{
		{"as far away as the other order", product + steps, 1, true},
		{"nearly four times as far", product + steps, 3.9, true},
		{"far away", product + steps, 100, false},
		{"nothing is quantized", product + `out %p`, 1, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			g, err := ssa.ParseGraph(`graph "g" { ` + c.graph + ` }`)
			require.NoError(t, err)
			m := berth.FromModule(&ssa.Module{Graph: g})
			a := &app{out: io.Discard, errOut: io.Discard, ctx: t.Context()}
			in := map[string]ndarray.Value{}
			for i, p := range m.Inputs() {
				shape, _ := p.Type.Static()
				x, err := randomArray(t.Context(), ndarray.Float32, shape, 1, uint64(i))
				require.NoError(t, err)
				for j := range x.Len() {
					x.SetFloat(j, x.Float(j)/60)
				}
				in[p.Name] = x
			}
			v := verification{a: a, m: m, opt: m, res: &optimizeJSON{}}
			want, err := m.RunValues(t.Context(), in, berth.WithoutPasses())
			require.NoError(t, err)
			other, err := m.RunValues(t.Context(), in, berth.WithoutPasses(), berth.WithBackend("reference"))
			require.NoError(t, err)
			scatter := largestOf(other, want)
			require.Positive(t, scatter, "the orders of sums differ")
			made := map[string]ndarray.Value{}
			for name, x := range tensors(other) {
				y := want[name].(*ndarray.Array)
				a := y.Clone()
				for i := range a.Len() {
					a.SetFloat(i, y.Float(i)+c.times*(x.Float(i)-y.Float(i)))
				}
				made[name] = a
			}
			got, err := v.withinRounding(t.Context(), in, made, want, c.times*scatter)
			require.NoError(t, err)
			assert.Equal(t, c.want, got)
			assert.Equal(t, c.want, v.res.Note != "")
		})
	}
}

// TestVerification compares a model with another one that plays the optimized form, which is wrong in a way that random
// inputs around 1 do not show.
func TestVerification(t *testing.T) {
	const steps = `const %s: float32[] = 0.01 const %z: uint8[] = 128 %q = QuantizeLinear(%a, %s, %z) %y = DequantizeLinear(%q, %s, %z) out %y`
	const flag = `in %x: float32[N] in %c: bool[] `
	const length = `in %x: float32[N] %s = Shape(%x) const %seven: int64[1] = [7] %d = Equal(%s, %seven) %c = Squeeze(%d) `
	const branches = `%y = If(%c | %x) {
		then_branch: graph "t" { in %p: float32[N] %a = OP(%p) out %a } else_branch: graph "e" { in %p: float32[N] %b = OP(%p) out %b } } out %y`
	const alike = `%y = If(%c | %x) {
		then_branch: graph "t" { in %p: float32[N] %a = Neg(%p) @"n" out %a } else_branch: graph "e" { in %p: float32[N] %a = Neg(%p) @"n" out %a } } out %y`
	const constants = `%y = If(%c) { then_branch: graph "t" { const %a: int64[] = 1 out %a } else_branch: graph "e" { const %b: int64[] = 2 out %b } } out %y`
	const within = `const %yes: bool[] = true %z = If(%yes | %c, %x) {
		then_branch: graph "o" { in %c: bool[] in %x: float32[N] ` + branches + ` } else_branch: graph "e" { in %d: bool[] in %p: float32[N] %b = Neg(%p) out %b } } out %z`
	const sized = `%y = If(%c | %x) { then_branch: graph "t" { in %p: float32[3] %a = Shape(%p) out %a } else_branch: graph "e" { in %p: float32[3] const %b: int64[1] = [7] out %b } } out %y`
	const trips = `in %x: float32[3] %t = Size(%x) const %yes: bool[] = true const %z: int64[] = 0
		%y = Loop(%t, %yes, %z) { body: graph "b" { in %i: int64[] in %go: bool[] in %p: int64[] const %on: bool[] = true const %k: int64[] = 5 out %on, %k } } out %y`
	const fixedLoop = `const %t: int64[] = 3 const %yes: bool[] = true
		%y = Loop(%t, %yes, %x) { body: graph "b" { in %i: int64[] in %go: bool[] in %p: float32[2] %a = Neg(%p) out %go, %a } } out %y`
	const loop = `in %x: float32[N] %s = Size(%x) const %k: int64[] = 1000000 %t = Div(%s, %k) const %yes: bool[] = true
		%y = Loop(%t, %yes, %x) { body: graph "b" { in %i: int64[] in %go: bool[] in %p: float32[N] %a = Neg(%p) out %go, %a } } out %y`
	for _, c := range []struct {
		name, model, other string
		verified, untested bool
		notRun             string // a part of it
	}{
		{name: "small outputs", model: `in %x: float32[4] const %k: float32[] = 1e-6 %y = Mul(%x, %k) out %y`,
			other: `in %x: float32[4] const %k: float32[] = 2e-6 %y = Mul(%x, %k) out %y`},
		{name: "numbers too small for float16", model: `in %x: float16[4] in %z: float16[4] const %k: float16[] = 0.0001 %a = Mul(%x, %k) %b = Mul(%z, %k) %y = Mul(%a, %b) out %y`,
			other: `in %x: float16[4] in %z: float16[4] const %k: float16[] = 0 %a = Mul(%x, %k) %y = Mul(%a, %z) out %y`},
		{name: "large inputs", model: `in %x: float32[4] const %k: float32[] = 100 %y = Min(%x, %k) out %y`, other: `in %x: float32[4] %y = Identity(%x) out %y`},
		{name: "an intermediate result that overflows", model: `in %x: float32[4] const %k: float32[] = 1e+37 %a = Mul(%x, %k) %y = Div(%a, %k) out %y`,
			other: `in %x: float32[4] %y = Identity(%x) out %y`, verified: true},
		{name: "rounding that large inputs amplify", model: `in %x: float32[64] const %k: float32[] = 0.1 const %l: float32[] = 1010 %a = Mul(%x, %k) %b = Mul(%a, %l) %y = Sin(%b) out %y`,
			other: `in %x: float32[64] const %k: float32[] = 101 %a = Mul(%x, %k) %y = Sin(%a) out %y`, verified: true},
		{name: "more than rounding", model: `in %x: float32[64] const %k: float32[] = 101 %a = Mul(%x, %k) %y = Sin(%a) out %y`,
			other: `in %x: float32[64] const %k: float32[] = 101.00005 %a = Mul(%x, %k) %y = Sin(%a) out %y`},
		{name: "large outputs off by less than the tolerance", model: `in %x: float32[64] const %k: float32[] = 10000 %y = Mul(%x, %k) out %y`,
			other: `in %x: float32[64] const %k: float32[] = 10000.4 %y = Mul(%x, %k) out %y`},
		{name: "small elements of large outputs", model: `in %x: float32[64] const %k: float32[] = 33333 const %l: float32[] = 33000 %a = Add(%x, %k) %y = Sub(%a, %l) out %y`,
			other: `in %x: float32[64] const %k: float32[] = 333 %y = Add(%x, %k) out %y`, verified: true},
		{name: "small elements of large outputs that differ", model: `in %x: float32[64] const %k: float32[] = 33333 const %l: float32[] = 33000 %a = Add(%x, %k) %y = Sub(%a, %l) out %y`,
			other: `in %x: float32[64] const %k: float32[] = 333.5 %y = Add(%x, %k) out %y`},
		{name: "integers that rounding makes", model: `in %x: float32[64] const %k: float32[] = 1e+9 %a = Add(%x, %k) %b = Sub(%a, %k) %y = Cast(%b) [to=7] out %y`,
			other: `in %x: float32[64] %y = Cast(%x) [to=7] out %y`},
		{name: "outputs off by less than the tolerance", model: `in %x: float32[N,64] const %w: float32[64,8] = splat 0.1 %y = MatMul(%x, %w) out %y`,
			other: `in %x: float32[N,64] const %w: float32[64,8] = splat 0.100001 %y = MatMul(%x, %w) out %y`},
		{name: "off by as much as the original", model: `in %x: float32[64] const %k: float32[] = 100 %a = Add(%x, %k) %y = Sub(%a, %k) out %y`,
			other: `in %x: float32[64] %y = Identity(%x) out %y`, verified: true},
		{name: "more arithmetic than float64 is worth", model: `in %x: float32[1300,1300] const %w: float32[1300,1300] = splat 0.1 %y = MatMul(%x, %w) out %y`,
			other: `in %x: float32[1300,1300] const %w: float32[1300,1300] = splat 0.100001 %y = MatMul(%x, %w) out %y`, verified: true, untested: true},
		{name: "another side of steps", model: `in %x: float32[100000] const %k: float32[] = 0.3 %a = Mul(%x, %k) ` + steps,
			other: `in %x: float32[100000] const %k: float32[] = 0.1 const %l: float32[] = 3 %b = Mul(%x, %k) %a = Mul(%b, %l) ` + steps, verified: true},
		{name: "too many steps", model: `in %x: float32[100000] const %k: float32[] = 0.3 %a = Mul(%x, %k) ` + steps,
			other: `in %x: float32[100000] const %k: float32[] = 0.3001 %a = Mul(%x, %k) ` + steps},
		{name: "an empty batch", model: `in %x: float32[N,S,2] %y = Flatten(%x) out %y`,
			other: `in %x: float32[N,S,2] %s = Shape(%x) [start=1, end=2] const %t: int64[1] = [2] %m = Mul(%s, %t) const %r: int64[1] = [-1] %u = Concat(%r, %m) [axis=0] %y = Reshape(%x, %u) out %y`},
		{name: "a branch that no input takes", model: length + branches, other: length + branches, verified: true, notRun: `then_branch of If "y"`},
		{name: "a branch with the names of its sibling", model: length + alike, other: length + alike, verified: true, notRun: `then_branch of If "y"`},
		{name: "a branch without nodes", model: length + constants, other: length + strings.Replace(constants, "1 out %a", "3 out %a", 1), verified: true, notRun: `then_branch of If "y"`},
		{name: "branches without nodes that a flag chooses", model: flag + constants, other: flag + constants, verified: true},
		{name: "a branch in one that a constant chooses", model: length + within, other: length + within, verified: true, notRun: `then_branch of If "y"`},
		{name: "branches of sizes known beforehand", model: strings.ReplaceAll(flag, "N", "3") + sized, other: strings.ReplaceAll(flag, "N", "3") + sized, verified: true},
		{name: "a loop of constants", model: trips, other: trips, verified: true},
		{name: "the loop of a model without inputs", model: `const %x: float32[2] = [1, 2] ` + fixedLoop, other: `const %x: float32[2] = [1, 2] ` + fixedLoop, verified: true},
		{name: "a loop without iterations", model: loop, other: loop, verified: true, notRun: `body of Loop "y"`},
		{name: "branches that a flag chooses", model: flag + branches, other: flag + branches, verified: true},
		{name: "one of them is wrong", model: flag + branches, other: flag + strings.Replace(branches, "OP(%p) out %a", "Abs(%p) out %a", 1)},
		{name: "so is the other one", model: flag + branches, other: flag + strings.Replace(branches, "OP(%p) out %b", "Abs(%p) out %b", 1)},
	} {
		t.Run(c.name, func(t *testing.T) {
			res := compared(t, strings.ReplaceAll(c.model, "OP", "Neg"), strings.ReplaceAll(c.other, "OP", "Neg"))
			assert.Equal(t, c.verified, res.Verified, "%+v", res)
			assert.Equal(t, c.untested, res.untested)
			if c.verified {
				assert.Contains(t, strings.Join(res.NotRun, " "), c.notRun)
				assert.Equal(t, c.notRun == "", len(res.NotRun) == 0, "%s", res.NotRun)
			}
		})
	}
}

// TestVague: scaled inputs for which rounding makes as much as the outputs are large are not told as compared.
func TestVague(t *testing.T) {
	const model = `in %x: float32[64] const %k: float32[] = 0.1 const %l: float32[] = 101 %a = Mul(%x, %k) %b = Mul(%a, %l) SQUARE %y = Sin(%c) out %y`
	const other = `in %x: float32[64] const %k: float32[] = 10.1 %b = Mul(%x, %k) SQUARE %y = Sin(%c) out %y`
	for square, told := range map[string]bool{`%c = Identity(%b)`: true, `%c = Mul(%b, %x)`: false} {
		res := compared(t, strings.Replace(model, "SQUARE", square, 1), strings.Replace(other, "SQUARE", square, 1))
		assert.True(t, res.Verified, "%+v", res)
		assert.Equal(t, told, slices.Contains(res.Variants, "floats x 1000"), "%s", res.Variants)
	}
}

// TestNothingCompared: an output that has no element in any comparison is told of, and if that are all, nothing is verified.
func TestNothingCompared(t *testing.T) {
	const above = `in %x: float32[8] const %k: float32[] = LIMIT %b = Greater(%x, %k) %y = Compress(%x, %b) [axis=0] `
	for _, c := range []struct {
		name, model, other string
		verified           bool
		empty              string
	}{
		{name: "hits", model: strings.Replace(above, "LIMIT", "1e9", 1) + `out %y`, verified: true},
		{name: "hits that differ", model: strings.Replace(above, "LIMIT", "1e9", 1) + `out %y`, other: strings.Replace(above, "LIMIT", "2e9", 1) + `%z = Neg(%y) out %z`},
		{name: "hits of shifted inputs", model: `in %x: float32[8] const %k: float32[] = 5 const %l: float32[] = 15 %a = Greater(%x, %k) %c = Less(%x, %l) %b = And(%a, %c) %y = Compress(%x, %b) [axis=0] out %y`, verified: true},
		{name: "no hits", model: strings.Replace(above, "LIMIT", "3e38", 1) + `out %y`, empty: "y"},
		{name: "no hits among what is computed", model: `in %x: float32[8] %a = Neg(%x) const %k: float32[] = 3e38 %b = Greater(%a, %k) %y = Compress(%a, %b) [axis=0] out %y`, verified: true, empty: "y"},
		{name: "no hits among what differs", model: `in %x: float32[8] %a = Neg(%x) const %k: float32[] = 3e38 %b = Greater(%a, %k) %y = Compress(%a, %b) [axis=0] out %y`,
			other: `in %x: float32[8] %a = Abs(%x) const %k: float32[] = 3e38 %b = Greater(%a, %k) %y = Compress(%a, %b) [axis=0] out %y`},
		{name: "no hits in one output", model: strings.Replace(above, "LIMIT", "3e38", 1) + `out %y, %x`, verified: true, empty: "y"},
		{name: "an empty sequence", model: `in %x: float32[8] %s = SequenceEmpty() [dtype=1] out %s`, empty: "s"},
		{name: "NaN alone", model: `in %x: float32[8] const %k: float32[] = nan %y = Mul(%x, %k) out %y, %x`, verified: true, empty: "y"},
		{name: "an empty string is an element", model: `in %x: float32[8] const %s: string[1] = [""] out %s`, verified: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.other == "" {
				c.other = c.model
			}
			res := compared(t, c.model, c.other)
			assert.Equal(t, c.verified, res.Verified, "%+v", res)
			assert.Equal(t, c.empty, strings.Join(res.Empty, " "))
			assert.Equal(t, !c.verified && c.empty == "", res.differed)
			if !c.verified && c.empty != "" {
				a := &app{out: io.Discard, errOut: io.Discard}
				assert.ErrorContains(t, a.verdict(&res, optimizeFlags{}), "not verified: no output has an element")
				assert.NoError(t, a.verdict(&res, optimizeFlags{unchecked: true}))
			}
		})
	}
}

// TestStringsCompared: models are compared with the strings that they hold, and with others of every case, also where their number is open.
func TestStringsCompared(t *testing.T) {
	for _, c := range []struct{ name, model, other string }{
		{"a constant", `in %s: string[N] const %k: string[] = "cat" %y = Equal(%s, %k) out %y`, `in %s: string[N] const %k: string[] = "dog" %y = Equal(%s, %k) out %y`},
		{"an attribute", `in %s: string[2] %y = "ai.onnx.ml"::LabelEncoder(%s) [keys_strings=["a", "b", "c", "d"], values_int64s=[1, 2, 3, 4]] out %y`, `in %s: string[2] %y = "ai.onnx.ml"::LabelEncoder(%s) [keys_strings=["a", "b", "c", "d"], values_int64s=[1, 2, 3, 5]] out %y`},
		{"case", `in %s: string[N] %y = StringNormalizer(%s) [case_change_action="LOWER"] out %y`, `in %s: string[N] %y = Identity(%s) out %y`},
		{"numbers", `in %s: string[3] %y = Cast(%s) [to=1] out %y`, `in %s: string[3] %x = Cast(%s) [to=6] %y = Cast(%x) [to=1] out %y`},
	} {
		t.Run(c.name, func(t *testing.T) {
			res := compared(t, c.model, c.model)
			assert.True(t, res.Verified, "%+v", res)
			res = compared(t, c.model, c.other)
			assert.False(t, res.Verified, "%+v", res)
		})
	}
}

// compared is what comes of comparing a model with another one that plays the optimized form.
func compared(t *testing.T, model, other string) (res optimizeJSON) {
	t.Helper()
	return comparedTo(t, io.Discard, model, other)
}

// comparedTo is compared, with what is told written to notes.
func comparedTo(t *testing.T, notes io.Writer, model, other string) (res optimizeJSON) {
	t.Helper()
	open := func(text string) *berth.Model {
		g, err := ssa.ParseGraph(`graph "g" { ` + text + ` }`)
		require.NoError(t, err)
		m := berth.FromModule(&ssa.Module{Graph: g})
		t.Cleanup(func() { m.Close() })
		return m
	}
	a := &app{out: io.Discard, errOut: notes, ctx: t.Context(), shapes: map[string][]int{}, dims: map[string]int64{}}
	f := optimizeFlags{tolerance: conformance.Tolerance{Rtol: 1e-3, Atol: 1e-4}}
	require.NoError(t, a.newVerification(open(model), open(other), nil, f, &res).run(t.Context()))
	return res
}

// TestVagueOutput: of several outputs that rounding explains altogether, the first by name is told, in every run.
func TestVagueOutput(t *testing.T) {
	for range 8 {
		var notes strings.Builder
		res := comparedTo(t, &notes, `in %x: float32[64] const %k: float32[] = 1e+9 %a = Add(%x, %k) %y = Sub(%a, %k) %z = Neg(%y) out %z, %y`,
			`in %x: float32[64] %y = Identity(%x) %z = Neg(%x) out %z, %y`)
		assert.False(t, res.Verified)
		assert.Contains(t, notes.String(), `rounding makes as much in output "y" of the original`)
	}
}

// TestWrongResults: what is wrong is refused in models of every kind. PRE is where a model that quantizes while it runs does so; of such a model, one whose
// sums do not depend on their order, and one where they do.
func TestWrongResults(t *testing.T) {
	const quantized = `const %qs: float32[] = 0.01 const %qz: uint8[] = 128 %q = QuantizeLinear(%x, %qs, %qz) %a = DequantizeLinear(%q, %qs, %qz) `
	const product = `in %u: float32[60,999] in %w: float32[999,60] %p = MatMul(%u, %w) const %ps: float32[] = 0.0001 const %pz: int16[] = 0 %pq = QuantizeLinear(%p, %ps, %pz) `
	for _, c := range []struct{ name, before, right, wrong string }{
		{"a constant off by 1e-3", `in %x: float32[2,3] `, `const %k: float32[] = 1 %y = Mul(%x, %k) out %y`, `const %k: float32[] = 1.001 %y = Mul(%x, %k) out %y`},
		{"outputs exchanged", `in %x: float32[2,3] `, `%y = Neg(%x) %z = Abs(%x) out %y, %z`, `%y = Abs(%x) %z = Neg(%x) out %y, %z`},
		{"transposed", `in %x: float32[3,3] `, `%y = Neg(%x) out %y`, `%z = Neg(%x) %y = Transpose(%z) out %y`},
		{"a node left out", `in %x: float32[2,3] `, `%z = Relu(%x) %y = Neg(%z) out %y`, `%y = Neg(%x) out %y`},
		{"NaN for a number", `in %x: float32[2,3] `, `%y = Neg(%x) out %y`, `const %k: float32[] = nan %y = Mul(%x, %k) out %y`},
		{"a number for infinity", `in %x: float32[2,3] `, `const %k: float32[] = 0 %z = Abs(%x) %y = Div(%z, %k) out %y`, `const %k: float32[] = 1e-38 %z = Abs(%x) %y = Div(%z, %k) out %y`},
		{"an integer off by one", `in %x: float32[2,3] `, `%y = Shape(%x) out %y`, `%s = Shape(%x) const %k: int64[] = 1 %y = Add(%s, %k) out %y`},
		{"the other branch", `in %x: float32[3] in %c: bool[] `, `%y = If(%c | %x) { then_branch: graph "t" { in %p: float32[3] %a = Neg(%p) out %a } else_branch: graph "e" { in %p: float32[3] out %p } } out %y`,
			`%y = If(%c | %x) { then_branch: graph "t" { in %p: float32[3] out %p } else_branch: graph "e" { in %p: float32[3] %a = Neg(%p) out %a } } out %y`},
		{"another shape behind steps", `in %x: float32[3,4] ` + quantized, `%y = Neg(%a) out %y`, `%b = Neg(%a) %y = Transpose(%b) out %y`},
		{"a column for a row behind steps", `in %x: float32[3] ` + quantized, `%y = Neg(%a) out %y`, `%b = Neg(%a) const %k: int64[2] = [1, 3] %y = Reshape(%b, %k) out %y`},
		{"another type behind steps", `in %x: float32[3,4] ` + quantized, `%y = Cast(%a) [to=6] out %y`, `%y = Cast(%a) [to=7] out %y`},
		{"strings behind steps", `in %x: float32[3,4] ` + quantized, `%y = Cast(%a) [to=8] out %y`, `%b = Neg(%a) %y = Cast(%b) [to=8] out %y`},
		{"members of a sequence behind steps", `in %x: float32[3,4] ` + quantized, `%b = Neg(%a) %y = SequenceConstruct(%a, %b) out %y`, `%b = Neg(%a) %y = SequenceConstruct(%b, %a) out %y`},
		{"fewer members behind steps", `in %x: float32[3,4] ` + quantized, `%y = SequenceConstruct(%a, %a) out %y`, `%y = SequenceConstruct(%a) out %y`},
		{"strings behind sums", product, `%y = Cast(%pq) [to=8] out %y`, `%b = Neg(%pq) %y = Cast(%b) [to=8] out %y`},
		{"every element one step off", product, `out %pq`, `const %one: int16[] = 1 %y = Add(%pq, %one) out %y`},
		{"every element one step off, as floats", product, `%y = DequantizeLinear(%pq, %ps, %pz) out %y`, `%b = DequantizeLinear(%pq, %ps, %pz) %y = Add(%b, %ps) out %y`},
		{"another output is rounded", product + `in %x: float32[2,3] `, `%y = DequantizeLinear(%pq, %ps, %pz) out %y, %x`,
			`const %k: float32[] = 1.0002 const %j: float32[] = 0.00015 %y = DequantizeLinear(%pq, %ps, %pz) %z = Add(%x, %j) out %y, %z`},
		{"float16 that vanishes", `in %x: float16[64] `, `const %k: float16[] = 0.00002 %y = Mul(%x, %k) out %y`, `const %k: float16[] = 0 %y = Mul(%x, %k) out %y`},
		{"subnormal float16 off by a quarter", `in %x: float16[64] `, `const %k: float16[] = 0.00002 %y = Mul(%x, %k) out %y`, `const %k: float16[] = 0.000025 %y = Mul(%x, %k) out %y`},
	} {
		t.Run(c.name, func(t *testing.T) {
			right := compared(t, c.before+c.right, c.before+c.right)
			assert.True(t, right.Verified, "%+v", right)
			wrong := compared(t, c.before+c.right, c.before+c.wrong)
			assert.False(t, wrong.Verified, "%+v", wrong)
			assert.True(t, wrong.differed)
		})
	}
}

// TestUnmeasured: a result is finite where the original is, also where the yardstick is not.
func TestUnmeasured(t *testing.T) {
	inf, nan := float32(math.Inf(1)), float32(math.NaN())
	for _, c := range []struct {
		name                 string
		want, got, yardstick float32
		scaled, pass         bool
	}{
		{"NaN for a number", 1, nan, inf, false, false},
		{"NaN for a number, scaled", 1, nan, inf, true, false},
		{"infinity for a number", 1, inf, inf, false, false},
		{"another number", 1, 1.1, inf, false, false},
		{"the same number", 1, 1, inf, false, true},
		{"the same number, near a finite yardstick", 1, 1, 1, false, true},
		{"a number for infinity", inf, 1, 1, false, false},
		{"a number for infinity, scaled", inf, 1, 1, true, true},
		{"NaN for infinity", inf, nan, inf, false, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			one := func(x float32) *ndarray.Array { return ndarray.Of([]float32{x}, 1) }
			v := &verification{f: optimizeFlags{tolerance: conformance.Tolerance{Rtol: 1e-3, Atol: 1e-4}}, scaled: c.scaled}
			y := one(c.yardstick)
			_, pass := v.outputAsAccurate(one(c.got), one(c.want), wideTensors{y, y, []*ndarray.Array{y}})
			assert.Equal(t, c.pass, pass)
		})
	}
}

// TestNearTies: p and q are the same sums in two orders, so rounding decides between them. A result that has one in the place of the other selects otherwise and is right;
// with anything else wrong it is refused.
func TestNearTies(t *testing.T) {
	const sums = `in %x: float32[1,999] in %w: float32[999,32] const %s: int64[1] = [-1] const %e: int64[1] = [-2000] const %0: int64[1] = [0] const %1: int64[1] = [1]
		%xr = Slice(%x, %s, %e, %1, %s) %wr = Slice(%w, %s, %e, %0, %s) %a = MatMul(%x, %w) %b = MatMul(%xr, %wr) %p = Identity(A) %q = Identity(B) `
	const table = `const %z: int64[] = 0 const %n: int64[] = 64 const %d: int64[] = 1 %table = Range(%z, %n, %d) `
	const top = table + `%c = Concat(%p, %q) [axis=1] const %k: int64[1] = [7] %v, %i = TopK(%c, %k) [axis=1] %y = Gather(%table, %i) out %y, %v`
	const nms = `%c = Concat(%p, %q) [axis=1] const %2: int64[1] = [2] %lo = Unsqueeze(%c, %2) const %side: float32[] = 30 %hi = Add(%lo, %side) %box = Concat(%lo, %lo, %hi, %hi) [axis=2]
		%score = Unsqueeze(%c, %1) const %m: int64[1] = [9] const %iou: float32[1] = [0.5] const %least: float32[1] = [-1000] %i = NonMaxSuppression(%box, %score, %m, %iou, %least) %f = Cast(%i) [to=1] out %f, %i`
	const twice = `%c = Concat(%p, %q) [axis=1] const %k: int64[1] = [20] %v, %i = TopK(%c, %k) [axis=1] %cc = Concat(%q, %p) [axis=1] %u = GatherElements(%cc, %i) [axis=1] %j = ArgMax(%u) [axis=1]
		%g = Greater(%p, %q) %d0 = Not(%g) %gi = Cast(%g) [to=7] const %o: int64[] = 100 %jo = Add(%j, %o) %y = Add(%gi, %jo) out %y, %u`
	const branch = table + `in %on: bool[] %c = Concat(%p, %q) [axis=1] %y = If(%on | %c, %table) {
		then_branch: graph "t" { in %bc: float32[1,64] in %bt: int64[64] const %k: int64[1] = [7] %v, %i = TopK(%bc, %k) [axis=1] %r = Gather(%bt, %i) out %r }
		else_branch: graph "e" { in %ec: float32[1,64] in %et: int64[64] const %no: int64[1,7] = splat 5 %en = Identity(%no) out %en } } out %y`
	const loop = `const %n: int64[] = 4 const %go: bool[] = 1 const %from: float32[] = 0 %acc, %ids = Loop(%n, %go, %from | %p, %q) { body: graph "b" {
		in %it: int64[] in %bc: bool[] in %s: float32[] in %bp: float32[1,32] in %bq: float32[1,32] %f = Cast(%it) [to=1] const %o: float32[] = 1 %f1 = Add(%f, %o)
		%pp = Mul(%bp, %f1) %qq = Mul(%bq, %f1) %cc = Concat(%pp, %qq) [axis=1] %j = ArgMax(%cc) [axis=1] %jf = Cast(%j) [to=1] %one = ReduceSum(%jf) [keepdims=0] %sum = Add(%s, %one) out %bc, %sum, %j } } out %acc, %ids`
	const nested = `const %n: int64[] = 4 const %go: bool[] = 1 const %from: int64[] = 0 %acc = Loop(%n, %go, %from | %p, %q) { body: graph "b" {
		in %it: int64[] in %bc: bool[] in %s: int64[] in %bp: float32[1,32] in %bq: float32[1,32] const %two: int64[] = 2 const %zero: int64[] = 0 %m = Mod(%it, %two) %even = Equal(%m, %zero)
		%add = If(%even | %bp, %bq) {
			then_branch: graph "t" { in %tp: float32[1,32] in %tq: float32[1,32] %g = Greater(%tp, %tq) %gi = Cast(%g) [to=7] %gs = ReduceSum(%gi) [keepdims=0] out %gs }
			else_branch: graph "e" { in %ep: float32[1,32] in %eq: float32[1,32] %ec = Concat(%ep, %eq) [axis=1] %em = ArgMax(%ec) [axis=1, keepdims=0] const %e0: int64[1] = [0] %es = Squeeze(%em, %e0) out %es } }
		%sum = Add(%s, %add) out %bc, %sum } } out %acc`
	one := func(op string) string {
		return `const %half: float32[] = 0.5 %h = Div(%p, %q) %hh = Mul(%h, %half) %d0 = Sub(%p, %q) %d = Concat(%d0, %p) [axis=1] %y = ` + op + ` const %l: float32[] = 3 %fy = Cast(%y) [to=1] %m = Mul(%fy, %l) out %m`
	}
	for _, c := range []struct {
		name, graph string
		ties        string
		wrong       [][2]string // what is replaced in the result
	}{
		{"TopK", top, `TopK "i"`, [][2]string{
			{`[7]`, `[6]`}, {`%c, %k) [axis=1]`, `%c, %k) [axis=1, largest=0]`}, {`%y = Gather(%table, %i)`, `%i1 = Add(%i, %d) %y = Gather(%table, %i1)`},
			{`const %d: int64[] = 1 `, `const %d: int64[] = 2 `}, {`const %z: int64[] = 0`, `const %z: int64[] = 1`},
			{`[axis=1] const %k`, `[axis=0] const %k`}, {`%c = Concat(%p, %q) [axis=1]`, `const %f: float32[] = 1.0001 %c0 = Concat(%p, %q) [axis=1] %c = Mul(%c0, %f)`},
			{`%y = Gather(%table, %i)`, `%y = GatherElements(%i, %i) [axis=1]`},
			{`%v, %i = TopK(%c, %k) [axis=1] %y = Gather(%table, %i)`, `%v, %other = TopK(%c, %k) [axis=1] %y = Gather(%table, %other)`},
		}},
		{"NonMaxSuppression", nms, `NonMaxSuppression "i"`, [][2]string{{`[0.5]`, `[0.4]`}, {`[9]`, `[8]`}, {`[-1000]`, `[0]`}, {`= 30 `, `= 30.01 `}, {`Unsqueeze(%c, %1)`, `Unsqueeze(%hi, %1)`},
			{`%m, %iou, %least)`, `%m, %iou, %least) [center_point_box=1]`}, {`%f = Cast(%i) [to=1]`, `%ff = Cast(%i) [to=1] %f = Neg(%ff)`}}},
		{"several", twice, `TopK "i" ArgMax "j" Greater "g"`, [][2]string{{`= 100`, `= 101`}, {`ArgMax(%u)`, `ArgMin(%u)`}, {`ArgMax(%u)`, `ArgMax(%q)`},
			{`Cast(%g) [to=7]`, `Cast(%d0) [to=7]`}, {`%y = Add(%gi, %jo)`, `%y = Sub(%gi, %jo)`}}},
		{"the output itself", `%c = Concat(%p, %q) [axis=1] %y = ArgMax(%c) [axis=1] out %y`, `ArgMax "y"`, [][2]string{{`ArgMax`, `ArgMin`}, {`axis=1] out`, `axis=1, keepdims=0] out`}}},
		{"a branch", branch, `TopK "i"`, [][2]string{{`= [7]`, `= [6]`}, {`%bc, %k) [axis=1]`, `%bc, %k) [axis=1, largest=0]`}, {`%r = Gather(%bt, %i)`, `%i1 = Neg(%i) %r = Gather(%bt, %i1)`},
			{`splat 5`, `splat 6`}}},
		{"a loop", loop, `ArgMax "j"`, [][2]string{{`= 4`, `= 3`}, {`= 4`, `= 5`}, {`ArgMax`, `ArgMin`}, {`%f1 = Add(%f, %o)`, `%f1 = Sub(%f, %o)`}, {`%sum = Add(%s, %one)`, `%sum = Sub(%s, %one)`}, {`%o: float32[] = 1`, `%o: float32[] = 1.001`}}},
		{"a branch in a loop", nested, `Greater "g" ArgMax "em"`, [][2]string{{`= 4`, `= 6`}, {`Greater(%tp`, `GreaterOrEqual(%tp`}, {`%gs = ReduceSum`, `%gs = ReduceMin`}, {`ArgMax`, `ArgMin`}, {`%two: int64[] = 2`, `%two: int64[] = 4`}, {`%sum = Add`, `%sum = Sub`}}},
		{"Greater", one(`Greater(%p, %q)`), `Greater "y"`, [][2]string{{`= 3`, `= 4`}, {`Greater`, `GreaterOrEqual`}, {`Greater(%p, %q)`, `Greater(%p, %h)`}}},
		{"Less", one(`Less(%p, %q)`), `Less "y"`, [][2]string{{`= 3`, `= 4`}, {`Less(%p, %q)`, `Less(%h, %q)`}}},
		{"Floor", one(`Floor(%h)`), `Floor "y"`, [][2]string{{`= 3`, `= 4`}, {`Floor`, `Ceil`}, {`Floor(%h)`, `Floor(%hh)`}}},
		{"Ceil", one(`Ceil(%h)`), `Ceil "y"`, [][2]string{{`= 3`, `= 4`}, {`Ceil`, `Floor`}}},
		{"Round", one(`Round(%hh)`), `Round "y"`, [][2]string{{`= 3`, `= 4`}, {`Round`, `Floor`}, {`= 0.5`, `= 0.51`}, {`= 0.5`, `= 0.50002`}}},
		{"Cast", one(`Cast(%h) [to=7]`), `Cast "y"`, [][2]string{{`= 3`, `= 4`}, {`[to=7]`, `[to=9]`}}},
		{"Sign", one(`Sign(%d)`), `Sign "y"`, [][2]string{{`= 3`, `= 4`}, {`Sign`, `Neg`}}},
		{"MaxPool", `%a1 = Unsqueeze(%p, %1) %b1 = Unsqueeze(%q, %1) %st = Concat(%a1, %b1) [axis=1] %tr = Transpose(%st) [perm=[0, 2, 1]] %v, %i = MaxPool(%tr) [kernel_shape=[2], strides=[2]] out %i, %v`, `MaxPool "i"`,
			[][2]string{{`MaxPool(%tr)`, `MaxPool(%st)`}, {`kernel_shape=[2]`, `kernel_shape=[1]`}}},
	} {
		before, after := strings.NewReplacer("(A)", "(%a)", "(B)", "(%b)").Replace(sums), strings.NewReplacer("(A)", "(%b)", "(B)", "(%a)").Replace(sums)
		t.Run(c.name, func(t *testing.T) {
			res := compared(t, before+c.graph, after+c.graph)
			assert.True(t, res.Verified, "%+v", res)
			assert.Equal(t, c.ties, strings.Join(res.Ties, " "))
			var said strings.Builder
			(&app{out: &said}).printOptimize(res)
			assert.Contains(t, said.String(), "near ties: ")
			for _, w := range c.wrong {
				other := strings.Replace(c.graph, w[0], w[1], 1)
				require.NotEqual(t, c.graph, other)
				res := compared(t, before+c.graph, after+other)
				assert.False(t, res.Verified, "%s: %+v", w[1], res)
			}
		})
	}
}

// TestQuantizedTies: a value that is half way between two steps in every kernel and in float64, and not in the result, goes to the next step there; the same is refused
// with anything else wrong.
func TestQuantizedTies(t *testing.T) {
	const one = `in %x: float32[4096] const %1: float32[] = 1 %a = Abs(%x) %b = Add(%a, %1) `
	const exact, rounded = `%d = Div(%b, %b) `, `%r = Sqrt(%b) %rr = Mul(%r, %r) %d = Div(%rr, %b) `
	const steps = `const %3: float32[] = 3 %h = Mul(%d, %3) const %s: float32[] = 2 const %z: uint8[] = 128 %q = QuantizeLinear(%h, %s, %z) %y = DequantizeLinear(%q, %s, %z) const %l: float32[] = 5 %m = Mul(%y, %l) out %m`
	res := compared(t, one+exact+steps, one+rounded+steps)
	assert.True(t, res.Verified, "%+v", res)
	assert.Equal(t, []string{`QuantizeLinear "q"`}, res.Ties)
	assert.Less(t, float64(res.MaxDiff), 1e-6)
	for _, w := range [][2]string{{`= 5`, `= 6`}, {`= 3`, `= 2.9999`}, {`= 2`, `= 2.0001`}, {`= 128`, `= 127`}, {`(%h, %s, %z)`, `(%b, %s, %z)`}, {`%y = DequantizeLinear(%q,`, `const %t: uint8[] = 1 %qt = Add(%q, %t) %y = DequantizeLinear(%qt,`}, {`(%q, %s, %z)`, `(%q, %s)`}} {
		other := strings.Replace(steps, w[0], w[1], 1)
		require.NotEqual(t, steps, other)
		assert.False(t, compared(t, one+exact+steps, one+rounded+other).Verified, "%s", other)
	}
}

// TestNoTies: operands within the tolerance are no near tie where rounding makes less, in large models too, and elements that mask others hide nothing.
func TestNoTies(t *testing.T) {
	const large = `in %x: float32[1300,1300] in %w: float32[1300,1300] const %s: int64[1] = [-1] const %e: int64[1] = [-2000] const %0: int64[1] = [0] const %1: int64[1] = [1]
		const %k: float32[] = SCALE %xr = Slice(%x, %s, %e, %1, %s) %wr = Slice(%w, %s, %e, %0, %s) %a = MatMul(LEFT) %p = Mul(%a, %k) `
	const masked = `in %x: float32[1,999] in %w: float32[999,32] const %s: int64[1] = [-1] const %e: int64[1] = [-2000] const %0: int64[1] = [0] const %1: int64[1] = [1] const %32: int64[1] = [32]
		const %ten: float32[] = 10 const %m: float32[] = -inf const %k: int64[1] = [7] %xr = Slice(%x, %s, %e, %1, %s) %wr = Slice(%w, %s, %e, %0, %s) %a = MatMul(LEFT) %x0 = Slice(%x, %0, %32, %1)
		%xa = Abs(%x0) %far = Greater(%xa, %ten) %c = HIDDEN %v, %i = TopK(%c, %k) [axis=1] %f = Cast(%i) [to=1] out %f, %i`
	filled := func(text string, pairs ...string) string { return strings.NewReplacer(pairs...).Replace(text) }
	for _, c := range []struct {
		name, before, after string
		right               bool
	}{
		{"a large model, rounded", filled(large+`%y = Floor(%p) out %y`, "LEFT", "%x, %w", "SCALE", "1"), filled(large+`%y = Floor(%p) out %y`, "LEFT", "%xr, %wr", "SCALE", "1"), true},
		{"a large model, scaled", filled(large+`%y = Floor(%p) out %y`, "LEFT", "%x, %w", "SCALE", "1"), filled(large+`%y = Floor(%p) out %y`, "LEFT", "%xr, %wr", "SCALE", "1.0003"), false},
		{"scores masked", filled(masked, "LEFT", "%x, %w", "HIDDEN", "Where(%far, %m, %a)"), filled(masked, "LEFT", "%xr, %wr", "HIDDEN", "Where(%far, %m, %a)"), true},
		{"scores no longer masked", filled(masked, "LEFT", "%x, %w", "HIDDEN", "Where(%far, %m, %a)"), filled(masked, "LEFT", "%xr, %wr", "HIDDEN", "Identity(%a)"), false},
	} {
		t.Run(c.name, func(t *testing.T) {
			res := compared(t, c.before, c.after)
			assert.Equal(t, c.right, res.Verified, "%+v", res)
		})
	}
}
