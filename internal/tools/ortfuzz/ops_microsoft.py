"""Generators: the com.microsoft domain."""

import numpy as np

import ops_nn
from draw import B, D, F, GENERATORS, H, I, I8, L, S, U8, gen, is_float

MS = "com.microsoft"
CLOSE = {"rtol": 1e-3, "atol": 1e-4}


def u8(d, shape, t=U8):
    """Bytes of every value."""
    return np.asarray(d.r.integers(0, 256, shape)).astype(U8).view(t)


def one(d, lo=0.01, hi=0.1):
    return np.asarray(d.r.uniform(lo, hi), F)


@gen("Gelu QuickGelu", domain=MS)
def gelu(d):
    return [d.near(d.shape(most=70), scale=2)], d.maybe({"alpha": 0.7}) if d.op == "QuickGelu" else {}, 1, CLOSE


@gen("BiasGelu FastGelu", domain=MS)
def bias_gelu(d):
    s = d.shape(1, 3, most=33)
    return [d.near(s)] + ([d.near(s[-1:])] if d.op == "BiasGelu" or d.chance(0.5) else []), {}, 1, CLOSE


@gen("FusedMatMul TransposeMatMul", domain=MS)
def fused_matmul(d):
    m, k, n = (int(d.pick(1, 2, 5, 17)) for _ in range(3))
    ta, tb, batch = d.flag(), d.flag(), d.shape(0, 2, empty=False, most=3)
    a, b = batch + ((k, m) if ta else (m, k)), batch + ((n, k) if tb else (k, n))
    if d.chance(0.3):
        b = b[-2:]
    return [d.near(a), d.near(b)], d.maybe({"alpha": 0.5}) | {"transA": ta, "transB": tb}, 1, CLOSE


@gen("FusedGemm", domain=MS)
def fused_gemm(d):
    ins, attrs, _ = ops_nn_gemm(d)
    act = d.pick("Relu", "Tanh", "Sigmoid", "LeakyRelu", "HardSigmoid", "Elu")
    return ins, attrs | {"activation": act} | ({"activation_alpha": 0.3, "activation_beta": 0.4} if act in ("LeakyRelu", "HardSigmoid", "Elu") else {}), 1, CLOSE


def ops_nn_gemm(d):
    m, k, n = (int(d.pick(1, 2, 5, 9, 33)) for _ in range(3))
    ta, tb = d.flag(), d.flag()
    ins = [d.near((k, m) if ta else (m, k)), d.near((n, k) if tb else (k, n))]
    if d.chance(0.7):
        ins.append(d.near(d.pick((m, n), (n,), (1, n), (m, 1), (1,), ())))
    return ins, {"transA": ta, "transB": tb} | d.maybe({"alpha": 0.5, "beta": 1.5}), 1


