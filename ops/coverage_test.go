package ops_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth/ops"
)

// An operator may enter the table only with a type rule, with facts, and with
// answers that others have given: a case of the ONNX archives (CONFORMANCE.md lists
// them, and another test keeps that true) or answers of ONNX Runtime in
// testdata/golden, where every result's type is checked as well. What has neither
// is named here, with the test that stands in for them.

// withoutAnswers names what no archive has a case of and ONNX Runtime has no
// answer to, and the test that says what is right.
var withoutAnswers = map[ops.Key]struct{ why, test string }{
	{"", "Multinomial"}:      {drawsNumbers, "TestMultinomial"},
	{"", "RandomNormal"}:     {drawsNumbers, "TestRandomMoments"},
	{"", "RandomNormalLike"}: {drawsNumbers, "TestRandomMoments"},
	{"", "RandomUniform"}:    {drawsNumbers, "TestRandomMoments"},

	{"ai.onnx.ml", "CastMap"}:        {takesMaps, "TestMLMaps"},
	{"ai.onnx.ml", "DictVectorizer"}: {takesMaps, "TestMLMaps"},
	{"ai.onnx.ml", "ZipMap"}:         {takesMaps, "TestMLMaps"},

	{"com.microsoft", "BiasAdd"}:                      {noKernel, "TestGroupNormLayouts"},
	{"com.microsoft", "BiasSoftmax"}:                  {noKernel, "TestMicrosoftValues"},
	{"com.microsoft", "BiasSplitGelu"}:                {noKernel, "TestMicrosoftValues"},
	{"com.microsoft", "FusedMatMulActivation"}:        {noKernel, "TestMicrosoftValues"},
	{"com.microsoft", "GemmFastGelu"}:                 {noKernel, "TestMicrosoftValues"},
	{"com.microsoft", "GroupNorm"}:                    {noKernel, "TestGroupNormLayouts"},
	{"com.microsoft", "MulInteger"}:                   {noKernel, "TestMicrosoftValues"},
	{"com.microsoft", "NhwcConv"}:                     {noKernel, "TestNhwcConv"},
	{"com.microsoft", "NhwcFusedConv"}:                {noKernel, "TestNhwcConv"},
	{"com.microsoft", "QLinearReduceMean"}:            {noKernel, "TestMicrosoftValues"},
	{"com.microsoft", "ReduceSumInteger"}:             {noKernel, "TestMicrosoftValues"},
	{"com.microsoft", "SimplifiedLayerNormalization"}: {noKernel, "TestMicrosoftValues"},
	{"com.microsoft", "SkipGroupNorm"}:                {noKernel, "TestGroupNormLayouts"},
}

const (
	drawsNumbers = "its results are random: their distribution is tested"
	takesMaps    = "maps are no arrays"
	noKernel     = "ONNX Runtime has no kernel of it on this kind of machine: it is compared with what it is a fusion of"
)

// TestEveryOperatorIsCovered fails for an operator that lacks any of the three.
func TestEveryOperatorIsCovered(t *testing.T) {
	archived, golden, sources := archivedOperators(t), goldenCounts(t), testSources(t)
	stale := map[ops.Key]bool{}
	for k := range withoutAnswers {
		stale[k] = true
	}
	for _, o := range ops.All() {
		k := ops.Key{Domain: o.Domain, Name: o.Name}
		delete(stale, k)
		t.Run(qualified(k), func(t *testing.T) {
			assert.NotNil(t, o.Infer, "no type rule")
			assert.True(t, hasFacts(o), "no facts: give it at least a cost rule")
			instead, excused := withoutAnswers[k]
			answered := archived[qualified(k)] || golden[k] > 0
			assert.Truef(t, answered || excused, "no case in the archives, no answers in testdata/golden: record some")
			assert.Falsef(t, answered && excused, "it has answers: take it off the list")
			if excused {
				assert.Containsf(t, sources, "func "+instead.test+"(", "the test that stands in for answers (%s)", instead.why)
				assert.Contains(t, sources, `"`+o.Name+`"`)
			}
		})
	}
	assert.Empty(t, stale, "operators that are not in the table")
}

// hasFacts reports that an operator says something of itself.
func hasFacts(o *ops.Op) bool {
	f := o.Facts
	return f.Elementwise || f.Random || f.SideEffect || f.InPlace != nil || f.Smaller != nil || f.Alias != nil || f.Cost != nil
}

// archivedOperators reads which operators the archives have cases of that pass.
func archivedOperators(t *testing.T) map[string]bool {
	text, err := os.ReadFile(documentPath)
	require.NoError(t, err)
	_, rows, found := strings.Cut(string(text), "## Operators in the archives")
	require.True(t, found)
	rows, _, _ = strings.Cut(rows, "\n## ")
	out := map[string]bool{}
	for _, line := range strings.Split(rows, "\n") {
		if cells := strings.Split(line, "|"); len(cells) == 7 && strings.TrimSpace(cells[5]) == "passes" {
			out[strings.TrimSpace(cells[1])] = true
		}
	}
	require.Greater(t, len(out), 150)
	return out
}

// testSources is the text of the package's tests but for this file.
func testSources(t *testing.T) string {
	files, err := filepath.Glob("*_test.go")
	require.NoError(t, err)
	var b strings.Builder
	for _, f := range files {
		if f == "coverage_test.go" {
			continue
		}
		text, err := os.ReadFile(f)
		require.NoError(t, err)
		b.Write(text)
	}
	return b.String()
}
