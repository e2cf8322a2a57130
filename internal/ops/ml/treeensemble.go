package ml

import (
	"fmt"
	"slices"

	"github.com/berth-onnx/berth/internal/ops/kit"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// nTargets is how many scores a regression gives.
var nTargets = ops.IntAttr("n_targets", 1).Between(1, kit.MaxColumns)

// TreeEnsemble evaluates decision trees: https://onnx.ai/onnx/operators/onnx_aionnxml_TreeEnsemble.html
var TreeEnsemble = ops.Op{
	Domain: mlDomain, Name: "TreeEnsemble", Since: 5, Doc: "Y = post(aggregate of the leaves reached)",
	MinIn: 1, MaxIn: 1, MinOut: 1, MaxOut: 1,
	Attrs: []*ops.AttrSpec{ops.IntAttr("aggregate_function", 1).Between(0, 3), nTargets, ops.IntAttr("post_transform", 0).Between(0, 4),
		ops.IntsAttr("tree_roots").Mandatory(), ops.TensorAttr("nodes_modes").Mandatory(),
		ops.IntsAttr("nodes_featureids").Mandatory(), ops.TensorAttr("nodes_splits").Mandatory(),
		ops.IntsAttr("nodes_truenodeids").Mandatory(), ops.IntsAttr("nodes_trueleafs").Mandatory(),
		ops.IntsAttr("nodes_falsenodeids").Mandatory(), ops.IntsAttr("nodes_falseleafs").Mandatory(),
		ops.IntsAttr("nodes_missing_value_tracks_true"), ops.TensorAttr("nodes_hitrates"),
		ops.TensorAttr("membership_values"), ops.IntsAttr("leaf_targetids").Mandatory(),
		ops.TensorAttr("leaf_weights").Mandatory()},
	Facts: ops.Facts{Traits: ops.GeneralTraits}, Infer: kit.Rule(func(n *ssa.Node) []ops.Inferred {
		return ops.One(ssa.TensorOf(ops.InType(n, 0).DType, rowsOf(n, 0), ssa.D(ops.Int(n, "n_targets"))))
	}),
	Prepare: prepareForest, Eval: ops.EvalPrepared(prepareForest),
}

// TreeEnsembleRegressor is the regressor of ai.onnx.ml before version 5:
// https://onnx.ai/onnx/operators/onnx_aionnxml_TreeEnsembleRegressor.html
var TreeEnsembleRegressor = ops.Op{
	Domain: mlDomain, Name: "TreeEnsembleRegressor", Since: 3, Form: kit.Since(1), Doc: "Y = post(aggregate of the leaves reached + base)",
	MinIn: 1, MaxIn: 1, MinOut: 1, MaxOut: 1,
	Attrs: slices.Concat(classicTreeAttrs, []*ops.AttrSpec{ops.StrAttr("aggregate_function", "SUM", "AVERAGE", "MIN", "MAX"), nTargets,
		ops.IntsAttr("target_ids"), ops.IntsAttr("target_nodeids"), ops.IntsAttr("target_treeids"),
		ops.FloatsAttr("target_weights"), ops.TensorAttr("target_weights_as_tensor").From(3)}),
	Facts: ops.Facts{Traits: ops.GeneralTraits}, Infer: kit.Rule(func(n *ssa.Node) []ops.Inferred {
		return ops.One(ssa.TensorOf(ndarray.Float32, rowsOf(n, 0), ssa.D(ops.Int(n, "n_targets"))))
	}),
	Prepare: prepareForest, Eval: ops.EvalPrepared(prepareForest),
}

// TreeEnsembleClassifier is the classifier of ai.onnx.ml before version 5:
// https://onnx.ai/onnx/operators/onnx_aionnxml_TreeEnsembleClassifier.html
//
// Where the leaves of a classifier for two classes vote for one of them only,
// the sum is the score of the second class (also where the votes name the first
// one, as exporters of boosted trees write it): a probability, compared with 0.5,
// if no weight is negative, else compared with 0.
var TreeEnsembleClassifier = ops.Op{
	Domain: mlDomain, Name: "TreeEnsembleClassifier", Since: 3, Form: kit.Since(1), Doc: "Y = class with the highest score Z",
	MinIn: 1, MaxIn: 1, MinOut: 1, MaxOut: 2,
	Attrs: slices.Concat(classicTreeAttrs, []*ops.AttrSpec{ops.IntsAttr("class_ids"), ops.IntsAttr("class_nodeids"),
		ops.IntsAttr("class_treeids"), ops.FloatsAttr("class_weights"), ops.TensorAttr("class_weights_as_tensor").From(3),
		ops.IntsAttr("classlabels_int64s"), ops.StringsAttr("classlabels_strings")}),
	Facts: ops.Facts{Whole: true, Traits: ops.GeneralTraits}, Infer: kit.Rule(func(n *ssa.Node) []ops.Inferred {
		l := labelsOf(n)
		return inferClassifier(n, ssa.D(int64(max(l.count(), 1))))
	}),
	Prepare: prepareForest, Eval: ops.EvalPrepared(prepareForest),
}

// classicTreeAttrs is what both older tree operators have.
var classicTreeAttrs = []*ops.AttrSpec{ops.FloatsAttr("base_values"), ops.TensorAttr("base_values_as_tensor").From(3),
	ops.IntsAttr("nodes_falsenodeids"), ops.IntsAttr("nodes_featureids"),
	ops.FloatsAttr("nodes_hitrates"), ops.TensorAttr("nodes_hitrates_as_tensor").From(3),
	ops.IntsAttr("nodes_missing_value_tracks_true"), ops.StringsAttr("nodes_modes"),
	ops.IntsAttr("nodes_nodeids"), ops.IntsAttr("nodes_treeids"), ops.IntsAttr("nodes_truenodeids"),
	ops.FloatsAttr("nodes_values"), ops.TensorAttr("nodes_values_as_tensor").From(3),
	postTransformAttr}

// prepareForest prepares any of the three.
func prepareForest(n *ssa.Node) (ops.Kernel, error) { return PrepareForest(n, nil) }

// PrepareForest prepares a tree operator's node whose trees are searched by what
// search makes of them; where search or what it makes is nil, they are walked one
// by one.
func PrepareForest(n *ssa.Node, search func(*Forest) LeafSearch) (ops.Kernel, error) {
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
	return ops.KernelFunc(kit.Kernel(run)), nil
}

func prepareTreeEnsemble(n *ssa.Node) (*Forest, func(*ops.Call), error) {
	f, err := newForest(n)
	if err != nil {
		return nil, nil, err
	}
	posts := []string{transformNone, transformSoftmax, transformLogistic, transformZero, transformProbit}
	how, transform := ops.Int(n, "aggregate_function"), ops.Int(n, "post_transform")
	return newTreeRegression(n, f, aggregate(how), posts[transform], nil)
}

func prepareTreeEnsembleRegressor(n *ssa.Node) (*Forest, func(*ops.Call), error) {
	f, err := classicForest(n, "target")
	if err != nil {
		return nil, nil, err
	}
	base, err := floatsOrTensor(n, "base_values", "base_values_as_tensor")
	if err != nil {
		return nil, nil, err
	}
	return newTreeRegression(n, f, aggregateNames[ops.Str(n, "aggregate_function")], ops.Str(n, "post_transform"), base)
}

// treeRegression gives the aggregated and transformed votes for every sample.
type treeRegression struct {
	f       *Forest
	targets int
	how     aggregate
	base    []float64
	post    func([]float64)
}

func newTreeRegression(n *ssa.Node, f *Forest, how aggregate, transform string, base []float64) (*Forest, func(*ops.Call), error) {
	targets := int(ops.Int(n, "n_targets"))
	if len(base) > 1 && len(base) != targets {
		return nil, nil, kit.BadAttr("base_values", len(base), fmt.Sprintf("%d elements", targets))
	}
	k := &treeRegression{f, targets, how, base, postTransform(transform)}
	return f, k.run, f.check(targets)
}

// run scores all samples.
func (k *treeRegression) run(c *ops.Call) {
	x := needSamples(c, 0)
	k.f.fits(x.f)
	dt := ndarray.Float32
	if c.Node.Op == "TreeEnsemble" {
		dt = c.Array(0).DType
	}
	y := kit.NewResult[float64](c, 0, dt, x.n, k.targets)
	k.f.tally(c, x, k.how, k.targets, func(i int, score []float64) {
		for t := range score {
			if len(k.base) > 0 {
				score[t] += k.base[t%len(k.base)]
			}
		}
		k.post(score)
		copy(y.V[i*k.targets:], score)
	})
	y.Store()
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

func prepareTreeEnsembleClassifier(n *ssa.Node) (*Forest, func(*ops.Call), error) {
	f, err := classicForest(n, "class")
	if err != nil {
		return nil, nil, err
	}
	transform := ops.Str(n, "post_transform")
	v := &treeVoting{f: f, labels: labelsOf(n), one: true, positive: true, transform: transform, post: postTransform(transform)}
	v.classes = max(v.labels.count(), 1)
	if err := f.check(v.classes); err != nil {
		return nil, nil, err
	}
	if v.base, err = floatsOrTensor(n, "base_values", "base_values_as_tensor"); err != nil {
		return nil, nil, err
	}
	if len(v.base) > 1 && len(v.base) != v.classes {
		return nil, nil, kit.BadAttr("base_values", len(v.base), fmt.Sprintf("%d elements", v.classes))
	}
	if ids := ops.Ints(n, "class_ids"); len(ids) > 0 {
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
func (v *treeVoting) run(c *ops.Call) {
	x := needSamples(c, 0)
	v.f.fits(x.f)
	out := kit.Result(c, 1, ndarray.Float32, x.n, v.classes)
	y := ndarray.Slice[float32](out)
	class := kit.Make[int](c, x.n)
	v.f.tally(c, x, aggregateSum, v.classes, func(i int, score []float64) {
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
		return kit.Btoi(s > 0.5)
	}
	return kit.Btoi(s > 0)
}
