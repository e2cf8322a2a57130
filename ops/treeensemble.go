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
	Attrs: []AttrSpec{intAttr("aggregate_function", 1).between(0, 3), intAttr("n_targets", 1), intAttr("post_transform", 0).between(0, 4),
		intsAttr("tree_roots").required(), tensorAttr("nodes_modes").required(),
		intsAttr("nodes_featureids").required(), tensorAttr("nodes_splits").required(),
		intsAttr("nodes_truenodeids").required(), intsAttr("nodes_trueleafs").required(),
		intsAttr("nodes_falsenodeids").required(), intsAttr("nodes_falseleafs").required(),
		intsAttr("nodes_missing_value_tracks_true"), tensorAttr("nodes_hitrates"),
		tensorAttr("membership_values"), intsAttr("leaf_targetids").required(),
		tensorAttr("leaf_weights").required()},
	Facts: Facts{Traits: general}, Infer: rule(func(n *ssa.Node) []Inferred {
		return One(ssa.TensorOf(InType(n, 0).DType, rowsOf(n, 0), ssa.D(Int(n, "n_targets"))))
	}),
	Prepare: prepareForest, Eval: evalPrepared(prepareForest),
}

// TreeEnsembleRegressor is the regressor of ai.onnx.ml before version 5:
// https://onnx.ai/onnx/operators/onnx_aionnxml_TreeEnsembleRegressor.html
var TreeEnsembleRegressor = Op{
	Domain: mlDomain, Name: "TreeEnsembleRegressor", Since: 3, Form: since(1), Doc: "Y = post(aggregate of the leaves reached + base)",
	MinIn: 1, MaxIn: 1, MinOut: 1, MaxOut: 1,
	Attrs: slices.Concat(classicTreeAttrs, []AttrSpec{strAttr("aggregate_function", "SUM", "AVERAGE", "MIN", "MAX"), intAttr("n_targets", 1),
		intsAttr("target_ids"), intsAttr("target_nodeids"), intsAttr("target_treeids"),
		floatsAttr("target_weights"), tensorAttr("target_weights_as_tensor").since(3)}),
	Facts: Facts{Traits: general}, Infer: rule(func(n *ssa.Node) []Inferred {
		return One(ssa.TensorOf(ndarray.Float32, rowsOf(n, 0), ssa.D(Int(n, "n_targets"))))
	}),
	Prepare: prepareForest, Eval: evalPrepared(prepareForest),
}

// TreeEnsembleClassifier is the classifier of ai.onnx.ml before version 5:
// https://onnx.ai/onnx/operators/onnx_aionnxml_TreeEnsembleClassifier.html
//
// Where the leaves of a classifier for two classes vote for one of them only,
// the sum is the score of the second class (also where the votes name the first
// one, as exporters of boosted trees write it): a probability, compared with 0.5,
// if no weight is negative, else compared with 0.
var TreeEnsembleClassifier = Op{
	Domain: mlDomain, Name: "TreeEnsembleClassifier", Since: 3, Form: since(1), Doc: "Y = class with the highest score Z",
	MinIn: 1, MaxIn: 1, MinOut: 1, MaxOut: 2,
	Attrs: slices.Concat(classicTreeAttrs, []AttrSpec{intsAttr("class_ids"), intsAttr("class_nodeids"),
		intsAttr("class_treeids"), floatsAttr("class_weights"), tensorAttr("class_weights_as_tensor").since(3),
		intsAttr("classlabels_int64s"), stringsAttr("classlabels_strings")}),
	Facts: Facts{Traits: general}, Infer: rule(func(n *ssa.Node) []Inferred {
		l := labelsOf(n)
		return inferClassifier(n, ssa.D(int64(max(l.count(), 1))))
	}),
	Prepare: prepareForest, Eval: evalPrepared(prepareForest),
}

// classicTreeAttrs is what both older tree operators have.
var classicTreeAttrs = []AttrSpec{floatsAttr("base_values"), tensorAttr("base_values_as_tensor").since(3),
	intsAttr("nodes_falsenodeids"), intsAttr("nodes_featureids"),
	floatsAttr("nodes_hitrates"), tensorAttr("nodes_hitrates_as_tensor").since(3),
	intsAttr("nodes_missing_value_tracks_true"), stringsAttr("nodes_modes"),
	intsAttr("nodes_nodeids"), intsAttr("nodes_treeids"), intsAttr("nodes_truenodeids"),
	floatsAttr("nodes_values"), tensorAttr("nodes_values_as_tensor").since(3),
	postTransformAttr}

// prepareForest prepares any of the three.
func prepareForest(n *ssa.Node) (Kernel, error) { return PrepareForest(n, nil) }

