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
			assert.True(t, o.Infer != nil || o.InferBodies != nil, "no type rule")
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

// leftOut names operators that ONNX Runtime has kernels of on this kind of machine
// and berth does not know, and why.
var leftOut = []struct {
	domain, why string
	names       []string
}{
	{"ai.onnx", "they are no operators of models: a runtime puts them between devices", []string{"MemcpyFromHost", "MemcpyToHost"}},
	{"com.microsoft", "a search that runs a decoder, given as a body in the form of a few exporters, and keeps its caches itself; such models hold the decoder, which runs",
		[]string{"BeamSearch", "GreedySearch", "Sampling", "WhisperBeamSearch"}},
	{"com.microsoft", "sparse tensors are no values of models here; sparse constants are read as dense ones", []string{"SparseToDenseMatMul"}},
	{"com.microsoft", "the weights are a blob in a layout private to the runtime that packed it; MatMulNBits replaced it", []string{"MatMulFpQ4"}},
	{"com.microsoft", "it is for one model's internal use: its text says no more, and the mask of one channel is read from others", []string{"MaxpoolWithMask"}},
	{"com.microsoft", "not done: recurrent attention of sequence-to-sequence models from before transformers", []string{"AttnLSTM"}},
	{"com.microsoft.nchwc", "they work on blocks of channels; import turns them into standard operators (see DECISIONS.md)",
		[]string{"AveragePool", "Conv", "GlobalAveragePool", "GlobalMaxPool", "MaxPool", "ReorderInput", "ReorderOutput", "Upsample"}},
}

// TestEveryKernelIsKnown compares the table with the kernels of ONNX Runtime:
// testdata/golden/kernels.txt, written with the answers.
func TestEveryKernelIsKnown(t *testing.T) {
	text, err := os.ReadFile("testdata/golden/kernels.txt")
	require.NoError(t, err)
	out := map[string]bool{}
	for _, l := range leftOut {
		for _, name := range l.names {
			out[l.domain+" "+name] = true
		}
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	require.Greater(t, len(lines), 250)
	for _, line := range lines {
		domain, name, _ := strings.Cut(line, " ")
		known := ops.Lookup(strings.TrimPrefix(domain, "ai.onnx"), name) != nil
		if strings.HasPrefix(domain, "ai.onnx.") {
			known = ops.Lookup(domain, name) != nil
		}
		assert.NotEqualf(t, known, out[line], "%s: known %v, on the list of what is left out %v", line, known, out[line])
		delete(out, line)
	}
	assert.Empty(t, out, "on the list, but no kernels")
}
