"""Generators: convolutions, pools, norms, recurrent networks, attention, losses,
quantized operators."""

import numpy as np

from draw import B, BF, D, F, H, I, I8, L, U8, SMALL_FLOATS, SMALL_INTS, gen, is_float, proto_type


def spatial(d, r, k, sizes, strides=(1, 1, 2, 3), dilations=(1, 1, 2), most_pad=2, auto=True):
    """Attributes of a window that moves over r axes, and their sizes, large enough for it."""
    attrs = {"strides": [int(d.pick(*strides)) for _ in range(r)], "dilations": [int(d.pick(*dilations)) for _ in range(r)]}
    kind = d.pick("NOTSET", "NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID") if auto and d.chance(0.4) else "NOTSET"
    pads = [d.int(0, min(most_pad, k[i % r] - 1) if most_pad else 0) for i in range(2 * r)]
    size = [max(int(d.pick(*sizes)), (k[i] - 1) * attrs["dilations"][i] + 1) for i in range(r)]
    if kind != "NOTSET":
        attrs["auto_pad"] = kind
        if "SAME" in kind:
            attrs["dilations"] = [1] * r
    elif d.chance(0.7):
        attrs["pads"] = pads
    return attrs, tuple(size)


def conv_shapes(d):
    g, r = int(d.pick(1, 1, 2, 3)), int(d.pick(1, 2, 2, 2, 3))
    c, o = g * d.int(1, 3), g * d.int(1, 4)
    if d.chance(0.2):  # depthwise
        c, o, g = g * 3, g * 3 * d.int(1, 2), g * 3
    elif d.chance(0.15):  # channels that fill vectors
        c, o, g = int(d.pick(8, 16, 20)), int(d.pick(16, 17, 32)), 1
    k = [int(d.pick(1, 2, 3, 3, 5)) if r < 3 else d.int(1, 3) for _ in range(r)]
    return d.int(1, 2), g, r, c, o, k