// PrepareForest prepares a tree operator's node whose trees are searched by what
// search makes of them; where search or what it makes is nil, they are walked one
// by one.
func PrepareForest(n *ssa.Node, search func(*Forest) LeafSearch) (Kernel, error) {
	prepare := prepareTreeEnsemble
	switch n.Op {
	case "TreeEnsembleRegressor":
		prepare = prepareTreeEnsembleRegressor
	case "TreeEnsembleClassifier":
		prepare = prepareTreeEnsembleClassifier
	}
	f, run, err := prepare(n)
	if err != nil {
		return nil, err
	}
	if search != nil {
		f.search = search(f)
	}
	if f.search == nil {
		f.search = f.walkAll
	}
	return KernelFunc(kernel(run)), nil
}

func prepareTreeEnsemble(n *ssa.Node) (*Forest, func(*Call), error) {
	f, err := newForest(n)
	if err != nil {
		return nil, nil, err
	}
	posts := []string{transformNone, transformSoftmax, transformLogistic, transformZero, transformProbit}
	how, transform := Int(n, "aggregate_function"), Int(n, "post_transform")
	return newTreeRegression(n, f, aggregate(how), posts[transform], nil)
}

func prepareTreeEnsembleRegressor(n *ssa.Node) (*Forest, func(*Call), error) {
	f, err := classicForest(n, "target")
	if err != nil {
		return nil, nil, err
	}
	base, err := floatsOrTensor(n, "base_values", "base_values_as_tensor")
	if err != nil {
		return nil, nil, err
	}
	return newTreeRegression(n, f, aggregateNames[Str(n, "aggregate_function")], Str(n, "post_transform"), base)
}

// treeRegression gives the aggregated and transformed votes for every sample.
type treeRegression struct {
	f       *Forest
	targets int
	how     aggregate
	base    []float64
	post    func([]float64)
}

func newTreeRegression(n *ssa.Node, f *Forest, how aggregate, transform string, base []float64) (*Forest, func(*Call), error) {
	targets := Int(n, "n_targets")
	if targets < 1 || targets > maxColumns {
		return nil, nil, badAttr("n_targets", targets, "above 0")
	}
	if len(base) != 0 && len(base) != 1 && len(base) != int(targets) {
		return nil, nil, badAttr("base_values", len(base), fmt.Sprintf("%d elements", targets))
	}
	post, err := postTransform(transform)
	if err != nil {
		return nil, nil, err
	}
	k := &treeRegression{f, int(targets), how, base, post}
	return f, k.run, f.check(int(targets))
}

// run scores all samples.
func (k *treeRegression) run(c *Call) {
	x := needSamples(c, 0)
	k.f.fits(x.f)
	dt := ndarray.Float32
	if c.Node.Op == "TreeEnsemble" {
		dt = c.Array(0).DType
	}
	y := newResult[float64](c, 0, dt, x.n, k.targets)
	k.f.tally(x, k.how, k.targets, func(i int, score []float64) {
		for t := range score {
			if len(k.base) > 0 {
				score[t] += k.base[t%len(k.base)]
			}
		}
		k.post(score)
		copy(y.V[i*k.targets:], score)
	})
	y.store()
}

// treeVoting is how the scores of a tree classifier become a class.
type treeVoting struct {
	f         *Forest
	labels    classLabels
	classes   int
	one       bool // all votes go to one class,
	only      int  // this one
	positive  bool // no weight is negative
	base      []float64
	transform string
	post      func([]float64)
}

func prepareTreeEnsembleClassifier(n *ssa.Node) (*Forest, func(*Call), error) {
	f, err := classicForest(n, "class")
	if err != nil {
		return nil, nil, err
	}
	v := &treeVoting{f: f, labels: labelsOf(n), one: true, positive: true, transform: Str(n, "post_transform")}
	v.classes = max(v.labels.count(), 1)
	if err := f.check(v.classes); err != nil {
		return nil, nil, err
	}
	if v.base, err = floatsOrTensor(n, "base_values", "base_values_as_tensor"); err != nil {
		return nil, nil, err
	}
	if len(v.base) > 1 && len(v.base) != v.classes {
		return nil, nil, badAttr("base_values", len(v.base), fmt.Sprintf("%d elements", v.classes))
	}
	if v.post, err = postTransform(v.transform); err != nil {
		return nil, nil, err
	}
	if ids := Ints(n, "class_ids"); len(ids) > 0 {
		v.only = int(ids[0])
	}
	for _, l := range f.leaves {
		for _, w := range l {
			v.one = v.one && w.target == v.only
			v.positive = v.positive && w.weight >= 0
		}
	}
	return f, v.run, nil
}

// run classifies all samples.
func (v *treeVoting) run(c *Call) {
	x := needSamples(c, 0)
	v.f.fits(x.f)
	out := result(c, 1, ndarray.Float32, x.n, v.classes)
	y := ndarray.Slice[float32](out)
	class := make([]int, x.n)
	v.f.tally(x, aggregateSum, v.classes, func(i int, score []float64) {
		class[i], score = v.decide(score)
		for k, s := range score {
			y[i*v.classes+k] = float32(s)
		}
	})
	v.labels.output(c, class)
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
