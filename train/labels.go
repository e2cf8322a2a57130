package train

import (
	"fmt"

	"github.com/berth-onnx/berth"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// Labels of classes, checked before a step reads them. A label that is no class has no probability: PyTorch and the kernels of
// SoftmaxCrossEntropyLoss and NegativeLogLikelihoodLoss refuse it, and here it would be a loss of 0 that nobody notices. The check knows the
// input by its name, which kernels do not, and comes before the step changes anything.

// labels are an input whose elements are classes.
type labels struct {
	input   *ssa.Value
	at      int // among the inputs of a step
	classes int64
	ignored *int64 // another number that it may hold; nil: none
}

// LabelError reports an element of an input that is none of the classes.
type LabelError struct {
	Input   string
	Index   []int // of the element
	Label   int64
	Classes int64 // they are from 0 to below this
	Ignored *int64
}

// Error names the element, its value and the classes.
func (e *LabelError) Error() string {
	but := ""
	if e.Ignored != nil {
		but = fmt.Sprintf(", nor %d, which is ignored", *e.Ignored)
	}
	return fmt.Sprintf("label %d at %v of %q is none of the %d classes, 0 to %d%s: correct the data, or ignore the label (CrossEntropyIgnoring, --ignore-label)",
		e.Label, e.Index, e.Input, e.Classes, e.Classes-1, but)
}

// Is makes the error a [berth.ErrInput].
func (e *LabelError) Is(target error) bool { return target == berth.ErrInput }

// labelsOf are the inputs that losses take as labels, those of the model's own operators included.
func labelsOf(b *Builder) []labels {
	all := b.labels
	for _, n := range b.Graph.Nodes {
		if n.Domain != "" || n.Op != "SoftmaxCrossEntropyLoss" && n.Op != "NegativeLogLikelihoodLoss" || len(n.In) < 2 || n.In[0] == nil {
			continue
		}
		scores, input := n.In[0].Type, sameElements(n.In[1])
		if input == nil || input.Def != nil || input.Const != nil || !scores.Ranked || len(scores.Shape) < 2 {
			continue
		}
		if classes, ok := scores.Shape[1].Const(); ok {
			l := labels{input: input, classes: classes}
			if ignored := ops.Int(n, "ignore_index"); n.Has("ignore_index") {
				l.ignored = &ignored
			}
			all = append(all, l)
		}
	}
	return all
}

// sameElements is the value whose elements another has, in another shape or type of integers.
func sameElements(v *ssa.Value) *ssa.Value {
	for v != nil && v.Def != nil && v.Def.Domain == "" {
		switch v.Def.Op {
		case "Identity", "Cast", "Reshape", "Squeeze", "Unsqueeze", "Flatten":
			v = v.Def.In[0]
		default:
			return v
		}
	}
	return v
}

// check reports the first element that is no label. What else is wrong with the array, a run reports.
func (l *labels) check(v ndarray.Value) error {
	a, ok := v.(*ndarray.Array)
	if !ok || a == nil || a.DType != l.input.Type.DType || a.Check() != nil {
		return nil
	}
	switch a.DType {
	case ndarray.Int64:
		return refusedOf(l, a, ndarray.Slice[int64](a))
	case ndarray.Int32:
		return refusedOf(l, a, ndarray.Slice[int32](a))
	}
	return nil
}

func refusedOf[T int32 | int64](l *labels, a *ndarray.Array, of []T) error {
	for i, v := range of {
		if uint64(v) < uint64(l.classes) || l.ignored != nil && int64(v) == *l.ignored {
			continue
		}
		index := make([]int, len(a.Shape))
		for d := len(index) - 1; d >= 0; d-- {
			index[d], i = i%a.Shape[d], i/a.Shape[d]
		}
		return &LabelError{Input: l.input.Name, Index: index, Label: int64(v), Classes: l.classes, Ignored: l.ignored}
	}
	return nil
}

// CheckLabels reports the first label that a step would refuse, a [*LabelError]; the array is for an input of the step and holds any number of
// examples, all data for instance. An input that takes no labels of classes has nothing to report.
func (t *Trainer) CheckLabels(input string, a *ndarray.Array) error {
	if t == nil {
		return nil
	}
	for i := range t.labels {
		if l := &t.labels[i]; l.input.Name == input {
			if err := l.check(a); err != nil {
				return err
			}
		}
	}
	return nil
}

// checkLabels reports the first label of a step's inputs that is none.
func (t *Trainer) checkLabels(inputs []ndarray.Value) error {
	for i := range t.labels {
		if err := t.labels[i].check(inputs[t.labels[i].at]); err != nil {
			return err
		}
	}
	return nil
}
