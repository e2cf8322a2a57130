package ops_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

const mlDomain = "ai.onnx.ml"

// evalML runs one node of ai.onnx.ml; what its rule infers must fit the result.
func evalML(t *testing.T, op string, at attrs, numOut int, in ...ndarray.Value) ([]ndarray.Value, error) {
	t.Helper()
	c := valueNode(mlDomain, op, at, numOut, in...)
	if err := ops.Infer(c.Node); err != nil {
		return nil, err
	}
	if err := ops.Eval(c); err != nil {
		return nil, err
	}
	for i, v := range c.Out {
		if a, ok := v.(*ndarray.Array); ok {
			fits(t, op, c.Node.Out[i], a)
		}
	}
	return c.Out, nil
}

// mustML is evalML for tensors and no error.
func mustML(t *testing.T, op string, at attrs, numOut int, in ...ndarray.Value) []*ndarray.Array {
	t.Helper()
	out, err := evalML(t, op, at, numOut, in...)
	require.NoError(t, err, op)
	arrays := make([]*ndarray.Array, len(out))
	for i, v := range out {
		arrays[i] = v.(*ndarray.Array)
	}
	return arrays
}

func floatsAttr(name string, v ...float32) ssa.Attr { return ssa.FloatsAttr(name, v...) }

func intsAttr(name string, v ...int64) ssa.Attr { return ssa.IntsAttr(name, v...) }

func stringsAttr(name string, v ...string) ssa.Attr { return ssa.StringsAttr(name, v...) }

func stringAttr(name, v string) ssa.Attr { return ssa.StringAttr(name, v) }

func intAttr(name string, v int64) ssa.Attr { return ssa.IntAttr(name, v) }

func TestMLFeatures(t *testing.T) {
	f32nan := float32(math.NaN())
	for _, c := range []struct {
		name  string
		op    string
		at    attrs
		in    []ndarray.Value
		shape []int
		want  []float64
	}{
		{"scale per feature", "Scaler", attrs{floatsAttr("offset", 1, 2), floatsAttr("scale", 10, 100)}, []ndarray.Value{mat(2, 2, 1, 2, 3, 4)}, []int{2, 2}, []float64{0, 0, 20, 200}},
		{"scale all", "Scaler", attrs{floatsAttr("offset", 1), floatsAttr("scale", 10)}, []ndarray.Value{i64(3, 4)}, []int{2}, []float64{20, 30}},
		{"norm max", "Normalizer", nil, []ndarray.Value{mat(3, 2, 2, 4, -4, -2, 0, 0)}, []int{3, 2}, []float64{0.5, 1, 2, 1, 0, 0}},
		{"norm l1", "Normalizer", attrs{stringAttr("norm", "L1")}, []ndarray.Value{mat(1, 2, -1, 3)}, []int{1, 2}, []float64{-0.25, 0.75}},
		{"norm l2", "Normalizer", attrs{stringAttr("norm", "L2")}, []ndarray.Value{i64(-3, 4)}, []int{2}, []float64{-0.6, 0.8}},
		{"binarize", "Binarizer", attrs{ssa.FloatAttr("threshold", 0.5)}, []ndarray.Value{vec(0.5, 0.6, nan)}, []int{3}, []float64{0, 1, 0}},
		{"impute NaN", "Imputer", attrs{floatsAttr("imputed_value_floats", 7, 8), ssa.FloatAttr("replaced_value_float", f32nan)}, []ndarray.Value{mat(2, 2, nan, 1, 2, nan)}, []int{2, 2}, []float64{7, 1, 2, 8}},
		{"impute integers", "Imputer", attrs{intsAttr("imputed_value_int64s", 7), intAttr("replaced_value_int64", -1)}, []ndarray.Value{i64(-1, 3)}, []int{2}, []float64{7, 3}},
		{"join features", "FeatureVectorizer", attrs{intsAttr("inputdimensions", 3, 1)}, []ndarray.Value{mat(2, 2, 1, 2, 3, 4), mat(2, 2, 5, 6, 7, 8)}, []int{2, 4}, []float64{1, 2, 0, 5, 3, 4, 0, 7}},
		{"join vectors", "FeatureVectorizer", nil, []ndarray.Value{vec(1, 2), vec(3)}, []int{1, 3}, []float64{1, 2, 3}},
		{"extract of vector", "ArrayFeatureExtractor", nil, []ndarray.Value{vec(5, 6, 7), i64(2, 0)}, []int{1, 2}, []float64{7, 5}},
		{"extract of matrix", "ArrayFeatureExtractor", nil, []ndarray.Value{cube(2, 3), i64(1)}, []int{2, 1}, []float64{1, 4}},
		{"one hot integers", "OneHotEncoder", attrs{intsAttr("cats_int64s", 5, 7)}, []ndarray.Value{i64(7, 9)}, []int{2, 2}, []float64{0, 1, 0, 0}},
		{"one hot floats", "OneHotEncoder", attrs{intsAttr("cats_int64s", 5, 7)}, []ndarray.Value{vec(5.9)}, []int{1, 2}, []float64{1, 0}},
		{"one hot strings", "OneHotEncoder", attrs{stringsAttr("cats_strings", "a", "b")}, []ndarray.Value{strs("b")}, []int{1, 2}, []float64{0, 1}},
		{"labels of strings", "LabelEncoder", attrs{stringsAttr("keys_strings", "a", "b", "a"), intsAttr("values_int64s", 1, 2, 3)}, []ndarray.Value{strs("a", "b", "c")}, []int{3}, []float64{3, 2, -1}},
		{"labels of NaN", "LabelEncoder", attrs{floatsAttr("keys_floats", f32nan, 0), floatsAttr("values_floats", 1, 2)}, []ndarray.Value{vec(nan, zero, 5)}, []int{3}, []float64{1, 2, zero}},
		{"labels of doubles", "LabelEncoder", attrs{ssa.TensorAttr("keys_tensor", ssa.NewConstant(typed(ndarray.Float64, 0.1))), ssa.TensorAttr("values_tensor", ssa.NewConstant(typed(ndarray.Int16, 4))),
			ssa.TensorAttr("default_tensor", ssa.NewConstant(typed(ndarray.Int16, 9)))}, []ndarray.Value{typed(ndarray.Float64, 0.1, 0.2)}, []int{2}, []float64{4, 9}},
		{"categories", "CategoryMapper", attrs{intsAttr("cats_int64s", 5, 7), stringsAttr("cats_strings", "a", "b")}, []ndarray.Value{strs("b", "c")}, []int{2}, []float64{7, -1}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := mustML(t, c.op, c.at, 1, c.in...)[0]
			assert.Equal(t, c.shape, got.Shape)
			sameNumbers(t, c.want, numbers(got), 1e-6, c.name)
		})
	}
	back := mustML(t, "CategoryMapper", attrs{intsAttr("cats_int64s", 5, 7), stringsAttr("cats_strings", "a", "b"), stringAttr("default_string", "?")}, 1, i64(7, 1))
	assert.Equal(t, []string{"b", "?"}, back[0].Str)
}

