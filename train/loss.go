package train

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ssa"
)

// Loss writes what is to become small: a value of one element, from an output y of the model and inputs of its own, the targets.
type Loss func(b *Builder, y *ssa.Value) *ssa.Value

// Target is the name of the input that the losses of this package add.
const Target = "target"

// OutputIsLoss takes the output, of one element, as it is.
func OutputIsLoss(_ *Builder, y *ssa.Value) *ssa.Value { return y }

// MeanSquaredError is the mean of (y - target)². The target has y's type and shape.
func MeanSquaredError(b *Builder, y *ssa.Value) *ssa.Value {
	d := b.sub(y, b.Input(Target, y.Type))
	return b.mean(b.mul(d, d))
}

// MeanAbsoluteError is the mean of |y - target|. The target has y's type and shape.
func MeanAbsoluteError(b *Builder, y *ssa.Value) *ssa.Value {
	return b.mean(b.Op("Abs", []*ssa.Value{b.sub(y, b.Input(Target, y.Type))}))
}

// Huber is the mean of d²/2 where |d| <= delta, else of delta·(|d| - delta/2), with d = y - target. A delta that is not above 0 and finite is
// refused by [New].
func Huber(delta float64) Loss {
	return func(b *Builder, y *ssa.Value) *ssa.Value {
		n := positive("Huber delta", delta)
		b.fail(cmp.Or(n.check(), n.fits(y.Type.DType)))
		d := b.sub(y, b.Input(Target, y.Type))
		abs := b.Op("Abs", []*ssa.Value{d})
		near := b.Op("LessOrEqual", []*ssa.Value{abs, b.Number(y, delta)})
		far := b.times(b.sub(abs, b.Number(y, delta/2)), delta)
		return b.mean(b.Op("Where", []*ssa.Value{near, b.times(b.mul(d, d), 0.5), far}))
	}
}

// CrossEntropy is the mean of -log softmax(y)[target] over classes, y [N, C, …] and the target int64 [N, …], from 0 to below C; steps refuse
// other targets with a [*LabelError]. The result of a Softmax is refused: see [Options].
func CrossEntropy(b *Builder, y *ssa.Value) *ssa.Value { return crossEntropy(b, y, nil) }

// CrossEntropyIgnoring is [CrossEntropy] over the targets other than a number, which says that there is none: of padding or unlabelled pixels.
// The mean is over those that count, 0 if none does. PyTorch's number is -100 by default.
func CrossEntropyIgnoring(label int64) Loss {
	return func(b *Builder, y *ssa.Value) *ssa.Value { return crossEntropy(b, y, &label) }
}

func crossEntropy(b *Builder, y *ssa.Value, ignored *int64) *ssa.Value {
	shape, ok := y.Type.Static()
	if !ok || len(shape) < 2 {
		b.fail(&shapeError{"output of a cross entropy", y.Type, "it must be [N, C, …] with known sizes"})
		return y
	}
	b.scores("cross entropy", y)
	target := b.Input(Target, ssa.StaticTensor(ndarray.Int64, slices.Delete(slices.Clone(shape), 1, 2)...))
	classes := slices.Repeat([]int{1}, len(shape))
	classes[1] = shape[1]
	numbers := ndarray.Must(ndarray.Int64, classes...)
	for i := range shape[1] {
		numbers.SetInt(i, int64(i))
		if ignored != nil && int64(i) == *ignored {
			numbers.SetInt(i, int64(shape[1])) // which no target is
		}
	}
	b.labels = append(b.labels, labels{input: target, classes: int64(shape[1]), ignored: ignored})
	axis := b.constant(ndarray.Of([]int64{1}, 1))
	hit := b.Op("Equal", []*ssa.Value{b.Op("Unsqueeze", []*ssa.Value{target, axis}), b.constant(numbers)})
	logs := b.Op("LogSoftmax", []*ssa.Value{y}, ssa.IntAttr("axis", 1))
	cast := func(v *ssa.Value, to ndarray.DType) *ssa.Value {
		return b.Op("Cast", []*ssa.Value{v}, ssa.IntAttr("to", int64(to)))
	}
	wide := ndarray.Float32
	if y.Type.DType == ndarray.Float64 {
		wide = ndarray.Float64
	}
	chosen := b.Op("Where", []*ssa.Value{hit, logs, b.Number(y, 0)})
	if y.Type.DType.IsHalf() { // whose range ends below the sum of an image's logarithms: of 21 classes at 256×256
		chosen = cast(b.Op("ReduceSum", []*ssa.Value{chosen, axis}, ssa.IntAttr("keepdims", 0)), wide)
	}
	picked := b.Op("ReduceSum", []*ssa.Value{chosen}, ssa.IntAttr("keepdims", 0))
	inType := func(loss *ssa.Value) *ssa.Value {
		if y.Type.DType.IsHalf() {
			return cast(loss, y.Type.DType)
		}
		return loss
	}
	if ignored == nil {
		return inType(b.times(picked, -float64(shape[1])/float64(ndarray.Product(shape))))
	}
	taken := b.Op("Not", []*ssa.Value{b.Op("Equal", []*ssa.Value{target, b.constant(ndarray.Scalar(*ignored))})})
	count := b.Op("ReduceSum", []*ssa.Value{cast(taken, ndarray.Int64)}, ssa.IntAttr("keepdims", 0)) // which a half could not count
	share := b.Op("Reciprocal", []*ssa.Value{cast(b.Op("Max", []*ssa.Value{count, b.Number(count, 1)}), wide)})
	return inType(b.mul(picked, b.Op("Neg", []*ssa.Value{share})))
}

// BinaryCrossEntropy is the mean of -t·log s - (1-t)·log(1-s) with s = sigmoid(y): softplus(y) - t·y. The target t has y's type
// and shape. The result of a Sigmoid or Softmax is refused: see [Options].
func BinaryCrossEntropy(b *Builder, y *ssa.Value) *ssa.Value {
	b.scores("binary cross entropy", y)
	t := b.Input(Target, y.Type)
	return b.mean(b.sub(b.Op("Softplus", []*ssa.Value{y}), b.mul(t, y)))
}

// scores refuses probabilities where a loss makes them of scores: made twice, they are of 10 classes never above 0.232, whose loss is
// 1.461, and the derivative vanishes where the first are near 0 or 1.
func (b *Builder) scores(loss string, y *ssa.Value) {
	n := y.Def
	if n == nil || n.Domain != "" || n.Op != "Softmax" && (n.Op != "Sigmoid" || loss != "binary cross entropy") {
		return
	}
	b.fail(fmt.Errorf("the %s takes scores and makes probabilities of them, and %q has been made a probability by %s: Output (--of) must name %q, which %s reads",
		loss, y.Name, n.Op, n.In[0].Name, n.Op))
}
