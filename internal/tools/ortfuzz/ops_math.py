"""Generators: arithmetic, activations, comparisons, reductions, products."""

import numpy as np

from draw import B, BF, D, F, H, I, L, S, U8, gen, is_float, proto_type


@gen("Abs Neg Sign Floor Ceil Round Reciprocal Relu Identity Not BitwiseNot IsNaN")
def unary(d):
    return [d.array(d.shape(most=70))], {}, 1


@gen("Exp Log Sqrt Sigmoid Tanh Softplus Softsign Erf Sin Cos Tan Asin Acos Atan Sinh Cosh Asinh Acosh Atanh HardSwish Mish", )
def transcendental(d):
    s = d.shape(most=70)
    x = d.array(s)
    if d.op in ("Sinh", "Cosh", "Exp", "Tan"):
        x = d.near(s)
    if d.op in ("Asin", "Acos", "Atanh") and d.chance(0.8):
        x = np.asarray(d.r.uniform(-1, 1, s)).astype(d.t)
    if d.op in ("Log", "Sqrt", "Acosh") and d.chance(0.7):
        x = d.positive(s, lo=1 if d.op == "Acosh" else 0.01, hi=9)
    return [x], {}, 1


@gen("IsInf", t="T1")
def is_inf(d):
    return [d.array(d.shape())], d.maybe({"detect_negative": d.flag(), "detect_positive": d.flag()}), 1


@gen("LeakyRelu Elu Celu ThresholdedRelu Selu HardSigmoid Shrink Swish Gelu")
def activation(d):
    a = float(d.pick(0.0, 0.1, 0.5, 1.5, -0.7))
    attrs = {"Selu": {"alpha": 1.2, "gamma": 0.9}, "HardSigmoid": {"alpha": 0.3, "beta": 0.4}, "Shrink": {"lambd": 0.7, "bias": 0.3},
             "Gelu": {"approximate": d.pick("none", "tanh")}}.get(d.op, {"alpha": a or 0.25 if d.op == "Celu" else a})
    return [d.array(d.shape(most=70), full=False)], d.maybe(attrs), 1


@gen("Add Sub Mul Div")
def arithmetic(d):
    s, p = d.pair()
    a, b = d.array(s), d.array(p)
    if d.op == "Div" and not is_float(d.t):
        b = np.where(b == 0, d.t.type(1), b).astype(d.t)
        b = np.where(b.astype(object) == -1, d.t.type(2), b).astype(d.t)  # the least number by -1 stops the process
    return [a, b], {}, 1


@gen("Pow")
def power(d):
    s, p = d.pair()
    t1 = d.type("T1") if "T1" in d.types else d.t
    a, b = d.array(s, full=False), d.array(p, t1, full=False)
    if d.chance(0.7):
        a = d.positive(s, hi=3) if is_float(d.t) else d.array(s, full=False)
    if is_float(t1) and not is_float(d.t):  # what is no integer has no defined value
        a, b = np.abs(a), np.asarray(d.r.integers(0, 4, p)).astype(t1)
        return [a, b], {}, 1
    if not is_float(t1) and not is_float(d.t):
        b = np.abs(b.astype(L)).astype(t1) % t1.type(4)
    if d.chance(0.4) and is_float(t1):
        b = np.array(d.pick(0, 0.5, 1, 2, 3, -1, -0.5, -2)).astype(t1)
    return [a, b], {}, 1


@gen("Mod")
def remainder(d):
    s, p = d.pair()
    a, b = d.array(s, full=False), d.array(p, full=False, special=False)
    if not is_float(d.t):
        b = np.where(b == 0, d.t.type(3), b).astype(d.t)
    return [a, b], {"fmod": 1 if is_float(d.t) else d.flag()}, 1


@gen("BitShift")
def shift(d):
    s, p = d.pair()
    b = np.asarray(d.r.integers(0, 8 * d.t.itemsize, p)).astype(d.t)
    return [d.array(s), b], {"direction": d.pick("LEFT", "RIGHT")}, 1


