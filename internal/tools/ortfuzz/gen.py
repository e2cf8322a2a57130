#!/usr/bin/env python3
"""Random single-node models with ONNX Runtime's answers, to compare berth with.

    python gen.py [--count 2500] [--seed 1] [--out FOLDER]
    berth verify FOLDER --rtol 1e-3 --atol 1e-5

Needs numpy, onnx and onnxruntime. FOLDER is by default berth/ortfuzz in the user's
cache folder. A case is an ONNX test folder: model.onnx and test_data_set_0. The
same seed gives the same cases. Shapes are small and odd on purpose: broadcasts of
every form, dimensions of 0 and 1, rank 0, negative axes, NaN and infinities.
Models that ONNX Runtime refuses are left out and counted by operator.

Differences that are known, where berth keeps to ONNX's recorded tests, its
reference implementation or the standard's shapes:

    Clip without bounds     ONNX Runtime turns infinities into the largest numbers;
                            ONNX's reference implementation leaves them
    Resize, align_corners   with a scale that gives no whole length ONNX Runtime works
                            with the rounded length, the recorded tests with
                            scale * length
    Reduce* of no elements  some of ONNX Runtime's kernels give the operand's shape
                            back instead of the reduced one
"""

import argparse
import collections
import os
import pathlib
import shutil

import numpy as np
import onnx
import onnxruntime as ort
from onnx import helper, numpy_helper

F, D, I, L, B = np.float32, np.float64, np.int32, np.int64, np.bool_
OPSET = 21
UNARY = ("Abs Neg Relu Sigmoid Tanh Exp Log Sqrt Floor Ceil Round Sign Erf Softplus Softsign Reciprocal Sin Cos Tan "
         "Asin Acos Atan Sinh Cosh Asinh Acosh Atanh HardSwish Mish Identity").split()
ARITHMETIC = "Add Sub Mul Div".split()
COMPARE = "Equal Less Greater LessOrEqual GreaterOrEqual".split()
REDUCE = ("ReduceSum ReduceMean ReduceMax ReduceMin ReduceProd ReduceL1 ReduceL2 ReduceSumSquare ReduceLogSum "
          "ReduceLogSumExp").split()


class Draw:
    """Random shapes and arrays."""

    def __init__(self, seed):
        self.r = np.random.default_rng(seed)

    def pick(self, *options):
        return options[self.r.integers(len(options))]

    def shape(self, lo=0, hi=4, empty=True):
        dims = (0, 1, 1, 2, 3, 4, 5) if empty and self.r.random() < 0.15 else (1, 2, 3, 4, 5)
        return tuple(int(self.pick(*dims)) for _ in range(self.r.integers(lo, hi + 1)))

    def array(self, shape, dtype=F, special=True):
        if dtype == B:
            return self.r.random(shape) < 0.5
        if np.issubdtype(dtype, np.integer):
            return np.asarray(self.r.integers(0 if np.dtype(dtype).kind == "u" else -9, 10, shape), dtype)
        a = np.asarray(self.r.standard_normal(shape) * 3, dtype)
        if special and a.size and self.r.random() < 0.15:
            a.reshape(-1)[self.r.integers(a.size)] = self.pick(np.nan, np.inf, -np.inf, -0.0)
        return a

    def partner(self, shape):
        """A shape that broadcasts with the given one."""
        out = [d if self.r.random() < 0.7 else 1 for d in shape]
        return tuple(out[self.r.integers(len(out) + 1):])

    def axis(self, rank):
        return int(self.r.integers(-rank, rank))

    def ints(self, *v):
        return np.array(v, L)


def unary(d):
    return d.pick(*UNARY), [d.array(d.shape())], {}, 1


def activation(d):
    op = d.pick("LeakyRelu", "Elu", "Selu", "Celu", "ThresholdedRelu", "HardSigmoid", "Shrink", "Gelu")
    attrs = {} if op in ("Selu", "Gelu") else {"lambd": 0.7} if op == "Shrink" else {"alpha": float(d.pick(0.1, 0.5, 1.5))}
    return op, [d.array(d.shape())], attrs, 1


def arithmetic(d):
    s, t = d.shape(), d.pick(F, D, I, L)
    b = d.array(d.partner(s), t)
    op = d.pick(*ARITHMETIC)
    if op == "Div" and t in (I, L):
        b = np.where(b == 0, t(1), b).astype(t)
    return op, d.pick([d.array(s, t), b], [b, d.array(s, t)]) if op != "Div" else [d.array(s, t), b], {}, 1


