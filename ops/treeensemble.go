package ops

import (
	"fmt"
	"slices"

	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ssa"
)

// TreeEnsemble evaluates decision trees: https://onnx.ai/onnx/operators/onnx_aionnxml_TreeEnsemble.html
var TreeEnsemble = Op{
	Domain: mlDomain, Name: "TreeEnsemble", Since: 5, Doc: "Y = post(aggregate of the leaves reached)",
	MinIn: 1, MaxIn: 1, MinOut: 1, MaxOut: 1,
	Attrs: []AttrSpec{{Name: "aggregate_function", Kind: ssa.AttrInt}, {Name: "n_targets", Kind: ssa.AttrInt}, {Name: "post_transform", Kind: ssa.AttrInt},
		{Name: "tree_roots", Kind: ssa.AttrInts, Required: true}, {Name: "nodes_modes", Kind: ssa.AttrTensor, Required: true},
		{Name: "nodes_featureids", Kind: ssa.AttrInts, Required: true}, {Name: "nodes_splits", Kind: ssa.AttrTensor, Required: true},
		{Name: "nodes_truenodeids", Kind: ssa.AttrInts, Required: true}, {Name: "nodes_trueleafs", Kind: ssa.AttrInts, Required: true},
		{Name: "nodes_falsenodeids", Kind: ssa.AttrInts, Required: true}, {Name: "nodes_falseleafs", Kind: ssa.AttrInts, Required: true},
		{Name: "nodes_missing_value_tracks_true", Kind: ssa.AttrInts}, {Name: "nodes_hitrates", Kind: ssa.AttrTensor},
		{Name: "membership_values", Kind: ssa.AttrTensor}, {Name: "leaf_targetids", Kind: ssa.AttrInts, Required: true},
		{Name: "leaf_weights", Kind: ssa.AttrTensor, Required: true}},
	Infer: func(n *ssa.Node) ([]Fact, error) {
		return One(ssa.TensorOf(InType(n, 0).DType, rowsOf(n, 0), ssa.D(n.Int("n_targets", 1)))), nil
	},
	Eval: evalTreeEnsemble,
}

// TreeEnsembleRegressor is the regressor of ai.onnx.ml before version 5:
// https://onnx.ai/onnx/operators/onnx_aionnxml_TreeEnsembleRegressor.html
var TreeEnsembleRegressor = Op{
	Domain: mlDomain, Name: "TreeEnsembleRegressor", Since: 3, Form: classicTreeForm, Doc: "Y = post(aggregate of the leaves reached + base)",
	MinIn: 1, MaxIn: 1, MinOut: 1, MaxOut: 1,
	Attrs: slices.Concat(classicTreeAttrs, []AttrSpec{{Name: "aggregate_function", Kind: ssa.AttrString}, {Name: "n_targets", Kind: ssa.AttrInt},
		{Name: "target_ids", Kind: ssa.AttrInts}, {Name: "target_nodeids", Kind: ssa.AttrInts}, {Name: "target_treeids", Kind: ssa.AttrInts},
		{Name: "target_weights", Kind: ssa.AttrFloats}, {Name: "target_weights_as_tensor", Kind: ssa.AttrTensor}}),
	Infer: func(n *ssa.Node) ([]Fact, error) {
		return One(ssa.TensorOf(ndarray.Float32, rowsOf(n, 0), ssa.D(n.Int("n_targets", 1)))), nil
	},
	Eval: evalTreeEnsembleRegressor,
}

