package ml

import (
	"math"

	"github.com/berth-onnx/berth/internal/ops/kit"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// SVMRegressor evaluates a support vector machine:
// https://onnx.ai/onnx/operators/onnx_aionnxml_SVMRegressor.html
//
//	Y = rho + sum over vectors s of coefficient(s) * kernel(X, s)
//
// Without support vectors it is linear. A one-class machine gives the sign.
func SVMRegressor() ops.Op {
	return ops.Op{
		Domain: mlDomain, Name: "SVMRegressor", Since: 1, Doc: "Y = rho + sum_s c_s * K(X, s)",
		MinIn: 1, MaxIn: 1, MinOut: 1, MaxOut: 1,
		Attrs: []*ops.AttrSpec{ops.FloatsAttr("coefficients"), ops.FloatsAttr("kernel_params"),
			ops.StrAttr("kernel_type", "LINEAR", "POLY", "RBF", "SIGMOID"), ops.IntAttr("n_supports", 0).AtLeast(0), ops.IntAttr("one_class", 0),
			postTransformAttr, ops.FloatsAttr("rho"), ops.FloatsAttr("support_vectors")},
		Facts: ops.Facts{Traits: ops.GeneralTraits}, Infer: kit.Rule(func(n *ssa.Node) []ops.Inferred {
			return ops.One(ssa.TensorOf(ndarray.Float32, rowsOf(n, 0), ssa.D(1)))
		}),
		Eval: kit.Kernel(evalSVMRegressor),
	}
}

// svmKernel measures how alike two rows are.
type svmKernel func(x, s []float64) float64

// svmKernelOf reads the kernel attributes.
func svmKernelOf(n *ssa.Node) svmKernel {
	params := widen(ops.Floats(n, "kernel_params"))
	if len(params) == 0 {
		params = make([]float64, 3)
	}
	if len(params) != 3 {
		kit.Check(kit.BadAttr("kernel_params", params, "gamma, coef0 and degree"))
	}
	gamma, coef0, degree := params[0], params[1], params[2]
	switch ops.Str(n, "kernel_type") {
	case "POLY":
		return func(x, s []float64) float64 { return math.Pow(gamma*dotRow(x, s)+coef0, degree) }
	case "SIGMOID":
		return func(x, s []float64) float64 { return math.Tanh(gamma*dotRow(x, s) + coef0) }
	case "RBF":
		return func(x, s []float64) float64 {
			sum := 0.0
			for i, v := range x {
				sum += (v - s[i]) * (v - s[i])
			}
			return math.Exp(-gamma * sum)
		}
	}
	return dotRow // LINEAR
}

func evalSVMRegressor(c *ops.Call) {
	x := needSamples(c, 0)
	n := c.Node
	kernel := svmKernelOf(n)
	post := postTransform(ops.Str(n, "post_transform"))
	coef, rho, sv := widen(ops.Floats(n, "coefficients")), ops.Floats(n, "rho"), widen(ops.Floats(n, "support_vectors"))
	count := int(ops.Int(n, "n_supports"))
	if count == 0 { // linear: the coefficients are the one vector
		count, sv, coef, kernel = 1, coef, []float64{1}, dotRow
	}
	if len(rho) != 1 || len(coef) != count || len(sv) != count*x.f {
		kit.Failf("%d support vectors of %d features do not fit %d coefficients, %d vector elements and %d rho",
			count, x.f, len(coef), len(sv), len(rho))
	}
	rows := kit.Make[[]float64](c, x.n)
	w := kit.Watching(c)
	for i := range rows {
		sum := float64(rho[0])
		for k := range count {
			w.Did(1 + x.f)
			sum += coef[k] * kernel(x.row(i), sv[k*x.f:(k+1)*x.f])
		}
		if ops.Int(n, "one_class") != 0 {
			sum = float64(2*kit.Btoi(sum > 0) - 1)
		}
		rows[i] = []float64{sum}
		post(rows[i])
	}
	outputScores(c, 0, rows, 1)
}

// SVMClassifier decides between classes by support vector machines:
// https://onnx.ai/onnx/operators/onnx_aionnxml_SVMClassifier.html
//
// There is one machine for every pair of classes; each gives a vote. prob_a and
// prob_b turn the machines' scores into probabilities of the classes ("Probability
// Estimates for Multi-class Classification by Pairwise Coupling", JMLR 5, 2004,
// second method). Without vectors_per_class there is one
// linear function per class.
func SVMClassifier() ops.Op {
	return ops.Op{
		Domain: mlDomain, Name: "SVMClassifier", Since: 1, Doc: "Y = class with most votes, Z = scores or probabilities",
		MinIn: 1, MaxIn: 1, MinOut: 1, MaxOut: 2,
		Attrs: []*ops.AttrSpec{ops.IntsAttr("classlabels_ints"), ops.StringsAttr("classlabels_strings"),
			ops.FloatsAttr("coefficients"), ops.FloatsAttr("kernel_params"), ops.StrAttr("kernel_type", "LINEAR", "POLY", "RBF", "SIGMOID"),
			postTransformAttr, ops.FloatsAttr("prob_a"), ops.FloatsAttr("prob_b"),
			ops.FloatsAttr("rho"), ops.FloatsAttr("support_vectors"), ops.IntsAttr("vectors_per_class").Between(0, 1<<31)},
		Facts: ops.Facts{Whole: true, Traits: ops.GeneralTraits}, Infer: kit.Rule(func(n *ssa.Node) []ops.Inferred {
			l := labelsOf(n)
			return inferClassifier(n, ssa.D(int64(svmColumns(l.count(), len(ops.Ints(n, "vectors_per_class")) > 0, n.Has("prob_a")))))
		}),
		Eval: kit.Kernel(evalSVMClassifier),
	}
}

// svmColumns is how many scores a sample gets.
func svmColumns(classes int, machines, proba bool) int {
	switch {
	case classes == 2:
		return 2
	case machines && !proba:
		return classes * (classes - 1) / 2
	}
	return max(classes, 1)
}

// svm is the attributes of a classifier.
type svm struct {
	kernel       svmKernel
	classes      int
	first, count []int // support vectors of each class
	vectors      int
	coef, sv     []float64
	rho, pa, pb  []float64
}

func svmOf(n *ssa.Node, features int) *svm {
	kernel := svmKernelOf(n)
	l := labelsOf(n)
	m := &svm{kernel: kernel, classes: max(l.count(), 1), coef: widen(ops.Floats(n, "coefficients")), sv: widen(ops.Floats(n, "support_vectors")),
		rho: widen(ops.Floats(n, "rho")), pa: widen(ops.Floats(n, "prob_a")), pb: widen(ops.Floats(n, "prob_b"))}
	for _, k := range ops.Ints(n, "vectors_per_class") {
		m.first, m.count = append(m.first, m.vectors), append(m.count, int(k))
		m.vectors += int(k)
	}
	pairs := m.classes * (m.classes - 1) / 2
	switch {
	case m.vectors == 0 && (len(m.coef) != m.classes*features || len(m.rho) < 1):
		kit.Failf("%d coefficients and %d rho do not fit %d classes and %d features", len(m.coef), len(m.rho), m.classes, features)
	case m.vectors > 0 && (len(m.count) != m.classes || len(m.sv) != m.vectors*features ||
		len(m.coef) != (m.classes-1)*m.vectors || len(m.rho) < pairs):
		kit.Failf("%d support vector elements, %d coefficients and %d rho do not fit %d classes, %d vectors and %d features",
			len(m.sv), len(m.coef), len(m.rho), m.classes, m.vectors, features)
	case len(m.pa) > 0 && (len(m.pa) != pairs || len(m.pb) != pairs):
		kit.Failf("%d and %d probability coefficients for %d pairs of classes", len(m.pa), len(m.pb), pairs)
	}
	return m
}

// linear is the scores of the classes of a machine without support vectors.
func (m *svm) linear(x []float64) []float64 {
	out := make([]float64, m.classes)
	for k := range out {
		rho := m.rho[0]
		if len(m.rho) == m.classes {
			rho = m.rho[k]
		}
		out[k] = rho + dotRow(x, m.coef[k*len(x):])
	}
	return out
}

// pairwise is the score of every pair of classes and the votes of each class.
func (m *svm) pairwise(x []float64) (scores, votes []float64) {
	like := make([]float64, m.vectors)
	for i := range like {
		like[i] = m.kernel(x, m.sv[i*len(x):(i+1)*len(x)])
	}
	part := func(row, class int) float64 {
		from, n := m.first[class], m.count[class]
		return dotRow(like[from:from+n], m.coef[row*m.vectors+from:])
	}
	votes = make([]float64, m.classes)
	for i := range m.classes {
		for j := i + 1; j < m.classes; j++ {
			s := m.rho[len(scores)] + part(j-1, i) + part(i, j)
			scores = append(scores, s)
			if s > 0 {
				votes[i]++
			} else {
				votes[j]++
			}
		}
	}
	return scores, votes
}

// probabilities couples pairwise scores into one probability per class.
func (m *svm) probabilities(scores []float64) []float64 {
	k := m.classes
	r := make([][]float64, k)
	for i := range r {
		r[i] = make([]float64, k)
	}
	at := 0
	for i := range k {
		for j := i + 1; j < k; j++ {
			p := 1 - kit.Sigmoid(scores[at]*m.pa[at]+m.pb[at])
			r[i][j] = min(max(p, 1e-7), 1-1e-7)
			r[j][i] = 1 - r[i][j]
			at++
		}
	}
	return couple(r)
}

// couple finds p with p_i r_ji = p_j r_ij as nearly as possible by the fixed
// point iteration of that paper, algorithm 2.
func couple(r [][]float64) []float64 {
	k := len(r)
	q := make([][]float64, k)
	p := make([]float64, k)
	for t := range k {
		q[t], p[t] = make([]float64, k), 1/float64(k)
		for j := range k {
			if j != t {
				q[t][t] += r[j][t] * r[j][t]
				q[t][j] = -r[j][t] * r[t][j]
			}
		}
	}
	qp := make([]float64, k)
	for range max(100, k) {
		pqp := 0.0
		for t := range k {
			qp[t] = dotRow(q[t], p)
			pqp += p[t] * qp[t]
		}
		worst := 0.0
		for t := range k {
			worst = max(worst, math.Abs(qp[t]-pqp))
		}
		if worst < 0.005/float64(k) {
			break
		}
		for t := range k {
			d := (pqp - qp[t]) / q[t][t]
			p[t] += d
			pqp = (pqp + d*(d*q[t][t]+2*qp[t])) / (1 + d) / (1 + d)
			for j := range k {
				qp[j] = (qp[j] + d*q[t][j]) / (1 + d)
				p[j] /= 1 + d
			}
		}
	}
	return p
}

func evalSVMClassifier(c *ops.Call) {
	x := needSamples(c, 0)
	m := svmOf(c.Node, x.f)
	transform := ops.Str(c.Node, "post_transform")
	post := postTransform(transform)
	class, rows := kit.Make[int](c, x.n), kit.Make[[]float64](c, x.n)
	w := kit.Watching(c)
	for i := range x.n {
		w.Did(1 + len(m.sv) + len(m.coef))
		var scores, votes []float64
		if m.vectors > 0 {
			scores, votes = m.pairwise(x.row(i))
		} else {
			scores = m.linear(x.row(i))
			votes = scores
		}
		class[i] = bestOf(votes)
		if m.vectors > 0 && len(m.pa) > 0 {
			scores = m.probabilities(scores)
		}
		if m.classes == 1 {
			class[i] = kit.Btoi(votes[0] > 0)
		}
		if len(scores) == 1 && m.classes == 2 {
			rows[i] = twoScores(scores[0], transform, false)
			continue
		}
		post(scores)
		rows[i] = scores
	}
	labels := labelsOf(c.Node)
	labels.output(c, class)
	outputScores(c, 1, rows, svmColumns(m.classes, m.vectors > 0, len(m.pa) > 0))
}