// TestMLLinear checks classes and scores; two classes with one function follow
// the sign of the second class's score.
func TestMLLinear(t *testing.T) {
	post := func(s string) ssa.Attr { return stringAttr("post_transform", s) }
	half := 1 / (1 + math.E)
	for _, c := range []struct {
		name   string
		at     attrs
		x      *ndarray.Array
		labels []float64
		scores []float64
	}{
		{"argmax", attrs{floatsAttr("coefficients", 1, 0, 0, 1), floatsAttr("intercepts", 0, 1), intsAttr("classlabels_ints", 10, 11)}, mat(2, 2, 3, 1, 1, 3), []float64{10, 11}, []float64{3, 2, 1, 4}},
		{"one function", attrs{floatsAttr("coefficients", 1), intsAttr("classlabels_ints", 10, 11)}, mat(2, 1, -2, 0.3), []float64{10, 11}, []float64{3, -2, 0.7, 0.3}},
		{"one function, logistic", attrs{floatsAttr("coefficients", 1), intsAttr("classlabels_ints", 10, 11), post("LOGISTIC")}, mat(1, 1, 1), []float64{11}, []float64{half, 1 - half}},
		{"softmax", attrs{floatsAttr("coefficients", 1, 2), intsAttr("classlabels_ints", 10, 11), post("SOFTMAX")}, mat(1, 1, 1), []float64{11}, []float64{half, 1 - half}},
		{"softmax keeps zero", attrs{floatsAttr("coefficients", 0, 1), intsAttr("classlabels_ints", 10, 11), post("SOFTMAX_ZERO")}, mat(1, 1, 1), []float64{11}, []float64{0, 1}},
		{"probit", attrs{floatsAttr("coefficients", 0.5, 0.975), intsAttr("classlabels_ints", 10, 11), post("PROBIT")}, mat(1, 1, 1), []float64{11}, []float64{0, 1.959964}},
	} {
		out := mustML(t, "LinearClassifier", c.at, 2, c.x)
		sameNumbers(t, c.labels, numbers(out[0]), 0, c.name)
		sameNumbers(t, c.scores, numbers(out[1]), 1e-5, c.name)
	}
	named := mustML(t, "LinearClassifier", attrs{floatsAttr("coefficients", 1), stringsAttr("classlabels_strings", "no", "yes")}, 2, mat(2, 1, -1, 1))
	assert.Equal(t, []string{"no", "yes"}, named[0].Str)
	reg := mustML(t, "LinearRegressor", attrs{floatsAttr("coefficients", 1, 2, 3, 4), floatsAttr("intercepts", 10, 20), intAttr("targets", 2)}, 1, mat(1, 2, 1, 1))
	sameNumbers(t, []float64{13, 27}, numbers(reg[0]), 0, "regressor")
}

