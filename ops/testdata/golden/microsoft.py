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
