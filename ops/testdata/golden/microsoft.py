"""Operators of the com.microsoft domain."""

import numpy as np

from golden import MS, source

f32 = np.float32


def cases(book):
    def ms(name, op, inputs, outputs=1, **kw):
        return book.add(name, op, inputs, outputs, domain=MS, **kw)

    activations(ms)
    products(ms)
    convolutions(ms)
    norms(ms, book)
    attention(ms)
    multi_head(ms)
    group_query(ms)
    rotary(ms)
    qlinear(ms)
    integers(ms)
    packed(ms)
    standard(ms)
    streams(ms)
    recurrent(ms)
    tokens(ms)
    pieces(ms)
    mixtures(ms)
    sparse(ms)
    one_query(ms)


def activations(ms):
    r = source(31)
    ms("Gelu", "Gelu", [r(3, 5, scale=2)])
    ms("BiasGelu", "BiasGelu", [r(2, 3, 4), r(4)])
    ms("FastGelu", "FastGelu", [r(2, 3, 4)])
    ms("FastGelu_bias", "FastGelu", [r(2, 3, 4), r(4)])
    ms("QuickGelu", "QuickGelu", [r(3, 5)])
    ms("QuickGelu_alpha", "QuickGelu", [r(3, 5)], alpha=0.7)


def products(ms):
    r = source(32)
    ms("FusedMatMul", "FusedMatMul", [r(2, 3, 4), r(4, 5)], alpha=0.5)
    ms("FusedMatMul_transA", "FusedMatMul", [r(2, 4, 3), r(2, 4, 5)], transA=1)
    ms("FusedMatMul_transB", "FusedMatMul", [r(2, 3, 4), r(5, 4)], transB=1, alpha=2.0)
    ms("FusedMatMul_both", "FusedMatMul", [r(4, 3), r(5, 4)], transA=1, transB=1)
    ms("FusedMatMul_batchA", "FusedMatMul", [r(3, 2, 4), r(2, 4, 5)], transBatchA=1)
    ms("FusedMatMul_batchB", "FusedMatMul", [r(2, 3, 4), r(5, 2, 4)], transBatchB=1, transB=1)
    ms("FusedMatMul_vector", "FusedMatMul", [r(4), r(4, 5)], transA=1)
    ms("TransposeMatMul", "TransposeMatMul", [r(2, 3, 4), r(5, 4)], transB=1, alpha=2.0)
    for act, attrs in (("Relu", {}), ("Tanh", {}), ("Sigmoid", {}), ("LeakyRelu", {"activation_alpha": 0.3}),
                       ("HardSigmoid", {"activation_alpha": 0.3, "activation_beta": 0.4}), ("Elu", {"activation_alpha": 0.7})):
        ms(f"FusedGemm_{act}", "FusedGemm", [r(3, 4), r(5, 4), r(5)], transB=1, alpha=0.5, beta=2.0, activation=act, **attrs)


def convolutions(ms):
    r = source(33)
    for act, params in (("Relu", None), ("Tanh", None), ("Sigmoid", None), ("LeakyRelu", [0.2]), ("Clip", [-0.5, 0.7]),
                        ("HardSigmoid", [0.3, 0.4])):
        extra = {"activation_params": params} if params else {}
        ms(f"FusedConv_{act}", "FusedConv", [r(1, 2, 4, 4), r(3, 2, 3, 3), r(3)], pads=[1, 1, 1, 1], activation=act, **extra)
    ms("FusedConv_sum", "FusedConv", [r(1, 2, 4, 4), r(3, 2, 3, 3), r(3), r(1, 3, 2, 2)], activation="Relu")
    ms("FusedConv_plain", "FusedConv", [r(1, 2, 4, 4), r(3, 2, 3, 3)])
    for dt in (np.int8, np.uint8):
        ms(f"NhwcMaxPool_{np.dtype(dt).name}", "NhwcMaxPool", [r.ints(np.iinfo(dt).min, np.iinfo(dt).max, 2, 5, 6, 3, dtype=dt)],
           kernel_shape=[3, 2], strides=[2, 2], pads=[1, 0, 1, 0])


def norms(ms, book):
    r = source(34)
    book.add("SimplifiedLayerNormalization", "SimplifiedLayerNormalization", [r(2, 3, 4), r(4)], 2, epsilon=1e-3)
    book.add("SimplifiedLayerNormalization_axis", "SimplifiedLayerNormalization", [r(2, 3, 4), r(3, 4)], 2, axis=1)
    wide = [source(50)(2, 3, 4, dtype=np.float64), source(51)(4, dtype=np.float64)]
    book.add("SimplifiedLayerNormalization_float64", "SimplifiedLayerNormalization", wide, 2)
    ms("SkipLayerNormalization", "SkipLayerNormalization", [r(2, 3, 4), r(2, 3, 4), r(4), r(4), r(4)], "1001", epsilon=1e-3)
    ms("SkipLayerNormalization_broadcast", "SkipLayerNormalization", [r(2, 3, 4), r(3, 4), r(4)], "1")
    ms("SkipLayerNormalization_broadcast1", "SkipLayerNormalization", [r(2, 3, 4), r(1, 3, 4), r(4), r(4)], "1")
    ms("SkipSimplifiedLayerNormalization", "SkipSimplifiedLayerNormalization", [r(2, 3, 4), r(2, 3, 4), r(4), r(4)], "1001", epsilon=1e-3)
    ids = [r.ints(0, 7, 2, 3, dtype=np.int32), r.ints(0, 2, 2, 3, dtype=np.int32)]
    tables = [r(7, 4), r(5, 4), r(2, 4), r(4), r(4)]
    mask = np.array([[1, 1, 0], [1, 0, 0]], np.int32)
    ms("EmbedLayerNormalization", "EmbedLayerNormalization", ids + tables + [mask], "111", epsilon=1e-4)
    ms("EmbedLayerNormalization_positions", "EmbedLayerNormalization", ids + tables + [None, np.array([[2, 0, 1], [1, 1, 4]], np.int32)], "11")
    ms("EmbedLayerNormalization_plain", "EmbedLayerNormalization", [ids[0], None] + tables[:2] + [None] + tables[3:], "11", mask_index_type=0)
    q = lambda *shape: r.ints(0, 255, *shape, dtype=np.uint8)
    scales = [np.array(v, f32) for v in (0.01, 0.02, 0.015, 0.01, 0.02)]
    zeros = [np.array(v, np.uint8) for v in (100, 120, 90, 3, 128)]
    ms("QEmbedLayerNormalization", "QEmbedLayerNormalization", ids + [q(7, 4), q(5, 4), q(2, 4), q(4), q(4), mask] + scales + zeros, 2, epsilon=1e-4)
    for mode in ("bilinear", "nearest", "bicubic"):
        ms(f"GridSample_{mode}", "GridSample", [r(1, 2, 4, 4), r(1, 3, 3, 2, scale=0.5)], mode=mode, padding_mode="border")