func TestMLSVM(t *testing.T) {
	kernel := func(kind string, v ...float32) attrs {
		return attrs{stringAttr("kernel_type", kind), floatsAttr("kernel_params", v...), floatsAttr("support_vectors", 1, 2), floatsAttr("coefficients", 3), floatsAttr("rho", 0.5), intAttr("n_supports", 1)}
	}
	x := mat(1, 2, 2, 1) // dot product 4, squared distance 2
	for _, c := range []struct {
		at   attrs
		want float64
	}{
		{kernel("LINEAR", 0, 0, 0), 12.5},
		{kernel("POLY", 0.5, 1, 2), 27.5},
		{kernel("RBF", 0.5, 0, 0), 3*math.Exp(-1) + 0.5},
		{kernel("SIGMOID", 0.25, -1, 0), 0.5},
		{append(kernel("LINEAR", 0, 0, 0), intAttr("one_class", 1)), 1},
		{attrs{floatsAttr("coefficients", 1, 10), floatsAttr("rho", 1)}, 13},
	} {
		sameNumbers(t, []float64{c.want}, numbers(mustML(t, "SVMRegressor", c.at, 1, x)[0]), 1e-6, "svr")
	}
	two := attrs{intsAttr("vectors_per_class", 1, 1), floatsAttr("support_vectors", 1, 1), floatsAttr("coefficients", 1.5, -0.5), floatsAttr("rho", 0), intsAttr("classlabels_ints", 10, 11)}
	out := mustML(t, "SVMClassifier", two, 2, mat(2, 1, 0.7, -2)) // score of the pair is x: above 0 the first class
	assert.Equal(t, []float64{10, 11}, numbers(out[0]))
	sameNumbers(t, []float64{-0.7, 0.7, 2, -2}, numbers(out[1]), 1e-6, "pair scores")
	prob := append(append(attrs{}, two...), floatsAttr("prob_a", -1), floatsAttr("prob_b", 0))
	out = mustML(t, "SVMClassifier", prob, 2, mat(1, 1, 2))
	sameNumbers(t, []float64{1 / (1 + math.Exp(-2)), 1 / (1 + math.Exp(2))}, numbers(out[1]), 1e-3, "probabilities")
	three := attrs{intsAttr("vectors_per_class", 1, 1, 1), floatsAttr("support_vectors", 1, 0, -1), floatsAttr("coefficients", 1, 1, 1, 1, -1, -1), floatsAttr("rho", 0, 0, 0), intsAttr("classlabels_ints", 10, 11, 12)}
	out = mustML(t, "SVMClassifier", three, 2, mat(1, 1, 2))
	assert.Equal(t, []int{1, 3}, out[1].Shape)
	linear := attrs{floatsAttr("coefficients", 1, -1), floatsAttr("rho", 0.5), stringsAttr("classlabels_strings", "a", "b")}
	out = mustML(t, "SVMClassifier", linear, 2, mat(2, 1, 3, -3))
	assert.Equal(t, []string{"a", "b"}, out[0].Str)
	sameNumbers(t, []float64{3.5, -2.5, -2.5, 3.5}, numbers(out[1]), 1e-6, "linear")
}