def compare(d):
    s, t = d.shape(), d.pick(F, I, L)
    return d.pick(*COMPARE), [d.array(s, t), d.array(d.partner(s), t)], {}, 1


def logic(d):
    s = d.shape()
    return d.pick("And", "Or", "Xor"), [d.array(s, B), d.array(d.partner(s), B)], {}, 1


def variadic(d):
    s = d.shape()
    return d.pick("Min", "Max", "Sum", "Mean"), [d.array(s)] + [d.array(d.partner(s)) for _ in range(d.r.integers(0, 3))], {}, 1


def power(d):
    s = d.shape()
    return "Pow", [np.abs(d.array(s)), d.array(d.partner(s))], {}, 1


def remainder(d):
    s, t = d.shape(), d.pick(F, I, L)
    b = d.array(d.partner(s), t, special=False)
    return "Mod", [d.array(s, t, special=False), np.where(b == 0, t(2), b).astype(t)], {"fmod": 1} if t == F else {}, 1


def where(d):
    s = d.shape()
    return "Where", [d.array(d.partner(s), B), d.array(s), d.array(d.partner(s))], {}, 1


def reduction(d):
    s = d.shape(0, 4)
    axes = sorted({d.axis(len(s)) % len(s) for _ in range(d.r.integers(1, 3))}) if s else []
    axes = [a - len(s) if d.r.random() < 0.5 else a for a in axes]
    ins = [d.array(s, F, special=False)] + ([d.ints(*axes)] if axes else [])
    return d.pick(*REDUCE), ins, {"keepdims": int(d.pick(0, 1))}, 1


def arg(d):
    s = d.shape(1, 4, empty=False)
    return (d.pick("ArgMax", "ArgMin"), [d.array(s, F, special=False)],
            {"axis": d.axis(len(s)), "keepdims": int(d.pick(0, 1)), "select_last_index": int(d.pick(0, 1))}, 1)


def soft(d):
    s = d.shape(1, 4)
    return d.pick("Softmax", "LogSoftmax", "Hardmax"), [d.array(s, F, special=False)], {"axis": d.axis(len(s))}, 1


def scan_sum(d):
    s = d.shape(1, 3)
    return "CumSum", [d.array(s), np.array(d.axis(len(s)), L)], {"exclusive": int(d.pick(0, 1)), "reverse": int(d.pick(0, 1))}, 1


def top(d):
    s = d.shape(1, 3, empty=False)
    a = d.axis(len(s))
    return "TopK", [d.array(s, F, special=False), d.ints(d.r.integers(1, s[a] + 1))], {"axis": a, "largest": int(d.pick(0, 1))}, 2


def matmul(d):
    m, k, n = (int(d.pick(1, 2, 3, 7, 0)) if d.r.random() < 0.1 else int(d.pick(1, 2, 5, 17)) for _ in range(3))
    batch = d.shape(0, 2)
    a, b = batch + (m, k), d.partner(batch) + (k, n)
    if d.r.random() < 0.2:
        a = (k,)
    if d.r.random() < 0.2:
        b = (k,)
    return "MatMul", [d.array(a), d.array(b)], {}, 1


def gemm(d):
    m, k, n, ta, tb = *(int(d.pick(1, 2, 5, 9)) for _ in range(3)), int(d.pick(0, 1)), int(d.pick(0, 1))
    ins = [d.array((k, m) if ta else (m, k)), d.array((n, k) if tb else (k, n))]
    if d.r.random() < 0.7:
        ins.append(d.array(d.pick((m, n), (n,), (1, n), (m, 1), (1,), ())))
    return "Gemm", ins, {"transA": ta, "transB": tb, "alpha": 0.5, "beta": 1.5}, 1