def attention(ms):
    r = source(35)
    B, S, I, N, H = 2, 3, 5, 2, 4
    W = N * H
    x, w, b = r(B, S, I), r(I, 3 * W, scale=0.5), r(3 * W, scale=0.2)
    past = r(2, B, N, 2, H)
    i32 = lambda *v: np.array(v, np.int32)
    ms("Attention", "Attention", [x, w, b], num_heads=N)
    ms("Attention_scale", "Attention", [x, w, b], num_heads=N, scale=0.3)
    ms("Attention_past", "Attention", [x, w, b, None, past], 2, num_heads=N)
    ms("Attention_present", "Attention", [x, w, b], 2, num_heads=N)
    for f in (-1.0, None):
        extra = {"num_heads": N}
        tag = ""
        if f:
            extra["mask_filter_value"], tag = f, "_filter"
        ms(f"Attention_ends{tag}", "Attention", [x, w, b, i32(2, 1)], **extra)
        ms(f"Attention_starts{tag}", "Attention", [x, w, b, i32(3, 2, 1, 0)], **extra)
        ms(f"Attention_keys{tag}", "Attention", [x, w, b, i32([1, 0, 1], [0, 0, 1])], **extra)
        ms(f"Attention_queries{tag}", "Attention", [x, w, b, r.ints(0, 2, B, S, S, dtype=np.int32)], **extra)
        ms(f"Attention_causal{tag}", "Attention", [x, w, b], unidirectional=1, **extra)
        ms(f"Attention_causal_keys{tag}", "Attention", [x, w, b, i32([1, 0, 1], [0, 0, 1])], unidirectional=1, **extra)
        ms(f"Attention_causal_queries{tag}", "Attention", [x, w, b, r.ints(0, 2, B, S, S, dtype=np.int32)], unidirectional=1, **extra)
        ms(f"Attention_causal_past{tag}", "Attention", [x, w, b, i32([1, 0, 1, 1, 1], [0, 0, 1, 1, 1]), past], 2, unidirectional=1, **extra)
    ms("Attention_bias", "Attention", [x, w, b, None, None, r(1, N, S, S)], num_heads=N)
    ms("Attention_sizes", "Attention", [x, r(I, 8 + 8 + 6), r(22)], num_heads=N, qkv_hidden_sizes=[8, 8, 6])
    for name, dx, dw in (("u8s8", np.uint8, np.int8), ("u8u8", np.uint8, np.uint8)):
        qx, qw = r.ints(0, 255, B, S, I, dtype=dx), r.ints(-100 if dw == np.int8 else 0, 100, I, 3 * W, dtype=dw)
        zw = np.array(3, dw)
        ms(f"QAttention_{name}", "QAttention", [qx, qw, b, np.array(0.02, f32), np.array(0.01, f32), i32(3, 2), np.array(120, dx), zw], num_heads=N)
        ms(f"QAttention_columns_{name}", "QAttention", [qx, qw, b, np.array(0.02, f32), abs(r(3 * W)) * f32(0.01), None, np.array(120, dx),
                                                      r.ints(0, 5, 3 * W, dtype=dw), past], 2, num_heads=N, unidirectional=1)


def multi_head(ms):
    r = source(36)
    B, S, L, N, H, V = 2, 3, 4, 2, 4, 3
    q, k, v = r(B, S, N * H), r(B, L, N * H), r(B, L, N * V)
    op = "MultiHeadAttention"
    ms("MHA", op, [q, k, v], num_heads=N)
    ms("MHA_bias", op, [q, k, v, r(2 * N * H + N * V)], num_heads=N, scale=0.4)
    ms("MHA_lens", op, [q, k, v, None, np.array([2, 4], np.int32)], num_heads=N)
    ms("MHA_mask", op, [q, k, v, None, r.ints(0, 2, B, L, dtype=np.int32)], num_heads=N, mask_filter_value=-1.5)
    ms("MHA_mask3", op, [q, k, v, None, r.ints(0, 2, B, S, L, dtype=np.int32)], num_heads=N, mask_filter_value=-1.5)
    ms("MHA_attention_bias", op, [q, k, v, None, None, r(B, 1, S, L)], num_heads=N)
    ms("MHA_cross", op, [q, r(B, N, L, H), r(B, N, L, H)], num_heads=N)
    s = r(B, S, N * H)
    past = [r(B, N, 2, H), r(B, N, 2, H)]
    ms("MHA_past", op, [q, s, r(B, S, N * H), None, None, None] + past, 3, num_heads=N)
    ms("MHA_causal_past", op, [q, s, r(B, S, N * H), None, None, None] + past, 3, num_heads=N, unidirectional=1)
    ms("MHA_causal", op, [q, s, r(B, S, N * H)], num_heads=N, unidirectional=1)
    ms("MHA_scores", op, [q, k, v], "1001", num_heads=N, typed={1: f32})
    ms("MHA_present", op, [q, s, r(B, S, N * H), r(3 * N * H)], 3, num_heads=N)