// stump is one tree: feature 0 <= 0.5 goes to leaf 1, else to leaf 2; missing
// values take the branch that track says.
func stump(track int64, more ...ssa.Attr) attrs {
	return append(attrs{intsAttr("nodes_treeids", 0, 0, 0), intsAttr("nodes_nodeids", 0, 1, 2), intsAttr("nodes_featureids", 0, 0, 0),
		stringsAttr("nodes_modes", "BRANCH_LEQ", "LEAF", "LEAF"), floatsAttr("nodes_values", 0.5, 0, 0), intsAttr("nodes_truenodeids", 1, 0, 0),
		intsAttr("nodes_falsenodeids", 2, 0, 0), intsAttr("nodes_missing_value_tracks_true", track, 0, 0)}, more...)
}

func votes(prefix string, nodes, ids []int64, weights ...float32) attrs {
	return attrs{intsAttr(prefix+"_treeids", make([]int64, len(nodes))...), intsAttr(prefix+"_nodeids", nodes...), intsAttr(prefix+"_ids", ids...), floatsAttr(prefix+"_weights", weights...)}
}

func TestMLTrees(t *testing.T) {
	x := mat(3, 1, 0, 1, nan)
	weights := votes("target", []int64{1, 2}, []int64{0, 0}, 10, 20)
	for _, c := range []struct {
		name string
		at   attrs
		want []float64
	}{
		{"missing is false", stump(0, weights...), []float64{10, 20, 20}},
		{"missing is true", stump(1, weights...), []float64{10, 20, 10}},
		{"base", stump(0, append(weights, floatsAttr("base_values", 1))...), []float64{11, 21, 21}},
		{"mean", stump(0, append(weights, stringAttr("aggregate_function", "AVERAGE"))...), []float64{10, 20, 20}},
		{"double", stump(0, append(weights[:3:3], ssa.TensorAttr("target_weights_as_tensor", ssa.NewConstant(typed(ndarray.Float64, 1, 2))))...), []float64{1, 2, 2}},
	} {
		at := append(c.at, intAttr("n_targets", 1))
		sameNumbers(t, c.want, numbers(mustML(t, "TreeEnsembleRegressor", at, 1, x)[0]), 0, c.name)
	}
	labels := intsAttr("classlabels_int64s", 10, 11)
	for _, c := range []struct {
		name   string
		at     attrs
		class  []float64
		scores []float64
	}{
		{"votes for both", stump(0, append(votes("class", []int64{1, 1, 2, 2}, []int64{0, 1, 0, 1}, 0.7, 0.3, 0.2, 0.8), labels)...), []float64{10, 11, 11}, []float64{0.7, 0.3, 0.2, 0.8, 0.2, 0.8}},
		{"probability of the second", stump(0, append(votes("class", []int64{1, 2}, []int64{0, 0}, 0.25, 0.75), labels)...), []float64{10, 11, 11}, []float64{0.75, 0.25, 0.25, 0.75, 0.25, 0.75}},
		{"score of the second", stump(0, append(votes("class", []int64{1, 2}, []int64{0, 0}, -2, 3), labels)...), []float64{10, 11, 11}, []float64{2, -2, -3, 3, -3, 3}},
		{"with base", stump(0, append(votes("class", []int64{1, 2}, []int64{0, 0}, -2, 3), labels, floatsAttr("base_values", 5))...), []float64{11, 11, 11}, []float64{-3, 3, -8, 8, -8, 8}},
		{"logistic", stump(0, append(votes("class", []int64{1, 2}, []int64{0, 0}, 0, 0), labels, stringAttr("post_transform", "LOGISTIC"))...), []float64{10, 10, 10}, []float64{.5, .5, .5, .5, .5, .5}},
	} {
		out := mustML(t, "TreeEnsembleClassifier", c.at, 2, x)
		sameNumbers(t, c.class, numbers(out[0]), 0, c.name)
		sameNumbers(t, c.scores, numbers(out[1]), 1e-6, c.name)
	}
}

// tree5 is the stump in the form of TreeEnsemble-5, with a mode and members.
func tree5(mode float64, more ...ssa.Attr) attrs {
	tensor := func(a *ndarray.Array) *ssa.Constant { return ssa.NewConstant(a) }
	return append(attrs{intsAttr("tree_roots", 0), ssa.TensorAttr("nodes_modes", tensor(typed(ndarray.Uint8, mode))), intsAttr("nodes_featureids", 0),
		ssa.TensorAttr("nodes_splits", tensor(vec(0.5))), intsAttr("nodes_truenodeids", 0), intsAttr("nodes_trueleafs", 1), intsAttr("nodes_falsenodeids", 1),
		intsAttr("nodes_falseleafs", 1), intsAttr("leaf_targetids", 0, 0), ssa.TensorAttr("leaf_weights", tensor(vec(1, 2)))}, more...)
}