// TreeEnsembleClassifier is the classifier of ai.onnx.ml before version 5:
// https://onnx.ai/onnx/operators/onnx_aionnxml_TreeEnsembleClassifier.html
//
// Where the leaves of a classifier for two classes vote for one of them only,
// the sum is the score of the second class (also where the votes name the first
// one, as exporters of boosted trees write it): a probability, compared with 0.5,
// if no weight is negative, else compared with 0.
var TreeEnsembleClassifier = Op{
	Domain: mlDomain, Name: "TreeEnsembleClassifier", Since: 3, Form: classicTreeForm, Doc: "Y = class with the highest score Z",
	MinIn: 1, MaxIn: 1, MinOut: 1, MaxOut: 2,
	Attrs: slices.Concat(classicTreeAttrs, []AttrSpec{{Name: "class_ids", Kind: ssa.AttrInts}, {Name: "class_nodeids", Kind: ssa.AttrInts},
		{Name: "class_treeids", Kind: ssa.AttrInts}, {Name: "class_weights", Kind: ssa.AttrFloats}, {Name: "class_weights_as_tensor", Kind: ssa.AttrTensor},
		{Name: "classlabels_int64s", Kind: ssa.AttrInts}, {Name: "classlabels_strings", Kind: ssa.AttrStrings}}),
	Infer: func(n *ssa.Node) ([]Fact, error) {
		l := labelsOf(n)
		return inferClassifier(n, ssa.D(int64(max(l.count(), 1))))
	},
	Eval: evalTreeEnsembleClassifier,
}

// classicTreeAttrs is what both older tree operators have.
var classicTreeAttrs = []AttrSpec{{Name: "base_values", Kind: ssa.AttrFloats}, {Name: "base_values_as_tensor", Kind: ssa.AttrTensor},
	{Name: "nodes_falsenodeids", Kind: ssa.AttrInts}, {Name: "nodes_featureids", Kind: ssa.AttrInts},
	{Name: "nodes_hitrates", Kind: ssa.AttrFloats}, {Name: "nodes_hitrates_as_tensor", Kind: ssa.AttrTensor},
	{Name: "nodes_missing_value_tracks_true", Kind: ssa.AttrInts}, {Name: "nodes_modes", Kind: ssa.AttrStrings},
	{Name: "nodes_nodeids", Kind: ssa.AttrInts}, {Name: "nodes_treeids", Kind: ssa.AttrInts}, {Name: "nodes_truenodeids", Kind: ssa.AttrInts},
	{Name: "nodes_values", Kind: ssa.AttrFloats}, {Name: "nodes_values_as_tensor", Kind: ssa.AttrTensor},
	{Name: "post_transform", Kind: ssa.AttrString}}

func classicTreeForm(n *ssa.Node) int {
	for _, a := range n.Attrs {
		if a.Kind == ssa.AttrTensor {
			return 3
		}
	}
	return 1
}

func evalTreeEnsemble(c *Call) error {
	x, err := needSamples(c, 0)
	if err != nil {
		return err
	}
	f, err := newForest(c.Node)
	if err != nil {
		return err
	}
	hows := []string{"AVERAGE", "SUM", "MIN", "MAX"}
	posts := []string{transformNone, transformSoftmax, transformLogistic, transformZero, transformProbit}
	how, transform := c.Node.Int("aggregate_function", 1), c.Node.Int("post_transform", 0)
	if how < 0 || how >= int64(len(hows)) {
		return badAttr("aggregate_function", how, "0 to 3")
	}
	if transform < 0 || transform >= int64(len(posts)) {
		return badAttr("post_transform", transform, "0 to 4")
	}
	rows, targets, err := f.regress(c.Node, x, hows[how], posts[transform], nil)
	if err != nil {
		return err
	}
	out, err := c.Output(0, c.Array(0).DType, x.n, targets)
	if err != nil {
		return err
	}
	set := floatWriter(out)
	for i, row := range rows {
		for k, v := range row {
			set(i*targets+k, v)
		}
	}
	return nil
}

