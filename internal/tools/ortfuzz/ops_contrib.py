"""Generators: the com.microsoft domain's operators of recurrent models, of mixtures of
experts, on tokens and on boxes, and the experimental operators of the first operator sets."""

import numpy as np

from draw import F, I, L, U8, gen
from ops_microsoft import CLOSE, MS, one, u8


def loose(d):
    return CLOSE if d.t == F else {}


@gen("SimplifiedLayerNormalization")
def simplified(d):
    s = d.shape(1, 4, empty=False, most=33)
    axis = d.int(-len(s), len(s) - 1)
    return [d.near(s), d.near(s[axis:])], {"axis": axis} | d.maybe({"epsilon": 1e-3}), d.int(1, 2), loose(d) | {"kinds": {1: 1}}


@gen("QEmbedLayerNormalization", domain=MS)
def q_embed(d):
    b, s, h = d.int(1, 3), d.int(1, 4), int(d.pick(1, 4, 16))
    segments, mask = d.chance(0.6), d.chance(0.5)
    t = d.pick(U8, np.int8)
    byte = lambda *shape: u8(d, shape, t)
    ids = lambda most: np.asarray(d.r.integers(0, most, (b, s)), I)
    ins = [ids(7), ids(2) if segments else None, byte(7, h), byte(5, h), byte(2, h) if segments else None, byte(h), byte(h)]
    ins.append(np.asarray(np.arange(s) < d.r.integers(0, s + 1, (b, 1)), I) if mask else None)
    scales, zeros = [one(d) for _ in range(5)], [np.asarray(d.r.integers(0, 9), t) for _ in range(5)]
    if not segments:
        scales[2] = zeros[2] = None
    return ins + scales + zeros, d.maybe({"epsilon": 1e-3}), 2, CLOSE


@gen("GatedAdd", domain=MS)
def gated_add(d):
    s = d.shape(1, 4, empty=False, most=33)
    return [d.near(s), d.near(s), d.near(s[:-1] + (1,))], {}, 1


@gen("ScaledSiLU", domain=MS)
def scaled_silu(d):
    ins = [d.near(d.shape(empty=False, most=70), scale=3)]
    if d.chance(0.5):
        ins.append(np.asarray(1.25, F))
    return ins, d.maybe({"alpha": 0.75}), 1


@gen("GatedRMSNorm", domain=MS)
def gated_norm(d):
    c, s = int(d.pick(1, 4, 16, 33)), d.shape(0, 2, empty=False)
    s += (c * d.int(1, 3),)
    return [d.near(s), d.near((c,)), d.near(s)], d.maybe({"activation": d.pick("silu", "swish", "sigmoid"), "epsilon": 1e-3}), 1, loose(d)


def grouped(d):
    """The shape of streams, the outer dimensions, branches, width, and the attribute."""
    outer, c, h = d.shape(0, 2, empty=False), d.int(1, 4), int(d.pick(2, 4, 17))
    return (outer + (c * h,), outer, c, h, {"num_branches": c}) if d.chance(0.5) else (outer + (c, h), outer, c, h, {})


@gen("BranchwiseRMSNorm", domain=MS)
def branch_norm(d):
    s, _, c, h, attrs = grouped(d)
    return [d.near(s)] + ([d.near(d.pick((h,), (c, h), (c * h,)))] if d.chance(0.6) else []), attrs | d.maybe({"epsilon": 1e-3}), 1, loose(d)


@gen("HyperConnectionPreMix HyperConnectionPostMix", domain=MS)
def hyper(d):
    s, outer, c, h, attrs = grouped(d)
    gate = d.near(outer + d.pick((c,), (c, 1), (c, h)))
    if d.op == "HyperConnectionPreMix":
        return [d.near(s), gate], attrs | d.maybe({"reduction_scale": 0.5}), 1, loose(d)
    return [d.near(s), d.near(outer + (h,)), gate] + ([d.near(outer + (c, c))] if d.chance(0.6) else []), attrs, 1, loose(d)


