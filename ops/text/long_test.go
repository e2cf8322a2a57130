package text

import (
	"context"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/text/cases"
	"golang.org/x/text/language"

	"github.com/berth-onnx/berth/internal/ops/kit"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// TestLongTextInCase: pieces of a long string become what all of it becomes, in languages whose letters depend on those beside them.
func TestLongTextInCase(t *testing.T) {
	letters := []rune("aBcIi7σΣςİıßÅÉéǆŉ ΐΆάὐ\u0307\u0308ijĲ中,.-xΑΣ ÌÍĨį\U00010400")
	for _, locale := range []string{"und", "tr", "lt", "el", "nl", "az"} {
		tag := language.MustParse(locale)
		for name, caser := range map[string]cases.Caser{"lower": cases.Lower(tag), "upper": cases.Upper(tag)} {
			t.Run(locale+" "+name, func(t *testing.T) {
				rng := rand.New(rand.NewPCG(1, 2))
				for range 4 {
					var b strings.Builder
					for b.Len() < 5*textPiece {
						b.WriteRune(letters[rng.IntN(len(letters))])
					}
					s := b.String() + "\xff\xc3"
					whole := make([]byte, mostGrows*len(s))
					n, _, err := caser.Transform(whole, []byte(s), true)
					require.NoError(t, err)
					c := &ops.Call{Ctx: t.Context()}
					w := kit.Watching(c)
					require.True(t, inCase(c, &w, caser, s) == string(whole[:n]))
				}
			})
		}
	}
	c := &ops.Call{Ctx: t.Context()}
	w := kit.Watching(c)
	for _, n := range []int{0, 125, 126, 127, 128, textPiece} { // of package cases, a string is changed by pieces of 128 bytes
		pad := strings.Repeat("A", n)
		assert.Equal(t, strings.Repeat("a", n)+"οδος", inCase(c, &w, cases.Lower(language.Und), pad+"ΟΔΟΣ"), "%d", n)
	}
}

// TestLongTextEnds: what takes long for one string ends with the context, and asks for its result before it is made.
func TestLongTextEnds(t *testing.T) {
	long := strings.Repeat("aB", 8<<20)
	run := func(c ops.Call, o *ops.Op, attrs ...ssa.Attr) (any, error) {
		c.Node = &ssa.Node{Op: o.Name, Attrs: attrs, Out: []*ssa.Value{{}}}
		c.In, c.Out = []ndarray.Value{ndarray.Strings([]string{long}, 1)}, make([]ndarray.Value, 1)
		return c.Out, o.Eval(&c)
	}
	for name, f := range map[string]func(c ops.Call) (any, error){
		"lower": func(c ops.Call) (any, error) {
			return run(c, &StringNormalizer, ssa.StringAttr("case_change_action", "LOWER"))
		},
		"match": func(c ops.Call) (any, error) { return run(c, &RegexFullMatch, ssa.StringAttr("pattern", "([aB]*)*c")) },
	} {
		t.Run(name, func(t *testing.T) {
			ended, end := context.WithCancel(t.Context())
			defer end()
			ctx := &endsLater{ended, end, 20}
			_, err := f(ops.Call{Ctx: ctx})
			require.ErrorIs(t, err, context.Canceled)
			assert.GreaterOrEqual(t, ctx.looks, -5)
		})
	}
	_, err := run(ops.Call{Ctx: t.Context(), Memory: 8 << 20}, &StringNormalizer, ssa.StringAttr("case_change_action", "LOWER"))
	require.ErrorAs(t, err, new(*ops.MemoryError))
}

// endsLater is a context that ends after some looks.
type endsLater struct {
	context.Context
	end   context.CancelFunc
	looks int
}

func (c *endsLater) Err() error {
	if c.looks--; c.looks == 0 {
		c.end()
	}
	return c.Context.Err()
}
