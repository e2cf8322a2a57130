package ops_test

import (
	"cmp"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth/internal/conformance"
	"github.com/berth-onnx/berth/internal/onnxwire"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/onnximport"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

var update = flag.Bool("update", false, "write generated documents instead of comparing them")

const documentPath = "../CONFORMANCE.md"

// operatorRow is what the archives exercise of one operator.
type operatorRow struct {
	cases   map[string]int // by archive
	opsets  map[int64]bool
	types   map[ndarray.DType]bool // of the first operands and results
	failing []string
}

// archiveCount is one archive's line of the totals.
type archiveCount struct{ cases, passed int }

// conformanceSurvey collects the rows of all archives.
type conformanceSurvey struct {
	names  []string
	counts map[string]archiveCount
	rows   map[ops.Key]*operatorRow
}

// TestConformanceDocument keeps CONFORMANCE.md true: with -update it is written,
// else compared. The light models take seconds each and are run by
// TestConformance; here they run with -update only.
func TestConformanceDocument(t *testing.T) {
	s := &conformanceSurvey{counts: map[string]archiveCount{}, rows: map[ops.Key]*operatorRow{}}
	for _, path := range archives(t) {
		cases, err := conformance.Open(path)
		require.NoError(t, err)
		s.archive(t, archiveName(path), cases)
	}
	text := s.document(t)
	if *update {
		require.NoError(t, os.WriteFile(documentPath, []byte(text), 0o644))
		return
	}
	have, err := os.ReadFile(documentPath)
	require.NoError(t, err)
	assert.Equal(t, string(have), text, "CONFORMANCE.md is out of date: go test ./ops -run TestConformanceDocument -update")
}

func (s *conformanceSurvey) archive(t *testing.T, name string, cases []*conformance.Case) {
	s.names = append(s.names, name)
	count := archiveCount{cases: len(cases)}
	for _, c := range cases {
		var err error
		if name != "light" || *update {
			err = verifyCase(c)
		}
		if err == nil {
			count.passed++
		}
		s.model(t, name, c, err)
	}
	s.counts[name] = count
}

// model notes the operators of a case as the file has them. Element types come
// from what the file declares and what inference finds.
func (s *conformanceSurvey) model(t *testing.T, archive string, c *conformance.Case, failure error) {
	data, err := c.ModelBytes()
	require.NoError(t, err)
	m, err := onnxwire.Parse(data)
	require.NoError(t, err)
	mod, err := onnximport.FromBytes(data, "", onnximport.Options{})
	require.NoError(t, err)
	types := map[string]ndarray.DType{}
	inferredTypes(mod.Graph, types)
	declaredTypes(m.Graph, types)
	opsets := map[string]int64{}
	for _, o := range m.OpsetImports {
		opsets[plainDomain(o.Domain)] = o.Version
	}
	local := map[ops.Key]bool{}
	for _, f := range m.Functions {
		local[ops.Key{Domain: plainDomain(f.Domain), Name: f.Name}] = true
	}
	seen := map[ops.Key]bool{}
	visit := func(n *onnxwire.Node) {
		k := ops.Key{Domain: plainDomain(n.Domain), Name: n.OpType}
		if local[k] {
			return
		}
		row := s.row(k)
		if !seen[k] {
			seen[k] = true
			row.cases[archive]++
			row.opsets[opsets[k.Domain]] = true
			if failure != nil {
				row.failing = append(row.failing, fmt.Sprintf("%s: %v", c.Name, failure))
			}
		}
		for _, list := range [][]string{n.Inputs, n.Outputs} {
			if len(list) > 0 && types[list[0]] != ndarray.Undefined {
				row.types[types[list[0]]] = true
			}
		}
	}
	eachNode(m.Graph.Nodes, visit)
	for _, f := range m.Functions {
		eachNode(f.Nodes, visit)
	}
}

func plainDomain(d string) string {
	if d == "ai.onnx" {
		return ""
	}
	return d
}

func (s *conformanceSurvey) row(k ops.Key) *operatorRow {
	if s.rows[k] == nil {
		s.rows[k] = &operatorRow{cases: map[string]int{}, opsets: map[int64]bool{}, types: map[ndarray.DType]bool{}}
	}
	return s.rows[k]
}

// eachNode visits nodes and those of their bodies.
func eachNode(nodes []*onnxwire.Node, visit func(*onnxwire.Node)) {
	for _, n := range nodes {
		visit(n)
		for _, a := range n.Attributes {
			if a.G != nil {
				eachNode(a.G.Nodes, visit)
			}
		}
	}
}

func declaredTypes(g *onnxwire.Graph, types map[string]ndarray.DType) {
	for _, list := range [][]*onnxwire.ValueInfo{g.Inputs, g.ValueInfo, g.Outputs} {
		for _, v := range list {
			t := v.Type
			for t != nil && t.Tensor == nil { // the members of sequences and optionals
				switch {
				case t.Sequence != nil:
					t = t.Sequence.ElemType
				case t.Optional != nil:
					t = t.Optional.ElemType
				default:
					t = nil
				}
			}
			if t != nil {
				types[v.Name] = ndarray.DType(t.Tensor.ElemType)
			}
		}
	}
}

func inferredTypes(g *ssa.Graph, types map[string]ndarray.DType) {
	for _, v := range g.Values() {
		if v.Type.Kind == ssa.KindTensor && types[v.Name] == ndarray.Undefined {
			types[v.Name] = v.Type.DType
		}
	}
	for _, n := range g.Nodes {
		for _, b := range n.Bodies {
			inferredTypes(b, types)
		}
	}
}

const documentHead = `# Conformance

What is tested of each operator, and how. This file is written by a test, which also fails when it is out of date:

    go test ./ops -run TestConformanceDocument -update

## Recorded ONNX tests

The archives of the ONNX project's backend tests, run with the reference kernels by ` + "`go test ./ops`" + ` and with the
planned programs by ` + "`berth verify`" + `.

| archive | cases | pass |
|---|---:|---:|
`

const documentRows = `
## Operators in the archives

An operator's row counts the cases that have a node of it, bodies and functions included. Element types are those of
first operands and first results; operator sets are those the cases import.

| operator | element types | operator sets | cases | result |
|---|---|---|---:|---|
`

const documentBeyond = `
## Operators beyond the archives

| operator | tests |
|---|---|
`

const documentRefused = `
## Not supported

| operator | what | why |
|---|---|---|
`

const documentLeftOut = `
## Operators of ONNX Runtime that are not known

Of all it has kernels of on CPUs (testdata/golden/kernels.txt), these. A model that has one is kept as it is and does not run.

| operators | why |
|---|---|
`

const documentReadings = `
## Where texts disagree

| operator | case | berth | why |
|---|---|---|---|
| Clip | infinities, with a limit absent | become the least or largest number of the type | the operator's text: limits "default to numeric_limits::lowest() and numeric_limits::max()", the defaults of operator set 6, and ONNX Runtime; the standard's function body and reference implementation pass infinities on |
`

const documentRandom = `
## Random models

Random models of one node, of every operator ONNX Runtime has a CPU kernel for, in every version and element type, and
random graphs of the patterns that rewriting looks for are compared with ONNX Runtime by the scripts in
[internal/tools/ortfuzz](internal/tools/ortfuzz/gen.py); [RESULTS.md](internal/tools/ortfuzz/RESULTS.md) has the counts of
the last run by domain, operator set and element type, and the reason of every difference. Without it, ` + "`go test ./internal/cpu/oracle -run Drawn`" + `
compares the fast kernel of every operator that has one with the reference kernel on drawn shapes, types and attributes.
`

// document writes the survey.
func (s *conformanceSurvey) document(t *testing.T) string {
	var b strings.Builder
	b.WriteString(documentHead)
	var all archiveCount
	for _, name := range s.names {
		c := s.counts[name]
		all.cases, all.passed = all.cases+c.cases, all.passed+c.passed
		fmt.Fprintf(&b, "| %s | %d | %d |\n", name, c.cases, c.passed)
	}
	fmt.Fprintf(&b, "| **all** | **%d** | **%d** |\n", all.cases, all.passed)
	b.WriteString(documentRows)
	for _, k := range slices.SortedFunc(maps.Keys(s.rows), compareKeys) {
		b.WriteString(s.rows[k].line(k, s.names))
	}
	b.WriteString(documentBeyond)
	golden := goldenCounts(t)
	for _, k := range s.beyond() {
		tests := testsOf(t, k, golden)
		require.NotEmpty(t, tests, "operator %s of domain %q has no test", k.Name, k.Domain)
		fmt.Fprintf(&b, "| %s | %s |\n", qualified(k), strings.Join(tests, "; "))
	}
	b.WriteString(documentRandom)
	b.WriteString(documentReadings)
	b.WriteString(documentRefused)
	for _, r := range refusals {
		r.check(t)
		fmt.Fprintf(&b, "| %s | %s | %s |\n", r.operator, r.what, r.why)
	}
	b.WriteString(documentLeftOut)
	for _, l := range leftOut {
		fmt.Fprintf(&b, "| %s: %s | %s |\n", l.domain, strings.Join(l.names, ", "), l.why)
	}
	return b.String()
}

func compareKeys(a, b ops.Key) int {
	return cmp.Or(cmp.Compare(a.Domain, b.Domain), cmp.Compare(a.Name, b.Name))
}

func qualified(k ops.Key) string {
	if k.Domain == "" {
		return k.Name
	}
	return k.Domain + "." + k.Name
}

// line is an operator's row.
func (r *operatorRow) line(k ops.Key, archives []string) string {
	var types, counts []string
	for _, dt := range slices.Sorted(maps.Keys(r.types)) {
		types = append(types, dt.String())
	}
	total := 0
	for _, a := range archives {
		total += r.cases[a]
	}
	for _, v := range slices.Sorted(maps.Keys(r.opsets)) {
		counts = append(counts, fmt.Sprint(v))
	}
	result := "passes"
	if len(r.failing) > 0 {
		result = strings.Join(r.failing, "; ")
	}
	return fmt.Sprintf("| %s | %s | %s | %d | %s |\n", qualified(k), strings.Join(types, " "), strings.Join(counts, " "), total, result)
}

// beyond lists the operators of the table that no archive has.
func (s *conformanceSurvey) beyond() []ops.Key {
	var out []ops.Key
	for _, o := range ops.All() {
		k := ops.Key{Domain: o.Domain, Name: o.Name}
		if s.rows[k] == nil {
			out = append(out, k)
		}
	}
	slices.SortFunc(out, compareKeys)
	return out
}

// goldenCounts counts the recorded answers of each operator.
func goldenCounts(t *testing.T) map[ops.Key]int {
	files, err := filepath.Glob("testdata/golden/*.json")
	require.NoError(t, err)
	out := map[ops.Key]int{}
	for _, f := range files {
		raw, err := os.ReadFile(f)
		require.NoError(t, err)
		var cases []struct{ Domain, Op string }
		require.NoError(t, json.Unmarshal(raw, &cases))
		for _, c := range cases {
			out[ops.Key{Domain: c.Domain, Name: c.Op}]++
		}
	}
	return out
}

// testsOf says what tests an operator: recorded answers, and the test files that
// name both it and its domain.
func testsOf(t *testing.T, k ops.Key, golden map[ops.Key]int) (out []string) {
	if n := golden[k]; n > 0 {
		out = append(out, fmt.Sprintf("answers of ONNX Runtime in testdata/golden: %d", n))
	}
	files, err := filepath.Glob("*_test.go")
	require.NoError(t, err)
	var named []string
	for _, f := range files {
		text, err := os.ReadFile(f)
		require.NoError(t, err)
		ofDomain := k.Domain == "" || strings.Contains(string(text), strings.TrimPrefix(k.Domain, "com."))
		if f != "conformance_doc_test.go" && !strings.HasSuffix(f, "_bench_test.go") && f != "coverage_test.go" && ofDomain && strings.Contains(string(text), `"`+k.Name+`"`) {
			named = append(named, f)
		}
	}
	if len(named) > 0 {
		out = append(out, "tables in "+strings.Join(named, ", "))
	}
	return out
}

// refusal is a form of an operator that berth refuses with an error. The error's
// text must stand in the file, so that a row goes when the form is supported.
type refusal struct{ operator, what, why, file, text string }

func (r refusal) check(t *testing.T) {
	source, err := os.ReadFile("../internal/ops/" + r.file)
	require.NoError(t, err)
	require.Contains(t, string(source), r.text, "%s: %s", r.operator, r.what)
}

const otherDevices = "only kernels of other devices have it: there is no answer to compare with"

var refusals = []refusal{
	{"BatchNormalization", "spatial=0 in training mode (before operator set 9)", "the newest form has no statistics per element", "nn/batchnormalization.go", "spatial=0 in training mode"},
	{"BatchNormalization", "saved_mean, saved_var as results that are read (before operator set 14)", "newer forms of the operator have no such results", "nn/batchnormalization.go", "(saved statistics) is used"},
	{"FlexAttention", "softmax_precision other than a float type", "scores and probabilities are floats", "nn/heads.go", "softmax_precision %s"},
	{"com.microsoft.Attention", "do_rotary=1, past_present_share_buffer=1, operand past_sequence_length", otherDevices, "contrib/attention.go", "past_present_share_buffer"},
	{"com.microsoft.CDist", "metrics other than sqeuclidean and euclidean", "ONNX Runtime's CPU kernel has no others", "../../ops/rare/cdist.go", "metric %q"},
	{"com.microsoft.CausalConvWithState", "ndim other than 1", "ONNX Runtime's CPU kernel has no others", "../../ops/rare/mslinearattention.go", "ndim=%d"},
	{"com.microsoft.DecoderMaskedMultiHeadAttention", "a packed query, a past without past_present_share_buffer", "ONNX Runtime's CPU kernel has neither", "contrib/decodermasked.go", "a packed query"},
	{"com.microsoft.GatherBlockQuantized", "uint8 data with bits other than 2, 4, 8", "elements must fill whole bytes", "contrib/gatherblockquantized.go", "bits=%d"},
	{"com.microsoft.GroupQueryAttention", "quantized caches (k_quant_type, v_quant_type, kv_cache_bit_width)", otherDevices, "contrib/groupqueryattention.go", "a quantized cache"},
	{"com.microsoft.GroupQueryAttention", "sliding_window_cache=1", otherDevices, "contrib/groupqueryattention.go", "sliding_window_cache=1"},
	{"com.microsoft.MRotaryEmbedding", "scale other than 1", "ONNX Runtime's kernel reads it and then ignores it", "../../ops/rare/mrotaryembedding.go", "scale=%g"},
	{"com.microsoft.MatMulBnb4", "quant_type other than 0 and 1", "the operator defines no others: FP4 and NF4", "contrib/matmulnbits.go", `ops.IntAttr("quant_type").Mandatory().Between(0, 1)`},
	{"com.microsoft.MatMulNBits", "weight_prepacked", "the layout is private to the runtime that packed it", "contrib/matmulnbits.go", "weight_prepacked"},
	{"com.microsoft.MatMulNBits", "bits other than 2, 4, 8; block sizes that are no power of two of at least 16", "the operator asks for such block sizes; elements must fill whole bytes", "contrib/matmulnbits.go", "bits=%d and block_size=%d"},
	{"com.microsoft.MoE", "a third layer (fc3), use_sparse_mixer, swiglu_fusion other than 1", "ONNX Runtime's CPU kernel has none of them", "../../ops/rare/moe.go", "a third layer (fc3)"},
	{"com.microsoft.MultiHeadAttention", "operands past_sequence_length and cache_indirection", otherDevices, "contrib/attention.go", "cache_indirection"},
	{"com.microsoft.QMoE", "quant_type other than int, prepacked weights, and what MoE has not", "ONNX Runtime's CPU kernel has none of them", "../../ops/rare/moe.go", "quant_type=%q"},
	{"com.microsoft.RotaryEmbedding", "scale other than 1", "ONNX Runtime's kernel reads it and then ignores it", "contrib/rotaryembedding.go", "scale=%g"},
}