def conv(d):
    n, g, r = int(d.pick(1, 2)), int(d.pick(1, 1, 2)), int(d.pick(1, 2, 2, 3))
    c, o = g * int(d.pick(1, 2, 3)), g * int(d.pick(1, 2))
    k = [int(d.pick(1, 2, 3)) for _ in range(r)]
    attrs = {"group": g, "strides": [int(d.pick(1, 2)) for _ in k], "dilations": [int(d.pick(1, 2)) for _ in k]}
    attrs["pads"] = [int(d.pick(0, 1)) for _ in range(2 * r)]
    x = d.array((n, c) + tuple(int(d.pick(5, 6, 8)) for _ in k), special=False)
    turned = d.r.random() < 0.4
    w = d.array((c, o // g) + tuple(k) if turned else (o, c // g) + tuple(k), special=False)
    ins = [x, w] + ([d.array((o,), special=False)] if d.r.random() < 0.5 else [])
    return "ConvTranspose" if turned else "Conv", ins, attrs, 1


def pool(d):
    r = int(d.pick(1, 2, 3))
    k = [int(d.pick(2, 3)) for _ in range(r)]
    attrs = {"kernel_shape": k, "strides": [int(d.pick(1, 2)) for _ in k], "pads": [int(d.pick(0, 1)) for _ in range(2 * r)],
             "ceil_mode": int(d.pick(0, 1))}
    op = d.pick("MaxPool", "AveragePool")
    if op == "AveragePool":
        attrs["count_include_pad"] = int(d.pick(0, 1))
    return op, [d.array((2, 2) + tuple(int(d.pick(4, 5, 7)) for _ in k), special=False)], attrs, 1


def global_pool(d):
    return d.pick("GlobalAveragePool", "GlobalMaxPool"), [d.array((2, 3) + d.shape(1, 3, empty=False), special=False)], {}, 1


def norm(d):
    s = (int(d.pick(1, 2)), int(d.pick(2, 3))) + d.shape(1, 2, empty=False)
    c, x = (s[1],), d.array(s, special=False)
    op = d.pick("BatchNormalization", "InstanceNormalization", "LayerNormalization", "LpNormalization", "LRN")
    if op == "BatchNormalization":
        return op, [x, d.array(c, special=False), d.array(c, special=False), d.array(c, special=False), np.abs(d.array(c, special=False)) + F(0.1)], {}, 1
    if op == "InstanceNormalization":
        return op, [x, d.array(c, special=False), d.array(c, special=False)], {}, 1
    if op == "LayerNormalization":
        a = int(d.r.integers(1, len(s)))
        return op, [x, d.array(s[a:], special=False), d.array(s[a:], special=False)], {"axis": d.pick(a, a - len(s))}, 1
    return op, [x], {"axis": d.axis(len(s)), "p": int(d.pick(1, 2))} if op == "LpNormalization" else {"size": 3}, 1


def reshape(d):
    s = d.shape(0, 4)
    flat = int(np.prod(s))
    target = d.pick((flat,), (1, flat), (flat, 1), (-1,) if flat else (flat,), s)
    return "Reshape", [d.array(s), d.ints(*target)], {}, 1


def transpose(d):
    s = d.shape(0, 5)
    return "Transpose", [d.array(s, d.pick(F, L, B))], {"perm": [int(p) for p in d.r.permutation(len(s))]} if s else {}, 1


def rank(d):
    s = d.shape(0, 3)
    if d.r.random() < 0.5:
        return "Unsqueeze", [d.array(s), d.ints(*sorted({d.axis(len(s) + 1)}))], {}, 1
    at = int(d.r.integers(0, len(s) + 1))
    s = s[:at] + (1,) + s[at:]
    return "Squeeze", [d.array(s), d.ints(d.pick(at, at - len(s)))], {}, 1


def flatten(d):
    s = d.shape(0, 4)
    return "Flatten", [d.array(s)], {"axis": int(d.r.integers(-len(s), len(s) + 1))}, 1


def concat(d):
    s = d.shape(1, 4)
    a = d.axis(len(s))
    parts = []
    for _ in range(d.r.integers(1, 4)):
        p = list(s)
        p[a] = int(d.pick(0, 1, 2, 3))
        parts.append(d.array(tuple(p)))
    return "Concat", parts, {"axis": a}, 1


def split(d):
    s = list(d.shape(1, 3))
    a = d.axis(len(s))
    sizes = [int(d.pick(0, 1, 2)) for _ in range(d.r.integers(1, 4))]
    s[a] = sum(sizes)
    return "Split", [d.array(tuple(s)), d.ints(*sizes)], {"axis": a}, len(sizes)


def window(d):
    s = d.shape(1, 4)
    axes = sorted({d.axis(len(s)) % len(s) for _ in range(2)})
    big = 2**62
    starts = [int(d.pick(0, 1, -1, -2, 9, -big, big)) for _ in axes]
    ends = [int(d.pick(0, 1, 2, -1, 9, -big, big)) for _ in axes]
    return "Slice", [d.array(s), d.ints(*starts), d.ints(*ends), d.ints(*axes), d.ints(*(d.pick(1, 1, 2, -1, -2) for _ in axes))], {}, 1


def gather(d):
    s = d.shape(1, 3, empty=False)
    a = d.axis(len(s))
    if d.r.random() < 0.5:
        return "Gather", [d.array(s), np.asarray(d.r.integers(-s[a], s[a], d.shape(0, 2)), d.pick(I, L))], {"axis": a}, 1
    return "GatherElements", [d.array(s), np.asarray(d.r.integers(-s[a], s[a], s), L)], {"axis": a}, 1


def gather_nd(d):
    s = d.shape(2, 4, empty=False)
    k = int(d.r.integers(1, len(s) + 1))
    rows = d.shape(1, 2)
    idx = np.stack([np.asarray(d.r.integers(-n, n, rows)) for n in s[:k]], -1)
    return "GatherND", [d.array(s), idx.astype(L)], {}, 1


def scatter(d):
    s = d.shape(1, 3, empty=False)
    a = d.axis(len(s))
    idx = np.asarray(d.r.integers(-s[a], s[a], s), L)
    how = d.pick("add", "mul", "max", "min")
    return "ScatterElements", [d.array(s, special=False), idx, d.array(s, special=False)], {"axis": a, "reduction": how}, 1


def pad(d):
    s, mode = d.shape(1, 4, empty=False), d.pick("constant", "reflect", "edge", "wrap")
    most = 4 if mode in ("constant", "edge") else max(1, min(s))
    pads = [int(d.r.integers(-1 if mode == "constant" and min(s) > 2 else 0, most)) for _ in range(2 * len(s))]
    ins = [d.array(s), d.ints(*pads)]
    return "Pad", ins + ([np.array(1.5, F)] if mode == "constant" else []), {"mode": mode}, 1


def expand(d):
    s = d.shape()
    return "Expand", [d.array(d.partner(s)), d.ints(*s)], {}, 1


def tile(d):
    s = d.shape(1, 3)
    return "Tile", [d.array(s), d.ints(*(d.pick(0, 1, 2, 3) for _ in s))], {}, 1


def clip(d):
    return "Clip", [d.array(d.shape()), d.pick(None, np.array(-1, F)), d.pick(None, np.array(2, F))], {}, 1


def cast(d):
    a = d.array(d.shape(), d.pick(F, D, I, L, B), special=False)
    return "Cast", [a], {"to": int(d.pick(1, 6, 7, 9, 10, 11))}, 1


def shapes(d):
    return d.pick("Shape", "Size"), [d.array(d.shape())], {}, 1


def nonzero(d):
    return "NonZero", [d.array(d.shape(1, 4), d.pick(F, L, B))], {}, 1


def onehot(d):
    s = d.shape(1, 2)
    return "OneHot", [d.array(s, L), np.array(int(d.pick(3, 5)), L), np.array([0, 2], F)], {"axis": int(d.r.integers(-len(s) - 1, len(s) + 1))}, 1


def triangle(d):
    return "Trilu", [d.array(d.shape(2, 4)), np.array(int(d.r.integers(-4, 5)), L)], {"upper": int(d.pick(0, 1))}, 1


def resize(d):
    s = (1, 2) + d.shape(2, 2, empty=False)
    scales = np.array([1, 1] + [d.pick(0.5, 0.6, 1.0, 1.5, 2.0, 2.7) for _ in range(2)], F)
    mode = d.pick("nearest", "linear", "cubic")
    attrs = {"mode": mode, "coordinate_transformation_mode": d.pick("half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel")}
    if mode == "nearest":
        attrs["nearest_mode"] = d.pick("floor", "ceil", "round_prefer_floor", "round_prefer_ceil")
    return "Resize", [d.array(s, special=False), None, scales], attrs, 1


def depth(d):
    b = 2
    if d.r.random() < 0.5:
        return "SpaceToDepth", [d.array((1, 2, 4, 6))], {"blocksize": b}, 1
    return "DepthToSpace", [d.array((int(d.pick(1, 2)), 8, 2, 3))], {"blocksize": b, "mode": d.pick("DCR", "CRD")}, 1


def quantize(d):
    s = d.shape(1, 3)
    zero = np.array(int(d.pick(0, 3, 100)), np.uint8)
    scale = np.array(d.pick(0.05, 0.5), F)
    if d.r.random() < 0.5:
        return "QuantizeLinear", [d.array(s, special=False), scale, zero], {}, 1
    return "DequantizeLinear", [d.array(s, np.uint8), scale, zero], {}, 1


def recurrent(d):
    op, both = d.pick("RNN", "GRU", "LSTM"), d.pick("forward", "reverse", "bidirectional")
    n, k, h, gates = 2 if both == "bidirectional" else 1, 3, 2, {"RNN": 1, "GRU": 3, "LSTM": 4}[op]
    ins = [d.array((int(d.pick(1, 4)), 2, k), special=False), d.array((n, gates * h, k), special=False), d.array((n, gates * h, h), special=False)]
    if d.r.random() < 0.5:
        ins.append(d.array((n, 2 * gates * h), special=False))
    return op, ins, {"hidden_size": h, "direction": both}, 2


def einsum(d):
    eq, a, b = d.pick(("ij,jk->ik", (2, 3), (3, 4)), ("bij,bkj->bik", (2, 3, 4), (2, 5, 4)), ("ij,ij->", (2, 3), (2, 3)), ("i,j->ij", (3,), (0,)))
    return "Einsum", [d.array(a, special=False), d.array(b, special=False)], {"equation": eq}, 1


GENERATORS = [unary, activation, arithmetic, compare, logic, variadic, power, remainder, where, reduction, arg, soft, scan_sum,
              top, matmul, gemm, conv, pool, global_pool, norm, reshape, transpose, rank, flatten, concat, split, window,
              gather, gather_nd, scatter, pad, expand, tile, clip, cast, shapes, nonzero, onehot, triangle, resize, depth,
              quantize, recurrent, einsum]


def model(d, op, ins, attrs, outs):
    """A model of one node. Operands after the first are constants half the time."""
    node = helper.make_node(op, ["" if a is None else f"i{i}" for i, a in enumerate(ins)], [f"o{i}" for i in range(outs)], **attrs)
    fixed = {i for i in range(1, len(ins)) if ins[i] is not None and d.r.random() < 0.5}
    given = [i for i, a in enumerate(ins) if a is not None and i not in fixed]
    kind = lambda a: helper.np_dtype_to_tensor_dtype(a.dtype)
    graph = helper.make_graph(
        [node], op, [helper.make_tensor_value_info(f"i{i}", kind(ins[i]), [f"i{i}_{k}" for k in range(ins[i].ndim)]) for i in given],
        [helper.make_empty_tensor_value_info(f"o{i}") for i in range(outs)],
        [numpy_helper.from_array(ins[i], f"i{i}") for i in sorted(fixed)])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=10), given


def answer(m, feeds):
    options = ort.SessionOptions()
    options.log_severity_level = 4
    return ort.InferenceSession(m.SerializeToString(), options, providers=["CPUExecutionProvider"]).run(None, feeds)


def save(folder, m, ins, results):
    """Writes a test folder; the model's outputs get the types they turned out to have."""
    for info, r in zip(m.graph.output, results):
        info.CopyFrom(helper.make_tensor_value_info(info.name, helper.np_dtype_to_tensor_dtype(r.dtype), [None] * r.ndim))
    data = folder / "test_data_set_0"
    data.mkdir(parents=True)
    onnx.save(m, folder / "model.onnx")
    for kind, arrays in (("input", ins), ("output", results)):
        for i, a in enumerate(arrays):
            (data / f"{kind}_{i}.pb").write_bytes(numpy_helper.from_array(a).SerializeToString())


def main():
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    p = argparse.ArgumentParser()
    p.add_argument("--count", type=int, default=2500)
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--out", type=pathlib.Path, default=pathlib.Path(cache) / "berth" / "ortfuzz")
    a = p.parse_args()
    made, refused = collections.Counter(), collections.Counter()
    for i in range(a.count):
        d = Draw([a.seed, i])
        op, ins, attrs, outs = GENERATORS[i % len(GENERATORS)](d)
        ins = [None if x is None else np.asarray(x) for x in ins]
        folder = a.out / f"{i:05d}_{op}"
        shutil.rmtree(folder, ignore_errors=True)
        try:
            m, given = model(d, op, ins, attrs, outs)
            results = answer(m, {f"i{k}": ins[k] for k in given})
        except Exception:  # ONNX Runtime does not run it
            refused[op] += 1
            continue
        save(folder, m, [ins[k] for k in given], results)
        made[op] += 1
    print(f"{sum(made.values())} cases of {len(made)} operators in {a.out}; refused: {dict(sorted(refused.items()))}")


main()
