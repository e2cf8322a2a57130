"""Differences between berth and ONNX Runtime 1.31 that are known, and why berth stays
as it is. Most are corners that ONNX Runtime's kernels do not serve as the operator's
text, ONNX's recorded tests or ONNX's reference implementation say; some the standard
leaves open. A predicate sees the model, its inputs and what berth verify says."""

import re

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

ML, MICROSOFT = "ai.onnx.ml", "com.microsoft"


class Case:
    """A case that differs: its model and first node, inputs by name, recorded outputs,
    operands by position (None where absent or no tensor) and berth's message."""

    def __init__(self, folder, about, message):
        self.folder, self.message = folder, message
        self.domain, self.op, self.since, self.type = about["domain"], about["op"], about["since"], about["type"]
        self.model = onnx.load(folder / "model.onnx")
        graph = self.model.graph
        self.inputs = {v.name: tensor(folder / "test_data_set_0" / f"input_{i}.pb") for i, v in enumerate(graph.input)}
        self.outputs = [tensor(folder / "test_data_set_0" / f"output_{i}.pb") for i in range(len(graph.output))]
        fixed = {t.name: numpy_helper.to_array(t) for t in graph.initializer}
        node = graph.node[0]
        self.operands = [fixed.get(n, self.inputs.get(n)) for n in node.input]
        self.attrs = {a.name: text(helper.get_attribute_value(a)) for a in node.attribute}

    def operand(self, i):
        return self.operands[i] if i < len(self.operands) else None

    def floating(self, i):
        x = self.operand(i)
        return x is not None and x.dtype.kind not in "iub" and "int" not in x.dtype.name


def text(v):
    return v.decode() if isinstance(v, bytes) else [x.decode() for x in v] if isinstance(v, list) and v and isinstance(v[0], bytes) else v


def tensor(path):
    data = path.read_bytes()
    try:
        return numpy_helper.to_array(TensorProto.FromString(data))
    except Exception:
        return None


KNOWN = []  # (reason, predicate)


def known(reason):
    def keep(f):
        KNOWN.append((reason, f))
        return f
    return keep


def explain(case):
    """The reason of a difference, None if it has no explanation."""
    for reason, f in KNOWN:
        if f(case):
            return reason
    return None


def shape_differs(c):
    return re.search(r"is \w+\[.*want \w+\[", c.message) is not None


@known("Resize by scales whose lengths are no whole numbers: ONNX Runtime computes with the rounded length where the recorded tests "
       "and the reference implementation take scale * length")
def _(c):
    if c.op != "Resize" or c.attrs.get("coordinate_transformation_mode") not in ("align_corners", "tf_crop_and_resize", "half_pixel_symmetric"):
        return False
    x, scales = c.operand(0), c.operand(2)
    axes = c.attrs.get("axes", list(range(x.ndim)))
    return scales is not None and scales.size > 0 and any(abs(x.shape[a] * s - round(x.shape[a] * s)) > 1e-4 for a, s in zip(axes, scales.tolist()))


@known("Resize that cuts a region out: ONNX Runtime does not cut along axes that keep their length")
def _(c):
    if c.op != "Resize" or c.attrs.get("coordinate_transformation_mode") != "tf_crop_and_resize":
        return False
    x, y, roi = c.operand(0).shape, c.outputs[0].shape, c.operand(1)
    return any(x[a] == y[a] and (roi[a], roi[a + len(x)]) != (0, 1) for a in range(len(x)))


@known("Resize and Upsample of integers by weights: ONNX Runtime cuts the fraction off and wraps around; the reference implementation rounds and saturates")
def _(c):
    return c.op in ("Resize", "Upsample") and c.type in ("int8", "uint8", "int32") and c.attrs.get("mode") in ("linear", "cubic", "bilinear")


@known("Reduce* of no elements: ONNX Runtime gives the operand's shape back instead of the reduced one")
def _(c):
    return c.op.startswith("Reduce") and 0 in c.operand(0).shape and shape_differs(c)


@known("ReduceMean of no elements: not defined; NaN as in the reference implementation, 0 in ONNX Runtime")
def _(c):
    return c.op == "ReduceMean" and 0 in c.operand(0).shape and "is NaN, want 0 " in c.message


