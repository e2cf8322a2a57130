package ssa

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestDimCanonicalText(t *testing.T) {
	n, m, w := Sym("N"), Sym("M"), Sym("W")
	for _, c := range []struct {
		got  Dim
		want string
	}{
		{D(7), "7"},
		{Dim{}, "?"},
		{Sym(""), "?"},
		{n.Add(n), "2*N"},
		{n.Sub(n), "0"},
		{m.Add(n).Add(D(1)), "M+N+1"},
		{D(1).Add(n).Add(m), "M+N+1"},
		{n.Mul(m).Sub(m.Mul(n)), "0"},
		{n.AddN(1).Mul(n.AddN(-1)), "N*N-1"},
		{n.MulN(-1), "-N"},
		{D(3).Sub(n.MulN(2)), "-2*N+3"},
		{n.MulN(4).FloorDiv(D(2)), "2*N"},
		{n.MulN(4).AddN(3).FloorDiv(D(2)), "2*N+1"},
		{w.AddN(-3).FloorDiv(D(2)).AddN(1), "floor((W+1)/2)-1"},
		{n.Mul(m).FloorDiv(m), "N"},
		{n.FloorDiv(D(0)), "?"},
		{w.AddN(-1).FloorDiv(D(2)).AddN(1).AddN(-1).FloorDiv(D(2)), "floor((W+3)/4)-1"},
		{n.CeilDiv(D(8)), "floor((N+7)/8)"},
		{n.CeilDiv(D(-8)), "floor((-N+7)/8)"},
		{n.Mod(D(1)), "0"},
		{n.MulN(6).Mod(D(3)), "0"},
		{n.Max(n.AddN(1)), "N+1"},
		{n.Min(n.AddN(1)), "N"},
		{n.Max(D(4)).Mul(m), "M*max(4,N)"},
		{Dim{}.Mul(D(0)), "0"},
		{Dim{}.Add(D(0)), "?"},
		{Sym("batch size").AddN(1), `"batch size"+1`},
		{Sym("max"), `"max"`},
		{D(math.MaxInt64).AddN(1), "?"},
		{D(math.MinInt64).FloorDiv(D(-1)), "?"},
		{D(math.MinInt64), "-9223372036854775808"},
		{n.Add(D(math.MinInt64)), "N-9223372036854775808"},
		{n.Mul(D(math.MinInt64)).Add(m), "M-9223372036854775808*N"},
	} {
		assert.Equal(t, c.want, c.got.String())
		if !c.got.Known() {
			continue
		}
		back, err := ParseDim(c.want)
		require.NoError(t, err, c.want)
		assert.True(t, back.Equal(c.got), "%s parses to %s", c.want, back)
	}
}

func TestDimParse(t *testing.T) {
	for text, want := range map[string]string{
		" 2 * ( N + 1 ) - N ":  "N+2",
		"-N*2":                 "-2*N",
		"--N":                  "",
		"?":                    "?",
		"N+?":                  "?",
		"max(2, N)+min(N,2)":   "max(2,N)+min(2,N)",
		"floor(N/2":            "",
		"floor(7/2)":           "3",
		`"a b"*2`:              `2*"a b"`,
		`"a b`:                 "",
		"99999999999999999999": "",
		"":                     "",
		"N M":                  "",
		"max(1)":               "",
	} {
		d, err := ParseDim(text)
		if want == "" {
			assert.Error(t, err, text)
			continue
		}
		if assert.NoError(t, err, text) {
			assert.Equal(t, want, d.String(), text)
		}
	}
	_, err := ParseDim(fmt.Sprintf("%0*d", 200, 0) + "(")
	assert.Error(t, err)
}

// expr is a random expression, evaluated directly and through Dim.
type expr struct {
	op   byte // n number, s symbol, or an operation
	n    int64
	name string
	a, b *expr
}

var dimSymbols = []string{"N", "M", "seq len", "floor"}

func randomExpr(rng *rand.Rand, depth int) *expr {
	if depth == 0 || rng.IntN(6) == 0 {
		if rng.IntN(2) == 0 {
			return &expr{op: 'n', n: int64(rng.IntN(13) - 4)}
		}
		return &expr{op: 's', name: dimSymbols[rng.IntN(len(dimSymbols))]}
	}
	return &expr{op: "+-*/c%<>"[rng.IntN(8)], a: randomExpr(rng, depth-1), b: randomExpr(rng, depth-1)}
}

// dim builds the expression with Dim's operations.
func (e *expr) dim() Dim {
	switch e.op {
	case 'n':
		return D(e.n)
	case 's':
		return Sym(e.name)
	}
	a, b := e.a.dim(), e.b.dim()
	switch e.op {
	case '+':
		return a.Add(b)
	case '-':
		return a.Sub(b)
	case '*':
		return a.Mul(b)
	case '/':
		return a.FloorDiv(b)
	case 'c':
		return a.CeilDiv(b)
	case '%':
		return a.Mod(b)
	case '<':
		return a.Min(b)
	}
	return a.Max(b)
}

// eval computes the expression in float64 (exact in the range the test stays
// in); ok is false where a divisor is zero, or negative under a ceiling.
func (e *expr) eval(bind map[string]int64) (v float64, ok bool) {
	switch e.op {
	case 'n':
		return float64(e.n), true
	case 's':
		return float64(bind[e.name]), true
	}
	a, okA := e.a.eval(bind)
	b, okB := e.b.eval(bind)
	if !okA || !okB {
		return 0, false
	}
	switch e.op {
	case '+':
		v = a + b
	case '-':
		v = a - b
	case '*':
		v = a * b
	case '/':
		v = math.Floor(a / b)
	case 'c':
		v = math.Ceil(a / b)
	case '%':
		v = a - b*math.Floor(a/b)
	case '<':
		v = math.Min(a, b)
	case '>':
		v = math.Max(a, b)
	}
	divides := e.op == '/' || e.op == 'c' || e.op == '%'
	return v, !(divides && b == 0 || e.op == 'c' && b < 0) && math.Abs(v) < 1<<40
}