@gen("FusedConv", domain=MS)
def fused_conv(d):
    n, g, r, c, o, k = ops_nn.conv_shapes(d)
    attrs, size = ops_nn.spatial(d, r, k, (3, 5, 6))
    act, params = d.pick(("Relu", None), ("Tanh", None), ("Sigmoid", None), ("LeakyRelu", [0.2]), ("Clip", [-0.5, 0.7]), ("HardSigmoid", [0.3, 0.4]))
    ins = [d.near((n, c) + size), d.near((o, c // g, *k))] + ([d.near((o,))] if d.chance(0.6) else [])
    return ins, {"group": g, "activation": act} | attrs | ({"activation_params": params} if params else {}), 1, CLOSE


@gen("NhwcMaxPool", domain=MS)
def nhwc_pool(d):
    k = [d.int(1, 3) for _ in range(d.int(1, 3))]
    attrs, size = ops_nn.spatial(d, len(k), k, (3, 5, 6))
    return [u8(d, (d.int(1, 2),) + size + (d.int(1, 20),), d.t)], attrs | {"kernel_shape": k}, 1


@gen("SkipLayerNormalization SkipSimplifiedLayerNormalization", domain=MS)
def skip_norm(d):
    b, s, h = d.int(1, 3), d.int(1, 3), int(d.pick(1, 4, 16, 33))
    x = d.near((b, s, h))
    skip = d.near(d.pick((b, s, h), (1, s, h), (s, h)))
    ins = [x, skip, d.near((h,))]
    if d.op == "SkipLayerNormalization":
        ins.append(d.near((h,)) if d.chance(0.7) else None)
    ins.append(d.near((h,)) if d.chance(0.5) else None)
    while ins[-1] is None:
        ins.pop()
    return ins, d.maybe({"epsilon": 1e-3}), d.pick("1", "1001"), CLOSE if d.t in (F, D) else {}


@gen("EmbedLayerNormalization", t="T", domain=MS)
def embed(d):
    b, s, h = d.int(1, 3), d.int(1, 4), int(d.pick(1, 4, 16))
    segments = d.chance(0.6)
    ids = np.asarray(d.r.integers(0, 7, (b, s)), I)
    ins = [ids, np.asarray(d.r.integers(0, 2, (b, s)), I) if segments else None, d.near((7, h)), d.near((5, h)), d.near((2, h)) if segments else None, d.near((h,)), d.near((h,))]
    mask = d.chance(0.6)
    if mask:
        ins.append(np.asarray(np.arange(s) < d.r.integers(0, s + 1, (b, 1)), I))
    if d.chance(0.4):
        ins += [None] * (8 - len(ins)) + [np.asarray(d.r.integers(0, 5, (b, s)), I)]
    return ins, d.maybe({"epsilon": 1e-4}) | {"mask_index_type": d.flag() if mask else 0}, d.pick("11", "111"), CLOSE


@gen("Attention", domain=MS)
def attention(d):
    b, s, i, n, h = d.int(1, 2), d.int(1, 4), int(d.pick(1, 5, 8)), d.int(1, 3), int(d.pick(2, 4, 8))
    w, past = n * h, d.int(1, 3) if d.chance(0.3) else 0
    ins = [d.near((b, s, i)), d.near((i, 3 * w), scale=0.5), d.near((3 * w,), scale=0.2)]
    total = s + past
    masks = [None, np.asarray(d.r.integers(1, total + 1, b), I), (d.r.random((b, total)) < 0.7).astype(I), (d.r.random((b, s, total)) < 0.7).astype(I)]
    ins.append(d.pick(*masks))
    ins.append(d.near((2, b, n, past, h)) if past else None)
    ins.append(d.near((d.pick(1, b), d.pick(1, n), s, total)) if d.chance(0.3) else None)
    while ins[-1] is None:
        ins.pop()
    attrs = {"num_heads": n} | d.maybe({"scale": 0.3, "unidirectional": d.flag()} | ({"mask_filter_value": -5.0} if d.chance(0.3) else {}))
    return ins, attrs, 2 if past else d.int(1, 2), CLOSE


@gen("MultiHeadAttention", domain=MS)
def multi_head(d):
    b, s, n, h = d.int(1, 2), d.int(1, 4), d.int(1, 3), int(d.pick(2, 4, 8))
    cross, past = d.chance(0.5), d.int(1, 3) if d.chance(0.3) else 0
    k, v = d.int(1, 5) if cross and not past else s, int(d.pick(3, 4)) if not past and d.chance(0.3) else h
    ins = [d.near((b, s, n * h)), d.near((b, k, n * h)), d.near((b, k, n * v))]
    ins.append(d.near((2 * n * h + n * v,)) if d.chance(0.4) else None)
    total = k + past
    ins.append(d.pick(None, None, np.asarray(d.r.integers(1, total + 1, b), I), (d.r.random((b, total)) < 0.7).astype(I), (d.r.random((b, s, total)) < 0.7).astype(I)))
    ins.append(d.near((d.pick(1, b), d.pick(1, n), s, total)) if d.chance(0.3) else None)
    ins += [d.near((b, n, past, h)), d.near((b, n, past, h))] if past else []
    while ins[-1] is None:
        ins.pop()
    return ins, {"num_heads": n} | d.maybe({"scale": 0.3, "unidirectional": d.flag()}), 3 if past else d.pick(1, 3), CLOSE


@gen("GroupQueryAttention", domain=MS)
def group_query(d):
    b, k, g, h = d.int(1, 2), d.int(1, 2), d.int(1, 3), int(d.pick(8, 16))
    n, decode = k * g, d.chance(0.5)
    past, s = (d.int(1, 5), 1) if decode else (0, d.int(1, 5))
    if d.chance(0.2) and not decode:  # a later part of a prompt
        b, past, s = 1, d.int(1, 4), d.int(2, 3)
    total = past + s
    packed = d.chance(0.3)
    ins = [d.near((b, s, (n + 2 * k) * h)), None, None] if packed else [d.near((b, s, n * h)), d.near((b, s, k * h)), d.near((b, s, k * h))]
    ins += [d.near((b, k, past, h)), d.near((b, k, past, h)), np.full(b, total - 1, I), np.array(total, I)]
    attrs = {"num_heads": n, "kv_num_heads": k} | d.maybe({"scale": 0.2, "softcap": float(d.pick(0, 2.0))})
    if d.chance(0.4):
        angle = d.r.normal(size=(16, h // 2))
        ins += [np.cos(angle).astype(d.t), np.sin(angle).astype(d.t)]
        attrs |= {"do_rotary": 1} | d.maybe({"rotary_interleaved": d.flag()})
    if d.chance(0.3):
        attrs["local_window_size"] = d.int(1, 4)
    if d.chance(0.2):
        attrs["smooth_softmax"] = 1
    return ins, attrs, 3, CLOSE if d.t == F else {"rtol": 5e-3, "atol": 5e-3}


@gen("RotaryEmbedding", domain=MS)
def rotary(d):
    b, n, s, h = d.int(1, 2), d.int(1, 3), d.int(1, 4), int(d.pick(4, 8))
    part = h if d.chance(0.7) else 4
    x = d.near((b, s, n * h)) if d.chance(0.6) or part != h else d.near((b, n, s, h))
    ids = np.asarray(d.r.integers(0, 9, (b, s)), L) if d.chance(0.6) else np.array([d.int(0, 4)], L)
    attrs = d.maybe({"interleaved": d.flag()}) | ({"num_heads": n, "rotary_embedding_dim": part} if part != h else {})
    return [x, ids, d.near((9, part // 2)), d.near((9, part // 2))], attrs, 1, CLOSE if d.t == F else {}


@gen("QLinearAdd QLinearMul", domain=MS)
def qlinear_binary(d):
    s, p = d.pair(3)
    y = one(d) if d.op == "QLinearAdd" else one(d, 0.05, 0.3)
    return [u8(d, s, d.t), one(d), u8(d, (), d.t), u8(d, p, d.t), one(d), u8(d, (), d.t), y, u8(d, (), d.t)], {}, 1


@gen("QLinearLeakyRelu QLinearSigmoid", domain=MS)
def qlinear_unary(d):
    attrs = d.maybe({"alpha": 0.3}) if d.op == "QLinearLeakyRelu" else {}
    y = one(d, 0.004, 0.008) if d.op == "QLinearSigmoid" else one(d)
    return [u8(d, d.shape(0, 3, empty=False, most=70), d.t), one(d), u8(d, (), d.t), y, u8(d, (), d.t)], attrs, 1, {"const": [1, 2, 3, 4]}


@gen("QLinearSoftmax", domain=MS)
def qlinear_softmax(d):
    s = d.shape(1, 3, empty=False, most=33)
    zero = np.array(0 if d.t == U8 else -128, d.t)
    return [u8(d, s, d.t), one(d), u8(d, (), d.t), np.array(1 / 256, F), zero], {"axis": d.axis(len(s)), "opset": d.pick(12, 13)}, 1, {"const": [1, 2, 3, 4]}


@gen("QLinearConcat", t="", domain=MS)
def qlinear_concat(d):
    s, t = d.shape(1, 3), np.dtype(d.pick(U8, I8))
    a, ins = d.axis(len(s)), [one(d), u8(d, (), t)]
    for _ in range(d.int(1, 3)):
        p = list(s)
        p[a] = d.int(1, 4)
        ins += [u8(d, tuple(p), t), one(d), u8(d, (), t)]
    return ins, {"axis": a}, 1


@gen("QLinearWhere", domain=MS)
def qlinear_where(d):
    s = d.shape(0, 3, empty=False)
    return [d.array(d.partner(s), B), u8(d, s, d.t), one(d), u8(d, (), d.t), u8(d, d.partner(s), d.t), one(d), u8(d, (), d.t), one(d), u8(d, (), d.t)], {}, 1


@gen("QLinearAveragePool QLinearGlobalAveragePool", t="", domain=MS)
def qlinear_pool(d):
    last, t = d.flag(), np.dtype(d.pick(U8, I8))
    k = [d.int(1, 3), d.int(1, 3)]
    attrs, size = ops_nn.spatial(d, 2, k, (3, 5, 6), auto=False)
    attrs.pop("dilations")
    c = d.int(1, 20)
    s = (d.int(1, 2),) + (size + (c,) if last else (c,) + size)
    if d.op == "QLinearAveragePool":
        attrs |= {"kernel_shape": k} | d.maybe({"count_include_pad": d.flag(), "ceil_mode": d.flag()})
    else:
        attrs = {}
    return [u8(d, s, t), one(d), u8(d, (), t), one(d), u8(d, (), t)], attrs | {"channels_last": last}, 1


@gen("QLinearConv", t="T1", domain=MS)
def qlinear_conv(d):
    ins, attrs, outs = ops_nn.qlinear_conv(d)
    if d.chance(0.5):
        return ins, attrs, outs
    ins[0] = np.moveaxis(ins[0], 1, -1).copy()
    return ins, attrs | {"channels_last": 1}, outs, {"const": [3, 4, 5]}


@gen("QGemm", t="TA", domain=MS)
def qgemm(d):
    m, k, n = (int(d.pick(1, 4, 9)) for _ in range(3))
    ta, tb, per = d.flag(), d.flag(), d.chance(0.4)
    t = I8 if d.t == I8 else d.pick(U8, I8)
    ins = [u8(d, (k, m) if ta else (m, k), d.t), one(d), u8(d, (), d.t), u8(d, (n, k) if tb else (k, n), t),
           np.asarray(d.r.uniform(0.01, 0.05, n if per else ()), F), u8(d, n if per else (), t)]
    ins.append(np.asarray(d.r.integers(-99, 99, d.pick((n,), (m, n), (1, n), (m, 1), ())), I) if d.chance(0.6) else None)
    ins += [one(d, 0.5, 1), u8(d, (), d.t)] if d.chance(0.6) else []
    while ins[-1] is None:
        ins.pop()
    return ins, {"transA": ta, "transB": tb} | d.maybe({"alpha": 0.5}), 1


@gen("DynamicQuantizeMatMul", t="T2", domain=MS)
def dynamic_matmul(d):
    m, k, n, per = int(d.pick(1, 3)), int(d.pick(1, 4, 17)), int(d.pick(1, 5, 18)), d.chance(0.4)
    ins = [d.near(d.shape(0, 1, empty=False, most=3) + (m, k), F), u8(d, (k, n), d.t), np.asarray(d.r.uniform(0.01, 0.05, n if per else ()), F), u8(d, n if per else (), d.t)]
    return ins + ([d.near((n,), F)] if d.chance(0.5) else []), {}, 1, CLOSE


@gen("MatMulIntegerToFloat", t="T1", domain=MS)
def integer_to_float(d):
    t = I8 if d.t == I8 else d.pick(U8, I8)
    m, k, n, per = int(d.pick(1, 3)), int(d.pick(1, 4, 17)), int(d.pick(1, 5, 18)), d.chance(0.4)
    ins = [u8(d, d.shape(0, 1, empty=False, most=3) + (m, k), d.t), u8(d, (k, n), t), one(d), np.asarray(d.r.uniform(0.01, 0.05, n if per else ()), F)]
    ins += [d.pick(None, u8(d, (), d.t)), d.pick(None, u8(d, n if per else (), t)), d.pick(None, d.near((n,), F))]
    while ins[-1] is None:
        ins.pop()
    return ins, {}, 1, CLOSE


@gen("MatMulInteger16", t="T1", domain=MS)
def integer16(d):
    m, k, n = d.int(1, 4), d.int(1, 9), d.int(1, 4)
    return [np.asarray(d.r.integers(-2**15, 2**15, s), np.int16) for s in ((m, k), (k, n))], {}, 1


@gen("MatMulNBits", t="T1", domain=MS)
def nbits(d):
    bits, block, k, n = int(d.pick(2, 4, 4, 8)), int(d.pick(16, 32, 64)), int(d.pick(5, 32, 40, 70)), int(d.pick(1, 3, 17))
    blocks = -(-k // block)
    ins = [d.near(d.shape(0, 1, empty=False, most=3) + (int(d.pick(1, 4)), k)), u8(d, (n, blocks, block * bits // 8)), d.positive((n, blocks), lo=0.01, hi=0.1)]
    zeros = d.pick(None, u8(d, (n, (blocks * bits + 7) // 8)), d.positive((n, blocks), lo=0, hi=5))
    if bits == 8 and zeros is not None and zeros.dtype != U8:
        zeros = None
    ins += [zeros, None, d.near((n,)) if d.chance(0.4) else None]
    while ins[-1] is None:
        ins.pop()
    return ins, {"K": k, "N": n, "bits": bits, "block_size": block}, 1, {"const": [1, 2, 3, 5], "rtol": 1e-3, "atol": 1e-3 if d.t == F else 5e-2}


@gen("MatMulBnb4", t="T1", domain=MS)
def bnb4(d):
    block, k, n = 16, int(d.pick(16, 32, 48)), int(d.pick(1, 3, 8))
    count = k * n
    return ([d.near((int(d.pick(1, 4)), k)), u8(d, (-(-count // 2),)), d.positive((-(-count // block),), lo=0.1, hi=2)],
            {"K": k, "N": n, "block_size": block, "quant_type": d.flag()}, 1, {"const": [1, 2]} | CLOSE)


@gen("GatherBlockQuantized", t="T1", domain=MS)
def gather_blocks(d):
    bits, t2 = int(d.pick(2, 4, 8)), d.type("T2", F, H)
    packed = d.t == U8
    cols = int(d.pick(16, 32, 40))
    idx = np.asarray(d.r.integers(-6, 6, d.shape(0, 2))).astype(d.type("Tind", I, L))
    data = u8(d, (6, cols * bits // 8)) if packed else d.array((6, cols), special=False)
    if not packed and is_float(d.t):
        return None
    ins = [data, idx, d.positive((6, -(-cols // 16)), t2, 0.05, 1)]
    if d.chance(0.5):
        zeros = -(-cols // 16)
        ins.append(u8(d, (6, -(-zeros * bits // 8))) if packed else d.array((6, zeros), special=False))
    return ins, {"block_size": 16, "gather_axis": 0, "quantize_axis": 1} | ({"bits": bits} if packed else {}), 1, {"const": [0, 2, 3]}


@gen("QuantizeLinear", t="T2", domain=MS)
def quantize(d):
    d.opset, d.v = 1, 13  # one scale, or one per index of an axis
    s = d.shape(1, 3)
    if d.chance(0.5) or 0 in s:
        return [d.near(s, F, 3), np.array(0.05, F), ops_nn_zero(d)], {}, 1
    a = d.axis(len(s))
    return [d.near(s, F, 3), d.positive((s[a],), F, 0.02, 0.1), np.broadcast_to(ops_nn_zero(d), s[a]).copy()], {"axis": a}, 1


def ops_nn_zero(d):
    if d.t in (np.dtype(U8), np.dtype(I8)) or d.t.name in ("int4", "uint4", "int2", "uint2") or is_float(d.t):
        return ops_nn.zero_of(d, d.t)
    return np.asarray(d.r.integers(0, 1000)).astype(d.t)


@gen("DequantizeLinear", t="T1", domain=MS)
def dequantize(d):
    s = d.shape(1, 3)
    x = d.array(s, special=False, full=d.t != I)
    zero = lambda shape: np.broadcast_to(ops_nn_zero(d), shape).copy() if d.t != I else np.zeros(shape, I)
    if d.chance(0.5) or 0 in s:
        return [x, np.array(0.05, F), zero(())], {}, 1
    a = d.axis(len(s))
    return [x, d.positive((s[a],), F, 0.02, 0.1), zero((s[a],))], {"axis": a}, 1


@gen("QAttention", t="T2", domain=MS)
def qattention(d):
    b, s, i, n, h, per = d.int(1, 2), d.int(1, 3), int(d.pick(4, 5)), d.int(1, 2), 4, d.chance(0.4)
    w = n * h
    ins = [u8(d, (b, s, i)), u8(d, (i, 3 * w), d.t), d.near((3 * w,), F, 0.2), one(d, 0.01, 0.02), np.asarray(d.r.uniform(0.005, 0.01, 3 * w if per else ()), F)]
    ins += [d.pick(None, np.asarray(d.r.integers(1, s + 1, b), I)), u8(d, ()), u8(d, 3 * w if per else (), d.t)]
    return ins, {"num_heads": n} | d.maybe({"unidirectional": d.flag()}), 1, CLOSE


@gen("DynamicQuantizeLSTM", t="T2", domain=MS)
def quantized_lstm(d):
    w, h, dirs, per = int(d.pick(1, 5)), int(d.pick(1, 3)), d.int(1, 2), d.chance(0.5)
    scale = lambda: d.positive((dirs, 4 * h) if per else (dirs,), F, 0.01, 0.02)
    zero = lambda: np.broadcast_to(u8(d, (), d.t), (dirs, 4 * h) if per else (dirs,)).copy() if d.t == U8 else np.zeros((dirs, 4 * h) if per else (dirs,), d.t)
    ins = [d.near((d.int(1, 4), 1, w), F), u8(d, (dirs, w, 4 * h), d.t), u8(d, (dirs, h, 4 * h), d.t), d.pick(None, d.near((dirs, 8 * h), F)), None,
           d.pick(None, d.near((dirs, 1, h), F)), d.pick(None, d.near((dirs, 1, h), F)), None, scale(), zero(), scale(), zero()]
    return ins, {"direction": "bidirectional" if dirs == 2 else d.pick("forward", "reverse"), "hidden_size": h}, 3, {"const": [1, 2, 8, 9, 10, 11], "rtol": 1e-3, "atol": 1e-3}


@gen("Trilu", domain=MS)
def trilu(d):
    return [d.array(d.shape(2, 3))] + ([np.array(d.int(-4, 4), L)] if d.chance(0.7) else []), d.maybe({"upper": d.flag()}), 1


@gen("Pad", domain=MS)
def pad(d):
    s, mode = d.shape(1, 3, empty=False), d.pick("constant", "reflect", "edge")
    pads = [d.int(0, max(0, min(s) - 1) if mode == "reflect" else 3) for _ in range(2 * len(s))]
    return [d.near(s), d.ints(*pads)] + ([np.array([0.5], F)] if mode == "constant" else []), {"mode": mode}, 1


@gen("Range", domain=MS)
def count(d):
    lo, step = d.int(-3, 3), d.int(1, 3)
    ins = [np.array(v).astype(d.t) for v in (lo, lo + d.int(0, 7), step)]
    return ins[:d.int(2, 3)], {}, 1


@gen("ExpandDims", domain=MS)
def expand_dims(d):
    s = d.shape(0, 3)
    return [d.array(s), np.array(d.int(-len(s) - 1, len(s)), I)], {}, 1


@gen("GatherND", domain=MS)
def gather_nd(d):
    s = d.shape(2, 3, empty=False)
    k = d.int(1, len(s))
    idx = np.stack([np.asarray(d.r.integers(0, n, (d.int(1, 3),) if False else (2,))) for n in s[:k]], -1)
    return [d.array(s), idx.astype(d.type("Tind"))], {}, 1


@gen("Unique", domain=MS)
def unique(d):
    return [np.asarray(d.r.integers(0, 4, d.int(1, 9))).astype(d.t)], {}, 3


@gen("Inverse", domain=MS)
def inverse(d):
    n = d.int(1, 5)
    return [(d.r.normal(size=d.shape(0, 2, empty=False, most=3) + (n, n)) + 3 * np.eye(n)).astype(d.t)], {}, 1, {"rtol": 1e-2, "atol": 1e-2} if d.t == H else {"rtol": 1e-3, "atol": 1e-4}


@gen("CDist", domain=MS)
def distances(d):
    k = int(d.pick(1, 4, 17))
    return [d.near((d.int(1, 5), k)), d.near((d.int(1, 5), k))], {"metric": d.pick("euclidean", "sqeuclidean")}, 1, CLOSE


@gen("GridSample", t="T1", domain=MS)
def grid_sample(d):
    s = (d.int(1, 2), d.int(1, 3), d.int(1, 5), d.int(1, 5))
    return [d.near(s), np.asarray(d.r.uniform(-1.4, 1.4, (s[0], d.int(1, 4), d.int(1, 4), 2)), F)], {"mode": d.pick("bilinear", "nearest", "bicubic"), "padding_mode": d.pick("zeros", "border", "reflection"), "align_corners": d.flag()}, 1, CLOSE