@known("ReduceMax, ReduceMin with NaN: ONNX Runtime's answer depends on where NaN stands; the reference implementation gives NaN")
def _(c):
    return c.op in ("ReduceMax", "ReduceMin") and c.floating(0) and np.isnan(c.operand(0).astype(float)).any()


@known("ReduceLogSumExp of integers: ONNX Runtime computes in integers; by the operator's function it is computed in doubles and cut off at the end")
def _(c):
    return c.op == "ReduceLogSumExp" and c.type.startswith(("int", "uint"))


@known("Cast of floats to 4-bit and 2-bit integers: ONNX Runtime rounds (and saturates); ONNX's recorded tests and reference implementation cut off")
def _(c):
    return c.op in ("Cast", "CastLike") and c.floating(0) and re.match(r"u?int[24]$", c.outputs[0].dtype.name) is not None


@known("Cast to float8e8m0: ONNX Runtime gives the smallest number for everything that is not NaN")
def _(c):
    return c.op in ("Cast", "CastLike") and c.outputs[0].dtype.name == "float8_e8m0fnu"


@known("Dropout-10 outside training: ONNX Runtime's mask is all false, newer versions say that it is all true")
def _(c):
    return c.op == "Dropout" and c.since == 10 and '"o1"' in c.message


@known("Slice, backwards along an axis of no elements: ONNX Runtime answers one element; there is none")
def _(c):
    return c.op == "Slice" and 0 in c.operand(0).shape and shape_differs(c)


@known("Slice backwards to INT_MAX: ONNX Runtime takes it as the beginning; the text has INT_MIN for that and clamps INT_MAX to the last element")
def _(c):
    ends, steps = c.operand(2), c.operand(4)
    return c.op == "Slice" and ends is not None and steps is not None and any(e == np.iinfo(ends.dtype).max and s < 0 for e, s in zip(ends, steps))


@known("Loop that runs no iteration: ONNX Runtime does not know the stacked results' shapes and answers [0]")
def _(c):
    return c.op == "Loop" and 0 in c.outputs[-1].shape and c.outputs[-1].ndim == 1 and shape_differs(c)


@known("Stacked and gathered strings: ONNX Runtime leaves some of them empty")
def _(c):
    return c.op in ("Loop", "Gather") and c.type == "string" and 'want ""' in c.message


@known("Col2Im of other than two spatial axes: ONNX Runtime differs from the reference implementation")
def _(c):
    return c.op == "Col2Im" and c.operand(1).size != 2


@known("AffineGrid with align_corners and one point along an axis: 0 here, in the middle, -1 in the reference implementation, 1 in ONNX Runtime; the text has no rule")
def _(c):
    return c.op == "AffineGrid" and c.attrs.get("align_corners") == 1 and 1 in c.operand(1)[2:]


@known("Pools with auto_pad=VALID and ceil_mode: the text has a formula of its own for this, ONNX Runtime takes the one for explicit pads")
def _(c):
    return c.op in ("AveragePool", "MaxPool", "LpPool") and c.attrs.get("auto_pad") == "VALID" and c.attrs.get("ceil_mode") == 1 and shape_differs(c)


@known("Old pools with auto_pad=SAME_* and strides longer than the kernel: ONNX Runtime pads by negative amounts (and refuses to in newer ones); 0 here, as for convolutions")
def _(c):
    pads = c.attrs.get("auto_pad", "").startswith("SAME")
    return c.op in ("AveragePool", "MaxPool", "LpPool") and pads and any(s > k for s, k in zip(c.attrs.get("strides", []), c.attrs["kernel_shape"]))


@known("QLinearAveragePool with ceil_mode and count_include_pad: ONNX Runtime divides by the whole kernel where a window reaches beyond the padding; its own AveragePool does not")
def _(c):
    return c.op == "QLinearAveragePool" and c.attrs.get("ceil_mode") == 1 and c.attrs.get("count_include_pad") == 1


@known("Gemm with no terms to sum: ONNX Runtime leaves beta out")
def _(c):
    return c.op == "Gemm" and c.operand(0).size == 0


@known("QuantizeLinear of float16 and bfloat16: the reference implementation divides in that type, ONNX Runtime in float32")
def _(c):
    return c.op == "QuantizeLinear" and c.operand(0).dtype.name in ("float16", "bfloat16")


