package ops_test

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"sort"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// differences lists, by operator and attribute, what the schema says otherwise
// than the packages onnx and onnxruntime, and why.
var differences = map[string]string{
	".GRU direction":                             "version 1 misspells the default as foward",
	".RNN activations":                           "the default, a Tanh for each direction, depends on how many there are",
	".StringNormalizer locale":                   "the text of the standard: en_US",
	".StringSplit maxsplit":                      "the text of the standard: absent means no limit, as does -1",
	"ai.onnx.ml.TreeEnsemble n_targets":          "one target where the file does not say how many",
	"ai.onnx.ml.TreeEnsembleRegressor n_targets": "one target where the file does not say how many",
	"com.microsoft.SimplifiedLayerNormalization": "onnxruntime declares it for the default domain, its files say com.microsoft",

	"com.microsoft.Attention mask_filter_value":                       "the text of the operator: -10000",
	"com.microsoft.QAttention mask_filter_value":                      "the text of the operator: -10000",
	"com.microsoft.MultiHeadAttention mask_filter_value":              "the text of the operator: -10000",
	"com.microsoft.DecoderMaskedMultiHeadAttention mask_filter_value": "the text of the operator: -10000",
	"com.microsoft.RotaryEmbedding scale":                             "the text of the operator: 1",
	"com.microsoft.MRotaryEmbedding scale":                            "as RotaryEmbedding has it",
	"com.microsoft.QuantizeLinear axis":                               "the kernel reads 1, as in the default domain",
	"com.microsoft.DequantizeLinear axis":                             "the kernel reads 1, as in the default domain",
	"com.microsoft.MoE swiglu_limit":                                  "the text of the operator: absent means infinite",
	"com.microsoft.QMoE swiglu_limit":                                 "the text of the operator: absent means infinite",
}

// TestAttributeOracle compares the attributes of every operator, in all its versions,
// with what the packages onnx and onnxruntime declare. The file is written by
// internal/tools/onnxschema.
func TestAttributeOracle(t *testing.T) {
	want := readAttributeOracle(t)
	used := map[string]bool{}
	for _, o := range ops.All() {
		op := o.Domain + "." + o.Name
		lines := want[op]
		if lines == nil {
			assert.NotEmptyf(t, differences[op], "neither package knows %s", op)
			used[op] = true
			continue
		}
		for i, line := range lines {
			versions := []int{line.version}
			if i == len(lines)-1 {
				versions = append(versions, 0)
			}
			for _, v := range versions {
				compareAttributes(t, o, v, line.attrs, used)
			}
		}
	}
	for key := range differences {
		assert.Truef(t, used[key], "%s: the difference is gone", key)
	}
}

func compareAttributes(t *testing.T, o *ops.Op, version int, want map[string]string, used map[string]bool) {
	t.Helper()
	names := map[string]bool{}
	for name := range want {
		names[name] = true
	}
	for _, a := range o.Attrs {
		names[a.Name] = true
	}
	for name := range names {
		got := ""
		if s := o.Attr(name, version); s != nil {
			got = attrText(s)
		}
		key := o.Domain + "." + o.Name + " " + name
		if got != want[name] && differences[key] != "" {
			used[key] = true
			continue
		}
		assert.Equalf(t, want[name], got, "%s, version %d", key, version)
	}
}

type oracleLine struct {
	version int
	attrs   map[string]string // name → kind[!][=default]
}

func readAttributeOracle(t *testing.T) map[string][]oracleLine {
	t.Helper()
	data, err := os.ReadFile("testdata/onnx_attributes.txt")
	require.NoError(t, err)
	out := map[string][]oracleLine{}
	for _, text := range strings.Split(strings.TrimSpace(string(data)), "\n")[1:] {
		f := strings.Split(text, " ")
		version, err := strconv.Atoi(f[1])
		require.NoError(t, err, text)
		line := oracleLine{version, map[string]string{}}
		for _, a := range f[2:] {
			name, rest, _ := strings.Cut(a, ":")
			line.attrs[name] = rest
		}
		out[f[0]] = append(out[f[0]], line)
	}
	return out
}

// attrText words a schema the way the oracle's file does.
func attrText(s *ops.AttrSpec) string {
	out := s.Kind.String()
	if s.Kind == ssa.AttrOther {
		out = "sparse_tensor"
	}
	if s.Required {
		out += "!"
	}
	d := s.Default
	switch d.Kind {
	case ssa.AttrNone:
		return out
	case ssa.AttrInt:
		return out + "=" + strconv.FormatInt(d.I, 10)
	case ssa.AttrFloat:
		return out + "=" + strconv.FormatFloat(float64(d.F), 'g', -1, 32)
	}
	var list any = d.Ints
	switch d.Kind {
	case ssa.AttrString:
		list = d.S
	case ssa.AttrStrings:
		list = d.Strings
	}
	b, err := json.Marshal(list)
	if err != nil {
		return fmt.Sprint(err)
	}
	return out + "=" + string(b)
}

// TestAttrSpecs checks that schemas are well formed: names are unique in every
// version, defaults have the declared kind and keep the declared limits.
func TestAttrSpecs(t *testing.T) {
	for _, o := range ops.All() {
		sorted := slices.Clone(o.Attrs)
		sort.SliceStable(sorted, func(i, j int) bool {
			return sorted[i].Name < sorted[j].Name || sorted[i].Name == sorted[j].Name && sorted[i].Since < sorted[j].Since
		})
		for i, a := range sorted {
			at := fmt.Sprintf("%s.%s %s", o.Domain, o.Name, a.Name)
			assert.NotEmpty(t, a.Name, at)
			assert.NotEqual(t, ssa.AttrNone, a.Kind, at)
			assert.True(t, a.Until == 0 || a.Since < a.Until, at)
			if i > 0 && sorted[i-1].Name == a.Name {
				assert.Truef(t, sorted[i-1].Until > 0 && sorted[i-1].Until <= a.Since, "%s: version ranges overlap", at)
			}
			if a.Default.Kind != ssa.AttrNone {
				assert.Equal(t, a.Kind, a.Default.Kind, at)
				assert.False(t, a.Required, at)
			}
		}
	}
}