// TestMLTreeCircle: two nodes that are each other's children leave the one leaf to be the root. That is no tree, though every walk would end.
func TestMLTreeCircle(t *testing.T) {
	circle := append(attrs{intsAttr("nodes_treeids", 0, 0, 0), intsAttr("nodes_nodeids", 0, 1, 2), intsAttr("nodes_featureids", 0, 0, 0),
		stringsAttr("nodes_modes", "BRANCH_LEQ", "BRANCH_LEQ", "LEAF"), floatsAttr("nodes_values", 0, 0, 0), intsAttr("nodes_truenodeids", 1, 0, 0),
		intsAttr("nodes_falsenodeids", 1, 0, 0), intAttr("n_targets", 1)}, votes("target", []int64{2}, []int64{0}, 1)...)
	_, err := evalML(t, "TreeEnsembleRegressor", circle, 1, mat(1, 1, 0.5))
	assert.ErrorContains(t, err, "ancestor")
}

func TestMLTreeEnsemble(t *testing.T) {
	x := mat(3, 1, 0.25, 0.5, 0.75)
	for mode, want := range [][]float64{{1, 1, 2}, {1, 2, 2}, {2, 1, 1}, {2, 2, 1}, {2, 1, 2}, {1, 2, 1}} {
		sameNumbers(t, want, numbers(mustML(t, "TreeEnsemble", tree5(float64(mode)), 1, x)[0]), 0, "mode")
	}
	member := tree5(6, ssa.TensorAttr("membership_values", ssa.NewConstant(vec(0.75, 0.25, nan))))
	sameNumbers(t, []float64{1, 2, 1}, numbers(mustML(t, "TreeEnsemble", member, 1, x)[0]), 0, "member")
	half := mustML(t, "TreeEnsemble", tree5(0), 1, as(ndarray.Float16, x))[0]
	assert.Equal(t, ndarray.Float16, half.DType)
	loop := tree5(0)
	for i := range loop {
		switch loop[i].Name {
		case "nodes_trueleafs":
			loop[i] = intsAttr("nodes_trueleafs", 0)
		}
	}
	_, err := evalML(t, "TreeEnsemble", loop, 1, x)
	assert.ErrorContains(t, err, "ancestor")
}

func TestMLMaps(t *testing.T) {
	zip, err := evalML(t, "ZipMap", attrs{stringsAttr("classlabels_strings", "a", "b")}, 1, mat(2, 2, 1, 2, 3, 4))
	require.NoError(t, err)
	rows := zip[0].(*ndarray.Sequence).Items
	require.Len(t, rows, 2)
	assert.Equal(t, []string{"a", "b"}, rows[1].(*ndarray.Map).Keys.Str)
	assert.Equal(t, []float64{3, 4}, numbers(rows[1].(*ndarray.Map).Values.(*ndarray.Array)))

	words := &ndarray.Map{Keys: strs("c", "a"), Values: vec(8, 4)}
	got := mustML(t, "DictVectorizer", attrs{stringsAttr("string_vocabulary", "a", "c", "b")}, 1, words)[0]
	assert.Equal(t, []int{1, 3}, got.Shape)
	assert.Equal(t, []float64{4, 8, 0}, numbers(got))

	ids := &ndarray.Map{Keys: i64(3, 1), Values: vec(30, 10)}
	dense := mustML(t, "CastMap", nil, 1, ids)[0]
	assert.Equal(t, []float64{10, 30}, numbers(dense))
	sparse := mustML(t, "CastMap", attrs{stringAttr("map_form", "SPARSE"), intAttr("max_map", 5), stringAttr("cast_to", "TO_INT64")}, 1, ids)[0]
	assert.Equal(t, []float64{0, 10, 0, 30, 0}, numbers(sparse))
	text := &ndarray.Map{Keys: i64(0, 1), Values: strs("2", "x")}
	asText := mustML(t, "CastMap", attrs{stringAttr("cast_to", "TO_STRING")}, 1, text)[0]
	assert.Equal(t, []string{"2", "x"}, asText.Str)
	_, err = evalML(t, "CastMap", nil, 1, text)
	assert.ErrorContains(t, err, "no number")
	_, err = evalML(t, "CastMap", attrs{stringAttr("map_form", "SPARSE"), intAttr("max_map", 2)}, 1, ids)
	assert.Error(t, err, "key out of range")
}