@known("QLinearSoftmax of one element: 1 / scale + zero point is out of range; ONNX Runtime wraps around instead of saturating")
def _(c):
    return c.op == "QLinearSoftmax" and c.operand(0).shape[c.attrs["axis"]] == 1


@known("Attention's scores in float16 where a mask hides keys: minus infinity here, the smallest number in ONNX Runtime, which computes in float32")
def _(c):
    return c.op == "Attention" and c.domain == "" and '"o3"' in c.message and "is -Inf, want -65504" in c.message


@known("StringSplit of an empty string by a delimiter is one empty part, and the last part of a limited split by spaces keeps its trailing spaces, as in the reference implementation")
def _(c):
    return c.op == "StringSplit"


@known("LabelEncoder-4 with a key twice: by the text the last one counts; ONNX Runtime takes the first")
def _(c):
    keys = next((v for k, v in c.attrs.items() if k.startswith("keys_") and isinstance(v, list)), [])
    return c.op == "LabelEncoder" and c.since == 4 and len(set(keys)) < len(keys)


@known("LabelEncoder-2 with NaN among the keys: the text wants NaN found; ONNX Runtime finds it from version 4 on")
def _(c):
    return c.op == "LabelEncoder" and c.since == 2 and c.type == "float32"


@known("Transformations of one score, and SOFTMAX of the two that stand for one: ONNX Runtime leaves such scores as they are")
def _(c):
    one = c.outputs[-1].ndim < 2 or c.outputs[-1].shape[1] == 1
    two = c.outputs[-1].ndim == 2 and c.outputs[-1].shape[1] == 2 and str(c.attrs.get("post_transform")).startswith("SOFTMAX")
    if c.op in ("TreeEnsembleRegressor", "LinearRegressor", "TreeEnsemble"):
        return one and c.attrs.get("post_transform", "NONE") not in ("NONE", 0)
    return c.op in ("TreeEnsembleClassifier", "LinearClassifier", "SVMClassifier") and two


@known("TreeEnsembleClassifier of two classes with base values and leaves that speak of one class only: ONNX Runtime takes the other's score for its negative")
def _(c):
    return c.op == "TreeEnsembleClassifier" and c.outputs[1].shape[1] == 2 and len(c.attrs.get("base_values", [])) == 2 and '"o1"' in c.message


@known("TreeEnsembleClassifier: ONNX Runtime answers a class's number instead of its label, or one of several classes that have no score; the reference implementation sides with berth")
def _(c):
    return c.op == "TreeEnsembleClassifier" and '"o0"' in c.message


@known("Trees that give a target no score: ONNX Runtime answers 0 without base value and transformation")
def _(c):
    return c.op.startswith("TreeEnsemble") and "Classifier" not in c.op and c.outputs[0].ndim == 2 and c.outputs[0].shape[1] > 1


@known("MoE of float16, for which ONNX Runtime has no kernel of its own and casts around that of float32: some answers differ; the formula in float64 sides with berth")
def _(c):
    return c.domain == "com.microsoft" and c.op == "MoE" and c.type == "float16"


@known("TreeEnsemble-5: ONNX Runtime takes post_transform 1 for LOGISTIC and 2 for SOFTMAX; the text has them the other way round")
def _(c):
    return c.op == "TreeEnsemble" and c.attrs.get("post_transform", 0) in (1, 2)


@known("CastMap, sparse, to strings: ONNX Runtime writes \"0.f\" for missing keys, for which the text has no rule; empty strings here")
def _(c):
    return c.op == "CastMap" and '"0.f"' in c.message


@known("MultiHeadAttention, unidirectional, with keys of another length: ONNX Runtime never masks the last query, which is right for equal lengths only")
def _(c):
    return c.op == "MultiHeadAttention" and c.attrs.get("unidirectional") == 1 and c.operand(0).shape[1] != c.operand(1).shape[1]


@known("Recurrent layers with the activation Softplus: ONNX Runtime's overflows where exp(x) does")
def _(c):
    return c.op in ("RNN", "GRU", "LSTM") and "Softplus" in c.attrs.get("activations", []) and "Inf" in c.message