@gen("EngramGate", domain=MS)
def engram(d):
    b, s, m, h = d.int(1, 2), d.int(1, 3), d.int(1, 3), int(d.pick(2, 8, 17))
    ins = [d.near((b, s, m, h)), d.near((b, s, m, h)), d.near((b, s, h)), d.near((m, h)), d.near((m, h))]
    both = d.chance(0.5)
    return ins + ([d.near((m, h))] if both else []), d.maybe({"epsilon": 1e-3}), 2 if both else 1, loose(d)


@gen("LinearAttentionGate", domain=MS)
def attention_gate(d):
    s = d.shape(3, 3, empty=False)
    both = d.chance(0.5)
    return [d.near(s), d.near(s[-1:], F), d.near(s[-1:], F)] + ([d.near(s)] if both else []), {}, 2 if both else 1


@gen("LinearAttention", domain=MS)
def linear_attention(d):
    b, t, k, v = d.int(1, 2), d.int(1, 5), int(d.pick(2, 4, 8)), int(d.pick(1, 3, 8))
    hq, hk = d.pick((1, 1), (2, 2), (4, 2), (2, 4))
    rule = d.pick("linear", "gated", "delta", "gated_delta")
    near = lambda *s: d.near(s, scale=0.4)
    ins = [near(b, t, hq * k), near(b, t, hk * k), near(b, t, hk * v), near(b, hk, k, v) if d.chance(0.5) else None,
           -abs(near(b, t, d.pick(hk, hk * k))) if "gated" in rule else None, abs(near(b, t, d.pick(hk, 1))) if "delta" in rule else None]
    while ins[-1] is None:
        ins.pop()
    return ins, {"q_num_heads": hq, "kv_num_heads": hk, "update_rule": rule} | d.maybe({"scale": 0.3}), 2, CLOSE