// TestLabelEncoder1 upgrades the one list of version 1 in both directions.
func TestLabelEncoder1(t *testing.T) {
	for _, x := range []*ndarray.Array{strs("b", "c"), i64(1, 7)} {
		c := valueNode(mlDomain, "LabelEncoder", attrs{stringsAttr("classes_strings", "a", "b"), stringAttr("default_string", "?"), intAttr("default_int64", -5)}, 1, x)
		c.Node.Version = 1
		require.NoError(t, ops.Modernize(t.Context(), ssa.NewGraph("labels"), c.Node))
		require.NoError(t, ops.Infer(c.Node))
		require.NoError(t, ops.Eval(c))
		got := c.Out[0].(*ndarray.Array)
		if x.DType == ndarray.String {
			assert.Equal(t, []float64{1, -5}, numbers(got))
		} else {
			assert.Equal(t, []string{"b", "?"}, got.Str)
		}
	}
}

func TestOptimizers(t *testing.T) {
	step := func(op string, at attrs, count float64, in ...ndarray.Value) []float64 {
		c := valueNode("ai.onnx.preview.training", op, at, len(in)-1, append([]ndarray.Value{num(0.1), i64s(count)}, in...)...)
		require.NoError(t, ops.Infer(c.Node))
		require.NoError(t, ops.Eval(c))
		var out []float64
		for _, v := range c.Out {
			out = append(out, numbers(v.(*ndarray.Array))...)
		}
		return out
	}
	f := ssa.FloatAttr
	momentum := func(mode string) attrs {
		return attrs{f("alpha", 0.5), f("beta", 2), f("norm_coefficient", 0), stringAttr("mode", mode)}
	}
	x, g, v := vec(1), vec(2), vec(4)
	sameNumbers(t, []float64{1 - 0.1*4, 4}, step("Momentum", momentum("standard"), 0, x, g, v), 1e-6, "first step")
	sameNumbers(t, []float64{1 - 0.1*6, 6}, step("Momentum", momentum("standard"), 3, x, g, v), 1e-6, "later step")
	sameNumbers(t, []float64{1 - 0.1*(2+3), 6}, step("Momentum", momentum("nesterov"), 3, x, g, v), 1e-6, "nesterov")
	sameNumbers(t, []float64{1 - 0.1*2/math.Sqrt(8), 8}, step("Adagrad", attrs{f("epsilon", 0)}, 0, x, g, v), 1e-6, "adagrad")
	adam := attrs{f("alpha", 0.5), f("beta", 0.5), f("epsilon", 0)}
	rate := 0.1 * math.Sqrt(0.5) / 0.5
	sameNumbers(t, []float64{1 - rate*3/2, 3, 4}, step("Adam", adam, 1, x, g, v, vec(4)), 1e-6, "adam")
	c := valueNode("ai.onnx.preview.training", "Adam", adam, 1, num(1), i64s(1), x, g)
	assert.Error(t, ops.Infer(c.Node), "an operand list is missing")
}

// mlNames are the operators of this family.
var mlNames = []string{"ArrayFeatureExtractor", "Binarizer", "CastMap", "CategoryMapper", "DictVectorizer", "FeatureVectorizer", "Imputer",
	"LabelEncoder", "LinearClassifier", "LinearRegressor", "Normalizer", "OneHotEncoder", "Scaler", "SVMClassifier", "SVMRegressor",
	"TreeEnsemble", "TreeEnsembleClassifier", "TreeEnsembleRegressor", "ZipMap"}

func TestMLNeverPanics(t *testing.T) {
	neverPanics(t, mlDomain, mlNames, append(stump(0, votes("class", []int64{1, 2}, []int64{0, 9}, 1, 2)...),
		floatsAttr("coefficients", 1, 2, 3), floatsAttr("rho", 1), floatsAttr("support_vectors", 1), intsAttr("vectors_per_class", 1, -1),
		intsAttr("classlabels_ints", 1, 2), intsAttr("cats_int64s", 1), stringsAttr("keys_strings", "x"), intsAttr("values_int64s", 1),
		intsAttr("inputdimensions", -1), intAttr("n_targets", 1<<40), intAttr("targets", 3), floatsAttr("scale", 1, 2), floatsAttr("imputed_value_floats", 1)))
	neverPanics(t, mlDomain, mlNames, tree5(0, intsAttr("classlabels_int64s", 4), intAttr("post_transform", 2)))
	neverPanics(t, "ai.onnx.preview.training", []string{"Adam", "Adagrad", "Momentum"}, attrs{stringAttr("mode", "standard")})
}