// regress returns the aggregated and transformed votes for every sample.
func (f *forest) regress(n *ssa.Node, x *samples, how, transform string, base []float64) ([][]float64, int, error) {
	targets := n.Int("n_targets", 1)
	if targets < 1 || targets > maxColumns {
		return nil, 0, badAttr("n_targets", targets, "above 0")
	}
	if err := f.check(x.f, int(targets)); err != nil {
		return nil, 0, err
	}
	if !slices.Contains([]string{"SUM", "AVERAGE", "MIN", "MAX"}, how) {
		return nil, 0, badAttr("aggregate_function", how, "SUM, AVERAGE, MIN or MAX")
	}
	if len(base) != 0 && len(base) != 1 && len(base) != int(targets) {
		return nil, 0, badAttr("base_values", len(base), fmt.Sprintf("%d elements", targets))
	}
	post, err := postTransform(transform)
	if err != nil {
		return nil, 0, err
	}
	rows, voted := make([][]float64, x.n), make([]bool, targets)
	for i := range rows {
		rows[i] = make([]float64, targets)
		clear(voted)
		f.tally(x.row(i), how, rows[i], voted)
		for k := range rows[i] {
			if len(base) > 0 {
				rows[i][k] += base[k%len(base)]
			}
		}
		post(rows[i])
	}
	return rows, int(targets), nil
}

func evalTreeEnsembleRegressor(c *Call) error {
	x, err := needSamples(c, 0)
	if err != nil {
		return err
	}
	f, err := classicForest(c.Node, "target")
	if err != nil {
		return err
	}
	base, err := floatsOrTensor(c.Node, "base_values", "base_values_as_tensor")
	if err != nil {
		return err
	}
	rows, targets, err := f.regress(c.Node, x, c.Node.Str("aggregate_function", "SUM"), c.Node.Str("post_transform", transformNone), base)
	if err != nil {
		return err
	}
	return outputScores(c, 0, rows, targets)
}

// treeVoting is how the scores of a tree classifier become a class.
type treeVoting struct {
	classes   int
	one       bool // all votes go to one class,
	only      int  // this one
	positive  bool // no weight is negative
	base      []float64
	transform string
	post      func([]float64)
}

func evalTreeEnsembleClassifier(c *Call) error {
	x, err := needSamples(c, 0)
	if err != nil {
		return err
	}
	n := c.Node
	f, err := classicForest(n, "class")
	if err != nil {
		return err
	}
	labels := labelsOf(n)
	v := treeVoting{classes: max(labels.count(), 1), one: true, positive: true, transform: n.Str("post_transform", transformNone)}
	if err := f.check(x.f, v.classes); err != nil {
		return err
	}
	if v.base, err = floatsOrTensor(n, "base_values", "base_values_as_tensor"); err != nil {
		return err
	}
	if len(v.base) > 1 && len(v.base) != v.classes {
		return badAttr("base_values", len(v.base), fmt.Sprintf("%d elements", v.classes))
	}
	if v.post, err = postTransform(v.transform); err != nil {
		return err
	}
	ids := n.Ints("class_ids")
	if len(ids) > 0 {
		v.only = int(ids[0])
	}
	for _, l := range f.leaves {
		for _, w := range l {
			v.one = v.one && w.target == v.only
			v.positive = v.positive && w.weight >= 0
		}
	}
	class, rows := make([]int, x.n), make([][]float64, x.n)
	for i := range rows {
		score, voted := make([]float64, v.classes), make([]bool, v.classes)
		f.tally(x.row(i), "SUM", score, voted)
		class[i], rows[i] = v.decide(score)
	}
	if err := labels.output(c, class); err != nil {
		return err
	}
	return outputScores(c, 1, rows, v.classes)
}

// decide picks the class and returns the transformed scores.
func (v *treeVoting) decide(score []float64) (int, []float64) {
	two := v.classes == 2 && v.one
	if two && v.only == 0 {
		s := score[0]
		if len(v.base) > 0 {
			s += v.base[len(v.base)-1]
		}
		return v.second(s), twoScores(s, v.transform, v.positive)
	}
	for k := range score {
		if len(v.base) > 0 {
			score[k] += v.base[k%len(v.base)]
		}
	}
	class := bestOf(score)
	if two {
		class = v.second(score[1])
	}
	v.post(score)
	return class, score
}

// second decides from the score of the second class.
func (v *treeVoting) second(s float64) int {
	if v.positive {
		return btoi(s > 0.5)
	}
	return btoi(s > 0)
}