// TestDimAgainstEvaluation binds random expressions, at once and symbol by
// symbol, and compares with direct evaluation.
func TestDimAgainstEvaluation(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	compared, known := 0, 0
	for i := range 8000 {
		e := randomExpr(rng, 1+rng.IntN(5))
		d := e.dim()
		if d.Known() {
			known++
			back, err := ParseDim(d.String())
			require.NoError(t, err, d.String())
			require.True(t, back.Equal(d), "case %d: %s parses to %s", i, d, back)
		}
		sure := d.NonNegative()
		for range 4 {
			bind := map[string]int64{}
			for _, s := range dimSymbols {
				bind[s] = int64(rng.IntN(12))
			}
			want, ok := e.eval(bind)
			if !ok {
				continue
			}
			checkBound(t, d, bind, want)
			if sure {
				require.GreaterOrEqual(t, want, 0.0, "%s under %v", d, bind)
			}
			compared++
		}
	}
	assert.Greater(t, compared, 8000)
	assert.Greater(t, known, 4000)
}

func checkBound(t *testing.T, d Dim, bind map[string]int64, want float64) {
	t.Helper()
	if !d.Known() {
		return // gave up on size, or a division by zero on the way: never wrong
	}
	step := d
	for _, s := range dimSymbols {
		step = step.Bind(map[string]int64{s: bind[s]})
	}
	for _, bound := range []Dim{d.Bind(bind), step} {
		if n, ok := bound.Const(); ok {
			require.Equal(t, int64(want), n, "%s under %v", d, bind)
		} else {
			require.False(t, bound.Known(), "%s under %v left %s", d, bind, bound)
		}
	}
}

// TestDimEqualMeansEqual: expressions with one text have one value.
func TestDimEqualMeansEqual(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	byText := map[string]*expr{}
	for range 10000 {
		e := randomExpr(rng, 3)
		d := e.dim()
		other := byText[d.String()]
		if other == nil || !d.Known() {
			byText[d.String()] = e
			continue
		}
		bind := map[string]int64{"N": int64(1 + rng.IntN(9)), "M": int64(1 + rng.IntN(9)), "seq len": 3, "floor": 5}
		v, okV := e.eval(bind)
		w, okW := other.eval(bind)
		if okV && okW {
			require.Equal(t, v, w, "%s under %v", d, bind)
		}
	}
}

func TestDimSizeIsBounded(t *testing.T) {
	d := Sym("a_symbol_with_a_long_name")
	for i := range 200 {
		d = d.Mul(Sym(fmt.Sprint("s", i)).AddN(1))
	}
	assert.False(t, d.Known())
	d = Sym("N")
	for range 100 {
		d = d.Max(D(3)).AddN(1).FloorDiv(D(2)).Min(Sym("M"))
	}
	assert.LessOrEqual(t, len(d.String()), maxDimText)
}

func TestDimCapOf(t *testing.T) {
	n := Sym("N")
	assert.True(t, n.Min(D(256)).CapOf(n))
	assert.True(t, n.AddN(1).Min(D(1)).CapOf(n.AddN(1)))
	for _, d := range []Dim{n, n.Min(D(0)), n.Min(Sym("M")), n.Max(D(256)), n.Min(D(256)).AddN(1), D(3), {}} {
		assert.False(t, d.CapOf(n), d.String())
	}
}

func TestDimSymbols(t *testing.T) {
	d, err := ParseDim("N*max(M,4)+floor((N+K)/3)")
	require.NoError(t, err)
	assert.ElementsMatch(t, []string{"N", "M", "K"}, d.Symbols(nil))
	name, ok := Sym("N").SymbolName()
	assert.True(t, ok)
	assert.Equal(t, "N", name)
	_, ok = Sym("N").AddN(1).SymbolName()
	assert.False(t, ok)
}

func FuzzParseDim(f *testing.F) {
	for _, s := range []string{"N", "2*N+1", "floor((W-3)/2)+1", `"a"*max(b,4)`, "-9223372036854775808"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		d, err := ParseDim(s)
		if err != nil || !d.Known() {
			return
		}
		back, err := ParseDim(d.String())
		require.NoError(t, err)
		require.Equal(t, d.String(), back.String())
	})
}

func TestDimNonNegative(t *testing.T) {
	for text, want := range map[string]bool{
		"0": true, "-1": false, "N": true, "N-1": false, "-N": false, "N*M+3": true,
		"N-min(N,4)": true, "4-min(N,4)": true, "3-min(N,4)": false,
		"min(9,P+S)-min(9,P)": true, "min(9,P)-min(9,P+S)": false,
		"max(N,M)-N": true, "N-max(N,M)": false, "N+M-max(N,M)": true,
		"N-floor(N/2)": true, "2*N-3*floor(N/2)": true, "N-3*floor(N/2)": false,
		"floor((N+1)/2)-floor(N/2)": true, "floor((N+3)/2)-floor(N/2)": true, "floor((N-1)/2)+1": true, "floor((N-3)/2)": false,
	} {
		d, err := ParseDim(text)
		require.NoError(t, err)
		assert.Equal(t, want, d.NonNegative(), text)
		if !want {
			continue
		}
		for n := range int64(5) {
			for m := range int64(5) {
				k, ok := d.Bind(map[string]int64{"N": n, "M": m, "P": n, "S": m}).Const()
				require.True(t, ok)
				assert.GreaterOrEqual(t, k, int64(0), "%s, N=%d, M=%d", text, n, m)
			}
		}
	}
}