@gen("BitwiseAnd BitwiseOr BitwiseXor And Or Xor Equal Less Greater LessOrEqual GreaterOrEqual")
def compare(d):
    s, p = d.pair()
    a, b = d.array(s), d.array(p)
    if is_float(d.t) and d.chance(0.5):
        a, b = np.round(a.astype(F)).astype(d.t), np.round(b.astype(F)).astype(d.t)
    return [a, b], {}, 1


@gen("Min Max Sum Mean")
def variadic(d):
    s = d.shape(most=70)
    return [d.array(s)] + [d.array(d.partner(s)) for _ in range(d.int(0, 3))], {}, 1


@gen("PRelu")
def prelu(d):
    s = d.shape(0, 4)
    return [d.array(s), d.array(d.partner(s))], {}, 1


@gen("Where")
def where(d):
    s = d.shape(most=70)
    return [d.array(d.partner(s), B), d.array(s if d.chance(0.5) else d.partner(s)), d.array(d.partner(s))], {}, 1


@gen("Clip")
def clip(d):
    s = d.shape(most=70)
    lo, hi = d.pick((-1, 2), (2, -1), (0, 0)) if d.t.kind != "u" else d.pick((1, 5), (5, 1), (0, 3))
    if d.v < 11:
        return [d.array(s)], d.maybe({"min": float(lo), "max": float(hi)}), 1
    return [d.array(s), d.pick(None, np.array(lo).astype(d.t)), d.pick(None, np.array(hi).astype(d.t))], {}, 1


def castable(d, s, t, to):
    """Elements that the target type can hold: what happens to others is not defined."""
    if t == S:
        if is_float(to):
            words = ["1", "-2.5", "3e2", "NaN", "INF", "-INF", "0.125", "1e-3"]
        elif to == S:
            words = ["a", "", "Zürich"]
        else:
            words = ["0", "1", "7", "3"] if to == B else ["0", "1", "12", "100"]
        return np.array([d.pick(*words) for _ in range(int(np.prod(s)))], object).reshape(s)
    if is_float(t) and not is_float(to) and to not in (S, np.dtype(B)):
        least = 0 if to.kind == "u" or "uint" in to.name else -1.9 if "int2" in to.name else -7.9 if "int4" in to.name else -100
        most = {"uint4": 15.9, "int4": 7.9, "uint2": 3.9, "int2": 1.9}.get(to.name, 100)
        return np.asarray(d.r.uniform(least, most, s)).astype(t)
    if to == S and is_float(t):
        return np.round(d.near(s, F, 3) * 4).astype(t) / t.type(4)
    return d.array(s)


@gen("Cast", t="T1")
def cast(d):
    to, s = d.type("T2"), d.shape()
    if to.kind == "c":
        to = np.dtype(F)
    x = castable(d, s, d.t, to)
    attrs = {"to": int(proto_type(to))}
    if d.v >= 19 and to.name.startswith("float8"):
        attrs.update(d.maybe({"saturate": d.flag()}))
    return [x], attrs, 1


@gen("CastLike", t="T1")
def cast_like(d):
    to, s = d.type("T2"), d.shape()
    if to.kind == "c" or to == S:
        to = np.dtype(F)
    attrs = d.maybe({"saturate": d.flag()}) if d.v >= 19 and to.name.startswith("float8") else {}
    return [castable(d, s, d.t, to), d.array((1,), to)], attrs, 1


@gen("BitCast", t="T1")
def bit_cast(d):
    same = [t for t in d.types["T2"] if t and t.kind != "c" and t.itemsize == d.t.itemsize and "int4" not in t.name and "int2" not in t.name and "float4" not in t.name]
    x = d.array(d.shape())
    to = d.pick(*same)
    if to == B:
        return None
    return [x], {"to": int(proto_type(to))}, 1