def group_query(ms):
    r = source(37)
    B, S, N, K, H, M = 2, 3, 4, 2, 16, 8
    op = "GroupQueryAttention"
    i32 = lambda *v: np.array(v, np.int32)
    angle = r(M, H // 2)
    cos, sin = np.cos(angle), np.sin(angle)
    base = {"num_heads": N, "kv_num_heads": K}

    def run(name, b, s, past, total, lens, extra=(), packed=False, outputs=3, **attrs):
        ins = [r(b, s, N * H), r(b, s, K * H), r(b, s, K * H)]
        if packed:
            ins = [r(b, s, (N + 2 * K) * H), None, None]
        ins += [r(b, K, past, H), r(b, K, past, H)]
        ins += [np.array(lens, np.int32), np.array(total, np.int32)] + [None] * 9
        for at, a in extra:
            ins[at] = a
        while ins[-1] is None:
            ins.pop()
        ms(f"GQA_{name}", op, ins, outputs, **{**base, **attrs})

    rope = [(7, cos), (8, sin)]
    run("prompt", B, S, 0, S, [S - 1] * B)
    run("prompt_padded", B, S, 0, S, [S - 1, S - 1], rope, do_rotary=1)
    run("prompt_packed", 1, S, 0, S, [S - 1], rope, packed=True, do_rotary=1)
    run("decode", B, 1, 4, 5, [4, 4])
    run("decode_ragged", B, 1, 4, 5, [4, 2], rope, unchecked=(1, 2), do_rotary=1)
    run("decode_interleaved", 1, 1, 4, 5, [4], rope, do_rotary=1, rotary_interleaved=1)
    run("chunk", 1, 3, 2, 5, [4], rope, do_rotary=1)
    run("window", 1, 5, 0, 5, [4], local_window_size=2)
    run("window_decode", 1, 1, 5, 6, [5], local_window_size=3)
    run("softcap", 1, 5, 0, 5, [4], softcap=2.0, scale=0.5)
    run("smooth", 1, 3, 0, 3, [2], smooth_softmax=1)
    run("sink", 1, 3, 0, 3, [2], [(11, r(N))])
    run("bias", 1, 3, 0, 3, [2], [(10, r(1, N, 3, 3))])
    run("positions", 1, 3, 0, 3, [2], rope + [(9, np.array([[0, 1, 2]]))], do_rotary=1)
    run("scores", 1, 3, 0, 3, [2], outputs=4, qk_output=1, softcap=1.5)
    run("probs", 1, 3, 0, 3, [2], outputs=4, qk_output=2)
    run("bidirectional", 1, 3, 0, 3, [2], causal=0)


def rotary(ms):
    r = source(38)
    cos, sin = r(9, 4), r(9, 4)
    op = "RotaryEmbedding"
    ids = r.ints(0, 9, 2, 3)
    ms("Rotary", op, [r(2, 3, 16), ids, cos, sin])
    ms("Rotary_interleaved", op, [r(2, 3, 16), ids, cos, sin], interleaved=1)
    ms("Rotary_start", op, [r(2, 3, 16), np.array([2]), cos, sin])
    ms("Rotary_4d", op, [r(2, 2, 3, 8), ids, cos, sin])
    ms("Rotary_partial", op, [r(2, 3, 24), ids, cos, sin], num_heads=2, rotary_embedding_dim=8)


def qlinear(ms):
    r = source(39)
    for dt in (np.uint8, np.int8):
        name, lo, hi = np.dtype(dt).name, np.iinfo(dt).min, np.iinfo(dt).max
        q = lambda *shape: r.ints(lo, hi + 1, *shape, dtype=dt)
        s, z = lambda v: np.array(v, f32), lambda v: np.array(v, dt)
        ms(f"QLinearAdd_{name}", "QLinearAdd", [q(2, 3, 4), s(0.05), z(9), q(3, 1), s(0.03), z(4), s(0.07), z(7)])
        ms(f"QLinearMul_{name}", "QLinearMul", [q(2, 3, 4), s(0.05), z(9), q(2, 3, 4), s(0.03), z(4), s(0.17), z(7)])
        ms(f"QLinearLeakyRelu_{name}", "QLinearLeakyRelu", [q(2, 9), s(0.05), z(50), s(0.03), z(4)], alpha=0.3)
        ms(f"QLinearSigmoid_{name}", "QLinearSigmoid", [q(2, 9), s(0.05), z(50), s(0.005), z(4)])
        ms(f"QLinearSoftmax_{name}", "QLinearSoftmax", [q(2, 3, 4), s(0.02), z(50), s(1 / 256), z(lo)], axis=1, more={"opset": 13})
        ms(f"QLinearSoftmax_old_{name}", "QLinearSoftmax", [q(2, 3, 4), s(0.02), z(50), s(1 / 256), z(lo)], axis=1, more={"opset": 12})
        ms(f"QLinearConcat_{name}", "QLinearConcat", [s(0.05), z(3), q(2, 1, 3), s(0.03), z(4), q(2, 2, 3), s(0.06), z(1)], axis=1)
        ms(f"QLinearWhere_{name}", "QLinearWhere", [r.ints(0, 2, 2, 3, dtype=bool), q(2, 3), s(0.05), z(3), q(3), s(0.04), z(2), s(0.06), z(1)])
        for last in (0, 1):
            shape = (2, 5, 5, 3) if last else (2, 3, 5, 5)
            ms(f"QLinearAveragePool_{last}_{name}", "QLinearAveragePool", [q(*shape), s(0.05), z(3), s(0.03), z(5)], channels_last=last,
               kernel_shape=[3, 2], strides=[2, 2], pads=[1, 0, 1, 0])
            ms(f"QLinearGlobalAveragePool_{last}_{name}", "QLinearGlobalAveragePool", [q(*shape), s(0.05), z(3), s(0.03), z(5)], channels_last=last)
    x = r.ints(0, 256, 1, 5, 5, 2, dtype=np.uint8)
    w = r.ints(-128, 128, 3, 2, 3, 3, dtype=np.int8)
    ms("QLinearConv_last", "QLinearConv", [x, np.array(0.05, f32), np.array(7, np.uint8), w, np.array(0.02, f32), np.array(0, np.int8),
                                          np.array(0.5, f32), np.array(9, np.uint8), r.ints(-99, 99, 3, dtype=np.int32)], channels_last=1,
       pads=[1, 1, 0, 0], const=(3, 4, 5))


def integers(ms):
    r = source(40)
    for a, b in ((np.uint8, np.int8), (np.uint8, np.uint8), (np.int8, np.int8)):
        names = np.dtype(a).name + np.dtype(b).name
        qa = r.ints(np.iinfo(a).min, np.iinfo(a).max, 2, 3, 4, dtype=a)
        qb = r.ints(np.iinfo(b).min, np.iinfo(b).max, 4, 5, dtype=b)
        zb = r.ints(0, 9, 5, dtype=b)
        if a == np.uint8:
            ms(f"DynamicQuantizeMatMul_{names}", "DynamicQuantizeMatMul", [r(2, 3, 4), qb, np.array(0.02, f32), np.array(3, b), r(5)])
            ms(f"DynamicQuantizeMatMul_columns_{names}", "DynamicQuantizeMatMul", [r(2, 3, 4), qb, abs(r(5)), zb])
        ms(f"MatMulIntegerToFloat_{names}", "MatMulIntegerToFloat", [qa, qb, np.array(0.02, f32), np.array(0.03, f32), np.array(3, a), np.array(2, b), r(5)])
        ms(f"MatMulIntegerToFloat_columns_{names}", "MatMulIntegerToFloat", [qa, qb, np.array(0.02, f32), abs(r(5)), None, zb])
        s = lambda v: np.array(v, f32)
        ms(f"QGemm_{names}", "QGemm", [qa[0].T.copy(), s(0.02), np.array(3, a), qb, s(0.03), np.array(2, b), r.ints(-99, 99, 5, dtype=np.int32)],
           transA=1, alpha=0.5)
        ms(f"QGemm_out_{names}", "QGemm", [qa[0], s(0.02), np.array(3, a), qb.T.copy(), abs(r(5)) * f32(0.1), zb, r.ints(-99, 99, 3, 1, dtype=np.int32),
                                         s(0.8), np.array(4, a)], transB=1)
    ms("MatMulInteger16", "MatMulInteger16", [r.ints(-2**15, 2**15, 3, 4, dtype=np.int16), r.ints(-2**15, 2**15, 4, 2, dtype=np.int16)])


def packed(ms):
    r = source(41)
    K, N, block = 40, 3, 16
    blocks = 3
    for bits in (2, 4, 8):
        data = r.ints(0, 256, N, blocks, block * bits // 8, dtype=np.uint8)
        base = {"K": K, "N": N, "bits": bits, "block_size": block}
        scales = abs(r(N, blocks)) * f32(0.1)
        ms(f"MatMulNBits_{bits}", "MatMulNBits", [r(2, 3, K), data, scales.astype(f32)], const=(1, 2), **base)
        zeros = r.ints(0, 256, N, (blocks * bits + 7) // 8, dtype=np.uint8)
        ms(f"MatMulNBits_zeros_{bits}", "MatMulNBits", [r(2, K), data, scales.astype(f32), zeros, None, r(N)], const=(1, 2, 3, 5), **base)
        if bits == 4:
            ms("MatMulNBits_floats_4", "MatMulNBits", [r(2, K), data, scales.astype(f32), abs(r(N, blocks)) * f32(4)], const=(1, 2, 3), **base)
    for kind in (0, 1):
        ms(f"MatMulBnb4_{kind}", "MatMulBnb4", [r(2, 32), r.ints(0, 256, 3 * 32 // 2, dtype=np.uint8), abs(r(3 * 32 // 16))], const=(1, 2),
           K=32, N=3, block_size=16, quant_type=kind)
    for bits in (4, 8):
        data = r.ints(0, 256, 6, 32 * bits // 8, dtype=np.uint8)
        idx = np.array([[0, 5], [2, -1]])
        ms(f"GatherBlockQuantized_{bits}", "GatherBlockQuantized", [data, idx, abs(r(6, 2))], const=(0, 2), bits=bits, block_size=16)
        ms(f"GatherBlockQuantized_zeros_{bits}", "GatherBlockQuantized", [data, idx, abs(r(6, 2)), r.ints(0, 256, 6, 2 * bits // 8, dtype=np.uint8)],
           const=(0, 2, 3), bits=bits, block_size=16)


def standard(ms):
    r = source(42)
    ms("QuantizeLinear", "QuantizeLinear", [r(3, 4, scale=9), np.array(0.1, f32), np.array(7, np.uint8)])
    ms("QuantizeLinear_axis", "QuantizeLinear", [r(3, 4, scale=9), abs(r(4)) + f32(0.1), r.ints(-9, 9, 4, dtype=np.int16)], axis=1)
    ms("DequantizeLinear", "DequantizeLinear", [r.ints(-99, 99, 3, 4, dtype=np.int16), np.array(0.1, f32), np.array(7, np.int16)])
    ms("DequantizeLinear_axis", "DequantizeLinear", [r.ints(-99, 99, 3, 4, dtype=np.int8), abs(r(3)), r.ints(-9, 9, 3, dtype=np.int8)], axis=0)
    for up in (0, 1):
        ms(f"Trilu_{up}", "Trilu", [r(2, 3, 4), np.array(1)], upper=up)
    for mode in ("constant", "reflect", "edge"):
        ms(f"Pad_{mode}", "Pad", [r(3, 4), np.array([0, 2, 1, 1])] + ([np.array([0.5], f32)] if mode == "constant" else []), mode=mode)
    ms("Range", "Range", [np.array(1, f32), np.array(5.5, f32), np.array(1.5, f32)])
    ms("Range_one", "Range", [np.array(3), np.array(7)])
    ms("GatherND", "GatherND", [r(2, 3, 4), np.array([[0, 1], [1, 2]])])
    ms("ExpandDims", "ExpandDims", [r(2, 3), np.array(-1, np.int32)])
    ms("Unique", "Unique", [np.array([2, 1, 1, 3, 4, 3], f32)], 3)
    ms("Inverse", "Inverse", [r(2, 3, 3) + np.eye(3, dtype=f32) * 3])
    for metric in ("sqeuclidean", "euclidean"):
        ms(f"CDist_{metric}", "CDist", [r(3, 4), r(5, 4)], metric=metric)
    W, H = 5, 3
    for name, cols in (("tensor", False), ("columns", True)):
        dirs = 2
        ws = abs(r(dirs, 4 * H)) * f32(0.01) + f32(0.01) if cols else abs(r(dirs)) * f32(0.01) + f32(0.01)
        wz = np.zeros(ws.shape, np.int8)
        ms(f"DynamicQuantizeLSTM_{name}", "DynamicQuantizeLSTM",
           [r(4, 1, W), r.ints(-99, 99, dirs, W, 4 * H, dtype=np.int8), r.ints(-99, 99, dirs, H, 4 * H, dtype=np.int8), r(dirs, 8 * H), None,
            r(dirs, 1, H), r(dirs, 1, H), r(dirs, 3 * H), ws, wz, ws, wz], 3, const=(1, 2, 8, 9, 10, 11), direction="bidirectional", hidden_size=H)


def streams(ms):
    r = source(43)
    f16 = np.float16
    for dt in (f32, f16):
        name = np.dtype(dt).name
        h = lambda *shape, **kw: r(*shape, dtype=dt, **kw)
        ms(f"GatedAdd_{name}", "GatedAdd", [h(2, 3, 4), h(2, 3, 4), h(2, 3, 1)])
        ms(f"ScaledSiLU_{name}", "ScaledSiLU", [h(3, 5, scale=3)], alpha=0.75)
        ms(f"ScaledSiLU_operand_{name}", "ScaledSiLU", [h(3, 5, scale=3), np.array(1.25, f32)], alpha=0.75)
        for act in ("silu", "swish", "sigmoid"):
            ms(f"GatedRMSNorm_{act}_{name}", "GatedRMSNorm", [h(2, 3, 8), h(4), h(2, 3, 8)], activation=act, epsilon=1e-3)
        ms(f"BranchwiseRMSNorm_{name}", "BranchwiseRMSNorm", [h(2, 3, 4)], epsilon=1e-3)
        ms(f"BranchwiseRMSNorm_flat_{name}", "BranchwiseRMSNorm", [h(2, 12), h(4)], num_branches=3)
        ms(f"BranchwiseRMSNorm_scales_{name}", "BranchwiseRMSNorm", [h(2, 3, 4), h(3, 4)])
        ms(f"EngramGate_{name}", "EngramGate", [h(1, 2, 3, 4), h(1, 2, 3, 4), h(1, 2, 4), h(3, 4), h(3, 4), h(3, 4)], 2)
        ms(f"EngramGate_one_{name}", "EngramGate", [h(1, 2, 3, 4), h(1, 2, 3, 4), h(1, 2, 4), h(3, 4), h(3, 4)])
        ms(f"LinearAttentionGate_{name}", "LinearAttentionGate", [h(2, 3, 4), r(4), r(4), h(2, 3, 4)], 2)
        ms(f"LinearAttentionGate_decay_{name}", "LinearAttentionGate", [h(2, 3, 4), r(4), r(4)])
        for mix, shape in (("branch", (2, 3)), ("column", (2, 3, 1)), ("feature", (2, 3, 4))):
            ms(f"HyperConnectionPreMix_{mix}_{name}", "HyperConnectionPreMix", [h(2, 3, 4), h(*shape)], reduction_scale=0.5)
            ms(f"HyperConnectionPostMix_{mix}_{name}", "HyperConnectionPostMix", [h(2, 3, 4), h(2, 4), h(*shape), h(2, 3, 3)])
        ms(f"HyperConnectionPreMix_flat_{name}", "HyperConnectionPreMix", [h(2, 12), h(2, 12)], num_branches=3)
        ms(f"HyperConnectionPreMix_flat_branch_{name}", "HyperConnectionPreMix", [h(2, 12), h(2, 3)], num_branches=3)
        ms(f"HyperConnectionPostMix_flat_{name}", "HyperConnectionPostMix", [h(2, 12), h(2, 4), h(2, 3)], num_branches=3)


def recurrent(ms):
    r = source(44)
    B, T, K, V = 2, 3, 4, 5
    small = lambda *shape: r(*shape, scale=0.4)

    def linear(name, hq, hk, rule, decay=None, beta=None, past=False, **attrs):
        state = [B, hk, K, V]
        ms(f"LinearAttention_{name}", "LinearAttention",
           [small(B, T, hq * K), small(B, T, hk * K), small(B, T, hk * V), small(*state) if past else None,
            -abs(small(B, T, decay)) if decay else None, abs(small(B, T, beta)) if beta else None],
           2, q_num_heads=hq, kv_num_heads=hk, update_rule=rule, **attrs)

    linear("linear", 2, 2, "linear")
    linear("linear_scale", 4, 2, "linear", scale=0.3, past=True)
    linear("gated", 2, 2, "gated", decay=2 * K, past=True)
    linear("gated_heads", 2, 2, "gated", decay=2)
    linear("delta", 2, 2, "delta", beta=2)
    linear("gated_delta", 4, 2, "gated_delta", decay=2, beta=2, past=True)
    linear("gated_delta_shared", 2, 2, "gated_delta", decay=2 * K, beta=1)
    linear("more_keys", 2, 4, "gated_delta", decay=4, beta=4, past=True)

    def conv(name, taps=3, past=False, bias=True, dilation=1, last=None, **attrs):
        C, L, S = 4, 6, (taps - 1) * dilation
        x, state = [B, C, L], [B, C, S]
        if last:
            x, state = [B, L] + last, [B, S] + last
            attrs["channels_last"] = 1
        if dilation > 1:
            attrs["dilation"] = dilation
        ms(f"CausalConv_{name}", "CausalConvWithState", [r(*x), r(C, 1, taps), r(C) if bias else None, r(*state) if past else None], 2, **attrs)

    conv("plain", bias=False)
    conv("silu", past=True, activation="silu")
    conv("swish", activation="swish")
    conv("dilated", past=True, dilation=2)
    conv("last", past=True, last=[4])
    conv("last_axes", past=True, last=[2, 2], dilation=2)
    cos, sin = r(9, 4), r(9, 4)
    ids = r.ints(0, 9, 3, 2, 3)
    for layout in (0, 1):
        for section in ([2, 1, 1], [1, 1, 2], [4, 0, 0]):
            name = f"MRotary_{layout}_" + "".join(map(str, section))
            ms(name, "MRotaryEmbedding", [r(2, 3, 16), ids, cos, sin], mrope_section=section, mrope_layout=layout, num_heads=2)
    ms("MRotary_interleaved", "MRotaryEmbedding", [r(2, 3, 16), ids, cos, sin], mrope_section=[2, 1, 1], interleaved=1, num_heads=2)
    ms("MRotary_4d", "MRotaryEmbedding", [r(2, 2, 3, 8), ids, cos, sin], mrope_section=[1, 2, 1], mrope_layout=1)
    ms("MRotary_partial", "MRotaryEmbedding", [r(2, 3, 24), ids, cos, sin], mrope_section=[1, 2, 1], num_heads=2, rotary_embedding_dim=8)


def tokens(ms):
    r, s2 = source(45), source(52)
    ids = np.array([[1, 2, 3, 1, 2], [4, 4, 4, 4, 4], [1, 2, 3, 4, 0]])
    for size in (1, 2, 3, 6):
        ms(f"NGramRepeatBlock_{size}", "NGramRepeatBlock", [ids, r(3, 6)], ngram_size=size)
    for dt in (np.int32, np.int64):
        name = np.dtype(dt).name
        i = lambda *v: np.array(v, dt)
        sizes, multipliers = i(11, 13, 17, 19), i(31, -1000003, 998244353)
        base = {"max_ngram_size": 3, "n_head_per_ngram": 2, "pad_id": 7}
        seq = r.ints(0, 100000, 2, 6, dtype=dt)
        ms(f"NGramHash_{name}", "NGramHashMapping", [seq, multipliers, sizes], 2, **base)
        ms(f"NGramHash_past_{name}", "NGramHashMapping", [seq, multipliers, sizes, r.ints(0, 99, 2, 2, dtype=dt), i(0, 11, 24, 41)], 2, **base)
        seq = r.ints(0, 4, 2, 6, dtype=dt)
        past = r.ints(0, 4, 2, 2, dtype=dt)
        ms(f"NGramHash_eos_{name}", "NGramHashMapping", [seq, multipliers, sizes, past, None, np.array(2, dt)], 2, reset_on_eos=1, **base)
        ms(f"NGramHash_eos_kept_{name}", "NGramHashMapping", [seq, multipliers, sizes, None, None, np.array(2, dt)], 2, **base)
        ms(f"NGramHash_segments_{name}", "NGramHashMapping",
           [seq, multipliers, sizes, past, None, None, np.array([[0, 0, 1, 1, 1, 2], [5, 5, 5, 5, 5, 5]], np.int32)], 2, **base)
        ms(f"NGramHash_short_{name}", "NGramHashMapping", [seq[:, :1], multipliers, sizes, past], 2, **base)
        packed, bounds = s2.ints(0, 4, 8, dtype=dt), np.array([0, 3, 4, 8], np.int32)
        op, shared = "VarlenNGramHashMapping", [packed, multipliers, sizes, bounds]
        segments, past = np.array([0, 0, 1, 1, 2, 2, 2, 3], np.int32), s2.ints(0, 4, 3, 2, dtype=dt)
        ms(f"VarlenNGramHash_{name}", op, shared, 2, **base)
        ms(f"VarlenNGramHash_eos_{name}", op, shared + [past, i(0, 11, 24, 41), np.array(2, dt)], 2, reset_on_eos=1, **base)
        ms(f"VarlenNGramHash_segments_{name}", op, shared + [past, None, None, segments, s2.ints(0, 2, 3, 2, dtype=np.int32)], 3, **base)
        ms(f"VarlenNGramHash_segments_here_{name}", op, shared + [past, None, None, segments], 3, **base)
        ms(f"VarlenNGramHash_states_{name}", op, shared + [past, None, None, None, None, np.array([2, 5, 3], np.int32)], "1101",
           state_update_capacity=3, **base)
    src = np.array([1, 5, 3, 4, 2, 4, 5, 3, 6])
    for name, cur, at, pred in (("none", [2, 4], 0, None), ("first", [9, 5], 4, [2, 4, 7, 3, 6, 0]), ("all", [1], 5, [4, 5, 3, 6, 8]),
                                ("several", [5, 3], 0, None), ("longer", [4, 5, 3], 0, None), ("end", [3, 6], 0, None)):
        ms(f"Bifurcation_{name}", "BifurcationDetector", [src, np.array(cur), np.array([at])] + ([np.array(pred)] if pred else []), 2,
           min_ngram_size=1, max_ngram_size=3)
    for positive in (0, 1):
        for dt in (np.int32, np.uint32, np.int64, np.float32, np.float64):
            ms(f"MurmurHash3_{positive}_{np.dtype(dt).name}", "MurmurHash3", [r.ints(0, 100, 2, 3).astype(dt)], seed=5, positive=positive,
               typed={0: np.uint32 if positive else np.int32})
        ms(f"MurmurHash3_{positive}_string", "MurmurHash3", [np.array(["", "a", "ab", "abc", "abcd", "h\u00e4user am see"], dtype=object)],
           positive=positive, typed={0: np.uint32 if positive else np.int32})
    text = np.array([["a b,c", "xyz"], ["  one  two", "\u00e4\u00f6 \u00fc"]], dtype=object)
    for mark in (0, 1):
        t = lambda name, x=text, **kw: ms(f"Tokenizer_{name}_{mark}", "Tokenizer", [x], mark=mark, pad_value="#", **kw)
        t("space", separators=[" "], mincharnum=1)
        t("several", separators=[" ", ","], mincharnum=1)
        t("long", separators=[" +", ","], mincharnum=2)
        t("first", x=text[0], separators=["[bx]", " "], mincharnum=1)
        t("chars", separators=[""], mincharnum=1)
        t("match", tokenexp="[a-z]+", mincharnum=1)
        t("match_long", tokenexp="a|[a-z]{2}", mincharnum=2)
        t("dot", tokenexp=".", mincharnum=1)
        t("nothing", x=text[0], tokenexp="[0-9]+", mincharnum=1)
    words = np.array([[3, 2, 0, 0, 0], [1, 2, 3, 4, 5], [1, 0, 0, 0, 0]], np.int32)
    ms("WordConvEmbedding", "WordConvEmbedding", [words, r(4, 1, 2, 3), r(4), r(6, 3)])
    ms("WordConvEmbedding_wide", "WordConvEmbedding", [words, r(4, 1, 5, 3), r(4), r(6, 3)], conv_window_size=5, embedding_size=4, char_embedding_size=3)


def pieces(ms):
    r = source(46)
    rois = np.array([[0.1, 0.2, 0.8, 0.9], [0, 0, 1, 1], [-0.3, 0.5, 0.4, 1.3]], f32)
    batch = np.array([0, 1, 0], np.int32)
    for mode in ("bilinear", "nearest"):
        for size in ((3, 4), (1, 1), (2, 1)):
            ms(f"CropAndResize_{mode}_{size[0]}x{size[1]}", "CropAndResize", [r(2, 2, 5, 6), rois, batch, np.array(size, np.int32)], mode=mode,
               extrapolation_value=-1.5, const=(3,))
    for name, pads in (("none", [0, 0, 0, 0]), ("some", [1, 0, 1, 2])):
        ms(f"ConvTransposeDynamic_{name}", "ConvTransposeWithDynamicPads", [r(1, 2, 3, 4), r(2, 3, 3, 3), np.array(pads), r(3)], strides=[2, 1],
           kernel_shape=[3, 3])
    ms("ConvTransposeDynamic_group", "ConvTransposeWithDynamicPads", [r(1, 4, 3, 4), r(4, 3, 3, 3), np.array([0, 1, 1, 0])], group=2, output_padding=[1, 0], strides=[2, 2])
    for name, attrs in (("last", {"size": 3}), ("step", {"size": 2, "step": 2, "dim": 1}), ("first", {"size": 2, "dim": 0}), ("wide", {"size": 1, "step": 9})):
        ms(f"Unfold_{name}", "UnfoldTensor", [r(2, 5, 6)], **attrs)
    ms("Unfold_int64", "UnfoldTensor", [r.ints(-9, 9, 2, 7)], size=4, step=2)
    ms("SampleOp", "SampleOp", [r(2, 3)])
    for shape in ((4, 6), (1, 5, 3), (1, 1), (7, 1)):
        ms("TimeWarping_" + "x".join(map(str, shape)), "DynamicTimeWarping", [r(*shape)])
    ms("TimeWarping_ties", "DynamicTimeWarping", [np.ones((4, 6), f32)])
    ms("TimeWarping_ints", "DynamicTimeWarping", [r.ints(0, 3, 6, 8).astype(f32)])


def mixtures(ms):
    r = source(47)
    E, H, I = 4, 8, 16
    x, router = r(3, H), r(3, E)
    small = lambda *shape: r(*shape, scale=0.4)
    for act in ("relu", "gelu", "silu", "identity"):
        ms(f"MoE_{act}", "MoE", [x, router, small(E, I, H), small(E, I), small(E, H, I), small(E, H)], k=2, activation_type=act)
    ms("MoE_plain", "MoE", [r(1, 3, H), router, small(E, I, H), None, small(E, H, I)], k=1)
    ms("MoE_normalized", "MoE", [x, router, small(E, I, H), None, small(E, H, I)], k=3, normalize_routing_weights=1)
    ms("MoE_swiglu", "MoE", [x, router, small(E, 2 * I, H), small(E, 2 * I), small(E, H, I), small(E, H)], k=2, activation_type="swiglu",
       swiglu_fusion=1, activation_alpha=1.702, activation_beta=1.0, swiglu_limit=0.8)
    ms("MoE_ties", "MoE", [x, np.zeros((3, E), f32), small(E, I, H), None, small(E, H, I)], k=2)
    E, H, I = 3, 32, 16
    x, router = r(4, H), r(4, E)

    def quantized(name, bits, block=0, zeros=False, wide=1, weights=False, **attrs):
        per = 8 // bits
        q = lambda rows, cols: r.ints(0, 256, E, rows, cols // per, dtype=np.uint8)
        scales = lambda rows, cols: abs(small(E, rows, *([cols // block] if block else []))) * f32(0.5 / 2 ** (bits - 3)) + f32(0.01)
        zero = lambda rows, cols: r.ints(0, 256, *((E, rows, -(-(cols // block) // per)) if block else (E, -(-rows // per))), dtype=np.uint8)
        ins = [x, router, q(wide * I, H), scales(wide * I, H), small(E, wide * I), q(H, I), scales(H, I), small(E, H), None, None, None]
        ins += [zero(wide * I, H), zero(H, I)] if zeros else [None, None]
        ins += [None, abs(r(4, E)) if weights else None]
        while ins[-1] is None:
            ins.pop()
        if block:
            attrs["block_size"] = block
        ms(f"QMoE_{name}", "QMoE", ins, expert_weight_bits=bits, const=(2, 3, 4, 5, 6, 7, 11, 12), rtol=2e-3, atol=2e-3, weights_prepacked=0,
           **{"k": 2, "activation_type": "silu", **attrs})

    quantized("4", 4)
    quantized("8", 8)
    quantized("2", 2)
    quantized("4_zeros", 4, zeros=True)
    quantized("8_zeros", 8, zeros=True)
    quantized("4_blocks", 4, block=16)
    quantized("4_blocks_zeros", 4, block=16, zeros=True)
    quantized("4_normalized", 4, normalize_routing_weights=1)
    quantized("4_swiglu", 4, wide=2, activation_type="swiglu", swiglu_fusion=1, activation_alpha=1.702, activation_beta=1.0, swiglu_limit=7.0)
    quantized("4_weights", 4, weights=True)
    quantized("4_weights_normalized", 4, weights=True, normalize_routing_weights=1)


def sparse(ms):
    r = source(48)
    B, N, K, H, cache, block = 1, 2, 1, 16, 64, 16  # heads of 16 are the smallest that can be rotated
    rows = np.array([[0, 1, 3, 5, 8], [0, 1, 3, 6, 9]], np.int32)
    cols = np.array([[0, 0, 1, 1, 2, 1, 2, 3, -1], [0, 0, 1, 0, 1, 2, 0, 2, 3]], np.int32)
    angle = r(cache, H // 2)

    def run(name, seq, total, lens=None, packed=False, layouts=2, **attrs):
        ins = [r(B, seq, (N + 2 * K) * H), None, None] if packed else [r(B, seq, N * H), r(B, seq, K * H), r(B, seq, K * H)]
        ins += [r(B, K, cache, H), r(B, K, cache, H), rows[:layouts], cols[:layouts], np.array([total], np.int32), np.array(lens or [total] * B, np.int32)]
        if attrs.get("do_rotary"):
            ins += [np.cos(angle), np.sin(angle)]
        ms(f"SparseAttention_{name}", "SparseAttention", ins, 3, num_heads=N, kv_num_heads=K, sparse_block_size=block, shared={3: 1, 4: 2},
           unchecked=() if name == "decode_rotary" else (1, 2), **attrs)

    run("prompt", 40, 40)
    run("prompt_rotary", 20, 20, do_rotary=1)
    run("decode", 1, 50)
    run("decode_rotary", 1, 37, do_rotary=1, rotary_interleaved=1)
    run("one_layout", 1, 60, layouts=1, scale=0.4)
    run("packed", 18, 18, packed=True)


def one_query(ms):
    r = source(49)
    B, N, H, L, M = 2, 2, 4, 5, 6
    op, wide = "DecoderMaskedMultiHeadAttention", lambda: r(B, 1, N * H)
    i32 = lambda *v: np.array(v, np.int32)
    ms("OneQuery_alone", op, [wide(), wide(), wide()], num_heads=N)
    for name, attrs in (("cross", {}), ("cross_scale", {"scale": 0.3})):
        ms(f"OneQuery_{name}", op, [wide(), r(B, N, L, H), r(B, N, L, H)], num_heads=N, **attrs)
    ms("OneQuery_cross_mask", op, [wide(), r(B, N, L, H), r(B, N, L, H), i32([1, 1, 0, 1, 0], [1, 1, 1, 1, 1])], num_heads=N, mask_filter_value=-2.0)
    ms("OneQuery_cross_probs", op, [wide(), r(B, N, L, H), r(B, N, L, H)], "1001", num_heads=N, output_qk=1, typed={1: f32})

    def shared(name, mask=None, bias=None, extra=(), **attrs):
        ms(f"OneQuery_{name}", op, [wide(), wide(), wide(), mask, bias, r(B, N, M, H), r(B, N, M, H), i32(3)] + list(extra), 3, num_heads=N,
           past_present_share_buffer=1, shared={5: 1, 6: 2}, const=(7,), **attrs)

    shared("past")
    shared("past_mask", mask=i32([1, 0, 1, 1], [1, 1, 1, 1]))
    shared("past_bias", bias=r(B, N, 1, 4))
    shared("past_projection", extra=(None, None, r(3 * N * H)))
    shared("beams", extra=(i32(2), r.ints(0, 2, 1, 2, M, dtype=np.int32)))
