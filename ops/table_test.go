package ops_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth/ops"
	_ "github.com/berth-onnx/berth/ops/all"
	"github.com/berth-onnx/berth/ssa"
)

// TestTable checks that every operator's entry is complete.
func TestTable(t *testing.T) {
	all := ops.All()
	require.NotEmpty(t, all)
	for _, o := range all {
		t.Run(o.Domain+"/"+o.Name, func(t *testing.T) {
			assert.NotEmpty(t, o.Name)
			assert.NotEmpty(t, o.Doc, "Doc")
			assert.Positive(t, o.Since, "Since")
			assert.True(t, (o.Infer == nil) != (o.InferBodies == nil), "one of Infer and InferBodies")
			assert.NotNil(t, o.Eval, "Eval")
			assert.False(t, o.Prepare != nil && (o.Facts.InPlace != nil || o.Facts.IsElementwise()), "what is prepared once does not ask where results lie")
			assert.Same(t, o, ops.Lookup(o.Domain, o.Name))
			assert.GreaterOrEqual(t, o.MinIn, 0)
			assert.GreaterOrEqual(t, o.MinOut, 0)
			if o.MaxIn >= 0 {
				assert.GreaterOrEqual(t, o.MaxIn, o.MinIn)
			}
			if o.MaxOut >= 0 {
				assert.GreaterOrEqual(t, o.MaxOut, max(o.MinOut, 1))
			}
		})
	}
}

// TestTableUpgrades checks that upgrade rules are complete and in order.
func TestTableUpgrades(t *testing.T) {
	for _, o := range ops.All() {
		last := 0
		for _, u := range o.Upgrades {
			assert.Greaterf(t, u.Below, last, "%s: upgrades are not in ascending order", o.Name)
			assert.NotEmptyf(t, u.Source, "%s below %d: Source", o.Name, u.Below)
			assert.NotNilf(t, u.Apply, "%s below %d: Apply", o.Name, u.Below)
			last = u.Below
		}
	}
}

// TestTableForms checks that a node of which nothing is known can be written in
// some version, at the latest the one that introduced the newest form.
func TestTableForms(t *testing.T) {
	for _, o := range ops.All() {
		form := o.Oldest(bare(o))
		assert.Positivef(t, form, "%s: Form", o.Name)
		assert.LessOrEqualf(t, form, o.Since, "%s: Form", o.Name)
	}
}

// bare makes a node with the fewest operands and results and no attributes, of which
// nothing is known.
func bare(o *ops.Op) *ssa.Node {
	g := ssa.NewGraph("bare")
	in := make([]*ssa.Value, o.MinIn)
	for i := range in {
		in[i] = g.AddParam(string(rune('a'+i)), ssa.Type{})
	}
	n := g.NewNode(o.Name, in, max(o.MinOut, 1))
	n.Domain = o.Domain
	return n
}

// TestAbsentAttributesKeepTheirMeaning checks that no node without an attribute is
// written for an operator set in which its absence means something else.
func TestAbsentAttributesKeepTheirMeaning(t *testing.T) {
	sameMeaning := map[string]string{"GridSample": "bilinear is the old name of linear"}
	for _, o := range ops.All() {
		oldest := o.Oldest(bare(o))
		for _, old := range o.Attrs {
			s := o.Attr(old.Name, 0)
			if old.Until > oldest && s != nil && s.Kind == old.Kind && !s.Default.EqualValue(old.Default) {
				assert.NotEmptyf(t, sameMeaning[o.Name], "%s is written for operator set %d, where the default of %s differs", o.Name, oldest, old.Name)
			}
		}
	}
}

// TestWhole: operators of which ONNX or ONNX Runtime refuse nodes without all results keep those that nothing reads.
func TestWhole(t *testing.T) {
	for domain, names := range map[string]string{
		"":              "BatchNormalization CausalConvWithState LinearAttention StringSplit",
		"ai.onnx.ml":    "LinearClassifier SVMClassifier TreeEnsembleClassifier",
		"com.microsoft": "BifurcationDetector CausalConvWithState EmbedLayerNormalization LinearAttention QEmbedLayerNormalization SparseAttention Unique",
	} {
		for name := range strings.FieldsSeq(names) {
			assert.Truef(t, ops.Lookup(domain, name).Facts.Whole, "%s %s", domain, name)
		}
	}
}