@gen("ReduceSum ReduceMean ReduceMax ReduceMin ReduceProd ReduceL1 ReduceL2 ReduceSumSquare ReduceLogSum ReduceLogSumExp")
def reduction(d):
    s = d.shape(0, 4, most=33)
    axes = d.axes(len(s)) if s and d.chance(0.8) else []
    x = d.array(s, full=False, special=d.op in ("ReduceMax", "ReduceMin", "ReduceSum") and d.chance(0.3))
    if d.op == "ReduceProd" and not is_float(d.t):  # overflow has no defined value
        x = np.asarray(d.r.integers(0 if d.t.kind == "u" else -1, 3, s)).astype(d.t)
        x.reshape(-1)[20:] = 1
    if d.op in ("ReduceLogSum",) and x.size:
        x = d.positive(s) if is_float(d.t) else np.abs(x).astype(d.t)
    attrs = d.maybe({"keepdims": d.flag()})
    if d.v < (13 if d.op == "ReduceSum" else 18):
        return [x], attrs | ({"axes": axes} if axes else {}), 1
    if not axes and d.chance(0.5):
        attrs["noop_with_empty_axes"] = d.flag()
    return [x] + ([d.ints(*axes)] if axes else d.pick([], [d.ints()])), attrs, 1


@gen("ArgMax ArgMin")
def arg(d):
    s = d.shape(1, 4, empty=False)
    attrs = {"axis": d.axis(len(s)) if d.v >= 11 else d.int(0, len(s) - 1), "keepdims": d.flag()}
    if d.v >= 12:
        attrs["select_last_index"] = d.flag()
    x = d.array(s, special=False, full=False)
    if d.chance(0.5):
        x = np.round(x.astype(F) / 3).astype(d.t)  # ties
    return [x], d.maybe(attrs), 1


@gen("Softmax LogSoftmax Hardmax")
def soft(d):
    s = d.shape(1, 4, most=70)
    a = d.axis(len(s)) if d.v >= 11 else d.int(0, len(s) - 1)
    x = d.array(s, special=d.op != "Hardmax" and d.chance(0.3))
    return [x], {"axis": a} if len(s) == 1 or d.chance(0.8) else {}, 1


@gen("CumSum CumProd")
def scan_sum(d):
    s = d.shape(1, 4)
    x = d.array(s, special=False, full=False)
    if d.op == "CumProd" and is_float(d.t):
        x = d.positive(s, lo=0.5, hi=1.5)
    return [x, np.array(d.axis(len(s)), d.type("T2"))], d.maybe({"exclusive": d.flag(), "reverse": d.flag()}), 1


@gen("TopK")
def top(d):
    s = d.shape(1, 4, empty=False, most=33)
    a = d.axis(len(s)) if d.v >= 11 else d.int(0, len(s) - 1)
    k = d.int(0 if d.v >= 10 else 1, s[a])
    x = d.array(s, special=False, full=False)
    if d.chance(0.3) and d.t.kind == "f":
        x = np.round(x)  # ties: the lower index comes first
    if d.v < 10:
        return [x], {"axis": a, "k": k}, 2
    attrs = {"axis": a}
    if d.v >= 11:
        attrs |= d.maybe({"largest": d.flag()})
    return [x, d.ints(k)], attrs, 2


@gen("MatMul")
def matmul(d):
    m, k, n = (int(d.pick(1, 2, 3, 7, 0)) if d.chance(0.1) else int(d.pick(1, 2, 5, 17, 40)) for _ in range(3))
    batch = d.shape(0, 3, most=3)
    a, b = batch + (m, k), d.partner(batch) + (k, n)
    if d.chance(0.2):
        a, b = d.partner(batch) + (m, k), batch + (k, n)
    if d.chance(0.15):
        a = (k,)
    if d.chance(0.15):
        b = (k,)
    x = d.array(a, full=False)
    if is_float(d.t):  # large numbers cancel out differently
        x = np.where(np.abs(x.astype(F)) > 1e6, d.t.type(1), x) if np.isfinite(x.astype(F)).all() else d.near(a)
    return [x, d.array(b, full=False, special=False)], {}, 1, {"atol": 1e-4} if d.t == F else {}


@gen("Gemm")
def gemm(d):
    m, k, n = (int(d.pick(1, 2, 5, 9, 33, 0)) if d.chance(0.1) else int(d.pick(1, 2, 5, 9, 33)) for _ in range(3))
    ta, tb = d.flag(), d.flag()
    ins = [d.array((k, m) if ta else (m, k), full=False, special=False), d.array((n, k) if tb else (k, n), full=False, special=False)]
    if d.v < 11 or d.chance(0.7):
        ins.append(d.array(d.pick((m, n), (n,), (1, n), (m, 1), (1,), (1, 1), ()), full=False))
    attrs = d.maybe({"alpha": float(d.pick(0.5, 2, 0, -1)), "beta": float(d.pick(1.5, 2, 0, -1))}) if is_float(d.t) else {}
    return ins, {"transA": ta, "transB": tb} | attrs, 1, {"atol": 1e-4} if d.t == F else {}