@gen("Conv")
def conv(d):
    n, g, r, c, o, k = conv_shapes(d)
    attrs, size = spatial(d, r, k, (3, 5, 6, 8, 11))
    x, w = d.near((n, c) + size), d.near((o, c // g) + tuple(k))
    ins = [x, w] + ([d.near((o,))] if d.chance(0.5) else [])
    return ins, {"group": g} | attrs | d.maybe({"kernel_shape": k}), 1, {"atol": 1e-4} if d.t == F else {}


@gen("ConvTranspose")
def conv_transpose(d):
    n, g, r, c, o, k = conv_shapes(d)
    attrs, size = spatial(d, r, k, (1, 2, 4, 5), auto=False)
    if d.chance(0.3):
        attrs["output_padding"] = [d.int(0, max(attrs["strides"][i], attrs["dilations"][i]) - 1) for i in range(r)]
    elif d.chance(0.3):
        attrs.pop("pads", None)
        whole = [(size[i] - 1) * attrs["strides"][i] + (k[i] - 1) * attrs["dilations"][i] + 1 for i in range(r)]
        attrs["output_shape"] = [max(1, w - d.int(0, 2)) for w in whole]
        if d.chance(0.5):
            attrs["auto_pad"] = d.pick("SAME_UPPER", "SAME_LOWER")
    ins = [d.near((n, c) + size), d.near((c, o // g) + tuple(k))] + ([d.near((o,))] if d.chance(0.5) else [])
    return ins, {"group": g} | attrs | d.maybe({"kernel_shape": k}), 1, {"atol": 1e-4} if d.t == F else {}


@gen("DeformConv")
def deform(d):
    n, g, og = d.int(1, 2), d.int(1, 2), d.int(1, 2)
    c, o, k = g * og * d.int(1, 2), g * d.int(1, 2), [d.int(1, 3), d.int(1, 3)]
    attrs, size = spatial(d, 2, k, (4, 5, 6), auto=False, strides=(1, 2))
    pads = attrs.setdefault("pads", [0] * 4)
    out = tuple((size[i] + pads[i] + pads[i + 2] - attrs["dilations"][i] * (k[i] - 1) - 1) // attrs["strides"][i] + 1 for i in range(2))
    ins = [d.near((n, c) + size), d.near((o, c // g, *k)), d.near((n, og * k[0] * k[1] * 2) + out)]
    ins += [d.pick(None, d.near((o,))), d.pick(None, d.near((n, og * k[0] * k[1]) + out))]
    return ins, {"group": g, "offset_group": og} | attrs, 1, {"atol": 1e-4}


@gen("MaxPool AveragePool LpPool")
def pool(d):
    r = d.int(1, 3)
    k = [d.int(1, 3) for _ in range(r)]
    dilated = d.v >= {"MaxPool": 10, "AveragePool": 19, "LpPool": 18}[d.op]
    attrs, size = spatial(d, r, k, (3, 4, 5, 7, 9), dilations=(1, 1, 2) if dilated else (1,))
    attrs["kernel_shape"] = k
    if not dilated:
        attrs.pop("dilations")
    if d.v >= {"MaxPool": 10, "AveragePool": 10, "LpPool": 18}[d.op]:
        attrs |= d.maybe({"ceil_mode": d.flag()})
    if d.op == "AveragePool":
        attrs |= d.maybe({"count_include_pad": d.flag()})
    if d.op == "LpPool":
        attrs |= d.maybe({"p": d.int(1, 3)})
    outs = 2 if d.op == "MaxPool" and d.v >= 8 and d.chance(0.4) else 1
    if outs == 2 and d.chance(0.3):
        attrs["storage_order"] = 1
    x = d.array((d.int(1, 2), d.int(1, 3)) + size, special=False, full=False)
    return [x], attrs, outs


@gen("MaxUnpool", t="T1")
def unpool(d):
    n, c, h, w = d.int(1, 2), d.int(1, 2), d.int(1, 3), d.int(1, 3)
    k = [d.int(1, 3), d.int(1, 3)]
    full = (h * k[0], w * k[1])
    places = np.zeros((n, c, h, w), L)
    for i in np.ndindex(n, c, h, w):
        row, col = i[2] * k[0] + d.int(0, k[0] - 1), i[3] * k[1] + d.int(0, k[1] - 1)
        places[i] = ((i[0] * c + i[1]) * full[0] + row) * full[1] + col
    return [d.near((n, c, h, w)), places], {"kernel_shape": k, "strides": k}, 1


@gen("GlobalAveragePool GlobalMaxPool GlobalLpPool")
def global_pool(d):
    return [d.array((d.int(1, 2), d.int(1, 20)) + d.shape(1, 3, empty=False), special=False)], {"p": d.int(1, 3)} if d.op == "GlobalLpPool" else {}, 1


def channels(d):
    return (d.int(1, 3), int(d.pick(1, 2, 3, 17))) + d.shape(0, 3, empty=False)


@gen("BatchNormalization")
def batch_norm(d):
    s = channels(d)
    if d.v < 9 and d.chance(0.3):  # a statistic per element
        c, extra = s[1:], {"spatial": 0}
    else:
        c, extra = (s[1],), {}
    u = d.t
    if d.v == 14:
        u = d.type("U", d.t, F)
    t1 = d.type("T1", d.t, F) if d.v >= 15 else d.t
    t2 = d.type("T2", d.t, F) if d.v >= 15 else u
    ins = [d.near(s), d.near(c, t1), d.near(c, t1), d.near(c, t2), d.positive(c, t2)]
    attrs = extra | d.maybe({"epsilon": 1e-3, "momentum": 0.7})
    if d.v >= 14 and d.chance(0.3):
        return ins, attrs | {"training_mode": 1}, 3
    return ins, attrs, 1


@gen("InstanceNormalization")
def instance_norm(d):
    s = channels(d)
    if len(s) < 3:
        s += (4,)
    return [d.near(s), d.near((s[1],)), d.near((s[1],))], d.maybe({"epsilon": 1e-3}), 1


@gen("GroupNormalization")
def group_norm(d):
    g, per = d.int(1, 3), d.int(1, 3)
    s = (d.int(1, 2), g * per) + d.shape(1, 3, empty=False)
    c = (g,) if d.v < 21 else (g * per,)
    return [d.near(s), d.near(c), d.near(c)], {"num_groups": g} | d.maybe({"epsilon": 1e-3}), 1


@gen("LayerNormalization RMSNormalization")
def layer_norm(d):
    s = d.shape(1, 4, empty=False, most=70)
    a = d.int(0, len(s) - 1)
    c = s[a:]
    if d.chance(0.3):
        c = c[d.int(0, len(c) - 1):] if d.op == "RMSNormalization" or d.v >= 17 else c
    ins = [d.near(s), d.near(c, d.type("V", d.t) if d.op == "RMSNormalization" else d.t)]
    if d.op == "LayerNormalization" and d.chance(0.6):
        ins.append(d.near(c))
    attrs = {"axis": d.pick(a, a - len(s))} | d.maybe({"epsilon": 1e-3})
    return ins, attrs, 1 if d.op == "RMSNormalization" else d.pick("1", "1", "111", "11")


@gen("LpNormalization")
def lp_norm(d):
    s = d.shape(1, 4, empty=False)
    return [d.array(s, special=False)], {"axis": d.axis(len(s)), "p": d.int(1, 2)}, 1


@gen("LRN")
def lrn(d):
    s = (d.int(1, 2), d.int(1, 6)) + d.shape(1, 2, empty=False)
    return [d.near(s)], {"size": d.pick(1, 3, 5)} | d.maybe({"alpha": 0.3, "beta": 0.5, "bias": 1.5}), 1


@gen("MeanVarianceNormalization")
def mvn(d):
    return [d.near((d.int(1, 3), d.int(1, 3), d.int(2, 4), d.int(2, 4)))], d.maybe({"axes": d.pick([0, 2, 3], [1, 2, 3], [2, 3], [0, 1, 2, 3], [-1, -2])}), 1


ACTS = ["Relu", "Tanh", "Sigmoid", "Affine", "LeakyRelu", "ThresholdedRelu", "ScaledTanh", "HardSigmoid", "Elu", "Softsign", "Softplus"]


@gen("RNN GRU LSTM")
def recurrent(d):
    both = d.pick("forward", "reverse", "bidirectional")
    n, k, h, gates = 2 if both == "bidirectional" else 1, int(d.pick(1, 3, 9)), int(d.pick(1, 2, 5, 16)), {"RNN": 1, "GRU": 3, "LSTM": 4}[d.op]
    steps, batch = d.int(1, 5), d.int(1, 3)
    x = d.near((steps, batch, k))  # ONNX Runtime has no kernel for layout=1
    ins = [x, d.near((n, gates * h, k), scale=0.5), d.near((n, gates * h, h), scale=0.5)]
    ins.append(d.near((n, 2 * gates * h), scale=0.5) if d.chance(0.6) else None)
    ins.append(np.asarray(d.r.integers(1, steps + 1, batch), I) if d.chance(0.4) else None)
    state = (n, batch, h)
    ins.append(d.near(state) if d.chance(0.5) else None)
    attrs = {"hidden_size": h, "direction": both} | d.maybe({"clip": 1.0} if d.chance(0.3) else {})
    if d.chance(0.3):
        per = {"RNN": 1, "GRU": 2, "LSTM": 3}[d.op]
        attrs["activations"] = [d.pick(*ACTS) for _ in range(per * n)]
        attrs["activation_alpha"] = [float(d.r.uniform(0.2, 1)) for _ in range(per * n)]
        attrs["activation_beta"] = [float(d.r.uniform(0.2, 1)) for _ in range(per * n)]
    if d.op == "GRU":
        attrs |= d.maybe({"linear_before_reset": d.flag()})
    if d.op == "LSTM":
        ins.append(d.near(state) if d.chance(0.5) else None)
        ins.append(d.near((n, 3 * h), scale=0.5) if d.chance(0.3) else None)
        attrs |= d.maybe({"input_forget": 1} if d.chance(0.3) else {})
    while ins[-1] is None:
        ins.pop()
    return ins, attrs, d.pick("11", "01", "10") if d.op != "LSTM" else d.pick("111", "1", "011", "101"), {"atol": 1e-4} if d.t == F else {}


@gen("Attention", t="T1")
def attention(d):
    b, g, kv, q, k, hq, hv = d.int(1, 2), d.int(1, 3), d.int(1, 2), d.int(1, 5), d.int(1, 6), int(d.pick(2, 4, 8)), int(d.pick(2, 3, 8))
    heads, past = g * kv, d.int(1, 4) if d.chance(0.3) else 0
    flat = d.chance(0.5)
    make = lambda n, s, h: d.near((b, s, n * h) if flat else (b, n, s, h))
    ins = [make(heads, q, hq), make(kv, k, hq), make(kv, k, hv)]
    mask = None
    if d.chance(0.5):
        s = d.pick((q, k + past), (1, 1, q, k + past), (b, 1, q, k + past), (b, heads, q, k + past))
        mask = np.asarray(d.r.random(s) < 0.7) if d.chance(0.5) else d.near(s)
        if mask.dtype == B:
            mask[..., 0] = True
    ins.append(mask)
    ins += [d.near((b, kv, past, hq)), d.near((b, kv, past, hv))] if past else []
    attrs = d.maybe({"is_causal": d.flag(), "scale": 0.3, "softcap": float(d.pick(0, 2.0))})
    if flat:
        attrs |= {"q_num_heads": heads, "kv_num_heads": kv}
    if d.v >= 25:
        attrs |= d.maybe({"left_window_size": d.int(-1, 3), "right_window_size": d.int(-1, 3)})
    outs = d.pick("1", "1", "111" if past else "1", "1111" if past else "1001")
    if outs[-1] == "1" and len(outs) == 4:
        attrs["qk_matmul_output_mode"] = d.int(0, 3)
    if d.v >= 24 and not past and d.chance(0.3):
        ins += [None] * (6 - len(ins)) + [np.asarray(d.r.integers(1, k + 1, b), L)]
        outs = "1"
    while ins[-1] is None:
        ins.pop()
    return ins, attrs, outs


@gen("RotaryEmbedding")
def rotary(d):
    b, n, s, h = d.int(1, 2), d.int(1, 3), d.int(1, 4), int(d.pick(4, 8, 6))
    part = h if d.chance(0.6) else h - 2
    flat = d.chance(0.5)
    x = d.near((b, s, n * h) if flat else (b, n, s, h))
    attrs = d.maybe({"interleaved": d.flag()}) | ({"num_heads": n} if flat else {}) | ({"rotary_embedding_dim": part} if part != h else {})
    if d.chance(0.6):
        return [x, d.near((9, part // 2)), d.near((9, part // 2)), np.asarray(d.r.integers(0, 9, (b, s)), L)], attrs, 1
    return [x, d.near((b, s, part // 2)), d.near((b, s, part // 2))], attrs, 1


@gen("SoftmaxCrossEntropyLoss NegativeLogLikelihoodLoss")
def loss(d):
    n, c, rest = d.int(1, 3), d.int(1, 5), d.shape(0, 2, empty=False)
    labels = np.asarray(d.r.integers(0, c, (n,) + rest)).astype(d.type("Tind"))
    attrs = {"reduction": d.pick("none", "mean", "sum")}
    if d.chance(0.4):
        attrs["ignore_index"] = d.int(-1, c - 1)
        labels = np.where(d.r.random(labels.shape) < 0.2, attrs["ignore_index"], labels).astype(labels.dtype)
    ins = [d.near((n, c) + rest), labels] + ([d.positive((c,))] if d.chance(0.5) else [])
    return ins, attrs, d.int(1, 2) if d.op == "SoftmaxCrossEntropyLoss" else 1


# ---- quantized operators ----


def zero_of(d, t):
    """A zero point of a type: 0 for floats."""
    if is_float(t):
        return np.zeros((), t)
    lo, hi = SMALL_INTS.get(np.dtype(t)) or ((0, 256) if np.dtype(t) == U8 else (-128, 128))
    return np.asarray(d.r.integers(lo, hi)).astype(t)


@gen("QuantizeLinear", t="T2")
def quantize(d):
    """Of the result's type: T2 before operator set 23, T3 from then on."""
    return quantized(d, d.t)


def quantized(d, to):
    s = d.shape(1, 4, most=33)
    x_type = d.type("T1", F, H, BF) if d.v >= 19 else d.type("T1", F, I)
    axis, scale_shape, attrs = granularity(d, s)
    scale = np.asarray(d.pick(0.02, 0.05, 0.5) * d.r.uniform(0.5, 2, scale_shape)).astype(F if x_type == I else x_type)
    zero = np.broadcast_to(zero_of(d, to), scale_shape).copy() if d.chance(0.8) else None
    if zero is None:
        if d.v < 21 and to != np.dtype(U8):
            zero = np.zeros(scale_shape, to)
        elif d.v >= 21:
            attrs["output_dtype"] = int(proto_type(to))
    if d.v >= 19 and np.dtype(to).name.startswith("float8"):
        attrs |= d.maybe({"saturate": d.flag()})
    x = d.array(s, x_type, special=False) if x_type != I else np.asarray(d.r.integers(-50, 50, s), I)
    ins = [x, scale] + ([zero] if zero is not None else [])
    return ins, attrs, 1


def granularity(d, s):
    """One scale, one per index of an axis, or one per block of an axis."""
    kind = d.pick("tensor", "axis" if d.v >= 13 and 0 not in s else "tensor", "block" if d.v >= 21 and 0 not in s else "tensor")
    if kind == "tensor":
        return 0, (), {}
    a = d.axis(len(s))
    if kind == "axis":
        return a, (s[a],), {"axis": a}
    size = d.int(1, s[a])
    blocks = list(s)
    blocks[a] = -(-s[a] // size)
    return a, tuple(blocks), {"axis": a, "block_size": size}


@gen("DequantizeLinear", t="T1")
def dequantize(d):
    s = d.shape(1, 4, most=33)
    to = d.type("T2", F, H, BF) if d.v >= 19 else np.dtype(F)
    axis, scale_shape, attrs = granularity(d, s)
    scale = np.asarray(d.pick(0.02, 0.5) * d.r.uniform(0.5, 2, scale_shape)).astype(to)
    ins = [d.array(s, full=d.t != I, special=False), scale]
    if d.chance(0.7) and d.t != I:
        ins.append(np.broadcast_to(zero_of(d, d.t), scale_shape).copy())
    return ins, attrs, 1


@gen("DynamicQuantizeLinear", t="")
def dynamic_quantize(d):
    x = d.near(d.shape(0, 3, empty=False), F, 3)
    if d.chance(0.3):
        x = np.abs(x) * d.pick(1, -1)
    return [x.astype(F)], {}, 3


@gen("MatMulInteger", t="T1")
def matmul_integer(d):
    t2 = d.type("T2")
    batch, m, k, n = d.shape(0, 2, empty=False, most=3), int(d.pick(1, 3, 9)), int(d.pick(1, 4, 17, 40)), int(d.pick(1, 2, 17))
    a, b = d.array(batch + (m, k), full=True), d.array(d.partner(batch) + (k, n), t2)
    a, b = np.asarray(d.r.integers(0, 256, a.shape)).astype(U8).view(d.t), np.asarray(d.r.integers(0, 256, b.shape)).astype(U8).view(t2)
    za = d.pick(None, zero_of(d, d.t))
    zb = d.pick(None, zero_of(d, t2), np.asarray(d.r.integers(0, 256, n)).astype(U8).view(t2) if b.ndim == 2 else zero_of(d, t2))
    return [a, b] + ([za, zb] if zb is not None else [za] if za is not None else []), {}, 1


@gen("QLinearMatMul", t="T1")
def qlinear_matmul(d):
    t2 = d.type("T2", I8, U8)
    t3 = d.type("T3", d.t)
    m, k, n, batch = d.int(1, 4), int(d.pick(1, 4, 17)), int(d.pick(1, 3, 18)), d.shape(0, 1, empty=False, most=3)
    a, b = d.array(batch + (m, k)), d.array(batch + (k, n), t2)
    ts = d.type("TS", F) if d.v >= 21 else F
    one = lambda lo: np.asarray(d.r.uniform(lo, 2 * lo)).astype(ts)
    return [a, one(0.02), zero_of(d, d.t), b, one(0.03), zero_of(d, t2), one(0.1 * k), zero_of(d, t3)], {}, 1


@gen("ConvInteger", t="T1")
def conv_integer(d):
    n, g, r, c, o, k = conv_shapes(d)
    t2 = d.type("T2")
    attrs, size = spatial(d, r, k, (3, 5, 6))
    x = np.asarray(d.r.integers(0, 256, (n, c) + size)).astype(U8).view(d.t)
    w = np.asarray(d.r.integers(0, 256, (o, c // g) + tuple(k))).astype(U8).view(t2)
    zw = d.pick(zero_of(d, t2), np.asarray(d.r.integers(0, 256, o)).astype(U8).view(t2))
    more = d.pick([], [zero_of(d, d.t)], [zero_of(d, d.t), zw])
    return [x, w] + more, {"group": g} | attrs, 1


@gen("QLinearConv", t="T1")
def qlinear_conv(d, domain=""):
    n, g, r, c, o, k = conv_shapes(d)
    t2 = d.type("T2")
    attrs, size = spatial(d, r, k, (3, 5, 6))
    x = np.asarray(d.r.integers(0, 256, (n, c) + size)).astype(U8).view(d.t)
    w = np.asarray(d.r.integers(0, 256, (o, c // g) + tuple(k))).astype(U8).view(t2)
    per = d.chance(0.4)
    ws = np.asarray(d.r.uniform(0.01, 0.03, o if per else ())).astype(F)
    wz = np.broadcast_to(zero_of(d, t2), o).copy() if per else zero_of(d, t2)
    ys = np.asarray(d.r.uniform(0.1, 0.4) * (c // g) * np.prod(k) ** 0.5, F)
    ins = [x, np.asarray(0.02, F), zero_of(d, d.t), w, ws, wz, ys, zero_of(d, d.t)]
    if d.chance(0.5):
        ins.append(np.asarray(d.r.integers(-2000, 2000, o), I))
    return ins, {"group": g} | attrs, 1