@gen("CausalConvWithState", domain=MS)
def causal_conv(d):
    b, c, n, k, wide = d.int(1, 2), int(d.pick(2, 4, 6)), d.int(1, 7), d.int(2, 4), d.int(1, 3)
    last = d.pick(None, (c,), (2, c // 2))
    shape = lambda n: (b, n) + last if last else (b, c, n)
    ins = [d.near(shape(n)), d.near((c, 1, k)), d.near((c,)) if d.chance(0.6) else None, d.near(shape((k - 1) * wide)) if d.chance(0.6) else None]
    while ins[-1] is None:
        ins.pop()
    return ins, {"dilation": wide, "channels_last": int(bool(last))} | d.maybe({"activation": d.pick("silu", "swish", "none")}), 2, CLOSE


@gen("MRotaryEmbedding", domain=MS)
def three_way(d):
    b, n, s, half = d.int(1, 2), d.int(1, 3), d.int(1, 4), int(d.pick(2, 4, 8))
    first, second = sorted((d.int(0, half), d.int(0, half)))
    attrs = {"mrope_section": [first, second - first, half - second], "mrope_layout": d.flag(), "interleaved": d.flag(), "num_heads": n}
    return [d.near((b, s, n * 2 * half)), np.asarray(d.r.integers(0, 9, (3, b, s)), L), d.near((9, half)), d.near((9, half))], attrs, 1, loose(d)


@gen("MoE", domain=MS)
def experts(d):
    n, e, h, i = d.int(1, 5), d.int(1, 5), int(d.pick(2, 8, 16)), int(d.pick(1, 4, 16))
    act = d.pick("relu", "gelu", "silu", "identity", "swiglu")
    wide = 2 * i if act == "swiglu" else i
    near = lambda *s: d.near(s, scale=0.4)
    bias = d.chance(0.5)
    ins = [d.near((n, h)), d.near((n, e)), near(e, wide, h), near(e, wide) if bias else None, near(e, h, i)] + ([near(e, h)] if bias else [])
    attrs = {"k": d.int(1, e), "activation_type": act, "normalize_routing_weights": d.flag()}
    if act == "swiglu":
        attrs |= {"swiglu_fusion": 1} | d.maybe({"activation_alpha": 1.702, "activation_beta": 1.0, "swiglu_limit": 0.8})
    return ins, attrs, 1, CLOSE


@gen("NGramRepeatBlock", domain=MS)
def repeats(d):
    b, s, v = d.int(1, 3), d.int(1, 9), d.int(3, 7)
    return [np.asarray(d.r.integers(0, 3, (b, s)), L), d.near((b, v), F)], {"ngram_size": d.int(1, 4)}, 1


@gen("NGramHashMapping", t="M", domain=MS)
def hashes(d):
    b, s, most, heads = d.int(1, 3), d.int(1, 6), d.int(2, 4), d.int(1, 3)
    ints = lambda lo, hi, *shape: np.asarray(d.r.integers(lo, hi, shape), d.t)
    high = d.pick(4, 1 << 30)
    ins = [ints(0, high, b, s), ints(-1 << 30, 1 << 30, most), ints(1, 1 << 20, (most - 1) * heads), ints(0, high, b, most - 1) if d.chance(0.5) else None,
           ints(0, 1 << 20, (most - 1) * heads) if d.chance(0.5) else None, np.asarray(2, d.t) if d.chance(0.5) else None,
           np.asarray(np.sort(d.r.integers(0, 3, (b, s)), axis=1), I) if d.chance(0.5) else None]
    while ins[-1] is None:
        ins.pop()
    return ins, {"max_ngram_size": most, "n_head_per_ngram": heads, "pad_id": 1, "reset_on_eos": d.flag()}, 2


@gen("MurmurHash3", t="T1", domain=MS)
def murmur(d):
    positive = d.flag()
    return [d.array(d.shape(empty=False))], {"positive": positive, "seed": d.int(0, 9)}, 1, {"kinds": {0: 12 if positive else 6}}


@gen("CropAndResize", t="T1", domain=MS)
def crops(d):
    n, c, h, w, r = d.int(1, 3), d.int(1, 3), d.int(1, 6), d.int(1, 6), d.int(1, 4)
    corners = np.sort(d.r.uniform(-0.2, 1.2, (r, 2, 2)), axis=1).reshape(r, 4)
    return [d.near((n, c, h, w)), np.asarray(corners, F), np.asarray(d.r.integers(0, n, r), I), np.asarray([d.int(1, 5), d.int(1, 5)], I)], \
        d.maybe({"mode": d.pick("bilinear", "nearest"), "extrapolation_value": -1.5}), 1, CLOSE


@gen("UnfoldTensor", domain=MS)
def unfold(d):
    s = d.shape(1, 4, empty=False, most=17)
    axis = d.axis(len(s))
    return [d.array(s)], {"size": d.int(1, s[axis]), "step": d.int(1, 3), "dim": axis}, 1


@gen("DynamicTimeWarping", t="F", domain=MS)
def warping(d):
    s = (d.int(1, 9), d.int(1, 9))
    return [np.asarray(d.pick(d.near(s), d.r.integers(0, 3, s).astype(F)))], {}, 1, {"kinds": {0: 6}}


@gen("Affine ParametricSoftplus ScaledTanh")
def two_numbers(d):
    return [d.near(d.shape(empty=False, most=70))], {"alpha": 0.5, "beta": 1.5}, 1, CLOSE


@gen("Scale")
def scale(d):
    return [d.near(d.shape(empty=False, most=70))], d.maybe({"scale": 0.25}), 1


@gen("ImageScaler")
def image_scaler(d):
    s = d.shape(4, 4, empty=False)
    return [d.near(s)], {"bias": [float(v) for v in d.near((s[1],), F)]} | d.maybe({"scale": 0.25}), 1


@gen("DynamicSlice")
def dynamic_slice(d):
    s = d.shape(1, 3, empty=False)
    t = d.pick(I, L)
    return [d.array(s), np.asarray(d.r.integers(-3, 2, len(s)), t), np.asarray(d.r.integers(1, 9, len(s)), t), np.asarray(range(len(s)), t)], {}, 1