EQUATIONS = [("ij,jk->ik", (2, 3), (3, 4)), ("bij,bkj->bik", (2, 3, 4), (2, 5, 4)), ("ij,ij->", (2, 3), (2, 3)), ("i,j->ij", (3,), (0,)),
             ("ij->ji", (2, 3)), ("ii->i", (3, 3)), ("ii->", (3, 3)), ("ij->j", (2, 3)), ("...ij,...jk->...ik", (2, 1, 3, 4), (5, 4, 2)),
             ("bhqd,bhkd->bhqk", (1, 2, 3, 4), (1, 2, 5, 4)), ("ij,jk", (2, 3), (3, 4)), ("ab,cd->acbd", (2, 3), (4, 5)),
             ("i,i,i->i", (4,), (4,), (4,)), ("ij,jk,kl->il", (2, 3), (3, 4), (4, 2)), ("...a->...", (2, 3, 4)), (" i j , j k -> k i ", (2, 3), (3, 4)),
             ("ijk,jil->kl", (2, 3, 4), (3, 2, 5)), ("ba", (2, 3)), ("i...,i...->...", (2, 3), (2, 3))]


@gen("Einsum")
def einsum(d):
    eq, *shapes = EQUATIONS[d.r.integers(len(EQUATIONS))]
    return [d.array(s, special=False, full=False) for s in shapes], {"equation": eq}, 1


@gen("Det")
def det(d):
    n = d.int(1, 4)
    return [d.near(d.shape(0, 2, most=3) + (n, n))], {}, 1


@gen("Range")
def count(d):
    lo, step = d.int(-3, 3), int(d.pick(1, 2, 3, -1, -2))
    start, limit, delta = lo, lo + d.int(-2, 9) * (1 if step > 0 else -1), step
    if is_float(d.t) and d.chance(0.5):
        start, delta = start + 0.5, delta / 4
    return [np.array(v).astype(d.t) for v in (start, limit, delta)], {}, 1


@gen("HannWindow HammingWindow BlackmanWindow", t="T1")
def window(d):
    to = d.type("T2", F, D, H, I, L)
    return [np.array(d.int(2, 12), d.t)], d.maybe({"output_datatype": int(proto_type(to)), "periodic": d.flag()}), 1


@gen("MelWeightMatrix", t="T3")
def mel(d):
    t1, t2 = d.type("T1", I, L), d.type("T2", F)
    return [np.array(v, t) for v, t in ((d.int(2, 8), t1), (d.pick(16, 32), t1), (8000, t1), (0, t2), (4000, t2))], {"output_datatype": int(proto_type(d.t))}, 1


@gen("DFT", t="T1")
def dft(d):
    inverse, onesided = d.flag(), d.flag()
    s = d.shape(2, 3, empty=False, most=5)
    axis = d.int(1, len(s) - 1)
    complex_in = inverse or d.chance(0.4)
    if onesided and d.v < 20:
        inverse = 0
    x = d.near(s + ((2,) if complex_in and not (onesided and not inverse) else (1,)))
    size = np.array(d.int(1, 9), d.type("T2")) if d.chance(0.4) else None
    if inverse and onesided:
        onesided = 0
    if d.v < 20:
        return [x, size], {"axis": axis, "inverse": inverse, "onesided": onesided}, 1
    return [x, size, np.array(d.pick(axis, axis - len(s) - 1), L)], {"inverse": inverse, "onesided": onesided}, 1


@gen("STFT", t="T1")
def stft(d):
    n, t = int(d.pick(4, 8, 7)), d.type("T2")
    x = d.near((d.int(1, 2), d.int(n, 30), d.pick(1, 2)))
    onesided = d.flag() if x.shape[2] == 1 else 0
    win = d.positive((n,)) if d.chance(0.6) else None
    return [x, np.array(d.int(1, 4), t), win, np.array(n, t) if win is None or d.chance(0.5) else None], {"onesided": onesided}, 1
